//! A real tmux on its own socket: programs in real terminals, keys, pastes and the screen.
//!
//! The server starts with an empty environment, so a pane sees exactly what its [`Launch`] gives it plus what tmux
//! itself sets. Nothing outside this socket is touched.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;

use crate::clients::Launch;
use crate::tools;
use crate::wait::poll;

/// How long programs may take to end after their terminal is gone.
const GRACE: Duration = Duration::from_secs(5);

/// How long typed text may take to show.
const ECHO: Duration = Duration::from_secs(10);

/// Codex treats an Enter that comes too soon after a burst of letters as part of a paste.
const SETTLE: Duration = Duration::from_millis(150);

/// Our own tmux server, which ends on drop with everything in it.
pub struct Tmux {
    /// Holds the socket.
    folder: TempDir,
}

impl Tmux {
    /// A server of our own, or `None` without tmux: the test is skipped.
    #[track_caller]
    pub fn installed() -> Result<Option<Self>> {
        if tools::has(&["tmux"]) { Self::new().map(Some) } else { Ok(None) }
    }

    pub fn new() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("baton-tmux-").tempdir();
        Ok(Tmux { folder: folder.context("making the folder of the tmux socket")? })
    }

    /// Starts a program in a new session, in a terminal of 160 × 48.
    pub fn run(&self, name: &str, launch: &Launch) -> Result<Pane<'_>> {
        let mut tmux = self.command();
        tmux.args(["-f", "/dev/null", "new-session", "-d", "-P", "-F", "#{pane_id}"]);
        tmux.args(["-s", name, "-x", "160", "-y", "48", "-c"]).arg(&launch.cwd);
        for (key, value) in &launch.env {
            // tmux gives a new session its client's PATH, whatever `-e` says.
            if key == "PATH" {
                tmux.env(key, value);
            }
            let mut pair = OsString::from(key);
            pair.push("=");
            pair.push(value);
            tmux.arg("-e").arg(pair);
        }
        // With `env` in front there is always more than one word, which tmux starts without a shell.
        tmux.args(["--", "/usr/bin/env"]).arg(&launch.program);
        tmux.args(launch.args.iter().map(|arg| literal(arg)));
        // In the same call, so that we can read the exit code of a program that ends at once.
        tmux.args([";", "set-option", "-w", "remain-on-exit", "on"]);
        let output = checked(tmux.output(), "starting a tmux session")?;
        let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        ensure!(id.starts_with('%'), "tmux gave no pane for {name}: {id:?}");
        Ok(Pane { tmux: self, id })
    }

    /// This server's socket, for outside programs (`tmux -S`).
    pub fn socket(&self) -> PathBuf {
        let uid = rustix::process::getuid().as_raw();
        self.folder.path().join(format!("tmux-{uid}")).join("baton")
    }

    /// Runs any tmux command on this server and returns its output.
    pub fn tmux<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<String> {
        let output = checked(self.command().args(args).output(), "running tmux")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Ends the server and every program in it.
    pub fn end(&self) {
        let programs = self.tmux(&["list-panes", "-a", "-F", "#{pane_pid}"]).unwrap_or_default();
        let _ = self.command().arg("kill-server").stderr(Stdio::null()).status();
        // A client that is told to end still writes to its home, which the test is about to remove.
        let runs = |pid: &str| pid.parse().is_ok_and(is_running);
        poll(GRACE, || (!programs.lines().any(runs)).then_some(()));
    }

    fn command(&self) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.env_clear().env("TMUX_TMPDIR", self.folder.path()).env("LANG", "C.UTF-8");
        if let Some(path) = std::env::var_os("PATH") {
            tmux.env("PATH", path);
        }
        tmux.args(["-L", "baton"]).stdin(Stdio::null());
        tmux
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.end();
    }
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

/// How a pane's program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Code(i32),
    Signal(i32),
}

/// One terminal with a program in it.
pub struct Pane<'a> {
    tmux: &'a Tmux,
    id: String,
}

