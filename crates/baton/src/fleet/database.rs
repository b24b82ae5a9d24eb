//! One connection to the fleet's database: how it is made safe, and every statement that machines say.
//!
//! Statements are sent without a name and in one go, so a pooler in transaction mode is no hindrance; only waking by
//! `LISTEN` needs a session of its own, and the mailbox is polled where that does not work.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use baton_core::fleet::MachineName;
use baton_core::fleet::home::{Move, Row as HomeRow};
use baton_core::fleet::watermark::Found;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Socket};

use crate::fleet::keys::Envelope;

/// A database that has not answered for so long is away.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);
/// A mailbox is read in pieces of at most so many messages and bytes.
const FETCH: i64 = 256;
const FETCH_BYTES: i64 = 16 << 20;

/// Where a database is, and whether the way there is safe.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    config: Config,
    certificates: Option<PathBuf>,
    /// The way does not leave this machine.
    is_local: bool,
    tls: bool,
}

impl Endpoint {
    /// Reads a URL. TLS is required, with a certificate that is valid for the host, unless the database is on this machine.
    pub(crate) fn new(url: &str) -> anyhow::Result<Self> {
        let (url, certificates) = without_certificates(url);
        // The parser's own words would show the password.
        let mut config = Config::from_str(&url).map_err(|_| {
            anyhow::anyhow!("this is no URL of a PostgreSQL: postgres://USER:PASSWORD@HOST:5432/DATABASE")
        })?;
        anyhow::ensure!(!config.get_hosts().is_empty(), "the URL names no host");
        let is_local = config.get_hosts().iter().all(|host| match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => {
                name == "localhost"
                    || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
            }
        });
        let is_local = is_local && config.get_hostaddrs().iter().all(std::net::IpAddr::is_loopback);
        let tls = !is_local || config.get_ssl_mode() == SslMode::Require;
        config.ssl_mode(if tls { SslMode::Require } else { SslMode::Disable });
        config.connect_timeout(PATIENCE).application_name("baton").keepalives_idle(Duration::from_secs(30));
        config.tcp_user_timeout(PATIENCE);
        Ok(Self { config, certificates, is_local, tls })
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls
    }

    pub(crate) fn is_local(&self) -> bool {
        self.is_local
    }

    /// Connects. What wakes this machine comes out of the receiver; it ends when the connection does.
    pub(crate) async fn connect(&self) -> anyhow::Result<(Client, mpsc::UnboundedReceiver<()>)> {
        let connected = async {
            if self.tls { self.connect_with(self.connector()?).await } else { self.connect_with(NoTls).await }
        };
        within(connected).await
    }

    async fn connect_with<T>(&self, tls: T) -> anyhow::Result<(Client, mpsc::UnboundedReceiver<()>)>
    where
        T: MakeTlsConnect<Socket>,
        T::Stream: Send + 'static,
    {
        let (client, mut connection) = self.config.connect(tls).await.map_err(|e| refused(&e))?;
        let (wake, woken) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut next = std::future::poll_fn(move |cx| connection.poll_message(cx));
            while let Some(Ok(message)) = (&mut next).await {
                if matches!(message, AsyncMessage::Notification(_)) && wake.send(()).is_err() {
                    return;
                }
            }
        });
        Ok((client, woken))
    }

    fn connector(&self) -> anyhow::Result<tokio_postgres_rustls::MakeRustlsConnect> {
        let mut roots = rustls::RootCertStore::empty();
        if let Some(path) = &self.certificates {
            use rustls::pki_types::pem::PemObject as _;
            let pem = std::fs::read(path).with_context(|| format!("could not read {}", path.display()))?;
            for certificate in rustls::pki_types::CertificateDer::pem_slice_iter(&pem) {
                roots.add(certificate.with_context(|| format!("{} is no certificate", path.display()))?)?;
            }
        } else {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
        anyhow::ensure!(
            !roots.is_empty(),
            "no certificates were found to check the database's by; name a file with ?sslrootcert=PATH in the URL"
        );
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("could not set up TLS")?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(tokio_postgres_rustls::MakeRustlsConnect::new(config))
    }
}

