//! Founding, joining, leaving.

use std::os::unix::fs::PermissionsExt as _;

use baton_testkit::Home;
use baton_testkit::daemon::Served;
use baton_testkit::hooks::Client;
use baton_testkit::page::Browser;
use baton_testkit::postgres::Postgres;
use baton_testkit::wait::{wait_for, wait_until};

use serde_json::{Value, json};

use super::{Fleet, fleet_file, found, invite, join_founder, run};
use crate::BATON;

#[test]
fn a_machine_that_is_in_no_fleet_says_how_to_get_into_one_and_keeps_nothing() {
    let home = Home::in_memory(BATON);
    for args in
        [&["fleet", "status"][..], &["fleet", "machines"], &["agents", "--fleet"], &["fleet", "doctor"]]
    {
        let said = run(&home, args).fails(3);
        assert!(said.contains("not in a fleet"), "{args:?}: {said}");
    }
    let said = run(&home, &["send", "app@desk", "hello"]).fails(1);
    assert!(said.contains("not in a fleet"), "{said}");
    assert!(!fleet_file(&home, "").exists());
}

#[test]
fn one_machine_founds_a_fleet_others_join_by_code_and_all_are_seen_everywhere() {
    let Some(fleet) = Fleet::of(3) else { return };
    let client = Client::new(&fleet.homes[1]);
    client.starts("startup").ok();
    for n in 0..3 {
        fleet.wait_for_link(n);
        for file in ["config.json", "link.json", "watermark.json"] {
            let mode = std::fs::metadata(fleet_file(&fleet.homes[n], file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{file}");
        }
    }
    let machines = wait_for("all to be awake", || {
        let machines = fleet.run(2, &["fleet", "machines", "--json"]).json()["machines"].clone();
        machines.as_array()?.iter().all(|m| m["presence"] == "awake").then_some(machines)
    });
    let names: Vec<&str> = machines.as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["m0", "m1", "m2"]);
    // An agent of another machine, as its machine last said.
    fleet.run(1, &["fleet", "status"]).ok();
    let agents = wait_for("m1's agent", || {
        let ran = fleet.run(0, &["agents", "--fleet", "--json"]);
        (ran.code == Some(0)).then(|| ran.json())
    });
    assert_eq!((&agents[0]["name"], &agents[0]["machine"]), (&"app".into(), &"m1".into()), "{agents}");
    let table = fleet.run(0, &["agents", "--fleet"]).ok();
    assert!(table.contains("app@m1") && table.contains("awake"), "{table}");
    let status = fleet.run(0, &["fleet", "status"]).ok();
    assert!(status.contains("Connected since") && status.contains("3 of 3 machines are awake"), "{status}");
    assert!(!status.contains("s3cret"), "{status}");
    // A machine that stops is asleep at once, and its last known state stays.
    fleet.homes[1].run("serve --stop").ok();
    let agents = wait_for("m1 to be asleep", || {
        let agents = fleet.run(0, &["agents", "--fleet", "--json"]).json();
        (agents[0]["presence"] == "asleep").then_some(agents)
    });
    assert_eq!(agents[0]["name"], "app");
    // Its lease runs out on the database's clock where it could not say goodbye.
    fleet.postgres.sql("UPDATE baton.devices SET beat = beat - interval '50 seconds' WHERE name = 'm2'");
    fleet.homes[2].run("serve --stop").ok();
}

#[test]
fn the_daemon_and_the_page_show_the_agents_of_other_machines_and_whether_these_sleep() {
    let Some(fleet) = Fleet::of(2).map(Fleet::quiet) else { return };
    let client = Client::new(&fleet.homes[1]);
    client.starts("startup").ok();
    let served = Served::on_http(&fleet.homes[0]);
    let _desk = fleet.serve(1);
    (0..2).for_each(|n| fleet.wait_for_link(n));
    let other = |view: &Value| view["machines"].as_array().unwrap()[0].clone();
    let view = wait_for("m1's agent", || {
        let view = served.get("/fleet");
        (view["machines"][0]["agents"].as_array()?.len() == 1).then_some(view)
    });
    assert_eq!((&view["machine"], &view["link"]["state"]), (&json!("m0"), &json!("connected")), "{view}");
    assert_eq!(view["machines"].as_array().unwrap().len(), 1, "only the others: {view}");
    let machine = other(&view);
    assert_eq!((&machine["name"], &machine["presence"]), (&json!("m1"), &json!("awake")), "{machine}");
    assert_eq!(machine["agents"][0]["name"], "app");
    assert!(view["news"].is_string() && machine["heard"].is_string(), "how old it is: {view}");
    if let Some(browser) = Browser::find() {
        let address = served.http.clone().unwrap();
        browser.run(&fleet.homes[0], &address, "fleet", json!({}), |what, _| {
            assert_eq!(what, "sleep");
            fleet.homes[1].run("serve --stop").ok();
            json!(true)
        });
    } else {
        fleet.homes[1].run("serve --stop").ok();
    }
    wait_until("m1 to be asleep", || other(&served.get("/fleet"))["presence"] == "asleep");
    assert_eq!(other(&served.get("/fleet"))["agents"][0]["name"], "app", "what was heard of it stays");
}

#[test]
fn a_code_works_once_for_its_own_machine_and_its_password_is_worth_nothing_afterwards() {
    let Some(postgres) = Postgres::start() else { return };
    let [founder, desk, thief] = std::array::from_fn(|_| Home::in_memory(BATON));
    found(&founder, &postgres.url());
    let again = run(&founder, &["fleet", "init", &postgres.url()]).ok();
    assert!(again.contains("up to date"), "{again}");
    let code = invite(&founder, "desk");
    let said = run(&thief, &["fleet", "join", &postgres.url()]).fails(1);
    assert!(said.contains("fleet invite NAME"), "{said}");
    let said = run(&desk, &["fleet", "join", &code, "--name", "other"]).fails(1);
    assert!(said.contains("for desk"), "{said}");
    let said = run(&thief, &["fleet", "join", &code[..code.len() - 9]]).fails(1);
    assert!(said.contains("copy all of it"), "{said}");
    run(&desk, &["fleet", "join", &code]).ok();
    let said = run(&desk, &["fleet", "join", &code]).fails(1);
    assert!(said.contains("is desk in a fleet already"), "{said}");
    let said = run(&thief, &["fleet", "join", &code]).fails(1);
    assert!(said.contains("works once"), "{said}");
    assert!(!fleet_file(&thief, "config.json").exists());
    assert!(postgres.sql_as(&code, "SELECT 1").is_err());
    let said = run(&desk, &["fleet", "invite", "another"]).fails(1);
    assert!(said.contains("founded the fleet"), "{said}");
    // An invitation that nobody used in time opens nothing.
    let late = invite(&founder, "late");
    postgres.sql("UPDATE baton.devices SET invited_until = now() - interval '1 minute' WHERE name = 'late'");
    let said = run(&thief, &["fleet", "join", &late]).fails(1);
    assert!(said.contains("expired") || said.contains("revoked"), "{said}");
    desk.run("serve --stop");
}

#[test]
fn only_the_user_founds_joins_leaves_and_revokes() {
    let home = Home::in_memory(BATON);
    let client = Client::new(&home);
    client.starts("startup").ok();
    for words in [
        "fleet init postgres://127.0.0.1:1/x",
        "fleet join postgres://127.0.0.1:1/x",
        "fleet invite desk",
        "fleet leave",
        "fleet revoke desk",
        "fleet purge desk",
    ] {
        let mut command = home.baton(words.split(' '));
        client.dress(&mut command);
        let said = baton_testkit::home::run(&mut command).fails(1);
        assert!(said.contains("only the user may"), "{words}: {said}");
    }
}

#[test]
fn a_way_that_leaves_the_machine_is_encrypted_or_not_taken() {
    let home = Home::in_memory(BATON);
    // Nothing listens there; only the requests matter. 192.0.2.1 belongs to nobody.
    let Some(postgres) = Postgres::start() else { return };
    let plain = postgres.url().replace("127.0.0.1", "localhost");
    found(&home, &plain);
    let demanded = format!("{}?sslmode=require", postgres.url());
    let said = run(&home, &["fleet", "init", &demanded]).fails(1);
    assert!(said.contains("TLS") || said.contains("tls"), "{said}");
    for bad in ["nonsense", "postgres://", "postgres://team:s3cret@/x?port=abc"] {
        let said = run(&home, &["fleet", "init", bad]).fails(1);
        assert!(!said.contains("s3cret"), "{said}");
    }
}

#[test]
fn a_database_that_a_newer_baton_has_migrated_is_left_alone() {
    let Some(fleet) = Fleet::of(1) else { return };
    fleet.wait_for_link(0);
    fleet.postgres.sql("INSERT INTO baton.meta (version) VALUES (99)");
    let said = fleet.run(0, &["fleet", "init", &fleet.postgres.url()]).fails(1);
    assert!(said.contains("newer baton") && said.contains("99"), "{said}");
    fleet
        .postgres
        .sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'baton'");
    wait_until("the daemon to see it", || {
        fleet.link(0)["why"].as_str().is_some_and(|why| why.contains("newer baton"))
    });
}

#[test]
fn doctor_tells_what_the_way_to_the_database_is_like() {
    let Some(fleet) = Fleet::of(1) else { return };
    let said = fleet.run(0, &["fleet", "doctor"]).ok();
    for words in
        ["does not leave this machine", "clock", "owns nothing", "wakes this machine", "no extension"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn who_leaves_is_gone_and_purging_proves_that_nothing_is_left() {
    let Some(fleet) = Fleet::of(2) else { return };
    fleet.wait_for_link(1);
    let said = fleet.run(0, &["fleet", "purge", "m1"]).fails(1);
    assert!(said.contains("still one of the fleet"), "{said}");
    fleet.run(1, &["fleet", "leave"]).ok();
    assert!(!fleet_file(&fleet.homes[1], "config.json").exists());
    fleet.run(1, &["fleet", "status"]).fails(3);
    wait_for("m1 to be gone", || {
        let machines = fleet.run(0, &["fleet", "machines", "--json"]).json();
        (machines["machines"][1]["presence"] == "gone").then_some(())
    });
    let said = fleet.run(0, &["send", "app@m1", "hello"]).fails(1);
    assert!(said.contains("m1 is gone"), "{said}");
    let purged = fleet.run(0, &["fleet", "purge", "m1", "--json"]).json();
    assert!(purged["left"].as_object().unwrap().values().all(|n| n == 0), "{purged}");
    let audit =
        fleet.postgres.sql("SELECT string_agg(what, ',' ORDER BY n) FROM baton.audit WHERE about = 'm1'");
    assert_eq!(audit, "invited,joined,left,purged");
    // The name is free again.
    let home = Home::in_memory(BATON);
    let code = invite(&fleet.homes[0], "m1");
    run(&home, &["fleet", "join", &code]).ok();
    home.run("serve --stop");
}

#[test]
fn two_fleets_share_a_database_without_seeing_each_other() {
    let Some(fleet) = Fleet::of(2) else { return };
    let other = Home::in_memory(BATON);
    found(&other, &fleet.postgres.url());
    join_founder(&other, &fleet.postgres.url(), "m0");
    let machines = wait_for("its own machine", || {
        let ran = run(&other, &["fleet", "machines", "--json"]);
        (ran.code == Some(0)).then(|| ran.json()["machines"].clone())
    });
    assert_eq!(machines.as_array().unwrap().len(), 1, "{machines}");
    other.run("serve --stop");
}

/// A file that cannot be read when the daemon starts, as one of a newer baton, keeps it out only for as long.
#[test]
fn a_daemon_that_cannot_read_its_place_in_the_fleet_takes_it_as_soon_as_it_can() {
    let Some(fleet) = Fleet::of(1).map(Fleet::quiet) else { return };
    let path = fleet_file(&fleet.homes[0], "watermark.json");
    std::fs::write(&path, "{\"v\":99}\n").unwrap();
    let _served = fleet.serve(0);
    wait_until("it to say so", || fleet.run(0, &["log", "--faults"]).out.contains("take part in the fleet"));
    std::fs::remove_file(&path).unwrap();
    fleet.run(0, &["fleet", "status"]).ok();
    fleet.wait_for_link(0);
}
