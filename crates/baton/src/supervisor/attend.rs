//! While the client runs: waits for its end, for the hooks' files and for signals, and stops it when it is time.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use baton_core::agent::{Agent, Order, RotationRequest};
use baton_core::handoff::Kind;
use baton_core::rotation::{Event, Step};
use baton_core::session::{Session, Turn};
use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::{PATIENCE, Supervisor};
use crate::rotate::{self, When};
use crate::sys::child::{Change, Child, stop_with};
use crate::{companion, sealing};

/// How long a fresh context may take until its first hook has loaded the handoff. A client may show dialogs first.
const TIME_TO_LOAD: Duration = Duration::from_mins(2);

/// Why a running client is being stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    Rotate,
    Retire,
    Resume {
        session: String,
        prompt: Option<String>,
    },
    /// We were told to end.
    Quit,
}

/// How watching one client ended.
pub struct Ended {
    pub change: Change,
    pub purpose: Option<Purpose>,
    /// It did not go by itself; we killed it.
    pub killed_by_us: bool,
    pub lived: Duration,
}

/// What is waited for while one client runs.
#[derive(Default)]
pub struct Vigil {
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

/// What was due is taken, so that it comes once.
fn is_due(at: &mut Option<Instant>) -> bool {
    at.take_if(|at| Instant::now() >= *at).is_some()
}

impl Supervisor {
    /// Waits until the client has ended, and stops it when it is time.
    pub fn watch_child(&mut self, mut child: Child) -> anyhow::Result<Ended> {
        let began = Instant::now();
        let mut vigil =
            Vigil { load_by: self.awaits_load().then(|| began + TIME_TO_LOAD), ..Vigil::default() };
        // The hooks may have spoken before we listened.
        let mut look = true;
        loop {
            if look {
                // First, because a fast agent may already ask for the next one.
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
                // Whoever ends us means the agent; it gets the same word and all the time it wants.
                child.signal(signal)?;
                vigil.purpose = Some(Purpose::Quit);
                vigil.stop_by = None;
            }
            let went_on = self.signals.continued();
            match child.poll()? {
                // The shell has continued the job while the child's stop was still on its way to us.
                Some(Change::Stopped) if went_on => child.signal(Signal::CONT)?,
                Some(Change::Stopped) => {
                    stop_with(&child)?;
                    // That we were continued is no news any more: the child may be stopped again at once.
                    self.signals.continued();
                }
                Some(change) => {
                    self.output.finish_reading(&mut child);
                    let (purpose, killed_by_us) = (vigil.purpose, vigil.killed);
                    return Ok(Ended { change, purpose, killed_by_us, lived: began.elapsed() });
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

    /// The client did not end in time.
    fn overdue(&mut self, child: &Child, vigil: &mut Vigil) -> anyhow::Result<()> {
        let rotates = vigil.purpose == Some(Purpose::Rotate);
        if rotates {
            self.advance(&Event::Deadline, Some((child, vigil.killed)));
        } else if !vigil.killed {
            child.signal(Signal::KILL)?;
        }
        if vigil.killed {
            // It cannot be stopped, not even so; it goes on as it was.
            vigil.purpose = None;
        } else {
            vigil.killed = true;
            vigil.stop_by = Some(Instant::now() + PATIENCE);
        }
        Ok(())
    }

    /// Sleeps until something happens; `true` if the hooks' files may have changed.
    fn wait(&mut self, child: &mut Child, deadline: Option<Instant>) -> anyhow::Result<bool> {
        let timeout = deadline.map(|d| timespec(d.saturating_duration_since(Instant::now())));
        let [signalled, poked, changed, has_output] = {
            // Where there is nothing to watch, the socket stands in its place.
            let watched = self.watch.fd().unwrap_or(self.socket.as_fd());
            let mut fds = vec![
                PollFd::from_borrowed_fd(child.fd().unwrap_or(self.signals.fd()), PollFlags::IN),
                PollFd::from_borrowed_fd(self.signals.fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(watched, PollFlags::IN),
            ];
            let output = child.stdout.as_ref();
            fds.extend(output.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)));
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(std::io::Error::from(e).into()),
            }
            [1, 2, 3, 4].map(|at| fds.get(at).is_some_and(|fd: &PollFd<'_>| !fd.revents().is_empty()))
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
        if changed {
            let record = format!("{}.json", self.agent);
            files |= self.watch.drain(&[&record, ".restart-session"]);
        }
        if has_output {
            self.output.pump(child)?;
        }
        Ok(files)
    }

    /// Reads what the hooks and other terminals have left, and begins to stop the client if it is time.
    fn look(&mut self, child: &Child, vigil: &mut Vigil) -> anyhow::Result<Option<Purpose>> {
        let Some(agent) = self.record() else { return Ok(None) };
        let session = self.session(&agent);
        match &agent.order {
            Some(Order::Retire) => return self.stop(child, vigil, Purpose::Retire).map(Some),
            Some(Order::Undo { session }) => {
                let back = Purpose::Resume { session: session.to_string(), prompt: None };
                self.store.agents().update(&self.agent, PATIENCE, |a| a.order = None)?;
                return self.stop(child, vigil, back).map(Some);
            }
            None => {}
        }
        if let Some(back) = self.parked(&agent, session.as_ref(), &mut vigil.look_at)? {
            return self.stop(child, vigil, back).map(Some);
        }
        if let Some(session) = &session {
            self.heed_signal(session)?;
        }
        if self.rotation.as_ref().is_some_and(|r| r.step.is_open()) {
            return Ok(None);
        }
        let Some(request) = self.record().and_then(|a| a.rotation) else { return Ok(None) };
        // The hook that loaded this very handoff is about to take its request away.
        let fulfilled = self.rotation.as_ref().is_some_and(|r| r.handoff == request.handoff);
        if fulfilled || agent.session.as_ref().is_some_and(|s| *s != request.session) {
            return Ok(None);
        }
        // Inside the client a rotation costs no draft and no restart; it has the first try.
        if let Some(until) = self.in_place_until(&agent, session.as_ref(), &request) {
            vigil.look_at = Some(until);
            return Ok(None);
        }
        // A headless turn ends by itself, unless it shall be cut; the next context follows its end.
        if request.wait_for_idle || (self.headless && !request.at_once) {
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
        self.begin(&agent, &request, child);
        vigil.stop_by = Some(Instant::now() + self.config.run.grace);
        Ok(Some(Purpose::Rotate))
    }

    fn stop(&self, child: &Child, vigil: &mut Vigil, purpose: Purpose) -> anyhow::Result<Purpose> {
        child.signal(Signal::TERM)?;
        vigil.stop_by = Some(Instant::now() + self.config.run.grace);
        Ok(purpose)
    }

    /// Until when the rotation is left to the client's companion, if there is one that works.
    fn in_place_until(
        &self,
        agent: &Agent,
        session: Option<&Session>,
        request: &RotationRequest,
    ) -> Option<Instant> {
        let companion::Presence::Live(live) = companion::state(&self.store, agent) else { return None };
        let working = session.is_some_and(|s| s.turn != Turn::Idle);
        // It comes with the end of the turn, and after Esc with the person's next prompt. A turn that shall be
        // cut is cut by a restart.
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

    /// Until when running background tasks are waited for.
    fn background_until(&self, session: &Session, since: Timestamp) -> Option<Instant> {
        if session.background.is_empty() {
            return None;
        }
        let waited = Duration::try_from(Timestamp::now().duration_since(since)).unwrap_or_default();
        let left = self.config.run.background_wait.checked_sub(waited)?;
        Some(Instant::now() + left)
    }

    /// `.restart-session` with our session's id, written by somebody else's script.
    fn heed_signal(&self, session: &Session) -> anyhow::Result<()> {
        let signalled = self.store.published().read_restart().ok().flatten();
        let asked = self.record().is_some_and(|a| a.rotation.is_some());
        let begun = self.rotation.as_ref().is_some_and(|r| r.step.is_open());
        if signalled.is_none_or(|(id, _)| id != session.id) || asked || begun {
            return Ok(());
        }
        let sealing = sealing::Sealing { session, kind: Kind::Auto, narrative: None, for_self: true };
        let now = Timestamp::now();
        let sealed = sealing::seal(&self.store, &self.config, &sealing, now)?;
        let (id, by) = (&sealed.entry.id, "a restart signal");
        rotate::request(&self.store, &self.config, session, id, by, When::EndOfTurn, now)?;
        Ok(())
    }

    fn awaits_load(&self) -> bool {
        self.rotation.as_ref().is_some_and(|r| r.step == Step::Started)
    }

    /// Waits; `false` if we were told to end meanwhile.
    pub fn pause(&mut self, time: Duration) -> bool {
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
            let mut fds = [PollFd::from_borrowed_fd(self.signals.fd(), PollFlags::IN)];
            let _ = poll(&mut fds, Some(&timespec(left)));
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() }
}
