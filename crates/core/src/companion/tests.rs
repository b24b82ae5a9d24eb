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
        wait_for_idle: false,
        at_once: false,
    }
}

fn looked(request: Option<RotationRequest>, mail: usize) -> Input {
    Input::Looked(Look { request, mail })
}

/// Feeds inputs one second apart and returns what was ordered at each.
fn play(inputs: Vec<Input>) -> Vec<Vec<Order>> {
    let mut state = State::default();
    let mut now = Timestamp::UNIX_EPOCH;
    inputs
        .into_iter()
        .map(|input| {
            now += SignedDuration::from_secs(1);
            let (next, orders) = std::mem::take(&mut state).next(input, now);
            state = next;
            orders
        })
        .collect()
}

const START: Input = Input::Started { interactive: true };

#[test]
fn a_request_made_in_a_turn_is_carried_out_when_the_turn_ends_and_the_work_goes_on() {
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
fn a_rotation_that_no_hook_completes_is_given_up_once_and_not_tried_for_ever() {
    let mut inputs = vec![START, looked(Some(request(1)), 0), Input::Done(1)];
    inputs.extend(std::iter::repeat_n(Input::Tick, 6));
    inputs.push(looked(Some(request(1)), 0));
    inputs.push(looked(Some(request(2)), 0));
    let orders = play(inputs);
    let given_up = orders.iter().flatten().filter(|o| matches!(o, Order::GiveUp(_))).count();
    assert_eq!(given_up, 1);
    assert_eq!(orders[9], []);
    assert_eq!(orders[10], [Order::Begin(request(2)), Order::Clear(2)]);
}

#[test]
fn a_headless_run_is_neither_cleared_nor_woken() {
    let orders = play(vec![
        Input::Started { interactive: false },
        looked(Some(request(1)), 3),
        Input::TurnEnded { aborted: false },
    ]);
    assert_eq!(orders.concat(), []);
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        1 => any::<bool>().prop_map(|interactive| Input::Started { interactive }),
        4 => Just(Input::TurnBegan),
        4 => prop::bool::weighted(0.2).prop_map(|aborted| Input::TurnEnded { aborted }),
        4 => (prop::option::of(0u8..3), 0usize..3).prop_map(|(r, mail)| looked(r.map(request), mail)),
        6 => (1u64..12).prop_map(Input::Done),
        2 => (1u64..12).prop_map(|n| Input::Refused(n, "no".into())),
        1 => (1u64..12).prop_map(Input::Nothing),
        2 => Just(Input::Tick),
    ]
}

proptest! {
    /// Whatever comes in whichever order: one thing at a time, nothing into a running turn or against Esc, every
    /// journaled rotation ends, and a context is prompted only after its handoff was loaded.
    #[test]
    fn no_order_of_events_makes_it_break_its_rules(
        inputs in proptest::collection::vec((input(), 0i64..8), 1..120)
    ) {
        let mut state = State::default();
        let mut now = Timestamp::UNIX_EPOCH;
        let (mut open_order, mut open_rotation, mut last) = (None, None, 0);
        for (input, seconds) in inputs {
            now += SignedDuration::from_secs(seconds);
            let before = state.clone();
            let (next, orders) = state.next(input.clone(), now);
            let mut loaded = None;
            // Nothing left to submit ends that order without a word; the next may begin in the same step.
            if let Input::Nothing(n) = input
                && matches!(&before.doing, Some(Doing { what: Step::Submitting { order, .. }, .. }) if *order == n)
            {
                open_order = None;
            }
            for order in &orders {
                match order {
                    Order::Begin(r) => {
                        prop_assert!(open_rotation.is_none() && !next.working && !next.braked);
                        open_rotation = Some(r.handoff.clone());
                    }
                    Order::Clear(n) | Order::Submit(n, _) => {
                        prop_assert!(*n > last, "orders are numbered upwards");
                        last = *n;
                        prop_assert!(open_order.is_none(), "one order at a time");
                        open_order = Some(*n);
                        if let Order::Submit(_, Text::Continuation(id)) = order {
                            prop_assert_eq!(loaded.as_ref(), Some(id));
                        } else {
                            prop_assert!(!next.working && !next.braked && next.interactive);
                        }
                    }
                    Order::Cleared => open_order = None,
                    Order::Loaded(id) => {
                        let open = open_rotation.take();
                        prop_assert_eq!(open.as_ref(), Some(id));
                        loaded = Some(id.clone());
                    }
                    Order::GiveUp(_) => {
                        prop_assert!(open_rotation.take().is_some());
                        open_order = None;
                    }
                    Order::Accepted(_) | Order::Back(_) => {
                        prop_assert!(open_order.take().is_some());
                    }
                    Order::Braked(b) => prop_assert!(*b == next.braked && *b != before.braked),
                }
            }
            prop_assert_eq!(next.deadline().is_some(), next.doing.is_some());
            if let Input::Tick = input {
                prop_assert!(next.deadline().is_none_or(|d| d > now), "a tick never asks for itself again");
            }
            state = next;
        }
    }
}
