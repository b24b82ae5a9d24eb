//! tmux: servers by their socket, panes by id, server and process. Each call is one short `tmux` process with a
//! deadline. Nothing is addressed by a session's name, which may belong to another session by now.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use baton_core::agent::Pane;
use baton_core::process::Process;

use crate::rotation::actuators::tmux::keys;
use crate::sys::process;

/// A server that needs longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(5);
/// Upper bound for the lines read from a pane's history.
const MOST_LINES: usize = 10_000;

/// One tmux server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    socket: Socket,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Socket {
    Named(String),
    At(PathBuf),
}

/// The current state of a pane, from its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PaneState {
    pub pane: String,
    pub server: u32,
    pub process: u32,
    pub dead: bool,
    pub in_mode: bool,
    pub cursor: (usize, usize),
    pub socket: String,
}

const FACTS: &str = "#{pane_id}\t#{pid}\t#{pane_pid}\t#{pane_dead}\t#{pane_in_mode}\t#{cursor_x}\t#{cursor_y}\t#{socket_path}";

impl PaneState {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.trim_end().split('\t');
        let mut next = || fields.next();
        Some(Self {
            pane: next()?.to_owned(),
            server: next()?.parse().ok()?,
            process: next()?.parse().ok()?,
            dead: next()? == "1",
            in_mode: next()?.parse::<u32>().ok()? > 0,
            cursor: (next()?.parse().ok()?, next()?.parse().ok()?),
            socket: next()?.to_owned(),
        })
    }

    /// The pane's identity, if its first process still runs.
    pub(crate) fn identify(&self, spawned: bool) -> Option<Pane> {
        Some(Pane {
            socket: self.socket.clone(),
            server: process::identify(self.server)?,
            id: self.pane.clone(),
            process: process::identify(self.process)?,
            spawned,
        })
    }
}

impl Server {
    /// The server with this name, or at this path.
    pub(crate) fn told(socket: &str) -> Self {
        let at =
            if socket.contains('/') { Socket::At(socket.into()) } else { Socket::Named(socket.to_owned()) };
        Self { socket: at }
    }

    pub(crate) fn of(pane: &Pane) -> Self {
        Self { socket: Socket::At(PathBuf::from(&pane.socket)) }
    }

    /// `tmux` for this server, ready for a command.
    pub(crate) fn command(&self) -> Command {
        let mut tmux = Command::new("tmux");
        // Read and write UTF-8, whatever our locale is.
        tmux.arg("-u");
        match &self.socket {
            Socket::Named(name) => tmux.arg("-L").arg(name),
            Socket::At(path) => tmux.arg("-S").arg(path),
        };
        // Do not let tmux use the server that we run in.
        tmux.env_remove("TMUX").env_remove("TMUX_PANE");
        tmux
    }

