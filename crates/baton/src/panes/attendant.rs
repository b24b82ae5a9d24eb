//! The loop: sleeps until a file changes, a datagram comes, a client ends, a time has come, or it is told to stop.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

use baton_core::ids::{AgentId, SessionId};
use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::one::{Attended, Outcome};
use crate::poke;
use crate::store::Store;
use crate::store::log::{self, Line};
use crate::sys::fs;
use crate::sys::watch::{TOGETHER, Watch};

pub struct Attendant {
    store: Store,
    watch: Watch,
    /// The last change was of nothing that is ours.
    is_noisy: bool,
    agents_dir: i32,
    sessions_dir: i32,
    socket: Option<UnixDatagram>,
    attended: BTreeMap<AgentId, Attended>,
    /// Whose mail a watched folder holds.
    mailboxes: BTreeMap<i32, AgentId>,
}

impl Attendant {
    pub fn new(store: &Store) -> anyhow::Result<Self> {
        let (agents, sessions) = (store.state.join("agents"), store.state.join("sessions"));
        let path = poke::panes_path(&store.state);
        for dir in [&agents, &sessions, &store.state.join("run")] {
            fs::private_dir(dir)?;
        }
        fs::remove(&path)?;
        // A path too long for a socket leaves the watched files, which are enough.
        let socket = UnixDatagram::bind(&path).ok().filter(|s| s.set_nonblocking(true).is_ok());
        let watch = Watch::folders(&[])?;
        Ok(Self {
            agents_dir: watch.add(&agents)?,
            sessions_dir: watch.add(&sessions)?,
            store: store.clone(),
            watch,
            is_noisy: false,
            socket,
            attended: BTreeMap::new(),
            mailboxes: BTreeMap::new(),
        })
    }

    pub fn run(&mut self, stop: &UnixStream) -> anyhow::Result<()> {
        let mut dirty: BTreeSet<AgentId> =
            self.store.agents().all().into_iter().filter(|a| a.pane.is_some()).map(|a| a.id).collect();
        let mut takes_over = true;
        loop {
            for id in std::mem::take(&mut dirty) {
                self.attend_to(&id, takes_over);
            }
            takes_over = false;
            if !self.wait(stop, &mut dirty)? {
                break;
            }
        }
        for (_, mut one) in std::mem::take(&mut self.attended) {
            one.leave(&self.store);
        }
        fs::remove(&poke::panes_path(&self.store.state))?;
        Ok(())
    }

    /// Something about this agent may have changed.
    fn attend_to(&mut self, id: &AgentId, takes_over: bool) {
        if !self.attended.contains_key(id) && !self.meet(id, takes_over) {
            return;
        }
        let Some(one) = self.attended.get_mut(id) else { return };
        let outcome = one.attend(&self.store);
        match outcome {
            Ok(Outcome::GoesOn) => {}
            Ok(Outcome::Gone) => drop(self.attended.remove(id)),
            // Files that cannot be read now will change again.
            Err(e) => {
                let line = Line {
                    agent: Some(id.clone()),
                    detail: serde_json::json!({ "doing": "attend to its pane", "error": format!("{e:#}") }),
                    ..Line::new(Timestamp::now(), "fault")
                };
                log::append(&self.store.state, &line);
            }
        }
    }

    /// Begins to attend to an agent that has a living pane.
    fn meet(&mut self, id: &AgentId, takes_over: bool) -> bool {
        let Some(agent) = self.store.agents().get(id).ok().flatten() else { return false };
        let Some(one) = Attended::new(&self.store, agent, takes_over) else { return false };
        let mailbox = self.store.state.join("mail").join(id.as_str()).join("new");
        if fs::private_dir(&mailbox).is_ok()
            && let Ok(number) = self.watch.add(&mailbox)
        {
            self.mailboxes.insert(number, id.clone());
        }
        self.attended.insert(id.clone(), one);
        true
    }

    /// Sleeps; `false` when it is told to stop.
    fn wait(&mut self, stop: &UnixStream, dirty: &mut BTreeSet<AgentId>) -> anyhow::Result<bool> {
        let now = Timestamp::now();
        let next = self.attended.values().filter_map(Attended::look_at).min();
        let left = next.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
        let left = if self.is_noisy { Some(left.map_or(TOGETHER, |left| left.min(TOGETHER))) } else { left };
        let timeout = left.map(|left| Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: left.subsec_nanos().into(),
        });
        let ids: Vec<&AgentId> =
            self.attended.iter().filter(|(_, one)| one.end().is_some()).map(|(id, _)| id).collect();
        let ended: Vec<bool> = {
            let mut fds = vec![PollFd::new(stop, PollFlags::IN)];
            let watched = self.watch.fd().filter(|_| !self.is_noisy);
            fds.extend(watched.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            fds.extend(self.socket.as_ref().map(|s| PollFd::from_borrowed_fd(s.as_fd(), PollFlags::IN)));
            let fixed = fds.len();
            fds.extend(
                self.attended
                    .values()
                    .filter_map(Attended::end)
                    .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
            );
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(std::io::Error::from(e).into()),
            }
            if !fds[0].revents().is_empty() {
                return Ok(false);
            }
            fds[fixed..].iter().map(|fd| !fd.revents().is_empty()).collect()
        };
        let ended = ids.into_iter().zip(ended).filter(|(_, ended)| *ended).map(|(id, _)| id.clone());
        let ended: Vec<AgentId> = ended.collect();
        self.is_noisy = self.gather(dirty);
        dirty.extend(ended);
        let now = Timestamp::now();
        let due = self.attended.iter().filter(|(_, one)| one.look_at().is_some_and(|at| at <= now));
        dirty.extend(due.map(|(id, _)| id.clone()));
        Ok(true)
    }

    /// Who is meant by what has changed. `true` if something has, and nobody is.
    fn gather(&self, dirty: &mut BTreeSet<AgentId>) -> bool {
        let taken = self.watch.take();
        let is_told = !taken.is_empty();
        for (number, name) in taken {
            let stem = name.strip_suffix(".json");
            if number == self.agents_dir {
                dirty.extend(stem.and_then(|id| AgentId::new(id).ok()));
            } else if number == self.sessions_dir {
                let session = stem.and_then(|id| SessionId::new(id).ok());
                let of = self
                    .attended
                    .iter()
                    .filter(|(_, one)| session.is_some() && one.session() == session.as_ref());
                dirty.extend(of.map(|(id, _)| id.clone()));
            } else {
                dirty.extend(self.mailboxes.get(&number).cloned());
            }
        }
        let mut name = [0; 160];
        while let Some(Ok(n)) = self.socket.as_ref().map(|s| s.recv(&mut name)) {
            dirty.extend(std::str::from_utf8(&name[..n]).ok().and_then(|id| AgentId::new(id).ok()));
        }
        is_told && dirty.is_empty()
    }
}
