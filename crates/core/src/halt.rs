//! Why an agent does not continue, in the words that page, screen, tables and notices share.

use crate::limit::Parked;

/// Who reads the words: the user is addressed as "you"; an agent reads about "the user".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    User,
    Agent,
}

impl Audience {
    pub(crate) fn you(self) -> &'static str {
        match self {
            Self::User => "you",
            Self::Agent => "the user",
        }
    }

    pub(crate) fn your(self) -> &'static str {
        match self {
            Self::User => "your",
            Self::Agent => "the user's",
        }
    }
}

/// Why an agent that has work does not continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt<'a> {
    /// By a dialog or a draft in its terminal, with its subject if known.
    Blocked(Option<&'a str>),
    /// By a usage limit.
    Limit(Option<LimitEnd<'a>>),
    Error(&'a str),
}

/// When a usage limit ends. The time is formatted for its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitEnd<'a> {
    /// The client said so.
    Known(&'a str),
    /// The client did not say; this is when the agent tries again.
    Guessed(&'a str),
}

impl<'a> LimitEnd<'a> {
    /// `clock` is `parked.until`, formatted.
    pub fn of(parked: &Parked, clock: &'a str) -> Self {
        if parked.guess { Self::Guessed(clock) } else { Self::Known(clock) }
    }
}

impl Halt<'_> {
    /// The one place that words these states.
    pub fn words(self, audience: Audience) -> String {
        let you = audience.you();
        match self {
            Self::Blocked(None | Some("")) => format!("waits for {you} in its terminal"),
            Self::Blocked(Some(on)) => format!("waits for {you} in its terminal: {on}"),
            Self::Limit(Some(LimitEnd::Known(until))) => format!("limit until {until}"),
            Self::Limit(Some(LimitEnd::Guessed(next))) => format!("limit, next try {next}"),
            Self::Limit(None) => "limit, end unknown".to_owned(),
            Self::Error(error) => format!("error: {error}"),
        }
    }
}
