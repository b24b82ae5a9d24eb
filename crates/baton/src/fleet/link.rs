//! The daemon's part: one connection, kept as long as it holds and made again when it does not.
//!
//! Everything it knows is in files, so it may be killed between any two steps. What it says is idempotent: parcels have
//! ids, the cursor moves only after what was fetched is on disk, and receipts only move a message forward.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use baton_core::fleet::MachineName;
use baton_core::fleet::envelope::{self, Header, Kind, MAX_SEALED, Receipts, Row, VERSION, signed_bytes};
use baton_core::fleet::home::{self, Local, Move};
use baton_core::fleet::presence::{self, BEAT, Presence, Shared, SharedAgent};
use baton_core::fleet::stage::{Receipt, Stage};
use baton_core::fleet::watermark::{self, Continuity, Watermark};
use baton_core::handoff::Header as Document;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::net::UnixDatagram;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::config::Config;
use crate::fleet::config::{Admin, Membership};
use crate::fleet::database::{Endpoint, Refused, Session, Stored};
use crate::fleet::handoffs::{self, HomeRecord};
use crate::fleet::inbound::{self, Tracker};
use crate::fleet::keys::{Card, DeviceKeys, KeyError};
use crate::fleet::outbox::{Outbox, Parcel};
use crate::fleet::roll::{LinkState, LinkView, MachineView, Roll};
use crate::fleet::{admin, arrive, folder, schema, socket};
use crate::store::log::LogLine;
use crate::store::{Store, record};
use crate::sys::fs;
use crate::sys::hash::hex;
use crate::sys::paths::Paths;
use crate::views::agent::{self, AgentView};

/// Parcels that are sent in one statement.
const BATCH: usize = 128;
/// How soon mail is looked for where the database cannot wake us.
const POLL: Duration = Duration::from_secs(2);
/// How soon somebody's look at a message is noticed.
const LOOK: Duration = Duration::from_millis(250);
/// How old the news of other machines may be.
const NEWS: Duration = Duration::from_mins(1);
/// Pauses between attempts to connect: doubled up to this, and never the same on two machines.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How often the outbox is tidied up.
const SWEEP: Duration = Duration::from_hours(6);

/// Serves this machine's place in its fleet until `stop` is closed or the machine leaves.
pub(crate) fn attend(store: &Store, stop: &UnixStream) -> anyhow::Result<()> {
    let Some(membership) = Membership::read(&store.state)? else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not set up the event loop")?;
    let stop = stop.try_clone().context("could not watch for the end")?;
    stop.set_nonblocking(true)?;
    runtime.block_on(async {
        let stop = tokio::net::UnixStream::from_std(stop)?;
        let wakeups = bind(&store.state)?;
        Link::new(store, membership)?.run(&stop, &wakeups).await;
        let _ = std::fs::remove_file(socket(&store.state));
        anyhow::Ok(())
    })
}

fn bind(state: &Path) -> anyhow::Result<UnixDatagram> {
    let path = socket(state);
    fs::private_dir(path.parent().unwrap_or(state))?;
    // Of a daemon that was killed; the daemon's lock says that there is no other.
    fs::remove(&path)?;
    UnixDatagram::bind(&path).with_context(|| format!("could not listen on {}", path.display()))
}

/// Another machine as it proved itself here first.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Known {
    card: Card,
    /// The latest incarnation that was heard.
    #[serde(default)]
    epoch: u64,
    /// The fleet's key has revoked it. That is never forgotten.
    #[serde(default)]
    revoked: bool,
}

/// Why a machine is neither written to nor believed. The others go on.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Doubt(&'static str);

/// Whether an error is about another machine, and not about the database or this one.
fn is_doubt(error: &anyhow::Error) -> bool {
    error.is::<Doubt>()
        || error.is::<KeyError>()
        || matches!(error.downcast_ref(), Some(Refused::NoSuchMachine))
}

