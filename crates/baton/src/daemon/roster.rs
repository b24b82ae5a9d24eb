//! All agents, as their files say. A copy in memory: what a file's change makes old is read again before it is shown.

use std::collections::{BTreeMap, HashMap, HashSet};

use baton_core::agent::Agent;
use baton_core::ids::{AgentId, SessionId};
use baton_core::process::Process;
use baton_core::session::{Gauge, Session, Turn};
use hyper::body::Bytes;
use serde::Serialize;

use super::keeper::Unwritten;
use crate::hot::measure::News;
use crate::store::Store;
use crate::sys::changes::{Change, Changes, FolderId, Interest};
use crate::sys::process;

/// One agent with what belongs to it.
#[derive(Debug, Clone)]
pub struct Entry {
    pub agent: Agent,
    pub session: Option<Session>,
    pub gauge: Gauge,
    /// Messages that wait.
    pub mail: usize,
    /// Its client or its supervisor runs.
    pub live: bool,
    /// It did, at some time since we began.
    pub lived: bool,
    /// As the API shows it; made when it is first asked for.
    shown: Option<Bytes>,
}

/// An agent as the API shows it.
#[derive(Debug, Serialize)]
pub struct Shown<'a> {
    id: &'a AgentId,
    provider: &'a str,
    parent: Option<&'a AgentId>,
    channel: &'a str,
    cwd: &'a str,
    state: &'static str,
    /// The conversation it is in.
    session: Option<&'a SessionId>,
    transcript_path: Option<&'a str>,
    model: Option<&'a str>,
    level: baton_core::level::Level,
    tokens: Option<u64>,
    /// The same, under the name that older scripts read.
    tokens_used: Option<u64>,
    window: Option<u64>,
    used_percentage: Option<u8>,
    mail: usize,
    last_handoff: Option<&'a str>,
    last_handoff_path: Option<&'a str>,
    /// A handoff that will be carried out when the turn ends.
    pending_handoff_path: Option<&'a str>,
    /// A sealed handoff that waits for a fresh context.
    rotation: Option<&'a str>,
    created: jiff::Timestamp,
    ended: Option<jiff::Timestamp>,
}

impl Entry {
    fn read(store: &Store, unwritten: &Unwritten, id: &AgentId) -> Option<Self> {
        let agent = store.agents().get(id).ok().flatten()?;
        let session = agent.session.as_ref().and_then(|id| store.sessions().get(id).ok().flatten());
        let gauge = session.as_ref().map(|s| gauge_of(store, unwritten, &s.id)).unwrap_or_default();
        let mail = store.mail().waiting(id);
        Some(Self { agent, session, gauge, mail, live: false, lived: false, shown: None })
    }

    /// One word for what it does.
    pub fn state(&self) -> &'static str {
        if !self.live {
            return if self.agent.ended.is_some() { "ended" } else { "dead" };
        }
        match self.session.as_ref().map(|s| s.turn) {
            Some(Turn::Working) => "working",
            Some(Turn::Blocked) => "blocked",
            Some(Turn::Limit) => "limit",
            Some(Turn::Idle) | None => "idle",
        }
    }

    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        let agent = &self.agent;
        [&agent.process, &agent.supervisor].into_iter().flatten().filter(|_| agent.ended.is_none())
    }

    fn show(&self) -> Bytes {
        let (agent, session, reading) = (&self.agent, self.session.as_ref(), self.gauge.reading);
        let request = session.and_then(|s| s.request.as_ref());
        let shown = Shown {
            id: &agent.id,
            provider: &agent.provider,
            parent: agent.parent.as_ref(),
            channel: agent.channel.as_str(),
            cwd: &agent.cwd,
            state: self.state(),
            session: agent.session.as_ref(),
            transcript_path: session.and_then(|s| s.transcript.as_deref()),
            model: self.gauge.model.as_deref().or(session.and_then(|s| s.model.as_deref())),
            level: self.gauge.level,
            tokens: reading.map(|r| r.tokens),
            tokens_used: reading.map(|r| r.tokens),
            window: reading.map(|r| r.window),
            used_percentage: reading.map(|r| r.percentage()),
            mail: self.mail,
            last_handoff: agent.last_handoff.as_ref().map(baton_core::handoff::HandoffId::as_str),
            last_handoff_path: agent.last_handoff_path.as_deref(),
            pending_handoff_path: request.map(|r| r.path.as_deref().unwrap_or(&r.copy)),
            rotation: agent.rotation.as_ref().map(|r| r.handoff.as_str()),
            created: agent.created,
            ended: agent.ended,
        };
        serde_json::to_vec(&shown).unwrap_or_default().into()
    }
}

