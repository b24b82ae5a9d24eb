//! Load tests: many agents and many requests at once.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use baton_core::agent::Agent;
use baton_core::ids::{AgentId, ChannelName, SessionId};
use baton_core::process::Process;
use baton_core::session::Session;
use serde_json::{Value, json};

use crate::daemon::{Served, Wire};
use crate::home::Home;
use crate::wait::wait_until;

/// The identity of this process, as in records.
pub fn myself() -> Process {
    let text = std::fs::read_to_string("/proc/self/stat").expect("Linux tells what a process is");
    let fields = text.rsplit_once(')').map(|(_, rest)| rest.split_whitespace());
    let start = fields.and_then(|mut f| f.nth(19)?.parse().ok()).expect("a start time");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Process { pid: std::process::id(), start, boot: boot.trim().to_owned() }
}

/// Writes records of `count` living agents, `load-0` and so on, as hooks would have left them.
pub fn populate(home: &Home, count: usize) {
    let (agents, sessions) = (home.state().join("agents"), home.state().join("sessions"));
    for dir in [&agents, &sessions] {
        std::fs::create_dir_all(dir).expect("a home takes new folders");
    }
    let (now, me) = (jiff::Timestamp::now(), myself());
    let channel = ChannelName::new("load").expect("a plain word");
    for n in 0..count {
        let id = AgentId::new(format!("load-{n}")).expect("a plain word");
        let session = SessionId::new(format!("{n:08x}-0000-4000-8000-000000000000")).expect("a plain word");
        let cwd = home.project().display().to_string();
        let mut agent = Agent::new(id.clone(), "claude", channel.clone(), cwd.clone(), now);
        agent.enter(&session, Some(me.clone()));
        let mut record = Session::new(session.clone(), "claude", id.clone(), channel.clone(), now, "startup");
        record.cwd = cwd;
        record.process = Some(me.clone());
        let write = |path: std::path::PathBuf, text: String| std::fs::write(path, text).expect("a file");
        write(agents.join(format!("{id}.json")), serde_json::to_string(&agent).expect("JSON"));
        write(sessions.join(format!("{session}.json")), serde_json::to_string(&record).expect("JSON"));
    }
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Report {
    pub sent: usize,
    pub answered: usize,
    pub took: Duration,
    /// Latencies of `context-usage`, sorted.
    pub usage: Vec<Duration>,
    /// Latencies of all others, sorted.
    pub other: Vec<Duration>,
    /// How much later than requested a sender was woken, sorted: the machine's own delay.
    pub late: Vec<Duration>,
    /// The last reported tokens of each agent.
    pub last: HashMap<usize, u64>,
    /// The keys of accepted messages, by agent.
    pub messages: Vec<(usize, String)>,
}

impl Report {
    pub fn percentile(sorted: &[Duration], percent: usize) -> Duration {
        sorted
            .get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    }

    fn join(mut self, other: Self) -> Self {
        self.sent += other.sent;
        self.answered += other.answered;
        self.usage.extend(other.usage);
        self.other.extend(other.other);
        self.late.extend(other.late);
        self.last.extend(other.last);
        self.messages.extend(other.messages);
        self
    }
}

/// Sends `rate` requests a second over `connections` kept-open connections to the port, for `time`. Each connection has
/// its own agents. Of a hundred requests, 90 report how full an agent is, 9 query one, 1 sends a message.
pub fn run(served: &Served<'_>, agents: usize, connections: usize, rate: usize, time: Duration) -> Report {
    let (at, token) = (served.http.clone().expect("a port"), format!("Bearer {}", served.token()));
    let began = Instant::now();
    let reports: Vec<Report> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..connections)
            .map(|own| {
                let (at, token) = (&at, &token);
                scope.spawn(move || one(at, token, own, connections, agents, rate, time))
            })
            .collect();
        threads.into_iter().map(|t| t.join().expect("a client does not fail")).collect()
    });
    let mut report = reports.into_iter().fold(Report::default(), Report::join);
    report.took = began.elapsed();
    report.usage.sort_unstable();
    report.other.sort_unstable();
    report.late.sort_unstable();
    report
}

