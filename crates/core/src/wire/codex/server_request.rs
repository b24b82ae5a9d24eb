//! Questions that a thread asks its user through Codex's app-server (0.166). Every client that listens to the thread
//! gets the question, the first answer counts, and all of them are notified.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::approval::{Answer, PATCH, QUESTION, Verdict};

/// A question that waits for the first client to answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerRequest {
    /// The server's id for it, which the answer repeats.
    pub id: Value,
    pub thread: String,
    pub turn: String,
    pub item: String,
    pub cwd: Option<String>,
    pub matter: Matter,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Matter {
    /// May this command run? The input has the form that the client's hooks use.
    Command(Value),
    /// Whether these files may change. The item's start event said which and how.
    Change,
    /// Questions, each with the id for its answer.
    Questions { input: Value, ids: Vec<String> },
}

impl ServerRequest {
    /// Parses a request from the server; `None` if it is not ours to answer.
    pub(super) fn read(method: &str, id: Value, params: &Value) -> Option<Self> {
        let text = |name: &str| params.get(name)?.as_str().map(str::to_owned);
        let matter = match method {
            "item/commandExecution/requestApproval" => Matter::Command(command(params)?),
            "item/fileChange/requestApproval" => Matter::Change,
            "item/tool/requestUserInput" => questions(params)?,
            _ => return None,
        };
        let (thread, turn, item) = (text("threadId")?, text("turnId")?, text("itemId")?);
        Some(Self { id, thread, turn, item, cwd: text("cwd"), matter })
    }

    /// The tool and its input in a request's form. `patch` is the item's change of files. `None` if a person could not
    /// see what they would allow.
    pub fn tool(&self, patch: Option<&str>) -> Option<(&'static str, Value)> {
        match &self.matter {
            Matter::Command(input) => Some(("Bash", input.clone())),
            Matter::Change => Some((PATCH, json!({ "command": patch? }))),
            Matter::Questions { input, .. } => Some((QUESTION, input.clone())),
        }
    }

    /// The message that carries this answer; `None` if there is nothing to send.
    pub fn reply(&self, answer: &Answer) -> Option<String> {
        let result = match (&answer.verdict, &self.matter) {
            (Verdict::Closed { .. }, _) => return None,
            (Verdict::Allow { input, .. }, Matter::Questions { input: asked, ids }) => {
                let given = input.as_ref()?.get("answers")?;
                let questions = asked.get("questions").and_then(Value::as_array)?;
                let of = |question: &Value| given.get(question.get("question")?.as_str()?).cloned();
                by_id(ids, questions.iter().map(of))
            }
            // A question cannot be declined, so send the reason as the answer.
            (Verdict::Deny { reason }, Matter::Questions { ids, .. }) => {
                by_id(ids, ids.iter().map(|_| Some(json!(answer.words(reason)))))
            }
            (Verdict::Allow { .. }, _) => json!({ "decision": "accept" }),
            // The turn continues; `cancel` would end it.
            (Verdict::Deny { .. }, _) => json!({ "decision": "decline" }),
        };
        Some(json!({ "id": self.id, "result": result }).to_string())
    }
}

fn by_id(ids: &[String], answers: impl Iterator<Item = Option<Value>>) -> Value {
    let answers: serde_json::Map<String, Value> = ids
        .iter()
        .zip(answers)
        .filter_map(|(id, answer)| Some((id.clone(), json!({ "answers": [answer?] }))))
        .collect();
    json!({ "answers": answers })
}

/// The command with the agent's reason and anything else that an allow would grant.
fn command(params: &Value) -> Option<Value> {
    let mut input = json!({ "command": script(params.get("command")?.as_str()?) });
    if let Some(reason) = params.get("reason").and_then(Value::as_str) {
        input["description"] = json!(reason);
    }
    for more in ["additionalPermissions", "networkApprovalContext"] {
        if let Some(value) = params.get(more).filter(|value| !value.is_null()) {
            input[more] = value.clone();
        }
    }
    Some(input)
}

/// The script passed to a shell, as the agent wrote it. Other commands stay as they are.
fn script(command: &str) -> String {
    let words = shlex::split(command).unwrap_or_default();
    match words.as_slice() {
        [shell, flag, script] if is_shell(shell) && (flag == "-lc" || flag == "-c") => script.clone(),
        _ => command.to_owned(),
    }
}

