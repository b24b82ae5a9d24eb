//! `baton serve`: one process per user that knows all agents. The API, notifications, housekeeping.
//!
//! It owns no state: everything lies in files, and hooks work without it. What it holds in memory is a copy that is
//! thrown away when a file changes, so it may be killed at any instant and started again unnoticed.

mod api;
mod auth;
pub mod client;
mod keeper;
mod notices;
mod openapi;
mod place;
mod retention;
mod roster;
mod routes;
mod rt;
mod server;
mod stop;
pub mod unit;
mod watch;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use baton_core::ids::AgentId;
use baton_core::session::Session;
use jiff::Timestamp;

use crate::config::Config;
use crate::hot::scene::Scene;
use crate::paths::Paths;
use crate::store::Store;
use crate::store::log::{self, Line};

pub use place::Place;

/// The port that scripts expect.
pub const PORT: u16 = 8420;
const ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT);

/// What it was asked to be.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where it listens besides the unix socket.
    pub http: Option<SocketAddrV4>,
    /// It was started in the background: its output is a pipe to somebody who waits until it listens.
    pub detached: bool,
}

/// What every part of it shares.
pub struct Daemon {
    pub paths: Paths,
    pub store: Store,
    pub since: Timestamp,
    pub http: Option<SocketAddrV4>,
    /// The unix socket.
    address: place::Address,
    secrets: auth::Secrets,
    stop: stop::Stop,
    roster: Mutex<roster::Roster>,
    configs: Mutex<HashMap<PathBuf, (Instant, Config)>>,
    keeper: keeper::Keeper,
    /// Told when the log has grown.
    grown: tokio::sync::watch::Sender<()>,
    /// Places for those who read the events.
    readers: Arc<tokio::sync::Semaphore>,
}

/// How soon a changed setting counts.
const SETTINGS: Duration = Duration::from_secs(2);
/// Settings of so many folders are remembered.
const MOST_SETTINGS: usize = 256;

