//! What is typed into an agent's tmux pane, and when: `/clear` for a rotation, the prompt that continues from its
//! handoff, mail that found the agent idle, Escape for an urgent message.
//!
//! Keys are the last resort and the most dangerous one, so there is one way to each: the hooks say that the agent is
//! idle, the screen says that the composer is there and empty, then text and Enter go in one piece, and only a hook
//! or the transcript says that they arrived. Text is never typed twice without such an answer; Enter is tried once
//! more. This module decides; the attendant of the panes carries out.

mod due;
mod journal;
pub mod screen;
mod typing;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::agent::RotationRequest;
use crate::handoff::HandoffId;
use crate::ids::SessionId;
use crate::process::Process;
use crate::session::Turn;

pub use journal::{Left, abandon, take_up};
use screen::Screen;

/// Where an agent's client runs: a pane's id means something only within the life of one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pane {
    /// The server's socket.
    pub socket: String,
    pub server: Process,
    /// `%7`, as tmux numbers it.
    pub id: String,
    /// What tmux started in it.
    pub process: Process,
    /// Started by `baton spawn`; others were adopted and are left open when the agent ends.
    #[serde(default)]
    pub spawned: bool,
}

/// Until an answer to typed text is expected; after that Enter is tried once more.
const ANSWER: SignedDuration = SignedDuration::from_secs(4);
/// And so long after that.
const LAST_ANSWER: SignedDuration = SignedDuration::from_secs(8);
/// The hooks of the fresh context load the handoff well before this.
const LOAD: SignedDuration = SignedDuration::from_secs(10);
/// Until a turn that was interrupted has ended.
const INTERRUPT: SignedDuration = SignedDuration::from_secs(5);
/// What an attendant that was killed had typed shows its effect within this.
pub const RESUME: SignedDuration = SignedDuration::from_secs(2);
/// A client brings a draft that was put by back within this.
const RETURN: SignedDuration = SignedDuration::from_secs(5);
/// While that is waited for, so long from look to look.
const BLINK: SignedDuration = SignedDuration::from_millis(100);
/// When something is in the way, so long until the next look.
const SOON: SignedDuration = SignedDuration::from_millis(700);
/// After text that nobody took, so long until mail is tried again; hooks deliver it meanwhile.
const LATER: SignedDuration = SignedDuration::from_secs(60);

/// What the files say of an agent in a pane: read again whenever they may have changed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Look {
    /// Its conversation has begun and has not ended; before that nobody takes what is typed.
    pub ready: bool,
    pub turn: Turn,
    /// When the turn last changed hands.
    pub turn_since: Option<Timestamp>,
    pub session: Option<SessionId>,
    /// A rotation that is ours to carry out; also while its session is over and its handoff not yet loaded.
    pub request: Option<RotationRequest>,
    /// Background tasks are waited for until then.
    pub hold_until: Option<Timestamp>,
    /// Queued messages that are ours to type.
    pub mail: usize,
    /// One of them is urgent.
    pub urgent: bool,
    /// Messages that were typed and that neither hook nor transcript has shown yet.
    pub unseen: usize,
    /// A hook or the transcript shows that this context has had its first prompt.
    pub heard: bool,
}

/// What a provider's client needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manners {
    /// The key that puts a draft by; the client brings it back by itself after the next submit.
    pub can_stash: bool,
    /// The fresh context makes itself heard only with its first prompt.
    pub lazy_start: bool,
}

/// What is typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    Clear,
    /// The prompt with which the fresh context begins.
    Continuation(HandoffId),
    /// The messages that wait.
    Mail,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    Looked(Look),
    /// What the pane shows; the answer to [`Effect::Read`].
    Screen(Screen),
    /// The text went out; `false` if the pane had changed since it was read, and nothing was typed.
    Typed(bool),
    /// There was no mail left to type: a hook had been faster.
    Nothing,
    /// The pane or its client is gone.
    Gone,
    /// Time has passed; see [`State::deadline`].
    Tick,
}

