//! Searches whole transcripts: parses the lines that may match, determines the speaker, ranks the matches, and merges
//! those from several files.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use baton_core::ids::SessionId;
use baton_core::plain::plain_line;
use baton_core::search::Query;
use baton_core::transcript::Dialect;
use baton_core::transcript::passages::{LinePassages, Passage, Role, passages};
use jiff::Timestamp;
use memchr::{memchr, memmem, memrchr};

use crate::history::mirrors;
use crate::history::scan::{Prefilter, SearchProgress, scan};
use crate::history::scope::SearchScope;
use crate::history::sources::Skipped;
use crate::history::{Catalogue, TranscriptFile};
use crate::store::mirror::{Generation, Mirror, MirrorPart};
use crate::sys::fs;

/// The search ends after this many hits. The newest transcripts come first.
pub(crate) const MOST: usize = 2_000;
/// How much of a long text is kept on each side of a match.
const AROUND: usize = 8 << 10;
/// How far before its result to look for a tool's call.
const LOOK_BACK: u64 = 1 << 20;

/// A search request.
pub(crate) struct SearchRequest<'q> {
    pub query: &'q Query,
    pub role: Option<Role>,
    pub tool: Option<&'q str>,
    pub file: Option<&'q str>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    /// The search ends after this many hits: nobody reads more, and the newest files come first.
    pub most: usize,
    pub now: Timestamp,
}

/// A file to search.
pub(crate) struct Target {
    pub session: SessionId,
    pub provider: Dialect,
    pub path: PathBuf,
    pub kind: TargetKind,
    pub size: u64,
    /// A mirror's generation, which may be spread over several files.
    pub mirror: Option<Box<(MirrorPart, Generation)>>,
}

/// The kind of file within its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetKind {
    Live,
    Subagent,
    Mirror,
}

