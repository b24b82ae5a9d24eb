//! Makes a hook end by itself, whatever happens: a timer ends the process with exit 0, and limits of the user's shell
//! do not look like a crash.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::sys::clock::monotonic;

/// How long a hook may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    /// Time in which it ran or waited for something. On a busy machine the wait for a processor does not count.
    pub own: Duration,
    /// The upper bound, whatever the machine does. Below the client's own timeout.
    pub whole: Duration,
}

impl Deadline {
    /// For hooks that run at every tool call, and for the status line. They take a few milliseconds.
    pub(crate) const HOT: Self = Self { own: Duration::from_secs(1), whole: Duration::from_secs(4) };
    /// For hooks that may seal or load. Their work is bounded, and each wait (for the payload, locks, a transcript that
    /// the client still writes) gives up within a second; this ends whatever exceeds these bounds.
    pub(crate) const SEALING: Self = Self { own: Duration::from_secs(3), whole: Duration::from_secs(8) };
}

/// Nanoseconds: the start time, and the limits.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static OWN: AtomicU64 = AtomicU64::new(0);
static WHOLE: AtomicU64 = AtomicU64::new(0);

/// Ends this process silently with exit 0 when its time is over. As after any kill, a file that was being written is
/// complete or absent.
#[expect(unsafe_code, reason = "no library sets a timer without a thread of its own")]
pub(crate) fn exit_after(deadline: Deadline) {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    BEGUN.store(monotonic(), Ordering::Relaxed);
    OWN.store(nanos(deadline.own), Ordering::Relaxed);
    WHOLE.store(nanos(deadline.whole), Ordering::Relaxed);
    let handler: extern "C" fn(libc::c_int) = look;
    // SAFETY: the handler makes only calls that a signal handler may make.
    unsafe {
        libc::signal(libc::SIGALRM, handler as libc::sighandler_t);
    }
    // If the wait for a processor cannot be measured, all of the time may have been such a wait.
    let knows = cfg!(target_os = "linux");
    ring_in(nanos(if knows { deadline.own } else { deadline.whole }));
}

/// Ends the process, or sets the timer to look again.
#[expect(unsafe_code, reason = "the one call that ends a process inside a signal handler")]
extern "C" fn look(_: libc::c_int) {
    let passed = monotonic().saturating_sub(BEGUN.load(Ordering::Relaxed));
    let own = passed.saturating_sub(waited_for_processor());
    let left = OWN.load(Ordering::Relaxed).saturating_sub(own);
    let left = left.min(WHOLE.load(Ordering::Relaxed).saturating_sub(passed));
    if left == 0 {
        // SAFETY: it takes a number and does not return.
        unsafe { libc::_exit(0) }
    }
    ring_in(left.max(1_000_000));
}

#[expect(unsafe_code, reason = "no library sets a timer without a thread of its own")]
fn ring_in(nanos: u64) {
    let time = Duration::from_nanos(nanos);
    let timer = libc::itimerval {
        it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 },
        it_value: libc::timeval {
            tv_sec: time.as_secs().try_into().unwrap_or(0x7fff_ffff),
            tv_usec: time.subsec_micros().cast_signed().into(),
        },
    };
    // SAFETY: the timer is a value that the call reads.
    unsafe {
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
}

/// Nanoseconds in which this process was ready to run and others ran.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "called in a signal handler, where a library may not be")]
fn waited_for_processor() -> u64 {
    let mut text = [0_u8; 64];
    // SAFETY: the name ends in a zero, and no more is read than there is room for. A signal handler may do all three.
    let read = unsafe {
        let file = libc::open(c"/proc/self/schedstat".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let read = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        read
    };
    // "time running, time waiting to run, times it ran"
    let text = text.get(..usize::try_from(read).unwrap_or(0)).unwrap_or_default();
    let mut fields = text.split(|b| *b == b' ');
    let digits = fields.nth(1).unwrap_or_default();
    digits
        .iter()
        .filter(|b| b.is_ascii_digit())
        .fold(0, |n: u64, b| n.saturating_mul(10).saturating_add(u64::from(b - b'0')))
}

#[cfg(not(target_os = "linux"))]
fn waited_for_processor() -> u64 {
    u64::MAX
}

/// Makes a write beyond `ulimit -f` an error instead of a death. Programs that we start inherit this, so it is for
/// hooks, which start none.
#[expect(unsafe_code, reason = "no library ignores a signal without a handler of its own")]
pub(crate) fn ignore_file_limit() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// The same for commands that start other programs, because a handler, unlike an ignored signal, is not inherited.
pub(crate) fn survive_file_limit() {
    // Without it the command still works, but dies at the limit.
    let _ = signal_hook::flag::register(libc::SIGXFSZ, std::sync::Arc::default());
}
