//! Identifies processes, and tells whether one is still the same.

use baton_core::process::Process;
use rustix::process::{Pid, test_kill_process};

/// The identity of `pid`, if it runs.
pub fn identify(pid: u32) -> Option<Process> {
    Some(Process { pid, start: start_time(pid)?, boot: boot_id() })
}

/// Whether exactly this process still runs. A reused pid or another boot is not it; a zombie has ended.
pub(crate) fn is_alive(process: &Process) -> bool {
    start_time(process.pid) == Some(process.start) && boot_id() == process.boot
}

/// Whether any process has this pid.
pub(crate) fn pid_exists(pid: u32) -> bool {
    i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// The parent of `pid`, if both run.
#[cfg(target_os = "linux")]
pub(crate) fn parent_of(pid: u32) -> Option<u32> {
    stat_field(pid, 1)
}

/// The leader of the session that `pid` is in; 0 if it is outside our pid namespace.
#[cfg(target_os = "linux")]
pub(crate) fn session_leader_of(pid: u32) -> Option<u32> {
    stat_field(pid, 3)
}

/// Whether the session of `pid` has a controlling terminal.
#[cfg(target_os = "linux")]
pub(crate) fn has_terminal(pid: u32) -> bool {
    stat_field::<i64>(pid, 4).is_some_and(|tty| tty != 0)
}

/// Whether `pid` adopts processes whose parents have ended.
pub(crate) fn adopts_orphans(pid: u32) -> bool {
    // A user's own systemd does so, besides the system's.
    pid == 1 || matches!(std::fs::read(format!("/proc/{pid}/comm")), Ok(name) if name == b"systemd\n")
}

/// How many parents `pid` is above this process; `None` if it is not an ancestor.
pub(crate) fn distance_to(pid: u32) -> Option<u32> {
    let mut at = std::process::id();
    for steps in 0..64 {
        if at == pid {
            return Some(steps);
        }
        at = parent_of(at).filter(|&above| above > 1)?;
    }
    None
}

/// The command line of `pid`, as far as it can be read.
pub(crate) fn arguments(pid: u32) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|b| *b == 0).map(|arg| String::from_utf8_lossy(arg).into_owned()).collect()
}

#[cfg(target_os = "linux")]
fn start_time(pid: u32) -> Option<u64> {
    stat_field(pid, 19)
}

/// A field of `/proc/{pid}/stat`, counted from the state; `None` for a process that has ended.
#[cfg(target_os = "linux")]
fn stat_field<T: std::str::FromStr>(pid: u32, index: usize) -> Option<T> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything, even parentheses and spaces, so count from the last one.
    let after = baton_core::scan::last(b')', &stat)? + 2;
    let fields = || stat.get(after..).into_iter().flat_map(|rest| rest.split(|b| *b == b' '));
    if matches!(fields().next()?, b"Z" | b"X") {
        return None;
    }
    std::str::from_utf8(fields().nth(index)?).ok()?.trim().parse().ok()
}

#[cfg(target_os = "linux")]
fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// What the macOS kernel reports about a process.
#[cfg(target_os = "macos")]
#[expect(unsafe_code, reason = "no library asks for it without a dependency on all of its own")]
fn bsd_info(pid: u32) -> Option<libc::proc_bsdinfo> {
    let pid = libc::c_int::try_from(pid).ok()?;
    let size = libc::c_int::try_from(size_of::<libc::proc_bsdinfo>()).ok()?;
    let mut info = std::mem::MaybeUninit::<libc::proc_bsdinfo>::zeroed();
    // SAFETY: the call writes at most `size` bytes, and the buffer has that size.
    let written =
        unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDTBSDINFO, 0, info.as_mut_ptr().cast(), size) };
    // SAFETY: zeroes are a valid value, and so are the bytes that the kernel wrote.
    (written == size).then(|| unsafe { info.assume_init() }).filter(|info| info.pbi_status != libc::SZOMB)
}

/// Microseconds since the epoch.
#[cfg(target_os = "macos")]
fn start_time(pid: u32) -> Option<u64> {
    bsd_info(pid).map(|info| info.pbi_start_tvsec * 1_000_000 + info.pbi_start_tvusec)
}

#[cfg(target_os = "macos")]
pub fn parent_of(pid: u32) -> Option<u32> {
    bsd_info(pid).map(|info| info.pbi_ppid)
}

#[cfg(target_os = "macos")]
pub(crate) fn session_leader_of(pid: u32) -> Option<u32> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    rustix::process::getsid(Some(pid)).ok().map(|leader| leader.as_raw_nonzero().get().unsigned_abs())
}

#[cfg(target_os = "macos")]
pub(crate) fn has_terminal(pid: u32) -> bool {
    bsd_info(pid).is_some_and(|info| info.e_tdev != u32::MAX)
}

/// A start time is a time of day there, so it already differs between boots.
#[cfg(target_os = "macos")]
fn boot_id() -> String {
    String::new()
}

/// If neither is known, assume that an existing pid is the recorded process.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn start_time(pid: u32) -> Option<u64> {
    pid_exists(pid).then_some(0)
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub fn parent_of(_pid: u32) -> Option<u32> {
    None
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(crate) fn session_leader_of(_pid: u32) -> Option<u32> {
    None
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(crate) fn has_terminal(_pid: u32) -> bool {
    true
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn boot_id() -> String {
    String::new()
}

/// A variable of another process's environment, as of its start.
#[cfg(target_os = "linux")]
pub(crate) fn variable(pid: u32, name: &str) -> Option<String> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut pairs = environment.split(|b| *b == 0);
    let value = pairs.find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

#[cfg(not(target_os = "linux"))]
pub fn variable(_pid: u32, _name: &str) -> Option<String> {
    None
}

/// The process that started this one.
pub(crate) fn parent_pid() -> u32 {
    rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs())
}

/// Ends this process at once, without the library's cleanup, which is of no use now. Everything must be written out.
#[expect(unsafe_code, reason = "a system call that no library makes without tidying up first")]
pub(crate) fn leave() -> ! {
    // SAFETY: it takes a number and does not return.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_pid_is_not_the_process_we_knew() {
        let me = identify(std::process::id()).unwrap();
        assert!(is_alive(&me));
        assert!(!is_alive(&Process { start: me.start + 1, ..me.clone() }));
        assert!(!is_alive(&Process { boot: "another".into(), ..me }));
    }

    #[test]
    fn an_ended_child_is_dead_even_while_it_is_a_zombie() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let who = identify(child.id()).unwrap();
        assert!(is_alive(&who));
        drop(child.stdin.take());
        while is_alive(&who) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }
}
