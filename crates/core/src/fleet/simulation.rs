//! Four machines and a database that is killed, cut off and restored from backups, over and over, also on servers whose
//! clocks are behind and without a connection that breaks: a handoff is consumed once in the whole fleet, a message
//! arrives once, and nothing accepted is lost. Nobody is told of a restore; each machine finds it out from its counters.

use std::collections::{BTreeMap, BTreeSet};

use super::MachineName;
use super::home::{Local, Move, Row};
use super::watermark::{Continuity, Counters, Watermark};
use crate::chance::below;

const MACHINES: usize = 4;

fn machine(n: usize) -> MachineName {
    MachineName::new(format!("m{n}")).unwrap()
}

/// The content of the database; a backup is a clone.
#[derive(Debug, Clone, Default)]
struct Database {
    rows: BTreeMap<u32, Row>,
    /// Documents on their way: handoff, reader, epoch.
    documents: BTreeSet<(u32, usize, u64)>,
    mailboxes: [Vec<(u64, String)>; MACHINES],
    last: [u64; MACHINES],
    beats: [u64; MACHINES],
    epochs: [u64; MACHINES],
    ids: BTreeSet<String>,
}

impl Database {
    /// One transaction of machine `at`: the row moves and the document goes with it, which counts as a beat.
    fn give(&mut self, at: usize, handoff: u32, reader: usize, moves: &Move) -> Row {
        let first = Row { home: moves.from.clone(), epoch: moves.epoch - 1 };
        let row = self.rows.entry(handoff).or_insert(first);
        if let Some(moved) = moves.apply(Some(row)) {
            *row = moved;
        }
        if *row == (Row { home: moves.to.clone(), epoch: moves.epoch }) {
            self.documents.insert((handoff, reader, moves.epoch));
            self.beats[at] += 1;
        }
        row.clone()
    }

    /// Machine `at` puts a message into a mailbox. Places follow the server's clock.
    fn post(&mut self, at: usize, to: usize, id: &str, clock: u64) {
        self.beats[at] += 1;
        if self.ids.insert(id.to_owned()) {
            self.last[to] = clock.max(self.last[to] + 1);
            self.mailboxes[to].push((self.last[to], id.to_owned()));
        }
    }
}

/// The files of a machine; they survive every kill.
#[derive(Debug, Default)]
struct Machine {
    homes: BTreeMap<u32, Local>,
    /// What was given away and must be said again.
    again: BTreeSet<u32>,
    watermark: Watermark,
    /// Mail to send, and acknowledged mail that is kept: reader and id.
    outbox: Vec<(usize, String)>,
    sent: Vec<(usize, String)>,
    inbox: Vec<String>,
    /// Not a file: whether its daemon has a connection.
    is_connected: bool,
}

struct World {
    database: Database,
    machines: [Machine; MACHINES],
    /// Transfers whose sender lost the connection: the database may carry them out later. Sender, handoff, reader.
    in_flight: Vec<(usize, u32, usize, Move)>,
    consumed: BTreeMap<u32, usize>,
    accepted: Vec<(usize, String)>,
    backups: Vec<Database>,
    now: u64,
    /// How far the clock of the database's present server is behind.
    behind: u64,
    chance: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            database: Database::default(),
            machines: std::array::from_fn(|_| Machine::default()),
            in_flight: Vec::new(),
            consumed: BTreeMap::new(),
            accepted: Vec::new(),
            backups: Vec::new(),
            now: 1_000_000,
            behind: 0,
            chance: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    fn roll(&mut self, n: u64) -> u64 {
        below(&mut self.chance, n)
    }

    fn index(name: &MachineName) -> usize {
        name.as_str()[1..].parse().unwrap()
    }

    /// A session starts on machine `at` and claims from files alone.
    fn claim(&mut self, at: usize, handoff: u32) {
        let consumed = self.consumed.contains_key(&handoff) && self.machines[at].homes.contains_key(&handoff);
        if self.machines[at].homes.get(&handoff).is_some_and(Local::may_claim) && !consumed {
            let before = self.consumed.insert(handoff, at);
            assert_eq!(before, None, "handoff {handoff} was consumed twice");
        }
    }

