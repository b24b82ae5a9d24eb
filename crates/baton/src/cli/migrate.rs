//! `baton install --migrate`: shows what other tools have installed here, asks, and moves it aside; `--undo` restores
//! it.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use jiff::Timestamp;

use crate::cli::args::InstallArgs;
use crate::cli::install::{coloured, mark, unasked};
use crate::cli::ui::confirm::{confirm_or_show, yes_or_no};
use crate::cli::ui::{Paint, print, print_raw};
use crate::cli::{Outcome, refuse_agent};
use crate::setup::migrate::find::{ForeignFile, find};
use crate::setup::migrate::known::PartKind;
use crate::setup::migrate::{aside, by_tool, undo};
use crate::store::Store;
use crate::sys::paths::Paths;

/// Moves the found files aside. `None` lets the install continue.
pub(super) fn run(paths: &Paths, args: &InstallArgs) -> anyhow::Result<Option<Outcome>> {
    if !args.dry_run
        && let Some(outcome) = refuse_agent(&Store::new(paths), "move other tools' scripts aside")
    {
        return Ok(Some(outcome));
    }
    if args.undo {
        return take_back(paths, args).map(Some);
    }
    let cwd = std::env::current_dir()?;
    let found = find(paths, &cwd);
    if found.is_empty() {
        print("No scripts of other tools that do what baton does were found here.\n")?;
        return Ok(None);
    }
    print(&explained(paths, &found))?;
    let refused = ask_about_tracked(paths, args, &found)?;
    let found = aside::without(found, &refused);
    if found.is_empty() {
        print("Nothing was moved.\n")?;
        return Ok(None);
    }
    let plan = aside::plan(paths, &found)?;
    let diff = plan.diff(paths);
    let edits: Vec<PathBuf> = plan.edits.iter().map(|e| e.path.clone()).collect();
    let steps = |tense: &str| edited(paths, &edits, tense) + &moved(paths, &plan.moves, tense);
    if args.dry_run {
        print_raw(&diff)?;
        print(&format!("{}\n", steps("would be ")))?;
        return Ok(None);
    }
    if !args.yes {
        let diff = coloured(&diff);
        print_raw(&unasked(&diff))?;
        print(&steps("will be "))?;
        if !confirm_or_show("Move them aside?", Some(&diff))? {
            return Ok(Some(Outcome::Failed));
        }
    }
    let did = steps("");
    let has_wrapper = found.iter().any(|f| f.part.kind == PartKind::Wrapper);
    let dir = plan.carry_out(paths, Timestamp::now())?;
    let mut out = did;
    let _ = writeln!(
        out,
        "They are in {}; `baton install --migrate --undo` brings them back.",
        paths.short(&dir)
    );
    if has_wrapper {
        out.push_str("Open shells still have the alias: run `unalias claude` there; `baton run` restarts a full agent.\n");
    }
    print(&format!("{out}\n"))?;
    Ok(None)
}

/// The found files by tool, each with its purpose.
fn explained(paths: &Paths, found: &[ForeignFile]) -> String {
    let mut out = String::new();
    for (tool, parts) in by_tool(found) {
        let _ = writeln!(out, "{}", Paint::stdout().bold(tool.name));
        for one in parts {
            let _ = writeln!(out, "  {}  {}", paths.short(&one.path), Paint::stdout().dim(one.part.does));
        }
        let _ = writeln!(out, "  What it has written stays and is used: {}.", tool.data);
    }
    out + "\n"
}

/// Asks about each file that git tracks, because others may share it. Returns those that stay.
fn ask_about_tracked(
    paths: &Paths,
    args: &InstallArgs,
    found: &[ForeignFile],
) -> anyhow::Result<Vec<PathBuf>> {
    let mut stay = Vec::new();
    for file in aside::tracked(found) {
        let is_moved = found.iter().any(|f| f.path == file);
        let what = if is_moved { "Move it aside" } else { "Take their entries out of it" };
        let name = paths.short(&file);
        if args.dry_run {
            print(&format!("git tracks {name}: it would be asked about\n"))?;
        } else if args.yes || !std::io::stdin().is_terminal() {
            print(&format!(
                "git tracks {name}, so it stays; in a terminal, without --yes, it is asked about\n"
            ))?;
            stay.push(file);
        } else if !yes_or_no(&format!("git tracks {name}. {what}?"))? {
            stay.push(file);
        }
    }
    Ok(stay)
}

/// Files that stay and lose their entries.
fn edited(paths: &Paths, edits: &[PathBuf], tense: &str) -> String {
    lines(paths, edits, tense, "edited: their entries are taken out")
}

fn moved(paths: &Paths, moves: &[PathBuf], tense: &str) -> String {
    lines(paths, moves, tense, "moved aside")
}

fn lines(paths: &Paths, files: &[PathBuf], tense: &str, what: &str) -> String {
    let mut out = String::new();
    for path in files {
        let did = Paint::stdout().dim(&format!("({tense}{what})"));
        let _ = writeln!(out, "{}  {} {did}", mark(tense), paths.short(path));
    }
    out
}

fn take_back(paths: &Paths, args: &InstallArgs) -> anyhow::Result<Outcome> {
    let all = undo::all(&paths.state);
    let Some(newest) = all.last() else {
        print("Nothing was moved aside, so there is nothing to bring back.\n")?;
        return Ok(Outcome::Nothing);
    };
    if args.dry_run {
        print(&format!("{} would be brought back. Nothing was changed.\n", paths.short(newest)))?;
        return Ok(Outcome::Done);
    }
    let Some(undone) = undo::newest(paths)? else { return Ok(Outcome::Nothing) };
    let mut out = String::new();
    for path in &undone.moves {
        let _ = writeln!(out, "{}  {} (is back)", mark(""), paths.short(path));
    }
    for (path, exact) in &undone.edits {
        let how = if *exact {
            "every byte as it was before"
        } else {
            "edited since, so their entries were added again"
        };
        let _ = writeln!(out, "{}  {} ({how})", mark(""), paths.short(path));
    }
    for stays in &undone.stays {
        let _ = writeln!(out, "{}  {stays}", Paint::stdout().yellow("!"));
    }
    let _ = writeln!(out, "{} works as before.", undone.tools.join(" and "));
    if undone.left > 0 {
        let _ = writeln!(out, "{} earlier migrations can be undone in the same way.", undone.left);
    }
    print(&out)?;
    Ok(if undone.stays.is_empty() { Outcome::Done } else { Outcome::Failed })
}