/// The address that `--http` names: a port, or an address that only this machine can reach.
pub fn http_address(text: &str) -> Result<SocketAddrV4, String> {
    if text.is_empty() {
        return Ok(ADDRESS);
    }
    if let Ok(port) = text.parse() {
        return Ok(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
    }
    match text.replace("localhost:", "127.0.0.1:").parse::<SocketAddrV4>() {
        Ok(address) if *address.ip() == Ipv4Addr::LOCALHOST => Ok(address),
        Ok(address) => Err(format!(
            "{address} can be reached from other machines, and what is said there is not encrypted; \
             use 127.0.0.1 and a tunnel (ssh -L {PORT}:127.0.0.1:{PORT} this-machine)"
        )),
        Err(_) => Err(format!("{text:?} is no port and no address; write 8420 or 127.0.0.1:8420")),
    }
}

/// Serves until it is told to stop.
pub fn run(paths: &Paths, options: &Options) -> anyhow::Result<()> {
    if options.detached {
        // A session of its own: the terminal it was started from may close.
        let _ = rustix::process::setsid();
    }
    let place = Place::new(&paths.state);
    let lock = place.take()?;
    let token = place.token()?;
    let http =
        match options.http {
            Some(address) => Some(std::net::TcpListener::bind(address).with_context(|| {
                format!("could not listen on {address}; another program may have that port")
            })?),
            None => None,
        };
    let (unix, address) = place.listen()?;
    let http_at = match http.as_ref().map(std::net::TcpListener::local_addr).transpose()? {
        Some(std::net::SocketAddr::V4(address)) => Some(address),
        _ => None,
    };
    let store = Store::new(paths);
    let roster = roster::Roster::new(&store).context("could not watch the records")?;
    let daemon = Arc::new(Daemon {
        paths: paths.clone(),
        store,
        since: Timestamp::now(),
        http: http_at,
        address,
        secrets: auth::Secrets::new(token),
        stop: stop::Stop::default(),
        roster: Mutex::new(roster),
        configs: Mutex::default(),
        keeper: keeper::Keeper::default(),
        grown: tokio::sync::watch::Sender::new(()),
        readers: Arc::new(tokio::sync::Semaphore::new(api::MOST_READERS)),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Threads for what waits for the disk; they go when they are idle.
        .max_blocking_threads(4)
        .thread_keep_alive(Duration::from_secs(5))
        .build()
        .context("could not set up the event loop")?;
    daemon.log("daemon-started", serde_json::json!({ "pid": std::process::id(), "http": http_at }));
    let attendants = [
        Attendant::begin(&daemon, "panes", crate::panes::attend),
        Attendant::begin(&daemon, "threads", crate::threads::attend),
    ]
    .into_iter()
    .collect::<std::io::Result<Vec<_>>>()
    .context("could not start to attend to the agents")?;
    let keeper = {
        let daemon = Arc::clone(&daemon);
        let thread = std::thread::Builder::new().name("keeper".to_owned());
        thread.spawn(move || keeper::run(&daemon)).context("could not start to keep readings")?
    };
    let served = runtime.block_on(server::serve(&daemon, unix, http, || {
        ready(options.detached, &place, http_at);
    }));
    attendants.into_iter().for_each(Attendant::leave);
    // Whoever waits for the disk is waited for; an accepted message is on it.
    runtime.shutdown_timeout(Duration::from_secs(5));
    daemon.keeper.finish();
    let _ = keeper.join();
    daemon.log("daemon-stopped", serde_json::json!({ "pid": std::process::id() }));
    daemon.address.leave();
    drop(lock);
    served
}

/// The attendant of the panes or of the threads, in a thread of its own: it waits for others, and nobody else should.
struct Attendant {
    stop: UnixStream,
    thread: std::thread::JoinHandle<()>,
}

impl Attendant {
    fn begin(
        daemon: &Arc<Daemon>,
        to: &'static str,
        attend: fn(&Store, &UnixStream) -> anyhow::Result<()>,
    ) -> std::io::Result<Self> {
        let (stop, told) = UnixStream::pair()?;
        let daemon = Arc::clone(daemon);
        let thread = std::thread::Builder::new().name(to.to_owned()).spawn(move || {
            if let Err(e) = attend(&daemon.store, &told) {
                daemon.fault(&format!("attend to the {to}"), &format!("{e:#}"));
            }
        })?;
        Ok(Self { stop, thread })
    }

    fn leave(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

/// It listens: tells whoever waits, and lets go of its output if nobody is meant to read on.
fn ready(detached: bool, place: &Place, http: Option<SocketAddrV4>) {
    if detached {
        println!("{}", client::LISTENING);
        if let Ok(null) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
            let _ = rustix::stdio::dup2_stdin(&null);
            let _ = rustix::stdio::dup2_stdout(&null);
            let _ = rustix::stdio::dup2_stderr(&null);
        }
        return;
    }
    eprintln!("baton: listening on {}", place.socket().display());
    if let Some(address) = http {
        eprintln!("baton: listening on http://{address}, token in {}", place.token_path().display());
    }
}

impl Daemon {
    pub fn log(&self, event: &str, detail: serde_json::Value) {
        // A state folder that was removed is not made again by our last words.
        if !self.address.is_ours() {
            return;
        }
        log::append(&self.store.state, &Line { detail, ..Line::new(Timestamp::now(), event) });
    }

    /// The agents, as the files say; held for a moment only, and never while waiting.
    fn roster(&self) -> MutexGuard<'_, roster::Roster> {
        // Nothing panics while it is held; what is in it can be read again anyway.
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The agent that an id means.
    fn resolve(&self, id: &str) -> Option<AgentId> {
        let mut roster = self.roster();
        roster.refresh();
        roster.resolve(id)
    }

    /// The user's settings, without any project's.
    fn config(&self) -> Config {
        self.config_of(Path::new("/"))
    }

    fn config_of(&self, cwd: &Path) -> Config {
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, config)) = configs.get(cwd)
            && at.elapsed() < SETTINGS
        {
            return config.clone();
        }
        let env = std::env::vars_os()
            .filter(|(name, _)| name.as_encoded_bytes().starts_with(b"BATON_"))
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        let config = match crate::config::resolve(&self.paths, cwd, env) {
            Ok(resolved) => resolved.config,
            Err(e) => {
                self.fault("read the settings", &e);
                Config::defaults(&self.paths)
            }
        };
        if configs.len() >= MOST_SETTINGS {
            configs.clear();
        }
        configs.insert(cwd.to_owned(), (Instant::now(), config.clone()));
        config
    }

    /// What an event of a session happens in, as for a hook.
    fn scene(&self, session: &Session) -> Scene {
        Scene::of(&self.paths, self.config_of(Path::new(&session.cwd)), session, Timestamp::now())
    }

    /// Something of ours failed; `baton log --faults` and `doctor` tell.
    pub fn fault(&self, doing: &str, error: &dyn std::fmt::Display) {
        self.log("fault", serde_json::json!({ "doing": doing, "error": error.to_string() }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_listened_on() {
        let at = |text: &str| http_address(text).map(|a| a.to_string());
        assert_eq!(at(""), Ok("127.0.0.1:8420".into()));
        assert_eq!(at("9000"), Ok("127.0.0.1:9000".into()));
        assert_eq!(at("localhost:9000"), Ok("127.0.0.1:9000".into()));
        for other in ["0.0.0.0:8420", "192.168.1.5:8420", "[::]:8420", "8420.example.org:1", "127.0.0.2:8420"]
        {
            assert!(at(other).is_err(), "{other}");
        }
        assert!(at("0.0.0.0:1").unwrap_err().contains("tunnel"));
    }
}
