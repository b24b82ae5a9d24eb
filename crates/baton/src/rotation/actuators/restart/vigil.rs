//! While the client runs: waits for its end, for the hooks' files and for signals, and stops it when needed.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use baton_core::agent::{Agent, RotationRequest, STALE, SupervisorOrder};
use baton_core::handoff::Kind;
use baton_core::rotation::{Event, Step};
use baton_core::session::due_at;
use baton_core::session::{Session, Turn};
use jiff::{SignedDuration, Timestamp};
use rustix::process::Signal;

use crate::handoffs::seal;
use crate::rotation::actuators::restart::limits::until;
use crate::rotation::actuators::restart::{PATIENCE, Supervisor};
use crate::rotation::pending::{self, SealOutcome};
use crate::rotation::request::{self, When, Wish};
use crate::sessions::context::Context;
use crate::store::companions::CompanionState;
use crate::sys::child::{Change, Child, stop_with};
use crate::sys::poll::{self, PollFd, PollFlags};
use crate::sys::terminal;
use crate::sys::watch::FolderChange;

/// How long a fresh context may take until its first hook has loaded the handoff. A client may show dialogs first.
const TIME_TO_LOAD: Duration = Duration::from_mins(2);

/// Why a running client is being stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    Rotate,
    Retire,
    Resume {
        session: String,
        prompt: Option<String>,
    },
    /// An empty conversation, with this prompt if there is one.
    Clear {
        prompt: Option<String>,
    },
    /// We were told to end.
    Quit,
}

/// How watching one client ended.
pub(crate) struct ClientEnd {
    pub change: Change,
    pub purpose: Option<Purpose>,
    /// It did not end in time, so we killed it.
    pub killed_by_us: bool,
    pub lived: Duration,
}

/// The state and deadlines while one client runs.
#[derive(Default)]
pub(super) struct Vigil {
    purpose: Option<Purpose>,
    killed: bool,
    /// When a client that was asked to end must have ended.
    stop_by: Option<Instant>,
    /// When the handoff must have been loaded.
    load_by: Option<Instant>,
    /// When to look again although nothing happened: a limit ends, background tasks have had their time.
    pub look_at: Option<Instant>,
}

impl Vigil {
    fn next(&self) -> Option<Instant> {
        [self.stop_by, self.load_by, self.look_at].into_iter().flatten().min()
    }
}

/// Whether the deadline has passed. Clears it, so that it fires once.
fn is_due(at: &mut Option<Instant>) -> bool {
    at.take_if(|at| Instant::now() >= *at).is_some()
}

/// How long after a turn nobody must have typed. Longer than the granularity of the terminal's clock.
const QUIET: Duration = Duration::from_secs(10);
/// How long hooks and companion may take to give a fresh context its handoff and its prompt.
const UNLOADED: SignedDuration = SignedDuration::from_mins(1);
/// How often to look at the files while a handoff is pending.
const POLL: Duration = Duration::from_secs(10);
/// The text in `agents` while a draft may be in the way.
const TYPED: &str = "its handoff is sealed, and something was typed in its terminal since: it continues in a fresh context \
                     after the next turn, or with `baton rotate`";

impl Supervisor {
    /// Waits until the client has ended, and stops it when needed.
    pub(crate) fn watch_child(&mut self, mut child: Child) -> anyhow::Result<ClientEnd> {
        let began = Instant::now();
        let mut vigil =
            Vigil { load_by: self.awaits_load().then(|| began + TIME_TO_LOAD), ..Vigil::default() };
        // Hooks may have run before we watched.
        let mut look = true;
        loop {
            if look {
                // Confirm first, because a fast agent may already request the next rotation.
                self.confirm();
                if !self.awaits_load() {
                    vigil.load_by = None;
                }
                if vigil.purpose.is_none() {
                    vigil.purpose = self.look(&child, &mut vigil)?;
                }
            }
            look = self.wait(&mut child, vigil.next())?;
            if let Some(signal) = self.signals.told_to_end() {
                // Pass signals to us on to the agent, and give it all the time it wants.
                child.signal(signal)?;
                vigil.purpose = Some(Purpose::Quit);
                vigil.stop_by = None;
            }
            let went_on = self.signals.continued();
            match child.poll()? {
                // The shell continued the job before we saw the child's stop.
                Some(Change::Stopped) if went_on => child.signal(Signal::CONT)?,
                Some(Change::Stopped) => {
                    stop_with(&child)?;
                    // Forget that we were continued, because the child may be stopped again at once.
                    self.signals.continued();
                }
                Some(change) => {
                    self.output.finish_reading(&mut child);
                    let (purpose, killed_by_us) = (vigil.purpose, vigil.killed);
                    return Ok(ClientEnd { change, purpose, killed_by_us, lived: began.elapsed() });
                }
                None => {}
            }
            if is_due(&mut vigil.load_by) {
                self.advance(&Event::Deadline, None);
                look = true;
            }
            look |= is_due(&mut vigil.look_at);
            if is_due(&mut vigil.stop_by) {
                self.overdue(&child, &mut vigil)?;
            }
        }
    }

