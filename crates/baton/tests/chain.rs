//! A task outlives its contexts: the user's request, the rules and the agent's own words reach every later context,
//! whether or not anybody writes a handoff.

use baton_testkit::Home;
use baton_testkit::hooks::Client;
use serde_json::json;

use crate::BATON;

const GOAL: &str = "TAUGOAL: port the tests. Never edit Cargo.lock.";

/// The user says something in the client's transcript.
pub(crate) fn says(client: &Client<'_>, home: &Home, text: &str) {
    client.record(&json!({
        "type": "user", "uuid": baton_testkit::hooks::session_id(), "cwd": home.project(),
        "sessionId": client.session, "message": { "role": "user", "content": text },
    }));
}

/// The agent ignores every request for a handoff until one is sealed for it; returns the handoff's id.
pub(crate) fn is_sealed(client: &Client<'_>, last: &str) -> String {
    client.answers(150_000);
    client.hook("PostToolUse").answer();
    for active in [false, true, true] {
        let fields = json!({ "stop_hook_active": active, "last_assistant_message": last });
        if let Some(message) = client.hook_with("Stop", fields).message()
            && let Some(at) = message.find("HO-")
        {
            return message[at..].split([' ', ';']).next().unwrap().to_owned();
        }
    }
    panic!("no Stop sealed a handoff");
}

/// Runs `count` contexts of one client; returns what the last start is given, and the handoffs in between.
fn contexts(home: &Home, client: &mut Client<'_>, count: usize) -> (String, Vec<String>) {
    let mut ids: Vec<String> = Vec::new();
    let mut given = client.starts("startup").context();
    for n in 0..count - 1 {
        match ids.last() {
            None => says(client, home, GOAL),
            Some(id) => says(client, home, &format!("Continue where the loaded handoff {id} left off.")),
        }
        ids.push(is_sealed(client, &format!("Context {n} is done.")));
        given = client.clears().context();
    }
    (given.expect("the last start is given a handoff"), ids)
}

#[test]
fn the_goal_and_the_rule_reach_the_fifth_context_though_nobody_writes_a_handoff() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    let (given, ids) = contexts(&home, &mut client, 5);
    assert!(given.contains(&format!("Latest request (of an earlier context): {GOAL}")), "{given}");
    assert!(given.contains("Sealed in context 4 of the task"), "{given}");
    assert!(given.contains("Context 3 is done."), "the last message is the payload's: {given}");
    assert!(!given.contains("Continue where the loaded handoff"), "our own prompt: {given}");
    assert!(given.chars().count() <= 9_500);

    let chain = home.run(&format!("handoffs chain {}", ids[3])).ok();
    for id in &ids {
        assert!(chain.contains(id.as_str()), "{chain}");
    }
    let json = home.run(&format!("handoffs chain {} --json", ids[3])).json();
    assert_eq!(json["hops"].as_array().unwrap().len(), 4);
    assert!(json["items"].to_string().contains("Never edit Cargo.lock."), "{json}");
    let diff = home.run(&format!("handoffs diff {} {}", ids[0], ids[3])).ok();
    assert!(!diff.contains("TAUGOAL"), "the later one lacks nothing of it: {diff}");
    let draft = home.run(&format!("handoffs draft {}", client.session));
    assert_ne!(draft.code, Some(0), "no transcript yet: {}", draft.out);
    says(&client, &home, "What is left?");
    let draft = home.run(&format!("handoffs draft {}", client.session)).ok();
    assert!(draft.contains(GOAL) && draft.contains("What is left?"), "{draft}");
    assert_eq!(home.run("handoffs draft --against last").code, Some(0));
}

#[test]
fn a_handoff_of_an_earlier_version_loads_and_its_words_continue() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    client.starts("startup");
    says(&client, &home, GOAL);
    let id = is_sealed(&client, "…");
    std::fs::remove_file(home.store().join(format!("archive/{id}.json"))).unwrap();
    let given = client.clears().context().unwrap();
    assert!(given.contains("TAUGOAL"), "{given}");
    is_sealed(&client, "…");
    let given = client.clears().context().unwrap();
    assert!(given.contains("TAUGOAL") && given.contains("an earlier session wrote:"), "{given}");
}

