//! Unpacks an archive from `baton backup export` for `restore`, into a temporary folder of our own.
//!
//! It may come from anywhere, so trust nothing in it: write only the names that an export uses, below our own folder,
//! and at most a bounded number of bytes.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use baton_core::ids::SessionId;

use crate::cli::backup::tar;
use crate::cli::ui::progress::ProgressLine;
use crate::cli::ui::size;
use crate::store::Store;
use crate::store::mirror::frames;
use crate::sys::{copy, fs};

/// Limits on unpacking. A tiny archive can claim any size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub bytes: u64,
    pub files: u32,
}

/// The magic number of zstd.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A folder with an archive's contents, removed on drop. The next command removes one left by a killed command.
pub(super) struct Unpacked {
    pub folder: PathBuf,
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(super) fn unpack(store: &Store, archive: &Path, bounds: Bounds) -> anyhow::Result<Unpacked> {
    let tale = || format!("could not read the archive {}; nothing was restored", archive.display());
    let mut file = fs::open_read(archive).with_context(tale)?;
    let mut head = [0; ZSTD.len()];
    let compressed = file.read_exact(&mut head).is_ok() && head == ZSTD;
    file.rewind().with_context(tale)?;
    let packed = file.metadata().with_context(tale)?.len();
    let mut progress = ProgressLine::new("unpacking", if compressed { 0 } else { packed });
    // `sweep` looks here for leftovers of killed commands.
    let folder = store.mirror().folder_for_import();
    fs::private_dir(&folder)?;
    let unpacked = Unpacked { folder };
    let mut reader: Box<dyn Read> =
        if compressed { frames(file) } else { Box::new(BufReader::with_capacity(256 << 10, file)) };
    all(&mut reader, &unpacked.folder, bounds, &mut progress).with_context(tale)?;
    Ok(unpacked)
}

fn all(
    reader: &mut dyn Read,
    folder: &Path,
    bounds: Bounds,
    progress: &mut ProgressLine,
) -> anyhow::Result<()> {
    let (mut bytes, mut files) = (bounds.bytes, bounds.files);
    while let Some(entry) = tar::next(reader)? {
        let path = folder.join(place_of(&entry.name)?);
        files = files.checked_sub(1).with_context(|| {
            format!("it has more than {} files; if you trust it, raise --max-files", bounds.files)
        })?;
        bytes = bytes.checked_sub(entry.len).with_context(|| {
            format!("it unpacks to more than {}; if you trust it, raise --max-size", size(bounds.bytes))
        })?;
        if let Some(above) = path.parent() {
            fs::private_dir(above)?;
        }
        let mut file: File = copy::private_file(&path)?;
        let mut content = reader.take(entry.len);
        let mut chunk = vec![0; 256 << 10];
        let mut got = 0;
        loop {
            let n = content.read(&mut chunk)?;
            if n == 0 {
                break;
            }
            file.write_all(&chunk[..n])?;
            got += n as u64;
            progress.add(n as u64);
        }
        if got < entry.len {
            bail!("it is cut off in {}", entry.name);
        }
        tar::pad(reader, entry.len)?;
    }
    Ok(())
}

/// `baton.json`, `{session}.jsonl`, `{session}.{n}.jsonl`, and the same of subagents below `{session}/subagents/`.
fn place_of(name: &str) -> anyhow::Result<PathBuf> {
    let is_id = |text: &str| SessionId::new(text).is_ok();
    let is_part = |text: &str| {
        text.strip_suffix(".jsonl").is_some_and(|stem| {
            let (id, number) = stem.rsplit_once('.').unwrap_or((stem, "0"));
            is_id(id) && number.bytes().all(|b| b.is_ascii_digit())
        })
    };
    let pieces: Vec<&str> = name.split('/').collect();
    let ours = match pieces[..] {
        [file] => file == "baton.json" || is_part(file),
        [id, "subagents", file] => is_id(id) && is_part(file),
        _ => false,
    };
    if !ours {
        let shown = baton_core::plain::plain_line(name, 120);
        bail!("{shown:?} is in it, which `baton backup export` does not write");
    }
    Ok(PathBuf::from(name))
}

/// Decides by content, not by the file's name.
pub(super) fn is_archive(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    let mut file = fs::open_read(path)?;
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    Read::by_ref(&mut file).take(512).read_to_end(&mut head)?;
    Ok(head.starts_with(&ZSTD) || tar::is_header(&head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_of_an_export_have_a_place() {
        for name in [
            "baton.json",
            "a-1.jsonl",
            "a-1.2.jsonl",
            "a-1/subagents/agent-x.jsonl",
            "a-1/subagents/agent-x.3.jsonl",
        ] {
            assert!(place_of(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "/etc/passwd",
            "../a.jsonl",
            "a/../b.jsonl",
            "a/subagents/../../x.jsonl",
            "./baton.json",
            "a.txt",
            "x/baton.json",
            "a/subagents/.jsonl",
            ".jsonl",
            "..jsonl",
            "a/other/b.jsonl",
            "a.b.jsonl",
            "a\0.jsonl",
        ] {
            assert!(place_of(name).is_err(), "{name:?}");
        }
    }
}
