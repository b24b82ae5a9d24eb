//! A child that shares our terminal and our process group: started, watched, signalled by what it is.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use baton_core::process::Process;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, waitid};

use super::handle::Handle;
use super::process;

/// A running child. Not reaped by anybody else, so its pid cannot be reused while we hold this.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    handle: Handle,
    pub process: Process,
    pub stdout: Option<OwnedFd>,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Exited(i32),
    Killed(i32),
    /// Suspended by job control; its shell must see us suspended too.
    Stopped,
}

/// The word with which our own program is started to wait in place of another, and become it.
pub const HELD: &str = "held-client";

/// A child that has its pid but is not yet the program it shall be. If we die now, it ends.
#[derive(Debug)]
pub struct Held {
    child: Child,
    gate: UnixStream,
}

impl Held {
    /// Who it is, now and as its program.
    pub fn process(&self) -> &Process {
        &self.child.process
    }

    /// Lets it become its program. An error is the system's, as if it had been started directly.
    pub fn release(mut self) -> io::Result<Child> {
        self.gate.write_all(&[1])?;
        // Closed by the program that was started, or told why there is none.
        let mut why = Vec::new();
        self.gate.read_to_end(&mut why)?;
        match <[u8; 4]>::try_from(why) {
            Ok(code) => {
                let _ = waitid(WaitId::Pid(self.child.pid), WaitIdOptions::EXITED);
                Err(io::Error::from_raw_os_error(i32::from_ne_bytes(code)))
            }
            Err(_) => Ok(self.child),
        }
    }
}

/// The other side of [`Child::hold`]: waits for the word, then becomes the program. Returns only if it shall not or
/// cannot.
pub fn become_client(args: &[OsString]) -> ExitCode {
    let gate = args.first().and_then(|fd| fd.to_str()).and_then(|fd| fd.parse::<RawFd>().ok());
    let (Some(gate), Some(program)) = (gate.filter(|fd| *fd > 2), args.get(1)) else {
        eprintln!("baton: `{HELD}` is how `baton run` starts a client; it is not for people");
        return ExitCode::from(2);
    };
    #[expect(unsafe_code, reason = "a descriptor that comes by its number")]
    // SAFETY: whoever started us passed this descriptor for us alone to own.
    let mut gate = UnixStream::from(unsafe { OwnedFd::from_raw_fd(gate) });
    let mut word = [0];
    if gate.read_exact(&mut word).is_err() || fcntl_setfd(&gate, FdFlags::CLOEXEC).is_err() {
        // Who would have watched the client is gone.
        return ExitCode::FAILURE;
    }
    let error = Command::new(program).args(&args[2..]).exec();
    let _ = gate.write_all(&error.raw_os_error().unwrap_or(0).to_ne_bytes());
    ExitCode::from(127)
}

impl Child {
    /// Starts a process that will be `command`, so that who it is can be recorded before it does anything: a supervisor
    /// that is killed leaves no client behind that nobody knows of.
    pub fn hold(command: &Command, capture: bool) -> io::Result<Held> {
        let (gate, theirs) = UnixStream::pair()?;
        fcntl_setfd(&theirs, FdFlags::empty())?;
        // Through /proc it is this very program, even if an update has taken its name away.
        let ours = Path::new("/proc/self/exe");
        let ours = if ours.exists() { ours.to_owned() } else { std::env::current_exe()? };
        let mut held = Command::new(ours);
        held.arg(HELD).arg(theirs.as_raw_fd().to_string());
        held.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => held.env(name, value),
                None => held.env_remove(name),
            };
        }
        if let Some(dir) = command.get_current_dir() {
            held.current_dir(dir);
        }
        Ok(Held { child: Self::spawn(held, capture)?, gate })
    }

    /// Starts `command` on our terminal; with `capture` its output comes to us.
    fn spawn(mut command: Command, capture: bool) -> io::Result<Self> {
        if capture {
            command.stdout(Stdio::piped());
        }
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().map(OwnedFd::from);
        let raw = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = raw.ok_or_else(|| io::Error::other("the system gave an impossible process id"))?;
        let gone = || io::Error::other("it ended before it could be watched");
        let handle = Handle::open(pid)?.ok_or_else(gone)?;
        let process = process::identify(child.id()).unwrap_or(Process {
            pid: child.id(),
            start: 0,
            boot: String::new(),
        });
        Ok(Self { pid, handle, process, stdout })
    }

    /// Readable when the child has ended, where the system can tell so; SIGCHLD tells it everywhere.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.handle.fd()
    }

    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        self.handle.signal(signal)
    }

    /// What has changed since the last look, without waiting.
    pub fn poll(&self) -> io::Result<Option<Change>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let status = match waitid(WaitId::Pid(self.pid), options) {
            Ok(status) => status,
            Err(rustix::io::Errno::INTR) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        Ok(status.as_ref().and_then(change))
    }
}

