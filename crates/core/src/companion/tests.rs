use proptest::prelude::*;

use super::*;
use crate::ids::SessionId;

fn id(n: u8) -> HandoffId {
    HandoffId::new(format!("HO-20261116-0400{:02}-a1b2c3d4", n % 60)).unwrap()
}

fn request(n: u8) -> RotationRequest {
    RotationRequest {
        at: Timestamp::UNIX_EPOCH,
        handoff: id(n),
        session: SessionId::new("s1").unwrap(),
        by: "the agent".into(),
        path: None,
        wait_for_idle: false,
        at_once: false,
    }
}

/// Where nothing is asked for, the context has its handoff.
fn looked(request: Option<RotationRequest>, mail: usize) -> Input {
    let continues = request.is_none().then(|| id(1));
    Input::Looked(Look { request, continues, mail, ..Look::default() })
}

fn urgent(id: &str) -> Input {
    Input::Looked(Look { mail: 1, urgent: Some(id.into()), ..Look::default() })
}

/// Feeds inputs one second apart, starting at the epoch, and returns the orders for each.
fn play(inputs: Vec<Input>) -> Vec<Vec<Order>> {
    let mut state = State::default();
    let mut now = Timestamp::UNIX_EPOCH;
    inputs
        .into_iter()
        .map(|input| {
            let (next, orders) = std::mem::take(&mut state).next(input, now);
            state = next;
            now += SignedDuration::from_secs(1);
            orders
        })
        .collect()
}

const START: Input = Input::Started { interactive: true, working: false, interrupted_for: None };

#[test]
fn a_request_made_in_a_turn_is_carried_out_when_the_turn_ends_and_the_work_continues() {
    let orders = play(vec![
        START,
        Input::TurnBegan,
        looked(Some(request(1)), 0),
        Input::TurnEnded { aborted: false },
        looked(None, 0),
        Input::Done(1),
        Input::Done(2),
    ]);
    assert_eq!(orders[2], []);
    assert_eq!(orders[3], [Order::Begin(request(1)), Order::Clear(1)]);
    assert_eq!(orders[4], [], "the hook was faster than the answer");
    let go_on = Text::Continuation(id(1));
    assert_eq!(orders[5], [Order::Cleared, Order::Loaded(id(1)), Order::Submit(2, go_on.clone())]);
    assert_eq!(orders[6], [Order::Accepted(go_on)]);
}

#[test]
fn an_idle_agent_is_rotated_at_once_and_prompted_only_when_the_handoff_has_been_loaded() {
    let orders = play(vec![START, looked(Some(request(1)), 0), Input::Done(1), looked(None, 0)]);
    assert_eq!(orders[1], [Order::Begin(request(1)), Order::Clear(1)]);
    assert_eq!(orders[2], [Order::Cleared]);
    assert_eq!(orders[3], [Order::Loaded(id(1)), Order::Submit(2, Text::Continuation(id(1)))]);
}

#[test]
fn a_load_that_the_hooks_tell_of_is_enough_when_the_client_does_not_answer() {
    let mut inputs = vec![START, looked(Some(request(1)), 0), looked(None, 0)];
    inputs.extend(std::iter::repeat_n(Input::Tick, 10));
    let orders = play(inputs).concat();
    let go_on = Order::Submit(2, Text::Continuation(id(1)));
    assert_eq!(orders[2..], [Order::Cleared, Order::Loaded(id(1)), go_on]);
}

#[test]
fn a_request_of_the_conversation_before_is_left_to_the_hooks_that_load_it() {
    let look = |under_way| Input::Looked(Look { request: Some(request(1)), under_way, ..Look::default() });
    let orders = play(vec![START, look(Some(Timestamp::UNIX_EPOCH)), look(None)]);
    assert_eq!(orders[1..], [vec![], vec![Order::Begin(request(1)), Order::Clear(1)]]);
}

