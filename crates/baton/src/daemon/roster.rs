//! All agents on record, in memory. A changed file marks its part as stale, which is read again before use.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use baton_core::agent::Agent;
use baton_core::compaction::Observations;
use baton_core::gauge::Gauge;
use baton_core::ids::{AgentId, SessionId};
use baton_core::level::Thresholds;
use baton_core::need::WaitingRequest;
use baton_core::process::Process;
use baton_core::session::Session;
use hyper::body::Bytes;
use jiff::Timestamp;

use crate::daemon::gauge_writer::PendingGauges;
use crate::mail::maildir::Mail;
use crate::mail::user;
use crate::sessions::gauge::News;
use crate::store::Store;
use crate::sys::fs::FileError;
use crate::sys::process;
use crate::sys::watch::{FolderChange, FolderId, Interest, Wakeups, Watch};
use crate::views::agent::{self, AgentFacts, AgentView, SenderMail};

/// The thresholds that apply in a folder.
pub(crate) type ThresholdsOf<'a> = &'a dyn Fn(&Path) -> Thresholds;

/// An agent with its session, gauge and mail.
#[derive(Debug, Clone)]
pub(crate) struct RosterEntry {
    pub(crate) agent: Agent,
    pub(crate) session: Option<Session>,
    pub(crate) gauge: Gauge,
    /// The number of waiting messages.
    pub(crate) mail: usize,
    /// Its client or its supervisor runs.
    pub(crate) live: bool,
    /// It was live at some time since the daemon started.
    pub(crate) was_live: bool,
    /// The agent as the API shows it, rendered on first use.
    json: Option<Bytes>,
}

impl RosterEntry {
    fn read(store: &Store, pending: &PendingGauges, id: &AgentId) -> Result<Option<Self>, FileError> {
        let Some(agent) = store.agents().get(id)? else { return Ok(None) };
        let session = match &agent.session {
            Some(id) => store.sessions().get(id)?,
            None => None,
        };
        let gauge = session.as_ref().map(|s| gauge_of(store, pending, &s.id)).unwrap_or_default();
        let mail = Mail::of(store).waiting(id);
        Ok(Some(Self { agent, session, gauge, mail, live: false, was_live: false, json: None }))
    }

    /// Whether it ended so long ago that it is listed only on request.
    fn is_history(&self, now: Timestamp) -> bool {
        agent::is_history(&self.agent, self.session.as_ref(), self.live, now)
    }

    /// The processes that make it live.
    pub(crate) fn processes(&self) -> impl Iterator<Item = &Process> {
        agent::processes(&self.agent)
    }
}

/// A session's newest gauge: an unwritten one, or the one in its file.
fn gauge_of(store: &Store, pending: &PendingGauges, session: &SessionId) -> Gauge {
    pending.get(session).cloned().unwrap_or_else(|| store.sessions().gauge(session))
}

/// The content of a watched folder.
#[derive(Debug, Clone)]
enum RecordFolder {
    Agents,
    Sessions,
    Log,
    Rotations,
    /// Waiting permission requests.
    Approvals,
    Reminders,
    /// One mailbox per agent.
    Mail,
    /// One agent's mailbox, still without a queue.
    Mailbox(AgentId),
    /// The queue in one agent's mailbox.
    Queue(AgentId),
    /// The daemon's own folder.
    RunDir,
}

/// The parts of an agent to read again.
#[derive(Debug, Clone, Copy, Default)]
struct StaleParts {
    record: bool,
    session: bool,
    gauge: bool,
    mail: bool,
}

/// The changes since the last look.
#[derive(Debug, Default)]
pub(crate) struct RosterChanges {
    pub(crate) agents: HashSet<AgentId>,
    /// Agents whose view changed, also by a reading.
    pub(crate) shown: HashSet<AgentId>,
    pub(crate) rotations: Vec<String>,
    /// Permission requests began or stopped waiting.
    pub(crate) approvals: bool,
    /// Reminders were set, moved or removed.
    pub(crate) reminders: bool,
    pub(crate) log: bool,
    /// Something disappeared from the daemon's own folder.
    pub(crate) run_dir: bool,
    /// Events were lost: anything may have changed, rotations too.
    pub(crate) everything: bool,
}

