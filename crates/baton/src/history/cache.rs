//! `cache/sessions.json`: caches what was read from transcripts, records and handoffs, so that a listing reads only
//! what changed. It may be deleted at any time.
//!
//! Two lines of JSON: a heading with the format's version, then everything else. A damaged or older file is replaced. A
//! newer build's file is left alone and not used.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::history::facts::Transcript;
use crate::history::links::Links;
use crate::history::mirrors::Orphans;
use crate::history::records::Records;
use crate::sys::fs::{self, PRIVATE, Sync};

/// Raise it with every change to the stored form.
const VERSION: u32 = 7;
/// The rules that make titles safe to show may change with each build, so another build's titles are not reused.
const BUILD: &str = env!("CARGO_PKG_VERSION");
/// A hundred thousand sessions take some fifty megabytes; a larger file is not ours.
const MAX: u64 = 256 << 20;
/// The location in builds with an earlier format.
const EARLIER: &str = "cache/sessions";

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Cache {
    /// By path.
    pub transcripts: HashMap<String, Transcript>,
    pub records: Records,
    pub links: Links,
    pub orphans: Orphans,
}

#[derive(Serialize, Deserialize)]
struct Heading<'a> {
    version: u32,
    build: Cow<'a, str>,
    /// The hash of the second line, to detect a torn or changed file.
    checksum: u64,
}

/// The one field that every version has.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

fn path(state: &Path) -> PathBuf {
    state.join("cache/sessions.json")
}

/// The stored cache, or an empty one if there is no usable one. `None` if a newer build wrote it.
pub(super) fn load(state: &Path) -> Option<Cache> {
    // If it cannot be read for any reason, the listing only takes longer.
    let Ok(Some(bytes)) = fs::read(&path(state), MAX) else { return Some(Cache::default()) };
    let mut lines = bytes.splitn(2, |b| *b == b'\n');
    let (heading, body) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    if serde_json::from_slice::<Version>(heading).is_ok_and(|it| it.version > VERSION) {
        return None;
    }
    let is_usable = serde_json::from_slice::<Heading<'_>>(heading)
        .is_ok_and(|it| it.version == VERSION && it.build == BUILD && it.checksum == checksum(body));
    let cache = if is_usable { serde_json::from_slice(body).ok() } else { None };
    Some(cache.unwrap_or_default())
}

/// Stores `cache` for the next listing. That is only slower without it, so failures are not reported.
pub(super) fn store(state: &Path, cache: &Cache) {
    let Ok(body) = serde_json::to_vec(cache) else { return };
    let heading = Heading { version: VERSION, build: BUILD.into(), checksum: checksum(&body) };
    let Ok(heading) = serde_json::to_vec(&heading) else { return };
    let (path, bytes) = (path(state), [&heading[..], b"\n", &body].concat());
    if fs::private_dir(path.parent().unwrap_or(state)).is_ok()
        && fs::replace(&path, &bytes, PRIVATE, Sync::Later).is_ok()
    {
        let _ = fs::remove(&state.join(EARLIER));
    }
}

/// Another compiler may have another hash function, which replaces the cache once.
fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::facts::ConversationFacts;
    use crate::history::sources::FileStamp;

    /// A state folder with a cache of this version and build.
    fn written(version: u32, build: &str) -> tempfile::TempDir {
        let state = tempfile::tempdir().unwrap();
        store(state.path(), &cache());
        let text = std::fs::read_to_string(path(state.path())).unwrap();
        let (_, body) = text.split_once('\n').unwrap();
        let heading = Heading { version, build: build.into(), checksum: checksum(body.as_bytes()) };
        let heading = serde_json::to_string(&heading).unwrap();
        std::fs::write(path(state.path()), format!("{heading}\n{body}")).unwrap();
        state
    }

    fn cache() -> Cache {
        let facts = ConversationFacts {
            title: "tab\t, newline\n, zero\0, ä, \u{1f600}".to_owned(),
            begun: jiff::Timestamp::from_millisecond(-5).ok(),
            tokens: Some(0),
            ..ConversationFacts::default()
        };
        let stamp = FileStamp { size: u64::MAX, modified: i64::MIN, inode: 7 };
        let transcripts = [("/p/ä b.jsonl", Ok(facts)), ("/p/\n.jsonl", Err("it is empty".to_owned()))]
            .map(|(path, facts)| (path.into(), Transcript { stamp, facts }))
            .into();
        Cache { transcripts, ..Cache::default() }
    }

    #[test]
    fn a_stored_cache_loads_unchanged() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(load(state.path()), Some(Cache::default()), "there is none yet");
        store(state.path(), &cache());
        assert_eq!(load(state.path()), Some(cache()));
    }

    #[test]
    fn only_a_cache_of_this_format_and_build_is_used_and_a_newer_one_is_not_ours_to_replace() {
        assert_eq!(load(written(VERSION, BUILD).path()), Some(cache()));
        assert_eq!(load(written(VERSION - 1, BUILD).path()), Some(Cache::default()));
        assert_eq!(load(written(VERSION, "0.0.0").path()), Some(Cache::default()));
        assert_eq!(load(written(VERSION + 1, BUILD).path()), None);
        let state = written(VERSION, BUILD);
        std::fs::write(path(state.path()), br#"{"version":99,"other":[]}"#).unwrap();
        assert_eq!(load(state.path()), None, "whatever else a newer heading says");
    }

    #[test]
    fn a_cache_that_was_cut_or_changed_anywhere_is_not_used() {
        let state = tempfile::tempdir().unwrap();
        store(state.path(), &cache());
        let path = path(state.path());
        let good = std::fs::read(&path).unwrap();
        for cut in 0..good.len() {
            std::fs::write(&path, &good[..cut]).unwrap();
            assert_eq!(load(state.path()), Some(Cache::default()), "cut at {cut}");
        }
        let heading = good.iter().position(|b| *b == b'\n').unwrap();
        for at in heading..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(&path, &bad).unwrap();
            assert_eq!(load(state.path()), Some(Cache::default()), "changed at {at}");
        }
    }
}