/// What to do now, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Look at the pane and answer with [`Input::Screen`].
    Read,
    LeaveMode,
    /// Put the draft by, then look again. That it was is remembered whatever happens to us.
    Stash(Mark),
    /// What was put by is back.
    Returned,
    /// Journal a rotation, before anything is typed.
    Begin(RotationRequest),
    /// Type it and Enter, in one piece, if the pane is as it was read; answer with [`Input::Typed`].
    Type(Text),
    /// Enter alone, if the pane is as it was read: the text is there and was not taken. Messages that it shows are
    /// held from now on. A key that did not go out is told with [`Input::Typed`].
    Enter,
    /// End the running turn.
    Escape,
    /// Journal: the context is clear.
    Cleared,
    /// Journal: the fresh context has the handoff.
    Loaded(HandoffId),
    /// Journal: no rotation, and why.
    GiveUp(String),
    /// The agent has it.
    Confirmed(Text),
    /// Nobody took it: what was held is queued again.
    Back(Text),
    /// Why nothing is typed although something waits; `None` when nothing is in the way any more.
    Waits(Option<&'static str>),
}

/// By which a draft is known again, without its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(pub u64);

pub const DRAFT: &str = "a draft is in the composer";
pub const HIDDEN: &str = "a dialog or a menu is open";
pub const MODE: &str = "somebody scrolls in the pane";
pub const TASKS: &str = "background tasks still run";

/// How the prompt of a fresh context begins and ends: with the handoff's id between, or with a file.
pub const CONTINUE: (&str, &str) = ("Continue where the loaded handoff ", " left off.");
pub const READ: (&str, &str) = ("Read ", " and continue from where you left off.");

/// What is known and under way in one pane.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    look: Look,
    doing: Option<Doing>,
    /// A rotation that did not come about is not tried again and again.
    given_up: Option<HandoffId>,
    /// The rotation that is open in the journal: a fresh context that comes now is its doing, however late.
    open: Option<HandoffId>,
    /// The continuation that is still to be typed.
    to_continue: Option<HandoffId>,
    /// Whether what is waited for was typed at all is not known.
    resumed: bool,
    /// That continuation is also what makes the fresh context load its handoff.
    loads_late: bool,
    /// Text of ours was found in the composer and sent off; if it stays there it is somebody else's matter.
    entered_own: bool,
    /// A `/clear` of ours was given up and may still lie in the composer.
    left_clear: bool,
    /// The turn that we have interrupted: never a second Escape.
    interrupted: Option<Timestamp>,
    /// A draft was put by. There is one place for that: a second one would take it.
    put_by: Option<Mark>,
    /// And something was typed: until then the client may bring it back, and must not be typed over.
    returns_by: Option<Timestamp>,
    /// And that has arrived: an empty composer is one in which it came back and was sent off.
    was_back: bool,
    /// Before that the composer was empty: what is in it now is what the client put back.
    was_empty: bool,
    /// How often something was in the way, one look after the other.
    in_the_way: u32,
    /// Not before then.
    not_before: Option<Timestamp>,
    mail_not_before: Option<Timestamp>,
    waits: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq)]
struct Doing {
    step: Step,
    until: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// The screen is being looked at before `text` goes out.
    Reading {
        text: Text,
        left_mode: bool,
        /// What was in the composer when the key was sent that puts it by.
        stashed: Option<Mark>,
    },
    /// The screen is being looked at before the turn is interrupted.
    Interrupting {
        left_mode: bool,
    },
    Interrupted,
    /// The text has been handed to tmux.
    Typing {
        text: Text,
    },
    /// Typed; waiting for a sign that it arrived.
    Waiting {
        text: Text,
        since: Timestamp,
        retried: bool,
    },
    /// No sign yet: is the text still in the composer?
    Checking {
        text: Text,
        since: Timestamp,
    },
    /// The context is clear; its first hook loads the handoff.
    Loading {
        handoff: HandoffId,
    },
}

impl State {
    /// Takes over from another attendant: what that one may have typed shows itself before anything else is typed.
    #[must_use]
    pub fn taking_over(now: Timestamp) -> Self {
        Self { not_before: Some(now + RESUME), ..Self::default() }
    }

    /// Takes up a rotation that somebody else began and did not finish: the handoff is loaded, and whether the agent
    /// was told to go on is not known. What was typed has shown itself after a while.
    #[must_use]
    pub fn continuing(handoff: HandoffId, now: Timestamp) -> Self {
        let text = Text::Continuation(handoff.clone());
        let step = Step::Waiting { text, since: now, retried: false };
        Self {
            doing: Some(Doing { step, until: now + RESUME }),
            to_continue: Some(handoff),
            resumed: true,
            ..Self::default()
        }
    }