pub(crate) struct Roster {
    store: Store,
    watch: Watch,
    folders: HashMap<FolderId, RecordFolder>,
    entries: BTreeMap<AgentId, RosterEntry>,
    /// The agents of all current sessions.
    sessions: HashMap<SessionId, AgentId>,
    /// Processes that were alive when last seen.
    alive: HashSet<Process>,
    stale: HashMap<AgentId, StaleParts>,
    all_stale: bool,
    approvals_stale: bool,
    changes: RosterChanges,
    /// Each agent's oldest waiting request.
    waiting: HashMap<AgentId, WaitingRequest>,
    /// Each sender's messages in the user's inbox.
    inbox: HashMap<String, SenderMail>,
    /// Newer than the gauges on disk.
    pub(crate) pending: PendingGauges,
}

impl Roster {
    pub(crate) fn new(store: &Store) -> std::io::Result<Self> {
        let mut roster = Self {
            store: store.clone(),
            watch: Watch::new()?,
            folders: HashMap::new(),
            entries: BTreeMap::new(),
            sessions: HashMap::new(),
            alive: HashSet::new(),
            stale: HashMap::new(),
            all_stale: true,
            approvals_stale: true,
            changes: RosterChanges::default(),
            waiting: HashMap::new(),
            inbox: HashMap::new(),
            pending: PendingGauges::default(),
        };
        for (name, folder, interest) in [
            ("agents", RecordFolder::Agents, Interest::Files),
            ("sessions", RecordFolder::Sessions, Interest::Files),
            ("log", RecordFolder::Log, Interest::Files),
            ("rotations", RecordFolder::Rotations, Interest::Files),
            ("approvals/waiting", RecordFolder::Approvals, Interest::Queue),
            ("reminders", RecordFolder::Reminders, Interest::Files),
            ("mail", RecordFolder::Mail, Interest::Folders),
            ("run", RecordFolder::RunDir, Interest::Loss),
        ] {
            let dir = store.state.join(name);
            crate::sys::fs::private_dir(&dir).map_err(|e| e.source)?;
            let id = roster.watch.add(&dir, interest)?;
            roster.folders.insert(id, folder);
        }
        Ok(roster)
    }

    /// Whether every change wakes the event loop.
    pub(crate) fn wakes(&self) -> bool {
        self.watch.wakes()
    }

    /// Wakes the event loop on changes.
    pub(crate) fn wakeups(&self) -> std::io::Result<Wakeups> {
        self.watch.wakeups()
    }

    /// Reads everything that has changed until now.
    pub(crate) fn refresh(&mut self) {
        self.drain_changes();
        if std::mem::take(&mut self.all_stale) {
            self.read_all();
            let RosterChanges { agents, log, run_dir, everything, approvals, reminders, .. } =
                &mut self.changes;
            agents.extend(self.entries.keys().cloned());
            (*log, *run_dir, *everything) = (true, true, true);
            (*approvals, *reminders) = (true, true);
            self.approvals_stale = true;
            self.stale.entry(user::id()).or_default().mail = true;
        }
        if std::mem::take(&mut self.approvals_stale) {
            self.read_waiting();
        }
        for (id, stale) in std::mem::take(&mut self.stale) {
            if id.as_str() == user::NAME {
                self.read_inbox();
                continue;
            }
            self.read(&id, stale);
            self.changes.shown.insert(id.clone());
            // A reading alone has no consequences.
            if stale.record || stale.session || stale.mail {
                self.changes.agents.insert(id);
            }
        }
    }

    /// The changes since the last call.
    pub(crate) fn take_changes(&mut self) -> RosterChanges {
        std::mem::take(&mut self.changes)
    }

