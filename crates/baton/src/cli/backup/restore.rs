//! `baton backup restore`: puts a conversation where the client resumes it, even in another project or on another
//! machine.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use baton_core::ids::SessionId;
use baton_core::launch::Resume;
use baton_core::plain::{plain, plain_line};
use jiff::Timestamp;
use serde_json::json;

use crate::cli::backup::{find, import, is_live, not_there};
use crate::cli::ui::progress::ProgressLine;
use crate::cli::ui::{print, print_json, print_raw, size};
use crate::cli::{App, Outcome};
use crate::providers;
use crate::store::mirror::take::subagent_path;
use crate::store::{Store, record};
use crate::sys::{copy, fs};

pub(crate) struct RestoreOptions<'a> {
    /// A session id, or the path of an exported folder, archive or transcript.
    pub what: &'a str,
    pub generation: Option<u32>,
    pub to: Option<&'a Path>,
    pub force: bool,
    pub dry_run: bool,
    /// For an archive, whose path is never mistaken for a session id.
    pub bounds: Option<import::Bounds>,
}

/// The conversation to restore, whatever its origin.
struct Source {
    session: SessionId,
    provider: String,
    cwd: String,
    /// Where the client kept it.
    transcript: PathBuf,
    /// Our own hooks saw it there. A place that only a file from elsewhere names is never written to.
    is_own: bool,
    main: Box<dyn Fn() -> io::Result<Box<dyn Read + Send>>>,
    bytes: u64,
    /// Name and content of each subagent's file.
    subagents: Vec<(String, Box<dyn Read + Send>)>,
}

pub(crate) fn run(
    app: &App,
    store: &Store,
    wish: &RestoreOptions<'_>,
    json: bool,
) -> anyhow::Result<Outcome> {
    let path = Path::new(wish.what);
    let mut unpacked = None;
    let source = if let Some(bounds) = wish.bounds
        && path.is_file()
        && import::is_archive(path).unwrap_or(false)
    {
        let unpacked = unpacked.insert(import::unpack(store, path, bounds)?);
        exported(&unpacked.folder, path, wish.generation)?
    } else if path.exists() {
        // A transcript in such a folder selects the whole folder.
        let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
        exported(folder, folder, wish.generation)?
    } else {
        match mirrored(store, wish)? {
            Some(source) => source,
            None => return Ok(not_there(wish.what)),
        }
    };
    if is_live(store, &source.session) {
        bail!(
            "session {} is running; its client would not see what is put back. End it first",
            source.session
        );
    }
    let cwd = match wish.to {
        Some(to) => std::fs::canonicalize(to)
            .with_context(|| format!("{} is not a folder to restore to", to.display()))?,
        // It is printed as part of a command to paste.
        None if plain(&source.cwd) != source.cwd || source.cwd.contains(['\n', '\t']) => {
            bail!(
                "the folder of its project has characters that cannot be shown ({:?}); `--to PROJECT` restores it \
                 elsewhere",
                plain_line(&source.cwd, 120)
            )
        }
        None => PathBuf::from(&source.cwd),
    };
    let provider = providers::of(&source.provider);
    // Use the client's own place, unless it belongs to another project or machine.
    let was = &source.transcript;
    let homes = [&app.paths.home, &app.paths.claude, &app.paths.codex()];
    let target = if source.is_own && wish.to.is_none() && homes.iter().any(|home| was.starts_with(home)) {
        was.clone()
    } else {
        let place = (provider.place)(&app.paths, &cwd, &source.session, was);
        place.with_context(|| {
            let (title, was) = (provider.title, was.display());
            format!(
                "{title} keeps no conversations at {was}, so it is unknown where it would look for this one"
            )
        })?
    };
    let keys = (wish.to.is_some() && cwd != Path::new(&source.cwd))
        .then(|| Keys::new(&source.cwd, &cwd.display().to_string()));
    let old = conflict(&target, &source, keys.as_ref())?;
    if let (Some(why), false) = (&old, wish.force) {
        bail!(
            "{} {why}; look at it, and add --force to put the copy in its place (the one there is kept beside it)",
            target.display()
        );
    }
    let (Resume::Option(resume) | Resume::Word(resume)) = provider.grammar.resume;
    let command = format!("cd {} && {} {resume} {}", shell_word(&cwd), provider.name, source.session);
    if wish.dry_run {
        print(&format!("{} would be written, {}\n", target.display(), size(source.bytes)))?;
        print_raw(&format!("{command}\n"))?;
        return Ok(Outcome::Done);
    }
    let kept = put(&target, &source, keys.as_ref(), old.is_some())?;
    for (name, content) in source.subagents {
        let path = subagent_path(&target, &name);
        if !path.exists() {
            write(&path, content, keys.as_ref(), &mut ProgressLine::new("restoring", 0))?;
        }
    }
    if json {
        print_json(&json!({ "session": source.session, "transcript": target, "cwd": cwd, "kept": kept,
            "resume": command }))?;
        return Ok(Outcome::Done);
    }
    let mut text = format!("{} is back, {}\n", target.display(), size(source.bytes));
    if let Some(kept) = kept {
        let _ = writeln!(text, "What was there is now {}", kept.display());
    }
    if !cwd.is_dir() {
        let _ = writeln!(
            text,
            "The project {} is not there; `--to PROJECT` restores it elsewhere.",
            cwd.display()
        );
    }
    print(&format!("{text}Resume it with\n"))?;
    print_raw(&format!("  {command}\n"))?;
    Ok(Outcome::Done)
}

