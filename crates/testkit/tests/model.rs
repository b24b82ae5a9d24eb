//! The scripted model on its own, over plain sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use baton_testkit::model::{Gate, Kind, Script, ScriptedModel, Usage, error, shell, text, too_long, tool};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(5);

/// A response from the wire, with its chunks joined.
struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Response {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn events(&self) -> Vec<Value> {
        let data = |event: &str| {
            let (name, data) = event.split_once('\n').unwrap();
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(name.strip_prefix("event: ").unwrap(), data["type"], "the event is named by its type");
            data
        };
        self.body.split_terminator("\n\n").map(data).collect()
    }
}

fn read_response(input: &mut impl BufRead) -> Response {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(input.read_line(&mut head).unwrap() > 0, "the server hung up after {head:?}");
    }
    let head = head.to_lowercase();
    let mut body = String::new();
    if head.contains("transfer-encoding: chunked") {
        loop {
            let mut line = String::new();
            input.read_line(&mut line).unwrap();
            let size = usize::from_str_radix(line.trim(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            input.read_exact(&mut chunk).unwrap();
            if size == 0 {
                break;
            }
            body.push_str(std::str::from_utf8(&chunk[..size]).unwrap());
        }
    } else {
        let length = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap();
        let mut bytes = vec![0; length.parse().unwrap()];
        input.read_exact(&mut bytes).unwrap();
        body = String::from_utf8(bytes).unwrap();
    }
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Response { status, head, body }
}

fn connect(model: &ScriptedModel) -> BufReader<TcpStream> {
    let address = model.url().strip_prefix("http://").unwrap().to_owned();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    BufReader::new(stream)
}

/// Sends a request with these header lines and reads the response.
fn send(connection: &mut BufReader<TcpStream>, path: &str, head: &str, body: &Value) -> Response {
    let body = body.to_string();
    let length = body.len();
    let request = format!("POST {path} HTTP/1.1\r\nHost: x\r\n{head}Content-Length: {length}\r\n\r\n{body}");
    connection.get_mut().write_all(request.as_bytes()).unwrap();
    read_response(connection)
}

fn post_on(connection: &mut BufReader<TcpStream>, path: &str, session: &str, body: &Value) -> Response {
    send(connection, path, &format!("X-Claude-Code-Session-Id: {session}\r\n"), body)
}

fn post(model: &ScriptedModel, path: &str, session: &str, body: &Value) -> Response {
    post_on(&mut connect(model), path, session, body)
}

/// A step of a conversation as Claude Code sends it, reduced to what matters.
fn step(prompt: &str) -> Value {
    json!({"model": "m", "max_tokens": 100, "stream": true, "tools": [{"name": "Bash"}],
    "system": [{"type": "text", "text": "You are an agent."}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": prompt}]},
        {"role": "system", "content": "From a hook."},
    ]})
}

fn ask(model: &ScriptedModel, prompt: &str) -> Response {
    post(model, "/v1/messages?beta=true", "s1", &step(prompt))
}

/// The text of a streamed answer.
fn said(response: &Response) -> String {
    response.events().iter().filter_map(|event| event["delta"]["text"].as_str()).collect()
}

#[test]
fn a_streamed_answer_carries_its_text_and_its_usage() {
    let script = Script::new().turn(text("hello there").usage(40_000));
    let model = ScriptedModel::start(script).unwrap();
    let response = ask(&model, "hi");
    assert_eq!(response.status, 200);
    assert!(response.head.contains("content-type: text/event-stream"));
    let events = response.events();
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        types,
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    assert_eq!(said(&response), "hello there");
    let usage = &events[4]["usage"];
    let context =
        usage["input_tokens"].as_u64().unwrap() + usage["cache_read_input_tokens"].as_u64().unwrap();
    assert_eq!(context, 40_000);
    assert_eq!(events[4]["delta"]["stop_reason"], "end_turn");
}

#[test]
fn an_answer_that_is_not_streamed_is_the_same_message_in_one_piece() {
    let usage = Usage { input: 1, cache_read: 2, cache_write: 3, output: 4 };
    let model = ScriptedModel::start(Script::new().turn(text("whole").usage(usage))).unwrap();
    let mut body = step("hi");
    body["stream"] = false.into();
    let message = post(&model, "/v1/messages", "s1", &body).json();
    assert_eq!(message["content"], json!([{"type": "text", "text": "whole"}]));
    assert_eq!(
        message["usage"],
        json!({"input_tokens": 1, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 3, "output_tokens": 4})
    );
}

#[test]
fn a_tool_call_arrives_with_its_input_after_the_words_before_it() {
    let script = Script::new().turn(text("Looking.").tool("Read", json!({"file_path": "/a"})).shell("ls"));
    let model = ScriptedModel::start(script).unwrap();
    let events = ask(&model, "hi").events();
    let names: Vec<&str> =
        events.iter().filter_map(|event| event["content_block"]["name"].as_str()).collect();
    assert_eq!(names, ["Read", "Bash"]);
    let inputs: Vec<&str> =
        events.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert_eq!(inputs, [r#"{"file_path":"/a"}"#, r#"{"command":"ls"}"#]);
    assert!(events.iter().any(|event| event["delta"]["stop_reason"] == "tool_use"));
}

#[test]
fn turns_are_played_in_order_and_then_the_standing_answer() {
    let script = Script::new().turn(text("one")).turn(text("two")).otherwise(text("again"));
    let model = ScriptedModel::start(script).unwrap();
    let answers: Vec<String> = (0..4).map(|_| said(&ask(&model, "go"))).collect();
    assert_eq!(answers, ["one", "two", "again", "again"]);
}

#[test]
fn side_requests_are_answered_and_use_up_no_turn() {
    let model = ScriptedModel::start(Script::new().turn(text("the turn"))).unwrap();
    let message = |system: &str, prompt: &str, more: Value| {
        let mut body = json!({"model": "m", "max_tokens": 100, "stream": true, "system": system,
            "messages": [{"role": "user", "content": prompt}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let state = r#"Respond with ONLY this JSON: {"state":"<working|blocked|done|failed>","detail":"…"}"#;
    let summary = "the prompt\nCRITICAL: Respond with TEXT ONLY. … a detailed summary of …";
    let title = json!({"output_config": {"format": {"type": "json_schema", "schema": {"properties": {"title": {"type": "string"}}}}}});
    let cases = [
        (Kind::Probe, message("", "quota", json!({"max_tokens": 1}))),
        (Kind::Title, message("You are naming a session.", "hi", title)),
        (Kind::State, message(state, "Current state: working", json!({"stream": false}))),
        (Kind::Side, message("Anything else.", "…", json!({}))),
        (Kind::Compaction, message("", summary, json!({"tools": [{"name": "Bash"}]}))),
    ];
    for (kind, body) in &cases {
        assert_eq!(post(&model, "/v1/messages?beta=true", "s1", body).status, 200);
        assert_eq!(model.requests().last().unwrap().kind, *kind);
    }
    let count = post(&model, "/v1/messages/count_tokens", "s1", &step("hi"));
    assert!(count.json()["input_tokens"].as_u64().unwrap() > 0);
    assert_eq!(said(&ask(&model, "hi")), "the turn");
    assert_eq!(model.compactions(), 1);
    assert_eq!(model.main_requests().len(), 1);
    assert_eq!(model.requests().len(), 7);
}

#[test]
fn a_summary_is_not_asked_for_by_a_prompt_that_only_remembers_one() {
    let model = ScriptedModel::start(Script::new()).unwrap();
    let mut body = step("CRITICAL: Respond with TEXT ONLY. Write a detailed summary.");
    let answer = json!({"role": "assistant", "content": "<summary>…</summary>"});
    let prompt = json!({"role": "user", "content": "and now go on"});
    body["messages"].as_array_mut().unwrap().extend([answer, prompt]);
    post(&model, "/v1/messages", "s1", &body);
    assert_eq!(model.requests()[0].kind, Kind::Main);
}

#[test]
fn errors_have_the_status_type_and_headers_that_the_script_says() {
    let script = Script::new()
        .turn(error(429).header("retry-after", "7").message("slow down"))
        .turn(error(529))
        .turn(too_long());
    let model = ScriptedModel::start(script).unwrap();
    let limited = ask(&model, "hi");
    assert_eq!((limited.status, &limited.json()["error"]["type"]), (429, &json!("rate_limit_error")));
    assert_eq!(limited.json()["error"]["message"], "slow down");
    assert!(limited.head.contains("retry-after: 7"));
    assert_eq!(ask(&model, "hi").json()["error"]["type"], "overloaded_error");
    let full = ask(&model, "hi");
    assert_eq!(full.status, 400);
    assert!(full.json()["error"]["message"].as_str().unwrap().starts_with("prompt is too long"));
}

#[test]
fn a_condition_is_met_once_and_a_reaction_every_time() {
    let script = Script::new()
        .when(|request| request.last_user_text().contains("handoff"), shell("baton handoff -"))
        .react(|request| request.last_user_text().contains("ping").then(|| text("pong")))
        .otherwise(text("else"));
    let model = ScriptedModel::start(script).unwrap();
    assert_eq!(said(&ask(&model, "ping")), "pong");
    assert!(ask(&model, "write a handoff").body.contains("baton handoff -"));
    assert_eq!(said(&ask(&model, "write a handoff")), "else");
    assert_eq!(said(&ask(&model, "ping")), "pong");
}

#[test]
fn sessions_have_their_own_scripts_by_id_or_by_being_new() {
    let model = ScriptedModel::start(Script::new().otherwise(text("shared"))).unwrap();
    let say = |session: &str| said(&post(&model, "/v1/messages", session, &step("hi")));
    assert_eq!(say("first"), "shared");
    model.script_for("second", Script::new().turn(text("for the second")));
    model.script_for_new_session(Script::new().turn(text("for a new one")).otherwise(text("still its own")));
    assert_eq!(say("first"), "shared", "a session that was heard of is not new");
    assert_eq!(say("second"), "for the second");
    assert_eq!(say("third"), "for a new one");
    assert_eq!(say("fourth"), "shared");
    assert_eq!(say("third"), "still its own");
}

#[test]
fn a_request_is_recorded_with_all_that_the_model_read() {
    let model = ScriptedModel::start(Script::new()).unwrap();
    let mut body = step("first prompt");
    body["messages"].as_array_mut().unwrap().extend([
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "secret"}}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "result"}]}]}),
    ]);
    post(&model, "/v1/messages?beta=true", "s7", &body);
    let requests = model.requests();
    let request = &requests[0];
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/messages?beta=true"));
    assert_eq!(request.session.as_deref(), Some("s7"));
    assert_eq!(request.header("host"), Some("x"), "names of headers are in lower case");
    assert_eq!(request.body["model"], "m");
    assert_eq!(request.text(), "You are an agent.\nfirst prompt\nFrom a hook.\nresult");
    assert_eq!(request.last_user_text(), "result");
    assert_eq!(request.tools(), ["Bash"]);
}

