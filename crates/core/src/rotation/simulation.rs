//! Simulates a client under `baton run`, without a mod. Its turns end with Stop, with an API error, at a usage limit,
//! by Esc or by an abort; Esc may also take a prompt back before its turn begins. Handoffs are pending when a turn ends, or scheduled while none runs. Messages, urgent ones
//! too, come while one is pending. The disk is full at times. Supervisor, client and sealers are killed between any two
//! steps. The supervisor looks only when it is woken or has planned to, never by accident.

use super::tests::{process, rotation};
use super::*;
use crate::pending::{LEASE, Pending, TRIES};
use crate::session::Turn;
use jiff::SignedDuration;

/// How a turn ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Stop,
    Error,
    Limit,
    Esc,
    /// A person, or an urgent message, ended it and began the next at once.
    Abort,
}

/// Past or possible bugs. Put back in, the simulation must find each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    /// Only Stop sealed a pending handoff.
    OnlyStopSeals,
    /// Nobody retried a handoff that could not be sealed at the end of a turn.
    NobodyTriesAgain,
    /// The supervisor did not come back when a limit ended.
    LimitIsForgotten,
    /// A rotation began without a record.
    NothingIsJournaled,
    /// Urgent messages ended turns of agents that had handed over.
    AbortsWhilePending,
    /// A prompt that Esc had taken back counted as a turn, whose end never came.
    WaitsForATurnThatNeverBegan,
}

/// How long the transcript shows nothing of a turn before its prompt counts as taken back.
const UNTOLD: SignedDuration = SignedDuration::from_secs(30);

struct Supervisor {
    current: Option<Rotation>,
    /// Events that it caused and has not processed yet.
    events: std::collections::VecDeque<Event>,
    killed: bool,
    look_at: Option<Timestamp>,
}

struct World {
    rng: u64,
    now: Timestamp,
    faults: bool,
    bug: Option<Bug>,
    /// Running clients: the pid, and whether it started after the handoff.
    clients: Vec<(u32, bool)>,
    next_pid: u32,
    in_turn: bool,
    /// The turn in the session's record, and since when.
    recorded: (Turn, Timestamp),
    notified: bool,
    /// Esc took the last prompt back: its hook has run, and no turn has begun.
    taken_back: bool,
    pending: Option<(Timestamp, u32)>,
    sealing: Option<Timestamp>,
    full: bool,
    given_up: bool,
    request: bool,
    sealed: u32,
    loads: u32,
    limit: Option<Timestamp>,
    mail: u32,
    /// A message was delivered into a turn of an agent that had already handed over.
    misplaced: bool,
    journal: Option<Rotation>,
    supervisor: Option<Supervisor>,
    woken: bool,
    told: bool,
    /// A sealed handoff whose rotation was given up; it waits for the agent's next start.
    left: bool,
    wrong: Option<&'static str>,
}

impl World {
    fn new(seed: u64, bug: Option<Bug>) -> Self {
        Self {
            rng: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            now: Timestamp::UNIX_EPOCH,
            faults: true,
            bug,
            clients: vec![(2, false)],
            next_pid: 10,
            in_turn: true,
            recorded: (Turn::Working, Timestamp::UNIX_EPOCH),
            notified: false,
            taken_back: false,
            pending: None,
            sealing: None,
            full: false,
            given_up: false,
            request: false,
            sealed: 0,
            loads: 0,
            limit: None,
            mail: 0,
            misplaced: false,
            journal: None,
            supervisor: Some(Supervisor::new()),
            woken: true,
            told: false,
            left: false,
            wrong: None,
        }
    }

    fn random(&mut self, n: u64) -> u64 {
        crate::chance::below(&mut self.rng, n)
    }

    fn fails(&mut self, n: u64) -> bool {
        self.random(n) == 0 && self.faults
    }

    fn lives(&self) -> bool {
        !self.clients.is_empty()
    }

