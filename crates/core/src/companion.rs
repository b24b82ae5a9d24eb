//! What the companion of a client decides: when to clear its context, when to submit a prompt, when to wait.
//!
//! One companion runs beside each client that has loaded our mod. It hears of turns from the mod and of requests
//! and mail from the files, and gives at most one order at a time. This module decides; `baton companion` carries
//! out, and the mod only passes on.

pub mod tail;
pub mod wire;

use jiff::{SignedDuration, Timestamp};

use crate::agent::RotationRequest;
use crate::handoff::HandoffId;

/// An order that the client has not answered by then was not carried out.
const PATIENCE: SignedDuration = SignedDuration::from_secs(10);
/// The hooks of the fresh context load the handoff well before this, also on a machine that is busy.
const LOAD: SignedDuration = SignedDuration::from_secs(10);

/// By then the mod has told of a turn that the hooks saw begin, or there is none: something else refused its prompt.
const TOLD: SignedDuration = SignedDuration::from_secs(3);

/// What a companion knows. One at a time is under way; the next begins when that has an answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    /// A person can be there: headless runs end by themselves and are never cleared or woken.
    interactive: bool,
    working: bool,
    /// The person pressed Esc: the client takes no orders until they type again.
    braked: bool,
    look: Look,
    doing: Option<Doing>,
    /// A rotation that did not come about is not tried again and again.
    given_up: Option<HandoffId>,
    /// The continuation of this context has been tried a second time.
    retried: bool,
    /// An order to clear that was given up because it had no answer; the answer may still come.
    late: Option<(u64, RotationRequest)>,
    /// The newest urgent message that this turn was interrupted for: once is enough.
    interrupted_for: Option<String>,
    /// When the last turn ended.
    ended: Option<Timestamp>,
    /// Nothing is begun before: a turn has begun that the mod has yet to tell of.
    held_until: Option<Timestamp>,
    last_order: u64,
}

/// What the files say: read again whenever they may have changed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Look {
    pub request: Option<RotationRequest>,
    /// The request is of a conversation that is over: the hooks of the one that runs now are loading what was
    /// asked for.
    pub under_way: bool,
    /// Queued messages.
    pub mail: usize,
    /// The newest of them that is urgent, by its id.
    pub urgent: Option<String>,
    /// A rotation in place has loaded this handoff and nothing has been said to the fresh context since: an
    /// earlier companion ended in between.
    pub owed: Option<HandoffId>,
    /// The hooks saw the turn end some time ago; the mod's word of it may have been lost.
    pub idle: bool,
    /// When the hooks saw the turn begin that runs, if one does.
    pub began: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
struct Doing {
    what: Step,
    until: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// `/clear` was ordered; `loaded` if the fresh context was faster than the answer.
    Clearing {
        order: u64,
        request: RotationRequest,
        loaded: bool,
    },
    /// The context is clear; its first hook loads the handoff.
    Loading {
        handoff: HandoffId,
    },
    Submitting {
        order: u64,
        text: Text,
    },
    /// The turn is being ended for an urgent message.
    Aborting {
        order: u64,
        urgent: String,
    },
}

/// What is submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    /// The prompt with which a fresh context begins.
    Continuation(HandoffId),
    /// The messages that wait.
    Mail,
    /// The messages that wait, the turn having been interrupted for this one; a hook may have handed it over
    /// while the turn was being ended, and then nobody has acted upon it.
    Urgent(String),
}

impl Text {
    fn is_mail(&self) -> bool {
        !matches!(self, Self::Continuation(_))
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A companion may come into the middle of a turn, when an earlier one has ended.
    Started {
        interactive: bool,
        working: bool,
    },
    TurnBegan,
    TurnEnded {
        aborted: bool,
    },
    Looked(Look),
    Done(u64),
    Refused(u64, String),
    /// There was nothing left to submit: a hook had been faster.
    Nothing(u64),
    /// Time has passed; see [`State::deadline`].
    Tick,
}

/// What to do now, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// Journal a rotation, before anything is done.
    Begin(RotationRequest),
    Clear(u64),
    /// End the running turn.
    Abort(u64),
    /// Journal: the context is clear.
    Cleared,
    /// Journal: the fresh context has the handoff.
    Loaded(HandoffId),
    /// Journal: no rotation now, and why.
    GiveUp(String),
    Submit(u64, Text),
    /// The client took it.
    Accepted(Text),
    /// The client did not take it: what is queued stays queued.
    Back(Text),
    /// Keep the record others read up to date: does the client take orders?
    Braked(bool),
}

