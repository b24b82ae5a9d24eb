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
        for mut home in handoffs::all(&self.store.state) {
            let before = home.local.clone();
            let wanted = match &home.local {
                Local::Here { .. } => false,
                Local::Leaving { .. } => true,
                Local::Away { .. } => home.again,
            };
            let Some(moves) = home.local.wanted_move(self.me()).filter(|_| wanted) else { continue };
            let Some(parcel) = home.parcel.clone() else { continue };
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
            match self.give(session, &home, &moves, &parcel).await {
                Ok(row) => {
                    home.local = home.local.settled(&row);
                    is_known = moves.is_known_to(&row);
                }
                // The database has refused the whole transaction, so the handoff never left.
                Err(e) if is_doubt(&e) => {
                    if matches!(before, Local::Leaving { .. }) {
                        home.why = Some(format!("{e:#}"));
                        self.bring_back(&mut home)?;
                    }
                }
                Err(e) => return Err(e),
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

    pub(super) async fn give(
        &mut self,
        session: &mut Session,
        home: &HomeRecord,
        moves: &Move,
        parcel: &Parcel,
    ) -> anyhow::Result<home::Row> {
        let known = self.trusted(session, &moves.to).await?;
        let header = Header {
            v: VERSION,
            fleet: self.membership.fleet.clone(),
            id: parcel.id(self.me()),
            kind: Kind::Handoff,
            from: self.me().clone(),
            to: moves.to.clone(),
            epoch: self.watermark.epoch,
        };
        let envelope = self.keys.envelope(&known.card, &header, &serde_json::to_vec(&parcel.body)?)?;
        let document = (self.watermark.epoch, header.id, envelope);
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
    pub(super) fn bring_back(&self, home: &mut HomeRecord) -> anyhow::Result<()> {
        home.local = Local::Here { epoch: home.local.epoch() };
        if let Some(channel) = &home.channel {
            self.store.handoffs(&self.config()?).reactivate(channel, &home.handoff, Timestamp::now())?;
        }
        Ok(())
    }
}