#[test]
fn a_held_turn_is_answered_when_the_gate_opens() {
    let gate = Gate::new();
    let model = ScriptedModel::start(Script::new().turn(text("late").held_by(&gate))).unwrap();
    thread::scope(|scope| {
        let answer = scope.spawn(|| said(&ask(&model, "hi")));
        model.wait_for(1, SOON).unwrap();
        assert!(!answer.is_finished());
        gate.open();
        assert_eq!(answer.join().unwrap(), "late");
    });
}

#[test]
fn a_delay_comes_before_the_first_byte_and_a_pace_between_the_words() {
    let (delay, pace) = (Duration::from_millis(60), Duration::from_millis(40));
    let script = Script::new().turn(text("x").delay(delay)).turn(text("one two three").pace(pace));
    let model = ScriptedModel::start(script).unwrap();
    let start = Instant::now();
    ask(&model, "hi");
    assert!(start.elapsed() >= delay);
    let start = Instant::now();
    assert_eq!(said(&ask(&model, "hi")), "one two three");
    assert!(start.elapsed() >= pace * 2);
}

#[test]
fn a_wait_that_runs_out_says_what_the_model_was_asked() {
    let model = ScriptedModel::start(Script::new()).unwrap();
    ask(&model, "only this");
    let error = model.wait_for(2, Duration::from_millis(20)).unwrap_err().to_string();
    assert!(error.contains("2 main requests") && error.contains("only this"), "{error}");
}

