//! Folders of `.jsonl` and `.jsonl.gz` transcripts, searched recursively.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A transcript in the corpus.
pub struct Transcript {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
    /// `owner__name` from the beginning of the file's name; a bare session id belongs to its folder.
    pub project: String,
}

impl Transcript {
    /// For messages: the end of the file's name without extensions.
    pub fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stem = name.split(".jsonl").next().unwrap_or_default().to_owned();
        stem.rsplit("__").next().unwrap_or_default().chars().take(13).collect()
    }
}

/// All transcripts below `folder`, by path.
pub fn load(folder: &Path) -> Result<Vec<Transcript>> {
    let mut paths = Vec::new();
    walk(folder, &mut paths)?;
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
        let folder =
            || path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        let project = project(&name).unwrap_or_else(folder);
        out.push(Transcript { path, bytes, project });
    }
    Ok(out)
}

/// `owner__name__session` names its project.
fn project(name: &str) -> Option<String> {
    let mut parts = name.split("__");
    let (owner, project, _) = (parts.next()?, parts.next()?, parts.next()?);
    Some(format!("{owner}/{project}"))
}

fn walk(folder: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, into)?;
        } else {
            into.push(path);
        }
    }
    Ok(())
}
