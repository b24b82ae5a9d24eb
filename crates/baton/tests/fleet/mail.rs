//! Messages between machines: once, in order, with receipts, whichever machine sleeps or is killed.

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
fn undeliverable_mail_says_why() {
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
    let said = fleet.run(0, &["send", "app@m1", "--important", "while it was away"]).ok();
    assert!(said.contains("it waits for the database, away since"), "{said}");
    let agents = fleet.run(0, &["agents", "--fleet"]);
    assert!(agents.err.contains("the database is away since"), "{}", agents.err);
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

/// A thousand messages among six machines, a hundred thousand among fifty with `BATON_LONG=1`, while the database is killed
/// and restarted and daemons are killed: each arrives once, and those of one sender in their order.
#[test]
fn a_flood_arrives_once_and_in_order_although_database_and_daemons_are_killed() {
    use baton_testkit::home;
    use baton_testkit::rng::Rng;
    let (machines, messages, restarts) =
        if baton_testkit::is_long() { (50, 100_000, 20) } else { (6, 1_000, 3) };
    let Some(mut fleet) = Fleet::of(machines).map(Fleet::quiet) else { return };
    let mut rng = Rng::announced("a flood in a fleet");
    let start = |n: usize, fleet: &Fleet| {
        let mut command = fleet.homes[n].baton(["serve"]);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap()
    };
    let mut daemons: Vec<_> = (0..machines).map(|n| start(n, &fleet)).collect();
    (0..machines).for_each(|n| fleet.wait_for_link(n));
    // One message as `send` writes it, and the others after its pattern: a process for each would take most of the time.
    let each = messages / machines;
    let mut expected = vec![0; machines];
    for from in 0..machines {
        let outbox = fleet.homes[from].state().join("fleet/outbox");
        fleet.run(from, &["send", &format!("user@{}", name((from + 1) % machines)), "PATTERN"]).ok();
        expected[(from + 1) % machines] += 1;
        let pattern = wait_for("the pattern", || {
            let sent = std::fs::read_dir(outbox.join("sent")).into_iter().flatten().flatten();
            sent.filter_map(|file| std::fs::read_to_string(file.path()).ok()).find(|t| t.contains("PATTERN"))
        });
        let known: serde_json::Value = serde_json::from_str(&pattern).unwrap();
        std::fs::create_dir_all(outbox.join("ready")).unwrap();
        for n in 0..each {
            let to = usize::try_from(rng.pick(0..machines as u64)).unwrap();
            let to = if to == from { (to + 1) % machines } else { to };
            expected[to] += 1;
            let mut parcel = known.clone();
            parcel["name"] = format!("m{:020}-1-0000", 2_000_000_000_000_000_000_u64 + n as u64).into();
            parcel["to"] = name(to).into();
            parcel["body"]["text"] = format!("{} {n:06}", name(from)).into();
            let file = outbox.join("ready").join(format!("{}.json", parcel["name"].as_str().unwrap()));
            std::fs::write(file, parcel.to_string()).unwrap();
        }
    }
    let arrived = |fleet: &Fleet, n: usize| {
        let dir = fleet.homes[n].state().join("mail/user/new");
        std::fs::read_dir(dir).into_iter().flatten().flatten().count()
    };
    let began = std::time::Instant::now();
    for step in 0..restarts {
        // A part of everything, then something dies.
        for home in &fleet.homes {
            let outbox = home.state().join("fleet/outbox");
            let mut ready: Vec<_> =
                std::fs::read_dir(outbox.join("ready")).unwrap().flatten().map(|e| e.path()).collect();
            ready.sort();
            let part = if step + 1 == restarts { ready.len() } else { each / restarts };
            for path in ready.iter().take(part) {
                std::fs::rename(path, outbox.join("new").join(path.file_name().unwrap())).unwrap();
            }
            std::os::unix::net::UnixDatagram::unbound()
                .and_then(|socket| socket.send_to(b"!", home.state().join("run/fleet.sock")))
                .ok();
        }
        let victim = usize::try_from(rng.pick(0..machines as u64)).unwrap();
        daemons[victim].kill().unwrap();
        daemons[victim].wait().unwrap();
        fleet.postgres.kill();
        fleet.postgres.restart();
        daemons[victim] = start(victim, &fleet);
    }
    let patience = std::time::Duration::from_secs(if baton_testkit::is_long() { 7_200 } else { 120 });
    let all = baton_testkit::wait::poll(patience, || {
        (0..machines).all(|n| arrived(&fleet, n) >= expected[n]).then_some(())
    });
    let counts: Vec<_> = (0..machines).map(|n| (arrived(&fleet, n), expected[n])).collect();
    assert!(all.is_some(), "arrived and expected: {counts:?}");
    println!("{messages} messages through {machines} machines in {:.1?}", began.elapsed());
    for (n, expected) in expected.iter().enumerate() {
        let dir = fleet.homes[n].state().join("mail/user/new");
        let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().flatten().map(|file| file.path()).collect();
        files.sort();
        let mail: Vec<serde_json::Value> = files.iter().map(|path| home::record(path)).collect();
        assert_eq!(mail.len(), *expected, "{} has each message once", name(n));
        for from in 0..machines {
            let own = format!("{} ", name(from));
            let texts: Vec<&str> = mail.iter().filter_map(|m| m["text"].as_str()).collect();
            let texts: Vec<&&str> = texts.iter().filter(|text| text.starts_with(&own)).collect();
            assert!(texts.is_sorted(), "{from} to {n}: {texts:?}");
        }
    }
    for mut daemon in daemons {
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }
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

/// Hooks never touch the network: the database sees none of a thousand of them.
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

/// What this machine cannot store now, as for an agent whose record a newer baton wrote, stays in the mailbox.
#[test]
fn mail_that_cannot_be_stored_delays_no_other_mail() {
    let Some(fleet) = Fleet::of(2) else { return };
    (0..2).for_each(|n| fleet.wait_for_link(n));
    let record = fleet.homes[1].state().join("agents/newer.json");
    std::fs::create_dir_all(record.parent().unwrap()).unwrap();
    std::fs::write(&record, "{\"v\":99,\"id\":\"newer\"}\n").unwrap();
    fleet.run(0, &["send", "newer@m1", "for the newer one"]).ok();
    fleet.run(0, &["send", "user@m1", "for the user"]).ok();
    fleet.wait_for_stage(0, "for the user", "fetched");
    fleet.wait_for_stage(0, "for the newer one", "stored");
    let status = wait_for("the status to say so", || {
        let status = fleet.run(1, &["fleet", "status"]).ok();
        status.contains("cannot be stored here yet").then_some(status)
    });
    assert!(status.contains("Connected since") && status.contains("1 envelopes have come"), "{status}");
    let faults = fleet.run(1, &["log", "--faults"]).out;
    assert!(faults.contains("stays in the mailbox") && faults.contains("newer baton"), "{faults}");
    std::fs::remove_file(&record).unwrap();
    // It is tried again with whatever comes next.
    fleet.run(0, &["send", "user@m1", "the next"]).ok();
    let why = fleet.wait_for_stage(0, "for the newer one", "failed");
    assert!(why.contains("no agent newer"), "{why}");
}

/// After a restore on a server whose clock is behind, a mailbox may give places below those that were read. The reader's
/// counters do not show it when the places have caught up by the time it connects.
#[test]
fn a_message_whose_place_is_below_what_was_read_is_read_all_the_same() {
    let Some(fleet) = Fleet::of(2) else { return };
    (0..2).for_each(|n| fleet.wait_for_link(n));
    fleet.run(0, &["send", "user@m1", "before"]).ok();
    fleet.wait_for_stage(0, "before", "fetched");
    fleet.homes[1].run("serve --stop").ok();
    fleet.postgres.sql(
        "CREATE FUNCTION baton.behind() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN NEW.seq := NEW.seq - 3600000000; RETURN NEW; END $$;
         CREATE TRIGGER behind BEFORE INSERT ON baton.messages FOR EACH ROW EXECUTE FUNCTION baton.behind()",
    );
    fleet.run(0, &["send", "user@m1", "below"]).ok();
    fleet.wait_for_stage(0, "below", "stored");
    fleet.postgres.sql("DROP TRIGGER behind ON baton.messages");
    fleet.run(0, &["send", "user@m1", "after"]).ok();
    fleet.wait_for_stage(0, "after", "stored");
    fleet.homes[1].run("serve --detach").ok();
    fleet.wait_for_stage(0, "after", "fetched");
    fleet.wait_for_stage(0, "below", "fetched");
    let inbox = fleet.run(1, &["inbox", "--json"]).json();
    let texts: Vec<&str> = inbox.as_array().unwrap().iter().map(|m| m["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["before", "below", "after"], "each once: {inbox}");
}

/// A restore in one transaction breaks no connection that idles.
#[test]
fn a_restore_while_the_connections_hold_is_noticed_at_the_next_beat() {
    let Some(fleet) = Fleet::of(2) else { return };
    (0..2).for_each(|n| fleet.wait_for_link(n));
    fleet.homes[1].run("serve --stop").ok();
    let dump = fleet.postgres.dump();
    fleet.run(0, &["send", "user@m1", "lost with the disk"]).ok();
    fleet.wait_for_stage(0, "lost with the disk", "stored");
    fleet.postgres.restore_beneath(&dump);
    assert_eq!(fleet.postgres.sql("SELECT count(*) FROM baton.messages"), "0");
    // It asks for news, which is a beat.
    fleet.run(0, &["fleet", "status"]).ok();
    wait_until("it to be sent again", || fleet.postgres.sql("SELECT count(*) FROM baton.messages") == "1");
    fleet.homes[1].run("serve --detach").ok();
    fleet.wait_for_stage(0, "lost with the disk", "fetched");
}

/// The first dump was the wrong one. The counters of the second are above those since the first.
#[test]
fn a_second_restore_of_a_newer_dump_is_noticed_as_well() {
    let Some(fleet) = Fleet::of(2) else { return };
    (0..2).for_each(|n| fleet.wait_for_link(n));
    fleet.homes[1].run("serve --stop").ok();
    let older = fleet.postgres.dump();
    // Each asks for news, which is a beat.
    for _ in 0..10 {
        fleet.run(0, &["fleet", "status"]).ok();
    }
    let newer = fleet.postgres.dump();
    let restored = |before: &serde_json::Value| {
        wait_until("m0 to notice", || {
            let link = fleet.link(0);
            link["restored"].is_string() && link["restored"] != *before && link["state"] == "connected"
        });
        fleet.link(0)["restored"].clone()
    };
    fleet.postgres.restore(&older);
    let first = restored(&serde_json::Value::Null);
    fleet.run(0, &["send", "user@m1", "between the restores"]).ok();
    fleet.wait_for_stage(0, "between the restores", "stored");
    fleet.postgres.restore(&newer);
    restored(&first);
    fleet.homes[1].run("serve --detach").ok();
    fleet.wait_for_stage(0, "between the restores", "fetched");
}
