//! Makes a handoff from a session: the agent's words if there are any, and always what the transcript proves.
//!
//! Continues reading the transcript where the last seal stopped, so that sealing a long session again costs only the
//! new part.

use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use baton_core::approval::{Answer, AnswerAuthor, CaseState, Verdict};
use baton_core::checkpoint::Checkpoint;
use baton_core::handoff::carried::{self, Carried};
use baton_core::handoff::render::goal_and_now;
use baton_core::handoff::{HandoffId, Header, Kind};
use baton_core::ids::AgentId;
use baton_core::ledger::{Ledger, Narrative, RECENT, TaskEnd, VERSION};
use baton_core::plain::plain;
use baton_core::redact::{redact, redact_json};
use baton_core::session::{PendingHandoff, PreCompact, Session};
use baton_core::transcript;
use jiff::Timestamp;

use crate::config::Config;
use crate::handoffs::{transcripts, transfer};
use crate::project::checkpoints;
use crate::providers::{self, Provider, settings};
use crate::store::handoffs::{Draft, Handoffs, MAX_DOCUMENT, Sealed};
use crate::store::mirror::MirroredSession;
use crate::store::{Store, record};
use crate::sys::fs;
use crate::sys::paths::Paths;

/// More than any transcript grew between two seals; reading it takes about half a second.
const MAX_BACKLOG: u64 = 96 << 20;

/// The contents of a seal.
pub(crate) struct Sealing<'a> {
    pub session: &'a Session,
    pub kind: Kind,
    /// The agent's own words, or the user's instructions for a compaction.
    pub narrative: Option<&'a str>,
    /// Addressed to the agent (or, before a compaction, to the session) it comes from.
    pub for_self: bool,
}

/// Another agent that the handoff is for.
pub(crate) struct Recipient<'a> {
    pub agent: &'a AgentId,
    pub provider: &'a Provider,
}

/// Composes and seals. When this returns, the handoff is safe.
pub(crate) fn seal(
    store: &Store,
    config: &Config,
    sealing: &Sealing<'_>,
    now: Timestamp,
) -> anyhow::Result<Sealed> {
    seal_with(store, config, sealing, None, None, now)
}

/// Like [`seal`], at the end of a turn whose last message the client reported.
pub(crate) fn seal_at_stop(
    store: &Store,
    config: &Config,
    sealing: &Sealing<'_>,
    last_message: Option<&str>,
    now: Timestamp,
) -> anyhow::Result<Sealed> {
    transcripts::catch_up_at_stop(sealing.session);
    seal_with(store, config, sealing, None, last_message, now)
}

/// Like [`seal`], addressed to another agent.
pub(crate) fn seal_for(
    store: &Store,
    config: &Config,
    sealing: &Sealing<'_>,
    reader: &Recipient<'_>,
    now: Timestamp,
) -> anyhow::Result<Sealed> {
    seal_with(store, config, sealing, Some(reader), None, now)
}