    fn drain_changes(&mut self) {
        let Self { watch, folders, sessions, entries, stale, all_stale, approvals_stale, changes, .. } = self;
        let mut mailboxes = Vec::new();
        watch.drain(|change| {
            let (folder, name) = match change {
                FolderChange::Entry(folder, name) => (folder, name),
                FolderChange::Everything => {
                    *all_stale = true;
                    return true;
                }
            };
            match folders.get(&folder) {
                Some(RecordFolder::Agents) => {
                    if let Some(id) = name.strip_suffix(".json").and_then(|id| AgentId::new(id).ok()) {
                        // The requests of a renamed agent move to its new name.
                        *approvals_stale |= !entries.contains_key(&id);
                        stale.entry(id).or_default().record = true;
                    }
                }
                Some(RecordFolder::Sessions) => {
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
                Some(RecordFolder::Log) => changes.log = true,
                Some(RecordFolder::RunDir) => changes.run_dir = true,
                Some(RecordFolder::Approvals) => (changes.approvals, *approvals_stale) = (true, true),
                Some(RecordFolder::Reminders) => changes.reminders = true,
                Some(RecordFolder::Rotations) => {
                    changes.rotations.extend(
                        name.strip_suffix(".json").filter(|n| !n.starts_with('.')).map(str::to_owned),
                    );
                }
                Some(RecordFolder::Mail) => mailboxes.extend(AgentId::new(name).ok()),
                Some(RecordFolder::Mailbox(agent)) if name == "new" => mailboxes.push(agent.clone()),
                Some(RecordFolder::Queue(agent)) => stale.entry(agent.clone()).or_default().mail = true,
                Some(RecordFolder::Mailbox(_)) | None => {}
            }
            true
        });
        for agent in mailboxes {
            self.watch_queue(&agent);
            self.stale.entry(agent).or_default().mail = true;
        }
    }

    /// Watches an agent's queue. The first sender of a message creates it and may not be done yet. We do not create it
    /// ourselves: a folder must be synced before its contents count, and nothing here may wait for the disk.
    fn watch_queue(&mut self, agent: &AgentId) {
        let mail = Mail::of(&self.store);
        let (home, queue) = (mail.home(agent), mail.dir(agent, "new"));
        let mut watched = self.watch.add(&queue, Interest::Queue);
        if watched.is_err() {
            if let Ok(id) = self.watch.add(&home, Interest::Folders) {
                self.folders.insert(id, RecordFolder::Mailbox(agent.clone()));
            }
            // It may have been created meanwhile.
            watched = self.watch.add(&queue, Interest::Queue);
        }
        if let Ok(id) = watched {
            self.folders.insert(id, RecordFolder::Queue(agent.clone()));
        }
    }

    fn read_waiting(&mut self) {
        // Keep what we have if it cannot be read: it will change again.
        let Ok(now) = agent::waiting(&self.store) else { return };
        let before = std::mem::replace(&mut self.waiting, now);
        let agents: HashSet<AgentId> = before.keys().chain(self.waiting.keys()).cloned().collect();
        let changed: Vec<AgentId> =
            agents.into_iter().filter(|id| before.get(id) != self.waiting.get(id)).collect();
        for id in changed {
            self.show_again(id);
        }
    }

    fn read_inbox(&mut self) {
        let now = agent::inbox(&self.store);
        let before = std::mem::replace(&mut self.inbox, now);
        let senders: HashSet<String> = before.keys().chain(self.inbox.keys()).cloned().collect();
        let changed = senders.into_iter().filter(|from| before.get(from) != self.inbox.get(from));
        for id in changed.filter_map(|from| AgentId::new(from).ok()).collect::<Vec<_>>() {
            self.show_again(id);
        }
    }

    /// Drops the cached view of an agent.
    fn show_again(&mut self, id: AgentId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.json = None;
            self.changes.shown.insert(id);
        }
    }