/// What is told of a session that somebody is about to write, or has written.
fn gauge_of(store: &Store, unwritten: &Unwritten, session: &SessionId) -> Gauge {
    unwritten.gauge(session).cloned().unwrap_or_else(|| store.sessions().gauge(session))
}

/// What a watched folder holds.
#[derive(Debug, Clone)]
enum Folder {
    Agents,
    Sessions,
    Log,
    Rotations,
    /// One folder per agent.
    Mail,
    /// The mailbox of one agent, whose queue is not there yet.
    Box(AgentId),
    /// The queue of one agent.
    Queue(AgentId),
    /// The daemon's own place.
    Run,
}

/// What of an agent must be read again.
#[derive(Debug, Clone, Copy, Default)]
struct Stale {
    record: bool,
    session: bool,
    gauge: bool,
    mail: bool,
}

/// What has changed since somebody last asked.
#[derive(Debug, Default)]
pub struct Seen {
    pub agents: HashSet<AgentId>,
    pub rotations: Vec<String>,
    pub log: bool,
    /// Something vanished from the daemon's own place.
    pub place: bool,
}

pub struct Roster {
    store: Store,
    changes: Changes,
    folders: HashMap<FolderId, Folder>,
    entries: BTreeMap<AgentId, Entry>,
    /// Whose conversation it is: only of the current ones.
    sessions: HashMap<SessionId, AgentId>,
    /// Processes that have been seen alive; whoever hears of an end takes it out.
    alive: HashSet<Process>,
    /// To be read again before they are shown.
    stale: HashMap<AgentId, Stale>,
    /// Everything is to be read again.
    lost: bool,
    seen: Seen,
    /// Newer than the gauges on disk.
    pub unwritten: Unwritten,
}

impl Roster {
    pub fn new(store: &Store) -> std::io::Result<Self> {
        let mut roster = Self {
            store: store.clone(),
            changes: Changes::new()?,
            folders: HashMap::new(),
            entries: BTreeMap::new(),
            sessions: HashMap::new(),
            alive: HashSet::new(),
            stale: HashMap::new(),
            lost: true,
            seen: Seen::default(),
            unwritten: Unwritten::default(),
        };
        for (name, folder, interest) in [
            ("agents", Folder::Agents, Interest::Files),
            ("sessions", Folder::Sessions, Interest::Files),
            ("log", Folder::Log, Interest::Files),
            ("rotations", Folder::Rotations, Interest::Files),
            ("mail", Folder::Mail, Interest::Folders),
            ("run", Folder::Run, Interest::Loss),
        ] {
            let dir = store.state.join(name);
            crate::sys::fs::private_dir(&dir).map_err(|e| e.source)?;
            let id = roster.changes.watch(&dir, interest)?;
            roster.folders.insert(id, folder);
        }
        Ok(roster)
    }

    /// The descriptor that tells of changes, for whoever waits for them.
    pub fn changes(&self) -> std::io::Result<std::os::fd::OwnedFd> {
        std::os::fd::AsFd::as_fd(&self.changes).try_clone_to_owned()
    }

    /// Takes note of everything that has changed until now, and reads it.
    pub fn refresh(&mut self) {
        self.note_changes();
        if std::mem::take(&mut self.lost) {
            self.read_all();
            self.seen.agents.extend(self.entries.keys().cloned());
            (self.seen.log, self.seen.place) = (true, true);
        }
        for (id, stale) in std::mem::take(&mut self.stale) {
            self.read(&id, stale);
            // Nothing follows from a reading alone.
            if stale.record || stale.session || stale.mail {
                self.seen.agents.insert(id);
            }
        }
    }