fn seal_with(
    store: &Store,
    config: &Config,
    sealing: &Sealing<'_>,
    reader: Option<&Recipient<'_>>,
    last_message: Option<&str>,
    now: Timestamp,
) -> anyhow::Result<Sealed> {
    let session = sealing.session;
    // Words that the agent handed over and that are not sealed yet, because a crash, a rotation or a ceiling came
    // first.
    let handed_over = session.request.as_ref().and_then(|request| {
        let words = requested_text(store, request);
        // Seal without them: the request stays, and carrying it out reports that they are missing.
        words.inspect_err(|e| store.log().fault(now, "read the handoff that was handed over", &e)).ok()
    });
    let pending = session.request.as_ref().filter(|_| sealing.narrative.is_none() && handed_over.is_some());
    let narrative = sealing.narrative.or(handed_over.as_deref());
    let mut handoffs = store.handoffs(config);
    handoffs.patience = std::time::Duration::from_millis(300);
    let (mut ledger, unread) = ledger(store, &handoffs, session);
    for reason in denials(store, session, now) {
        ledger.refused_by_user(&reason);
    }
    // The agent's own words stay with the task; instructions for a compaction and our notes do not.
    let own = if sealing.kind == Kind::Manual { sealing.narrative } else { handed_over.as_deref() };
    if let Some(text) = own {
        let agent = session.agent.to_string();
        ledger.narrative =
            Some(Narrative { text: text.trim().to_owned(), agent, cycle: ledger.cycle, at: now });
    }
    // Only an optimisation: without the snapshot the next seal reads more.
    if let Ok(mut snapshot) = serde_json::to_value(&ledger) {
        redact_json(&mut snapshot);
        let _ = record::write(&snapshot_path(store, session), &snapshot);
    }
    if let Some(text) = last_message {
        ledger.last_message(text);
    }
    // Set this after the snapshot, because the declaration may still be undone.
    if let Some(done) = &session.done {
        let by = if done.by == "user" {
            transcript::Author::User
        } else {
            transcript::Author::Agent(done.by.clone())
        };
        ledger.done = Some(TaskEnd { at: done.at, by });
    }
    let provider = reader.map_or_else(|| providers::of(&session.provider), |reader| reader.provider);
    let mut carried = compose(session, &sealing.kind, narrative, ledger, unread.as_deref(), provider, now);
    carried.wrote = own.is_some();
    let stored = carried.stored();
    let to_session = sealing.for_self && sealing.kind == Kind::Precompact;
    let sealed = handoffs.seal(
        &Draft {
            channel: &session.channel,
            session: &session.id,
            kind: sealing.kind.clone(),
            working_dir: &crate::project::channel::real(Path::new(&session.cwd)).display().to_string(),
            body: &carried.document(),
            created_by_pid: session.process.as_ref().map_or(0, |p| p.pid),
            for_agent: match reader {
                Some(reader) => Some(reader.agent),
                None => (sealing.for_self && !to_session).then_some(&session.agent),
            },
            for_session: to_session.then_some(&session.id),
            rotation: None,
            carried: Some(&stored),
        },
        now,
    )?;
    if config.checkpoints || sealing.kind == Kind::Manual {
        publish_checkpoint(config, session, &carried.ledger, now);
    }
    let id = sealed.entry.id.clone();
    store.sessions().update(&session.id, std::time::Duration::from_millis(300), |s| {
        s.last_handoff = Some(id);
        if pending.is_some() && s.request.as_ref() == pending {
            s.request = None;
        }
    })?;
    Ok(sealed)
}

/// Composes the handoff for a reader of this provider: the agent's words, the facts, and notes around them.
pub(crate) fn compose(
    session: &Session,
    kind: &Kind,
    narrative: Option<&str>,
    ledger: Ledger,
    unread: Option<&str>,
    reader: &Provider,
    now: Timestamp,
) -> Carried {
    let cwd = Path::new(&session.cwd);
    let from = carried::SourceSession {
        session: session.id.to_string(),
        agent: session.agent.to_string(),
        provider: session.provider.clone(),
        project: session.cwd.clone(),
        channel: session.channel.to_string(),
        kind: kind.clone(),
        at: now,
    };
    let differs = transfer::differences(providers::of(&session.provider), reader, cwd);
    let reader = carried::DocumentReader {
        spoken: reader.spoken,
        differs: differs.as_deref(),
        has_memory: Paths::from_env().is_ok_and(|paths| settings::has_memory_keeper(&paths, cwd)),
    };
    let notes = carried::Notes { background: &session.background, unread };
    Carried::compose(from, &reader, &notes, narrative, ledger)
}

/// Publishes a checkpoint for the other instances of the workflow, if they listen: a handoff creates the events folder
/// only if the configuration asks for it.
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
        // Named after the agent, so that it replaces nobody else's goal.
        session_name: Some(session.agent.to_string()),
        goal: clean(&goal),
        now: clean(&next),
        ..Checkpoint::default()
    };
    // A checkpoint is a convenience; the handoff is sealed even if it fails.
    let _ = checkpoints::publish(&project, &checkpoint, now);
}

/// The reasons for which the user denied this session's requests through baton, oldest first. The client gives the
/// agent the reason, but not its author.
fn denials(store: &Store, session: &Session, now: Timestamp) -> Vec<String> {
    let approvals = store.approvals();
    if !approvals.is_in_use() {
        return Vec::new();
    }
    let cases = match approvals.done_since(session.started.into()) {
        // One that cannot be read may be a denial. Seal without it and log that, because the handoff must not wait for
        // it.
        Ok(ids) => ids.into_iter().filter_map(|id| {
            approvals.get(&id).unwrap_or_else(|e| {
                store.log().fault(now, "read what the user denied", &e);
                None
            })
        }),
        Err(e) => {
            store.log().fault(now, "read what the user denied", &e);
            return Vec::new();
        }
    };
    let mut denials: Vec<(Timestamp, String)> = cases
        .filter(|case| case.request.session == session.id && case.state() != CaseState::TooLate)
        .filter_map(|case| match case.answer {
            Some(Answer { at, author: AnswerAuthor::User, verdict: Verdict::Deny { reason }, .. }) => {
                Some((at, reason))
            }
            _ => None,
        })
        .collect();
    denials.sort();
    denials.into_iter().map(|(_, reason)| reason).collect()
}

