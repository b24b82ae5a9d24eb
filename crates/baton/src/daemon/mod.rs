//! `baton serve`: one process per user that knows all agents. The API, notices, housekeeping.
//!
//! The daemon owns no state: everything is in files, and hooks work without it. Its memory only holds copies that are
//! dropped when a file changes, so it can be killed and restarted at any instant without anybody noticing.

mod api;
mod auth;
pub(crate) mod client;
mod connections;
mod gauge_writer;
mod notices;
mod openapi;
mod page;
mod port;
mod retention;
mod roster;
mod routes;
mod run_dir;
mod server;
mod shutdown;
pub(crate) mod unit;
mod watcher;
mod write_deadline;

pub use auth::check_head;

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use baton_core::approval::RequestId;
use baton_core::ids::AgentId;
use baton_core::session::Session;
use jiff::Timestamp;

use crate::config::Config;
use crate::sessions::context::Context;
use crate::store::Store;
use crate::store::log::LogLine;
use crate::sys::fs::FileError;
use crate::sys::paths::Paths;

pub(crate) use run_dir::RunDir;

#[derive(Debug, Clone, Default)]
pub(crate) struct ServeOptions {
    /// Where to listen besides the unix socket.
    pub(crate) http: Option<SocketAddrV4>,
    /// Started in the background: standard output is a pipe to a process that waits until the daemon listens.
    pub(crate) detached: bool,
}

/// What all parts of the daemon share.
pub(crate) struct Daemon {
    pub(crate) paths: Paths,
    pub(crate) store: Store,
    pub(crate) since: Timestamp,
    /// The open HTTP port. Taken for a moment only.
    http: Mutex<Option<OpenPort>>,
    http_connections: Arc<connections::Connections>,
    run_dir: RunDir,
    socket: run_dir::SocketFile,
    secrets: auth::Secrets,
    shutdown: shutdown::Shutdown,
    roster: Mutex<roster::Roster>,
    configs: Mutex<HashMap<PathBuf, (Instant, Config)>>,
    gauge_writer: gauge_writer::GaugeWriter,
    log_grew: tokio::sync::watch::Sender<()>,
    /// Broadcasts agents whose view has changed.
    shown: tokio::sync::broadcast::Sender<Arc<[AgentId]>>,
    /// Slots for readers of events.
    readers: Arc<tokio::sync::Semaphore>,
    /// Exchanges with the fleet, once this machine is in one.
    #[cfg(feature = "fleet")]
    fleet: Mutex<Option<AttendantThread>>,
    /// The requests that waited for an answer at the last look.
    waiting: Mutex<Option<BTreeSet<RequestId>>>,
}

/// The HTTP port that is ours.
struct OpenPort {
    address: SocketAddrV4,
    /// The same port on `[::1]`.
    _reserved: Option<OwnedFd>,
}

/// How soon a changed setting takes effect.
const CONFIG_LIFETIME: Duration = Duration::from_secs(2);
/// How many changes a slow reader of events may lag behind; beyond that it is told to fetch everything again.
const MAX_SHOWN: usize = 256;
/// How many folders' settings are cached.
const MAX_CONFIGS: usize = 256;

