use proptest::prelude::*;

use super::*;
use crate::handoff::{Header, Kind};

const HOUR: i64 = 3600;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_770_000_000 + second).unwrap()
}

fn session(n: u32) -> SessionId {
    SessionId::new(format!("{n:08x}-0000-4000-8000-000000000000")).unwrap()
}

fn agent(n: u32) -> AgentId {
    AgentId::new(format!("app-{n}")).unwrap()
}

fn process(n: u32) -> Process {
    Process { pid: 1000 + n, start: u64::from(n), boot: "boot".into() }
}

fn entry(n: u32, second: i64, for_agent: Option<AgentId>) -> Entry {
    let created_at = at(second);
    let header = Header {
        id: HandoffId::mint(created_at, &session(n), n),
        session: session(n),
        channel: ChannelName::new("app").unwrap(),
        created: created_at,
        kind: Kind::Auto,
        working_dir: "/p".into(),
        for_agent,
        for_session: None,
    };
    Entry::active(&header, 1)
}

struct Setting {
    second: i64,
    alive: Vec<Process>,
    wanted: Vec<HandoffId>,
    private: Vec<HandoffId>,
}

impl Setting {
    fn at(second: i64) -> Self {
        Self { second, alive: (0..50).map(process).collect(), wanted: Vec::new(), private: Vec::new() }
    }

    fn with<T>(&self, act: impl FnOnce(&World<'_>) -> T) -> T {
        act(&World {
            now: at(self.second),
            expiry: SignedDuration::from_hours(2),
            alive: &|p| self.alive.contains(p),
            wanted: &|e| self.wanted.contains(&e.id),
            private: &|e| self.private.contains(&e.id),
        })
    }
}

fn manifest(channel: &str) -> Manifest {
    Manifest::empty(ChannelName::new(channel).unwrap())
}

fn who<'a>(
    session: &'a SessionId,
    agent: Option<&'a AgentId>,
    process: &'a Process,
    dir: &'a str,
) -> Claimant<'a> {
    Claimant { session, agent, process: Some(process), working_dir: dir, own_only: false }
}

#[test]
fn a_handoff_is_claimed_by_one_and_consumed_once() {
    let mut m = manifest("app");
    let now = Setting::at(0);
    now.with(|w| m.seal(entry(1, 0, None), w));
    let (s2, s3, p2, p3) = (session(2), session(3), process(2), process(3));
    let got = now.with(|w| m.claim(&who(&s2, None, &p2, "/p"), w)).unwrap();
    let refused = now.with(|w| m.claim(&who(&s3, None, &p3, "/p"), w)).unwrap_err();
    assert_eq!(refused, Refusal::Claimed(got.id.clone(), s2.clone()));
    assert!(m.consume(&got.id, &s3, 9, at(1)).is_none(), "a session that holds no claim consumed it");
    let ended = m.consume(&got.id, &s2, 1002, at(1)).unwrap();
    assert_eq!(
        (ended.status, ended.consumed_by_pid, ended.consumed_at, ended.consumed_by_session),
        (Status::Consumed, Some(1002), Some(at(1)), Some(s2.clone()))
    );
    assert!(m.consume(&got.id, &s2, 1002, at(2)).is_none(), "consumed twice");
    assert_eq!(now.with(|w| m.claim(&who(&s3, None, &p3, "/p"), w)).unwrap_err(), Refusal::Consumed(got.id));
}

#[test]
fn a_claim_of_a_session_that_died_or_ended_is_given_back() {
    let (s2, s3, p2, p3) = (session(2), session(3), process(2), process(3));
    let mut m = manifest("app");
    let mut now = Setting::at(0);
    now.with(|w| m.seal(entry(1, 0, None), w));
    now.with(|w| m.claim(&who(&s2, None, &p2, "/p"), w)).unwrap();
    now.alive.retain(|p| *p != p2);
    let got = now.with(|w| m.claim(&who(&s3, None, &p3, "/p"), w)).unwrap();
    assert!(!m.release(&got.id, &s2), "the dead session's claim is gone");
    assert!(m.release(&got.id, &s3));
    now.with(|w| m.claim(&who(&s2, None, &p2, "/p"), w)).unwrap();
}