#[test]
fn one_connection_serves_many_requests_in_either_encoding_of_a_body() {
    let script = Script::new().turn(text("one")).turn(error(529)).turn(text("three"));
    let model = ScriptedModel::start(script).unwrap();
    let mut connection = connect(&model);
    assert_eq!(said(&post_on(&mut connection, "/v1/messages", "s1", &step("a"))), "one");
    assert_eq!(post_on(&mut connection, "/v1/messages", "s1", &step("b")).status, 529);
    let body = step("in two chunks").to_string();
    let (left, right) = body.split_at(10);
    let request = format!(
        "POST /v1/messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{left}\r\n{:x}\r\n{right}\r\n0\r\n\r\n",
        left.len(),
        right.len()
    );
    connection.get_mut().write_all(request.as_bytes()).unwrap();
    assert_eq!(said(&read_response(&mut connection)), "three");
    assert_eq!(model.main_requests()[2].last_user_text(), "in two chunks");
}

#[test]
fn the_responses_api_gets_text_calls_and_usage_in_its_own_words() {
    let script = Script::new().turn(text("Looking.").shell("ls").usage(30_000)).turn(too_long());
    let model = ScriptedModel::start(script).unwrap();
    let body = json!({"model": "m", "stream": true, "instructions": "Be good.", "tools": [{"name": "exec_command"}],
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "From a hook."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    ]});
    let events = post(&model, "/v1/responses", "", &body).events();
    let done: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "response.output_item.done").collect();
    assert_eq!(done[0]["item"]["content"][0]["text"], "Looking.");
    assert_eq!(done[1]["item"]["name"], "exec_command");
    assert_eq!(done[1]["item"]["arguments"], r#"{"cmd":"ls"}"#);
    let usage = &events.last().unwrap()["response"]["usage"];
    assert_eq!(usage["input_tokens"], 30_000);
    assert_eq!(model.requests()[0].text(), "Be good.\nFrom a hook.\nhi");
    let failed = post(&model, "/v1/responses", "", &body).events();
    assert_eq!(failed[1]["response"]["error"]["code"], "context_length_exceeded");
}