/// Serves until told to stop.
pub(crate) fn run(paths: &Paths, options: &ServeOptions) -> anyhow::Result<()> {
    if options.detached {
        // Start a new session: the terminal that we were started from may close.
        let _ = rustix::process::setsid();
    }
    let run_dir = RunDir::new(&paths.state);
    let lock = run_dir.lock()?;
    let http = options.http.map(port::HttpPort::claim).transpose()?;
    let (unix, socket) = run_dir.listen()?;
    let store = Store::new(paths);
    let roster = roster::Roster::new(&store).context("could not watch the records")?;
    // Bind the port before there is a token that somebody could send to it.
    let token = auth::random_hex().context("could not get random bytes for a token")?;
    if http.is_some() {
        run_dir.write_token(&token)?;
    } else {
        run_dir.remove_token()?;
    }
    let address = http.as_ref().map(|port| port.address);
    let hosts = user_config(paths).serve.hosts;
    let daemon = Arc::new(Daemon {
        paths: paths.clone(),
        store,
        since: Timestamp::now(),
        http: Mutex::default(),
        http_connections: connections::Connections::new(connections::MAX_CONNECTIONS),
        run_dir: run_dir.clone(),
        socket,
        secrets: auth::Secrets::new(token, hosts),
        shutdown: shutdown::Shutdown::default(),
        roster: Mutex::new(roster),
        configs: Mutex::default(),
        gauge_writer: gauge_writer::GaugeWriter::default(),
        log_grew: tokio::sync::watch::Sender::new(()),
        shown: tokio::sync::broadcast::Sender::new(MAX_SHOWN),
        readers: Arc::new(tokio::sync::Semaphore::new(api::MAX_READERS)),
        #[cfg(feature = "fleet")]
        fleet: Mutex::default(),
        waiting: Mutex::default(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Threads for disk work; they end when idle.
        .max_blocking_threads(4)
        .thread_keep_alive(Duration::from_secs(5))
        .build()
        .context("could not set up the event loop")?;
    daemon.log("daemon-started", serde_json::json!({ "pid": std::process::id(), "http": address }));
    let attendants = [
        AttendantThread::start(&daemon, "panes", crate::rotation::actuators::tmux::attend),
        AttendantThread::start(&daemon, "threads", crate::rotation::actuators::thread::attend),
    ]
    .into_iter()
    .collect::<std::io::Result<Vec<_>>>()
    .context("could not start the attendants")?;
    let writer = {
        let daemon = Arc::clone(&daemon);
        let thread = std::thread::Builder::new().name("gauge-writer".to_owned());
        thread.spawn(move || gauge_writer::run(&daemon)).context("could not start the writer of gauges")?
    };
    daemon.attend_fleet();
    let served = runtime.block_on(server::serve(&daemon, unix, http, || {
        ready(options.detached, &run_dir, address);
    }));
    attendants.into_iter().for_each(AttendantThread::stop);
    #[cfg(feature = "fleet")]
    if let Some(fleet) = daemon.fleet.lock().unwrap_or_else(PoisonError::into_inner).take() {
        fleet.stop();
    }
    // A message that was accepted must be on disk, so wait for the threads that write.
    runtime.shutdown_timeout(Duration::from_secs(5));
    daemon.gauge_writer.finish();
    let _ = writer.join();
    daemon.log("daemon-stopped", serde_json::json!({ "pid": std::process::id() }));
    if daemon.socket.is_ours() {
        let _ = run_dir.remove_token();
    }
    daemon.socket.remove();
    drop(lock);
    served
}

/// The attendant of the panes or of the threads, in its own thread: it waits for other programs, and nobody else should
/// wait with it.
struct AttendantThread {
    stop: UnixStream,
    thread: std::thread::JoinHandle<()>,
}

impl AttendantThread {
    fn start(
        daemon: &Arc<Daemon>,
        name: &'static str,
        attend: fn(&Store, &UnixStream) -> anyhow::Result<()>,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = UnixStream::pair()?;
        let daemon = Arc::clone(daemon);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            if let Err(e) = attend(&daemon.store, &stopped) {
                daemon.fault(&format!("attend to the {name}"), &format!("{e:#}"));
            }
        })?;
        Ok(Self { stop, thread })
    }

    fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

/// The variables that may name a setting.
fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter(|(name, _)| name.as_encoded_bytes().starts_with(b"BATON_"))
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
}

/// The user's settings when the daemon starts. The command that started it has read them and reported what is wrong
/// with them.
fn user_config(paths: &Paths) -> Config {
    let read = crate::project::trust::settings(paths, Path::new("/"), variables());
    read.map_or_else(|_| Config::defaults(paths), |resolved| resolved.config)
}

/// Reports that the daemon listens, and closes standard output if its reader waits only for that.
fn ready(detached: bool, run_dir: &RunDir, http: Option<SocketAddrV4>) {
    if detached {
        println!("{}", client::LISTENING);
        if let Ok(null) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
            let _ = rustix::stdio::dup2_stdin(&null);
            let _ = rustix::stdio::dup2_stdout(&null);
            let _ = rustix::stdio::dup2_stderr(&null);
        }
        return;
    }
    eprintln!("baton: listening on {}", run_dir.socket().display());
    if let Some(address) = http {
        eprintln!("baton: listening on http://{address}, token in {}", run_dir.token_path().display());
    }
}