    /// The handoff is given to another machine, unless it is consumed.
    fn leave(&mut self, at: usize, handoff: u32, to: usize) {
        if self.consumed.contains_key(&handoff) || at == to {
            return;
        }
        if let Some(leaving) = self.machines[at].homes.get(&handoff).and_then(|l| l.leave(machine(to))) {
            self.machines[at].homes.insert(handoff, leaving);
        }
    }

    /// Connects if there is no connection, and beats; whether that worked.
    fn connect(&mut self, at: usize) -> bool {
        let is_killed = self.roll(8) == 0;
        let machine = &mut self.machines[at];
        if !machine.is_connected {
            let Database { beats, last, epochs, .. } = &self.database;
            let found = Counters { beats: beats[at], last: last[at], epoch: epochs[at] };
            if machine.watermark.compare(&found) == Continuity::Restored {
                let sent = std::mem::take(&mut machine.sent);
                machine.outbox.splice(0..0, sent);
                for (handoff, local) in &mut machine.homes {
                    *local = local.after_restore();
                    if matches!(local, Local::Away { .. }) {
                        machine.again.insert(*handoff);
                    }
                }
                // Whatever breaks before this is done again.
                if is_killed {
                    return false;
                }
                machine.watermark = machine.watermark.after_restore(&found);
                // A new incarnation.
                machine.watermark.epoch = machine.watermark.epoch.max(found.epoch) + 1;
                self.database.epochs[at] = machine.watermark.epoch;
            }
            machine.is_connected = true;
        }
        self.database.beats[at] += 1;
        if is_killed {
            machine.is_connected = false;
            return false;
        }
        self.hears(at)
    }

    /// The database's answer to something that counts as a beat has come; whether the connection is of further use.
    fn hears(&mut self, at: usize) -> bool {
        let machine = &mut self.machines[at];
        let heard = machine.watermark.hear(self.database.beats[at], self.database.last[at]);
        machine.is_connected = heard == Continuity::Same;
        machine.is_connected
    }

    /// The daemon of `at` synchronises its files with the database. It may be cut off before, during or after that.
    fn synchronise(&mut self, at: usize) {
        if !self.connect(at) {
            return;
        }
        for handoff in self.machines[at].homes.keys().copied().collect::<Vec<_>>() {
            let local = self.machines[at].homes[&handoff].clone();
            let is_due = matches!(local, Local::Leaving { .. }) || self.machines[at].again.contains(&handoff);
            let Some(moves) = local.wanted_move(&machine(at)).filter(|_| is_due) else { continue };
            let to = Self::index(&moves.to);
            match self.roll(6) {
                0 => {
                    self.machines[at].is_connected = false;
                    return;
                }
                // The answer is lost, so it is unknown whether the database received it.
                1 => {
                    self.in_flight.push((at, handoff, to, moves));
                    self.machines[at].is_connected = false;
                    return;
                }
                outcome => {
                    let row = self.database.give(at, handoff, to, &moves);
                    let is_given = row == (Row { home: moves.to.clone(), epoch: moves.epoch });
                    // Killed before it could write the answer down: the next one asks again.
                    if outcome == 2 || (is_given && !self.hears(at)) {
                        self.machines[at].is_connected = false;
                        return;
                    }
                    self.machines[at].homes.insert(handoff, local.settled(&row));
                    if moves.is_known_to(&row) {
                        self.machines[at].again.remove(&handoff);
                    }
                }
            }
        }
        while let Some((to, id)) = self.machines[at].outbox.first().cloned() {
            if self.roll(5) == 0 {
                self.machines[at].is_connected = false;
                return;
            }
            self.database.post(at, to, &id, self.now - self.behind);
            if self.roll(5) == 0 {
                self.machines[at].is_connected = false;
                return;
            }
            if !self.hears(at) {
                return;
            }
            self.machines[at].outbox.remove(0);
            self.machines[at].sent.push((to, id));
        }
    }

