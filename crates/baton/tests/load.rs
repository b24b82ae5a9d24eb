//! The daemon under load and under kills: nothing lost, nothing twice, memory bounded, silent when idle. `cargo bench
//! -p baton --bench daemon` prints the full figures.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton_testkit::Home;
use baton_testkit::daemon::{Served, Wire};
use baton_testkit::hooks::Client;
use baton_testkit::load;
use baton_testkit::rng::Rng;
use serde_json::json;

use crate::BATON;

const MIB: u64 = 1024;

#[test]
fn many_connections_lose_nothing_and_memory_stays_bounded() {
    let home = Home::in_memory(BATON);
    load::populate(&home, 1000);
    let served = Served::on_http(&home);
    let report = load::run(&served, 1000, 50, 500, Duration::from_secs(4));
    assert!(report.sent >= 1500, "{}", report.sent);
    assert_eq!(report.answered, report.sent);
    assert!(report.messages.len() >= 10, "{}", report.messages.len());
    assert_eq!(load::lost(&served, &report), Vec::<String>::new());
    let anonymous = load::figure(served.pid(), "RssAnon");
    assert!(anonymous <= 20 * MIB, "{anonymous} KiB");
}

#[test]
fn an_idle_daemon_sleeps_and_is_small() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    let served = Served::on_http(&home);
    assert_eq!(served.get("/sessions/app")["state"], "idle");
    // Let the work of the start settle; after that the daemon has nothing to do.
    load::wait_until_idle(served.pid(), 5, Duration::from_secs(5));
    let anonymous = load::figure(served.pid(), "RssAnon");
    assert!(anonymous <= 8 * MIB, "{anonymous} KiB");
}

/// Senders retry with the same key until they get an answer; the daemon is killed repeatedly, in the middle of its work
/// and while it starts; an agent reads what arrives.
#[test]
fn a_daemon_killed_at_any_instant_loses_no_message_and_delivers_none_twice() {
    const SENDERS: usize = 3;
    let home = Home::in_memory(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    let mut rng = Rng::announced("a_daemon_killed_at_any_instant_loses_no_message_and_delivers_none_twice");
    let done = AtomicBool::new(false);
    let socket = home.state().join("run/daemon.sock");
    let (sent, heard, answered_kills) = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|own| {
                let (done, socket) = (&done, &socket);
                scope.spawn(move || {
                    let mut sent = 0;
                    while !done.load(Ordering::Relaxed) {
                        let key = format!("s{own}-{sent:05}");
                        let body = json!({ "text": format!("<{key}>"), "key": key, "urgency": "important" });
                        let answered = Wire::unix(socket).and_then(|mut wire| {
                            wire.ask("POST", "/sessions/app/messages", &[], Some(&body))
                        });
                        match answered {
                            Ok(answered) => {
                                assert_eq!(answered.status, 200, "{answered:?}");
                                sent += 1;
                            }
                            Err(_) => std::thread::sleep(Duration::from_millis(2)),
                        }
                    }
                    sent
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut heard = String::new();
            while !done.load(Ordering::Relaxed) {
                heard += &client.hook("PostToolUse").context().unwrap_or_default();
            }
            heard
        });
        let mut kills = 0;
        for n in 0..baton_testkit::times(50) {
            if n % 4 == 3 {
                // Kill it while it starts.
                let mut child = home.baton(["serve"]).stderr(std::process::Stdio::null()).spawn().unwrap();
                std::thread::sleep(Duration::from_micros(rng.pick(0..20_000)));
                child.kill().unwrap();
                child.wait().unwrap();
            } else {
                let served = Served::new(&home);
                std::thread::sleep(Duration::from_micros(rng.pick(0..60_000)));
                served.kill();
                kills += 1;
            }
        }
        // Senders that are still waiting get their answer now.
        let served = Served::new(&home);
        assert_eq!(served.get("/health")["status"], "ok");
        done.store(true, Ordering::Relaxed);
        let sent: Vec<usize> = senders.into_iter().map(|s| s.join().unwrap()).collect();
        (sent, reader.join().unwrap(), kills)
    });
    let served = Served::new(&home);
    let mut heard = heard;
    while let Some(more) = client.hook("PostToolUse").context() {
        heard += &more;
    }
    assert!(answered_kills > 10 && sent.iter().all(|n| *n > 10), "{answered_kills} kills, {sent:?} messages");
    for (own, sent) in sent.iter().enumerate() {
        let mut after = 0;
        for n in 0..*sent {
            let text = format!("<s{own}-{n:05}>");
            assert_eq!(heard.matches(&text).count(), 1, "{text}");
            let at = heard.find(&text).unwrap();
            assert!(at >= after, "{text} came before an earlier one of its sender");
            after = at;
        }
    }
    // No message is stuck.
    assert_eq!(served.get("/sessions/app")["mail"], 0);
    let told = json!({ "session_id": "app", "used_percentage": 20, "context_window_size": 200_000 });
    assert_eq!(served.post("/hooks/context-usage", &told)["status"], "ok");
    assert_eq!(served.get("/sessions/app")["used_percentage"], 20);
}
