//! `baton install`: shows what will change, asks, does it, says what to expect.

use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::Outcome;
use super::args::{InstallArgs, ScopeArgs};
use super::screen::{Paint, print};
use crate::install::place::Edit;
use crate::install::{Folder, Hooks, Options, Plan, Scope, codex, plan, project_of};
use crate::memory::project;
use crate::paths::Paths;
use crate::providers::{self, Integration, PROVIDERS, Provider};

pub fn run(args: &InstallArgs) -> anyhow::Result<Outcome> {
    let paths = Paths::from_env()?;
    let bin_dir = match &args.bin_dir {
        // A folder that is there is named without detours: the hooks will say this path for a long time.
        Some(dir) => std::fs::canonicalize(dir).or_else(|_| std::path::absolute(dir))?,
        None => paths.home.join(".local/bin"),
    };
    let provider = client(&args.provider)?;
    if provider.integration == Integration::HooksFile {
        return run_hooks_file(&paths, provider, args, &bin_dir);
    }
    if args.trust {
        bail!("{} asks for no trust; leave out --trust", provider.title);
    }
    let options = Options {
        scope: scope(&paths, &args.scope)?,
        statusline: !args.no_statusline,
        commands: !args.no_commands,
        settings: args.settings,
        rule: !args.no_permission,
        sm: args.sm,
        bin_dir,
    };
    let plan = plan(&paths, &options)?;
    let memory = match &options.scope {
        Scope::Project { dir, .. } if !args.no_memory => Some(dir),
        _ => None,
    };
    let remembers = memory.map_or_else(Vec::new, |dir| project::missing(&paths.state, dir));
    if plan.is_empty() && remembers.is_empty() {
        print(&format!("{}Everything is in place already; nothing was changed.\n", notes(&plan)))?;
        return Ok(Outcome::Done);
    }
    if args.dry_run {
        print(&format!(
            "{}{}Nothing was changed.\n",
            plan.diff(&paths),
            steps(&paths, &plan, &remembers, "would be ")
        ))?;
        return Ok(Outcome::Done);
    }
    if !args.yes {
        print(&format!("{}\n{}", plan.diff(&paths), steps(&paths, &plan, &remembers, "will be ")))?;
        if !confirm("Do it?")? {
            return Ok(Outcome::Failed);
        }
    }
    plan.carry_out(&paths)?;
    if let Some(dir) = memory {
        project::init(&paths.state, dir)?;
    }
    print(&format!("{}{}", steps(&paths, &plan, &remembers, ""), afterwards(&paths, &options, &plan)))?;
    Ok(Outcome::Done)
}

/// The client that was named, if there is anything to install for it.
pub fn client(name: &str) -> anyhow::Result<&'static Provider> {
    let found = providers::find(name).filter(|p| p.is_client());
    found.with_context(|| {
        let names: Vec<_> = PROVIDERS.iter().filter(|p| p.is_client()).map(|p| p.name).collect();
        format!("there is no client {name:?}; it is one of {}", names.join(", "))
    })
}

/// A client whose hooks stand in a file of its own and run only with its user's consent.
fn run_hooks_file(
    paths: &Paths,
    provider: &Provider,
    args: &InstallArgs,
    bin_dir: &Path,
) -> anyhow::Result<Outcome> {
    let title = provider.title;
    if args.scope.project {
        bail!("for {title} there is one install for all projects; leave out --project");
    }
    let plan = codex::plan(paths, bin_dir, args.trust)?;
    if plan.is_empty() {
        let waiting = waiting_for_review(title, &plan.waiting);
        print(&format!("Everything is in place already; nothing was changed.\n{waiting}"))?;
        return Ok(Outcome::Done);
    }
    let steps = |tense: &str| {
        let mut out = String::new();
        let mut step = |what: &Path, did: &str| {
            let paint = Paint::stdout();
            let did = paint.dim(&format!("({tense}{did})"));
            let _ = writeln!(out, "{}  {} {did}", paint.green("✓"), paths.short(what));
        };
        if plan.binary.copy {
            step(&plan.binary.to, "copied: the program");
        }
        for Edit { path, before, .. } in plan.edits.iter().filter(|e| e.is_needed()) {
            step(path, if before.is_some() { "edited" } else { "created" });
        }
        out
    };
    if args.dry_run {
        print(&format!("{}{}Nothing was changed.\n", plan.diff(paths), steps("would be ")))?;
        return Ok(Outcome::Done);
    }
    if !args.yes {
        print(&format!("{}\n{}", plan.diff(paths), steps("will be ")))?;
        let question = if args.trust {
            format!("{title} will run these commands at every event without asking again. Trust them?")
        } else {
            "Do it?".to_owned()
        };
        if !confirm(&question)? {
            return Ok(Outcome::Failed);
        }
    }
    plan.carry_out(paths)?;
    let mut out = steps("");
    out.push('\n');
    if plan.waiting.is_empty() {
        let _ = writeln!(out, "Every {title} thread that starts from now on has it.");
    }
    out += &waiting_for_review(title, &plan.waiting);
    let _ = writeln!(
        out,
        "`baton doctor` checks it; `baton uninstall --provider {}` takes it out again.",
        provider.name
    );
    print(&out)?;
    Ok(Outcome::Done)
}

