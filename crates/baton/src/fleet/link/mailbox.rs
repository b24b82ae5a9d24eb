//! Parcels out and envelopes in: seals and posts the outbox, and fetches the mailbox.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use baton_core::fleet::MachineName;
use baton_core::fleet::conversation::{Answer, Ask, Chunk};
use baton_core::fleet::envelope::{self, Disbelief, Header, Kind, MAX_SEALED, Receipts, VERSION};
use baton_core::fleet::stage::{Receipt, Stage};
use baton_core::handoff::HandoffId;
use jiff::Timestamp;

use crate::fleet::database::{MailboxRow, Refused, Session};
use crate::fleet::handoffs::HomeRecord;
use crate::fleet::link::Link;
use crate::fleet::link::peers::is_doubt;
use crate::fleet::outbox::Parcel;
use crate::fleet::roll::LinkState;
use crate::fleet::{arrive, conversations, handoffs, inbound};

/// Parcels that are sent in one statement.
const BATCH: usize = 128;

/// What this machine could not store in one pass over its mailbox.
#[derive(Default)]
struct Stuck {
    orders: BTreeSet<(MachineName, String)>,
    envelopes: u64,
}

/// Envelopes that must be stored in their order: of one machine, for one agent or of one kind.
fn order(header: &Header, body: &[u8]) -> (MachineName, String) {
    let mail = (header.kind == Kind::Mail).then(|| serde_json::from_slice::<envelope::Mail>(body).ok());
    let what = match mail.flatten() {
        Some(mail) => format!("mail for {}", mail.to),
        None => format!("{:?}", header.kind),
    };
    (header.from.clone(), what)
}

