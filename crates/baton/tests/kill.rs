//! Promise 1: an acknowledged handoff survives SIGKILL of the process that wrote it, at any instant, and of every
//! process that writes, loads or clears after it.

use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use baton_core::handoff::{Entry, HandoffId, Status};
use baton_testkit::kill::Pace;
use baton_testkit::race::on_all_processors;
use baton_testkit::rng::Rng;
use baton_testkit::{Home, times};

use crate::store::{archived_body, channel, handoffs, leftovers, verified};

/// Every seal has the same `--session`, so that many fall into one second and must not collide.
const SEAL: [&str; 7] =
    ["--channel", "app", "handoffs", "seal", "doc.md", "--session", "0398f495-c491-4e18-ad53-ad5ac70c0279"];

/// A numbered document between one line and several disk blocks long.
fn document(number: u64, rng: &mut Rng) -> String {
    static FILLER: LazyLock<String> = LazyLock::new(|| Rng::new(1).text(40_000));
    let filler = &FILLER[usize::try_from(rng.pick(0..40_000)).unwrap()..];
    format!("# Handoff {number}\n\n{filler}\nend of {number}\n")
}

/// The number of the document with this text.
fn number(body: &str) -> u64 {
    let first = body.lines().next().and_then(|l| l.strip_prefix("# Handoff ")).expect("the heading is there");
    let last = body.trim_end().rsplit("end of ").next().expect("split gives at least one");
    assert_eq!(first, last, "a document is torn");
    first.parse().unwrap()
}

#[derive(Default)]
struct Tally {
    kills: AtomicUsize,
    in_the_act: AtomicUsize,
    acknowledged: AtomicUsize,
    loads: AtomicUsize,
    clears: AtomicUsize,
}

#[test]
fn kills_lose_no_acknowledged_handoff_and_tear_none() {
    let goal = times(1000);
    let seed = Rng::announced("kills").roll();
    let tally = Tally::default();
    let began = Instant::now();
    on_all_processors(|thread, threads| {
        let mut rng = Rng::new(seed ^ thread as u64);
        let share = goal.div_ceil(threads);
        let mut killed = 0;
        // Use a new home now and then, so that the first seal, which creates everything, is killed as well. On disk
        // most kills hit a sync; in memory they hit the other calls.
        for round in 0.. {
            if killed == share {
                break;
            }
            let fresh: fn() -> Home =
                if round % 2 == 0 { || Home::new(crate::BATON) } else { || Home::in_memory(crate::BATON) };
            killed += one_home(fresh, (share - killed).min(100), &mut rng, &tally);
        }
    });
    let took = began.elapsed();
    let count = |n: &AtomicUsize| n.load(Relaxed);
    eprintln!(
        "{} kills ({} while the lock was held) in {took:.1?}: {} seals acknowledged, {} loads, {} clears; 0 lost, 0 torn; {:.0} kills/s",
        count(&tally.kills),
        count(&tally.in_the_act),
        count(&tally.acknowledged),
        count(&tally.loads),
        count(&tally.clears),
        count(&tally.kills) as f64 / took.as_secs_f64(),
    );
    // Otherwise the kills missed the critical section, and the figure above proves nothing.
    assert!(count(&tally.in_the_act) * 10 > goal, "too few kills fell into the writing");
    assert!(count(&tally.acknowledged) * 50 > goal, "too few handoffs were acknowledged");
}

