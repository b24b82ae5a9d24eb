//! The transcript as the client writes it: one record per block, with the usage repeated in each.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use baton_core::transcript::tail::{Tail, last_usage_in};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) const VERSION: &str = "2.1.325";

pub(super) struct Transcript {
    pub path: PathBuf,
    parent: Option<String>,
    /// Records not in the file yet: it does not exist before the first prompt.
    pending: Vec<String>,
    open: bool,
}

/// The fields of every record.
pub(super) struct Stamp<'a> {
    pub session: &'a str,
    pub cwd: &'a str,
    pub entrypoint: &'a str,
}

/// The folder of `cwd`'s conversations.
pub(super) fn folder(config_dir: &Path, cwd: &Path) -> PathBuf {
    let slug: String =
        cwd.display().to_string().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    config_dir.join("projects").join(slug)
}

/// A random id in the client's format.
pub(super) fn uuid() -> anyhow::Result<String> {
    use std::io::Read as _;
    let mut bytes = [0u8; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut f| f.read_exact(&mut bytes))
        .context("could not read random bytes")?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    Ok(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}

impl Transcript {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, parent: None, pending: Vec::new(), open: false }
    }

    /// An existing transcript that continues.
    pub(super) fn resumed(path: PathBuf) -> Self {
        Self { open: true, ..Self::new(path) }
    }

    /// Writes pending records, and from now on each record at once.
    pub(super) fn open(&mut self) -> anyhow::Result<()> {
        self.open = true;
        let pending = std::mem::take(&mut self.pending);
        pending.iter().try_for_each(|line| self.append(line))
    }

    /// Holds records back until `open` is called again.
    pub(super) fn hold(&mut self) {
        self.open = false;
    }

    fn append(&self, line: &str) -> anyhow::Result<()> {
        let doing = || format!("could not write the transcript {}", self.path.display());
        if let Some(dir) = self.path.parent() {
            std::fs::create_dir_all(dir).with_context(doing)?;
        }
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path).with_context(doing)?;
        file.write_all(format!("{line}\n").as_bytes()).with_context(doing)
    }

    /// Adds a record of `kind`; its own fields come after the chain's.
    pub(super) fn record(&mut self, stamp: &Stamp<'_>, kind: &str, fields: Value) -> anyhow::Result<()> {
        let id = uuid()?;
        let mut record = json!({
            "parentUuid": self.parent,
            "isSidechain": false,
            "type": kind,
            "uuid": id,
            "timestamp": format!("{:.3}", Timestamp::now()),
            "userType": "external",
            "entrypoint": stamp.entrypoint,
            "cwd": stamp.cwd,
            "sessionId": stamp.session,
            "version": VERSION,
            "gitBranch": "main",
        });
        if let (Value::Object(record), Value::Object(fields)) = (&mut record, fields) {
            record.extend(fields);
        }
        self.parent = Some(id);
        let line = record.to_string();
        if self.open {
            return self.append(&line);
        }
        self.pending.push(line);
        Ok(())
    }

    /// The size that the last answer in the file reported.
    pub(super) fn tokens(path: &Path) -> u64 {
        match std::fs::read(path).map(|bytes| last_usage_in(&bytes)) {
            Ok(Tail::Usage(usage)) => usage.tokens + usage.output,
            Ok(Tail::Compacted(c)) => c.post_tokens.unwrap_or(0),
            _ => 0,
        }
    }
}