    fn begin_turn(&mut self) {
        (self.in_turn, self.notified, self.limit) = (true, false, None);
        self.taken_back = false;
        if !self.fails(30) {
            self.recorded = (Turn::Working, self.now);
        }
        // The prompt's hook delivers waiting mail.
        if self.pending.is_none() {
            self.mail = 0;
        }
    }

    /// A person submits a prompt and takes it back at once. The client reports nothing, and never that it is idle.
    fn take_back(&mut self) {
        (self.notified, self.taken_back) = (true, true);
        if !self.fails(30) {
            (self.recorded, self.limit) = ((Turn::Working, self.now), None);
        }
    }

    /// Whoever looks at the record of such a turn ends it.
    fn end_untold(&mut self) {
        let is_old = self.now.duration_since(self.recorded.1) >= UNTOLD;
        let is_untold = self.taken_back && self.recorded.0 == Turn::Working && is_old;
        if is_untold && self.bug != Some(Bug::WaitsForATurnThatNeverBegan) {
            (self.recorded, self.taken_back) = ((Turn::Idle, self.now), false);
        }
    }

    fn end_turn(&mut self, end: End) {
        self.in_turn = false;
        match end {
            // No hook fires.
            End::Esc => {}
            End::Abort => self.begin_turn(),
            // The hook is killed.
            _ if self.fails(8) => {}
            _ => {
                let turn = if end == End::Limit { Turn::Limit } else { Turn::Idle };
                self.recorded = (turn, self.now);
                if end == End::Limit {
                    self.limit = Some(self.now + SignedDuration::from_mins(5));
                    self.woken = true;
                }
                if end == End::Stop || self.bug != Some(Bug::OnlyStopSeals) {
                    self.seal();
                }
            }
        }
    }

    /// An urgent message arrives. It interrupts the turn if it can be delivered then, by the same rule as the real
    /// interrupters.
    fn hear_urgent(&mut self) {
        self.mail += 1;
        let is_held = self.pending.is_some() && Pending::of(self.recorded.0, false).holds_mail();
        let is_held = is_held && self.bug != Some(Bug::AbortsWhilePending);
        if self.in_turn && self.recorded.0 == Turn::Working && !is_held {
            self.misplaced |= self.pending.is_some();
            self.end_turn(End::Abort);
        }
    }

    fn is_due(&self) -> bool {
        self.pending.is_some() && Pending::of(self.recorded.0, false) == Pending::Due
    }

    /// Seals a due handoff; the sealing process may be killed meanwhile. A failure wakes those that retry.
    fn seal(&mut self) {
        let is_taken = self.sealing.is_some_and(|at| self.now.duration_since(at) < LEASE);
        let Some((at, tries)) = self.pending.filter(|_| self.is_due() && !is_taken) else { return };
        if self.fails(12) {
            self.sealing = Some(self.now);
            return;
        }
        self.sealing = None;
        if self.full {
            self.pending = Some((at, tries + 1)).filter(|_| tries < TRIES);
            self.given_up |= self.pending.is_none();
            self.woken |= self.bug != Some(Bug::NobodyTriesAgain);
            return;
        }
        (self.pending, self.request, self.woken) = (None, true, true);
        self.sealed += 1;
    }

    /// Hands over a document, in a turn or by a command while none runs. Follows one rotation only.
    fn hand_over(&mut self) {
        if self.pending.is_some() || self.request || self.sealed > 0 || self.given_up {
            return;
        }
        self.pending = Some((self.now, 0));
        // The supervisor watches for the copy's file.
        self.woken = true;
        if !self.in_turn && !self.fails(3) {
            self.seal();
        }
    }

    fn notify_idle(&mut self) {
        let idle = self.now.duration_since(self.recorded.1) >= SignedDuration::from_secs(60);
        if !self.lives() || self.in_turn || self.notified || !idle {
            return;
        }
        self.notified = true;
        if self.recorded.0 != Turn::Limit {
            self.recorded = (Turn::Idle, self.now);
        }
        if self.bug != Some(Bug::OnlyStopSeals) {
            self.seal();
        }
    }

