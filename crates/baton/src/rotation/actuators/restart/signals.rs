//! Makes signals pollable. We catch those that would end us, so that the agent ends first.

use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;

pub(super) struct Signals {
    pipe: UnixStream,
    term: Arc<AtomicBool>,
    hup: Arc<AtomicBool>,
    int: Arc<AtomicBool>,
    cont: Arc<AtomicBool>,
}

impl Signals {
    /// From now on SIGINT and SIGQUIT are left to the agent, SIGTERM and SIGHUP are passed on to it, and SIGCHLD wakes
    /// us.
    ///
    /// SIGTSTP is left to the agent too: it takes its time to leave the terminal, or does not stop at all. We stop
    /// after it has. If we stopped first, the shell could continue the job while the agent is still about to stop.
    pub(super) fn listen() -> anyhow::Result<Self> {
        let (pipe, writer) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        let flag = || Arc::new(AtomicBool::new(false));
        let signals = Self { pipe, term: flag(), hup: flag(), int: flag(), cont: flag() };
        let flags = [
            (Signal::TERM, Some(&signals.term)),
            (Signal::HUP, Some(&signals.hup)),
            (Signal::INT, Some(&signals.int)),
            (Signal::QUIT, Some(&signals.int)),
            (Signal::CONT, Some(&signals.cont)),
            (Signal::TSTP, None),
            (Signal::CHILD, None),
        ];
        for (signal, flag) in flags {
            if let Some(flag) = flag {
                signal_hook::flag::register(signal.as_raw(), Arc::clone(flag))?;
            }
            signal_hook::low_level::pipe::register(signal.as_raw(), writer.try_clone()?)?;
        }
        Ok(signals)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    pub(super) fn drain(&mut self) {
        let mut bytes = [0; 64];
        while self.pipe.read(&mut bytes).is_ok_and(|n| n > 0) {}
    }

    /// The signal that asked us to end, reported once.
    pub(super) fn told_to_end(&self) -> Option<Signal> {
        if self.term.swap(false, Ordering::Relaxed) {
            Some(Signal::TERM)
        } else if self.hup.swap(false, Ordering::Relaxed) {
            Some(Signal::HUP)
        } else {
            None
        }
    }

    /// Whether a shell has continued us since the last call.
    pub(super) fn continued(&self) -> bool {
        self.cont.swap(false, Ordering::Relaxed)
    }

    /// Whether Ctrl+C came while no agent runs.
    pub(super) fn interrupted(&self) -> bool {
        self.int.swap(false, Ordering::Relaxed)
    }
}
