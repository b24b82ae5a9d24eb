//! The event loop: sleeps until a record changes, a datagram comes, a client ends, a deadline passes, or it is told to
//! stop.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

use baton_core::ids::{AgentId, SessionId};
use jiff::Timestamp;

use crate::approvals;
use crate::mail::announce;
use crate::rotation::actuators::record_watch::RecordWatch;
use crate::rotation::actuators::tmux::pane_agent::{PaneAgent, PaneStatus};
use crate::rotation::actuators::tmux::server::Server;
use crate::store::Store;
use crate::store::log::LogLine;
use crate::sys::fs;
use crate::sys::poll::{self, PollFd, PollFlags};

/// How often to check whether somebody looks at a pane whose dialog a waiting hook hides. tmux does not report who
/// attaches.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct PaneAttendant {
    store: Store,
    /// A waiting hook hides a dialog, so check whether somebody is there to answer it.
    hides_dialog: bool,
    records: RecordWatch,
    /// Processes that change an agent's records send its name here.
    socket: Option<UnixDatagram>,
    agents: BTreeMap<AgentId, PaneAgent>,
}

impl PaneAttendant {
    pub(crate) fn new(store: &Store) -> anyhow::Result<Self> {
        let path = announce::panes_socket(&store.state);
        for name in ["agents", "sessions", "run"] {
            fs::private_dir(&store.state.join(name))?;
        }
        fs::remove(&path)?;
        // If the path is too long for a socket, watching the files is enough.
        let socket = UnixDatagram::bind(&path).ok().filter(|s| s.set_nonblocking(true).is_ok());
        let records = RecordWatch::new(store)?;
        Ok(Self { store: store.clone(), hides_dialog: false, records, socket, agents: BTreeMap::new() })
    }

    pub(crate) fn run(&mut self, stop: &UnixStream) -> anyhow::Result<()> {
        let mut dirty = with_pane(&self.store);
        let mut takes_over = true;
        loop {
            for id in std::mem::take(&mut dirty) {
                self.attend_to(&id, takes_over);
            }
            takes_over = false;
            self.hand_back();
            if !self.wait(stop, &mut dirty)? {
                break;
            }
        }
        for (_, mut agent) in std::mem::take(&mut self.agents) {
            agent.leave(&self.store);
        }
        fs::remove(&announce::panes_socket(&self.store.state))?;
        Ok(())
    }

    /// Handles a change of this agent's records or mail.
    fn attend_to(&mut self, id: &AgentId, takes_over: bool) {
        if !self.agents.contains_key(id) && !self.meet(id, takes_over) {
            return;
        }
        let Some(agent) = self.agents.get_mut(id) else { return };
        match agent.attend(&self.store) {
            Ok(PaneStatus::Open) => {}
            Ok(PaneStatus::Gone) => drop(self.agents.remove(id)),
            // Records that cannot be read now will change again.
            Err(e) => self.fault(id, "attend to its pane", &e),
        }
    }

    /// Hands requests back to the dialogs that their hooks hide, if somebody looks at the pane.
    fn hand_back(&mut self) {
        let now = Timestamp::now();
        let hidden = match approvals::hidden(&self.store, now) {
            Ok(hidden) => hidden,
            Err(e) => return self.store.log().fault(now, "list what waits for an answer", &e),
        };
        self.hides_dialog = false;
        for id in hidden {
            let pane = match self.store.agents().get(&id) {
                Ok(agent) => agent.and_then(|agent| agent.pane),
                Err(e) => {
                    self.fault(&id, "read its record", &e.into());
                    // Its pane may be looked at; look again.
                    self.hides_dialog = true;
                    continue;
                }
            };
            let Some(pane) = pane else { continue };
            if Server::of(&pane).is_looked_at(&pane.id) {
                if let Err(e) = approvals::hand_back(&self.store, &id, now) {
                    self.fault(&id, "hand a request back to its dialog", &e.into());
                }
            } else {
                self.hides_dialog = true;
            }
        }
    }

    /// Begins to attend to an agent that has a living pane.
    fn meet(&mut self, id: &AgentId, takes_over: bool) -> bool {
        let record = match self.store.agents().get(id) {
            Ok(Some(record)) => record,
            Ok(None) => return false,
            Err(e) => {
                self.fault(id, "read its record", &e.into());
                return false;
            }
        };
        let Some(agent) = PaneAgent::new(&self.store, record, takes_over) else { return false };
        if let Err(e) = self.records.add_mailbox(&self.store, id) {
            self.fault(id, "watch its mailbox", &e);
        }
        self.agents.insert(id.clone(), agent);
        true
    }

    /// Sleeps until there is something to do and adds the agents it concerns to `dirty`. Returns `false` if told to
    /// stop.
    fn wait(&mut self, stop: &UnixStream, dirty: &mut BTreeSet<AgentId>) -> anyhow::Result<bool> {
        let now = Timestamp::now();
        let next = self.agents.values().filter_map(PaneAgent::look_at).min();
        let left = next.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
        let left =
            if self.hides_dialog { Some(left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY))) } else { left };
        let timeout = self.records.timeout(left);
        {
            let clients = || self.agents.iter().filter_map(|(id, agent)| Some((id, agent.end()?)));
            let mut fds: Vec<PollFd<'_>> = [stop.as_fd()]
                .into_iter()
                .chain(clients().map(|(_, fd)| fd))
                .chain(self.records.fd())
                .chain(self.socket.as_ref().map(|s| s.as_fd()))
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            poll::wait(&mut fds, timeout)?;
            if !fds[0].revents().is_empty() {
                return Ok(false);
            }
            let ended = clients().zip(&fds[1..]).filter(|(_, fd)| !fd.revents().is_empty());
            dirty.extend(ended.map(|((id, _), _)| id.clone()));
        }
        self.gather(dirty);
        let now = Timestamp::now();
        let due = self.agents.iter().filter(|(_, agent)| agent.look_at().is_some_and(|at| at <= now));
        dirty.extend(due.map(|(id, _)| id.clone()));
        Ok(true)
    }

    /// Adds the agents whose records have changed or who were named in a datagram.
    fn gather(&mut self, dirty: &mut BTreeSet<AgentId>) {
        let Self { store, records, socket, agents, .. } = self;
        let owner = |session: SessionId| {
            let owner = agents.iter().find(|(_, agent)| agent.session() == Some(&session));
            owner.map(|(id, _)| id.clone())
        };
        if records.gather(dirty, owner) {
            dirty.extend(with_pane(store));
            dirty.extend(agents.keys().cloned());
        }
        let mut name = [0; 160];
        while let Some(Ok(n)) = socket.as_ref().map(|s| s.recv(&mut name)) {
            dirty.extend(std::str::from_utf8(&name[..n]).ok().and_then(|id| AgentId::new(id).ok()));
        }
    }

    fn fault(&self, id: &AgentId, doing: &str, error: &anyhow::Error) {
        let line = LogLine {
            agent: Some(id.clone()),
            detail: serde_json::json!({ "doing": doing, "error": format!("{error:#}") }),
            ..LogLine::new(Timestamp::now(), "fault")
        };
        self.store.log().append(&line);
    }
}

/// All agents on record that have a pane.
fn with_pane(store: &Store) -> BTreeSet<AgentId> {
    store.agents().all().into_iter().filter(|agent| agent.pane.is_some()).map(|agent| agent.id).collect()
}
