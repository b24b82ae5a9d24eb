//! `GET /openapi.json` is true for every route and every answer.

use std::collections::BTreeSet;

use baton_testkit::Home;
use baton_testkit::daemon::Served;
use baton_testkit::hooks::{Client, send};
use serde_json::{Value, json};

use crate::BATON;
use crate::api::{started, usage};

/// Everything that does not fit the schema, with its path.
fn misfits(schemas: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return misfits(schemas, &schemas[name], value, at);
    }
    let mut wrong = Vec::new();
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_u64() || n.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allowed: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !(allowed.is_empty() || allowed.contains(&kind) || kind == "integer" && allowed.contains(&"number")) {
        wrong.push(format!("{at} is {kind}, not {allowed:?}"));
    }
    if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
        wrong.push(format!("{at} is {value}, not one of {}", schema["enum"]));
    }
    if let Value::Object(fields) = value {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                wrong.push(format!("{at}.{name} is missing"));
            }
        }
        for (name, value) in fields {
            match &schema["properties"][name] {
                Value::Null if schema["additionalProperties"] == false => {
                    wrong.push(format!("{at}.{name} is not described"));
                }
                Value::Null => {}
                inner => wrong.extend(misfits(schemas, inner, value, &format!("{at}.{name}"))),
            }
        }
    }
    for (n, item) in value.as_array().into_iter().flatten().enumerate() {
        wrong.extend(misfits(schemas, &schema["items"], item, &format!("{at}[{n}]")));
    }
    wrong
}

type Check<'a> = dyn FnMut(&str, &str, &str, Option<Value>, bool) -> baton_testkit::daemon::Answered + 'a;

/// The views of agents and the actions on them.
fn views(home: &Home, check: &mut Check<'_>) {
    let mut client = Client::new(home);
    client.starts("startup").ok();
    let name = client.agent();
    client.says("Port it.");
    client.answers(9_000);
    client.hook("PostToolUse").ok();
    let queries = [
        ("conversation", "limit=x"),
        ("levels", "since=x"),
        ("log", "limit=x"),
        ("chain", ""),
        ("draft", ""),
    ];
    for (view, bad) in queries {
        let route = format!("/sessions/{{id}}/{view}");
        check("GET", &route, &format!("/sessions/{name}/{view}"), None, false);
        check("GET", &route, &format!("/sessions/nobody/{view}"), None, false);
        check("GET", &route, &format!("/sessions/{name}/{view}"), None, true);
        if !bad.is_empty() {
            check("GET", &route, &format!("/sessions/{name}/{view}?{bad}"), None, false);
        }
    }
    let act = |verb: &str| format!("/sessions/{{id}}/{verb}");
    for verb in ["rotate", "undo", "retire", "cancel"] {
        check("POST", &act(verb), &format!("/sessions/nobody/{verb}"), Some(json!({})), false);
        check("POST", &act(verb), &format!("/sessions/{name}/{verb}"), Some(json!({})), true);
    }
    check("POST", &act("rotate"), &format!("/sessions/{name}/rotate"), Some(json!({})), false);
    let handoff =
        baton_testkit::home::record(&home.state().join(format!("agents/{name}.json")))["last_handoff"]
            .clone();
    check("GET", "/handoffs/{id}", &format!("/handoffs/{}", handoff.as_str().unwrap()), None, false);
    check("GET", "/handoffs/{id}", "/handoffs/HO-20260101-000000-00000000", None, false);
    check("GET", "/handoffs/{id}", "/handoffs/HO-20260101-000000-00000000", None, true);
    check("POST", &act("cancel"), &format!("/sessions/{name}/cancel"), Some(json!({})), false);
    client.clears();
    check("POST", &act("undo"), &format!("/sessions/{name}/undo"), Some(json!({})), false);
    let path = home.state().join(format!("agents/{name}.json"));
    let mut record = baton_testkit::home::record(&path);
    record["order"] = json!({ "what": "undo", "session": "the-one-before" });
    std::fs::write(&path, record.to_string()).unwrap();
    check("POST", &act("rotate"), &format!("/sessions/{name}/rotate"), Some(json!({})), false);
    check("POST", &act("retire"), &format!("/sessions/{name}/retire"), Some(json!({})), false);
    let spawn = |name: &str, cwd: &str, more: Value| {
        let mut body = json!({ "name": name, "cwd": cwd });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Some(body)
    };
    check("POST", "/spawn", "/spawn", spawn("x", "relative", json!({})), false);
    check("POST", "/spawn", "/spawn", spawn("x", "/nowhere/at/all", json!({})), false);
    check(
        "POST",
        "/spawn",
        "/spawn",
        spawn("x", "/", json!({ "parent": "nobody", "provider": "demo" })),
        false,
    );
    check("POST", "/spawn", "/spawn", Some(json!({})), true);
}

