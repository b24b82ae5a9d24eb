//! Codex rollout lines: `{timestamp, ordinal, type, payload}`. The same acts as in any transcript, wrapped differently.
//!
//! Newer clients report commands and changes as separate events (`item_completed`, `patch_apply_end`); those take
//! precedence over what a call says, and over the script that an agent in code mode wrote to make the calls.

mod calls;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use self::calls::{function, output, script_of, scripted, shell};
use crate::marks;
use crate::speaker::{Speaker, speaker};
use crate::transcript::parser::{Dialect, Parsed};
use crate::transcript::patch;
use crate::transcript::record::{Action, Author, Body, CallOutcome, Change, Item, Record, Touch};
use crate::wire::lax;

type Str<'a> = Cow<'a, str>;

#[derive(Deserialize)]
struct RolloutRecord<'a> {
    #[serde(borrow)]
    timestamp: Option<Str<'a>>,
    ordinal: Option<u64>,
    #[serde(borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(borrow)]
    payload: Payload<'a>,
}

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Str<'a>>,
    #[serde(borrow)]
    id: Option<Str<'a>>,
    #[serde(borrow)]
    role: Option<Str<'a>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<Str<'a>>,
    /// A JSON document inside a string.
    #[serde(borrow)]
    arguments: Option<Str<'a>>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    action: Option<&'a RawValue>,
    #[serde(borrow)]
    call_id: Option<Str<'a>>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    #[serde(borrow)]
    cwd: Option<Str<'a>>,
    #[serde(borrow)]
    git: Option<Git<'a>>,
    /// For events about something that ended.
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    changes: Option<&'a RawValue>,
    success: Option<bool>,
    /// A string for a separate conversation, an object for a subagent's.
    #[serde(borrow)]
    source: Option<&'a RawValue>,
    /// Lines before this one are a copy of the parent's.
    subagent_history_start_ordinal: Option<u64>,
    #[serde(borrow)]
    author: Option<&'a RawValue>,
    #[serde(borrow, rename = "internal_chat_message_metadata_passthrough")]
    metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Git<'a> {
    #[serde(borrow)]
    branch: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<Str<'a>>,
}

/// What earlier lines say about later ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, Deserialize)]
pub(in crate::transcript) struct Thread {
    /// Lines with a smaller ordinal are a copy of the parent's.
    pub starts: u64,
    /// Another agent's: nobody types here.
    pub subagent: bool,
}

pub(in crate::transcript) fn parse<'a>(line: &'a [u8], thread: &mut Thread) -> Option<Parsed<'a>> {
    let line: RolloutRecord<'_> = serde_json::from_slice(line).ok()?;
    let it = line.payload;
    let mut record = Record { time: line.timestamp, ..Record::default() };
    let mut known = true;
    let copied = line.ordinal.is_some_and(|ordinal| ordinal < thread.starts);
    match line.kind.as_ref() {
        // The copied lines include the parent's own description.
        "session_meta" if copied && line.ordinal != Some(0) => {}
        "session_meta" => {
            thread.starts = it.subagent_history_start_ordinal.unwrap_or(0);
            thread.subagent |= it.source.is_some_and(|raw| raw.get().contains("\"subagent\""));
            record.session = it.id;
            record.cwd = it.cwd;
            record.branch = it.git.and_then(|git| git.branch);
        }
        _ if copied => {}
        "turn_context" => record.cwd = it.cwd,
        "compacted" => record.items.push(Item::Boundary),
        "event_msg" => event(it, &mut record.items),
        "response_item" => {
            record.uuid = it.id.clone();
            response(it, thread.subagent, &mut record.items);
        }
        "world_state" | "token_usage_record" | "inter_agent_communication_metadata" => {}
        _ => known = false,
    }
    Some(Parsed { provider: Dialect::Codex, record, message: None, known })
}

fn event<'a>(it: Payload<'a>, items: &mut Vec<Item<'a>>) {
    match it.kind.as_deref() {
        Some("task_complete") => items.push(Item::TurnEnded),
        Some("turn_aborted") => items.push(Item::Interrupted),
        Some("patch_apply_end") if it.success != Some(false) => {
            let changes = changes(it.changes);
            if !changes.is_empty() {
                items.push(Item::Patched { id: it.call_id.unwrap_or_default(), changes });
            }
        }
        Some("item_completed") => {
            if let Some(Ok(ended)) = it.item.map(|raw| serde_json::from_str::<Ended<'a>>(raw.get())) {
                completed(ended, items);
            }
        }
        _ => {}
    }
}

