//! The content of a transcript, whichever provider wrote it: records of items, each item one act of the user, the agent
//! or a tool.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The author of words that were carried over.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Author {
    /// A person: typed, or recorded as theirs by the client's own fields.
    User,
    Agent(String),
    Client,
    Tool,
    /// Said in the session; the author is not proven.
    #[default]
    Unknown,
}

/// Where a fact was read: the cycle of the task it belongs to, the byte at which its line begins in that cycle's
/// transcript, the record's own id and its time when it has them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Origin {
    #[serde(default)]
    pub cycle: u32,
    pub offset: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// As the provider wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

impl Origin {
    /// Whether this record came after `other`.
    pub(crate) fn is_after(&self, other: &Self) -> bool {
        (self.cycle, self.offset) > (other.cycle, other.offset)
    }
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
    pub(crate) fn origin(&self, cycle: u32) -> Origin {
        let owned = |text: &Option<Cow<'_, str>>| text.as_deref().map(str::to_owned);
        Origin { cycle, offset: self.offset, uuid: owned(&self.uuid), at: owned(&self.time) }
    }
}

/// One act inside a record.
#[derive(Debug)]
pub enum Item<'a> {
    /// Words submitted as a prompt, by the user as far as the client says. Prompts of baton's own are among them:
    /// [`crate::speaker::speaker`] tells them apart.
    Prompt(Cow<'a, str>),
    /// The same, typed while the agent worked.
    Queued(Cow<'a, str>),
    /// Words in the place of a prompt that the client says are not the user's.
    Told { author: Author, text: Cow<'a, str> },
    /// A slash command with its arguments.
    Command { name: Cow<'a, str>, args: Cow<'a, str> },
    /// The user stopped the turn.
    Interrupted,
    /// A background task or subagent ended.
    TaskEnded { id: Cow<'a, str>, status: Cow<'a, str>, result: Cow<'a, str> },
    /// A subagent was started.
    AgentStarted { id: Cow<'a, str> },
    /// Text of the agent.
    Reply(Cow<'a, str>),
    /// A tool call.
    Call { id: Cow<'a, str>, action: Action<'a> },
    /// The outcome of a tool call.
    Outcome { id: Cow<'a, str>, outcome: CallOutcome<'a> },
    /// A command whose end the client itself reports, whoever called it. `id` may be the call's.
    Ran {
        id: Cow<'a, str>,
        command: Cow<'a, str>,
        process: Option<Cow<'a, str>>,
        folder: Option<Cow<'a, str>>,
        outcome: CallOutcome<'a>,
    },
    /// A patch that the client itself reports as applied. `id` may be the call's.
    Patched { id: Cow<'a, str>, changes: Vec<Change<'a>> },
    /// The record contains a handoff of ours as the client was given it: the first line of its frame.
    Loaded(Cow<'a, str>),
    /// The agent's turn ended.
    TurnEnded,
    /// The client compacted here; records before it are no longer in the agent's context.
    Boundary,
    /// A pull request or issue that belongs to the session.
    Link(Cow<'a, str>),
    /// The branch that the agent says it works on.
    Branch(Cow<'a, str>),
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

/// The action of a tool call, in provider-neutral terms.
#[derive(Debug)]
pub enum Action<'a> {
    Shell {
        command: Cow<'a, str>,
        background: bool,
        /// Where it runs, if the call says so.
        folder: Option<String>,
    },
    /// A script that runs several tools, as far as it could be read.
    Script {
        calls: Vec<ScriptCall>,
        text: String,
        /// Where its commands run, if all run in one folder.
        folder: Option<String>,
    },
    /// One more look at a process that runs already.
    Poll {
        process: String,
        /// The script that looks, if it is one.
        text: String,
    },
    Read {
        path: Cow<'a, str>,
        from: Option<u32>,
        lines: Option<u32>,
    },
    Search {
        pattern: Cow<'a, str>,
        path: Option<Cow<'a, str>>,
    },
    /// Files changed by one call. `Created` is settled by the outcome where only that can tell.
    Edit(Vec<Change<'a>>),
    /// The whole current list.
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
    /// Fetching, or a third-party tool: remembered by name, with the strings it was given.
    Other {
        name: Cow<'a, str>,
        input: Body<'a>,
    },
}

/// A call's change to one file.
#[derive(Debug)]
pub struct Change<'a> {
    pub touch: Touch,
    pub path: Cow<'a, str>,
    /// The text that was written or replaced; the hunks of a patch.
    pub texts: Vec<Cow<'a, str>>,
    pub hunks: Vec<Hunk>,
}

/// Where a file was changed: lines as they are numbered afterwards, and the definition around them where it shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    pub line: u32,
    pub lines: u32,
    /// How many lines the file grew by here.
    pub growth: i32,
    pub around: Option<String>,
    /// The heading before it, which counts in Markdown.
    pub heading: Option<String>,
}

/// How a tool call ended.
#[derive(Debug)]
pub struct CallOutcome<'a> {
    pub failed: bool,
    /// The exit status, if the provider reports it separately from the output.
    pub exit: Option<i32>,
    pub body: Body<'a>,
    /// The client's own structured note beside the text.
    pub note: Option<&'a RawValue>,
    /// What a script printed about its calls, in order.
    pub results: Vec<ScriptResult>,
}

/// A call that a script makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScriptCall {
    Command(String),
    /// One more look at a process.
    Poll(String),
}

/// What a script printed about one call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptResult {
    /// The process that was still running.
    pub process: Option<String>,
    pub exit: Option<i32>,
    /// The output, if the script printed it with the status.
    pub output: Option<String>,
}

impl CallOutcome<'_> {
    /// Whether the client itself notes that the user refused the call: a tool can print the same words.
    pub(crate) fn is_refusal(&self) -> bool {
        let note = self.note.map(RawValue::get).unwrap_or_default();
        self.failed
            && ["\"User rejected tool use", "\"Error: The user doesn't want to proceed"]
                .iter()
                .any(|start| note.starts_with(start))
    }
}

/// The text that a tool returned, decoded only on demand.
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

    /// The stored form, for searches that tolerate JSON escapes and need no decoding.
    pub(crate) fn stored(&self) -> &str {
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

    /// Every string in it, whatever its shape: one value after the other, keys left out.
    pub(crate) fn strings(&self) -> Cow<'_, str> {
        match self {
            Self::Raw(raw) if raw.get().starts_with(['{', '[']) => {
                let mut out = String::new();
                if let Ok(value) = serde_json::from_str::<serde_json::Value>(raw.get()) {
                    join_strings(&value, &mut out);
                }
                Cow::Owned(out)
            }
            _ => self.text(),
        }
    }

    pub(super) fn raw(value: Option<&'a RawValue>) -> Self {
        value.map_or(Self::Empty, Self::Raw)
    }
}

fn join_strings(value: &serde_json::Value, out: &mut String) {
    match value {
        serde_json::Value::String(text) => {
            out.push_str(text);
            out.push('\n');
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| join_strings(item, out)),
        serde_json::Value::Object(fields) => fields.values().for_each(|field| join_strings(field, out)),
        serde_json::Value::Number(number) => {
            out.push_str(&number.to_string());
            out.push('\n');
        }
        _ => {}
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
