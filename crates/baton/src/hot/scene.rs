//! What an event happens in: the stores, the settings, the time, and who speaks.

use std::cell::{OnceCell, RefCell};
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::channel::Channel;
use baton_core::compaction::{CompactionPoint, Observations, compaction_point};
use baton_core::event::HookEvent;
use baton_core::ids::AgentId;
use baton_core::session::{Gauge, Session};
use jiff::Timestamp;

use crate::config::Config;
use crate::paths::Paths;
use crate::providers::{self, Provider};
use crate::store::log::{self, Line};
use crate::store::record::Growing;
use crate::store::{Store, compaction};
use crate::sys::{clock, process};

pub struct Scene {
    pub paths: Paths,
    pub store: Store,
    pub config: Config,
    pub cwd: PathBuf,
    pub now: Timestamp,
    /// Whose client speaks.
    pub provider: &'static Provider,
    compactions: OnceCell<Observations>,
    /// The session's record as it was read, until it is changed for the first time.
    pub record: RefCell<Option<Growing<Session>>>,
}

impl Scene {
    /// `cwd` is the client's, not ours. A configuration that cannot be read counts as the defaults here: the
    /// agent goes on, `doctor` and every command say what is wrong.
    pub fn at(cwd: &str) -> Option<Self> {
        let paths = Paths::from_env().ok()?;
        let now = clock::now();
        let cwd = PathBuf::from(cwd);
        let env = std::env::vars_os()
            .filter(|(name, _)| name.as_encoded_bytes().starts_with(b"BATON_"))
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        let config = match crate::config::resolve(&paths, &cwd, env) {
            Ok(resolved) => resolved.config,
            Err(e) => {
                let mut line = Line::new(now, "fault");
                line.detail = serde_json::json!({ "configuration": e.to_string() });
                log::append(&paths.state, &line);
                Config::defaults(&paths)
            }
        };
        Some(Self::new(paths, config, cwd, now, providers::usual()))
    }

    /// For a process that speaks for many sessions and knows its settings already.
    pub fn of(paths: &Paths, config: Config, session: &Session, now: Timestamp) -> Self {
        let provider = providers::of(&session.provider);
        Self::new(paths.clone(), config, PathBuf::from(&session.cwd), now, provider)
    }

    fn new(paths: Paths, config: Config, cwd: PathBuf, now: Timestamp, provider: &'static Provider) -> Self {
        let (store, compactions, record) = (Store::new(&paths), OnceCell::new(), RefCell::new(None));
        Self { paths, store, config, cwd, now, provider, compactions, record }
    }

    /// How long this hook may still wait for a lock. A free lock is taken even with nothing left.
    pub fn patience(&self) -> Duration {
        // A clock that was set back says nothing; then it is all of it again.
        let spent = Duration::try_from(clock::now().duration_since(self.now)).unwrap_or_default();
        super::HOT_PATIENCE.saturating_sub(spent)
    }

    pub fn channel(&self) -> Option<Channel> {
        let env = std::env::var("BATON_CHANNEL").ok();
        crate::channel::of(&self.cwd, None, env, &self.config, &self.paths).ok()
    }

    /// Where the client of `session` compacts by itself.
    pub fn compaction_point(&self, session: &Session, gauge: &Gauge, window: u64) -> CompactionPoint {
        let seen = self.compactions.get_or_init(|| compaction::observations(&self.store.state));
        let model = gauge.model.as_deref().or(session.model.as_deref());
        compaction_point(model, window, &session.compaction, seen)
    }

    /// Can somebody other than the user give this agent a fresh context?
    pub fn is_rotatable(&self, agent: &AgentId) -> bool {
        self.store.agents().get(agent).ok().flatten().is_some_and(|agent| {
            agent.supervisor.as_ref().is_some_and(process::is_alive)
                || crate::companion::is_live(&self.store, &agent)
                || crate::panes::is_attended(&self.store, &agent)
                || crate::threads::is_attended(&self.store, &agent)
        })
    }

    /// Does somebody type what waits into this agent's pane?
    pub fn is_typed_to(&self, agent: &AgentId) -> bool {
        let agent = self.store.agents().get(agent).ok().flatten();
        agent.is_some_and(|agent| crate::panes::is_attended(&self.store, &agent))
    }

    /// A line in the log with who it is about.
    pub fn line(&self, event: &str, session: &Session) -> Line {
        Line {
            session: Some(session.id.clone()),
            agent: Some(session.agent.clone()),
            channel: Some(session.channel.clone()),
            ..Line::new(self.now, event)
        }
    }

    pub fn log(&self, line: &Line) {
        log::append(&self.store.state, line);
    }

    /// Something of ours failed. The agent does not hear of it.
    pub fn fault(&self, doing: &str, error: &dyn std::fmt::Display) {
        let mut line = Line::new(self.now, "fault");
        line.detail = serde_json::json!({ "doing": doing, "error": error.to_string() });
        self.log(&line);
    }
}

/// The working folder an event speaks of.
pub fn cwd_of<'a>(event: &'a HookEvent<'_>) -> &'a str {
    event.cwd.as_deref().filter(|cwd| Path::new(cwd).is_absolute()).unwrap_or("/")
}
