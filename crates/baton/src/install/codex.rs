//! Plugging into Codex: hooks in its `hooks.json`, and, when the user says so, their consent in its `config.toml`.
//!
//! What was there is kept as it was, so that an uninstall gives back the very bytes; where others have edited a file
//! since, exactly our entries are taken out.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use super::ours::{Hook, is_hook, quoted};
use super::place::{self, Binary, Edit};
use super::plugin::sha256;
use super::settings::{self, Undo, Wanted};
use super::trust::{self, Entry, State};
use super::{edits_diff, lock, record};
use crate::paths::Paths;
use crate::sys::fs::{self, PRIVATE, Sync};

/// The events baton listens to, and the seconds the client gives each. Two of them it cuts to three by itself.
pub const EVENTS: [(&str, u32); 11] = [
    ("SessionStart", 10),
    ("UserPromptSubmit", 10),
    ("PostToolUse", 10),
    ("Stop", 10),
    ("Interrupt", 3),
    ("PreCompact", 30),
    ("PostCompact", 10),
    ("SessionEnd", 3),
    ("PermissionRequest", 10),
    ("SubagentStart", 10),
    ("SubagentStop", 10),
];

/// Events whose answer reaches the model. The client cuts it to 2,500 tokens unless the entry says otherwise.
const CARRIES_TEXT: [&str; 3] = ["SessionStart", "UserPromptSubmit", "PostToolUse"];
const CONTEXT_LIMIT: u32 = 16_000;

fn hooks(program: &str) -> Vec<(&'static str, Hook)> {
    let hook = |event: &str, timeout| Hook {
        kind: "command",
        command: format!("{} hook --provider codex {event}", quoted(program)),
        args: Vec::new(),
        timeout,
        context_limit: CARRIES_TEXT.contains(&event).then_some(CONTEXT_LIMIT),
    };
    EVENTS.iter().map(|&(event, timeout)| (event, hook(event, timeout))).collect()
}

/// What was changed, so that exactly that can be undone: `codex/install.json` in the state folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Record {
    baton: String,
    binary: Option<PathBuf>,
    hooks: Option<Touched>,
    config: Option<Touched>,
    /// Folders that were made, outermost first.
    folders: Vec<PathBuf>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Touched {
    /// The hash of the bytes without us; `None` if there was no file.
    original: Option<String>,
    /// Hashes of what we wrote. In one of these states nobody else has touched the file since.
    written: Vec<String>,
    /// What we entered, by name.
    #[serde(default)]
    keys: Vec<String>,
}

fn state(paths: &Paths) -> PathBuf {
    paths.state.join("codex")
}

impl Record {
    fn read(paths: &Paths) -> anyhow::Result<Self> {
        let path = state(paths).join("install.json");
        let Some(bytes) = fs::read(&path, 1 << 20)? else { return Ok(Self::default()) };
        serde_json::from_slice(&bytes).with_context(|| {
            format!(
                "{} cannot be understood; move it away and run `baton install --provider codex` again",
                path.display()
            )
        })
    }

    fn write(&self, paths: &Paths) -> anyhow::Result<()> {
        let dir = state(paths);
        fs::private_dir(&dir)?;
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        Ok(fs::replace(&dir.join("install.json"), &bytes, PRIVATE, Sync::Yes)?)
    }
}

/// The hooks file, as the client names it.
pub fn hooks_file(paths: &Paths) -> PathBuf {
    // The client resolves a folder that it was given by the environment, and only that.
    let dir = paths.codex();
    let given = dir != paths.home.join(".codex");
    let dir = if given { std::fs::canonicalize(&dir).unwrap_or(dir) } else { dir };
    dir.join("hooks.json")
}

fn config_file(paths: &Paths) -> PathBuf {
    paths.codex().join("config.toml")
}

fn read(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    Ok(fs::read(&place::real(path)?, 16 << 20)?)
}

fn entries_in(paths: &Paths, hooks: Option<&[u8]>) -> Vec<Entry> {
    let value = hooks.and_then(|bytes| settings::value(bytes).ok()).unwrap_or_default();
    trust::entries(&hooks_file(paths).display().to_string(), &value)
}

/// What an install will do.
#[derive(Debug)]
pub struct Plan {
    pub binary: Binary,
    pub edits: Vec<Edit>,
    /// Events whose hooks wait for the user's review after this.
    pub waiting: Vec<String>,
    record: Record,
    record_before: Record,
    originals: Vec<Vec<u8>>,
}

