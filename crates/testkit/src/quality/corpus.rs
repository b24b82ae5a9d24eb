//! Folders of `.jsonl` and `.jsonl.gz` transcripts, and the places in them where the client compacted.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

pub struct Transcript {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
}

/// All transcripts of `folder`, by name.
pub fn load(folder: &Path) -> Result<Vec<Transcript>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.sort();
    let mut out = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut bytes = Vec::new();
        let file = || fs::File::open(&path).with_context(|| format!("cannot open {}", path.display()));
        if name.ends_with(".jsonl.gz") {
            flate2::read::MultiGzDecoder::new(file()?)
                .read_to_end(&mut bytes)
                .with_context(|| format!("cannot unpack {}", path.display()))?;
        } else if path.extension().is_some_and(|e| e == "jsonl") {
            file()?.read_to_end(&mut bytes)?;
        } else {
            continue;
        }
        out.push(Transcript { path, bytes });
    }
    Ok(out)
}

/// A compaction: what stood before it, and the summary that the client wrote.
pub struct Cut {
    pub name: String,
    /// Bytes before the boundary line.
    pub end: usize,
    /// All records before the cut.
    pub before: Vec<Value>,
    /// The first record of the stretch that the facts are asked of.
    pub stretch: usize,
    pub summary: String,
}

/// The compactions of a transcript; with `ends`, its end counts as one more, so that sessions that never
/// compacted are measured too (there is no summary to compare with then).
pub fn cuts(transcript: &Transcript, ends: bool) -> Vec<Cut> {
    let mut cuts = Vec::new();
    let mut records: Vec<Value> = Vec::new();
    let mut stretch = 0;
    let mut at = 0;
    for line in transcript.bytes.split_inclusive(|b| *b == b'\n') {
        let Ok(record) = serde_json::from_slice::<Value>(line) else {
            at += line.len();
            continue;
        };
        if record["subtype"] == "compact_boundary" {
            let stem = transcript.path.file_name().unwrap_or_default().to_string_lossy();
            let name = format!("{}@{}", stem.get(..8).unwrap_or(&stem), records.len());
            cuts.push(Cut { name, end: at, before: records.clone(), stretch, summary: String::new() });
            stretch = records.len();
        }
        if record["isCompactSummary"] == true
            && let Some(cut) = cuts.last_mut()
            && cut.summary.is_empty()
        {
            record["message"]["content"].as_str().unwrap_or_default().clone_into(&mut cut.summary);
        }
        records.push(record);
        at += line.len();
    }
    if ends {
        let stem = transcript.path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{}@end", stem.get(..8).unwrap_or(&stem));
        cuts.push(Cut { name, end: at, before: records, stretch, summary: String::new() });
    }
    cuts
}
