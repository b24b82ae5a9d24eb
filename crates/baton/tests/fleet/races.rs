//! Handoffs that many sessions of four machines want at the same time, while everything else fails.

use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use baton_testkit::hooks::Client;
use baton_testkit::race::all_at_once;
use baton_testkit::rng::Rng;
use baton_testkit::skew::Skew;
use baton_testkit::wait::{poll, wait_until};
use baton_testkit::wire::Wire;
use baton_testkit::{CommandOutput, Home, home, tools};
use serde_json::{Value, json};

use super::{Fleet, fleet_file, name, through_a_wire};

const MACHINES: usize = 4;
/// Each race has its own project, which every machine has.
const LANES: usize = 6;

struct Machine<'a> {
    home: &'a Home,
    /// To the database.
    wire: Wire,
    skew: Option<Skew>,
    daemon: Mutex<Option<Child>>,
}

impl<'a> Machine<'a> {
    /// Puts a wire between a machine and the database, and into every lane the work of a client that has died.
    fn of(home: &'a Home, database: u16, skew: Option<Skew>) -> Self {
        let wire = through_a_wire(home, database);
        for lane in 0..LANES {
            let made = home.command("git").args(["init", "-q"]).arg(folder(home, lane)).status();
            assert!(made.unwrap().success());
            let client = Client::new(home);
            let cwd = json!({ "cwd": folder(home, lane) });
            client.hook_with("SessionStart", cwd.clone()).ok();
            client.says("Write the parser");
            client.answers(20_000);
            client.hook_with("Stop", cwd).ok();
        }
        let machine = Self { home, wire, skew, daemon: Mutex::new(None) };
        machine.start();
        machine
    }

    fn baton(&self, lane: usize, args: &[&str]) -> std::process::Command {
        let mut command = self.home.baton(args);
        command.current_dir(folder(self.home, lane));
        if let Some(skew) = &self.skew {
            skew.dress(&mut command);
        }
        command
    }

