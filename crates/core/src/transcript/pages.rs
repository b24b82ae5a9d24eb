//! A conversation in pages from the end of its transcript, so that a hundred megabytes cost as much as one.

use std::io::{self, Read, Seek, SeekFrom};

use serde::{Deserialize, Serialize};

use super::entries::{Conversation, ConversationEntry};

/// The first read of a page; it grows until the page is full.
const FIRST: u64 = 128 << 10;
/// How many bytes to search for a page. A longer stretch without an entry gives an empty page with a cursor.
const REACH: u64 = 32 << 20;
/// How far after a page to look for the outcomes of its last calls.
const AHEAD: u64 = 1 << 20;

/// Entries in their order, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ConversationPage {
    pub entries: Vec<ConversationEntry>,
    /// There are more in the direction that was asked for: older ones, or with `after` newer ones.
    pub more: bool,
    /// The offset for the next request in that direction; `None` at the end.
    pub next: Option<u64>,
}

/// Which part of the conversation is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageRange {
    Newest,
    /// The entries before the record at this offset.
    Before(u64),
    /// The entries after it.
    After(u64),
}

/// About `limit` entries of a transcript, which may grow meanwhile. The entries of one record are never split.
pub fn page<R: Read + Seek>(
    transcript: &mut R,
    part: PageRange,
    limit: usize,
) -> io::Result<ConversationPage> {
    let len = transcript.seek(SeekFrom::End(0))?;
    let head = first_line(transcript, len)?;
    match part {
        PageRange::Newest => backward(transcript, &head, len, len, limit),
        PageRange::Before(offset) => backward(transcript, &head, offset.min(len), len, limit),
        PageRange::After(offset) => forward(transcript, &head, offset, len, limit),
    }
}

/// The first line of a transcript: a rollout needs it to understand the others.
pub fn first_line<R: Read + Seek>(transcript: &mut R, len: u64) -> io::Result<Vec<u8>> {
    let mut head = read(transcript, 0, len.min(64 << 10))?;
    let end = memchr::memchr(b'\n', &head).unwrap_or(0);
    head.truncate(end);
    Ok(head)
}