    /// What has changed since this was last asked.
    pub fn take_seen(&mut self) -> Seen {
        std::mem::take(&mut self.seen)
    }

    fn note_changes(&mut self) {
        let Self { changes, folders, sessions, stale, lost, seen, .. } = self;
        let mut boxes = Vec::new();
        changes.drain(|change| match change {
            Change::Anything => *lost = true,
            Change::Of(folder, name) => match folders.get(&folder) {
                Some(Folder::Agents) => {
                    if let Some(id) = name.strip_suffix(".json").and_then(|id| AgentId::new(id).ok()) {
                        stale.entry(id).or_default().record = true;
                    }
                }
                Some(Folder::Sessions) => {
                    let (id, gauge) = match name.strip_suffix(".gauge") {
                        Some(id) => (Some(id), true),
                        None => (name.strip_suffix(".json"), false),
                    };
                    let agent = id.and_then(|id| SessionId::new(id).ok()).and_then(|id| sessions.get(&id));
                    if let Some(agent) = agent {
                        let stale = stale.entry(agent.clone()).or_default();
                        if gauge {
                            stale.gauge = true;
                        } else {
                            stale.session = true;
                        }
                    }
                }
                Some(Folder::Log) => seen.log = true,
                Some(Folder::Run) => seen.place = true,
                Some(Folder::Rotations) => {
                    seen.rotations.extend(
                        name.strip_suffix(".json").filter(|n| !n.starts_with('.')).map(str::to_owned),
                    );
                }
                Some(Folder::Mail) => boxes.extend(AgentId::new(name).ok()),
                Some(Folder::Box(agent)) if name == "new" => boxes.push(agent.clone()),
                Some(Folder::Queue(agent)) => stale.entry(agent.clone()).or_default().mail = true,
                Some(Folder::Box(_)) | None => {}
            },
        });
        for agent in boxes {
            self.watch_queue(&agent);
            self.stale.entry(agent).or_default().mail = true;
        }
    }

    /// A mailbox is made with its first message; whoever makes it may not be done yet. It is left to them: a folder
    /// must be on disk before something in it counts, and nobody waits for the disk here.
    fn watch_queue(&mut self, agent: &AgentId) {
        let home = self.store.state.join("mail").join(agent.as_str());
        let queue = home.join("new");
        let mut watched = self.changes.watch(&queue, Interest::Queue);
        if watched.is_err() {
            if let Ok(id) = self.changes.watch(&home, Interest::Folders) {
                self.folders.insert(id, Folder::Box(agent.clone()));
            }
            // It may have come meanwhile.
            watched = self.changes.watch(&queue, Interest::Queue);
        }
        if let Ok(id) = watched {
            self.folders.insert(id, Folder::Queue(agent.clone()));
        }
    }

    fn read_all(&mut self) {
        self.stale.clear();
        for agent in self.store.mail().boxes() {
            self.watch_queue(&agent);
        }
        let ids: HashSet<AgentId> = self.store.agents().all().into_iter().map(|a| a.id).collect();
        self.entries.retain(|id, _| ids.contains(id));
        self.sessions.retain(|_, agent| ids.contains(agent));
        for id in &ids {
            self.read(id, Stale { record: true, ..Stale::default() });
        }
    }

    fn read(&mut self, id: &AgentId, stale: Stale) {
        if stale.record || !self.entries.contains_key(id) {
            return self.read_whole(id);
        }
        let Some(entry) = self.entries.get_mut(id) else { return };
        entry.shown = None;
        if stale.mail {
            entry.mail = self.store.mail().waiting(id);
        }
        let Some(session) = entry.agent.session.clone() else { return };
        if stale.session {
            entry.session = self.store.sessions().get(&session).ok().flatten();
        }
        if stale.gauge {
            entry.gauge = gauge_of(&self.store, &self.unwritten, &session);
        }
    }

