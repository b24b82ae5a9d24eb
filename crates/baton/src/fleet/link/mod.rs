//! The daemon's part: one connection, kept while it works and opened again when it breaks.
//!
//! Everything it knows is in files, so it may be killed between any two steps. What it sends is idempotent: parcels
//! have ids, envelopes leave the mailbox only when they are on disk, and receipts only move a message forward.
//!
//! [`peers`] is about other machines, [`mailbox`] about envelopes, [`moves`] about handoffs.

mod mailbox;
mod moves;
mod peers;

use std::collections::{HashMap, HashSet};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use baton_core::fleet::MachineName;
use baton_core::fleet::envelope::VERSION;
use baton_core::fleet::presence::{self, BEAT, Shared, SharedAgent};
use baton_core::fleet::watermark::{Continuity, Watermark};
use jiff::Timestamp;
use tokio::net::UnixDatagram;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::config::Config;
use crate::fleet::config::{Admin, Membership};
use crate::fleet::database::{Endpoint, Refused, Session};
use crate::fleet::inbound::Tracker;
use crate::fleet::keys::DeviceKeys;
use crate::fleet::link::peers::Peer;
use crate::fleet::outbox::Outbox;
use crate::fleet::roll::{LinkState, LinkView};
use crate::fleet::{admin, folder, schema, socket};
use crate::store::log::LogLine;
use crate::store::{Store, record};
use crate::sys::fs;
use crate::sys::hash::hex;
use crate::sys::paths::Paths;
use crate::views::agent::{self, AgentView};

/// How soon mail is looked for where the database cannot wake us.
const POLL: Duration = Duration::from_secs(2);
/// How soon a new receipt is noticed.
const LOOK: Duration = Duration::from_millis(250);
/// How old the news of other machines may be.
const NEWS: Duration = Duration::from_mins(1);
/// Pauses between attempts to connect: doubled up to this, and never the same on two machines.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// After a connection that held so long, the first pause is enough again.
const LASTING: Duration = Duration::from_secs(5);
/// A database that accepted us a moment ago is soon back.
const BRIEF_PAUSE: Duration = Duration::from_secs(2);
/// How soon it is tried again where somebody on this machine has something for the others.
const EAGER_PAUSE: Duration = Duration::from_secs(1);
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
        if let Some(link) = begin(store, membership, &stop, &wakeups).await {
            link.run(&stop, &wakeups).await;
        }
        let _ = std::fs::remove_file(socket(&store.state));
        anyhow::Ok(())
    })
}

/// What this machine knows of its fleet, as soon as that can be read; `None` if it ends before.
async fn begin<'a>(
    store: &'a Store,
    membership: Membership,
    stop: &tokio::net::UnixStream,
    wakeups: &UnixDatagram,
) -> Option<Link<'a>> {
    let mut buffer = [0; 8];
    loop {
        match Link::new(store, membership.clone()) {
            Ok(link) => return Some(link),
            Err(e) => store.log().fault(Timestamp::now(), "take part in the fleet", &format!("{e:#}")),
        }
        let ended = Instant::now();
        tokio::select! {
            _ = stop.readable() => return None,
            () = tokio::time::sleep(jittered(LONGEST_PAUSE)) => {}
            _ = wakeups.recv(&mut buffer) => tokio::time::sleep_until(ended + EAGER_PAUSE).await,
        }
    }
}

