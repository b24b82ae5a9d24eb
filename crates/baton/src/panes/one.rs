//! One agent in its pane: what is decided is carried out, and what came of it is told.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use baton_core::agent::Agent;
use baton_core::ids::SessionId;
use baton_core::pane::screen::{Composer, Screen, Shown};
use baton_core::pane::{Effect, Input, Left, Mark, RESUME, State, Text};
use baton_core::process::Process;
use baton_core::rotation::{Event, Rotation};
use baton_core::session::Turn;
use jiff::Timestamp;
use rustix::process::Pid;

use super::{look, rotation};
use crate::hot::post;
use crate::hot::scene::Scene;
use crate::providers::face::{self, Typing};
use crate::rotate;
use crate::store::Store;
use crate::store::log::{self, Line};
use crate::store::mail::Claimed;
use crate::sys::fs::{self, PRIVATE, Sync};
use crate::sys::handle::Handle;
use crate::sys::process;
use crate::tmux::{Facts, Known};

const PATIENCE: Duration = Duration::from_secs(1);
/// How long a client may take to show that a draft was put by.
const REDRAW: Duration = Duration::from_secs(2);

pub enum Outcome {
    GoesOn,
    /// The pane or its client is gone.
    Gone,
}

pub struct Attended {
    agent: Agent,
    typing: &'static Typing,
    state: State,
    /// Mail that was typed and not yet seen to have arrived.
    held: Vec<Claimed>,
    rotation: Option<Rotation>,
    end: Option<Handle>,
    /// The pane when it was last read.
    facts: Option<Facts>,
    /// What the composer held then.
    draft: String,
    again: Option<Timestamp>,
    /// Mail that a dead one held is looked at then: what it had typed has shown itself.
    inherits: Option<Timestamp>,
    me: Process,
}

/// Says that a draft of this agent's composer was put by.
fn put_by_path(store: &Store, agent: &Agent) -> PathBuf {
    store.state.join("run").join(format!("{}.put-by", agent.id))
}

impl Attended {
    /// Nothing for an agent whose pane is gone or whose client nobody can type to.
    /// `takes_over`: another attendant may have typed to it a moment ago.
    pub fn new(store: &Store, agent: Agent, takes_over: bool) -> Option<Self> {
        let pane = agent.pane.as_ref()?;
        let typing = face::of(&agent.provider)?;
        if !process::is_alive(&pane.process) {
            return None;
        }
        let pid = i32::try_from(pane.process.pid).ok().and_then(Pid::from_raw)?;
        let end = Handle::open(pid).ok()??;
        let me = process::identify(std::process::id())?;
        let session = agent.session.as_ref().and_then(|id| store.sessions().get(id).ok().flatten());
        let left = rotation::take_up(store, &agent, session.as_ref(), &me).ok().flatten();
        let now = Timestamp::now();
        let state = match &left {
            Some(left) => left.state(now),
            None if takes_over => State::taking_over(now),
            None => State::default(),
        };
        let put_by = fs::read(&put_by_path(store, &agent), 64).ok().flatten();
        let put_by = put_by.map(|text| Mark(String::from_utf8_lossy(&text).trim().parse().unwrap_or(0)));
        let state = state.with_put_by(put_by, now);
        let inherits = store.mail().has_abandoned(&agent.id).then_some(now + RESUME);
        Some(Self {
            agent,
            typing,
            state,
            held: Vec::new(),
            rotation: left.map(Left::rotation),
            end: Some(end),
            facts: None,
            draft: String::new(),
            again: None,
            inherits,
            me,
        })
    }

    pub fn session(&self) -> Option<&SessionId> {
        self.agent.session.as_ref()
    }

