//! `baton install`: shows what will change, asks, does it, says what to expect.

use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;

use anyhow::{Context as _, bail};

use super::Outcome;
use super::args::{InstallArgs, ScopeArgs};
use super::screen::{Paint, print};
use crate::install::place::Edit;
use crate::install::{Folder, Hooks, Options, Plan, Scope, plan, project_of};
use crate::memory::project;
use crate::paths::Paths;

pub fn run(args: &InstallArgs) -> anyhow::Result<Outcome> {
    let paths = Paths::from_env()?;
    let bin_dir = match &args.bin_dir {
        // A folder that is there is named without detours: the hooks will say this path for a long time.
        Some(dir) => std::fs::canonicalize(dir).or_else(|_| std::path::absolute(dir))?,
        None => paths.home.join(".local/bin"),
    };
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
