//! Promise 6: a handoff is consumed exactly once, and one addressed to an agent reaches that agent.

use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use baton::testing::Lock;
use baton_core::handoff::Status;
use baton_testkit::kill::Pace;
use baton_testkit::race::{all_at_once, on_all_processors};
use baton_testkit::rng::Rng;
use baton_testkit::{Home, times};
use jiff::Timestamp;

use crate::store::{channel, handoffs, live_agent, seal, verified};

const PATIENCE: Duration = Duration::from_mins(1);

#[test]
fn exactly_one_of_many_concurrent_loaders_gets_the_handoff() {
    let goal = times(1000);
    let seed = Rng::announced("races").roll();
    let (races, loads) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let began = Instant::now();
    on_all_processors(|thread, threads| {
        let mut rng = Rng::new(seed ^ thread as u64);
        let mut home = Home::in_memory(crate::BATON);
        for n in 0..goal.div_ceil(threads) {
            if n % 1000 == 999 {
                home = Home::in_memory(crate::BATON);
            }
            let field = 2 + usize::from(n % 4 == 0) + usize::from(n % 8 == 0);
            one_race(&home, n, field, rng.pick(0..2) == 0);
            races.fetch_add(1, Relaxed);
            loads.fetch_add(field, Relaxed);
        }
    });
    let (took, races) = (began.elapsed(), races.load(Relaxed));
    eprintln!(
        "{races} races of {} loads in {took:.1?}: one winner each; {:.0} races/s",
        loads.load(Relaxed),
        races as f64 / took.as_secs_f64()
    );
}

/// With `gated`, all wait at the lock until the last has started; otherwise they start freely.
fn one_race(home: &Home, n: usize, racers: usize, gated: bool) {
    let app = channel("app");
    let body = format!("race {n}");
    let id = seal(home, "app", &body);
    let gate = gated.then(|| Lock::acquire_shown(&home.store().join("app.lock.d/pid"), PATIENCE).unwrap());
    let commands = (0..racers)
        .map(|racer| {
            home.baton(["--channel", "app", "handoffs", "load", "--session", &format!("racer-{racer}")])
        })
        .collect();
    let ran = all_at_once(commands, || drop(gate));
    let winners: Vec<usize> = (0..racers).filter(|i| ran[*i].code == Some(0)).collect();
    let [winner] = winners[..] else { panic!("race {n}: {} winners: {ran:?}", winners.len()) };
    assert!(ran[winner].out.ends_with(&format!("\n{body}\n")), "race {n}: {ran:?}");
    for (i, loser) in ran.iter().enumerate().filter(|(i, _)| *i != winner) {
        assert_eq!((loser.code, loser.out.as_str()), (Some(3), ""), "race {n}, racer {i}: {loser:?}");
        assert!(loser.err.contains(&format!("{id} was already consumed")), "race {n}: {loser:?}");
    }
    let entry = verified(home, &app).current.unwrap();
    assert_eq!((entry.id, entry.status), (id, Status::Consumed));
    let session = entry.consumed_by_session.map(|s| s.as_str().to_owned());
    assert_eq!(session, Some(format!("racer-{winner}")), "the trail names another than the winner");
}