fn snapshot_path(store: &Store, session: &Session) -> PathBuf {
    store.state.join("ledgers").join(format!("{}.json", session.id))
}

/// The session's ledger, continued from where the last seal stopped, and why it is incomplete, if it is. The agent's
/// own words are sealed whatever happened to its transcript.
fn ledger(store: &Store, handoffs: &Handoffs, session: &Session) -> (Ledger, Option<String>) {
    let mut lost = None;
    let mut begin = || {
        let (ledger, why) = beginning(store, handoffs, session);
        lost = why;
        ledger
    };
    // Without a readable snapshot, read the transcript again.
    let snapshot: Option<Ledger> = record::read(&snapshot_path(store, session)).unwrap_or(None);
    let goes_on = |ledger: &Ledger| {
        let continues = session.continues.as_ref();
        ledger.version == VERSION
            && ledger.begins_at() == session.task_from.unwrap_or(0)
            && continues.is_none_or(|id| ledger.hops.iter().any(|hop| hop.handoff == id.as_str()))
    };
    let mut ledger = snapshot.filter(goes_on).unwrap_or_else(&mut begin);
    compacted(handoffs, session, &mut ledger);
    let read = |path: &Path| match fs::open_read(path).and_then(|file| read_on(&mut ledger, file, &mut begin))
    {
        Ok(0) => None,
        Ok(left) => Some(format!("{left} bytes of {} came too late to be read in time", path.display())),
        // The file need not exist yet; the document then says that there was nothing to read.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            match mirrored_ledger(store, session, begin()) {
                Ok(mirrored) => {
                    if let Some(mirrored) = mirrored {
                        ledger = mirrored;
                    }
                    None
                }
                Err(e) => Some(format!("{} is gone, and its mirror: {e}", path.display())),
            }
        }
        Err(e) => Some(format!("{}: {e}", path.display())),
    };
    let unread = session.transcript.as_deref().map(Path::new).and_then(read);
    // Items that a person struck from the task may have been read again.
    ledger.apply_strikes();
    let unread: Vec<String> = lost.into_iter().chain(unread).collect();
    (ledger, (!unread.is_empty()).then(|| unread.join("; ")))
}

/// Adds a compaction of this session, whose handoff it was given, as a hop of the task.
pub(crate) fn compacted(handoffs: &Handoffs, session: &Session, ledger: &mut Ledger) {
    // A compaction before the task began belongs to another task.
    let ours = |mark: &&PreCompact| session.task_from.is_none_or(|from| from <= mark.transcript_len);
    let mark = session.precompact.as_ref().filter(ours);
    let Some(id) = mark.and_then(|mark| mark.handoff.as_ref()) else { return };
    let was_given = match handoffs.entry(&session.channel, id) {
        Ok(entry) => entry.is_some_and(|entry| entry.consumed_by_session.as_ref() == Some(&session.id)),
        // Without the manifest we cannot know; the chain then has one hop less.
        Err(_) => false,
    };
    if let (true, Ok(Some(carried))) = (was_given, handoffs.carried(id)) {
        for hop in &carried.ledger.hops {
            ledger.hop(hop.clone());
        }
        ledger.hop(carried.hop(id));
    }
}

/// Strikes an item from the task that handoff `id` carries: from its record, and from the ledgers of the session that
/// sealed it and of those that continue it. Returns `false` if it carries no such item.
pub(crate) fn strike(store: &Store, config: &Config, id: &HandoffId, item: &str) -> anyhow::Result<bool> {
    let handoffs = store.handoffs(config);
    let Some(mut carried) = handoffs.carried(id)? else { return Ok(false) };
    if !carried.strike(item) {
        return Ok(false);
    }
    // Read all before anything changes: a ledger that is missed would bring the item back.
    let sessions = store.sessions().every()?;
    handoffs.keep_carried(id, &carried)?;
    for session in sessions {
        if session.continues.as_ref() != Some(id) && session.id.as_str() != carried.from.session {
            continue;
        }
        let path = snapshot_path(store, &session);
        if let Some(mut snapshot) = record::read::<Ledger>(&path)? {
            // Even if the item is not in this ledger, it must not come back when the record is read.
            snapshot.struck.push(item.to_owned());
            snapshot.apply_strikes();
            record::write(&path, &snapshot)?;
        }
    }
    Ok(true)
}

