//! Decides for a client's companion when to clear its context, when to submit a prompt, and when to wait.
//!
//! One companion runs beside each client that has loaded our mod. The mod reports turns, the files show requests and
//! mail, and the companion gives at most one order at a time. This module decides, `baton companion` executes, and the
//! mod only relays.

pub mod tail;
pub mod wire;

use jiff::{SignedDuration, Timestamp};

use crate::agent::RotationRequest;
use crate::handoff::HandoffId;

/// How long the client may take to answer an order before we consider it not carried out.
const PATIENCE: SignedDuration = SignedDuration::from_secs(10);
/// Time for the fresh context's hooks to load the handoff, generous even for a busy machine.
const LOAD: SignedDuration = SignedDuration::from_secs(10);

/// How long the mod may take to report a turn that the hooks saw begin. After that no turn runs: something else refused
/// its prompt.
const TOLD: SignedDuration = SignedDuration::from_secs(3);

/// When to look again at something that another process is about to change, if no event announces it.
const PAUSE: SignedDuration = SignedDuration::from_secs(3);

/// How long after the hooks saw a turn end the mod may take to report it. After that its report is lost.
const SETTLED: SignedDuration = SignedDuration::from_secs(3);
/// How long to wait if a turn was reported although the hooks have shown the client idle since before that. After this
/// time the turn counts as over.
const LATE: SignedDuration = SignedDuration::from_mins(1);
/// How often to look at the files while something waits for the end of a turn: every report of that end may be lost.
const POLL: SignedDuration = SignedDuration::from_secs(10);

const NOT_LOADED: &str = "the context is clear, but no hook loaded the handoff";

/// A companion's knowledge. One thing is under way at a time; the next begins when it is answered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    /// A person may be present. Headless runs end by themselves and are never cleared or woken.
    interactive: bool,
    working: bool,
    /// The person pressed Esc; the client takes no orders until they type again.
    braked: bool,
    look: Look,
    doing: Option<Doing>,
    /// A rotation that failed; do not retry it endlessly.
    given_up: Option<HandoffId>,
    /// The continuation of this context was already retried.
    retried: bool,
    /// A clear order that timed out; its answer may still come.
    late: Option<(u64, RotationRequest)>,
    /// The newest urgent message that we interrupted a turn for. Interrupt once per message: if it did not get through,
    /// a person's next prompt must not be aborted for it, because that prompt's hook delivers it.
    interrupted_for: Option<String>,
    /// We ordered the pending document to be carried out since the last look. If nothing triggers another look, take it
    /// at this time.
    carries_out: Option<Timestamp>,
    /// A fresh context was loaded while a turn seemed to run; the next look tells whether that turn is its first.
    unprompted: bool,
    /// The hooks of the fresh context could not load this handoff, for example on a full disk. We submitted the
    /// continuation anyway, because the hook of the first prompt tries again.
    loads_late: Option<HandoffId>,
    /// When the last turn was reported to begin, and when to end.
    began: Option<Timestamp>,
    ended: Option<Timestamp>,
    /// Begin nothing before this time: a turn has begun that the mod has yet to report.
    held_until: Option<Timestamp>,
    last_order: u64,
}

/// A snapshot of the files, taken whenever they may have changed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Look {
    pub request: Option<RotationRequest>,
    /// The request belongs to a conversation that is over. Since then another one runs, and its hooks load the handoff.
    pub under_way: Option<Timestamp>,
    /// The handoff that the current conversation was given.
    pub continues: Option<HandoffId>,
    /// Queued messages.
    pub mail: usize,
    /// The id of the newest urgent one.
    pub urgent: Option<String>,
    /// A rotation in place loaded this handoff, and nobody has prompted the fresh context since: an earlier companion
    /// ended in between.
    pub owed: Option<HandoffId>,
    /// Idle since then, according to the hooks (also at a usage limit); the mod's turn-end event may be lost.
    pub idle: Option<Timestamp>,
    /// When the hooks saw the current turn begin.
    pub began: Option<Timestamp>,
    /// A document that the agent handed over and nobody has sealed. Its mail is held while the turn continues, so end
    /// no turn for a message meanwhile.
    pub pending: Option<Unsealed>,
    /// When the client's usage limit ends; begin nothing before.
    pub limit: Option<Timestamp>,
}

impl Look {
    fn wants(&self, handoff: &HandoffId) -> bool {
        self.request.as_ref().is_some_and(|r| &r.handoff == handoff)
    }