#[test]
fn a_start_that_loads_nothing_begins_a_task_of_its_own() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    let (_, ids) = contexts(&home, &mut client, 2);
    home.run(&format!("handoffs clear {}", ids[0]));
    client.hook("SessionEnd").silent();
    drop(client);
    let mut fresh = Client::new(&home);
    assert_eq!(fresh.starts("startup").context(), None);
    says(&fresh, &home, "Write the docs.");
    is_sealed(&fresh, "…");
    let given = fresh.clears().context().unwrap();
    assert!(given.contains("Write the docs.") && !given.contains("TAUGOAL"), "{given}");
}

#[test]
fn the_ledger_beside_a_handoff_is_private_bounded_and_redacted() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup");
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    says(&client, &home, &format!("Push with {secret}. {}", "Never stop. ".repeat(40_000)));
    let id = is_sealed(&client, "…");
    let path = home.store().join(format!("archive/{id}.json"));
    let about = std::fs::metadata(&path).unwrap();
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    assert!(about.len() <= 260 << 10, "{} bytes", about.len());
    assert!(!std::fs::read_to_string(&path).unwrap().contains(&secret));
}

#[test]
fn a_ledger_that_is_kept_for_the_next_seal_has_no_secrets() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").ok();
    let key = format!("AKIA{}", "Q7ZXN5KPLM2RTVWA");
    let said = format!("Deploy with the key {key} and never print it.");
    client.record(&serde_json::json!({ "type": "user", "message": { "content": said } }));
    client.hook("PreCompact");
    let path = home.state().join(format!("ledgers/{}.json", client.session));
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(kept.contains("Deploy with the key") && !kept.contains(&key), "{kept}");
}

#[test]
fn compactions_are_hops_of_the_task_and_what_the_user_asked_to_keep_is_not_the_agents() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup");
    says(&client, &home, GOAL);
    for n in 0..3_u32 {
        client.answers(150_000 + u64::from(n));
        let wish = if n == 1 { "keep the list" } else { "" };
        client.hook_with("PreCompact", json!({ "trigger": "manual", "custom_instructions": wish }));
        client.starts("compact");
        client.record(&json!({ "type": "system", "subtype": "compact_boundary", "uuid": format!("b{n}") }));
        says(&client, &home, &format!("And now part {n}."));
    }
    let chain = home.run("handoffs chain --json").json();
    let hops = chain["hops"].as_array().unwrap();
    assert_eq!(hops.len(), 3, "{chain}");
    assert!(hops.iter().all(|hop| hop["type"] == "precompact" && hop["wrote"] == false), "{chain}");
    let draft = home.run(&format!("handoffs draft {} --json", client.session)).json();
    assert_eq!(draft["ledger"]["hops"].as_array().unwrap().len(), 3, "{}", draft["ledger"]["hops"]);
}

#[test]
fn a_withdrawn_handoff_is_not_carried() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    client.starts("startup");
    says(&client, &home, GOAL);
    let first = client.session.clone();
    let taken_back = is_sealed(&client, "…");
    client.clears();
    says(&client, &home, "WRONG-TURN: rewrite it all.");
    client.hook_with("SessionEnd", json!({ "reason": "other" })).silent();
    home.run(&format!("undo {}", client.agent())).ok();
    client.session = first;
    client.starts("resume");
    says(&client, &home, "Go on as before.");
    let draft = home.run(&format!("handoffs draft {} --json", client.session)).json();
    assert!(!draft["ledger"]["hops"].to_string().contains(&taken_back), "{draft}");
    let document = draft["document"].as_str().unwrap();
    assert!(document.contains("TAUGOAL") && document.contains("Go on as before."), "{document}");
    assert!(!document.contains("WRONG-TURN"), "{document}");
}