/// One matching text.
#[derive(Debug)]
pub(crate) struct SearchHit {
    pub session: SessionId,
    pub provider: Dialect,
    pub path: PathBuf,
    pub kind: TargetKind,
    pub offset: u64,
    pub uuid: Option<String>,
    pub time: Option<Timestamp>,
    pub role: Role,
    pub tool: Option<String>,
    pub files: Vec<String>,
    /// The text around the match, as written: not plain, not redacted.
    pub text: String,
    pub score: u32,
    /// How often this text occurs in the conversation or its copies.
    pub times: usize,
    /// A hash of speaker and text.
    fingerprint: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Results {
    /// Best first.
    pub hits: Vec<SearchHit>,
    pub skipped: Vec<Skipped>,
    /// Lines skipped for being longer than any record.
    pub too_long: u64,
    /// There may be more hits than requested.
    pub cut: bool,
}

/// Searches `targets` in order, on all processors.
pub(crate) fn search(targets: &[Target], request: &SearchRequest<'_>, progress: &SearchProgress) -> Results {
    let prefilter = Prefilter::new(request.query);
    let (next, count) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results = Mutex::new(Results::default());
    let work = || {
        let mut buffer = Vec::new();
        loop {
            let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            if progress.stop.load(Ordering::Relaxed) || count.load(Ordering::Relaxed) >= request.most {
                return;
            }
            let mut hits = Vec::new();
            let outcome = mirrors::open(target).and_then(|reader| {
                scan(reader, &prefilter, &mut buffer, progress, |offset, line, before| {
                    if count.load(Ordering::Relaxed) < request.most {
                        let found = search_line(request, target, offset, line, before, &mut hits);
                        count.fetch_add(found, Ordering::Relaxed);
                    }
                })
            });
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.hits.append(&mut hits);
            match outcome {
                Ok(too_long) => results.too_long += too_long,
                Err(e) => results.skipped.push(Skipped::new(&target.path, &why(&e))),
            }
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..processors.min(targets.len()) {
            scope.spawn(work);
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.cut = count.into_inner() >= request.most;
    results.hits = rank(results.hits);
    results.skipped.sort_by(|a, b| a.path.cmp(&b.path));
    results
}

/// The files of the conversations in `scope`, the newest first, and those that cannot be searched.
pub(crate) fn targets(
    state: &Path,
    catalogue: &Catalogue,
    scope: &SearchScope<'_>,
    since: Option<Timestamp>,
) -> (Vec<Target>, Vec<Skipped>) {
    let since = since.map_or(i64::MIN, |t| i64::try_from(t.as_nanosecond()).unwrap_or(i64::MIN));
    let mirror = Mirror::new(state);
    let mut targets: Vec<(i64, Target)> = Vec::new();
    let mut skipped = Vec::new();
    for row in catalogue.rows.iter().filter(|row| scope.contains(row)) {
        let TranscriptFile { dialect: provider, id, stamp, path, mirrored } = &row.source;
        let live = |path: PathBuf, kind, size| Target {
            session: id.clone(),
            provider: *provider,
            path,
            kind,
            size,
            mirror: None,
        };
        // A file last written before then contains nothing written since.
        if !mirrored && stamp.modified >= since {
            targets.push((stamp.modified, live(path.clone(), TargetKind::Live, stamp.size)));
            let subagents = row.source.subagents().unwrap_or_else(|why| {
                skipped.push(why);
                Vec::new()
            });
            for path in subagents {
                let size = std::fs::metadata(&path).map_or(0, |m| m.len());
                targets.push((stamp.modified, live(path, TargetKind::Subagent, size)));
            }
        }
        match mirror.of(id) {
            Ok(None) => {}
            Ok(Some(kept)) => {
                let parts = mirrors::targets(&kept, *provider, (!mirrored).then_some(path.as_path()));
                targets.extend(parts.into_iter().map(|target| (stamp.modified, target)));
            }
            Err(e) => skipped.push(Skipped::new(&e.path, &e.source)),
        }
    }
    targets.sort_by_key(|(modified, _)| std::cmp::Reverse(*modified));
    (targets.into_iter().map(|(_, target)| target).collect(), skipped)
}

fn why(e: &io::Error) -> String {
    if e.kind() == io::ErrorKind::NotFound { "it has vanished".to_owned() } else { e.to_string() }
}

/// Adds the hits in one line; returns how many there are.
fn search_line(
    request: &SearchRequest<'_>,
    target: &Target,
    offset: u64,
    line: &[u8],
    before: &[u8],
    hits: &mut Vec<SearchHit>,
) -> usize {
    let Some(turn) = passages(target.provider, line) else { return 0 };
    let time = turn.time.as_deref().and_then(|t| t.parse::<Timestamp>().ok());
    let too_early = request.since.is_some_and(|since| time.is_none_or(|t| t < since));
    let too_late = request.until.is_some_and(|until| time.is_none_or(|t| t >= until));
    if too_early || too_late {
        return 0;
    }
    let LinePassages { uuid, sidechain, passages, .. } = turn;
    let before_line = hits.len();
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
        let aside = sidechain || target.kind == TargetKind::Subagent;
        hits.push(SearchHit {
            session: target.session.clone(),
            provider: target.provider,
            path: target.path.clone(),
            kind: target.kind,
            offset,
            uuid: uuid.as_deref().map(|id| plain_line(id, 100)),
            time,
            role: passage.role,
            fingerprint: fingerprint(&passage),
            score: score(found.score, passage.role, aside, time, request.now),
            text: around(&passage.text, &found.at).to_owned(),
            tool: passage.tool.as_deref().map(|tool| plain_line(tool, 60)),
            files: passage.files.iter().map(|file| plain_line(file, 1000)).collect(),
            times: 1,
        });
    }
    hits.len() - before_line
}

/// Gives a tool's result the tool and files of its call.
fn resolve(passage: &mut Passage, target: &Target, offset: u64, before: &[u8]) {
    let (None, Role::Tool, Some(id)) = (&passage.tool, passage.role, &passage.call) else { return };
    let call = call_in(before, target.provider, id).or_else(|| {
        // The call is before the current chunk. A mirror may not be one plain file.
        let from = offset.saturating_sub(LOOK_BACK);
        let mut bytes = vec![0; usize::try_from(offset - from).ok()?];
        let is_worth_it = target.kind != TargetKind::Mirror && before.len() as u64 != offset;
        fs::open_read(&target.path).ok().filter(|_| is_worth_it)?.read_exact_at(&mut bytes, from).ok()?;
        call_in(&bytes, target.provider, id)
    });
    if let Some(call) = call {
        (passage.tool, passage.files) = (call.tool, call.files);
    }
}

/// The last call with this id in `bytes`.
fn call_in(bytes: &[u8], provider: Dialect, id: &str) -> Option<Passage> {
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

/// Whether the text `before` an id shows that it is the call's own id. Lines that only mention the call are not parsed.
fn is_own_id(before: &[u8]) -> bool {
    let value = before.strip_suffix(b"\"").unwrap_or_default().trim_ascii_end();
    let key = value.strip_suffix(b":").unwrap_or_default().trim_ascii_end();
    key.ends_with(b"\"id\"") || key.ends_with(b"\"call_id\"")
}

/// Both `src/a.rs` and `a.rs` match `/home/dev/app/src/a.rs`.
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

fn fingerprint(passage: &Passage) -> u64 {
    let mut hasher = DefaultHasher::new();
    (passage.role.as_str(), &passage.tool, &passage.text).hash(&mut hasher);
    hasher.finish()
}

/// The text around `at`, cut between characters.
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

/// Best first. Merges equal texts of one conversation, and a record with its copies, into one hit: preferably from the
/// live transcript rather than its mirror, and from the newest record.
fn rank(mut hits: Vec<SearchHit>) -> Vec<SearchHit> {
    hits.sort_by(|a, b| {
        let first = |h: &SearchHit| (h.kind == TargetKind::Mirror, h.kind == TargetKind::Subagent);
        first(a).cmp(&first(b)).then_with(|| b.time.cmp(&a.time)).then_with(|| a.offset.cmp(&b.offset))
    });
    let mut seen: HashMap<(u64, String), usize> = HashMap::new();
    let mut kept: Vec<SearchHit> = Vec::with_capacity(hits.len());
    for hit in hits {
        let keys = [Some(hit.session.to_string()), hit.uuid.clone()];
        let keys: Vec<_> = keys.into_iter().flatten().map(|id| (hit.fingerprint, id)).collect();
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