    fn start(&self) {
        let mut command = self.baton(0, &["serve"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        *self.daemon.lock().unwrap() = Some(command.spawn().unwrap());
    }

    fn kill(&self) {
        if let Some(mut daemon) = self.daemon.lock().unwrap().take() {
            daemon.kill().unwrap();
            daemon.wait().unwrap();
        }
    }

    fn link(&self) -> Value {
        home::record(&fleet_file(self.home, "link.json"))
    }
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        self.kill();
    }
}

fn folder(home: &Home, lane: usize) -> std::path::PathBuf {
    let folder = home.path().join(format!("work/lane{lane}"));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// How many races began and ended, and how many lanes still race.
struct Count {
    wanted: usize,
    begun: AtomicUsize,
    ended: AtomicUsize,
    moved: AtomicUsize,
    lanes: AtomicUsize,
}

/// A lane has ended, also where it has failed.
struct Racing<'a>(&'a Count);

impl Drop for Racing<'_> {
    fn drop(&mut self) {
        self.0.lanes.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Races of one lane until there are enough; how many times each of its handoffs was loaded, race by race.
fn race(lane: usize, machines: &[Machine<'_>], count: &Count, rng: &mut Rng) -> Vec<usize> {
    let _racing = Racing(count);
    let mut loads: Vec<usize> = Vec::new();
    while count.begun.fetch_add(1, Ordering::SeqCst) < count.wanted {
        let race = loads.len();
        loads.push(0);
        loop {
            let from = usize::try_from(rng.pick(0..MACHINES as u64)).unwrap();
            let to = (from + usize::try_from(rng.pick(1..MACHINES as u64)).unwrap()) % MACHINES;
            let note = folder(machines[from].home, lane).join("note.md");
            std::fs::write(&note, format!("# Race {} of lane {}\n", spelled(race), spelled(lane))).unwrap();
            let address = format!("lane{lane}@{}", name(to));
            let mut giver =
                machines[from].baton(lane, &["handoff", note.to_str().unwrap(), "--to", &address]);
            let mut giver = giver.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut volley = || {
                // Two on either side of the way, and one on each other machine.
                let places = (0..MACHINES).chain([from, to]);
                for ran in all_at_once(
                    places.map(|n| machines[n].baton(lane, &["handoffs", "load"])).collect(),
                    || {},
                ) {
                    if let Some(race) = marked(&ran, lane) {
                        loads[race] += 1;
                        assert_eq!(loads[race], 1, "race {race} of lane {lane} was won again: {}", ran.out);
                    }
                }
                loads[race] > 0
            };
            // They come when something has changed, and after a second: without a pause they would be what slows the
            // fleet down.
            let mut before = changed(machines, lane);
            let mut is_loaded = volley();
            let mut volley_when_due = |mut giver: Option<&mut Child>| {
                poll(Duration::from_secs(1), || {
                    let has_given = giver.as_mut().is_some_and(|it| it.try_wait().unwrap().is_some());
                    (has_given || changed(machines, lane) != before).then_some(())
                });
                before = changed(machines, lane);
                volley()
            };
            while !is_loaded && giver.try_wait().unwrap().is_none() {
                is_loaded = volley_when_due(Some(&mut giver));
            }
            let gave = CommandOutput::of(&giver.wait_with_output().unwrap());
            // Refused while the database was away, or git took too long on a busy machine: nothing was sealed.
            if ["nothing was changed", "git is set to do: timed out"].iter().any(|why| gave.err.contains(why))
            {
                assert!(!is_loaded, "{}", gave.err);
                wait_until("the daemon to connect", || machines[from].link()["state"] == "connected");
                continue;
            }
            count.moved.fetch_add(usize::from(gave.code == Some(0)), Ordering::SeqCst);
            let is_loaded =
                is_loaded || poll(Duration::from_mins(5), || volley_when_due(None).then_some(())).is_some();
            assert!(is_loaded, "race {race} of lane {lane}, {from} to {to}: {:?} {}", gave.code, gave.err);
            break;
        }
        count.ended.fetch_add(1, Ordering::SeqCst);
    }
    loads
}

/// When each machine's handoffs of a lane changed last.
fn changed(machines: &[Machine<'_>], lane: usize) -> Vec<Option<SystemTime>> {
    let manifest = |machine: &Machine<'_>| {
        let is_manifest =
            |name: &str| name.starts_with(&format!("lane{lane}-")) && name.ends_with(".manifest.json");
        let files = std::fs::read_dir(machine.home.store()).ok()?.flatten();
        let file = files.into_iter().find(|file| file.file_name().to_str().is_some_and(is_manifest))?;
        file.metadata().ok()?.modified().ok()
    };
    machines.iter().map(manifest).collect()
}

/// A number in letters: figures that no transcript proves are marked in a handoff.
fn spelled(n: usize) -> String {
    format!("{n:06}").bytes().map(|digit| char::from(digit - b'0' + b'a')).collect()
}

/// The race whose handoff a session has loaded.
fn marked(ran: &CommandOutput, lane: usize) -> Option<usize> {
    if ran.code != Some(0) {
        return None;
    }
    // Without a mark: the handoff of a client that has died.
    let (_, text) = ran.out.split_once("# Race ")?;
    let heading = text.lines().next()?;
    let race = heading.strip_suffix(&format!(" of lane {}", spelled(lane)));
    let race = race.unwrap_or_else(|| panic!("it crossed the lanes: {}", ran.out));
    let digits: String = race.bytes().map(|letter| char::from(letter - b'a' + b'0')).collect();
    Some(digits.parse().unwrap())
}

/// Handoffs go from any of four machines to any other while sessions everywhere try to load them. Daemons and the
/// database are killed, the ways between them fall silent and are cut, the database is restored from an older dump, and
/// two machines' clocks are an hour off. A hundred races, ten thousand with `BATON_LONG=1`: each handoff is loaded once.
#[test]
fn a_handoff_is_consumed_once_in_the_whole_fleet() {
    let wanted = if baton_testkit::is_long() { 10_000 } else { 100 };
    let skew = [None, None, Skew::by("+1h"), Skew::by("-1h")];
    if skew[3].is_none() && baton_testkit::is_long() {
        return tools::missing("faketime not installed (scripts/test installs what the tests need)");
    }
    let Some(mut fleet) = Fleet::of(MACHINES).map(Fleet::quiet) else { return };
    let mut rng = Rng::announced("claims in a fleet");
    let Fleet { postgres, homes } = &mut fleet;
    let machines: Vec<Machine<'_>> =
        homes.iter().zip(skew).map(|(home, skew)| Machine::of(home, postgres.port(), skew)).collect();
    for machine in &machines {
        wait_until("a machine to connect", || machine.link()["state"] == "connected");
    }
    let count = Count {
        wanted,
        begun: AtomicUsize::new(0),
        ended: AtomicUsize::new(0),
        moved: AtomicUsize::new(0),
        lanes: AtomicUsize::new(LANES),
    };
    let (machines, count) = (&machines, &count);
    let began = std::time::Instant::now();
    let mut faults = [0_u32; 7];
    let loads: Vec<Vec<usize>> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES)
            .map(|lane| {
                let mut rng = rng.fork();
                scope.spawn(move || race(lane, machines, count, &mut rng))
            })
            .collect();
        let mut dump = postgres.dump();
        while count.lanes.load(Ordering::SeqCst) > 0 {
            let more = rng.pick(if wanted > 1_000 { 10..80 } else { 3..10 });
            let next = count.ended.load(Ordering::SeqCst) + usize::try_from(more).unwrap();
            poll(Duration::from_secs(45), || {
                let is_over = count.lanes.load(Ordering::SeqCst) == 0;
                (is_over || count.ended.load(Ordering::SeqCst) >= next).then_some(())
            });
            let victim = &machines[usize::try_from(rng.pick(0..MACHINES as u64)).unwrap()];
            let fault = usize::try_from(rng.pick(0..faults.len() as u64)).unwrap();
            faults[fault] += 1;
            if faults.iter().sum::<u32>() % 20 == 0 {
                eprintln!("{} races in {:.0?}", count.ended.load(Ordering::SeqCst), began.elapsed());
            }
            match fault {
                0 => {
                    postgres.kill();
                    postgres.restart();
                }
                1 => dump = postgres.dump(),
                2 => postgres.restore(&dump),
                3 => {
                    postgres.sql(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'baton'",
                    );
                }
                4 => victim.wire.cut(),
                5 => {
                    victim.wire.falls_silent();
                    poll(Duration::from_secs(rng.pick(1..20)), || {
                        (count.lanes.load(Ordering::SeqCst) == 0).then_some(())
                    });
                    victim.wire.heals();
                }
                _ => {
                    victim.kill();
                    victim.start();
                }
            }
        }
        lanes.into_iter().map(|lane| lane.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).collect()
    });
    let [kills, dumps, restores, ends, cuts, silences, daemons] = faults;
    println!(
        "{wanted} races in {:.0?}, {} moved: the database killed {kills} times, dumped {dumps}, restored {restores}; \
         connections ended {ends}, cut {cuts}, silent {silences}; daemons killed {daemons}",
        began.elapsed(),
        count.moved.load(Ordering::SeqCst)
    );
    for (lane, loads) in loads.iter().enumerate() {
        let odd: Vec<_> = loads.iter().enumerate().filter(|(_, times)| **times != 1).collect();
        assert!(odd.is_empty(), "lane {lane}, race and times: {odd:?}");
    }
    // What the machines have on record says the same.
    let mut consumed: Vec<String> = Vec::new();
    for machine in machines {
        let list = machine.baton(0, &["handoffs", "list", "--all", "--json", "-n", "100000"]);
        for row in home::run(&mut { list }).json().as_array().unwrap() {
            if row["type"] == "crash" {
                continue;
            }
            assert_ne!(row["status"], "active", "{row}");
            if row["status"] == "consumed" {
                consumed.push(row["id"].as_str().unwrap().to_owned());
            }
        }
    }
    let all = consumed.len();
    consumed.sort();
    consumed.dedup();
    assert_eq!((consumed.len(), all), (wanted, wanted), "different ones, and all");
    assert!(count.moved.load(Ordering::SeqCst) > wanted / 2);
}
