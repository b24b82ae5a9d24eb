//! A separate terminal for one program, which is the session leader and owns the terminal; we are the window.
//!
//! Its output goes through a terminal emulator, so a test sees what a person would see. Nothing here sleeps: waiting
//! ends with the awaited event, or fails at a deadline and shows the screen.

use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

/// Our own mark after everything that a program wrote; the emulator does not show it.
const MARK: &[u8] = b"\x1b]777;drained\x07";

/// How long things may take on a busy machine.
pub const LONG: Duration = Duration::from_secs(30);

struct Emulator {
    parser: vt100::Parser,
    raw: Vec<u8>,
    closed: bool,
}

type Shared = Arc<(Mutex<Emulator>, Condvar)>;

/// A program in a terminal, killed on drop.
pub struct Pty {
    master: Option<std::fs::File>,
    /// Kept so that the terminal's settings can be read after the program has ended.
    slave: OwnedFd,
    /// Tells the reader to close the window.
    stop: Option<std::os::unix::net::UnixStream>,
    reader: Option<JoinHandle<()>>,
    seen: Shared,
    child: Child,
}

/// A terminal's settings and everything observable about its screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalState {
    pub termios: String,
    pub modes: String,
    pub text: String,
}

impl Pty {
    /// Starts `command` in a terminal of 80 × 24.
    pub fn start(command: &Command) -> Result<Self> {
        Self::start_with(command, |_| Ok(()))
    }

