//! The status line that was there before ours: ours runs it too, with the same input, and prints its output.
//!
//! It may be slow, so wait for it only a moment; then show its last output again while it continues, and its new output
//! next time. At most one runs per session, and none beyond its deadline. It can never call us again: the program's
//! path and a variable with the session prevent that.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use baton_core::ids::SessionId;
use baton_core::process::Process;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::sys::fs::{self, FileError, PRIVATE, Sync};
use crate::sys::process;
use crate::sys::shell::words;

/// Names the status line that ours also runs, in our settings entry.
pub(crate) const THEN_FLAG: &str = "--then";
/// Tells the other status line the session that it is drawn for.
const GUARD: &str = "BATON_STATUSLINE";
/// How long we wait for it.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long it may run at all.
const DEADLINE: Duration = Duration::from_secs(10);
/// Status lines are not longer.
const MAX: u64 = 64 << 10;

/// Whether we may call the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    Open,
    /// The variable leaked into another session: draw, but call nothing.
    Closed,
    /// The status line that we called has called us: print nothing.
    Nested,
}

impl Guard {
    pub(crate) fn from_env(session: Option<&SessionId>) -> Self {
        match std::env::var_os(GUARD) {
            None => Self::Open,
            Some(value) if value == name(session) => Self::Nested,
            Some(_) => Self::Closed,
        }
    }
}

fn name(session: Option<&SessionId>) -> &str {
    session.map_or("none", SessionId::as_str)
}

/// The name after `--then` in our arguments.
pub fn key<'a>(args: &[&'a str]) -> Option<&'a str> {
    let at = args.iter().position(|arg| *arg == THEN_FLAG)?;
    args.get(at + 1).copied().filter(|key| key.bytes().all(|b| b.is_ascii_alphanumeric()))
}

fn folder(state: &Path) -> PathBuf {
    state.join("delegates")
}

/// Stores the command of the earlier status line.
pub fn remember(state: &Path, key: &str, command: &str) -> Result<(), FileError> {
    fs::private_dir(&folder(state))?;
    fs::replace(&folder(state).join(key), command.as_bytes(), PRIVATE, Sync::Yes)
}

/// The command stored under `key`.
pub fn command(state: &Path, key: &str) -> Option<String> {
    String::from_utf8(fs::read(&folder(state).join(key), MAX).ok()??).ok()
}

/// Removes the command and its stored output.
pub fn forget(state: &Path, key: &str) -> Result<(), FileError> {
    for entry in std::fs::read_dir(folder(state)).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|n| n.split('.').next() == Some(key)) {
            fs::remove(&entry.path())?;
        }
    }
    // This succeeds only if the folder is empty now.
    let _ = std::fs::remove_dir(folder(state));
    Ok(())
}

/// The other status line's current or last output.
#[cold]
pub fn output(state: &Path, key: &str, session: Option<&SessionId>, payload: &[u8]) -> Option<Vec<u8>> {
    let command = command(state, key)?;
    if calls_us(&command) {
        return None;
    }
    let base = folder(state).join(format!("{key}.{}", name(session)));
    let run =
        Run { last: base.with_added("out"), next: base.with_added("new"), mark: base.with_added("run") };
    run.end(start_or_join(&run, &command, name(session), payload));
    let mut bytes = fs::read(&run.last, MAX).ok()??;
    if !bytes.is_empty() && !bytes.ends_with(b"\n") {
        bytes.push(b'\n');
    }
    Some(bytes)
}

trait Added {
    fn with_added(&self, extension: &str) -> PathBuf;
}

impl Added for PathBuf {
    /// Session ids may contain dots, so append the extension instead of replacing one.
    fn with_added(&self, extension: &str) -> PathBuf {
        let mut name = self.clone().into_os_string();
        name.push(".");
        name.push(extension);
        name.into()
    }
}

/// The files of one session's delegated status line.
struct Run {
    /// The last complete output.
    last: PathBuf,
    /// Where the running process writes.
    next: PathBuf,
    /// Identifies that process.
    mark: PathBuf,
}