impl Link<'_> {
    /// Sends waiting parcels, oldest first, machine by machine.
    pub(super) async fn send_all(&mut self, session: &mut Session) -> anyhow::Result<()> {
        loop {
            let parcels = self.outbox().waiting(BATCH)?;
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
            Ok(beats) => {
                self.hear(beats, self.watermark.last)?;
                Ok(self.outbox().settle(&sent, &me, Stage::Stored, "", Timestamp::now())?)
            }
            Err(e) if matches!(e.downcast_ref(), Some(Refused::NoSuchMachine)) => {
                Ok(self.outbox().settle(&sent, &me, Stage::Failed, &format!("{e:#}"), now)?)
            }
            Err(e) => Err(e),
        }
    }

    /// Empties the mailbox from its beginning. Envelopes leave it when they are on disk; repeated ones are recognised by
    /// their ids. What this machine cannot store now stays there with everything that must follow it, and delays nothing
    /// else.
    pub(super) async fn fetch_all(&mut self, session: &mut Session) -> anyhow::Result<()> {
        let mut after = 0;
        let mut stuck = Stuck::default();
        loop {
            let page = session.fetch(after).await?;
            let Some(last) = page.last().map(|stored| stored.seq) else { break };
            let mut receipts: BTreeMap<MachineName, Vec<Receipt>> = BTreeMap::new();
            let mut stored = Vec::new();
            for row in &page {
                if self.receive(session, row, &mut receipts, &mut stuck).await? {
                    stored.push(row.seq);
                }
            }
            for (to, receipts) in receipts {
                self.put_receipts(&to, receipts)?;
            }
            self.watermark.last = self.watermark.last.max(last);
            self.keep_watermark()?;
            if !stored.is_empty() {
                session.acknowledge(&stored).await?;
            }
            // What is sent is a heartbeat, too: emptying a full mailbox over a slow line takes longer than a lease.
            self.send_all(session).await?;
            after = last;
        }
        if self.view.stuck != stuck.envelopes {
            self.view.stuck = stuck.envelopes;
            self.show(LinkState::Connected, None);
        }
        Ok(())
    }

    pub(super) fn put_receipts(&self, to: &MachineName, receipts: Vec<Receipt>) -> anyhow::Result<()> {
        let body = serde_json::to_value(Receipts { receipts })?;
        self.outbox().put(to, Kind::Receipts, None, body, Timestamp::now())?;
        Ok(())
    }

    /// Receives one envelope; whether this machine is done with it. One that fails verification is logged and skipped.
    async fn receive(
        &mut self,
        session: &mut Session,
        stored: &MailboxRow,
        receipts: &mut BTreeMap<MachineName, Vec<Receipt>>,
        stuck: &mut Stuck,
    ) -> anyhow::Result<bool> {
        let (header, body) = match self.believe(session, stored).await? {
            Ok(believed) => believed,
            Err(why) if matches!(why.downcast_ref(), Some(Disbelief::Newer(_))) => {
                self.leave_in_mailbox(stored, &why);
                stuck.envelopes += 1;
                return Ok(false);
            }
            Err(why) => {
                self.refuse(stored, &why);
                return Ok(true);
            }
        };
        let order = order(&header, &body);
        if !stuck.orders.contains(&order) {
            match self.store_envelope(stored, header, &body, receipts) {
                Ok(()) => return Ok(true),
                Err(e) => self.leave_in_mailbox(stored, &e),
            }
            stuck.orders.insert(order);
        }
        stuck.envelopes += 1;
        Ok(false)
    }

    /// Logs, once, that an envelope stays in the mailbox.
    fn leave_in_mailbox(&mut self, stored: &MailboxRow, why: &anyhow::Error) {
        if self.told_stuck.insert(stored.id.clone()) {
            let (id, from) = (&stored.id, &stored.sender);
            self.fault(
                &format!("store the envelope {id} of {from}; it stays in the mailbox"),
                &format!("{why:#}"),
            );
        }
    }

    /// Stores what an envelope brings. After an error it stays in the mailbox: this machine cannot store it now, or
    /// cannot read mail or a handoff that its sender has signed, as of a newer baton.
    fn store_envelope(
        &mut self,
        stored: &MailboxRow,
        header: Header,
        body: &[u8],
        receipts: &mut BTreeMap<MachineName, Vec<Receipt>>,
    ) -> anyhow::Result<()> {
        let now = Timestamp::now();
        match header.kind {
            Kind::Mail => match serde_json::from_slice::<envelope::Mail>(body) {
                Ok(mail) => {
                    let (receipt, tracked) = inbound::deliver(self.store, &header, &mail, now)?;
                    if let Some(tracked) = tracked {
                        self.tracker.add(tracked)?;
                    }
                    receipts.entry(header.from).or_default().push(receipt);
                }
                Err(e) => return Err(e).context("its message cannot be read"),
            },
            Kind::Receipts => match serde_json::from_slice::<Receipts>(body) {
                Ok(told) => {
                    let mut ours = Vec::new();
                    for receipt in told.receipts {
                        if self.is_reader(&header.from, &receipt.id)? {
                            ours.push(receipt);
                        }
                    }
                    self.outbox().note(&ours)?;
                }
                Err(e) => self.refuse(stored, &e),
            },
            Kind::Ask => match serde_json::from_slice::<Ask>(body) {
                Ok(ask) => {
                    let config = self.config()?;
                    conversations::answer(self.store, &self.paths, &config, &header.from, &ask, now)?;
                    let receipt =
                        Receipt { id: header.id, stage: Stage::Fetched, at: now, evidence: String::new() };
                    receipts.entry(header.from).or_default().push(receipt);
                }
                Err(e) => self.refuse(stored, &e),
            },
            Kind::Answer => match serde_json::from_slice::<Answer>(body) {
                Ok(answer) => conversations::heed(self.store, &header.from, answer, now)?,
                Err(e) => self.refuse(stored, &e),
            },
            Kind::Chunk => match serde_json::from_slice::<Chunk>(body) {
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
            Kind::Handoff => {
                let handoff: envelope::Handoff =
                    serde_json::from_slice(body).context("its handoff cannot be read")?;
                let config = self.config()?;
                let arrived = arrive::receive(self.store, &self.paths, &config, &header.from, &handoff, now)?;
                self.log("fleet-arrived", serde_json::json!({ "envelope": header.id, "outcome": arrived }));
                let receipt = Receipt { id: header.id, stage: Stage::Fetched, at: now, evidence: arrived };
                receipts.entry(header.from).or_default().push(receipt);
            }
        }
        Ok(())
    }

    /// Whether this parcel is ours and for that machine, so that its receipt counts.
    fn is_reader(&self, machine: &MachineName, id: &str) -> anyhow::Result<bool> {
        let Some(name) = id.strip_prefix(self.me().as_str()).and_then(|rest| rest.strip_prefix('.')) else {
            return Ok(false);
        };
        let reader = match name.strip_prefix('h').map(HandoffId::new) {
            Some(Ok(handoff)) => {
                handoffs::read(&self.store.state, &handoff).map(|home| home.and_then(HomeRecord::gone_to))
            }
            _ => self.outbox().reader(name),
        };
        match reader {
            Ok(reader) => Ok(reader.is_some_and(|reader| reader == *machine)),
            Err(e) if e.may_be_sound() => Err(e.into()),
            // It waits for the newer baton that wrote it, and the other receipts do not.
            Err(_) => Ok(false),
        }
    }

    fn refuse(&mut self, stored: &MailboxRow, why: &dyn std::fmt::Display) {
        self.view.refused += 1;
        self.fault(&format!("believe the envelope {} of {}", stored.id, stored.sender), why);
        self.show(LinkState::Connected, None);
    }

    /// Sends receipts for messages that were seen or ended here.
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
