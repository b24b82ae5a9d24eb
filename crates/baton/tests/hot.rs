//! What a hook costs that runs at every prompt and tool call, in what it reads.

use std::fmt::Write as _;

use baton_testkit::Home;
use baton_testkit::hooks::Client;
use baton_testkit::trace;
use serde_json::json;

use crate::BATON;
use crate::unattended::took_back;

/// How often a hook opens the transcript, and how many bytes it reads of it.
fn reads(home: &Home, client: &Client<'_>, event: &str) -> (usize, u64) {
    let payload = home.write("payload.json", client.usual(event).to_string());
    let log = home.path().join("calls");
    let mut command = home.command("strace");
    command.args(["-qq", "-f", "-y", "-s", "0", "-e", "trace=?open,openat,read,pread64,readv,preadv", "-o"]);
    command.arg(&log).arg(BATON).args(["hook", event]);
    client.dress(&mut command);
    command.stdin(std::fs::File::open(payload).unwrap());
    assert!(command.output().unwrap().status.success());
    let text = std::fs::read_to_string(&log).unwrap();
    let of_transcript = |line: &&str| line.contains(&client.transcript().display().to_string());
    let lines: Vec<&str> = text.lines().filter(of_transcript).collect();
    let (opens, reads): (Vec<&str>, Vec<&str>) = lines.iter().partition(|line| line.contains(" open"));
    let read = |line: &&str| line.rsplit(" = ").next().and_then(|n| n.parse::<u64>().ok());
    (opens.len(), reads.iter().filter_map(read).sum())
}

/// A client that was given a message with a prompt four seconds ago.
fn given_mail(home: &Home, shown: bool) -> Client<'_> {
    let client = Client::new(home);
    client.starts("startup").silent();
    client.says("Port the tests.");
    client.answers(50_000);
    home.run(&format!("send {} hello", client.agent())).ok();
    if shown {
        client.hook("UserPromptSubmit").ok();
    } else {
        client.taken_back("UserPromptSubmit", json!({})).ok();
    }
    assert!(client.kept()["given"].is_array());
    took_back(&client, 4);
    client
}

/// Records of `megabytes`, and an answer behind them.
fn grows(client: &Client<'_>, megabytes: usize) {
    use std::io::Write as _;
    let line = format!("{{\"type\":\"user\",\"pad\":\"{}\"}}\n", "x".repeat(65_000));
    let mut text = String::new();
    for _ in 0..megabytes * 16 {
        let _ = write!(text, "{line}");
    }
    let mut file = std::fs::OpenOptions::new().append(true).open(client.transcript()).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    client.answers(51_000);
}

/// The mirror's share of a hook and the end of the file, however much there is.
const MOST: u64 = 512 << 10;

#[test]
fn a_tool_call_settles_the_mail_of_its_prompt_by_reading_a_little_behind_it() {
    if !trace::available() {
        return;
    }
    let home = Home::new(BATON);
    let client = given_mail(&home, true);
    grows(&client, 9);
    let (_, read) = reads(&home, &client, "PostToolUse");
    assert!(read <= MOST, "{read} bytes");
    assert!(client.kept()["given"].is_null(), "{}", client.kept());
}

/// Whoever has more time decides: here the end of the turn.
#[test]
fn mail_that_a_tool_call_cannot_find_in_what_it_may_read_is_queued_again_at_the_end_of_the_turn() {
    if !trace::available() {
        return;
    }
    let home = Home::new(BATON);
    let client = given_mail(&home, false);
    grows(&client, 9);
    for event in ["PostToolUse", "UserPromptSubmit"] {
        let (_, read) = reads(&home, &client, event);
        assert!(read <= MOST, "{event}: {read} bytes");
        assert!(client.kept()["given"].is_array(), "{event}: {}", client.kept());
    }
    took_back(&client, 4);
    let stop = client.hook("Stop").context();
    assert!(client.kept()["given"].is_null(), "{}", client.kept());
    assert!(stop.is_some_and(|context| context.contains("hello")), "the turn goes on with it");
}

#[test]
fn a_prompt_while_the_agent_works_opens_the_transcript_once_as_any_other_does() {
    if !trace::available() {
        return;
    }
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.says("Port the tests.");
    client.answers(50_000);
    let (idle, _) = reads(&home, &client, "UserPromptSubmit");
    assert_eq!(client.kept()["turn"], "working");
    let (working, _) = reads(&home, &client, "UserPromptSubmit");
    assert_eq!((idle, working), (1, 1));
}
