//! A child that shares our terminal and our process group; we watch and signal it by its identity.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use baton_core::process::Process;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, waitid};

use crate::sys::handle::Handle;
use crate::sys::process;

/// Runs `command` beside us, in a separate process group and without input or output. It continues when we end; while
/// we live, we reap it, and kill it after `limit`. The channel reports whether it succeeded; `None` if it cannot be
/// started.
pub(crate) fn run_aside(mut command: Command, limit: Duration) -> Option<Receiver<bool>> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn().ok()?;
    let (tell, outcome) = mpsc::channel();
    std::thread::spawn(move || {
        let began = Instant::now();
        let mut nap = Duration::from_millis(2);
        let status = loop {
            match child.try_wait() {
                Ok(None) if began.elapsed() < limit => std::thread::sleep(nap),
                Ok(None) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    break None;
                }
                Ok(status) => break status,
                Err(_) => break None,
            }
            nap = (nap * 2).min(Duration::from_millis(50));
        };
        // Nobody listens if the caller does not wait.
        let _ = tell.send(status.is_some_and(|status| status.success()));
    });
    Some(outcome)
}

/// Runs `command` with `input` and returns what it prints, or an error after `limit`, when it is killed: what it reads may
/// be a pipe that nobody writes to.
pub(crate) fn output_within(command: &mut Command, input: &[u8], limit: Duration) -> io::Result<Output> {
    let began = Instant::now();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let input = input.to_owned();
    // Each pipe has a separate reader or writer, so that none fills up. They end with the process.
    std::thread::spawn(move || stdin.map(|mut pipe| pipe.write_all(&input)));
    let read = |pipe: Option<Box<dyn io::Read + Send>>| {
        let (tell, all) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes));
            // Nobody listens after the limit.
            let _ = tell.send(read.map(|_| bytes));
        });
        all
    };
    let stdout = read(stdout.map(|pipe| Box::new(pipe) as _));
    let stderr = read(stderr.map(|pipe| Box::new(pipe) as _));
    let ended = || {
        let left = || limit.saturating_sub(began.elapsed());
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        let stdout = stdout.recv_timeout(left()).map_err(late)??;
        let stderr = stderr.recv_timeout(left()).map_err(late)??;
        Ok((stdout, stderr))
    };
    match ended() {
        // Its pipes are closed, so it has ended or prints nothing more.
        Ok((stdout, stderr)) => Ok(Output { status: child.wait()?, stdout, stderr }),
        Err(e) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(e)
        }
    }
}

/// A running child. Only we reap it, so its pid cannot be reused while we hold this.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    handle: Handle,
    pub process: Process,
    pub stdout: Option<OwnedFd>,
}

/// A change of its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Exited(i32),
    Killed(i32),
    /// Suspended by job control; the shell must see us suspended too.
    Stopped,
}

/// The argument that starts our own program to wait in place of another, and become it.
pub const HELD: &str = "held-client";

/// A child that has its pid but has not become its program yet. If we die now, it ends.
#[derive(Debug)]
pub(crate) struct HeldChild {
    child: Child,
    gate: UnixStream,
}

impl HeldChild {
    /// Its identity, which stays when it becomes its program.
    pub(crate) fn process(&self) -> &Process {
        &self.child.process
    }

    /// Lets it become its program. The error is the system's, as after a direct start.
    pub(crate) fn release(mut self) -> io::Result<Child> {
        self.gate.write_all(&[1])?;
        // The program closes it when it starts; otherwise we read why there is none.
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

/// The other side of [`Child::hold`]: waits for the release, then becomes the program. Returns only if it is not
/// released or fails.
pub fn become_client(args: &[OsString]) -> ExitCode {
    let gate = args.first().and_then(|fd| fd.to_str()).and_then(|fd| fd.parse::<RawFd>().ok());
    let (Some(gate), Some(program)) = (gate.filter(|fd| *fd > 2), args.get(1)) else {
        eprintln!("baton: `{HELD}` is how `baton run` starts a client; it is not for people");
        return ExitCode::from(2);
    };
    #[expect(unsafe_code, reason = "a descriptor that comes by its number")]
    // SAFETY: our parent passed this descriptor for us alone to own.
    let mut gate = UnixStream::from(unsafe { OwnedFd::from_raw_fd(gate) });
    let mut word = [0];
    if gate.read_exact(&mut word).is_err() || fcntl_setfd(&gate, FdFlags::CLOEXEC).is_err() {
        // The process that would watch the client has died.
        return ExitCode::FAILURE;
    }
    let error = Command::new(program).args(&args[2..]).exec();
    let _ = gate.write_all(&error.raw_os_error().unwrap_or(0).to_ne_bytes());
    ExitCode::from(127)
}

impl Child {
    /// Starts a process that will become `command`, so that its identity can be recorded before it does anything: a
    /// killed supervisor must not leave an unknown client behind.
    pub(crate) fn hold(command: &Command, capture: bool) -> io::Result<HeldChild> {
        let (gate, theirs) = UnixStream::pair()?;
        fcntl_setfd(&theirs, FdFlags::empty())?;
        // `/proc` leads to this very program, even if an update has replaced its file.
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
        Ok(HeldChild { child: Self::spawn(held, capture)?, gate })
    }

    /// Starts `command` on our terminal; with `capture` we get its output.
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

    /// Readable when the child has ended, if the system supports that; SIGCHLD reports it everywhere.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.handle.fd()
    }

    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        self.handle.signal(signal)
    }

    /// The change since the last call, without waiting.
    pub(crate) fn poll(&self) -> io::Result<Option<Change>> {
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

/// Suspends this process like the child, until the shell continues the job; then continues the child.
pub(crate) fn stop_with(child: &Child) -> io::Result<()> {
    rustix::process::kill_process(rustix::process::getpid(), Signal::STOP)?;
    child.signal(Signal::CONT)
}

/// Ends `who` if it is still that very process. Returns `false` if it is gone.
pub(crate) fn terminate(who: &Process) -> io::Result<bool> {
    signal(who, Signal::TERM)
}

/// Ends `who` if it is still that very process, whether it wants to or not: it has `grace` to do so by itself.
pub(crate) fn end(who: &Process, grace: Duration) -> io::Result<()> {
    if signal(who, Signal::TERM)? {
        wait_for_end(who, grace);
        if signal(who, Signal::KILL)? {
            wait_for_end(who, grace);
        }
    }
    Ok(())
}

fn signal(who: &Process, signal: Signal) -> io::Result<bool> {
    let Some(pid) = i32::try_from(who.pid).ok().and_then(Pid::from_raw) else { return Ok(false) };
    let Some(handle) = Handle::open(pid)? else { return Ok(false) };
    // Check after opening the handle, which from here on means one process, even if its pid is reused.
    if !process::is_alive(who) {
        return Ok(false);
    }
    handle.signal(signal)?;
    Ok(true)
}

/// Waits until `who` has ended, at most `patience`; it may be any process, not just our child.
pub(crate) fn wait_for_end(who: &Process, patience: Duration) {
    let Some(pid) = i32::try_from(who.pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(Some(handle)) = Handle::open(pid) else { return };
    if process::is_alive(who) {
        handle.wait(patience);
    }
}

/// Ends this process as the child ended, so that the shell sees the same.
pub(crate) fn end_like(change: Change) -> ! {
    match change {
        Change::Killed(signal) => {
            // Take the default action of the signals that have one; SIGKILL needs no help.
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
