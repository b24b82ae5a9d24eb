//! `baton handoffs`: view, load, write and repair a project's handoffs.

mod chain;

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use baton_core::handoff::pack::pack;
use baton_core::handoff::{Claimant, Entry, HandoffId, Kind, Refusal, Status};
use baton_core::ids::{AgentId, ChannelName, SessionId};
use baton_core::plain::plain;
use baton_core::redact::{redact, redact_json};
use baton_core::session::Session;
use jiff::Timestamp;
use serde_json::json;

use crate::cli::args::{ChainVerb, Handoffs as Verb, HandoffsArgs};
use crate::cli::ui::{Paint, age, local, page, print, print_json, print_raw, table, table_ranked};
use crate::cli::{App, Outcome, client_pid, session_from_env};
use crate::fleet::handoffs::{copy_of, is_elsewhere};
use crate::handoffs::transcripts;
use crate::store::handoffs::{Draft, MAX_DOCUMENT, Repair, newest_first};
use crate::sys::process;

pub(super) fn run(app: &App, args: HandoffsArgs) -> anyhow::Result<Outcome> {
    let (json, paged) = (args.json, !args.no_pager);
    let now = Timestamp::now();
    match args.command.unwrap_or(Verb::List { all: false, limit: args.limit }) {
        Verb::List { all, limit } => list(app, all, limit, OutputFormat { json, paged }, now),
        Verb::Show { id } => show(app, &id, OutputFormat { json, paged }),
        Verb::Current => current(app, json, now),
        Verb::Load { id: Some(id), force: true, session, agent, .. }
            if is_elsewhere(&app.paths.state, &id)?.is_some() =>
        {
            if let Some(outcome) = app.refuse_agent("copy a handoff of another machine") {
                return Ok(outcome);
            }
            let copy = copy_of(&app.store(), &app.resolved.config, &id, now)?;
            eprintln!("baton: {copy} is a copy of {id}, which stays where it is");
            load(app, Some(&copy), false, session, agent.as_ref(), json, now)
        }
        Verb::Load { id, peek, session, agent, .. } => {
            load(app, id.as_ref(), peek, session, agent.as_ref(), json, now)
        }
        Verb::Clear { id } => clear(app, id.as_ref(), json, now),
        Verb::History => history(app, OutputFormat { json, paged }),
        Verb::Path => path(app, json),
        Verb::Seal { file, kind, session, for_agent } => {
            seal(app, &file, &kind, session, for_agent.as_ref(), json, now)
        }
        Verb::Draft { what, budget, against } => {
            let look = OutputFormat { json, paged };
            draft(app, what.as_deref(), budget, against.is_some(), look, now)
        }
        Verb::Chain { id, verb: None } => chain::chain(app, id.as_ref(), OutputFormat { json, paged }, now),
        Verb::Chain { verb: Some(ChainVerb::Drop { item, from }), .. } => {
            chain::drop_item(app, item.as_deref(), from.as_ref(), OutputFormat { json, paged })
        }
        Verb::Diff { a, b } => chain::diff(app, &a, &b, OutputFormat { json, paged }),
        Verb::Repair => repair(app, json, now),
    }
}

/// The output format.
#[derive(Clone, Copy)]
struct OutputFormat {
    json: bool,
    paged: bool,
}

fn list(app: &App, all: bool, limit: usize, look: OutputFormat, now: Timestamp) -> anyhow::Result<Outcome> {
    let handoffs = app.handoffs();
    let channels = if all { handoffs.channels()? } else { vec![app.channel()?] };
    let mut entries: Vec<(ChannelName, Entry)> = Vec::new();
    let mut outcome = Outcome::Done;
    for channel in channels {
        match handoffs.list(&channel) {
            Ok(list) => entries.extend(list.into_iter().map(|entry| (channel.clone(), entry))),
            // A damaged channel must not hide the others.
            Err(e) if all => {
                eprintln!("baton: channel {channel} is left out: {e}");
                outcome = Outcome::Failed;
            }
            Err(e) => return Err(e.into()),
        }
    }
    entries.sort_by(|a, b| newest_first(&a.1, &b.1));
    let more = entries.len().saturating_sub(limit);
    entries.truncate(limit);
    if look.json {
        let rows: Vec<_> = entries.iter().map(|(c, e)| with_channel(c, e)).collect();
        print_json(&rows)?;
        return Ok(outcome);
    }
    if entries.is_empty() && outcome == Outcome::Failed {
        return Ok(outcome);
    }
    if entries.is_empty() {
        let place = if all { "any project".to_owned() } else { app.place()? };
        print(&format!("No handoffs in {place} yet. `baton handoffs seal FILE` writes one.\n"))?;
        return Ok(Outcome::Nothing);
    }
    let paint = Paint::stdout();
    let rows: Vec<_> = entries
        .iter()
        .map(|(channel, e)| {
            let mut row = vec![e.id.to_string(), state(paint, e, now, app), e.kind.as_str().to_owned()];
            row.extend([age(e.created_at, now), e.session_id.short().to_owned()]);
            if all {
                row.push(channel.to_string());
            }
            row.push(app.paths.short(Path::new(&e.working_dir)));
            row
        })
        .collect();
    // Other commands take the id, so never cut it to make room.
    let head: &[(&str, u8)] = if all {
        &[("ID", 0), ("STATE", 0), ("TYPE", 2), ("AGE", 1), ("FROM", 4), ("CHANNEL", 5), ("FOLDER", 3)]
    } else {
        &[("ID", 0), ("STATE", 0), ("TYPE", 2), ("AGE", 1), ("FROM", 4), ("FOLDER", 3)]
    };
    let mut out = table_ranked(paint, head, &rows);
    if more > 0 {
        let _ = writeln!(out, "… and {more} more; `-n {}` shows them all", limit + more);
    }
    page(&out, look.paged)?;
    Ok(outcome)
}