    fn read_all(&mut self) {
        self.stale.clear();
        for agent in Mail::of(&self.store).boxes() {
            self.watch_queue(&agent);
        }
        // Include the known ones: only its own file decides whether an agent is gone.
        let mut ids = self.ids_on_record();
        ids.extend(self.entries.keys().cloned());
        for id in &ids {
            self.read(id, StaleParts { record: true, ..StaleParts::default() });
        }
    }

    fn ids_on_record(&self) -> HashSet<AgentId> {
        let files = std::fs::read_dir(self.store.agents().folder()).into_iter().flatten().flatten();
        let id =
            |file: std::fs::DirEntry| AgentId::new(file.file_name().to_str()?.strip_suffix(".json")?).ok();
        files.filter_map(id).collect()
    }

    fn read(&mut self, id: &AgentId, stale: StaleParts) {
        if stale.record || !self.entries.contains_key(id) {
            return self.read_whole(id);
        }
        let Some(entry) = self.entries.get_mut(id) else { return };
        entry.json = None;
        if stale.mail {
            entry.mail = Mail::of(&self.store).waiting(id);
        }
        let Some(session) = entry.agent.session.clone() else { return };
        if stale.session {
            // Keep what we have if it cannot be read: it will change again.
            entry.session = self.store.sessions().get(&session).unwrap_or_else(|_| entry.session.take());
        }
        if stale.gauge {
            entry.gauge = gauge_of(&self.store, &self.pending, &session);
        }
    }

    fn read_whole(&mut self, id: &AgentId) {
        // Keep what we have if it cannot be read: it will change again.
        let Ok(read) = RosterEntry::read(&self.store, &self.pending, id) else { return };
        let before = self.entries.get(id);
        let was_live = before.is_some_and(|e| e.was_live);
        if let Some(session) = before.and_then(|e| e.agent.session.clone()) {
            self.sessions.remove(&session);
        }
        let Some(mut entry) = read else {
            self.entries.remove(id);
            return;
        };
        for process in entry.processes() {
            if !self.alive.contains(process) && process::is_alive(process) {
                self.alive.insert(process.clone());
            }
        }
        let live = entry.processes().any(|p| self.alive.contains(p));
        (entry.live, entry.was_live) = (live, live || was_live);
        if let Some(session) = &entry.agent.session {
            self.sessions.insert(session.clone(), id.clone());
        }
        self.entries.insert(id.clone(), entry);
    }

    /// Shows this gauge instead of `before`. `true` if no other gauge of this session waits to be written.
    pub(crate) fn put_gauge(&mut self, session: &Session, before: &Gauge, gauge: &Gauge, news: News) -> bool {
        if let Some(entry) = self.entries.get_mut(&session.agent)
            && entry.agent.session.as_ref() == Some(&session.id)
        {
            gauge.clone_into(&mut entry.gauge);
            entry.json = None;
        }
        self.pending.put(&session.id, before, gauge, news)
    }

    /// Shows the gauge in the session's file again.
    pub(crate) fn discard_gauge(&mut self, session: &SessionId) {
        self.pending.discard(session);
        if let Some(agent) = self.sessions.get(session) {
            self.stale.entry(agent.clone()).or_default().gauge = true;
        }
    }

    /// Marks the agent of an ended process as stale.
    pub(crate) fn process_ended(&mut self, process: &Process) {
        if !self.alive.remove(process) {
            return;
        }
        for entry in self.entries.values().filter(|e| e.processes().any(|p| p == process)) {
            self.stale.entry(entry.agent.id.clone()).or_default().record = true;
        }
    }

    /// Checks each process thought to be alive, for those whose end nothing reports.
    pub(crate) fn check_alive(&mut self) {
        let gone: Vec<Process> = self.alive.iter().filter(|p| !process::is_alive(p)).cloned().collect();
        for process in &gone {
            self.process_ended(process);
        }
    }

    pub(crate) fn alive(&self) -> &HashSet<Process> {
        &self.alive
    }

