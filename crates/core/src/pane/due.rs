//! Decides what is due now, and when to look again.

use jiff::Timestamp;

use super::{Doing, Effect, LOAD, NOT_LOADED, PAIR, Phase, RETURN, SOON, State, TASKS, Text};
use crate::agent::RotationRequest;
use crate::session::Turn;

impl State {
    /// When to send [`Input::Tick`](super::Input::Tick); `None` while nothing is under way or awaited.
    pub fn deadline(&self) -> Option<Timestamp> {
        if let Some(doing) = &self.doing {
            return Some(doing.until);
        }
        let wants_mail = self.look.mail > 0;
        let wants = wants_mail
            || self.look.request.is_some()
            || self.to_continue.is_some()
            || self.look.unpark
            || self.look.clear;
        let holds = self.look.hold_until.filter(|_| self.look.request.is_some());
        let mail = self.mail_not_before.filter(|_| wants_mail);
        [self.not_before.filter(|_| wants), holds, mail].into_iter().flatten().min()
    }

    pub(super) fn wait(&mut self, why: &'static str, now: Timestamp, effects: &mut Vec<Effect>) {
        self.doing = None;
        // Back off: a draft or a dialog may stay for hours.
        self.not_before = Some(now + SOON * (1 << self.in_the_way.min(4)));
        self.in_the_way += 1;
        self.say(Some(why), effects);
    }

    pub(super) fn say(&mut self, why: Option<&'static str>, effects: &mut Vec<Effect>) {
        if self.waits != why {
            self.waits = why;
            effects.push(Effect::Waits(why));
        }
    }

    /// Begins the step that is due, and sets its deadline.
    pub(super) fn advance(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.returns_by == Some(Timestamp::MAX) {
            self.returns_by = Some(now + RETURN);
        }
        if let Some(doing) = &mut self.doing {
            if doing.until == Timestamp::MAX {
                doing.until = now + LOAD;
            }
            return;
        }
        if self.not_before.is_some_and(|at| at > now) {
            return;
        }
        self.not_before = None;
        let Some(step) = self.due(now, effects) else { return };
        effects.push(Effect::Read);
        self.doing = Some(Doing { step, until: now + SOON });
    }

    /// The request whose fresh context runs without its handoff while nobody attends to it.
    fn unloaded(&self) -> Option<RotationRequest> {
        let is_waiting = self.is_unloaded() && !self.look.heard && self.look.turn == Turn::Idle;
        let request = self.look.request.clone().filter(|_| is_waiting && self.open.is_none());
        request.filter(|request| self.given_up.as_ref() != Some(&request.handoff))
    }

    /// Prompts such a context once its hooks have had enough time; the hook of that prompt tries again.
    fn prompt_unloaded(
        &mut self,
        request: RotationRequest,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) -> Option<Phase> {
        let from = self.look.turn_since.map_or(now, |at| at + LOAD);
        if now < from {
            self.not_before = Some(from);
            return None;
        }
        let handoff = request.handoff.clone();
        self.open = Some(handoff.clone());
        (self.to_continue, self.loads_late) = (Some(handoff.clone()), true);
        effects.extend([Effect::Begin(request), Effect::Cleared]);
        let text = Text::Continuation(handoff);
        Some(Phase::Reading { text, left_mode: false, stashed: None })
    }

    fn due(&mut self, now: Timestamp, effects: &mut Vec<Effect>) -> Option<Phase> {
        let reading = |text| Some(Phase::Reading { text, left_mode: false, stashed: None });
        if !self.look.ready {
            return None;
        }
        let working = self.look.turn == Turn::Working;
        if let Some(at) =
            self.escaped.and_then(|at| at.checked_add(PAIR).ok()).filter(|at| working && *at > now)
        {
            self.not_before = Some(at);
            return None;
        }
        let may_interrupt =
            working && self.look.turn_since.is_some() && self.interrupted != self.look.turn_since;
        if let Some(handoff) = self.to_continue.clone() {
            // Before its first hook we know only the session that is over.
            let is_lazy = self.loads_late && !self.is_unloaded();
            if self.look.turn == Turn::Idle && (is_lazy || !self.look.heard) {
                return reading(Text::Continuation(handoff));
            }
            if self.is_unloaded() {
                // It was prompted, and no hook of that prompt loaded the handoff.
                self.give_up(NOT_LOADED, effects);
            }
            // Someone else began the first turn of the fresh context. It has its handoff, so we need not prompt it.
            (self.to_continue, self.loads_late) = (None, false);
        }
        if self.open.is_some() && self.look.request.as_ref().map(|r| &r.handoff) != self.open.as_ref() {
            self.give_up("nobody asks for it any more", effects);
        }
        if let Some(request) = self.unloaded() {
            return self.prompt_unloaded(request, now, effects);
        }
        let request = self.look.request.as_ref().filter(|r| {
            self.given_up.as_ref() != Some(&r.handoff) && Some(&r.session) == self.look.session.as_ref()
        });
        if let Some(request) = request {
            if self.look.hold_until.is_some_and(|until| until > now) && !request.at_once {
                self.say(Some(TASKS), effects);
                return None;
            }
            return match self.look.turn {
                Turn::Idle => reading(Text::Clear),
                Turn::Working if request.at_once && may_interrupt => {
                    Some(Phase::Interrupting { left_mode: false })
                }
                _ => None,
            };
        }
        if self.look.clear {
            return if self.look.turn == Turn::Idle { reading(Text::Clear) } else { None };
        }
        if self.look.unpark && self.look.turn == Turn::Idle {
            return reading(Text::Unpark);
        }
        if self.look.mail == 0 {
            self.say(None, effects);
            return None;
        }
        let is_new = |id: &String| self.interrupted_for.as_ref() < Some(id);
        match self.look.turn {
            Turn::Idle if self.mail_not_before.is_none_or(|at| at <= now) => reading(Text::Mail),
            Turn::Working if may_interrupt && self.look.urgent.as_ref().is_some_and(is_new) => {
                Some(Phase::Interrupting { left_mode: false })
            }
            _ => None,
        }
    }
}
