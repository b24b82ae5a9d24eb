//! The database's owner, a neighbour in it, a machine that was thrown out, and a copy of a machine.

use std::time::Duration;

use baton_testkit::Home;
use baton_testkit::hooks::Client;
use baton_testkit::race::all_at_once;
use baton_testkit::wait::{poll, wait_for, wait_until};

use super::{Fleet, fleet_file, found, join_founder, run, through_a_wire};
use crate::BATON;

#[test]
fn nothing_of_a_body_is_in_a_dump_and_nothing_that_the_owner_writes_is_believed() {
    let Some(fleet) = Fleet::of(3).map(Fleet::quiet) else { return };
    for n in [1, 2] {
        let client = Client::new(&fleet.homes[n]);
        client.starts("startup").ok();
    }
    let laptop = fleet.serve(0);
    fleet.wait_for_link(0);
    let secret = "the-words-nobody-else-reads";
    fleet.run(0, &["send", "app@m1", secret]).ok();
    fleet.wait_for_stage(0, secret, "stored");
    let dump = fleet.postgres.dump();
    assert!(dump.contains("m0") && dump.contains("baton.messages"), "addresses are in it");
    assert!(!dump.contains(secret));
    let hex: Vec<String> = secret.bytes().map(|b| format!("{b:02x}")).collect();
    assert!(!dump.contains(&hex.concat()));
    drop(laptop);
    // The owner changes a body, redirects a message, speaks as another machine, and repeats one.
    let copy = |n: u32, set: &str| {
        fleet.postgres.sql(&format!(
            "ALTER TABLE baton.messages DISABLE TRIGGER admit;
             INSERT INTO baton.messages
             SELECT (jsonb_populate_record(m, '{{{set}}}'::jsonb || jsonb_build_object('seq', m.seq + {n}))).*
               FROM baton.messages m WHERE seq = (SELECT min(seq) FROM baton.messages);
             UPDATE baton.mailboxes SET last = (SELECT max(seq) FROM baton.messages);
             ALTER TABLE baton.messages ENABLE TRIGGER admit"
        ))
    };
    copy(1, "\"id\": \"m0.x2\"");
    copy(2, "\"id\": \"m0.x3\", \"sealed\": \"\\\\x00112233445566778899\"");
    copy(3, "\"id\": \"m2.x4\", \"sender\": \"m2\"");
    copy(4, "\"id\": \"m0.x5\", \"recipient\": \"m2\"");
    copy(5, "\"id\": \"m0.x6\", \"header\": \"{}\"");
    copy(6, "\"id\": \"m0.x7\", \"header\": \"garbage\"");
    let _desk = fleet.serve(1);
    let _rented = fleet.serve(2);
    wait_until("m1 to refuse them", || fleet.link(1)["refused"] == 5);
    wait_until("m2 to refuse it", || fleet.link(2)["refused"] == 1);
    let inbox = fleet.run(1, &["inbox", "app", "--json"]).json();
    assert_eq!(inbox.as_array().unwrap().len(), 1, "{inbox}");
    assert_eq!(inbox[0]["text"], secret);
    assert_eq!(fleet.run(2, &["inbox", "app", "--json"]).json().as_array().unwrap().len(), 0);
    let faults = fleet.run(1, &["log", "--faults"]).out;
    assert!(faults.contains("believe the envelope"), "{faults}");
}