    /// Takes up a rotation whose `/clear` somebody else may have typed: if it comes about, it goes on from there; if
    /// not, it is begun again.
    #[must_use]
    pub fn resuming(handoff: HandoffId, from: SessionId, now: Timestamp) -> Self {
        let step = Step::Waiting { text: Text::Clear, since: now, retried: false };
        Self {
            look: Look { session: Some(from), ..Look::default() },
            doing: Some(Doing { step, until: now + RESUME }),
            open: Some(handoff.clone()),
            to_continue: Some(handoff),
            resumed: true,
            ..Self::default()
        }
    }

    /// Somebody else has put a draft by, and it may not be back.
    #[must_use]
    pub fn with_put_by(self, put_by: Option<Mark>, now: Timestamp) -> Self {
        Self { put_by, returns_by: put_by.map(|_| now + RETURN), ..self }
    }

    /// Is text of ours on its way that nobody has confirmed?
    pub fn is_typing(&self) -> bool {
        matches!(
            &self.doing,
            Some(Doing { step: Step::Typing { .. } | Step::Waiting { .. } | Step::Checking { .. }, .. })
        )
    }

    /// Does a rotation of ours go on?
    pub fn is_rotating(&self) -> bool {
        self.to_continue.is_some()
            || matches!(
                &self.doing,
                Some(Doing {
                    step: Step::Loading { .. }
                        | Step::Typing { text: Text::Clear }
                        | Step::Waiting { text: Text::Clear, .. }
                        | Step::Checking { text: Text::Clear, .. },
                    ..
                })
            )
    }

    /// The next state, and what to do.
    #[must_use]
    pub fn next(mut self, input: Input, manners: Manners, now: Timestamp) -> (Self, Vec<Effect>) {
        let mut effects = Vec::new();
        match input {
            Input::Looked(look) => self.looked(look, &mut effects),
            Input::Screen(screen) => self.read(&screen, manners, now, &mut effects),
            Input::Typed(done) => self.typed(done, now),
            Input::Nothing => {
                self.doing = None;
                self.look.mail = 0;
            }
            Input::Gone => self.gone(&mut effects),
            Input::Tick => self.late(manners, now, &mut effects),
        }
        self.advance(now, &mut effects);
        (self, effects)
    }

    fn looked(&mut self, look: Look, effects: &mut Vec<Effect>) {
        let changed = look.session != self.look.session;
        let known = self.look.session.is_some();
        let began = look.turn_since > self.look.turn_since;
        if look.turn_since != self.interrupted {
            self.interrupted = None;
        }
        self.look = look;
        let request = self.look.request.as_ref().map(|r| &r.handoff);
        if self.given_up.as_ref().is_some_and(|g| request != Some(g)) {
            self.given_up = None;
        }
        match self.doing.as_ref().map(|d| d.step.clone()) {
            Some(
                Step::Waiting { text: Text::Clear, .. }
                | Step::Checking { text: Text::Clear, .. }
                | Step::Typing { text: Text::Clear },
            ) if changed => {
                self.cleared(effects);
            }
            _ if changed && self.open.is_some() && self.to_continue.is_none() => {
                self.to_continue.clone_from(&self.open);
                self.cleared(effects);
            }
            // Another context has come: what was typed meanwhile is taken by that one, and only now.
            Some(step @ Step::Waiting { text: Text::Continuation(_), .. })
                if changed && self.resumed && known =>
            {
                self.doing = Some(Doing { step, until: Timestamp::MAX });
            }
            Some(Step::Loading { handoff }) if request != Some(&handoff) => self.loaded(handoff, effects),
            Some(Step::Waiting { text, since, .. } | Step::Checking { text, since }) => {
                let arrived = match &text {
                    Text::Clear => false,
                    // The prompt begins a turn; nothing else of ours does at that moment.
                    Text::Continuation(_) => {
                        self.look.turn_since.is_some_and(|at| at > since) || (self.resumed && self.look.heard)
                    }
                    Text::Mail => self.look.unseen == 0,
                };
                if arrived {
                    self.confirm(text, effects);
                }
            }
            Some(Step::Interrupted) if began || self.look.turn != Turn::Working => self.doing = None,
            _ => {}
        }
    }