/// What the page shows beyond single agents, and the user's own inbox.
fn page(home: &Home, check: &mut Check<'_>) {
    let client = Client::new(home);
    client.starts("startup").ok();
    let session = client.session.clone();
    client.says("Port the parser.");
    client.record(&json!({ "type": "user", "uuid": "x", "sessionId": session, "cwd": home.project(),
        "timestamp": "2026-11-17T05:00:00Z", "message": { "role": "user", "content": "the parser" } }));
    client.answers(9_000);
    home.run_with_input("handoffs seal -", "# Go on\n").ok();
    home.run(&format!("rotate {}", client.agent())).ok();
    let record = baton_testkit::home::record(&home.state().join(format!("agents/{}.json", client.agent())));
    let handoff = record["last_handoff"].as_str().unwrap().to_owned();
    for (path, queries) in [
        ("/tasks", &["since=x", "limit=x"][..]),
        ("/search", &["", "q=parser&since=x", "q=parser&limit=x", "q=parser&role=x", "q=(&regex=true"]),
    ] {
        check("GET", path, path, None, true);
        for query in queries {
            check("GET", path, &format!("{path}?{query}"), None, false);
        }
    }
    check("GET", "/tasks", "/tasks", None, false);
    check("GET", "/search", "/search?q=the+parser%21&context=2", None, false);
    let found = check("GET", "/search", "/search?q=parser&context=2", None, false).json();
    assert!(found["hits"].as_array().is_some_and(|hits| !hits.is_empty()), "{found}");
    let hop = "/handoffs/{id}/hop";
    check("GET", hop, &format!("/handoffs/{handoff}/hop"), None, false);
    check("GET", hop, "/handoffs/HO-20260101-000000-00000000/hop", None, false);
    check("GET", hop, "/handoffs/HO-20260101-000000-00000000/hop", None, true);
    for route in ["/conversations/{id}", "/conversations/{id}/subagents"] {
        check("GET", route, &route.replace("{id}", &session), None, false);
        check("GET", route, &route.replace("{id}", "00000000-0000-4000-8000-000000000000"), None, false);
        check("GET", route, &route.replace("{id}", &session), None, true);
    }
    check("GET", "/conversations/{id}", &format!("/conversations/{session}?limit=x"), None, false);
    check("GET", "/conversations/{id}", &format!("/conversations/{session}?subagent=x"), None, false);
    home.run_with_input("send user -", "Well done.").ok();
    let mail = home.state().join("mail/user/new");
    let notice = json!({ "v": 1, "id": "m00000000000000000009-9-0001", "from": "baton", "to": "user",
        "at": "2026-11-17T05:00:00Z", "text": "It is idle." });
    std::fs::write(mail.join("m00000000000000000009-9-0001"), notice.to_string()).unwrap();
    let own = check("GET", "/inbox", "/inbox", None, false).json();
    let own =
        own["messages"].as_array().unwrap().iter().find(|m| m["from"] == "user").unwrap()["short"].clone();
    check("GET", "/inbox", "/inbox", None, true);
    for verb in ["reply", "read"] {
        let route = format!("/inbox/{{id}}/{verb}");
        let body = || Some(json!({ "text": "Thanks." }));
        check("POST", &route, &format!("/inbox/{}/{verb}", own.as_str().unwrap()), body(), false);
        check("POST", &route, &format!("/inbox/ffffffff/{verb}"), body(), false);
        check("POST", &route, &format!("/inbox/m/{verb}"), body(), false);
        check("POST", &route, &format!("/inbox/m/{verb}"), body(), true);
    }
    let reply = "/inbox/{id}/reply";
    check("POST", reply, "/inbox/m00000000000000000009/reply", Some(json!({ "text": "x" })), false);
    check("POST", reply, "/inbox/m/reply", Some(json!({ "text": "x".repeat((1 << 20) + 1) })), false);
    for route in ["/backups", "/fleet", "/doctor", "/config", "/page"] {
        check("GET", route, route, None, false);
        check("GET", route, route, None, true);
    }
    check("GET", "/config", "/config?agent=nobody", None, false);
    let config = home.path().join(".config/baton/config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, "[serve]\nhosts = 8420\n").unwrap();
    check("GET", "/config", "/config", None, false);
    std::fs::write(&config, text).unwrap();
    for route in ["/confirmations", "/listen", "/page/confirm", "/page/look"] {
        check("POST", route, route, Some(json!({})), false);
        check("POST", route, route, Some(json!({})), true);
    }
}

#[test]
fn the_description_is_true_for_every_route_and_every_answer() {
    let home = Home::new(BATON);
    home.write(".config/baton/config.toml", "[approvals]\nwait_for = \"all\"\n");
    let client = started(&home);
    client.answers(104_000);
    client.hook("PostToolUse").ok();
    let served = Served::on_http(&home);
    let described = served.get("/openapi.json");
    let schemas = &described["components"]["schemas"];
    let mut open: BTreeSet<String> = BTreeSet::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for status in operation["responses"].as_object().unwrap().keys() {
                open.insert(format!("{} {path} {status}", method.to_uppercase()));
            }
        }
    }
    let file = home.write("handoff.md", "# Words");
    let handoff = |id: &str, path: &std::path::Path| json!({ "requester_session_id": id, "file_path": path });
    let mut check = |method: &str, route: &str, path: &str, body: Option<Value>, on_port: bool| {
        let answered = if on_port {
            let at = served.http.clone().unwrap();
            served.tcp().ask(method, path, &[("Host", &at)], body.as_ref()).unwrap()
        } else {
            served.ask(method, path, body.as_ref())
        };
        let operation = &described["paths"][route][method.to_lowercase()];
        let status = answered.status.to_string();
        let named = if operation["responses"].get(&status).is_some() { status } else { "4XX".to_owned() };
        let schema = &operation["responses"][&named]["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{method} {path} gave {}, which is not described", answered.status);
        let wrong = misfits(schemas, schema, &answered.json(), "answer");
        assert!(wrong.is_empty(), "{method} {path}: {wrong:?} in {}", answered.json());
        open.remove(&format!("{method} {route} {named}"));
        answered
    };
    for route in [
        "/health",
        "/openapi.json",
        "/sessions",
        "/events",
        "/stop",
        "/codes",
        "/hooks/context-usage",
        "/login",
    ] {
        let method = if described["paths"][route]["get"].is_object() { "GET" } else { "POST" };
        // Without credentials.
        let body = (method == "POST").then(|| json!([]));
        check(method, route, route, body, true);
    }
    for route in ["/sessions/{id}", "/sessions/{id}/messages"] {
        check("GET", route, &route.replace("{id}", "app"), None, true);
    }
    for route in ["/sessions/{id}/messages", "/sessions/{id}/handoff"] {
        check("POST", route, &route.replace("{id}", "app"), Some(json!({})), true);
    }
    for route in ["/health", "/openapi.json", "/sessions"] {
        check("GET", route, route, None, false);
    }
    let (session, messages, hand) = ("/sessions/{id}", "/sessions/{id}/messages", "/sessions/{id}/handoff");
    check("GET", session, "/sessions/app", None, false);
    check("GET", session, "/sessions/nobody", None, false);
    check("GET", "/sessions", "/sessions?all=perhaps", None, false);
    check("POST", messages, "/sessions/app/messages", Some(json!({ "text": "hello" })), false);
    check(
        "POST",
        messages,
        "/sessions/app/messages",
        Some(json!({ "text": "hello", "from": "app-cedar" })),
        false,
    );
    check("POST", messages, "/sessions/nobody/messages", Some(json!({ "text": "hello" })), false);
    check("POST", messages, "/sessions/app/messages", Some(json!({ "text": "" })), false);
    check(
        "POST",
        messages,
        "/sessions/app/messages",
        Some(json!({ "text": "x".repeat((1 << 20) + 1) })),
        false,
    );
    let retired = Client::new(&home);
    retired.starts("startup").ok();
    let name = retired.agent();
    home.run(&format!("retire {name}")).ok();
    let path = format!("/sessions/{name}/messages");
    check("POST", messages, &path, Some(json!({ "text": "hello" })), false);
    check("GET", messages, "/sessions/app/messages", None, false);
    check("GET", messages, "/sessions/nobody/messages", None, false);
    check("GET", messages, "/sessions/app/messages?limit=many", None, false);
    check("POST", hand, "/sessions/app/handoff", Some(handoff("app", &file)), false);
    check("POST", hand, "/sessions/app/handoff", Some(handoff("app-oak", &file)), false);
    check("POST", hand, "/sessions/nobody/handoff", Some(handoff("nobody", &file)), false);
    check("POST", hand, "/sessions/app/handoff", Some(handoff("app", &home.path().join("none"))), false);
    let hook = "/hooks/context-usage";
    check("POST", hook, hook, Some(usage("app", 52)), false);
    check("POST", hook, hook, Some(usage("nobody", 52)), false);
    check("POST", hook, hook, Some(json!({ "session_id": "app", "event": "compaction" })), false);
    check("POST", hook, hook, Some(json!([])), false);
    let code = check("POST", "/codes", "/codes", Some(json!({})), false).json()["code"].clone();
    check("POST", "/login", "/login", Some(json!({ "code": code })), true);
    check("POST", "/login", "/login", Some(json!({ "code": code })), true);
    check("POST", "/login", "/login", Some(json!({ "code": "pages only" })), false);
    let path = home.state().join("agents/app.json");
    let record = std::fs::read_to_string(&path).unwrap().replace("\"claude\"", "\"codex-app\"");
    std::fs::write(&path, record).unwrap();
    check("POST", hand, "/sessions/app/handoff", Some(handoff("app", &file)), false);
    let asked = client.usual("PermissionRequest");
    let hook = std::thread::scope(|scope| {
        let hook = scope.spawn(|| send(client.command("PermissionRequest"), asked.to_string().as_bytes()));
        let shown = loop {
            let listed = check("GET", "/approvals", "/approvals", None, false).json()["approvals"][0].clone();
            if listed.is_object() {
                break listed;
            }
        };
        let (route, path) = ("/approvals/{id}", format!("/approvals/{}", shown["short"].as_str().unwrap()));
        let mut answer = |path: &str, body: Value| check("POST", route, path, Some(body), false);
        answer(&path, json!({ "verdict": "perhaps" }));
        answer(&path, json!({ "verdict": "allow", "hash": "another" }));
        answer("/approvals/ffffffff", json!({ "verdict": "allow", "hash": shown["id"] }));
        answer(&path, json!({ "verdict": "allow", "hash": shown["id"] }));
        hook.join().unwrap()
    });
    assert!(hook.answer().is_some());
    for (method, path) in [("GET", "/approvals"), ("POST", "/approvals/ffffffff")] {
        let route = if method == "GET" { "/approvals" } else { "/approvals/{id}" };
        check(method, route, path, (method == "POST").then(|| json!({})), true);
    }
    views(&home, &mut check);
    page(&home, &mut check);
    check("POST", "/stop", "/stop", Some(json!({})), false);
    // Streams have their own test, and running out of readers takes 33 of them. So do requests of agents that are
    // refused (`speakers`).
    let elsewhere = |what: &String| {
        what.starts_with("GET /events") || what == "POST /codes 403"
        // Refusals for agents: `speakers`.
        || ["rotate", "undo", "retire", "cancel"].iter().any(|verb| *what == format!("POST /sessions/{{id}}/{verb} 403"))
        || what == "POST /spawn 403"
        // A pane needs tmux: `top`.
        || what == "POST /spawn 200"
        // Refusals for agents: `approvals`.
        || what == "POST /approvals/{id} 403"
        || ["/confirmations", "/listen", "/inbox/{id}/reply", "/inbox/{id}/read"].iter().any(|path| *what == format!("POST {path} 403"))
        // What only a page with its cookie is answered: `hostile`.
        || (what.starts_with("POST /page/") && !what.ends_with("403"))
        // No port is free at all.
        || what == "POST /listen 409"
    };
    let rest: Vec<String> = open.into_iter().filter(|what| !elsewhere(what)).collect();
    assert!(rest.is_empty(), "described, and never seen: {rest:?}");
}