/// Regression: the hook of the fresh context met a full disk, and nobody ever prompted that context.
#[test]
fn a_fresh_context_whose_hooks_could_not_load_its_handoff_is_prompted_and_its_prompt_loads_it() {
    let unloaded = || {
        let (request, under_way) = (Some(request(1)), Some(Timestamp::UNIX_EPOCH));
        Input::Looked(Look { request, under_way, mail: 1, ..Look::default() })
    };
    let go_on = Text::Continuation(id(1));
    let mut inputs = vec![START, looked(Some(request(1)), 0), Input::Done(1), unloaded()];
    inputs.extend(std::iter::repeat_n(Input::Tick, 9));
    inputs.extend([Input::Done(2), looked(None, 1)]);
    let orders = play(inputs);
    assert_eq!(orders[3..12].concat(), [], "they are given their time");
    assert_eq!(orders[12], [Order::Submit(2, go_on.clone())]);
    assert_eq!(orders[13..], [vec![Order::Accepted(go_on.clone())], vec![Order::Loaded(id(1))]]);
    // The next companion finds it like that.
    let mut inputs = vec![START, unloaded()];
    inputs.extend(std::iter::repeat_n(Input::Tick, 9));
    let nobody_loads = Look { idle: Some(Timestamp::UNIX_EPOCH), ..Look::default() };
    inputs.extend([Input::Done(1), Input::Looked(nobody_loads)]);
    let orders = play(inputs);
    assert_eq!(orders[2..10].concat(), []);
    assert_eq!(orders[10], [Order::Begin(request(1)), Order::Cleared, Order::Submit(1, go_on.clone())]);
    assert_eq!(orders[11], [Order::Accepted(go_on)]);
    assert!(
        matches!(orders[12][..], [Order::GiveUp(_)]),
        "the prompt did not load it either: {:?}",
        orders[12]
    );
}

#[test]
fn a_companion_that_comes_into_a_running_turn_waits_for_its_end() {
    let inputs = vec![
        Input::Started { interactive: true, working: true, interrupted_for: None },
        looked(Some(request(1)), 1),
        Input::TurnEnded { aborted: false },
    ];
    assert_eq!(play(inputs)[..2].concat(), []);
}

#[test]
fn if_the_mods_report_of_a_turns_end_is_lost_the_hooks_report_counts() {
    let look = |idle: Option<i64>| {
        let idle = idle.map(|second| Timestamp::from_second(second).unwrap());
        Input::Looked(Look { mail: 1, idle, ..Look::default() })
    };
    let inputs = vec![START, Input::TurnBegan, look(None), look(Some(0)), look(Some(2)), look(Some(2))];
    let orders = play(inputs);
    // The hooks' reports from before the turn do not count, and the mod may be a moment later.
    assert_eq!(orders[2..], [vec![], vec![], vec![], vec![Order::Submit(1, Text::Mail)]]);
}

/// Regression: mail that arrived before the hooks' report was old enough waited for the next event, which never came.
#[test]
fn work_that_waits_for_the_end_of_a_turn_is_polled() {
    let now = Timestamp::from_second(100).unwrap();
    let state = State::default().next(START, now).0.next(Input::TurnBegan, now).0;
    let looked = |look| state.clone().next(Input::Looked(look), now).0.deadline();
    assert_eq!(looked(Look { idle: Some(now), ..Look::default() }), None, "nothing waits");
    assert_eq!(looked(Look { mail: 1, idle: Some(now), ..Look::default() }), Some(now + SETTLED));
    assert_eq!(looked(Look { mail: 1, ..Look::default() }), Some(now + POLL));
    assert_eq!(looked(Look { limit: Some(now), idle: Some(now), ..Look::default() }), Some(now + SETTLED));
}

#[test]
fn a_request_that_is_still_there_has_not_been_loaded() {
    let orders = play(vec![START, looked(Some(request(1)), 0), looked(Some(request(1)), 1), Input::Done(1)]);
    assert_eq!(orders[3], [Order::Cleared], "news of mail is no load");
}