/// Looks at everything and changes nothing.
pub fn plan(paths: &Paths, bin_dir: &Path, trusts: bool) -> anyhow::Result<Plan> {
    let before = Record::read(paths)?;
    let binary = Binary::plan(bin_dir)?;
    let program =
        binary.to.to_str().context("the path of the program is not valid UTF-8; choose --bin-dir")?;
    let mut originals = Vec::new();
    let mut record = Record {
        baton: env!("CARGO_PKG_VERSION").to_owned(),
        binary: Some(binary.to.clone()),
        ..before.clone()
    };

    let path = hooks_file(paths);
    let story = || format!("{} was left alone", path.display());
    let now = read(&path)?;
    let wanted = Wanted { hooks: Some(hooks(program)), ..Wanted::NOTHING };
    let holds = now.as_deref().is_some_and(|now| settings::holds(now, &wanted) == Ok(true));
    let after = if holds {
        now.clone()
    } else {
        let base = base(paths, now.as_deref(), before.hooks.as_ref(), |bytes| {
            Ok(settings::remove(bytes, &Undo::default())?)
        })
        .with_context(story)?;
        let (after, _) =
            settings::add(base.bytes.as_deref().unwrap_or(b"{}\n"), &wanted).with_context(story)?;
        record.hooks = Some(base.touched(&after, Vec::new()));
        originals.extend(base.bytes);
        Some(after)
    };
    let real = place::real(&path)?;
    if now.is_none() {
        let missing = place::missing_folders(&real);
        record.folders.extend(missing.into_iter().filter(|dir| !before.folders.contains(dir)));
    }
    let entries = entries_in(paths, after.as_deref());
    let mut edits = vec![Edit { path: real, before: now, after }];

    let path = config_file(paths);
    let story = || format!("{} was left alone", path.display());
    let now = read(&path)?;
    let text = String::from_utf8(now.clone().unwrap_or_default()).ok().context("it is not UTF-8 text");
    let text = text.with_context(story)?;
    let states = trust::states(&text, &entries).with_context(story)?;
    let mut waiting: Vec<String> = Vec::new();
    if trusts {
        let after = trust::give(&text, &entries).with_context(story)?;
        if after != text {
            let keys: Vec<String> = entries.iter().map(|e| e.key.clone()).collect();
            let base = base(paths, now.as_deref(), before.config.as_ref(), |bytes| {
                let text = String::from_utf8_lossy(bytes);
                Ok(trust::take_back(&text, &keys)?.into_bytes())
            })
            .with_context(story)?;
            record.config = Some(base.touched(after.as_bytes(), keys));
            originals.extend(base.bytes);
            edits.push(Edit { path: place::real(&path)?, before: now, after: Some(after.into_bytes()) });
        }
    } else {
        let waits = entries.iter().zip(states).filter(|(_, s)| *s != State::Trusted);
        waiting = waits.map(|(e, _)| e.event.clone()).collect();
    }
    for edit in &edits {
        edit.check()?;
    }
    Ok(Plan { binary, edits, waiting, record, record_before: before, originals })
}

/// The file without us: as it was kept, else as it is with our entries taken out.
struct Base {
    bytes: Option<Vec<u8>>,
    written: Vec<String>,
}

impl Base {
    fn touched(&self, after: &[u8], keys: Vec<String>) -> Touched {
        let mut written = self.written.clone();
        written.push(sha256(after));
        // The last few are enough to know a write of ours after an interrupted install.
        written.drain(..written.len().saturating_sub(4));
        Touched { original: self.bytes.as_deref().map(sha256), written, keys }
    }
}

fn base(
    paths: &Paths,
    now: Option<&[u8]>,
    old: Option<&Touched>,
    without_us: impl FnOnce(&[u8]) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<Base> {
    let Some(now) = now else { return Ok(Base { bytes: None, written: Vec::new() }) };
    if let Some(old) = old.filter(|old| old.written.contains(&sha256(now))) {
        match &old.original {
            None => return Ok(Base { bytes: None, written: old.written.clone() }),
            Some(hash) => {
                if let Some(bytes) = record::original(&state(paths), hash) {
                    return Ok(Base { bytes: Some(bytes), written: old.written.clone() });
                }
            }
        }
    }
    Ok(Base { bytes: Some(without_us(now)?), written: Vec::new() })
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        !self.binary.copy && self.edits.iter().all(|e| !e.is_needed()) && self.record == self.record_before
    }

    pub fn diff(&self, paths: &Paths) -> String {
        edits_diff(paths, &self.edits)
    }

    /// Does it: the program first, so that no hook points at a file that is not there.
    pub fn carry_out(&self, paths: &Paths) -> anyhow::Result<()> {
        let _lock = lock(paths)?;
        if Record::read(paths)? != self.record_before {
            bail!("another install or uninstall was faster; run this again");
        }
        self.binary.carry_out()?;
        for bytes in &self.originals {
            record::keep_original(&state(paths), bytes)?;
        }
        self.record.write(paths)?;
        self.edits.iter().try_for_each(Edit::carry_out)
    }
}

/// What an uninstall will do.
#[derive(Debug)]
pub struct Removal {
    /// Each edit, and whether it gives back the very bytes of before.
    pub edits: Vec<(Edit, bool)>,
    record: Record,
}