    /// The hook that loads a handoff removes its request. So does whoever sees a context at work without it.
    fn has_loaded(&self, handoff: &HandoffId) -> bool {
        !self.wants(handoff) && self.continues.as_ref() == Some(handoff)
    }
}

/// When a handed-over document can be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsealed {
    From(Timestamp),
    /// At the end of the turn in the session's record, whatever the mod reported.
    EndOfTurn,
}

#[derive(Debug, Clone, PartialEq)]
struct Doing {
    what: Progress,
    until: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
enum Progress {
    /// `/clear` was ordered. `loaded`: the fresh context was faster than the answer.
    Clearing {
        order: u64,
        request: RotationRequest,
        loaded: bool,
    },
    /// The context is clear; its first hook is loading the handoff.
    Loading {
        handoff: HandoffId,
    },
    Submitting {
        order: u64,
        text: Text,
    },
    /// Ending the turn for an urgent message.
    Aborting {
        order: u64,
        urgent: String,
    },
}

/// A prompt to submit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    /// The first prompt of a fresh context.
    Continuation(HandoffId),
    /// The waiting messages.
    Mail,
    /// The waiting messages, after a turn was interrupted for this one. A hook may have delivered it while the turn
    /// ended, and then the agent has not acted on it.
    Urgent(String),
    /// The usage limit has ended.
    Unpark,
}

impl Text {
    fn is_mail(&self) -> bool {
        matches!(self, Self::Mail | Self::Urgent(_))
    }
}

/// An input to [`State::next`].
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one at a time is made and consumed at once")]
pub enum Input {
    /// A companion may start in the middle of a turn, after an earlier one ended.
    Started {
        interactive: bool,
        working: bool,
        /// The message that an earlier companion interrupted a turn for.
        interrupted_for: Option<String>,
    },
    TurnBegan,
    TurnEnded {
        aborted: bool,
    },
    Looked(Look),
    Done(u64),
    Refused(u64, String),
    /// Nothing was left to submit: a hook was faster.
    Nothing(u64),
    /// Time has passed; see [`State::deadline`].
    Tick,
}

/// Orders are executed in the order given.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// Journal a rotation before acting on it.
    Begin(RotationRequest),
    Clear(u64),
    /// End the running turn for this message. Record it first, so that no later companion repeats it.
    Abort(u64, String),
    /// Seal the handed-over document and request the fresh context: the turn has ended and no hook did it.
    CarryOut,
    /// Journal: the context is clear.
    Cleared,
    /// Journal: the fresh context has the handoff.
    Loaded(HandoffId),
    /// Journal: no rotation now, and why.
    GiveUp(String),
    /// Withdraw the request for a context with this handoff, because a context is already working without it.
    Withdraw(HandoffId),
    Submit(u64, Text),
    /// The client took it.
    Accepted(Text),
    /// The client did not accept the text: queued mail stays queued.
    Back(Text),
    /// Publish in our record whether the client takes orders.
    Braked(bool),
}