#[test]
fn after_esc_rotation_and_mail_wait_for_the_next_prompt_of_the_person() {
    let orders = play(vec![
        START,
        Input::TurnBegan,
        Input::TurnEnded { aborted: true },
        looked(None, 1),
        Input::TurnBegan,
        Input::TurnEnded { aborted: false },
    ]);
    assert_eq!(orders[2], [Order::Braked(true)]);
    assert_eq!(orders[3], []);
    assert_eq!(orders[4], [Order::Braked(false)]);
    assert_eq!(orders[5], [Order::Submit(1, Text::Mail)]);
}

#[test]
fn what_the_client_drops_stays_queued_and_is_offered_after_the_next_turn() {
    let orders = play(vec![
        START,
        looked(None, 1),
        Input::Refused(1, "stopped".into()),
        looked(None, 1),
        Input::TurnBegan,
        Input::TurnEnded { aborted: false },
    ]);
    assert_eq!(orders[2], [Order::Back(Text::Mail), Order::Braked(true)]);
    assert_eq!(orders[3], []);
    assert_eq!(orders[5], [Order::Submit(2, Text::Mail)]);
}

#[test]
fn an_urgent_message_ends_the_turn_once_and_is_submitted_then() {
    let orders = play(vec![
        START,
        Input::TurnBegan,
        urgent("m1"),
        urgent("m1"),
        Input::Done(1),
        Input::TurnEnded { aborted: true },
        Input::Done(2),
    ]);
    assert_eq!(orders[2], [Order::Abort(1, "m1".into())]);
    assert_eq!(orders[3], []);
    assert_eq!(orders[4], [], "the turn has been told to end and has not ended");
    assert_eq!(orders[5], [Order::Submit(2, Text::Urgent("m1".into()))], "this was not the person's Esc");
    assert_eq!(orders[6], [Order::Accepted(Text::Urgent("m1".into()))]);
}

#[test]
fn orders_wait_for_the_mods_report_of_a_turn_that_the_hooks_saw_begin() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let untold = |began| {
        let look = Look { mail: 1, urgent: Some("m1".into()), ..Look::default() };
        Input::Looked(Look { began: Some(at(began)), ..look })
    };
    let orders = play(vec![START, untold(1), Input::TurnBegan]);
    assert_eq!(
        orders[1..],
        [vec![], vec![Order::Abort(1, "m1".into())]],
        "it would have stood behind the turn"
    );
    // No report comes: something else refused the prompt.
    let (state, orders) = State::default().next(START, at(0)).0.next(untold(1), at(1));
    assert_eq!((orders, state.deadline()), (vec![], Some(at(4))));
    let (state, orders) = state.next(Input::Tick, at(4));
    assert_eq!(orders, [Order::Submit(1, Text::Mail)]);
    assert_ne!(state.deadline(), Some(at(4)), "it does not come back at once, again and again");
    // The turn has ended since, whatever the hooks last saw; or the clock was set back.
    let over = vec![START, Input::TurnBegan, Input::TurnEnded { aborted: false }, untold(1)];
    assert_eq!(play(over)[3], [Order::Submit(1, Text::Mail)]);
    assert_eq!(play(vec![START, untold(60)])[1], [Order::Submit(1, Text::Mail)]);
}

#[test]
fn an_urgent_message_that_finds_no_turn_to_end_waits_like_any_other() {
    // The turn ended before the order arrived.
    let orders = play(vec![
        START,
        Input::TurnBegan,
        urgent("m1"),
        Input::TurnEnded { aborted: false },
        Input::Refused(1, "no turn is running".into()),
    ]);
    assert_eq!(orders[3], [Order::Submit(2, Text::Mail)]);
    assert_eq!(orders[4], []);
    // The client refused: never try again for this message. The hook of the next prompt delivers it.
    let orders = play(vec![
        START,
        Input::TurnBegan,
        urgent("m1"),
        Input::Refused(1, "already ending".into()),
        urgent("m1"),
        Input::TurnBegan,
        urgent("m2"),
    ]);
    assert_eq!(orders[3..], [vec![], vec![], vec![], vec![Order::Abort(2, "m2".into())]]);
    // Without an answer, the order times out.
    let mut inputs = vec![START, Input::TurnBegan, urgent("m1")];
    inputs.extend(std::iter::repeat_n(Input::Tick, 12));
    inputs.push(Input::TurnEnded { aborted: false });
    assert_eq!(play(inputs).concat(), [Order::Abort(1, "m1".into()), Order::Submit(2, Text::Mail)]);
}

