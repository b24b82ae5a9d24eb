//! Decides what to type into an agent's tmux pane, and when: `/clear` for a rotation, the prompt that continues from
//! its handoff, mail for an idle agent, Escape for an urgent message.
//!
//! Keys are the last resort and the most dangerous one, so there is one procedure: the hooks say that the agent is
//! idle, the screen shows an empty composer, text and Enter go out in one piece, and only a hook or the transcript
//! confirms that they arrived. Text is never typed twice without such an answer; Enter is tried once more. This module
//! decides; the pane attendant carries out the effects.

pub mod draft;
mod due;
mod journal;
pub mod screen;
mod typing;

use jiff::{SignedDuration, Timestamp};

use crate::agent::RotationRequest;
use crate::handoff::HandoffId;
use crate::ids::SessionId;
use crate::session::Turn;

pub use journal::{Unfinished, abandon, take_up};
use screen::Screen;

/// How long to wait for an answer to typed text before trying Enter once more.
const ANSWER: SignedDuration = SignedDuration::from_secs(4);
/// How long to wait after that.
const LAST_ANSWER: SignedDuration = SignedDuration::from_secs(8);
/// The hooks of the fresh context load the handoff well within this time.
const LOAD: SignedDuration = SignedDuration::from_secs(10);
/// How long an interrupted turn may take to end.
const INTERRUPT: SignedDuration = SignedDuration::from_secs(5);
/// How long a client takes a second Escape for one of a pair.
const PAIR: SignedDuration = SignedDuration::from_secs(2);
/// Text typed by a killed attendant takes effect within this time.
pub const RESUME: SignedDuration = SignedDuration::from_secs(2);
/// How soon a client restores a stashed draft.
const RETURN: SignedDuration = SignedDuration::from_secs(5);
/// The time between looks while we wait for that.
const BLINK: SignedDuration = SignedDuration::from_millis(100);
/// The time until the next look when something is in the way.
const SOON: SignedDuration = SignedDuration::from_millis(700);
/// How long to wait before typing mail again after the client did not accept it; hooks deliver it meanwhile.
const LATER: SignedDuration = SignedDuration::from_secs(60);

/// A snapshot of the files about an agent in a pane, taken whenever they may have changed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Look {
    /// Its conversation has begun and not ended; before that, nothing reads typed text.
    pub ready: bool,
    pub turn: Turn,
    /// When the turn last changed.
    pub turn_since: Option<Timestamp>,
    pub session: Option<SessionId>,
    /// A rotation that we carry out, even while its session is over and its handoff not yet loaded.
    pub request: Option<RotationRequest>,
    /// Wait for background tasks until this time.
    pub hold_until: Option<Timestamp>,
    /// Queued messages for us to type.
    pub mail: usize,
    /// The id of the newest urgent one.
    pub urgent: Option<String>,
    /// Typed messages that no hook or transcript has shown yet.
    pub unseen: usize,
    /// A hook or the transcript shows that this context had its first prompt.
    pub heard: bool,
    /// The handoff that the session was given.
    pub continues: Option<HandoffId>,
    /// An empty conversation was ordered in place of this one.
    pub clear: bool,
    /// It stopped at a usage limit that has ended since, and has not been told.
    pub unpark: bool,
}

/// Peculiarities of a provider's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manners {
    /// It has a key to stash a draft, which it restores by itself after the next submit.
    pub can_stash: bool,
    /// The fresh context fires its first hook only with its first prompt.
    pub lazy_start: bool,
}

/// A text to type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    Clear,
    /// The first prompt of the fresh context.
    Continuation(HandoffId),
    /// The waiting messages.
    Mail,
    /// The usage limit has ended.
    Unpark,
}

/// An input to [`State::next`].
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "made, handed over and gone; never kept in numbers")]
pub enum Input {
    Looked(Look),
    /// The content of the pane; the answer to [`Effect::Read`].
    Screen(Screen),
    /// The text went out; `false` if the pane changed after it was read, so that nothing was typed.
    Typed(bool),
    /// No mail was left to type: a hook was faster.
    Nothing,
    /// The pane or its client is gone.
    Gone,
    /// Time has passed; see [`State::deadline`].
    Tick,
}

/// Effects are carried out in the order given.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Look at the pane and answer with [`Input::Screen`].
    Read,
    LeaveMode,
    /// Stash the draft, then look again. Record it first, so that it survives our death.
    Stash(DraftMark),
    /// The stashed draft is back.
    Returned,
    /// Journal a rotation before typing anything.
    Begin(RotationRequest),
    /// Type it with Enter, in one piece, if the pane is as it was read; answer with [`Input::Typed`].
    Type(Text),
    /// Enter alone, if the pane is as it was read: the text is there and was not accepted. Hold its messages from now
    /// on. If the key did not go out, answer with [`Input::Typed`].
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
    /// The text was not accepted: requeue the held messages.
    Back(Text),
    /// Why we type nothing although something waits; `None` once nothing is in the way.
    Waits(Option<&'static str>),
}

/// Identifies a draft without keeping its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftMark(pub u64);

