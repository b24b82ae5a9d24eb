//! `GET /openapi.json`: the API's description, generated from the table of routes. A test checks the answers against
//! it.

use baton_core::agent::AgentState;
use baton_core::levels::MarkKind;
use baton_core::need::NeedKind;
use serde_json::{Map, Value, json};

use crate::daemon::routes::{ROUTES, Route};
use crate::views::tasks::ContextEnd;

pub(crate) fn description() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "baton",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Agents, their mail and their handoffs. The user's own processes use the unix socket; \
                on 127.0.0.1 a request needs the token.",
        },
        "servers": [{ "url": "http://127.0.0.1:8420" }],
        "security": [{ "token": [] }, { "page": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "page": { "type": "apiKey", "in": "cookie", "name": "baton-8420" },
            },
            "schemas": all_schemas(),
        },
    })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn operation(route: &Route) -> Value {
    let mut responses = Map::new();
    for (status, schema) in route.gives {
        let kind = if *schema == "Events" { "text/event-stream" } else { "application/json" };
        let description = if *status == 200 { "Done" } else { "Refused, with the reason" };
        responses.insert(
            status.to_string(),
            json!({ "description": description, "content": { kind: { "schema": reference(schema) } } }),
        );
    }
    let description = "Refused before the body was read: host, origin, token, method or form";
    responses.insert(
        "4XX".to_owned(),
        json!({ "description": description,
            "content": { "application/json": { "schema": reference("Error") } } }),
    );
    let mut operation = json!({
        "operationId": format!("{:?}", route.operation),
        "summary": route.summary,
        "responses": responses,
    });
    let mut parameters: Vec<Value> = Vec::new();
    if route.path.contains("{id}") {
        let description = if route.path.starts_with("/approvals") {
            "A request's id, or enough of its beginning"
        } else if route.path.starts_with("/handoffs") {
            "A handoff's id"
        } else if route.path.starts_with("/conversations") {
            "A session's id"
        } else if route.path.starts_with("/inbox") {
            "A message's id, or enough of its beginning"
        } else {
            "An agent's name, or the id of any of its sessions"
        };
        parameters.push(json!({ "name": "id", "in": "path", "required": true, "description": description,
            "schema": { "type": "string" } }));
    }
    for (name, description) in route.query {
        parameters.push(json!({ "name": name, "in": "query", "description": description,
            "schema": { "type": "string" } }));
    }
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    if let Some(schema) = route.takes {
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": reference(schema) } } });
    }
    operation
}