fn mirrored(store: &Store, wish: &RestoreOptions<'_>) -> anyhow::Result<Option<Source>> {
    let Some(m) = find(store, wish.what)? else { return Ok(None) };
    let part = m.main().with_context(|| format!("only subagents of {} were mirrored", m.session))?.clone();
    let generation = match wish.generation {
        Some(n) => part.generations.iter().find(|g| g.number == n).cloned().with_context(|| {
            let there: Vec<String> = part.generations.iter().map(|g| g.number.to_string()).collect();
            format!("session {} has no generation {n}, only {}", m.session, there.join(", "))
        })?,
        None => part.generations.last().cloned().context("nothing of it was kept")?,
    };
    let mut subagents = Vec::new();
    for part in m.parts.iter().filter(|p| p.name != part.name) {
        if let Some(newest) = part.generations.last() {
            subagents.push((part.name.clone(), part.open(newest)?));
        }
    }
    Ok(Some(Source {
        session: m.session.clone(),
        provider: m.meta.provider.clone(),
        cwd: m.meta.cwd.clone(),
        transcript: PathBuf::from(&m.meta.transcript),
        is_own: m.meta.fetched.is_none(),
        bytes: generation.bytes,
        main: Box::new(move || part.open(&generation)),
        subagents,
    }))
}

/// An exported conversation in `folder`; `name` is the user's name for it.
fn exported(folder: &Path, name: &Path, generation: Option<u32>) -> anyhow::Result<Source> {
    let about = folder.join("baton.json");
    let story = || format!("{} was not made by `baton backup export`", name.display());
    let bytes = fs::read(&about, 1 << 20)?.with_context(story)?;
    let about: serde_json::Value = serde_json::from_slice(&bytes).with_context(story)?;
    // Exports of version 0.1 have no version.
    let version = about["v"].as_u64().unwrap_or(0);
    anyhow::ensure!(
        version <= u64::from(record::VERSION),
        "{} was exported by a newer version of baton (format {version}); restore it with that one",
        name.display()
    );
    let text = |key: &str| about[key].as_str().unwrap_or_default().to_owned();
    let session = SessionId::new(text("session")).with_context(story)?;
    let main = folder
        .join(generation.map_or_else(|| format!("{session}.jsonl"), |n| format!("{session}.{n}.jsonl")));
    let missing = || match generation {
        Some(n) => format!(
            "no generation {n} of session {session} was exported; without --generation the newest is restored"
        ),
        None => story(),
    };
    let bytes = std::fs::metadata(&main).with_context(missing)?.len();
    let mut subagents: Vec<(String, Box<dyn Read + Send>)> = Vec::new();
    for entry in
        std::fs::read_dir(folder.join(session.as_str()).join("subagents")).into_iter().flatten().flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(name) = name.strip_suffix(".jsonl").filter(|n| !n.contains('.')) {
            subagents.push((name.to_owned(), Box::new(fs::open_read(&entry.path())?)));
        }
    }
    Ok(Source {
        session,
        provider: text("provider"),
        cwd: text("cwd"),
        transcript: PathBuf::from(text("transcript")),
        is_own: false,
        main: Box::new(move || Ok(Box::new(fs::open_read(&main)?))),
        bytes,
        subagents,
    })
}

/// Why the file at `target` must not be replaced, if so: it has more than the copy, or something else.
fn conflict(target: &Path, source: &Source, keys: Option<&Keys>) -> anyhow::Result<Option<&'static str>> {
    let there = match fs::open_read(target) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e).with_context(|| format!("could not read {}", target.display())),
    };
    let len = there.metadata()?.len();
    let mut there = BufReader::new(there);
    let mut ours = Rekeyed::new((source.main)()?, keys);
    let (mut a, mut b) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let mut at = 0;
    while at < len {
        let now = usize::try_from((len - at).min(a.len() as u64)).unwrap_or(a.len());
        there.read_exact(&mut a[..now])?;
        let mut got = 0;
        while got < now {
            let n = ours.read(&mut b[got..now])?;
            if n == 0 {
                return Ok(Some(if a[..got] == b[..got] {
                    "continues where the copy ends"
                } else {
                    "holds something else"
                }));
            }
            got += n;
        }
        if a[..now] != b[..now] {
            return Ok(Some("holds something else"));
        }
        at += now as u64;
    }
    Ok(None)
}

