//! Integrates with Codex: hooks in its `hooks.json` and, if the user agrees, their consent in its `config.toml`.
//!
//! The original files are kept, so that an uninstall restores the exact bytes. If others have edited a file since,
//! exactly our entries are removed.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use crate::providers::{self, Window};
use crate::setup::install::files::{self, Binary, Edit};
use crate::setup::install::ours::{Hook, WAITS, is_hook, is_impatient};
use crate::setup::install::settings::{self, Undo, WantedEntries};
use crate::setup::install::trust::{self, HookEntry, HookTrust};
use crate::setup::install::{edits_diff, feature, lock, record, version};
use crate::store;
use crate::sys::fs;
use crate::sys::hash::sha256;
use crate::sys::paths::Paths;
use crate::sys::shell::quote;

/// The events baton listens to, and the seconds the client gives each. Two of them it cuts to three by itself.
pub(crate) const EVENTS: [(&str, u32); 12] = [
    ("SessionStart", 10),
    ("UserPromptSubmit", 10),
    ("PreToolUse", 10),
    ("PostToolUse", 10),
    ("Stop", 10),
    ("Interrupt", 3),
    ("PreCompact", 30),
    ("PostCompact", 10),
    ("SessionEnd", 3),
    ("PermissionRequest", WAITS),
    ("SubagentStart", 10),
    ("SubagentStop", 10),
];

/// Events whose answer reaches the model. The client cuts it to 2,500 tokens unless the entry raises the limit.
const CARRIES_TEXT: [&str; 3] = ["SessionStart", "UserPromptSubmit", "PostToolUse"];
const CONTEXT_LIMIT: u32 = 85_000;

fn hooks(program: &str) -> Vec<(&'static str, Hook)> {
    let hook = |event: &str, timeout| Hook {
        kind: "command",
        command: format!("{} hook --provider codex {event}", quote(program)),
        args: Vec::new(),
        timeout,
        context_limit: CARRIES_TEXT.contains(&event).then_some(CONTEXT_LIMIT),
        // A gate before one tool; no other call pays for it.
        matcher: window().map(|window| window.tool).filter(|_| event == "PreToolUse"),
    };
    EVENTS.iter().map(|&(event, timeout)| (event, hook(event, timeout))).collect()
}

fn window() -> Option<Window> {
    providers::with_hooks_file().and_then(|client| client.hooks.window)
}

/// What was changed, so that exactly that can be undone: `codex/install.json` in the state folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Record {
    baton: String,
    binary: Option<PathBuf>,
    hooks: Option<Touched>,
    config: Option<Touched>,
    /// Folders that we created, outermost first.
    folders: Vec<PathBuf>,
    /// The switch of the fresh window in the configuration is ours.
    window: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Touched {
    /// The hash of the bytes without our entries; `None` if there was no file.
    original: Option<String>,
    /// Hashes of our writes. If the file matches one of them, nobody else has changed it since.
    written: Vec<String>,
    /// The names of our entries.
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
        store::record::parse(&path, &bytes)?.with_context(|| {
            format!(
                "{} cannot be understood; move it away and run `baton install --provider codex` again",
                path.display()
            )
        })
    }

    fn write(&self, paths: &Paths) -> anyhow::Result<()> {
        Ok(store::record::write_synced(&state(paths).join("install.json"), self)?)
    }
}

/// The hooks file, as the client names it.
pub(crate) fn hooks_file(paths: &Paths) -> PathBuf {
    // The client resolves only a folder from the environment.
    let dir = paths.codex();
    let given = dir != paths.home.join(".codex");
    let dir = if given { std::fs::canonicalize(&dir).unwrap_or(dir) } else { dir };
    dir.join("hooks.json")
}

fn config_file(paths: &Paths) -> PathBuf {
    paths.codex().join("config.toml")
}

fn read(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    Ok(fs::read(&files::real(path)?, 16 << 20)?)
}

fn entries_in(paths: &Paths, hooks: Option<&[u8]>) -> Vec<HookEntry> {
    let value = hooks.and_then(|bytes| settings::value(bytes).ok()).unwrap_or_default();
    trust::entries(&hooks_file(paths).display().to_string(), &value)
}

/// The plan of an install.
#[derive(Debug)]
pub(crate) struct CodexPlan {
    pub binary: Binary,
    pub edits: Vec<Edit>,
    /// Events whose hooks then wait for the user's review.
    pub waiting: Vec<String>,
    record: Record,
    record_before: Record,
    originals: Vec<Vec<u8>>,
}

/// What the user has agreed to beyond the hooks themselves.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Consent {
    /// The client runs the hooks without asking for a review.
    pub trusts: bool,
    /// The client's feature that lets an agent begin a fresh window is switched on.
    pub window: bool,
}

/// What the client says of the feature with which an agent begins a fresh window: whether it is on. `None` if this client
/// does not know it.
pub(crate) fn probe_window() -> Option<bool> {
    let client = providers::with_hooks_file()?;
    let (program, _) = client.locate()?;
    let said = version::answer(&program, &["features", "list"])?;
    let words = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let feature = client.hooks.window?.feature;
    words.into_iter().find(|words| words.first() == Some(&feature)).map(|words| words.last() == Some(&"true"))
}

/// Whether the user's own configuration has it switched on.
pub(crate) fn window_is_configured(paths: &Paths) -> anyhow::Result<bool> {
    let Some(window) = window() else { return Ok(false) };
    let text = String::from_utf8_lossy(&read(&config_file(paths))?.unwrap_or_default()).into_owned();
    Ok(feature::is_on(&text, window.feature)?)
}

