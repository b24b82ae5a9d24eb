//! `baton install`: shows what will change, asks, does it, and says what to expect.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use jiff::Timestamp;

use crate::cli::args::{InstallArgs, ScopeArgs};
use crate::cli::trust::refuse_foreign_channel;
use crate::cli::ui::confirm::confirm_or_show;
use crate::cli::ui::{Paint, print, print_raw};
use crate::cli::{Outcome, migrate, refuse_agent};
use crate::project::memory::project;
use crate::project::trust::Trust;
use crate::providers::{self, Integration, PROVIDERS, Provider};
use crate::setup::install::files::Edit;
use crate::setup::install::{
    Hooks, InstallOptions, InstallPlan, InstallScope, PluginFolder, codex, ours, plan, project_of,
    rules_there, version,
};
use crate::setup::migrate::find::find;
use crate::setup::migrate::{HOW, sentences};
use crate::store::Store;
use crate::sys::paths::Paths;

pub(super) fn run(args: &InstallArgs) -> anyhow::Result<Outcome> {
    let paths = Paths::from_env()?;
    let bin_dir = match &args.bin_dir {
        // Canonicalize an existing folder, because the hooks will use this path for a long time.
        Some(dir) => std::fs::canonicalize(dir).or_else(|_| std::path::absolute(dir))?,
        None => own_place().unwrap_or_else(|| paths.home.join(".local/bin")),
    };
    let provider = client(&args.provider)?;
    if args.migrate
        && let Some(outcome) = migrate::run(&paths, args)?
    {
        return Ok(outcome);
    }
    if provider.integration == Integration::HooksFile {
        return run_hooks_file(&paths, provider, args, &bin_dir);
    }
    if args.trust {
        bail!("{} needs no trust; leave out --trust", provider.title);
    }
    if args.fresh_window {
        bail!("{} has no such feature, and needs none; leave out --fresh-window", provider.title);
    }
    if !args.dry_run
        && let Some(outcome) = refuse_agent(&Store::new(&paths), doing(args))
    {
        return Ok(outcome);
    }
    let scope = scope(&paths, &args.scope)?;
    // The rules of an earlier install stay until an uninstall.
    let there = rules_there(&paths, &scope);
    let leads = args.agents || ours::AGENT_RULES.iter().all(|rule| there.iter().any(|known| known == rule));
    let options = InstallOptions {
        scope,
        statusline: !args.no_statusline,
        commands: !args.no_commands,
        settings: args.settings,
        rules: rules(args, leads, there.iter().any(|rule| rule == ours::SM_RULE)),
        denied: denied(args, leads),
        sm: args.sm,
        bin_dir,
    };
    if let InstallScope::Project { dir, .. } = &options.scope
        && !args.dry_run
        && let Some(outcome) = refuse_foreign_channel(&Store::new(&paths), &paths, dir)?
    {
        return Ok(outcome);
    }
    let mut plan = plan(&paths, &options)?;
    plan.notes.extend(beside(&paths, args));
    let memory = match &options.scope {
        InstallScope::Project { dir, .. } if !args.no_memory => Some(dir),
        _ => None,
    };
    let remembers = memory.map_or_else(Vec::new, |dir| project::missing(&paths.state, dir));
    let accept = || match &options.scope {
        InstallScope::Project { dir, .. } => {
            Trust::accept(&paths, dir, dir, "install --project", Timestamp::now())
        }
        InstallScope::User => Ok(()),
    };
    if plan.is_empty() && remembers.is_empty() {
        if !args.dry_run {
            // Its settings may have changed since.
            accept()?;
        }
        print(&format!("{}Everything is in place already; nothing was changed.\n", notes(&plan)))?;
        return Ok(Outcome::Done);
    }
    if args.dry_run {
        print_raw(&plan.diff(&paths))?;
        let steps = steps(&paths, &options, &plan, &remembers, "would be ");
        print(&format!("{steps}Nothing was changed.\n"))?;
        return Ok(Outcome::Done);
    }
    if !args.yes {
        let diff = coloured(&plan.diff(&paths));
        print_raw(&unasked(&diff))?;
        print(&steps(&paths, &options, &plan, &remembers, "will be "))?;
        if !confirm_or_show("Do it?", Some(&diff))? {
            return Ok(Outcome::Failed);
        }
    }
    plan.carry_out(&paths)?;
    if let Some(dir) = memory {
        project::init(&paths.state, dir)?;
    }
    accept()?;
    let next = afterwards(&paths, &options, &plan);
    print(&format!("{}{next}", steps(&paths, &options, &plan, &remembers, "")))?;
    Ok(Outcome::Done)
}

/// The folder on the PATH that contains this very program. The package manager or `cargo install` that put it there
/// also upgrades it there, so hooks that call a copy would never see an upgrade.
fn own_place() -> Option<PathBuf> {
    let found = version::on_path("baton")?;
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let is_this = real(&found).is_some() && real(&found) == real(&std::env::current_exe().ok()?);
    is_this.then(|| found.parent().map(Path::to_owned)).flatten()
}

