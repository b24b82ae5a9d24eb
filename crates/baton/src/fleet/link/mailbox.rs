//! Parcels out and envelopes in: what waits in the outbox is sealed and posted, what lies in the mailbox is taken in.

use std::collections::BTreeMap;

use baton_core::fleet::MachineName;
use baton_core::fleet::conversation::{Answer, Ask, Chunk};
use baton_core::fleet::envelope::{self, Header, Kind, MAX_SEALED, Receipts, VERSION};
use baton_core::fleet::stage::{Receipt, Stage};
use baton_core::handoff::Header as Document;
use jiff::Timestamp;

use crate::fleet::database::{Refused, Session, Stored};
use crate::fleet::link::Link;
use crate::fleet::link::peers::is_doubt;
use crate::fleet::outbox::Parcel;
use crate::fleet::roll::LinkState;
use crate::fleet::{arrive, conversations, inbound};

/// Parcels that are sent in one statement.
const BATCH: usize = 128;

impl Link<'_> {
    /// Sends what waits, oldest first, machine by machine.
    pub(super) async fn send_all(&mut self, session: &mut Session) -> anyhow::Result<()> {
        loop {
            let parcels = self.outbox().waiting(BATCH);
            if parcels.is_empty() {
                return Ok(());
            }
            let mut by_machine: BTreeMap<&MachineName, Vec<&Parcel>> = BTreeMap::new();
            for parcel in &parcels {
                by_machine.entry(&parcel.to).or_default().push(parcel);
            }
            for (to, parcels) in by_machine {
                self.send(session, to, &parcels).await?;
            }
        }
    }

    pub(super) async fn send(
        &mut self,
        session: &Session,
        to: &MachineName,
        parcels: &[&Parcel],
    ) -> anyhow::Result<()> {
        let (me, now) = (self.me().clone(), Timestamp::now());
        let fail = |parcels: &[&Parcel], why: &str| {
            self.outbox().settle(parcels, &me, Stage::Failed, why, Timestamp::now())
        };
        let (expired, parcels): (Vec<&Parcel>, Vec<&Parcel>) =
            parcels.iter().partition(|p| p.expires.is_some_and(|at| at <= now));
        fail(&expired, "its time had passed before the database could be reached")?;
        let known = match self.trusted(session, to).await {
            Ok(known) => known,
            Err(e) if is_doubt(&e) => {
                return Ok(self.outbox().settle(&parcels, &me, Stage::Failed, &format!("{e:#}"), now)?);
            }
            Err(e) => return Err(e),
        };
        let (mut ids, mut envelopes, mut sent, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for parcel in parcels {
            // The rest comes with the next statement.
            if bytes > MAX_SEALED {
                break;
            }
            let header = Header {
                v: VERSION,
                fleet: self.membership.fleet.clone(),
                id: parcel.id(&me),
                kind: parcel.kind,
                from: me.clone(),
                to: to.clone(),
                epoch: self.watermark.epoch,
            };
            match self.keys.envelope(&known.card, &header, &serde_json::to_vec(&parcel.body)?) {
                Ok(envelope) => {
                    bytes += envelope.sealed.len();
                    ids.push(header.id);
                    envelopes.push(envelope);
                    sent.push(parcel);
                }
                Err(e) => self.outbox().settle(&[parcel], &me, Stage::Failed, &e.to_string(), now)?,
            }
        }
        if sent.is_empty() {
            return Ok(());
        }
        match session.post(to, self.watermark.epoch, &ids, envelopes).await {
            Ok(()) => {
                self.watermark.beats += 1;
                self.keep_watermark()?;
                Ok(self.outbox().settle(&sent, &me, Stage::Stored, "", Timestamp::now())?)
            }
            Err(e) if matches!(e.downcast_ref(), Some(Refused::NoSuchMachine)) => {
                Ok(self.outbox().settle(&sent, &me, Stage::Failed, &format!("{e:#}"), now)?)
            }
            Err(e) => Err(e),
        }
    }

    /// Fetches what lies in the mailbox. The cursor moves when it is on disk.
    pub(super) async fn fetch_all(&mut self, session: &mut Session) -> anyhow::Result<()> {
        loop {
            let page = session.fetch(self.watermark.cursor).await?;
            let Some(last) = page.last().map(|stored| stored.seq) else { return Ok(()) };
            let mut receipts: BTreeMap<MachineName, Vec<Receipt>> = BTreeMap::new();
            for stored in &page {
                self.receive(session, stored, &mut receipts).await?;
            }
            for (to, receipts) in receipts {
                self.put_receipts(&to, receipts)?;
            }
            self.watermark.cursor = last;
            self.watermark.last = self.watermark.last.max(last);
            self.keep_watermark()?;
            session.acknowledge(last).await?;
        }
    }

    pub(super) fn put_receipts(&self, to: &MachineName, receipts: Vec<Receipt>) -> anyhow::Result<()> {
        let body = serde_json::to_value(Receipts { receipts })?;
        self.outbox().put(to, Kind::Receipts, None, body, Timestamp::now())?;
        Ok(())
    }

    /// Takes one envelope in. What is not believed is logged and left behind; only what this machine could not do is an
    /// error, and then it is fetched again.
    pub(super) async fn receive(
        &mut self,
        session: &mut Session,
        stored: &Stored,
        receipts: &mut BTreeMap<MachineName, Vec<Receipt>>,
    ) -> anyhow::Result<()> {
        let (header, body) = match self.believe(session, stored).await? {
            Ok(believed) => believed,
            Err(why) => {
                self.refuse(stored, &why);
                return Ok(());
            }
        };
        let now = Timestamp::now();
        match header.kind {
            Kind::Mail => match serde_json::from_slice::<envelope::Mail>(&body) {
                Ok(mail) => {
                    let (receipt, tracked) = inbound::deliver(self.store, &header, &mail, now)?;
                    if let Some(tracked) = tracked {
                        self.tracker.add(tracked)?;
                    }
                    receipts.entry(header.from).or_default().push(receipt);
                }
                Err(e) => self.refuse(stored, &e),
            },
            Kind::Receipts => match serde_json::from_slice::<Receipts>(&body) {
                Ok(told) => {
                    // A machine speaks of what was sent to it by us, and of nothing else.
                    let ours = format!("{}.", self.me());
                    let told: Vec<Receipt> =
                        told.receipts.into_iter().filter(|receipt| receipt.id.starts_with(&ours)).collect();
                    self.outbox().note(&told)?;
                }
                Err(e) => self.refuse(stored, &e),
            },
            Kind::Ask => match serde_json::from_slice::<Ask>(&body) {
                Ok(ask) => {
                    let config = self.config()?;
                    conversations::answer(self.store, &self.paths, &config, &header.from, &ask, now)?;
                    let receipt =
                        Receipt { id: header.id, stage: Stage::Fetched, at: now, evidence: String::new() };
                    receipts.entry(header.from).or_default().push(receipt);
                }
                Err(e) => self.refuse(stored, &e),
            },
            Kind::Answer => match serde_json::from_slice::<Answer>(&body) {
                Ok(answer) => conversations::heed(self.store, &header.from, answer, now)?,
                Err(e) => self.refuse(stored, &e),
            },
            Kind::Chunk => match serde_json::from_slice::<Chunk>(&body) {
                Ok(chunk) => match conversations::receive(self.store, &header.from, &chunk, now)? {
                    Ok(()) => {
                        let receipt = Receipt {
                            id: header.id,
                            stage: Stage::Fetched,
                            at: now,
                            evidence: String::new(),
                        };
                        receipts.entry(header.from).or_default().push(receipt);
                    }
                    Err(why) => self.refuse(stored, &why),
                },
                Err(e) => self.refuse(stored, &e),
            },
            Kind::Handoff => match serde_json::from_slice::<envelope::Handoff>(&body) {
                Ok(handoff) if Document::parse(&handoff.text).is_err() => {
                    self.refuse(stored, &"its document cannot be read");
                }
                Ok(handoff) => {
                    let config = self.config()?;
                    let arrived =
                        arrive::receive(self.store, &self.paths, &config, &header.from, &handoff, now)?;
                    self.log(
                        "fleet-arrived",
                        serde_json::json!({ "envelope": header.id, "outcome": arrived }),
                    );
                    let receipt =
                        Receipt { id: header.id, stage: Stage::Fetched, at: now, evidence: arrived };
                    receipts.entry(header.from).or_default().push(receipt);
                }
                Err(e) => self.refuse(stored, &e),
            },
        }
        Ok(())
    }

    pub(super) fn refuse(&mut self, stored: &Stored, why: &dyn std::fmt::Display) {
        self.view.refused += 1;
        self.fault(&format!("believe the envelope {} of {}", stored.id, stored.sender), why);
        self.show(LinkState::Connected, None);
    }

    /// Tells senders what became of their messages here.
    pub(super) fn tell_ended(&mut self) -> anyhow::Result<()> {
        if self.tracker.is_empty() {
            return Ok(());
        }
        for (to, receipts) in self.tracker.ended(self.store) {
            self.put_receipts(&to, receipts.clone())?;
            self.tracker.forget(&receipts)?;
        }
        Ok(())
    }
}
