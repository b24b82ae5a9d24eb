//! `baton uninstall`: removes the integration and reports what remains.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;

use crate::approvals;
use crate::cli::args::UninstallArgs;
use crate::cli::install::{client, mark, scope};
use crate::cli::ui::confirm::confirm;
use crate::cli::ui::{Paint, print, print_raw};
use crate::cli::{Outcome, refuse_agent};
use crate::config::Config;
use crate::project::memory::project;
use crate::providers::Integration;
use crate::setup::install::{InstallScope, codex, edits_diff, uninstall};
use crate::setup::migrate::{aside, undo};
use crate::store::Store;
use crate::sys::paths::Paths;
use crate::sys::{child, fs};

/// How long a companion may take to end.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn run(args: &UninstallArgs) -> anyhow::Result<Outcome> {
    let paths = Paths::from_env()?;
    if !args.dry_run
        && let Some(outcome) = refuse_agent(&Store::new(&paths), "uninstall baton")
    {
        return Ok(outcome);
    }
    if client(&args.provider)?.integration == Integration::HooksFile {
        return run_hooks_file(&paths, args);
    }
    let scope = scope(&paths, &args.scope)?;
    let plan = uninstall::plan(&paths, &scope)?;
    let program = (!plan.binary_is_theirs())
        .then(|| plan.binary().map_or_else(|| paths.home.join(".local/bin/baton"), Path::to_owned));
    if args.dry_run {
        let edits: Vec<_> = plan.edits.into_iter().map(|p| p.edit).collect();
        let folder =
            plan.folder.map_or_else(String::new, |dir| format!("{} would be removed\n", paths.short(&dir)));
        print_raw(&edits_diff(&paths, &edits))?;
        print(&format!("{folder}Nothing was changed.\n"))?;
        return Ok(Outcome::Done);
    }
    // End waiting hooks without an answer: their clients' own dialogs are there.
    approvals::withdraw_all(&Store::new(&paths), jiff::Timestamp::now())?;
    // Do this first, because later steps remove the folders that it empties.
    let remembered = forget(&paths, &scope)?;
    let nothing = plan.is_empty() && plan.refused.is_empty() && remembered.is_empty();
    let mut out = remembered;
    if nothing {
        out.push_str("baton is not installed here; nothing was changed.\n");
    } else {
        let stays = plan.carry_out(&paths)?;
        for planned in &plan.edits {
            let how = match (&planned.edit.after, planned.exact) {
                (None, _) => "removed; it was not there before",
                (Some(_), true) => "every byte as it was before",
                (Some(_), false) => "edited by someone else since, so exactly our entries were taken out",
            };
            let _ = writeln!(out, "{}  {} ({how})", mark(""), paths.short(&planned.edit.path));
        }
        if let Some(dir) = &plan.folder {
            let _ = writeln!(out, "{}  {} (removed)", mark(""), paths.short(dir));
        }
        for path in stays {
            let _ = writeln!(out, "   {} is not ours and stays", paths.short(&path));
        }
        out.push_str(&dismiss(&paths));
    }
    for refused in &plan.refused {
        let _ = writeln!(out, "{}  {refused}", Paint::stdout().yellow("!"));
    }
    print(&out)?;
    if args.verify {
        verify(&paths, &scope)?;
    }
    if !plan.refused.is_empty() {
        return Ok(Outcome::Failed);
    }
    for other in plan.others() {
        let dir = other.project.as_deref().map_or_else(|| "all projects".to_owned(), |dir| paths.short(dir));
        print(&format!("Still installed for {dir}.\n"))?;
    }
    if scope != InstallScope::User {
        return Ok(if nothing { Outcome::Nothing } else { Outcome::Done });
    }
    if args.purge {
        if !plan.others().is_empty() {
            bail!(
                "nothing was purged: baton is still installed in the places above; uninstall it there first"
            );
        }
        if codex::standing(&paths).is_registered() {
            bail!(
                "nothing was purged: Codex still calls baton; run `baton uninstall --provider codex` first"
            );
        }
        if !undo::all(&paths.state).is_empty() {
            bail!(
                "nothing was purged: other tools' scripts that were moved aside are in {}; \
                 run `baton install --migrate --undo`, or move that folder away",
                paths.short(&aside::folder(&paths.state))
            );
        }
        return purge(&paths, program, args.yes);
    }
    print(&remaining(&paths, program))?;
    tidy(&paths);
    Ok(if nothing { Outcome::Nothing } else { Outcome::Done })
}

/// Ends the companions of running clients; otherwise they would run until those clients end.
fn dismiss(paths: &Paths) -> String {
    let mut ended = 0;
    for companion in Store::new(paths).companions().running() {
        if child::terminate(&companion.process).unwrap_or(false) {
            child::wait_for_end(&companion.process, PATIENCE);
            ended += 1;
        }
    }
    let companions = match ended {
        0 => String::new(),
        1 => " One companion was ended.".to_owned(),
        n => format!(" {n} companions were ended."),
    };
    format!(
        "\nRunning clients notice within seconds that the plugin folder is gone; one that still calls baton does so \
         without harm until it is started again.{companions}\n"
    )
}