    /// Runs one command and returns its output.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> anyhow::Result<String> {
        let mut tmux = self.command();
        tmux.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let what = || args.first().map(|a| a.as_ref().to_string_lossy().into_owned()).unwrap_or_default();
        let mut child = tmux.spawn().map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                anyhow::anyhow!("tmux is not on the PATH; install tmux 3.2 or later")
            }
            _ => anyhow::Error::from(e).context("could not start tmux"),
        })?;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let deadline = Instant::now() + PATIENCE;
        let status = std::thread::scope(|scope| {
            let reading = scope.spawn(|| stdout.map(|mut s| s.read_to_end(&mut out)));
            let complaints = scope.spawn(|| stderr.map(|s| s.take(64 << 10).read_to_end(&mut err)));
            let status = wait_until(&mut child, deadline);
            if status.is_none() {
                let _ = child.kill();
                let _ = child.wait();
            }
            let _ = (reading.join(), complaints.join());
            status
        });
        let Some(status) = status else { bail!("tmux {} did not answer within {PATIENCE:?}", what()) };
        let said = String::from_utf8_lossy(&err);
        ensure!(status.success(), "tmux {}: {}", what(), baton_core::plain::plain_line(said.trim(), 200));
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    /// The state of a pane; `None` if there is no such pane or no server.
    pub(crate) fn facts(&self, pane: &str) -> Option<PaneState> {
        PaneState::parse(&self.run(&["display-message", "-p", "-t", pane, FACTS]).ok()?)
            .filter(|f| f.pane == pane)
    }

    /// Whether a client displays this pane's window. If the server does not answer, nobody sees the pane.
    pub(crate) fn is_looked_at(&self, pane: &str) -> bool {
        let said = self.run(&["display-message", "-p", "-t", pane, "#{window_active_clients}"]);
        said.is_ok_and(|count| count.trim().parse::<u32>().is_ok_and(|count| count > 0))
    }

    /// All panes of this server.
    pub(crate) fn panes(&self) -> Vec<PaneState> {
        let listed = self.run(&["list-panes", "-a", "-F", FACTS]).unwrap_or_default();
        listed.lines().filter_map(PaneState::parse).collect()
    }

    /// Starts `program` in a new session.
    pub(crate) fn start(
        &self,
        name: &str,
        cwd: &Path,
        program: &Path,
        args: &[OsString],
    ) -> anyhow::Result<PaneState> {
        // Session names are for people, but these two characters have a meaning in targets.
        let name = name.replace(['.', ':'], "_");
        let mut words: Vec<OsString> =
            ["new-session", "-d", "-P", "-F", FACTS, "-s", &name, "-x", "200", "-y", "50", "-c"]
                .iter()
                .map(OsString::from)
                .collect();
        words.extend([cwd.into(), "--".into(), program.into()]);
        words.extend(args.iter().map(|a| keys::word(a)));
        // Set this in the same call, so that the output of a client that fails at once stays readable.
        words.extend([";", "set-option", "-w", "remain-on-exit", "failed"].iter().map(OsString::from));
        let told = self.run(&words)?;
        PaneState::parse(&told).with_context(|| format!("tmux gave no pane for {name}: {told:?}"))
    }

    /// Keeps a pane open when its program ends.
    pub(crate) fn hold_open(&self, pane: &str) -> anyhow::Result<()> {
        self.run(&["set-option", "-p", "-t", pane, "remain-on-exit", "on"]).map(drop)
    }

    /// Starts `program` in an existing pane.
    pub(super) fn restart(
        &self,
        pane: &str,
        cwd: &Path,
        program: &Path,
        args: &[OsString],
    ) -> anyhow::Result<PaneState> {
        let mut words: Vec<OsString> =
            ["respawn-pane", "-k", "-t", pane, "-c"].iter().map(OsString::from).collect();
        words.extend([cwd.into(), "--".into(), program.into()]);
        words.extend(args.iter().map(|a| keys::word(a)));
        words
            .extend([";", "set-option", "-p", "-u", "-t", pane, "remain-on-exit"].iter().map(OsString::from));
        words.extend([";", "display-message", "-p", "-t", pane, FACTS].iter().map(OsString::from));
        let told = self.run(&words)?;
        PaneState::parse(&told)
            .with_context(|| format!("tmux did not start anything in pane {pane}: {told:?}"))
    }
}

fn wait_until(child: &mut std::process::Child, deadline: Instant) -> Option<std::process::ExitStatus> {
    let mut pause = Duration::from_micros(500);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(20));
            }
            _ => return None,
        }
    }
}

/// A pane identified earlier; `facts` checks that it is still the same one.
pub(crate) struct RecordedPane<'a> {
    pub(super) pane: &'a Pane,
    pub(super) server: Server,
}

impl<'a> RecordedPane<'a> {
    pub(crate) fn new(pane: &'a Pane) -> Self {
        Self { pane, server: Server::of(pane) }
    }

    /// The pane's current state; `None` if it, its server or its process is gone.
    pub(crate) fn facts(&self) -> Option<PaneState> {
        if !process::is_alive(&self.pane.server) || !process::is_alive(&self.pane.process) {
            return None;
        }
        let facts = self.server.facts(&self.pane.id)?;
        let same = |pid: u32, who: &Process| pid == who.pid;
        (same(facts.server, &self.pane.server) && same(facts.process, &self.pane.process) && !facts.dead)
            .then_some(facts)
    }

    /// The screen with its colours and attributes.
    pub(crate) fn screen(&self) -> anyhow::Result<String> {
        self.server.run(&["capture-pane", "-p", "-e", "-t", &self.pane.id])
    }

    /// The last `lines` lines of history and screen, plain.
    pub(crate) fn lines(&self, lines: usize) -> anyhow::Result<String> {
        let from = format!("-{}", lines.min(MOST_LINES));
        let text = self.server.run(&["capture-pane", "-p", "-J", "-S", &from, "-t", &self.pane.id])?;
        let all: Vec<&str> = text.trim_end().lines().collect();
        Ok(all[all.len().saturating_sub(lines)..].join("\n"))
    }

    /// Closes the pane.
    pub(crate) fn close(&self) -> anyhow::Result<()> {
        self.server.run(&["kill-pane", "-t", &self.pane.id]).map(drop)
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }
}