fn bind(state: &Path) -> anyhow::Result<UnixDatagram> {
    let path = socket(state);
    fs::private_dir(path.parent().unwrap_or(state))?;
    // Left by a killed daemon; our lock shows that no other one runs.
    fs::remove(&path)?;
    UnixDatagram::bind(&path).with_context(|| format!("could not listen on {}", path.display()))
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
    known: HashMap<MachineName, Peer>,
    tracker: Tracker,
    watermark: Watermark,
    view: LinkView,
    /// This run of the daemon, since the last restore. A later incarnation fences it.
    incarnation: String,
    has_begun: bool,
    shared: Option<Vec<SharedAgent>>,
    /// Envelopes that could not be stored here, and the log says why.
    told_stuck: HashSet<String>,
    swept: Option<Instant>,
    paths: Paths,
}
impl<'a> Link<'a> {
    fn new(store: &'a Store, membership: Membership) -> anyhow::Result<Self> {
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
            stuck: 0,
        };
        Ok(Self {
            endpoint: Endpoint::new(&membership.url)?,
            keys: DeviceKeys::from_hex(&membership.sign, &membership.seal)?,
            known: HashMap::new(),
            tracker: Tracker::open(&store.state),
            watermark,
            view,
            incarnation: random()?,
            has_begun: false,
            shared: None,
            told_stuck: HashSet::new(),
            swept: None,
            paths: Paths::from_env()?,
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

    /// Publishes the state of the connection.
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

    /// Whether this machine is still the one that joined, as far as that can be read.
    fn is_member(&self) -> bool {
        let now = Membership::read(&self.store.state);
        now.map_or(true, |now| now.is_some_and(|now| now.url == self.membership.url))
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
            // An attempt that has waited long for an answer does not count as a connection.
            if self.view.state == LinkState::Connected {
                pause = if began.elapsed() > LASTING { FIRST_PAUSE } else { pause.min(BRIEF_PAUSE) };
            }
            self.show(state, Some(format!("{error:#}")));
            let ended = Instant::now();
            let mut until = ended + jittered(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
            let mut buffer = [0; 8];
            loop {
                tokio::select! {
                    _ = stop.readable() => return,
                    () = tokio::time::sleep_until(until) => break,
                    // Somebody sends something or asks. Only this machine tries sooner, and at most once a second.
                    _ = wakeups.recv(&mut buffer) => until = until.min(ended + jittered(EAGER_PAUSE)),
                }
                if !self.is_member() {
                    return;
                }
            }
        }
    }

    /// Reports this machine as asleep. Does not wait long for a database that is away.
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
        self.view.hints = session.listen(&mut woken).await?;
        self.show(LinkState::Connected, None);
        self.shared = None;
        self.exchange(&mut session, &mut woken, wakeups).await
    }

    /// Continues where this machine stopped, or starts over after a restore.
    async fn begin(&mut self, session: &Session) -> anyhow::Result<()> {
        let (found, incarnation) = session.found().await?;
        let is_restored = self.watermark.compare(&found) == Continuity::Restored;
        let mut watermark = self.watermark;
        if is_restored {
            let again = self.outbox().send_again(self.me())?;
            self.say_moves_again()?;
            self.view.restored = Some(Timestamp::now());
            self.log(
                "fleet-restored",
                serde_json::json!({ "found": format!("{found:?}"), "sent_again": again }),
            );
            if let Some(admin) = Admin::read(&self.store.state)?.filter(|a| !a.revoked.is_empty()) {
                Box::pin(admin::say_revoked_again(&admin)).await?;
            }
            // A later incarnation, so that other backups of the time before are recognised as such.
            self.incarnation = random()?;
            watermark = watermark.after_restore(&found);
        } else if self.has_begun && incarnation.as_deref() != Some(&self.incarnation) {
            return Err(Refused::Fenced.into());
        }
        watermark.epoch = session.begin(&self.incarnation, watermark.epoch, BEAT).await?;
        // Last: whatever breaks before is done again.
        self.watermark = watermark;
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
                // A giver that was killed has woken nobody.
                looks_at_homes = true;
            }
            if now >= next_news {
                next_news = now + NEWS;
                self.refresh_roll(session).await?;
            }
            if std::mem::take(&mut looks_at_homes) {
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
            if !self.outbox().waiting(1)?.is_empty() {
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
        // Assume that the request took half of the round trip.
        let middle = sent + Timestamp::now().duration_since(sent) / 2;
        let skew = i64::try_from(middle.duration_since(beat.clock).as_millis()).unwrap_or(i64::MAX);
        self.hear(beat.beats, beat.last)?;
        // Ignore a second of jitter.
        if skew.abs_diff(self.view.skew_ms) > 1000 {
            self.view.skew_ms = skew;
            self.show(LinkState::Connected, None);
        }
        Ok(())
    }

    /// Notes the database's counters. If it was restored while the connection held, the next connection starts over.
    fn hear(&mut self, beats: u64, last: u64) -> anyhow::Result<()> {
        let continuity = self.watermark.hear(beats, last);
        self.keep_watermark()?;
        anyhow::ensure!(continuity == Continuity::Same, "the database was replaced by an older state of it");
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
        if let Err(e) = self.forget_moves() {
            self.fault("tidy up the handoffs that have left", &format!("{e:#}"));
        }
    }

    /// Shares which agents are here, if that has changed.
    async fn share(&mut self, session: &Session) -> anyhow::Result<()> {
        let thresholds = baton_core::level::Thresholds::default();
        let hidden = self.config()?.fleet.hide;
        let agents: Vec<SharedAgent> = agent::all(self.store, false, |_| thresholds)
            .iter()
            .filter(|view| !hidden.contains(&view.channel))
            .map(shared_agent)
            .collect();
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

    /// The settings of the user, without those of a project.
    fn config(&self) -> anyhow::Result<Config> {
        let env = std::env::vars_os()
            .filter(|(name, _)| name.as_encoded_bytes().starts_with(b"BATON_"))
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        Ok(crate::project::trust::settings(&self.paths, Path::new("/"), env)?.config)
    }
}

fn random() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).context("could not get random bytes")?;
    Ok(hex(&bytes))
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