impl State {
    /// When to come back with [`Input::Tick`]; never while nothing is under way or held.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.doing.as_ref().map(|d| d.until).or(self.held_until)
    }

    /// The next state, and what to do.
    #[must_use]
    pub fn next(mut self, input: Input, now: Timestamp) -> (Self, Vec<Order>) {
        let braked = self.braked;
        let mut orders = Vec::new();
        match input {
            Input::Started { interactive, working } => {
                (self.interactive, self.working) = (interactive, working);
                // The client may still answer orders of an earlier companion: numbers are never used again.
                self.last_order = u64::try_from(now.as_millisecond()).unwrap_or_default();
            }
            Input::TurnBegan => (self.working, self.braked, self.interrupted_for) = (true, false, None),
            Input::TurnEnded { aborted } => self.turn_ended(aborted, now, &mut orders),
            Input::Looked(look) => self.looked(look, now, &mut orders),
            Input::Done(order) => self.answered(order, None, now, &mut orders),
            Input::Refused(order, why) => self.answered(order, Some(why), now, &mut orders),
            Input::Nothing(order) => {
                let is_it =
                    |d: &mut Doing| matches!(d.what, Step::Submitting { order: ours, .. } if ours == order);
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
            // Now the client can carry out what had to wait for this turn.
            doing.until = doing.until.max(now + PATIENCE);
        }
    }

    fn turn_ended(&mut self, aborted: bool, now: Timestamp, orders: &mut Vec<Order>) {
        self.fell_idle(now);
        self.braked = aborted;
        let ours = |d: &mut Doing| matches!(d.what, Step::Aborting { .. });
        let Some(Doing { what: Step::Aborting { urgent, .. }, .. }) = self.doing.take_if(ours) else {
            return;
        };
        if aborted && self.interactive {
            // Not by the person: should that be wrong, the client refuses what comes now.
            self.braked = false;
            self.submit(Text::Urgent(urgent), orders);
        }
    }

    fn looked(&mut self, look: Look, now: Timestamp, orders: &mut Vec<Order>) {
        self.look = look;
        if self.working && self.look.idle {
            self.fell_idle(now);
        }
        let request = self.look.request.as_ref().map(|r| &r.handoff);
        if request.is_none_or(|r| self.given_up.as_ref() != Some(r)) {
            self.given_up = None;
        }
        // The hook that loads a handoff takes its request away.
        match &mut self.doing {
            Some(Doing { what: Step::Clearing { request: ours, loaded, .. }, .. }) => {
                *loaded = request != Some(&ours.handoff);
            }
            Some(Doing { what: Step::Loading { handoff }, .. }) if request != Some(&*handoff) => {
                let handoff = handoff.clone();
                self.loaded(handoff, orders);
            }
            _ => {}
        }
    }

    fn answered(&mut self, order: u64, refused: Option<String>, now: Timestamp, orders: &mut Vec<Order>) {
        if let Some((_, request)) = self.late.take_if(|(late, _)| *late == order) {
            self.cleared_late(request, refused.is_some(), now, orders);
            return;
        }
        let Some(doing) = &self.doing else { return };
        match (doing.what.clone(), refused) {
            (Step::Clearing { order: ours, request, loaded }, None) if ours == order => {
                self.cleared(request.handoff, loaded, now, orders);
            }
            (Step::Clearing { order: ours, .. }, Some(why)) if ours == order => {
                (self.doing, self.braked) = (None, true);
                orders.push(Order::GiveUp(why));
            }
            (Step::Submitting { order: ours, text }, None) if ours == order => {
                // Its turn has begun, whichever word of it comes first.
                (self.doing, self.working) = (None, true);
                if text.is_mail() {
                    (self.look.mail, self.look.urgent) = (0, None);
                }
                orders.push(Order::Accepted(text));
            }
            (Step::Submitting { order: ours, text }, Some(_)) if ours == order => {
                (self.doing, self.braked) = (None, true);
                orders.push(Order::Back(text));
            }
            // The message waits for the end of the turn, or the next tool call.
            (Step::Aborting { order: ours, .. }, Some(_)) if ours == order => self.doing = None,
            // The end of the turn is told by itself.
            _ => {}
        }
    }

    fn cleared(&mut self, handoff: HandoffId, loaded: bool, now: Timestamp, orders: &mut Vec<Order>) {
        orders.push(Order::Cleared);
        if loaded {
            self.loaded(handoff, orders);
        } else {
            self.doing = Some(Doing { what: Step::Loading { handoff }, until: now + LOAD });
        }
    }

    /// The client has carried out an order that was given up: a fresh context that nobody prompts would stand
    /// still for ever. If something else has begun meanwhile, that prompts it.
    fn cleared_late(
        &mut self,
        request: RotationRequest,
        refused: bool,
        now: Timestamp,
        orders: &mut Vec<Order>,
    ) {
        let loaded = self.look.request.as_ref().is_none_or(|r| r.handoff != request.handoff);
        let rotating = |d: &Doing| matches!(d.what, Step::Clearing { .. } | Step::Loading { .. });
        let prompted = self.working || self.braked || self.doing.is_some();
        if refused || prompted && !loaded || self.doing.as_ref().is_some_and(rotating) {
            return;
        }
        let handoff = request.handoff.clone();
        orders.push(Order::Begin(request));
        if prompted {
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
        // `until` is set by `advance`, which knows the time.
        self.doing =
            Some(Doing { what: Step::Submitting { order: self.last_order, text }, until: Timestamp::MAX });
    }

    fn late(&mut self, now: Timestamp, orders: &mut Vec<Order>) {
        if self.working
            && let Some(doing) = &mut self.doing
            && doing.until <= now
            && !matches!(
                doing.what,
                Step::Loading { .. } | Step::Aborting { .. } | Step::Clearing { loaded: true, .. }
            )
        {
            // A person was faster: the client carries the order out when that turn ends.
            doing.until = now + PATIENCE;
            return;
        }
        let Some(doing) = self.doing.take_if(|d| d.until <= now) else { return };
        match doing.what {
            // The hooks have said what the client has not; a person may have prompted it already.
            Step::Clearing { request, loaded: true, .. } if self.working => {
                orders.extend([Order::Cleared, Order::Loaded(request.handoff)]);
            }
            Step::Clearing { request, loaded: true, .. } => {
                self.cleared(request.handoff, true, now, orders);
            }
            Step::Clearing { order, request, .. } => {
                self.given_up = Some(request.handoff.clone());
                self.late = Some((order, request));
                orders.push(Order::GiveUp("the client did not answer the order to clear".to_owned()));
            }
            Step::Loading { handoff } => {
                self.given_up = Some(handoff);
                orders.push(Order::GiveUp("the context is clear, but no hook loaded the handoff".to_owned()));
            }
            Step::Submitting { text, .. } => {
                // A fresh context that nobody prompts would stand still: once more, then it is left to the person.
                let again = !text.is_mail() && !self.retried;
                (self.retried, self.braked) = (again, !again);
                orders.push(Order::Back(text));
            }
            Step::Aborting { .. } => {}
        }
    }

    /// Begins what is due, and stamps what has just begun.
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
            let urgent = self.look.urgent.clone().filter(|id| self.interrupted_for.as_ref() < Some(id));
            if let Some(urgent) = urgent {
                self.last_order += 1;
                self.interrupted_for = Some(urgent.clone());
                orders.push(Order::Abort(self.last_order));
                self.doing = Some(Doing { what: Step::Aborting { order: self.last_order, urgent }, until });
            }
            return;
        }
        // What is submitted into such a turn waits for its end, and an urgent message would not end it.
        let is_untold = |began: &Timestamp| *began <= now && self.ended.is_none_or(|ended| ended < *began);
        let untold = self.look.began.filter(is_untold);
        self.held_until = untold.map(|began| began + TOLD).filter(|until| now < *until);
        if self.held_until.is_some() {
            return;
        }
        let wanted =
            |r: &&RotationRequest| !self.look.under_way && self.given_up.as_ref() != Some(&r.handoff);
        if let Some(request) = self.look.request.as_ref().filter(wanted) {
            self.last_order += 1;
            orders.push(Order::Begin(request.clone()));
            orders.push(Order::Clear(self.last_order));
            let what = Step::Clearing { order: self.last_order, request: request.clone(), loaded: false };
            self.doing = Some(Doing { what, until });
        } else if let Some(handoff) = self.look.owed.take() {
            self.submit(Text::Continuation(handoff), orders);
        } else if self.look.mail > 0 {
            self.submit(Text::Mail, orders);
        }
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
