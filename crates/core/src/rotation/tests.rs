// Random choices put the rare case and the usual one side by side.
#![allow(clippy::single_match_else)]

use super::*;

pub(super) fn process(pid: u32) -> Process {
    Process { pid, start: 1, boot: "b".into() }
}

pub(super) fn rotation() -> Rotation {
    Rotation {
        id: "R-1".into(),
        agent: AgentId::new("app-1").unwrap(),
        handoff: HandoffId::new("HO-20260202-064530-c74cc080").unwrap(),
        from: SessionId::new("s1").unwrap(),
        by: "the agent".into(),
        actuator: Actuator::Restart,
        step: Step::Stopping,
        at: Timestamp::UNIX_EPOCH,
        supervisor: process(1),
        old: Some(process(2)),
        new: None,
        note: None,
        file: None,
        thread: None,
        unknown: Map::new(),
    }
}

#[test]
fn the_usual_way_is_stop_start_load() {
    let (r, effects) = rotation().begin();
    assert_eq!(effects, [Effect::Record, Effect::Terminate]);
    let (r, effects) = r.next(Event::Stopped, false);
    assert_eq!(effects, [Effect::Record, Effect::RestoreTerminal, Effect::Start]);
    let (r, effects) = r.next(Event::Started(process(3)), false);
    assert_eq!(effects, [Effect::Record, Effect::AwaitLoad]);
    let handoff = r.handoff.clone();
    let (r, effects) = r.next(Event::Loaded(handoff), false);
    assert_eq!((r.step, effects), (Step::Done, vec![Effect::Record, Effect::Over(None)]));
}

#[test]
fn an_agent_that_ignores_sigterm_is_killed_and_one_that_survives_that_is_left_alone() {
    let (r, effects) = rotation().begin().0.next(Event::Deadline, false);
    assert_eq!(effects, [Effect::Kill]);
    let (r, effects) = r.next(Event::Deadline, true);
    assert_eq!(r.step, Step::Failed);
    assert!(matches!(&effects[1], Effect::Over(Some(line)) if line.contains("continues as it was")));
}

#[test]
fn a_load_of_another_handoff_confirms_nothing() {
    let r = rotation().begin().0.next(Event::Stopped, false).0.next(Event::Started(process(3)), false).0;
    let other = HandoffId::new("HO-20260202-064530-other").unwrap();
    let (r, effects) = r.next(Event::Loaded(other), false);
    assert_eq!((r.step, effects.len()), (Step::Started, 0));
}

#[test]
fn the_limits_say_why() {
    assert_eq!(permitted(9, 10, Some(5)), Ok(()));
    assert_eq!(permitted(10, 10, Some(5)), Err(RotationRefusal::TooMany(10)));
    assert_eq!(permitted(0, 10, Some(0)), Err(RotationRefusal::NoGrowth));
}

/// A world in which processes run, handoffs are loaded, and anything may die between any two steps.
struct World {
    rng: u64,
    recorded: Rotation,
    /// The agent's running processes: the pid, and whether it is the new one.
    running: Vec<(u32, bool)>,
    loads: u32,
    next_pid: u32,
    told: bool,
}

impl World {
    fn random(&mut self, n: u64) -> u64 {
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        self.rng % n
    }

    fn facts(&self) -> RecoveryFacts {
        RecoveryFacts {
            old_alive: self.running.iter().any(|(_, new)| !new),
            new_alive: self.running.iter().any(|(_, new)| *new),
            loaded: self.loads > 0,
        }
    }

    /// Carries out effects; `Err` if the supervisor was killed in between.
    fn carry_out(&mut self, rotation: &Rotation, effects: Vec<Effect>) -> Result<Vec<Event>, ()> {
        let mut events = Vec::new();
        for effect in effects {
            if self.random(20) == 0 {
                return Err(());
            }
            match effect {
                Effect::Record => self.recorded = rotation.clone(),
                Effect::Terminate => {
                    if self.random(4) == 0 {
                        events.push(Event::Deadline);
                    } else {
                        self.running.retain(|(_, new)| *new);
                        events.push(Event::Stopped);
                    }
                }
                Effect::Kill => {
                    if self.random(10) == 0 {
                        events.push(Event::Deadline);
                    } else {
                        self.running.retain(|(_, new)| *new);
                        events.push(Event::Stopped);
                    }
                }
                Effect::RestoreTerminal => {}
                Effect::Start => {
                    if self.random(10) == 0 {
                        events.push(Event::CouldNotStart("gone".into()));
                    } else {
                        self.next_pid += 1;
                        self.running.push((self.next_pid, true));
                        events.push(Event::Started(process(self.next_pid)));
                    }
                }
                Effect::AwaitLoad => match self.random(6) {
                    0 => events.push(Event::Deadline),
                    1 => {
                        self.running.retain(|(_, new)| !new);
                        events.push(Event::NewExited);
                    }
                    _ => {
                        // The store lets exactly one session consume it.
                        if self.loads == 0 {
                            self.loads += 1;
                        }
                        events.push(Event::Loaded(rotation.handoff.clone()));
                    }
                },
                Effect::Over(line) => self.told |= line.is_some(),
            }
        }
        Ok(events)
    }
}

/// Promise 8: a rotation ends in exactly one running agent with exactly one load, or in a visible failure that
/// leaves the agent as it was. Crashes of the supervisor and of the agent at every step.
#[test]
fn a_hundred_thousand_sagas_end_in_one_agent_with_one_load_or_in_a_visible_failure() {
    for seed in 1..=100_000u64 {
        let mut world = World {
            rng: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            recorded: rotation(),
            running: vec![(2, false)],
            loads: 0,
            next_pid: 10,
            told: false,
        };
        let (mut current, effects) = rotation().begin();
        let mut queue: std::collections::VecDeque<Event> = std::collections::VecDeque::new();
        let mut outcome = world.carry_out(&current, effects);
        let mut killed = false;
        for _ in 0..200 {
            if let Ok(events) = outcome {
                queue.extend(events);
            } else {
                // The supervisor died. A later one finds the record; the agent may have died meanwhile.
                queue.clear();
                killed = false;
                if world.random(3) == 0 {
                    world.running.clear();
                }
                current = world.recorded.clone();
                if !current.step.is_open() {
                    break;
                }
                queue.push_back(Event::Found(world.facts()));
            }
            let Some(event) = queue.pop_front() else { break };
            let was_kill = matches!((&event, current.step), (Event::Deadline, Step::Stopping));
            let (next, effects) = current.next(event, killed);
            killed |= was_kill;
            current = next;
            outcome = world.carry_out(&current, effects);
        }
        assert!(!current.step.is_open(), "seed {seed}: left open at {:?}", current.step);
        assert!(world.loads <= 1, "seed {seed}: loaded {} times", world.loads);
        assert!(world.running.len() <= 1, "seed {seed}: {:?} run", world.running);
        match current.step {
            Step::Done => assert_eq!(world.loads, 1, "seed {seed}: done without a load"),
            _ => assert!(current.note.is_some(), "seed {seed}: failed without a word"),
        }
    }
}
