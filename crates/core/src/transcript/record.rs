//! What a transcript says, whoever wrote it: records of items, each item one act of the user, the agent or a tool.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Where a fact was read: the byte at which its line begins, and the record's own id when it has one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Origin {
    pub offset: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
}

/// One line of a transcript.
#[derive(Debug, Default)]
pub struct Record<'a> {
    pub offset: u64,
    pub uuid: Option<Cow<'a, str>>,
    /// ISO 8601, as the provider wrote it.
    pub time: Option<Cow<'a, str>>,
    pub cwd: Option<Cow<'a, str>>,
    pub branch: Option<Cow<'a, str>>,
    pub session: Option<Cow<'a, str>>,
    /// A subagent's record: its work is not the main conversation's.
    pub sidechain: bool,
    pub items: Vec<Item<'a>>,
}

impl Record<'_> {
    pub fn origin(&self) -> Origin {
        Origin { offset: self.offset, uuid: self.uuid.as_deref().map(str::to_owned) }
    }
}

/// One act inside a record.
#[derive(Debug)]
pub enum Item<'a> {
    /// The user's own words, submitted as a prompt.
    Prompt(Cow<'a, str>),
    /// The user's own words, typed while the agent worked.
    Queued(Cow<'a, str>),
    /// A slash command with what the user wrote after it.
    Command { name: Cow<'a, str>, args: Cow<'a, str> },
    /// The user stopped the turn.
    Interrupted,
    /// A background task or subagent ended.
    TaskEnded { id: Cow<'a, str>, status: Cow<'a, str>, result: Cow<'a, str> },
    /// Text of the agent.
    Reply(Cow<'a, str>),
    /// A tool call.
    Call { id: Cow<'a, str>, action: Action<'a> },
    /// What a tool call gave.
    Outcome { id: Cow<'a, str>, failed: bool, body: Body<'a> },
    /// The agent's turn ended.
    TurnEnded,
    /// The client compacted here; what stands before is no longer in the agent's context.
    Boundary,
    /// A pull request or issue that belongs to the session.
    Link(Cow<'a, str>),
}

/// How a call touches a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Touch {
    Created,
    Edited,
    Deleted,
    Read,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    Pending,
    InProgress,
    Completed,
    Deleted,
}

impl TodoStatus {
    pub fn parse(text: &str) -> Self {
        match text {
            "completed" | "done" => Self::Completed,
            "in_progress" => Self::InProgress,
            "deleted" | "cancelled" => Self::Deleted,
            _ => Self::Pending,
        }
    }
}

#[derive(Debug)]
pub struct Todo<'a> {
    pub text: Cow<'a, str>,
    pub status: TodoStatus,
}

/// What a tool call is about to do, in the words of no provider.
#[derive(Debug)]
pub enum Action<'a> {
    Shell {
        command: Cow<'a, str>,
        background: bool,
    },
    /// Files changed or read by one call. `Created` is settled by the outcome where only that can tell.
    Files(Vec<(Touch, Cow<'a, str>)>),
    /// The whole list, as it stands now.
    Todos(Vec<Todo<'a>>),
    TaskCreated {
        subject: Cow<'a, str>,
    },
    TaskUpdated {
        id: Cow<'a, str>,
        status: Option<TodoStatus>,
        subject: Option<Cow<'a, str>>,
    },
    Agent {
        description: Cow<'a, str>,
        background: bool,
    },
    Stopped {
        id: Cow<'a, str>,
    },
    Asked(Vec<Cow<'a, str>>),
    Plan(Cow<'a, str>),
    /// Searching, fetching, tools of others: remembered by name only.
    Other(Cow<'a, str>),
}

/// The text that a tool gave back, decoded only when somebody asks for it.
#[derive(Debug)]
pub enum Body<'a> {
    Raw(&'a RawValue),
    Text(Cow<'a, str>),
    Empty,
}

impl<'a> Body<'a> {
    /// Length of the stored form: an upper bound, known without decoding.
    pub fn size(&self) -> usize {
        self.stored().len()
    }

    /// The stored form: what a search that tolerates JSON escapes may look into without decoding.
    pub fn stored(&self) -> &str {
        match self {
            Self::Raw(raw) => raw.get(),
            Self::Text(text) => text,
            Self::Empty => "",
        }
    }

    /// The text; blocks that are not text (images) are left out.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Raw(raw) => decode(raw),
            Self::Text(text) => Cow::Borrowed(text),
            Self::Empty => Cow::Borrowed(""),
        }
    }

    pub(super) fn raw(value: Option<&'a RawValue>) -> Self {
        value.map_or(Self::Empty, Self::Raw)
    }
}

#[derive(Deserialize)]
struct TextBlock<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
}

fn decode(raw: &RawValue) -> Cow<'_, str> {
    let json = raw.get();
    if json.starts_with('"') {
        return serde_json::from_str::<BorrowedText<'_>>(json).map(|t| t.0).unwrap_or_default();
    }
    let Ok(blocks) = serde_json::from_str::<Vec<TextBlock<'_>>>(json) else { return Cow::Borrowed("") };
    let mut texts = blocks.into_iter().filter_map(|block| block.text);
    let first = texts.next().unwrap_or_default();
    texts.fold(first, |joined, text| Cow::Owned(format!("{joined}\n{text}")))
}

/// serde borrows a `Cow<str>` only behind `#[serde(borrow)]` on a field, so the bare value gets a wrapper.
#[derive(Deserialize)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);