    fn confirm(&mut self, text: Text, effects: &mut Vec<Effect>) {
        (self.doing, self.resumed, self.was_back) = (None, false, self.put_by.is_some());
        if let Text::Continuation(handoff) = &text {
            let waits = self.look.request.as_ref().is_some_and(|r| &r.handoff == handoff);
            if std::mem::take(&mut self.loads_late) {
                effects.push(if waits {
                    (self.given_up, self.open) = (Some(handoff.clone()), None);
                    Effect::GiveUp("no hook loaded the handoff".to_owned())
                } else {
                    self.open = None;
                    Effect::Loaded(handoff.clone())
                });
            }
            self.to_continue = None;
        }
        effects.push(Effect::Confirmed(text));
    }

    fn cleared(&mut self, effects: &mut Vec<Effect>) {
        self.resumed = false;
        // Whoever cleared it: what was put by comes back now.
        self.returns_by = self.put_by.map(|_| Timestamp::MAX);
        effects.push(Effect::Cleared);
        self.await_load(effects);
    }

    /// The new context is there; its hook has loaded the handoff, or is about to.
    fn await_load(&mut self, effects: &mut Vec<Effect>) {
        let Some(handoff) = self.to_continue.clone() else {
            self.doing = None;
            return;
        };
        if self.look.request.as_ref().is_some_and(|r| r.handoff == handoff) {
            self.doing = Some(Doing { step: Step::Loading { handoff }, until: Timestamp::MAX });
        } else {
            self.loaded(handoff, effects);
        }
    }

    fn loaded(&mut self, handoff: HandoffId, effects: &mut Vec<Effect>) {
        (self.doing, self.open) = (None, None);
        effects.push(Effect::Loaded(handoff));
    }

    fn gone(&mut self, effects: &mut Vec<Effect>) {
        let doing = self.doing.take().map(|d| d.step);
        if let Some(Step::Typing { text } | Step::Waiting { text, .. } | Step::Checking { text, .. }) = doing
        {
            effects.push(Effect::Back(text));
        }
        if self.to_continue.take().is_some() || self.look.request.is_some() {
            effects.push(Effect::GiveUp("its client has ended".to_owned()));
        }
        if self.put_by.is_some() {
            effects.push(Effect::Returned);
        }
        *self = Self::default();
    }

    fn late(&mut self, manners: Manners, now: Timestamp, effects: &mut Vec<Effect>) {
        let Some(doing) = self.doing.take_if(|d| d.until <= now) else { return };
        match doing.step {
            Step::Waiting { text: Text::Clear, .. } if std::mem::take(&mut self.resumed) => {
                self.to_continue = None;
            }
            // Neither a hook nor the transcript has it: it was not typed.
            Step::Waiting { text: Text::Continuation(_), .. } if std::mem::take(&mut self.resumed) => {}
            // No word comes before the first prompt: what the screen shows is all there is.
            Step::Waiting { text: text @ Text::Clear, since, .. } if manners.lazy_start => {
                effects.push(Effect::Read);
                self.doing = Some(Doing { step: Step::Checking { text, since }, until: now + LAST_ANSWER });
            }
            Step::Waiting { text, since, retried: false } => {
                effects.push(Effect::Read);
                self.doing = Some(Doing { step: Step::Checking { text, since }, until: now + LAST_ANSWER });
            }
            Step::Waiting { text, .. } | Step::Checking { text, .. } | Step::Typing { text } => {
                self.mail_not_before = Some(now + LATER);
                self.not_before = Some(now + SOON);
                effects.push(Effect::Back(text.clone()));
                match text {
                    Text::Mail => {}
                    Text::Clear => {
                        self.left_clear = true;
                        self.give_up("the client did not clear its context", effects);
                    }
                    Text::Continuation(_) => {
                        // The handoff is loaded; what is missing is the word to go on.
                        self.to_continue = None;
                    }
                }
            }
            Step::Loading { .. } => {
                self.give_up("the context is clear, but no hook loaded the handoff", effects);
            }
            Step::Interrupted | Step::Reading { .. } | Step::Interrupting { .. } => {
                self.not_before = Some(now + SOON);
            }
        }
    }

    pub(super) fn give_up(&mut self, why: &str, effects: &mut Vec<Effect>) {
        self.given_up = self.to_continue.take().or_else(|| self.open.take());
        self.open = None;
        effects.push(Effect::GiveUp(why.to_owned()));
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
