//! One connection to the fleet's database: its security, and every statement that machines send.
//!
//! Statements are unnamed and sent in one message, so a pooler in transaction mode works; only `LISTEN` needs a
//! dedicated session, and the mailbox is polled if that fails.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use baton_core::fleet::MachineName;
use baton_core::fleet::home::{Move, Row as HomeRow};
use baton_core::fleet::watermark::Counters;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, GenericClient, NoTls, Row, Socket, Transaction};

use crate::fleet::keys::Envelope;

/// A database that does not answer for this long counts as away.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);
/// A slow line carries at least so many bytes a second: what is large gets more time.
const SLOWEST: u64 = 16 << 10;
/// A mailbox is read in pieces of at most so many messages and bytes. A larger message is a piece of its own.
const FETCH: i64 = 256;
const FETCH_BYTES: i64 = 256 << 10;

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

    /// Connects. The receiver gets this machine's wake-ups and ends with the connection.
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
            // The driver knows fewer modes than libpq; the check here is at least as strict.
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

/// The message of a database error; the driver's own text is only "db error".
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
    within_for(0, work).await
}

/// The same for work that carries so many bytes.
async fn within_for<T>(bytes: u64, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let patience = PATIENCE + Duration::from_secs(bytes / SLOWEST);
    match tokio::time::timeout(patience, work).await {
        Ok(done) => done,
        Err(_) => anyhow::bail!("the database has not answered for {} s", patience.as_secs()),
    }
}

/// Statements outside a [`Session`], each with the same deadline.
pub(crate) async fn query(
    client: &impl GenericClient,
    sql: &str,
    params: &[Param<'_>],
) -> anyhow::Result<Vec<Row>> {
    within(async { client.query_typed(sql, params).await.map_err(|e| said(&e)) }).await
}

/// The one row that the statement must return.
pub(crate) async fn query_one(
    client: &impl GenericClient,
    sql: &str,
    params: &[Param<'_>],
) -> anyhow::Result<Row> {
    query(client, sql, params).await?.pop().context("the database gave no answer")
}

pub(crate) async fn execute(
    client: &impl GenericClient,
    sql: &str,
    params: &[Param<'_>],
) -> anyhow::Result<u64> {
    within(async { client.execute_typed(sql, params).await.map_err(|e| said(&e)) }).await
}

/// Several statements without parameters.
pub(crate) async fn batch(client: &impl GenericClient, sql: &str) -> anyhow::Result<()> {
    within(async { client.batch_execute(sql).await.map_err(|e| said(&e)) }).await
}

pub(crate) async fn begin(client: &mut Client) -> anyhow::Result<Transaction<'_>> {
    within(async { client.transaction().await.map_err(|e| said(&e)) }).await
}

pub(crate) async fn commit(transaction: Transaction<'_>) -> anyhow::Result<()> {
    within(async { transaction.commit().await.map_err(|e| said(&e)) }).await
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
        // A restored database may not know a machine that has joined since: neither its mailbox nor its row.
        Some("BT003" | "23503") => Refused::NoSuchMachine.into(),
        Some("28000") if error.as_db_error().is_some_and(|db| is_shut_out(db.message())) => {
            Refused::Revoked.into()
        }
        _ => said(error),
    }
}

/// The database's answer to a heartbeat.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beat {
    pub beats: u64,
    pub last: u64,
    /// The database's clock.
    pub clock: Timestamp,
}