/// Takes `sslrootcert` out of a URL: the path of the certificates to trust. The rest is the driver's.
fn without_certificates(url: &str) -> (String, Option<PathBuf>) {
    let Some((base, query)) = url.split_once('?') else { return (url.to_owned(), None) };
    let mut certificates = None;
    let kept: Vec<&str> = query
        .split('&')
        .filter(|part| match part.strip_prefix("sslrootcert=") {
            Some(path) => {
                certificates = Some(Path::new(path).to_owned());
                false
            }
            // The driver knows fewer words than libpq: what is checked here is at least as much.
            None => !matches!(*part, "sslmode=verify-full" | "sslmode=verify-ca"),
        })
        .collect();
    let url = if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
    let url = if query.contains("sslmode=verify-") { with_parameter(&url, "sslmode=require") } else { url };
    (url, certificates)
}

fn with_parameter(url: &str, parameter: &str) -> String {
    format!("{url}{}{parameter}", if url.contains('?') { '&' } else { '?' })
}

/// What a database said, in words: the driver's own are "db error".
pub(crate) fn said(error: &tokio_postgres::Error) -> anyhow::Error {
    if let Some(db) = error.as_db_error() {
        return anyhow::anyhow!("{} ({})", db.message(), db.code().code());
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    anyhow::anyhow!(text)
}

/// Gives up on a database that is silent. The connection is not used again then.
pub(crate) async fn within<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_) => anyhow::bail!("the database has not answered for {} s", PATIENCE.as_secs()),
    }
}

/// Why the database refused this machine, where it matters.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("this machine was revoked, or has left the fleet")]
    Revoked,
    #[error("another incarnation of this machine has begun: a copy of its files runs elsewhere")]
    Fenced,
    #[error("there is no such machine in the fleet")]
    NoSuchMachine,
}

fn refused(error: &tokio_postgres::Error) -> anyhow::Error {
    let is_shut_out = |text: &str| text.contains("not permitted to log in");
    match error.code().map(SqlState::code) {
        Some("BT001" | "42501") => Refused::Revoked.into(),
        Some("BT002") => Refused::Fenced.into(),
        Some("BT003") => Refused::NoSuchMachine.into(),
        Some("28000") if error.as_db_error().is_some_and(|db| is_shut_out(db.message())) => {
            Refused::Revoked.into()
        }
        _ => said(error),
    }
}

/// What the database answers to a heartbeat.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beat {
    pub beats: u64,
    pub last: u64,
    /// The database's clock.
    pub clock: Timestamp,
}

/// A message as it lies in the mailbox.
#[derive(Debug)]
pub(crate) struct Stored {
    pub seq: u64,
    pub id: String,
    pub sender: String,
    pub envelope: Envelope,
}

/// One machine of the fleet as the database shows it.
#[derive(Debug)]
pub(crate) struct DeviceRow {
    pub name: String,
    pub card: Option<String>,
    pub tombstone: Option<String>,
    pub is_gone: bool,
    pub beat: Option<Timestamp>,
    pub silence: Option<Duration>,
    pub every: Duration,
    pub stopped: bool,
    pub body: Option<String>,
    pub signature: Option<Vec<u8>>,
}

type Param<'a> = (&'a (dyn ToSql + Sync), Type);

