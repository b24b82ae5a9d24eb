//! Tool calls of Claude Code as actions, and the client's notes beside their results.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Str, own};
use crate::transcript::record::{Action, Body, Change, Hunk, Todo, TodoStatus, Touch};

/// Every input field that any tool we understand has; one struct, so that a tool that gains a field stays readable.
#[derive(Deserialize, Default)]
struct Input<'a> {
    #[serde(borrow)]
    command: Option<Str<'a>>,
    run_in_background: Option<bool>,
    #[serde(borrow)]
    file_path: Option<Str<'a>>,
    #[serde(borrow)]
    notebook_path: Option<Str<'a>>,
    #[serde(borrow)]
    old_string: Option<Str<'a>>,
    #[serde(borrow)]
    new_string: Option<Str<'a>>,
    #[serde(borrow)]
    new_source: Option<Str<'a>>,
    /// Text in `Write`; other tools put other shapes here.
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    edits: Option<Vec<EditInput<'a>>>,
    #[serde(borrow)]
    pattern: Option<Str<'a>>,
    #[serde(borrow)]
    path: Option<Str<'a>>,
    /// Numbers, but some models write them as strings.
    #[serde(borrow)]
    offset: Option<&'a RawValue>,
    #[serde(borrow)]
    limit: Option<&'a RawValue>,
    #[serde(borrow)]
    todos: Option<Vec<TodoInput<'a>>>,
    #[serde(borrow)]
    subject: Option<Str<'a>>,
    #[serde(borrow, rename = "taskId")]
    task: Option<Str<'a>>,
    #[serde(borrow)]
    status: Option<Str<'a>>,
    #[serde(borrow)]
    description: Option<Str<'a>>,
    #[serde(borrow)]
    questions: Option<Vec<Question<'a>>>,
    #[serde(borrow)]
    plan: Option<Str<'a>>,
    #[serde(borrow)]
    task_id: Option<Str<'a>>,
    #[serde(borrow)]
    shell_id: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct EditInput<'a> {
    #[serde(borrow, default)]
    old_string: Option<Str<'a>>,
    #[serde(borrow, default)]
    new_string: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct TodoInput<'a> {
    #[serde(borrow)]
    content: Str<'a>,
    #[serde(borrow)]
    status: Str<'a>,
}

#[derive(Deserialize)]
struct Question<'a> {
    #[serde(borrow)]
    question: Str<'a>,
}

/// Tools whose input matters only for the names in it.
const OPAQUE: &[&str] = &["WebFetch", "WebSearch", "LSP", "Skill", "ToolSearch", "TaskList", "TaskGet"];

pub(super) fn action<'a>(name: Str<'a>, input: Option<&'a RawValue>) -> Action<'a> {
    let other = |name| Action::Other { name, input: Body::raw(input) };
    if OPAQUE.contains(&name.as_ref()) || name.starts_with("mcp__") {
        return other(name);
    }
    let Some(Ok(it)) = input.map(|raw| serde_json::from_str::<Input<'a>>(raw.get())) else {
        return other(name);
    };
    let change = |touch, path: Option<Str<'a>>, texts: Vec<Option<Str<'a>>>| {
        let texts = texts.into_iter().flatten().collect();
        path.map(|path| Action::Edit(vec![Change { touch, path, texts, hunks: Vec::new() }]))
    };
    let known = match name.as_ref() {
        "Bash" | "PowerShell" => it.command.map(|command| {
            let background = it.run_in_background == Some(true);
            Action::Shell { command, background, folder: None }
        }),
        "Edit" => change(Touch::Edited, it.file_path, vec![it.old_string, it.new_string]),
        "MultiEdit" => {
            let edits = it.edits.into_iter().flatten();
            let texts = edits.flat_map(|edit| [edit.old_string, edit.new_string]).collect();
            change(Touch::Edited, it.file_path, texts)
        }
        "NotebookEdit" => change(Touch::Edited, it.notebook_path.or(it.file_path), vec![it.new_source]),
        "Write" => {
            let content = it.content.map(|raw| Cow::Owned(own(&Body::raw(Some(raw)))));
            change(Touch::Created, it.file_path, vec![content])
        }
        "Read" => {
            let number = |raw: Option<&RawValue>| raw?.get().trim_matches('"').parse().ok();
            let (from, lines) = (number(it.offset), number(it.limit));
            it.file_path.map(|path| Action::Read { path, from, lines })
        }
        "Grep" | "Glob" => it.pattern.map(|pattern| Action::Search { pattern, path: it.path }),
        "TodoWrite" => it.todos.map(|todos| {
            let todo = |t: TodoInput<'a>| Todo { text: t.content, status: TodoStatus::parse(&t.status) };
            Action::Todos(todos.into_iter().map(todo).collect())
        }),
        "TaskCreate" => it.subject.map(|subject| Action::TaskCreated { subject }),
        "TaskUpdate" => it.task.map(|id| Action::TaskUpdated {
            id,
            status: it.status.as_deref().map(TodoStatus::parse),
            subject: it.subject,
        }),
        "Task" | "Agent" => it
            .description
            .map(|description| Action::Agent { description, background: it.run_in_background == Some(true) }),
        "KillShell" | "KillBash" | "TaskStop" => it.shell_id.or(it.task_id).map(|id| Action::Stopped { id }),
        "AskUserQuestion" => it.questions.map(|q| Action::Asked(q.into_iter().map(|q| q.question).collect())),
        "ExitPlanMode" => it.plan.map(Action::Plan),
        _ => None,
    };
    known.unwrap_or_else(|| other(name))
}

/// The client's note on an edit: where the file was changed.
pub(crate) fn hunks(note: &RawValue) -> Vec<Hunk> {
    #[derive(Deserialize)]
    struct Note<'a> {
        #[serde(borrow, rename = "structuredPatch", default)]
        patch: Vec<Patched<'a>>,
    }
    #[derive(Deserialize)]
    struct Patched<'a> {
        #[serde(rename = "newStart", default)]
        line: u32,
        #[serde(rename = "newLines", default)]
        new: i32,
        #[serde(rename = "oldLines", default)]
        old: i32,
        #[serde(borrow, default)]
        lines: Vec<Str<'a>>,
    }
    let Ok(note) = serde_json::from_str::<Note<'_>>(note.get()) else { return Vec::new() };
    let hunk = |it: Patched<'_>| {
        crate::transcript::patch::hunk(it.line, it.old, it.new, it.lines.iter().map(AsRef::as_ref))
    };
    note.patch.into_iter().map(hunk).collect()
}

/// The user's answers to the agent's questions, as the client notes them beside the result.
pub(crate) fn answers(note: &RawValue) -> Vec<(String, String)> {
    #[derive(Deserialize)]
    struct Note {
        #[serde(default)]
        answers: serde_json::Map<String, serde_json::Value>,
    }
    let Ok(note) = serde_json::from_str::<Note>(note.get()) else { return Vec::new() };
    let text = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    note.answers.into_iter().map(|(question, answer)| (question, text(answer))).collect()
}
