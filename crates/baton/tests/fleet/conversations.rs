//! Conversations between machines: shared by channel, fetched in pieces, carried along by a move, and removed again.

use std::time::Duration;

use baton_testkit::Home;
use baton_testkit::hooks::Client;
use baton_testkit::wait::{poll, wait_for, wait_until};
use serde_json::{Value, json};

use super::Fleet;

/// A client that was asked for something in a conversation of at least so many bytes, which baton has mirrored.
fn talked<'a>(home: &'a Home, asked: &str, bytes: usize) -> Client<'a> {
    let client = Client::new(home);
    client.starts("startup").ok();
    client.says(asked);
    let line = |n: usize| {
        json!({ "type": "user", "uuid": format!("u{n}"), "sessionId": client.session, "cwd": home.project(),
            "timestamp": jiff::Timestamp::now().to_string(),
            "message": { "role": "user", "content": format!("{n} {}", noise(n, 4096)) } })
    };
    for n in 0..bytes / 4096 {
        client.record(&line(n));
    }
    client.answers(20_000);
    let size = std::fs::metadata(client.transcript()).unwrap().len();
    let copy = home.state().join(format!("mirror/{}/main.jsonl", client.session));
    wait_until("the mirror to have it all", || {
        client.hook("PostToolUse").ok();
        std::fs::metadata(&copy).is_ok_and(|copy| copy.len() >= size)
    });
    client.hook("Stop").ok();
    client
}

/// Text that hardly compresses.
fn noise(seed: usize, length: usize) -> String {
    let mut state = seed as u64 + 0x9e37_79b9;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + u8::try_from((state >> 40) % 26).unwrap())
        })
        .collect()
}

fn channel(home: &Home) -> String {
    home.run("channel").ok().trim().to_owned()
}

fn share(home: &Home) -> String {
    let channel = channel(home);
    super::run(home, &["config", "set", "fleet.share", &channel]).ok();
    channel
}

fn shown(home: &Home, session: &str) -> Option<String> {
    let ran = super::run(home, &["sessions", "show", session, "--raw"]);
    (ran.code == Some(0)).then_some(ran.out)
}

#[test]
fn a_conversation_is_named_and_fetched_where_its_channel_is_shared_and_nowhere_else() {
    let Some(fleet) = Fleet::of(2) else { return };
    let there = talked(&fleet.homes[1], "Write the parser of the frobnicator", 3 << 20);
    (0..2).for_each(|n| fleet.wait_for_link(n));
    // By default nothing of a conversation is shared.
    let said = fleet.run(0, &["sessions", "list", "--fleet"]);
    assert_eq!(said.code, Some(3), "{}", said.out);
    fleet.run(0, &["sessions", "fetch", &there.session]).fails(3);
    share(&fleet.homes[1]);
    let rows = wait_for("it to be named", || {
        let rows = fleet.run(0, &["sessions", "list", "--fleet", "--json"]);
        (rows.code == Some(0)).then(|| rows.json())
    });
    assert_eq!((&rows[0]["session"], &rows[0]["machine"]), (&json!(there.session), &json!("m1")), "{rows}");
    assert!(rows[0]["title"].as_str().unwrap().contains("frobnicator"), "{rows}");
    let table = fleet.run(0, &["sessions", "list", "--fleet"]).ok();
    assert!(table.contains("m1") && table.contains("frobnicator"), "{table}");
    assert!(shown(&fleet.homes[0], &there.session).is_none());
    let said = fleet.run(0, &["sessions", "fetch", &there.session]).ok();
    assert!(said.contains("is here"), "{said}");
    let original = std::fs::read_to_string(there.transcript()).unwrap();
    let fetched = shown(&fleet.homes[0], &there.session).expect("it can be shown");
    assert_eq!(fetched.trim_end(), original.trim_end(), "byte for byte");
    let dump = fleet.postgres.dump();
    assert!(!dump.contains("frobnicator"), "the database reads no words");
    // Asked for by somebody who may not: the same words as for one that is not there.
    super::run(&fleet.homes[1], &["config", "unset", "fleet.share"]).ok();
    let said = fleet.run(0, &["sessions", "fetch", &there.session]);
    assert_ne!(said.code, Some(0), "{}", said.out);
}

#[test]
fn a_fetch_continues_where_it_was_when_daemons_and_the_database_die_in_between() {
    let Some(mut fleet) = Fleet::of(2) else { return };
    let there = talked(&fleet.homes[1], "Write the parser", 6 << 20);
    share(&fleet.homes[1]);
    (0..2).for_each(|n| fleet.wait_for_link(n));
    wait_until("it to be named", || fleet.run(0, &["sessions", "list", "--fleet"]).code == Some(0));
    let mut asking = fleet.homes[0].baton(["sessions", "fetch", &there.session]);
    let asking =
        asking.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let pieces = |home: &Home| {
        let dir = home.state().join(format!("fleet/coming/m1/{}", there.session));
        let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
        files.filter(|file| file.path().extension().is_some_and(|e| e == "zst")).count()
    };
    let is_whole = |home: &Home| shown(home, &there.session).is_some();
    wait_until("the first pieces", || pieces(&fleet.homes[0]) > 0 || is_whole(&fleet.homes[0]));
    fleet.postgres.kill();
    fleet.homes[0].run("serve --stop");
    fleet.postgres.restart();
    fleet.homes[0].run("serve --detach").ok();
    (0..2).for_each(|n| fleet.wait_for_link(n));
    wait_until("all of it", || is_whole(&fleet.homes[0]));
    let original = std::fs::read_to_string(there.transcript()).unwrap();
    assert_eq!(shown(&fleet.homes[0], &there.session).unwrap().trim_end(), original.trim_end());
    let mut asking = asking;
    asking.kill().ok();
    asking.wait().unwrap();
}

