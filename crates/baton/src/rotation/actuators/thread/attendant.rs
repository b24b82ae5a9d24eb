//! The event loop: sleeps until a record or a mailbox changes, a server sends something or a deadline passes, and
//! handles each thread that changed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use baton_core::agent::{Agent, RotationRequest, STALE};
use baton_core::gauge::Report;
use baton_core::handoff::Status;
use baton_core::ids::{AgentId, SessionId};
use baton_core::process::Process;
use baton_core::prompt::MAIL_WAITING;
use baton_core::reading::{Reading, ReadingSource};
use baton_core::rotation::{Actuator, Rotation};
use baton_core::session::due_at;
use baton_core::session::{Session, Turn};
use baton_core::wire::codex::app::{self, ServerMessage};
use jiff::{SignedDuration, Timestamp};

use crate::mail::maildir::Mail;
use crate::rotation::actuators::record_watch::RecordWatch;
use crate::rotation::actuators::thread::link::ServerLink;
use crate::rotation::actuators::thread::requests::ThreadRequests;
use crate::rotation::actuators::thread::rotation;
use crate::rotation::{journal, pending, request};
use crate::sessions::context::Context;
use crate::sessions::gauge;
use crate::store::Store;
use crate::store::log::LogLine;
use crate::store::presence::thread_server;
use crate::sys::poll::{self, PollFd, PollFlags};

/// A fresh thread's hook must have loaded the handoff within this time.
const LOAD: SignedDuration = SignedDuration::from_secs(60);
/// A prompt that wakes a thread causes its hook to run well before this.
const WAKING: SignedDuration = SignedDuration::from_secs(20);
/// Sealing a handoff takes at most a second.
const SEALING: SignedDuration = SignedDuration::from_secs(5);
/// Backoff for a server that cannot be reached: doubled after each failure.
const FIRST_BACKOFF: SignedDuration = SignedDuration::from_secs(1);
const MAX_BACKOFF: SignedDuration = SignedDuration::from_mins(10);

/// Unshared sessions to remember.
const MAX_UNSHARED: usize = 4096;

/// An agent whose session runs as a thread of a shared server.
#[derive(Default)]
struct ThreadAgent {
    session: Option<SessionId>,
    /// The thread whose events we receive.
    subscribed: Option<SessionId>,
    /// The rotation under way, and when its handoff must have been loaded.
    rotation: Option<(Rotation, Timestamp)>,
    /// When it was last woken for its mail.
    woken: Option<Timestamp>,
    /// When to look again although nothing happened.
    again: Option<Timestamp>,
    /// Its server could not be reached: the current backoff and its end.
    backoff: Option<(SignedDuration, Timestamp)>,
}