/// The state as a person needs it: shows a claim or an expiry before it is swept.
fn state(paint: Paint, entry: &Entry, now: Timestamp, app: &App) -> String {
    match (entry.status, &entry.claim, &entry.for_agent) {
        (Status::Active, Some(claim), _) => paint.yellow(&format!("claimed by {}", claim.session.short())),
        (Status::Active, None, Some(agent)) => paint.green(&format!("active for {agent}")),
        (Status::Active, None, None) if entry.is_older_than(app.resolved.config.handoff.expiry, now) => {
            "expired".to_owned()
        }
        (Status::Active, None, None) => paint.green("active"),
        (status, ..) => status.as_str().to_owned(),
    }
}

fn with_channel(channel: &ChannelName, entry: &Entry) -> serde_json::Value {
    let mut value = json!(entry);
    value["channel"] = json!(channel);
    value
}

fn show(app: &App, id: &HandoffId, look: OutputFormat) -> anyhow::Result<Outcome> {
    let Some(text) = app.handoffs().show(id)? else {
        eprintln!("baton: there is no handoff {id}; `baton handoffs list --all` lists them");
        return Ok(Outcome::Nothing);
    };
    if look.json {
        print_json(&json!({ "id": id, "document": text }))?;
    } else {
        // Somebody else may have chosen the name of its folder.
        page(&plain(&text), look.paged)?;
    }
    Ok(Outcome::Done)
}

fn current(app: &App, json: bool, now: Timestamp) -> anyhow::Result<Outcome> {
    let channel = app.channel()?;
    let Some(entry) = app.handoffs().active(&channel, now)? else {
        if json {
            print("null\n")?;
        } else {
            eprintln!("baton: {} has no active handoff", app.place()?);
        }
        return Ok(Outcome::Nothing);
    };
    if json {
        print_json(&with_channel(&channel, &entry))?;
    } else {
        print(&format!("{}\n", entry.id))?;
    }
    Ok(Outcome::Done)
}

fn load(
    app: &App,
    id: Option<&HandoffId>,
    peek: bool,
    session: Option<SessionId>,
    agent: Option<&AgentId>,
    json: bool,
    now: Timestamp,
) -> anyhow::Result<Outcome> {
    let (channel, handoffs) = (app.channel()?, app.handoffs());
    let session = session.unwrap_or_else(session_from_env);
    let pid = client_pid();
    let process = process::identify(pid);
    let dir = crate::project::channel::real(&app.cwd).display().to_string();
    let who =
        Claimant { session: &session, agent, process: process.as_ref(), working_dir: &dir, own_only: false };
    if let Some(id) = id.filter(|_| !peek)
        && let Some(why) = is_elsewhere(&app.paths.state, id)?
    {
        eprintln!(
            "baton: {why}, and can only be claimed there; `baton handoffs show {id}` shows it, and `baton handoffs load \
             {id} --force` loads a copy that says so"
        );
        return Ok(Outcome::Failed);
    }
    let loaded = match (id, peek) {
        (Some(id), true) => return show(app, id, OutputFormat { json, paged: false }),
        (Some(id), false) => handoffs.load_id(&channel, id, &session, pid, now)?,
        (None, true) => handoffs.peek(&channel, &who, now)?,
        (None, false) => handoffs.load(&channel, &who, pid, now)?,
    };
    if let Ok(loaded) = &loaded
        && !peek
    {
        // The session continues that task from now on. An unregistered session has no record to update.
        let goes_on = |s: &mut Session| s.continues = Some(loaded.entry.id.clone());
        app.store().sessions().update(&session, Duration::from_secs(2), goes_on)?;
    }
    match loaded {
        Ok(loaded) if json => {
            let mut value = with_channel(&channel, &loaded.entry);
            value["document"] = json!(loaded.text);
            print_json(&value)?;
            Ok(Outcome::Done)
        }
        Ok(loaded) => {
            print_raw(&plain(&loaded.text))?;
            Ok(Outcome::Done)
        }
        Err(refusal) => {
            eprintln!("baton: nothing was loaded in {}: {refusal}{}", app.place()?, hint(&refusal));
            Ok(Outcome::Nothing)
        }
    }
}