/// Something that the client says has ended.
#[derive(Deserialize)]
struct Ended<'a> {
    #[serde(borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(borrow)]
    id: Option<Str<'a>>,
    #[serde(borrow)]
    process_id: Option<Str<'a>>,
    #[serde(borrow, default, deserialize_with = "lax::text")]
    cwd: Option<Str<'a>>,
    #[serde(borrow)]
    command: Option<&'a RawValue>,
    #[serde(borrow)]
    aggregated_output: Option<Str<'a>>,
    exit_code: Option<i32>,
    #[serde(borrow)]
    status: Option<Str<'a>>,
    #[serde(borrow)]
    changes: Option<&'a RawValue>,
    #[serde(borrow, rename = "kind")]
    what: Option<Str<'a>>,
    #[serde(borrow)]
    agent_path: Option<Str<'a>>,
}

fn completed<'a>(it: Ended<'a>, items: &mut Vec<Item<'a>>) {
    let failed = it.status.as_deref().is_some_and(|status| status == "failed" || status == "declined");
    match it.kind.as_ref() {
        "CommandExecution" => {
            let words = it.command.map(|raw| serde_json::from_str::<Vec<String>>(raw.get()));
            let command = match words {
                Some(Ok(words)) => script_of(&words),
                _ => Body::raw(it.command).text().into_owned(),
            };
            let exit = it.exit_code;
            let outcome = CallOutcome {
                failed: exit.map_or(failed, |code| code != 0),
                exit,
                body: it.aggregated_output.map_or(Body::Empty, Body::Text),
                note: None,
                results: Vec::new(),
            };
            items.push(Item::Ran {
                id: it.id.unwrap_or_default(),
                command: Cow::Owned(command),
                process: it.process_id,
                folder: it.cwd,
                outcome,
            });
        }
        "FileChange" if !failed => {
            let changes = changes(it.changes);
            if !changes.is_empty() {
                items.push(Item::Patched { id: it.id.unwrap_or_default(), changes });
            }
        }
        "SubAgentActivity" => {
            let Some(id) = it.agent_path else { return };
            items.push(match it.what.as_deref() {
                Some("started") => Item::AgentStarted { id },
                status => Item::TaskEnded {
                    status: Cow::Owned(status.unwrap_or("ended").to_owned()),
                    result: Cow::Borrowed(""),
                    id,
                },
            });
        }
        _ => {}
    }
}

/// `{path: {type: add|update|delete, content | unified_diff, move_path}}`.
fn changes<'a>(raw: Option<&RawValue>) -> Vec<Change<'a>> {
    #[derive(Deserialize)]
    struct Changed {
        #[serde(rename = "type")]
        kind: String,
        content: Option<String>,
        unified_diff: Option<String>,
        move_path: Option<String>,
    }
    let parsed: BTreeMap<String, Changed> =
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let mut out = Vec::new();
    for (path, change) in parsed {
        let touch = match change.kind.as_str() {
            "add" => Touch::Created,
            "delete" => Touch::Deleted,
            _ => Touch::Edited,
        };
        let hunks = change.unified_diff.as_deref().map(patch::unified).unwrap_or_default();
        let texts = [change.content.filter(|_| touch != Touch::Deleted), change.unified_diff];
        let texts = texts.into_iter().flatten().map(Cow::Owned).collect();
        if let Some(to) = change.move_path {
            let gone = Vec::new();
            out.push(Change {
                touch: Touch::Deleted,
                path: Cow::Owned(path),
                texts: gone,
                hunks: Vec::new(),
            });
            out.push(Change { touch, path: Cow::Owned(to), texts, hunks });
        } else {
            out.push(Change { touch, path: Cow::Owned(path), texts, hunks });
        }
    }
    out
}

