//! A client, its hooks, a person and an attendant that is killed now and then, thrown by dice: promises 7 and 8 for
//! what is typed. No message is lost or shown again once the transcript shows it, each sender's keep their order, a
//! rotation loads its handoff once, nothing is typed over a draft, and in the end nothing is stuck.

use super::*;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Queued,
    Held,
    Delivered,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Box {
    Empty,
    Human,
    Ours(Text, Vec<usize>),
}

struct World {
    dice: Dice,
    now: Timestamp,
    state: State,
    /// Sender, and where it is; the index is the message's id.
    mail: Vec<(u64, Place)>,
    shown: Vec<usize>,
    composer: Box,
    dialog: bool,
    in_mode: bool,
    turn: Turn,
    turn_since: Timestamp,
    session: u32,
    request: Option<RotationRequest>,
    requested: u32,
    loads: u32,
    escapes: Vec<Timestamp>,
    given_up: u32,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            now: at(0),
            state: State::default(),
            mail: Vec::new(),
            shown: Vec::new(),
            composer: Box::Empty,
            dialog: false,
            in_mode: false,
            turn: Turn::Idle,
            turn_since: at(0),
            session: 1,
            request: None,
            requested: 0,
            loads: 0,
            escapes: Vec::new(),
            given_up: 0,
        }
    }

    fn change_turn(&mut self, turn: Turn) {
        (self.turn, self.turn_since) = (turn, self.now);
    }

    fn show(&mut self, id: usize) {
        assert!(!self.shown.contains(&id), "message {id} was shown again although the transcript shows it");
        let sender = self.mail[id].0;
        let later = self.shown.iter().any(|other| self.mail[*other].0 == sender && *other > id);
        assert!(!later, "message {id} came after a later one of the same sender");
        self.shown.push(id);
        self.mail[id].1 = Place::Delivered;
    }

    /// The hook of a prompt or a tool call: what is held by a living attendant is not passed over.
    fn inject(&mut self) {
        if self.request.is_some() || self.mail.iter().any(|m| m.1 == Place::Held) {
            return;
        }
        for id in 0..self.mail.len() {
            if self.mail[id].1 == Place::Queued {
                self.show(id);
            }
        }
    }

    fn submit(&mut self, what: Box) {
        match what {
            Box::Ours(Text::Clear, _) if self.turn == Turn::Idle => {
                self.session += 1;
                self.request = None;
                self.loads += 1;
            }
            Box::Ours(Text::Mail, ids) => {
                for id in ids {
                    if !self.shown.contains(&id) {
                        self.show(id);
                    }
                }
                self.change_turn(Turn::Working);
                self.inject();
            }
            Box::Empty => {}
            _ => {
                self.change_turn(Turn::Working);
                self.inject();
            }
        }
    }

    fn look(&self) -> Look {
        Look {
            ready: true,
            turn: self.turn,
            turn_since: Some(self.turn_since),
            session: Some(sid(&format!("s{}", self.session))),
            request: self.request.clone(),
            hold_until: None,
            mail: self.mail.iter().filter(|m| m.1 == Place::Queued).count(),
            urgent: self.mail.iter().any(|m| m.1 == Place::Queued && m.0 == 0),
            unseen: self.mail.iter().filter(|m| m.1 == Place::Held).count(),
        }
    }

    fn screen(&self) -> Screen {
        let composer = match &self.composer {
            _ if self.dialog => Composer::Hidden,
            Box::Empty => Composer::Empty,
            Box::Human => Composer::Draft("half a th".into()),
            Box::Ours(Text::Clear, _) => Composer::Draft("/clear".into()),
            Box::Ours(Text::Mail, _) => Composer::Draft("[baton message m1 from".into()),
            Box::Ours(Text::Continuation(_), _) => Composer::Draft(CONTINUE.into()),
        };
        Screen { composer, in_mode: self.in_mode }
    }

    fn feed(&mut self, input: Input) {
        let (state, effects) = std::mem::take(&mut self.state).next(input, CLAUDE, self.now);
        self.state = state;
        let mut answers = Vec::new();
        for effect in effects {
            // Killed between two effects: what it held is queued again unless the transcript shows it.
            if self.dice.one_in(60) {
                return self.kill();
            }
            match effect {
                Effect::Read => answers.push(Input::Screen(self.screen())),
                Effect::LeaveMode => self.in_mode = false,
                Effect::Stash => {
                    assert_eq!(
                        self.composer,
                        Box::Human,
                        "Ctrl-S on an empty composer brings the last stash back"
                    );
                    self.composer = Box::Empty;
                }
                Effect::Type(text) => answers.push(self.type_in(text)),
                Effect::Enter => {
                    let what = std::mem::replace(&mut self.composer, Box::Empty);
                    assert_ne!(what, Box::Human, "a person's draft was sent off");
                    self.submit(what);
                }
                Effect::Escape => {
                    assert_eq!(self.turn, Turn::Working, "Escape at an idle pane");
                    assert!(!self.escapes.contains(&self.turn_since), "a second Escape in one turn");
                    self.escapes.push(self.turn_since);
                    self.turn = Turn::Idle;
                }
                Effect::Back(Text::Mail) => self.requeue(),
                Effect::GiveUp(_) => {
                    self.given_up += 1;
                    self.request = None;
                }
                _ => {}
            }
        }
        for answer in answers {
            self.feed(answer);
        }
    }

    fn type_in(&mut self, text: Text) -> Input {
        if self.dice.one_in(20) {
            // Somebody was faster by a keystroke.
            if self.composer == Box::Empty {
                self.composer = Box::Human;
            }
            return Input::Typed(false);
        }
        assert_eq!(self.composer, Box::Empty, "typed over a draft");
        assert!(!self.dialog && !self.in_mode, "typed into a dialog or copy mode");
        let mut held = Vec::new();
        if text == Text::Mail {
            assert!(self.request.is_none(), "mail was typed before a clear");
            for (id, message) in self.mail.iter_mut().enumerate().filter(|(_, m)| m.1 == Place::Queued) {
                message.1 = Place::Held;
                held.push(id);
            }
            if held.is_empty() {
                return Input::Nothing;
            }
        }
        if self.dice.one_in(10) {
            self.composer = Box::Ours(text, held);
        } else {
            self.submit(Box::Ours(text, held));
        }
        Input::Typed(true)
    }

    fn requeue(&mut self) {
        for message in self.mail.iter_mut().filter(|m| m.1 == Place::Held) {
            message.1 = Place::Queued;
        }
    }

    fn kill(&mut self) {
        self.requeue();
        // What the next one finds in the journal: loaded, and nobody told the agent to go on.
        self.state = State::default();
    }

    fn step(&mut self) {
        let millis = i64::try_from(self.dice.roll(3_000)).unwrap();
        self.now += SignedDuration::from_millis(millis + 1);
        match self.dice.roll(14) {
            0 | 1 => {
                let sender = self.dice.roll(3);
                self.mail.push((sender, Place::Queued));
            }
            2 if self.turn == Turn::Working => self.change_turn(Turn::Idle),
            3 if self.turn == Turn::Working && !self.dialog => self.inject(),
            4 if self.turn == Turn::Idle && self.composer == Box::Empty => self.composer = Box::Human,
            5 if self.composer == Box::Human && !self.dialog => {
                self.composer = Box::Empty;
                self.submit(Box::Human);
            }
            6 => self.dialog = !self.dialog && self.turn == Turn::Working,
            7 => self.in_mode = self.dice.one_in(2),
            8 if self.turn == Turn::Working && self.request.is_none() => {
                self.request =
                    Some(RotationRequest { session: sid(&format!("s{}", self.session)), ..request() });
                self.requested += 1;
                self.change_turn(Turn::Idle);
            }
            9 if self.dice.one_in(4) => self.kill(),
            _ => {}
        }
        let look = self.look();
        self.feed(Input::Looked(look));
        self.feed(Input::Tick);
    }

    /// The person goes away and everything that is left comes to its end.
    fn settle(&mut self) {
        (self.dialog, self.in_mode) = (false, false);
        for _ in 0..200 {
            // A person takes away what they wrote, and a `/clear` that was given up and that nobody remembers.
            let forgotten = matches!(self.composer, Box::Ours(Text::Clear, _)) && self.request.is_none();
            if self.composer == Box::Human || (forgotten && !self.state.left_clear) {
                self.composer = Box::Empty;
            }
            if self.turn == Turn::Working {
                self.change_turn(Turn::Idle);
            }
            self.now += SignedDuration::from_secs(20);
            let look = self.look();
            self.feed(Input::Looked(look));
            self.feed(Input::Tick);
        }
    }
}

#[test]
fn nothing_is_lost_shown_twice_or_stuck_whatever_happens() {
    let seeds = if std::env::var_os("BATON_LONG").is_some() { 100_000 } else { 10_000 };
    let mut met = (0, 0, 0);
    for seed in 1..=seeds {
        let mut world = World::new(seed);
        for _ in 0..60 {
            world.step();
        }
        world.settle();
        let lost: Vec<usize> = (0..world.mail.len()).filter(|id| !world.shown.contains(id)).collect();
        assert!(
            lost.is_empty(),
            "seed {seed}: {lost:?} of {} were never shown: {:?}",
            world.mail.len(),
            world.state
        );
        assert!(world.request.is_none(), "seed {seed}: a rotation is stuck: {:?}", world.state);
        // A handoff that was given up waits to be loaded; nothing loads without one.
        assert!(world.loads <= world.requested, "seed {seed}: a handoff was loaded twice");
        met.0 += world.mail.len();
        met.1 += world.loads as usize;
        met.2 += world.escapes.len();
    }
    assert!(met.0 > 10_000 && met.1 > 1_000 && met.2 > 500, "the dice hardly threw anything: {met:?}");
}
