//! The sections of a document.

/// Parts of the document in the order in which they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::handoff) enum Section {
    Notes,
    Goal,
    Now,
    Words,
    Said,
    Own,
    Next,
    Blockers,
    Git,
    Files,
    Names,
    Findings,
    Commands,
    Tried,
    Done,
    Agents,
    Errors,
    Exchange,
    Recent,
    Lines,
}

impl Section {
    pub(in crate::handoff) const ALL: [Self; 20] = [
        Self::Notes,
        Self::Goal,
        Self::Now,
        Self::Words,
        Self::Said,
        Self::Own,
        Self::Next,
        Self::Blockers,
        Self::Git,
        Self::Files,
        Self::Names,
        Self::Findings,
        Self::Commands,
        Self::Tried,
        Self::Done,
        Self::Agents,
        Self::Errors,
        Self::Exchange,
        Self::Recent,
        Self::Lines,
    ];

    /// Whether it holds somebody's words, which are not repeated.
    pub(in crate::handoff) fn speaks(self) -> bool {
        matches!(self, Self::Goal | Self::Now | Self::Words | Self::Said)
    }

    pub(in crate::handoff) fn title(self) -> &'static str {
        match self {
            Self::Notes => "Not read",
            Self::Goal => "Goal",
            Self::Now => "Now",
            Self::Words => "The user's words",
            Self::Said => "Said by others",
            Self::Own => "What the agent wrote before",
            Self::Next => "Next",
            Self::Blockers => "Blockers",
            Self::Git => "Git",
            Self::Files => "Working set: files, and the names in play there",
            Self::Names => "Names used last, without a file",
            Self::Findings => "Found by search and used",
            Self::Commands => "Commands",
            Self::Tried => "Tried and replaced",
            Self::Done => "Done",
            Self::Agents => "Subagents",
            Self::Errors => "Earlier errors",
            Self::Exchange => "Recent activity, the last message first",
            Self::Recent => "Commands used last",
            Self::Lines => "Lines seen last, for the names in them",
        }
    }
}
