//! Conversations between machines: listed if their channel is shared, sent in pieces, and put together on arrival.
//!
//! A conversation is read from this machine's mirror and written into the other one's. Each piece is a parcel like any
//! other, so it survives kills on both sides, and asking again sends only what is missing.

#[cfg(feature = "fleet")]
mod serve;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use baton_core::fleet::MachineName;
use baton_core::fleet::conversation::{
    Ask, Chunk, Have, Head, MAX_CONVERSATION, PIECE, PartHead, SharedConversation,
};
use baton_core::fleet::envelope::Kind;
use baton_core::fleet::presence::Presence;
use baton_core::ids::SessionId;
use baton_core::session::Session;
use data_encoding::BASE64;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::fleet::config::Membership;
use crate::fleet::outbox::Outbox;
use crate::fleet::post::fresh_roll;
use crate::fleet::{folder, wake};
use crate::store::mirror::rest;
use crate::store::{Store, record};
use crate::sys::fs::{self, FileError};

#[cfg(feature = "fleet")]
pub(super) use serve::{answer, heed, receive};

/// How long a command waits for machines to list their shared conversations.
const PATIENCE: Duration = Duration::from_secs(3);
/// A question that nobody has answered for so long is not asked any more.
const GOOD_FOR: SignedDuration = SignedDuration::from_hours(24);

/// A machine's list of shared conversations.
#[derive(Debug, Serialize, Deserialize)]
struct ShelfRecord {
    machine: MachineName,
    heard: Timestamp,
    conversations: Vec<SharedConversation>,
}

/// A requested conversation, and the pieces that have arrived.
#[derive(Debug, Serialize, Deserialize)]
struct Coming {
    /// The version that the pieces are of.
    head: Option<Head>,
    /// When it was complete.
    done: Option<Timestamp>,
    refused: Option<(Timestamp, String)>,
}

/// A conversation of another machine.
pub(crate) struct RemoteConversation {
    pub machine: MachineName,
    pub heard: Timestamp,
    pub conversation: SharedConversation,
}

fn shelf_path(state: &Path, machine: &MachineName) -> PathBuf {
    folder(state).join("shelves").join(format!("{machine}.json"))
}

/// The conversations of a machine that were asked for.
fn coming_root(state: &Path, machine: &MachineName) -> PathBuf {
    folder(state).join("coming").join(machine.as_str())
}

fn coming_dir(state: &Path, machine: &MachineName, session: &SessionId) -> PathBuf {
    coming_root(state, machine).join(session.as_str())
}

fn coming(state: &Path, machine: &MachineName, session: &SessionId) -> Result<Option<Coming>, FileError> {
    record::read(&coming_dir(state, machine, session).join("coming.json"))
}

fn keep(state: &Path, machine: &MachineName, session: &SessionId, coming: &Coming) -> Result<(), FileError> {
    let dir = coming_dir(state, machine, session);
    fs::private_dir(&folder(state).join("coming"))?;
    fs::private_dir(&coming_root(state, machine))?;
    fs::private_dir(&dir)?;
    record::write(&dir.join("coming.json"), coming)
}

/// The pieces that are on disk.
fn pieces(dir: &Path) -> Result<Vec<u32>, FileError> {
    let files = fs::names(dir)?;
    Ok(files.iter().filter_map(|name| name.strip_suffix(".zst")?.parse().ok()).collect())
}

/// A conversation of this machine, ready to be sent.
pub(crate) struct Cut {
    pub head: Head,
    session: SessionId,
}

/// Prepares a session's conversation for sending. Refuses one that is too large or was not mirrored.
pub(crate) fn cut(store: &Store, session: &Session) -> anyhow::Result<Cut> {
    let mirrored = store.mirror().of(&session.id)?.with_context(|| {
        format!("nothing was mirrored of session {}; `mirror.enabled` may be off", session.id)
    })?;
    let mut parts = Vec::new();
    for part in &mirrored.parts {
        let Some(newest) = part.generations.last() else { continue };
        let mut reader = part.open(newest)?;
        let (bytes, sha256) = rest::digest(&mut reader, &mut |_| true)?;
        parts.push(PartHead { name: part.name.clone(), bytes, sha256 });
    }
    let head = Head {
        session: session.id.clone(),
        provider: session.provider.clone(),
        channel: session.channel.clone(),
        cwd: session.cwd.clone(),
        transcript: mirrored.meta.transcript.clone(),
        parts,
        at: Timestamp::now(),
    };
    head.check().with_context(|| {
        format!("the conversation of session {} does not go through the database ({MAX_CONVERSATION} bytes at most)", session.id)
    })?;
    Ok(Cut { head, session: session.id.clone() })
}

impl Cut {
    /// Puts these pieces into the outbox, without what was appended since the conversation was cut.
    pub(crate) fn send(
        &self,
        store: &Store,
        to: &MachineName,
        wanted: &[u32],
        now: Timestamp,
    ) -> anyhow::Result<()> {
        use std::io::Read as _;
        let mirrored = store.mirror().of(&self.session)?.context("its mirror has vanished")?;
        let mut whole: Box<dyn std::io::Read> = Box::new(std::io::empty());
        for part in &self.head.parts {
            let found = mirrored.parts.iter().find(|found| found.name == part.name);
            let (found, newest) = found
                .and_then(|found| Some((found, found.generations.last()?)))
                .with_context(|| format!("{} has vanished from its mirror", part.name))?;
            whole = Box::new(whole.chain(found.open(newest)?.take(part.bytes)));
        }
        for index in 0..self.head.pieces() {
            let mut raw = Vec::new();
            whole.by_ref().take(PIECE).read_to_end(&mut raw)?;
            if !wanted.contains(&index) {
                continue;
            }
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            let packed = ruzstd::encoding::compress_to_vec(raw.as_slice(), level);
            let chunk = Chunk { head: self.head.clone(), index, data: BASE64.encode(&packed) };
            let (body, channel) = (serde_json::to_value(chunk)?, Some(self.head.channel.clone()));
            Outbox::of(&store.state).put_of(to, Kind::Chunk, None, body, channel, now)?;
        }
        Ok(())
    }
}