#[test]
fn two_agents_that_rotate_at_the_same_instant_each_get_their_own() {
    let (a1, a2, s8, s9) = (agent(1), agent(2), session(8), session(9));
    let mut m = manifest("app");
    let mut now = Setting::at(0);
    let (first, second) = (entry(1, 0, Some(a1.clone())), entry(2, 0, Some(a2.clone())));
    now.wanted = vec![first.id.clone(), second.id.clone()];
    assert!(now.with(|w| m.seal(first.clone(), w)).is_empty());
    assert!(now.with(|w| m.seal(second.clone(), w)).is_empty());
    let p = process(8);
    let got1 = now.with(|w| m.claim(&who(&s8, Some(&a1), &p, "/p"), w)).unwrap();
    let got2 = now.with(|w| m.claim(&who(&s9, Some(&a2), &p, "/p"), w)).unwrap();
    assert_eq!((got1.id, got2.id), (first.id, second.id));
}

#[test]
fn nobody_else_takes_an_addressed_handoff_while_it_is_wanted() {
    let (a1, s9, p) = (agent(1), session(9), process(9));
    let mut m = manifest("app");
    let mut now = Setting::at(0);
    let sealed = entry(1, 0, Some(a1));
    now.wanted = vec![sealed.id.clone()];
    now.with(|w| m.seal(sealed.clone(), w));
    let refused = now.with(|w| m.claim(&who(&s9, None, &p, "/p"), w)).unwrap_err();
    assert_eq!(refused, Refusal::Addressed(sealed.id.clone(), "agent app-1".into()));
    now.wanted.clear();
    assert_eq!(now.with(|w| m.claim(&who(&s9, None, &p, "/p"), w)).unwrap().id, sealed.id);
}

#[test]
fn nobody_else_takes_what_an_agent_with_a_task_of_its_own_left_and_it_expires() {
    let (a1, s9, p) = (agent(1), session(9), process(9));
    let mut m = manifest("app");
    let mut now = Setting::at(0);
    let sealed = entry(1, 0, Some(a1.clone()));
    now.private = vec![sealed.id.clone()];
    now.with(|w| m.seal(sealed.clone(), w));
    let refused = now.with(|w| m.claim(&who(&s9, None, &p, "/p"), w)).unwrap_err();
    assert_eq!(refused, Refusal::Addressed(sealed.id.clone(), "agent app-1".into()));
    now.second = 3 * 3600;
    assert_eq!(now.with(|w| m.clone().sweep(w)).len(), 1, "nobody waits for it");
    now.second = 1;
    assert_eq!(now.with(|w| m.claim(&who(&s9, Some(&a1), &p, "/p"), w)).unwrap().id, sealed.id);
}

#[test]
fn a_handoff_expires_after_two_hours_unless_its_rotation_is_open() {
    let (s9, p) = (session(9), process(9));
    let mut m = manifest("app");
    let sealed = entry(1, 0, None);
    Setting::at(0).with(|w| m.seal(sealed.clone(), w));
    assert!(Setting::at(2 * HOUR).with(|w| m.offer(&who(&s9, None, &p, "/p"), w).is_ok()));
    let mut late = Setting::at(2 * HOUR + 1);
    assert_eq!(
        late.with(|w| m.offer(&who(&s9, None, &p, "/p"), w).cloned()).unwrap_err(),
        Refusal::Expired(sealed.id.clone())
    );
    late.wanted = vec![sealed.id.clone()];
    assert!(late.with(|w| m.sweep(w)).is_empty());
    late.wanted.clear();
    assert_eq!(late.with(|w| m.sweep(w)).len(), 1);
    assert_eq!(m.current.as_ref().unwrap().status, Status::Expired);
}