/// Other tools that do the same here, unless this run has just migrated them.
fn beside(paths: &Paths, args: &InstallArgs) -> Vec<String> {
    if args.migrate {
        return Vec::new();
    }
    let found = std::env::current_dir().map_or_else(|_| Vec::new(), |cwd| find(paths, &cwd));
    sentences(&found).into_iter().map(|sentence| format!("{sentence}. {HOW}.")).collect()
}

/// The diff, if there is no terminal to ask for it.
pub(super) fn unasked(diff: &str) -> String {
    if std::io::stdin().is_terminal() { String::new() } else { format!("{diff}\n") }
}

/// Colours a diff.
pub(super) fn coloured(diff: &str) -> String {
    let paint = Paint::stdout();
    let line = |line: &str| match line.as_bytes().first() {
        Some(b'+') => paint.green(line),
        Some(b'-') => paint.red(line),
        Some(b'@') => paint.cyan(line),
        _ => line.to_owned(),
    };
    diff.lines().map(|text| line(text) + "\n").collect()
}

/// Names the action in refusals to agents.
fn doing(args: &InstallArgs) -> &'static str {
    match (args.scope.project, args.agents) {
        (true, _) => "accept a project",
        (false, true) => "let agents do more without asking",
        (false, false) => "install baton",
    }
}

/// The permission rules that this install adds.
fn rules(args: &InstallArgs, leads: bool, sm: bool) -> Vec<&'static str> {
    if args.no_permission {
        return Vec::new();
    }
    let mut rules = ours::RULES.to_vec();
    if args.sm || sm {
        rules.push(ours::SM_RULE);
    }
    if leads {
        rules.extend(ours::AGENT_RULES);
    }
    rules
}

/// The commands that this install forbids agents in the client itself. An agent that leads others may be their
/// approver.
fn denied(args: &InstallArgs, leads: bool) -> Vec<&'static str> {
    let mut rules = Vec::new();
    if !args.no_permission {
        rules.extend(ours::DENIED);
        if !leads {
            rules.extend(ours::DENIED_TO_ALL_BUT_LEADERS);
        }
    }
    rules
}

/// The named client, if it has an integration to install.
pub(super) fn client(name: &str) -> anyhow::Result<&'static Provider> {
    let found = providers::find(name).filter(|p| p.is_client());
    found.with_context(|| {
        let names: Vec<_> = PROVIDERS.iter().filter(|p| p.is_client()).map(|p| p.name).collect();
        format!("there is no client {name:?}; it is one of {}", names.join(", "))
    })
}

/// Installs for a client whose hooks are in a separate file and need the user's consent.
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
    let doing = if args.trust { "trust hooks" } else { "install baton" };
    if !args.dry_run
        && let Some(outcome) = refuse_agent(&Store::new(paths), doing)
    {
        return Ok(outcome);
    }
    let knows_window = codex::probe_window();
    if args.fresh_window && knows_window.is_none() {
        bail!(
            "the {title} on the PATH has no fresh windows (`{} features list` does not name the feature); nothing was \
             changed. Leave out --fresh-window, or update it: {}",
            provider.name,
            provider.install
        );
    }
    let consent = codex::Consent { trusts: args.trust, window: args.fresh_window };
    let plan = codex::plan(paths, bin_dir, consent)?;
    let offer = if knows_window == Some(false) && !args.fresh_window { OFFER } else { "" };
    if plan.is_empty() {
        let waiting = waiting_for_review(title, &plan.waiting) + offer;
        print(&format!("Everything is in place already; nothing was changed.\n{waiting}"))?;
        return Ok(Outcome::Done);
    }
    let steps = |tense: &str| {
        let mut out = String::new();
        let mut step = |what: &Path, did: &str| {
            let did = Paint::stdout().dim(&format!("({tense}{did})"));
            let _ = writeln!(out, "{}  {} {did}", mark(tense), paths.short(what));
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
        print_raw(&plan.diff(paths))?;
        print(&format!("{}Nothing was changed.\n", steps("would be ")))?;
        return Ok(Outcome::Done);
    }
    if !args.yes {
        let diff = coloured(&plan.diff(paths));
        print_raw(&unasked(&diff))?;
        print(&steps("will be "))?;
        if args.fresh_window {
            print(UNDER_DEVELOPMENT)?;
        }
        let question = if args.trust {
            format!("{title} will run these commands at every event without asking again. Trust them?")
        } else {
            "Do it?".to_owned()
        };
        if !confirm_or_show(&question, Some(&diff))? {
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
    out += offer;
    let _ = writeln!(
        out,
        "`baton doctor` checks it; `baton uninstall --provider {}` takes it out again.",
        provider.name
    );
    print(&out)?;
    Ok(Outcome::Done)
}

/// Offers a feature of the client that is switched off.
const OFFER: &str = "Its agents could continue in a fresh window of the same thread, without a restart: Codex has a feature for that,\n\
     token_budget, which is under development there. `baton install --provider codex --fresh-window` switches it on.\n";

const UNDER_DEVELOPMENT: &str = "Codex calls its feature token_budget \"under development\": it may change or disappear. baton then works as before.\n\
     With it on, Codex compacts without a summary; the handoff that baton seals takes its place.\n";

/// The steps for the user if hooks are not trusted yet.
fn waiting_for_review(title: &str, waiting: &[String]) -> String {
    if waiting.is_empty() {
        return String::new();
    }
    format!(
        "{title} does not run {} of them before you have reviewed them: it asks at its next start in a terminal,\n\
         and headless runs skip them silently until then. `baton install --provider codex --trust` shows them\n\
         and trusts them here.\n",
        waiting.len()
    )
}

pub(super) fn scope(paths: &Paths, args: &ScopeArgs) -> anyhow::Result<InstallScope> {
    if !args.project {
        return Ok(InstallScope::User);
    }
    let cwd =
        std::env::current_dir().context("the current folder cannot be read; change to one that exists")?;
    let dir = project_of(paths, &cwd);
    if dir == paths.home {
        bail!("{} is your home folder, not a project; change to one, or leave out --project", dir.display());
    }
    Ok(InstallScope::Project { dir, shared: args.shared })
}

fn notes(plan: &InstallPlan) -> String {
    plan.notes.iter().fold(String::new(), |text, note| text + note + "\n")
}

/// The mark before a step that was taken, or will be.
pub(super) fn mark(tense: &str) -> String {
    if tense.is_empty() { Paint::stdout().green("✓") } else { Paint::stdout().dim("·") }
}

/// The additions to a settings file.
fn added(options: &InstallOptions, plan: &InstallPlan) -> String {
    let mut parts = Vec::new();
    if plan.hooks_in == Hooks::Settings {
        parts.push("hooks".to_owned());
    }
    if options.statusline && !options.scope.is_shared() && plan.hooks_in != Hooks::Elsewhere {
        parts.push("status line".to_owned());
    }
    if let n @ 1.. = options.rules.len() {
        parts.push(format!("{n} rules that allow"));
    }
    if let n @ 1.. = options.denied.len() {
        parts.push(format!("{n} that forbid"));
    }
    if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) }
}