/// Why the connection ended.
enum End {
    /// The daemon stops, or this machine has left the fleet.
    Stop,
}

struct Link<'a> {
    store: &'a Store,
    membership: Membership,
    endpoint: Endpoint,
    keys: DeviceKeys,
    known: HashMap<MachineName, Known>,
    tracker: Tracker,
    watermark: Watermark,
    view: LinkView,
    /// This run of the daemon. Another one that begins after us fences us.
    incarnation: String,
    has_begun: bool,
    shared: Option<Vec<SharedAgent>>,
    swept: Option<Instant>,
    paths: Paths,
    /// The database was restored, and has to be told again which handoffs have left.
    says_again: bool,
}

impl<'a> Link<'a> {
    fn new(store: &'a Store, membership: Membership) -> anyhow::Result<Self> {
        let mut incarnation = [0; 16];
        getrandom::fill(&mut incarnation).context("could not get random bytes")?;
        let watermark: Watermark = record::read(&watermark_path(&store.state))?.unwrap_or_default();
        let view = LinkView {
            state: LinkState::Away,
            since: Timestamp::now(),
            why: Some("not connected yet".to_owned()),
            epoch: watermark.epoch,
            skew_ms: 0,
            hints: false,
            restored: None,
            refused: 0,
        };
        Ok(Self {
            endpoint: Endpoint::new(&membership.url)?,
            keys: DeviceKeys::from_hex(&membership.sign, &membership.seal)?,
            known: HashMap::new(),
            tracker: Tracker::open(&store.state),
            watermark,
            view,
            incarnation: hex(&incarnation),
            has_begun: false,
            shared: None,
            swept: None,
            paths: Paths::from_env()?,
            says_again: false,
            store,
            membership,
        })
    }

    fn me(&self) -> &MachineName {
        &self.membership.name
    }

    fn outbox(&self) -> Outbox {
        Outbox::of(&self.store.state)
    }

    fn fault(&self, doing: &str, error: &dyn std::fmt::Display) {
        self.store.log().fault(Timestamp::now(), doing, error);
    }

    fn log(&self, event: &str, detail: serde_json::Value) {
        self.store.log().append(&LogLine { detail, ..LogLine::new(Timestamp::now(), event) });
    }

    /// Shows the state of the connection to whoever looks.
    fn show(&mut self, state: LinkState, why: Option<String>) {
        if self.view.state != state {
            self.view.since = Timestamp::now();
            let detail = serde_json::json!({ "state": state, "why": why, "epoch": self.watermark.epoch });
            self.log("fleet-link", detail);
        }
        (self.view.state, self.view.why, self.view.epoch) = (state, why, self.watermark.epoch);
        if let Err(e) = self.view.write(&self.store.state) {
            self.fault("write down the state of the fleet", &e);
        }
    }

    /// Whether this machine is still the one that joined.
    fn is_member(&self) -> bool {
        let now = Membership::read(&self.store.state);
        now.is_ok_and(|now| now.is_some_and(|now| now.url == self.membership.url))
    }

    async fn run(mut self, stop: &tokio::net::UnixStream, wakeups: &UnixDatagram) {
        let mut pause = FIRST_PAUSE;
        self.show(LinkState::Away, Some("not connected yet".to_owned()));
        loop {
            let began = Instant::now();
            let ended = tokio::select! {
                ended = self.connected(wakeups) => ended,
                _ = stop.readable() => {
                    self.say_goodbye().await;
                    return;
                }
            };
            let error = match ended {
                Ok(End::Stop) => return,
                Err(error) => error,
            };
            let state = match error.downcast_ref::<Refused>() {
                Some(Refused::Fenced) => LinkState::Fenced,
                Some(Refused::Revoked) => LinkState::Revoked,
                _ => LinkState::Away,
            };
            self.show(state, Some(format!("{error:#}")));
            if began.elapsed() > LONGEST_PAUSE {
                pause = FIRST_PAUSE;
            }
            let wait = if state == LinkState::Away { jittered(pause) } else { LONGEST_PAUSE };
            pause = (pause * 2).min(LONGEST_PAUSE);
            let until = Instant::now() + wait;
            let mut buffer = [0; 8];
            loop {
                tokio::select! {
                    _ = stop.readable() => return,
                    () = tokio::time::sleep_until(until) => break,
                    // Somebody has sent something, joined or left: the pause stays, or a crowd would storm the database.
                    _ = wakeups.recv(&mut buffer) => {}
                }
                if !self.is_member() {
                    return;
                }
            }
        }
    }