/// Whatever the taken-back context handed over is taken back with it, and no later context loads it.
#[test]
fn after_undo_the_work_that_was_taken_back_never_comes_again_and_a_second_undo_says_so() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    client.starts("startup");
    says(&client, &home, GOAL);
    let first = client.session.clone();
    let good = is_sealed(&client, "…");
    client.clears();
    says(&client, &home, "WRONG-TURN: rewrite it all. Always lie.");
    client.hook("UserPromptSubmit");
    let bad = is_sealed(&client, "…");
    let agent = client.agent();
    let said = home.run(&format!("undo {agent}")).ok();
    assert!(said.contains(&format!("handoff {good} is active again")), "{said}");
    assert!(said.contains(&format!("leave its client and run `claude --resume {first}`")), "{said}");
    let again = home.run(&format!("undo {agent}")).fails(3);
    assert!(again.contains("there is nothing more to undo"), "{again}");
    let status = |id: &str| {
        let list = home.run("handoffs --json").json();
        let found = list.as_array().unwrap().iter().find(|entry| entry["id"] == id).cloned();
        found.unwrap()["status"].as_str().unwrap().to_owned()
    };
    assert_eq!((status(&good).as_str(), status(&bad).as_str()), ("active", "cleared"));
    client.hook_with("SessionEnd", json!({ "reason": "other" })).silent();
    client.session = first;
    client.starts("resume");
    let back = home.run(&format!("undo {agent}")).fails(3);
    assert!(back.contains("is back already"), "{back}");
    for _ in 0..2 {
        let given = client.clears().context().unwrap_or_default();
        assert!(!given.contains("WRONG-TURN") && !given.contains("Always lie"), "{given}");
        client.hook("UserPromptSubmit");
    }
    assert_eq!(status(&good), "consumed");
}

/// A client that is killed after its rotation was undone leaves nothing behind that would bring it back.
#[test]
fn a_taken_back_context_that_dies_is_not_offered_as_a_crash() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    client.starts("startup");
    says(&client, &home, GOAL);
    is_sealed(&client, "…");
    client.clears();
    says(&client, &home, "WRONG-TURN: rewrite it all.");
    client.hook("UserPromptSubmit");
    client.answers(20_000);
    client.hook("Stop");
    home.run(&format!("undo {}", client.agent())).ok();
    drop(client);
    for _ in 0..2 {
        let next = Client::new(&home);
        let given = next.starts("startup").context().unwrap_or_default();
        assert!(!given.contains("WRONG-TURN"), "{given}");
        next.hook("UserPromptSubmit");
        next.hook("SessionEnd");
    }
}

#[test]
fn the_mods_answer_carries_the_task_and_its_compactions() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    contexts(&home, &mut client, 3);
    says(&client, &home, "What is left?");
    client.answers(150_000);
    client.hook("PostToolUse");
    let asked = json!({ "v": 1, "session": client.session, "trigger": "manual", "rows": [] });
    let heard =
        baton_testkit::hooks::send(home.baton(["companion", "compact"]), asked.to_string().as_bytes());
    assert_eq!(heard.code, Some(0), "{heard:?}");
    assert!(heard.out.contains("TAUGOAL") && heard.out.contains("Never edit Cargo.lock."), "{}", heard.out);
    client.starts("compact");
    says(&client, &home, "And then?");
    let draft = home.run(&format!("handoffs draft {} --json", client.session)).json();
    let hops = draft["ledger"]["hops"].as_array().unwrap();
    let kinds: Vec<&str> = hops.iter().map(|hop| hop["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["auto", "auto", "precompact"], "{draft}");
}

#[test]
fn a_crash_carries_the_task_on() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    contexts(&home, &mut client, 2);
    client.hook("UserPromptSubmit");
    says(&client, &home, "Now the second half.");
    client.hook("PostToolUse");
    // Killed, so there is no SessionEnd.
    drop(client);
    let next = Client::new(&home);
    let given = next.starts("startup").context().expect("the crash is handed over");
    assert!(given.contains("Type: crash") && given.contains("TAUGOAL"), "{given}");
    assert!(given.contains("Never edit Cargo.lock.") && given.contains("Now the second half."), "{given}");
}

