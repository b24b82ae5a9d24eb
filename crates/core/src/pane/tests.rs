use super::screen::Composer;
use super::*;

const CLAUDE: Manners = Manners { can_stash: true, lazy_start: false };
const CODEX: Manners = Manners { can_stash: false, lazy_start: true };

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn sid(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

fn handoff() -> HandoffId {
    HandoffId::new("HO-20260202-064530-c74cc080").unwrap()
}

fn request() -> RotationRequest {
    RotationRequest {
        at: at(0),
        handoff: handoff(),
        session: sid("s1"),
        by: "the agent".into(),
        path: None,
        wait_for_idle: false,
        at_once: false,
    }
}

fn idle() -> Look {
    Look { ready: true, session: Some(sid("s1")), turn_since: Some(at(0)), ..Look::default() }
}

fn rotating() -> Look {
    Look { request: Some(request()), ..idle() }
}

fn screen(composer: Composer) -> Input {
    Input::Screen(Screen { composer, ..Screen::default() })
}

/// Feeds inputs at the given times and returns the state with the last input's effects.
fn play(manners: Manners, inputs: impl IntoIterator<Item = (i64, Input)>) -> (State, Vec<Effect>) {
    inputs
        .into_iter()
        .fold((State::default(), Vec::new()), |(state, _), (t, input)| state.next(input, manners, at(t)))
}

#[test]
fn a_rotation_is_clear_then_load_then_the_word_to_continue_and_mail_waits_for_all_of_it() {
    let look = Look { mail: 1, ..rotating() };
    let (s, e) = play(CLAUDE, [(1, Input::Looked(look.clone()))]);
    assert_eq!(e, [Effect::Read]);
    let (s, e) = s.next(screen(Composer::Empty), CLAUDE, at(1));
    assert_eq!(e, [Effect::Begin(request()), Effect::Type(Text::Clear)]);
    let (s, e) = s.next(Input::Typed(true), CLAUDE, at(1));
    assert_eq!(e, []);
    let between = Look { session: Some(sid("s2")), ready: false, turn: Turn::Working, ..look.clone() };
    let (s, e) = s.next(Input::Looked(between), CLAUDE, at(2));
    assert_eq!(e, [Effect::Cleared], "the new session is there, its hook has not loaded the handoff yet");
    let fresh = Look { session: Some(sid("s2")), request: None, ..look };
    let (s, e) = s.next(Input::Looked(fresh.clone()), CLAUDE, at(2));
    assert_eq!(e, [Effect::Loaded(handoff()), Effect::Read]);
    let (s, e) = s.next(screen(Composer::Empty), CLAUDE, at(2));
    assert_eq!(e, [Effect::Type(Text::Continuation(handoff()))]);
    let (s, _) = s.next(Input::Typed(true), CLAUDE, at(2));
    let begun = Look { turn: Turn::Working, turn_since: Some(at(3)), ..fresh };
    let (s, e) = s.next(Input::Looked(begun.clone()), CLAUDE, at(3));
    assert_eq!(e, [Effect::Confirmed(Text::Continuation(handoff()))]);
    let after = Look { turn: Turn::Idle, turn_since: Some(at(4)), ..begun };
    let (s, e) = s.next(Input::Looked(after), CLAUDE, at(4));
    assert_eq!(e, [Effect::Read], "only now it is the mail's turn");
    let (_, e) = s.next(screen(Composer::Empty), CLAUDE, at(4));
    assert_eq!(e, [Effect::Type(Text::Mail)]);
}

#[test]
fn a_client_that_starts_silently_is_given_the_prompt_and_must_then_show_a_new_session() {
    let (s, _) =
        play(CODEX, [(1, Input::Looked(rotating())), (1, screen(Composer::Empty)), (1, Input::Typed(true))]);
    let (s, e) = s.next(Input::Tick, CODEX, at(6));
    assert_eq!(e, [Effect::Read], "did it clear?");
    let (s, e) = s.next(screen(Composer::Empty), CODEX, at(6));
    assert_eq!(e, [Effect::Cleared, Effect::Read]);
    let (s, e) = s.next(screen(Composer::Empty), CODEX, at(6));
    assert_eq!(e, [Effect::Type(Text::Continuation(handoff()))]);
    let (s, _) = s.next(Input::Typed(true), CODEX, at(6));
    let (session, turn_since) = (Some(sid("s2")), Some(at(7)));
    let continues = Some(handoff());
    let fresh = Look { ready: true, session, turn: Turn::Working, turn_since, continues, ..Look::default() };
    let (_, e) = s.next(Input::Looked(fresh), CODEX, at(7));
    assert_eq!(e, [Effect::Loaded(handoff()), Effect::Confirmed(Text::Continuation(handoff()))]);
}

/// Regression: the hook of the fresh context met a full disk. The rotation was given up, and the agent waited forever.
#[test]
fn a_fresh_context_whose_hooks_could_not_load_its_handoff_is_prompted_and_its_prompt_loads_it() {
    let unloaded = || {
        let turn_since = Some(at(2));
        Input::Looked(Look { session: Some(sid("s2")), turn_since, mail: 1, ..rotating() })
    };
    let go_on = Text::Continuation(handoff());
    let (s, _) =
        play(CLAUDE, [(1, Input::Looked(rotating())), (1, screen(Composer::Empty)), (1, Input::Typed(true))]);
    let (s, e) = s.next(unloaded(), CLAUDE, at(2));
    assert_eq!(e, [Effect::Cleared]);
    assert_eq!(s.deadline(), Some(at(12)), "its hooks are given their time");
    let (s, e) = s.next(Input::Tick, CLAUDE, at(12));
    assert_eq!(e, [Effect::Read]);
    let (s, e) = s.next(screen(Composer::Empty), CLAUDE, at(12));
    assert_eq!(e, [Effect::Type(go_on.clone())]);
    let (s, _) = s.next(Input::Typed(true), CLAUDE, at(12));
    let at_work = Look { request: None, turn: Turn::Working, turn_since: Some(at(13)), ..rotating() };
    let loaded = Look { continues: Some(handoff()), ..at_work.clone() };
    let (_, e) = s.clone().next(Input::Looked(loaded), CLAUDE, at(13));
    assert_eq!(e, [Effect::Loaded(handoff()), Effect::Confirmed(go_on.clone())]);
    let (_, e) = s.next(Input::Looked(at_work), CLAUDE, at(13));
    assert!(matches!(e[..], [Effect::GiveUp(_), Effect::Confirmed(_)]), "nor did its prompt load it: {e:?}");
    // An attendant that does not know about the rotation finds this state.
    let (s, e) = State::default().next(unloaded(), CLAUDE, at(3));
    assert_eq!((e, s.deadline()), (vec![], Some(at(12))));
    let (_, e) = s.next(unloaded(), CLAUDE, at(12));
    assert_eq!(e, [Effect::Begin(request()), Effect::Cleared, Effect::Read]);
}

/// The Stop hook fires before the client's own screen has ended the turn.
#[test]
fn a_clear_that_the_client_refused_is_typed_again_and_the_prompt_only_after_it() {
    let (s, _) =
        play(CODEX, [(1, Input::Looked(rotating())), (1, screen(Composer::Empty)), (1, Input::Typed(true))]);
    let (s, e) = s.next(Input::Tick, CODEX, at(6));
    assert_eq!(e, [Effect::Read]);
    let refused = Screen { composer: Composer::Empty, in_mode: false, refused: true };
    let (s, e) = s.next(Input::Screen(refused), CODEX, at(6));
    assert_eq!(e, [], "the old context is told nothing");
    let (s, e) = s.next(Input::Tick, CODEX, at(7));
    assert_eq!(e, [Effect::Read]);
    let (s, e) = s.next(screen(Composer::Empty), CODEX, at(7));
    assert_eq!(e, [Effect::Begin(request()), Effect::Type(Text::Clear)]);
    let (s, _) = s.next(Input::Typed(true), CODEX, at(7));
    let (s, e) = s.next(Input::Tick, CODEX, at(12));
    assert_eq!(e, [Effect::Read]);
    let (_, e) = s.next(screen(Composer::Empty), CODEX, at(12));
    assert_eq!(e, [Effect::Cleared, Effect::Read]);
}

#[test]
fn a_draft_is_stashed_for_a_rotation_and_waited_for_with_mail() {
    let draft = || screen(Composer::Draft("half a th".into()));
    let (s, e) = play(CLAUDE, [(1, Input::Looked(rotating())), (1, draft())]);
    assert!(matches!(&e[..], [Effect::Stash(_), Effect::Read]), "{e:?}");
    let (s2, e) = s.clone().next(screen(Composer::Empty), CLAUDE, at(1));
    assert_eq!(e, [Effect::Begin(request()), Effect::Type(Text::Clear)]);
    drop(s2);
    let (_, e) = s.next(draft(), CLAUDE, at(1));
    assert_eq!(
        e,
        [Effect::Returned, Effect::Waits(Some(DRAFT))],
        "a draft that cannot be put by is left alone"
    );
    let (_, e) = play(CODEX, [(1, Input::Looked(rotating())), (1, draft())]);
    assert_eq!(e, [Effect::Waits(Some(DRAFT))]);
    let (_, e) = play(CLAUDE, [(1, Input::Looked(Look { mail: 1, ..idle() })), (1, draft())]);
    assert_eq!(e, [Effect::Waits(Some(DRAFT))]);
}

#[test]
fn a_draft_that_was_put_by_is_awaited_before_anything_else_is_typed() {
    let draft = || screen(Composer::Draft("half a th".into()));
    let (s, _) = play(
        CLAUDE,
        [
            (1, Input::Looked(rotating())),
            (1, draft()),
            (1, screen(Composer::Empty)),
            (1, Input::Typed(true)),
            (2, Input::Looked(Look { session: Some(sid("s2")), ..idle() })),
        ],
    );
    let (s, e) = s.next(screen(Composer::Empty), CLAUDE, at(2));
    assert_eq!(e, [], "the client is about to bring it back");
    let (s, e) = s.next(Input::Tick, CLAUDE, at(3));
    assert_eq!(e, [Effect::Read]);
    let (s, e) = s.next(draft(), CLAUDE, at(3));
    assert!(matches!(&e[..], [Effect::Returned, Effect::Stash(_), Effect::Read]), "{e:?}");
    let (_, e) = s.next(screen(Composer::Empty), CLAUDE, at(3));
    assert_eq!(e, [Effect::Type(Text::Continuation(handoff()))]);
}

#[test]
fn copy_mode_is_left_first_and_a_dialog_is_waited_for() {
    let mail = || Input::Looked(Look { mail: 1, ..idle() });
    let mode = || Input::Screen(Screen { composer: Composer::Empty, in_mode: true, refused: false });
    let (s, e) = play(CLAUDE, [(1, mail()), (1, mode())]);
    assert_eq!(e, [Effect::LeaveMode, Effect::Read]);
    let (_, e) = s.next(mode(), CLAUDE, at(1));
    assert_eq!(e, [Effect::Waits(Some(MODE))]);
    let (s, e) = play(CLAUDE, [(1, mail()), (1, screen(Composer::Hidden))]);
    assert_eq!(e, [Effect::Waits(Some(HIDDEN))]);
    assert_eq!(s.deadline(), Some(at(1) + SOON));
}

#[test]
fn the_text_goes_out_once_and_enter_at_most_twice() {
    let (s, _) = play(
        CLAUDE,
        [
            (1, Input::Looked(Look { mail: 1, ..idle() })),
            (1, screen(Composer::Empty)),
            (1, Input::Typed(true)),
        ],
    );
    let s = s.next(Input::Looked(Look { unseen: 1, ..idle() }), CLAUDE, at(2)).0;
    let (s, e) = s.next(Input::Tick, CLAUDE, at(6));
    assert_eq!(e, [Effect::Read]);
    let (s, e) = s.next(screen(Composer::Draft("[baton message".into())), CLAUDE, at(6));
    assert_eq!(e, [Effect::Enter]);
    let (s, e) = s.next(Input::Tick, CLAUDE, at(20));
    assert_eq!(e, [Effect::Back(Text::Mail)]);
    let (_, e) = s.next(Input::Looked(Look { mail: 1, ..idle() }), CLAUDE, at(22));
    assert_eq!(e, [], "hooks deliver it; it is not typed again at once");
}

#[test]
fn an_urgent_message_interrupts_a_turn_once_and_never_an_idle_pane_or_a_dialog() {
    let busy = |turn| Input::Looked(Look { turn, mail: 1, urgent: Some("m1".into()), ..idle() });
    let (s, e) = play(CLAUDE, [(1, busy(Turn::Working)), (1, screen(Composer::Empty))]);
    assert_eq!(e, [Effect::Escape]);
    let (s, e) = s.next(Input::Tick, CLAUDE, at(10));
    assert_eq!(e, []);
    let (_, e) = s.next(busy(Turn::Working), CLAUDE, at(12));
    assert_eq!(e, [], "one Escape a turn");
    let (_, e) = play(CLAUDE, [(1, busy(Turn::Blocked))]);
    assert_eq!(e, [], "a dialog is for a person");
    let (_, e) = play(CLAUDE, [(1, busy(Turn::Working)), (1, screen(Composer::Hidden))]);
    assert_eq!(e, [Effect::Waits(Some(HIDDEN))]);
    let (_, e) = play(CLAUDE, [(1, busy(Turn::Idle)), (1, screen(Composer::Empty))]);
    assert_eq!(e, [Effect::Type(Text::Mail)]);
}

#[test]
fn a_prompt_that_the_client_puts_back_when_it_is_interrupted_is_put_by() {
    let urgent = |turn| Input::Looked(Look { turn, mail: 1, urgent: Some("m1".into()), ..idle() });
    let back = || screen(Composer::Draft("Begin.".into()));
    let (s, _) =
        play(CLAUDE, [(1, urgent(Turn::Working)), (1, screen(Composer::Empty)), (2, urgent(Turn::Idle))]);
    let (s, e) = s.next(back(), CLAUDE, at(2));
    assert!(matches!(&e[..], [Effect::Stash(_), Effect::Read]), "{e:?}");
    let (_, e) = s.next(screen(Composer::Empty), CLAUDE, at(2));
    assert_eq!(e, [Effect::Type(Text::Mail)]);
    let (s, _) = play(CLAUDE, [(1, urgent(Turn::Working)), (1, back()), (2, urgent(Turn::Idle))]);
    let (_, e) = s.next(back(), CLAUDE, at(2));
    assert_eq!(e, [Effect::Waits(Some(DRAFT))], "a person's draft stays");
}

#[test]
fn a_clear_that_does_not_come_is_given_up_and_mail_flows_again() {
    let look = Look { mail: 1, ..rotating() };
    let (s, _) = play(
        CLAUDE,
        [
            (1, Input::Looked(look.clone())),
            (1, screen(Composer::Empty)),
            (1, Input::Typed(true)),
            (6, Input::Tick),
        ],
    );
    let (s, _) = s.next(screen(Composer::Empty), CLAUDE, at(6));
    let (s, e) = s.next(Input::Tick, CLAUDE, at(20));
    assert!(
        matches!(&e[..], [Effect::Back(Text::Clear), Effect::GiveUp(why)] if why.contains("did not clear")),
        "{e:?}"
    );
    let later = at(20) + LATER;
    let (s, e) = s.next(Input::Looked(look), CLAUDE, later);
    assert_eq!(e, [Effect::Read]);
    let (_, e) = s.next(screen(Composer::Empty), CLAUDE, later);
    assert_eq!(e, [Effect::Type(Text::Mail)], "and the rotation is not tried again");
}

#[test]
fn background_tasks_are_waited_for_and_said_so() {
    let look = Look { hold_until: Some(at(50)), mail: 1, ..rotating() };
    let (s, e) = play(CLAUDE, [(1, Input::Looked(look))]);
    assert_eq!(e, [Effect::Waits(Some(TASKS))]);
    assert_eq!(s.deadline(), Some(at(50)));
    let (_, e) = s.next(Input::Tick, CLAUDE, at(51));
    assert_eq!(e, [Effect::Read]);
}

#[test]
fn our_own_text_in_the_composer_is_sent_off_and_not_typed_again() {
    let (s, e) =
        play(CLAUDE, [(1, Input::Looked(rotating())), (1, screen(Composer::Draft("/clear".into())))]);
    assert_eq!(e, [Effect::Begin(request()), Effect::Enter]);
    let (_, e) = s.next(Input::Looked(Look { session: Some(sid("s2")), ..idle() }), CLAUDE, at(2));
    assert_eq!(e[..2], [Effect::Cleared, Effect::Loaded(handoff())]);
    let own = || screen(Composer::Draft("[baton message m1 from app-2]".into()));
    let mail = || Input::Looked(Look { mail: 1, ..idle() });
    let (s, e) = play(CLAUDE, [(1, mail()), (1, own())]);
    assert_eq!(e, [Effect::Enter]);
    let (s, e) = s.next(Input::Looked(Look { mail: 1, unseen: 1, ..idle() }), CLAUDE, at(2));
    assert_eq!(e, [], "it is waited for as if it had been typed now");
    let (s, e) = s.next(Input::Tick, CLAUDE, at(10));
    assert_eq!(e, [Effect::Back(Text::Mail)]);
    let later = at(10) + LATER;
    let (s, _) = s.next(mail(), CLAUDE, later);
    let (_, e) = s.next(own(), CLAUDE, later);
    assert_eq!(e, [Effect::Waits(Some(DRAFT))], "once");
}

#[test]
fn a_rotation_that_somebody_else_began_is_taken_up_wherever_it_stands() {
    let resumed = || State::resuming(handoff(), sid("s1"), at(0));
    // The `/clear` was on its way, and so may be what is typed after it.
    let cleared = Look { session: Some(sid("s2")), ..idle() };
    let (s, e) = resumed().next(Input::Looked(cleared.clone()), CLAUDE, at(1));
    assert_eq!(e, [Effect::Cleared, Effect::Loaded(handoff())]);
    let (_, e) = s.clone().next(Input::Tick, CLAUDE, at(2));
    assert_eq!(e, [Effect::Read]);
    let (_, e) = s.next(Input::Looked(Look { heard: true, ..cleared }), CLAUDE, at(2));
    assert_eq!(e, [], "it was prompted");
    // The `/clear` was never typed.
    let (s, e) = resumed().next(Input::Looked(rotating()), CLAUDE, at(1));
    assert_eq!(e, []);
    let (s, e) = s.next(Input::Tick, CLAUDE, at(3));
    assert_eq!(e, [Effect::Read]);
    let (_, e) = s.next(screen(Composer::Empty), CLAUDE, at(3));
    assert_eq!(e, [Effect::Begin(request()), Effect::Type(Text::Clear)]);
    // The request is gone.
    let (s, _) = resumed().next(Input::Looked(idle()), CLAUDE, at(1));
    let (_, e) = s.next(Input::Tick, CLAUDE, at(3));
    assert!(matches!(&e[..], [Effect::GiveUp(_)]), "{e:?}");
}

/// `baton clear`: the new context gets nothing, so journal nothing and type nothing after it.
#[test]
fn an_ordered_clear_waits_for_the_end_of_the_turn_and_mail_comes_after_it() {
    let ordered = Look { clear: true, ..idle() };
    let busy = Look { turn: Turn::Working, ..ordered.clone() };
    let (s, e) = play(CLAUDE, [(1, Input::Looked(busy))]);
    assert_eq!(e, [], "a turn is not cut");
    let (s, e) = s.next(Input::Looked(ordered.clone()), CLAUDE, at(2));
    assert_eq!(e, [Effect::Read]);
    let (s, e) = s.next(screen(Composer::Empty), CLAUDE, at(2));
    assert_eq!(e, [Effect::Type(Text::Clear)]);
    let (s, _) = s.next(Input::Typed(true), CLAUDE, at(2));
    let fresh = Look { session: Some(sid("s2")), clear: false, mail: 1, ..ordered.clone() };
    let (s, e) = s.next(Input::Looked(fresh), CLAUDE, at(3));
    assert_eq!(e, [Effect::Cleared, Effect::Read]);
    let (_, e) = s.next(screen(Composer::Empty), CLAUDE, at(3));
    assert_eq!(e, [Effect::Type(Text::Mail)], "its new prompt is a message");
    // Try again if the client did not take it; this is not a failed rotation.
    let typed = [(1, Input::Looked(ordered.clone())), (1, screen(Composer::Empty)), (1, Input::Typed(true))];
    let (s, _) = play(CLAUDE, typed);
    let (s, _) = s.next(Input::Tick, CLAUDE, at(6));
    let (s, _) = s.next(screen(Composer::Empty), CLAUDE, at(6));
    let (s, e) = s.next(Input::Tick, CLAUDE, at(15));
    assert_eq!(e, [Effect::Back(Text::Clear)]);
    let (s, e) = s.next(Input::Tick, CLAUDE, at(17));
    assert_eq!(e, [Effect::Read]);
    let (_, e) = s.next(screen(Composer::Empty), CLAUDE, at(17));
    assert_eq!(e, [Effect::Type(Text::Clear)]);
    // A client that stays silent until its first prompt shows by its screen that it is empty.
    let typed = [(1, Input::Looked(ordered)), (1, screen(Composer::Empty)), (1, Input::Typed(true))];
    let (s, _) = play(CODEX, typed);
    let (s, _) = s.next(Input::Tick, CODEX, at(6));
    let (s, e) = s.next(screen(Composer::Empty), CODEX, at(6));
    assert_eq!(e, [Effect::Cleared]);
    let (_, e) = s.next(Input::Tick, CODEX, at(20));
    assert_eq!(e, [], "once");
}