/// Looks at everything and changes nothing.
pub fn removal(paths: &Paths) -> anyhow::Result<Removal> {
    let record = Record::read(paths)?;
    let mut edits = Vec::new();
    let hooks = hooks_file(paths);
    let now = read(&hooks)?;
    let mut keys: Vec<String> = entries_in(paths, now.as_deref()).into_iter().map(|e| e.key).collect();
    if let Some(now) = now {
        let story = || format!("{} still has entries of baton's", hooks.display());
        let without = |bytes: &[u8]| Ok(settings::remove(bytes, &Undo::default())?);
        edits.extend(
            undo(paths, &hooks, now, record.hooks.as_ref(), is_blank_json, without).with_context(story)?,
        );
    }
    let config = config_file(paths);
    keys.extend(record.config.iter().flat_map(|t| t.keys.clone()));
    if let Some(now) = read(&config)? {
        let story = || format!("{} still trusts hooks of baton's", config.display());
        let without = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes).context("it is not UTF-8 text")?;
            Ok(trust::take_back(text, &keys)?.into_bytes())
        };
        let is_blank = |bytes: &[u8]| bytes.trim_ascii().is_empty();
        edits.extend(
            undo(paths, &config, now, record.config.as_ref(), is_blank, without).with_context(story)?,
        );
    }
    Ok(Removal { edits, record })
}

fn is_blank_json(bytes: &[u8]) -> bool {
    bytes.iter().filter(|b| !b.is_ascii_whitespace()).eq(b"{}")
}

fn undo(
    paths: &Paths,
    path: &Path,
    now: Vec<u8>,
    touched: Option<&Touched>,
    is_blank: impl Fn(&[u8]) -> bool,
    without_us: impl FnOnce(&[u8]) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<Option<(Edit, bool)>> {
    let untouched = touched.filter(|t| t.written.contains(&sha256(&now)));
    let kept = untouched.map(|t| t.original.as_ref().map(|hash| record::original(&state(paths), hash)));
    let (after, exact) = match kept {
        Some(None) => (None, true),
        Some(Some(Some(original))) => (Some(original), true),
        _ => {
            let after = without_us(&now)?;
            let made_by_us = touched.is_some_and(|t| t.original.is_none());
            ((!(made_by_us && is_blank(&after))).then_some(after), false)
        }
    };
    let edit = Edit { path: place::real(path)?, before: Some(now), after };
    edit.check()?;
    Ok(edit.is_needed().then_some((edit, exact)))
}

impl Removal {
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.record == Record::default()
    }

    pub fn carry_out(&self, paths: &Paths) -> anyhow::Result<()> {
        let _lock = lock(paths)?;
        for (edit, _) in &self.edits {
            edit.carry_out()?;
        }
        // Only if they are empty again.
        for dir in self.record.folders.iter().rev() {
            let _ = std::fs::remove_dir(dir);
        }
        match std::fs::remove_dir_all(state(paths)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(fs::FileError::new("remove", &state(paths), e).into())
            }
            _ => Ok(()),
        }
    }
}

/// What the client does with our hooks, for `doctor` and `run`.
#[derive(Debug, Default)]
pub struct Standing {
    /// Events without a hook of ours.
    pub missing: Vec<&'static str>,
    /// Events whose hook the client does not run, and why.
    pub skipped: Vec<(String, State)>,
    /// Programs that hooks of ours name and that are not there.
    pub gone: Vec<String>,
    /// What cannot be read.
    pub unusable: Option<String>,
}

impl Standing {
    pub fn is_registered(&self) -> bool {
        self.missing.len() < EVENTS.len()
    }

    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.skipped.is_empty() && self.gone.is_empty() && self.unusable.is_none()
    }
}

pub fn standing(paths: &Paths) -> Standing {
    try_standing(paths).unwrap_or_else(|e| Standing {
        missing: EVENTS.iter().map(|(event, _)| *event).collect(),
        unusable: Some(format!("{e:#}")),
        ..Standing::default()
    })
}

fn try_standing(paths: &Paths) -> anyhow::Result<Standing> {
    let hooks = hooks_file(paths);
    let bytes = read(&hooks)?;
    let value = match &bytes {
        Some(bytes) => settings::value(bytes).with_context(|| paths.short(&hooks))?,
        None => serde_json::Value::Null,
    };
    let entries = trust::entries(&hooks.display().to_string(), &value);
    let has = |event: &str| entries.iter().any(|e| e.event == event);
    let missing = EVENTS.iter().map(|(event, _)| *event).filter(|event| !has(event)).collect();
    let config = config_file(paths);
    let text = String::from_utf8_lossy(&read(&config)?.unwrap_or_default()).into_owned();
    let states = trust::states(&text, &entries).with_context(|| paths.short(&config))?;
    let skipped = entries.iter().zip(states).filter(|(_, s)| *s != State::Trusted);
    let skipped = skipped.map(|(e, s)| (e.event.clone(), s)).collect();
    let ours = settings::all_hooks(&value).filter(|(event, hook)| is_hook(hook, event));
    let mut gone: Vec<String> = ours
        .filter_map(|(_, hook)| super::ours::program_of(hook))
        .filter(|program| !super::version::is_program(Path::new(program)))
        .collect();
    gone.dedup();
    Ok(Standing { missing, skipped, gone, unusable: None })
}
