//! Messages between machines: once, in order, with receipts, whoever sleeps or is killed.

use baton_testkit::hooks::Client;
use baton_testkit::wait::{wait_for, wait_until};

use super::{Fleet, name};

#[test]
fn a_message_to_another_machine_is_read_there_once_and_its_sender_learns_by_which_hook() {
    let Some(fleet) = Fleet::of(2) else { return };
    let client = Client::new(&fleet.homes[1]);
    client.starts("startup").ok();
    (0..2).for_each(|n| fleet.wait_for_link(n));
    let said = fleet.run(0, &["send", "app@m1", "--important", "Pull first"]).ok();
    assert!(said.contains("Queued for app@m1"), "{said}");
    fleet.wait_for_stage(0, "Pull first", "fetched");
    let heard = client.hook("PostToolUse").context().unwrap();
    assert!(heard.contains(" from user@m0] ") && heard.contains("Pull first"), "{heard}");
    client.hook("PostToolUse").silent();
    let evidence = fleet.wait_for_stage(0, "Pull first", "seen");
    assert!(evidence.contains("hook of session") && evidence.contains(&client.session), "{evidence}");
    // A bare name means the only one that is known, once news of it has come.
    wait_for("news of m1's agent", || {
        let ran = fleet.run(0, &["agents", "--fleet", "--json"]);
        (ran.code == Some(0)).then_some(())
    });
    let said = fleet.run(0, &["send", "app", "by its bare name"]).ok();
    assert!(said.contains("Queued for app@m1"), "{said}");
    fleet.wait_for_stage(0, "by its bare name", "fetched");
    // The user of the other machine has an inbox, too.
    fleet.run(0, &["send", "user@m1", "hello over there"]).ok();
    fleet.wait_for_stage(0, "hello over there", "fetched");
    let inbox = fleet.run(1, &["inbox"]).ok();
    assert!(inbox.contains("user@m0") && inbox.contains("hello over there"), "{inbox}");
    fleet.wait_for_stage(0, "hello over there", "seen");
}

#[test]
fn what_cannot_be_delivered_says_why() {
    let Some(fleet) = Fleet::of(2) else { return };
    (0..2).for_each(|n| fleet.wait_for_link(n));
    wait_until("the list of machines", || fleet.run(0, &["fleet", "machines"]).code == Some(0));
    fleet.run(0, &["send", "nobody@m1", "to nobody"]).ok();
    let evidence = fleet.wait_for_stage(0, "to nobody", "failed");
    assert!(evidence.contains("no agent nobody"), "{evidence}");
    let said = fleet.run(0, &["send", "app@nowhere", "hello"]).fails(1);
    assert!(said.contains("no machine nowhere"), "{said}");
    let said = fleet.homes[0].run_with_input("send app@m1 -", &"x".repeat(10 << 20)).fails(1);
    assert!(said.contains("send a path instead"), "{said}");
    let said = fleet.run(0, &["send", "app@Desk'; DROP TABLE baton.messages; --", "hello"]).fails(2);
    assert!(said.contains("machine name"), "{said}");
    let client = Client::new(&fleet.homes[1]);
    client.starts("startup").ok();
    fleet.run(0, &["send", "app@m1", "--expires", "1ms", "too late"]).ok();
    wait_until("it to expire", || {
        fleet.sent(0, "too late").is_some_and(|(s, _)| s == "expired" || s == "failed")
    });
}

