use proptest::prelude::*;

use super::*;
use crate::level::Thresholds;
use crate::reading::{Reading, ReadingSource};
use crate::wire::claude::{EVENTS, parse_hook};

fn reading(percentage: u64) -> Reading {
    let at = jiff::Timestamp::UNIX_EPOCH;
    Reading {
        tokens: percentage * 2_000,
        output: 0,
        window: 200_000,
        base: 0,
        at,
        source: ReadingSource::StatusLine,
    }
}

fn level(latches: Latches, percentage: u64) -> Level {
    latches.level(Some(&reading(percentage)), &Thresholds::default().limits(200_000, 167_000))
}

fn hear(latches: &mut Latches, percentage: u64) -> Option<Say> {
    let (next, say) = latches.at_level(level(*latches, percentage), Voice::default());
    *latches = next;
    say
}

fn stop(latches: &mut Latches, percentage: u64, hook_active: bool, rotatable: bool) -> AtStop {
    let (next, act) = latches.at_stop(
        level(*latches, percentage),
        Voice::default(),
        StopContext { hook_active, rotatable },
    );
    *latches = next;
    act
}

#[test]
fn warning_and_request_are_each_said_once_in_a_cycle() {
    let mut l = Latches::default();
    let heard: Vec<_> = [40, 52, 55, 67, 70, 67].iter().map(|&p| hear(&mut l, p)).collect();
    assert_eq!(heard, [None, Some(Say::Advisory), None, Some(Say::Request), None, None]);
}

#[test]
fn flags_not_reset_by_used_pct_below_warning_pct() {
    let mut l = Latches::default();
    assert_eq!(hear(&mut l, 52), Some(Say::Advisory));
    assert_eq!(hear(&mut l, 20), None);
    assert_eq!(hear(&mut l, 52), None, "a falling reading re-armed the warning");
    assert_eq!(hear(&mut l, 67), Some(Say::Request));
    assert_eq!(hear(&mut l, 20), None);
    assert_eq!(hear(&mut l, 67), None, "a falling reading re-armed the request");
}

#[test]
fn flags_reset_by_precompact_even_if_the_context_stays_above_the_warning_line() {
    let mut l = Latches::default();
    assert_eq!(hear(&mut l, 67), Some(Say::Request));
    l = l.rearm(Rearm::PreCompact, Some(&reading(67)));
    assert_eq!(hear(&mut l, 55), Some(Say::Advisory));
    assert_eq!(hear(&mut l, 68), Some(Say::Request));
}

#[test]
fn figures_shown_again_after_a_compaction_are_not_heard_as_new() {
    let mut l = Latches::default();
    assert_eq!(hear(&mut l, 67), Some(Say::Request));
    l = l.rearm(Rearm::PreCompact, Some(&reading(80)));
    assert_eq!(hear(&mut l, 80), None, "the status line still shows what was there before");
    assert_eq!(stop(&mut l, 80, false, true), AtStop::Nothing);
    assert_eq!(l.level(None, &Thresholds::default().limits(200_000, 167_000)), Level::Ok);
    assert_eq!(hear(&mut l, 67), Some(Say::Request));
}

#[test]
fn flags_reset_by_a_completed_rotation_and_by_clear() {
    for cause in [Rearm::Rotation, Rearm::Clear] {
        let mut l = Latches::default();
        assert_eq!(hear(&mut l, 67), Some(Say::Request));
        l = l.handed_off().rearm(cause, None);
        assert_eq!((l.cycle, hear(&mut l, 52)), (1, Some(Say::Advisory)));
    }
}

#[test]
fn critical_without_a_warning_sends_only_the_critical_text() {
    let mut l = Latches::default();
    assert_eq!(hear(&mut l, 67), Some(Say::Request));
    assert_eq!(hear(&mut l, 52), None, "the swallowed warning came after all");
}

