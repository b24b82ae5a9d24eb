//! Makes a handoff from a session: the agent's words when there are some, what the transcript proves always.
//!
//! Reads the transcript from where it was last read, so that sealing a long session again costs what grew.

use std::fmt::Write as _;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use baton_core::checkpoint::Checkpoint;
use baton_core::handoff::Kind;
use baton_core::handoff::pack::pack_document;
use baton_core::handoff::render::{goal_and_now, render};
use baton_core::ids::AgentId;
use baton_core::ledger::Ledger;
use baton_core::plain::plain;
use baton_core::redact::redact;
use baton_core::session::{Request, Session};
use jiff::Timestamp;

use crate::across;
use crate::config::Config;
use crate::providers::{self, Provider};
use crate::store::handoffs::{Draft, MAX_DOCUMENT, Sealed};
use crate::store::{Store, checkpoints, record};
use crate::sys::fs;

/// More than this was never seen to grow between two seals; reading it takes about half a second.
const MAX_BACKLOG: u64 = 96 << 20;

/// What is to be sealed.
pub struct Sealing<'a> {
    pub session: &'a Session,
    pub kind: Kind,
    /// The agent's own words, or the user's instructions for a compaction.
    pub narrative: Option<&'a str>,
    /// Addressed to the agent (or, before a compaction, to the session) it comes from.
    pub for_self: bool,
}

/// Another agent that the handoff is for.
pub struct Reader<'a> {
    pub agent: &'a AgentId,
    pub provider: &'a Provider,
}

/// Composes and seals. When this returns, the handoff is safe.
pub fn seal(store: &Store, config: &Config, sealing: &Sealing<'_>, now: Timestamp) -> anyhow::Result<Sealed> {
    seal_for(store, config, sealing, None, now)
}

/// The same, addressed to another agent.
pub fn seal_for(
    store: &Store,
    config: &Config,
    sealing: &Sealing<'_>,
    reader: Option<&Reader<'_>>,
    now: Timestamp,
) -> anyhow::Result<Sealed> {
    let session = sealing.session;
    let (ledger, unread) = ledger(store, session);
    let mut body = compose(session, &sealing.kind, sealing.narrative, &ledger, unread.as_deref(), now);
    if let Some(reader) = reader {
        body = readdressed(&body, session, reader);
        body.push_str(&before(store, config, session).unwrap_or_default());
    }
    let mut handoffs = store.handoffs(config);
    handoffs.patience = std::time::Duration::from_millis(300);
    let to_session = sealing.for_self && sealing.kind == Kind::Precompact;
    let sealed = handoffs.seal(
        &Draft {
            channel: &session.channel,
            session: &session.id,
            kind: sealing.kind.clone(),
            working_dir: &crate::channel::real(Path::new(&session.cwd)).display().to_string(),
            body: &body,
            created_by_pid: session.process.as_ref().map_or(0, |p| p.pid),
            for_agent: match reader {
                Some(reader) => Some(reader.agent),
                None => (sealing.for_self && !to_session).then_some(&session.agent),
            },
            for_session: to_session.then_some(&session.id),
            rotation: None,
        },
        now,
    )?;
    publish_checkpoint(config, session, &ledger, now);
    let id = sealed.entry.id.clone();
    store.sessions().update(&session.id, std::time::Duration::from_millis(300), |s| {
        s.last_handoff = Some(id);
    })?;
    Ok(sealed)
}

/// The document's body: what it is, the agent's words and the facts, and what the next agent should do first.
pub fn compose(
    session: &Session,
    kind: &Kind,
    narrative: Option<&str>,
    ledger: &Ledger,
    unread: Option<&str>,
    now: Timestamp,
) -> String {
    let title = match kind {
        Kind::Precompact => "Auto-Handoff (Pre-Compaction)",
        Kind::Auto => "Auto-Handoff",
        Kind::Crash => "Auto-Handoff (session ended without a word)",
        Kind::Manual | Kind::Other(_) => "Handoff",
    };
    let mut body = format!(
        "# {title}\n\n**Timestamp:** {} UTC\n**Project:** {}\n**Channel:** {}\n**Session:** {}\n",
        now.strftime("%Y-%m-%d %H:%M"),
        session.cwd,
        session.channel,
        session.id,
    );
    if !session.background.is_empty() {
        body.push_str("**Still running in the background:** ");
        body.push_str(&session.background.join("; "));
        body.push('\n');
    }
    if let Some(why) = unread {
        let _ = writeln!(body, "**Not all of the transcript was read:** {why}");
    }
    body.push('\n');
    body.push_str(render(ledger, narrative).trim());
    let _ = write!(body, "\n\n{}\n\n", instructions(providers::of(&session.provider)));
    let auto = if *kind == Kind::Manual { "handoff" } else { "auto-handoff" };
    let mut steps = Vec::new();
    if crate::client::has_memory_keeper(Path::new(&session.cwd)) {
        steps.push(format!("Call `context_get({{ channel: '{}', priorities: ['high'] }})`", session.channel));
    }
    steps.push(format!("Announce: \"Restored from {auto}. Channel: {}\"", session.channel));
    steps.push("Continue where we left off".to_owned());
    for (n, step) in steps.iter().enumerate() {
        let _ = writeln!(body, "{}. {step}", n + 1);
    }
    body
}

fn instructions(reader: &Provider) -> String {
    format!("## Instructions for {}", reader.spoken)
}