#[test]
fn however_the_loaders_are_killed_nobody_gets_a_handoff_that_another_has() {
    let goal = times(300);
    let seed = Rng::announced("races with kills").roll();
    let (taken, left, silent) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    on_all_processors(|thread, threads| {
        let mut rng = Rng::new(seed ^ thread as u64);
        let home = Home::in_memory(crate::BATON);
        let load = |who: &str| home.baton(["--channel", "app", "handoffs", "load", "--session", who]);
        seal(&home, "app", "to measure");
        let mut pace = Pace::measured((0..9).map(|_| load("measure")));
        for n in 0..goal.div_ceil(threads) {
            let id = seal(&home, "app", &format!("race {n}"));
            let commands = ["one", "two", "three"].map(|who| {
                let mut command = load(who);
                command.stderr(Stdio::null());
                command
            });
            let deaths = pace.kill_all(commands.into(), &mut rng);
            let shown = deaths.iter().filter(|d| d.said.contains(id.as_str())).count();
            assert!(shown <= 1, "race {n}: {shown} got it: {deaths:?}");
            let last = baton_testkit::home::run(&mut load("last"));
            let entry = verified(&home, &channel("app")).current.unwrap();
            assert_eq!((&entry.id, entry.status), (&id, Status::Consumed), "race {n}");
            // A loader killed before it had the handoff leaves it for the next one; after that it is gone.
            let by_last = entry.consumed_by_session.as_ref().is_some_and(|s| s.as_str() == "last");
            assert_eq!(last.code, Some(if by_last { 0 } else { 3 }), "race {n}: {last:?}");
            assert!(!(by_last && shown == 1), "race {n}: given out twice");
            let tally = if by_last {
                &left
            } else if shown == 1 {
                &taken
            } else {
                &silent
            };
            tally.fetch_add(1, Relaxed);
        }
    });
    let [taken, left, silent] = [taken, left, silent].map(AtomicUsize::into_inner);
    eprintln!("{taken} got it before they were killed, {left} left it to the next, {silent} died holding it");
    assert!(taken * 50 > goal && left * 50 > goal, "the kills were not spread over the run time");
}

#[test]
fn two_agents_that_rotate_at_once_each_get_their_own_handoff() {
    let goal = times(100);
    on_all_processors(|_, threads| {
        let home = Home::in_memory(crate::BATON);
        for agent in ["ada", "bob"] {
            home.write(&format!("work/app/{agent}.md"), format!("words of {agent}\n"));
            live_agent(&home, agent);
        }
        for n in 0..goal.div_ceil(threads) {
            let both = |line: &dyn Fn(&str) -> String| {
                let commands = ["ada", "bob"]
                    .map(|agent| home.baton(format!("--channel app handoffs {}", line(agent)).split(' ')));
                all_at_once(commands.into(), || ())
            };
            let sealed = both(&|agent| format!("seal {agent}.md --for-agent {agent} --session s-{agent}"));
            let loaded = both(&|agent| format!("load --agent {agent} --session next-{agent}"));
            for (i, agent) in ["ada", "bob"].into_iter().enumerate() {
                let (sealed, loaded) = (&sealed[i], &loaded[i]);
                assert_eq!((sealed.code, loaded.code), (Some(0), Some(0)), "{n}: {sealed:?} {loaded:?}");
                assert!(loaded.out.contains(sealed.out.trim()), "{n}: {agent} got another's: {loaded:?}");
                assert!(loaded.out.ends_with(&format!("words of {agent}\n")), "{n}: {loaded:?}");
            }
            let manifest = verified(&home, &channel("app"));
            assert!(manifest.entries().all(|e| e.status == Status::Consumed), "{n}: {manifest:?}");
        }
    });
}

#[test]
fn nobody_waits_for_the_lock_longer_than_the_deadline_and_a_dead_holder_frees_it() {
    let home = Home::new(crate::BATON);
    seal(&home, "app", "words");
    let mut store = handoffs(&home);
    store.patience = Duration::from_millis(100);
    let lock = Lock::acquire_shown(&home.store().join("app.lock.d/pid"), PATIENCE).unwrap();
    let began = Instant::now();
    let refused = store.clear(&channel("app"), None, Timestamp::now()).unwrap_err().to_string();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let me = std::process::id();
    assert!(
        refused.contains(&format!("is held by process {me} and was not released within 100ms")),
        "{refused}"
    );
    let shown = std::fs::read_to_string(home.store().join("app.lock.d/pid")).unwrap();
    assert!(shown.starts_with(&format!("{me}:")), "{shown}");
    drop(lock);
    // A holder that was killed leaves its text behind, but no lock.
    std::fs::write(home.store().join("app.lock.d/pid"), "999999:1").unwrap();
    assert!(store.clear(&channel("app"), None, Timestamp::now()).unwrap().is_some());
}
