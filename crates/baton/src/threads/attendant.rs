//! The loop: sleeps until a record, a mailbox or a server says something, and does what follows for each thread.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use baton_core::agent::{Agent, RotationRequest};
use baton_core::handoff::Status;
use baton_core::ids::{AgentId, SessionId};
use baton_core::process::Process;
use baton_core::reading::{Reading, Source, newest};
use baton_core::rotation::{Rotation, permitted};
use baton_core::session::{Session, Turn};
use baton_core::wire::codex::app::{self, Heard};
use jiff::{SignedDuration, Timestamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::link::Link;
use super::{rotation, server_of};
use crate::hot::measure;
use crate::hot::scene::Scene;
use crate::store::Store;
use crate::store::log::{self, Line};
use crate::sys::fs;
use crate::sys::watch::{TOGETHER, Watch};
use crate::{providers, wake};

/// So long may a fresh thread take until its hook has loaded the handoff.
const LOAD: SignedDuration = SignedDuration::from_secs(60);
/// A prompt that woke a thread is followed by its hook well before this.
const WAKING: SignedDuration = SignedDuration::from_secs(20);
/// Sealing a handoff takes at most a second.
const SEALING: SignedDuration = SignedDuration::from_secs(5);
/// A server that could not be reached is tried again after so long, and twice as long each further time up to the most.
const AGAIN: SignedDuration = SignedDuration::from_secs(1);
const MOST: SignedDuration = SignedDuration::from_mins(10);

/// So many conversations of others are remembered.
const MOST_OTHERS: usize = 4096;

/// What is going on with an agent.
#[derive(Default)]
struct Attended {
    session: Option<SessionId>,
    /// The thread whose words we get.
    subscribed: Option<SessionId>,
    rotation: Option<(Rotation, Timestamp)>,
    woken: Option<Timestamp>,
    again: Option<Timestamp>,
    /// Its server was not to be reached: how long it is left alone, and until when.
    failed: Option<(SignedDuration, Timestamp)>,
}

pub struct Attendant {
    store: Store,
    watch: Watch,
    /// The last change was of nothing that is ours.
    is_noisy: bool,
    agents_dir: i32,
    sessions_dir: i32,
    links: BTreeMap<PathBuf, Link>,
    attended: BTreeMap<AgentId, Attended>,
    mailboxes: HashMap<i32, AgentId>,
    /// Conversations that no shared daemon runs; their records change at every turn and are not read for that.
    others: HashSet<SessionId>,
    me: Process,
}

impl Attendant {
    pub fn new(store: &Store) -> anyhow::Result<Self> {
        // The daemon has made them; if they are gone, so is its place.
        let (agents, sessions) = (store.state.join("agents"), store.state.join("sessions"));
        let watch = Watch::folders(&[])?;
        let me = crate::sys::process::identify(std::process::id());
        Ok(Self {
            agents_dir: watch.add(&agents)?,
            sessions_dir: watch.add(&sessions)?,
            store: store.clone(),
            watch,
            is_noisy: false,
            links: BTreeMap::new(),
            attended: BTreeMap::new(),
            mailboxes: HashMap::new(),
            others: HashSet::new(),
            me: me.context("this process is not to be found")?,
        })
    }

    pub fn run(&mut self, stop: &UnixStream) -> anyhow::Result<()> {
        rotation::close_left(&self.store)?;
        let may_be_ours = |a: &Agent| a.ended.is_none() && a.session.is_some() && a.pane.is_none();
        let mut dirty: BTreeSet<AgentId> =
            self.store.agents().all().into_iter().filter(may_be_ours).map(|a| a.id).collect();
        loop {
            for id in std::mem::take(&mut dirty) {
                if let Err(e) = self.attend_to(&id) {
                    self.fault(&id, &e);
                }
            }
            if !self.wait(stop, &mut dirty)? {
                return Ok(());
            }
            self.hear();
        }
    }

    /// Something about this agent may have changed.
    fn attend_to(&mut self, id: &AgentId) -> anyhow::Result<()> {
        let Some(agent) = self.store.agents().get(id)? else { return Ok(()) };
        let session = agent.session.as_ref().and_then(|id| self.store.sessions().get(id).ok().flatten());
        let known = self.attended.contains_key(id);
        // Who has a pane is typed to.
        let here = session
            .filter(|s| s.ended.is_none() && agent.pane.is_none())
            .and_then(|s| Some((server_of(&s)?, s)));
        let Some((server, session)) = here else {
            // The record of a fresh thread may not be whole yet, and its rotation is still to be settled.
            if self.attended.get(id).is_some_and(|one| one.rotation.is_some()) {
                return self.settle_rotation(&agent, Timestamp::now());
            }
            self.attended.remove(id);
            return Ok(());
        };
        if !known {
            self.meet(id);
        }
        let now = Timestamp::now();
        let one = self.attended.entry(id.clone()).or_default();
        one.session = Some(session.id.clone());
        // A server that is not there has nothing running.
        if one.failed.is_some_and(|(_, until)| until > now) || !server.exists() {
            return Ok(());
        }
        one.again = None;
        let before = one.failed.take();
        let done = self.follow(&agent, &session, &server, now);
        if done.is_err() {
            self.links.remove(&server);
            for one in self.attended.values_mut() {
                one.subscribed = None;
            }
            if let Some(one) = self.attended.get_mut(id) {
                let pause = before.map_or(AGAIN, |(pause, _)| (pause * 2).min(MOST));
                one.failed = Some((pause, now + pause));
            }
        }
        // Said once, until it has worked again.
        if before.is_some() { Ok(()) } else { done }
    }

    fn meet(&mut self, id: &AgentId) {
        let mailbox = self.store.state.join("mail").join(id.as_str()).join("new");
        if fs::private_dir(&mailbox).is_ok()
            && let Ok(number) = self.watch.add(&mailbox)
        {
            self.mailboxes.insert(number, id.clone());
        }
    }

    fn follow(
        &mut self,
        agent: &Agent,
        session: &Session,
        server: &PathBuf,
        now: Timestamp,
    ) -> anyhow::Result<()> {
        self.settle_rotation(agent, now)?;
        self.listen(agent, session, server)?;
        let Some(one) = self.attended.get_mut(&agent.id) else { return Ok(()) };
        if session.turn != Turn::Idle {
            one.woken = None;
        }
        // A hook that was killed meanwhile is not waited for.
        let sealing = session.sealing.map(|at| at + SEALING).filter(|at| *at > now);
        one.again = sealing;
        if session.turn != Turn::Idle || sealing.is_some() || one.rotation.is_some() {
            return Ok(());
        }
        // A person may be typing, and no client of this kind tells when nobody does.
        if let Some(request) = agent.rotation.as_ref().filter(|r| !r.wait_for_idle && r.session == session.id)
        {
            return self.rotate(agent, session, server, request, now);
        }
        let waits = agent.rotation.is_none() && session.request.is_none();
        if waits && one.woken.is_none() && self.store.mail().waiting(&agent.id) > 0 {
            (one.woken, one.subscribed) = (Some(now), Some(session.id.clone()));
            let link = self.link(server)?;
            link.ask(&app::resume(session.id.as_str()))?;
            link.ask(&app::turn(session.id.as_str(), wake::PROMPT, None))?;
            self.log(&agent.id, "woken", "for its mail");
        }
        Ok(())
    }

    /// While a thread works its words are heard, no longer: one that somebody listens to never ends.
    fn listen(&mut self, agent: &Agent, session: &Session, server: &PathBuf) -> anyhow::Result<()> {
        let Some(one) = self.attended.get_mut(&agent.id) else { return Ok(()) };
        if one.rotation.is_some() {
            return Ok(());
        }
        let wanted = Some(&session.id).filter(|_| session.turn == Turn::Working || one.woken.is_some());
        if one.subscribed.as_ref() == wanted {
            return Ok(());
        }
        let (before, wanted) = (one.subscribed.take(), wanted.cloned());
        one.subscribed.clone_from(&wanted);
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
        request: &RotationRequest,
        now: Timestamp,
    ) -> anyhow::Result<()> {
        let Some(scene) = Scene::at(&session.cwd) else { return Ok(()) };
        // Somebody may have taken it up by hand, in a conversation that nothing tells to be this agent's.
        let handoff = self.store.handoffs(&scene.config).find(&session.channel, &request.handoff)?;
        if handoff.is_none_or(|h| h.entry.status != Status::Active || h.entry.claim.is_some()) {
            let why = "its handoff has been taken up elsewhere";
            self.log(&agent.id, "rotation-refused", why);
            return rotation::give_up(&self.store, agent, None, why);
        }
        let tokens = self.store.sessions().gauge(&session.id).reading.map(|r| r.tokens);
        if let Err(refused) = permitted(agent.in_a_row, scene.config.run.max_restarts, tokens) {
            self.log(&agent.id, "rotation-refused", &refused.to_string());
            return rotation::give_up(&self.store, agent, None, &refused.to_string());
        }
        let (store, me) = (self.store.clone(), self.me.clone());
        let link = self.link(server)?;
        match rotation::carry_out(&store, link, agent, session, request, &me) {
            Ok(open) => {
                if let Some(one) = self.attended.get_mut(&agent.id) {
                    // Whoever starts a thread hears it.
                    one.subscribed = rotation::thread(&open);
                    one.rotation = Some((open, now + LOAD));
                }
                Ok(())
            }
            Err(e) => {
                let why = format!("{e:#}");
                self.log(&agent.id, "rotation-failed", &why);
                rotation::give_up(&store, agent, None, &why)?;
                Err(e)
            }
        }
    }

    /// The hook of the fresh thread takes the request away when it has loaded the handoff.
    fn settle_rotation(&mut self, agent: &Agent, now: Timestamp) -> anyhow::Result<()> {
        let Some(one) = self.attended.get_mut(&agent.id) else { return Ok(()) };
        let Some((open, until)) = one.rotation.take() else { return Ok(()) };
        if agent.rotation.as_ref().is_none_or(|r| r.handoff != open.handoff) {
            rotation::loaded(&self.store, open)?;
            self.log(&agent.id, "rotated", super::ACTUATOR);
        } else if until <= now {
            let why = "the new thread runs, but its hooks did not load the handoff";
            self.log(&agent.id, "rotation-failed", why);
            rotation::give_up(&self.store, agent, Some(open), why)?;
        } else {
            one.rotation = Some((open, until));
        }
        Ok(())
    }

    fn link(&mut self, server: &PathBuf) -> anyhow::Result<&mut Link> {
        if !self.links.contains_key(server) {
            let link = Link::open(server)?;
            self.links.insert(server.clone(), link);
        }
        self.links.get_mut(server).context("the connection is gone")
    }

    /// What the servers said since.
    fn hear(&mut self) {
        let mut usages = Vec::new();
        self.links.retain(|_, link| {
            loop {
                match link.hear() {
                    Ok(Some(Heard::Usage { thread, tokens, window, at })) => {
                        usages.push((thread, tokens, window, at));
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => break true,
                    Err(_) => break false,
                }
            }
        });
        if self.links.is_empty() {
            for one in self.attended.values_mut() {
                one.subscribed = None;
            }
        }
        for (thread, tokens, window, at) in usages {
            self.reading(&thread, tokens, window, at);
        }
    }

    /// Joins what the server told with the readings of the hooks.
    fn reading(&self, thread: &str, tokens: u64, window: u64, at: Option<Timestamp>) {
        let session =
            SessionId::new(thread).ok().and_then(|id| self.store.sessions().get(&id).ok().flatten());
        let Some(session) = session else { return };
        let Some(mut scene) = Scene::at(&session.cwd) else { return };
        scene.provider = providers::of(&session.provider);
        let open = self.store.sessions().open_gauge(&session.id);
        let mut gauge = open.before.clone();
        let base = scene.provider.hooks.base;
        let at = at.unwrap_or(scene.now).min(scene.now);
        let said = Reading { tokens, output: 0, window, base, at, source: Source::AppServer };
        if gauge.reading.is_some_and(|r| r.tokens == tokens && r.window == window) {
            return;
        }
        gauge.reading = newest(gauge.reading, Some(said));
        gauge.window = Some(window);
        gauge.level = measure::level(&scene, &session, &gauge, None);
        if let Err(e) = open.keep(&gauge) {
            scene.fault("store a reading", &e);
        }
    }

    /// Sleeps; `false` when it is told to stop.
    fn wait(&mut self, stop: &UnixStream, dirty: &mut BTreeSet<AgentId>) -> anyhow::Result<bool> {
        let now = Timestamp::now();
        let moments = |one: &Attended| {
            [
                one.again,
                one.failed.map(|(_, until)| until),
                one.rotation.as_ref().map(|r| r.1),
                one.woken.map(|at| at + WAKING),
            ]
            .into_iter()
            .flatten()
            .min()
        };
        let next = self.attended.values().filter_map(moments).min();
        let left = next.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
        let left = if self.is_noisy { Some(left.map_or(TOGETHER, |left| left.min(TOGETHER))) } else { left };
        let timeout = left.map(|left| Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: left.subsec_nanos().into(),
        });
        {
            let mut fds = vec![PollFd::new(stop, PollFlags::IN)];
            let watched = self.watch.fd().filter(|_| !self.is_noisy);
            fds.extend(watched.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            fds.extend(self.links.values().map(|l| PollFd::from_borrowed_fd(l.fd(), PollFlags::IN)));
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(std::io::Error::from(e).into()),
            }
            if !fds[0].revents().is_empty() {
                return Ok(false);
            }
        }
        self.is_noisy = self.gather(dirty);
        let now = Timestamp::now();
        for (id, one) in &mut self.attended {
            if moments(one).is_some_and(|at| at <= now) {
                // Whoever was woken and did not move may be woken once more.
                one.woken = one.woken.filter(|at| *at + WAKING > now);
                dirty.insert(id.clone());
            }
        }
        Ok(true)
    }

    /// Who is meant by what has changed. `true` if something has, and nobody is.
    fn gather(&mut self, dirty: &mut BTreeSet<AgentId>) -> bool {
        let taken = self.watch.take();
        let is_told = !taken.is_empty();
        for (number, name) in taken {
            let stem = name.strip_suffix(".json");
            if number == self.agents_dir {
                dirty.extend(stem.and_then(|id| AgentId::new(id).ok()));
            } else if number == self.sessions_dir {
                dirty.extend(stem.and_then(|id| SessionId::new(id).ok()).and_then(|id| self.whose(id)));
            } else {
                dirty.extend(self.mailboxes.get(&number).cloned());
            }
        }
        is_told && dirty.is_empty()
    }

    /// The agent of a conversation that has changed, if it may be ours. The record of a new one is written after its
    /// agent's, so it may be the first to tell of it.
    fn whose(&mut self, session: SessionId) -> Option<AgentId> {
        let known = self.attended.iter().find(|(_, one)| one.session.as_ref() == Some(&session));
        if let Some((id, _)) = known {
            return Some(id.clone());
        }
        if self.others.contains(&session) {
            return None;
        }
        let record = self.store.sessions().get(&session).ok().flatten()?;
        if record.shared {
            return Some(record.agent);
        }
        if self.others.len() >= MOST_OTHERS {
            self.others.clear();
        }
        self.others.insert(session);
        None
    }

    fn fault(&self, id: &AgentId, error: &anyhow::Error) {
        let detail = serde_json::json!({ "doing": "attend to its thread", "error": format!("{error:#}") });
        let line = Line { agent: Some(id.clone()), detail, ..Line::new(Timestamp::now(), "fault") };
        log::append(&self.store.state, &line);
    }

    fn log(&self, id: &AgentId, event: &str, note: &str) {
        let detail = serde_json::json!({ "note": note, "by": super::ACTUATOR });
        let line = Line { agent: Some(id.clone()), detail, ..Line::new(Timestamp::now(), event) };
        log::append(&self.store.state, &line);
    }
}
