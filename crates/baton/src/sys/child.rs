//! A child that shares our terminal and our process group: started, watched, signalled by what it is.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Duration;

use baton_core::process::Process;
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

impl Child {
    /// Starts `command` on our terminal; with `capture` its output comes to us.
    pub fn spawn(mut command: Command, capture: bool) -> io::Result<Self> {
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