fn change(status: &WaitIdStatus) -> Option<Change> {
    if status.stopped() {
        return Some(Change::Stopped);
    }
    status.exit_status().map(Change::Exited).or_else(|| status.terminating_signal().map(Change::Killed))
}

/// Suspends ourselves as the child was, until the shell continues the job; then continues the child.
pub fn stop_with(child: &Child) -> io::Result<()> {
    rustix::process::kill_process(rustix::process::getpid(), Signal::STOP)?;
    child.signal(Signal::CONT)
}

/// Ends `who` if it is still that very process. `false` if it is gone.
pub fn terminate(who: &Process) -> io::Result<bool> {
    let Some(pid) = i32::try_from(who.pid).ok().and_then(Pid::from_raw) else { return Ok(false) };
    let Some(handle) = Handle::open(pid)? else { return Ok(false) };
    // Checked after the handle is ours: from here on it means one process, whatever its pid becomes.
    if !process::is_alive(who) {
        return Ok(false);
    }
    handle.signal(Signal::TERM)?;
    Ok(true)
}

/// Waits until `who` has ended, or `patience` is over; it need not be a child of ours.
pub fn wait_for_end(who: &Process, patience: Duration) {
    let Some(pid) = i32::try_from(who.pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(Some(handle)) = Handle::open(pid) else { return };
    if process::is_alive(who) {
        handle.wait(patience);
    }
}

/// Ends this process as the child ended, so that the shell sees the same.
pub fn end_like(change: Change) -> ! {
    match change {
        Change::Killed(signal) => {
            // Default action for the signals that have one; SIGKILL needs no help.
            if let Some(signal) = Signal::from_named_raw(signal) {
                let _ = signal_hook::low_level::emulate_default_handler(signal.as_raw());
                let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
            }
            std::process::exit(128 + signal);
        }
        Change::Exited(code) => std::process::exit(code),
        Change::Stopped => std::process::exit(0),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn sleeper() -> (std::process::Child, Process) {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let who = process::identify(child.id()).unwrap();
        (child, who)
    }

    #[test]
    fn a_process_that_only_has_the_pid_is_never_signalled() {
        let (mut child, who) = sleeper();
        for other in [
            Process { start: who.start + 1, ..who.clone() },
            Process { boot: "another".into(), ..who.clone() },
            Process { pid: u32::MAX, ..who.clone() },
        ] {
            assert!(!terminate(&other).unwrap(), "{other:?}");
            assert!(child.try_wait().unwrap().is_none(), "a stranger was ended");
        }
        assert!(terminate(&who).unwrap());
        wait_for_end(&who, Duration::from_secs(30));
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        assert!(!terminate(&who).unwrap(), "it is gone");
    }

    #[test]
    fn a_child_is_told_apart_by_how_it_ended() {
        let end = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let child = Child::spawn(command, false).unwrap();
            wait_for_end(&child.process, Duration::from_secs(30));
            loop {
                if let Some(change) = child.poll().unwrap() {
                    return change;
                }
            }
        };
        assert_eq!(end("exit 7"), Change::Exited(7));
        assert_eq!(end("kill -9 $$"), Change::Killed(9));
    }
}
