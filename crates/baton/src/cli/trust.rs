//! `baton trust [PATH]`: trusts a folder, lists trusted folders, or revokes trust.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::Path;

use baton_core::plain::plain_line;
use jiff::Timestamp;
use serde_json::json;

use crate::cli::args::TrustArgs;
use crate::cli::ui::confirm::confirm;
use crate::cli::ui::{Paint, age, print, print_json, table};
use crate::cli::{App, Outcome};
use crate::config::{self, IgnoredBecause};
use crate::project::trust::Trust;
use crate::project::{self, memory};
use crate::store::Store;
use crate::sys::fs;
use crate::sys::paths::Paths;

const MAX_SETTINGS: u64 = 1 << 20;

pub(super) fn run(app: &App, args: &TrustArgs) -> anyhow::Result<Outcome> {
    let cwd = args.path.as_ref().map_or_else(|| app.cwd.clone(), |path| app.cwd.join(path));
    if args.list {
        return list(app, args.json);
    }
    if let Some(outcome) = app.refuse_agent("accept a folder") {
        return Ok(outcome);
    }
    anyhow::ensure!(cwd.is_dir(), "{} is not a folder", cwd.display());
    let root = if args.forget { project::root(&cwd) } else { project::trust::to_accept(&app.paths, &cwd) };
    let shown = app.paths.short(root);
    if args.forget {
        if Trust::forget(&app.paths, root)? {
            print(&format!("{shown} is a stranger again.\n"))?;
            return Ok(Outcome::Done);
        }
        eprintln!("baton: {shown} was not accepted");
        return Ok(Outcome::Nothing);
    }
    project::trust::check(&app.paths, root, &cwd)?;
    if !args.share_channel
        && let Some(outcome) = refuse_foreign_channel(&app.store(), &app.paths, &cwd)?
    {
        return Ok(outcome);
    }
    let at = App::at(cwd.clone(), None)?;
    let lines = |why: IgnoredBecause| {
        let mut out = String::new();
        for ignored in at.resolved.ignored.iter().filter(|ignored| ignored.why == why) {
            let place = format!("{}:{}", app.paths.short(&ignored.path), ignored.line);
            let _ = writeln!(out, "   {place}  {}", plain_line(&ignored.what, 200));
        }
        out
    };
    let (honoured, never) = (lines(IgnoredBecause::NotTrusted), lines(IgnoredBecause::UserOnly));
    if !honoured.is_empty() {
        print(&format!("Honoured from now on, as it is written now:\n{honoured}"))?;
    }
    if !never.is_empty() {
        print(&format!("Not honoured; only your own config.toml may set it:\n{never}"))?;
    }
    Trust::accept(&app.paths, root, &cwd, "trust", Timestamp::now())?;
    print(&format!("{shown} is accepted. `baton trust --forget` undoes that.\n"))?;
    Ok(Outcome::Done)
}

fn list(app: &App, as_json: bool) -> anyhow::Result<Outcome> {
    let trust = Trust::read(&app.paths);
    let now = Timestamp::now();
    if as_json {
        let rows: Vec<_> = trust
            .folders()
            .map(|(dir, accepted)| json!({ "path": dir, "at": accepted.at, "by": accepted.by }))
            .collect();
        print_json(&rows)?;
        return Ok(if rows.is_empty() { Outcome::Nothing } else { Outcome::Done });
    }
    let rows: Vec<Vec<String>> = trust
        .folders()
        .map(|(dir, accepted)| {
            let since =
                if accepted.at == Timestamp::UNIX_EPOCH { String::new() } else { age(accepted.at, now) };
            vec![app.paths.short(dir), since, accepted.by.clone()]
        })
        .collect();
    if rows.is_empty() {
        print("No folder is accepted yet; `baton trust` in a project accepts it.\n")?;
        return Ok(Outcome::Nothing);
    }
    print(&table(Paint::stdout(), &["FOLDER", "AGE", "BY"], &rows))?;
    Ok(Outcome::Done)
}

/// Asks about a channel that another project uses; without a person at a terminal the answer is no.
pub(super) fn refuse_foreign_channel(
    store: &Store,
    paths: &Paths,
    cwd: &Path,
) -> anyhow::Result<Option<Outcome>> {
    let Some((channel, owner)) = project::trust::foreign_channel(store, paths, cwd)? else { return Ok(None) };
    let said = format!(
        "{} here names the channel {channel}, which {} used first: each would load and replace the other's handoffs",
        config::PROJECT_FILE,
        paths.short(&owner)
    );
    if is_person() {
        eprintln!("{}.", plain_line(&said, 600));
        return Ok((!confirm("Share it?")?).then_some(Outcome::Failed));
    }
    eprintln!(
        "baton: nothing was accepted: {}; remove that line, or say yes with `baton trust --share-channel`",
        plain_line(&said, 600)
    );
    Ok(Some(Outcome::Failed))
}

fn is_person() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks a person at a terminal about what is ignored here: settings, and a memory that came with a clone. Asks about
/// each once.
pub(super) fn ask(app: &App) -> anyhow::Result<bool> {
    let memory = memory::unaccepted(&app.paths, &app.cwd);
    let not_trusted = || app.resolved.ignored.iter().filter(|i| i.why == IgnoredBecause::NotTrusted);
    let first = not_trusted().next();
    if (first.is_none() && memory.is_none()) || !is_person() || app.caller().is_agent() {
        return Ok(false);
    }
    // There is nothing to accept in a folder that is not a project.
    if project::trust::check_folder(&app.paths, project::trust::to_accept(&app.paths, &app.cwd)).is_err() {
        return Ok(false);
    }
    let trust = Trust::read(&app.paths);
    let settings = match first {
        Some(first) => {
            let dir = first.path.parent().unwrap_or(&app.cwd);
            let bytes = fs::read(&first.path, MAX_SETTINGS)?.unwrap_or_default();
            (!trust.has_declined(dir, &bytes)).then_some((dir, bytes))
        }
        None => None,
    };
    let memory = memory.filter(|project| !trust.has_declined_memory(project));
    if let (Some(_), Some(first)) = (&settings, first) {
        eprintln!("{} sets what only a project you trust may set:", app.paths.short(&first.path));
        for ignored in not_trusted() {
            eprintln!("   {}  {}", ignored.line, plain_line(&ignored.what, 200));
        }
    }
    if let Some(project) = &memory {
        eprintln!(
            "{} came with this folder: accepted, sessions here begin with it and are backed up into it.",
            app.paths.short(&memory::folder(project))
        );
    }
    let Some(dir) = settings.as_ref().map(|(dir, _)| *dir).or(memory.as_deref()) else { return Ok(false) };
    if confirm("Accept this folder?")? {
        if settings.is_some() && refuse_foreign_channel(&app.store(), &app.paths, dir)?.is_some() {
            return Ok(false);
        }
        Trust::accept(
            &app.paths,
            project::trust::to_accept(&app.paths, dir),
            dir,
            "asked",
            Timestamp::now(),
        )?;
        return Ok(true);
    }
    if let Some((dir, bytes)) = &settings {
        Trust::decline(&app.paths, dir, bytes)?;
    }
    if let Some(project) = &memory {
        Trust::decline_memory(&app.paths, project)?;
    }
    eprintln!("Left out; `baton trust` accepts it later.");
    Ok(false)
}