#[test]
fn a_machine_that_sleeps_gets_everything_in_order_when_it_wakes() {
    let Some(fleet) = Fleet::of(2).map(Fleet::quiet) else { return };
    let client = Client::new(&fleet.homes[1]);
    client.starts("startup").ok();
    {
        let _desk = fleet.serve(1);
        fleet.wait_for_link(1);
    }
    let _laptop = fleet.serve(0);
    fleet.wait_for_link(0);
    for n in 0..20 {
        fleet.run(0, &["send", "app@m1", "--important", &format!("part {n:02}")]).ok();
    }
    fleet.wait_for_stage(0, "part 19", "stored");
    // A week passes for the database.
    fleet.postgres.sql(
        "UPDATE baton.devices SET beat = beat - interval '6 days' WHERE name = 'm1';
         UPDATE baton.messages SET stored = stored - interval '6 days'",
    );
    let presence = fleet.run(0, &["fleet", "machines", "--json"]).json()["machines"][1]["presence"].clone();
    assert_eq!(presence, "asleep");
    let _desk = fleet.serve(1);
    fleet.wait_for_stage(0, "part 19", "fetched");
    let mut heard = String::new();
    wait_until("all parts", || {
        heard += &client.hook("PostToolUse").context().unwrap_or_default();
        heard.contains("part 19")
    });
    let order: Vec<usize> = (0..20).map(|n| heard.find(&format!("part {n:02}")).unwrap()).collect();
    assert!(order.is_sorted(), "{heard}");
    assert_eq!(heard.matches("[baton message m").count(), 20);
}

#[test]
fn while_the_database_is_away_all_is_as_ever_and_it_says_how_far_behind_it_is() {
    let Some(mut fleet) = Fleet::of(2) else { return };
    let home = fleet.homes[1].path().to_owned();
    {
        let client = Client::new(&fleet.homes[1]);
        client.starts("startup").ok();
        (0..2).for_each(|n| fleet.wait_for_link(n));
        fleet.run(1, &["send", "app", "--important", "within the machine"]).ok();
        fleet.run(0, &["fleet", "machines"]).ok();
    }
    fleet.postgres.kill();
    wait_until("the daemon to notice", || fleet.link(0)["state"] == "away");
    fleet.run(0, &["send", "app@m1", "--important", "while it was away"]).ok();
    let status = fleet.run(0, &["fleet", "status"]).ok();
    assert!(status.contains("The database is away") && status.contains("Behind by 1 messages"), "{status}");
    assert_eq!(fleet.run(0, &["fleet", "status", "--json"]).json()["behind"]["parcels"], 1);
    assert!(home.exists());
    fleet.postgres.restart();
    fleet.wait_for_stage(0, "while it was away", "fetched");
    assert!(fleet.run(0, &["fleet", "status"]).ok().contains("Nothing waits to be sent"));
}

/// Messages from every machine to every other, while the database and the daemons are killed.
#[test]
fn every_message_arrives_once_and_in_order_although_database_and_daemons_are_killed() {
    use baton_testkit::rng::Rng;
    let machines = 4;
    let rounds = baton_testkit::times(4);
    let Some(mut fleet) = Fleet::of(machines).map(Fleet::quiet) else { return };
    let mut rng = Rng::announced("kills in a fleet");
    let sessions: Vec<String> = (0..machines)
        .map(|n| {
            let client = Client::new(&fleet.homes[n]);
            client.starts("startup").ok();
            client.session.clone()
        })
        .collect();
    let start = |n: usize, fleet: &Fleet| {
        let mut command = fleet.homes[n].baton(["serve"]);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap()
    };
    let mut daemons: Vec<_> = (0..machines).map(|n| start(n, &fleet)).collect();
    (0..machines).for_each(|n| fleet.wait_for_link(n));
    let mut sent = 0;
    for round in 0..rounds {
        for (from, daemon) in daemons.iter_mut().enumerate() {
            for to in (0..machines).filter(|to| *to != from) {
                let text = format!("{}>{} {round:03}", name(from), name(to));
                fleet.run(from, &["send", &format!("app@{}", name(to)), &text]).ok();
                sent += 1;
            }
            match rng.pick(0..6) {
                0 => {
                    daemon.kill().unwrap();
                    daemon.wait().unwrap();
                    *daemon = start(from, &fleet);
                }
                1 => {
                    fleet.postgres.kill();
                    fleet.postgres.restart();
                }
                _ => {}
            }
        }
    }
    for n in 0..machines {
        wait_until(&format!("everything for {}", name(n)), || {
            let inbox = fleet.run(n, &["inbox", "app", "--json"]).json();
            inbox.as_array().unwrap().len() >= sent / machines
        });
        let inbox = fleet.run(n, &["inbox", "app", "--json"]).json();
        let texts: Vec<&str> =
            inbox.as_array().unwrap().iter().map(|m| m["text"].as_str().unwrap()).collect();
        assert_eq!(texts.len(), sent / machines, "{texts:?}");
        for from in (0..machines).filter(|from| *from != n) {
            let of_sender: Vec<&&str> =
                texts.iter().filter(|t| t.starts_with(&format!("{}>", name(from)))).collect();
            assert_eq!(of_sender.len(), rounds);
            assert!(of_sender.is_sorted(), "{of_sender:?}");
        }
    }
    // Every sender learns that each has come.
    for n in 0..machines {
        wait_until("the receipts", || {
            let rows = fleet.run(n, &["outbox", "user", "--json"]).json();
            rows.as_array().unwrap().iter().all(|row| row["state"] == "fetched")
        });
    }
    for mut daemon in daemons {
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }
    drop(sessions);
}