fn response<'a>(it: Payload<'a>, subagent: bool, items: &mut Vec<Item<'a>>) {
    let call = |id: Option<Str<'a>>, action| Item::Call { id: id.unwrap_or_default(), action };
    match it.kind.as_deref() {
        Some("message") => {
            let parts: Vec<Part<'a>> =
                it.content.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
            let texts = parts.into_iter().filter_map(|part| part.text).filter(|t| !t.trim().is_empty());
            match it.role.as_deref() {
                Some("user") => {
                    let harness = subagent || is_from_harness(it.metadata);
                    items.extend(texts.filter_map(|text| said(text, harness)));
                }
                Some("assistant") => {
                    for text in texts {
                        directives(&text, items);
                        items.push(Item::Reply(without_directives(text)));
                    }
                }
                // A hook's context for the agent: a loaded handoff begins with our frame.
                Some("developer") => {
                    let heads = texts.filter_map(|text| marks::handoff_head(&text).map(str::to_owned));
                    items.extend(heads.map(|head| Item::Loaded(Cow::Owned(head))));
                }
                _ => {}
            }
        }
        Some("agent_message") => {
            let body = Body::raw(it.content);
            let text = body.text();
            // `Message Type: FINAL_ANSWER … Sender: /root/helper\nPayload:\n…`
            let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            let payload = text.split_once("Payload:\n").map_or("", |(_, rest)| rest).trim().to_owned();
            let author = Body::raw(it.author).text().into_owned();
            if field("Message Type:") == Some("FINAL_ANSWER") {
                let (id, status) = (Cow::Owned(author), Cow::Borrowed("completed"));
                items.push(Item::TaskEnded { id, status, result: Cow::Owned(payload) });
            } else if !payload.is_empty() {
                items.push(Item::Told { author: Author::Agent(author), text: Cow::Owned(payload) });
            }
        }
        Some("function_call") => {
            let name = it.name.unwrap_or_default();
            let arguments = it.arguments.unwrap_or_default();
            let action = function(&name, &arguments);
            let other = || Action::Other { name, input: Body::Text(arguments) };
            items.push(call(it.call_id, action.unwrap_or_else(other)));
        }
        Some("custom_tool_call") => {
            let name = it.name.unwrap_or_default();
            let body = Body::raw(it.input);
            let action = match name.as_ref() {
                "apply_patch" => Action::Edit(patch::envelope(&body.text())),
                "exec" => scripted(&body.text()),
                _ => Action::Other { name, input: body },
            };
            items.push(call(it.call_id, action));
        }
        Some("local_shell_call") => {
            #[derive(Deserialize)]
            struct Exec {
                command: Vec<String>,
                working_directory: Option<String>,
            }
            if let Some(Ok(exec)) = it.action.map(|raw| serde_json::from_str::<Exec>(raw.get())) {
                items.push(call(it.call_id.or(it.id), shell(&exec.command, exec.working_directory)));
            }
        }
        Some("function_call_output" | "custom_tool_call_output") => {
            items.push(Item::Outcome { id: it.call_id.unwrap_or_default(), outcome: output(it.output) });
        }
        _ => {}
    }
}

/// Newer clients say where each text of a message comes from: from the user, or from the harness around the model.
fn is_from_harness(metadata: Option<&RawValue>) -> bool {
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default)]
        content_item_metadata: Vec<About>,
    }
    #[derive(Deserialize)]
    struct About {
        provenance: Option<Provenance>,
    }
    #[derive(Deserialize)]
    struct Provenance {
        #[serde(rename = "type")]
        kind: String,
    }
    let parsed = metadata.and_then(|raw| serde_json::from_str::<Metadata>(raw.get()).ok());
    let kinds = parsed.into_iter().flat_map(|it| it.content_item_metadata).filter_map(|it| it.provenance);
    kinds.into_iter().any(|provenance| provenance.kind != "user")
}

fn said(text: Str<'_>, harness: bool) -> Option<Item<'_>> {
    if let Some(head) = marks::handoff_head(&text) {
        return Some(Item::Loaded(Cow::Owned(head.to_owned())));
    }
    // The desktop client puts a list of attachments before the typed text.
    let words =
        text.split_once("## My request for Codex:").filter(|(head, _)| head.contains("# Files mentioned"));
    let words = words.map_or(text.as_ref(), |(_, request)| request);
    let author = Author::Agent("another session".to_owned());
    match speaker(words) {
        Speaker::Client => None,
        Speaker::Agent(words) => Some(Item::Told { author, text: Cow::Owned(words.to_owned()) }),
        Speaker::Person(words) if harness => {
            Some(Item::Told { author: Author::Unknown, text: Cow::Owned(words.to_owned()) })
        }
        Speaker::Person(words) if words.len() < text.trim().len() => {
            Some(Item::Prompt(Cow::Owned(words.to_owned())))
        }
        Speaker::Baton | Speaker::Person(_) => Some(Item::Prompt(text)),
    }
}

/// Is this text of the user's role the client's own?
pub(in crate::transcript) fn from_client(text: &str) -> bool {
    matches!(speaker(text), Speaker::Client)
}

/// `::git-push{cwd="/p" branch="x"}` at the end of an answer: an order to the desktop client that names what was done.
fn directives(text: &str, items: &mut Vec<Item<'_>>) {
    for line in text.lines().filter_map(|line| line.trim().strip_prefix("::git-")) {
        let value = |key: &str| {
            let (_, rest) = line.split_once(key)?;
            rest.split('"').next().filter(|value| !value.is_empty()).map(|v| Cow::Owned(v.to_owned()))
        };
        items.extend(value(" branch=\"").map(Item::Branch));
        items.extend(value(" url=\"").map(Item::Link));
    }
}

fn without_directives(text: Str<'_>) -> Str<'_> {
    let is_one = |line: &str| {
        let line = line.trim();
        line.starts_with("::") && line.ends_with('}') && line.contains('{')
    };
    if !text.lines().any(is_one) {
        return text;
    }
    Cow::Owned(text.lines().filter(|line| !is_one(line)).collect::<Vec<_>>().join("\n"))
}
