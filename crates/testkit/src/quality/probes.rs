//! The facts that a handoff is asked for, as literal texts.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::corpus::Cut;

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

/// One fact: all of `parts` must stand in the handoff, on one line if there are several. Of each part any one of
/// its spellings will do.
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
rule!(
    CHECK,
    r"(?:^|[;&|(]\s*|\s)(?:go (?:test|build|vet)|cargo (?:test|build|check|clippy|nextest)|npm (?:test|run (?:test|build|lint)\S*)|pnpm (?:test|build)|yarn (?:test|build)|pytest|python3? -m (?:pytest|unittest)|make(?: \S*(?:test|build|check)\S*)?(?:\s|$)|mise run \S+|golangci-lint|tsc|jest|vitest)"
);
rule!(COMMIT, r"(?m)^\[[^\]\n]+ ([0-9a-f]{7,40})\] ");
rule!(BACKGROUND, r"(?:running in (?:the )?background with ID: |agentId: )([A-Za-z0-9_-]+)");
rule!(SENTENCE, r"[.!?]\s+|\n+");
rule!(SAVED, r"plan has been saved to: (\S+)");

pub fn fold(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn whole(kind: usize, text: &str) -> Probe {
    Probe { kind, parts: vec![vec![fold(text)]] }
}

/// The user's own words in a record, if it holds some.
pub fn user_text(record: &Value) -> Option<String> {
    if record["type"] != "user"
        || record["isMeta"] == true
        || record["isCompactSummary"] == true
        || record["isSidechain"] == true
    {
        return None;
    }
    let content = &record["message"]["content"];
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks.iter().filter_map(|b| b["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => return None,
    };
    let start = text.trim_start();
    let foreign = start.is_empty()
        || start.starts_with('<')
        || start.starts_with("[Request interrupted")
        || start.starts_with("Caveat:")
        || start.starts_with("This session is being continued");
    (!foreign).then(|| text.trim().to_owned())
}

/// A long request is asked for by its beginning.
fn beginning(text: &str) -> String {
    let folded = fold(text);
    if folded.chars().count() <= REQUEST {
        return folded;
    }
    let cut: String = folded.chars().take(REQUEST).collect();
    cut.rsplit_once(' ').map_or(cut.clone(), |(head, _)| head.to_owned())
}

const REQUEST: usize = 200;
const ERROR: usize = 200;

struct Call<'a> {
    name: &'a str,
    input: &'a Value,
}

pub fn of(cut: &Cut) -> Vec<Probe> {
    let records = &cut.before[cut.stretch..];
    let mut probes = Vec::new();
    let requests: Vec<String> = records.iter().filter_map(user_text).collect();
    if let Some(last) = requests.last() {
        probes.push(whole(0, &beginning(last)));
    }
    if let Some(first) = requests.first() {
        probes.push(whole(1, &beginning(first)));
    }
    let mut seen = std::collections::HashSet::new();
    let mut once = |probe: Probe| seen.insert((probe.kind, probe.parts.clone())).then_some(probe);
    for request in &requests {
        for sentence in SENTENCE.split(request) {
            let sentence = fold(sentence);
            if RULE.is_match(&sentence) && (8..=400).contains(&sentence.chars().count()) {
                probes.extend(once(whole(2, &sentence)));
            }
        }
    }

    let mut calls: HashMap<&str, Call<'_>> = HashMap::new();
    let mut edited: Vec<(String, &str)> = Vec::new();
    let mut commands: Vec<(String, Option<i64>)> = Vec::new();
    let mut shells: Vec<(String, bool)> = Vec::new();
    let mut last_error = None;
    let mut commits = Vec::new();
    let mut tasks: Vec<(String, String, String)> = Vec::new();
    let mut jobs: Vec<String> = Vec::new();
    let mut plan = None;
    let mut branch = None;
    let root = cut.before.iter().find_map(|r| r["cwd"].as_str()).unwrap_or_default();
    // Todos of before the stretch are open todos still.
    for (i, record) in cut.before.iter().enumerate() {
        let here = i >= cut.stretch;
        if record["isSidechain"] == true {
            continue;
        }
        if here && let Some(name) = record["gitBranch"].as_str().filter(|b| !b.is_empty() && *b != "HEAD") {
            branch = Some(name);
        }
        if let Some(text) = record["message"]["content"].as_str()
            && let Some(id) = text.split("<task-id>").nth(1).and_then(|t| t.split('<').next())
        {
            jobs.retain(|job| job != id);
        }
        let Some(blocks) = record["message"]["content"].as_array() else { continue };
        for block in blocks {
            match block["type"].as_str() {
                Some("tool_use") => {
                    let id = block["id"].as_str().unwrap_or_default();
                    let name = block["name"].as_str().unwrap_or_default();
                    calls.insert(id, Call { name, input: &block["input"] });
                    if name == "TodoWrite" {
                        tasks = block["input"]["todos"]
                            .as_array()
                            .into_iter()
                            .flatten()
                            .map(|t| {
                                let text = |k: &str| t[k].as_str().unwrap_or_default().to_owned();
                                (String::new(), text("content"), text("status"))
                            })
                            .collect();
                    }
                    if name == "TaskUpdate" {
                        let id = block["input"]["taskId"].as_str().unwrap_or_default();
                        if let (Some(task), Some(status)) =
                            (tasks.iter_mut().rev().find(|t| t.0 == id), block["input"]["status"].as_str())
                        {
                            status.clone_into(&mut task.2);
                        }
                    }
                }
                Some("tool_result") => {
                    let Some(call) = calls.get(block["tool_use_id"].as_str().unwrap_or_default()) else {
                        continue;
                    };
                    let output = output(&block["content"]);
                    let failed = block["is_error"] == true;
                    let refused = output.starts_with("The user doesn't want to proceed");
                    let path = call.input["file_path"].as_str().unwrap_or_default();
                    // Asked for as people write it: below the folder of the session.
                    let path =
                        path.strip_prefix(root).and_then(|p| p.strip_prefix('/')).unwrap_or(path).to_owned();
                    match call.name {
                        "Edit" | "MultiEdit" | "NotebookEdit" if here && !failed => {
                            edited.push((path.clone(), "edited"));
                        }
                        "Write" if here && !failed => {
                            let created = output.starts_with("File created");
                            edited.push((path.clone(), if created { "created" } else { "edited" }));
                        }
                        "TaskCreate" if !failed => {
                            let id =
                                output.trim_start_matches("Task #").split(' ').next().unwrap_or_default();
                            let subject = call.input["subject"].as_str().unwrap_or_default();
                            tasks.retain(|t| t.0 != id);
                            tasks.push((id.to_owned(), subject.to_owned(), "pending".to_owned()));
                        }
                        "Bash" if here && !refused => {
                            let command = call.input["command"].as_str().unwrap_or_default();
                            let exit = if failed { exit_code(&output) } else { Some(0) };
                            // The text of a here-document is not a command.
                            if CHECK.is_match(command.split("<<").next().unwrap_or_default()) {
                                commands.push((fold(command), exit));
                            }
                            shells.push((fold(command), failed));
                            if command.contains("git") && !failed {
                                commits.extend(COMMIT.captures_iter(&output).map(|c| c[1].to_owned()));
                            }
                        }
                        _ => {}
                    }
                    let plan_path = path.strip_suffix(".md").is_some() && path.contains("plans/");
                    if here && plan_path && matches!(call.name, "Write" | "Edit") && !failed {
                        plan = Some(path.clone());
                    }
                    if here && let Some(saved) = SAVED.captures(&output) {
                        plan = Some(saved[1].to_owned());
                    }
                    let background =
                        call.input["run_in_background"] == true || output.starts_with("Async agent");
                    if background && let Some(job) = BACKGROUND.captures(&output) {
                        jobs.push(job[1].to_owned());
                    }
                    if here && failed && !refused {
                        last_error = Some(output);
                    }
                }
                _ => {}
            }
        }
    }

    for (path, kind) in &edited {
        probes.extend(once(whole(3, path)));
        let first = edited.iter().find(|(p, _)| p == path).map_or(*kind, |(_, k)| *k);
        let words: &[&str] = if first == "created" {
            &["created", "new"]
        } else {
            &["edited", "modified", "updated", "changed"]
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
    // A command that failed, and another of the same program that worked within the next five.
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
        let folded = fold(&error);
        let cut: String = folded.chars().take(ERROR).collect();
        let cut =
            if folded.chars().count() > ERROR { cut.rsplit_once(' ').map_or("", |(h, _)| h) } else { &cut };
        probes.push(whole(5, cut));
    }
    probes.extend(branch.map(|branch| whole(6, branch)));
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

/// The first two words of the command that is not `cd`.
fn program(command: &str) -> String {
    let main = command.split("&&").map(str::trim).find(|part| !part.starts_with("cd ")).unwrap_or_default();
    main.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

fn exit_code(output: &str) -> Option<i64> {
    output.strip_prefix("Exit code ")?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn output(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            blocks.iter().filter_map(|b| b["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Every text of the transcript, folded: what a statement may be made of.
pub fn all_text(records: &[Value]) -> String {
    fn walk(value: &Value, out: &mut String) {
        match value {
            Value::String(text) => {
                for word in text.split_whitespace() {
                    out.push_str(word);
                    out.push(' ');
                }
                out.push('\n');
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, out)),
            Value::Object(fields) => fields.values().for_each(|field| walk(field, out)),
            _ => {}
        }
    }
    let mut out = String::new();
    for record in records {
        walk(record, &mut out);
    }
    out
}
