//! Claude Code's transcript lines. The shapes are those of versions 2.0 to 2.1; unknown fields and types are harmless.

mod tools;

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use self::tools::action;
pub(crate) use self::tools::{answers, hunks};
use crate::marks;
use crate::speaker::{Speaker, is_object, speaker};
use crate::transcript::parser::{Dialect, Parsed};
use crate::transcript::record::{Author, Body, CallOutcome, Item, Record};

type Str<'a> = Cow<'a, str>;

#[derive(Deserialize)]
struct TranscriptRecord<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Str<'a>>,
    #[serde(borrow)]
    subtype: Option<Str<'a>>,
    #[serde(borrow)]
    uuid: Option<Str<'a>>,
    #[serde(borrow)]
    timestamp: Option<Str<'a>>,
    #[serde(borrow)]
    cwd: Option<Str<'a>>,
    #[serde(borrow, rename = "gitBranch")]
    branch: Option<Str<'a>>,
    #[serde(borrow, rename = "sessionId")]
    session: Option<Str<'a>>,
    #[serde(rename = "isSidechain")]
    sidechain: Option<bool>,
    #[serde(rename = "isMeta")]
    meta: Option<bool>,
    #[serde(rename = "isCompactSummary")]
    summary: Option<bool>,
    #[serde(rename = "isApiErrorMessage")]
    api_error: Option<bool>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
    #[serde(borrow)]
    operation: Option<Str<'a>>,
    /// A string in queue operations and system records; other types put other shapes here.
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    attachment: Option<&'a RawValue>,
    #[serde(borrow, rename = "prUrl")]
    pr_url: Option<Str<'a>>,
    /// Newer clients say who wrote a user record.
    #[serde(borrow)]
    origin: Option<Source<'a>>,
    #[serde(borrow, rename = "toolUseResult")]
    note: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Source<'a> {
    #[serde(borrow)]
    kind: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<Str<'a>>,
    #[serde(borrow, default)]
    content: Content<'a>,
}

/// A message's content is a string or a list of blocks.
#[derive(Default)]
enum Content<'a> {
    Text(Str<'a>),
    Blocks(Vec<Block<'a>>),
    #[default]
    Other,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Str<'a>>,
    #[serde(borrow)]
    text: Option<Str<'a>>,
    #[serde(borrow)]
    id: Option<Str<'a>>,
    #[serde(borrow)]
    name: Option<Str<'a>>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_use_id: Option<Str<'a>>,
    is_error: Option<bool>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Shape;
        impl<'de> Visitor<'de> for Shape {
            type Value = Content<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of blocks")
            }
            fn visit_borrowed_str<E: de::Error>(self, v: &'de str) -> Result<Self::Value, E> {
                Ok(Content::Text(Cow::Borrowed(v)))
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Self::Value, E> {
                Ok(Content::Text(Cow::Owned(v.to_owned())))
            }
            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(Content::Other)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut blocks = Vec::with_capacity(1);
                while let Some(block) = seq.next_element()? {
                    blocks.push(block);
                }
                Ok(Content::Blocks(blocks))
            }
        }
        d.deserialize_any(Shape)
    }
}

/// Types that we ignore, so that only really new ones count as unknown.
const SILENT: &[&str] = &[
    "progress",
    "file-history-snapshot",
    "file-history-delta",
    "summary",
    "mode",
    "permission-mode",
    "atis-latch",
    "tools-used",
    "last-prompt",
    "api-request",
    "api-request-shape",
    "api-request-blob",
    "custom-title",
    "ai-title",
    "agent-name",
    "cost-state",
    "bridge-session",
];

pub(in crate::transcript) fn parse(line: &[u8]) -> Option<Parsed<'_>> {
    let line: TranscriptRecord<'_> = serde_json::from_slice(line).ok()?;
    let kind = line.kind.as_deref()?;
    let mut items = Vec::new();
    let mut message = None;
    let mut known = true;
    match kind {
        "user" => {
            if line.summary != Some(true)
                && let Some(said) = line.message
            {
                let kind = line.origin.and_then(|origin| origin.kind);
                let foreign = kind.as_deref().is_some_and(|kind| kind != "human");
                user(said.content, line.meta == Some(true), foreign, line.note, &mut items);
                // A notification only reports how a task ended.
                if kind.is_some_and(|kind| kind == "task-notification") {
                    items.retain(|item| !matches!(item, Item::Told { .. }));
                }
            }
        }
        "assistant" => {
            if let Some(said) = line.message {
                message = said.id;
                assistant(said.content, line.api_error == Some(true), &mut items);
            }
        }
        "system" => match line.subtype.as_deref() {
            Some("compact_boundary") => items.push(Item::Boundary),
            Some("turn_duration") => items.push(Item::TurnEnded),
            _ => {}
        },
        "queue-operation" => {
            if line.operation.as_deref() == Some("enqueue") {
                let text = own(&Body::raw(line.content));
                items.extend(prompt(Cow::Owned(text), true));
            }
        }
        "attachment" => attachment(line.attachment, &mut items),
        "pr-link" => items.extend(line.pr_url.map(Item::Link)),
        other => known = SILENT.contains(&other),
    }
    let record = Record {
        offset: 0,
        uuid: line.uuid,
        time: line.timestamp,
        cwd: line.cwd,
        branch: line.branch,
        session: line.session,
        sidechain: line.sidechain == Some(true),
        items,
    };
    Some(Parsed { provider: Dialect::Claude, record, message, known })
}

fn own(body: &Body<'_>) -> String {
    body.text().into_owned()
}

