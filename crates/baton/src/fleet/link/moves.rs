//! Handoffs that change their home through the database.

use baton_core::fleet::envelope::{Header, Kind, VERSION};
use baton_core::fleet::home::{self, Local, Move};
use jiff::Timestamp;

use crate::fleet::database::Session;
use crate::fleet::handoffs::{self, HomeRecord};
use crate::fleet::link::Link;
use crate::fleet::link::peers::is_doubt;
use crate::fleet::outbox::Parcel;

impl Link<'_> {
    /// Moves leaving handoffs, and repeats earlier moves after a restore.
    pub(super) async fn move_handoffs(&mut self, session: &mut Session) -> anyhow::Result<()> {
        let state = &self.store.state;
        for handoff in handoffs::unsettled(state)? {
            let mut home = match handoffs::read(state, &handoff) {
                Ok(Some(home)) => home,
                Ok(None) => continue,
                Err(e) => {
                    self.fault("read where a handoff is", &e);
                    continue;
                }
            };
            let Some(moves) = home.unsaid(self.me()) else {
                // Earlier versions kept all records here, and a kill may have come before the last rename.
                if let Err(e) = handoffs::settle(state, &home) {
                    self.fault("put away where a handoff is", &e);
                }
                continue;
            };
            let before = home.local.clone();
            if matches!(before, Local::Leaving { .. }) {
                match self.is_given_up(&home) {
                    Ok(true) => {}
                    Ok(false) => {
                        home.local = Local::Here { epoch: home.local.epoch() };
                        home.why = Some("somebody here has taken it".to_owned());
                        handoffs::keep(&self.store.state, &home)?;
                        continue;
                    }
                    Err(e) => {
                        self.fault("give up a handoff that leaves", &format!("{e:#}"));
                        continue;
                    }
                }
            }
            let mut is_known = false;
            match self.give(session, &home, &moves).await {
                Ok(row) => {
                    home.local = home.local.settled(&row);
                    is_known = moves.is_known_to(&row);
                }
                Err(e) if is_doubt(&e) => {
                    if matches!(before, Local::Leaving { .. }) {
                        // An earlier attempt may have succeeded, and its answer was lost.
                        if session.has_made(handoff.as_str(), &moves).await? {
                            let row = home::Row { home: moves.to.clone(), epoch: moves.epoch };
                            home.local = home.local.settled(&row);
                        } else if let Err(e) = self.bring_back(&mut home, &e) {
                            self.fault("take back a handoff that could not leave", &format!("{e:#}"));
                            continue;
                        }
                    }
                }
                Err(e) => return Err(e),
            }
            if home.local != before {
                home.at = Timestamp::now();
            }
            let was_said_again = home.again && is_known;
            home.again &= !is_known;
            if home.local != before || was_said_again {
                handoffs::keep(&self.store.state, &home)?;
            }
            if home.local != before {
                let detail =
                    serde_json::json!({ "handoff": home.handoff, "home": home.local, "why": home.why });
                self.log("fleet-handoff", detail);
            }
        }
        Ok(())
    }

    /// Repeats the moves of the last days after a restore.
    pub(super) fn say_moves_again(&self) -> anyhow::Result<()> {
        let receipts = self.outbox().receipts()?;
        let is_there =
            |parcel: &Parcel| receipts.get(&parcel.id(self.me())).is_some_and(|r| r.stage.is_there());
        self.change_homes(|home| home.say_again(is_there, Timestamp::now()))
    }

    /// Drops the documents of moves that are too old to be repeated. Their records stay.
    pub(super) fn forget_moves(&self) -> anyhow::Result<()> {
        self.change_homes(|home| home.forget_move(Timestamp::now()))
    }

    /// Applies `change` to all records and stores those for which it returns true. Records of a newer baton stay as they are.
    fn change_homes(&self, mut change: impl FnMut(&mut HomeRecord) -> bool) -> anyhow::Result<()> {
        let state = &self.store.state;
        for handoff in handoffs::all(state)? {
            match handoffs::read(state, &handoff) {
                Ok(Some(mut home)) => {
                    if change(&mut home) {
                        handoffs::keep(state, &home)?;
                    }
                }
                Ok(None) => {}
                Err(e) if e.may_be_sound() => return Err(e.into()),
                Err(e) => self.fault("read where a handoff is", &e),
            }
        }
        Ok(())
    }

    async fn give(
        &mut self,
        session: &mut Session,
        home: &HomeRecord,
        moves: &Move,
    ) -> anyhow::Result<home::Row> {
        let known = self.trusted(session, &moves.to).await?;
        let document = match &home.parcel {
            Some(parcel) => {
                let header = Header {
                    v: VERSION,
                    fleet: self.membership.fleet.clone(),
                    id: parcel.id(self.me()),
                    kind: Kind::Handoff,
                    from: self.me().clone(),
                    to: moves.to.clone(),
                    epoch: self.watermark.epoch,
                };
                let envelope =
                    self.keys.envelope(&known.card, &header, &serde_json::to_vec(&parcel.body)?)?;
                Some((self.watermark.epoch, header.id, envelope))
            }
            None => None,
        };
        let (row, beats) = session.give(home.handoff.as_str(), moves, document).await?;
        if let Some(beats) = beats {
            self.hear(beats, self.watermark.last)?;
        }
        Ok(row)
    }

    /// Whether nobody here can claim a leaving handoff. Its giver may have been killed just before it made sure of
    /// that, and a session may have claimed it since.
    fn is_given_up(&self, home: &HomeRecord) -> anyhow::Result<bool> {
        let Some(channel) = &home.channel else { return Ok(true) };
        let handoffs = self.store.handoffs(&self.config()?);
        Ok(handoffs.give_away(channel, &home.handoff, || Ok(()), Timestamp::now())?.is_ok())
    }

    /// Makes a handoff that could not be given away active here again.
    fn bring_back(&self, home: &mut HomeRecord, why: &anyhow::Error) -> anyhow::Result<()> {
        home.local = Local::Here { epoch: home.local.epoch() };
        home.why = Some(format!("{why:#}"));
        if let Some(channel) = &home.channel {
            self.store.handoffs(&self.config()?).reactivate(channel, &home.handoff, Timestamp::now())?;
        }
        Ok(())
    }
}
