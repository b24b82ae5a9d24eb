//! One agent in its pane: carries out what `core::pane` decides and reports the outcome.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use baton_core::agent::Agent;
use baton_core::ids::SessionId;
use baton_core::pane::draft;
use baton_core::pane::screen::{Composer, PaneCapture, Screen};
use baton_core::pane::{DraftMark, Effect, Input, RESUME, State, Text, Unfinished};
use baton_core::process::Process;
use baton_core::prompt;
use baton_core::rotation::{Actuator, Event, Rotation};
use baton_core::session::due_at;
use baton_core::session::{Session, Turn};
use jiff::{SignedDuration, Timestamp};
use rustix::process::Pid;

use crate::handoffs::attach;
use crate::mail::deliver::{self, Occasion};
use crate::mail::maildir::{Claimed, Mail};
use crate::mail::{notify, shown};
use crate::providers;
use crate::providers::face::{self, Typing};
use crate::rotation::actuators::tmux::server::{PaneState, RecordedPane};
use crate::rotation::actuators::tmux::{facts, takeover};
use crate::rotation::{journal, pending, request};
use crate::sessions::clear;
use crate::sessions::context::Context;
use crate::sessions::turn::{self, Settler};
use crate::store::Store;
use crate::store::log::LogLine;
use crate::sys::fs::{self, PRIVATE, Sync};
use crate::sys::handle::Handle;
use crate::sys::process;

const PATIENCE: Duration = Duration::from_secs(1);
/// How long a client may take to show that it has put a draft aside.
const REDRAW: Duration = Duration::from_secs(2);

/// Whether the pane is still there.
pub(crate) enum PaneStatus {
    Open,
    /// The pane or its client is gone.
    Gone,
}

/// An agent in a pane.
pub(crate) struct PaneAgent {
    agent: Agent,
    typing: &'static Typing,
    state: State,
    /// Mail that was typed and is not confirmed yet.
    held: Vec<Claimed>,
    rotation: Option<Rotation>,
    end: Option<Handle>,
    /// The pane at the last read.
    facts: Option<PaneState>,
    /// The text in the composer at that time.
    draft: String,
    again: Option<Timestamp>,
    /// When to requeue mail that a dead attendant had claimed. By then the transcript shows what it had typed.
    inherits: Option<Timestamp>,
    me: Process,
}

/// The file that records that a draft of this agent's composer was put aside.
fn put_by_path(store: &Store, agent: &Agent) -> PathBuf {
    store.state.join("run").join(format!("{}.put-by", agent.id))
}

/// Carries out the pending handoff of a turn that is over. Returns when to look again, if it is too early.
fn carry_out_pending(session: &Session, now: Timestamp) -> Option<Timestamp> {
    let ctx = Context::of(session)?;
    if matches!(session.turn, Turn::Working | Turn::Blocked) {
        // Only the transcript shows that the turn was interrupted.
        pending::turn_ended(&ctx, session, "the agent");
        return None;
    }
    // Ignore the brake: a client that takes no orders after Esc can still be typed to.
    let due = due_at(session, false)?;
    if due > now {
        return Some(due);
    }
    pending::carry_out(&ctx, session, false, "the agent");
    None
}

impl PaneAgent {
    /// `None` if the agent's pane is gone or its client cannot be typed to. `takes_over` means that another attendant
    /// may have typed to it a moment ago.
    pub(crate) fn new(store: &Store, agent: Agent, takes_over: bool) -> Option<Self> {
        let pane = agent.pane.as_ref()?;
        let typing = face::of(&agent.provider)?;
        if !process::is_alive(&pane.process) {
            return None;
        }
        let pid = i32::try_from(pane.process.pid).ok().and_then(Pid::from_raw)?;
        let end = Handle::open(pid).ok()??;
        let me = process::identify(std::process::id())?;
        let session = agent.session.as_ref().and_then(|id| store.sessions().readable(id));
        let left = takeover::take_up(store, &agent, session.as_ref(), &me).unwrap_or_else(|e| {
            // The takeover could not be recorded, so do not continue the rotation. It stays open in the journal.
            store.log().fault(Timestamp::now(), "take over a rotation", &e);
            None
        });
        let now = Timestamp::now();
        let state = match &left {
            Some(left) => left.state(now),
            None if takes_over => State::taking_over(now),
            None => State::default(),
        };
        let put_by = fs::read(&put_by_path(store, &agent), 64).ok().flatten();
        let put_by = put_by.map(|text| DraftMark(String::from_utf8_lossy(&text).trim().parse().unwrap_or(0)));
        let state = state.with_put_by(put_by, now);
        let inherits = Mail::of(store).has_abandoned(&agent.id).then_some(now + RESUME);
        Some(Self {
            agent,
            typing,
            state,
            held: Vec::new(),
            rotation: left.map(Unfinished::rotation),
            end: Some(end),
            facts: None,
            draft: String::new(),
            again: None,
            inherits,
            me,
        })
    }