/// A message in the mailbox.
#[derive(Debug)]
pub(crate) struct MailboxRow {
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

/// A parameter with its type.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// A column, of whatever a broken database may have answered.
pub(crate) fn read<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> anyhow::Result<T> {
    row.try_get(column).map_err(|e| said(&e))
}

fn number(row: &Row, column: usize) -> anyhow::Result<u64> {
    Ok(unsigned(read(row, column)?))
}

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
    async fn query(&self, sql: &str, params: &[Param<'_>]) -> anyhow::Result<Vec<Row>> {
        within(async { self.client.query_typed(sql, params).await.map_err(|e| refused(&e)) }).await
    }

    async fn execute(&self, sql: &str, params: &[Param<'_>]) -> anyhow::Result<u64> {
        within(async { self.client.execute_typed(sql, params).await.map_err(|e| refused(&e)) }).await
    }

    /// The counters of this machine before it sends anything.
    pub(crate) async fn found(&self) -> anyhow::Result<(Counters, Option<String>)> {
        let rows = self
            .query(
                "SELECT d.beats, d.epoch, d.incarnation, coalesce(m.last, 0)
                   FROM baton.devices d LEFT JOIN baton.mailboxes m ON m.fleet = d.fleet AND m.machine = d.name
                  WHERE d.fleet = $1 AND d.name = $2",
                &[(&self.fleet, Type::TEXT), (&self.me.as_str(), Type::TEXT)],
            )
            .await?;
        let row = rows.first().ok_or(Refused::Revoked)?;
        let found = Counters { beats: number(row, 0)?, epoch: number(row, 1)?, last: number(row, 3)? };
        Ok((found, read(row, 2)?))
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
        number(row, 0)
    }

    /// Sends a heartbeat. The lease runs on the database's clock.
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
            // No row of that epoch: another incarnation, or none at all.
            self.found().await?;
            return Err(Refused::Fenced.into());
        };
        Ok(Beat {
            beats: number(row, 0)?,
            clock: read(row, 1)?,
            last: unsigned(read::<Option<i64>>(row, 2)?.unwrap_or_default()),
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

    /// Puts envelopes for one machine into its mailbox, in this order, and keeps existing ones. Returns how often this
    /// machine has sent a heartbeat.
    pub(crate) async fn post(
        &self,
        to: &MachineName,
        epoch: u64,
        ids: &[String],
        envelopes: Vec<Envelope>,
    ) -> anyhow::Result<u64> {
        let columns = Columns::of(envelopes);
        let params = columns.params(&self.fleet, to.as_str(), &self.me, epoch, ids);
        let work = async {
            let rows = self.client.query_typed(POST, &borrowed(&params)).await;
            beaten(&rows.map_err(|e| refused(&e))?)
        };
        within_for(columns.bytes(), work).await
    }

    /// The messages after this place, oldest first, as many as come within a moment on a slow line.
    pub(crate) async fn fetch(&self, after: u64) -> anyhow::Result<Vec<MailboxRow>> {
        let rows = self
            .query(
                "SELECT seq, id, sender, header, CASE WHEN bytes <= $5 THEN sealed END, signature, octet_length(sealed) FROM (
                   SELECT *, sum(octet_length(sealed)) OVER (ORDER BY seq) AS bytes,
                          row_number() OVER (ORDER BY seq) AS n
                     FROM (SELECT * FROM baton.messages
                            WHERE fleet = $1 AND recipient = $2 AND seq > $3 ORDER BY seq LIMIT $4) page
                 ) page WHERE n = 1 OR bytes <= $5 ORDER BY seq",
                &[
                    (&self.fleet, Type::TEXT),
                    (&self.me.as_str(), Type::TEXT),
                    (&signed(after), Type::INT8),
                    (&FETCH, Type::INT8),
                    (&FETCH_BYTES, Type::INT8),
                ],
            )
            .await?;
        let mut page = Vec::new();
        for row in rows {
            let (seq, length): (i64, i32) = (read(&row, 0)?, read(&row, 6)?);
            let sealed = match read::<Option<Vec<u8>>>(&row, 4)? {
                Some(sealed) => sealed,
                None => self.sealed(seq, u64::try_from(length).unwrap_or_default()).await?,
            };
            page.push(MailboxRow {
                seq: unsigned(seq),
                id: read(&row, 1)?,
                sender: read(&row, 2)?,
                envelope: Envelope { header: read(&row, 3)?, sealed, signature: read(&row, 5)? },
            });
        }
        Ok(page)
    }

    /// The body of one large message.
    async fn sealed(&self, seq: i64, length: u64) -> anyhow::Result<Vec<u8>> {
        let work = async {
            let row = self
                .client
                .query_typed_one(
                    "SELECT sealed FROM baton.messages WHERE fleet = $1 AND recipient = $2 AND seq = $3",
                    &[(&self.fleet, Type::TEXT), (&self.me.as_str(), Type::TEXT), (&seq, Type::INT8)],
                )
                .await;
            read(&row.map_err(|e| refused(&e))?, 0)
        };
        within_for(length, work).await
    }

    /// These messages are on this machine's disk. Only they are removed: after a restore from a backup of another clock,
    /// places may be given below those that were read.
    pub(crate) async fn acknowledge(&self, places: &[u64]) -> anyhow::Result<()> {
        let places: Vec<i64> = places.iter().map(|place| signed(*place)).collect();
        self.execute(
            "WITH done AS (DELETE FROM baton.messages WHERE fleet = $1 AND recipient = $2 AND seq = ANY ($3))
             UPDATE baton.mailboxes SET fetched = (SELECT max(n) FROM unnest($3) n) WHERE fleet = $1 AND machine = $2",
            &[(&self.fleet, Type::TEXT), (&self.me.as_str(), Type::TEXT), (&places, Type::INT8_ARRAY)],
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
                // A machine writes its own beat: one at the end of time must not fail the statement for the others.
                "SELECT d.name, d.card, d.tombstone, d.gone IS NOT NULL OR d.revoked IS NOT NULL, b.beat,
                        (extract(epoch FROM clock_timestamp() - b.beat) * 1000)::bigint, d.every_seconds, d.stopped,
                        p.body, p.signature
                   FROM baton.devices d
                  CROSS JOIN LATERAL (SELECT CASE WHEN d.beat IS NOT NULL
                                             THEN greatest(least(d.beat, clock_timestamp()), 'epoch') END AS beat) b
                   LEFT JOIN baton.presence p ON p.fleet = d.fleet AND p.machine = d.name
                  WHERE d.fleet = $1 AND ($2::text IS NULL OR d.name = $2) ORDER BY d.name",
                &[(&self.fleet, Type::TEXT), (&name, Type::TEXT)],
            )
            .await?;
        let device = |row: &Row| {
            Ok(DeviceRow {
                name: read(row, 0)?,
                card: read(row, 1)?,
                tombstone: read(row, 2)?,
                is_gone: read(row, 3)?,
                beat: read(row, 4)?,
                silence: read::<Option<i64>>(row, 5)?.map(|ms| Duration::from_millis(unsigned(ms))),
                every: Duration::from_secs(u64::try_from(read::<i32>(row, 6)?).unwrap_or(15)),
                stopped: read(row, 7)?,
                body: read(row, 8)?,
                signature: read(row, 9)?,
            })
        };
        rows.iter().map(device).collect()
    }

    /// Takes back these envelopes of this machine; how many were removed, and how many are left.
    pub(crate) async fn unsend(&self, ids: &[String], channel: &str) -> anyhow::Result<(u64, u64)> {
        let count = |rows: Vec<Row>| number(rows.first().context("the database gave no answer")?, 0);
        let removed = self.query("SELECT baton.unsend($1)", &[(&ids, Type::TEXT_ARRAY)]).await?;
        self.query("SELECT baton.note_purge($1)::text", &[(&channel, Type::TEXT)]).await?;
        let left = self.query("SELECT baton.unfetched($1)", &[(&ids, Type::TEXT_ARRAY)]).await?;
        Ok((count(removed)?, count(left)?))
    }

    /// Asks to be woken, and whether that works: not behind a pooler that shares sessions.
    pub(crate) async fn listen(&self, woken: &mut mpsc::UnboundedReceiver<()>) -> anyhow::Result<bool> {
        let rows = self
            .query(
                "SELECT baton.wakes($1, $2)",
                &[(&self.fleet, Type::TEXT), (&self.me.as_str(), Type::TEXT)],
            )
            .await?;
        let channel: String = read(rows.first().context("the database gave no answer")?, 0)?;
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

    /// Whether the database has ever made this move: its audit forgets nothing, whoever was revoked or purged since.
    pub(crate) async fn has_made(&self, handoff: &str, moves: &Move) -> anyhow::Result<bool> {
        let about = format!("{handoff} to {} at {}", moves.to, moves.epoch);
        let rows = self
            .query(
                "SELECT 1 FROM baton.audit WHERE fleet = $1 AND what = 'moved' AND about = $2 LIMIT 1",
                &[(&self.fleet, Type::TEXT), (&about, Type::TEXT)],
            )
            .await?;
        Ok(!rows.is_empty())
    }

    /// Moves the home of a handoff and posts its document, if there is one to post, in one transaction. Returns the row
    /// afterwards and, if the document was posted, the count of this machine's beats.
    pub(crate) async fn give(
        &mut self,
        handoff: &str,
        moves: &Move,
        document: Option<(u64, String, Envelope)>,
    ) -> anyhow::Result<(HomeRow, Option<u64>)> {
        let (fleet, me) = (self.fleet.clone(), self.me.clone());
        let document = document.map(|(epoch, id, envelope)| (epoch, [id], Columns::of(vec![envelope])));
        let bytes = document.as_ref().map_or(0, |(_, _, columns)| columns.bytes());
        let (to, epoch) = (moves.to.as_str().to_owned(), signed(moves.epoch));
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
                      WHERE fleet = $1 AND handoff = $2 AND home = $5 AND epoch < $4",
                    &[
                        (&fleet, Type::TEXT),
                        (&handoff, Type::TEXT),
                        (&to, Type::TEXT),
                        (&epoch, Type::INT8),
                        (&me.as_str(), Type::TEXT),
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
            let home: String = read(&row, 0)?;
            let home = MachineName::new(home).context("the database names no machine")?;
            let row = HomeRow { home, epoch: number(&row, 1)? };
            let mut beats = None;
            let is_done = row.home == moves.to && row.epoch == moves.epoch;
            if let Some((sender_epoch, ids, columns)) = document.as_ref().filter(|_| is_done) {
                let params = columns.params(&fleet, &to, &me, *sender_epoch, ids);
                let rows = transaction.query_typed(POST, &borrowed(&params)).await;
                beats = Some(beaten(&rows.map_err(|e| refused(&e))?)?);
            }
            transaction.commit().await.map_err(|e| refused(&e))?;
            Ok((row, beats))
        };
        within_for(bytes, work).await
    }
}

/// One statement for a whole batch: the rows are inserted in order. It is a heartbeat too, so that a machine that has
/// sent something since a backup finds its counter too low after a restore. The beat comes first: as long as it is not
/// committed, the next incarnation cannot begin, and a word of this one is never later than one of the next.
const POST: &str = "WITH alive AS (
    UPDATE baton.devices SET beats = beats + 1, beat = clock_timestamp() WHERE fleet = $1 AND name = $3 AND epoch = $4
    RETURNING beats
  ), posted AS (
    INSERT INTO baton.messages (fleet, recipient, seq, id, sender, epoch, header, sealed, signature)
    SELECT $1, $2, 0, u.id, $3, $4, u.header, u.sealed, u.signature
      FROM (SELECT count(*) FROM alive) beaten,
           unnest($5::text[], $6::text[], $7::bytea[], $8::bytea[]) WITH ORDINALITY AS u (id, header, sealed, signature, n)
     ORDER BY u.n
    ON CONFLICT DO NOTHING
  )
  SELECT beats FROM alive";

/// The count of beats after a [`POST`]. None: it was not admitted, as of an incarnation that is over.
fn beaten(rows: &[Row]) -> anyhow::Result<u64> {
    number(rows.first().ok_or(Refused::Fenced)?, 0)
}

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

    fn bytes(&self) -> u64 {
        self.sealed.iter().map(|sealed| sealed.len() as u64).sum()
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
