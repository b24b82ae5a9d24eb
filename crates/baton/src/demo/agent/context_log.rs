//! Logs what reached the model and the user, one JSON object per line, so that a test can check it.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

pub(super) struct ContextLog {
    path: Option<PathBuf>,
    /// How many contexts this process has begun, if there is no file to count them in.
    begun: usize,
}

impl ContextLog {
    pub(super) fn from_env() -> Self {
        Self { path: std::env::var_os("BATON_AGENT_SEEN").map(PathBuf::from), begun: 0 }
    }

    /// Begins a fresh context; returns how many began before it, in this process or an earlier one.
    pub(super) fn begin_context(&mut self) -> usize {
        let earlier = self.path.as_deref().and_then(|path| std::fs::read_to_string(path).ok());
        let before = match earlier {
            Some(text) => text.lines().filter(|line| line.contains(r#""kind":"context-begins""#)).count(),
            None => self.begun,
        };
        self.begun += 1;
        before
    }

    /// `kind` is one of: context-begins, prompt, context, block, message, instructions, invalid, statusline, said,
    /// tool, hook, end.
    pub(super) fn note(&self, kind: &str, session: &str, what: Value) {
        let Some(path) = &self.path else { return };
        let mut line = json!({ "kind": kind, "session": session });
        if let (Value::Object(line), Value::Object(what)) = (&mut line, what) {
            line.extend(what);
        }
        let written = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        if let Err(e) = written {
            eprintln!("could not write {}: {e}", path.display());
        }
    }
}
