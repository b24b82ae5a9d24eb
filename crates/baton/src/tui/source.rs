//! Where the figures come from: the daemon's API and its events, or the files if no daemon is wanted.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::Context as _;
use baton_core::agent::Agent;
use baton_core::ids::AgentId;
use baton_core::transcript::pages::PageRange;
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::approvals;
use crate::config::Config;
use crate::daemon::client;
use crate::fleet::config::Membership;
use crate::fleet::roll::FleetView;
use crate::mail::maildir::Mail;
use crate::store::Store;
use crate::sys::paths::Paths;
use crate::sys::watch::Watch;
use crate::tui::model::Link;
use crate::tui::update::{DetailData, ScreenEvent, Want};
use crate::views;
use crate::views::agent::AgentView;

/// How many entries of a conversation the screen shows.
const ENTRIES: usize = 60;
/// How far back the chart goes.
const CHART: SignedDuration = SignedDuration::from_hours(12);
/// The pause between two attempts to reach a daemon that is gone.
const RETRY: Duration = Duration::from_millis(500);
/// File changes that come this close together are read together.
const TOGETHER: Duration = Duration::from_millis(60);
/// How often to look at other machines. Their news comes with heartbeats, so polling more often would show nothing new.
const FLEET: Duration = Duration::from_secs(5);
/// How often to read the files if they cannot be watched.
const AT_LEAST: Duration = Duration::from_secs(5);

/// Sends events to the screen, which sleeps until one arrives.
#[derive(Clone)]
pub(crate) struct Outbox {
    events: Sender<ScreenEvent>,
    bell: Arc<UnixStream>,
}

impl Outbox {
    pub(crate) fn new(events: Sender<ScreenEvent>, bell: UnixStream) -> Self {
        Self { events, bell: Arc::new(bell) }
    }

    /// Returns `false` if the screen is gone.
    pub(crate) fn send(&self, event: ScreenEvent) -> bool {
        let sent = self.events.send(event).is_ok();
        // If the socket is full, the screen has been woken already.
        let _ = rustix::io::write(&*self.bell, &[1]);
        sent
    }
}

#[derive(Clone)]
pub(crate) struct DataSource {
    pub paths: Paths,
    pub store: Store,
    pub config: Config,
    /// Read the files instead of asking the daemon.
    pub files: bool,
    /// Include agents that ended more than a day ago.
    pub all: bool,
}

impl DataSource {
    /// Starts the reader threads. Each request to the returned sender is answered with an event.
    pub(crate) fn start(self, out: &Outbox) -> std::io::Result<Sender<(Want, String)>> {
        let (wanted, queue) = channel();
        let (reader, answers) = (self.clone(), out.clone());
        std::thread::Builder::new()
            .name("reader".to_owned())
            .spawn(move || reader.answer(&queue, &answers))?;
        let (fleet, others) = (self.clone(), out.clone());
        std::thread::Builder::new().name("fleet".to_owned()).spawn(move || fleet.follow_fleet(&others))?;
        let out = out.clone();
        std::thread::Builder::new()
            .name("follower".to_owned())
            .spawn(move || if self.files { self.follow_files(&out) } else { self.follow_daemon(&out) })?;
        Ok(wanted)
    }

    /// Reads what is requested. If the same thing is requested several times, only the last request counts.
    fn answer(&self, queue: &Receiver<(Want, String)>, out: &Outbox) {
        while let Ok(first) = queue.recv() {
            let mut wanted = vec![first];
            wanted.extend(queue.try_iter());
            let mut last: Vec<(Want, String)> = Vec::new();
            for (want, agent) in wanted.into_iter().rev() {
                if !last.iter().any(|(known, _)| *known == want) {
                    last.push((want, agent));
                }
            }
            for (want, agent) in last.into_iter().rev() {
                if !out.send(self.read(want, agent)) {
                    return;
                }
            }
        }
    }

    fn read(&self, want: Want, agent: String) -> ScreenEvent {
        let view = match want {
            Want::Approvals => return ScreenEvent::Approvals(self.approvals().unwrap_or_default()),
            Want::Conversation => {
                DetailData::Conversation(told(self.one(&agent, "conversation?limit=60", |agent| {
                    Ok(views::conversation::of(&self.store, agent, None, PageRange::Newest, ENTRIES)?)
                })))
            }
            Want::Draft => DetailData::Draft(told(self.one(&agent, "draft", |agent| {
                let handoffs = self.store.handoffs(&self.config);
                Ok(views::draft::of(&self.store, &handoffs, agent, Timestamp::now())?)
            }))),
            Want::Chain => DetailData::Chain(told(self.one(&agent, "chain", |agent| {
                Ok(views::chain::of(&self.store, &self.store.handoffs(&self.config), agent)?)
            }))),
            Want::Mail => DetailData::Mail(told(self.mail(&agent))),
            Want::Log => DetailData::Log(told(self.log(&agent))),
            Want::Levels => {
                let since = Timestamp::now() - CHART;
                let path = format!("levels?since={}", since.as_second());
                DetailData::Levels(told(self.one(&agent, &path, |agent| {
                    let view = self.agents().into_iter().flatten().find(|view| view.id == agent.id.as_str());
                    Ok(views::levels::of(&self.store, &agent.id, view.as_ref(), since))
                })))
            }
        };
        ScreenEvent::Read { agent, view }
    }

    /// Reads something about one agent, from the daemon or from the files.
    fn one<T: DeserializeOwned>(
        &self,
        agent: &str,
        path: &str,
        make: impl FnOnce(&Agent) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        if self.files {
            let record = self.store.agents().get(&AgentId::new(agent)?)?;
            return make(&record.with_context(|| format!("there is no agent {agent}"))?);
        }
        self.ask(&format!("/sessions/{agent}/{path}"))
    }