const NOT_LOADED: &str = "the context is clear, but no hook loaded the handoff";
pub const DRAFT: &str = "a draft is in the composer";
pub const HIDDEN: &str = "a dialog or a menu is open";
pub const MODE: &str = "somebody scrolls in the pane";
pub const TASKS: &str = "background tasks still run";

/// What we know about one pane, and the step under way there.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    look: Look,
    doing: Option<Doing>,
    /// A rotation that failed; do not retry it endlessly.
    given_up: Option<HandoffId>,
    /// The open rotation in the journal: a fresh context that comes now belongs to it, however late.
    open: Option<HandoffId>,
    /// The continuation still to type.
    to_continue: Option<HandoffId>,
    /// We do not know whether the awaited text was typed at all.
    resumed: bool,
    /// That continuation also makes the fresh context load its handoff: its hooks fire only then, or could not load it at
    /// its start, as on a full disk.
    loads_late: bool,
    /// We found text of ours in the composer and sent it; if it stays there, leave it to others.
    entered_own: bool,
    /// We gave up a `/clear` that may still be in the composer.
    left_clear: bool,
    /// The turn that we interrupted; never send a second Escape.
    interrupted: Option<Timestamp>,
    /// When we last sent Escape: two in a row clear a draft, or open a menu where no turn runs.
    escaped: Option<Timestamp>,
    /// The newest urgent message that we interrupted a turn for: interrupt once per message.
    interrupted_for: Option<String>,
    /// A stashed draft. The client has one place for it, and a second draft would overwrite it.
    put_by: Option<DraftMark>,
    /// Something was typed after stashing: until this time the client may restore the draft, so do not type over it.
    returns_by: Option<Timestamp>,
    /// The text typed after stashing has arrived: an empty composer now means that the draft was restored and sent.
    was_back: bool,
    /// The composer was empty before we interrupted the turn, so its text was put back by the client.
    was_empty: bool,
    /// How many looks in a row found something in the way.
    in_the_way: u32,
    /// Begin nothing before this time.
    not_before: Option<Timestamp>,
    mail_not_before: Option<Timestamp>,
    waits: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq)]
struct Doing {
    step: Phase,
    until: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    /// Reading the screen before `text` goes out.
    Reading {
        text: Text,
        left_mode: bool,
        /// The composer's content when we sent the stash key.
        stashed: Option<DraftMark>,
    },
    /// Reading the screen before interrupting the turn.
    Interrupting {
        left_mode: bool,
    },
    Interrupted,
    /// The text was handed to tmux.
    Typing {
        text: Text,
    },
    /// Typed; waiting for a sign that it arrived.
    Waiting {
        text: Text,
        since: Timestamp,
        retried: bool,
    },
    /// No sign yet: check whether the text is still in the composer.
    Checking {
        text: Text,
        since: Timestamp,
    },
    /// The context is clear; its first hook is loading the handoff.
    Loading {
        handoff: HandoffId,
    },
}

impl State {
    /// Takes over from another attendant: wait until whatever it may have typed takes effect.
    #[must_use]
    pub fn taking_over(now: Timestamp) -> Self {
        Self { not_before: Some(now + RESUME), ..Self::default() }
    }

    /// Continues a rotation that someone else began and did not finish: the handoff is loaded, but we do not know
    /// whether the continuation was typed. Wait for it to take effect.
    #[must_use]
    pub fn continuing(handoff: HandoffId, now: Timestamp) -> Self {
        let text = Text::Continuation(handoff.clone());
        let step = Phase::Waiting { text, since: now, retried: false };
        Self {
            doing: Some(Doing { step, until: now + RESUME }),
            to_continue: Some(handoff),
            resumed: true,
            ..Self::default()
        }
    }

    /// Continues a rotation whose `/clear` someone else may have typed: go on from there if it takes effect, else begin
    /// again. If the context is clear already, the continuation may be on its way too.
    #[must_use]
    pub fn resuming(handoff: HandoffId, from: SessionId, now: Timestamp) -> Self {
        let step = Phase::Waiting { text: Text::Clear, since: now, retried: false };
        Self {
            look: Look { session: Some(from), ..Look::default() },
            doing: Some(Doing { step, until: now + RESUME }),
            not_before: Some(now + RESUME),
            open: Some(handoff.clone()),
            to_continue: Some(handoff),
            resumed: true,
            ..Self::default()
        }
    }

    /// Someone else stashed a draft that may not be back.
    #[must_use]
    pub fn with_put_by(self, put_by: Option<DraftMark>, now: Timestamp) -> Self {
        Self { put_by, returns_by: put_by.map(|_| now + RETURN), ..self }
    }

