//! Makes the kernel drop a process's notifications of changed files.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Stops the process `pid`, fills its inotify queue with changes in `dir`, which it watches, calls `act`, and resumes
/// the process. The process gets no events for the changes of `act`.
pub fn unseen<T>(pid: u32, dir: &Path, act: impl FnOnce() -> T) -> T {
    let signal = |signal| {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process has a number");
        kill_process(pid, signal).expect("the process runs");
    };
    settle(pid);
    signal(Signal::STOP);
    while !status(pid).0.starts_with('T') {
        std::thread::yield_now();
    }
    let limit = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").expect("Linux says it");
    let limit: usize = limit.trim().parse().expect("a number");
    // The kernel merges equal consecutive events, so alternate between two files.
    let files = ["overflow-a", "overflow-b"].map(|name| dir.join(name));
    for n in 0..=limit {
        std::fs::write(&files[n % 2], "").expect("a watched folder takes new files");
    }
    let done = act();
    signal(Signal::CONT);
    done
}

/// Waits until the process stays asleep: it has then seen all earlier changes, and finds none of them in its queue when
/// it is continued.
fn settle(pid: u32) {
    let mut before = status(pid);
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let now = status(pid);
        if now == before && now.0.starts_with('S') {
            return;
        }
        before = now;
    }
}

/// A process's state, and how often it has gone to sleep.
fn status(pid: u32) -> (String, String) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("Linux says it");
        line.trim().to_owned()
    };
    (field("State:"), field("voluntary_ctxt_switches:"))
}