#[test]
fn codexs_side_requests_use_up_no_turn() {
    let model = ScriptedModel::start(Script::new().turn(text("the turn"))).unwrap();
    let ask = |source: &str, kind: &str| {
        let metadata = json!({"request_kind": kind, "thread_source": source}).to_string();
        let body = json!({"model": "m", "stream": true, "input": [{"type": "message", "role": "user",
            "content": [{"type": "input_text", "text": "fix the tests"}]}]});
        let head = format!("X-Codex-Turn-Metadata: {metadata}\r\nThread-Id: t1\r\n");
        send(&mut connect(&model), "/v1/responses", &head, &body).body
    };
    assert!(ask("thread_title", "turn").contains("Scripted title"));
    assert!(ask("user", "compaction").contains("Scripted summary"));
    assert!(ask("user", "turn").contains("the turn"));
    let kinds: Vec<Kind> = model.requests().iter().map(|request| request.kind).collect();
    assert_eq!(kinds, [Kind::Title, Kind::Compaction, Kind::Main]);
    assert_eq!(model.requests()[2].session.as_deref(), Some("t1"));
}

#[test]
fn a_request_that_is_not_for_a_model_is_recorded_and_refused() {
    let model = ScriptedModel::start(Script::new()).unwrap();
    let response = post(&model, "/api/telemetry", "s1", &json!({"a": 1}));
    assert_eq!(response.status, 404);
    assert_eq!(model.requests()[0].kind, Kind::Other);
    assert_eq!(model.requests()[0].body, json!({"a": 1}));
}

#[test]
fn a_dropped_server_leaves_no_client_hanging() {
    let gate = Gate::new();
    let model = ScriptedModel::start(Script::new().turn(text("never").held_by(&gate))).unwrap();
    let mut connection = connect(&model);
    let body = step("hi").to_string();
    let request = format!("POST /v1/messages HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    connection.get_mut().write_all(request.as_bytes()).unwrap();
    model.wait_for(1, SOON).unwrap();
    drop(model);
    let mut rest = String::new();
    connection.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn a_tool_named_by_the_script_is_called_as_named() {
    let model = ScriptedModel::start(Script::new().turn(tool("Write", json!({"n": 1})))).unwrap();
    assert!(ask(&model, "hi").body.contains(r#""name":"Write""#));
}