#[test]
fn a_task_that_cannot_be_read_is_named_in_the_next_handoff() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    let (_, ids) = contexts(&home, &mut client, 2);
    // What is not a file cannot be read.
    for kind in ["md", "json"] {
        let path = home.store().join(format!("archive/{}.{kind}", ids[0]));
        std::fs::rename(&path, path.with_extension("moved")).unwrap();
        std::fs::create_dir(&path).unwrap();
    }
    says(&client, &home, "Now the second half.");
    let id = is_sealed(&client, "Half of it.");
    let document = std::fs::read_to_string(home.store().join(format!("archive/{id}.md"))).unwrap();
    let lost = format!("**Not everything was read:** {}, and with it the task that it carried: ", ids[0]);
    assert!(document.contains(&lost) && document.contains("Now the second half."), "{document}");
}

#[test]
fn a_dead_client_whose_transcript_cannot_be_read_leaves_a_handoff_that_says_so() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup");
    client.hook("UserPromptSubmit");
    let transcript = client.transcript();
    std::fs::create_dir_all(&transcript).unwrap();
    drop(client);
    let given = Client::new(&home).starts("startup").context().expect("the crash is handed over");
    assert!(given.contains("Type: crash") && given.contains("**Not everything was read:**"), "{given}");
}

#[test]
fn nothing_is_dropped_while_a_session_that_may_bring_it_back_cannot_be_read() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    contexts(&home, &mut client, 3);
    let items = home.run("handoffs chain drop --json").json();
    let rule = items.as_array().unwrap().iter().find(|item| item["kind"] == "rule").unwrap()["id"].clone();
    let drop_it = format!("handoffs chain drop {}", rule.as_str().unwrap());
    let unreadable = home.state().join("sessions/unreadable.json");
    std::fs::create_dir(&unreadable).unwrap();
    let said = home.run(&drop_it).fails(1);
    assert!(said.contains("unreadable.json"), "{said}");
    std::fs::remove_dir(&unreadable).unwrap();
    assert!(home.run(&drop_it).ok().starts_with("Dropped r"), "it was still there");
}

#[test]
fn work_that_moves_to_codex_and_continues_there_keeps_its_task() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    contexts(&home, &mut client, 2);
    client.hook("UserPromptSubmit");
    says(&client, &home, "Now the second half.");
    let mut command = home.baton(["handoff", "--to", "codex", "-", "--json"]);
    client.dress(&mut command);
    let heard = baton_testkit::hooks::send(command, b"## Next\nMOVED-NEXT: the last test.\n");
    assert_eq!(heard.code, Some(0), "{heard:?}");
    let moved: serde_json::Value = serde_json::from_str(&heard.out).unwrap();
    let id = moved["handoff"].as_str().unwrap_or_else(|| panic!("{moved}")).to_owned();
    let mut codex = baton_testkit::codex::CodexClient::new(&home);
    let given = codex.starts("startup").context().unwrap();
    assert!(given.contains(&id) && given.contains("TAUGOAL"), "{given}");
    for n in 0..3 {
        codex.says("user", &format!("Step {n}."));
        codex.prompt(&format!("Step {n}."));
        codex.counts(80_000 + n);
        codex.tool();
        for active in [false, true, true] {
            codex.stops(active);
        }
        codex.hook("SessionEnd", json!({ "reason": "clear" }));
        codex.thread = baton_testkit::hooks::session_id();
        let given = codex.starts("clear").context().unwrap_or_else(|| panic!("context {n} is given nothing"));
        for kept in ["TAUGOAL: port the tests.", "Never edit Cargo.lock.", "MOVED-NEXT: the last test."] {
            assert!(given.contains(kept), "{kept} in context {n}: {given}");
        }
    }
}