    /// Fetches documents and mail, and acknowledges what is on disk. Both may come again.
    fn fetch(&mut self, at: usize) {
        if !self.connect(at) {
            return;
        }
        for (handoff, reader, epoch) in self.database.documents.clone() {
            if reader == at
                && let Some(local) = Local::arrive(self.machines[at].homes.get(&handoff), epoch)
            {
                self.machines[at].homes.insert(handoff, local);
                self.machines[at].again.remove(&handoff);
            }
            // An acknowledged document is deleted.
            if reader == at && self.roll(2) == 0 {
                self.database.documents.remove(&(handoff, reader, epoch));
            }
        }
        for (seq, id) in self.database.mailboxes[at].clone() {
            if !self.machines[at].inbox.contains(&id) {
                self.machines[at].inbox.push(id);
            }
            if self.roll(6) == 0 {
                self.machines[at].is_connected = false;
                return;
            }
            let watermark = &mut self.machines[at].watermark;
            watermark.last = watermark.last.max(seq);
            self.database.mailboxes[at].retain(|(place, _)| *place != seq);
        }
    }

    fn step(&mut self, handoffs: u32) {
        self.now += 10;
        let at = usize::try_from(self.roll(MACHINES as u64)).unwrap();
        let to = usize::try_from(self.roll(MACHINES as u64)).unwrap();
        let handoff = u32::try_from(self.roll(u64::from(handoffs))).unwrap();
        match self.roll(12) {
            0 => self.claim(at, handoff),
            1 | 2 => self.leave(at, handoff, to),
            3..=5 => self.synchronise(at),
            6 | 7 => self.fetch(at),
            8 => {
                let id = format!("m{at}.{}", self.accepted.len());
                self.accepted.push((to, id.clone()));
                self.machines[at].outbox.push((to, id));
            }
            9 if !self.in_flight.is_empty() => {
                let n = usize::try_from(self.roll(self.in_flight.len() as u64)).unwrap();
                let (at, handoff, to, moves) = self.in_flight.swap_remove(n);
                self.database.give(at, handoff, to, &moves);
            }
            10 => self.backups.push(self.database.clone()),
            11 if !self.backups.is_empty() && self.roll(4) == 0 => {
                let n = usize::try_from(self.roll(self.backups.len() as u64)).unwrap();
                self.restore(n);
            }
            _ => {}
        }
        let homes = |handoff| {
            self.machines.iter().filter(move |m| m.homes.get(&handoff).is_some_and(Local::may_claim))
        };
        assert!(
            (0..handoffs).all(|handoff| homes(handoff).count() <= 1),
            "two machines may claim one handoff"
        );
    }

    /// The database is as it was, perhaps on a server with another clock. Usually connections break, so that nothing is
    /// in flight any more.
    fn restore(&mut self, n: usize) {
        self.database = self.backups[n].clone();
        self.behind = self.roll(3) * self.roll(3_000);
        if self.roll(3) > 0 {
            self.in_flight.clear();
            self.machines.iter_mut().for_each(|machine| machine.is_connected = false);
        }
    }
}

fn run(seed: u64, steps: usize) -> (usize, usize) {
    const HANDOFFS: u32 = 6;
    let mut world = World::new(seed);
    for handoff in 0..HANDOFFS {
        world.machines[handoff as usize % MACHINES].homes.insert(handoff, Local::default());
    }
    for _ in 0..steps {
        world.step(HANDOFFS);
    }
    // Everything is awake and the database stays: all that was accepted arrives, and every handoff has a home.
    for _ in 0..200 {
        for at in 0..MACHINES {
            world.synchronise(at);
            world.fetch(at);
        }
    }
    for (to, id) in &world.accepted {
        let n = world.machines[*to].inbox.iter().filter(|i| *i == id).count();
        assert_eq!(n, 1, "seed {seed}: {id} arrived {n} times");
    }
    for handoff in 0..HANDOFFS {
        let homes =
            world.machines.iter().filter(|m| m.homes.get(&handoff).is_some_and(Local::may_claim)).count();
        assert_eq!(homes, 1, "seed {seed}: handoff {handoff} has {homes} homes");
        (0..MACHINES).for_each(|at| world.claim(at, handoff));
        assert!(world.consumed.contains_key(&handoff), "seed {seed}: handoff {handoff} was lost");
    }
    (world.consumed.len(), world.accepted.len())
}

#[test]
fn a_handoff_is_consumed_once_and_a_message_arrives_once_whatever_breaks() {
    let (mut handoffs, mut messages) = (0, 0);
    for seed in 0..1_700 {
        let (h, m) = run(seed, 300);
        (handoffs, messages) = (handoffs + h, messages + m);
    }
    assert!(handoffs > 10_000 && messages > 20_000, "{handoffs} {messages}");
}