fn one(
    at: &str,
    token: &str,
    own: usize,
    connections: usize,
    agents: usize,
    rate: usize,
    time: Duration,
) -> Report {
    let mut wire = Wire::tcp(at).expect("the port is open");
    let headers = [("Host", at), ("Authorization", token)];
    let mut report = Report::default();
    let gap = Duration::from_secs_f64(connections as f64 / rate as f64);
    let began = Instant::now() + gap.mul_f64(own as f64 / connections as f64);
    let mine = agents / connections;
    for n in 0.. {
        let due = began + gap * n;
        if due.duration_since(began) >= time {
            break;
        }
        let left = due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            std::thread::sleep(left);
            report.late.push(due.elapsed());
        }
        let n = usize::try_from(n).unwrap_or(0);
        let agent = own + (n % mine.max(1)) * connections;
        report.sent += 1;
        let sent = Instant::now();
        let (answered, is_usage) = match n % 100 {
            7 => {
                let key = format!("load-{own}-{n}");
                let body = json!({ "text": format!("message {key}"), "key": key });
                let path = format!("/sessions/load-{agent}/messages");
                let answered = wire.ask("POST", &path, &headers, Some(&body));
                if answered.as_ref().is_ok_and(|a| a.status == 200) {
                    report.messages.push((agent, key));
                }
                (answered, false)
            }
            k if k % 11 == 5 => (wire.ask("GET", &format!("/sessions/load-{agent}"), &headers, None), false),
            _ => {
                let tokens = 10_000 + (n as u64 * 37 + own as u64) % 60_000;
                let body = json!({ "session_id": format!("load-{agent}"), "total_input_tokens": tokens,
                    "used_percentage": percent(tokens), "total_output_tokens": 100, "context_window_size": 200_000 });
                let answered = wire.ask("POST", "/hooks/context-usage", &headers, Some(&body));
                if answered.as_ref().is_ok_and(|a| a.status == 200) {
                    report.last.insert(agent, tokens);
                }
                (answered, true)
            }
        };
        if answered.is_ok_and(|a| a.status == 200) {
            report.answered += 1;
        }
        if is_usage { report.usage.push(sent.elapsed()) } else { report.other.push(sent.elapsed()) }
    }
    report
}

fn percent(tokens: u64) -> u8 {
    baton_core::reading::percent(tokens, 200_000)
}

/// Accepted messages that are missing; must be empty.
pub fn lost(served: &Served<'_>, report: &Report) -> Vec<String> {
    let mut lost = Vec::new();
    let all = served.get("/sessions");
    let shown: HashMap<&str, &Value> = all["sessions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|s| Some((s["id"].as_str()?, s)))
        .collect();
    for (agent, tokens) in &report.last {
        let id = format!("load-{agent}");
        if shown.get(id.as_str()).is_none_or(|s| s["tokens"] != *tokens) {
            lost.push(format!("{id}: {tokens} tokens"));
        }
    }
    let mut boxes: HashMap<usize, String> = HashMap::new();
    for (agent, key) in &report.messages {
        let shown = boxes
            .entry(*agent)
            .or_insert_with(|| served.get(&format!("/sessions/load-{agent}/messages")).to_string());
        if shown.matches(&format!("message {key}\"")).count() != 1 {
            lost.push(format!("message {key}"));
        }
    }
    lost
}

/// A figure from `/proc/{pid}/status`, in its own unit.
pub fn figure(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// How often each thread of a process went to sleep; each sleep follows a wake-up.
pub fn sleeps(pid: u32) -> BTreeMap<String, u64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .filter_map(|t| {
            let status = std::fs::read_to_string(t.path().join("status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            Some((t.file_name().into_string().ok()?, line.trim().parse::<u64>().ok()?))
        })
        .collect()
}

/// Wake-ups between two looks, of the threads that still exist.
pub fn woken(before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) -> u64 {
    now.iter().map(|(thread, count)| count - before.get(thread).copied().unwrap_or(0)).sum()
}

/// Waits until a process has been woken at most `most` times within `window`, so it has finished its work. Fails the
/// test if that never happens.
#[track_caller]
pub fn wait_until_idle(pid: u32, most: u64, window: Duration) {
    let mut seen = VecDeque::from([(Instant::now(), sleeps(pid))]);
    let what = format!("process {pid} to be woken at most {most} times in {window:?}");
    wait_until(&what, || {
        seen.push_back((Instant::now(), sleeps(pid)));
        // Find the latest look that is a whole window ago.
        while seen.get(1).is_some_and(|(at, _)| at.elapsed() >= window) {
            seen.pop_front();
        }
        let (at, before) = &seen[0];
        at.elapsed() >= window && woken(before, &seen[seen.len() - 1].1) <= most
    });
}

/// A process's CPU time, in steps of ten milliseconds.
pub fn processor_time(pid: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