#[test]
fn a_clock_that_jumps_back_expires_nothing() {
    let (s9, p) = (session(9), process(9));
    let mut m = manifest("app");
    Setting::at(10 * HOUR).with(|w| m.seal(entry(1, 10 * HOUR, None), w));
    let before = Setting::at(0);
    assert!(before.with(|w| m.sweep(w)).is_empty());
    let a_little = Setting::at(9 * HOUR);
    assert!(a_little.with(|w| m.offer(&who(&s9, None, &p, "/p"), w).is_ok()));
}

#[test]
fn a_handoff_dated_far_in_the_future_is_mentioned_and_not_loaded() {
    let (s9, p) = (session(9), process(9));
    let mut m = manifest("app");
    Setting::at(0).with(|w| m.seal(entry(1, 10 * HOUR, None), w));
    let now = Setting::at(0);
    let refused = now.with(|w| m.offer(&who(&s9, None, &p, "/p"), w).cloned());
    assert!(matches!(refused, Err(Refusal::Expired(_))), "{refused:?}");
    assert_eq!(m.current.as_ref().unwrap().status, Status::Active, "it can still be loaded by name");
}

#[test]
fn an_addressed_handoff_ends_neither_one_for_anybody_nor_a_persons() {
    let (s9, p) = (session(9), process(9));
    let mut m = manifest("app");
    let now = Setting::at(0);
    let crash = Entry { kind: Kind::Crash, ..entry(1, 0, None) };
    let persons = Entry { kind: Kind::Manual, ..entry(2, 0, None) };
    let mut alive = Setting::at(0);
    alive.wanted = vec![entry(3, 0, Some(AgentId::new("ada").unwrap())).id];
    assert!(now.with(|w| m.seal(crash.clone(), w)).is_empty());
    let ended: Vec<_> = now.with(|w| m.seal(persons.clone(), w)).into_iter().map(|e| e.id).collect();
    assert_eq!(ended, [crash.id], "a newer one for anybody takes its place");
    assert!(alive.with(|w| m.seal(entry(3, 0, Some(AgentId::new("ada").unwrap())), w)).is_empty());
    assert!(alive.with(|w| m.seal(Entry { kind: Kind::Crash, ..entry(4, 0, None) }, w)).is_empty());
    let offered = alive.with(|w| m.offer(&who(&s9, None, &p, "/p"), w).cloned()).unwrap();
    assert_eq!(offered.id, entry(4, 0, None).id, "the newest for anybody");
    assert!(m.waiting.iter().any(|e| e.id == persons.id), "the person's still waits");
    let replaced = alive.with(|w| m.seal(Entry { kind: Kind::Manual, ..entry(5, 0, None) }, w));
    assert_eq!(replaced.len(), 2, "a person's takes the place of both: {replaced:?}");
}

#[test]
fn in_global_only_the_same_folder_loads() {
    let (s9, p) = (session(9), process(9));
    let mut m = manifest(GLOBAL);
    let now = Setting::at(0);
    now.with(|w| m.seal(entry(1, 0, None), w));
    assert!(matches!(
        now.with(|w| m.offer(&who(&s9, None, &p, "/elsewhere"), w).cloned()),
        Err(Refusal::OtherFolder(..))
    ));
    assert!(now.with(|w| m.offer(&who(&s9, None, &p, "/p"), w).is_ok()));
}

#[test]
fn fields_of_a_later_version_survive_a_change() {
    let text = r#"{"channel":"app","schema":7,"current":{"id":"HO-20260202-064530-c74cc080",
        "session_id":"c74cc080","created_at":"2026-02-02T06:45:30Z","created_by_pid":1,"working_dir":"/p",
        "type":"dream","status":"active","mood":{"a":[1]}}}"#;
    let mut m: Manifest = serde_json::from_str(text).unwrap();
    let id = m.current.as_ref().unwrap().id.clone();
    m.clear(&id, at(0)).unwrap();
    let back = serde_json::to_value(&m).unwrap();
    assert_eq!(back["schema"], 7);
    assert_eq!(back["current"]["mood"]["a"][0], 1);
    assert_eq!(back["current"]["type"], "dream");
}