#[test]
fn an_agent_moves_with_its_whole_conversation_which_is_forgotten_with_its_channel() {
    let Some(fleet) = Fleet::of(2) else { return };
    let here = talked(&fleet.homes[0], "Write the parser of the frobnicator", 2 << 20);
    (0..2).for_each(|n| fleet.wait_for_link(n));
    let said = fleet.run(0, &["move", &here.agent(), "m1", "--with-conversation"]).ok();
    assert!(said.contains("@m1"), "{said}");
    wait_until("the conversation to arrive", || shown(&fleet.homes[1], &here.session).is_some());
    let original = std::fs::read_to_string(here.transcript()).unwrap();
    let moved = shown(&fleet.homes[1], &here.session).unwrap();
    assert!(original.trim_end().starts_with(moved.trim_end()) && moved.contains("frobnicator"));
    let channel = channel(&fleet.homes[0]);
    let purged: Value = fleet.run(0, &["fleet", "purge", "--channel", &channel, "--json"]).json();
    assert_eq!((&purged["left"]["messages"], &purged["told"]), (&json!(0), &json!(1)), "{purged}");
    assert!(purged["parcels"].as_u64().unwrap() >= 2, "its pieces were kept for a restore: {purged}");
    wait_until("m1 to remove it", || shown(&fleet.homes[1], &here.session).is_none());
    let told = wait_for("the word of it", || {
        let log = fleet.run(0, &["log"]).out;
        log.contains("fleet-forgotten").then_some(log)
    });
    assert!(told.contains("m1"), "{told}");
}

#[test]
fn what_a_sleeping_machine_has_not_fetched_of_a_channel_is_purged_from_the_database() {
    let Some(fleet) = Fleet::of(2) else { return };
    let here = talked(&fleet.homes[0], "Write the parser", 1 << 20);
    (0..2).for_each(|n| fleet.wait_for_link(n));
    fleet.homes[1].run("serve --stop").ok();
    fleet.run(0, &["move", &here.agent(), "m1", "--with-conversation"]).ok();
    let count = || fleet.postgres.sql("SELECT count(*) FROM baton.messages WHERE recipient = 'm1'");
    wait_until("the pieces to be stored", || count().parse::<u32>().unwrap() >= 3);
    let channel = channel(&fleet.homes[0]);
    super::run(&fleet.homes[0], &["config", "set", "fleet.share", &channel]).ok();
    let said = fleet.run(0, &["fleet", "purge", "--channel", &channel]).fails(1);
    assert!(said.contains("fleet.share"), "{said}");
    super::run(&fleet.homes[0], &["config", "unset", "fleet.share"]).ok();
    let purged = fleet.run(0, &["fleet", "purge", "--channel", &channel, "--json"]).json();
    assert!(purged["removed"].as_u64().unwrap() >= 2, "{purged}");
    assert_eq!(purged["left"]["messages"], 0, "{purged}");
    let audit = fleet.postgres.sql("SELECT about FROM baton.audit WHERE what = 'purged'");
    assert_eq!(audit, format!("m0 {channel}"));
}

#[test]
fn agents_of_a_hidden_channel_are_not_shown_to_others() {
    let Some(fleet) = Fleet::of(2) else { return };
    let client = Client::new(&fleet.homes[1]);
    client.starts("startup").ok();
    (0..2).for_each(|n| fleet.wait_for_link(n));
    let agents = || fleet.run(0, &["agents", "--fleet", "--json"]);
    wait_until("m1's agent", || agents().code == Some(0));
    let channel = channel(&fleet.homes[1]);
    super::run(&fleet.homes[1], &["config", "set", "fleet.hide", &channel]).ok();
    wait_until("it to be hidden", || {
        fleet.run(1, &["fleet", "status"]);
        agents().code == Some(3)
    });
}

/// A line that carries less in 15 s, the time for an ordinary statement, than the piece of a conversation has.
#[test]
fn a_conversation_comes_over_a_slow_line() {
    let Some(fleet) = Fleet::of(2).map(Fleet::quiet) else { return };
    let there = talked(&fleet.homes[1], "Write the parser of the frobnicator", 1 << 20);
    share(&fleet.homes[1]);
    let wires: Vec<_> =
        fleet.homes.iter().map(|home| super::through_a_wire(home, fleet.postgres.port())).collect();
    let _daemons = [fleet.serve(0), fleet.serve(1)];
    (0..2).for_each(|n| fleet.wait_for_link(n));
    wait_for("it to be named", || {
        (fleet.run(0, &["sessions", "list", "--fleet"]).code == Some(0)).then_some(())
    });
    for wire in &wires {
        wire.carries(40 << 10);
    }
    fleet.run(0, &["sessions", "fetch", &there.session]);
    let came = poll(Duration::from_mins(4), || shown(&fleet.homes[0], &there.session));
    assert!(came.is_some_and(|text| text.contains("frobnicator")), "{} {}", fleet.link(0), fleet.link(1));
}