/// Restores the edited files of the projects' memories and keeps saved documents.
fn forget(paths: &Paths, scope: &InstallScope) -> anyhow::Result<String> {
    let known = project::all(&paths.state).into_iter().map(|m| m.project);
    let wanted = known.filter(|p| match scope {
        InstallScope::User => true,
        InstallScope::Project { dir, .. } => p == dir,
    });
    let mut out = String::new();
    for project in wanted.collect::<Vec<_>>() {
        let removed = project::remove(&paths.state, &project)?;
        for path in removed.done {
            let _ = writeln!(out, "✓  {} (as it was)", paths.short(&path));
        }
        for path in removed.stays {
            let _ = writeln!(out, "   {} holds what was saved and stays", paths.short(&path));
        }
    }
    Ok(out)
}

fn run_hooks_file(paths: &Paths, args: &UninstallArgs) -> anyhow::Result<Outcome> {
    if args.scope.project || args.purge {
        bail!("with --provider codex neither --project nor --purge is possible; leave them out");
    }
    let plan = codex::removal(paths)?;
    if args.dry_run {
        let edits: Vec<_> = plan.edits.iter().map(|(edit, _)| edit.clone()).collect();
        print_raw(&edits_diff(paths, &edits))?;
        print("Nothing was changed.\n")?;
        return Ok(Outcome::Done);
    }
    if plan.is_empty() {
        print("baton is not installed there; nothing was changed.\n")?;
        return Ok(Outcome::Nothing);
    }
    plan.carry_out(paths)?;
    let mut out = String::new();
    for (edit, exact) in &plan.edits {
        let how = match (&edit.after, exact) {
            (None, _) => "removed; it was not there before",
            (Some(_), true) => "every byte as it was before",
            (Some(_), false) => "edited by someone else since, so exactly our entries were taken out",
        };
        let _ = writeln!(out, "{}  {} ({how})", mark(""), paths.short(&edit.path));
    }
    out.push_str("\nThreads that run already keep calling it until they end.\n");
    print(&out)?;
    if args.verify {
        let left = codex::standing(paths);
        if left.is_registered() {
            bail!("something is left in {}", paths.short(&codex::hooks_file(paths)));
        }
        print("Verified: no hook of baton's is left there.\n")?;
    }
    tidy(paths);
    Ok(Outcome::Done)
}

fn verify(paths: &Paths, scope: &InstallScope) -> anyhow::Result<()> {
    let remains = uninstall::remains(paths, scope);
    if !remains.is_empty() {
        bail!("something is left: {}; look at it and run this again", remains.join("; "));
    }
    print("Verified: nothing of baton is left in the client's folder and settings.\n")
}

/// The files that baton has kept for the user, and the program.
fn kept(paths: &Paths, program: Option<PathBuf>) -> Vec<(PathBuf, &'static str)> {
    let handoffs = configured_handoffs(paths);
    let published =
        [".current-session", ".context-status", ".restart-session"].map(|name| paths.claude.join(name));
    let mut all =
        vec![(handoffs, "handoffs"), (paths.state.clone(), "sessions, copies of conversations, mail, log")];
    all.extend(program.map(|path| (path, "the program")));
    all.extend(published.map(|path| (path, "published for scripts")));
    all.retain(|(path, _)| path.exists() && !is_empty_state(path, &paths.state));
    all
}

/// An unreadable configuration must not point us at another folder, so use the default then.
fn configured_handoffs(paths: &Paths) -> PathBuf {
    let env = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    let config = crate::project::trust::settings(paths, &paths.home, env)
        .map_or_else(|_| Config::defaults(paths), |r| r.config);
    config.handoff.dir
}

/// Whether it contains only this command's lock.
fn is_empty_state(path: &Path, state: &Path) -> bool {
    path == state
        && std::fs::read_dir(path)
            .is_ok_and(|mut entries| entries.all(|e| e.is_ok_and(|e| e.file_name() == "install.lock")))
}

fn remaining(paths: &Paths, program: Option<PathBuf>) -> String {
    let kept = kept(paths, program);
    if kept.is_empty() {
        return "Nothing of baton's remains.\n".to_owned();
    }
    let mut out = String::from("\nWhat remains is yours:\n");
    for (path, what) in &kept {
        let _ = writeln!(out, "   {} ({what})", paths.short(path));
    }
    if !undo::all(&paths.state).is_empty() {
        out.push_str(
            "Other tools' scripts are still aside: `baton install --migrate --undo` brings them back.\n",
        );
    }
    out.push_str("`baton uninstall --purge` removes that too.\n");
    out
}

/// An empty state folder would be a trace too.
fn tidy(paths: &Paths) {
    if is_empty_state(&paths.state, &paths.state) {
        let _ = fs::remove(&paths.state.join("install.lock"));
        let _ = std::fs::remove_dir(&paths.state);
    }
}

fn purge(paths: &Paths, program: Option<PathBuf>, yes: bool) -> anyhow::Result<Outcome> {
    let kept = kept(paths, program);
    let mut out = String::from("\nThis removes for good:\n");
    for (path, what) in &kept {
        let _ = writeln!(out, "   {} ({what})", paths.short(path));
    }
    print(&out)?;
    if !yes && !confirm("Remove all of it?")? {
        return Ok(Outcome::Failed);
    }
    for (path, _) in &kept {
        let meta = std::fs::symlink_metadata(path);
        let done = if meta.is_ok_and(|m| m.is_dir()) {
            std::fs::remove_dir_all(path)
        } else {
            std::fs::remove_file(path)
        };
        done.map_err(|e| fs::FileError::new("remove", path, e))?;
    }
    tidy(paths);
    let config = if paths.config.exists() {
        format!(" Your own {} is left.", paths.short(&paths.config))
    } else {
        String::new()
    };
    print(&format!("Removed.{config}\n"))?;
    Ok(Outcome::Done)
}
