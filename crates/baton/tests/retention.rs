//! Housekeeping by the daemon: old files of ended work go; whatever somebody may still want stays, however old.

use std::path::Path;
use std::time::{Duration, SystemTime};

use baton_testkit::Home;
use baton_testkit::daemon::Served;
use baton_testkit::hooks::Client;

use crate::BATON;
use baton_testkit::wait::wait_until;

/// Makes a file look untouched for so many days.
fn age(path: &Path, days: u64) {
    let then = SystemTime::now() - Duration::from_secs(days * 86_400);
    std::fs::File::options().append(true).open(path).unwrap().set_modified(then).unwrap();
}

#[test]
fn ended_work_older_than_ninety_days_goes_and_what_is_wanted_stays() {
    let home = Home::new(BATON);
    let state = home.state();
    let over = Client::new(&home);
    over.starts("startup").silent();
    over.hook("SessionEnd").ok();
    let (gone, gone_session) = (over.agent(), over.session.clone());
    // Nobody else gets its name while its process is alive.
    let live = Client::new(&home);
    live.starts("startup").silent();
    // This one has ended too, but a message waits for it.
    let asleep = Client::new(&home);
    asleep.starts("startup").silent();
    drop(over);
    let (asleep_agent, asleep_session) = (asleep.agent(), asleep.session.clone());
    asleep.answers(1000);
    asleep.hook("PostToolUse").ok();
    asleep.hook("SessionEnd").ok();
    drop(asleep);
    home.run(&format!("send {asleep_agent} when you are back")).ok();
    home.run(&format!("send {} --important read this", live.agent())).ok();
    live.hook("PostToolUse").ok();

    let words = home.write("words.md", "# Words");
    let seal = |_: usize| {
        home.run(&format!("handoffs seal {}", words.display())).ok();
        home.run("handoffs current").ok().split_whitespace().next().unwrap().to_owned()
    };
    let (first, second) = (seal(1), seal(2));
    let archived = |id: &str| home.store().join(format!("archive/{id}.md"));
    assert!(archived(&first).exists() && archived(&second).exists(), "{first} {second}");

    let old_log = state.join("log/2026-01-01.jsonl");
    std::fs::write(&old_log, "{}\n").unwrap();
    let young_log = state.join("log/2026-11-01.jsonl");
    std::fs::write(&young_log, "{}\n").unwrap();
    let read_mail = std::fs::read_dir(state.join("mail").join(live.agent()).join("cur"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let waiting = std::fs::read_dir(state.join("mail").join(&asleep_agent).join("new"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let record = |agent: &str| state.join(format!("agents/{agent}.json"));
    let session = |id: &str| state.join(format!("sessions/{id}.json"));
    for path in [
        &old_log,
        &read_mail,
        &waiting,
        &record(&gone),
        &record(&live.agent()),
        &record(&asleep_agent),
        &session(&gone_session),
        &session(&live.session),
        &archived(&first),
        &archived(&second),
    ] {
        age(path, 91);
    }
    age(&young_log, 89);
    age(&session(&asleep_session), 2);
    let rests = || {
        let mirror = state.join("mirror").join(&asleep_session);
        let files = std::process::Command::new("find").arg(mirror).args(["-name", "*.zst"]).output().unwrap();
        !files.stdout.is_empty()
    };
    assert!(!rests());

    let _served = Served::new(&home);
    wait_until("it has kept house", || home.run("log --json -n 20").out.contains("\"retention\""));
    assert!(rests(), "the mirror of a conversation that is over was not compressed");
    for path in [&old_log, &read_mail, &record(&gone), &session(&gone_session), &archived(&first)] {
        assert!(!path.exists(), "{} was kept", path.display());
    }
    for path in [
        &young_log,
        &waiting,
        &record(&live.agent()),
        &session(&live.session),
        &record(&asleep_agent),
        &archived(&second),
    ] {
        assert!(path.exists(), "{} is gone", path.display());
    }
}

/// That session may be continuing from any of the documents.
#[test]
fn no_document_goes_while_the_record_of_a_session_cannot_be_read() {
    let home = Home::new(BATON);
    let words = home.write("words.md", "# Words");
    home.run(&format!("handoffs seal {}", words.display())).ok();
    let first = home.run("handoffs current").ok().split_whitespace().next().unwrap().to_owned();
    home.run(&format!("handoffs seal {}", words.display())).ok();
    let document = home.store().join(format!("archive/{first}.md"));
    age(&document, 91);
    let newer = home.write(".local/state/baton/sessions/s-1.json", "{\"v\":99}\n");
    let old_log = home.write(".local/state/baton/log/2026-01-01.jsonl", "{}\n");
    age(&old_log, 91);
    let served = Served::new(&home);
    wait_until("it has kept house", || home.run("log --json -n 20").out.contains("\"retention\""));
    assert!(document.exists(), "a document that may be wanted is gone");
    assert!(home.run("log --json -n 20").ok().contains("remove old handoffs"));
    served.kill();
    std::fs::remove_file(newer).unwrap();
    age(&home.write(".local/state/baton/log/2026-01-02.jsonl", "{}\n"), 91);
    let _served = Served::new(&home);
    wait_until("nobody wants it now", || !document.exists());
}

#[test]
fn the_hops_of_a_chain_that_continues_stay_and_old_ledgers_go() {
    let home = Home::new(BATON);
    let mut live = Client::new(&home);
    live.starts("startup").silent();
    let mut hops = Vec::new();
    let mut ledgers = Vec::new();
    for n in 0..3 {
        crate::chain::says(&live, &home, &format!("Part {n}: port the tests."));
        hops.push(crate::chain::is_sealed(&live, "…"));
        ledgers.push(home.state().join(format!("ledgers/{}.json", live.session)));
        live.clears();
        live.hook("PostToolUse").ok();
    }
    let archived = |id: &String| home.store().join(format!("archive/{id}.md"));
    let forgotten = home.store().join("archive/HO-20260101-000000-aaaaaaaa.md");
    std::fs::write(&forgotten, "gone").unwrap();
    for path in hops.iter().map(archived).chain(ledgers.clone()).chain([forgotten.clone()]) {
        age(&path, 91);
    }
    let _served = Served::new(&home);
    wait_until("it has kept house", || home.run("log --json -n 20").out.contains("\"retention\""));
    for id in &hops {
        assert!(archived(id).exists(), "{id} is a hop of a chain that continues");
    }
    assert!(!forgotten.exists());
    for path in &ledgers {
        assert!(!path.exists(), "{} was kept", path.display());
    }
}