    /// The next state, and the effects to carry out.
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
                Phase::Waiting { text: Text::Clear, .. }
                | Phase::Checking { text: Text::Clear, .. }
                | Phase::Typing { text: Text::Clear },
            ) if changed => {
                self.cleared(effects);
            }
            _ if changed && self.open.is_some() && self.to_continue.is_none() => {
                self.to_continue.clone_from(&self.open);
                self.cleared(effects);
            }
            // The new context is there, and only now reads the text typed meanwhile.
            Some(step @ Phase::Waiting { text: Text::Continuation(_), .. })
                if changed && self.resumed && known =>
            {
                self.doing = Some(Doing { step, until: Timestamp::MAX });
            }
            Some(Phase::Loading { handoff }) if request != Some(&handoff) => self.loaded(handoff, effects),
            Some(Phase::Waiting { text, since, .. } | Phase::Checking { text, since }) => {
                let arrived = match &text {
                    Text::Clear => false,
                    // The prompt begins a turn; nothing else of ours does at this moment.
                    Text::Continuation(_) => {
                        self.look.turn_since.is_some_and(|at| at > since) || (self.resumed && self.look.heard)
                    }
                    Text::Unpark => self.look.turn_since.is_some_and(|at| at > since),
                    Text::Mail => self.look.unseen == 0,
                };
                if arrived {
                    self.confirm(text, effects);
                }
            }
            Some(Phase::Interrupted) if began || self.look.turn != Turn::Working => self.doing = None,
            _ => {}
        }
    }

    fn confirm(&mut self, text: Text, effects: &mut Vec<Effect>) {
        // If we only resumed, a person may have sent the text that we confirm: the draft is where an attendant stashed
        // it.
        self.was_back = self.put_by.is_some() && !self.resumed;
        (self.doing, self.resumed) = (None, false);
        if let Text::Continuation(handoff) = &text {
            let waits = self.look.request.as_ref().is_some_and(|r| &r.handoff == handoff);
            let is_loaded = !waits && self.look.continues.as_ref() == Some(handoff);
            if std::mem::take(&mut self.loads_late) {
                self.open = None;
                effects.push(if is_loaded {
                    Effect::Loaded(handoff.clone())
                } else {
                    self.given_up = Some(handoff.clone());
                    Effect::GiveUp(NOT_LOADED.to_owned())
                });
            }
            self.to_continue = None;
        }
        effects.push(Effect::Confirmed(text));
    }

    fn cleared(&mut self, effects: &mut Vec<Effect>) {
        self.resumed = false;
        // The stashed draft returns now, whoever cleared the context.
        self.returns_by = self.put_by.map(|_| Timestamp::MAX);
        effects.push(Effect::Cleared);
        self.await_load(effects);
    }

    /// The new context exists; its hook has loaded the handoff or is about to.
    fn await_load(&mut self, effects: &mut Vec<Effect>) {
        let Some(handoff) = self.to_continue.clone() else {
            self.doing = None;
            return;
        };
        if self.look.request.as_ref().is_some_and(|r| r.handoff == handoff) {
            self.doing = Some(Doing { step: Phase::Loading { handoff }, until: Timestamp::MAX });
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
        if let Some(Phase::Typing { text } | Phase::Waiting { text, .. } | Phase::Checking { text, .. }) =
            doing
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
            Phase::Waiting { text: Text::Clear, .. } if std::mem::take(&mut self.resumed) => {
                self.to_continue = None;
            }
            // No hook or transcript shows it, so it was not typed.
            Phase::Waiting { text: Text::Continuation(_), .. } if std::mem::take(&mut self.resumed) => {}
            // No hook fires before the first prompt, so the screen is all we have.
            Phase::Waiting { text: text @ Text::Clear, since, .. } if manners.lazy_start => {
                effects.push(Effect::Read);
                self.doing = Some(Doing { step: Phase::Checking { text, since }, until: now + LAST_ANSWER });
            }
            Phase::Waiting { text, since, retried: false } => {
                effects.push(Effect::Read);
                self.doing = Some(Doing { step: Phase::Checking { text, since }, until: now + LAST_ANSWER });
            }
            Phase::Waiting { text, .. } | Phase::Checking { text, .. } | Phase::Typing { text } => {
                self.mail_not_before = Some(now + LATER);
                self.not_before = Some(now + SOON);
                effects.push(Effect::Back(text.clone()));
                match text {
                    Text::Mail | Text::Unpark => {}
                    // The order still applies, so try again.
                    Text::Clear if self.open.is_none() && self.look.clear => self.left_clear = true,
                    Text::Clear => {
                        self.left_clear = true;
                        self.give_up("the client did not clear its context", effects);
                    }
                    Text::Continuation(_) if self.is_unloaded() => {
                        self.loads_late = false;
                        self.give_up(NOT_LOADED, effects);
                    }
                    Text::Continuation(_) => {
                        // The handoff is loaded; only the continuation is missing.
                        self.to_continue = None;
                    }
                }
            }
            // The hook of its first prompt tries again.
            Phase::Loading { .. } => self.loads_late = true,
            Phase::Interrupted | Phase::Reading { .. } | Phase::Interrupting { .. } => {
                self.not_before = Some(now + SOON);
            }
        }
    }

    /// Whether the handoff is asked for by a session that is over, and the current one has not loaded it.
    pub(super) fn is_unloaded(&self) -> bool {
        self.look.request.as_ref().is_some_and(|r| Some(&r.session) != self.look.session.as_ref())
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
