//! `baton backup export`: writes a conversation to a folder of plain files or to one archive, for another machine.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::json;

use crate::cli::Outcome;
use crate::cli::backup::{catch_up, find, not_there, tar};
use crate::cli::ui::progress::ProgressLine;
use crate::cli::ui::{print, print_json, size};
use crate::store::mirror::{Generation, MAIN, MirrorPart, MirroredSession};
use crate::store::{Store, record};
use crate::sys::{copy, fs};

pub(super) fn run(store: &Store, what: &str, to: &Path, json: bool) -> anyhow::Result<Outcome> {
    let Some(m) = find(store, what)? else { return Ok(not_there(what)) };
    catch_up(store, &m)?;
    let Some(m) = store.mirror().of(&m.session)? else { return Ok(not_there(what)) };
    if std::fs::symlink_metadata(to).is_ok() {
        bail!("{} is there already; name another file or folder", to.display());
    }
    let files = files(&m);
    let total = files.iter().map(|(_, _, g)| g.bytes).sum();
    let mut progress = ProgressLine::new("exporting", total);
    let name = to.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let temp = to.with_file_name(format!(".{name}.{}.0.tmp", std::process::id()));
    sweep(to, name);
    let tale = || format!("could not export to {}; nothing was left there", to.display());
    let kind = name.rsplit_once(".tar").map(|(_, rest)| rest);
    let is_archive = matches!(kind, Some("" | ".zst"));
    let done = if is_archive {
        archive(&m, &files, &temp, kind == Some(".zst"), &mut progress)
    } else {
        folder(&m, &files, &temp, &mut progress)
    };
    if let Err(e) = done.and_then(|()| Ok(std::fs::rename(&temp, to)?)) {
        let _ = std::fs::remove_file(&temp).or_else(|_| std::fs::remove_dir_all(&temp));
        return Err(e).with_context(tale);
    }
    drop(progress);
    if json {
        print_json(&json!({ "session": m.session, "to": to, "files": files.len() + 1, "bytes": total }))?;
    } else {
        let kind = if is_archive { "FILE" } else { "FOLDER" };
        print(&format!(
            "{}: {} files, {}\n`baton backup restore {kind}` brings it back, also on another machine.\n",
            to.display(),
            files.len() + 1,
            size(total)
        ))?;
    }
    Ok(Outcome::Done)
}

/// Removes leftovers of an interrupted export to the same place.
fn sweep(to: &Path, name: &str) {
    let folder = to.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let left = entry.file_name().to_str().is_some_and(|left| {
            let is_same = left.strip_prefix('.').is_some_and(|left| left.starts_with(&format!("{name}.")));
            let owner = fs::temp_owner(left);
            is_same && owner.is_some_and(|pid| crate::sys::process::identify(pid).is_none())
        });
        if left {
            let _ = std::fs::remove_file(entry.path()).or_else(|_| std::fs::remove_dir_all(entry.path()));
        }
    }
}

/// Name, part and generation of each file: `{session}.jsonl` is the conversation, `{session}.{n}.jsonl` an earlier
/// generation.
fn files(m: &MirroredSession) -> Vec<(String, &MirrorPart, &Generation)> {
    let mut files = Vec::new();
    for part in &m.parts {
        let stem = if part.name == MAIN {
            m.session.to_string()
        } else {
            format!("{}/subagents/{}", m.session, part.name)
        };
        let newest = part.generations.len().saturating_sub(1);
        for (n, generation) in part.generations.iter().enumerate() {
            let name = if n == newest {
                format!("{stem}.jsonl")
            } else {
                format!("{stem}.{}.jsonl", generation.number)
            };
            files.push((name, part, generation));
        }
    }
    files
}

fn about(m: &MirroredSession) -> anyhow::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(&json!({
        "v": record::VERSION, "session": m.session, "provider": m.meta.provider, "cwd": m.meta.cwd, "transcript": m.meta.transcript,
    }))?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn folder(
    m: &MirroredSession,
    files: &[(String, &MirrorPart, &Generation)],
    to: &Path,
    progress: &mut ProgressLine,
) -> anyhow::Result<()> {
    fs::private_dir(to)?;
    for (name, part, generation) in files {
        let path = to.join(name);
        if let Some(above) = path.parent() {
            fs::private_dir(above)?;
        }
        let mut file = copy::private_file(&path)?;
        io::copy(&mut Counted { inner: part.open(generation)?, progress }, &mut file)?;
        file.sync_all()?;
    }
    let mut file = copy::private_file(&to.join("baton.json"))?;
    file.write_all(&about(m)?)?;
    file.sync_all()?;
    Ok(())
}

fn archive(
    m: &MirroredSession,
    files: &[(String, &MirrorPart, &Generation)],
    to: &Path,
    compressed: bool,
    progress: &mut ProgressLine,
) -> anyhow::Result<()> {
    let file = copy::private_file(to)?;
    let mut out: Box<dyn Finish> =
        if compressed { Box::new(Frames::new(file)) } else { Box::new(Plain(BufWriter::new(file))) };
    for (name, part, generation) in files {
        let mut content = Counted { inner: part.open(generation)?, progress };
        tar::append(&mut out, name, generation.bytes, &mut content)?;
    }
    let about = about(m)?;
    tar::append(&mut out, "baton.json", about.len() as u64, &mut about.as_slice())?;
    tar::finish(&mut out)?;
    out.finish()?;
    Ok(())
}

/// Completes the output and syncs it to disk.
trait Finish: Write {
    fn finish(self: Box<Self>) -> io::Result<()>;
}

struct Plain(BufWriter<File>);

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Finish for Plain {
    fn finish(self: Box<Self>) -> io::Result<()> {
        self.0.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

/// Collects bytes and writes them as zstd frames.
struct Frames {
    file: File,
    waiting: Vec<u8>,
}

const FRAME: usize = 4 << 20;

impl Frames {
    fn new(file: File) -> Self {
        Self { file, waiting: Vec::with_capacity(FRAME) }
    }

    fn frame(&mut self) -> io::Result<()> {
        if !self.waiting.is_empty() {
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            self.file.write_all(&ruzstd::encoding::compress_to_vec(self.waiting.as_slice(), level))?;
            self.waiting.clear();
        }
        Ok(())
    }
}

impl Write for Frames {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= FRAME {
            self.frame()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Finish for Frames {
    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.frame()?;
        self.file.sync_all()
    }
}

/// Reports the bytes read to the progress line.
struct Counted<'a> {
    inner: Box<dyn Read + Send>,
    progress: &'a mut ProgressLine,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.progress.add(got as u64);
        Ok(got)
    }
}
