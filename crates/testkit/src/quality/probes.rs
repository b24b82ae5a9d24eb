//! The facts that a handoff should contain, as literal texts.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::story::{Call, Cut, Story, What, unescaped};

pub const KINDS: [&str; 14] = [
    "last user request",
    "first user request",
    "user sentences that set a rule",
    "edited files",
    "test/build commands",
    "last tool error",
    "branch",
    "commit hashes made",
    "open todos",
    "file → kind of change",
    "command → exit status",
    "approaches that failed and were replaced",
    "running background jobs",
    "plan file",
];

/// One fact: the handoff must contain all `parts`, on one line if there are several. Any spelling of a part will do.
#[derive(Debug, Clone)]
pub struct Probe {
    pub kind: usize,
    pub parts: Vec<Vec<String>>,
}

macro_rules! rule {
    ($name:ident, $pattern:literal) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($pattern).expect("a fixed pattern"));
    };
}

rule!(
    RULE,
    r"(?i)\b(must|never|don['’]t|do not|always|only|instead of|should not|shouldn['’]t|make sure|avoid|let['’]s not|no longer|rather than)\b"
);
rule!(SCRATCH, r"(?i)^(?:/private)?/tmp/|^/var/(?:folders|tmp)/|AppData/Local/Temp/");
rule!(COLOUR, r"\x1b\[[0-9;]*[A-Za-z]");
// At the start of a command, after words that only prepare it.
rule!(
    CHECK,
    r"(?:^|[;&|(\n]\s*)(?:\w+=\S+\s+|timeout \S+\s+|time\s+|npx\s+|sudo\s+|corepack\s+)*(?:go (?:test|build|vet)|cargo (?:test|build|check|clippy|nextest)|dotnet (?:test|build)|npm (?:test|run (?:test|build|lint)\S*)|pnpm (?:--filter \S+ |-C \S+ )?(?:exec )?(?:run )?(?:test|build|vitest|tsc)|bun (?:test|run \S*(?:test|build)\S*)|yarn (?:test|build)|pytest|python3? -m (?:pytest|unittest)|make(?: \S*(?:test|build|check)\S*)?(?:\s|$)|mise run \S+|golangci-lint|tsc|jest|vitest|Invoke-Pester)(?:\s|$|;|&|\|)"
);
rule!(STRING, r#"'[^']*'|"(?:[^"\\]|\\.)*""#);
rule!(COMMIT, r"(?m)^\[[^\]\n]+ ([0-9a-f]{7,40})\] ");
rule!(BACKGROUND, r"(?:running in (?:the )?background with ID: |agentId: )([A-Za-z0-9_-]+)");
rule!(RUNNING, r"Process running with session ID (\d+)");
rule!(SENTENCE, r"[.!?]\s+|\n+");
rule!(SAVED, r"plan has been saved to: (\S+)");

pub fn fold(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn whole(kind: usize, text: &str) -> Probe {
    Probe { kind, parts: vec![vec![fold(text)]] }
}

/// A long request is matched by its beginning.
fn beginning(text: &str) -> String {
    let folded = fold(text);
    if folded.chars().count() <= REQUEST {
        return folded;
    }
    let cut: String = folded.chars().take(REQUEST).collect();
    cut.rsplit_once(' ').map_or(cut.clone(), |(head, _)| head.to_owned())
}

const REQUEST: usize = 120;
const ERROR: usize = 200;

/// The facts of the stretch before `cut`.
pub fn of(story: &Story, cut: &Cut) -> Vec<Probe> {
    let stretch = &story.events[cut.stretch..cut.at];
    let mut probes = Vec::new();
    let requests: Vec<&str> = stretch
        .iter()
        .filter_map(|event| if let What::Said(text) = &event.what { Some(text.as_str()) } else { None })
        .collect();
    if let Some(last) = requests.last() {
        probes.push(whole(0, &beginning(last)));
    }
    if let Some(first) = requests.first() {
        probes.push(whole(1, &beginning(first)));
    }
    let mut seen = std::collections::HashSet::new();
    let mut once = |probe: Probe| seen.insert((probe.kind, probe.parts.clone())).then_some(probe);
    for request in &requests {
        for sentence in rules(request) {
            probes.extend(once(whole(2, &sentence)));
        }
    }

    let mut calls: HashMap<&str, &Call> = HashMap::new();
    let mut edited: Vec<(String, &str)> = Vec::new();
    let mut commands: Vec<(String, Option<i64>)> = Vec::new();
    let mut shells: Vec<(String, bool)> = Vec::new();
    let mut last_error = None;
    let mut commits = Vec::new();
    let mut tasks: Vec<(String, String, String)> = Vec::new();
    let mut jobs: Vec<String> = Vec::new();
    let mut plan = None;
    // Todos and jobs from before the stretch are still open.
    for (i, event) in story.events[..cut.at].iter().enumerate() {
        let here = i >= cut.stretch;
        match &event.what {
            What::Ended(id) => jobs.retain(|job| job != id),
            What::Call(call) => {
                calls.insert(&call.id, call);
                todos(call, &mut tasks);
            }
            What::Result(outcome) => {
                let Some(call) = calls.get(outcome.id.as_str()) else { continue };
                let (output, failed) = (&outcome.text, outcome.failed);
                for (path, how) in call.changes.iter().filter(|_| here && !failed) {
                    // Matched as people write it: relative to the session's folder.
                    let path = story.relative(path);
                    let updated = call.tool == "Write" && !output.starts_with("File created");
                    let how = if updated { "edited" } else { how };
                    if path.contains("plans/") && path.strip_suffix(".md").is_some() {
                        plan = Some(path.clone());
                    }
                    // Files in a temporary folder are not part of the work.
                    if !SCRATCH.is_match(&path) {
                        edited.push((path, how));
                    }
                }
                if call.tool == "TaskCreate" && !failed {
                    let id = output.trim_start_matches("Task #").split(' ').next().unwrap_or_default();
                    let subject = call.input["subject"].as_str().unwrap_or_default();
                    tasks.retain(|t| t.0 != id);
                    tasks.push((id.to_owned(), subject.to_owned(), "pending".to_owned()));
                }
                if here && !outcome.refused {
                    for command in &call.commands {
                        // With several commands in one script, we cannot tell which one failed.
                        let exit = outcome.exit.filter(|_| call.commands.len() == 1);
                        // The text of a here-document is not a command.
                        let words = command.split("<<").next().unwrap_or_default();
                        if CHECK.is_match(&STRING.replace_all(words, "x")) {
                            commands.push((fold(command), exit));
                        }
                        shells.push((fold(command), failed));
                        if command.contains("git") && !failed {
                            commits.extend(COMMIT.captures_iter(output).map(|c| c[1].to_owned()));
                        }
                    }
                }
                if here && let Some(saved) = SAVED.captures(output) {
                    plan = Some(saved[1].to_owned());
                }
                let background = call.input["run_in_background"] == true || output.starts_with("Async agent");
                if background && let Some(job) = BACKGROUND.captures(output) {
                    jobs.push(job[1].to_owned());
                }
                if matches!(call.tool.as_str(), "KillShell" | "TaskStop") {
                    jobs.retain(|job| !call.text.contains(job.as_str()));
                }
                if let Some(job) = RUNNING.captures(output) {
                    jobs.retain(|known| *known != job[1]);
                    jobs.push(job[1].to_owned());
                } else if call.tool == "write_stdin" && outcome.exit.is_some() {
                    let id = &call.input["session_id"];
                    let number = id.to_string();
                    jobs.retain(|job| *job != number && Some(job.as_str()) != id.as_str());
                }
                if here && failed && !outcome.refused {
                    last_error = Some(output.clone());
                }
            }
            What::Said(_) | What::Reply(_) | What::Boundary(_) => {}
        }
    }

    for (path, kind) in &edited {
        probes.extend(once(whole(3, path)));
        let first = edited.iter().find(|(p, _)| p == path).map_or(*kind, |(_, k)| *k);
        let words: &[&str] = match first {
            "created" => &["created", "new", "added"],
            "deleted" => &["deleted", "removed"],
            _ => &["edited", "modified", "updated", "changed"],
        };
        let words = words.iter().map(|w| (*w).to_owned()).collect();
        probes.extend(once(Probe { kind: 9, parts: vec![vec![path.clone()], words] }));
    }
    for (command, _) in &commands {
        probes.extend(once(whole(4, command)));
        let last = commands.iter().rev().find(|(c, _)| c == command).and_then(|(_, exit)| *exit);
        if let Some(exit) = last {
            let mut words = vec![format!("exit {exit}"), format!("exit code {exit}")];
            words.push(if exit == 0 { "passed" } else { "failed" }.to_owned());
            probes.extend(once(Probe { kind: 10, parts: vec![vec![command.clone()], words] }));
        }
    }
    // A failed command, and another of the same program that worked within the next five.
    for (i, (command, failed)) in shells.iter().enumerate() {
        let head = program(command);
        let later = shells[i + 1..].iter().take(5);
        if *failed
            && !head.is_empty()
            && later.clone().any(|(c, f)| !f && c != command && program(c) == head)
            && !shells[i + 1..].iter().any(|(c, f)| !f && c == command)
        {
            probes.extend(once(whole(11, command)));
        }
    }
    if let Some(error) = last_error {
        let folded = fold(error.split("Output:\n").last().unwrap_or_default());
        let cut: String = folded.chars().take(ERROR).collect();
        let cut =
            if folded.chars().count() > ERROR { cut.rsplit_once(' ').map_or("", |(h, _)| h) } else { &cut };
        if !cut.is_empty() {
            probes.push(whole(5, cut));
        }
    }
    let branch = story.branches.iter().rev().find(|(at, _)| *at < cut.end);
    probes.extend(branch.map(|(_, branch)| whole(6, branch)));
    for hash in commits {
        probes.extend(once(whole(7, &hash)));
    }
    for (_, text, status) in &tasks {
        if matches!(status.as_str(), "pending" | "in_progress") {
            probes.extend(once(whole(8, text)));
        }
    }
    probes.extend(jobs.iter().map(|job| whole(12, job)));
    probes.extend(plan.map(|plan| whole(13, &plan)));
    probes
}

/// The sentences of a request that set a rule: typed ones of 20 to 240 characters. A message of more than 3,000 was not
/// typed, nor was text in a code fence or after a quotation mark.
pub fn rules(request: &str) -> Vec<String> {
    if request.chars().count() > 3_000 {
        return Vec::new();
    }
    let mut fenced = false;
    let mut typed = String::new();
    for line in request.lines() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if !fenced && !fence && !line.trim_start().starts_with('>') {
            typed.push_str(line);
        }
        typed.push('\n');
    }
    let sentences = SENTENCE.split(&typed).map(fold);
    sentences.filter(|s| RULE.is_match(s) && (20..=240).contains(&s.chars().count())).collect()
}

/// Applies a call to the list of todos.
fn todos(call: &Call, tasks: &mut Vec<(String, String, String)>) {
    let listed = |list: &Value, text: &str| {
        let get = |t: &Value, key: &str| t[key].as_str().unwrap_or_default().to_owned();
        let items = list.as_array().into_iter().flatten();
        items.map(|t| (String::new(), get(t, text), get(t, "status"))).collect()
    };
    match call.tool.as_str() {
        "TodoWrite" => *tasks = listed(&call.input["todos"], "content"),
        "update_plan" => *tasks = listed(&call.input["plan"], "step"),
        "TaskUpdate" => {
            let id = call.input["taskId"].as_str().unwrap_or_default();
            if let (Some(task), Some(status)) =
                (tasks.iter_mut().rev().find(|t| t.0 == id), call.input["status"].as_str())
            {
                status.clone_into(&mut task.2);
            }
        }
        _ => {}
    }
}

/// The first two words of the first command that is not `cd`.
fn program(command: &str) -> String {
    let main = command.split("&&").map(str::trim).find(|part| !part.starts_with("cd ")).unwrap_or_default();
    main.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// Every text of a transcript, folded, against which statements are checked. Nested texts (a script in a call, JSON in
/// an output) count with their escapes undone, Windows paths also with slashes.
pub fn all_text(transcript: &[u8]) -> String {
    fn add(text: &str, out: &mut String) {
        for word in text.split_whitespace() {
            out.push_str(word);
            out.push(' ');
        }
        out.push('\n');
    }
    fn walk(value: &Value, out: &mut String) {
        match value {
            Value::String(text) => {
                add(text, out);
                if text.contains('\u{1b}') {
                    add(&COLOUR.replace_all(text, ""), out);
                }
                if text.contains('\\') {
                    add(&unescaped(text), out);
                    add(&text.replace('\\', "/"), out);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, out)),
            Value::Object(fields) => {
                for (key, field) in fields {
                    add(key, out);
                    walk(field, out);
                }
            }
            _ => {}
        }
    }
    let mut out = String::new();
    for line in transcript.split(|b| *b == b'\n') {
        if let Ok(record) = serde_json::from_slice::<Value>(line) {
            walk(&record, &mut out);
        }
    }
    out
}