fn read<R: Read + Seek>(transcript: &mut R, start: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
    transcript.seek(SeekFrom::Start(start))?;
    transcript.take(len).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The entries of whole lines in `bytes`, which begin at `start`, perhaps in the middle of a line.
fn parse(head: &[u8], bytes: &[u8], start: u64, is_whole: bool) -> io::Result<(Conversation, u64)> {
    let skipped = if is_whole { 0 } else { memchr::memchr(b'\n', bytes).map_or(bytes.len(), |n| n + 1) };
    let from = start + skipped as u64;
    let mut conversation = Conversation::new(usize::MAX, from).knowing(head);
    conversation.read(&bytes[skipped..])?;
    Ok((conversation, from))
}

fn backward<R: Read + Seek>(
    transcript: &mut R,
    head: &[u8],
    end: u64,
    len: u64,
    limit: usize,
) -> io::Result<ConversationPage> {
    let mut size = FIRST;
    loop {
        let start = end.saturating_sub(size);
        let bytes = read(transcript, start, end - start)?;
        let (mut conversation, mut from) = parse(head, &bytes, start, start == 0)?;
        let is_enough = conversation.entries().count() >= limit || start == 0 || size >= REACH;
        if !is_enough {
            size *= 4;
            continue;
        }
        if end < len && conversation.has_open_calls() {
            conversation.settle(&read(transcript, end, AHEAD.min(len - end))?);
        }
        let mut entries: Vec<ConversationEntry> = conversation.into_entries();
        if entries.len() > limit {
            // A whole record at a time.
            let mut first = entries.len() - limit;
            while first > 0 && entries[first].offset == entries[first - 1].offset {
                first -= 1;
            }
            from = entries[first].offset;
            entries.drain(..first);
        }
        // A line longer than our reach is skipped in pieces.
        let from = if from >= end { start } else { from };
        return Ok(ConversationPage { entries, more: from > 0, next: (from > 0).then_some(from) });
    }
}

fn forward<R: Read + Seek>(
    transcript: &mut R,
    head: &[u8],
    offset: u64,
    len: u64,
    limit: usize,
) -> io::Result<ConversationPage> {
    if offset >= len {
        return Ok(ConversationPage::default());
    }
    let bytes = read(transcript, offset, REACH.min(len - offset))?;
    let mut entries = parse(head, &bytes, offset, false)?.0.into_entries();
    let mut more = offset + (bytes.len() as u64) < len;
    if entries.len() > limit {
        let mut last = limit;
        while last < entries.len() && entries[last].offset == entries[last - 1].offset {
            last += 1;
        }
        more |= last < entries.len();
        entries.truncate(last);
    }
    let next = entries.last().filter(|_| more).map(|entry| entry.offset);
    Ok(ConversationPage { entries, more, next })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use serde_json::{Value, json};

    use super::*;
    use crate::transcript::entries::EntryKind;

    #[expect(clippy::needless_pass_by_value, reason = "callers write json!(…)")]
    fn line(n: u32, kind: &str, content: Value) -> String {
        let record = json!({
            "type": kind, "uuid": format!("u{n}"), "timestamp": format!("2026-11-17T04:00:{:02}Z", n % 60),
            "message": { "id": format!("m{n}"), "role": kind, "content": content },
        });
        format!("{record}\n")
    }

    fn call(n: u32, id: &str, command: &str) -> String {
        line(
            n,
            "assistant",
            json!([{ "type": "tool_use", "id": id, "name": "Bash", "input": { "command": command } }]),
        )
    }

    fn result(n: u32, id: &str, output: &str) -> String {
        line(n, "user", json!([{ "type": "tool_result", "tool_use_id": id, "content": output }]))
    }

    fn newest(text: &str, limit: usize) -> ConversationPage {
        page(&mut Cursor::new(text.as_bytes()), PageRange::Newest, limit).unwrap()
    }

    #[test]
    fn pages_backward_and_forward_give_every_entry_once() {
        let mut text = String::new();
        for n in 0..400 {
            text += &line(n * 3, "user", json!(format!("prompt {n}")));
            text += &call(n * 3 + 1, &format!("t{n}"), &format!("run {n}"));
            // Some outputs are far longer than the first read of a page.
            let output = if n % 50 == 7 { "x".repeat(200_000) } else { "ok".to_owned() };
            text += &result(n * 3 + 2, &format!("t{n}"), &output);
        }
        let mut file = Cursor::new(text.as_bytes());
        let whole = page(&mut file, PageRange::Newest, usize::MAX).unwrap().entries;
        assert_eq!(whole.len(), 800);
        assert!(whole.iter().all(|e| !matches!(e.act, EntryKind::Tool { result: None, .. })));
        assert_eq!(whole[1].seconds(), Some(1));
        for limit in [1, 7, 100] {
            let (mut part, mut back) = (PageRange::Newest, Vec::new());
            loop {
                let got = page(&mut file, part, limit).unwrap();
                back.splice(0..0, got.entries);
                match got.next {
                    Some(next) => part = PageRange::Before(next),
                    None => break,
                }
            }
            assert_eq!(back, whole, "backward by {limit}");
            let (mut at, mut forth) = (whole[0].offset, vec![whole[0].clone()]);
            loop {
                let got = page(&mut file, PageRange::After(at), limit).unwrap();
                forth.extend(got.entries);
                match got.next {
                    Some(next) => at = next,
                    None => break,
                }
            }
            let offsets = |of: &[ConversationEntry]| of.iter().map(|e| e.offset).collect::<Vec<_>>();
            assert_eq!(offsets(&forth), offsets(&whole), "forward by {limit}");
        }
    }

    #[test]
    fn a_torn_last_line_and_garbage_are_skipped() {
        let text = line(1, "user", json!("hello")) + "garbage\n" + &line(2, "user", json!("again"))[..40];
        assert_eq!(newest(&text, 9).entries.len(), 1);
        assert_eq!(newest("", 9), ConversationPage::default());
        assert_eq!(newest("\n\n\n", 9).entries, []);
    }

    #[test]
    fn a_rollout_is_read_the_same_way_and_from_its_middle_too() {
        let item = |second: u32, payload: Value| {
            let at = format!("2026-11-17T04:00:{second:02}Z");
            format!("{}\n", json!({ "timestamp": at, "type": "response_item", "payload": payload }))
        };
        let said = |text: String| json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] });
        let mut text = format!(
            "{}\n",
            json!({ "timestamp": "2026-11-17T04:00:00Z", "type": "session_meta",
                "payload": { "id": "x", "cwd": "/p" } })
        );
        text += &item(1, said("x".repeat(400_000)));
        text += &item(2, said("Port it.".to_owned()));
        let call = json!({ "type": "function_call", "name": "exec_command", "call_id": "c",
            "arguments": "{\"cmd\":\"ls\"}" });
        text += &item(3, call);
        text += &item(5, json!({ "type": "function_call_output", "call_id": "c", "output": "src" }));
        let told = newest(&text, 2);
        assert_eq!(told.entries[0].act, EntryKind::Prompt { from: "user".into(), text: "Port it.".into() });
        assert!(
            matches!(&told.entries[1].act, EntryKind::Tool { text, result: Some(r), .. } if text == "$ ls" && !r.failed)
        );
        assert_eq!(told.entries[1].seconds(), Some(2));
    }
}
