//! The attendant: carries out decisions on the client and the files, unless it is killed.

use serde_json::Map;

use super::client::Piece;
use super::{Attendant, Bug, CLAUDE, MailPlace, World, millis, process, sid};
use crate::ids::AgentId;
use crate::pane::screen::{Composer, Screen};
use crate::pane::*;
use crate::rotation::{Event, Rotation, Step as Journaled};

impl World {
    pub(super) fn start_attendant(&mut self) {
        self.attendants += 1;
        let number = self.attendants;
        let claim = self.files.waits.clone().filter(|_| self.files.claim == Some(self.files.session));
        let (over, left) = take_up(self.files.journal.clone(), claim.as_ref());
        for rotation in over {
            let at = self.files.journal.iter().position(|r| r.id == rotation.id).unwrap();
            self.files.journal[at] = rotation;
        }
        let state = left.as_ref().map_or_else(|| State::taking_over(self.now), |left| left.state(self.now));
        let state = state.with_put_by(self.files.put_by, self.now);
        let rotation = left.map(|_| self.files.journal.len() - 1);
        let inherits = self.mail.iter().any(|m| matches!(m.place, MailPlace::Held(_)));
        self.note(|| format!("attendant {number}: {state:?}"));
        self.attendant = Some(Attendant {
            number,
            state,
            rotation,
            seen: None,
            inherits: inherits.then_some(self.now + RESUME),
        });
    }

    pub(super) fn kill_attendant(&mut self) {
        self.note(|| "attendant killed".to_owned());
        self.attendant = None;
    }

    pub(super) fn look(&mut self) {
        let Some(attendant) = &self.attendant else { return };
        if !self.client.alive {
            self.feed(Input::Gone);
            self.attendant = None;
            return;
        }
        let (number, inherits) = (attendant.number, attendant.inherits);
        let late = attendant.state.deadline().is_some_and(|at| at <= self.now);
        if inherits.is_some_and(|at| at <= self.now) {
            self.settle(|holder| holder != number);
            self.attendant.as_mut().unwrap().inherits = None;
        }
        if late {
            let shown: Vec<usize> = (0..self.mail.len()).filter(|id| self.transcript_shows(*id)).collect();
            for id in shown {
                if self.mail[id].place == MailPlace::Held(number) {
                    self.mail[id].place = MailPlace::Delivered;
                }
            }
        }
        let interrupted =
            (self.files.turn == Turn::Working && self.client.interrupted) || self.is_taken_back();
        if interrupted || self.files.turn == Turn::Idle {
            self.settle_given();
        }
        let only_stop_seals = self.bug == Some(Bug::OnlyStopSeals);
        if self.scheduled && !only_stop_seals && (interrupted || self.is_due()) {
            if interrupted {
                (self.files.turn, self.files.turn_since) = (Turn::Idle, Some(self.now));
            }
            self.seal();
        }
        let session = sid(self.files.session);
        let is_stale = |r: &RotationRequest| r.session != session;
        if self.files.claim.is_none() && self.files.turn_since.is_some() {
            let stale = self.files.request.take_if(|r| is_stale(r)).is_some();
            self.files.given_up += u32::from(stale);
        }
        let idle = (self.files.turn == Turn::Working && self.client.interrupted) || self.is_taken_back();
        let files = &self.files;
        let unpark =
            files.limit.is_some_and(|until| until <= self.now) && self.bug != Some(Bug::NobodyUnparks);
        let hears = !self.scheduled || self.bug == Some(Bug::EscapesWhilePending);
        let waiting = || self.mail.iter().filter(|m| m.place == MailPlace::Queued);
        let urgent = (0..self.mail.len())
            .rfind(|id| self.mail[*id].place == MailPlace::Queued && self.mail[*id].sender == 0);
        let urgent = urgent.map(|id| format!("m{id:06}"));
        let told = self.client.continued.iter();
        let waits = |p: &Piece| matches!(p, Piece::Ours(Text::Continuation(_), _));
        let in_transcript = late
            && (self.client.queues(self.now, waits)
                || told.into_iter().any(|(session, _, at)| *session == files.session && *at <= self.now));
        let look = Look {
            ready: true,
            turn: if idle || unpark { Turn::Idle } else { files.turn },
            turn_since: files.turn_since.or(Some(files.started)),
            session: Some(sid(files.session)),
            request: files.request.clone(),
            hold_until: None,
            mail: if hears && (unpark || files.turn != Turn::Limit) { waiting().count() } else { 0 },
            urgent: urgent.filter(|_| hears),
            unpark,
            clear: false,
            unseen: self.mail.iter().filter(|m| m.place == MailPlace::Held(number)).count(),
            continues: files.continues.clone(),
            heard: in_transcript
                || ((files.claim.is_none() || files.late.is_some()) && files.turn_since.is_some()),
        };
        self.feed(Input::Looked(look));
        if late {
            self.feed(Input::Tick);
        }
    }