/// Looks at everything and changes nothing.
pub(crate) fn plan(paths: &Paths, bin_dir: &Path, consent: Consent) -> anyhow::Result<CodexPlan> {
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
    let wanted = WantedEntries { hooks: Some(hooks(program)), ..WantedEntries::NOTHING };
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
    let real = files::real(&path)?;
    if now.is_none() {
        let missing = files::missing_folders(&real);
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
    let mut after = text.clone();
    let mut keys: Vec<String> = before.config.iter().flat_map(|touched| touched.keys.clone()).collect();
    if consent.trusts {
        after = trust::give(&after, &entries).with_context(story)?;
        keys = entries.iter().map(|e| e.key.clone()).collect();
    } else {
        let waits = entries.iter().zip(states).filter(|(_, s)| *s != HookTrust::Trusted);
        waiting = waits.map(|(e, _)| e.event.clone()).collect();
    }
    if let Some(window) = window().filter(|_| consent.window) {
        let on = feature::switch_on(&after, window.feature).with_context(story)?;
        record.window |= on != after;
        after = on;
    }
    if after != text {
        let was_ours = before.window;
        let base = base(paths, now.as_deref(), before.config.as_ref(), |bytes| {
            let text = String::from_utf8_lossy(bytes);
            Ok(without_us(&text, &keys, was_ours)?.into_bytes())
        })
        .with_context(story)?;
        record.config = Some(base.touched(after.as_bytes(), keys));
        originals.extend(base.bytes);
        edits.push(Edit { path: files::real(&path)?, before: now, after: Some(after.into_bytes()) });
    }
    for edit in &edits {
        edit.check()?;
    }
    Ok(CodexPlan { binary, edits, waiting, record, record_before: before, originals })
}

/// The configuration without our consent entries and, where we have set it, without the feature's switch.
fn without_us(config: &str, keys: &[String], window: bool) -> Result<String, trust::TrustRefusal> {
    let config = trust::take_back(config, keys)?;
    match self::window().filter(|_| window) {
        Some(window) => feature::take_back(&config, window.feature),
        None => Ok(config),
    }
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
        // The last few are enough to recognise our write after an interrupted install.
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

impl CodexPlan {
    pub(crate) fn is_empty(&self) -> bool {
        !self.binary.copy && self.edits.iter().all(|e| !e.is_needed()) && self.record == self.record_before
    }

    pub(crate) fn diff(&self, paths: &Paths) -> String {
        edits_diff(paths, &self.edits)
    }

    /// Carries the plan out, the program first, so that no hook points at a missing file.
    pub(crate) fn carry_out(&self, paths: &Paths) -> anyhow::Result<()> {
        let _lock = lock(paths)?;
        if Record::read(paths)? != self.record_before {
            bail!("another install or uninstall changed something meanwhile; run this again");
        }
        self.binary.carry_out()?;
        for bytes in &self.originals {
            record::keep_original(&state(paths), bytes)?;
        }
        self.record.write(paths)?;
        self.edits.iter().try_for_each(Edit::carry_out)
    }
}

/// The plan of an uninstall.
#[derive(Debug)]
pub(crate) struct CodexRemoval {
    /// Each edit, and whether it restores the exact original bytes.
    pub edits: Vec<(Edit, bool)>,
    record: Record,
}

/// Plans everything and changes nothing.
pub(crate) fn removal(paths: &Paths) -> anyhow::Result<CodexRemoval> {
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
            Ok(without_us(text, &keys, record.window)?.into_bytes())
        };
        let is_blank = |bytes: &[u8]| bytes.trim_ascii().is_empty();
        edits.extend(
            undo(paths, &config, now, record.config.as_ref(), is_blank, without).with_context(story)?,
        );
    }
    Ok(CodexRemoval { edits, record })
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
    let edit = Edit { path: files::real(path)?, before: Some(now), after };
    edit.check()?;
    Ok(edit.is_needed().then_some((edit, exact)))
}

impl CodexRemoval {
    pub(crate) fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.record == Record::default()
    }

    pub(crate) fn carry_out(&self, paths: &Paths) -> anyhow::Result<()> {
        let _lock = lock(paths)?;
        for (edit, _) in &self.edits {
            edit.carry_out()?;
        }
        // This succeeds only if they are empty again.
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

/// How the client treats our hooks, for `doctor` and `run`.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Events without a hook of ours.
    pub missing: Vec<&'static str>,
    /// Events whose hook the client does not run, and why.
    pub skipped: Vec<(String, HookTrust)>,
    /// Missing programs that our hooks name.
    pub gone: Vec<String>,
    /// The client times out a waiting hook before the hook's own deadline.
    pub impatient: bool,
    /// Why the file cannot be read.
    pub unusable: Option<String>,
}

impl Standing {
    pub(crate) fn is_registered(&self) -> bool {
        self.missing.len() < EVENTS.len()
    }
}

pub(crate) fn standing(paths: &Paths) -> Standing {
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
    let skipped = entries.iter().zip(states).filter(|(_, s)| *s != HookTrust::Trusted);
    let skipped = skipped.map(|(e, s)| (e.event.clone(), s)).collect();
    let ours = settings::all_hooks(&value).filter(|(event, hook)| is_hook(hook, event));
    let ours: Vec<_> = ours.collect();
    let impatient = ours.iter().any(|(event, hook)| is_impatient(hook, event));
    let mut gone: Vec<String> = ours
        .into_iter()
        .filter_map(|(_, hook)| crate::setup::install::ours::program_of(hook))
        .filter(|program| !crate::setup::install::version::is_program(Path::new(program)))
        .collect();
    gone.dedup();
    Ok(Standing { missing, skipped, gone, impatient, unusable: None })
}