#[test]
fn an_item_that_was_dropped_does_not_reach_a_later_context_or_come_back() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    let (given, ids) = contexts(&home, &mut client, 3);
    assert!(given.contains("Never edit Cargo.lock."), "{given}");
    let list = home.run("handoffs chain drop").ok();
    assert!(list.contains("Never edit Cargo.lock."), "{list}");
    let items = home.run("handoffs chain drop --json").json();
    let rule = items.as_array().unwrap().iter().find(|item| item["kind"] == "rule").unwrap()["id"].clone();
    let said = home.run(&format!("handoffs chain drop {}", rule.as_str().unwrap())).ok();
    assert!(said.starts_with("Dropped r") && said.contains("Never edit Cargo.lock."), "{said}");
    assert!(home.run("handoffs chain drop r0000000").fails(3).contains("carries no item r0000000"));
    let chain = home.run(&format!("handoffs chain {} --json", ids[1])).json();
    assert!(!chain["items"].to_string().contains("\"rule\""), "{}", chain["items"]);

    says(&client, &home, &format!("Continue where the loaded handoff {} left off.", ids[1]));
    is_sealed(&client, "…");
    let given = client.clears().context().unwrap();
    assert!(given.contains("TAUGOAL"), "the goal is another item: {given}");
    let items = home.run("handoffs chain --json").json()["items"].to_string();
    assert!(!items.contains("\"rule\""), "{items}");
}

#[test]
fn a_json_draft_or_summary_contains_no_secrets_either() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup");
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    says(&client, &home, &format!("Push with {secret}, and always say so."));
    let draft = home.run(&format!("handoffs draft {} --json", client.session)).ok();
    assert!(draft.contains("Push with") && !draft.contains(&secret), "{draft}");
    let summary = home.run(&format!("sessions show {} --json", client.session)).ok();
    assert!(summary.contains("Push with") && !summary.contains(&secret), "{summary}");
}

#[test]
fn the_last_message_beside_an_agents_own_handoff_comes_from_the_payload() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    client.starts("startup");
    says(&client, &home, GOAL);
    client.hook("UserPromptSubmit");
    client.answers(150_000);
    let mut handoff = home.baton(["handoff", "-"]);
    client.dress(&mut handoff);
    assert_eq!(baton_testkit::hooks::send(handoff, b"## Next\nRun it.\n").code, Some(0));
    client.hook_with("Stop", json!({ "last_assistant_message": "Handed over; LAST-CONCLUSION." }));
    let given = client.clears().context().unwrap();
    assert!(given.contains("Run it.") && given.contains("LAST-CONCLUSION"), "{given}");
}

#[test]
fn the_difference_between_two_handoffs_is_shown() {
    let home = Home::new(BATON);
    let mut client = Client::new(&home);
    let (_, ids) = contexts(&home, &mut client, 2);
    says(&client, &home, "NEW-AIM: write the docs. Always ask first.");
    let later = is_sealed(&client, "…");
    let diff = home.run(&format!("handoffs diff {} {later}", ids[0])).ok();
    assert!(diff.contains("+ request   NEW-AIM") && diff.contains("+ rule      Always ask first."), "{diff}");
    let back = home.run(&format!("handoffs diff {later} {}", ids[0])).ok();
    assert!(back.contains("- request   NEW-AIM") && back.contains("- rule      Always ask first."), "{back}");
    client.clears();
    says(&client, &home, "DRAFTED-AIM: and the changelog.");
    let against = home.run("handoffs draft --against last").ok();
    assert!(against.contains("+ request   DRAFTED-AIM") && !against.contains("NEW-AIM"), "{against}");
}

#[test]
fn an_expired_handoff_that_is_loaded_by_id_continues_with_its_task() {
    let home = Home::new(BATON);
    home.write(".config/baton/config.toml", "[handoff]\nexpiry = \"1ms\"\n");
    let client = Client::new(&home);
    client.starts("startup");
    says(&client, &home, GOAL);
    let id = is_sealed(&client, "…");
    client.hook("SessionEnd").silent();
    drop(client);
    let mut next = Client::new(&home);
    next.starts("startup");
    let mut load = home.baton(["handoffs", "load", &id]);
    next.dress(&mut load);
    assert_eq!(baton_testkit::hooks::send(load, b"").code, Some(0));
    says(&next, &home, "Go on.");
    let later = is_sealed(&next, "…");
    let chain = home.run(&format!("handoffs chain {later} --json")).json();
    assert!(
        chain["hops"].to_string().contains(&id) && chain["items"].to_string().contains("TAUGOAL"),
        "{chain}"
    );
    next.hook("SessionEnd").silent();
    next.session = baton_testkit::hooks::session_id();
}