#[test]
fn after_a_restore_from_an_old_dump_what_is_missing_is_sent_again_and_nothing_comes_twice() {
    let Some(fleet) = Fleet::of(2) else { return };
    let client = Client::new(&fleet.homes[1]);
    client.starts("startup").ok();
    (0..2).for_each(|n| fleet.wait_for_link(n));
    fleet.run(0, &["send", "app@m1", "--important", "one, before the dump"]).ok();
    fleet.wait_for_stage(0, "one", "fetched");
    let dump = fleet.postgres.dump();
    fleet.run(0, &["send", "app@m1", "--important", "two, fetched after it"]).ok();
    fleet.wait_for_stage(0, "two", "fetched");
    // The third is stored, and its reader sleeps.
    fleet.homes[1].run("serve --stop").ok();
    fleet.run(0, &["send", "app@m1", "--important", "three, lost with the disk"]).ok();
    fleet.wait_for_stage(0, "three", "stored");
    fleet.postgres.restore(&dump);
    wait_until("m0 to notice", || {
        fleet.link(0)["restored"].is_string() && fleet.link(0)["state"] == "connected"
    });
    wait_until("it to be sent again", || fleet.postgres.sql("SELECT count(*) FROM baton.messages") != "0");
    fleet.homes[1].run("serve --detach").ok();
    fleet.wait_for_stage(0, "three", "fetched");
    let status = fleet.run(0, &["fleet", "status"]).ok();
    assert!(status.contains("as after a restore"), "{status}");
    let inbox = fleet.run(1, &["inbox", "app", "--json"]).json();
    let texts: Vec<&str> =
        inbox.as_array().unwrap().iter().map(|m| &m["text"].as_str().unwrap()[..3]).collect();
    assert_eq!(texts, ["one", "two", "thr"], "{inbox}");
}

/// Hooks never touch the network: the database hears nothing of a thousand of them.
#[test]
fn the_databases_time_for_a_hook_is_nothing() {
    let Some(fleet) = Fleet::of(1).map(Fleet::quiet) else { return };
    let count = || {
        fleet.postgres.sql("SELECT pg_stat_force_next_flush()");
        fleet.postgres.sql(
            "SELECT sum(numbackends) FILTER (WHERE datname = 'app') || ' ' ||
                    sum(sessions) FILTER (WHERE datname = 'app') FROM pg_stat_database",
        )
    };
    let own = |text: &str| -> i64 { text.rsplit_once(' ').unwrap().1.parse().unwrap() };
    // The count itself is two sessions.
    let (first, second) = (own(&count()), own(&count()));
    let client = Client::new(&fleet.homes[0]);
    client.starts("startup").ok();
    for event in ["UserPromptSubmit", "PostToolUse", "PostToolUse", "Stop", "PreCompact", "SessionEnd"] {
        client.hook(event).ok();
    }
    client.status_line(Some(1000));
    assert_eq!(own(&count()) - second, second - first, "a hook has opened a connection");
}