impl Pane<'_> {
    /// `%0`, as in `TMUX_PANE`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The process that tmux started here.
    pub fn pid(&self) -> Result<i32> {
        self.format("#{pane_pid}")?.parse().context("reading the pid of a pane")
    }

    /// Any tmux format of this pane, such as `#{cursor_x}`.
    pub fn format(&self, format: &str) -> Result<String> {
        let text = self.tmux.tmux(&["display-message", "-p", "-t", &self.id, format])?;
        Ok(text.trim_end().to_owned())
    }

    /// Keys by their tmux names: `Enter`, `C-c`, `Escape`.
    pub fn keys(&self, keys: &[&str]) -> Result<()> {
        self.tmux.tmux(&[&["send-keys", "-t", &self.id], keys].concat()).map(drop)
    }

    /// Text as typed, letter by letter, without Enter.
    pub fn type_text(&self, text: &str) -> Result<()> {
        self.tmux
            .tmux(&["send-keys", "-t", &self.id, "-l", "--", &literal(text.as_ref()).to_string_lossy()])
            .map(drop)
    }

    /// Text as a bracketed paste, without Enter.
    pub fn paste(&self, text: &str) -> Result<()> {
        let mut load = self.tmux.command();
        load.args(["load-buffer", "-b", "testkit", "-"]).stdin(Stdio::piped());
        let mut child = load.stdout(Stdio::null()).spawn().context("starting tmux load-buffer")?;
        let mut stdin = child.stdin.take().context("tmux load-buffer has no stdin")?;
        stdin.write_all(text.as_bytes()).context("handing the paste to tmux")?;
        drop(stdin);
        ensure!(child.wait().context("waiting for tmux load-buffer")?.success(), "tmux refused the paste");
        self.tmux.tmux(&["paste-buffer", "-p", "-d", "-b", "testkit", "-t", &self.id]).map(drop)
    }

    /// Types one line and, once it shows on the screen, Enter as a separate key.
    pub fn submit(&self, line: &str) -> Result<()> {
        self.type_text(line)?;
        // Check only its end: the input box breaks a long line.
        let end: String =
            squeezed(line).chars().rev().take(20).collect::<Vec<_>>().into_iter().rev().collect();
        let what = format!("{line:?} in the input box");
        self.wait_until(&what, ECHO, |screen| squeezed(screen).contains(&end))?;
        thread::sleep(SETTLE);
        self.keys(&["Enter"])
    }

    /// The present screen.
    pub fn screen(&self) -> Result<String> {
        self.tmux.tmux(&["capture-pane", "-p", "-t", &self.id])
    }

    /// The screen, with colours and attributes as escape sequences.
    pub fn styled_screen(&self) -> Result<String> {
        self.tmux.tmux(&["capture-pane", "-p", "-e", "-t", &self.id])
    }

    /// Waits until a text is on the screen; the error shows the screen instead.
    pub fn wait_for(&self, text: &str, deadline: Duration) -> Result<String> {
        self.wait_until(&format!("{text:?} on the screen"), deadline, |screen| screen.contains(text))
    }

    /// Waits until the screen satisfies a condition; `what` names it in the error.
    pub fn wait_until(
        &self,
        what: &str,
        deadline: Duration,
        mut holds: impl FnMut(&str) -> bool,
    ) -> Result<String> {
        let mut last = String::new();
        let mut look = || -> Result<Option<()>> {
            last = self.screen()?;
            Ok(holds(&last).then_some(()))
        };
        let found = poll(deadline, || look().transpose()).transpose()?;
        if found.is_none() {
            bail!("waited {deadline:?} for {what}; the screen was:\n{}", last.trim_end());
        }
        Ok(last)
    }

    /// Waits until the program has ended.
    pub fn wait_for_end(&self, deadline: Duration) -> Result<Ended> {
        let look = || -> Result<Option<Ended>> {
            let state = self.format("#{pane_dead} #{pane_dead_status} #{pane_dead_signal}")?;
            let ended = ended(&state);
            if ended.is_none() && state.starts_with('1') {
                // tmux 3.3a occasionally misses the end of a child and leaves a zombie without a status; the end of
                // another child makes it check again.
                self.tmux.tmux(&["run-shell", "true"])?;
            }
            Ok(ended)
        };
        match poll(deadline, || look().transpose()).transpose()? {
            Some(ended) => Ok(ended),
            None => bail!("waited {deadline:?} for the program to end; the screen was:\n{}", self.screen()?),
        }
    }
}

/// Whether a process still runs; a zombie does not.
pub fn is_running(pid: i32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The name in parentheses may contain anything; the state follows the last parenthesis.
        Ok(stat) => !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')),
        Err(_) => rustix::process::Pid::from_raw(pid)
            .is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok()),
    }
}

/// tmux reads a semicolon at the end of a word as the end of the command, unless it is escaped.
fn literal(word: &OsStr) -> OsString {
    let Some(rest) = word.as_encoded_bytes().strip_suffix(b";") else { return word.to_owned() };
    OsString::from_vec([rest, b"\\;"].concat())
}

/// Parses `dead status signal`; tmux leaves the field that does not apply empty.
fn ended(state: &str) -> Option<Ended> {
    let (dead, rest) = state.split_once(' ').unwrap_or((state, ""));
    let (status, signal) = rest.split_once(' ').unwrap_or((rest, ""));
    if dead != "1" {
        return None;
    }
    match signal.parse() {
        Ok(signal) => Some(Ended::Signal(signal)),
        Err(_) => status.parse().ok().map(Ended::Code),
    }
}

fn checked(output: std::io::Result<Output>, what: &str) -> Result<Output> {
    let output = output.with_context(|| what.to_owned())?;
    ensure!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(output)
}
