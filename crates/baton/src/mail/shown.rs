//! Finds out whether the transcript shows what a hook or an attendant gave the agent, by the word of its fence. A bare
//! id may be a quotation.

use std::cell::LazyCell;
use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use baton_core::session::Session;

use crate::store::Store;
use crate::sys::fs;

/// How much of a transcript to search.
const MOST: u64 = 8 << 20;
/// The same in a hook that runs at every tool call. In front of what a prompt was given are the prompt itself and, in a
/// fresh context, the client's notes: tens of kilobytes about tools and skills.
const MOST_HOT: u64 = 128 << 10;

/// How much of the transcript may be searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Hot,
    Far,
}

/// Whether a transcript shows something that was given with a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Shown,
    Dropped,
    /// There is more of the transcript than may be searched.
    Unknown,
}

/// Judges what hooks gave with prompts by the part of the transcript written since. What waits in the client's queue
/// does not count as shown, because it may be taken back. Without a readable transcript everything counts as shown.
pub(crate) fn since_given(
    store: &Store,
    session: &Session,
    reach: Reach,
) -> impl Fn(&str) -> Verdict + use<> {
    let most = if reach == Reach::Hot { MOST_HOT } else { MOST };
    let part =
        session.transcript.as_deref().map(|path| Part::read(Path::new(path), session.given_from, most));
    let key = store.fence();
    move |id| match &part {
        Some(Ok(part)) => match place_of(&part.bytes, key.word(id).as_bytes()) {
            Place::Conversation => Verdict::Shown,
            Place::Queue | Place::Nowhere if part.reaches_end || reach == Reach::Far => Verdict::Dropped,
            Place::Queue | Place::Nowhere => Verdict::Unknown,
        },
        // The client makes the file with the first turn.
        Some(Err(e)) if e.kind() == io::ErrorKind::NotFound => Verdict::Dropped,
        None | Some(Err(_)) => Verdict::Shown,
    }
}

/// Whether the end of the transcript shows a message, in the conversation or in the client's queue. The transcript is
/// read for the first message only. One that cannot be read shows nothing: a message comes twice rather than never.
pub(crate) fn at_the_end<'a>(store: &'a Store, session: &'a Session) -> impl Fn(&str) -> bool + 'a {
    let part = LazyCell::new(|| Part::read(Path::new(session.transcript.as_deref()?), None, MOST).ok());
    let key = LazyCell::new(|| store.fence());
    move |id| {
        let place = part.as_ref().map(|part| place_of(&part.bytes, key.word(id).as_bytes()));
        place.is_some_and(|place| place != Place::Nowhere)
    }
}

/// A part of a transcript.
struct Part {
    bytes: Vec<u8>,
    /// Nothing follows it.
    reaches_end: bool,
}

impl Part {
    /// At most `most` bytes: those behind `from`, or else the last ones.
    fn read(path: &Path, from: Option<u64>, most: u64) -> io::Result<Self> {
        let (file, about) = fs::open_regular(path)?;
        let len = about.len();
        // A shorter file is another one.
        let start = from.filter(|from| *from <= len);
        let part = start.unwrap_or(len.saturating_sub(most))..len;
        let size = (part.end - part.start).min(most);
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut bytes, part.start)?;
        let is_all = if start.is_some() { part.start + size == len } else { size == len };
        Ok(Self { bytes, reaches_end: is_all })
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    Conversation,
    /// The client holds it and has not begun its turn.
    Queue,
    Nowhere,
}

/// Where a transcript shows this word. What the client has taken from its queue is in the conversation, or was taken back
/// before its turn began.
fn place_of(transcript: &[u8], word: &[u8]) -> Place {
    let has = |line: &[u8], mark: &[u8]| memchr::memmem::find(line, mark).is_some();
    if !has(transcript, word) {
        return Place::Nowhere;
    }
    let mut queue = VecDeque::new();
    for line in transcript.split(|byte| *byte == b'\n') {
        if !has(line, b"\"queue-operation\"") {
            if has(line, word) {
                return Place::Conversation;
            }
        } else if has(line, b"\"enqueue\"") {
            queue.push_back(has(line, word));
        } else {
            queue.pop_front();
        }
    }
    if queue.contains(&true) { Place::Queue } else { Place::Nowhere }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_took_from_its_queue_and_never_showed_is_nowhere() {
        let enqueue =
            |text: &str| format!(r#"{{"type":"queue-operation","operation":"enqueue","content":"{text}"}}"#);
        let dequeue = r#"{"type":"queue-operation","operation":"dequeue"}"#.to_owned();
        let shown = r#"{"type":"user","message":{"content":"word"}}"#.to_owned();
        let place = |lines: &[&String]| {
            let text: Vec<&str> = lines.iter().map(|line| line.as_str()).collect();
            place_of(text.join("\n").as_bytes(), b"word")
        };
        let (other, ours) = (enqueue("another"), enqueue("word"));
        assert_eq!(place(&[&other, &ours]), Place::Queue);
        assert_eq!(place(&[&other, &ours, &dequeue]), Place::Queue, "the first one was taken");
        assert_eq!(place(&[&other, &ours, &dequeue, &dequeue]), Place::Nowhere);
        assert_eq!(place(&[&ours, &dequeue, &shown]), Place::Conversation);
        assert_eq!(place(&[&other]), Place::Nowhere);
    }
}