impl ThreadAgent {
    /// The next moment at which something is due although nothing happened.
    fn next_deadline(&self) -> Option<Timestamp> {
        [
            self.again,
            self.backoff.map(|(_, until)| until),
            self.rotation.as_ref().map(|(_, until)| *until),
            self.woken.map(|at| at + WAKING),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

pub(crate) struct ThreadAttendant {
    store: Store,
    records: RecordWatch,
    links: BTreeMap<PathBuf, ServerLink>,
    agents: BTreeMap<AgentId, ThreadAgent>,
    /// Sessions that no shared server runs. Their records change at every turn; remembering them saves reading those.
    unshared: HashSet<SessionId>,
    requests: ThreadRequests,
    me: Process,
}

impl ThreadAttendant {
    pub(crate) fn new(store: &Store) -> anyhow::Result<Self> {
        let me = crate::sys::process::identify(std::process::id());
        let me = me.context("could not find this process in /proc")?;
        Ok(Self {
            requests: ThreadRequests::new(store, &me)?,
            store: store.clone(),
            // The daemon has made the folders of the records. If they are gone, so is the daemon's state.
            records: RecordWatch::new(store)?,
            links: BTreeMap::new(),
            agents: BTreeMap::new(),
            unshared: HashSet::new(),
            me,
        })
    }

    pub(crate) fn run(&mut self, stop: &UnixStream) -> anyhow::Result<()> {
        journal::close_left(&self.store, Actuator::Thread, None)?;
        let mut dirty = without_pane(&self.store);
        loop {
            for id in std::mem::take(&mut dirty) {
                if let Err(e) = self.attend_to(&id) {
                    self.fault(&id, "attend to its thread", &e);
                }
            }
            // Messages that came with an answer are already in memory, so poll would not wake us for them.
            self.receive();
            self.requests.give_answers(&mut self.links);
            if !self.wait(stop, &mut dirty)? {
                return Ok(());
            }
            self.receive();
        }
    }

    /// Handles a change of this agent's records or mail.
    fn attend_to(&mut self, id: &AgentId) -> anyhow::Result<()> {
        let Some(agent) = self.store.agents().get(id)? else { return Ok(()) };
        let session = match &agent.session {
            Some(id) => self.store.sessions().get(id)?,
            None => None,
        };
        let known = self.agents.contains_key(id);
        // The pane attendant serves agents with a pane.
        let here = session
            .filter(|s| s.ended.is_none() && agent.pane.is_none())
            .and_then(|s| Some((thread_server(&s)?, s)));
        let Some((server, session)) = here else {
            // The record of a fresh thread may be incomplete while its rotation is still open.
            if self.agents.get(id).is_some_and(|thread| thread.rotation.is_some()) {
                return self.settle_rotation(&agent, Timestamp::now());
            }
            if let Some(session) = self.agents.remove(id).and_then(|thread| thread.session) {
                self.requests.turn_ended(&session);
            }
            return Ok(());
        };
        if !known && let Err(e) = self.records.add_mailbox(&self.store, id) {
            self.fault(id, "watch its mailbox", &e);
        }
        let now = Timestamp::now();
        let thread = self.agents.entry(id.clone()).or_default();
        thread.session = Some(session.id.clone());
        // A server without its socket runs nothing.
        if thread.backoff.is_some_and(|(_, until)| until > now) || !server.exists() {
            return Ok(());
        }
        thread.again = None;
        let before = thread.backoff.take();
        let done = self.follow(&agent, &session, &server, now);
        if done.is_err() {
            self.links.remove(&server);
            self.requests.lost(&server);
            for thread in self.agents.values_mut() {
                thread.subscribed = None;
            }
            if let Some(thread) = self.agents.get_mut(id) {
                let pause = before.map_or(FIRST_BACKOFF, |(pause, _)| (pause * 2).min(MAX_BACKOFF));
                thread.backoff = Some((pause, now + pause));
            }
        }
        // Report a failing server once, not at each try.
        if before.is_some() { Ok(()) } else { done }
    }

    fn follow(
        &mut self,
        agent: &Agent,
        session: &Session,
        server: &PathBuf,
        now: Timestamp,
    ) -> anyhow::Result<()> {
        self.settle_rotation(agent, now)?;
        self.subscribe(agent, session, server)?;
        let Some(thread) = self.agents.get_mut(&agent.id) else { return Ok(()) };
        if session.turn == Turn::Idle {
            self.requests.turn_ended(&session.id);
        } else {
            thread.woken = None;
        }
        // The hook that seals may have been killed: do not wait for it forever.
        let sealing = session.sealing.map(|at| at + SEALING).filter(|at| *at > now);
        thread.again = sealing;
        if session.turn != Turn::Idle || sealing.is_some() || thread.rotation.is_some() {
            return Ok(());
        }
        if let Some(due) = due_at(session, false) {
            if due > now {
                thread.again = Some(due);
            } else if let Some(ctx) = Context::of(session) {
                // The changed records bring us back here.
                pending::carry_out(&ctx, session, false, "the agent");
            }
            return Ok(());
        }
        if agent.rotation.as_ref().is_some_and(|r| r.is_stale(session)) {
            self.log(&agent.id, "rotation-waits", STALE);
            return Ok(journal::give_up(&self.store, agent, None, STALE)?);
        }
        // `wait_for_idle`: a person may be typing, and clients of this kind do not report when nobody is.
        if let Some(request) = agent.rotation.as_ref().filter(|r| !r.wait_for_idle && r.session == session.id)
        {
            return self.rotate(agent, session, server, request, now);
        }
        if agent.rotation.is_none() && thread.woken.is_none() && Mail::of(&self.store).waiting(&agent.id) > 0
        {
            (thread.woken, thread.subscribed) = (Some(now), Some(session.id.clone()));
            let link = self.link(server)?;
            link.ask(&app::resume(session.id.as_str()))?;
            link.ask(&app::turn(session.id.as_str(), MAIL_WAITING, None))?;
            self.log(&agent.id, "woken", "for its mail");
        }
        Ok(())
    }

    /// Subscribes to a thread only while it works or asks something, because the server never unloads a thread that has
    /// subscribers.
    fn subscribe(&mut self, agent: &Agent, session: &Session, server: &PathBuf) -> anyhow::Result<()> {
        let Some(thread) = self.agents.get_mut(&agent.id) else { return Ok(()) };
        if thread.rotation.is_some() {
            return Ok(());
        }
        let is_busy = matches!(session.turn, Turn::Working | Turn::Blocked) || thread.woken.is_some();
        let wanted = Some(&session.id).filter(|_| is_busy);
        if thread.subscribed.as_ref() == wanted {
            return Ok(());
        }
        let (before, wanted) = (thread.subscribed.take(), wanted.cloned());
        thread.subscribed.clone_from(&wanted);
        let link = self.link(server)?;
        if let Some(before) = before {
            link.ask(&app::unsubscribe(before.as_str()))?;
        }
        if let Some(wanted) = wanted {
            link.ask(&app::resume(wanted.as_str()))?;
            self.log(&agent.id, "listening", wanted.as_str());
        }
        Ok(())
    }

    fn rotate(
        &mut self,
        agent: &Agent,
        session: &Session,
        server: &PathBuf,
        wanted: &RotationRequest,
        now: Timestamp,
    ) -> anyhow::Result<()> {
        let Some(ctx) = Context::of(session) else { return Ok(()) };
        // Somebody may have loaded the handoff by hand, in a session that nothing links to this agent.
        let handoff = self.store.handoffs(&ctx.config).find(&session.channel, &wanted.handoff)?;
        if handoff.is_none_or(|h| h.entry.status != Status::Active || h.entry.claim.is_some()) {
            let why = "its handoff has been taken up elsewhere";
            self.log(&agent.id, "rotation-refused", why);
            return Ok(journal::give_up(&self.store, agent, None, why)?);
        }
        let max = ctx.config.run.max_restarts;
        if let Err(refused) = request::permit(&self.store, agent, Some(session), max) {
            let why = refused.to_string();
            self.log(&agent.id, "rotation-refused", &why);
            return Ok(journal::give_up(&self.store, agent, None, &why)?);
        }
        let (store, me) = (self.store.clone(), self.me.clone());
        let link = self.link(server)?;
        match rotation::carry_out(&store, &ctx.config, link, agent, session, wanted, &me) {
            Ok(open) => {
                if let Some(thread) = self.agents.get_mut(&agent.id) {
                    // Starting a thread subscribes to it.
                    thread.subscribed.clone_from(&open.thread);
                    thread.rotation = Some((open, now + LOAD));
                }
                Ok(())
            }
            Err(e) => {
                let why = format!("{e:#}");
                self.log(&agent.id, "rotation-failed", &why);
                journal::give_up(&store, agent, None, &why)?;
                Err(e)
            }
        }
    }

    /// Closes the rotation when the fresh thread's hook has loaded the handoff and removed the request.
    fn settle_rotation(&mut self, agent: &Agent, now: Timestamp) -> anyhow::Result<()> {
        let Some(thread) = self.agents.get_mut(&agent.id) else { return Ok(()) };
        let Some((open, until)) = thread.rotation.take() else { return Ok(()) };
        if agent.rotation.as_ref().is_none_or(|r| r.handoff != open.handoff) {
            journal::loaded(&self.store, open)?;
            self.log(&agent.id, "rotated", Actuator::Thread.as_str());
        } else if until <= now {
            let why = "the new thread runs, but its hooks did not load the handoff";
            self.log(&agent.id, "rotation-failed", why);
            journal::give_up(&self.store, agent, Some(open).filter(|open| open.step.is_open()), why)?;
        } else {
            thread.rotation = Some((open, until));
        }
        Ok(())
    }

    fn link(&mut self, server: &PathBuf) -> anyhow::Result<&mut ServerLink> {
        if !self.links.contains_key(server) {
            let link = ServerLink::open(server)?;
            self.links.insert(server.clone(), link);
        }
        self.links.get_mut(server).context("the connection is gone")
    }

    /// Reads what the servers have sent.
    fn receive(&mut self) {
        let mut usages = Vec::new();
        let (requests, store) = (&mut self.requests, &self.store);
        self.links.retain(|server, link| {
            loop {
                match link.hear() {
                    Ok(Some(ServerMessage::Usage { thread, tokens, window, at })) => {
                        usages.push((thread, tokens, window, at));
                    }
                    Ok(Some(ServerMessage::Asked(asked))) => {
                        if let Err(e) = requests.add(server, *asked) {
                            store.log().fault(Timestamp::now(), "list what a thread asks", &format!("{e:#}"));
                        }
                    }
                    Ok(Some(ServerMessage::Resolved { thread, id })) => requests.resolved(&thread, &id),
                    Ok(Some(ServerMessage::Changes { thread, item, patch })) => {
                        requests.note_patch(thread, item, patch);
                    }
                    Ok(Some(ServerMessage::ItemDone { thread, item, ran })) => {
                        requests.item_done(&thread, &item, ran);
                    }
                    Ok(Some(
                        ServerMessage::Answer { .. } | ServerMessage::TurnDone { .. } | ServerMessage::Other,
                    )) => {}
                    Ok(None) => break true,
                    Err(_) => {
                        requests.lost(server);
                        break false;
                    }
                }
            }
        });
        if self.links.is_empty() {
            for thread in self.agents.values_mut() {
                thread.subscribed = None;
            }
        }
        for (thread, tokens, window, at) in usages {
            self.reading(&thread, tokens, window, at);
        }
    }

    /// Joins a reading of the server with those of the hooks.
    fn reading(&self, thread: &str, tokens: u64, window: u64, at: Option<Timestamp>) {
        let session = SessionId::new(thread).ok().and_then(|id| self.store.sessions().readable(&id));
        let Some(session) = session else { return };
        let Some(ctx) = Context::of(&session) else { return };
        let (base, at) = (ctx.provider.hooks.base, at.unwrap_or(ctx.now));
        let reading = Reading { tokens, output: 0, window, base, at, source: ReadingSource::AppServer };
        gauge::take(&ctx, &session, &Report::of(reading));
    }

    /// Sleeps until there is something to do and adds the agents it concerns to `dirty`. Returns `false` if told to
    /// stop.
    fn wait(&mut self, stop: &UnixStream, dirty: &mut BTreeSet<AgentId>) -> anyhow::Result<bool> {
        let now = Timestamp::now();
        let next = self.agents.values().filter_map(ThreadAgent::next_deadline);
        let next = next.chain(self.requests.next_deadline()).min();
        let left = next.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
        let timeout = self.requests.timeout(self.records.timeout(left));
        {
            let mut fds: Vec<PollFd<'_>> = [stop.as_fd()]
                .into_iter()
                .chain(self.records.fd())
                .chain(self.requests.fd())
                .chain(self.links.values().map(ServerLink::fd))
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            poll::wait(&mut fds, timeout)?;
            if !fds[0].revents().is_empty() {
                return Ok(false);
            }
        }
        self.gather(dirty);
        let now = Timestamp::now();
        for (id, thread) in &mut self.agents {
            if thread.next_deadline().is_some_and(|at| at <= now) {
                // A thread that was woken and did not react may be woken again.
                thread.woken = thread.woken.filter(|at| *at + WAKING > now);
                dirty.insert(id.clone());
            }
        }
        Ok(true)
    }

    /// Adds the agents whose records have changed.
    fn gather(&mut self, dirty: &mut BTreeSet<AgentId>) {
        let Self { store, records, agents, unshared, .. } = self;
        if records.gather(dirty, |session| owner_of(store, agents, unshared, session)) {
            unshared.clear();
            dirty.extend(without_pane(store));
            dirty.extend(agents.keys().cloned());
        }
    }

    fn fault(&self, id: &AgentId, doing: &str, error: &anyhow::Error) {
        let detail = serde_json::json!({ "doing": doing, "error": format!("{error:#}") });
        let line = LogLine { agent: Some(id.clone()), detail, ..LogLine::new(Timestamp::now(), "fault") };
        self.store.log().append(&line);
    }

    fn log(&self, id: &AgentId, event: &str, note: &str) {
        let detail = serde_json::json!({ "note": note, "by": Actuator::Thread.as_str() });
        let line = LogLine { agent: Some(id.clone()), detail, ..LogLine::new(Timestamp::now(), event) };
        self.store.log().append(&line);
    }
}

/// All agents on record that may have a thread.
fn without_pane(store: &Store) -> BTreeSet<AgentId> {
    let may_be_ours = |a: &Agent| a.ended.is_none() && a.session.is_some() && a.pane.is_none();
    store.agents().all().into_iter().filter(may_be_ours).map(|agent| agent.id).collect()
}

/// The agent of a session whose record has changed, if a shared server may run it. A new session's record is written
/// after its agent's, so it may be the first sign of a thread.
fn owner_of(
    store: &Store,
    agents: &BTreeMap<AgentId, ThreadAgent>,
    unshared: &mut HashSet<SessionId>,
    session: SessionId,
) -> Option<AgentId> {
    let known = agents.iter().find(|(_, thread)| thread.session.as_ref() == Some(&session));
    if let Some((id, _)) = known {
        return Some(id.clone());
    }
    if unshared.contains(&session) {
        return None;
    }
    // A record that cannot be read now will change again.
    let record = store.sessions().readable(&session)?;
    if record.shared {
        return Some(record.agent);
    }
    if unshared.len() >= MAX_UNSHARED {
        unshared.clear();
    }
    unshared.insert(session);
    None
}
