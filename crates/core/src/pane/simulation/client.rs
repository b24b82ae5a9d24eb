//! The client in the pane, its hooks and the person in front of it: what really happens, whether baton knows it or not.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

use crate::pane::Text;

/// The pieces of text in the composer, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Person(u32),
    Ours(Text, Vec<usize>),
}

/// A hook on its way to the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hook {
    Prompt {
        session: u32,
        mail: Vec<usize>,
        /// Esc took it back, and the client drops what its hooks answer.
        dropped: bool,
    },
    Stop {
        session: u32,
    },
    /// An API error ended the turn; no Stop follows.
    Failure {
        session: u32,
        limit: bool,
    },
    End {
        session: u32,
    },
    Start {
        session: u32,
    },
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) alive: bool,
    /// Another program runs in the pane.
    pub(crate) foreign: bool,
    pub(crate) session: u32,
    pub(crate) working: bool,
    /// Esc cut off the last turn; only the transcript shows it.
    pub(crate) interrupted: bool,
    /// Esc took the last prompt back before its turn began; the transcript shows nothing of it.
    pub(crate) taken_back: bool,
    pub(crate) composer: Vec<Piece>,
    pub(crate) stash: Vec<Piece>,
    /// When the stash comes back.
    pub(crate) returns: Option<Timestamp>,
    pub(crate) dialog: bool,
    pub(crate) in_mode: bool,
    /// It takes no prompt while a fresh context's hooks run.
    busy_until: Timestamp,
    /// The text it reads next, and when the transcript shows it.
    queue: VecDeque<(Timestamp, Vec<Piece>)>,
    pub(crate) hooks: VecDeque<(Timestamp, Hook)>,
    /// Messages in a transcript, and from when on it shows them.
    pub(crate) shown: Vec<(usize, Timestamp)>,
    /// Contexts that were told to continue, and when their transcript shows it.
    pub(crate) continued: Vec<(u32, String, Timestamp)>,
    /// The SessionStart hook of the current context was lost.
    unseen: bool,
    pub(crate) clears: u32,
    pub(crate) escaped: Option<Timestamp>,
    pub(crate) drafts: u32,
    /// Drafts that a person sent or removed.
    pub(crate) finished: Vec<u32>,
}

/// How soon things happen, drawn at random by the world.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fate {
    pub(crate) hook: SignedDuration,
    pub(crate) lost: bool,
    pub(crate) twice: bool,
    pub(crate) flush: SignedDuration,
    pub(crate) stash: SignedDuration,
}

impl Client {
    pub(crate) fn new() -> Self {
        Self {
            alive: true,
            foreign: false,
            session: 1,
            working: true,
            interrupted: false,
            taken_back: false,
            composer: Vec::new(),
            stash: Vec::new(),
            returns: None,
            dialog: false,
            in_mode: false,
            busy_until: Timestamp::MIN,
            queue: VecDeque::new(),
            hooks: VecDeque::new(),
            shown: Vec::new(),
            continued: Vec::new(),
            unseen: false,
            clears: 0,
            escaped: None,
            drafts: 0,
            finished: Vec::new(),
        }
    }

    /// Finds a draft that a person has not finished and that is gone.
    pub(crate) fn lost_draft(&self) -> Option<u32> {
        let here = |id: u32| {
            let piece = Piece::Person(id);
            self.composer.contains(&piece)
                || self.stash.contains(&piece)
                || self.queue.iter().any(|(_, pieces)| pieces.contains(&piece))
        };
        (1..=self.drafts).find(|id| !self.finished.contains(id) && !here(*id))
    }

    /// Whether the transcript shows that this is queued.
    pub(crate) fn queues(&self, now: Timestamp, what: impl Fn(&Piece) -> bool) -> bool {
        self.queue.iter().any(|(at, pieces)| *at <= now && pieces.iter().any(&what))
    }

    /// Hooks of one client come in order, some late, some twice, some never. Returns when this one arrives.
    pub(crate) fn call(&mut self, hook: Hook, now: Timestamp, fate: Fate) -> Timestamp {
        let after = self.hooks.back().map_or(now, |(at, _)| (*at).max(now));
        let at = after.max(now + fate.hook);
        // If SessionStart was lost, the first prompt identifies the session.
        let lost = match hook {
            Hook::Start { .. } => {
                self.unseen = fate.lost;
                fate.lost
            }
            Hook::Prompt { .. } => fate.lost && !std::mem::take(&mut self.unseen),
            _ => fate.lost,
        };
        if lost {
            // It was killed and delays nothing.
            return now;
        }
        self.hooks.push_back((at, hook.clone()));
        if fate.twice {
            self.hooks.push_back((at, hook));
        }
        at
    }

