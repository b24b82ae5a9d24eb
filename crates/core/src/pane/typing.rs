//! From a look at the screen to typed text.

use jiff::Timestamp;

use super::screen::{Composer, Screen};
use super::{
    ANSWER, BLINK, CONTINUE, DRAFT, Doing, Effect, HIDDEN, INTERRUPT, LAST_ANSWER, MODE, Manners, READ,
    RETURN, SOON, State, Step, Text,
};

/// Is what lies in the composer text of ours? `/clear` only if it is to be typed: a person may have written that.
fn is_own(text: &Text, draft: &str, left_clear: bool) -> bool {
    let continues = draft.starts_with(CONTINUE) || (draft.starts_with(READ.0) && draft.ends_with(READ.1));
    match text {
        Text::Clear => draft == "/clear",
        Text::Continuation(_) => continues,
        Text::Mail => continues || draft.starts_with("[baton message m") || (left_clear && draft == "/clear"),
    }
}

impl State {
    /// The screen, just before something is typed.
    pub(super) fn read(
        &mut self,
        screen: &Screen,
        manners: Manners,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let Some(doing) = self.doing.clone() else { return };
        match doing.step {
            Step::Reading { text, left_mode, stashed } => {
                if screen.in_mode {
                    return self.leave_mode(
                        Step::Reading { text, left_mode: true, stashed },
                        left_mode,
                        now,
                        effects,
                    );
                }
                match &screen.composer {
                    Composer::Empty if !stashed && self.returns_by.is_some_and(|at| now < at) => {
                        // It is on its way back: what is typed now would become one text with it.
                        self.doing = None;
                        self.not_before = Some(now + BLINK);
                    }
                    Composer::Empty => {
                        self.returns_by = stashed.then_some(now + RETURN);
                        (self.entered_own, self.left_clear) = (false, false);
                        self.type_text(text, now, effects);
                    }
                    Composer::Hidden => self.wait(HIDDEN, now, effects),
                    Composer::Draft(draft) if !self.entered_own && is_own(&text, draft, self.left_clear) => {
                        self.send_off_own(text, now, effects);
                    }
                    // A client that is interrupted before it has answered puts the prompt back into the composer.
                    Composer::Draft(_)
                        if (text != Text::Mail || self.was_empty) && manners.can_stash && !stashed =>
                    {
                        effects.extend([Effect::Stash, Effect::Read]);
                        self.doing = Some(Doing {
                            step: Step::Reading { text, left_mode, stashed: true },
                            until: now + SOON,
                        });
                    }
                    Composer::Draft(_) => self.wait(DRAFT, now, effects),
                }
            }
            Step::Interrupting { left_mode } => {
                if screen.in_mode {
                    return self.leave_mode(Step::Interrupting { left_mode: true }, left_mode, now, effects);
                }
                if screen.composer == Composer::Hidden {
                    return self.wait(HIDDEN, now, effects);
                }
                self.say(None, effects);
                self.interrupted = self.look.turn_since;
                self.was_empty = screen.composer == Composer::Empty;
                effects.push(Effect::Escape);
                self.doing = Some(Doing { step: Step::Interrupted, until: now + INTERRUPT });
            }
            Step::Checking { text, since } => {
                if screen.in_mode || screen.composer == Composer::Hidden {
                    // Something lies over it; it is looked at again until its time is over.
                    let retried = now > since + LAST_ANSWER;
                    let step = Step::Waiting { text, since, retried };
                    self.doing = Some(Doing { step, until: now + ANSWER });
                    return;
                }
                // Only what is still there can be sent off by an Enter.
                if matches!(screen.composer, Composer::Draft(_)) {
                    effects.push(Effect::Enter);
                }
                self.doing = Some(Doing {
                    step: Step::Waiting { text, since, retried: true },
                    until: now + LAST_ANSWER,
                });
            }
            _ => {}
        }
    }

    /// Our own text lies in the composer: whoever typed it was killed before its Enter, or the Enter was lost.
    fn send_off_own(&mut self, text: Text, now: Timestamp, effects: &mut Vec<Effect>) {
        self.entered_own = true;
        if text == Text::Mail {
            // Which messages it holds is told by the hook that sees them.
            effects.push(Effect::Enter);
            self.doing = None;
            self.not_before = Some(now + ANSWER);
            return;
        }
        self.type_text(text.clone(), now, effects);
        if effects.pop_if(|e| matches!(e, Effect::Type(_))).is_some() {
            effects.push(Effect::Enter);
            let step = Step::Waiting { text, since: now, retried: true };
            self.doing = Some(Doing { step, until: now + LAST_ANSWER });
        }
    }

    fn leave_mode(&mut self, again: Step, tried: bool, now: Timestamp, effects: &mut Vec<Effect>) {
        if tried {
            return self.wait(MODE, now, effects);
        }
        effects.extend([Effect::LeaveMode, Effect::Read]);
        self.doing = Some(Doing { step: again, until: now + SOON });
    }

    fn type_text(&mut self, text: Text, now: Timestamp, effects: &mut Vec<Effect>) {
        self.say(None, effects);
        (self.in_the_way, self.was_empty) = (0, false);
        if text == Text::Clear {
            let Some(request) = self.look.request.clone() else {
                self.doing = None;
                return;
            };
            self.to_continue = Some(request.handoff.clone());
            effects.push(Effect::Begin(request));
        }
        effects.push(Effect::Type(text.clone()));
        self.doing = Some(Doing { step: Step::Typing { text }, until: now + ANSWER });
    }

    pub(super) fn typed(&mut self, done: bool, now: Timestamp) {
        let Some(Doing { step: Step::Typing { text }, .. }) = &self.doing else { return };
        let text = text.clone();
        if done {
            let step = Step::Waiting { text, since: now, retried: false };
            self.doing = Some(Doing { step, until: now + ANSWER });
        } else {
            // Somebody was faster by a keystroke; nothing went out.
            if text == Text::Clear {
                self.to_continue = None;
            }
            self.doing = None;
            self.not_before = Some(now + SOON);
        }
    }
}
