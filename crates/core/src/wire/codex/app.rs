//! Codex's app-server protocol (0.166), as far as a thread is watched, talked to and followed by a fresh one: JSON-RPC
//! without its version field, one message per WebSocket text.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

/// The first request on a connection.
pub fn initialize(version: &str) -> (&'static str, Value) {
    let client = json!({ "name": "baton", "title": "baton", "version": version });
    ("initialize", json!({ "clientInfo": client, "capabilities": { "experimentalApi": true } }))
}

/// What follows the answer to it.
pub const INITIALIZED: &str = r#"{"method":"initialized"}"#;

/// Subscribes to a thread, and tells how it is set up.
pub fn resume(thread: &str) -> (&'static str, Value) {
    ("thread/resume", json!({ "threadId": thread, "excludeTurns": true }))
}

/// Lets go of a thread: one that nobody listens to ends a minute after its client has left.
pub fn unsubscribe(thread: &str) -> (&'static str, Value) {
    ("thread/unsubscribe", json!({ "threadId": thread }))
}

/// A turn that begins with `text`.
pub fn turn(thread: &str, text: &str, effort: Option<&str>) -> (&'static str, Value) {
    let input = json!([{ "type": "text", "text": text }]);
    ("turn/start", json!({ "threadId": thread, "input": input, "effort": effort }))
}

pub fn name(thread: &str, name: &str) -> (&'static str, Value) {
    ("thread/name/set", json!({ "threadId": thread, "name": name }))
}

pub fn request(id: u64, method: &str, params: &Value) -> String {
    json!({ "id": id, "method": method, "params": params }).to_string()
}

/// How a thread is set up, as the answer to [`resume`] tells; its successor is set up the same.
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
    /// A field of another type than the one recorded is left to the client's own settings.
    pub fn read(answer: &Value) -> Self {
        serde_json::from_value(answer.clone()).unwrap_or_default()
    }

    /// A fresh thread in `cwd` that follows this one.
    pub fn start(&self, cwd: &str) -> (&'static str, Value) {
        let mut params = json!({
            "cwd": cwd, "sessionStartSource": "clear", "model": self.model, "modelProvider": self.model_provider,
            "serviceTier": self.service_tier, "approvalPolicy": self.approval_policy,
            "approvalsReviewer": self.approvals_reviewer, "runtimeWorkspaceRoots": self.runtime_workspace_roots,
        });
        // One of the two, never both.
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

/// A thread that was started.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Started {
    pub id: String,
    /// Its rollout, which the first prompt makes.
    #[serde(default)]
    pub path: Option<String>,
}

/// The thread in the answer to [`Setup::start`].
pub fn started(answer: &Value) -> Option<Started> {
    serde_json::from_value(answer.get("thread")?.clone()).ok()
}

/// What the server said.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    Answer {
        id: u64,
        result: Result<Value, String>,
    },
    /// The last request of this thread held so many tokens of so many; said then, where it tells.
    Usage {
        thread: String,
        tokens: u64,
        window: u64,
        at: Option<Timestamp>,
    },
    /// Anything else: notices, and questions that are for the thread's user.
    Other,
}

/// Reads one message; what cannot be understood is nothing to us.
pub fn read(text: &str) -> Heard {
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
    let Ok(message) = serde_json::from_str::<Message>(text) else { return Heard::Other };
    match (message.method.as_deref(), message.id.as_ref().and_then(Value::as_u64)) {
        (None, Some(id)) => {
            let result = match message.error {
                Some(error) => Err(error["message"].as_str().unwrap_or("it gave no reason").to_owned()),
                None => Ok(message.result.unwrap_or_default()),
            };
            Heard::Answer { id, result }
        }
        (Some("thread/tokenUsage/updated"), _) => {
            let at = message.emitted.and_then(|ms| Timestamp::from_millisecond(ms.as_i64()?).ok());
            usage(&message.params.unwrap_or_default(), at)
        }
        _ => Heard::Other,
    }
}

/// `last` alone says how full the context is; `total` adds up every request of the thread.
fn usage(params: &Value, at: Option<Timestamp>) -> Heard {
    let count = |of: &Value| of.as_u64().filter(|&n| n > 0);
    let usage = &params["tokenUsage"];
    match (
        params["threadId"].as_str(),
        count(&usage["last"]["totalTokens"]),
        count(&usage["modelContextWindow"]),
    ) {
        (Some(thread), Some(tokens), Some(window)) => {
            Heard::Usage { thread: thread.to_owned(), tokens, window, at }
        }
        _ => Heard::Other,
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
        assert_eq!(read(text), Heard::Usage { thread: "t1".into(), tokens: 60_500, window: 95_000, at });
        assert_eq!(read(&text.replace("60500", "0")), Heard::Other);
        assert_eq!(read("[1]"), Heard::Other);
        assert_eq!(
            read(r#"{"id":3,"method":"item/commandExecution/requestApproval","params":{}}"#),
            Heard::Other
        );
    }

    #[test]
    fn an_answer_is_its_result_or_its_reason() {
        assert_eq!(read(r#"{"id":2,"result":{}}"#), Heard::Answer { id: 2, result: Ok(json!({})) });
        let no = read(r#"{"id":2,"error":{"code":-32600,"message":"thread not found"}}"#);
        assert_eq!(no, Heard::Answer { id: 2, result: Err("thread not found".into()) });
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