/// What is left to the user where hooks were not trusted.
fn waiting_for_review(title: &str, waiting: &[String]) -> String {
    if waiting.is_empty() {
        return String::new();
    }
    format!(
        "{title} does not run {} of them before you have reviewed them: it asks at its next start in a terminal,\n\
         and headless runs skip them without a word until then. `baton install --provider codex --trust` shows them\n\
         and trusts them here.\n",
        waiting.len()
    )
}

pub fn scope(paths: &Paths, args: &ScopeArgs) -> anyhow::Result<Scope> {
    if !args.project {
        return Ok(Scope::User);
    }
    let cwd =
        std::env::current_dir().context("the current folder cannot be read; change to one that exists")?;
    let dir = project_of(paths, &cwd);
    if dir == paths.home {
        bail!("{} is your home folder, not a project; change to one, or leave out --project", dir.display());
    }
    Ok(Scope::Project { dir, shared: args.shared })
}

/// A person's yes. Without a terminal nobody can give it, and that is said.
pub fn confirm(question: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        eprintln!(
            "baton: nothing was changed: this is no terminal, so nobody can say yes; add --yes to do it"
        );
        return Ok(false);
    }
    print(&format!("{question} [y/N] "))?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    let yes = matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
    if !yes {
        print("Nothing was changed.\n")?;
    }
    Ok(yes)
}

fn notes(plan: &Plan) -> String {
    plan.notes.iter().fold(String::new(), |text, note| text + note + "\n")
}

/// One line per thing that changes, in the order it is done.
fn steps(paths: &Paths, plan: &Plan, remembers: &[PathBuf], tense: &str) -> String {
    let mut out = notes(plan);
    let mut step = |what: &str, did: &str| {
        let _ = writeln!(
            out,
            "{}  {what} {}",
            Paint::stdout().green("✓"),
            Paint::stdout().dim(&format!("({tense}{did})"))
        );
    };
    if plan.binary.copy {
        step(&paths.short(&plan.binary.to), "copied: the program");
    }
    match &plan.folder {
        Folder::Leave => {}
        Folder::Put { dir, .. } => step(&paths.short(dir), "written: hooks and commands"),
        Folder::Remove { dir } => step(&paths.short(dir), "removed"),
    }
    for Edit { path, before, .. } in plan.edits.iter().filter(|e| e.is_needed()) {
        step(&paths.short(path), if before.is_some() { "edited" } else { "created" });
    }
    for path in remembers {
        step(&paths.short(path), "written: the project's memory");
    }
    if let Some((_, command)) = &plan.delegate {
        let _ = writeln!(
            out,
            "   Your status line goes on below ours: {}",
            baton_core::plain::plain_line(command, 100)
        );
    }
    if let Some(link) = &plan.sm {
        let _ = writeln!(out, "   {} → baton", paths.short(link));
    }
    out
}

/// What a running client sees of it, and what to do next.
fn afterwards(paths: &Paths, options: &Options, plan: &Plan) -> String {
    let mut out = String::from("\n");
    match plan.hooks_in {
        Hooks::Folder => out.push_str(
            "Every Claude Code session that starts from now on has it. In one that runs already, type /reload-plugins.\n",
        ),
        Hooks::Settings => {
            out.push_str("Running Claude Code sessions take it up by themselves; so does every new one.\n");
        }
        Hooks::Elsewhere => {}
    }
    let dir = &options.bin_dir;
    let on_path =
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|p| p == *dir));
    if !on_path {
        let _ = writeln!(
            out,
            "{} is not on your PATH, where agents look for `baton`: add it in your shell's profile.",
            paths.short(dir)
        );
    }
    if matches!(options.scope, Scope::Project { shared: true, .. }) {
        out.push_str(
            "Teammates without baton notice nothing; with it on their PATH it works once they pull.\n",
        );
    }
    out.push_str("`baton doctor` checks it; `baton uninstall` takes it out again.\n");
    out
}