impl State {
    /// When to send [`Input::Tick`]; `None` while nothing is under way or held.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.doing.as_ref().map(|d| d.until).or(self.held_until)
    }

    /// The next state, and the orders to carry out.
    #[must_use]
    pub fn next(mut self, input: Input, now: Timestamp) -> (Self, Vec<Order>) {
        let braked = self.braked;
        let mut orders = Vec::new();
        match input {
            Input::Started { interactive, working, interrupted_for } => {
                (self.interactive, self.working) = (interactive, working);
                self.began = Some(now).filter(|_| working);
                self.interrupted_for = interrupted_for;
                // The client may still answer an earlier companion's orders, so never reuse numbers.
                self.last_order = u64::try_from(now.as_millisecond()).unwrap_or_default();
            }
            Input::TurnBegan => (self.working, self.braked, self.began) = (true, false, Some(now)),
            Input::TurnEnded { aborted } => self.turn_ended(aborted, now, &mut orders),
            Input::Looked(look) => self.looked(look, now, &mut orders),
            Input::Done(order) => self.answered(order, None, now, &mut orders),
            Input::Refused(order, why) => self.answered(order, Some(why), now, &mut orders),
            Input::Nothing(order) => {
                let is_it = |d: &mut Doing| matches!(d.what, Progress::Submitting { order: ours, .. } if ours == order);
                if self.doing.take_if(is_it).is_some() {
                    (self.look.mail, self.look.urgent) = (0, None);
                }
            }
            Input::Tick => self.late(now, &mut orders),
        }
        self.advance(now, &mut orders);
        if self.braked != braked {
            orders.push(Order::Braked(self.braked));
        }
        (self, orders)
    }

    fn fell_idle(&mut self, now: Timestamp) {
        (self.working, self.ended) = (false, Some(now));
        if let Some(doing) = &mut self.doing {
            // The client can now carry out an order that had to wait for this turn.
            doing.until = doing.until.max(now + PATIENCE);
        }
    }

    fn turn_ended(&mut self, aborted: bool, now: Timestamp, orders: &mut Vec<Order>) {
        self.fell_idle(now);
        self.braked = aborted;
        if self.doing.is_none() {
            self.give_up_late(orders);
        }
        let ours = |d: &mut Doing| matches!(d.what, Progress::Aborting { .. });
        let Some(Doing { what: Progress::Aborting { urgent, .. }, .. }) = self.doing.take_if(ours) else {
            return;
        };
        if aborted && self.interactive {
            // We ended the turn, not the person. If that is wrong, the client refuses the prompt.
            self.braked = false;
            self.submit(Text::Urgent(urgent), orders);
        }
    }

    fn looked(&mut self, look: Look, now: Timestamp, orders: &mut Vec<Order>) {
        if self.look.under_way.is_none() && look.under_way.is_some() {
            // The clear took effect after we gave it up.
            self.given_up = None;
        }
        (self.look, self.carries_out, self.unprompted) = (look, None, false);
        if self.working && self.unheard_end().is_some_and(|settled| settled <= now) {
            self.fell_idle(now);
        }
        let look = &self.look;
        self.given_up.take_if(|handoff| !look.wants(handoff));
        match &mut self.doing {
            Some(Doing { what: Progress::Clearing { request: ours, loaded, .. }, .. }) => {
                *loaded = look.has_loaded(&ours.handoff);
            }
            Some(Doing { what: Progress::Loading { handoff }, .. }) if !look.wants(handoff) => {
                let handoff = handoff.clone();
                self.doing = None;
                if self.look.has_loaded(&handoff) {
                    self.loaded(handoff, orders);
                } else {
                    orders.push(Order::GiveUp(NOT_LOADED.to_owned()));
                }
            }
            _ => {}
        }
        self.loaded_late(orders);
    }

    /// Journals the outcome of a handoff that was left to the first prompt's hook, once nobody asks for it any more.
    fn loaded_late(&mut self, orders: &mut Vec<Order>) {
        let look = &self.look;
        if let Some(handoff) = self.loads_late.take_if(|handoff| !look.wants(handoff)) {
            orders.push(if look.has_loaded(&handoff) {
                Order::Loaded(handoff)
            } else {
                Order::GiveUp(NOT_LOADED.to_owned())
            });
        }
    }

    /// The turn of that prompt is over, and none of its hooks reported anything.
    fn give_up_late(&mut self, orders: &mut Vec<Order>) {
        if let Some(handoff) = self.loads_late.take() {
            orders.extend([Order::GiveUp(NOT_LOADED.to_owned()), Order::Withdraw(handoff.clone())]);
            self.given_up = Some(handoff);
        }
    }

    /// The client did not take the prompt whose hook was to load the handoff.
    fn not_prompted(&mut self, text: &Text, orders: &mut Vec<Order>) {
        let is_its = |handoff: &mut HandoffId| matches!(text, Text::Continuation(of) if of == handoff);
        if self.loads_late.take_if(is_its).is_some() {
            orders.push(Order::GiveUp(NOT_LOADED.to_owned()));
        }
    }

    /// When to believe an end of turn that only the hooks saw. Wait longer if it predates the turn's report: the hook
    /// of the turn's beginning may have been killed, or the report may have been slow.
    fn unheard_end(&self) -> Option<Timestamp> {
        let idle = self.look.idle?;
        let late = self.began.filter(|began| idle < *began).map(|began| began + LATE);
        Some(late.map_or(idle + SETTLED, |late| late.max(idle + SETTLED)))
    }

    fn waits(&self) -> bool {
        let look = &self.look;
        let is_owed = look.owed.is_some() || self.unprompted;
        is_owed || look.mail > 0 || look.pending.is_some() || look.request.is_some() || look.limit.is_some()
    }

    fn answered(&mut self, order: u64, refused: Option<String>, now: Timestamp, orders: &mut Vec<Order>) {
        if let Some((_, request)) = self.late.take_if(|(late, _)| *late == order) {
            self.cleared_late(request, refused.is_some(), now, orders);
            return;
        }
        let Some(doing) = &self.doing else { return };
        match (doing.what.clone(), refused) {
            (Progress::Clearing { order: ours, request, loaded }, None) if ours == order => {
                self.cleared(request.handoff, loaded, now, orders);
            }
            (Progress::Clearing { order: ours, .. }, Some(why)) if ours == order => {
                (self.doing, self.braked) = (None, true);
                orders.push(Order::GiveUp(why));
            }
            (Progress::Submitting { order: ours, text }, None) if ours == order => {
                // The turn has begun, whichever report of it arrives first.
                (self.doing, self.working, self.began) = (None, true, Some(now));
                if text.is_mail() {
                    (self.look.mail, self.look.urgent) = (0, None);
                }
                orders.push(Order::Accepted(text));
            }
            (Progress::Submitting { order: ours, text }, Some(_)) if ours == order => {
                (self.doing, self.braked) = (None, true);
                self.not_prompted(&text, orders);
                orders.push(Order::Back(text));
            }
            // The message waits for the end of the turn or the next tool call.
            (Progress::Aborting { order: ours, .. }, Some(_)) if ours == order => self.doing = None,
            // The end of the turn is reported separately.
            _ => {}
        }
    }

    fn cleared(&mut self, handoff: HandoffId, loaded: bool, now: Timestamp, orders: &mut Vec<Order>) {
        orders.push(Order::Cleared);
        if loaded {
            self.loaded(handoff, orders);
        } else {
            self.doing = Some(Doing { what: Progress::Loading { handoff }, until: now + LOAD });
        }
    }

    /// The client carried out an order after we gave it up. A fresh context without a prompt would wait forever, so
    /// prompt it, unless something else has begun meanwhile that does.
    fn cleared_late(
        &mut self,
        request: RotationRequest,
        refused: bool,
        now: Timestamp,
        orders: &mut Vec<Order>,
    ) {
        let loaded = self.look.has_loaded(&request.handoff);
        let rotating = |d: &Doing| matches!(d.what, Progress::Clearing { .. } | Progress::Loading { .. });
        let prompted = self.working || self.braked || self.doing.is_some();
        if refused || prompted && !loaded || self.doing.as_ref().is_some_and(rotating) {
            return;
        }
        let handoff = request.handoff.clone();
        orders.push(Order::Begin(request));
        if prompted {
            self.unprompted = true;
            orders.extend([Order::Cleared, Order::Loaded(handoff)]);
        } else {
            self.cleared(handoff, loaded, now, orders);
        }
    }

    fn loaded(&mut self, handoff: HandoffId, orders: &mut Vec<Order>) {
        orders.push(Order::Loaded(handoff.clone()));
        self.submit(Text::Continuation(handoff), orders);
    }

    fn submit(&mut self, text: Text, orders: &mut Vec<Order>) {
        self.last_order += 1;
        orders.push(Order::Submit(self.last_order, text.clone()));
        // `advance` sets `until`, because it knows the time.
        self.doing = Some(Doing {
            what: Progress::Submitting { order: self.last_order, text },
            until: Timestamp::MAX,
        });
    }

    fn late(&mut self, now: Timestamp, orders: &mut Vec<Order>) {
        if self.working
            && let Some(doing) = &mut self.doing
            && doing.until <= now
            && !matches!(
                doing.what,
                Progress::Loading { .. }
                    | Progress::Aborting { .. }
                    | Progress::Clearing { loaded: true, .. }
            )
        {
            // A person was faster; the client carries the order out when that turn ends.
            doing.until = now + PATIENCE;
            return;
        }
        let Some(doing) = self.doing.take_if(|d| d.until <= now) else { return };
        match doing.what {
            // The hooks reported it although the client did not; a person may have prompted it already.
            Progress::Clearing { request, loaded: true, .. } if self.working => {
                self.unprompted = true;
                orders.extend([Order::Cleared, Order::Loaded(request.handoff)]);
            }
            Progress::Clearing { request, loaded: true, .. } => {
                self.cleared(request.handoff, true, now, orders);
            }
            Progress::Clearing { order, request, .. } => {
                // If the hooks reported a fresh context, only its handoff is missing.
                self.given_up = Some(request.handoff.clone()).filter(|_| self.look.under_way.is_none());
                self.late = Some((order, request));
                orders.push(Order::GiveUp("the client did not answer the order to clear".to_owned()));
            }
            // The hook of the prompt that began this turn tries again, or that of the next one.
            Progress::Loading { handoff } if self.working || self.braked => {
                self.given_up = Some(handoff);
                orders.push(Order::GiveUp(NOT_LOADED.to_owned()));
            }
            Progress::Loading { handoff } => {
                self.loads_late = Some(handoff.clone());
                self.submit(Text::Continuation(handoff), orders);
            }
            Progress::Submitting { text, .. } => {
                // A fresh context without a prompt would wait forever: retry once, then leave it to the person.
                let again = !text.is_mail() && !self.retried;
                (self.retried, self.braked) = (again, !again);
                self.not_prompted(&text, orders);
                orders.push(Order::Back(text));
            }
            Progress::Aborting { .. } => {}
        }
    }

    /// Begins the step that is due, and sets its deadline.
    fn advance(&mut self, now: Timestamp, orders: &mut Vec<Order>) {
        self.held_until = None;
        if self.doing.is_none() && !self.braked && self.interactive {
            self.begin(now, orders);
        }
        if let Some(doing) = &mut self.doing
            && doing.until == Timestamp::MAX
        {
            doing.until = now + PATIENCE;
        }
    }

    fn begin(&mut self, now: Timestamp, orders: &mut Vec<Order>) {
        let until = Timestamp::MAX;
        if self.working {
            let is_new =
                |id: &String| self.look.pending.is_none() && self.interrupted_for.as_ref() < Some(id);
            if let Some(urgent) = self.look.urgent.clone().filter(is_new) {
                self.last_order += 1;
                self.interrupted_for = Some(urgent.clone());
                orders.push(Order::Abort(self.last_order, urgent.clone()));
                self.doing =
                    Some(Doing { what: Progress::Aborting { order: self.last_order, urgent }, until });
            }
            let again = || self.unheard_end().filter(|at| now < *at).unwrap_or(now + POLL);
            self.held_until = self.waits().then(again);
            return;
        }
        // A prompt submitted into such a turn waits for its end, and an urgent message would not end it.
        let is_untold = |began: &Timestamp| *began <= now && self.ended.is_none_or(|ended| ended < *began);
        let untold = self.look.began.filter(is_untold);
        self.held_until = untold.map(|began| began + TOLD).filter(|until| now < *until);
        if self.held_until.is_some() {
            return;
        }
        if let Some(limit) = self.look.limit.filter(|limit| now < *limit) {
            self.held_until = Some(limit);
            return;
        }
        if let Some(pending) = self.look.pending {
            self.held_until = Some(match (pending, self.carries_out) {
                (_, Some(again)) if now < again => again,
                (Unsealed::From(at), _) if now < at => at,
                // Order this once per look: the next look no longer shows it if it was carried out.
                (Unsealed::From(_), _) => {
                    orders.push(Order::CarryOut);
                    *self.carries_out.insert(now + PAUSE)
                }
                (Unsealed::EndOfTurn, _) => now + PAUSE,
            });
            return;
        }
        self.give_up_late(orders);
        let is_wanted = |r: &RotationRequest| self.given_up.as_ref() != Some(&r.handoff);
        let under_way = self.look.request.clone().zip(self.look.under_way);
        if let Some((request, since)) = under_way.filter(|(r, _)| is_wanted(r)) {
            if now < since + LOAD {
                self.held_until = Some(since + LOAD);
                return;
            }
            // Nobody waits for the hooks any more, because an earlier companion ended or the client reported nothing.
            let handoff = request.handoff.clone();
            (self.loads_late, self.late) = (Some(handoff.clone()), None);
            orders.extend([Order::Begin(request), Order::Cleared]);
            self.submit(Text::Continuation(handoff), orders);
            return;
        }
        let is_to_clear = |r: &&RotationRequest| self.look.under_way.is_none() && is_wanted(r);
        if let Some(request) = self.look.request.as_ref().filter(is_to_clear) {
            self.last_order += 1;
            orders.push(Order::Begin(request.clone()));
            orders.push(Order::Clear(self.last_order));
            let what = Progress::Clearing { order: self.last_order, request: request.clone(), loaded: false };
            self.doing = Some(Doing { what, until });
        } else if let Some(handoff) = self.look.owed.take() {
            self.submit(Text::Continuation(handoff), orders);
        } else if self.look.limit.take().is_some() {
            // This delivers waiting mail too.
            self.submit(Text::Unpark, orders);
        } else if self.look.mail > 0 {
            self.submit(Text::Mail, orders);
        }
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
