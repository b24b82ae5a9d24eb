//! `GET /openapi.json`: the description of the API, made from the table of routes. A test checks answers against it.

use serde_json::{Map, Value, json};

use super::routes::{ROUTES, Route};

pub fn description() -> Value {
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
            "description": "Agents, their mail and their handoffs. Through the unix socket for the user's own processes; \
                on 127.0.0.1 with the token.",
        },
        "servers": [{ "url": "http://127.0.0.1:8420" }],
        "security": [{ "token": [] }, { "page": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "page": { "type": "apiKey", "in": "cookie", "name": "baton-8420" },
            },
            "schemas": schemas(),
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
        let said = if *status == 200 { "Done" } else { "Refused, with the reason" };
        responses.insert(
            status.to_string(),
            json!({ "description": said, "content": { kind: { "schema": reference(schema) } } }),
        );
    }
    let said = "Refused before anything was read: host, origin, token, method or form";
    responses.insert(
        "4XX".to_owned(),
        json!({ "description": said, "content": { "application/json": { "schema": reference("Error") } } }),
    );
    let mut operation = json!({
        "operationId": format!("{:?}", route.operation),
        "summary": route.summary,
        "responses": responses,
    });
    let mut parameters: Vec<Value> = Vec::new();
    if route.path.contains("{id}") {
        let said = "An agent's name, or the id of one of its conversations";
        parameters.push(json!({ "name": "id", "in": "path", "required": true, "description": said,
            "schema": { "type": "string" } }));
    }
    for (name, said) in route.query {
        parameters.push(json!({ "name": name, "in": "query", "description": said,
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

/// An object with exactly these fields; all are always there.
fn object(fields: &Value) -> Value {
    let required: Vec<&String> = fields.as_object().into_iter().flat_map(Map::keys).collect();
    json!({ "type": "object", "required": required, "properties": fields, "additionalProperties": false })
}

fn schemas() -> Value {
    let text = || json!({ "type": "string" });
    let maybe = || json!({ "type": ["string", "null"] });
    let number = || json!({ "type": "integer", "minimum": 0 });
    let maybe_number = || json!({ "type": ["integer", "null"], "minimum": 0 });
    let stamp = || json!({ "type": "string", "format": "date-time" });
    let maybe_stamp = || json!({ "type": ["string", "null"], "format": "date-time" });
    let urgency = || json!({ "type": "string", "enum": ["sequential", "important", "urgent"] });
    let message = {
        let mut message = object(&json!({
            "id": text(), "from": text(), "to": text(), "at": stamp(), "urgency": urgency(), "text": text(),
            "state": { "type": "string", "enum": ["queued", "delivered", "expired", "failed"] },
        }));
        // Fields of later versions, and such that only some messages have.
        message["additionalProperties"] = json!(true);
        message
    };
    json!({
        "Error": object(&json!({ "error": text() })),
        "Health": object(&json!({
            "status": { "type": "string", "enum": ["ok"] }, "version": text(), "pid": number(), "since": stamp(),
            "http": maybe(), "agents": number(),
        })),
        "Description": { "type": "object", "required": ["openapi", "paths"] },
        "Session": object(&json!({
            "id": text(), "provider": text(), "parent": maybe(), "channel": text(), "cwd": text(),
            "state": { "type": "string", "enum": ["working", "idle", "blocked", "limit", "dead", "ended"] },
            "session": maybe(), "transcript_path": maybe(), "model": maybe(),
            "level": { "type": "string", "enum": ["OK", "EARLY_WARN", "WARN", "CRITICAL"] },
            "tokens": maybe_number(), "tokens_used": maybe_number(), "window": maybe_number(),
            "used_percentage": maybe_number(), "mail": number(), "last_handoff": maybe(),
            "last_handoff_path": maybe(), "pending_handoff_path": maybe(), "rotation": maybe(),
            "created": stamp(), "ended": maybe_stamp(),
        })),
        "Sessions": object(&json!({ "sessions": { "type": "array", "items": reference("Session") } })),
        "Handoff": object(&json!({ "requester_session_id": text(), "file_path": text() })),
        "Scheduled": object(&json!({ "status": { "type": "string", "enum": ["scheduled"] } })),
        "Letter": {
            "type": "object", "required": ["text"],
            "properties": { "text": text(), "from": text(), "urgency": urgency(), "key": text() },
        },
        "Sent": object(&json!({
            "id": text(), "to": text(), "state": { "type": "string", "enum": ["queued", "known"] },
        })),
        "Message": message,
        "Messages": object(&json!({ "messages": { "type": "array", "items": reference("Message") } })),
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
        "Events": { "type": "string" },
        "Code": object(&json!({ "code": text() })),
        "Login": object(&json!({ "code": text() })),
        "LoggedIn": object(&json!({ "csrf": text() })),
        "Stopping": object(&json!({ "status": { "type": "string", "enum": ["stopping"] } })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every name that a route uses is described, and nothing is described that nobody uses.
    #[test]
    fn every_schema_that_is_named_is_there_and_none_besides() {
        let schemas = schemas();
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