    fn read_whole(&mut self, id: &AgentId) {
        let before = self.entries.get(id);
        let lived = before.is_some_and(|e| e.lived);
        if let Some(session) = before.and_then(|e| e.agent.session.clone()) {
            self.sessions.remove(&session);
        }
        let Some(mut entry) = Entry::read(&self.store, &self.unwritten, id) else {
            self.entries.remove(id);
            return;
        };
        for process in entry.processes() {
            if !self.alive.contains(process) && process::is_alive(process) {
                self.alive.insert(process.clone());
            }
        }
        let live = entry.processes().any(|p| self.alive.contains(p));
        (entry.live, entry.lived) = (live, live || lived);
        if let Some(session) = &entry.agent.session {
            self.sessions.insert(session.clone(), id.clone());
        }
        self.entries.insert(id.clone(), entry);
    }

    /// Shows this gauge from now on, in the place of `before`. `true` if it is the first of this session that waits to be written.
    pub fn keep(&mut self, session: &Session, before: &Gauge, gauge: &Gauge, news: News) -> bool {
        if let Some(entry) = self.entries.get_mut(&session.agent)
            && entry.agent.session.as_ref() == Some(&session.id)
        {
            gauge.clone_into(&mut entry.gauge);
            entry.shown = None;
        }
        self.unwritten.put(&session.id, before, gauge, news)
    }

    /// What was told of this session does not count: its file is shown again.
    pub fn forget(&mut self, session: &SessionId) {
        self.unwritten.drop(session);
        if let Some(agent) = self.sessions.get(session) {
            self.stale.entry(agent.clone()).or_default().gauge = true;
        }
    }

    /// This process has ended: whose it was is looked at again.
    pub fn ended(&mut self, process: &Process) {
        if !self.alive.remove(process) {
            return;
        }
        for entry in self.entries.values().filter(|e| e.processes().any(|p| p == process)) {
            self.stale.entry(entry.agent.id.clone()).or_default().record = true;
        }
    }

    /// Looks at each process that is thought to live: for those whose end nobody tells.
    pub fn check_alive(&mut self) {
        let gone: Vec<Process> = self.alive.iter().filter(|p| !process::is_alive(p)).cloned().collect();
        for process in &gone {
            self.ended(process);
        }
    }

    pub fn alive(&self) -> &HashSet<Process> {
        &self.alive
    }

    pub fn get(&self, id: &AgentId) -> Option<&Entry> {
        self.entries.get(id)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The agent that a name, an id or the id of any of its conversations means.
    pub fn resolve(&self, text: &str) -> Option<AgentId> {
        if let Ok(id) = AgentId::new(text)
            && self.entries.contains_key(&id)
        {
            return Some(id);
        }
        let session = SessionId::new(text).ok()?;
        if let Some(agent) = self.sessions.get(&session) {
            return Some(agent.clone());
        }
        // An earlier conversation.
        let agent = self.store.sessions().get(&session).ok().flatten()?.agent;
        self.entries.contains_key(&agent).then_some(agent)
    }

    /// One agent as the API shows it.
    pub fn shown(&mut self, id: &AgentId) -> Option<Bytes> {
        let entry = self.entries.get_mut(id)?;
        if entry.shown.is_none() {
            entry.shown = Some(entry.show());
        }
        entry.shown.clone()
    }

    /// All of them.
    pub fn all_shown(&mut self) -> Bytes {
        let mut body = Vec::with_capacity(self.entries.len() * 640 + 32);
        body.extend_from_slice(b"{\"sessions\":[");
        for entry in self.entries.values_mut() {
            if !body.ends_with(b"[") {
                body.push(b',');
            }
            if entry.shown.is_none() {
                entry.shown = Some(entry.show());
            }
            body.extend_from_slice(entry.shown.as_deref().unwrap_or(b"null"));
        }
        body.extend_from_slice(b"]}");
        body.into()
    }
}
