//! The part of Codex's app-server protocol (0.166) for watching a thread, talking to it and starting its successor:
//! JSON-RPC without the version field, one message per WebSocket text.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

pub use super::server_request::{Matter, ServerRequest};

/// The first request on a connection.
pub fn initialize(version: &str) -> (&'static str, Value) {
    let client = json!({ "name": "baton", "title": "baton", "version": version });
    ("initialize", json!({ "clientInfo": client, "capabilities": { "experimentalApi": true } }))
}

/// Sent after the answer to it.
pub const INITIALIZED: &str = r#"{"method":"initialized"}"#;

/// Subscribes to a thread; the answer has its setup.
pub fn resume(thread: &str) -> (&'static str, Value) {
    ("thread/resume", json!({ "threadId": thread, "excludeTurns": true }))
}

/// Unsubscribes from a thread: one without listeners ends a minute after its client has left.
pub fn unsubscribe(thread: &str) -> (&'static str, Value) {
    ("thread/unsubscribe", json!({ "threadId": thread }))
}

/// Starts a turn with `text`.
pub fn turn(thread: &str, text: &str, effort: Option<&str>) -> (&'static str, Value) {
    let input = json!([{ "type": "text", "text": text }]);
    ("turn/start", json!({ "threadId": thread, "input": input, "effort": effort }))
}

/// Adds the user's words to the running turn.
pub fn steer(thread: &str, turn: &str, text: &str) -> (&'static str, Value) {
    let input = json!([{ "type": "text", "text": text }]);
    ("turn/steer", json!({ "threadId": thread, "expectedTurnId": turn, "input": input }))
}

/// Gives a thread a fresh window. Where the client makes no summary, nothing of the old one is left.
pub fn fresh_window(thread: &str) -> (&'static str, Value) {
    ("thread/compact/start", json!({ "threadId": thread }))
}

pub fn name(thread: &str, name: &str) -> (&'static str, Value) {
    ("thread/name/set", json!({ "threadId": thread, "name": name }))
}

pub fn request(id: u64, method: &str, params: &Value) -> String {
    json!({ "id": id, "method": method, "params": params }).to_string()
}

/// A thread's setup from the answer to [`resume`]; its successor gets the same.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Setup {
    model: Option<String>,
    model_provider: Option<String>,
    service_tier: Option<String>,
    approval_policy: Value,
    approvals_reviewer: Value,
    sandbox: Value,
    active_permission_profile: Value,
    runtime_workspace_roots: Value,
    pub reasoning_effort: Option<String>,
}

impl Setup {
    /// Leaves fields of an unexpected type to the client's own settings.
    pub fn read(answer: &Value) -> Self {
        serde_json::from_value(answer.clone()).unwrap_or_default()
    }

    /// Starts a fresh thread in `cwd` that follows this one.
    pub fn start(&self, cwd: &str) -> (&'static str, Value) {
        let mut params = json!({
            "cwd": cwd, "sessionStartSource": "clear", "model": self.model, "modelProvider": self.model_provider,
            "serviceTier": self.service_tier, "approvalPolicy": self.approval_policy,
            "approvalsReviewer": self.approvals_reviewer, "runtimeWorkspaceRoots": self.runtime_workspace_roots,
        });
        // The server takes one of the two, never both.
        match self.active_permission_profile.get("id").and_then(Value::as_str) {
            Some(profile) => params["permissions"] = profile.into(),
            None => params["sandbox"] = self.sandbox_mode().into(),
        }
        ("thread/start", params)
    }

    fn sandbox_mode(&self) -> Option<&'static str> {
        match self.sandbox.get("type")?.as_str()? {
            "dangerFullAccess" => Some("danger-full-access"),
            "workspaceWrite" => Some("workspace-write"),
            "readOnly" => Some("read-only"),
            _ => None,
        }
    }
}

/// A newly started thread.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StartedThread {
    pub id: String,
    /// Its rollout file, created by the first prompt.
    #[serde(default)]
    pub path: Option<String>,
}

/// The thread in the answer to [`Setup::start`].
pub fn started(answer: &Value) -> Option<StartedThread> {
    serde_json::from_value(answer.get("thread")?.clone()).ok()
}

/// A message from the server.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerMessage {
    Answer {
        id: u64,
        result: Result<Value, String>,
    },
    /// The tokens in the last request of this thread, its window, and the time if given.
    Usage {
        thread: String,
        tokens: u64,
        window: u64,
        at: Option<Timestamp>,
    },
    /// A thread asks its user; any of its clients may answer.
    Asked(Box<ServerRequest>),
    /// One of them answered the question with this id, or it is no longer asked.
    Resolved {
        thread: String,
        id: Value,
    },
    /// An item begins that would make these changes to files.
    Changes {
        thread: String,
        item: String,
        patch: String,
    },
    /// A command or a change ended, successfully or not, or never ran.
    ItemDone {
        thread: String,
        item: String,
        ran: bool,
    },
    /// A turn of this thread is over; a compaction counts as one.
    TurnDone {
        thread: String,
    },
    /// Anything else: notices, and questions that are for the thread's user alone.
    Other,
}