#[derive(Debug, Clone)]
enum Act {
    Seal { who: u32, addressed: bool, wanted: bool },
    Claim(u32),
    Consume(u32),
    Release(u32),
    Clear,
    Kill(u32),
    Unwant,
    Reactivate,
    Pass(i64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..6u32, any::<bool>(), any::<bool>()).prop_map(|(who, addressed, wanted)| Act::Seal {
            who,
            addressed,
            wanted
        }),
        (0..6u32).prop_map(Act::Claim),
        (0..6u32).prop_map(Act::Consume),
        (0..6u32).prop_map(Act::Release),
        Just(Act::Clear),
        (0..6u32).prop_map(Act::Kill),
        Just(Act::Unwant),
        Just(Act::Reactivate),
        (-4000..9000i64).prop_map(Act::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Any sequence of seal, load, clear, expire and crash leaves a valid store; nothing is consumed twice;
    /// no handoff disappears without its end being reported.
    #[test]
    fn any_sequence_of_transitions_leaves_a_valid_manifest(acts in proptest::collection::vec(act(), 1..60)) {
        let mut m = manifest("app");
        let mut now = Setting::at(0);
        let mut sealed = Vec::new();
        let mut ended: std::collections::BTreeMap<HandoffId, Status> = std::collections::BTreeMap::new();
        let mut last_ended: Option<Entry> = None;
        let mut claims: std::collections::BTreeMap<u32, HandoffId> = std::collections::BTreeMap::new();
        for (n, act) in acts.into_iter().enumerate() {
            let mut gone = Vec::new();
            match act {
                Act::Seal { who, addressed, wanted } => {
                    let n = u32::try_from(n).unwrap();
                    let e = entry(100 + n, now.second, addressed.then(|| agent(who)));
                    if wanted { now.wanted.push(e.id.clone()); }
                    sealed.push(e.id.clone());
                    gone = now.with(|w| m.seal(e, w));
                }
                Act::Claim(n) => {
                    let (s, a, p) = (session(n), agent(n), process(n));
                    if let Ok(e) = now.with(|w| m.claim(&who(&s, Some(&a), &p, "/p"), w)) {
                        prop_assert_eq!(e.status, Status::Active);
                        claims.insert(n, e.id);
                    }
                }
                Act::Consume(n) => if let Some(id) = claims.get(&n) {
                    gone.extend(m.consume(id, &session(n), 1, at(now.second)));
                },
                Act::Release(n) => if let Some(id) = claims.remove(&n) {
                    m.release(&id, &session(n));
                },
                Act::Clear => if let Some(id) = m.current.as_ref().map(|e| e.id.clone()) {
                    gone.extend(m.clear(&id, at(now.second)));
                },
                Act::Kill(n) => { now.alive.retain(|p| *p != process(n)); }
                Act::Unwant => { now.wanted.pop(); }
                Act::Reactivate => if let Some(e) = last_ended.take() {
                    ended.remove(&e.id);
                    gone = now.with(|w| m.reactivate(e, w));
                },
                Act::Pass(d) => { now.second += d; gone = now.with(|w| m.sweep(w)); }
            }
            for e in gone {
                prop_assert!(e.status != Status::Active);
                prop_assert!(ended.insert(e.id.clone(), e.status).is_none(), "{} ended twice", e.id);
                last_ended = Some(e);
            }
            m.check(&ChannelName::new("app").unwrap()).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert!(m.entries().filter(|e| e.status == Status::Active && !e.is_addressed()).count() <= 1);
            for id in &sealed {
                let live = m.find(id).is_some_and(|e| e.status == Status::Active);
                prop_assert!(live != ended.contains_key(id), "{} neither lives nor has ended, or both", id);
            }
        }
    }
}