/// Asks the machines that are awake what they share, and waits a moment; for sleeping ones, returns their last lists.
pub(crate) fn ask_all(state: &Path) -> anyhow::Result<Vec<RemoteConversation>> {
    let membership = Membership::required(state)?;
    let roll = fresh_roll(state)?
        .context("nothing was heard of other machines yet; `baton fleet status` tells why")?;
    let asked = Timestamp::now();
    let others: Vec<_> = roll
        .machines
        .into_iter()
        .filter(|m| m.name != membership.name && m.presence != Presence::Gone)
        .collect();
    for machine in others.iter().filter(|machine| machine.presence == Presence::Awake) {
        put(state, &machine.name, &Ask::List)?;
    }
    wake(state);
    let until = Instant::now() + PATIENCE;
    loop {
        let shelves: Vec<(bool, Option<ShelfRecord>)> = others
            .iter()
            .map(|m| Ok((m.presence == Presence::Awake, record::read(&shelf_path(state, &m.name))?)))
            .collect::<Result<_, FileError>>()?;
        let waits = |(is_awake, shelf): &(bool, Option<ShelfRecord>)| {
            *is_awake && shelf.as_ref().is_none_or(|shelf| shelf.heard < asked)
        };
        if shelves.iter().any(waits) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        }
        let listed = |shelf: ShelfRecord| {
            let (machine, heard) = (shelf.machine, shelf.heard);
            shelf.conversations.into_iter().map(move |conversation| RemoteConversation {
                machine: machine.clone(),
                heard,
                conversation,
            })
        };
        let mut all: Vec<RemoteConversation> =
            shelves.into_iter().filter_map(|(_, shelf)| shelf).flat_map(listed).collect();
        all.sort_by_key(|listed| std::cmp::Reverse(listed.conversation.last));
        return Ok(all);
    }
}

fn put(state: &Path, to: &MachineName, ask: &Ask) -> anyhow::Result<()> {
    let now = Timestamp::now();
    let body = serde_json::to_value(ask)?;
    Outbox::of(state).put(to, Kind::Ask, Some(now + GOOD_FOR), body, now)?;
    Ok(())
}

/// Tells all other machines to remove their copies of a channel.
#[cfg(feature = "fleet")]
pub(crate) fn ask_to_forget(state: &Path, channel: &baton_core::ids::ChannelName) -> anyhow::Result<usize> {
    let Some(membership) = Membership::read(state)? else { return Ok(0) };
    let roll = fresh_roll(state)?.map_or_else(Vec::new, |roll| roll.machines);
    let others = roll.into_iter().filter(|m| m.name != membership.name && m.presence != Presence::Gone);
    let mut told = 0;
    for machine in others {
        let body = serde_json::to_value(Ask::Forget { channel: channel.clone() })?;
        Outbox::of(state).put(&machine.name, Kind::Ask, None, body, Timestamp::now())?;
        told += 1;
    }
    wake(state);
    Ok(told)
}

/// Accepts pieces of this conversation from this machine.
pub(crate) fn expect(state: &Path, machine: &MachineName, session: &SessionId) -> anyhow::Result<()> {
    let head = match coming(state, machine, session)? {
        Some(known) if known.done.is_none() => return Ok(()),
        Some(known) => known.head,
        None => None,
    };
    Ok(keep(state, machine, session, &Coming { head, done: None, refused: None })?)
}

/// Asks for a conversation, or for the pieces of it that are missing.
pub(crate) fn ask_for(store: &Store, machine: &MachineName, session: &SessionId) -> anyhow::Result<()> {
    let state = &store.state;
    if let Some(mirrored) = store.mirror().of(session)? {
        anyhow::ensure!(
            mirrored.meta.fetched.is_some(),
            "{session} is a conversation of this machine already"
        );
    }
    expect(state, machine, session)?;
    let dir = coming_dir(state, machine, session);
    let head = coming(state, machine, session)?.and_then(|coming| coming.head);
    let have = match head {
        Some(head) => Some(Have { parts: head.parts, pieces: pieces(&dir)? }),
        None => None,
    };
    put(state, machine, &Ask::Conversation { session: session.clone(), have })?;
    wake(state);
    Ok(())
}

/// Why the machine refused, if it did so since `asked`.
pub(crate) fn refusal(
    state: &Path,
    machine: &MachineName,
    session: &SessionId,
    asked: Timestamp,
) -> anyhow::Result<Option<String>> {
    let refused = coming(state, machine, session)?.and_then(|coming| coming.refused);
    Ok(refused.filter(|(at, _)| *at >= asked).map(|(_, why)| why))
}

/// How many pieces are here, of how many; nothing before the first has come.
pub(crate) fn progress(
    store: &Store,
    machine: &MachineName,
    session: &SessionId,
    asked: Timestamp,
) -> anyhow::Result<Option<(usize, usize)>> {
    let Some(coming) = coming(&store.state, machine, session)? else { return Ok(None) };
    let Some(head) = &coming.head else { return Ok(None) };
    let all = usize::try_from(head.pieces()).unwrap_or(usize::MAX);
    if coming.done.is_some_and(|at| at >= asked) {
        return Ok(Some((all, all)));
    }
    let have = pieces(&coming_dir(&store.state, machine, session))?.len();
    Ok(Some((have.min(all.saturating_sub(1)), all)))
}