impl Run {
    fn running(&self) -> Option<Process> {
        let process: Process = serde_json::from_slice(&fs::read(&self.mark, MAX).ok()??).ok()?;
        process::is_alive(&process).then_some(process)
    }

    fn age(&self) -> Duration {
        let began =
            std::fs::metadata(&self.mark).and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        began.elapsed().unwrap_or_default()
    }

    /// Adopts the output of a run that has ended.
    fn end(&self, ended: bool) {
        if ended && std::fs::rename(&self.next, &self.last).is_ok() {
            let _ = std::fs::remove_file(&self.mark);
        }
    }
}

/// Waits for the running process, or starts one and waits for it. `true` if none runs any more.
fn start_or_join(run: &Run, command: &str, session: &str, payload: &[u8]) -> bool {
    if let Some(process) = run.running() {
        if run.age() < DEADLINE {
            return wait(|| !process::is_alive(&process));
        }
        stop(&process);
    }
    // A process that ended after we stopped waiting has left its output.
    run.end(run.mark.exists());
    match start(run, command, session, payload) {
        Some(mut child) => wait(|| child.try_wait().is_ok_and(|status| status.is_some())),
        None => false,
    }
}

fn wait(is_done: impl FnMut() -> bool) -> bool {
    let mut is_done = is_done;
    let began = Instant::now();
    let mut nap = Duration::from_micros(500);
    while !is_done() {
        if began.elapsed() >= PATIENCE {
            return false;
        }
        std::thread::sleep(nap);
        nap = (nap * 2).min(Duration::from_millis(8));
    }
    true
}

/// Its output goes to a file, and it inherits none of our descriptors, because the client waits for those to close.
fn start(run: &Run, command: &str, session: &str, payload: &[u8]) -> Option<Child> {
    let out = std::fs::File::from(
        rustix::fs::open(
            &run.next,
            rustix::fs::OFlags::WRONLY
                | rustix::fs::OFlags::CREATE
                | rustix::fs::OFlags::TRUNC
                | rustix::fs::OFlags::NOFOLLOW
                | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::from_raw_mode(PRIVATE as rustix::fs::RawMode),
        )
        .ok()?,
    );
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .env(GUARD, session)
        .stdin(Stdio::piped())
        .stdout(out)
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .ok()?;
    if let Some(who) = process::identify(child.id())
        && let Ok(mark) = serde_json::to_vec(&who)
    {
        let _ = fs::replace(&run.mark, &mark, PRIVATE, Sync::No);
    }
    if let Some(mut stdin) = child.stdin.take() {
        let payload = payload.to_vec();
        // If it does not read at all, this thread ends with us.
        std::thread::spawn(move || stdin.write_all(&payload));
    }
    Some(child)
}

/// Kills a run past its deadline, with everything it started.
fn stop(leader: &Process) {
    if let Some(pid) = i32::try_from(leader.pid).ok().and_then(Pid::from_raw)
        && process::is_alive(leader)
    {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// Whether this command is a status line of ours.
pub(crate) fn is_statusline(command: &str) -> bool {
    match words(command).as_slice() {
        [program, verb, ..] => is_baton(program) && verb == "statusline",
        _ => false,
    }
}

/// The same, or this very program under another name.
fn calls_us(command: &str) -> bool {
    let resolved = |path: &Path| std::fs::canonicalize(path).ok();
    is_statusline(command)
        || words(command).first().is_some_and(|program| {
            let program = resolved(Path::new(program));
            program.is_some() && program == std::env::current_exe().ok().and_then(|me| resolved(&me))
        })
}

/// By its name or by the file behind it: a link with another name may lead to us.
pub(crate) fn is_baton(program: &str) -> bool {
    let named = |path: &Path| path.file_name().is_some_and(|name| name == "baton");
    let path = Path::new(program);
    named(path) || (path.is_absolute() && std::fs::canonicalize(path).is_ok_and(|real| named(&real)))
}
