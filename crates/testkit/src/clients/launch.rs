//! Starts a program with an explicit environment and nothing inherited.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

/// A program to start headless ([`Launch::run`]) or in a terminal ([`crate::tmux::Tmux::run`]).
#[derive(Debug, Clone)]
pub struct Launch {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// The whole environment.
    pub env: BTreeMap<String, OsString>,
    pub cwd: PathBuf,
}

/// A program that has ended.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

impl Launch {
    pub fn new(program: impl Into<PathBuf>, cwd: impl Into<PathBuf>) -> Self {
        Launch { program: program.into(), args: Vec::new(), env: BTreeMap::new(), cwd: cwd.into() }
    }

    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: &[S]) -> Self {
        self.args.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// The same launch through another program: `launch.under("baton", &["run", "claude"])` keeps arguments and
    /// environment and replaces the client with these words.
    #[must_use]
    pub fn under<S: AsRef<OsStr>>(mut self, program: impl Into<PathBuf>, args: &[S]) -> Self {
        self.program = program.into();
        self.args.splice(0..0, args.iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// The command, for tests that set it up further themselves.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear().envs(&self.env).current_dir(&self.cwd);
        command
    }

    /// Runs it without a terminal and with an empty stdin; kills its process group after the deadline.
    pub fn run(&self, deadline: Duration) -> Result<Finished> {
        let start = Instant::now();
        let name = self.program.display();
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().with_context(|| format!("starting {name}"))?;
        let stdout = collect(child.stdout.take());
        let stderr = collect(child.stderr.take());
        let status = wait(&mut child, start + deadline)?;
        let took = start.elapsed();
        if status.is_none() {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            if let Some(group) = group {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = child.wait();
        }
        let (stdout, stderr) = (joined(stdout), joined(stderr));
        let Some(status) = status else {
            bail!("{name} did not end within {deadline:?}\nstdout: {stdout}\nstderr: {stderr}");
        };
        Ok(Finished { code: status.code(), signal: status.signal(), stdout, stderr, took })
    }
}

fn wait(child: &mut Child, end: Instant) -> Result<Option<std::process::ExitStatus>> {
    loop {
        let status = child.try_wait().context("waiting for a client")?;
        if status.is_some() || Instant::now() >= end {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn joined(reader: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}