    fn ask<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let (status, value) = client::ask(&self.paths, "GET", path, None)?.context("the daemon is gone")?;
        anyhow::ensure!(status == 200, "{}", value["error"].as_str().unwrap_or("the daemon refused"));
        serde_json::from_value(value)
            .context("the daemon speaks another version; `baton serve --stop` and come back")
    }

    fn agents(&self) -> anyhow::Result<Vec<AgentView>> {
        #[derive(serde::Deserialize)]
        struct All {
            sessions: Vec<AgentView>,
        }
        if self.files {
            let thresholds = self.config.context.thresholds();
            return Ok(views::agent::all(&self.store, self.all, |_: &Path| thresholds));
        }
        let path = if self.all { "/sessions?all=true" } else { "/sessions" };
        Ok(self.ask::<All>(path)?.sessions)
    }

    fn approvals(&self) -> anyhow::Result<Vec<Value>> {
        if self.files {
            let cases = approvals::waiting(&self.store, Timestamp::now())?;
            return Ok(cases.iter().map(|case| approvals::row(&self.paths, case)).collect());
        }
        let answer: Value = self.ask("/approvals")?;
        Ok(answer["approvals"].as_array().cloned().unwrap_or_default())
    }

    fn mail(&self, agent: &str) -> anyhow::Result<Vec<Value>> {
        if self.files {
            let all = Mail::of(&self.store).list(&AgentId::new(agent)?);
            let row = |(message, state)| {
                let mut row = serde_json::json!(message);
                row["state"] = serde_json::json!(state);
                row
            };
            return Ok(all.into_iter().map(row).collect());
        }
        let answer: Value = self.ask(&format!("/sessions/{agent}/messages?limit=50"))?;
        Ok(answer["messages"].as_array().cloned().unwrap_or_default())
    }

    fn log(&self, agent: &str) -> anyhow::Result<Vec<crate::store::log::LogLine>> {
        if self.files {
            return Ok(views::log::recent(&self.store, &AgentId::new(agent)?, views::log::USUAL));
        }
        let answer: Value = self.ask(&format!("/sessions/{agent}/log"))?;
        Ok(serde_json::from_value(answer["lines"].clone())?)
    }

    /// Polls what is known about other machines. On a machine without a fleet this costs one lookup.
    fn follow_fleet(&self, out: &Outbox) {
        let mut shown = FleetView::default();
        loop {
            let now = match Membership::path(&self.store.state).exists() {
                false => Some(FleetView::default()),
                true if self.files => FleetView::read(&self.store.state).ok(),
                true => self.ask("/fleet").ok(),
            };
            if let Some(now) = now.filter(|now| *now != shown) {
                shown = now.clone();
                if !out.send(ScreenEvent::Fleet(now)) {
                    return;
                }
            }
            std::thread::sleep(FLEET);
        }
    }

    /// Reads the daemon's events, and starts the daemon again if it is gone.
    fn follow_daemon(&self, out: &Outbox) {
        loop {
            let heard = client::ensure(&self.paths, &[]).and_then(|_| self.hear(out));
            // The screen is gone.
            if matches!(heard, Ok(false)) || !out.send(ScreenEvent::Link(Link::Lost)) {
                return;
            }
            std::thread::sleep(RETRY);
        }
    }

    /// Returns `false` if the screen is gone.
    fn hear(&self, out: &Outbox) -> anyhow::Result<bool> {
        let mut events = client::follow(&self.paths, "/events?changes=true")?;
        // Read the agents only after the stream has begun, so that no change is missed.
        if !(out.send(ScreenEvent::Agents(self.agents()?)) && out.send(ScreenEvent::Link(Link::Daemon))) {
            return Ok(false);
        }
        loop {
            let (name, data) = events.next_event()?;
            let event = match name.as_str() {
                "agent-changed" => {
                    serde_json::from_str(&data).map(|view| ScreenEvent::Agent(Box::new(view)))?
                }
                "agent-gone" => {
                    let gone: Value = serde_json::from_str(&data)?;
                    ScreenEvent::Gone(gone["id"].as_str().unwrap_or_default().to_owned())
                }
                "agents-changed" => ScreenEvent::Agents(self.agents()?),
                _ => match serde_json::from_str(&data) {
                    Ok(line) => ScreenEvent::Logged(Box::new(line)),
                    Err(_) => continue,
                },
            };
            if !out.send(event) {
                return Ok(false);
            }
        }
    }

    /// Reads everything again whenever a file has changed.
    fn follow_files(&self, out: &Outbox) {
        let state = &self.store.state;
        let folders = ["agents", "sessions", "log", "approvals/waiting"].map(|name| state.join(name));
        for dir in &folders {
            // A folder that cannot be created is not watched.
            let _ = crate::sys::fs::private_dir(dir);
        }
        let mut watch = Watch::folders(&folders.each_ref().map(std::path::PathBuf::as_path)).ok();
        loop {
            let agents = self.agents().unwrap_or_default();
            if !(out.send(ScreenEvent::Agents(agents)) && out.send(ScreenEvent::Link(Link::Files))) {
                return;
            }
            match &mut watch {
                Some(watch) => {
                    watch.wait(Duration::from_secs(5));
                    std::thread::sleep(TOGETHER);
                }
                None => std::thread::sleep(AT_LEAST),
            }
        }
    }
}

fn told<T>(read: anyhow::Result<T>) -> Result<T, String> {
    read.map_err(|e| baton_core::plain::plain_line(&format!("{e:#}"), 300))
}