    /// Kills a client that did not end in time.
    fn overdue(&mut self, child: &Child, vigil: &mut Vigil) -> anyhow::Result<()> {
        let rotates = vigil.purpose == Some(Purpose::Rotate);
        if rotates {
            self.advance(&Event::Deadline, Some((child, vigil.killed)));
        } else if !vigil.killed {
            child.signal(Signal::KILL)?;
        }
        if vigil.killed {
            // Not even SIGKILL ended it, so it continues as it was.
            vigil.purpose = None;
        } else {
            vigil.killed = true;
            vigil.stop_by = Some(Instant::now() + PATIENCE);
        }
        Ok(())
    }

    /// Sleeps until something happens. Returns whether the hooks' files may have changed.
    fn wait(&mut self, child: &mut Child, deadline: Option<Instant>) -> anyhow::Result<bool> {
        let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
        let timeout = self.watch.timeout(left);
        let [signalled, poked, has_output] = {
            let output = child.stdout.as_ref().map(std::os::fd::AsFd::as_fd);
            let mut fds: Vec<PollFd<'_>> = [
                self.signals.fd(),
                self.socket.as_fd(),
                // If the client's output is not ours to read, poll the signals twice to keep the positions.
                output.unwrap_or(self.signals.fd()),
            ]
            .into_iter()
            .chain(child.fd())
            .chain(self.watch.fd())
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
            poll::wait(&mut fds, timeout)?;
            let ready = |at: usize| !fds[at].revents().is_empty();
            [ready(0), ready(1), output.is_some() && ready(2)]
        };
        if signalled {
            self.signals.drain();
        }
        let mut files = false;
        if poked {
            let mut byte = [0; 8];
            while self.socket.recv(&mut byte).is_ok() {
                files = true;
            }
        }
        let record = format!("{}.json", self.agent);
        // A removed record is a change too, because the agent may have been renamed.
        let (copy, mut copied) = (&self.copy, false);
        files |= self.watch.drain(|change| match change {
            FolderChange::Entry(_, name) => {
                let is_copy = copy.as_deref() == Some(name);
                copied |= is_copy;
                is_copy || name == record || name == ".restart-session"
            }
            FolderChange::Everything => true,
        });
        self.copied |= copied;
        if has_output {
            self.output.pump(child)?;
        }
        Ok(files)
    }

    /// Reads what hooks and other terminals have left, and begins to stop the client if needed.
    fn look(&mut self, child: &Child, vigil: &mut Vigil) -> anyhow::Result<Option<Purpose>> {
        self.follow_name();
        let Some(agent) = self.record() else { return Ok(None) };
        let session = self.session(&agent).map(|session| pending::caught_up(&self.store, session));
        self.copy = agent.session.as_ref().map(|id| format!("{id}.md"));
        if std::mem::take(&mut self.copied) {
            // The session's record follows the copy of a handed-over document.
            vigil.look_at = Some(Instant::now() + PATIENCE);
        }
        match &agent.order {
            Some(SupervisorOrder::Clear { session, prompt, .. })
                if agent.session.as_ref() == Some(session) && self.leaving.as_ref() != Some(session) =>
            {
                self.leaving = Some(session.clone());
                let prompt = prompt.clone();
                // The prompt comes with the start, not as a message after it.
                self.store.agents().update(&self.agent, PATIENCE, |a| {
                    if let Some(SupervisorOrder::Clear { prompt, .. }) = &mut a.order {
                        *prompt = None;
                    }
                })?;
                return self.stop(child, vigil, Purpose::Clear { prompt }).map(Some);
            }
            // Under way: until the first hook the record shows the old conversation.
            Some(SupervisorOrder::Clear { .. }) => return Ok(None),
            Some(SupervisorOrder::Retire) => return self.stop(child, vigil, Purpose::Retire).map(Some),
            Some(SupervisorOrder::Undo { session }) if agent.session.as_ref() == Some(session) => {
                self.undoing = None;
                self.store.agents().update(&self.agent, PATIENCE, |a| a.order = None)?;
            }
            // On its way back: until the first hook the record shows the conversation that it left.
            Some(SupervisorOrder::Undo { session }) if self.undoing.as_ref() == Some(session) => {
                return Ok(None);
            }
            Some(SupervisorOrder::Undo { session }) => {
                let back = Purpose::Resume { session: session.to_string(), prompt: None };
                self.undoing = Some(session.clone());
                // A request of the conversation that it leaves would wait forever.
                self.store.agents().update(&self.agent, PATIENCE, |a| a.rotation = None)?;
                return self.stop(child, vigil, back).map(Some);
            }
            None => {}
        }
        if let (Some(limit), Some(session)) = (self.limit(&agent, session.as_ref())?, &session) {
            let now = Timestamp::now();
            let rotates = agent.rotation.as_ref().filter(|r| r.session == session.id);
            // A fresh context would be at the limit too, so a requested one waits, unless a person insists.
            if limit > now && !rotates.is_some_and(|r| r.at_once) {
                vigil.look_at = Some(Instant::now() + until(limit, now));
                return Ok(None);
            }
            if rotates.is_none() {
                let back = self.come_back(&agent, session, limit, &mut vigil.look_at)?;
                return back.map(|back| self.stop(child, vigil, back)).transpose();
            }
        }
        if let Some(session) = &session {
            self.heed_signal(session)?;
            if session.request.is_some() {
                // Any report of the turn's end may be lost, so poll.
                vigil.look_at = Some(Instant::now() + POLL);
            }
            if let Some(again) = self.carry_out_pending(&agent, session) {
                vigil.look_at = Some(again);
                return Ok(None);
            }
        }
        if self.rotation.as_ref().is_some_and(|r| r.step.is_open()) {
            return Ok(None);
        }
        let Some(request) = self.record().and_then(|a| a.rotation) else { return Ok(None) };
        if session.as_ref().is_some_and(|s| request.is_stale(s)) {
            self.log("rotation-waits", &format!("handoff {}: {STALE}", request.handoff));
            request::withdraw(&self.store, &self.agent, &request.handoff, PATIENCE)?;
            return Ok(None);
        }
        // The hook that loaded this handoff is about to remove its request.
        let fulfilled = self.rotation.as_ref().is_some_and(|r| r.handoff == request.handoff);
        if fulfilled {
            return Ok(None);
        }
        if agent.session.as_ref().is_some_and(|s| *s != request.session) {
            // The hooks of the fresh context load it; if they could not, its companion prompts it.
            let unloaded = session.as_ref().filter(|s| s.turn_since.is_none()).map(|s| s.started + UNLOADED);
            let now = Timestamp::now();
            match unloaded {
                None => return Ok(None),
                Some(from) if now < from => {
                    vigil.look_at = Some(Instant::now() + until(from, now));
                    return Ok(None);
                }
                // Neither happened, and nothing is lost with a context that nobody has prompted.
                Some(_) => {}
            }
        }
        // A newer handoff that is still pending comes first.
        if session.as_ref().is_some_and(|s| s.request.is_some() && s.turn == Turn::Idle) {
            vigil.look_at = Some(Instant::now() + PATIENCE);
            return Ok(None);
        }
        // A rotation inside the client costs no draft and no restart, so it has the first try.
        if let Some(until) = self.in_place_until(&agent, session.as_ref(), &request) {
            vigil.look_at = Some(until);
            return Ok(None);
        }
        // A headless turn ends by itself and the next context follows, unless the turn must be cut.
        if self.headless && !request.at_once {
            return Ok(None);
        }
        if request.wait_for_idle && !self.is_left_alone(&request, vigil)? {
            return Ok(None);
        }
        if !request.at_once
            && let Some(until) = session.as_ref().and_then(|s| self.background_until(s, request.at))
        {
            vigil.look_at = Some(until);
            return Ok(None);
        }
        if !self.may_rotate(&agent)? {
            return Ok(None);
        }
        if !self.begin(&agent, &request, child) {
            return Ok(None);
        }
        vigil.stop_by = Some(Instant::now() + self.config.run.grace);
        Ok(Some(Purpose::Rotate))
    }

    /// Carries out a pending handoff that failed at the end of the turn, because the disk was full or the hook was
    /// killed. Returns when to look again if it is not done.
    fn carry_out_pending(&self, agent: &Agent, session: &Session) -> Option<Instant> {
        let braked = self.store.presence(agent).is_braked();
        let due = due_at(session, braked)?;
        let now = Timestamp::now();
        if due > now {
            return Some(Instant::now() + until(due, now));
        }
        let done = pending::carry_out(&Context::of(session)?, session, braked, "the agent");
        // Once sealed, its request for a fresh context is on record. Otherwise it failed, or someone else is sealing
        // it.
        (!matches!(done, Some(SealOutcome::Sealed { .. }))).then(|| Instant::now() + PATIENCE)
    }

    fn stop(&self, child: &Child, vigil: &mut Vigil, purpose: Purpose) -> anyhow::Result<Purpose> {
        child.signal(Signal::TERM)?;
        vigil.stop_by = Some(Instant::now() + self.config.run.grace);
        Ok(purpose)
    }

    /// Until when to leave the rotation to the client's companion, if there is one that works.
    fn in_place_until(
        &self,
        agent: &Agent,
        session: Option<&Session>,
        request: &RotationRequest,
    ) -> Option<Instant> {
        let CompanionState::Live(live) = self.store.presence(agent).companion() else { return None };
        let working = session.is_some_and(|s| s.turn != Turn::Idle);
        // The companion rotates at the end of the turn or, after Esc, with the person's next prompt. Only a restart can
        // cut a turn.
        if working && request.at_once {
            return None;
        }
        if working || live.braked {
            return Some(Instant::now() + self.config.run.in_place_wait);
        }
        let idle_since = session.and_then(|s| s.turn_since).map_or(request.at, |t| t.max(request.at));
        let waited = Duration::try_from(Timestamp::now().duration_since(idle_since)).unwrap_or_default();
        Some(Instant::now() + self.config.run.in_place_wait.checked_sub(waited)?)
    }

    /// Whether nobody types, for clients that do not report it: checks the terminal's last input a while after the end
    /// of the turn. If somebody has typed, the rotation waits for the end of their next turn, and `agents` shows that.
    fn is_left_alone(&self, request: &RotationRequest, vigil: &mut Vigil) -> anyhow::Result<bool> {
        if self.options.provider.hooks.tells_idle {
            return Ok(false);
        }
        let now = Timestamp::now();
        let waited = Duration::try_from(now.duration_since(request.at)).unwrap_or_default();
        if let Some(left) = QUIET.checked_sub(waited).filter(|left| !left.is_zero()) {
            vigil.look_at = Some(Instant::now() + left);
            return Ok(false);
        }
        let typed = terminal::last_input().is_some_and(|typed| typed >= terminal::grain(request.at.into()));
        self.store.agents().update(&self.agent, PATIENCE, |a| {
            if typed {
                a.waits = Some(TYPED.to_owned());
            } else {
                a.waits.take_if(|waits| waits == TYPED);
            }
        })?;
        Ok(!typed)
    }

    /// Until when to wait for running background tasks.
    fn background_until(&self, session: &Session, since: Timestamp) -> Option<Instant> {
        if session.background.is_empty() {
            return None;
        }
        let waited = Duration::try_from(Timestamp::now().duration_since(since)).unwrap_or_default();
        let left = self.config.run.background_wait.checked_sub(waited)?;
        Some(Instant::now() + left)
    }

    /// Handles a `.restart-session` with our session's id, written by another tool's script.
    fn heed_signal(&self, session: &Session) -> anyhow::Result<()> {
        // Ignore a signal that cannot be read; its writer sees that nothing happens.
        let signalled = self.store.published().read_restart().unwrap_or(None);
        let asked = self.record().is_some_and(|a| a.rotation.is_some());
        let begun = self.rotation.as_ref().is_some_and(|r| r.step.is_open());
        if signalled.is_none_or(|(id, _)| id != session.id) || asked || begun {
            return Ok(());
        }
        let sealing = seal::Sealing { session, kind: Kind::Auto, narrative: None, for_self: true };
        let now = Timestamp::now();
        let sealed = seal::seal(&self.store, &self.config, &sealing, now)?;
        let wish = Wish { by: "a restart signal", when: When::EndOfTurn, file: None };
        request::request(&self.store, &self.config, session, &sealed.entry.id, &wish, now)?;
        Ok(())
    }

    fn awaits_load(&self) -> bool {
        self.rotation.as_ref().is_some_and(|r| r.step == Step::Started)
    }

    /// Waits. Returns `false` if told to end meanwhile.
    pub(crate) fn pause(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            self.signals.drain();
            if self.signals.told_to_end().is_some() || self.signals.interrupted() {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let _ = poll::readable(self.signals.fd(), left);
        }
    }
}
