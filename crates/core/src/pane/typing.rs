//! From reading the screen to typing text.

use jiff::Timestamp;

use super::screen::{Composer, Screen};
use super::{
    ANSWER, BLINK, DRAFT, Doing, DraftMark, Effect, HIDDEN, INTERRUPT, LAST_ANSWER, MODE, Manners, Phase,
    RETURN, SOON, State, Text,
};
use crate::marks::{CONTINUE, READ, UNPARK};

/// Whether the composer holds exactly our text and nothing else. `/clear` counts only if we are to type it: a person
/// may have written it.
fn is_own(text: &Text, draft: &str, left_clear: bool) -> bool {
    // A narrow pane breaks lines anywhere.
    let draft = dense(draft);
    let continues = (draft.starts_with(&dense(CONTINUE.0)) && draft.ends_with(&dense(CONTINUE.1)))
        || (draft.starts_with(&dense(READ.0)) && draft.ends_with(&dense(READ.1)));
    match text {
        Text::Clear => draft == "/clear",
        Text::Continuation(_) => continues,
        // Sending any text of ours wakes the agent.
        Text::Mail | Text::Unpark => {
            continues
                || draft == dense(UNPARK)
                || draft.starts_with(&dense(crate::message::HEAD))
                || (left_clear && draft == "/clear")
        }
    }
}

/// Whether a person appended to our text. It is theirs now, and must not be stashed: it would return and be sent twice.
fn is_mixed(draft: &str) -> bool {
    let dense_draft = dense(draft);
    let begins = ["/clear", CONTINUE.0].iter().any(|own| dense_draft.starts_with(&dense(own)))
        || (dense_draft.starts_with(&dense(READ.0)) && dense_draft.contains(&dense(READ.1)));
    begins && !is_own(&Text::Clear, draft, false) && !is_own(&Text::Mail, draft, false)
}

