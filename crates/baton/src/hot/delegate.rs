//! The status line that was there before ours: ours runs it too, with the same input, and prints what it prints.
//!
//! It may be slow. It is waited for a moment only; then its last output is shown again while it goes on, and what it
//! prints is shown next time. At most one of it runs per session, and none for longer than its deadline. It can
//! never become a call of ourselves: by the program's path, and by a variable that names the session.

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

/// Names, in the entry, the status line that ours also runs.
pub const THEN_FLAG: &str = "--then";
/// Set for the other status line to the session it is drawn for.
const GUARD: &str = "BATON_STATUSLINE";
/// How long ours waits for it.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long it may run at all.
const DEADLINE: Duration = Duration::from_secs(10);
/// No status line is longer.
const MAX: u64 = 64 << 10;

/// May we call the other one?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    Open,
    /// The variable leaked into another session: we draw, but call nobody.
    Closed,
    /// The one that we called has called us: say nothing.
    Nested,
}

impl Guard {
    pub fn from_env(session: Option<&SessionId>) -> Self {
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

/// Keeps the command of the status line that was there before.
pub fn remember(state: &Path, key: &str, command: &str) -> Result<(), FileError> {
    fs::private_dir(&folder(state))?;
    fs::replace(&folder(state).join(key), command.as_bytes(), PRIVATE, Sync::Yes)
}

/// The command kept under `key`.
pub fn command(state: &Path, key: &str) -> Option<String> {
    String::from_utf8(fs::read(&folder(state).join(key), MAX).ok()??).ok()
}

/// Removes the command and what was kept of its output.
pub fn forget(state: &Path, key: &str) -> Result<(), FileError> {
    for entry in std::fs::read_dir(folder(state)).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|n| n.split('.').next() == Some(key)) {
            fs::remove(&entry.path())?;
        }
    }
    // Only if it is empty now.
    let _ = std::fs::remove_dir(folder(state));
    Ok(())
}

/// What the other status line says now, or said last.
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
    /// Session ids may hold dots, so the extension is added and replaces nothing.
    fn with_added(&self, extension: &str) -> PathBuf {
        let mut name = self.clone().into_os_string();
        name.push(".");
        name.push(extension);
        name.into()
    }
}

/// The files of one session's delegated status line.
struct Run {
    /// The last whole output.
    last: PathBuf,
    /// Where the running one writes.
    next: PathBuf,
    /// Which process that is.
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

    /// Takes over what a run that has ended printed.
    fn end(&self, ended: bool) {
        if ended && std::fs::rename(&self.next, &self.last).is_ok() {
            let _ = std::fs::remove_file(&self.mark);
        }
    }
}

/// Waits for the one that runs, or starts one and waits for that. `true` if none runs any more.
fn start_or_join(run: &Run, command: &str, session: &str, payload: &[u8]) -> bool {
    if let Some(process) = run.running() {
        if run.age() < DEADLINE {
            return wait(|| !process::is_alive(&process));
        }
        stop(&process);
    }
    // One that ended after we had stopped waiting has left its output.
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

/// Its output goes to a file and none of our descriptors to it: the client waits for those that it gave us.
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
        // It may not read at all; then this thread ends with us.
        std::thread::spawn(move || stdin.write_all(&payload));
    }
    Some(child)
}

/// Ends a run that is past its deadline, with what it started.
fn stop(leader: &Process) {
    if let Some(pid) = i32::try_from(leader.pid).ok().and_then(Pid::from_raw)
        && process::is_alive(leader)
    {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// Is this the command of a status line of ours?
pub fn is_statusline(command: &str) -> bool {
    match words(command).as_slice() {
        [program, verb, ..] => is_baton(program) && verb == "statusline",
        _ => false,
    }
}

/// The same, or this very program under whatever name.
fn calls_us(command: &str) -> bool {
    let resolved = |path: &Path| std::fs::canonicalize(path).ok();
    is_statusline(command)
        || words(command).first().is_some_and(|program| {
            let program = resolved(Path::new(program));
            program.is_some() && program == std::env::current_exe().ok().and_then(|me| resolved(&me))
        })
}

/// By its name, or by the file behind it: a link of another name may lead to us.
pub fn is_baton(program: &str) -> bool {
    let named = |path: &Path| path.file_name().is_some_and(|name| name == "baton");
    let path = Path::new(program);
    named(path) || (path.is_absolute() && std::fs::canonicalize(path).is_ok_and(|real| named(&real)))
}

/// The words of a simple shell command: quotes and backslashes understood, nothing expanded.
pub fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => word.get_or_insert_default().extend(chars.by_ref().take_while(|c| *c != '\'')),
            '"' => {
                let word = word.get_or_insert_default();
                while let Some(c) = chars.next().filter(|c| *c != '"') {
                    word.extend(if c == '\\' { chars.next() } else { Some(c) });
                }
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}
