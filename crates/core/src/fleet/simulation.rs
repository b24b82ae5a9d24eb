//! Four machines and a database that is killed, cut off and restored from backups, over and over: a handoff is consumed
//! once in the whole fleet, a message arrives once, and nothing accepted is lost.

use std::collections::{BTreeMap, BTreeSet};

use super::MachineName;
use super::home::{Local, Move, Row};
use super::watermark::{Continuity, Found, Watermark};
use crate::chance::below;

const MACHINES: usize = 4;

fn machine(n: usize) -> MachineName {
    MachineName::new(format!("m{n}")).unwrap()
}

/// What the database holds; a backup is a clone.
#[derive(Debug, Clone, Default)]
struct Database {
    rows: BTreeMap<u32, Row>,
    /// Documents on their way: handoff, reader, epoch.
    documents: BTreeSet<(u32, usize, u64)>,
    mailboxes: [Vec<(u64, String)>; MACHINES],
    last: [u64; MACHINES],
    ids: BTreeSet<String>,
}

impl Database {
    /// One transaction: the row moves and the document goes with it.
    fn give(&mut self, handoff: u32, reader: Option<usize>, moves: &Move) -> Row {
        if let Some(row) = moves.apply(self.rows.get(&handoff)) {
            self.rows.insert(handoff, row);
            self.documents.extend(reader.map(|reader| (handoff, reader, moves.epoch)));
        }
        self.rows[&handoff].clone()
    }

    fn post(&mut self, to: usize, id: &str) {
        if self.ids.insert(id.to_owned()) {
            self.last[to] += 1;
            self.mailboxes[to].push((self.last[to], id.to_owned()));
        }
    }
}

/// What a machine has on disk; it survives every kill.
#[derive(Debug, Default)]
struct Machine {
    homes: BTreeMap<u32, Local>,
    watermark: Watermark,
    /// What waits to be sent, and what was acknowledged and is kept: reader and id.
    outbox: Vec<(usize, String)>,
    sent: Vec<(usize, String)>,
    inbox: Vec<String>,
}

struct World {
    database: Database,
    machines: [Machine; MACHINES],
    /// Transfers whose sender lost the connection: the database may carry them out later.
    in_flight: Vec<(u32, usize, Move)>,
    consumed: BTreeMap<u32, usize>,
    accepted: Vec<(usize, String)>,
    backups: Vec<Database>,
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

    /// Somebody gives the handoff to another machine; where it is consumed, there is nothing to give.
    fn leave(&mut self, at: usize, handoff: u32, to: usize) {
        if self.consumed.contains_key(&handoff) || at == to {
            return;
        }
        if let Some(leaving) = self.machines[at].homes.get(&handoff).and_then(|l| l.leave(machine(to))) {
            self.machines[at].homes.insert(handoff, leaving);
        }
    }

    /// The daemon of `at` tells the database what its files say. It may be cut off before, while or after.
    fn synchronise(&mut self, at: usize) {
        self.notice_restore(at);
        for handoff in self.machines[at].homes.keys().copied().collect::<Vec<_>>() {
            let local = self.machines[at].homes[&handoff].clone();
            let Some(moves) = local.wanted_move(&machine(at)) else { continue };
            let to = Self::index(&moves.to);
            match self.roll(6) {
                0 => return,
                // The answer never comes, and nobody knows whether the database heard it.
                1 => self.in_flight.push((handoff, to, moves)),
                2 if matches!(local, Local::Leaving { .. }) => {
                    let back = local.take_back(&machine(at)).unwrap();
                    let row = self.database.give(handoff, None, &back);
                    if self.roll(3) > 0 {
                        self.machines[at].homes.insert(handoff, local.settled(&row));
                    }
                }
                outcome => {
                    let row = self.database.give(handoff, Some(to), &moves);
                    if row == (Row { home: moves.to, epoch: moves.epoch }) {
                        // The document is sent again too: only it may have been lost.
                        self.database.documents.insert((handoff, to, moves.epoch));
                    }
                    // Killed before it could write the answer down: the next one asks again.
                    if outcome != 3 {
                        self.machines[at].homes.insert(handoff, local.settled(&row));
                    }
                }
            }
        }
        while let Some((to, id)) = self.machines[at].outbox.first().cloned() {
            if self.roll(5) == 0 {
                return;
            }
            self.database.post(to, &id);
            if self.roll(5) == 0 {
                return;
            }
            self.machines[at].outbox.remove(0);
            self.machines[at].sent.push((to, id));
        }
    }

    fn notice_restore(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        let found = Found { beats: 0, last: self.database.last[at], epoch: machine.watermark.epoch };
        if machine.watermark.compare(&found) == Continuity::Restored {
            machine.watermark = machine.watermark.after_restore(&found);
        }
        machine.watermark.last = found.last;
    }

    /// Fetches documents and mail. Both may come again.
    fn fetch(&mut self, at: usize) {
        self.notice_restore(at);
        for (handoff, reader, epoch) in self.database.documents.clone() {
            if reader == at
                && let Some(local) = Local::arrive(self.machines[at].homes.get(&handoff), epoch)
            {
                self.machines[at].homes.insert(handoff, local);
            }
            // An acknowledged document is deleted.
            if reader == at && self.roll(2) == 0 {
                self.database.documents.remove(&(handoff, reader, epoch));
            }
        }
        for (seq, id) in self.database.mailboxes[at].clone() {
            if seq <= self.machines[at].watermark.cursor {
                continue;
            }
            if !self.machines[at].inbox.contains(&id) {
                self.machines[at].inbox.push(id);
            }
            if self.roll(6) == 0 {
                return;
            }
            self.machines[at].watermark.cursor = seq;
        }
    }

    fn step(&mut self, handoffs: u32) {
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
                let (handoff, to, moves) = self.in_flight.swap_remove(n);
                self.database.give(handoff, Some(to), &moves);
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

    /// The database is as it was. Connections break, so nothing is in flight any more.
    fn restore(&mut self, n: usize) {
        self.database = self.backups[n].clone();
        self.in_flight.clear();
        for machine in &mut self.machines {
            // Every machine notices by its counter of heartbeats, and sends again what it had acknowledged.
            machine.watermark.cursor = 0;
            for local in machine.homes.values_mut() {
                *local = local.after_restore();
            }
            let sent = std::mem::take(&mut machine.sent);
            machine.outbox.splice(0..0, sent);
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