/// The ledger that a session begins with: that of the task it continues, or an empty one; and why the task is missing,
/// if it is.
pub(crate) fn beginning(store: &Store, handoffs: &Handoffs, session: &Session) -> (Ledger, Option<String>) {
    if let Some(offset) = session.task_from {
        return (Ledger::beginning_at(offset), None);
    }
    let Some(id) = &session.continues else {
        let parent = match store.agents().get(&session.agent) {
            Ok(agent) => agent.and_then(|agent| agent.parent).map(|parent| parent.to_string()),
            // We cannot know who started it, so its first prompt does not count as the user's.
            Err(_) => Some("somebody".to_owned()),
        };
        return (Ledger::new().started_by(parent.as_deref()), None);
    };
    let of_document = || -> anyhow::Result<Ledger> {
        let text = handoffs.show(id)?.context("it is gone")?;
        let (header, body) = Header::parse(&text)?;
        Ok(carried::next_of_document(id, body, header.session.as_str(), &header.kind, header.created))
    };
    let fault = |e: &dyn std::fmt::Display| {
        store.log().fault(Timestamp::now(), "read the task that a session continues", e);
    };
    match handoffs.carried(id) {
        Ok(Some(carried)) => return (carried.next(id), None),
        // An earlier version kept no record.
        Ok(None) => {}
        Err(e) => fault(&e),
    }
    match of_document() {
        Ok(ledger) => (ledger, None),
        Err(e) => {
            fault(&e);
            (Ledger::new(), Some(format!("{id}, and with it the task that it carried: {e}")))
        }
    }
}

/// Reads the mirror, if there is one, because the client has deleted its transcript.
fn mirrored_ledger(store: &Store, session: &Session, mut ledger: Ledger) -> anyhow::Result<Option<Ledger>> {
    let mirrored = store.mirror().of(&session.id)?;
    let Some((part, generation)) = mirrored.as_ref().and_then(MirroredSession::newest) else {
        return Ok(None);
    };
    let mut reader = part.open(generation)?;
    std::io::copy(&mut reader.by_ref().take(ledger.read_to()), &mut std::io::sink())?;
    ledger.read(BufReader::with_capacity(256 << 10, reader.take(MAX_BACKLOG)))?;
    Ok(Some(ledger))
}

/// Whether a person ever asked for something in this session or its task. Otherwise there is nothing to carry over. An
/// unreadable part may contain a request.
pub(crate) fn has_words(store: &Store, config: &Config, session: &Session) -> bool {
    let (ledger, unread) = ledger(store, &store.handoffs(config), session);
    ledger.words.first.is_some() || !ledger.hops.is_empty() || unread.is_some()
}

/// Reads the rest of the transcript. Returns how many bytes were left for the next time.
fn read_on(
    ledger: &mut Ledger,
    mut file: std::fs::File,
    begin: impl FnOnce() -> Ledger,
) -> std::io::Result<u64> {
    let len = file.metadata()?.len();
    if len < ledger.read_to() {
        // Rewritten or truncated: our ledger belongs to another file.
        *ledger = begin();
    }
    file.seek(SeekFrom::Start(ledger.read_to()))?;
    let backlog = len - ledger.read_to();
    ledger.recent_from(len.saturating_sub(RECENT));
    ledger.read(BufReader::with_capacity(256 << 10, file.take(backlog.min(MAX_BACKLOG))))?;
    Ok(backlog.saturating_sub(MAX_BACKLOG))
}

/// The text of a handoff that the agent handed over: its file if it is still there, else our copy. A file that exists
/// but cannot be read is logged, because the agent's changes since the copy are missing.
pub(crate) fn requested_text(store: &Store, request: &PendingHandoff) -> anyhow::Result<String> {
    let file = request.path.as_deref().map(|path| fs::read(Path::new(path), MAX_DOCUMENT));
    let now = file.transpose().unwrap_or_else(|e| {
        store.log().fault(Timestamp::now(), "read the agent's handoff again; its copy is used", &e);
        None
    });
    let bytes = match now.flatten() {
        Some(bytes) => bytes,
        None => fs::read(Path::new(&request.copy), MAX_DOCUMENT)?
            .with_context(|| format!("neither the file nor its copy {} is there", request.copy))?,
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