fn hint(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Nothing => String::new(),
        Refusal::Expired(id)
        | Refusal::OtherFolder(id, _)
        | Refusal::Addressed(id, _)
        | Refusal::NotItsOwn(id) => {
            format!("; `baton handoffs load {id}` loads it anyway")
        }
        Refusal::Consumed(id) | Refusal::Cleared(id) | Refusal::Claimed(id, _) => {
            format!("; `baton handoffs show {id}` prints it")
        }
    }
}

fn clear(app: &App, id: Option<&HandoffId>, json: bool, now: Timestamp) -> anyhow::Result<Outcome> {
    let channel = app.channel()?;
    if let Some(outcome) = refuse_others(app, &channel, id)? {
        return Ok(outcome);
    }
    let Some(entry) = app.handoffs().clear(&channel, id, now)? else {
        eprintln!("baton: {} has no active handoff to clear", app.place()?);
        return Ok(Outcome::Nothing);
    };
    if json {
        print_json(&with_channel(&channel, &entry))?;
    } else {
        print(&format!("Cleared {}; `baton handoffs show {}` still prints it\n", entry.id, entry.id))?;
    }
    Ok(Outcome::Done)
}

/// An agent may only clear handoffs that it or its descendants wrote, or that are addressed to one of them.
fn refuse_others(
    app: &App,
    channel: &ChannelName,
    id: Option<&HandoffId>,
) -> anyhow::Result<Option<Outcome>> {
    if !app.caller().is_agent() {
        return Ok(None);
    }
    let manifest = app.handoffs().manifest(channel)?;
    let entry = id.map_or(manifest.current.as_ref(), |id| manifest.find(id));
    let Some(entry) = entry else { return Ok(None) };
    let writer = || app.store().sessions().readable(&entry.session_id).map(|session| session.agent);
    let owner = entry.for_agent.clone().or_else(writer);
    match owner.map(|owner| app.store().agents().get(&owner)).transpose()?.flatten() {
        Some(agent) => app.refuse_stranger("clear handoffs of", &agent),
        None => Ok(app.refuse_agent("clear a handoff that no agent wrote")),
    }
}

fn history(app: &App, look: OutputFormat) -> anyhow::Result<Outcome> {
    let channel = app.channel()?;
    let (events, unread) = app.handoffs().history(&channel)?;
    if unread > 0 {
        eprintln!("baton: {unread} lines of the history could not be read and were skipped");
    }
    if look.json {
        print_json(&events)?;
        return Ok(Outcome::Done);
    }
    if events.is_empty() {
        print(&format!("Nothing has happened in {} yet.\n", app.place()?))?;
        return Ok(Outcome::Nothing);
    }
    let rows: Vec<_> = events
        .iter()
        .map(|event| {
            let who = match (&event.entry.claim, &event.entry.consumed_by_session) {
                (Some(claim), _) => format!("by session {}", claim.session.short()),
                (None, Some(session)) => format!(
                    "by session {} (pid {})",
                    session.short(),
                    event.entry.consumed_by_pid.unwrap_or_default()
                ),
                (None, None) => event
                    .entry
                    .superseded_by
                    .as_ref()
                    .map_or_else(String::new, |newer| format!("replaced by {newer}")),
            };
            let what = format!("{:?}", event.what).to_lowercase();
            vec![local(event.at), event.entry.id.to_string(), what, who]
        })
        .collect();
    page(&table(Paint::stdout(), &["WHEN", "ID", "WHAT", ""], &rows), look.paged)?;
    Ok(Outcome::Done)
}

fn path(app: &App, json: bool) -> anyhow::Result<Outcome> {
    let (channel, handoffs) = (app.channel()?, app.handoffs());
    let paths = [
        ("current", handoffs.current_path(&channel)),
        ("manifest", handoffs.manifest_path(&channel)),
        ("archive", app.resolved.config.handoff.dir.join("archive")),
    ];
    if json {
        let map: serde_json::Map<_, _> = paths.iter().map(|(k, p)| ((*k).to_owned(), json!(p))).collect();
        print_json(&map)?;
    } else {
        print_raw(&paths.map(|(name, path)| format!("{name:<9} {}\n", path.display())).concat())?;
    }
    Ok(Outcome::Done)
}

