//! Housekeeping by the daemon: what is over and old goes, what somebody may still want stays however old it is.

use std::path::Path;
use std::time::{Duration, SystemTime};

use baton_testkit::Home;
use baton_testkit::daemon::Served;
use baton_testkit::hooks::Client;

use crate::BATON;
use crate::serve::wait_until;

/// As if nothing had touched it for so many days.
fn age(path: &Path, days: u64) {
    let then = SystemTime::now() - Duration::from_secs(days * 86_400);
    std::fs::File::options().append(true).open(path).unwrap().set_modified(then).unwrap();
}

#[test]
fn what_is_over_and_older_than_ninety_days_goes_and_what_is_wanted_stays() {
    let home = Home::new(BATON);
    let state = home.state();
    let over = Client::new(&home);
    over.starts("startup").silent();
    over.hook("SessionEnd").ok();
    let (gone, gone_session) = (over.agent(), over.session.clone());
    drop(over);
    let live = Client::new(&home);
    live.starts("startup").silent();
    // Ended too, but a message waits for it.
    let asleep = Client::new(&home);
    asleep.starts("startup").silent();
    let (asleep_agent, asleep_session) = (asleep.agent(), asleep.session.clone());
    asleep.answers(1000);
    asleep.hook("PostToolUse").ok();
    asleep.hook("SessionEnd").ok();
    drop(asleep);
    home.run(&format!("send {asleep_agent} when you are back")).ok();
    home.run(&format!("send {} read this", live.agent())).ok();
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