fn is_shell(program: &str) -> bool {
    ["bash", "sh", "zsh"].contains(&program.rsplit('/').next().unwrap_or_default())
}

/// Converts to the form of Claude Code's questions. A secret must be typed in the terminal.
fn questions(params: &Value) -> Option<Matter> {
    let asked = params.get("questions")?.as_array()?;
    let (mut questions, mut ids) = (Vec::new(), Vec::new());
    for question in asked {
        if question.get("isSecret").and_then(Value::as_bool) == Some(true) {
            return None;
        }
        ids.push(question.get("id")?.as_str()?.to_owned());
        questions.push(json!({
            "question": question.get("question")?.as_str()?,
            "header": question.get("header").cloned().unwrap_or_default(),
            "options": question.get("options").filter(|o| o.is_array()).cloned().unwrap_or_else(|| json!([])),
            "multiSelect": false,
        }));
    }
    Some(Matter::Questions { input: json!({ "questions": questions }), ids })
}

/// The changes of a file-editing item, as one patch.
pub(super) fn patch(item: &Value) -> Option<String> {
    let mut text = String::new();
    for change in item.get("changes")?.as_array()? {
        let (path, diff) = (change.get("path")?.as_str()?, change.get("diff")?.as_str()?);
        let kind = change.get("kind")?;
        let (verb, mark) = match kind.get("type")?.as_str()? {
            "add" => ("Add File", "+"),
            "delete" => ("Delete File", "-"),
            "update" => ("Update File", ""),
            _ => return None,
        };
        let _ = writeln!(text, "*** {verb}: {path}");
        if let Some(to) = kind.get("move_path").and_then(Value::as_str) {
            let _ = writeln!(text, "*** Move to: {to}");
        }
        for line in diff.lines() {
            let _ = writeln!(text, "{mark}{line}");
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::approval::{AnswerAuthor, Closing, Door, Request, answers};
    use crate::ids::{AgentId, SessionId};
    use crate::wire::codex::app::{ServerMessage, read};

    /// As 0.166.0 sent it.
    const COMMAND: &str = r#"{"method":"item/commandExecution/requestApproval","id":0,"params":{"kind":"command",
        "threadId":"01a1e7c9-8e43-72c0-a77d-f1b61c72347b","turnId":"01a1e7ca-1de8-73d3-b318-8d7f5e9278d4",
        "itemId":"call_8dd35235789b","startedAtMs":1794890145589,"environmentId":"local","reason":"lab test",
        "command":"/bin/bash -lc 'touch /home/dev/proj/c1'","cwd":"/home/dev/proj",
        "commandActions":[{"type":"unknown","command":"touch /home/dev/proj/c1"}],
        "proposedExecpolicyAmendment":["touch","/home/dev/proj/c1"],
        "availableDecisions":["accept",{"acceptWithExecpolicyAmendment":
        {"execpolicy_amendment":["touch","/home/dev/proj/c1"]}},"cancel"]}}"#;
    const QUESTIONS: &str = r#"{"method":"item/tool/requestUserInput","id":7,"params":{
        "threadId":"01a1e7c9-8e43-72c0-a77d-f1b61c72347b","turnId":"01a1e7cf-c321-7211-9386-4e389bc1e070",
        "itemId":"call_a18ee0afa49b","questions":[{"id":"q1","header":"Color","question":"Which color?",
        "isOther":true,"isSecret":false,"options":[{"label":"Red","description":"r"},
        {"label":"Blue","description":"b"}]}],"isBlocking":true,"autoResolutionMs":null}}"#;

    fn asked(text: &str) -> ServerRequest {
        match read(text) {
            ServerMessage::Asked(asked) => *asked,
            other => panic!("{other:?}"),
        }
    }

    fn answer(verdict: Verdict) -> Answer {
        Answer { at: Timestamp::UNIX_EPOCH, author: AnswerAuthor::User, door: Door::Cli, verdict }
    }

    fn reply(asked: &ServerRequest, verdict: Verdict) -> Option<Value> {
        asked.reply(&answer(verdict)).map(|text| serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn a_command_is_shown_as_the_agent_wrote_it_and_accepted_or_declined() {
        let command = asked(COMMAND);
        assert_eq!(
            (command.item.as_str(), command.cwd.as_deref()),
            ("call_8dd35235789b", Some("/home/dev/proj"))
        );
        let shown = json!({ "command": "touch /home/dev/proj/c1", "description": "lab test" });
        assert_eq!(command.tool(None), Some(("Bash", shown)));
        let allow = Verdict::Allow { input: None, permissions: Vec::new() };
        assert_eq!(reply(&command, allow), Some(json!({ "id": 0, "result": { "decision": "accept" } })));
        let deny = Verdict::Deny { reason: "no".into() };
        assert_eq!(reply(&command, deny), Some(json!({ "id": 0, "result": { "decision": "decline" } })));
        assert_eq!(reply(&command, Verdict::Closed { because: Closing::Withdrawn }), None);
        let odd = asked(&COMMAND.replace("/bin/bash -lc 'touch /home/dev/proj/c1'", "rm 'a"));
        assert_eq!(odd.tool(None).unwrap().1["command"], "rm 'a");
        let more = asked(&COMMAND.replace("\"kind\"", "\"additionalPermissions\":{\"network\":{}},\"kind\""));
        assert_eq!(more.tool(None).unwrap().1["additionalPermissions"], json!({ "network": {} }));
    }

    #[test]
    fn a_question_is_answered_under_its_id() {
        let question = asked(QUESTIONS);
        let (tool, input) = question.tool(None).unwrap();
        let request = Request {
            at: Timestamp::UNIX_EPOCH,
            agent: AgentId::new("a").unwrap(),
            session: SessionId::new("s").unwrap(),
            provider: "codex".into(),
            cwd: "/".into(),
            subagent: None,
            tool: tool.into(),
            input,
            suggestions: Vec::new(),
            hook: None,
            deadline: None,
        };
        let given = answers(&request, &["2".to_owned()]).unwrap();
        let told = reply(&question, Verdict::Allow { input: Some(given), permissions: Vec::new() });
        assert_eq!(
            told,
            Some(json!({ "id": 7, "result": { "answers": { "q1": { "answers": ["Blue"] } } } }))
        );
        let refused = reply(&question, Verdict::Deny { reason: "Ask later.".into() }).unwrap();
        assert_eq!(refused["result"]["answers"]["q1"]["answers"], json!(["Ask later."]));
        let secret = QUESTIONS.replace("\"isSecret\":false", "\"isSecret\":true");
        assert_eq!(read(&secret), ServerMessage::Other);
    }

    #[test]
    fn changes_of_files_are_known_from_the_item_that_makes_them() {
        let began = r#"{"method":"item/started","params":{"threadId":"t","turnId":"u","item":{"type":"fileChange",
            "id":"i","status":"inProgress","changes":[{"path":"/p/a.rs","kind":{"type":"update","move_path":"/p/b.rs"},
            "diff":"@@ -1 +1 @@\n-old\n+new\n"},{"path":"/p/c","kind":{"type":"add"},"diff":"text\n"}]}}}"#;
        let ServerMessage::Changes { thread, item, patch } = read(began) else { panic!() };
        assert_eq!((thread.as_str(), item.as_str()), ("t", "i"));
        let whole = "*** Update File: /p/a.rs\n*** Move to: /p/b.rs\n@@ -1 +1 @@\n-old\n+new\n*** Add File: /p/c\n+text\n";
        assert_eq!(patch, whole);
        let change = asked(
            r#"{"method":"item/fileChange/requestApproval","id":"x","params":{"threadId":"t","turnId":"u","itemId":"i"}}"#,
        );
        assert_eq!(change.tool(Some("p")), Some((PATCH, json!({ "command": "p" }))));
        assert_eq!(change.tool(None), None, "nobody allows what they cannot see");
        let ended = |status: &str| {
            read(&began.replace("item/started", "item/completed").replace("inProgress", status))
        };
        let done = |ran| ServerMessage::ItemDone { thread: "t".into(), item: "i".into(), ran };
        assert_eq!(
            (ended("completed"), ended("failed"), ended("declined")),
            (done(true), done(true), done(false))
        );
    }

    #[test]
    fn everybody_is_told_that_a_question_was_answered() {
        let text = r#"{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":7}}"#;
        assert_eq!(read(text), ServerMessage::Resolved { thread: "t".into(), id: json!(7) });
    }
}