fn user<'a>(
    content: Content<'a>,
    meta: bool,
    foreign: bool,
    note: Option<&'a RawValue>,
    items: &mut Vec<Item<'a>>,
) {
    // Words that the client attributes to someone else are not the user's, whatever they look like.
    let attributed = |item: Item<'a>| match item {
        Item::Prompt(text) | Item::Queued(text) if foreign => Item::Told { author: Author::Unknown, text },
        // Nobody else types a slash command.
        Item::Command { args: text, .. } if foreign => Item::Told { author: Author::Unknown, text },
        other => other,
    };
    match content {
        Content::Text(text) if !meta => items.extend(prompt(text, false).map(attributed)),
        Content::Blocks(blocks) => {
            for block in blocks {
                match block.kind.as_deref() {
                    Some("text") if !meta => {
                        items.extend(block.text.and_then(|text| prompt(text, false)).map(attributed));
                    }
                    Some("tool_result") => items.push(Item::Outcome {
                        id: block.tool_use_id.unwrap_or_default(),
                        outcome: CallOutcome {
                            failed: block.is_error == Some(true),
                            exit: None,
                            body: Body::raw(block.content),
                            note,
                            results: Vec::new(),
                        },
                    }),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

fn assistant<'a>(content: Content<'a>, api_error: bool, items: &mut Vec<Item<'a>>) {
    let Content::Blocks(blocks) = content else { return };
    for block in blocks {
        match block.kind.as_deref() {
            // The client's own text about a failed request is not the agent's answer.
            Some("text") if !api_error => {
                items.extend(block.text.filter(|t| !t.trim().is_empty()).map(Item::Reply));
            }
            Some("tool_use") => items.push(Item::Call {
                id: block.id.unwrap_or_default(),
                action: action(block.name.unwrap_or_default(), block.input),
            }),
            _ => {}
        }
    }
}

/// The text of a user record: the user's words, a command, or something that others put there.
pub(in crate::transcript) fn prompt(text: Str<'_>, queued: bool) -> Option<Item<'_>> {
    let trimmed = text.trim_start();
    if trimmed.is_empty() {
        return None;
    }
    if trimmed.starts_with("[Request interrupted") {
        return Some(Item::Interrupted);
    }
    if trimmed.starts_with("<task-notification>") {
        let part = |tag| Cow::Owned(between(trimmed, tag).unwrap_or_default().to_owned());
        let result = between(trimmed, "result").or_else(|| between(trimmed, "summary")).unwrap_or_default();
        return Some(Item::TaskEnded {
            id: part("task-id"),
            status: part("status"),
            result: Cow::Owned(result.to_owned()),
        });
    }
    if trimmed.starts_with("<command-name>") || trimmed.starts_with("<command-message>") {
        let name = between(trimmed, "command-name")?.trim().to_owned();
        let args = between(trimmed, "command-args").unwrap_or_default().trim().to_owned();
        return Some(Item::Command { name: Cow::Owned(name), args: Cow::Owned(args) });
    }
    if let Some(head) = marks::handoff_head(trimmed) {
        return Some(Item::Loaded(Cow::Owned(head.to_owned())));
    }
    // JSON in the client's queue is another record.
    if queued && is_object(trimmed) {
        return None;
    }
    let words = match speaker(trimmed) {
        Speaker::Client => return None,
        Speaker::Agent(words) => {
            let author = Author::Agent("another session".to_owned());
            return Some(Item::Told { author, text: Cow::Owned(words.to_owned()) });
        }
        Speaker::Baton => None,
        Speaker::Person(words) => Some(words),
    };
    if queued && trimmed.starts_with('/') && !trimmed.contains(char::is_whitespace) {
        return Some(Item::Command { name: Cow::Owned(trimmed.to_owned()), args: Cow::Borrowed("") });
    }
    let stripped = words.filter(|words| words.len() < trimmed.trim_end().len()).map(str::to_owned);
    let text = stripped.map_or(text, Cow::Owned);
    Some(if queued { Item::Queued(text) } else { Item::Prompt(text) })
}

fn between<'t>(text: &'t str, tag: &str) -> Option<&'t str> {
    let start = text.find(&format!("<{tag}>"))? + tag.len() + 2;
    let rest = &text[start..];
    Some(&rest[..rest.find(&format!("</{tag}>"))?])
}

fn attachment<'a>(raw: Option<&'a RawValue>, items: &mut Vec<Item<'a>>) {
    #[derive(Deserialize)]
    struct Attachment<'a> {
        #[serde(borrow, rename = "type")]
        kind: Str<'a>,
        #[serde(borrow)]
        prompt: Option<&'a RawValue>,
        #[serde(borrow, rename = "taskId")]
        task: Option<Str<'a>>,
        #[serde(borrow)]
        status: Option<Str<'a>>,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
    }
    let Some(Ok(it)) = raw.map(|raw| serde_json::from_str::<Attachment<'_>>(raw.get())) else { return };
    match it.kind.as_ref() {
        "queued_command" => items.extend(prompt(Cow::Owned(own(&Body::raw(it.prompt))), true)),
        "task_status" => {
            if let (Some(id), Some(status)) = (it.task, it.status)
                && status != "running"
            {
                items.push(Item::TaskEnded { id, status, result: Cow::Borrowed("") });
            }
        }
        // A hook's context for the agent: a loaded handoff begins with our frame.
        "hook_additional_context" => {
            let texts: Vec<Str<'a>> =
                it.content.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
            let heads = texts.iter().filter_map(|text| marks::handoff_head(text));
            items.extend(heads.map(|head| Item::Loaded(Cow::Owned(head.to_owned()))));
        }
        _ => {}
    }
}
