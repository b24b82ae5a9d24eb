//! Other machines: verified by their cards and signatures, with their descriptions of themselves.

use std::path::PathBuf;

use baton_core::fleet::MachineName;
use baton_core::fleet::envelope::{Disbelief, Header, Row, signed_bytes};
use baton_core::fleet::presence::{self, Presence, Shared};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::fleet::database::{MailboxRow, Refused, Session};
use crate::fleet::folder;
use crate::fleet::keys::{Card, KeyError};
use crate::fleet::link::Link;
use crate::fleet::roll::{MachineView, Roll};
use crate::store::record;
use crate::sys::fs;

/// Another machine as it proved itself here first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Peer {
    pub(super) card: Card,
    /// The latest known incarnation.
    #[serde(default)]
    pub(super) epoch: u64,
    /// The fleet's key has revoked it. That is never forgotten.
    #[serde(default)]
    pub(super) revoked: bool,
}

/// Why a machine is neither written to nor trusted. The others continue.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Doubt(pub(super) &'static str);

/// Whether an error is about another machine, and not about the database or this one.
pub(super) fn is_doubt(error: &anyhow::Error) -> bool {
    error.is::<Doubt>()
        || error.is::<KeyError>()
        || matches!(error.downcast_ref(), Some(Refused::NoSuchMachine))
}

impl Link<'_> {
    /// Reads the descriptions of all machines.
    pub(super) async fn refresh_roll(&mut self, session: &Session) -> anyhow::Result<()> {
        let mut machines = Vec::new();
        for row in session.devices(None).await? {
            let Ok(name) = MachineName::new(row.name.as_str()) else { continue };
            let known = self.learn(&name, row.card.as_deref(), row.tombstone.as_deref());
            let agents = known.as_ref().ok().and_then(|known| {
                let body = row.body.as_deref()?;
                let bytes = [presence::PURPOSE, body.as_bytes()].concat();
                known.card.verify(&bytes, row.signature.as_deref()?).ok()?;
                let shared: Shared = serde_json::from_str(body).ok()?;
                (shared.machine == name).then_some(shared.agents)
            });
            let doubt = match &known {
                Err(e) if row.card.is_some() => Some(e.to_string()),
                Ok(_) if row.body.is_some() && agents.is_none() => {
                    Some("what it shows was not signed by it".to_owned())
                }
                _ => None,
            };
            let is_revoked = known.is_ok_and(|known| known.revoked);
            machines.push(MachineView {
                presence: Presence::of(row.silence, row.every, row.stopped, row.is_gone || is_revoked),
                heard: row.beat,
                agents: agents.unwrap_or_default(),
                doubt,
                name,
            });
        }
        Ok(Roll { at: Timestamp::now(), machines }.write(&self.store.state)?)
    }

    pub(super) fn known_path(&self, name: &MachineName) -> PathBuf {
        folder(&self.store.state).join("known").join(format!("{name}.json"))
    }

    pub(super) fn keep_known(&mut self, known: Peer) -> anyhow::Result<()> {
        let path = self.known_path(&known.card.name);
        fs::private_dir(&folder(&self.store.state).join("known"))?;
        record::write(&path, &known)?;
        self.known.insert(known.card.name.clone(), known);
        Ok(())
    }

    /// Proves a machine by its card. The first keys that were proved stay its keys, and revoked stays revoked.
    pub(super) fn learn(
        &mut self,
        name: &MachineName,
        card: Option<&str>,
        tombstone: Option<&str>,
    ) -> anyhow::Result<Peer> {
        let before = match self.known.get(name) {
            Some(known) => Some(known.clone()),
            None => record::read::<Peer>(&self.known_path(name))?,
        };
        let (fleet, root) = (&self.membership.fleet, &self.membership.root);
        let card: Option<Card> =
            card.map(serde_json::from_str).transpose().map_err(|_| Doubt("its card cannot be read"))?;
        if let Some(card) = &card {
            card.check(fleet, root, name)?;
        }
        let mut known = match (before, card) {
            // Its name was assigned again: only the fleet's key can have signed a later invitation.
            (Some(before), Some(card)) if before.card != card && card.expires > before.card.expires => {
                Peer { card, epoch: 0, revoked: false }
            }
            (Some(before), Some(card)) if before.card != card => {
                return Err(Doubt("its keys are not those that it had before").into());
            }
            (Some(before), _) => before,
            (None, Some(card)) => Peer { card, epoch: 0, revoked: false },
            (None, None) => return Err(Doubt("it has not joined").into()),
        };
        known.revoked |= tombstone.is_some_and(|t| known.card.is_revoked_by(fleet, root, t));
        let is_same =
            self.known.get(name).is_some_and(|k| k.card == known.card && k.revoked == known.revoked);
        if !is_same {
            self.keep_known(known.clone())?;
        }
        Ok(known)
    }

    /// A machine that may be written to or believed.
    pub(super) async fn trusted(&mut self, session: &Session, name: &MachineName) -> anyhow::Result<Peer> {
        let known = if let Some(known) = self.known.get(name) {
            known.clone()
        } else {
            let rows = session.devices(Some(name)).await?;
            let row = rows.first().ok_or(Refused::NoSuchMachine)?;
            self.learn(name, row.card.as_deref(), row.tombstone.as_deref())?
        };
        if known.revoked { Err(Doubt("it was revoked").into()) } else { Ok(known) }
    }

    /// Verifies an envelope. The outer error is the database's; the inner one is about the envelope.
    pub(super) async fn believe(
        &mut self,
        session: &Session,
        stored: &MailboxRow,
    ) -> anyhow::Result<anyhow::Result<(Header, Vec<u8>)>> {
        let row = Row {
            fleet: &self.membership.fleet,
            id: &stored.id,
            sender: &stored.sender,
            reader: &self.membership.name,
        };
        let header = Header::read(&stored.envelope.header, &row);
        // Of a newer baton's envelope only its signature is judged: it waits for that version.
        let from = match &header {
            Ok(header) => header.from.clone(),
            Err(Disbelief::Newer(_)) => match MachineName::new(stored.sender.as_str()) {
                Ok(sender) => sender,
                Err(_) => return Ok(Err(Disbelief::Row.into())),
            },
            Err(e) => return Ok(Err(e.clone().into())),
        };
        let known = match self.trusted(session, &from).await {
            Ok(known) => known,
            Err(e) if is_doubt(&e) => return Ok(Err(e)),
            Err(e) => return Err(e),
        };
        let signed = signed_bytes(&stored.envelope.header, &stored.envelope.sealed);
        let checked = || {
            known.card.verify(&signed, &stored.envelope.signature)?;
            let header = header?;
            header.check_epoch(known.epoch)?;
            let body = self.keys.open(&stored.envelope.header, &stored.envelope.sealed)?;
            Ok((header, body))
        };
        let (header, body) = match checked() {
            Ok(checked) => checked,
            Err(e) => return Ok(Err(e)),
        };
        if header.epoch > known.epoch {
            self.keep_known(Peer { epoch: header.epoch, ..known })?;
        }
        Ok(Ok((header, body)))
    }
}
