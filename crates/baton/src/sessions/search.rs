//! Looks through whole transcripts: lines that may match are parsed, told apart by who speaks, ranked, and shown once
//! even where several files hold them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_core::ids::SessionId;
use baton_core::plain::plain_line;
use baton_core::search::Query;
use baton_core::transcript::Provider;
use baton_core::transcript::passages::{Passage, Role, Turn, passages};
use jiff::Timestamp;
use memchr::{memchr, memmem, memrchr};

use super::mirrors;
use super::scan::{Progress, Wanted, scan};
use super::sources::Skipped;
use crate::store::mirror::{Generation, Part};
use crate::sys::fs;

/// Of a long text so much is kept on each side of what was found.
const AROUND: usize = 8 << 10;
/// The call of a tool stands close before its result.
const LOOK_BACK: u64 = 1 << 20;

/// What is looked for.
pub struct Request<'q> {
    pub query: &'q Query,
    pub role: Option<Role>,
    pub tool: Option<&'q str>,
    pub file: Option<&'q str>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    /// Past this the search ends: nobody reads more, and the newest are searched first.
    pub most: usize,
    pub now: Timestamp,
}

/// A file to look through.
pub struct Target {
    pub session: SessionId,
    pub provider: Provider,
    pub path: PathBuf,
    pub kind: Kind,
    pub size: u64,
    /// The generation of a mirror, which need not be one plain file.
    pub mirror: Option<Box<(Part, Generation)>>,
}

/// What a file is to its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Live,
    Subagent,
    Mirror,
}

/// One text that matches.
#[derive(Debug)]
pub struct Hit {
    pub session: SessionId,
    pub provider: Provider,
    pub path: PathBuf,
    pub kind: Kind,
    pub offset: u64,
    pub uuid: Option<String>,
    pub time: Option<Timestamp>,
    pub role: Role,
    pub tool: Option<String>,
    pub files: Vec<String>,
    /// The text around what was found, as it was written: neither plain nor redacted.
    pub text: String,
    pub score: u32,
    /// How often the same was found in this conversation or its copies.
    pub times: usize,
    same: u64,
}

#[derive(Debug, Default)]
pub struct Found {
    /// Best first.
    pub hits: Vec<Hit>,
    pub skipped: Vec<Skipped>,
    pub too_long: u64,
    /// There is more than was asked for.
    pub cut: bool,
}