#[test]
fn the_owner_cannot_put_in_a_machine_or_change_its_keys() {
    let Some(fleet) = Fleet::of(2).map(Fleet::quiet) else { return };
    let laptop = fleet.serve(0);
    fleet.wait_for_link(0);
    wait_until("m1 to be proved", || fleet_file(&fleet.homes[0], "known/m1.json").exists());
    drop(laptop);
    // Another fleet's card, which its own key has proved.
    let other = Home::in_memory(BATON);
    found(&other, &fleet.postgres.url());
    join_founder(&other, &fleet.postgres.url(), "m1");
    other.run("serve --stop");
    fleet.postgres.sql(
        "ALTER TABLE baton.devices DISABLE TRIGGER keep_device;
         UPDATE baton.devices d SET card = o.card FROM baton.devices o
          WHERE d.name = 'm1' AND o.name = 'm1' AND o.fleet <> d.fleet
            AND d.fleet = (SELECT fleet FROM baton.devices WHERE name = 'm0');
         ALTER TABLE baton.devices ENABLE TRIGGER keep_device",
    );
    let _laptop = fleet.serve(0);
    let doubt = wait_for("the doubt", || {
        let machines = fleet.run(0, &["fleet", "machines", "--json"]).json();
        machines["machines"][1]["doubt"].as_str().map(str::to_owned)
    });
    assert!(doubt.contains("fleet's key"), "{doubt}");
    // Mail for it is not sent, and delays nothing else.
    run(&fleet.homes[0], &["send", "user@m1", "for a machine in doubt"]).ok();
    let why = fleet.wait_for_stage(0, "for a machine in doubt", "failed");
    assert!(why.contains("fleet's key"), "{why}");
    assert_eq!(fleet.link(0)["state"], "connected");
}

#[test]
fn a_revoked_machine_writes_nothing_at_once_and_stays_revoked_after_a_restore() {
    let Some(fleet) = Fleet::of(2) else { return };
    let client = Client::new(&fleet.homes[0]);
    client.starts("startup").ok();
    (0..2).for_each(|n| fleet.wait_for_link(n));
    let (dump, url) = (fleet.postgres.dump(), fleet.url(1));
    let beat = "UPDATE baton.devices SET beat = now() WHERE name = 'm1' RETURNING 1";
    assert_eq!(fleet.postgres.sql_as(&url, beat).as_deref(), Ok("1"));
    fleet.run(0, &["fleet", "revoke", "m1"]).ok();
    // Not even a connection that was open.
    assert!(fleet.postgres.sql_as(&url, beat).is_err(), "it may not log in");
    fleet.postgres.sql("ALTER ROLE team SUPERUSER");
    let role = url.split("://").nth(1).unwrap().split(':').next().unwrap().to_owned();
    fleet.postgres.sql(&format!("ALTER ROLE {role} LOGIN"));
    assert_eq!(
        fleet.postgres.sql_as(&url, beat).as_deref(),
        Ok(""),
        "and if it could, it would change nothing"
    );
    assert_eq!(fleet.postgres.sql_as(&url, "SELECT count(*) FROM baton.devices").as_deref(), Ok("0"));
    fleet.run(1, &["send", "app@m0", "I am still here"]).ok();
    wait_until("it to know", || fleet.link(1)["state"] == "revoked");
    let status = fleet.run(1, &["fleet", "status"]).ok();
    assert!(status.contains("Revoked since") && status.contains("Behind by 1"), "{status}");
    // The others know it by the fleet's key, and a backup does not bring it back.
    wait_until("m0 to know", || {
        fleet.run(0, &["fleet", "machines", "--json"]).json()["machines"][1]["presence"] == "gone"
    });
    fleet.postgres.restore(&dump);
    wait_until("m0 to say so again", || {
        fleet.postgres.sql("SELECT revoked IS NOT NULL FROM baton.devices WHERE name = 'm1'") == "t"
    });
    assert_eq!(fleet.run(0, &["inbox", "app", "--json"]).json().as_array().unwrap().len(), 0);
}

