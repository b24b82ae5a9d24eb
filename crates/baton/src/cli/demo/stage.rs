//! The demo's own world: a temporary home in which the scripted agent runs under the real supervisor, with the real
//! hooks, status line and store. Removed on drop, unless kept.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::sys::fs::{self, PRIVATE, Sync};

/// How long running processes may take to end.
const GRACE: Duration = Duration::from_secs(10);
/// The mode of an executable file.
const EXECUTABLE: u32 = 0o700;

/// The agent's script.
const SCRIPT: &str = include_str!("demo.script");
/// The project's test, which really checks the file.
const CHECK: &str = "#!/bin/sh
grep -q 'is_expired(now' src/session.rs 2>/dev/null || { echo \"test $1 ... FAILED: expired twice\"; exit 1; }
grep -q 'stamp(now' src/session.rs || { echo \"test $1 ... FAILED: the stamp is off by one hour\"; exit 1; }
echo \"test $1 ... ok\"
";

pub(super) struct Stage {
    home: PathBuf,
    keep: bool,
    child: Option<Child>,
    stdin: Option<ChildStdin>,
    /// How many bytes of the agent's log were already narrated.
    told: usize,
}

impl Stage {
    /// Creates the home. Reads and writes nothing of the user's.
    pub(super) fn new(keep: bool) -> anyhow::Result<Self> {
        let home = fs::temporary_dir("baton-demo")?;
        let stage = Self { home, keep, child: None, stdin: None, told: 0 };
        fs::private_dir(&stage.project().join(".claude"))?;
        let line = json!({ "statusLine": { "type": "command", "command": "baton statusline" } });
        fs::private_dir(&stage.home.join(".claude"))?;
        let line = line.to_string();
        for (path, text, mode) in [
            (".claude/settings.json", line.as_str(), PRIVATE),
            ("agent.script", SCRIPT, PRIVATE),
            ("app/check", CHECK, EXECUTABLE),
        ] {
            fs::replace(&stage.home.join(path), text.as_bytes(), mode, Sync::No)?;
        }
        Ok(stage)
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    pub(super) fn project(&self) -> PathBuf {
        self.home.join("app")
    }

    fn seen(&self) -> PathBuf {
        self.home.join("seen.jsonl")
    }

    /// Starts `baton run demo` with the first prompt; `pace` is the agent's thinking time in milliseconds.
    pub(super) fn start(&mut self, prompt: &str, pace: u64) -> anyhow::Result<()> {
        let me = std::env::current_exe().context("could not find this program's own path")?;
        // The status line and the agent call `baton` by name, whatever this program's file is called.
        let own = self.home.join("bin");
        fs::private_dir(&own)?;
        std::os::unix::fs::symlink(&me, own.join("baton"))
            .context("could not put baton on the demo's PATH")?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(own).chain(std::env::split_paths(&path)))?;
        let mut child = Command::new(&me)
            .args(["run", "demo", prompt])
            .current_dir(self.project())
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", path)
            .env("LANG", "C.UTF-8")
            .env("NO_COLOR", "1")
            .env("BATON_AGENT_SCRIPT", self.home.join("agent.script"))
            .env("BATON_AGENT_SEEN", self.seen())
            .env("BATON_AGENT_PACE", pace.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("could not start `baton run demo`")?;
        self.stdin = child.stdin.take();
        self.child = Some(child);
        Ok(())
    }

    /// Types a line to the current client.
    pub(super) fn say(&mut self, line: &str) -> anyhow::Result<()> {
        let stdin = self.stdin.as_mut().context("nobody runs")?;
        writeln!(stdin, "{line}").context("the agent does not listen any more")?;
        Ok(())
    }

    /// The events since the last call.
    pub(super) fn news(&mut self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.seen()).unwrap_or_default();
        let new = text.get(self.told..).unwrap_or_default();
        // Leave an unfinished line for the next call.
        let whole = new.rfind('\n').map_or(0, |end| end + 1);
        self.told += whole;
        new[..whole].lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub(super) fn has_ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.as_mut().context("nobody runs")?.try_wait()?)
    }

    /// Ends all processes and returns the standard error of `baton run`.
    pub(super) fn complaints(&mut self) -> String {
        self.end();
        let mut text = String::new();
        if let Some(mut err) = self.child.as_mut().and_then(|c| c.stderr.take()) {
            let _ = std::io::Read::read_to_string(&mut err, &mut text);
        }
        text
    }
}

impl Stage {
    /// Without input the agent ends by itself, and its supervisor with it. Kills whatever remains.
    fn end(&mut self) {
        self.stdin.take();
        let Some(child) = &mut self.child else { return };
        let until = Instant::now() + GRACE;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() >= until {
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(15));
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.end();
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.home);
        }
    }
}
