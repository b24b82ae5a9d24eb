//! Handoffs between machines: claimed once in the whole fleet, from the files of their home.

use std::path::Path;
use std::process::Command;

use baton_testkit::hooks::Client;
use baton_testkit::race::all_at_once;
use baton_testkit::skew::Skew;
use baton_testkit::wait::{wait_for, wait_until};
use baton_testkit::{Home, tools};
use serde_json::{Value, json};

use super::Fleet;

fn git(dir: &Path, args: &[&str]) {
    let ran = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(["-c", "user.name=t", "-c", "user.email=t@example", "-c", "init.defaultBranch=main"])
        .args(args)
        .output()
        .unwrap();
    assert!(ran.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// A client that has been asked for something and has answered.
fn working<'a>(home: &'a Home, asked: &str) -> Client<'a> {
    let client = Client::new(home);
    client.starts("startup").ok();
    client.record(&json!({ "type": "user", "uuid": "u1", "sessionId": client.session, "cwd": home.project(),
        "timestamp": jiff::Timestamp::now().to_string(), "message": { "role": "user", "content": asked } }));
    client.answers(20_000);
    client.hook("Stop").ok();
    client
}

/// The handoffs of a machine that are in this state.
fn in_state(home: &Home, state: &str) -> Vec<String> {
    let list: Value = home.run("handoffs list --all --json -n 100000").json();
    let rows = list.as_array().cloned().unwrap_or_default();
    let rows = rows.into_iter().filter(|row| row["status"] == state);
    rows.map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn work_that_is_handed_to_another_machine_is_loaded_there_and_nowhere_else() {
    let Some(fleet) = Fleet::of(2) else { return };
    let _here = working(&fleet.homes[0], "Write the parser of the frobnicator");
    let there = Client::new(&fleet.homes[1]);
    there.starts("startup").ok();
    (0..2).for_each(|n| fleet.wait_for_link(n));
    // A name that was mistyped leaves no handoff behind.
    let said = fleet.run(0, &["handoff", "--to", "app@n1"]).fails(1);
    assert!(said.contains("no machine n1"), "{said}");
    assert!(in_state(&fleet.homes[0], "active").is_empty());
    let moved = fleet.run(0, &["handoff", "--to", "app@m1", "--json"]).json();
    let id = moved["handoff"].as_str().unwrap().to_owned();
    assert_eq!(moved["moved"], true, "{moved}");
    let said = fleet.run(0, &["handoffs", "load", &id]).fails(1);
    assert!(said.contains("was given to m1"), "{said}");
    assert!(in_state(&fleet.homes[0], "active").is_empty());
    wait_until("it to arrive", || in_state(&fleet.homes[1], "active").contains(&id));
    // The agent that runs there is notified by mail and takes it.
    let heard = wait_for("the news", || there.hook("PostToolUse").context());
    assert!(heard.contains(&id) && heard.contains("from app@m0"), "{heard}");
    let text = fleet.run(1, &["handoffs", "load", &id]).ok();
    assert!(text.contains("frobnicator") && text.contains("comes from the machine m0"), "{text}");
    fleet.run(1, &["handoffs", "load", &id]).fails(3);
    let home = fleet.postgres.sql(&format!("SELECT home, epoch FROM baton.homes WHERE handoff = '{id}'"));
    assert_eq!(home, "m1|2");
    let dump = fleet.postgres.dump();
    assert!(!dump.contains("frobnicator"), "the database reads no words");
}

#[test]
fn an_agent_moves_with_its_goal_when_the_other_machine_can_have_the_commit_and_is_refused_with_names_otherwise()
 {
    let Some(fleet) = Fleet::of(2) else { return };
    let origin = Home::in_memory(crate::BATON);
    git(origin.path(), &["init", "-q", "--bare", "app.git"]);
    let remote = origin.path().join("app.git").display().to_string();
    for home in &fleet.homes {
        std::fs::remove_dir(home.project()).unwrap();
        git(home.path(), &["clone", "-q", &remote, home.project().to_str().unwrap()]);
    }
    let repo = fleet.homes[0].project();
    std::fs::write(repo.join("parser.rs"), "fn parse() {}\n").unwrap();
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-qm", "Parse it"]);
    let here = working(&fleet.homes[0], "Write the parser of the frobnicator");
    let agent = here.agent();
    (0..2).for_each(|n| fleet.wait_for_link(n));
    let said = fleet.run(0, &["move", &agent, "m1"]).fails(1);
    assert!(said.contains("Parse it") && said.contains("--with-patch"), "{said}");
    git(&repo, &["push", "-q", "origin", "HEAD"]);
    std::fs::write(repo.join("parser.rs"), "fn parse() { todo!() }\n").unwrap();
    let said = fleet.run(0, &["move", &agent, "m1"]).fails(1);
    assert!(said.contains("parser.rs"), "{said}");
    // The other machine has been in its clone once, so it is known there.
    {
        let there = Client::new(&fleet.homes[1]);
        there.starts("startup").ok();
        there.hook("SessionEnd").ok();
    }
    git(&fleet.homes[1].project(), &["pull", "-q"]);
    let said = fleet.run(0, &["move", &agent, "m1", "--with-patch"]).ok();
    assert!(said.contains(&format!("{agent}@m1")), "{said}");
    let inbox = wait_for("the word to m1's user", || {
        let ran = fleet.run(1, &["inbox"]);
        ran.out.contains("baton run --name").then_some(ran.out)
    });
    assert!(inbox.contains(&format!("of {agent}@m0")), "{inbox}");
    let there = Client::new(&fleet.homes[1]);
    let given = there.starts("startup").context().unwrap();
    assert!(given.contains("frobnicator"), "the goal is in its first context: {given}");
    let documents = fleet_documents(&fleet.homes[1]);
    let (_, patch) = documents.split_once("git apply ").expect("it says how to get the changes");
    let patch = patch.split_whitespace().next().unwrap().trim_matches('\'');
    git(&fleet.homes[1].project(), &["apply", "--check", patch]);
}

#[test]
fn a_handoff_whose_home_sleeps_is_refused_and_forced_only_as_a_marked_copy() {
    let Some(fleet) = Fleet::of(2) else { return };
    let _here = working(&fleet.homes[0], "Write the parser of the frobnicator");
    (0..2).for_each(|n| fleet.wait_for_link(n));
    fleet.homes[1].run("serve --stop").ok();
    wait_until("m1 to be asleep", || {
        fleet.run(0, &["fleet", "machines", "--json"]).json()["machines"][1]["presence"] == "asleep"
    });
    let moved = fleet.run(0, &["handoff", "--to", "app@m1", "--json"]).json();
    let id = moved["handoff"].as_str().unwrap().to_owned();
    let said = fleet.run(0, &["handoffs", "load", &id]).fails(1);
    assert!(said.contains("was given to m1") && said.contains("--force"), "{said}");
    let text = fleet.run(0, &["handoffs", "load", &id, "--force"]).ok();
    assert!(
        text.contains("frobnicator") && text.contains("**A copy.**") && text.contains("asleep"),
        "{text}"
    );
    assert!(text.contains(&id), "it names what it is a copy of: {text}");
    // The original is still for m1 alone.
    fleet.run(0, &["handoffs", "load", &id]).fails(1);
    fleet.homes[1].run("serve --detach").ok();
    fleet.run(1, &["fleet", "status"]).ok();
    let home = fleet.postgres.sql(&format!("SELECT home, epoch FROM baton.homes WHERE handoff = '{id}'"));
    assert_eq!(home, "m1|2");
    let consumed = in_state(&fleet.homes[0], "consumed");
    assert!(consumed.len() == 1 && consumed[0] != id, "{consumed:?}");
}

fn fleet_documents(home: &Home) -> String {
    let archive = home.store().join("archive");
    let files = std::fs::read_dir(archive).unwrap().flatten().map(|entry| entry.path());
    let documents = files.filter(|path| path.extension().is_some_and(|e| e == "md"));
    documents.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn what_needs_the_database_while_it_is_away_is_refused_and_nothing_is_changed() {
    let Some(mut fleet) = Fleet::of(2) else { return };
    (0..2).for_each(|n| fleet.wait_for_link(n));
    {
        let _here = working(&fleet.homes[0], "Write the parser");
    }
    fleet.postgres.kill();
    wait_until("the daemon to notice", || fleet.link(0)["state"] == "away");
    let said = fleet.run(0, &["handoff", "--to", "app@m1"]).fails(1);
    assert!(said.contains("is away since") && said.contains("nothing was changed"), "{said}");
    assert!(!super::fleet_file(&fleet.homes[0], "homes").exists());
}

/// The process that gives a handoff away may be killed at any call: it is loaded once, on one machine or the other.
#[test]
fn a_giver_that_is_killed_anywhere_loses_nothing() {
    use baton_testkit::trace;
    if !trace::available() {
        return;
    }
    let Some(fleet) = Fleet::of(2) else { return };
    for home in &fleet.homes {
        drop(working(home, "Write the parser"));
    }
    (0..2).for_each(|n| fleet.wait_for_link(n));
    let note = fleet.homes[0].write("work/app/note.md", "# Go on\n");
    let line = format!("handoff {} --to app@m1", note.display());
    fleet.homes[0].run(&line).ok();
    let all_are_loaded = || {
        fleet.run(0, &["fleet", "status"]).ok();
        all_at_once(fleet.homes.iter().map(|home| home.baton(["handoffs", "load"])).collect(), || {});
        let all = fleet.homes[0].run("handoffs list --all --json -n 1000").json();
        let sealed: Vec<String> =
            all.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
        let loaded: Vec<String> = fleet.homes.iter().flat_map(|home| in_state(home, "consumed")).collect();
        assert!(
            loaded.iter().all(|id| loaded.iter().filter(|other| *other == id).count() == 1),
            "{loaded:?}"
        );
        sealed.iter().all(|id| loaded.contains(id))
    };
    wait_until("the first to be loaded", all_are_loaded);
    // A second one, which makes no folders any more.
    let (calls, ran) = trace::record(&fleet.homes[0], &line);
    ran.ok();
    wait_until("the second to be loaded", all_are_loaded);
    // Earlier calls can only leave nothing at all.
    let changes = |line: &str| line.contains(".claude/handoff") || line.contains("fleet/homes");
    let calls: Vec<_> =
        calls.into_iter().filter(|call| changes(&call.line) && !call.name.starts_with("open")).collect();
    assert!(calls.iter().any(|call| call.line.contains("fleet/homes")), "{calls:?}");
    for call in &calls {
        let ran = trace::inject(&fleet.homes[0], &line, call, "signal=KILL");
        assert_eq!(ran.code, None, "killed at {}: it got away", call.line);
        wait_until(&format!("all to be loaded after a kill at {}", call.line), all_are_loaded);
    }
    eprintln!("killed at each of {} calls", calls.len());
}

/// The daemon may be killed when it has taken a handoff in and before that is on record. It comes again then, and what
/// somebody has loaded meanwhile stays loaded.
#[test]
fn a_handoff_that_comes_again_after_a_kill_is_not_offered_again() {
    let Some(fleet) = Fleet::of(2) else { return };
    for home in &fleet.homes {
        drop(working(home, "Write the parser"));
    }
    (0..2).for_each(|n| fleet.wait_for_link(n));
    fleet.homes[1].run("serve --stop").ok();
    let moved = fleet.run(0, &["handoff", "--to", "app@m1", "--json"]).json();
    let id = moved["handoff"].as_str().unwrap().to_owned();
    fleet.postgres.sql("CREATE TABLE kept AS SELECT * FROM baton.messages WHERE recipient = 'm1'");
    fleet.homes[1].run("serve --detach").ok();
    wait_until("it to arrive", || in_state(&fleet.homes[1], "active").contains(&id));
    fleet.run(1, &["handoffs", "load"]).ok();
    // What the killed daemon has not done yet.
    fleet.homes[1].run("serve --stop").ok();
    let record = super::fleet_file(&fleet.homes[1], &format!("homes/settled/{id}.json"));
    std::fs::remove_file(&record).unwrap();
    fleet.postgres.sql(
        "ALTER TABLE baton.messages DISABLE TRIGGER admit;
         INSERT INTO baton.messages SELECT * FROM kept;
         ALTER TABLE baton.messages ENABLE TRIGGER admit",
    );
    fleet.homes[1].run("serve --detach").ok();
    wait_until("it to come again", || record.exists());
    assert!(in_state(&fleet.homes[1], "active").is_empty());
    assert_eq!(in_state(&fleet.homes[1], "consumed"), [id]);
}

/// A machine that has slept for days accepts handoffs that were given to it: a handoff ages only where it can be
/// loaded. The same if the other machine's clock is wrong.
#[test]
fn a_handoff_that_has_waited_for_a_sleeping_machine_is_not_too_old_when_it_comes() {
    let Some(then) = Skew::by("-3d") else {
        return tools::missing("faketime not installed (scripts/test installs what the tests need)");
    };
    let Some(fleet) = Fleet::of(2) else { return };
    for home in &fleet.homes {
        drop(working(home, "Write the parser"));
    }
    (0..2).for_each(|n| fleet.wait_for_link(n));
    let mut command = fleet.homes[0].baton(["handoff", "--to", "app@m1", "--json"]);
    then.dress(&mut command);
    let moved = baton_testkit::home::run(&mut command).json();
    let id = moved["handoff"].as_str().unwrap().to_owned();
    wait_until("it to arrive", || in_state(&fleet.homes[1], "active").contains(&id));
    let text = fleet.run(1, &["handoffs", "load"]).ok();
    assert!(text.contains(&id) && text.contains("comes from the machine m0"), "{text}");
}

/// After a restore the giver says again what has left, however often its connection breaks meanwhile.
#[test]
fn what_a_restore_has_lost_is_given_again_although_the_connection_breaks_in_between() {
    let Some(fleet) = Fleet::of(2) else { return };
    for home in &fleet.homes {
        drop(working(home, "Write the parser"));
    }
    (0..2).for_each(|n| fleet.wait_for_link(n));
    let dump = fleet.postgres.dump();
    fleet.homes[1].run("serve --stop").ok();
    let moved = fleet.run(0, &["handoff", "--to", "app@m1", "--json"]).json();
    let id = moved["handoff"].as_str().unwrap().to_owned();
    fleet.homes[0].run("serve --stop").ok();
    fleet.postgres.restore(&dump);
    fleet.postgres.sql(
        "CREATE FUNCTION breaks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'it breaks'; END $$;
         CREATE TRIGGER breaks BEFORE INSERT OR UPDATE ON baton.homes FOR EACH ROW EXECUTE FUNCTION breaks()",
    );
    fleet.homes[0].run("serve --detach").ok();
    wait_until("it to break", || fleet.link(0)["why"].as_str().is_some_and(|why| why.contains("it breaks")));
    fleet.postgres.sql("DROP TRIGGER breaks ON baton.homes");
    fleet.homes[1].run("serve --detach").ok();
    wait_until("it to arrive", || in_state(&fleet.homes[1], "active").contains(&id));
}

/// A record of a handoff that went from m0 to m1, as it was written before settled ones had a folder of their own.
fn was_given(id: &str) -> String {
    let at = jiff::Timestamp::now();
    let body = json!({ "epoch": 2, "agent": "app", "provider": "claude", "from": "app", "cwd": "/p", "project": "p",
        "text": "# The work\n".repeat(500), "carried": null, "tree": {} });
    let parcel = json!({ "name": format!("h{id}"), "to": "m1", "kind": "handoff", "at": at, "body": body, "channel": "p" });
    let record = json!({ "handoff": id, "local": { "state": "away", "to": "m1", "epoch": 2 }, "at": at,
        "channel": "p", "parcel": parcel });
    format!("{{\"v\":1,{}\n", &record.to_string()[1..])
}

/// However many handoffs have left this machine, a wake reads only those that have yet to move.
#[test]
fn a_wake_reads_no_record_of_a_handoff_that_is_settled() {
    use baton_testkit::daemon::Served;
    use baton_testkit::trace;
    if !trace::available() {
        return;
    }
    let Some(fleet) = Fleet::of(2).map(Fleet::quiet) else { return };
    let homes = super::fleet_file(&fleet.homes[0], "homes");
    std::fs::create_dir(&homes).unwrap();
    std::fs::set_permissions(&homes, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let ids: Vec<String> = (0..300).map(|n| format!("HO-20261117-1955{:02}-{n:08}", n % 60)).collect();
    for id in &ids {
        std::fs::write(homes.join(format!("{id}.json")), was_given(id)).unwrap();
    }
    let log = fleet.homes[0].path().join("strace.log");
    let mut command = fleet.homes[0].command("strace");
    command.args(["-D", "-qq", "-f", "-e", "trace=open,openat", "-o"]).arg(&log);
    command.arg(fleet.homes[0].binary()).arg("serve");
    let _served = Served::start(&fleet.homes[0], command);
    let _desk = fleet.serve(1);
    (0..2).for_each(|n| fleet.wait_for_link(n));
    let wake = |n: u32| {
        fleet.run(0, &["send", "user@m1", &format!("word {n}")]).ok();
        fleet.wait_for_stage(0, &format!("word {n}"), "fetched");
    };
    let read = || {
        let calls = std::fs::read_to_string(&log).unwrap();
        calls.lines().filter(|line| line.contains("fleet/homes/") && line.contains(".json\"")).count()
    };
    wake(0);
    let before = read();
    (1..=5).for_each(wake);
    assert_eq!(read() - before, 0, "opened by five wakes, with {} settled records", ids.len());
    // They are known all the same.
    let said = fleet.run(0, &["handoffs", "load", &ids[0]]).fails(1);
    assert!(said.contains("was given to m1"), "{said}");
}

/// After a restore the database hears again where a handoff is. The document that its home has is not sent again.
#[test]
fn a_restore_sends_no_document_again_that_the_other_side_has() {
    let Some(fleet) = Fleet::of(2) else { return };
    for home in &fleet.homes {
        drop(working(home, "Write the parser"));
    }
    (0..2).for_each(|n| fleet.wait_for_link(n));
    let dump = fleet.postgres.dump();
    let moved = fleet.run(0, &["handoff", "--to", "app@m1", "--json"]).json();
    let id = moved["handoff"].as_str().unwrap().to_owned();
    wait_until("it to arrive", || in_state(&fleet.homes[1], "active").contains(&id));
    wait_until("m0 to hear of that", || {
        let receipts = super::fleet_file(&fleet.homes[0], "outbox/receipts.jsonl");
        std::fs::read_to_string(receipts).is_ok_and(|text| text.contains("fetched"))
    });
    fleet.postgres.restore(&dump);
    let row = format!("SELECT home, epoch FROM baton.homes WHERE handoff = '{id}'");
    wait_until("m0 to say it again", || fleet.postgres.sql(&row) == "m1|2");
    (0..2).for_each(|n| fleet.wait_for_link(n));
    // Whatever else was sent with it has come when this has.
    fleet.run(0, &["send", "user@m1", "after it"]).ok();
    fleet.wait_for_stage(0, "after it", "fetched");
    let log = fleet.run(1, &["log", "--json", "--all"]).out;
    assert_eq!(log.matches("\"fleet-arrived\"").count(), 1, "{log}");
}

/// The backup is older than the machine that a handoff was given to: nothing else waits for that.
#[test]
fn a_restore_that_does_not_know_the_other_machine_holds_up_nothing() {
    let Some(fleet) = Fleet::of(2) else { return };
    (0..2).for_each(|n| fleet.wait_for_link(n));
    let dump = fleet.postgres.dump();
    let late = Home::in_memory(crate::BATON);
    super::run(&late, &["fleet", "join", &super::invite(&fleet.homes[0], "m2")]).ok();
    drop(working(&fleet.homes[0], "Write the parser"));
    fleet.run(0, &["handoff", "--to", "app@m2"]).ok();
    late.run("serve --stop").ok();
    fleet.postgres.restore(&dump);
    wait_until("m0 to notice", || fleet.link(0)["restored"].is_string());
    fleet.run(0, &["send", "user@m1", "all is as ever"]).ok();
    fleet.wait_for_stage(0, "all is as ever", "fetched");
    fleet.wait_for_link(0);
}

/// Takes a settled record of m0 back to before the database has answered.
fn unanswered(fleet: &Fleet, id: &str, change: impl FnOnce(String) -> String) {
    let (waiting, settled) = (format!("homes/{id}.json"), format!("homes/settled/{id}.json"));
    let settled = super::fleet_file(&fleet.homes[0], &settled);
    let record = std::fs::read_to_string(&settled).unwrap();
    std::fs::remove_file(settled).unwrap();
    let record = change(record.replace("\"state\":\"away\"", "\"state\":\"leaving\""));
    std::fs::write(super::fleet_file(&fleet.homes[0], &waiting), record).unwrap();
}

/// The database has moved a handoff, and its answer was lost. Before it is asked again, the other machine is revoked: it
/// may have done the work, so the handoff does not come back.
#[test]
fn a_handoff_that_has_left_does_not_come_back_although_the_answer_was_lost_and_its_home_was_revoked() {
    let Some(fleet) = Fleet::of(2) else { return };
    for home in &fleet.homes {
        drop(working(home, "Write the parser"));
    }
    (0..2).for_each(|n| fleet.wait_for_link(n));
    let moved = fleet.run(0, &["handoff", "--to", "app@m1", "--json"]).json();
    let id = moved["handoff"].as_str().unwrap().to_owned();
    wait_until("it to arrive", || in_state(&fleet.homes[1], "active").contains(&id));
    fleet.homes[0].run("serve --stop").ok();
    unanswered(&fleet, &id, |record| record);
    fleet.run(0, &["fleet", "revoke", "m1"]).ok();
    fleet.run(0, &["fleet", "purge", "m1"]).ok();
    fleet.homes[0].run("serve --detach").ok();
    let settled = super::fleet_file(&fleet.homes[0], &format!("homes/settled/{id}.json"));
    wait_until("it to be decided", || settled.exists());
    assert!(in_state(&fleet.homes[0], "active").is_empty());
    let said = fleet.run(0, &["handoffs", "load", &id]).fails(1);
    assert!(said.contains("was given to m1"), "{said}");
}

/// A handoff that this version cannot read stays in the mailbox for the version that can.
#[test]
fn a_handoff_of_a_newer_baton_waits_in_the_mailbox_and_delays_no_mail() {
    let Some(fleet) = Fleet::of(2) else { return };
    for home in &fleet.homes {
        drop(working(home, "Write the parser"));
    }
    (0..2).for_each(|n| fleet.wait_for_link(n));
    let moved = fleet.run(0, &["handoff", "--to", "app@m1", "--json"]).json();
    let id = moved["handoff"].as_str().unwrap().to_owned();
    wait_until("it to arrive", || in_state(&fleet.homes[1], "active").contains(&id));
    fleet.homes[0].run("serve --stop").ok();
    let other = format!("{id}-9");
    unanswered(&fleet, &id, |record| {
        let channel = record.rfind(",\"channel\":").unwrap();
        assert!(record[..channel].contains("<!-- FORMAT: 1 -->"), "{record}");
        record.replace(&id, &other).replace("<!-- FORMAT: 1 -->", "<!-- FORMAT: 99 -->")
    });
    let waiting = |id: &str| super::fleet_file(&fleet.homes[0], &format!("homes/{id}.json"));
    // Nothing on this machine can claim it, so it counts as given up.
    let mut record: Value = serde_json::from_slice(&std::fs::read(waiting(&id)).unwrap()).unwrap();
    record.as_object_mut().unwrap().remove("channel");
    let record = record.to_string().replacen('{', "{\"v\":1,", 1).replacen(",\"v\":1", "", 1);
    std::fs::remove_file(waiting(&id)).unwrap();
    std::fs::write(waiting(&other), record).unwrap();
    fleet.homes[0].run("serve --detach").ok();
    wait_until("it to stay", || fleet.link(1)["stuck"] == 1);
    let of_it = format!("SELECT count(*) FROM baton.messages WHERE id = 'm0.h{other}'");
    assert_eq!(fleet.postgres.sql(&of_it), "1");
    fleet.run(0, &["send", "user@m1", "all is as ever"]).ok();
    fleet.wait_for_stage(0, "all is as ever", "fetched");
    assert_eq!((&fleet.link(1)["stuck"], &fleet.link(1)["refused"]), (&json!(1), &json!(0)));
}
