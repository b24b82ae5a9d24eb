//! Kills processes at random instants of their real run time, and reports what they had acknowledged before.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::rng::Rng;

/// How one process ended.
#[derive(Debug)]
pub struct Death {
    pub pid: u32,
    /// Its standard output before it died: its acknowledgement, if there was time for one.
    pub said: String,
    /// Whether SIGKILL ended it; otherwise it finished first.
    pub killed: bool,
}

/// How long the processes take undisturbed. Adjusted after early escapes and late kills, so that the instants stay
/// spread over the real run time while the machine's load changes.
#[derive(Debug, Clone)]
pub struct Pace {
    whole: Duration,
}

impl Pace {
    /// Measures undisturbed runs of `commands`.
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

    /// Starts `command` and kills it at an instant between its start and a little after its usual end.
    pub fn kill(&mut self, command: Command, rng: &mut Rng) -> Death {
        self.kill_all(vec![command], rng).remove(0)
    }

    /// Starts all `commands` at once and kills each at its own instant.
    pub fn kill_all(&mut self, commands: Vec<Command>, rng: &mut Rng) -> Vec<Death> {
        let span = u64::try_from(self.whole.as_nanos()).unwrap_or(u64::MAX / 11) * 11 / 10;
        let began = Instant::now();
        let mut children: Vec<(Duration, Duration, usize, Child)> = commands
            .into_iter()
            .enumerate()
            .map(|(n, mut command)| {
                let child = command.stdout(Stdio::piped()).spawn().expect("the victim starts");
                let after = Duration::from_nanos(rng.pick(0..span.max(1)));
                (began.elapsed() + after, after, n, child)
            })
            .collect();
        children.sort_by_key(|(at, ..)| *at);
        for (at, _, _, child) in &mut children {
            std::thread::sleep(at.saturating_sub(began.elapsed()));
            child.kill().expect("our own child may be killed");
        }
        children.sort_by_key(|(.., n, _)| *n);
        let (after, deaths): (Vec<_>, Vec<_>) =
            children.into_iter().map(|(_, after, _, child)| (after, bury(child))).unzip();
        self.learn(&after, &deaths);
        deaths
    }

    fn learn(&mut self, after: &[Duration], deaths: &[Death]) {
        if let ([after], [death]) = (after, deaths) {
            if !death.killed && *after < self.whole {
                self.whole = (self.whole * 63 + *after) / 64;
            } else if death.killed && *after > self.whole {
                self.whole = (self.whole * 63 + *after * 5 / 4) / 64;
            }
        } else if deaths.iter().all(|d| d.killed) {
            self.whole = self.whole * 17 / 16;
        } else {
            // With several processes, some would nearly always survive: aim earlier so that now and then all die.
            self.whole = self.whole * 31 / 32;
        }
    }
}

fn bury(mut child: Child) -> Death {
    let mut said = String::new();
    child.stdout.take().expect("it was asked for").read_to_string(&mut said).expect("a pipe can be read");
    let status = child.wait().expect("a child can be waited for");
    Death { pid: child.id(), said, killed: status.signal() == Some(9) }
}
