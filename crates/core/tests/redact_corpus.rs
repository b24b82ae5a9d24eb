//! Promise: at most one false hit per 100 KB of real transcript. Runs when `BATON_CORPUS` names a folder of
//! transcripts (`.jsonl`, `.jsonl.gz`) without real secrets, so that every hit is a false one. `BATON_CORPUS_SHOW=1`
//! prints each hit with its surroundings.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use baton_core::redact::redact;
use serde_json::Value;

#[test]
fn real_transcripts_without_secrets_are_left_alone() {
    let Some(folder) = std::env::var_os("BATON_CORPUS") else { return };
    let show = std::env::var_os("BATON_CORPUS_SHOW").is_some();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut bytes = 0;
    let mut files = Vec::new();
    all_files(Path::new(&folder), &mut files);
    files.sort();
    for path in files {
        let file = File::open(&path).unwrap();
        let reader: Box<dyn Read> = match path.extension().and_then(|e| e.to_str()) {
            Some("gz") => Box::new(flate2::read::GzDecoder::new(file)),
            Some("jsonl") => Box::new(file),
            _ => continue,
        };
        for line in BufReader::new(reader).lines().map_while(Result::ok) {
            let Ok(record) = serde_json::from_str::<Value>(&line) else { continue };
            each_text(&record, &mut |text| {
                bytes += text.len();
                for hit in redact(text).hits {
                    *kinds.entry(hit.kind).or_default() += 1;
                    if show {
                        let from = text.floor_char_boundary(hit.range.start.saturating_sub(50));
                        let to = text.ceil_char_boundary((hit.range.end + 15).min(text.len()));
                        println!("{}\t{:?}\t{:?}", hit.kind, &text[hit.range], &text[from..to]);
                    }
                }
            });
        }
    }
    let hits: usize = kinds.values().sum();
    println!("{hits} hits in {bytes} bytes: {kinds:?}");
    assert!(bytes > 0, "the corpus holds no transcript");
    assert!(hits * 100_000 <= bytes, "{hits} hits in {bytes} bytes: {kinds:?}");
}

fn all_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() { all_files(&path, into) } else { into.push(path) }
    }
}

fn each_text(value: &Value, see: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => see(text),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, see)),
        Value::Object(fields) => fields.values().for_each(|field| each_text(field, see)),
        _ => {}
    }
}