    /// The supervisor looks at the files.
    fn look(&mut self) {
        let Some(mut supervisor) = self.supervisor.take() else { return };
        (self.woken, supervisor.look_at) = (false, None);
        self.end_untold();
        if let Some(limit) = self.limit {
            if limit > self.now {
                supervisor.look_at = Some(limit).filter(|_| self.bug != Some(Bug::LimitIsForgotten));
            } else if self.lives() {
                // The same conversation is restarted, with a prompt.
                self.begin_turn();
            }
        }
        let carries_out = !matches!(self.bug, Some(Bug::OnlyStopSeals | Bug::NobodyTriesAgain));
        if self.pending.is_some() && !self.is_due() && carries_out {
            let again = self.now + SignedDuration::from_secs(10);
            supervisor.look_at = Some(supervisor.look_at.map_or(again, |at| at.min(again)));
        }
        if let Some((at, tries)) = self.pending.filter(|_| self.is_due() && carries_out) {
            let due = at + SignedDuration::from_secs(3) * (1 << tries.min(TRIES));
            let due = self.sealing.map_or(due, |sealing| due.max(sealing + LEASE));
            if due <= self.now {
                self.seal();
            }
            let again = self.now + SignedDuration::from_secs(1);
            supervisor.look_at = Some(supervisor.look_at.map_or(due.max(again), |at| at.min(due.max(again))));
        }
        // A fresh context would hit the limit too.
        let is_parked = self.limit.is_some_and(|limit| limit > self.now);
        if self.request && supervisor.current.is_none() && self.lives() && !is_parked {
            for (_, is_new) in &mut self.clients {
                *is_new = false;
            }
            let (begun, effects) = rotation().begin();
            self.carry_out(supervisor, begun, effects);
            return;
        }
        self.supervisor = Some(supervisor);
    }

    /// The supervisor processes the next event that it caused.
    fn advance(&mut self) {
        let Some(mut supervisor) = self.supervisor.take() else { return };
        let Some(event) = supervisor.events.pop_front() else {
            self.supervisor = Some(supervisor);
            return;
        };
        let Some(current) = supervisor.current.take() else { return };
        let was_kill = matches!((&event, current.step), (Event::Deadline, Step::Stopping));
        let (next, effects) = current.next(event, supervisor.killed);
        supervisor.killed |= was_kill;
        self.carry_out(supervisor, next, effects);
    }

    /// Carries out each effect in order; the supervisor may be killed before any of them.
    fn carry_out(&mut self, mut supervisor: Supervisor, rotation: Rotation, effects: Vec<Effect>) {
        for effect in effects {
            if self.fails(20) {
                return;
            }
            // After a crash the record must tell what was done.
            let is_step = matches!(effect, Effect::Terminate | Effect::Kill | Effect::Start);
            if is_step && !self.journal.as_ref().is_some_and(|r| r.step.is_open()) {
                self.wrong = self.wrong.or(Some("a step was taken before it was recorded"));
            }
            match effect {
                Effect::Record if self.bug == Some(Bug::NothingIsJournaled) => {}
                Effect::Record => self.journal = Some(rotation.clone()),
                Effect::Terminate | Effect::Kill => {
                    if self.fails(6) {
                        supervisor.events.push_back(Event::Deadline);
                    } else {
                        self.clients.retain(|(_, is_new)| *is_new);
                        self.in_turn = false;
                        supervisor.events.push_back(Event::Stopped);
                    }
                }
                Effect::RestoreTerminal => {}
                Effect::Start if self.fails(10) => {
                    supervisor.events.push_back(Event::CouldNotStart("gone".into()));
                }
                Effect::Start => {
                    self.next_pid += 1;
                    self.clients.push((self.next_pid, true));
                    supervisor.events.push_back(Event::Started(process(self.next_pid)));
                }
                Effect::AwaitLoad => {
                    if self.fails(8) {
                        supervisor.events.push_back(Event::Deadline);
                    } else if self.fails(8) || !self.lives() {
                        self.clients.clear();
                        supervisor.events.push_back(Event::NewExited);
                    } else {
                        let waits = std::mem::take(&mut self.request) | std::mem::take(&mut self.left);
                        self.loads += u32::from(waits);
                        supervisor.events.push_back(Event::Loaded(rotation.handoff.clone()));
                        self.begin_turn();
                    }
                }
                Effect::Over(line) => {
                    // A rotation that was given up is no longer requested, and the user is notified.
                    let given_up = line.is_some();
                    self.told |= given_up;
                    self.left |= given_up && std::mem::take(&mut self.request);
                }
            }
        }
        supervisor.current = Some(rotation);
        self.supervisor = Some(supervisor);
    }

