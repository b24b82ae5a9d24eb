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
/// The hooks of the fresh context load the handoff well before this.
const LOAD: SignedDuration = SignedDuration::from_secs(5);

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
    last_order: u64,
}

/// What the files say: read again whenever they may have changed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Look {
    pub request: Option<RotationRequest>,
    /// Queued messages.
    pub mail: usize,
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
        handoff: HandoffId,
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
}

/// What is submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    /// The prompt with which a fresh context begins.
    Continuation(HandoffId),
    /// The messages that wait.
    Mail,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    Started {
        interactive: bool,
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
    /// When to come back with [`Input::Tick`]; never while nothing is under way.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.doing.as_ref().map(|d| d.until)
    }

    /// The next state, and what to do.
    #[must_use]
    pub fn next(mut self, input: Input, now: Timestamp) -> (Self, Vec<Order>) {
        let braked = self.braked;
        let mut orders = Vec::new();
        match input {
            Input::Started { interactive } => self.interactive = interactive,
            Input::TurnBegan => (self.working, self.braked) = (true, false),
            Input::TurnEnded { aborted } => (self.working, self.braked) = (false, aborted),
            Input::Looked(look) => self.looked(look, &mut orders),
            Input::Done(order) => self.answered(order, None, now, &mut orders),
            Input::Refused(order, why) => self.answered(order, Some(why), now, &mut orders),
            Input::Nothing(order) => {
                let is_it =
                    |d: &mut Doing| matches!(d.what, Step::Submitting { order: ours, .. } if ours == order);
                if self.doing.take_if(is_it).is_some() {
                    self.look.mail = 0;
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

    fn looked(&mut self, look: Look, orders: &mut Vec<Order>) {
        self.look = look;
        let request = self.look.request.as_ref().map(|r| &r.handoff);
        if request.is_none_or(|r| self.given_up.as_ref() != Some(r)) {
            self.given_up = None;
        }
        // The hook that loads a handoff takes its request away.
        match &mut self.doing {
            Some(Doing { what: Step::Clearing { handoff, loaded, .. }, .. }) => {
                *loaded = request != Some(&*handoff);
            }
            Some(Doing { what: Step::Loading { handoff }, .. }) if request != Some(&*handoff) => {
                let handoff = handoff.clone();
                self.loaded(handoff, orders);
            }
            _ => {}
        }
    }

    fn answered(&mut self, order: u64, refused: Option<String>, now: Timestamp, orders: &mut Vec<Order>) {
        let Some(doing) = &self.doing else { return };
        match (doing.what.clone(), refused) {
            (Step::Clearing { order: ours, handoff, loaded }, None) if ours == order => {
                orders.push(Order::Cleared);
                if loaded {
                    self.loaded(handoff, orders);
                } else {
                    self.doing = Some(Doing { what: Step::Loading { handoff }, until: now + LOAD });
                }
            }
            (Step::Clearing { order: ours, .. }, Some(why)) if ours == order => {
                (self.doing, self.braked) = (None, true);
                orders.push(Order::GiveUp(why));
            }
            (Step::Submitting { order: ours, text }, None) if ours == order => {
                // Its turn has begun, whichever word of it comes first.
                (self.doing, self.working) = (None, true);
                if text == Text::Mail {
                    self.look.mail = 0;
                }
                orders.push(Order::Accepted(text));
            }
            (Step::Submitting { order: ours, text }, Some(_)) if ours == order => {
                (self.doing, self.braked) = (None, true);
                orders.push(Order::Back(text));
            }
            _ => {}
        }
    }

    fn loaded(&mut self, handoff: HandoffId, orders: &mut Vec<Order>) {
        orders.push(Order::Loaded(handoff.clone()));
        self.last_order += 1;
        let text = Text::Continuation(handoff);
        orders.push(Order::Submit(self.last_order, text.clone()));
        // `until` is set by `advance`, which knows the time.
        self.doing =
            Some(Doing { what: Step::Submitting { order: self.last_order, text }, until: Timestamp::MAX });
    }

    fn late(&mut self, now: Timestamp, orders: &mut Vec<Order>) {
        if self.working
            && let Some(doing) = &mut self.doing
            && doing.until <= now
            && !matches!(doing.what, Step::Loading { .. })
        {
            // A person was faster: the client carries the order out when that turn ends.
            doing.until = now + PATIENCE;
            return;
        }
        let Some(doing) = self.doing.take_if(|d| d.until <= now) else { return };
        match doing.what {
            Step::Clearing { handoff, .. } => {
                self.given_up = Some(handoff);
                orders.push(Order::GiveUp("the client did not answer the order to clear".to_owned()));
            }
            Step::Loading { handoff } => {
                self.given_up = Some(handoff);
                orders.push(Order::GiveUp("the context is clear, but no hook loaded the handoff".to_owned()));
            }
            Step::Submitting { text, .. } => {
                self.braked = true;
                orders.push(Order::Back(text));
            }
        }
    }

    /// Begins what is due, and stamps what has just begun.
    fn advance(&mut self, now: Timestamp, orders: &mut Vec<Order>) {
        if let Some(doing) = &mut self.doing {
            if doing.until == Timestamp::MAX {
                doing.until = now + PATIENCE;
            }
            return;
        }
        if self.working || self.braked || !self.interactive {
            return;
        }
        let request = self.look.request.as_ref().filter(|r| self.given_up.as_ref() != Some(&r.handoff));
        if let Some(request) = request {
            self.last_order += 1;
            orders.push(Order::Begin(request.clone()));
            orders.push(Order::Clear(self.last_order));
            let what =
                Step::Clearing { order: self.last_order, handoff: request.handoff.clone(), loaded: false };
            self.doing = Some(Doing { what, until: now + PATIENCE });
        } else if self.look.mail > 0 {
            self.last_order += 1;
            orders.push(Order::Submit(self.last_order, Text::Mail));
            let what = Step::Submitting { order: self.last_order, text: Text::Mail };
            self.doing = Some(Doing { what, until: now + PATIENCE });
        }
    }
}

#[cfg(test)]
mod tests;