/// Parses one message; `Other` for anything that we do not understand.
pub fn read(text: &str) -> ServerMessage {
    #[derive(Deserialize)]
    struct Message {
        id: Option<Value>,
        method: Option<String>,
        result: Option<Value>,
        error: Option<Value>,
        params: Option<Value>,
        #[serde(default, rename = "emittedAtMs")]
        emitted: Option<Value>,
    }
    let Ok(message) = serde_json::from_str::<Message>(text) else { return ServerMessage::Other };
    match (message.method.as_deref(), message.id.as_ref().and_then(Value::as_u64)) {
        (None, Some(id)) => {
            let result = match message.error {
                Some(error) => Err(error["message"].as_str().unwrap_or("it gave no reason").to_owned()),
                None => Ok(message.result.unwrap_or_default()),
            };
            ServerMessage::Answer { id, result }
        }
        (Some("thread/tokenUsage/updated"), _) => {
            let at = message.emitted.and_then(|ms| Timestamp::from_millisecond(ms.as_i64()?).ok());
            usage(&message.params.unwrap_or_default(), at)
        }
        (Some(method), _) => {
            let params = message.params.unwrap_or_default();
            let heard = match message.id {
                Some(id) => ServerRequest::read(method, id, &params)
                    .map(|asked| ServerMessage::Asked(Box::new(asked))),
                None => notice(method, &params),
            };
            heard.unwrap_or(ServerMessage::Other)
        }
        (None, None) => ServerMessage::Other,
    }
}

/// The server's notifications to all clients of a thread, as far as they concern something asked.
fn notice(method: &str, params: &Value) -> Option<ServerMessage> {
    let thread = params.get("threadId")?.as_str()?.to_owned();
    if method == "serverRequest/resolved" {
        return Some(ServerMessage::Resolved { thread, id: params.get("requestId")?.clone() });
    }
    if method == "turn/completed" {
        return Some(ServerMessage::TurnDone { thread });
    }
    let item = params.get("item")?;
    let text = |name: &str| item.get(name)?.as_str();
    let (kind, id) = (text("type")?, text("id")?.to_owned());
    match (method, kind) {
        ("item/started", "fileChange") => {
            Some(ServerMessage::Changes { thread, item: id, patch: super::server_request::patch(item)? })
        }
        ("item/completed", "commandExecution" | "fileChange") => {
            let ran = match text("status")? {
                "completed" | "failed" => true,
                "declined" => false,
                _ => return None,
            };
            Some(ServerMessage::ItemDone { thread, item: id, ran })
        }
        _ => None,
    }
}

/// Only `last` says how full the context is; `total` sums all requests of the thread.
fn usage(params: &Value, at: Option<Timestamp>) -> ServerMessage {
    let count = |of: &Value| of.as_u64().filter(|&n| n > 0);
    let usage = &params["tokenUsage"];
    match (
        params["threadId"].as_str(),
        count(&usage["last"]["totalTokens"]),
        count(&usage["modelContextWindow"]),
    ) {
        (Some(thread), Some(tokens), Some(window)) => {
            ServerMessage::Usage { thread: thread.to_owned(), tokens, window, at }
        }
        _ => ServerMessage::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_request_counts_and_never_the_sum() {
        let text = r#"{"method":"thread/tokenUsage/updated","params":{"threadId":"t1","turnId":"u","tokenUsage":{
            "total":{"totalTokens":900000},"last":{"totalTokens":60500},"modelContextWindow":95000}},
            "emittedAtMs":1794790364181}"#;
        let at = Timestamp::from_millisecond(1_794_790_364_181).ok();
        assert_eq!(
            read(text),
            ServerMessage::Usage { thread: "t1".into(), tokens: 60_500, window: 95_000, at }
        );
        assert_eq!(read(&text.replace("60500", "0")), ServerMessage::Other);
        assert_eq!(read("[1]"), ServerMessage::Other);
        assert_eq!(
            read(r#"{"id":3,"method":"item/commandExecution/requestApproval","params":{}}"#),
            ServerMessage::Other
        );
    }

    #[test]
    fn the_end_of_a_turn_names_its_thread() {
        let text = r#"{"method":"turn/completed","params":{"threadId":"t1","turn":{"id":"u","status":"completed"}}}"#;
        assert_eq!(read(text), ServerMessage::TurnDone { thread: "t1".into() });
    }

    #[test]
    fn an_answer_is_its_result_or_its_reason() {
        assert_eq!(read(r#"{"id":2,"result":{}}"#), ServerMessage::Answer { id: 2, result: Ok(json!({})) });
        let no = read(r#"{"id":2,"error":{"code":-32600,"message":"thread not found"}}"#);
        assert_eq!(no, ServerMessage::Answer { id: 2, result: Err("thread not found".into()) });
    }

    #[test]
    fn a_successor_is_set_up_as_the_thread_before_it() {
        let old = json!({
            "model": "m", "modelProvider": "p", "serviceTier": null, "approvalPolicy": "never",
            "approvalsReviewer": "user", "sandbox": { "type": "workspaceWrite", "networkAccess": false },
            "activePermissionProfile": null, "reasoningEffort": "high", "runtimeWorkspaceRoots": ["/p"],
        });
        let setup = Setup::read(&old);
        let (method, params) = setup.start("/p");
        assert_eq!(method, "thread/start");
        assert_eq!(params["sessionStartSource"], "clear");
        assert_eq!((&params["sandbox"], params.get("permissions")), (&json!("workspace-write"), None));
        assert_eq!((&params["model"], &params["approvalPolicy"]), (&json!("m"), &json!("never")));
        assert_eq!(setup.reasoning_effort.as_deref(), Some("high"));
        let named = Setup { active_permission_profile: json!({ "id": ":workspace" }), ..setup };
        let (_, params) = named.start("/p");
        assert_eq!((&params["permissions"], params.get("sandbox")), (&json!(":workspace"), None));
        let empty = Setup::read(&json!({ "model": 7 }));
        assert_eq!(empty.start("/p").1["cwd"], "/p");
    }
}
