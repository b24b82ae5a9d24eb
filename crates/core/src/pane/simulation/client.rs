//! The client in the pane, its hooks and the person before it: what really happens, whatever anybody knows of it.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

use crate::pane::Text;

/// What lies in the composer, one behind the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Person(u32),
    Ours(Text, Vec<usize>),
}

/// A hook on its way to the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hook {
    Prompt { session: u32, mail: Vec<usize> },
    Stop { session: u32 },
    End { session: u32 },
    Start { session: u32 },
}

#[derive(Debug)]
pub struct Client {
    pub alive: bool,
    /// Another program runs in the pane.
    pub foreign: bool,
    pub session: u32,
    pub working: bool,
    /// The last turn was cut off by Esc; only the transcript tells.
    pub interrupted: bool,
    pub composer: Vec<Piece>,
    pub stash: Vec<Piece>,
    /// The stash comes back then.
    pub returns: Option<Timestamp>,
    pub dialog: bool,
    pub in_mode: bool,
    /// It takes no prompt while the hooks of a fresh context run.
    busy_until: Timestamp,
    /// What it will take next, and from when on the transcript shows that.
    queue: VecDeque<(Timestamp, Vec<Piece>)>,
    pub hooks: VecDeque<(Timestamp, Hook)>,
    /// Messages in a transcript, and from when on it shows them.
    pub shown: Vec<(usize, Timestamp)>,
    /// Contexts that were told to go on, and from when on their transcript shows it.
    pub continued: Vec<(u32, String, Timestamp)>,
    /// The hook with which the present context began was lost.
    unseen: bool,
    pub clears: u32,
    pub escaped: Option<Timestamp>,
    pub drafts: u32,
    /// Drafts that a person sent off or took away.
    pub finished: Vec<u32>,
}

/// How soon things happen; thrown by the dice of the world.
#[derive(Debug, Clone, Copy)]
pub struct Fate {
    pub hook: SignedDuration,
    pub lost: bool,
    pub twice: bool,
    pub flush: SignedDuration,
    pub stash: SignedDuration,
}

impl Client {
    pub fn new() -> Self {
        Self {
            alive: true,
            foreign: false,
            session: 1,
            working: true,
            interrupted: false,
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

    /// Everything a person has written and not finished is still somewhere.
    pub fn lost_draft(&self) -> Option<u32> {
        let here = |id: u32| {
            let piece = Piece::Person(id);
            self.composer.contains(&piece)
                || self.stash.contains(&piece)
                || self.queue.iter().any(|(_, pieces)| pieces.contains(&piece))
        };
        (1..=self.drafts).find(|id| !self.finished.contains(id) && !here(*id))
    }

    /// Does the transcript show that this waits to be taken?
    pub fn queues(&self, now: Timestamp, what: impl Fn(&Piece) -> bool) -> bool {
        self.queue.iter().any(|(at, pieces)| *at <= now && pieces.iter().any(&what))
    }

    /// Hooks of one client come in their order, some late, some twice, some never. When it will have come.
    pub fn call(&mut self, hook: Hook, now: Timestamp, fate: Fate) -> Timestamp {
        let after = self.hooks.back().map_or(now, |(at, _)| (*at).max(now));
        let at = after.max(now + fate.hook);
        // Of a session whose start nobody saw its first prompt tells; who sees neither could only guess.
        let lost = match hook {
            Hook::Start { .. } => {
                self.unseen = fate.lost;
                fate.lost
            }
            Hook::Prompt { .. } => fate.lost && !std::mem::take(&mut self.unseen),
            _ => fate.lost,
        };
        if lost {
            // It was killed, and holds nobody up.
            return now;
        }
        self.hooks.push_back((at, hook.clone()));
        if fate.twice {
            self.hooks.push_back((at, hook));
        }
        at
    }

    /// Enter.
    pub fn submit(&mut self, pieces: Vec<Piece>, now: Timestamp, fate: Fate) -> Result<(), &'static str> {
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
                // The client says that it cannot now.
                return Ok(());
            }
            self.clear(now, fate);
            return Ok(());
        }
        let mut mail = Vec::new();
        // Who writes on behind text of ours and sends it off says it themselves.
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
        (self.working, self.interrupted) = (true, false);
        self.call(Hook::Prompt { session: self.session, mail }, now, fate);
        Ok(())
    }

    /// A fresh context, whoever asked for it.
    pub fn clear(&mut self, now: Timestamp, fate: Fate) {
        self.clears += 1;
        if !self.stash.is_empty() {
            self.returns.get_or_insert(now + fate.stash);
        }
        self.call(Hook::End { session: self.session }, now, fate);
        self.session += 1;
        (self.interrupted, self.working) = (false, false);
        self.busy_until = self.call(Hook::Start { session: self.session }, now, fate);
    }

    pub fn end_turn(&mut self, now: Timestamp, fate: Fate) {
        (self.working, self.dialog) = (false, false);
        self.call(Hook::Stop { session: self.session }, now, fate);
    }

    /// What comes by itself with time.
    pub fn pass(&mut self, now: Timestamp, fate: Fate) -> Result<(), &'static str> {
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
