//! Kills processes at random instants of their real run time, and says what they had acknowledged before.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::rng::Rng;

/// How one victim ended.
#[derive(Debug)]
pub struct Death {
    pub pid: u32,
    /// What came out of its standard output before it died: its acknowledgement, if there was time for one.
    pub said: String,
    /// SIGKILL ended it; otherwise it was faster than we.
    pub killed: bool,
    /// How long it was let live.
    pub after: Duration,
}

/// How long victims take when nobody kills them. Corrected by the ones that got away early or were caught late,
/// so that the instants stay spread over the real run time on a machine whose load changes.
#[derive(Debug, Clone)]
pub struct Pace {
    whole: Duration,
}

impl Pace {
    /// Measures the runs that `commands` makes, unharmed.
    pub fn measured(commands: impl IntoIterator<Item = Command>) -> Self {
        let mut took: Vec<Duration> = commands
            .into_iter()
            .map(|mut command| {
                let began = Instant::now();
                command.stdout(Stdio::null()).status().expect("the victim starts");
                began.elapsed()
            })
            .collect();
        took.sort();
        Self { whole: took[took.len() / 2] }
    }

    pub fn whole(&self) -> Duration {
        self.whole
    }

    /// Starts `command` and kills it at an instant between its birth and a little after its usual end.
    pub fn kill(&mut self, mut command: Command, rng: &mut Rng) -> Death {
        let span = u64::try_from(self.whole.as_nanos()).unwrap_or(u64::MAX / 2) * 11 / 10;
        let after = Duration::from_nanos(rng.pick(0..span.max(1)));
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the victim starts");
        std::thread::sleep(after);
        child.kill().expect("our own child may be killed");
        let mut said = String::new();
        child.stdout.take().expect("it was asked for").read_to_string(&mut said).expect("a pipe can be read");
        let status = child.wait().expect("a child can be waited for");
        let killed = status.signal() == Some(9);
        if !killed && after < self.whole {
            self.whole = (self.whole * 63 + after) / 64;
        } else if killed && after > self.whole {
            self.whole = (self.whole * 63 + after * 5 / 4) / 64;
        }
        Death { pid: child.id(), said, killed, after }
    }
}
