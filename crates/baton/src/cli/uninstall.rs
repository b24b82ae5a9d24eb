//! `baton uninstall`: out again, and what remains.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::bail;

use super::Outcome;
use super::args::UninstallArgs;
use super::install::{client, confirm, scope};
use super::screen::print;
use crate::config::Config;
use crate::install::{Scope, codex, edits_diff, uninstall};
use crate::memory::project;
use crate::paths::Paths;
use crate::providers::Integration;
use crate::sys::fs;

pub fn run(args: &UninstallArgs) -> anyhow::Result<Outcome> {
    let paths = Paths::from_env()?;
    if client(&args.provider)?.integration == Integration::HooksFile {
        return run_hooks_file(&paths, args);
    }
    let scope = scope(&paths, &args.scope)?;
    let plan = uninstall::plan(&paths, &scope)?;
    let program = plan.binary().map_or_else(|| paths.home.join(".local/bin/baton"), Path::to_owned);
    if args.dry_run {
        let edits: Vec<_> = plan.edits.into_iter().map(|p| p.edit).collect();
        let folder =
            plan.folder.map_or_else(String::new, |dir| format!("{} would be removed\n", paths.short(&dir)));
        print(&format!("{}{folder}Nothing was changed.\n", edits_diff(&paths, &edits)))?;
        return Ok(Outcome::Done);
    }
    // Before the rest: what it leaves empty goes with that.
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
                (Some(_), false) => "edited by somebody else since, so exactly our entries were taken out",
            };
            let _ = writeln!(out, "✓  {} ({how})", paths.short(&planned.edit.path));
        }
        if let Some(dir) = &plan.folder {
            let _ = writeln!(out, "✓  {} (removed)", paths.short(dir));
        }
        for path in stays {
            let _ = writeln!(out, "   {} is not ours and stays", paths.short(&path));
        }
        out.push_str("\nRunning sessions drop it at once.\n");
    }
    for refused in &plan.refused {
        let _ = writeln!(out, "!  {refused}");
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
    if scope != Scope::User {
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
        return purge(&paths, program, args.yes);
    }
    print(&remaining(&paths, program))?;
    tidy(&paths);
    Ok(if nothing { Outcome::Nothing } else { Outcome::Done })
}

/// The projects' memories: edited files become what they were, what has been saved stays.
fn forget(paths: &Paths, scope: &Scope) -> anyhow::Result<String> {
    let known = project::all(&paths.state).into_iter().map(|m| m.project);
    let wanted = known.filter(|p| match scope {
        Scope::User => true,
        Scope::Project { dir, .. } => p == dir,
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
        print(&format!("{}Nothing was changed.\n", edits_diff(paths, &edits)))?;
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
            (Some(_), false) => "edited by somebody else since, so exactly our entries were taken out",
        };
        let _ = writeln!(out, "✓  {} ({how})", paths.short(&edit.path));
    }
    out.push_str("\nThreads that run already go on calling it until they end.\n");
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

fn verify(paths: &Paths, scope: &Scope) -> anyhow::Result<()> {
    let remains = uninstall::remains(paths, scope);
    if !remains.is_empty() {
        bail!("something is left: {}; look at it and run this again", remains.join("; "));
    }
    print("Verified: nothing of baton is left in the client's folder and settings.\n")
}

/// What baton has kept for the user, and the program.
fn kept(paths: &Paths, program: PathBuf) -> Vec<(PathBuf, &'static str)> {
    let handoffs = configured_handoffs(paths);
    let published =
        [".current-session", ".context-status", ".restart-session"].map(|name| paths.claude.join(name));
    let mut all = vec![
        (handoffs, "handoffs"),
        (paths.state.clone(), "sessions, copies of conversations, mail, log"),
        (program, "the program"),
    ];
    all.extend(published.map(|path| (path, "published for scripts")));
    all.retain(|(path, _)| path.exists() && !is_empty_state(path, &paths.state));
    all
}

/// A configuration that cannot be read must not lead us to another folder: then the default counts.
fn configured_handoffs(paths: &Paths) -> PathBuf {
    let env = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    let config = crate::config::resolve(paths, &paths.home, env)
        .map_or_else(|_| Config::defaults(paths), |r| r.config);
    config.handoff.dir
}

/// Nothing in it but the lock of this very command.
fn is_empty_state(path: &Path, state: &Path) -> bool {
    path == state
        && std::fs::read_dir(path)
            .is_ok_and(|mut entries| entries.all(|e| e.is_ok_and(|e| e.file_name() == "install.lock")))
}

fn remaining(paths: &Paths, program: PathBuf) -> String {
    let kept = kept(paths, program);
    let mut out = String::from("\nWhat remains is yours:\n");
    for (path, what) in &kept {
        let _ = writeln!(out, "   {} ({what})", paths.short(path));
    }
    out.push_str("`baton uninstall --purge` removes that too.\n");
    out
}

/// An empty state folder is a mark, too.
fn tidy(paths: &Paths) {
    if is_empty_state(&paths.state, &paths.state) {
        let _ = fs::remove(&paths.state.join("install.lock"));
        let _ = std::fs::remove_dir(&paths.state);
    }
}

fn purge(paths: &Paths, program: PathBuf, yes: bool) -> anyhow::Result<Outcome> {
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