    /// Queues held mail again if the transcript does not show it.
    fn settle(&mut self, whose: impl Fn(u32) -> bool) {
        for id in 0..self.mail.len() {
            if let MailPlace::Held(number) = self.mail[id].place
                && whose(number)
            {
                let shown = self.transcript_shows(id);
                self.mail[id].place = if shown { MailPlace::Delivered } else { MailPlace::Queued };
            }
        }
    }

    fn pane(&self) -> (Vec<Piece>, bool, bool) {
        (self.client.composer.clone(), self.client.in_mode, self.client.dialog)
    }

    fn screen(&self) -> Screen {
        let text = |piece: &Piece| match piece {
            Piece::Person(id) => format!("half a thought {id}"),
            Piece::Ours(Text::Clear, _) => "/clear".to_owned(),
            Piece::Ours(Text::Continuation(id), _) => crate::prompt::continuation(id, None),
            Piece::Ours(Text::Unpark, _) => crate::prompt::UNPARK.to_owned(),
            Piece::Ours(Text::Mail, _) => "[baton message m1 from app-2]\nhello".to_owned(),
        };
        let composer = match &self.client.composer[..] {
            _ if self.client.dialog => Composer::Hidden,
            [] => Composer::Empty,
            pieces => Composer::Draft(pieces.iter().map(text).collect()),
        };
        Screen { composer, in_mode: self.client.in_mode, refused: false }
    }

    fn feed(&mut self, input: Input) {
        let Some(attendant) = &mut self.attendant else { return };
        let said = self.trace.is_some().then(|| format!("{input:?}"));
        let (state, effects) = std::mem::take(&mut attendant.state).next(input, CLAUDE, self.now);
        attendant.state = state;
        for effect in effects {
            if let Some(said) = &said {
                self.note(|| format!("  {said} -> {effect:?}"));
            }
            if self.fails(60) {
                return self.kill_attendant();
            }
            self.carry_out(effect);
            if self.attendant.is_none() {
                return;
            }
        }
    }