    pub(crate) fn session(&self) -> Option<&SessionId> {
        self.agent.session.as_ref()
    }

    /// Readable when the client has ended.
    pub(crate) fn end(&self) -> Option<BorrowedFd<'_>> {
        self.end.as_ref()?.fd()
    }

    /// When to look again although nothing happened.
    pub(crate) fn look_at(&self) -> Option<Timestamp> {
        [self.state.deadline(), self.again, self.inherits].into_iter().flatten().min()
    }

    /// Reads the records, decides, and carries out the decision.
    pub(crate) fn attend(&mut self, store: &Store) -> anyhow::Result<PaneStatus> {
        let now = Timestamp::now();
        match store.agents().get(&self.agent.id)? {
            Some(agent) => {
                let moved = agent.pane != self.agent.pane;
                self.agent = agent;
                if moved {
                    return self.gone(store);
                }
            }
            // It was renamed, and is attended to under its new name.
            None if store.agents().renamed(&self.agent.id)?.is_some() => {
                self.leave(store);
                return Ok(PaneStatus::Gone);
            }
            None => {}
        }
        let alive = self.agent.pane.as_ref().is_some_and(|pane| process::is_alive(&pane.process));
        if !alive {
            return self.gone(store);
        }
        let provider = providers::of(&self.agent.provider);
        let Some(ctx) = Context::at(&self.agent.cwd, provider) else { return Ok(PaneStatus::Open) };
        let late = self.state.deadline().is_some_and(|at| at <= now);
        self.settle_held(store, late);
        if self.inherits.take_if(|at| *at <= now).is_some() {
            self.inherit(store)?;
        }
        // A killed hook may have left claimed messages behind.
        if self.inherits.is_none() && Mail::of(store).has_abandoned(&self.agent.id) {
            self.inherits = Some(now + RESUME);
        }
        let is_early = self.settle_given(store, now);
        let mut found = facts::look(store, &ctx.config, &self.agent, now);
        if let Some(session) = found.over.take() {
            if let Some(at) = carry_out_pending(&session, now) {
                found.again = Some(at);
            } else {
                found = facts::look(store, &ctx.config, &self.agent, now);
                let later = found.over.as_ref().and_then(|s| due_at(s, false));
                found.again = [found.again, later].into_iter().flatten().min();
            }
        }
        if let Some((session, prompt)) = found.silent.take()
            && self.was_taken_back(store, &session, &prompt, now)?
        {
            found = facts::look(store, &ctx.config, &self.agent, now);
            found.again = Some(now);
        }
        self.again = found.again;
        if let Some(why) = found.refused {
            self.log(store, "rotation-refused", &why);
            journal::give_up(store, &self.agent, None, &why)?;
        }
        let mut look = found.look;
        if is_early {
            // Later messages wait for those that may be queued again.
            look.mail = if look.turn == Turn::Idle { 0 } else { look.mail };
            let later = now + SignedDuration::from_secs(1);
            self.again = Some(self.again.map_or(later, |again| again.min(later)));
        }
        look.unseen = self.held.len();
        look.heard |= late && self.has_heard(store);
        self.feed(store, Input::Looked(look))?;
        if late {
            self.feed(store, Input::Tick)?;
        }
        Ok(PaneStatus::Open)
    }

    /// Queues messages again that came with a prompt that Esc took back, before later ones are typed. Returns whether it
    /// is too early to tell.
    fn settle_given(&self, store: &Store, now: Timestamp) -> bool {
        let session = self.session().and_then(|id| store.sessions().readable(id));
        let Some(session) = session.filter(|s| !s.given.is_empty()) else { return false };
        if turn::observed(&session, now) != Turn::Idle {
            // The first tool call shows that the turn has begun.
            return true;
        }
        let Some(ctx) = Context::of(&session) else { return false };
        !turn::settled(&ctx, &session, Settler::Calm).given.is_empty()
    }

    /// Records the end of a turn whose prompt is back in the composer: Esc came before anything was sent to the model,
    /// and no hook reports it. Returns whether that happened.
    fn was_taken_back(
        &mut self,
        store: &Store,
        session: &Session,
        prompt: &str,
        now: Timestamp,
    ) -> anyhow::Result<bool> {
        let Some(screen) = self.read()? else { return Ok(false) };
        let is_back = matches!(&screen.composer, Composer::Draft(draft) if draft::is_prompt(prompt, draft));
        if !is_back {
            return Ok(false);
        }
        self.log(store, "prompt-taken-back", "");
        let ended = store.sessions().update(&session.id, PATIENCE, |s| {
            let is_same = s.turn == Turn::Working && s.turn_since == session.turn_since;
            if is_same {
                (s.turn, s.turn_since) = (Turn::Idle, Some(now));
            }
            is_same
        })?;
        if let Some(ctx) = Context::of(session) {
            turn::settled(&ctx, session, Settler::Calm);
        }
        Ok(ended == Some(true))
    }

    /// Drops held messages that have arrived: a hook has moved them or, with `ask_transcript`, the transcript shows
    /// them.
    fn settle_held(&mut self, store: &Store, ask_transcript: bool) {
        let (mail, agent) = (Mail::of(store), &self.agent);
        let session = agent.session.as_ref().and_then(|id| store.sessions().readable(id));
        if let Some(session) = session.filter(|_| ask_transcript && !self.held.is_empty()) {
            let evidence = format!("transcript of session {}", session.id);
            let is_shown = shown::at_the_end(store, &session);
            for id in self.held.iter().map(|claimed| &claimed.message.id).filter(|id| is_shown(id)) {
                mail.seen(&agent.id, id, &evidence, Timestamp::now());
            }
        }
        self.held.retain(|claimed| mail.is_waiting(&agent.id, &claimed.message.id));
    }

    /// Requeues messages that a killed hook or attendant had claimed, unless the transcript shows them.
    fn inherit(&self, store: &Store) -> anyhow::Result<()> {
        // Without the session's record deliveries cannot be checked, so a requeued message may arrive twice.
        let session = self.session().map(|id| store.sessions().get(id)).transpose()?.flatten();
        let is_shown = session.as_ref().map(|session| shown::at_the_end(store, session));
        let seen = |id: &str| is_shown.as_ref().is_some_and(|is_shown| is_shown(id));
        Ok(Mail::of(store).requeue_abandoned(&self.agent.id, &seen)?)
    }

    /// Claims messages that are in the composer but were requeued meanwhile.
    fn hold_shown(&mut self, store: &Store) -> anyhow::Result<()> {
        for id in baton_core::message::named_in(&self.draft) {
            self.held.extend(Mail::of(store).hold(&self.agent.id, id)?);
        }
        Ok(())
    }

    /// Whether the transcript shows that the fresh context was told to continue.
    fn has_heard(&self, store: &Store) -> bool {
        let session = self.session().and_then(|id| store.sessions().readable(id));
        let (Some(session), Some(rotation)) = (session, &self.rotation) else { return false };
        (session.claim.as_ref() == Some(&rotation.handoff) || session.unloaded) && {
            facts::was_prompted(&session, self.typing, &rotation.continuation())
        }
    }

    fn gone(&mut self, store: &Store) -> anyhow::Result<PaneStatus> {
        self.feed(store, Input::Gone)?;
        // A killed client has run no hook.
        let died = store.agents().update(&self.agent.id, PATIENCE, |a| {
            a.waits = None;
            let died = a.ended.is_none() && !a.process.as_ref().is_some_and(process::is_alive);
            if died {
                a.ended = Some(Timestamp::now());
            }
            died.then(|| a.clone())
        })?;
        if let Some(agent) = died.flatten() {
            let session = agent.session.as_ref().and_then(|id| store.sessions().readable(id));
            if session.as_ref().is_none_or(|s| s.ended.is_none()) {
                notify::death(store, &agent, session.as_ref(), notify::UNSEEN, Timestamp::now());
            }
        }
        Ok(PaneStatus::Gone)
    }

    /// Requeues messages that have not arrived when the attendant stops. The next attendant continues from the files.
    pub(crate) fn leave(&mut self, store: &Store) {
        self.settle_held(store, true);
        for claimed in self.held.drain(..) {
            let _ = Mail::of(store).put_back(&claimed);
        }
    }

    fn feed(&mut self, store: &Store, input: Input) -> anyhow::Result<()> {
        let now = Timestamp::now();
        let (next, effects) = std::mem::take(&mut self.state).next(input, self.typing.manners, now);
        self.state = next;
        for effect in effects {
            self.carry_out(store, effect)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, store: &Store, effect: Effect) -> anyhow::Result<()> {
        match effect {
            Effect::Read => {
                let read = self.read()?;
                self.feed(store, read.map_or(Input::Gone, Input::Screen))?;
            }
            Effect::LeaveMode => {
                if let Some(seen) = self.facts.clone() {
                    self.with_pane(|pane| pane.leave_mode(&seen))?;
                }
            }
            Effect::Stash(mark) => self.stash(store, mark)?,
            Effect::Returned => fs::remove(&put_by_path(store, &self.agent))?,
            Effect::Begin(request) => {
                if let Some(before) = self.rotation.take() {
                    takeover::abandon(store, before)?;
                }
                self.rotation = Some(journal::begin(store, &self.agent, &request, Actuator::Tmux, &self.me)?);
            }
            Effect::Type(text) => {
                let typed = self.type_text(store, &text)?;
                self.feed(store, typed)?;
            }
            Effect::Enter => {
                self.hold_shown(store)?;
                if !self.key("Enter")? {
                    self.feed(store, Input::Typed(false))?;
                }
            }
            Effect::Escape => self.interrupt(store)?,
            Effect::Cleared => {
                // The start of the empty context takes the order, to know that it must load nothing. A client with a
                // lazy start reports that start only with its first prompt, so take the order here.
                if self.rotation.is_none() && self.typing.manners.lazy_start {
                    clear::carried_out(store, &self.agent, Timestamp::now())?;
                }
                self.journal(store, Event::Stopped)?;
            }
            Effect::Loaded(handoff) => {
                self.journal(store, Event::Loaded(handoff))?;
                self.log(store, "rotated", Actuator::Tmux.as_str());
                request::count(store, &self.agent.id, PATIENCE)?;
            }
            Effect::GiveUp(why) => {
                self.log(store, "rotation-failed", &why);
                let open = self.rotation.take();
                journal::give_up(store, &self.agent, open, &why)?;
            }
            Effect::Confirmed(Text::Mail) => {
                self.held.clear();
                self.log(store, "mail-typed", "seen");
            }
            Effect::Confirmed(Text::Unpark) => {}
            Effect::Confirmed(_) => self.rotation = None,
            Effect::Back(Text::Mail) => {
                for claimed in self.held.drain(..) {
                    Mail::of(store).put_back(&claimed)?;
                }
                self.log(store, "mail-waits", "it was typed and not taken");
            }
            Effect::Back(text) => self.log(store, "typing-failed", &format!("{text:?} was not taken")),
            Effect::Waits(why) => {
                if let Some(why) = why {
                    self.log(store, "typing-waits", why);
                }
                store.agents().update(&self.agent.id, PATIENCE, |a| a.waits = why.map(str::to_owned))?;
            }
        }
        Ok(())
    }

    fn with_pane<T>(&self, act: impl FnOnce(&RecordedPane<'_>) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let pane =
            self.agent.pane.as_ref().ok_or_else(|| anyhow::anyhow!("{} has no pane", self.agent.id))?;
        act(&RecordedPane::new(pane))
    }

    /// The present screen of the pane; `None` if it is gone.
    fn read(&mut self) -> anyhow::Result<Option<Screen>> {
        let read = self.with_pane(|pane| {
            let Some(facts) = pane.facts() else { return Ok(None) };
            Ok(Some((pane.screen()?, facts)))
        })?;
        let Some((text, facts)) = read else { return Ok(None) };
        let shown = PaneCapture { text: &text, cursor: facts.cursor, in_mode: facts.in_mode };
        let screen = self.typing.face.read(&shown);
        self.facts = Some(facts);
        self.draft.clear();
        if let Composer::Draft(draft) = &screen.composer {
            self.draft.clone_from(draft);
        }
        Ok(Some(screen))
    }

    /// Presses one key, if the pane is as it was last read.
    fn key(&self, key: &str) -> anyhow::Result<bool> {
        match &self.facts {
            Some(seen) => self.with_pane(|pane| pane.key(key, seen)),
            None => Ok(false),
        }
    }

    /// Puts the draft aside and waits until the client shows that. Records it first, so that the next attendant does
    /// not put a second draft in its place.
    fn stash(&mut self, store: &Store, mark: DraftMark) -> anyhow::Result<()> {
        let note = put_by_path(store, &self.agent);
        fs::replace(&note, mark.0.to_string().as_bytes(), PRIVATE, Sync::No)?;
        if !self.key(self.typing.stash)? {
            return Ok(());
        }
        let until = Instant::now() + REDRAW;
        while Instant::now() < until {
            if self.read()?.is_none_or(|screen| !matches!(screen.composer, Composer::Draft(_))) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Interrupts the turn if it still runs, because one Escape too many opens a menu.
    fn interrupt(&self, store: &Store) -> anyhow::Result<()> {
        let session = self.session().and_then(|id| store.sessions().readable(id));
        if session.is_some_and(|s| s.turn == Turn::Working) {
            self.log(store, "interrupted", "an urgent message or a rotation at once");
            self.key(self.typing.interrupt)?;
        }
        Ok(())
    }

    fn type_text(&mut self, store: &Store, text: &Text) -> anyhow::Result<Input> {
        let words = match text {
            Text::Clear => self.typing.clear.to_owned(),
            Text::Continuation(handoff) => {
                let file = self.rotation.as_ref().and_then(|rotation| rotation.file.as_deref());
                let words = prompt::continuation(handoff, file);
                let provider = providers::of(&self.agent.provider);
                Context::at(&self.agent.cwd, provider).map_or(words.clone(), |ctx| {
                    attach::mentioned(store, &ctx.config, provider, &words, handoff)
                })
            }
            Text::Unpark => {
                self.log(store, "unparked", "");
                prompt::UNPARK.to_owned()
            }
            Text::Mail => {
                let session = self.session().and_then(|id| store.sessions().readable(id));
                if let Some(session) = session {
                    let is_shown = shown::at_the_end(store, &session);
                    Mail::of(store).settle_shown(&self.agent.id, &|id| {
                        is_shown(id).then(|| format!("transcript of session {}", session.id))
                    });
                    let room = providers::of(&session.provider).hooks.budget;
                    self.held = deliver::claim(store, &session, Occasion::Pause, room, Timestamp::now());
                }
                if self.held.is_empty() {
                    return Ok(Input::Nothing);
                }
                deliver::framed(store, &self.held).join("\n\n")
            }
        };
        let file = self.file(store);
        fs::replace(&file, baton_core::plain::plain(&words).as_bytes(), PRIVATE, Sync::No)?;
        let typed = match &self.facts {
            Some(seen) => self.with_pane(|pane| pane.type_file(&file, seen)),
            None => Ok(false),
        };
        fs::remove(&file)?;
        let typed = typed.unwrap_or_else(|e| {
            self.log(store, "fault", &format!("type into the pane: {e:#}"));
            false
        });
        if !typed {
            for claimed in self.held.drain(..) {
                Mail::of(store).put_back(&claimed)?;
            }
        }
        Ok(Input::Typed(typed))
    }

    fn file(&self, store: &Store) -> PathBuf {
        store.state.join("run").join(format!("{}.typing", self.agent.id))
    }

    fn journal(&mut self, store: &Store, event: Event) -> anyhow::Result<()> {
        if let Some(open) = self.rotation.take() {
            self.rotation = Some(journal::advance(store, open, event)?);
        }
        Ok(())
    }

    fn log(&self, store: &Store, event: &str, note: &str) {
        let line = LogLine {
            agent: Some(self.agent.id.clone()),
            session: self.agent.session.clone(),
            channel: Some(self.agent.channel.clone()),
            detail: serde_json::json!({ "note": note, "by": Actuator::Tmux.as_str() }),
            ..LogLine::new(Timestamp::now(), event)
        };
        store.log().append(&line);
    }
}
