//! What the faces show (needs, conversations, levels, chains, drafts), and what they can do.

use baton_testkit::Home;
use baton_testkit::daemon::Served;
use baton_testkit::hooks::Client;
use baton_testkit::wait::wait_until;
use serde_json::{Value, json};

use super::approvals::ask;
use super::started;
use crate::BATON;

#[test]
fn an_agent_is_shown_with_its_thresholds_its_prompt_and_what_it_needs() {
    let home = Home::new(BATON);
    home.write(".config/baton/config.toml", "[approvals]\nwait_for = \"all\"\n");
    let client = started(&home);
    let served = Served::new(&home);
    let agent = served.get("/sessions/app");
    assert_eq!((&agent["words"], &agent["needs"]), (&json!("idle"), &Value::Null));
    client.answers(104_000);
    client.hook_with("UserPromptSubmit", json!({ "prompt": "Port the parser." })).ok();
    let agent = served.get("/sessions/app");
    assert_eq!((&agent["words"], &agent["now"]), (&json!("working"), &json!("Port the parser.")));
    let at = |name: &str| agent[name].as_u64().unwrap();
    assert!(at("warn_at") < at("ask_at") && at("ask_at") < at("compacts_at"), "{agent}");
    assert_eq!(at("left") + 104_200, at("compacts_at"), "output counts too: {agent}");
    assert_eq!(agent["project"], "app");
    assert_eq!(agent["place"], "terminal");
    let hook = ask(&client, "rm x");
    // That it waits is recorded before what it asks for.
    wait_until("the request is shown", || served.get("/sessions/app")["needs"]["kind"] == "permission");
    let agent = served.get("/sessions/app");
    assert_eq!((&agent["words"], &agent["needs"]["text"]), (&json!("asks: Bash \"rm x\""), &agent["words"]));
    let request = served.get("/approvals")["approvals"][0].clone();
    let body = json!({ "verdict": "deny", "reason": "no", "hash": request["id"] });
    served.post(&format!("/approvals/{}", request["short"].as_str().unwrap()), &body);
    hook.wait_with_output().unwrap();
    wait_until("nothing is needed", || served.get("/sessions/app")["needs"].is_null());
    let failure = json!({ "error": "rate_limit", "last_assistant_message": "limit reached|4102444800" });
    client.hook_with("StopFailure", failure).ok();
    let agent = served.get("/sessions/app");
    assert_eq!((&agent["state"], &agent["needs"]["kind"]), (&json!("limit"), &json!("limit")));
    assert!(agent["limit_until"].is_string(), "{agent}");
}

#[test]
fn a_conversation_is_read_in_pages_from_its_end() {
    let home = Home::new(BATON);
    let client = started(&home);
    for n in 0..30 {
        client.says(&format!("prompt {n}"));
        client.answers(1_000 * (n + 1));
    }
    let served = Served::new(&home);
    let page = served.get("/sessions/app/conversation?limit=10");
    let entries = page["entries"].as_array().unwrap();
    assert!(entries.len() >= 10 && page["more"] == true, "{page}");
    let mut all = entries.clone();
    let mut next = page["next"].clone();
    while let Some(offset) = next.as_u64() {
        let page = served.get(&format!("/sessions/app/conversation?limit=10&before={offset}"));
        all.splice(0..0, page["entries"].as_array().unwrap().clone());
        next = page["next"].clone();
    }
    let prompts: Vec<&str> =
        all.iter().filter(|e| e["from"] == "user").map(|e| e["text"].as_str().unwrap()).collect();
    assert_eq!(prompts.len(), 30, "{prompts:?}");
    assert_eq!((prompts[0], prompts[29]), ("prompt 0", "prompt 29"));
    let last = all.last().unwrap()["offset"].as_u64().unwrap();
    client.says("one more");
    let newer = served.get(&format!("/sessions/app/conversation?after={last}"));
    assert_eq!(newer["entries"][0]["text"], "one more", "{newer}");
    for (bad, status) in [("before=x", 422), ("before=1&after=1", 422), ("limit=x", 422), ("session=x", 404)]
    {
        let answered = served.ask("GET", &format!("/sessions/app/conversation?{bad}"), None);
        assert_eq!(answered.status, status, "{bad}");
    }
}