/// Looks through `targets` in their order, on all processors.
pub fn search(targets: &[Target], request: &Request<'_>, progress: &Progress) -> Found {
    let wanted = Wanted::by(request.query);
    let (next, count) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let found = Mutex::new(Found::default());
    let work = || {
        let mut buffer = Vec::new();
        loop {
            let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            if progress.stop.load(Ordering::Relaxed) || count.load(Ordering::Relaxed) >= request.most {
                return;
            }
            let mut hits = Vec::new();
            let outcome = mirrors::open(target).and_then(|reader| {
                scan(reader, &wanted, &mut buffer, progress, |offset, line, before| {
                    if count.load(Ordering::Relaxed) < request.most {
                        count.fetch_add(
                            in_line(request, target, offset, line, before, &mut hits),
                            Ordering::Relaxed,
                        );
                    }
                })
            });
            let mut found = found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            found.hits.append(&mut hits);
            match outcome {
                Ok(too_long) => found.too_long += too_long,
                Err(e) => found.skipped.push(Skipped { path: target.path.clone(), why: why(&e) }),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..super::processors().min(targets.len()) {
            scope.spawn(work);
        }
    });
    let mut found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    found.cut = count.into_inner() >= request.most;
    found.hits = ranked(found.hits);
    found.skipped.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn why(e: &io::Error) -> String {
    if e.kind() == io::ErrorKind::NotFound { "it has vanished".to_owned() } else { e.to_string() }
}

/// The hits in one line; returns how many.
fn in_line(
    request: &Request<'_>,
    target: &Target,
    offset: u64,
    line: &[u8],
    before: &[u8],
    hits: &mut Vec<Hit>,
) -> usize {
    let Some(turn) = passages(target.provider, line) else { return 0 };
    let time = turn.time.as_deref().and_then(|t| t.parse::<Timestamp>().ok());
    let too_early = request.since.is_some_and(|since| time.is_none_or(|t| t < since));
    let too_late = request.until.is_some_and(|until| time.is_none_or(|t| t >= until));
    if too_early || too_late {
        return 0;
    }
    let Turn { uuid, sidechain, passages, .. } = turn;
    let known = hits.len();
    for mut passage in passages {
        if request.role.is_some_and(|role| role != passage.role) {
            continue;
        }
        let Some(found) = request.query.find(&passage.text) else { continue };
        resolve(&mut passage, target, offset, before);
        let is_tool = |tool: &str| passage.tool.as_deref().is_some_and(|t| t.eq_ignore_ascii_case(tool));
        if request.tool.is_some_and(|tool| !is_tool(tool))
            || request.file.is_some_and(|file| !passage.files.iter().any(|f| names(f, file)))
        {
            continue;
        }
        let aside = sidechain || target.kind == Kind::Subagent;
        hits.push(Hit {
            session: target.session.clone(),
            provider: target.provider,
            path: target.path.clone(),
            kind: target.kind,
            offset,
            uuid: uuid.as_deref().map(|id| plain_line(id, 100)),
            time,
            role: passage.role,
            same: same(&passage),
            score: score(found.score, passage.role, aside, time, request.now),
            text: around(&passage.text, &found.at).to_owned(),
            tool: passage.tool.as_deref().map(|tool| plain_line(tool, 60)),
            files: passage.files.iter().map(|file| plain_line(file, 1000)).collect(),
            times: 1,
        });
    }
    hits.len() - known
}

/// A result is told its tool by the call that it answers.
fn resolve(passage: &mut Passage, target: &Target, offset: u64, before: &[u8]) {
    let (None, Role::Tool, Some(id)) = (&passage.tool, passage.role, &passage.call) else { return };
    let call = call_in(before, target.provider, id).or_else(|| {
        // It is further back than the piece of the file that is being looked at; a mirror may not be a plain file.
        let from = offset.saturating_sub(LOOK_BACK);
        let mut bytes = vec![0; usize::try_from(offset - from).ok()?];
        let plain = target.kind != Kind::Mirror && before.len() as u64 != offset;
        fs::open_read(&target.path).ok().filter(|_| plain)?.read_exact_at(&mut bytes, from).ok()?;
        call_in(&bytes, target.provider, id)
    });
    if let Some(call) = call {
        (passage.tool, passage.files) = (call.tool, call.files);
    }
}

/// The last call with this id in `bytes`.
fn call_in(bytes: &[u8], provider: Provider, id: &str) -> Option<Passage> {
    let finder = memmem::FinderRev::new(id.as_bytes());
    let mut end = bytes.len();
    while let Some(at) = finder.rfind(&bytes[..end]) {
        if !is_own_id(&bytes[..at]) {
            end = at;
            continue;
        }
        let start = memrchr(b'\n', &bytes[..at]).map_or(0, |n| n + 1);
        let stop = memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |n| at + n);
        let turn = passages(provider, &bytes[start..stop]);
        let call = turn.and_then(|turn| {
            turn.passages.into_iter().find(|p| p.call.as_deref() == Some(id) && p.tool.is_some())
        });
        if call.is_some() {
            return call;
        }
        end = start;
    }
    None
}

/// Does what stands `before` an id say that it is a call's own? Whatever else speaks of the call is not parsed.
fn is_own_id(before: &[u8]) -> bool {
    let value = before.strip_suffix(b"\"").unwrap_or_default().trim_ascii_end();
    let key = value.strip_suffix(b":").unwrap_or_default().trim_ascii_end();
    key.ends_with(b"\"id\"") || key.ends_with(b"\"call_id\"")
}

/// `src/a.rs` names `/home/dev/app/src/a.rs`, and so does `a.rs`.
fn names(path: &str, wanted: &str) -> bool {
    let wanted = wanted.trim_start_matches("./");
    path == wanted || Path::new(path).ends_with(wanted)
}

fn score(found: u32, role: Role, aside: bool, time: Option<Timestamp>, now: Timestamp) -> u32 {
    let role = match role {
        Role::User => 30,
        Role::Assistant => 15,
        Role::Tool => 0,
    };
    let days = time.map_or(i64::MAX, |t| now.duration_since(t).as_hours().max(0) / 24);
    let recent = u32::try_from(140 / (7_i64.saturating_add(days))).unwrap_or(0);
    (found + role + recent).saturating_sub(if aside { 8 } else { 0 })
}

fn same(passage: &Passage) -> u64 {
    let mut hasher = DefaultHasher::new();
    (passage.role.as_str(), &passage.tool, &passage.text).hash(&mut hasher);
    hasher.finish()
}

/// What stands around `at`, cut between characters.
fn around<'t>(text: &'t str, at: &Range<usize>) -> &'t str {
    let (mut start, mut end) = (at.start.saturating_sub(AROUND), (at.end + AROUND).min(text.len()));
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    while !text.is_char_boundary(end) {
        end += 1;
    }
    &text[start..end]
}

/// The same words of the same conversation, or the same record in a copy of it, count once: a live transcript before its
/// mirror, the newest before older ones.
fn ranked(mut hits: Vec<Hit>) -> Vec<Hit> {
    hits.sort_by(|a, b| {
        let first = |h: &Hit| (h.kind == Kind::Mirror, h.kind == Kind::Subagent);
        first(a).cmp(&first(b)).then_with(|| b.time.cmp(&a.time)).then_with(|| a.offset.cmp(&b.offset))
    });
    let mut seen: HashMap<(u64, String), usize> = HashMap::new();
    let mut kept: Vec<Hit> = Vec::with_capacity(hits.len());
    for hit in hits {
        let keys = [Some(hit.session.to_string()), hit.uuid.clone()];
        let keys: Vec<_> = keys.into_iter().flatten().map(|who| (hit.same, who)).collect();
        if let Some(at) = keys.iter().find_map(|key| seen.get(key).copied()) {
            kept[at].times += 1;
            seen.extend(keys.into_iter().map(|key| (key, at)));
            continue;
        }
        seen.extend(keys.into_iter().map(|key| (key, kept.len())));
        kept.push(hit);
    }
    kept.sort_by(|a, b| b.score.cmp(&a.score).then_with(|| b.time.cmp(&a.time)));
    kept
}