/// Regression: every prompt that the person typed was aborted, and the message never arrived.
#[test]
fn no_turn_is_ended_for_a_message_that_waits_for_a_pending_handoff_nor_twice_for_any() {
    let pending =
        || Input::Looked(Look { mail: 1, urgent: Some("m1".into()), pending: DUE, ..Look::default() });
    let orders = play(vec![START, Input::TurnBegan, pending()]);
    assert_eq!(orders[2], []);
    // We ended the turn once, and the client took nothing after that: leave the person's own prompts alone.
    let refused = vec![
        START,
        Input::TurnBegan,
        urgent("m1"),
        Input::TurnEnded { aborted: true },
        Input::Refused(2, "stopped".into()),
        Input::TurnBegan,
        urgent("m1"),
        Input::TurnEnded { aborted: true },
        Input::TurnBegan,
        urgent("m1"),
    ];
    let aborts = play(refused).concat().into_iter().filter(|o| matches!(o, Order::Abort(..))).count();
    assert_eq!(aborts, 1);
    // The next companion knows about the interruption.
    let start = Input::Started { interactive: true, working: true, interrupted_for: Some("m1".into()) };
    assert_eq!(play(vec![start, urgent("m1")])[1], []);
}

const DUE: Option<Unsealed> = Some(Unsealed::From(Timestamp::UNIX_EPOCH));

/// Regression: a document that could not be carried out yet was retried at once and endlessly while the turn ran.
#[test]
fn a_handoff_that_cannot_be_carried_out_yet_is_retried_after_a_pause() {
    let now = Timestamp::from_second(100).unwrap();
    let later = now + SignedDuration::from_secs(7);
    for (pending, orders, again) in [
        (Unsealed::EndOfTurn, vec![], now + PAUSE),
        (Unsealed::From(later), vec![], later),
        // Someone else may be sealing it.
        (Unsealed::From(now), vec![Order::CarryOut], now + PAUSE),
    ] {
        let state = State::default().next(START, now).0;
        let look = Look { mail: 1, pending: Some(pending), ..Look::default() };
        let (state, ordered) = state.next(Input::Looked(look), now);
        assert_eq!((ordered, state.deadline()), (orders, Some(again)), "{pending:?}");
        // A tick alone changes nothing.
        let (state, ordered) = state.next(Input::Tick, now);
        assert_eq!((ordered, state.deadline()), (vec![], Some(again)), "{pending:?}");
    }
}

/// Regression: a turn that ended without the Stop hook left its handoff pending forever.
#[test]
fn a_handoff_pending_while_no_turn_runs_is_carried_out_unless_esc_was_pressed() {
    let pending = || Input::Looked(Look { mail: 1, pending: DUE, ..Look::default() });
    let orders =
        play(vec![START, Input::TurnBegan, pending(), Input::TurnEnded { aborted: false }, pending()]);
    assert_eq!(orders[2..], [vec![], vec![Order::CarryOut], vec![Order::CarryOut]], "before any mail");
    let orders =
        play(vec![START, Input::TurnBegan, pending(), Input::TurnEnded { aborted: true }, pending()]);
    assert_eq!(orders[3..], [vec![Order::Braked(true)], vec![]]);
}

#[test]
fn after_esc_not_even_an_urgent_message_starts_a_turn() {
    let orders = play(vec![START, Input::TurnBegan, Input::TurnEnded { aborted: true }, urgent("m1")]);
    assert_eq!(orders[3], []);
}

#[test]
fn a_rotation_that_no_hook_completes_is_given_up_once_and_not_tried_for_ever() {
    let mut inputs = vec![START, looked(Some(request(1)), 0), Input::Done(1), Input::TurnBegan];
    inputs.extend(std::iter::repeat_n(Input::Tick, 10));
    inputs.push(Input::TurnEnded { aborted: false });
    inputs.push(looked(Some(request(1)), 0));
    inputs.push(looked(Some(request(2)), 0));
    let orders = play(inputs);
    let given_up = orders.iter().flatten().filter(|o| matches!(o, Order::GiveUp(_))).count();
    assert_eq!(given_up, 1);
    assert_eq!(orders[15], []);
    assert_eq!(orders[16], [Order::Begin(request(2)), Order::Clear(2)]);
}