/// An object with exactly these fields, all required.
fn object(fields: &Value) -> Value {
    let required: Vec<&String> = fields.as_object().into_iter().flat_map(Map::keys).collect();
    json!({ "type": "object", "required": required, "properties": fields, "additionalProperties": false })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn maybe() -> Value {
    json!({ "type": ["string", "null"] })
}

fn number() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn maybe_number() -> Value {
    json!({ "type": ["integer", "null"], "minimum": 0 })
}

fn stamp() -> Value {
    json!({ "type": "string", "format": "date-time" })
}

fn maybe_stamp() -> Value {
    json!({ "type": ["string", "null"], "format": "date-time" })
}

/// The same with only these fields required.
fn partly(required: &[&str], fields: &Value) -> Value {
    let mut object = object(fields);
    object["required"] = json!(required);
    object
}

/// The views beyond the agents themselves, and the actions.
fn views() -> Value {
    let items = || json!({ "type": "array", "items": object(&json!({ "kind": text(), "text": text() })) });
    let result = partly(
        &["failed", "text"],
        &json!({
            "failed": { "type": "boolean" }, "exit": { "type": "integer" }, "at": stamp(), "text": text(),
        }),
    );
    // Prompts have `from`; finished tool calls have `result`.
    let entry = partly(
        &["offset", "kind", "text"],
        &json!({
            "offset": number(), "at": stamp(),
            "kind": { "type": "string", "enum": ["prompt", "reply", "tool", "note"] },
            "from": text(), "text": text(), "diff": text(), "result": result,
        }),
    );
    json!({
        "Conversation": object(&json!({
            "entries": { "type": "array", "items": entry },
            "more": { "type": "boolean" }, "next": maybe_number(),
        })),
        "Levels": object(&json!({
            "since": stamp(),
            "points": { "type": "array", "items": object(&json!({ "at": stamp(), "tokens": number() })) },
            "marks": { "type": "array", "items": object(&json!({
                "at": stamp(), "kind": { "type": "string", "enum": MarkKind::ALL.map(MarkKind::as_str) },
                "handoff": maybe(),
            })) },
            "window": maybe_number(), "warn_at": maybe_number(), "ask_at": maybe_number(),
            "compacts_at": maybe_number(),
        })),
        "LogLines": object(&json!({ "lines": { "type": "array", "items": {
            "type": "object", "required": ["at", "event"],
            "properties": { "at": stamp(), "event": text(), "session": text(), "agent": text(), "channel": text() },
        } } })),
        "Chain": object(&json!({
            "sessions": { "type": "array", "items": object(&json!({
                "id": text(), "started": stamp(), "source": text(), "ended": maybe_stamp(), "model": maybe(),
                "tokens": maybe_number(), "continues": maybe(), "handoff": maybe(), "transcript_path": maybe(),
            })) },
            "hops": { "type": "array", "items": object(&json!({
                "handoff": text(), "session": text(), "at": stamp(), "type": text(), "agent": text(),
                "wrote": { "type": "boolean" }, "carried": { "type": ["object", "null"] },
                "tokens": maybe_number(),
            })) },
            "earlier": number(),
        })),
        "Draft": object(&json!({
            "document": text(), "against": maybe(),
            "lacking": items(), "more": items(),
        })),
        "Document": object(&json!({
            "id": text(), "document": text(), "entry": { "type": ["object", "null"] }, "path": text(),
            "history": { "type": "array", "items": { "type": "object" } },
        })),
        "Hop": object(&json!({
            "id": text(), "before": maybe(), "carried": items(), "left": items(), "added": items(),
        })),
        "Tasks": object(&json!({
            "since": stamp(), "left_out": number(),
            "tasks": { "type": "array", "items": object(&json!({
                "agent": text(), "project": text(), "about": maybe(), "words": text(), "last": stamp(),
                "contexts": { "type": "array", "items": object(&json!({
                    "session": text(), "from": stamp(), "to": maybe_stamp(),
                    "end": { "type": "string", "enum": ContextEnd::ALL },
                    "tokens": maybe_number(), "continues": maybe(),
                })) },
                "handoffs": { "type": "array", "items": object(&json!({
                    "id": text(), "session": text(), "at": stamp(), "type": text(),
                    "wrote": { "type": "boolean" },
                })) },
            })) },
        })),
        "Found": object(&json!({
            "more": { "type": "boolean" }, "searched": number(), "skipped": number(),
            "hits": { "type": "array", "items": object(&json!({
                "session": text(), "agent": maybe(), "provider": text(), "title": text(), "project": text(),
                "at": maybe_stamp(), "role": { "type": "string", "enum": ["user", "assistant", "tool"] },
                "tool": maybe(), "offset": number(), "subagent": { "type": "boolean" },
                "mirror": { "type": "boolean" }, "before": { "type": "array", "items": text() },
                "line": { "type": "array", "items": object(&json!({
                    "text": text(), "found": { "type": "boolean" },
                })) },
                "after": { "type": "array", "items": text() }, "times": number(), "resume": text(),
            })) },
        })),
        "Subagents": object(&json!({ "subagents": { "type": "array", "items": object(&json!({
            "name": text(), "about": text(), "bytes": number(),
        })) } })),
        "Backups": object(&json!({
            "sessions": number(), "stored": number(), "left_out": number(),
            "verified": nullable(&json!({
                "at": stamp(), "sessions": number(), "generations": number(), "damaged": number(),
            })),
            "rows": { "type": "array", "items": object(&json!({
                "session": text(), "project": text(), "modified": maybe_stamp(), "bytes": number(),
                "stored": number(), "running": { "type": "boolean" }, "pinned": { "type": "boolean" },
                "gone": { "type": "boolean" }, "restore": text(),
            })) },
        })),
        "Fleet": fleet(),
        "Doctor": object(&json!({ "findings": { "type": "array", "items": object(&json!({
            "check": text(), "level": { "type": "string", "enum": ["ok", "note", "warn", "fail"] },
            "what": text(), "do": maybe(),
        })) } })),
        "Config": object(&json!({
            "ignored": number(),
            "settings": { "type": "array", "items": object(&json!({
                "key": text(), "value": text(), "from": text(), "help": text(),
            })) },
        })),
        "Answer": object(&json!({ "text": text() })),
        "Replied": object(&json!({ "id": text(), "to": text(), "reply_to": text() })),
        "Read": object(&json!({ "id": text() })),
        "Done": object(&json!({ "said": text() })),
        "Spawn": {
            "type": "object", "required": ["name", "cwd"], "additionalProperties": false,
            "properties": {
                "name": text(), "cwd": text(), "provider": text(), "prompt": text(), "parent": text(),
                "approver": text(), "role": text(), "worktree": { "type": "boolean" },
            },
        },
    })
}

/// Other machines; see [`crate::fleet::roll::FleetView`].
fn fleet() -> Value {
    let agent = partly(
        &["name", "provider", "project", "state", "level"],
        &json!({
            "name": text(), "provider": text(), "project": text(), "state": text(), "level": text(),
            "used_percentage": number(),
        }),
    );
    let machine = partly(
        &["name", "presence", "heard", "agents"],
        &json!({
            "name": text(), "presence": { "type": "string", "enum": ["awake", "asleep", "gone"] },
            "heard": maybe_stamp(), "agents": { "type": "array", "items": agent }, "doubt": text(),
        }),
    );
    let mut link = partly(
        &["state", "since", "epoch"],
        &json!({
            "state": { "type": "string", "enum": ["connected", "away", "fenced", "revoked"] },
            "since": { "type": "string", "format": "date-time" }, "why": text(), "epoch": number(),
            "skew_ms": { "type": "integer" }, "hints": { "type": "boolean" },
            "restored": { "type": "string", "format": "date-time" }, "refused": number(),
        }),
    );
    link["type"] = json!(["object", "null"]);
    object(&json!({
        "machine": { "type": ["string", "null"] }, "link": link, "news": maybe_stamp(),
        "machines": { "type": "array", "items": machine },
    }))
}

/// The same, or null.
fn nullable(fields: &Value) -> Value {
    let mut object = object(fields);
    object["type"] = json!(["object", "null"]);
    object
}

/// An agent.
fn session() -> Value {
    let mut fields = json!({
        "id": text(), "provider": text(), "parent": maybe(), "channel": text(), "cwd": text(),
        "state": { "type": "string", "enum": AgentState::ALL.map(AgentState::as_str) },
        "session": maybe(), "transcript_path": maybe(), "model": maybe(),
        "level": { "type": "string", "enum": ["OK", "EARLY_WARN", "WARN", "CRITICAL"] },
        "tokens": maybe_number(), "tokens_used": maybe_number(), "window": maybe_number(),
        "used_percentage": maybe_number(), "mail": number(), "last_handoff": maybe(),
        "last_handoff_path": maybe(), "pending_handoff_path": maybe(), "rotation": maybe(),
        "created": stamp(), "ended": maybe_stamp(),
    });
    let shown = json!({
        "project": text(), "state_since": maybe_stamp(), "words": text(), "goal": maybe(), "now": maybe(), "checkpoint": maybe(),
        "last_answer": maybe(), "done": maybe(),
        "question": nullable(&json!({ "id": text(), "text": text() })), "session_since": maybe_stamp(), "warn_at": maybe_number(),
        "ask_at": maybe_number(), "compacts_at": maybe_number(), "left": maybe_number(),
        "turns_left": maybe_number(), "limit_until": maybe_stamp(), "unread": number(), "place": text(),
        "undo_to": maybe(),
        "needs": nullable(&json!({
            "kind": { "type": "string", "enum": NeedKind::ALL.map(NeedKind::as_str) }, "text": text(),
            "since": stamp(),
        })),
        "pending": nullable(&json!({ "since": stamp(), "waits_for": text() })),
    });
    if let (Some(fields), Value::Object(shown)) = (fields.as_object_mut(), shown) {
        fields.extend(shown);
    }
    object(&fields)
}

fn all_schemas() -> Value {
    let mut all = schemas();
    if let (Some(all), Value::Object(views)) = (all.as_object_mut(), views()) {
        all.extend(views);
    }
    all
}

fn schemas() -> Value {
    let urgency = || json!({ "type": "string", "enum": ["sequential", "important", "urgent"] });
    let message = {
        let mut message = object(&json!({
            "id": text(), "from": text(), "to": text(), "at": stamp(), "urgency": urgency(), "text": text(),
            "state": { "type": "string", "enum": ["queued", "delivered", "expired", "failed"] },
        }));
        // Later versions may add fields, and some messages have more fields than others.
        message["additionalProperties"] = json!(true);
        message
    };
    let approval = {
        let mut approval = object(&json!({
            "id": text(), "short": text(), "agent": text(), "session": text(), "provider": text(), "cwd": text(),
            "folder": text(), "tool": text(), "asks_for": text(), "at": stamp(), "questions": { "type": "array" },
            "state": { "type": "string",
                "enum": ["waiting", "offered", "allowed", "denied", "too-late", "closed"] },
        }));
        // The input, the answer, and a subagent's fields.
        approval["additionalProperties"] = json!(true);
        approval
    };
    json!({
        "Error": object(&json!({ "error": text() })),
        "Health": object(&json!({
            "status": { "type": "string", "enum": ["ok"] }, "version": text(), "pid": number(), "since": stamp(),
            "http": maybe(), "agents": number(),
        })),
        "Description": { "type": "object", "required": ["openapi", "paths"] },
        "Session": session(),
        "Sessions": object(&json!({ "sessions": { "type": "array", "items": reference("Session") } })),
        "Handoff": object(&json!({ "requester_session_id": text(), "file_path": text() })),
        "Scheduled": object(&json!({ "status": { "type": "string", "enum": ["scheduled", "sealed", "failed"] } })),
        "Letter": {
            "type": "object", "required": ["text"],
            "properties": { "text": text(), "from": text(), "urgency": urgency(), "key": text() },
        },
        "Sent": object(&json!({
            "id": text(), "to": text(), "state": { "type": "string", "enum": ["queued", "known"] },
        })),
        "Message": message,
        "Messages": object(&json!({
            "messages": { "type": "array", "items": reference("Message") }, "left_out": number(),
        })),
        "Usage": {
            "type": "object", "required": ["session_id"],
            "properties": {
                "session_id": text(), "used_percentage": { "type": ["number", "null"] },
                "total_input_tokens": { "type": ["number", "null"] },
                "total_output_tokens": { "type": ["number", "null"] },
                "context_window_size": { "type": ["number", "null"] },
                "event": { "type": ["string", "null"], "enum": ["compaction", null] }, "trigger": maybe(),
            },
        },
        "UsageNoted": {
            "type": "object", "required": ["status"], "additionalProperties": false,
            "properties": {
                "status": { "type": "string", "enum": ["ok", "compaction_logged", "unknown_session"] },
                "used_percentage": { "type": ["number", "null"] },
            },
        },
        "Approval": approval,
        "Approvals": object(&json!({
            "approvals": { "type": "array", "items": reference("Approval") },
            "at_terminals": { "type": "array", "items": {
                "type": "object", "required": ["agent", "at", "cwd", "state"], "additionalProperties": false,
                "properties": {
                    "agent": text(), "at": maybe_stamp(), "cwd": text(), "about": text(),
                    "state": { "type": "string", "enum": ["at-terminal"] },
                },
            } },
        })),
        "Verdict": {
            "type": "object", "required": ["hash", "verdict"], "additionalProperties": false,
            "properties": {
                "hash": text(), "verdict": { "type": "string", "enum": ["allow", "deny", "answer"] },
                "grant": { "type": "string", "enum": ["once", "session", "always"] },
                "input": { "type": "object" }, "reason": text(),
                "answers": { "type": "array", "items": text() },
            },
        },
        "Events": { "type": "string" },
        "Code": object(&json!({ "code": text() })),
        "Login": object(&json!({ "code": text() })),
        "Confirmation": object(&json!({ "code": text() })),
        "Page": object(&json!({ "may_change": { "type": "boolean" } })),
        "Listening": object(&json!({ "http": text(), "wanted": number(), "holder": maybe() })),
        "LoggedIn": object(&json!({ "csrf": text() })),
        "Stopping": object(&json!({ "status": { "type": "string", "enum": ["stopping"] } })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_that_a_route_names_is_described_and_no_other() {
        let schemas = all_schemas();
        let mut used: Vec<&str> = ROUTES
            .iter()
            .flat_map(|r| r.takes.into_iter().chain(r.gives.iter().map(|(_, name)| *name)))
            .chain(["Session", "Message", "Error"])
            .collect();
        used.sort_unstable();
        used.dedup();
        let mut there: Vec<&String> = schemas.as_object().unwrap().keys().collect();
        there.sort();
        assert_eq!(there, used);
    }
}