fn seal(
    app: &App,
    file: &Path,
    kind: &str,
    session: Option<SessionId>,
    for_agent: Option<&AgentId>,
    json: bool,
    now: Timestamp,
) -> anyhow::Result<Outcome> {
    if kind.is_empty() || kind.len() > 40 || kind.chars().any(|c| c.is_control() || c.is_whitespace()) {
        bail!("a handoff's type is one short word, not {kind:?}");
    }
    let body = read_body(file)?;
    let channel = app.channel()?;
    let session = session.unwrap_or_else(session_from_env);
    let sealed = app.handoffs().seal(
        &Draft {
            channel: &channel,
            session: &session,
            kind: Kind::from(kind),
            working_dir: &crate::project::channel::real(&app.cwd).display().to_string(),
            body: &body,
            created_by_pid: client_pid(),
            for_agent,
            for_session: None,
            rotation: None,
            carried: None,
        },
        now,
    )?;
    if sealed.redacted > 0 {
        eprintln!(
            "baton: {} secrets were redacted; `baton handoffs show {}` shows what was kept",
            sealed.redacted, sealed.entry.id
        );
    }
    if json {
        let mut value = with_channel(&channel, &sealed.entry);
        value["path"] = json!(sealed.path);
        print_json(&value)?;
    } else {
        print(&format!("{}\n", sealed.entry.id))?;
    }
    Ok(Outcome::Done)
}

/// The text of FILE, or of standard input for `-`.
pub(super) fn read_body(file: &Path) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let what = if file == Path::new("-") {
        std::io::stdin()
            .take(MAX_DOCUMENT + 1)
            .read_to_end(&mut bytes)
            .context("could not read the handoff from standard input")?;
        "standard input".to_owned()
    } else {
        let opened = std::fs::File::open(file)
            .with_context(|| format!("could not read the handoff {}; check the path", file.display()))?;
        opened
            .take(MAX_DOCUMENT + 1)
            .read_to_end(&mut bytes)
            .with_context(|| format!("could not read the handoff {}", file.display()))?;
        file.display().to_string()
    };
    String::from_utf8(bytes)
        .with_context(|| format!("{what} is not UTF-8 text; a handoff is a Markdown document"))
}

fn draft(
    app: &App,
    what: Option<&str>,
    budget: Option<usize>,
    against_last: bool,
    look: OutputFormat,
    now: Timestamp,
) -> anyhow::Result<Outcome> {
    let Some(found) = transcripts::find(&app.store(), &app.paths, &app.channel()?, what)? else {
        let what = what.map_or_else(String::new, |w| format!(" {w:?}"));
        eprintln!("baton: no transcript{what} was found; name a session id or a transcript file");
        return Ok(Outcome::Nothing);
    };
    let ledger = found.ledger(&app.store(), &app.handoffs())?;
    if against_last {
        return chain::against_last(app, &ledger, look);
    }
    let text = match budget {
        Some(budget) => pack(&ledger, None, budget, &found.path.display().to_string()).text,
        None => found.body(&ledger, now),
    };
    let text = redact(&plain(&text)).text.into_owned();
    if look.json {
        let mut value = json!({ "transcript": found.path, "document": text, "ledger": ledger });
        redact_json(&mut value);
        print_json(&value)?;
    } else {
        print_raw(&format!("{}\n", text.trim_end()))?;
    }
    Ok(Outcome::Done)
}

fn repair(app: &App, json: bool, now: Timestamp) -> anyhow::Result<Outcome> {
    if app.channel_flag.is_some()
        && let Some(outcome) = app.refuse_agent("repair another project's handoffs")
    {
        return Ok(outcome);
    }
    let channel = app.channel()?;
    let done = app.handoffs().repair(&channel, now)?;
    let lines: Vec<String> = done
        .iter()
        .map(|step| match step {
            Repair::SetAside { what, to, why } => {
                format!("set aside {} as {} ({why})", what.display(), to.display())
            }
            Repair::Mended(path) => format!("rewrote {} from the archive", path.display()),
            Repair::Rebuilt { path, current: Some(current) } => {
                format!("rebuilt {} from the archive; current is {current}", path.display())
            }
            Repair::Rebuilt { path, current: None } => {
                format!("rebuilt {}; the archive has no handoff for this channel", path.display())
            }
            Repair::Dropped { id, why } => {
                format!("cleared {id}, which waited for its addressee: its document cannot be used ({why})")
            }
            Repair::Swept(n) => format!("removed {n} leftovers of killed writers"),
        })
        .collect();
    if json {
        print_json(&lines)?;
    } else if lines.is_empty() {
        print(&format!("The store of {} is sound; nothing was changed.\n", app.place()?))?;
    } else {
        print(&(lines.join("\n") + "\n"))?;
    }
    Ok(Outcome::Done)
}