    /// `baton run` again, or `baton restore`: finishes or gives up open rotations, and starts a dead client.
    fn start_supervisor(&mut self) {
        let mut supervisor = Supervisor::new();
        self.woken = true;
        let is_open = self.journal.as_ref().is_some_and(|r| r.step.is_open());
        // An earlier supervisor's request waits for the next start; a running client's record says so.
        if !is_open && self.supervisor.is_none() && self.lives() && std::mem::take(&mut self.request) {
            (self.left, self.told) = (true, true);
        }
        if let Some(open) = self.journal.clone().filter(|r| r.step.is_open()) {
            let facts = RecoveryFacts {
                old_alive: self.clients.iter().any(|(_, is_new)| !is_new),
                new_alive: self.clients.iter().any(|(_, is_new)| *is_new),
                loaded: self.loads > 0,
            };
            supervisor.events.push_back(Event::Found(facts));
            supervisor.current = Some(open);
            self.supervisor = Some(supervisor);
            return;
        }
        if !self.lives() {
            self.next_pid += 1;
            self.clients.push((self.next_pid, true));
            // A plain start loads what waits for the agent, including what the previous conversation left pending.
            if self.pending.is_some() && !self.full {
                (self.pending, self.request) = (None, true);
                self.sealed += 1;
            }
            let waits = std::mem::take(&mut self.request) | std::mem::take(&mut self.left);
            self.loads += u32::from(waits);
            (self.recorded, self.limit) = ((Turn::Idle, self.now), None);
            self.begin_turn();
        }
        self.supervisor = Some(supervisor);
    }

    fn supervise(&mut self) {
        let has_events = self.supervisor.as_ref().is_some_and(|s| !s.events.is_empty());
        let due = self.supervisor.as_ref().and_then(|s| s.look_at).is_some_and(|at| at <= self.now);
        if has_events {
            self.advance();
        } else if self.woken || due {
            self.look();
        }
    }

    fn happen(&mut self) {
        self.now += SignedDuration::from_millis(200);
        self.notify_idle();
        match self.random(20) {
            0..=6 => self.supervise(),
            7..=8 => {
                let seconds = if self.random(4) == 0 { 70 } else { 2 };
                self.now += SignedDuration::from_secs(seconds);
            }
            9..=11 if self.in_turn => {
                if self.random(2) == 0 {
                    self.hand_over();
                }
                let end = match self.random(12) {
                    0 => End::Error,
                    1 => End::Limit,
                    2 | 3 => End::Esc,
                    4 => End::Abort,
                    _ => End::Stop,
                };
                self.end_turn(end);
            }
            12 if self.lives() && !self.in_turn => self.begin_turn(),
            13 if self.lives() && !self.in_turn && self.limit.is_none() => self.hand_over(),
            14 => self.mail += 1,
            17 => self.hear_urgent(),
            18 if self.lives() && !self.in_turn && self.faults => self.take_back(),
            15 if self.faults => match self.random(4) {
                0 => self.supervisor = None,
                1 => {
                    (self.in_turn, self.limit) = (false, None);
                    self.clients.clear();
                }
                _ => self.full = !self.full,
            },
            16 if self.supervisor.is_none() => self.start_supervisor(),
            _ => {}
        }
    }