    /// Readable when the client has ended.
    pub fn end(&self) -> Option<BorrowedFd<'_>> {
        self.end.as_ref()?.fd()
    }

    /// When to come back although nothing happened.
    pub fn look_at(&self) -> Option<Timestamp> {
        [self.state.deadline(), self.again, self.inherits].into_iter().flatten().min()
    }

    /// Looks at the files, decides, and does what was decided.
    pub fn attend(&mut self, store: &Store) -> anyhow::Result<Outcome> {
        let now = Timestamp::now();
        if let Some(agent) = store.agents().get(&self.agent.id)? {
            let moved = agent.pane != self.agent.pane;
            self.agent = agent;
            if moved {
                return self.gone(store);
            }
        }
        let alive = self.agent.pane.as_ref().is_some_and(|pane| process::is_alive(&pane.process));
        if !alive {
            return self.gone(store);
        }
        let Some(scene) = Scene::at(&self.agent.cwd) else { return Ok(Outcome::GoesOn) };
        let late = self.state.deadline().is_some_and(|at| at <= now);
        self.settle_held(store, late);
        if self.inherits.take_if(|at| *at <= now).is_some() {
            self.inherit(store)?;
        }
        let found = look::look(store, &scene.config, &self.agent, self.typing, now);
        self.again = found.again;
        if let Some(why) = found.refused {
            self.log(store, "rotation-refused", &why);
            rotation::give_up(store, &self.agent, None, &why)?;
        }
        let mut look = found.look;
        look.unseen = self.held.len();
        look.heard |= late && self.has_heard(store);
        self.feed(store, Input::Looked(look))?;
        if late {
            self.feed(store, Input::Tick)?;
        }
        Ok(Outcome::GoesOn)
    }

    /// Which of the typed messages have been seen: a hook has moved them, or, asked late, the transcript shows them.
    fn settle_held(&mut self, store: &Store, ask_transcript: bool) {
        let (mail, agent) = (store.mail(), &self.agent);
        let session = agent.session.as_ref().and_then(|id| store.sessions().get(id).ok().flatten());
        self.held.retain(|claimed| {
            let id = &claimed.message.id;
            if ask_transcript && session.as_ref().is_some_and(|s| post::shown(s, id)) {
                let evidence =
                    session.as_ref().map(|s| format!("transcript of session {}", s.id)).unwrap_or_default();
                mail.seen(&agent.id, id, &evidence, Timestamp::now());
            }
            mail.is_waiting(&agent.id, id)
        });
    }

    /// Queues what an attendant that was killed had claimed, unless the transcript shows it.
    fn inherit(&self, store: &Store) -> anyhow::Result<()> {
        let session = self.session().and_then(|id| store.sessions().get(id).ok().flatten());
        let seen = |id: &str| session.as_ref().is_some_and(|s| post::shown(s, id));
        Ok(store.mail().requeue_abandoned(&self.agent.id, &seen)?)
    }

    /// Holds the messages that lie in the composer and were queued again meanwhile.
    fn hold_shown(&mut self, store: &Store) -> anyhow::Result<()> {
        for id in baton_core::message::shown_in(&self.draft) {
            self.held.extend(store.mail().hold(&self.agent.id, id)?);
        }
        Ok(())
    }

    /// Does the transcript show that the fresh context was told to go on?
    fn has_heard(&self, store: &Store) -> bool {
        let session = self.session().and_then(|id| store.sessions().get(id).ok().flatten());
        let (Some(session), Some(rotation)) = (session, &self.rotation) else { return false };
        session.claim.as_ref() == Some(&rotation.handoff) && {
            let words = rotation::file(rotation)
                .map_or_else(|| rotate::continuation(&rotation.handoff), rotate::read_and_continue);
            look::was_prompted(&session, self.typing, &words)
        }
    }

    fn gone(&mut self, store: &Store) -> anyhow::Result<Outcome> {
        self.feed(store, Input::Gone)?;
        // A client that was killed has told nobody.
        store.agents().update(&self.agent.id, PATIENCE, |a| {
            a.waits = None;
            if a.ended.is_none() && !a.process.as_ref().is_some_and(process::is_alive) {
                a.ended = Some(Timestamp::now());
            }
        })?;
        Ok(Outcome::Gone)
    }

    /// We are told to stop: what nobody took is queued again; the next attendant goes on from the files.
    pub fn leave(&mut self, store: &Store) {
        self.settle_held(store, true);
        for claimed in self.held.drain(..) {
            let _ = store.mail().put_back(&claimed);
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
                    rotation::abandon(store, before)?;
                }
                self.rotation = Some(rotation::begin(store, &self.agent, &request, &self.me)?);
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
            Effect::Cleared => self.journal(store, Event::Stopped)?,
            Effect::Loaded(handoff) => {
                self.journal(store, Event::Loaded(handoff))?;
                self.log(store, "rotated", rotation::ACTUATOR);
                rotate::count(store, &self.agent.id, PATIENCE)?;
            }
            Effect::GiveUp(why) => {
                self.log(store, "rotation-failed", &why);
                let open = self.rotation.take();
                rotation::give_up(store, &self.agent, open, &why)?;
            }
            Effect::Confirmed(Text::Mail) => {
                self.held.clear();
                self.log(store, "mail-typed", "seen");
            }
            Effect::Confirmed(_) => self.rotation = None,
            Effect::Back(Text::Mail) => {
                for claimed in self.held.drain(..) {
                    store.mail().put_back(&claimed)?;
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

    fn with_pane<T>(&self, act: impl FnOnce(&Known<'_>) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let pane =
            self.agent.pane.as_ref().ok_or_else(|| anyhow::anyhow!("{} has no pane", self.agent.id))?;
        act(&Known::new(pane))
    }

    /// What the pane shows now; nothing if it is gone.
    fn read(&mut self) -> anyhow::Result<Option<Screen>> {
        let read = self.with_pane(|pane| {
            let Some(facts) = pane.facts() else { return Ok(None) };
            Ok(Some((pane.screen()?, facts)))
        })?;
        let Some((text, facts)) = read else { return Ok(None) };
        let shown = Shown { text: &text, cursor: facts.cursor, in_mode: facts.in_mode };
        let screen = self.typing.face.read(&shown);
        self.facts = Some(facts);
        self.draft.clear();
        if let Composer::Draft(draft) = &screen.composer {
            self.draft.clone_from(draft);
        }
        Ok(Some(screen))
    }

    /// One key, if the pane is as it was last read.
    fn key(&self, key: &str) -> anyhow::Result<bool> {
        match &self.facts {
            Some(seen) => self.with_pane(|pane| pane.key(key, seen)),
            None => Ok(false),
        }
    }

    /// Puts the draft by, and waits until the client shows that it did. Said first: whoever follows us must not put a
    /// second one into its place.
    fn stash(&mut self, store: &Store, mark: Mark) -> anyhow::Result<()> {
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

    /// Ends the turn, if there still is one: an Escape too many opens a menu.
    fn interrupt(&self, store: &Store) -> anyhow::Result<()> {
        let session = self.session().and_then(|id| store.sessions().get(id).ok().flatten());
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
                let file = self.rotation.as_ref().and_then(rotation::file);
                file.map_or_else(|| rotate::continuation(handoff), rotate::read_and_continue)
            }
            Text::Mail => {
                let session = self.session().and_then(|id| store.sessions().get(id).ok().flatten());
                if let Some(session) = session
                    && let Some(scene) = Scene::at(&session.cwd)
                {
                    store.mail().settle_shown(&self.agent.id, &|id| {
                        post::shown(&session, id).then(|| format!("transcript of session {}", session.id))
                    });
                    self.held = post::deliver(&scene, &session, 0);
                }
                if self.held.is_empty() {
                    return Ok(Input::Nothing);
                }
                self.held.iter().map(post::framed).collect::<Vec<_>>().join("\n\n")
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
                store.mail().put_back(&claimed)?;
            }
        }
        Ok(Input::Typed(typed))
    }

    fn file(&self, store: &Store) -> PathBuf {
        store.state.join("run").join(format!("{}.typing", self.agent.id))
    }

    fn journal(&mut self, store: &Store, event: Event) -> anyhow::Result<()> {
        if let Some(open) = self.rotation.take() {
            self.rotation = Some(rotation::advance(store, open, event)?);
        }
        Ok(())
    }

    fn log(&self, store: &Store, event: &str, note: &str) {
        let line = Line {
            agent: Some(self.agent.id.clone()),
            session: self.agent.session.clone(),
            channel: Some(self.agent.channel.clone()),
            detail: serde_json::json!({ "note": note, "by": rotation::ACTUATOR }),
            ..Line::new(Timestamp::now(), event)
        };
        log::append(&store.state, &line);
    }
}