    /// The machine is asleep from now on. Nobody waits long for a database that is away.
    async fn say_goodbye(&mut self) {
        if self.view.state != LinkState::Connected {
            return;
        }
        self.show(LinkState::Away, Some("the daemon has stopped".to_owned()));
        let goodbye = async {
            let (client, _) = self.endpoint.connect().await?;
            self.session(client).stopped(self.watermark.epoch).await
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), goodbye).await;
    }

    fn session(&self, client: tokio_postgres::Client) -> Session {
        Session { client, fleet: self.membership.fleet.clone(), me: self.me().clone() }
    }

    /// Connects and exchanges until something breaks.
    async fn connected(&mut self, wakeups: &UnixDatagram) -> anyhow::Result<End> {
        let (client, mut woken) = self.endpoint.connect().await?;
        schema::check(&client).await?;
        let mut session = self.session(client);
        self.begin(&session).await?;
        if self.watermark.cursor > 0 {
            // The last acknowledgement may not have been heard, and rows would stay until the next message.
            session.acknowledge(self.watermark.cursor).await?;
        }
        self.view.hints = session.listen(&mut woken).await?;
        self.show(LinkState::Connected, None);
        self.shared = None;
        self.exchange(&mut session, &mut woken, wakeups).await
    }

    /// Takes up where this machine was, or begins anew after a restore.
    async fn begin(&mut self, session: &Session) -> anyhow::Result<()> {
        let (found, incarnation) = session.found().await?;
        let is_restored = self.watermark.compare(&found) == Continuity::Restored;
        if is_restored {
            self.watermark = self.watermark.after_restore(&found);
            let again = self.outbox().send_again(self.me())?;
            for mut home in handoffs::all(&self.store.state) {
                home.local = home.local.after_restore();
                handoffs::keep(&self.store.state, &home)?;
            }
            self.says_again = true;
            self.view.restored = Some(Timestamp::now());
            self.log(
                "fleet-restored",
                serde_json::json!({ "found": format!("{found:?}"), "sent_again": again }),
            );
            if let Some(admin) = Admin::read(&self.store.state)?.filter(|a| !a.revoked.is_empty()) {
                admin::say_revoked_again(&admin).await?;
            }
        } else if self.has_begun && incarnation.as_deref() != Some(&self.incarnation) {
            return Err(Refused::Fenced.into());
        }
        self.watermark.epoch = session.begin(&self.incarnation, self.watermark.epoch, BEAT).await?;
        self.has_begun = true;
        self.keep_watermark()
    }

    fn keep_watermark(&self) -> anyhow::Result<()> {
        Ok(record::write(&watermark_path(&self.store.state), &self.watermark)?)
    }

    async fn exchange(
        &mut self,
        session: &mut Session,
        woken: &mut mpsc::UnboundedReceiver<()>,
        wakeups: &UnixDatagram,
    ) -> anyhow::Result<End> {
        let (mut next_beat, mut next_poll, mut next_news) = (Instant::now(), Instant::now(), Instant::now());
        let poll = if self.view.hints { BEAT } else { POLL };
        let mut buffer = [0; 8];
        let mut looks_at_homes = true;
        loop {
            if !self.is_member() {
                return Ok(End::Stop);
            }
            let now = Instant::now();
            if now >= next_beat {
                next_beat = now + BEAT;
                self.beat(session).await?;
                self.share(session).await?;
                self.sweep();
            }
            if now >= next_news {
                next_news = now + NEWS;
                self.refresh_roll(session).await?;
            }
            if std::mem::take(&mut looks_at_homes) || self.says_again {
                self.move_handoffs(session).await?;
            }
            self.send_all(session).await?;
            if now >= next_poll {
                next_poll = now + poll;
                self.fetch_all(session).await?;
            }
            self.tell_ended()?;
            let mut until = next_beat.min(next_poll).min(next_news);
            if !self.tracker.is_empty() {
                until = until.min(Instant::now() + LOOK);
            }
            if !self.outbox().waiting(1).is_empty() {
                continue;
            }
            tokio::select! {
                heard = woken.recv() => {
                    anyhow::ensure!(heard.is_some(), "the database has closed the connection");
                    while woken.try_recv().is_ok() {}
                    next_poll = Instant::now();
                }
                Ok(n) = wakeups.recv(&mut buffer) => {
                    looks_at_homes = true;
                    if buffer[..n] == *b"?" {
                        (next_beat, next_news) = (Instant::now(), Instant::now());
                    }
                }
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    async fn beat(&mut self, session: &Session) -> anyhow::Result<()> {
        let sent = Timestamp::now();
        let beat = session.beat(self.watermark.epoch).await?;
        // Half of the way there and back belongs to neither clock.
        let middle = sent + Timestamp::now().duration_since(sent) / 2;
        let skew = i64::try_from(middle.duration_since(beat.clock).as_millis()).unwrap_or(i64::MAX);
        (self.watermark.beats, self.watermark.last) = (beat.beats, beat.last);
        self.keep_watermark()?;
        // A second of jitter on the way is no news.
        if skew.abs_diff(self.view.skew_ms) > 1000 {
            self.view.skew_ms = skew;
            self.show(LinkState::Connected, None);
        }
        Ok(())
    }

    fn sweep(&mut self) {
        if self.swept.is_some_and(|at| at.elapsed() < SWEEP) {
            return;
        }
        self.swept = Some(Instant::now());
        if let Err(e) = self.outbox().sweep(self.me(), Timestamp::now()) {
            self.fault("tidy up the outbox of the fleet", &e);
        }
        // What has left for a week is not said again; where it went stays on record.
        for mut home in handoffs::all(&self.store.state) {
            if home.parcel.is_some()
                && matches!(home.local, Local::Away { .. })
                && Timestamp::now().duration_since(home.at) >= watermark::KEPT
            {
                home.parcel = None;
                if let Err(e) = handoffs::keep(&self.store.state, &home) {
                    self.fault("tidy up the handoffs that have left", &e);
                }
            }
        }
    }

    /// Shares which agents are here, if that has changed.
    async fn share(&mut self, session: &Session) -> anyhow::Result<()> {
        let thresholds = baton_core::level::Thresholds::default();
        let agents: Vec<SharedAgent> =
            agent::all(self.store, false, |_| thresholds).iter().map(shared_agent).collect();
        if self.shared.as_ref() == Some(&agents) {
            return Ok(());
        }
        let shared = Shared {
            v: VERSION,
            machine: self.me().clone(),
            epoch: self.watermark.epoch,
            at: Timestamp::now(),
            agents: agents.clone(),
        };
        let body = serde_json::to_string(&shared)?;
        let signature = self.keys.sign.sign(&[presence::PURPOSE, body.as_bytes()].concat());
        session.share(self.watermark.epoch, &body, &signature).await?;
        self.shared = Some(agents);
        Ok(())
    }

    /// Reads what all machines say of themselves.
    async fn refresh_roll(&mut self, session: &Session) -> anyhow::Result<()> {
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

    fn known_path(&self, name: &MachineName) -> PathBuf {
        folder(&self.store.state).join("known").join(format!("{name}.json"))
    }

    fn keep_known(&mut self, known: Known) -> anyhow::Result<()> {
        let path = self.known_path(&known.card.name);
        fs::private_dir(&folder(&self.store.state).join("known"))?;
        record::write(&path, &known)?;
        self.known.insert(known.card.name.clone(), known);
        Ok(())
    }

    /// Proves a machine by its card. The first keys that were proved stay its keys, and revoked stays revoked.
    fn learn(
        &mut self,
        name: &MachineName,
        card: Option<&str>,
        tombstone: Option<&str>,
    ) -> anyhow::Result<Known> {
        let before = match self.known.get(name) {
            Some(known) => Some(known.clone()),
            None => record::read::<Known>(&self.known_path(name))?,
        };
        let (fleet, root) = (&self.membership.fleet, &self.membership.root);
        let card: Option<Card> =
            card.map(serde_json::from_str).transpose().map_err(|_| Doubt("its card cannot be read"))?;
        if let Some(card) = &card {
            card.check(fleet, root, name)?;
        }
        let mut known = match (before, card) {
            // Its name was given anew: only the fleet's key can have signed a later invitation.
            (Some(before), Some(card)) if before.card != card && card.expires > before.card.expires => {
                Known { card, epoch: 0, revoked: false }
            }
            (Some(before), Some(card)) if before.card != card => {
                return Err(Doubt("its keys are not those that it had before").into());
            }
            (Some(before), _) => before,
            (None, Some(card)) => Known { card, epoch: 0, revoked: false },
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
    async fn trusted(&mut self, session: &Session, name: &MachineName) -> anyhow::Result<Known> {
        let known = if let Some(known) = self.known.get(name) {
            known.clone()
        } else {
            let rows = session.devices(Some(name)).await?;
            let row = rows.first().ok_or(Refused::NoSuchMachine)?;
            self.learn(name, row.card.as_deref(), row.tombstone.as_deref())?
        };
        if known.revoked { Err(Doubt("it was revoked").into()) } else { Ok(known) }
    }

    /// Sends what waits, oldest first, machine by machine.
    async fn send_all(&mut self, session: &mut Session) -> anyhow::Result<()> {
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

    async fn send(&mut self, session: &Session, to: &MachineName, parcels: &[&Parcel]) -> anyhow::Result<()> {
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

    /// The settings of the user, without those of a project.
    fn config(&self) -> anyhow::Result<Config> {
        let env = std::env::vars_os()
            .filter(|(name, _)| name.as_encoded_bytes().starts_with(b"BATON_"))
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        Ok(crate::project::trust::settings(&self.paths, Path::new("/"), env)?.config)
    }

    /// Moves what is leaving, and says again after a restore what has left.
    async fn move_handoffs(&mut self, session: &mut Session) -> anyhow::Result<()> {
        let says_again = std::mem::take(&mut self.says_again);
        for mut home in handoffs::all(&self.store.state) {
            let before = home.local.clone();
            let wanted = match &home.local {
                Local::Here { .. } => false,
                Local::Leaving { .. } => true,
                Local::Away { .. } => {
                    says_again && Timestamp::now().duration_since(home.at) < watermark::KEPT
                }
            };
            let Some(moves) = home.local.wanted_move(self.me()).filter(|_| wanted) else { continue };
            let Some(parcel) = home.parcel.clone() else { continue };
            match self.give(session, &home, &moves, &parcel).await {
                Ok(row) => home.local = home.local.settled(&row),
                // The database has refused the whole transaction, so the handoff never left.
                Err(e) if is_doubt(&e) => {
                    if matches!(before, Local::Leaving { .. }) {
                        home.why = Some(format!("{e:#}"));
                        self.bring_back(&mut home)?;
                    }
                }
                Err(e) => return Err(e),
            }
            if home.local != before {
                handoffs::keep(&self.store.state, &home)?;
                let detail =
                    serde_json::json!({ "handoff": home.handoff, "home": home.local, "why": home.why });
                self.log("fleet-handoff", detail);
            }
        }
        Ok(())
    }

    async fn give(
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
        let document = Some((self.watermark.epoch, header.id, envelope));
        let row = session.give(home.handoff.as_str(), moves, document).await?;
        if row.home == moves.to && row.epoch == moves.epoch {
            // The document is posted then, which counts as a heartbeat.
            self.watermark.beats += 1;
            self.keep_watermark()?;
        }
        Ok(row)
    }

    /// A handoff that could not be given to anybody is active here again.
    fn bring_back(&self, home: &mut HomeRecord) -> anyhow::Result<()> {
        home.local = Local::Here { epoch: home.local.epoch() };
        if let Some(channel) = &home.channel {
            self.store.handoffs(&self.config()?).reactivate(channel, &home.handoff, Timestamp::now())?;
        }
        Ok(())
    }

    /// Fetches what lies in the mailbox. The cursor moves when it is on disk.
    async fn fetch_all(&mut self, session: &mut Session) -> anyhow::Result<()> {
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

    fn put_receipts(&self, to: &MachineName, receipts: Vec<Receipt>) -> anyhow::Result<()> {
        let body = serde_json::to_value(Receipts { receipts })?;
        self.outbox().put(to, Kind::Receipts, None, body, Timestamp::now())?;
        Ok(())
    }

    /// Takes one envelope in. What is not believed is logged and left behind; only what this machine could not do is an
    /// error, and then it is fetched again.
    async fn receive(
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

    fn refuse(&mut self, stored: &Stored, why: &dyn std::fmt::Display) {
        self.view.refused += 1;
        self.fault(&format!("believe the envelope {} of {}", stored.id, stored.sender), why);
        self.show(LinkState::Connected, None);
    }

    /// Whether an envelope is what it says. The outer error is the database's; the inner one is about the envelope.
    async fn believe(
        &mut self,
        session: &Session,
        stored: &Stored,
    ) -> anyhow::Result<anyhow::Result<(Header, Vec<u8>)>> {
        let row = Row {
            fleet: &self.membership.fleet,
            id: &stored.id,
            sender: &stored.sender,
            reader: &self.membership.name,
        };
        let header = match Header::read(&stored.envelope.header, &row) {
            Ok(header) => header,
            Err(e) => return Ok(Err(e.into())),
        };
        let known = match self.trusted(session, &header.from).await {
            Ok(known) => known,
            Err(e) if is_doubt(&e) => return Ok(Err(e)),
            Err(e) => return Err(e),
        };
        let signed = signed_bytes(&stored.envelope.header, &stored.envelope.sealed);
        let checked = || {
            known.card.verify(&signed, &stored.envelope.signature)?;
            header.check_epoch(known.epoch)?;
            Ok(self.keys.open(&stored.envelope.header, &stored.envelope.sealed)?)
        };
        let body: Vec<u8> = match checked() {
            Ok(body) => body,
            Err(e) => return Ok(Err(e)),
        };
        if header.epoch > known.epoch {
            self.keep_known(Known { epoch: header.epoch, ..known })?;
        }
        Ok(Ok((header, body)))
    }

    /// Tells senders what became of their messages here.
    fn tell_ended(&mut self) -> anyhow::Result<()> {
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

fn watermark_path(state: &Path) -> PathBuf {
    folder(state).join("watermark.json")
}

fn shared_agent(view: &AgentView) -> SharedAgent {
    SharedAgent {
        name: view.id.clone(),
        provider: view.provider.clone(),
        project: view.project.clone(),
        state: view.state.clone(),
        level: view.level.as_str().to_owned(),
        used_percentage: view.used_percentage,
    }
}

/// Between half and one and a half of `pause`.
fn jittered(pause: Duration) -> Duration {
    let mut byte = [128];
    let _ = getrandom::fill(&mut byte);
    pause.mul_f64(0.5 + f64::from(byte[0]) / 255.0)
}
