//! Starts child commands in a separate session as the client does: without our terminal and signals.
//!
//! `setsid` between fork and exec would need `unsafe`. Instead the agent starts itself, leaves its session and becomes
//! the command.

use std::ffi::OsString;
use std::io::{PipeWriter, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::Sender;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::demo::agent::inbox::Event;

pub(super) const FLAG: &str = "--in-own-session";
/// The capacity of the smallest pipe.
const ROOM: usize = 4096;

/// Becomes `command` in a new session.
pub(super) fn exec(command: &[OsString]) -> ExitCode {
    let Some((program, args)) = command.split_first() else { return ExitCode::from(2) };
    // This fails only for a process group leader, which a fresh child is not.
    let _ = rustix::process::setsid();
    let error = Command::new(program).args(args).exec();
    eprintln!("{}: {error}", program.display());
    ExitCode::from(127)
}

/// A command that starts `program` in a separate session.
pub(super) fn command(program: &str, args: &[String]) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["demo-agent", FLAG, program]).args(args);
    Ok(command)
}

/// A running command that reports to the inbox once it has ended and its output is closed.
pub(super) struct Errand {
    pub number: u64,
    pid: u32,
}

/// Its exit status and output.
#[derive(Debug, Default, Clone)]
pub(super) struct Outcome {
    pub status: Option<ExitStatus>,
    pub out: String,
    pub err: String,
}

impl Outcome {
    /// The exit code as a shell reports it: 128 + n after signal n.
    pub(super) fn code(&self) -> i32 {
        use std::os::unix::process::ExitStatusExt as _;
        self.status.map_or(-1, |s| s.code().unwrap_or_else(|| 128 + s.signal().unwrap_or(0)))
    }
}

impl Errand {
    /// Starts `command` with `input` on its standard input.
    pub(super) fn start(
        mut command: Command,
        mut input: Vec<u8>,
        number: u64,
        to: Sender<Event>,
    ) -> std::io::Result<Self> {
        let (reader, mut writer) = std::io::pipe()?;
        // Every pipe holds this much, so the hook finds it at once, however busy the machine is.
        let rest = input.split_off(input.len().min(ROOM));
        writer.write_all(&input)?;
        command.stdin(reader).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn()?;
        let pid = child.id();
        // Our reading end closes with the command.
        drop(command);
        std::thread::spawn(move || {
            let outcome = attend(child, writer, rest);
            // Nobody listens any more while the agent exits.
            let _ = to.send(Event::Done(number, outcome));
        });
        Ok(Self { number, pid })
    }

    /// Kills it with everything it started.
    pub(super) fn kill(&self) {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // It may have ended by itself.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// Feeds and reads to the end: like the client, until all inherited descriptors are closed.
fn attend(mut child: Child, mut stdin: PipeWriter, rest: Vec<u8>) -> Outcome {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let writer = (!rest.is_empty()).then(|| {
        std::thread::spawn(move || {
            // A hook may ignore its input.
            let _ = stdin.write_all(&rest);
        })
    });
    let errors = std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut stderr) = stderr {
            let _ = stderr.read_to_end(&mut text);
        }
        text
    });
    let mut out = Vec::new();
    if let Some(mut stdout) = stdout {
        let _ = stdout.read_to_end(&mut out);
    }
    let err = errors.join().unwrap_or_default();
    let status = child.wait().ok();
    drop(writer);
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Outcome { status, out: text(out), err: text(err) }
}
