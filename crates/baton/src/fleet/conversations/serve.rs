//! The daemon's handling of questions about conversations, of answers and of pieces.

use std::io::{Read as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use baton_core::fleet::MachineName;
use baton_core::fleet::conversation::{
    Answer, Ask, BadPiece, Chunk, Have, Head, MAX_LISTED, SharedConversation, Shelf,
};
use baton_core::fleet::envelope::Kind;
use baton_core::ids::{ChannelName, SessionId};
use data_encoding::BASE64;
use jiff::Timestamp;

use crate::config::Config;
use crate::fleet::conversations::{
    Coming, GOOD_FOR, ShelfRecord, coming, coming_dir, coming_root, cut, keep, pieces, shelf_path,
};
use crate::fleet::folder;
use crate::fleet::outbox::Outbox;
use crate::history::catalogue::{self, Titles};
use crate::project;
use crate::store::log::LogLine;
use crate::store::mirror::{Fetched, Meta, rest};
use crate::store::{Store, record};
use crate::sys::fs::FileError;
use crate::sys::paths::Paths;
use crate::sys::{copy, fs};

fn put_answer(state: &Path, to: &MachineName, answer: &Answer, now: Timestamp) -> anyhow::Result<()> {
    let body = serde_json::to_value(answer)?;
    Outbox::of(state).put(to, Kind::Answer, Some(now + GOOD_FOR), body, now)?;
    Ok(())
}

/// Answers another machine. Mentions only channels that this machine's user shares.
pub(in crate::fleet) fn answer(
    store: &Store,
    paths: &Paths,
    config: &Config,
    from: &MachineName,
    ask: &Ask,
    now: Timestamp,
) -> anyhow::Result<()> {
    match ask {
        Ask::List => {
            let shelf = Answer::Shelf(shelf(paths, config));
            put_answer(&store.state, from, &shelf, now)
        }
        Ask::Conversation { session, have } => {
            let given = give(store, config, from, session, have.as_ref(), now);
            given.or_else(|e| {
                let refused = Answer::Refused { session: session.clone(), why: format!("{e:#}") };
                put_answer(&store.state, from, &refused, now)
            })
        }
        Ask::Forget { channel } => {
            let conversations = forget(store, from, channel)?;
            let forgotten = Answer::Forgotten { channel: channel.clone(), conversations };
            put_answer(&store.state, from, &forgotten, now)
        }
    }
}

fn shelf(paths: &Paths, config: &Config) -> Shelf {
    if config.fleet.share.is_empty() {
        return Shelf::default();
    }
    let catalogue = catalogue::read(paths, config);
    let titles = Titles::new(&catalogue);
    let row = |row: &catalogue::Row| {
        let record = row.record.as_ref().filter(|record| config.fleet.share.contains(&record.channel))?;
        Some(SharedConversation {
            session: row.source.id.clone(),
            provider: row.provider().to_owned(),
            channel: ChannelName::new(record.channel.as_str()).ok()?,
            project: project::name(&row.cwd()),
            title: titles.of(row).to_owned(),
            last: row.last(),
            bytes: row.source.stamp.size,
        })
    };
    Shelf { conversations: catalogue.rows.iter().filter_map(row).take(MAX_LISTED).collect() }
}

fn give(
    store: &Store,
    config: &Config,
    to: &MachineName,
    session: &SessionId,
    have: Option<&Have>,
    now: Timestamp,
) -> anyhow::Result<()> {
    // Use the same words for a missing conversation and one that is not shared.
    let record = store.sessions().get(session)?;
    let record =
        record.filter(|record| config.fleet.share.iter().any(|name| name == record.channel.as_str()));
    let record = record.context("it shares no such conversation")?;
    let cut = cut(store, &record)?;
    cut.send(store, to, &cut.head.missing(have), now)
}

/// Removes the copies of a channel of `from`.
fn forget(store: &Store, from: &MachineName, channel: &ChannelName) -> anyhow::Result<usize> {
    let mirror = store.mirror();
    let mut removed = 0;
    for session in mirror.every_session()? {
        let fetched = mirror.meta(&session)?.fetched;
        if fetched.is_some_and(|it| it.machine == from.as_str() && it.channel == channel.as_str()) {
            mirror.remove(&session)?;
            removed += 1;
        }
    }
    // Remove incomplete ones as well.
    for session in fs::names(&coming_root(&store.state, from))? {
        let Ok(session) = SessionId::new(session) else { continue };
        let head = coming(&store.state, from, &session)?.and_then(|coming| coming.head);
        if head.is_some_and(|head| head.channel == *channel) {
            remove_coming(&coming_dir(&store.state, from, &session))?;
        }
    }
    let path = shelf_path(&store.state, from);
    if let Some(mut shelf) = record::read::<ShelfRecord>(&path)? {
        shelf.conversations.retain(|it| it.channel != *channel);
        record::write(&path, &shelf)?;
    }
    Ok(removed)
}

fn remove_coming(dir: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("could not remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}

/// Stores another machine's answer.
pub(in crate::fleet) fn heed(
    store: &Store,
    from: &MachineName,
    answer: Answer,
    now: Timestamp,
) -> anyhow::Result<()> {
    match answer {
        Answer::Shelf(shelf) => {
            let mut conversations = shelf.conversations;
            conversations.truncate(MAX_LISTED);
            fs::private_dir(&folder(&store.state).join("shelves"))?;
            let shelf = ShelfRecord { machine: from.clone(), heard: now, conversations };
            record::write(&shelf_path(&store.state, from), &shelf)?;
        }
        Answer::Refused { session, why } => {
            if let Some(before) = coming(&store.state, from, &session)? {
                let refused = Some((now, baton_core::plain::plain_line(&why, 300)));
                keep(&store.state, from, &session, &Coming { refused, ..before })?;
            }
        }
        Answer::Forgotten { channel, conversations } => {
            let detail = serde_json::json!({ "machine": from, "channel": channel, "removed": conversations });
            let line = LogLine::new(now, "fleet-forgotten");
            store.log().append(&LogLine { detail, ..line });
        }
    }
    Ok(())
}

/// Takes in a piece; with the last one the conversation is put together. The inner error is about the piece.
pub(in crate::fleet) fn receive(
    store: &Store,
    from: &MachineName,
    chunk: &Chunk,
    now: Timestamp,
) -> anyhow::Result<Result<(), BadPiece>> {
    if let Err(why) = chunk.check() {
        return Ok(Err(why));
    }
    let (state, session) = (&store.state, &chunk.head.session);
    let Some(mut coming) = coming(state, from, session)? else { return Ok(Err(BadPiece::Unasked)) };
    let dir = coming_dir(state, from, session);
    if coming.done.is_some() {
        // It is complete; pieces repeated after a restore of the database change nothing.
        let is_same = coming.head.as_ref().is_some_and(|head| head.parts == chunk.head.parts);
        remove_pieces(&dir)?;
        return Ok(if is_same { Ok(()) } else { Err(BadPiece::Unasked) });
    }
    match &coming.head {
        Some(head) if head.parts == chunk.head.parts => {}
        // A piece of a version that was replaced.
        Some(head) if head.at > chunk.head.at => return Ok(Ok(())),
        _ => {
            remove_pieces(&dir)?;
            coming.head = Some(chunk.head.clone());
            keep(state, from, session, &coming)?;
        }
    }
    let Ok(packed) = BASE64.decode(chunk.data.as_bytes()) else { return Ok(Err(BadPiece::Content)) };
    if unpack(&packed, chunk.head.length(chunk.index)).is_none() {
        return Ok(Err(BadPiece::Content));
    }
    fs::replace(&dir.join(format!("{}.zst", chunk.index)), &packed, fs::PRIVATE, fs::Sync::Yes)?;
    if pieces(&dir)?.len() < usize::try_from(chunk.head.pieces()).unwrap_or(usize::MAX) {
        return Ok(Ok(()));
    }
    if let Err(why) = put_together(store, from, &chunk.head, &dir)? {
        // A new request fetches it again.
        remove_coming(&dir)?;
        return Ok(Err(why));
    }
    // Before the pieces go: without them it would be missing again after a kill.
    coming.done = Some(now);
    keep(state, from, session, &coming)?;
    remove_pieces(&dir)?;
    Ok(Ok(()))
}

fn remove_pieces(dir: &Path) -> Result<(), FileError> {
    for index in pieces(dir)? {
        fs::remove(&dir.join(format!("{index}.zst")))?;
    }
    Ok(())
}

/// The content of a piece, if it has this length.
fn unpack(packed: &[u8], length: u64) -> Option<Vec<u8>> {
    if packed.is_empty() && length == 0 {
        return Some(Vec::new());
    }
    let decoder = ruzstd::decoding::StreamingDecoder::new(packed).ok()?;
    let mut raw = Vec::new();
    // One byte more shows that it is longer than it says.
    decoder.take(length + 1).read_to_end(&mut raw).ok()?;
    (raw.len() as u64 == length).then_some(raw)
}

fn put_together(
    store: &Store,
    from: &MachineName,
    head: &Head,
    dir: &Path,
) -> anyhow::Result<Result<(), BadPiece>> {
    let mirror = store.mirror();
    let folder = mirror.folder_for_import();
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("could not empty {}", folder.display()))?;
    }
    fs::private_dir(folder.parent().unwrap_or(&folder))?;
    fs::private_dir(&folder)?;
    let mut raw = Vec::new();
    for index in 0..head.pieces() {
        let path = dir.join(format!("{index}.zst"));
        let packed = std::fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
        let Some(piece) = unpack(&packed, head.length(index)) else { return Ok(Err(BadPiece::Content)) };
        raw.extend(piece);
    }
    let mut rest = raw.as_slice();
    for part in &head.parts {
        let (own, after) = rest.split_at(usize::try_from(part.bytes).unwrap_or(0).min(rest.len()));
        rest = after;
        let (_, sum) = rest::digest(&mut &*own, &mut |_| true)?;
        if sum != part.sha256 {
            std::fs::remove_dir_all(&folder).ok();
            return Ok(Err(BadPiece::Digest(part.name.clone())));
        }
        let mut file = copy::private_file(&folder.join(format!("{}.jsonl", part.name)))?;
        file.write_all(own)?;
        file.sync_all()?;
    }
    let fetched = Fetched { machine: from.to_string(), channel: head.channel.to_string() };
    let meta = Meta {
        provider: head.provider.clone(),
        transcript: head.transcript.clone(),
        cwd: head.cwd.clone(),
        fetched: Some(fetched),
        ..Meta::default()
    };
    if !mirror.admit(&head.session, &folder, &meta)? {
        std::fs::remove_dir_all(&folder).with_context(|| format!("could not remove {}", folder.display()))?;
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use baton_core::fleet::conversation::{PIECE, PartHead};

    use super::*;
    use crate::fleet::conversations::expect;

    /// The pieces of a conversation of two parts of the channel `app`.
    fn chunks(parts: [&[u8]; 2]) -> Vec<Chunk> {
        let part = |(name, raw): (&str, &[u8])| {
            let (bytes, sha256) = rest::digest(&mut &*raw, &mut |_| true).unwrap();
            PartHead { name: name.into(), bytes, sha256 }
        };
        let head = Head {
            session: SessionId::new("11111111-2222-4333-8444-555555555555").unwrap(),
            provider: "claude".into(),
            channel: ChannelName::new("app").unwrap(),
            cwd: "/p".into(),
            transcript: "/t.jsonl".into(),
            parts: ["main", "agent-1"].into_iter().zip(parts).map(part).collect(),
            at: Timestamp::now(),
        };
        let whole = parts.concat();
        let packed =
            |raw: &[u8]| ruzstd::encoding::compress_to_vec(raw, ruzstd::encoding::CompressionLevel::Fastest);
        let pieces = whole.chunks(usize::try_from(PIECE).unwrap()).zip(0..);
        pieces
            .map(|(raw, index)| Chunk { head: head.clone(), index, data: BASE64.encode(&packed(raw)) })
            .collect()
    }

    fn store(dir: &tempfile::TempDir) -> (Store, MachineName) {
        let store = Store { state: dir.path().join("state"), claude: dir.path().join("claude") };
        (store, MachineName::new("desk").unwrap())
    }

    #[test]
    fn a_piece_that_a_kill_has_left_of_a_complete_conversation_goes_when_it_comes_again() {
        let dir = tempfile::tempdir().unwrap();
        let ((store, from), now) = (store(&dir), Timestamp::now());
        let chunks = chunks([b"{\"type\":\"user\"}\n", b"{}\n"]);
        let [chunk] = &chunks[..] else { panic!("it is small") };
        let (state, session) = (&store.state, &chunk.head.session);
        assert_eq!(receive(&store, &from, chunk, now).unwrap(), Err(BadPiece::Unasked));
        expect(state, &from, session).unwrap();
        let pieces_dir = coming_dir(state, &from, session);
        for _ in 0..2 {
            assert_eq!(receive(&store, &from, chunk, now).unwrap(), Ok(()));
            assert!(coming(state, &from, session).unwrap().unwrap().done.is_some());
            assert_eq!(pieces(&pieces_dir).unwrap(), [0_u32; 0]);
            // Killed before it was removed: it is still in the mailbox.
            std::fs::write(pieces_dir.join("0.zst"), "left").unwrap();
        }
    }

    #[test]
    fn a_channel_that_is_forgotten_leaves_no_piece_of_a_conversation_that_is_not_whole_yet() {
        let dir = tempfile::tempdir().unwrap();
        let ((store, from), now) = (store(&dir), Timestamp::now());
        let long = vec![b'x'; usize::try_from(PIECE).unwrap()];
        let chunks = chunks([&long, b"{}\n"]);
        let (state, session) = (&store.state, &chunks[0].head.session);
        expect(state, &from, session).unwrap();
        assert_eq!(receive(&store, &from, &chunks[0], now).unwrap(), Ok(()));
        assert_eq!(pieces(&coming_dir(state, &from, session)).unwrap(), [0]);
        forget(&store, &from, &ChannelName::new("other").unwrap()).unwrap();
        assert_eq!(pieces(&coming_dir(state, &from, session)).unwrap(), [0]);
        forget(&store, &from, &chunks[0].head.channel).unwrap();
        assert!(!coming_dir(state, &from, session).exists());
        assert_eq!(receive(&store, &from, &chunks[1], now).unwrap(), Err(BadPiece::Unasked));
    }
}