impl Daemon {
    /// Starts to exchange with the fleet, if this machine is in one and no thread does so yet.
    #[cfg(feature = "fleet")]
    fn attend_fleet(self: &Arc<Self>) {
        let mut fleet = self.fleet.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = fleet.as_ref().is_some_and(|attendant| !attendant.thread.is_finished());
        if runs || !crate::fleet::is_joined(&self.store.state) {
            return;
        }
        match AttendantThread::start(self, "fleet", crate::fleet::attend) {
            Ok(attendant) => *fleet = Some(attendant),
            Err(e) => self.fault("take part in the fleet", &e),
        }
    }

    #[cfg(not(feature = "fleet"))]
    #[expect(clippy::unused_self, reason = "the same call in every build")]
    fn attend_fleet(self: &Arc<Self>) {}

    pub(crate) fn log(&self, event: &str, detail: serde_json::Value) {
        // Our last log line must not recreate a state folder that was removed.
        if !self.socket.is_ours() {
            return;
        }
        self.store.log().append(&LogLine { detail, ..LogLine::new(Timestamp::now(), event) });
    }

    /// The address of the HTTP port, if there is one.
    fn http(&self) -> Option<SocketAddrV4> {
        self.http.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|port| port.address)
    }

    /// The agents on record. Locked for a moment only, and never while waiting for something.
    fn roster(&self) -> MutexGuard<'_, roster::Roster> {
        // No code panics while it holds this lock, and the roster can be rebuilt anyway.
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The agent with this name or session id.
    fn resolve(&self, id: &str) -> Result<Option<AgentId>, FileError> {
        let mut roster = self.roster();
        roster.refresh();
        roster.resolve(id)
    }

    /// The thresholds that apply in a folder.
    fn thresholds(&self, cwd: &Path) -> baton_core::level::Thresholds {
        self.config_of(cwd).context.thresholds()
    }

    /// Stores which requests wait and returns the previous set; `None` at the first look.
    fn waiting(&self, now: BTreeSet<RequestId>) -> Option<BTreeSet<RequestId>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.replace(now)
    }

    /// The user's settings, without any project's.
    fn config(&self) -> Config {
        self.config_of(Path::new("/"))
    }

    fn config_of(&self, cwd: &Path) -> Config {
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, config)) = configs.get(cwd)
            && at.elapsed() < CONFIG_LIFETIME
        {
            return config.clone();
        }
        let config = match crate::project::trust::settings(&self.paths, cwd, variables()) {
            Ok(resolved) => resolved.config,
            Err(e) => {
                self.fault("read the settings", &e);
                Config::defaults(&self.paths)
            }
        };
        if configs.len() >= MAX_CONFIGS {
            configs.clear();
        }
        configs.insert(cwd.to_owned(), (Instant::now(), config.clone()));
        config
    }

    /// The context of a session's event, as for a hook.
    fn ctx(&self, session: &Session) -> Context {
        Context::with(&self.paths, self.config_of(Path::new(&session.cwd)), session, Timestamp::now())
    }

    /// Logs a fault; `baton log --faults` and `doctor` show it.
    pub(crate) fn fault(&self, doing: &str, error: &dyn std::fmt::Display) {
        self.log("fault", serde_json::json!({ "doing": doing, "error": error.to_string() }));
    }
}
