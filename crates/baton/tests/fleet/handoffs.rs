//! Handoffs between machines: claimed once in the whole fleet, from the files of their home.

use std::path::Path;
use std::process::Command;

use baton_testkit::Home;
use baton_testkit::hooks::Client;
use baton_testkit::race::all_at_once;
use baton_testkit::rng::Rng;
use baton_testkit::wait::{wait_for, wait_until};
use serde_json::{Value, json};

use super::{Fleet, name};

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
    let moved = fleet.run(0, &["handoff", "--to", "app@m1", "--json"]).json();
    let id = moved["handoff"].as_str().unwrap().to_owned();
    assert_eq!(moved["moved"], true, "{moved}");
    let said = fleet.run(0, &["handoffs", "load", &id]).fails(1);
    assert!(said.contains("was given to m1"), "{said}");
    assert!(in_state(&fleet.homes[0], "active").is_empty());
    wait_until("it to arrive", || in_state(&fleet.homes[1], "active").contains(&id));
    // Whoever runs there is told by mail and takes it.
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

/// Four machines: each handoff goes to one of the others while sessions everywhere try to load it, daemons are killed,
/// connections are cut, and the database is restarted and restored from an older dump. Every round is nine sessions that
/// race for one handoff: thirty rounds, ten thousand with `BATON_LONG=1`.
#[test]
fn a_handoff_is_consumed_once_in_the_whole_fleet() {
    let machines = 4;
    let rounds = if baton_testkit::is_long() { 10_000 } else { 30 };
    let Some(mut fleet) = Fleet::of(machines) else { return };
    let mut rng = Rng::announced("claims in a fleet");
    (0..machines).for_each(|n| fleet.wait_for_link(n));
    for n in 0..machines {
        drop(working(&fleet.homes[n], "Write the parser"));
    }
    let (mut moved, mut sealed, mut dump) = (0, 0, fleet.postgres.dump());
    let consumed = |fleet: &Fleet| -> Vec<String> {
        fleet.homes.iter().flat_map(|home| in_state(home, "consumed")).collect()
    };
    for round in 0..rounds {
        let to = name(usize::try_from(rng.pick(1..machines as u64)).unwrap());
        let note = fleet.homes[0].write("work/app/note.md", format!("# Round {round}\n"));
        let mut commands =
            vec![fleet.homes[0].baton(["handoff", note.to_str().unwrap(), "--to", &format!("app@{to}")])];
        for _ in 0..2 {
            commands.extend(fleet.homes.iter().map(|home| home.baton(["handoffs", "load"])));
        }
        let ran = all_at_once(commands, || {});
        moved += usize::from(ran[0].code == Some(0));
        // Refused while the database was away: nothing was sealed.
        sealed += usize::from(!ran[0].err.contains("nothing was changed"));
        match rng.pick(0..40) {
            0 => {
                fleet.postgres.kill();
                fleet.postgres.restart();
            }
            1 => dump = fleet.postgres.dump(),
            2 => fleet.postgres.restore(&dump),
            3..6 => {
                fleet.postgres.sql(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'baton'",
                );
            }
            6..8 => {
                let victim = usize::try_from(rng.pick(0..machines as u64)).unwrap();
                fleet.homes[victim].run("serve --stop");
                fleet.homes[victim].run("serve --detach").ok();
            }
            _ => {}
        }
        (0..machines).for_each(|n| fleet.wait_for_link(n));
        // Somebody takes what is still active, wherever that is. Until then the next one would replace it.
        wait_until(&format!("handoff {round} to be consumed, {:?}: {}", ran[0].code, ran[0].err), || {
            all_at_once(fleet.homes.iter().map(|home| home.baton(["handoffs", "load"])).collect(), || {});
            consumed(&fleet).len() >= sealed
        });
    }
    let mut consumed = consumed(&fleet);
    let all = consumed.len();
    consumed.sort();
    consumed.dedup();
    assert_eq!(consumed.len(), all, "no handoff was consumed on two machines");
    assert_eq!(all, sealed, "and none was lost");
    assert!(moved > 0);
}
