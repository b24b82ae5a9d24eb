//! A home folder of its own for every test, with the real binary started in it and nothing of ours around it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// What a session's record at `path` says now: the last of its lines counts. `null` if there is none.
pub fn record(path: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().rev().find_map(|line| serde_json::from_str(line).ok()).unwrap_or_default()
}

/// A temporary home with one project folder. Removed when dropped.
#[derive(Debug)]
pub struct Home {
    dir: TempDir,
    baton: PathBuf,
}

/// How a command ended and what it said.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Its output, after a success.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "it failed: {}", self.err);
        self.out
    }

    /// Its message, after ending with `code`.
    #[track_caller]
    pub fn fails(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "stdout: {} stderr: {}", self.out, self.err);
        self.err
    }

    /// Its output as JSON, after a success.
    #[track_caller]
    pub fn json(self) -> serde_json::Value {
        let out = self.ok();
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e} in {out}"))
    }
}

impl Home {
    /// `baton` is the binary to run: `env!("CARGO_BIN_EXE_baton")` in the tests of that crate.
    pub fn new(baton: impl Into<PathBuf>) -> Self {
        Self::in_dir(TempDir::new().expect("tests need a folder for temporary files"), baton)
    }

    /// A home in memory where the machine has such a place, for tests that ask nothing of the disk: thousands of
    /// syncs are then as fast as the processes between them.
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

    /// A file in the home with `text`, with the folders it needs.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).expect("a fresh folder takes a new one");
        }
        std::fs::write(&path, text).expect("a fresh folder takes a new file");
        path
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
    pub fn run(&self, line: &str) -> Ran {
        run(&mut self.baton(line.split_whitespace()))
    }

    /// Runs baton with `line` and `text` on its standard input.
    pub fn run_with_input(&self, line: &str, text: &str) -> Ran {
        use std::io::Write as _;
        let mut command = self.baton(line.split_whitespace());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("baton starts");
        // A command that refuses its arguments never reads: a closed pipe is its right.
        let _ = child.stdin.take().expect("it was asked for").write_all(text.as_bytes());
        Ran::of(&child.wait_with_output().expect("a child can be waited for"))
    }

    /// Everything below the home, for messages: its own path is replaced by `~`.
    pub fn tidy(&self, text: &str) -> String {
        let real = std::fs::canonicalize(self.path()).unwrap_or_else(|_| self.path().to_owned());
        text.replace(&real.display().to_string(), "~").replace(&self.path().display().to_string(), "~")
    }
}

pub fn run(command: &mut Command) -> Ran {
    Ran::of(&command.output().unwrap_or_else(|e| panic!("{command:?} does not start: {e}")))
}