/// Writes the copy to its place; returns the name under which the earlier file is kept.
fn put(target: &Path, source: &Source, keys: Option<&Keys>, keep: bool) -> anyhow::Result<Option<PathBuf>> {
    let mut kept = None;
    if keep {
        let stamp = Timestamp::now().strftime("%Y%m%d-%H%M%S");
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        // Choose a name that the client does not list.
        let aside = target.with_file_name(format!("{name}.before-restore-{stamp}"));
        let file = fs::open_read(target)?;
        copy::copy_new(&file, file.metadata()?.len(), &aside)?;
        kept = Some(aside);
    }
    write(target, (source.main)()?, keys, &mut ProgressLine::new("restoring", source.bytes))?;
    Ok(kept)
}

/// Writes atomically with the client's own mode: private to its owner.
fn write(
    path: &Path,
    content: Box<dyn Read + Send>,
    keys: Option<&Keys>,
    progress: &mut ProgressLine,
) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::private_dir(folder)?;
    // Remove leftovers of an interrupted run.
    let _ = fs::sweep_temps(folder, |pid| crate::sys::process::identify(pid).is_some());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temp = path.with_file_name(format!(".{name}.{}.0.tmp", std::process::id()));
    let all = || -> io::Result<()> {
        let mut out = BufWriter::with_capacity(256 << 10, copy::private_file(&temp)?);
        let mut content = Rekeyed::new(content, keys);
        let mut chunk = vec![0; 256 << 10];
        loop {
            let n = content.read(&mut chunk)?;
            if n == 0 {
                break;
            }
            out.write_all(&chunk[..n])?;
            progress.add(n as u64);
        }
        let file: File = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        std::fs::rename(&temp, path)
    };
    all().map_err(|e| {
        let _ = std::fs::remove_file(&temp);
        fs::FileError::new("write", path, e)
    })?;
    fs::sync_parent(path)?;
    Ok(())
}

/// Replaces one project's path with another's, both in JSON encoding.
struct Keys {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Keys {
    fn new(from: &str, to: &str) -> Self {
        let inside = |text: &str| {
            let quoted = serde_json::Value::from(text.trim_end_matches('/')).to_string();
            quoted.as_bytes()[1..quoted.len() - 1].to_vec()
        };
        Self { from: inside(from), to: inside(to) }
    }

    /// `/a/app` matches in `/a/app/x`, but not in `/a/app2` or `/b/a/app`.
    fn apply(&self, line: &[u8]) -> Vec<u8> {
        let is_path =
            |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'/') || b >= 0x80;
        let mut out = Vec::with_capacity(line.len());
        let mut rest = 0;
        if !self.from.is_empty() {
            for at in memchr::memmem::find_iter(line, &self.from) {
                let before = at.checked_sub(1).map(|i| line[i]);
                let after = line.get(at + self.from.len()).copied();
                let whole =
                    before.is_none_or(|b| !is_path(b)) && after.is_none_or(|b| b == b'/' || !is_path(b));
                if whole && at >= rest {
                    out.extend_from_slice(&line[rest..at]);
                    out.extend_from_slice(&self.to);
                    rest = at + self.from.len();
                }
            }
        }
        out.extend_from_slice(&line[rest..]);
        out
    }
}

/// The lines of `inner` with the keys applied.
struct Rekeyed<'a> {
    inner: BufReader<Box<dyn Read + Send>>,
    keys: Option<&'a Keys>,
    line: Vec<u8>,
    at: usize,
}

impl<'a> Rekeyed<'a> {
    fn new(inner: Box<dyn Read + Send>, keys: Option<&'a Keys>) -> Self {
        Self { inner: BufReader::with_capacity(256 << 10, inner), keys, line: Vec::new(), at: 0 }
    }
}

impl Read for Rekeyed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(keys) = self.keys else { return self.inner.read(buffer) };
        if self.at == self.line.len() {
            let mut line = Vec::new();
            self.inner.read_until(b'\n', &mut line)?;
            (self.line, self.at) = (keys.apply(&line), 0);
        }
        let now = buffer.len().min(self.line.len() - self.at);
        buffer[..now].copy_from_slice(&self.line[self.at..self.at + now]);
        self.at += now;
        Ok(now)
    }
}

/// Quotes for a shell if needed.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_projects_path_is_replaced_where_it_is_that_project() {
        let keys = Keys::new("/a/app", "/new/\"home\"");
        let apply = |text: &str| String::from_utf8(keys.apply(text.as_bytes())).unwrap();
        assert_eq!(apply(r#"{"cwd":"/a/app"}"#), r#"{"cwd":"/new/\"home\""}"#);
        assert_eq!(apply("see /a/app/src and /a/app."), "see /new/\\\"home\\\"/src and /a/app.");
        for other in ["/a/app2", "/b/a/app", "/a/app-old/x", "/a/ap"] {
            assert_eq!(apply(other), other);
        }
    }
}