#[test]
fn a_cycle_shows_its_levels_its_chain_and_its_documents() {
    let home = Home::new(BATON);
    let mut client = started(&home);
    let served = Served::new(&home);
    client.says("Port the parser, never push.");
    for tokens in [30_000, 104_000, 134_000] {
        client.answers(tokens);
        client.hook("PostToolUse").ok();
    }
    let draft = served.get("/sessions/app/draft");
    assert!(draft["document"].as_str().unwrap().contains("Port the parser"), "{draft}");
    assert_eq!(draft["against"], Value::Null);
    let said = served.post("/sessions/app/rotate", &json!({}))["said"].as_str().unwrap().to_owned();
    assert!(said.contains("type /clear in app"), "{said}");
    let agent = served.get("/sessions/app");
    assert_eq!(agent["needs"]["kind"], "handoff", "{agent}");
    let id = agent["last_handoff"].as_str().unwrap().to_owned();
    client.clears();
    client.hook("UserPromptSubmit").ok();
    client.answers(9_000);
    client.hook("PostToolUse").ok();
    let levels = served.get("/sessions/app/levels");
    let kinds: Vec<&str> =
        levels["marks"].as_array().unwrap().iter().map(|m| m["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["warned", "asked", "sealed", "rotated"], "{levels}");
    let tokens: Vec<u64> =
        levels["points"].as_array().unwrap().iter().map(|p| p["tokens"].as_u64().unwrap()).collect();
    assert!(tokens.windows(2).any(|w| w == [134_000, 0]) && tokens.last() == Some(&9_000), "{tokens:?}");
    assert_eq!(levels["marks"][3]["handoff"], json!(id));
    let chain = served.get("/sessions/app/chain");
    assert_eq!(chain["sessions"].as_array().unwrap().len(), 2, "{chain}");
    assert_eq!((&chain["hops"][0]["handoff"], &chain["hops"][0]["wrote"]), (&json!(id), &json!(false)));
    assert_eq!(chain["sessions"][1]["continues"], json!(id));
    let document = served.get(&format!("/handoffs/{id}"));
    assert!(document["document"].as_str().unwrap().contains("never push"), "{document}");
    assert_eq!(document["entry"]["status"], "consumed", "{document}");
    let draft = served.get("/sessions/app/draft");
    assert_eq!(draft["against"], json!(id));
    let lines = served.get("/sessions/app/log?limit=3")["lines"].as_array().unwrap().len();
    assert_eq!(lines, 3);
    let earlier = chain["sessions"][0]["id"].as_str().unwrap();
    let before = served.get(&format!("/sessions/app/conversation?session={earlier}"));
    assert_eq!(before["entries"][0]["text"], "Port the parser, never push.");
}

#[test]
fn a_pending_handoff_is_shown_and_cancelled() {
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::new(&home);
    client.answers(50_000);
    client.hook("UserPromptSubmit").ok();
    let file = home.write("words.md", "# Words");
    let body = json!({ "requester_session_id": "app", "file_path": file });
    served.post("/sessions/app/handoff", &body);
    let agent = served.get("/sessions/app");
    assert!(agent["pending"]["waits_for"].as_str().unwrap().contains("end of its turn"), "{agent}");
    assert_eq!(agent["words"], "working, then hands over");
    served.post("/sessions/app/cancel", &json!({}));
    assert_eq!(served.get("/sessions/app")["pending"], Value::Null);
    assert_eq!(served.ask("POST", "/sessions/app/cancel", Some(&json!({}))).status, 404);
    client.hook("Stop").ok();
    assert_eq!(served.get("/sessions/app")["last_handoff"], Value::Null, "it was taken back");
    served.post("/sessions/app/handoff", &body);
    home.run("handoff --cancel --of app").ok();
}

#[test]
fn an_agent_is_retired_and_a_rotation_undone_as_by_the_commands() {
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::new(&home);
    let undone = served.ask("POST", "/sessions/app/undo", Some(&json!({})));
    assert_eq!(undone.status, 404);
    assert!(undone.json()["error"].as_str().unwrap().contains("nothing more to undo"));
    let said = served.post("/sessions/app/retire", &json!({}));
    assert_eq!(said["said"], "app was stopped.");
    assert_eq!(served.get("/sessions/app")["state"], "retired");
    drop(client);
    let other = Client::new(&home);
    other.starts("startup").ok();
}

#[test]
fn a_persons_checkpoint_is_the_projects_and_an_agents_own_is_its_own() {
    let home = Home::new(BATON);
    let client = started(&home);
    client.hook_with("UserPromptSubmit", json!({ "prompt": "Port the parser." })).ok();
    let served = Served::new(&home);
    assert_eq!(served.get("/sessions/app")["checkpoint"], Value::Null);
    home.run("checkpoint --goal Ship --now Test").ok();
    wait_until("the checkpoint", || served.get("/sessions/app")["checkpoint"] == "Ship · Test");
    let agent = served.get("/sessions/app");
    assert_eq!((&agent["goal"], &agent["now"]), (&Value::Null, &json!("Port the parser.")));
    let mut own = home.baton(["checkpoint", "--goal", "Mine", "--now", "Grammar"]);
    client.dress(&mut own);
    baton_testkit::home::run(&mut own).ok();
    wait_until("its own", || served.get("/sessions/app")["goal"] == "Mine");
}