#[test]
fn a_clear_that_was_given_up_and_comes_after_all_is_followed_by_its_prompt() {
    let mut inputs = vec![START, looked(Some(request(1)), 0)];
    inputs.extend(std::iter::repeat_n(Input::Tick, 11));
    inputs.extend([Input::Done(1), looked(None, 0), Input::Done(2)]);
    let orders = play(inputs);
    assert!(matches!(orders[11][..], [Order::GiveUp(_)]), "{:?}", orders[11]);
    assert_eq!(orders[13], [Order::Begin(request(1)), Order::Cleared]);
    assert_eq!(orders[14], [Order::Loaded(id(1)), Order::Submit(2, Text::Continuation(id(1)))]);
    assert_eq!(orders[15], [Order::Accepted(Text::Continuation(id(1)))]);
}

#[test]
fn a_headless_run_is_neither_cleared_nor_woken() {
    let orders = play(vec![
        Input::Started { interactive: false, working: false, interrupted_for: None },
        looked(Some(request(1)), 3),
        Input::TurnEnded { aborted: false },
    ]);
    assert_eq!(orders.concat(), []);
}

#[test]
fn a_fresh_context_that_an_earlier_companion_left_without_a_word_is_prompted_once() {
    let owed = || Input::Looked(Look { owed: Some(id(1)), ..Look::default() });
    let orders = play(vec![START, owed(), owed(), Input::Done(1), looked(None, 0)]);
    assert_eq!(orders[1], [Order::Submit(1, Text::Continuation(id(1)))]);
    assert_eq!(orders[2], []);
    assert_eq!(orders[3..], [vec![Order::Accepted(Text::Continuation(id(1)))], vec![]]);
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        4 => Just(Input::TurnBegan),
        4 => prop::bool::weighted(0.2).prop_map(|aborted| Input::TurnEnded { aborted }),
        4 => (prop::option::of(0u8..3), 0usize..3).prop_map(|(r, mail)| looked(r.map(request), mail)),
        2 => (0u8..3, prop::option::of(0u8..3), 0i64..60).prop_map(|(r, continues, n)| {
            let under_way = Timestamp::from_second(n).ok();
            let (request, continues) = (Some(request(r)), continues.map(id));
            Input::Looked(Look { request, under_way, continues, ..Look::default() })
        }),
        2 => (0u8..4).prop_map(|n| urgent(&format!("m{n}"))),
        2 => (0u8..4).prop_map(|n| {
            let urgent = Some(format!("m{n}"));
            Input::Looked(Look { mail: 1, urgent, pending: DUE, ..Look::default() })
        }),
        2 => (0i64..30).prop_map(|n| Input::Looked(Look { mail: 1, began: Timestamp::from_second(n).ok(), ..Look::default() })),
        2 => (0i64..60).prop_map(|n| Input::Looked(Look { mail: 1, idle: Timestamp::from_second(n).ok(), ..Look::default() })),
        2 => (0i64..60).prop_map(|n| Input::Looked(Look { pending: Timestamp::from_second(n).ok().map(Unsealed::From), ..Look::default() })),
        1 => Just(Input::Looked(Look { mail: 1, pending: Some(Unsealed::EndOfTurn), ..Look::default() })),
        6 => (1u64..12).prop_map(Input::Done),
        2 => (1u64..12).prop_map(|n| Input::Refused(n, "no".into())),
        1 => (1u64..12).prop_map(Input::Nothing),
        2 => Just(Input::Tick),
    ]
}

