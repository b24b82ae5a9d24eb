//! Codex rollout lines: `{timestamp, type, payload}`. The same acts as in any transcript, wrapped differently.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::parser::{Parsed, Provider};
use super::record::{Action, Body, Item, Record, Todo, TodoStatus, Touch};

type Str<'a> = Cow<'a, str>;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    timestamp: Option<Str<'a>>,
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

pub(super) fn parse(line: &[u8]) -> Option<Parsed<'_>> {
    let line: Line<'_> = serde_json::from_slice(line).ok()?;
    let it = line.payload;
    let mut record = Record { time: line.timestamp, ..Record::default() };
    let mut known = true;
    match line.kind.as_ref() {
        "session_meta" => {
            record.session = it.id;
            record.cwd = it.cwd;
            record.branch = it.git.and_then(|git| git.branch);
        }
        "turn_context" => record.cwd = it.cwd,
        "compacted" => record.items.push(Item::Boundary),
        "event_msg" => match it.kind.as_deref() {
            Some("task_complete") => record.items.push(Item::TurnEnded),
            Some("turn_aborted") => record.items.push(Item::Interrupted),
            _ => {}
        },
        "response_item" => {
            record.uuid = it.id.clone();
            response(it, &mut record.items);
        }
        "world_state" | "token_usage_record" => {}
        _ => known = false,
    }
    Some(Parsed { provider: Provider::Codex, record, message: None, known })
}

fn response<'a>(it: Payload<'a>, items: &mut Vec<Item<'a>>) {
    let call = |id: Option<Str<'a>>, action| Item::Call { id: id.unwrap_or_default(), action };
    match it.kind.as_deref() {
        Some("message") => {
            let parts: Vec<Part<'a>> =
                it.content.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
            let texts = parts.into_iter().filter_map(|part| part.text).filter(|t| !t.trim().is_empty());
            match it.role.as_deref() {
                Some("user") => items.extend(texts.filter(|t| !from_client(t)).map(Item::Prompt)),
                Some("assistant") => items.extend(texts.map(Item::Reply)),
                _ => {}
            }
        }
        Some("function_call") => {
            let name = it.name.unwrap_or_default();
            let action = function(&name, it.arguments.as_deref().unwrap_or_default());
            items.push(call(it.call_id, action.unwrap_or(Action::Other(name))));
        }
        Some("custom_tool_call") => {
            let name = it.name.unwrap_or_default();
            let body = Body::raw(it.input);
            let action = if name == "apply_patch" { patch(&body.text()) } else { Action::Other(name) };
            items.push(call(it.call_id, action));
        }
        Some("local_shell_call") => {
            #[derive(Deserialize)]
            struct Exec {
                command: Vec<String>,
            }
            if let Some(Ok(exec)) = it.action.map(|raw| serde_json::from_str::<Exec>(raw.get())) {
                items.push(call(it.call_id.or(it.id), shell(&exec.command)));
            }
        }
        Some("function_call_output" | "custom_tool_call_output") => {
            let (text, failed) = output(it.output);
            items.push(Item::Outcome {
                id: it.call_id.unwrap_or_default(),
                failed,
                body: Body::Text(Cow::Owned(text)),
            });
        }
        _ => {}
    }
}

/// The client speaks in the user's role too; what it says comes in tags of its own.
pub(super) fn from_client(text: &str) -> bool {
    const STARTS: [&str; 7] = [
        "<environment_context>",
        "<user_instructions>",
        "<user_shell_command>",
        "<turn_aborted>",
        "<permissions instructions>",
        "<skill",
        "# AGENTS.md instructions",
    ];
    STARTS.iter().any(|start| text.trim_start().starts_with(start))
}

fn function<'a>(name: &str, arguments: &str) -> Option<Action<'a>> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Arguments {
        cmd: Option<String>,
        command: Option<Words>,
        plan: Option<Vec<Step>>,
        input: Option<String>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        One(String),
        Many(Vec<String>),
    }
    #[derive(Deserialize)]
    struct Step {
        step: String,
        #[serde(default)]
        status: String,
    }
    let it: Arguments = serde_json::from_str(arguments).ok()?;
    match name {
        "exec_command" | "shell" | "shell_command" | "container.exec" => {
            let command = match (it.cmd, it.command) {
                (Some(cmd), _) | (None, Some(Words::One(cmd))) => {
                    Action::Shell { command: Cow::Owned(cmd), background: false }
                }
                (None, Some(Words::Many(words))) => shell(&words),
                (None, None) => return None,
            };
            Some(command)
        }
        "update_plan" => {
            let todo = |s: Step| Todo { status: TodoStatus::parse(&s.status), text: Cow::Owned(s.step) };
            Some(Action::Todos(it.plan?.into_iter().map(todo).collect()))
        }
        "apply_patch" => Some(patch(&it.input?)),
        _ => None,
    }
}

/// `["bash", "-lc", "make test"]` is `make test`; a patch given to the shell is a patch.
fn shell<'a>(words: &[String]) -> Action<'a> {
    let command = match words {
        [shell, flag, script] if flag.starts_with('-') && shell.ends_with("sh") => script.clone(),
        [tool, text] if tool == "apply_patch" => return patch(text),
        _ => words.join(" "),
    };
    Action::Shell { command: Cow::Owned(command), background: false }
}

fn patch<'a>(text: &str) -> Action<'a> {
    let touched = text.lines().filter_map(|line| {
        let (touch, path) = if let Some(path) = line.strip_prefix("*** Add File: ") {
            (Touch::Created, path)
        } else if let Some(path) = line.strip_prefix("*** Update File: ") {
            (Touch::Edited, path)
        } else {
            (Touch::Deleted, line.strip_prefix("*** Delete File: ")?)
        };
        Some((touch, Cow::Owned(path.trim().to_owned())))
    });
    Action::Files(touched.collect())
}

/// The output in the form that all rules know, `Exit code N` first when it failed.
fn output(raw: Option<&RawValue>) -> (String, bool) {
    #[derive(Deserialize)]
    struct Older {
        output: String,
        metadata: Option<Metadata>,
    }
    #[derive(Deserialize)]
    struct Metadata {
        exit_code: Option<i32>,
    }
    let body = Body::raw(raw);
    let text = body.text();
    if let Ok(older) = serde_json::from_str::<Older>(&text) {
        return with_exit(older.output, older.metadata.and_then(|m| m.exit_code));
    }
    let (head, shown) = text.split_once("Output:\n").unwrap_or(("", &text));
    let exit = head
        .lines()
        .find_map(|line| line.strip_prefix("Process exited with code ")?.trim().parse::<i32>().ok());
    if let Some(running) = head.lines().find(|line| line.starts_with("Process running with session ID ")) {
        return (format!("{running}\n{shown}"), false);
    }
    with_exit(shown.to_owned(), exit)
}

fn with_exit(output: String, exit: Option<i32>) -> (String, bool) {
    match exit {
        Some(code) if code != 0 => (format!("Exit code {code}\n{output}"), true),
        _ => (output, false),
    }
}