    /// The same, after `prepare` has had the terminal.
    pub fn start_with(command: &Command, prepare: impl FnOnce(&OwnedFd) -> Result<()>) -> Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let slave = rustix::fs::open(&*name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
        tcsetwinsize(&slave, size(80, 24))?;
        prepare(&slave)?;
        // Taking over a terminal between fork and exec would need `unsafe`; this program does just that.
        let mut leader = Command::new("setsid");
        leader.arg("--ctty").arg(command.get_program()).args(command.get_args());
        leader.env_clear();
        for (key, value) in command.get_envs() {
            if let Some(value) = value {
                leader.env(key, value);
            }
        }
        leader.env("TERM", "xterm-256color");
        if let Some(dir) = command.get_current_dir() {
            leader.current_dir(dir);
        }
        leader.stdin(Stdio::from(slave.try_clone()?));
        leader.stdout(Stdio::from(slave.try_clone()?)).stderr(Stdio::from(slave.try_clone()?));
        let child = leader.spawn().context("starting a program in a terminal")?;
        let seen: Shared = Arc::new((
            Mutex::new(Emulator {
                parser: vt100::Parser::new(cells(24), cells(80), 500),
                raw: Vec::new(),
                closed: false,
            }),
            Condvar::new(),
        ));
        let (stop, stopped) = std::os::unix::net::UnixStream::pair()?;
        let master = std::fs::File::from(master);
        let window = master.try_clone()?;
        let shared = Arc::clone(&seen);
        let reader = std::thread::spawn(move || read(window, &stopped, &shared));
        Ok(Self { master: Some(master), slave, stop: Some(stop), reader: Some(reader), seen, child })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Types `text`.
    pub fn send(&mut self, text: impl AsRef<[u8]>) -> Result<()> {
        self.master.as_mut().context("the window is closed")?.write_all(text.as_ref())?;
        Ok(())
    }

    pub fn resize(&self, columns: u16, rows: u16) -> Result<()> {
        lock(&self.seen).parser.screen_mut().set_size(cells(rows), cells(columns));
        Ok(tcsetwinsize(&self.slave, size(columns, rows))?)
    }

    /// Closes the window.
    pub fn hang_up(&mut self) {
        self.stop.take();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        self.master.take();
    }

    /// Everything that was written so far.
    pub fn raw(&self) -> Vec<u8> {
        lock(&self.seen).raw.clone()
    }

    pub fn screen(&self) -> String {
        lock(&self.seen).parser.screen().contents()
    }

    pub fn termios(&self) -> Result<Termios> {
        Ok(tcgetattr(&self.slave)?)
    }

    /// The terminal's current state.
    pub fn left(&self) -> Result<TerminalState> {
        let seen = lock(&self.seen);
        let screen = seen.parser.screen();
        let modes = format!(
            "alternate {} paste {} mouse {:?}/{:?} hidden cursor {} application keypad {} cursor {} at {:?}",
            screen.alternate_screen(),
            screen.bracketed_paste(),
            screen.mouse_protocol_mode(),
            screen.mouse_protocol_encoding(),
            screen.hide_cursor(),
            screen.application_keypad(),
            screen.application_cursor(),
            screen.cursor_position(),
        );
        Ok(TerminalState { termios: format!("{:?}", self.termios()?), modes, text: screen.contents() })
    }

    pub fn wait_for(&self, text: &str) -> Result<String> {
        self.wait_until(&format!("{text:?}"), |screen| screen.contains(text))
    }

    /// Waits until the screen satisfies a condition; `what` names it in the error.
    pub fn wait_until(&self, what: &str, mut holds: impl FnMut(&str) -> bool) -> Result<String> {
        let end = Instant::now() + LONG;
        let mut seen = lock(&self.seen);
        loop {
            let screen = seen.parser.screen().contents();
            if holds(&screen) {
                return Ok(screen);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || seen.closed {
                bail!("waited in vain for {what}; the screen was:\n{screen}");
            }
            let waited = self.seen.1.wait_timeout(seen, left);
            seen = waited.map_or_else(|e| e.into_inner().0, |(guard, _)| guard);
        }
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(pid(&self.child)?, signal)?)
    }

    /// Waits until the program has ended and its whole output is on the screen.
    pub fn wait_for_end(&mut self) -> Result<ExitStatus> {
        let pidfd = pidfd_open(pid(&self.child)?, PidfdFlags::empty());
        if let Ok(pidfd) = pidfd {
            let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
            let timeout = Timespec { tv_sec: LONG.as_secs().cast_signed(), tv_nsec: 0 };
            if poll(&mut fds, Some(&timeout))? == 0 {
                bail!("the program did not end; the screen was:\n{}", self.screen());
            }
        }
        let status = self.child.wait()?;
        self.drained()?;
        Ok(status)
    }

    /// Waits until we have read everything written to the terminal so far.
    pub fn drained(&mut self) -> Result<()> {
        if self.master.is_none() {
            return Ok(());
        }
        let before = lock(&self.seen).raw.len();
        let mut slave = std::fs::File::from(self.slave.try_clone()?);
        slave.write_all(MARK)?;
        let end = Instant::now() + LONG;
        let mut seen = lock(&self.seen);
        while memchr_find(&seen.raw[before.saturating_sub(MARK.len())..], MARK).is_none() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || seen.closed {
                bail!("the terminal's output did not come to an end");
            }
            let waited = self.seen.1.wait_timeout(seen, left);
            seen = waited.map_or_else(|e| e.into_inner().0, |(guard, _)| guard);
        }
        Ok(())
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        self.hang_up();
        // Most end with their window; kill the rest.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The exit code as a shell reports it: 128 + n after signal n.
pub fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

fn pid(child: &Child) -> Result<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("an impossible process id")
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 }
}

fn cells(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap_or(NonZeroU16::MIN)
}

fn lock(seen: &Shared) -> MutexGuard<'_, Emulator> {
    seen.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn memchr_find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn read(mut window: std::fs::File, stopped: &std::os::unix::net::UnixStream, shared: &Shared) {
    let mut buffer = [0; 8192];
    loop {
        let (readable, stop) = {
            let mut fds = [
                PollFd::from_borrowed_fd(window.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN),
            ];
            if poll(&mut fds, None).is_err() {
                continue;
            }
            (!fds[0].revents().is_empty(), !fds[1].revents().is_empty())
        };
        let ended = if stop {
            true
        } else if readable {
            match window.read(&mut buffer) {
                Ok(0) | Err(_) => true,
                Ok(n) => {
                    let mut seen = lock(shared);
                    seen.parser.process(&buffer[..n]);
                    seen.raw.extend_from_slice(&buffer[..n]);
                    false
                }
            }
        } else {
            false
        };
        if ended {
            lock(shared).closed = true;
        }
        shared.1.notify_all();
        if ended {
            return;
        }
    }
}