fn unsigned(n: i64) -> u64 {
    u64::try_from(n).unwrap_or_default()
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The statements of one machine.
pub(crate) struct Session {
    pub client: Client,
    pub fleet: String,
    pub me: MachineName,
}

impl Session {
    async fn query(&self, sql: &str, params: &[Param<'_>]) -> anyhow::Result<Vec<tokio_postgres::Row>> {
        within(async { self.client.query_typed(sql, params).await.map_err(|e| refused(&e)) }).await
    }

    async fn execute(&self, sql: &str, params: &[Param<'_>]) -> anyhow::Result<u64> {
        within(async { self.client.execute_typed(sql, params).await.map_err(|e| refused(&e)) }).await
    }

    /// The counters of this machine, before it says anything.
    pub(crate) async fn found(&self) -> anyhow::Result<(Found, Option<String>)> {
        let rows = self
            .query(
                "SELECT d.beats, d.epoch, d.incarnation, coalesce(m.last, 0)
                   FROM baton.devices d LEFT JOIN baton.mailboxes m ON m.fleet = d.fleet AND m.machine = d.name
                  WHERE d.fleet = $1 AND d.name = $2",
                &[(&self.fleet, Type::TEXT), (&self.me.as_str(), Type::TEXT)],
            )
            .await?;
        let row = rows.first().ok_or(Refused::Revoked)?;
        let found =
            Found { beats: unsigned(row.get(0)), epoch: unsigned(row.get(1)), last: unsigned(row.get(3)) };
        Ok((found, row.get(2)))
    }

    /// Begins an incarnation, later than every one before; its epoch.
    pub(crate) async fn begin(&self, incarnation: &str, known: u64, beat: Duration) -> anyhow::Result<u64> {
        let every = i32::try_from(beat.as_secs()).unwrap_or(15).max(1);
        let rows = self
            .query(
                "UPDATE baton.devices
                    SET epoch = CASE WHEN incarnation = $3 THEN epoch ELSE greatest(epoch, $4) + 1 END,
                        incarnation = $3, every_seconds = $5, stopped = false, beat = clock_timestamp()
                  WHERE fleet = $1 AND name = $2 RETURNING epoch",
                &[
                    (&self.fleet, Type::TEXT),
                    (&self.me.as_str(), Type::TEXT),
                    (&incarnation, Type::TEXT),
                    (&signed(known), Type::INT8),
                    (&every, Type::INT4),
                ],
            )
            .await?;
        let row = rows.first().ok_or(Refused::Revoked)?;
        Ok(unsigned(row.get(0)))
    }

    /// Says that this machine is there. The lease is on the database's clock.
    pub(crate) async fn beat(&self, epoch: u64) -> anyhow::Result<Beat> {
        let rows = self
            .query(
                "UPDATE baton.devices SET beat = clock_timestamp(), beats = beats + 1
                  WHERE fleet = $1 AND name = $2 AND epoch = $3
              RETURNING beats, beat,
                        (SELECT last FROM baton.mailboxes WHERE fleet = $1 AND machine = $2)",
                &[(&self.fleet, Type::TEXT), (&self.me.as_str(), Type::TEXT), (&signed(epoch), Type::INT8)],
            )
            .await?;
        let Some(row) = rows.first() else {
            // Nobody of that epoch: another incarnation, or nobody at all.
            self.found().await?;
            return Err(Refused::Fenced.into());
        };
        Ok(Beat {
            beats: unsigned(row.get(0)),
            clock: row.get(1),
            last: unsigned(row.get::<_, Option<i64>>(2).unwrap_or_default()),
        })
    }

    /// The daemon stops: its machine is asleep from now on.
    pub(crate) async fn stopped(&self, epoch: u64) -> anyhow::Result<()> {
        self.execute(
            "UPDATE baton.devices SET stopped = true WHERE fleet = $1 AND name = $2 AND epoch = $3",
            &[(&self.fleet, Type::TEXT), (&self.me.as_str(), Type::TEXT), (&signed(epoch), Type::INT8)],
        )
        .await?;
        Ok(())
    }

    /// The machine leaves the fleet.
    pub(crate) async fn leave(&self) -> anyhow::Result<()> {
        self.execute(
            "UPDATE baton.devices SET gone = clock_timestamp(), stopped = true WHERE fleet = $1 AND name = $2",
            &[(&self.fleet, Type::TEXT), (&self.me.as_str(), Type::TEXT)],
        )
        .await?;
        Ok(())
    }

    /// Shows the keys of this machine to the others: it has joined.
    pub(crate) async fn join(&self, card: &str) -> anyhow::Result<()> {
        let changed = self
            .execute(
                "UPDATE baton.devices SET card = $3, joined = clock_timestamp(), gone = NULL
                  WHERE fleet = $1 AND name = $2 AND joined IS NULL",
                &[(&self.fleet, Type::TEXT), (&self.me.as_str(), Type::TEXT), (&card, Type::TEXT)],
            )
            .await?;
        anyhow::ensure!(
            changed == 1,
            "this invitation has expired or was used already; `baton fleet invite` makes another one"
        );
        Ok(())
    }

    /// Puts envelopes for one machine into its mailbox, in this order. Those that are there already stay.
    pub(crate) async fn post(
        &self,
        to: &MachineName,
        epoch: u64,
        ids: &[String],
        envelopes: Vec<Envelope>,
    ) -> anyhow::Result<()> {
        let columns = Columns::of(envelopes);
        let params = columns.params(&self.fleet, to.as_str(), &self.me, epoch, ids);
        self.execute(POST, &borrowed(&params)).await?;
        Ok(())
    }

    /// What came after `cursor`, oldest first, in a piece that fits in memory.
    pub(crate) async fn fetch(&self, cursor: u64) -> anyhow::Result<Vec<Stored>> {
        let rows = self
            .query(
                "SELECT seq, id, sender, header, sealed, signature FROM (
                   SELECT *, sum(octet_length(sealed)) OVER (ORDER BY seq) AS bytes,
                          row_number() OVER (ORDER BY seq) AS n
                     FROM (SELECT * FROM baton.messages
                            WHERE fleet = $1 AND recipient = $2 AND seq > $3 ORDER BY seq LIMIT $4) page
                 ) page WHERE n = 1 OR bytes <= $5 ORDER BY seq",
                &[
                    (&self.fleet, Type::TEXT),
                    (&self.me.as_str(), Type::TEXT),
                    (&signed(cursor), Type::INT8),
                    (&FETCH, Type::INT8),
                    (&FETCH_BYTES, Type::INT8),
                ],
            )
            .await?;
        let stored = |row: tokio_postgres::Row| {
            Ok(Stored {
                seq: unsigned(row.try_get(0)?),
                id: row.try_get(1)?,
                sender: row.try_get(2)?,
                envelope: Envelope {
                    header: row.try_get(3)?,
                    sealed: row.try_get(4)?,
                    signature: row.try_get(5)?,
                },
            })
        };
        let rows: Result<Vec<Stored>, tokio_postgres::Error> = rows.into_iter().map(stored).collect();
        rows.map_err(|e| said(&e))
    }

    /// Everything up to `cursor` is on this machine's disk.
    pub(crate) async fn acknowledge(&self, cursor: u64) -> anyhow::Result<()> {
        self.execute(
            "WITH done AS (DELETE FROM baton.messages WHERE fleet = $1 AND recipient = $2 AND seq <= $3)
             UPDATE baton.mailboxes SET fetched = $3 WHERE fleet = $1 AND machine = $2",
            &[(&self.fleet, Type::TEXT), (&self.me.as_str(), Type::TEXT), (&signed(cursor), Type::INT8)],
        )
        .await?;
        Ok(())
    }

    pub(crate) async fn share(&self, epoch: u64, body: &str, signature: &[u8]) -> anyhow::Result<()> {
        self.execute(
            "INSERT INTO baton.presence (fleet, machine, epoch, body, signature) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (fleet, machine) DO UPDATE
                SET epoch = excluded.epoch, at = clock_timestamp(), body = excluded.body,
                    signature = excluded.signature
              WHERE presence.epoch <= excluded.epoch",
            &[
                (&self.fleet, Type::TEXT),
                (&self.me.as_str(), Type::TEXT),
                (&signed(epoch), Type::INT8),
                (&body, Type::TEXT),
                (&signature, Type::BYTEA),
            ],
        )
        .await?;
        Ok(())
    }

    /// All machines, or the one of this name.
    pub(crate) async fn devices(&self, name: Option<&MachineName>) -> anyhow::Result<Vec<DeviceRow>> {
        let name = name.map(MachineName::as_str);
        let rows = self
            .query(
                "SELECT d.name, d.card, d.tombstone, d.gone IS NOT NULL OR d.revoked IS NOT NULL, d.beat,
                        (extract(epoch FROM clock_timestamp() - d.beat) * 1000)::bigint, d.every_seconds, d.stopped,
                        p.body, p.signature
                   FROM baton.devices d LEFT JOIN baton.presence p ON p.fleet = d.fleet AND p.machine = d.name
                  WHERE d.fleet = $1 AND ($2::text IS NULL OR d.name = $2) ORDER BY d.name",
                &[(&self.fleet, Type::TEXT), (&name, Type::TEXT)],
            )
            .await?;
        let device = |row: tokio_postgres::Row| DeviceRow {
            name: row.get(0),
            card: row.get(1),
            tombstone: row.get(2),
            is_gone: row.get(3),
            beat: row.get(4),
            silence: row.get::<_, Option<i64>>(5).map(|ms| Duration::from_millis(unsigned(ms))),
            every: Duration::from_secs(u64::try_from(row.get::<_, i32>(6)).unwrap_or(15)),
            stopped: row.get(7),
            body: row.get(8),
            signature: row.get(9),
        };
        Ok(rows.into_iter().map(device).collect())
    }

    /// Takes back these envelopes of this machine; how many were removed, and how many are left.
    pub(crate) async fn unsend(&self, ids: &[String], channel: &str) -> anyhow::Result<(u64, u64)> {
        let count = |rows: Vec<tokio_postgres::Row>| rows.first().map_or(0, |row| unsigned(row.get(0)));
        let removed = self.query("SELECT baton.unsend($1)", &[(&ids, Type::TEXT_ARRAY)]).await?;
        self.query("SELECT baton.note_purge($1)::text", &[(&channel, Type::TEXT)]).await?;
        let left = self.query("SELECT baton.unfetched($1)", &[(&ids, Type::TEXT_ARRAY)]).await?;
        Ok((count(removed), count(left)))
    }

    /// Asks to be woken, and whether that works: not behind a pooler that shares sessions.
    pub(crate) async fn listen(&self, woken: &mut mpsc::UnboundedReceiver<()>) -> anyhow::Result<bool> {
        let rows = self
            .query(
                "SELECT baton.wakes($1, $2)",
                &[(&self.fleet, Type::TEXT), (&self.me.as_str(), Type::TEXT)],
            )
            .await?;
        let channel: String = rows.first().context("the database gave no answer")?.get(0);
        anyhow::ensure!(
            channel.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'),
            "the database answers nonsense"
        );
        let listening = async {
            self.client.batch_execute(&format!("LISTEN {channel}")).await.map_err(|e| refused(&e))?;
            self.client
                .execute_typed("SELECT pg_notify($1, '')", &[(&channel, Type::TEXT)])
                .await
                .map_err(|e| refused(&e))
        };
        within(listening).await?;
        Ok(tokio::time::timeout(Duration::from_secs(2), woken.recv()).await.is_ok_and(|w| w.is_some()))
    }

    /// Moves the home of a handoff in one transaction, with its document if that goes along; the row afterwards.
    pub(crate) async fn give(
        &mut self,
        handoff: &str,
        moves: &Move,
        document: Option<(u64, String, Envelope)>,
    ) -> anyhow::Result<HomeRow> {
        let (fleet, me) = (self.fleet.clone(), self.me.clone());
        let post = document.map(|(epoch, id, envelope)| (epoch, [id], Columns::of(vec![envelope])));
        let (to, epoch) = (moves.to.as_str().to_owned(), signed(moves.epoch));
        // A row that says at this very epoch that it was taken back gives way to a settled move.
        let below = if moves.is_settled { epoch + 1 } else { epoch };
        let params = post.as_ref().map(|(epoch, ids, columns)| (*epoch, ids.as_slice(), columns));
        let work = async {
            let transaction = self.client.transaction().await.map_err(|e| refused(&e))?;
            transaction
                .execute_typed(
                    "INSERT INTO baton.homes (fleet, handoff, home, epoch) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
                    &[
                        (&fleet, Type::TEXT),
                        (&handoff, Type::TEXT),
                        (&me.as_str(), Type::TEXT),
                        (&(epoch - 1), Type::INT8),
                    ],
                )
                .await
                .map_err(|e| refused(&e))?;
            transaction
                .execute_typed(
                    "UPDATE baton.homes SET home = $3, epoch = $4, at = clock_timestamp()
                      WHERE fleet = $1 AND handoff = $2 AND home = $5 AND epoch < $6",
                    &[
                        (&fleet, Type::TEXT),
                        (&handoff, Type::TEXT),
                        (&to, Type::TEXT),
                        (&epoch, Type::INT8),
                        (&me.as_str(), Type::TEXT),
                        (&below, Type::INT8),
                    ],
                )
                .await
                .map_err(|e| refused(&e))?;
            let row = transaction
                .query_typed_one(
                    "SELECT home, epoch FROM baton.homes WHERE fleet = $1 AND handoff = $2",
                    &[(&fleet, Type::TEXT), (&handoff, Type::TEXT)],
                )
                .await
                .map_err(|e| refused(&e))?;
            let (home, at): (String, i64) = (row.get(0), row.get(1));
            let home = MachineName::new(home).context("the database names no machine")?;
            let row = HomeRow { home, epoch: unsigned(at) };
            let is_given = row.home == moves.to && row.epoch == moves.epoch;
            if let Some((sender_epoch, ids, columns)) = params.filter(|_| is_given) {
                let params = columns.params(&fleet, &to, &me, sender_epoch, ids);
                transaction.execute_typed(POST, &borrowed(&params)).await.map_err(|e| refused(&e))?;
            }
            transaction.commit().await.map_err(|e| refused(&e))?;
            Ok(row)
        };
        within(work).await
    }
}

/// One statement for a whole batch: the rows are admitted in their order. It is a heartbeat too, so that a machine that has
/// sent something since a backup was made finds its counter too low after a restore.
const POST: &str = "WITH alive AS (
    UPDATE baton.devices SET beats = beats + 1, beat = clock_timestamp() WHERE fleet = $1 AND name = $3 AND epoch = $4
  )
  INSERT INTO baton.messages (fleet, recipient, seq, id, sender, epoch, header, sealed, signature)
  SELECT $1, $2, 0, u.id, $3, $4, u.header, u.sealed, u.signature
    FROM unnest($5::text[], $6::text[], $7::bytea[], $8::bytea[]) WITH ORDINALITY AS u (id, header, sealed, signature, n)
   ORDER BY u.n
  ON CONFLICT DO NOTHING";

/// Envelopes as the columns of one statement.
struct Columns {
    headers: Vec<String>,
    sealed: Vec<Vec<u8>>,
    signatures: Vec<Vec<u8>>,
}

type Value<'a> = (Box<dyn ToSql + Sync + 'a>, Type);