#[test]
fn only_precompact_and_clear_among_the_events_begin_a_cycle() {
    let rearm = |json: &str| {
        let json = json.replacen('{', r#"{"session_id":"s","#, 1);
        Rearm::by(&HookEvent::try_from(parse_hook(json.as_bytes()).unwrap()).unwrap())
    };
    assert_eq!(rearm(r#"{"hook_event_name":"SessionStart","source":"clear"}"#), Some(Rearm::Clear));
    assert_eq!(rearm(r#"{"hook_event_name":"PreCompact","trigger":"auto"}"#), Some(Rearm::PreCompact));
    assert_eq!(rearm(r#"{"hook_event_name":"PreCompact","trigger":"manual"}"#), Some(Rearm::PreCompact));
    assert_eq!(rearm(r#"{"hook_event_name":"PreCompact","trigger":"auto","agent_id":"a1"}"#), None);
    for source in ["startup", "resume", "fork", "compact", "dream"] {
        assert_eq!(
            rearm(&format!(r#"{{"hook_event_name":"SessionStart","source":"{source}"}}"#)),
            None,
            "{source}"
        );
    }
    for event in EVENTS.into_iter().filter(|e| !matches!(*e, "PreCompact")) {
        assert_eq!(rearm(&format!(r#"{{"hook_event_name":"{event}","prompt":"/clear"}}"#)), None, "{event}");
    }
}

#[test]
fn a_critical_stop_is_blocked_once_and_then_sealed_once() {
    let mut l = Latches::default();
    assert_eq!(stop(&mut l, 67, false, true), AtStop::Ask { again: false });
    assert_eq!(hear(&mut l, 68), None, "that was the request");
    assert_eq!(stop(&mut l, 68, true, true), AtStop::Seal { rotate: true });
    assert_eq!(stop(&mut l, 69, false, true), AtStop::Nothing);
}

#[test]
fn a_stop_is_never_blocked_while_a_stop_hook_is_active_or_nobody_could_rotate() {
    let mut l = Latches::default();
    assert_eq!(stop(&mut l, 67, true, true), AtStop::Nothing);
    assert_eq!(stop(&mut l, 67, false, false), AtStop::Nothing);
    assert_eq!(hear(&mut l, 67), Some(Say::Request));
    assert_eq!(stop(&mut l, 67, false, false), AtStop::Seal { rotate: false });
}

#[test]
fn below_critical_or_after_a_handoff_a_stop_is_a_stop() {
    let mut l = Latches::default();
    assert_eq!(stop(&mut l, 60, false, true), AtStop::Nothing);
    l = l.handed_off();
    assert_eq!(stop(&mut l, 67, false, true), AtStop::Nothing);
    assert_eq!(hear(&mut l, 67), None);
}

#[test]
fn a_disabled_nudge_is_not_sent_and_takes_no_latch() {
    let quiet = Voice { advise: false, ..Voice::default() };
    let (l, say) = Latches::default().at_level(Level::Warn, quiet);
    assert_eq!((l, say), (Latches::default(), None));
    let mute = Voice { advise: false, request: false, block_stop: false };
    assert_eq!(l.at_level(Level::Critical, mute), (Latches::default(), None));
    let stop = StopContext { hook_active: false, rotatable: true };
    assert_eq!(l.at_stop(Level::Critical, mute, stop), (Latches::default(), AtStop::Nothing));
}

#[test]
fn latches_survive_a_restart_and_records_of_other_versions() {
    let (l, _) = Latches::default().at_level(Level::Critical, Voice::default());
    let json = serde_json::to_string(&l).unwrap();
    assert_eq!(serde_json::from_str::<Latches>(&json).unwrap(), l);
    let later: Latches = serde_json::from_str(r#"{"warned":true,"sung":true}"#).unwrap();
    assert!(later.warned && !later.critical_said);
}

#[derive(Debug, Clone)]
enum LatchEvent {
    Read(u64),
    Stop { percentage: u64, hook_active: bool, rotatable: bool },
    HandOff,
    Rearm(Rearm),
}

fn step() -> impl Strategy<Value = LatchEvent> {
    prop_oneof![
        6 => (0u64..110).prop_map(LatchEvent::Read),
        3 => (0u64..110, any::<bool>(), any::<bool>())
            .prop_map(|(percentage, hook_active, rotatable)| LatchEvent::Stop { percentage, hook_active, rotatable }),
        1 => Just(LatchEvent::HandOff),
        1 => prop_oneof![Just(Rearm::PreCompact), Just(Rearm::Clear), Just(Rearm::Rotation)].prop_map(LatchEvent::Rearm),
    ]
}

proptest! {
    /// Under any sequence: each of the four at most once per cycle, no advice after the request, no block against the
    /// rules, and no request to an agent that has handed off.
    #[test]
    fn each_nudge_is_sent_at_most_once_per_cycle(steps in proptest::collection::vec(step(), 0..200)) {
        let mut l = Latches::default();
        let (mut advised, mut requested, mut blocked, mut sealed, mut handed) = (0, 0, 0, 0, false);
        for step in steps {
            match step {
                LatchEvent::Read(p) => match hear(&mut l, p) {
                    Some(Say::Advisory) => { prop_assert_eq!(requested + blocked, 0); prop_assert!(!handed); advised += 1; }
                    Some(Say::Request) => { prop_assert!(p >= 65 && blocked == 0 && !handed); requested += 1; }
                    None => {}
                },
                LatchEvent::Stop { percentage, hook_active, rotatable } => match stop(&mut l, percentage, hook_active, rotatable) {
                    AtStop::Nothing => {}
                    AtStop::Ask { again } => { prop_assert_eq!(again, requested > 0); prop_assert!(percentage >= 65 && !hook_active && rotatable && !handed); blocked += 1; }
                    AtStop::Seal { rotate } => {
                        prop_assert!(requested + blocked > 0 && !handed, "sealed without having asked");
                        prop_assert_eq!(rotate, rotatable);
                        sealed += 1;
                    }
                },
                LatchEvent::HandOff => { l = l.handed_off(); handed = true; }
                LatchEvent::Rearm(cause) => {
                    l = l.rearm(cause, None);
                    (advised, requested, blocked, sealed, handed) = (0, 0, 0, 0, false);
                }
            }
            prop_assert!(advised <= 1 && requested <= 1 && blocked <= 1 && sealed <= 1);
        }
    }
}