/// One line per thing that changes, in the order it is done.
fn steps(
    paths: &Paths,
    options: &InstallOptions,
    plan: &InstallPlan,
    remembers: &[PathBuf],
    tense: &str,
) -> String {
    let mut out = notes(plan);
    let mut step = |what: &str, did: &str| {
        let did = Paint::stdout().dim(&format!("({tense}{did})"));
        let _ = writeln!(out, "{}  {what} {did}", mark(tense));
    };
    if plan.binary.copy {
        step(&paths.short(&plan.binary.to), "copied: the program");
    }
    match &plan.folder {
        PluginFolder::Leave => {}
        PluginFolder::Put { dir, .. } => step(&paths.short(dir), "written: hooks and commands"),
        PluginFolder::Remove { dir } => step(&paths.short(dir), "removed"),
    }
    for Edit { path, before, .. } in plan.edits.iter().filter(|e| e.is_needed()) {
        let did = if before.is_some() { "edited" } else { "created" };
        let is_settings = path.extension().is_some_and(|ext| ext == "json");
        let what = if is_settings { added(options, plan) } else { String::new() };
        step(&paths.short(path), &format!("{did}{what}"));
    }
    for path in remembers {
        step(&paths.short(path), "written: the project's memory");
    }
    if let Some((_, command)) = &plan.delegate {
        let _ = writeln!(
            out,
            "   Your status line continues below ours: {}",
            baton_core::plain::plain_line(command, 100)
        );
    }
    if let Some(link) = &plan.sm {
        let _ = writeln!(out, "   {} → baton", paths.short(link));
    }
    out
}

/// How a running client is affected, and what to do next.
fn afterwards(paths: &Paths, options: &InstallOptions, plan: &InstallPlan) -> String {
    let mut out = String::from("\n");
    match plan.hooks_in {
        Hooks::Folder => out.push_str(
            "Every Claude Code session that starts from now on has it. In one that runs already, type /reload-plugins.\n",
        ),
        Hooks::Settings => {
            out.push_str("Running Claude Code sessions pick it up by themselves; so does every new one.\n");
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
    if matches!(options.scope, InstallScope::Project { shared: true, .. }) {
        out.push_str(
            "Teammates without baton notice nothing; with it on their PATH it works once they pull.\n",
        );
    }
    if own_place().is_some() {
        let _ = writeln!(
            out,
            "The hooks call {} where it is, so upgrades reach them.",
            paths.short(&plan.binary.to)
        );
    }
    out.push_str(
        "Next: start `claude` in a project and work as always; `baton status` shows how full it is.\n\
         Worth knowing: at 65 % the agent is asked for a handoff and continues in a fresh context that begins with it.\n\
         `baton doctor` checks it; `baton uninstall` takes it out again.\n",
    );
    out
}