    /// Whether the pane is as it was at the last look. The server compares before it lets a key through.
    fn is_as_seen(&self) -> bool {
        let seen = self.attendant.as_ref().and_then(|a| a.seen.clone());
        self.client.alive && !self.client.foreign && seen == Some(self.pane())
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Read => {
                if !self.client.alive {
                    return self.feed(Input::Gone);
                }
                let (pane, screen) = (self.pane(), self.screen());
                if let Some(attendant) = &mut self.attendant {
                    attendant.seen = Some(pane);
                }
                // Something may happen between the look and the action.
                if self.fails(12) {
                    self.disturb();
                }
                self.feed(Input::Screen(screen));
            }
            Effect::LeaveMode => self.client.in_mode = false,
            Effect::Returned => self.files.put_by = None,
            Effect::Stash(mark) if self.is_as_seen() => {
                self.files.put_by = Some(mark);
                // Killed after recording and before acting.
                if self.fails(60) {
                    return self.kill_attendant();
                }
                if self.client.composer.is_empty() {
                    return self.wrong("the key that puts a draft by, at an empty composer");
                }
                let draft = std::mem::take(&mut self.client.composer);
                self.client.stash = draft;
            }
            Effect::Begin(request) => self.begin(request),
            Effect::Type(text) => {
                let typed = self.type_in(text);
                self.feed(typed);
            }
            Effect::Enter if self.is_as_seen() => {
                let what = std::mem::take(&mut self.client.composer);
                if what.iter().any(|p| matches!(p, Piece::Person(_))) {
                    self.wrong("a person's draft was sent off");
                }
                let me = self.attendants;
                for id in what.iter().flat_map(|p| match p {
                    Piece::Ours(_, ids) => &ids[..],
                    Piece::Person(_) => &[],
                }) {
                    if self.mail[*id].place == MailPlace::Queued {
                        self.mail[*id].place = MailPlace::Held(me);
                    }
                }
                let fate = self.fate();
                let taken = self.client.submit(what, self.now, fate);
                self.check(taken);
            }
            Effect::Escape if self.is_as_seen() && self.files.turn == Turn::Working => {
                if self.scheduled {
                    self.wrong("a turn was ended for a message that waits for the handoff");
                }
                // Escape in an idle pane does nothing; a second one right after it opens a menu.
                if self.client.working {
                    (self.client.working, self.client.interrupted) = (false, true);
                } else {
                    let last = self.client.escaped.replace(self.now);
                    if last.is_some_and(|at| self.now < at + millis(1_500)) {
                        self.wrong("two Escapes at an idle pane");
                    }
                }
            }
            Effect::Cleared => self.journal(|r| r.next(Event::Stopped, true).0),
            Effect::Loaded(handoff) => self.journal(|r| r.next(Event::Loaded(handoff), true).0),
            Effect::GiveUp(why) => {
                let open = self.attendant.as_mut().and_then(|a| a.rotation.take());
                let request = self.files.request.as_ref().map(|r| r.handoff.clone());
                let wanted = open.map(|at| self.files.journal[at].handoff.clone()).or(request);
                if let Some(at) = open {
                    (self.files.journal[at].step, self.files.journal[at].note) =
                        (Journaled::Failed, Some(why));
                }
                self.files.request.take_if(|r| Some(&r.handoff) == wanted.as_ref());
                self.files.given_up += 1;
            }
            Effect::Confirmed(Text::Mail | Text::Unpark) => {}
            Effect::Confirmed(_) => {
                if let Some(attendant) = &mut self.attendant {
                    attendant.rotation = None;
                }
            }
            Effect::Back(Text::Mail) => {
                let number = self.attendants;
                for mail in self.mail.iter_mut().filter(|m| m.place == MailPlace::Held(number)) {
                    mail.place = MailPlace::Queued;
                }
            }
            Effect::Enter => self.feed(Input::Typed(false)),
            Effect::Stash(_) | Effect::Escape | Effect::Back(_) | Effect::Waits(_) => {}
        }
    }

    fn begin(&mut self, request: RotationRequest) {
        let before = self.attendant.as_mut().and_then(|a| a.rotation.take());
        if let Some(at) = before
            && self.files.journal[at].step.is_open()
        {
            self.files.journal[at] = abandon(self.files.journal[at].clone());
        }
        let number = self.files.journal.len();
        self.files.journal.push(Rotation {
            id: format!("R-{number}"),
            agent: AgentId::new("app-1").unwrap(),
            handoff: request.handoff,
            from: request.session,
            by: request.by,
            actuator: crate::rotation::Actuator::Tmux,
            step: Journaled::Stopping,
            at: self.now,
            supervisor: process(self.attendants),
            old: None,
            new: None,
            note: None,
            file: None,
            thread: None,
            unknown: Map::new(),
        });
        if let Some(attendant) = &mut self.attendant {
            attendant.rotation = Some(number);
        }
    }

    fn journal(&mut self, next: impl FnOnce(Rotation) -> Rotation) {
        if let Some(at) = self.attendant.as_ref().and_then(|a| a.rotation) {
            self.files.journal[at] = next(self.files.journal[at].clone());
        }
    }

    fn type_in(&mut self, text: Text) -> Input {
        let mut held = Vec::new();
        if text == Text::Mail {
            let number = self.attendants;
            // Do not repeat what the transcript shows, however it got there.
            for id in 0..self.mail.len() {
                if self.mail[id].place == MailPlace::Queued && self.transcript_shows(id) {
                    self.mail[id].place = MailPlace::Delivered;
                }
            }
            for (id, mail) in self.mail.iter_mut().enumerate().filter(|(_, m)| m.place == MailPlace::Queued) {
                mail.place = MailPlace::Held(number);
                held.push(id);
            }
            if held.is_empty() {
                return Input::Nothing;
            }
            // If the clear has come and nothing was loaded, this prompt's hook loads it.
            let session = sid(self.files.session);
            if self.files.request.as_ref().is_some_and(|r| r.session == session) {
                self.wrong("mail was typed before a clear");
            }
        }
        // Killed with its claimed mail before a key went out.
        if self.fails(60) {
            self.kill_attendant();
            return Input::Typed(false);
        }
        if !self.is_as_seen() {
            let me = self.attendants;
            self.settle(|number| number == me);
            return Input::Typed(false);
        }
        if !self.client.composer.is_empty() || self.client.dialog || self.client.in_mode {
            self.wrong("typed over a draft, into a dialog or into copy mode");
        }
        if matches!(text, Text::Continuation(_)) {
            self.prompted.push(self.files.session);
        }
        let piece = vec![Piece::Ours(text, held)];
        match self.random(24) {
            0 if self.faults => self.client.composer = piece,
            1 if self.faults => {}
            _ => {
                let fate = self.fate();
                let taken = self.client.submit(piece, self.now, fate);
                self.check(taken);
            }
        }
        // Killed after everything went out.
        if self.fails(30) {
            self.kill_attendant();
        }
        Input::Typed(true)
    }
}