#[test]
fn another_tenant_sees_nothing_and_speaks_for_nobody() {
    let Some(fleet) = Fleet::of(2).map(Fleet::quiet) else { return };
    let other = Home::in_memory(BATON);
    found(&other, &fleet.postgres.url());
    join_founder(&other, &fleet.postgres.url(), "m9");
    other.run("serve --stop");
    let config = baton_testkit::home::record(&fleet_file(&other, "config.json"));
    let url = config["url"].as_str().unwrap();
    let ask = |sql: &str| fleet.postgres.sql_as(url, sql);
    let ours = fleet.postgres.sql("SELECT fleet FROM baton.devices WHERE name = 'm0'");
    for table in ["fleets", "devices", "mailboxes", "messages", "presence", "homes", "audit"] {
        let seen = ask(&format!("SELECT count(*) FROM baton.{table} WHERE fleet = '{ours}'"));
        assert_eq!(seen.as_deref(), Ok("0"), "{table}");
    }
    let insert = |fleet: &str, sender: &str| {
        format!(
            "INSERT INTO baton.messages (fleet, recipient, seq, id, sender, epoch, header, sealed, signature)
             VALUES ('{fleet}', 'm0', 0, 'm1.x', '{sender}', 0, '{{}}', '\\x00', decode(repeat('00', 64), 'hex'))"
        )
    };
    let theirs = config["fleet"].as_str().unwrap();
    for (fleet_id, sender) in [(ours.as_str(), "m1"), (ours.as_str(), "m9"), (theirs, "m1")] {
        let said = ask(&insert(fleet_id, sender)).unwrap_err();
        assert!(said.contains("does not speak for") || said.contains("row-level security"), "{said}");
    }
    for sql in [
        "UPDATE baton.audit SET what = 'nothing'",
        "DELETE FROM baton.audit",
        "UPDATE baton.devices SET revoked = NULL",
        "UPDATE baton.devices SET role = 'postgres'",
        "UPDATE baton.mailboxes SET last = 0",
        "CREATE TABLE baton.mine (x int)",
        "ALTER TABLE baton.messages DISABLE ROW LEVEL SECURITY",
        "SET ROLE team",
        "SELECT baton.admit()",
    ] {
        assert!(ask(sql).is_err(), "{sql}");
    }
    assert!(
        fleet
            .postgres
            .sql_as(&fleet.postgres.url(), "DELETE FROM baton.audit")
            .unwrap_err()
            .contains("append-only")
    );
    assert_eq!(ask("UPDATE baton.devices SET stopped = true RETURNING name").as_deref(), Ok("m9"));
}

#[test]
fn a_copy_of_a_machine_silences_the_old_incarnation_and_an_old_epoch_is_not_admitted() {
    let Some(fleet) = Fleet::of(2).map(Fleet::quiet) else { return };
    let _desk = fleet.serve(1);
    fleet.wait_for_link(1);
    let epoch = fleet.link(1)["epoch"].as_u64().unwrap();
    // The same files on another disk.
    let copy = Home::in_memory(BATON);
    std::fs::create_dir_all(copy.state()).unwrap();
    let from = fleet_file(&fleet.homes[1], "");
    let copied =
        std::process::Command::new("cp").arg("-a").arg(from).arg(copy.state().join("fleet")).status();
    assert!(copied.unwrap().success());
    let served = baton_testkit::daemon::Served::new(&copy);
    let link = || baton_testkit::home::record(&fleet_file(&copy, "link.json"));
    wait_until(&format!("the copy to begin at {}: {}", epoch + 1, link()), || {
        link()["state"] == "connected" && link()["epoch"] == epoch + 1
    });
    // The next word of the old one is its last.
    fleet.run(1, &["send", "app@m0", "who am I"]).ok();
    wait_until("the old one to be fenced", || fleet.link(1)["state"] == "fenced");
    let status = fleet.run(1, &["fleet", "status"]).ok();
    assert!(status.contains("another copy"), "{status}");
    assert_eq!(fleet.postgres.sql("SELECT count(*) FROM baton.messages"), "0");
    let ours = fleet.postgres.sql("SELECT fleet FROM baton.devices WHERE name = 'm0'");
    let old = format!(
        "INSERT INTO baton.messages (fleet, recipient, seq, id, sender, epoch, header, sealed, signature)
         VALUES ('{ours}', 'm0', 0, 'm1.x', 'm1', {epoch}, '{{}}', '\\x00', decode(repeat('00', 64), 'hex'))"
    );
    let said = fleet.postgres.sql_as(&fleet.url(1), &old).unwrap_err();
    assert!(said.contains(&format!("incarnation {epoch} of m1 is over")), "{said}");
    let large = old
        .replace(&format!("'m1', {epoch},"), &format!("'m1', {},", epoch + 1))
        .replace("'\\x00'", "decode(repeat('00', 10000000), 'hex')");
    let said = fleet.postgres.sql_as(&fleet.url(1), &large).unwrap_err();
    assert!(said.contains("check constraint"), "{said}");
    drop(served);
}