    /// Presses Enter.
    pub(crate) fn submit(
        &mut self,
        pieces: Vec<Piece>,
        now: Timestamp,
        fate: Fate,
    ) -> Result<(), &'static str> {
        if pieces.is_empty() {
            return Ok(());
        }
        if pieces != [Piece::Ours(Text::Clear, Vec::new())] {
            self.composer = std::mem::take(&mut self.stash);
        }
        if now < self.busy_until {
            self.queue.push_back((now + fate.flush, pieces));
            return Ok(());
        }
        self.take(pieces, now, fate)
    }

    fn take(&mut self, pieces: Vec<Piece>, now: Timestamp, fate: Fate) -> Result<(), &'static str> {
        if pieces == [Piece::Ours(Text::Clear, Vec::new())] {
            if self.working {
                // The client says that it cannot clear now.
                return Ok(());
            }
            self.clear(now, fate);
            return Ok(());
        }
        let mut mail = Vec::new();
        // A person who appends to our text and sends it says it themselves.
        let by_a_person = pieces.iter().any(|p| matches!(p, Piece::Person(_)));
        for piece in pieces {
            match piece {
                Piece::Person(id) => self.finished.push(id),
                Piece::Ours(Text::Continuation(handoff), _) => {
                    let text = handoff.to_string();
                    let again =
                        |(session, told, _): &(u32, String, _)| *session == self.session && *told == text;
                    if !by_a_person && self.continued.iter().any(again) {
                        return Err("a context was told twice to go on");
                    }
                    let text = if by_a_person { String::new() } else { text };
                    self.continued.push((self.session, text, now + fate.flush));
                }
                Piece::Ours(_, ids) => {
                    for id in &ids {
                        if self.shown.iter().any(|(shown, _)| shown == id) {
                            return Err("a message was shown twice");
                        }
                        self.shown.push((*id, now + fate.flush));
                    }
                    mail.extend(ids);
                }
            }
        }
        (self.working, self.interrupted, self.taken_back) = (true, false, false);
        self.call(Hook::Prompt { session: self.session, mail, dropped: false }, now, fate);
        Ok(())
    }

    /// Enter, and Esc before the hooks have ended. No other hook follows.
    pub(crate) fn take_back(&mut self, now: Timestamp, fate: Fate) {
        (self.interrupted, self.taken_back) = (false, true);
        self.call(Hook::Prompt { session: self.session, mail: Vec::new(), dropped: true }, now, fate);
    }

    /// A fresh context, whoever asked for it.
    pub(crate) fn clear(&mut self, now: Timestamp, fate: Fate) {
        self.clears += 1;
        if !self.stash.is_empty() {
            self.returns.get_or_insert(now + fate.stash);
        }
        self.call(Hook::End { session: self.session }, now, fate);
        self.session += 1;
        (self.interrupted, self.working, self.taken_back) = (false, false, false);
        self.busy_until = self.call(Hook::Start { session: self.session }, now, fate);
    }

    pub(crate) fn end_turn(&mut self, now: Timestamp, fate: Fate) {
        (self.working, self.dialog) = (false, false);
        self.call(Hook::Stop { session: self.session }, now, fate);
    }

    pub(crate) fn fail_turn(&mut self, limit: bool, now: Timestamp, fate: Fate) {
        (self.working, self.dialog) = (false, false);
        self.call(Hook::Failure { session: self.session, limit }, now, fate);
    }

    /// Lets happen what is due as time passes.
    pub(crate) fn pass(&mut self, now: Timestamp, fate: Fate) -> Result<(), &'static str> {
        if self.returns.is_some_and(|at| at <= now) {
            self.returns = None;
            let typed_over = self.composer.iter().any(|p| matches!(p, Piece::Ours(..)));
            if typed_over && self.stash.iter().any(|p| matches!(p, Piece::Person(_))) {
                return Err("a draft came back into text of ours");
            }
            let mut back = std::mem::take(&mut self.stash);
            back.append(&mut self.composer);
            self.composer = back;
        }
        while now >= self.busy_until
            && !self.working
            && let Some((_, next)) = self.queue.pop_front()
        {
            self.take(next, now, fate)?;
        }
        Ok(())
    }
}