    pub(crate) fn get(&self, id: &AgentId) -> Option<&RosterEntry> {
        self.entries.get(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The agent with this name, or with a session of this id.
    pub(crate) fn resolve(&self, text: &str) -> Result<Option<AgentId>, FileError> {
        if let Ok(id) = AgentId::new(text)
            && self.entries.contains_key(&id)
        {
            return Ok(Some(id));
        }
        let Ok(session) = SessionId::new(text) else { return Ok(None) };
        if let Some(agent) = self.sessions.get(&session) {
            return Ok(Some(agent.clone()));
        }
        // It may be an earlier session.
        let agent = self.store.sessions().get(&session)?.map(|session| session.agent);
        Ok(agent.filter(|agent| self.entries.contains_key(agent)))
    }

    /// An agent as the API shows it.
    pub(crate) fn as_json(&mut self, id: &AgentId, thresholds: ThresholdsOf<'_>) -> Option<Bytes> {
        if self.entries.get(id)?.json.is_none() {
            self.render(std::slice::from_ref(id), thresholds);
        }
        self.entries.get(id)?.json.clone()
    }

    /// All agents as the API shows them.
    pub(crate) fn all_as_json(&mut self, all: bool, thresholds: ThresholdsOf<'_>) -> Bytes {
        let now = Timestamp::now();
        let is_listed = |entry: &RosterEntry| all || !entry.is_history(now);
        let is_missing = |entry: &&RosterEntry| entry.json.is_none() && is_listed(entry);
        let missing: Vec<AgentId> =
            self.entries.values().filter(is_missing).map(|entry| entry.agent.id.clone()).collect();
        self.render(&missing, thresholds);
        let mut body = Vec::with_capacity(self.entries.len() * 1_400 + 32);
        body.extend_from_slice(b"{\"sessions\":[");
        for entry in self.entries.values().filter(|entry| is_listed(entry)) {
            if !body.ends_with(b"[") {
                body.push(b',');
            }
            body.extend_from_slice(entry.json.as_deref().unwrap_or(b"null"));
        }
        body.extend_from_slice(b"]}");
        body.into()
    }

    fn render(&mut self, ids: &[AgentId], thresholds: ThresholdsOf<'_>) {
        if ids.is_empty() {
            return;
        }
        let compactions = self.store.compactions().observations();
        for id in ids {
            let Some(view) = self.view_with(id, thresholds, &compactions) else { continue };
            let json = serde_json::to_vec(&view).unwrap_or_default().into();
            if let Some(entry) = self.entries.get_mut(id) {
                entry.json = Some(json);
            }
        }
    }

    /// An agent's view.
    pub(crate) fn view(&self, id: &AgentId, thresholds: ThresholdsOf<'_>) -> Option<AgentView> {
        self.view_with(id, thresholds, &self.store.compactions().observations())
    }

    /// All agents as every face shows them, with their records.
    pub(crate) fn views(&self, thresholds: ThresholdsOf<'_>) -> Vec<(AgentView, Agent)> {
        let compactions = self.store.compactions().observations();
        let view = |id: &AgentId| self.view_with(id, thresholds, &compactions);
        self.entries.iter().filter_map(|(id, entry)| Some((view(id)?, entry.agent.clone()))).collect()
    }

    fn view_with(
        &self,
        id: &AgentId,
        thresholds: ThresholdsOf<'_>,
        compactions: &Observations,
    ) -> Option<AgentView> {
        let entry = self.entries.get(id)?;
        let facts = AgentFacts {
            agent: &entry.agent,
            session: entry.session.as_ref(),
            gauge: &entry.gauge,
            mail: entry.mail,
            sent: self.inbox.get(id.as_str()),
            live: entry.live,
            waiting: self.waiting.get(id),
            thresholds: thresholds(Path::new(&entry.agent.cwd)),
            compactions,
        };
        Some(AgentView::of(&self.store, &facts))
    }
}