/// Kills `goal` victims in one fresh home and checks after each, then checks everything once more.
fn one_home(fresh: fn() -> Home, goal: usize, rng: &mut Rng, tally: &Tally) -> usize {
    let home = &fresh();
    let app = channel("app");
    let store = handoffs(home);
    let lock = home.store().join("app.lock.d/pid");
    let seal = || home.baton(SEAL);
    let mut acknowledged: Vec<(HandoffId, u64, String)> = Vec::new();
    let mut pace = {
        let elsewhere = fresh();
        elsewhere.write(
            "work/app/doc.md",
            "to measure
",
        );
        Pace::measured((0..5).map(|_| elsewhere.baton(SEAL)))
    };
    let (mut kills, mut before) = (0, None);
    for n in 1_u64.. {
        if kills == goal {
            break;
        }
        let verb = rng.pick(0..10);
        let text = document(n, rng);
        let command = match verb {
            0 => home.baton(["--channel", "app", "handoffs", "load"]),
            1 => home.baton(["--channel", "app", "handoffs", "clear"]),
            _ => {
                home.write("work/app/doc.md", &text);
                seal()
            }
        };
        let mut command = command;
        command.stderr(Stdio::null());
        let death = pace.kill(command, rng);
        if death.killed {
            kills += 1;
            tally.kills.fetch_add(1, Relaxed);
            let holder = std::fs::read_to_string(&lock).unwrap_or_default();
            if holder.starts_with(&format!("{}:", death.pid)) {
                tally.in_the_act.fetch_add(1, Relaxed);
            }
        }
        let after = verified(home, &app).current;
        match verb {
            0 if !death.said.is_empty() => {
                let current = after.as_ref().expect("what was loaded is still known");
                assert_eq!(current.status, Status::Consumed, "printed, but not consumed");
                tally.loads.fetch_add(1, Relaxed);
            }
            1 if !death.said.is_empty() => {
                assert_eq!(after.as_ref().map(|e| e.status), Some(Status::Cleared));
                tally.clears.fetch_add(1, Relaxed);
            }
            0 | 1 => assert_eq!(after.as_ref().map(|e| &e.id), before.as_ref().map(|e: &Entry| &e.id)),
            _ if death.said.ends_with('\n') => {
                let id: HandoffId = death.said.trim().parse().expect("an id is acknowledged");
                let current = after.as_ref().expect("what was acknowledged is there");
                assert_eq!((&current.id, current.status), (&id, Status::Active));
                assert_eq!(archived_body(home, &id), text, "{id} is not what was sealed");
                acknowledged.push((id, n, text));
                tally.acknowledged.fetch_add(1, Relaxed);
            }
            _ => {}
        }
        // Without an acknowledgement the previous or the new one is current, never an older one.
        if let Some(current) = &after
            && before.as_ref() != Some(current)
        {
            let shown = number(&archived_body(home, &current.id));
            let last = acknowledged.last().map_or(0, |(_, n, _)| *n);
            assert!(shown >= last, "handoff {shown} is current though {last} was acknowledged");
        }
        before = after;
    }
    let listed: Vec<HandoffId> = store.list(&app).unwrap().into_iter().map(|e| e.id).collect();
    for (id, _, text) in &acknowledged {
        assert_eq!(&archived_body(home, id), text, "{id} changed after it was acknowledged");
        assert!(listed.contains(id), "{id} was forgotten");
    }
    // The next command cleans up what the killed ones left behind.
    home.write("work/app/doc.md", document(0, rng));
    let status = seal().stdout(Stdio::null()).status().unwrap();
    assert!(status.success());
    assert_eq!(leftovers(&home.store()), Vec::<String>::new());
    kills
}

/// What a shell hook does: truncate the file, write it again, then acknowledge.
fn naive_writer(home: &Home, text: &str) -> Command {
    let mut command = home.command("sh");
    command.args(["-c", "printf '%s' \"$1\" > CURRENT.md && echo done", "naive", text]);
    command
}

#[test]
fn the_same_kills_do_catch_a_writer_that_truncates_in_place() {
    let home = Home::new(crate::BATON);
    let mut rng = Rng::announced("naive kills");
    let mut pace = Pace::measured((0..9).map(|_| naive_writer(&home, "to measure")));
    let (mut last, mut damaged) = (String::new(), 0);
    for n in 1..=times(500) as u64 {
        let text = document(n, &mut rng);
        let death = pace.kill(naive_writer(&home, &text), &mut rng);
        let found = std::fs::read_to_string(home.project().join("CURRENT.md")).unwrap_or_default();
        let whole = found == text || (death.said.is_empty() && found == last);
        if !whole {
            damaged += 1;
        }
        last = found;
    }
    eprintln!("the naive writer lost or tore {damaged} of {} handoffs", times(500));
    assert!(damaged > 0, "the harness does not bite");
}