proptest! {
    /// Under any order of inputs: one thing at a time, nothing into a running turn or against Esc, every journaled
    /// rotation ends, and a context is prompted only after its handoff was loaded.
    #[test]
    fn no_order_of_events_makes_it_break_its_rules(
        inputs in proptest::collection::vec((input(), 0i64..8), 1..120),
        interactive in prop::bool::weighted(0.9), working in any::<bool>(),
    ) {
        let start = Input::Started { interactive, working, interrupted_for: None };
        let (mut state, _) = State::default().next(start, Timestamp::UNIX_EPOCH);
        let mut now = Timestamp::UNIX_EPOCH;
        let (mut open_order, mut open_rotation, mut last) = (None, None, 0);
        let mut clearing = false;
        let mut aborted_for = std::collections::BTreeSet::new();
        for (input, seconds) in inputs {
            now += SignedDuration::from_secs(seconds);
            let before = state.clone();
            let (next, orders) = state.next(input.clone(), now);
            let mut loaded = None;
            // The end of the turn, a refusal or a deadline ends an abort order silently.
            let aborting = |s: &State| matches!(&s.doing, Some(Doing { what: Progress::Aborting { .. }, .. }));
            if aborting(&before) && before.doing != next.doing {
                open_order = None;
            }
            // With nothing left to submit, the order ends silently; the next may begin in the same step.
            if let Input::Nothing(n) = input
                && matches!(&before.doing, Some(Doing { what: Progress::Submitting { order, .. }, .. }) if *order == n)
            {
                open_order = None;
            }
            for order in &orders {
                match order {
                    Order::Begin(r) => {
                        // A late clear is only journaled.
                        let late = orders.contains(&Order::Cleared);
                        prop_assert!(open_rotation.is_none() && (late || !next.working && !next.braked));
                        open_rotation = Some(r.handoff.clone());
                    }
                    Order::Clear(n) | Order::Submit(n, _) => {
                        prop_assert!(*n > last, "orders are numbered upwards");
                        last = *n;
                        prop_assert!(open_order.is_none(), "one order at a time");
                        open_order = Some(*n);
                        clearing = matches!(order, Order::Clear(_));
                        if let Order::Submit(_, Text::Continuation(id)) = order {
                            // It has its handoff, or its hook is to load it.
                            let has_it = loaded.as_ref() == Some(id) || before.look.owed.as_ref() == Some(id);
                            prop_assert!(has_it || next.loads_late.as_ref() == Some(id));
                        } else {
                            prop_assert!(!next.working && !next.braked && next.interactive);
                        }
                    }
                    Order::CarryOut => prop_assert!(!next.working && !next.braked && next.interactive),
                    Order::Abort(n, urgent) => {
                        prop_assert!(next.look.pending.is_none(), "the message could not be delivered then");
                        prop_assert!(aborted_for.insert(urgent.clone()), "twice for one message");
                        prop_assert!(*n > last && open_order.is_none());
                        prop_assert!(next.working && !next.braked && next.interactive, "there is a turn to end");
                        last = *n;
                        open_order = Some(*n);
                    }
                    Order::Cleared if clearing => open_order = None,
                    Order::Cleared => {}
                    Order::Loaded(id) => {
                        let open = open_rotation.take();
                        prop_assert_eq!(open.as_ref(), Some(id));
                        loaded = Some(id.clone());
                    }
                    Order::GiveUp(_) => {
                        prop_assert!(open_rotation.take().is_some());
                        open_order = open_order.filter(|_| !clearing);
                    }
                    Order::Withdraw(_) => prop_assert!(open_rotation.is_none() && !next.working),
                    Order::Accepted(_) | Order::Back(_) => {
                        prop_assert!(open_order.take().is_some());
                    }
                    Order::Braked(b) => prop_assert!(*b == next.braked && *b != before.braked),
                }
            }
            prop_assert_eq!(next.deadline().is_some(), next.doing.is_some() || next.held_until.is_some());
            prop_assert!(next.held_until.is_none() || orders.iter().all(|o| !matches!(o, Order::Submit(..) | Order::Clear(_))));
            if let Input::Tick = input {
                prop_assert!(next.deadline().is_none_or(|d| d > now), "a tick never asks for itself again");
            }
            state = next;
        }
    }
}