    /// Checks that everything that waits can either proceed without a person or has notified one.
    fn explain(&mut self) {
        // The supervisor reports a dead client, and any observer a dead supervisor; a person restarts either.
        let Some(supervisor) = self.supervisor.as_ref().filter(|_| self.lives()) else { return };
        let acts = self.woken || !supervisor.events.is_empty();
        let looks = acts || supervisor.look_at.is_some();
        let over = supervisor.current.as_ref().is_some_and(|r| r.note.is_some());
        let explained = [
            (self.pending.is_some(), self.in_turn || looks || !self.notified),
            (self.request, looks || self.in_turn || over),
            (self.limit.is_some(), looks),
        ];
        if explained.iter().any(|(waits, is_explained)| *waits && !is_explained) {
            self.wrong = self.wrong.or(Some("something waits, nothing brings it about, and nobody is told"));
        }
    }

    fn calm_down(&mut self) {
        (self.faults, self.full) = (false, false);
        for _ in 0..700 {
            if self.supervisor.is_none() {
                self.start_supervisor();
            }
            if !self.lives() && self.supervisor.as_ref().is_some_and(|s| s.events.is_empty()) {
                self.start_supervisor();
            }
            if self.in_turn {
                self.end_turn(End::Stop);
            }
            self.supervise();
            self.explain();
            self.now += SignedDuration::from_secs(1);
            self.notify_idle();
        }
    }

    fn judge(&self) -> Result<(), &'static str> {
        let holds = |is: bool, what| if is { Ok(()) } else { Err(what) };
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        holds(!self.misplaced, "a turn was ended for a message that waits for the handoff")?;
        holds(self.loads <= 1, "loaded more than once")?;
        holds(self.loads <= self.sealed, "loaded what was never sealed")?;
        holds(self.clients.len() == 1, "not one client")?;
        holds(self.pending.is_none(), "a handoff is pending forever")?;
        holds(self.limit.is_none(), "an agent stands at a limit that has ended")?;
        holds(
            !self.request || self.told || self.journal.as_ref().is_some_and(|r| r.note.is_some()),
            "no word of a handoff that waits",
        )?;
        holds(self.journal.as_ref().is_none_or(|r| !r.step.is_open()), "left open")?;
        let failed = self.journal.as_ref().filter(|r| r.step == Step::Failed);
        holds(failed.is_none_or(|r| r.note.is_some()), "failed without a word")
    }
}

impl Supervisor {
    fn new() -> Self {
        Self { current: None, events: std::collections::VecDeque::new(), killed: false, look_at: None }
    }
}

fn play(seed: u64, bug: Option<Bug>) -> World {
    let mut world = World::new(seed, bug);
    for _ in 0..80 {
        world.happen();
        world.explain();
    }
    world.calm_down();
    world
}

#[test]
fn a_hundred_thousand_supervised_agents_leave_nothing_waiting_without_a_word() {
    let (mut rotated, mut waits) = (0, 0);
    for seed in 1..=100_000u64 {
        let world = play(seed, None);
        if let Err(wrong) = world.judge() {
            panic!(
                "seed {seed}: {wrong}: pending {:?}, request {}, limit {:?}, turn {} ({:?}), notified {}, {:?}",
                world.pending,
                world.request,
                world.limit,
                world.in_turn,
                world.recorded,
                world.notified,
                world.journal
            );
        }
        rotated += u32::from(world.loads == 1);
        waits += u32::from(world.left);
    }
    assert!(rotated > 20_000 && waits > 100, "{rotated} rotated, {waits} wait");
}

#[test]
fn each_of_the_old_bugs_is_found_when_it_is_put_back() {
    let bugs = [
        Bug::OnlyStopSeals,
        Bug::NobodyTriesAgain,
        Bug::LimitIsForgotten,
        Bug::NothingIsJournaled,
        Bug::AbortsWhilePending,
        Bug::WaitsForATurnThatNeverBegan,
    ];
    for bug in bugs {
        let found = (1..=20_000u64).find(|seed| play(*seed, Some(bug)).judge().is_err());
        assert!(found.is_some(), "{bug:?} goes unnoticed");
    }
}