fn dense(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// FNV-1a over the visible text.
fn mark(draft: &str) -> DraftMark {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    DraftMark(dense(draft).bytes().fold(0xcbf2_9ce4_8422_2325, mix))
}

/// A client folds a long paste into a note; anything typed after it would show.
fn is_folded(draft: &str) -> bool {
    draft.starts_with("[Pasted ") && draft.ends_with(']')
}

impl State {
    /// Handles the screen that was read just before typing.
    pub(super) fn read(
        &mut self,
        screen: &Screen,
        manners: Manners,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let Some(doing) = self.doing.clone() else { return };
        match doing.step {
            Phase::Reading { text, left_mode, stashed } => {
                if screen.in_mode {
                    return self.leave_mode(
                        Phase::Reading { text, left_mode: true, stashed },
                        left_mode,
                        now,
                        effects,
                    );
                }
                match &screen.composer {
                    Composer::Empty if self.returns_by.is_some_and(|at| now < at) => {
                        // The draft is on its way back: text typed now would merge with it.
                        self.doing = None;
                        self.not_before = Some(now + BLINK);
                    }
                    Composer::Empty => {
                        if self.was_back {
                            self.returned(effects);
                        }
                        (self.entered_own, self.left_clear) = (false, false);
                        self.type_text(text, now, effects);
                    }
                    Composer::Hidden => self.wait(HIDDEN, now, effects),
                    Composer::Draft(draft) if !self.entered_own && is_own(&text, draft, self.left_clear) => {
                        self.send_off_own(text, now, effects);
                    }
                    // A message of ours lost its Enter. If we stashed it, it would come back after being delivered by
                    // other means.
                    Composer::Draft(draft)
                        if matches!(text, Text::Clear | Text::Continuation(_))
                            && !self.entered_own
                            && is_own(&Text::Mail, draft, false) =>
                    {
                        self.send_off_own(Text::Mail, now, effects);
                    }
                    // A person appended to our continuation, and will send it.
                    Composer::Draft(draft)
                        if is_mixed(draft)
                            && matches!(text, Text::Continuation(_))
                            && !self.is_unloaded() =>
                    {
                        (self.doing, self.to_continue) = (None, None);
                        effects.push(Effect::Back(text));
                    }
                    // A client that is interrupted before it has answered puts the prompt back into the composer.
                    Composer::Draft(draft)
                        if (!matches!(text, Text::Mail | Text::Unpark) || self.was_empty)
                            && manners.can_stash
                            && !is_mixed(draft)
                            && stashed.is_none()
                            && self.put_by.is_none_or(|put_by| put_by == mark(draft)) =>
                    {
                        if self.put_by.is_some() {
                            self.returned(effects);
                        }
                        let stashed = Some(mark(draft));
                        self.put_by = stashed;
                        effects.extend([Effect::Stash(mark(draft)), Effect::Read]);
                        self.doing = Some(Doing {
                            step: Phase::Reading { text, left_mode, stashed },
                            until: now + SOON,
                        });
                    }
                    Composer::Draft(draft) => {
                        // The stash key did nothing.
                        if stashed == Some(mark(draft)) {
                            self.returned(effects);
                        }
                        self.wait(DRAFT, now, effects);
                    }
                }
            }
            Phase::Interrupting { left_mode } => {
                if screen.in_mode {
                    return self.leave_mode(Phase::Interrupting { left_mode: true }, left_mode, now, effects);
                }
                if screen.composer == Composer::Hidden {
                    return self.wait(HIDDEN, now, effects);
                }
                self.say(None, effects);
                (self.interrupted, self.escaped) = (self.look.turn_since, Some(now));
                self.interrupted_for = self.look.urgent.clone().max(self.interrupted_for.take());
                self.was_empty = screen.composer == Composer::Empty;
                effects.push(Effect::Escape);
                self.doing = Some(Doing { step: Phase::Interrupted, until: now + INTERRUPT });
            }
            // The client dropped the `/clear`, and the next text would go into the old context.
            Phase::Checking { text: Text::Clear, .. } if manners.lazy_start && screen.refused => {
                (self.doing, self.to_continue) = (None, None);
                self.not_before = Some(now + SOON);
            }
            Phase::Checking { text: Text::Clear, .. }
                if manners.lazy_start
                    && !matches!(&screen.composer, Composer::Draft(d) if is_own(&Text::Clear, d, false)) =>
            {
                effects.push(Effect::Cleared);
                (self.doing, self.loads_late, self.look.clear) = (None, self.to_continue.is_some(), false);
            }
            Phase::Checking { text, since } => {
                if screen.in_mode || screen.composer == Composer::Hidden {
                    // Something covers the composer; look again until the time is up.
                    let retried = now > since + LAST_ANSWER;
                    let step = Phase::Waiting { text, since, retried };
                    self.doing = Some(Doing { step, until: now + ANSWER });
                    return;
                }
                // Enter can only send text that is still there; text that a person writes meanwhile is theirs.
                if let Composer::Draft(draft) = &screen.composer
                    && (is_own(&text, draft, false) || is_folded(draft))
                {
                    effects.push(Effect::Enter);
                    self.submitted(now);
                }
                self.doing = Some(Doing {
                    step: Phase::Waiting { text, since, retried: true },
                    until: now + LAST_ANSWER,
                });
            }
            _ => {}
        }
    }

    /// We submitted something, so a client with a stashed draft restores it.
    fn submitted(&mut self, now: Timestamp) {
        if self.put_by.is_some() {
            self.returns_by = Some(now + RETURN);
        }
    }

    fn returned(&mut self, effects: &mut Vec<Effect>) {
        (self.put_by, self.returns_by, self.was_back) = (None, None, false);
        effects.push(Effect::Returned);
    }

    /// Our own text is in the composer: its attendant was killed before Enter, or the Enter was lost.
    fn send_off_own(&mut self, text: Text, now: Timestamp, effects: &mut Vec<Effect>) {
        self.entered_own = true;
        self.submitted(now);
        self.type_text(text.clone(), now, effects);
        if effects.pop_if(|e| matches!(e, Effect::Type(_))).is_some() {
            effects.push(Effect::Enter);
            let step = Phase::Waiting { text, since: now, retried: true };
            self.doing = Some(Doing { step, until: now + LAST_ANSWER });
        }
    }

    fn leave_mode(&mut self, again: Phase, tried: bool, now: Timestamp, effects: &mut Vec<Effect>) {
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
            match self.look.request.clone() {
                Some(request) => {
                    self.to_continue = Some(request.handoff.clone());
                    self.open.clone_from(&self.to_continue);
                    effects.push(Effect::Begin(request));
                }
                // An ordered clear loads nothing, so journal nothing.
                None if self.look.clear => {}
                None => {
                    self.doing = None;
                    return;
                }
            }
        }
        effects.push(Effect::Type(text.clone()));
        self.doing = Some(Doing { step: Phase::Typing { text }, until: now + ANSWER });
    }

    pub(super) fn typed(&mut self, done: bool, now: Timestamp) {
        let text = match &self.doing {
            Some(Doing { step: Phase::Typing { text }, .. }) => text.clone(),
            // An Enter for our own text that was found there.
            Some(Doing { step: Phase::Waiting { text, .. }, .. }) if !done && self.entered_own => {
                self.entered_own = false;
                text.clone()
            }
            _ => return,
        };
        if done {
            self.submitted(now);
            let step = Phase::Waiting { text, since: now, retried: false };
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
