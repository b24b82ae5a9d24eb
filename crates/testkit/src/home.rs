//! A separate home folder for every test, where the real binary runs without anything of our own environment.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A message as an agent reads it; the fence's key is in `state`.
pub fn framed(state: &Path, id: &str, from: &str, text: &str) -> String {
    let key = std::fs::read(state.join("fence.key")).expect("a frame was made");
    let word = baton_core::fence::Key::new(key.try_into().expect("it has 32 bytes")).word(id);
    format!("[baton message {id} from {from}] {word}\n{text}\n[end of message] {word}")
}

/// The current record at `path`: the whole file, or the last complete line of one that grows by lines. `null` if there
/// is none.
pub fn record(path: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    if let Ok(whole) = serde_json::from_str(&text) {
        return whole;
    }
    text.lines().rev().find_map(|line| serde_json::from_str(line).ok()).unwrap_or_default()
}

/// The [`record`] of each `.json` file in a folder, by name.
pub fn records(dir: &Path) -> Vec<serde_json::Value> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|ext| ext == "json")).collect();
    paths.sort();
    paths.iter().map(|path| record(path)).filter(|record| !record.is_null()).collect()
}

/// A temporary home with one project folder, removed on drop.
#[derive(Debug)]
pub struct Home {
    dir: TempDir,
    baton: PathBuf,
}

/// A command's exit code and output.
#[derive(Debug)]
pub struct CommandOutput {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl CommandOutput {
    pub fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Its output, after asserting success.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "it failed: {}", self.err);
        self.out
    }

    /// Its message, after asserting exit code `code`.
    #[track_caller]
    pub fn fails(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "stdout: {} stderr: {}", self.out, self.err);
        self.err
    }

    /// Its output as JSON, after asserting success.
    #[track_caller]
    pub fn json(self) -> serde_json::Value {
        let out = self.ok();
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e} in {out}"))
    }
}

impl Home {
    /// `baton` is the binary to run: `env!("CARGO_BIN_EXE_baton")` in that crate's tests.
    pub fn new(baton: impl Into<PathBuf>) -> Self {
        Self::in_dir(TempDir::new().expect("tests need a folder for temporary files"), baton)
    }

    /// A home in memory if the machine supports it, for tests that do not test the disk: thousands of syncs are then as
    /// fast as the processes between them.
    pub fn in_memory(baton: impl Into<PathBuf>) -> Self {
        match TempDir::new_in("/dev/shm") {
            Ok(dir) => Self::in_dir(dir, baton),
            Err(_) => Self::new(baton),
        }
    }

    fn in_dir(dir: TempDir, baton: impl Into<PathBuf>) -> Self {
        let home = Self { dir, baton: baton.into() };
        std::fs::create_dir_all(home.project()).expect("a fresh folder takes a new one");
        home
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Where commands start: a folder that belongs to no project until a test makes it one.
    pub fn project(&self) -> PathBuf {
        self.path().join("work/app")
    }

    /// The handoff store.
    pub fn store(&self) -> PathBuf {
        self.path().join(".claude/handoff")
    }

    /// Records of sessions, agents, mail; the log.
    pub fn state(&self) -> PathBuf {
        self.path().join(".local/state/baton")
    }

    /// A message as an agent reads it.
    pub fn framed(&self, id: &str, from: &str, text: &str) -> String {
        framed(&self.state(), id, from, text)
    }

    /// Writes a file in the home, with the folders it needs.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).expect("a fresh folder takes a new one");
        }
        std::fs::write(&path, text).expect("a fresh folder takes a new file");
        path
    }

    /// Trusts the project as its user does, with its current settings.
    #[track_caller]
    pub fn trust(&self) {
        self.run("trust").ok();
    }

    pub fn binary(&self) -> &Path {
        &self.baton
    }

    /// `program` with this home and nothing else of our environment.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TZ", "UTC")
            .current_dir(self.project())
            .stdin(Stdio::null());
        command
    }

    pub fn baton<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.command(&self.baton);
        command.args(args);
        command
    }

    /// Runs baton with `line`, split at spaces.
    pub fn run(&self, line: &str) -> CommandOutput {
        run(&mut self.baton(line.split_whitespace()))
    }

    /// Runs baton with `line` and `text` on its standard input.
    pub fn run_with_input(&self, line: &str, text: &str) -> CommandOutput {
        use std::io::Write as _;
        let mut command = self.baton(line.split_whitespace());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("baton starts");
        // A command that refuses its arguments never reads, so ignore a closed pipe.
        let _ = child.stdin.take().expect("it was asked for").write_all(text.as_bytes());
        CommandOutput::of(&child.wait_with_output().expect("a child can be waited for"))
    }

    /// Replaces the home's path by `~`, for messages.
    pub fn tidy(&self, text: &str) -> String {
        let real = std::fs::canonicalize(self.path()).unwrap_or_else(|_| self.path().to_owned());
        text.replace(&real.display().to_string(), "~").replace(&self.path().display().to_string(), "~")
    }
}

pub fn run(command: &mut Command) -> CommandOutput {
    CommandOutput::of(&command.output().unwrap_or_else(|e| panic!("{command:?} does not start: {e}")))
}