fn borrowed<'a>(params: &'a [Value<'a>]) -> Vec<Param<'a>> {
    params.iter().map(|(value, kind)| (value.as_ref() as &(dyn ToSql + Sync), kind.clone())).collect()
}

impl Columns {
    fn of(envelopes: Vec<Envelope>) -> Self {
        let mut columns = Self { headers: Vec::new(), sealed: Vec::new(), signatures: Vec::new() };
        for envelope in envelopes {
            columns.headers.push(envelope.header);
            columns.sealed.push(envelope.sealed);
            columns.signatures.push(envelope.signature);
        }
        columns
    }

    fn params<'a>(
        &'a self,
        fleet: &'a str,
        to: &'a str,
        me: &'a MachineName,
        epoch: u64,
        ids: &'a [String],
    ) -> Vec<Value<'a>> {
        vec![
            (Box::new(fleet), Type::TEXT),
            (Box::new(to), Type::TEXT),
            (Box::new(me.as_str()), Type::TEXT),
            (Box::new(signed(epoch)), Type::INT8),
            (Box::new(ids), Type::TEXT_ARRAY),
            (Box::new(self.headers.as_slice()), Type::TEXT_ARRAY),
            (Box::new(self.sealed.as_slice()), Type::BYTEA_ARRAY),
            (Box::new(self.signatures.as_slice()), Type::BYTEA_ARRAY),
        ]
    }
}