/// The handoff that this session itself began with, shortened: another agent finds no trace of it in the transcript.
fn before(store: &Store, config: &Config, session: &Session) -> Option<String> {
    const ROOM: usize = 3_000;
    let handoffs = store.handoffs(config);
    let mut listed = handoffs.list(&session.channel).ok()?;
    listed.retain(|entry| entry.consumed_by_session.as_ref() == Some(&session.id));
    let id = listed.into_iter().max_by_key(|entry| entry.created_at)?.id;
    let earlier = handoffs.find(&session.channel, &id).ok()??;
    let pointer = handoffs.archived_path(&id).display().to_string();
    let text = pack_document(earlier.body(), ROOM, &pointer).text;
    // One level down, so that it reads as one section.
    let lines: Vec<String> = text
        .lines()
        .map(|line| if line.starts_with('#') { format!("#{line}") } else { line.to_owned() })
        .collect();
    Some(format!("\n## Before this session (handoff {id})\n\n{}\n", lines.join("\n")))
}

/// The same document for an agent of another kind: what differs stands at its head.
fn readdressed(body: &str, session: &Session, reader: &Reader<'_>) -> String {
    let from = providers::of(&session.provider);
    let body = body.replace(&instructions(from), &instructions(reader.provider));
    let Some(differs) = across::differences(from, reader.provider, Path::new(&session.cwd)) else {
        return body;
    };
    let session_line = format!("**Session:** {}\n", session.id);
    body.replacen(&session_line, &format!("{session_line}{differs}\n"), 1)
}

/// Tells the other instances of the workflow, where they have agreed to listen: automatic handoffs never create
/// the events folder unless the configuration asks for it.
fn publish_checkpoint(config: &Config, session: &Session, ledger: &Ledger, now: Timestamp) {
    let project = checkpoints::project_of(Path::new(&session.cwd));
    if !config.checkpoints && !checkpoints::folder(&project).is_dir() {
        return;
    }
    let Some((goal, next)) = goal_and_now(ledger) else { return };
    let clean = |text: &str| redact(&plain(text)).text.into_owned();
    let checkpoint = Checkpoint {
        event_type: "handoff".to_owned(),
        timestamp: Some(now),
        session_id: session.id.short().to_owned(),
        goal: clean(&goal),
        now: clean(&next),
        ..Checkpoint::default()
    };
    // A checkpoint is for convenience; the handoff is sealed whatever becomes of it.
    let _ = checkpoints::publish(&project, &checkpoint, now);
}

fn snapshot_path(store: &Store, session: &Session) -> PathBuf {
    store.state.join("ledgers").join(format!("{}.json", session.id))
}

/// The session's ledger, read on from where the last seal stopped, and why it is not complete if it is not. An
/// agent's own words are sealed whatever has become of its transcript.
fn ledger(store: &Store, session: &Session) -> (Ledger, Option<String>) {
    let snapshot = snapshot_path(store, session);
    let mut ledger: Ledger = record::read(&snapshot).ok().flatten().unwrap_or_default();
    let Some(path) = session.transcript.as_deref().map(Path::new) else { return (ledger, None) };
    let unread = match fs::open_read(path).and_then(|file| read_on(&mut ledger, file)) {
        Ok(0) => None,
        Ok(left) => Some(format!("{left} bytes of {} came too late to be read in time", path.display())),
        // The file need not exist yet; the document then says that there was nothing to read.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return (mirrored_ledger(store, session).unwrap_or(ledger), None);
        }
        Err(e) => Some(format!("{}: {e}", path.display())),
    };
    // Only a saving; without it the next seal reads more.
    let _ = record::write(&snapshot, &ledger);
    (ledger, unread)
}

/// The client has deleted its transcript: the mirror has it.
fn mirrored_ledger(store: &Store, session: &Session) -> Option<Ledger> {
    let mirrored = store.mirror().of(&session.id).ok().flatten()?;
    let (part, generation) = mirrored.newest()?;
    Ledger::of(BufReader::with_capacity(256 << 10, part.open(generation).ok()?.take(MAX_BACKLOG))).ok()
}

/// Did a person ever ask for something in this session? One where nobody did leaves nothing to carry over.
pub fn has_words(store: &Store, session: &Session) -> bool {
    ledger(store, session).0.words.first.is_some()
}

/// Returns how many bytes were left for the next time.
fn read_on(ledger: &mut Ledger, mut file: std::fs::File) -> std::io::Result<u64> {
    let len = file.metadata()?.len();
    if len < ledger.read_to() {
        // Rewritten or truncated: what we remember is of another file.
        *ledger = Ledger::default();
    }
    file.seek(SeekFrom::Start(ledger.read_to()))?;
    let backlog = len - ledger.read_to();
    ledger.read(BufReader::with_capacity(256 << 10, file.take(backlog.min(MAX_BACKLOG))))?;
    Ok(backlog.saturating_sub(MAX_BACKLOG))
}

/// The text of a handoff that the agent handed over: its file if it is still there, else our copy.
pub fn requested_text(request: &Request) -> anyhow::Result<String> {
    let now =
        request.path.as_deref().map(Path::new).and_then(|path| fs::read(path, MAX_DOCUMENT).ok().flatten());
    let bytes = match now {
        Some(bytes) => bytes,
        None => fs::read(Path::new(&request.copy), MAX_DOCUMENT)?
            .with_context(|| format!("neither the file nor its copy {} is there", request.copy))?,
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