/// A server that answers with something else, or with nothing, is a database that is away.
#[test]
fn a_database_that_answers_garbage_or_nothing_is_away_and_hurts_nobody() {
    use std::io::{Read as _, Write as _};
    let Some(fleet) = Fleet::of(1).map(Fleet::quiet) else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let path = fleet_file(&fleet.homes[0], "config.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace(&format!(":{}/", fleet.postgres.port()), &format!(":{port}/"));
    std::fs::write(&path, text).unwrap();
    let served = fleet.serve(0);
    for n in 0..4 {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = [0; 64];
        let _ = stream.read(&mut asked);
        let garbage: &[u8] = if n % 2 == 0 { &[0xff; 4096] } else { b"HTTP/1.1 200 OK\r\n\r\n" };
        let _ = stream.write_all(garbage);
    }
    wait_until("it to say so", || fleet.link(0)["state"] == "away" && fleet.link(0)["why"].is_string());
    let client = Client::new(&fleet.homes[0]);
    client.starts("startup").ok();
    assert_eq!(served.get("/health")["status"], "ok");
    run(&fleet.homes[0], &["send", "app", "all is as ever"]).ok();
}

/// Where a statement hangs, the database is away after a while. Nothing else on the machine waits for it.
#[test]
fn a_database_that_hangs_is_away_and_delays_nothing_on_the_machine() {
    let Some(fleet) = Fleet::of(2).map(Fleet::quiet) else { return };
    let served = fleet.serve(0);
    let client = Client::new(&fleet.homes[0]);
    client.starts("startup").ok();
    fleet.wait_for_link(0);
    let waits = || {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'baton' AND wait_event_type = 'Lock'";
        fleet.postgres.sql(waiting) != "0"
    };
    let gives_up = || {
        wait_until("it to give up", || {
            let link = fleet.link(0);
            link["state"] == "away"
                && link["why"].as_str().is_some_and(|why| why.contains("has not answered"))
        });
    };
    let held = fleet.postgres.holds("LOCK TABLE baton.messages IN ACCESS EXCLUSIVE MODE");
    fleet.run(0, &["send", "user@m1", "held up"]).ok();
    wait_until("the statement to hang", waits);
    assert_eq!(served.get("/health")["status"], "ok");
    fleet.run(0, &["send", "app", "--important", "within the machine"]).ok();
    assert!(client.hook("PostToolUse").context().unwrap().contains("within the machine"));
    let status = fleet.run(0, &["fleet", "status"]).ok();
    assert!(status.contains("Behind by 1 messages"), "{status}");
    assert!(waits(), "all this while the statement hangs");
    gives_up();
    drop(held);
    fleet.wait_for_stage(0, "held up", "stored");
    // The first statement of a connection.
    let held = fleet.postgres.holds("LOCK TABLE baton.meta IN ACCESS EXCLUSIVE MODE");
    fleet
        .postgres
        .sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'baton'");
    wait_until("the statement to hang", waits);
    gives_up();
    drop(held);
    fleet.wait_for_link(0);
}

/// An envelope in a format that this version does not know waits for the version that does, if its sender has signed it.
#[test]
fn a_newer_envelope_waits_in_the_mailbox_and_a_forged_one_does_not() {
    use ed25519_dalek::Signer as _;
    let Some(fleet) = Fleet::of(2) else { return };
    (0..2).for_each(|n| fleet.wait_for_link(n));
    let config = baton_testkit::home::record(&fleet_file(&fleet.homes[0], "config.json"));
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().concat();
    let seed = config["sign"].as_str().unwrap();
    let seed: Vec<u8> = (0..32).map(|n| u8::from_str_radix(&seed[2 * n..2 * n + 2], 16).unwrap()).collect();
    let key = ed25519_dalek::SigningKey::from_bytes(&seed.try_into().unwrap());
    let post = |id: &str, is_signed: bool| {
        let header = format!("{{\"v\":2,\"id\":\"{id}\"}}");
        let signed = [
            b"baton fleet envelope 1\0".as_slice(),
            &(header.len() as u64).to_be_bytes(),
            header.as_bytes(),
            b"sealed",
        ];
        let signature = if is_signed { key.sign(&signed.concat()).to_bytes() } else { [0; 64] };
        fleet.postgres.sql(&format!(
            "ALTER TABLE baton.messages DISABLE TRIGGER admit;
             INSERT INTO baton.messages (fleet, recipient, seq, id, sender, epoch, header, sealed, signature)
             SELECT fleet, 'm1', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, '{id}', 'm0', epoch,
                    '{header}', '\\x{}', '\\x{}' FROM baton.devices WHERE name = 'm0';
             ALTER TABLE baton.messages ENABLE TRIGGER admit",
            hex(b"sealed"),
            hex(&signature)
        ));
    };
    post("m0.newer", true);
    post("m0.forged", false);
    fleet.run(0, &["send", "user@m1", "all is as ever"]).ok();
    fleet.wait_for_stage(0, "all is as ever", "fetched");
    wait_until("both to be judged", || fleet.link(1)["stuck"] == 1 && fleet.link(1)["refused"] == 1);
    assert_eq!(fleet.postgres.sql("SELECT id FROM baton.messages WHERE id LIKE 'm0.%er%'"), "m0.newer");
}

/// What one machine writes into its own row, or an owner changes in the schema, stops no other machine's daemon.
#[test]
fn a_row_that_no_machine_writes_stops_nobody() {
    let Some(fleet) = Fleet::of(2) else { return };
    (0..2).for_each(|n| fleet.wait_for_link(n));
    let machines = || {
        let out = fleet.run(0, &["fleet", "machines", "--json"]).json();
        (out["machines"].clone(), out["at"].as_str().map(str::to_owned))
    };
    fleet.homes[1].run("serve --stop").ok();
    for beat in ["infinity", "-infinity", "200000-01-01"] {
        let set = format!("UPDATE baton.devices SET beat = '{beat}' WHERE name = 'm1' RETURNING 1");
        assert_eq!(fleet.postgres.sql_as(&fleet.url(1), &set).as_deref(), Ok("1"));
        let before = machines().1;
        wait_until("news of the machines", || machines().1 != before);
        assert_eq!(machines().0.as_array().unwrap().len(), 2, "{beat}");
        assert_eq!(fleet.link(0)["state"], "connected", "{beat}: {}", fleet.link(0));
    }
    fleet.postgres.sql("ALTER TABLE baton.devices ALTER COLUMN every_seconds TYPE bigint");
    run(&fleet.homes[0], &["fleet", "machines"]).ok();
    wait_until("the odd answer to be told", || fleet.link(0)["state"] == "away");
    fleet.postgres.sql("ALTER TABLE baton.devices ALTER COLUMN every_seconds TYPE integer");
    fleet.wait_for_link(0);
}

/// A person waits for these commands. Each gives up at whichever statement hangs, and can be run again.
#[test]
fn a_database_that_hangs_ends_every_command_of_a_fleet_with_words() {
    let Some(fleet) = Fleet::of(2).map(Fleet::quiet) else { return };
    let (founder, newcomer) = (&fleet.homes[0], Home::in_memory(BATON));
    let (url, code) = (fleet.postgres.url(), super::invite(founder, "m2"));
    run(&fleet.homes[1], &["fleet", "leave"]).ok();
    let give_up = |tables: &[&str], commands: &[(&Home, &[&str])]| {
        let locks: Vec<String> =
            tables.iter().map(|table| format!("LOCK TABLE baton.{table} IN ACCESS EXCLUSIVE MODE")).collect();
        let held = fleet.postgres.holds(&locks.join("; "));
        let children = commands.iter().map(|(home, args)| home.baton(*args)).collect();
        // Without a deadline they end when the lock does.
        let (mut over, mut held) = (false, Some(held));
        std::thread::scope(|scope| {
            let ended = scope.spawn(|| all_at_once(children, || {}));
            over = poll(Duration::from_mins(1), || ended.is_finished().then_some(())).is_some();
            held.take();
            for (ran, (_, args)) in ended.join().unwrap().iter().zip(commands) {
                let said = format!("{}{}", ran.out, ran.err);
                assert!(said.contains("the database has not answered"), "{args:?}: {said}");
            }
        });
        assert!(over, "they waited for as long as {tables:?} were locked");
    };
    let (revoke, purge) = (["fleet", "revoke", "m2"], ["fleet", "purge", "m1"]);
    give_up(
        &["meta", "fleets", "devices"],
        &[
            (founder, &["fleet", "invite", "m3"]),
            (founder, &revoke),
            (founder, &purge),
            (founder, &["fleet", "doctor"]),
            (founder, &["fleet", "init", &url]),
            (&newcomer, &["fleet", "join", &code]),
        ],
    );
    give_up(&["fleets"], &[(founder, &["fleet", "init", &url]), (&newcomer, &["fleet", "init", &url])]);
    give_up(&["audit"], &[(founder, &["fleet", "invite", "m3"]), (founder, &revoke)]);
    give_up(&["homes"], &[(founder, &purge)]);
    super::invite(founder, "m4");
    found(&newcomer, &url);
    run(founder, &revoke).ok();
    run(founder, &purge).ok();
}

/// Every answer takes a second. Messages come late, and nothing else does.
#[test]
fn a_slow_database_delays_only_what_goes_to_other_machines() {
    let Some(fleet) = Fleet::of(2).map(Fleet::quiet) else { return };
    let wire = through_a_wire(&fleet.homes[0], fleet.postgres.port());
    wire.delays(Duration::from_millis(500));
    let (served, _desk) = (fleet.serve(0), fleet.serve(1));
    let client = Client::new(&fleet.homes[0]);
    client.starts("startup").ok();
    (0..2).for_each(|n| fleet.wait_for_link(n));
    wait_until("the news of m1", || fleet.run(0, &["fleet", "machines", "--json"]).out.contains("\"m1\""));
    for n in 0..3 {
        // For a moment it says nothing at all: whatever is done now waits for no answer.
        wire.falls_silent();
        fleet.run(0, &["send", "user@m1", &format!("slow {n}")]).ok();
        assert_eq!(served.get("/health")["status"], "ok");
        fleet.run(0, &["send", "app", "--important", &format!("quick {n}")]).ok();
        assert!(client.hook("PostToolUse").context().unwrap().contains(&format!("quick {n}")));
        let (stage, _) = fleet.sent(0, &format!("slow {n}")).unwrap();
        assert_eq!(stage, "queued");
        assert!(fleet.run(0, &["fleet", "status"]).ok().contains("Behind by 1 messages"));
        wire.heals();
        fleet.wait_for_stage(0, &format!("slow {n}"), "fetched");
    }
}
