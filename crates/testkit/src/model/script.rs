//! What the model answers: turns in order, conditional turns, reactions.
//!
//! Only requests of the conversation itself use up turns; titles, probes and summaries are answered separately (see
//! [`super::Kind`]).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::request::Request;

/// The token figures of one answer, from which the client computes how full its context is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub input: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub output: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Usage { input: 12, cache_read: 0, cache_write: 0, output: 8 }
    }
}

/// A context of this many tokens, nearly all read from the cache, as in a real long session.
impl From<u64> for Usage {
    fn from(context: u64) -> Self {
        let input = context.min(12);
        Usage { input, cache_read: context - input, ..Usage::default() }
    }
}

/// One block of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Block {
    Text(String),
    Tool {
        name: String,
        input: Value,
    },
    /// A shell command, through whichever shell tool the client offers.
    Shell(String),
}

/// The request is refused with an HTTP status instead of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    Status(u16, String),
    TooLong,
}

/// One answer of the model.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    pub(super) blocks: Vec<Block>,
    pub(super) failure: Option<Failure>,
    pub(super) usage: Usage,
    pub(super) headers: Vec<(String, String)>,
    pub(super) delay: Duration,
    pub(super) pace: Duration,
    pub(super) gate: Option<Gate>,
}

/// The model says this.
pub fn text(text: impl Into<String>) -> Turn {
    Turn::default().text(text)
}

/// The model calls a tool of the client by its name.
pub fn tool(name: impl Into<String>, input: Value) -> Turn {
    Turn::default().tool(name, input)
}

/// The model runs a shell command with this client's shell tool.
pub fn shell(command: impl Into<String>) -> Turn {
    Turn::default().shell(command)
}

/// The request fails with this HTTP status; 429 is a rate limit, 529 an overload.
pub fn error(status: u16) -> Turn {
    Turn { failure: Some(Failure::Status(status, format!("scripted error {status}"))), ..Turn::default() }
}

/// The request is refused because the conversation does not fit into the window.
pub fn too_long() -> Turn {
    Turn { failure: Some(Failure::TooLong), ..Turn::default() }
}

impl Turn {
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.blocks.push(Block::Text(text.into()));
        self
    }

    #[must_use]
    pub fn tool(mut self, name: impl Into<String>, input: Value) -> Self {
        self.blocks.push(Block::Tool { name: name.into(), input });
        self
    }

    #[must_use]
    pub fn shell(mut self, command: impl Into<String>) -> Self {
        self.blocks.push(Block::Shell(command.into()));
        self
    }

    /// The reported figures: a number of tokens in the context, or a whole [`Usage`].
    #[must_use]
    pub fn usage(mut self, usage: impl Into<Usage>) -> Self {
        self.usage = usage.into();
        self
    }

    /// The message of an [`error`], which clients may parse.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        if let Some(Failure::Status(_, text)) = &mut self.failure {
            *text = message.into();
        }
        self
    }

    /// A header of the response, such as `retry-after`.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Wait before the first byte.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Pause between the words of the text.
    #[must_use]
    pub fn pace(mut self, pause: Duration) -> Self {
        self.pace = pause;
        self
    }

    /// Hold the answer back until the test opens the gate.
    #[must_use]
    pub fn held_by(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    pub(super) fn has_tools(&self) -> bool {
        self.blocks.iter().any(|block| !matches!(block, Block::Text(_)))
    }
}

/// Keeps a turn open for as long as the test needs a busy agent, without sleeps or guesses.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Gate::default()
    }

    pub fn open(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    /// Waits for the gate for up to `limit`; true once it is open.
    pub(super) fn passed_within(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let mut open = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*open {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            open = self.0.1.wait_timeout(open, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

type Condition = Box<dyn Fn(&Request) -> bool + Send>;
type Reaction = Box<dyn Fn(&Request) -> Option<Turn> + Send>;

/// The model's answers, in order of precedence: reactions, conditional turns, turns in order, and when these are used
/// up the standing answer.
pub struct Script {
    reactions: Vec<Reaction>,
    conditional: Vec<(Condition, Turn)>,
    turns: VecDeque<Turn>,
    standing: Turn,
    compaction: Turn,
    subagents: VecDeque<Turn>,
    subagent: Turn,
}

impl Default for Script {
    fn default() -> Self {
        Script {
            reactions: Vec::new(),
            conditional: Vec::new(),
            turns: VecDeque::new(),
            standing: text("OK."),
            compaction: text("<analysis>scripted</analysis>\n<summary>\nScripted summary.\n</summary>"),
            subagents: VecDeque::new(),
            subagent: text("Scripted report of the subagent."),
        }
    }
}

impl Script {
    pub fn new() -> Self {
        Script::default()
    }

    /// The next answer in order.
    #[must_use]
    pub fn turn(mut self, turn: Turn) -> Self {
        self.turns.push_back(turn);
        self
    }

    /// Gives this answer once, to the first matching request, before the turns in order.
    #[must_use]
    pub fn when(mut self, fits: impl Fn(&Request) -> bool + Send + 'static, turn: Turn) -> Self {
        self.conditional.push((Box::new(fits), turn));
        self
    }

    /// Sees every request first; its result, if any, is the answer.
    #[must_use]
    pub fn react(mut self, reaction: impl Fn(&Request) -> Option<Turn> + Send + 'static) -> Self {
        self.reactions.push(Box::new(reaction));
        self
    }

    /// The answer to everything that the rest of the script leaves open.
    #[must_use]
    pub fn otherwise(mut self, turn: Turn) -> Self {
        self.standing = turn;
        self
    }

    /// The answer to requests for a summary of the conversation.
    #[must_use]
    pub fn on_compaction(mut self, turn: Turn) -> Self {
        self.compaction = turn;
        self
    }

    /// The standing answer to subagents.
    #[must_use]
    pub fn on_subagent(mut self, turn: Turn) -> Self {
        self.subagent = turn;
        self
    }

    /// The next answer to a subagent, before the standing one.
    #[must_use]
    pub fn subagent_turn(mut self, turn: Turn) -> Self {
        self.subagents.push_back(turn);
        self
    }

    /// How many turns in order are left.
    pub fn turns_left(&self) -> usize {
        self.turns.len()
    }

    pub(super) fn push(&mut self, turn: Turn) {
        self.turns.push_back(turn);
    }

    pub(super) fn answer(&mut self, request: &Request) -> Turn {
        use super::Kind;
        match request.kind {
            Kind::Main => self.next(request),
            Kind::Compaction => self.compaction.clone(),
            Kind::Subagent => self.subagents.pop_front().unwrap_or_else(|| self.subagent.clone()),
            Kind::Title => text(json!({"title": "Scripted title"}).to_string()),
            Kind::State => text(
                json!({"state": "done", "detail": "scripted", "tempo": "idle", "output": {}}).to_string(),
            ),
            Kind::Probe | Kind::CountTokens | Kind::Side | Kind::Other => text("ok"),
        }
    }

    fn next(&mut self, request: &Request) -> Turn {
        if let Some(turn) = self.reactions.iter().find_map(|reaction| reaction(request)) {
            return turn;
        }
        if let Some(at) = self.conditional.iter().position(|(fits, _)| fits(request)) {
            return self.conditional.remove(at).1;
        }
        self.turns.pop_front().unwrap_or_else(|| self.standing.clone())
    }
}
