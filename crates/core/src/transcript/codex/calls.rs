//! Tool calls of Codex as actions, and their results.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::transcript::record::{Action, Body, CallOutcome, ScriptCall, Todo, TodoStatus};
use crate::transcript::{patch, script};

pub(super) fn scripted<'a>(source: &str) -> Action<'a> {
    let script = script::read(source);
    // A script that only polls a process is a poll, not a script.
    if let [ScriptCall::Poll(process)] = script.calls.as_slice() {
        return Action::Poll { process: process.clone(), text: script.text };
    }
    let runs = script.calls.iter().any(|call| matches!(call, ScriptCall::Command(_)));
    if script.text.contains("*** Begin Patch") && !runs {
        return Action::Edit(patch::envelope(&script.text));
    }
    Action::Script { calls: script.calls, text: script.text, folder: script.folder }
}

pub(super) fn function<'a>(name: &str, arguments: &str) -> Option<Action<'a>> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Arguments {
        cmd: Option<String>,
        command: Option<Words>,
        workdir: Option<String>,
        plan: Option<Vec<PlanStep>>,
        input: Option<String>,
        session_id: Option<Number>,
        cell_id: Option<Number>,
        task_name: Option<String>,
        message: Option<String>,
        questions: Option<Vec<Question>>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        One(String),
        Many(Vec<String>),
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Text(String),
        Count(u64),
    }
    #[derive(Deserialize)]
    struct PlanStep {
        step: String,
        #[serde(default)]
        status: String,
    }
    #[derive(Deserialize)]
    struct Question {
        question: String,
    }
    let number = |number: Number| match number {
        Number::Text(text) => text,
        Number::Count(count) => count.to_string(),
    };
    let it: Arguments = serde_json::from_str(arguments).ok()?;
    match name {
        "exec_command" | "shell" | "shell_command" | "container.exec" => {
            let folder = it.workdir;
            let command = match (it.cmd, it.command) {
                (Some(cmd), _) | (None, Some(Words::One(cmd))) => shell_line(cmd, folder),
                (None, Some(Words::Many(words))) => shell(&words, folder),
                (None, None) => return None,
            };
            Some(command)
        }
        "write_stdin" => Some(Action::Poll { process: number(it.session_id?), text: String::new() }),
        "wait" => Some(Action::Poll { process: cell(&number(it.cell_id?)), text: String::new() }),
        "update_plan" => {
            let todo = |s: PlanStep| Todo { status: TodoStatus::parse(&s.status), text: Cow::Owned(s.step) };
            Some(Action::Todos(it.plan?.into_iter().map(todo).collect()))
        }
        "apply_patch" => Some(Action::Edit(patch::envelope(&it.input?))),
        "spawn_agent" => {
            let task = it.message.or(it.task_name)?;
            Some(Action::Agent { description: Cow::Owned(task), background: true })
        }
        "request_user_input" => {
            let questions = it.questions?.into_iter().map(|q| Cow::Owned(q.question));
            Some(Action::Asked(questions.collect()))
        }
        _ => None,
    }
}

/// A script that keeps running is polled by the number of its cell.
fn cell(number: &str) -> String {
    format!("cell {number}")
}

pub(super) fn shell<'a>(words: &[String], folder: Option<String>) -> Action<'a> {
    if let [tool, text] = words
        && tool == "apply_patch"
    {
        return Action::Edit(patch::envelope(text));
    }
    shell_line(script_of(words), folder)
}

/// A command line. A line that only hands a patch to `apply_patch` is an edit.
fn shell_line<'a>(command: String, folder: Option<String>) -> Action<'a> {
    let only_patches = command.trim_start().starts_with("apply_patch")
        && command.contains("*** Begin Patch")
        // After the patch comes the word or quote that ends it.
        && command.split_once("*** End Patch").is_some_and(|(_, rest)| rest.split_whitespace().count() <= 1);
    if only_patches {
        return Action::Edit(patch::envelope(&command));
    }
    Action::Shell { command: Cow::Owned(command), background: false, folder }
}

/// `["bash", "-lc", "make test"]` is `make test`.
pub(super) fn script_of(words: &[String]) -> String {
    match words {
        [shell, flag @ .., script] if !flag.is_empty() && flag.iter().all(|f| f.starts_with(['-', '/'])) => {
            let name = shell.rsplit(['/', '\\']).next().unwrap_or_default().trim_end_matches(".exe");
            let is_shell = name.ends_with("sh") || matches!(name, "powershell" | "cmd");
            if is_shell { script.clone() } else { words.join(" ") }
        }
        _ => words.join(" "),
    }
}

/// The result of a call: the output without the client's lines about it.
pub(super) fn output(raw: Option<&RawValue>) -> CallOutcome<'_> {
    #[derive(Deserialize)]
    struct Older {
        output: String,
        metadata: Option<Metadata>,
    }
    #[derive(Deserialize)]
    struct Metadata {
        exit_code: Option<i32>,
    }
    let ended = |text: &str, exit: Option<i32>, failed: bool| CallOutcome {
        failed: exit.map_or(failed, |code| code != 0),
        exit,
        body: Body::Text(Cow::Owned(text.to_owned())),
        note: None,
        results: Vec::new(),
    };
    let body = Body::raw(raw);
    let text = body.text();
    if let Ok(older) = serde_json::from_str::<Older>(&text)
        && older.metadata.is_some()
    {
        return ended(&older.output, older.metadata.and_then(|m| m.exit_code), false);
    }
    let (head, shown) = text.split_once("Output:\n").unwrap_or(("", &text));
    if head.starts_with("Script ") {
        let shown = shown.trim_start_matches('\n');
        if let Some(rest) = head.strip_prefix("Script running with cell ID ") {
            let number = rest.lines().next().unwrap_or_default().trim();
            return ended(&format!("{RUNNING}{}\n{shown}", cell(number)), None, false);
        }
        let (results, plain) = script::results(shown);
        let exit = if let [one] = results.as_slice() { one.exit } else { None };
        let outcome = ended(&plain, exit, !head.starts_with("Script completed"));
        return CallOutcome { results, ..outcome };
    }
    let number =
        |mark: &str| head.lines().find_map(|line| line.strip_prefix(mark)?.trim().parse::<i32>().ok());
    let exit = number("Process exited with code ").or_else(|| number("Exit code: "));
    if let Some(process) = head.lines().find_map(|line| line.strip_prefix(RUNNING)) {
        return ended(&format!("{RUNNING}{process}\n{shown}"), None, false);
    }
    ended(shown, exit, false)
}

/// How the client says that a process was left running.
const RUNNING: &str = "Process running with session ID ";
