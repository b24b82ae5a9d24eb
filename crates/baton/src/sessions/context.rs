//! The surroundings of an event: stores, settings, time, and the provider whose client sent it.

use std::cell::{OnceCell, RefCell};
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::agent::Agent;
use baton_core::channel::Channel;
use baton_core::compaction::{CompactionPoint, Observations, compaction_point};
use baton_core::event::HookEvent;
use baton_core::gauge::Gauge;
use baton_core::ids::AgentId;
use baton_core::latch::Voice;
use baton_core::session::{Duty, Session, Turn};
use jiff::Timestamp;

use crate::config::Config;
use crate::project::channel;
use crate::providers::{self, Provider};
use crate::sessions::HOT_PATIENCE;
use crate::store::Store;
use crate::store::log::LogLine;
use crate::store::record::GrowingRecord;
use crate::sys::clock;
use crate::sys::paths::Paths;

pub(crate) struct Context {
    pub paths: Paths,
    pub store: Store,
    pub config: Config,
    pub cwd: PathBuf,
    pub now: Timestamp,
    pub provider: &'static Provider,
    compactions: OnceCell<Observations>,
    /// The session's record as it was read, until the first change.
    pub record: RefCell<Option<GrowingRecord<Session>>>,
}

impl Context {
    /// `cwd` is the client's, not ours. If the configuration cannot be read, the defaults apply: the agent continues,
    /// and `doctor` and every command report the error.
    pub(crate) fn at(cwd: &str, provider: &'static Provider) -> Option<Self> {
        let paths = Paths::from_env().ok()?;
        let now = clock::now();
        let cwd = PathBuf::from(cwd);
        let env = std::env::vars_os()
            .filter(|(name, _)| name.as_encoded_bytes().starts_with(b"BATON_"))
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        let config = match crate::project::trust::settings(&paths, &cwd, env) {
            Ok(resolved) => resolved.config,
            Err(e) => {
                let mut line = LogLine::new(now, "fault");
                line.detail = serde_json::json!({ "configuration": e.to_string() });
                Store::new(&paths).log().append(&line);
                Config::defaults(&paths)
            }
        };
        Some(Self::new(paths, config, cwd, now, provider))
    }

    /// The context of a recorded session.
    pub(crate) fn of(session: &Session) -> Option<Self> {
        Self::at(&session.cwd, providers::of(&session.provider))
    }

    /// For a process that serves many sessions and has its settings already.
    pub(crate) fn with(paths: &Paths, config: Config, session: &Session, now: Timestamp) -> Self {
        let provider = providers::of(&session.provider);
        Self::new(paths.clone(), config, PathBuf::from(&session.cwd), now, provider)
    }

    fn new(paths: Paths, config: Config, cwd: PathBuf, now: Timestamp, provider: &'static Provider) -> Self {
        let (store, compactions, record) = (Store::new(&paths), OnceCell::new(), RefCell::new(None));
        Self { paths, store, config, cwd, now, provider, compactions, record }
    }

    /// How long this hook may still wait for locks. A free lock can be taken even at zero.
    pub(crate) fn patience(&self) -> Duration {
        // If the clock was set back, treat nothing as spent.
        let spent = Duration::try_from(clock::now().duration_since(self.now)).unwrap_or_default();
        HOT_PATIENCE.saturating_sub(spent)
    }

    pub(crate) fn channel(&self) -> Option<Channel> {
        let env = std::env::var("BATON_CHANNEL").ok();
        channel::of(&self.cwd, None, env, &self.config, &self.paths).ok()
    }

    /// Where the client of `session` compacts by itself.
    pub(crate) fn compaction_point(&self, session: &Session, gauge: &Gauge, window: u64) -> CompactionPoint {
        let seen = self.compactions.get_or_init(|| self.store.compactions().observations());
        let model = gauge.model.as_deref().or(session.model.as_deref());
        compaction_point(model, window, &session.compaction, session.compacts_at, seen)
    }

    /// The record of an agent. A read error is logged, and the caller does without the record.
    pub(crate) fn agent(&self, id: &AgentId) -> Option<Agent> {
        self.store.agents().get(id).unwrap_or_else(|e| {
            self.fault("read an agent's record", &e);
            None
        })
    }

    /// Whether an actuator other than the user can give this agent a fresh context.
    pub(crate) fn is_rotatable(&self, agent: &AgentId) -> bool {
        self.agent(agent).is_some_and(|agent| self.store.presence(&agent).actuator().is_some())
    }

    /// Whether a pane attendant types queued prompts into this agent's pane.
    pub(crate) fn is_typed_to(&self, agent: &AgentId) -> bool {
        self.agent(agent).is_some_and(|agent| self.store.presence(&agent).is_typed_to())
    }

    /// Whether the user pressed Esc, so that the client takes no prompts, and nobody types into its terminal.
    pub(crate) fn is_braked(&self, agent: &AgentId) -> bool {
        self.agent(agent).is_some_and(|agent| self.store.presence(&agent).is_braked())
    }

    /// Whether baton seals handoffs on its own in this session.
    pub(crate) fn seals(&self, session: &Session) -> bool {
        self.config.handoff.seal && !session.leaves(Duty::Seal)
    }

    /// Which nudges this session may get.
    pub(crate) fn voice(&self, session: &Session) -> Voice {
        if session.leaves(Duty::Seal) {
            return Voice { advise: false, request: false, block_stop: false };
        }
        self.config.context.voice()
    }

    /// Changes the session's record. If the lock is busy, the change is left to the next hook.
    pub(crate) fn update<R>(&self, session: &Session, change: impl FnOnce(&mut Session) -> R) -> Option<R> {
        let (mut change, mut answer) = (Some(change), None);
        self.change(session, &mut |record| answer = change.take().map(|change| change(record)));
        answer
    }

    #[inline(never)]
    fn change(&self, session: &Session, change: &mut dyn FnMut(&mut Session)) {
        let open = self.record.take().filter(|open| open.record.as_ref().is_some_and(|s| s.id == session.id));
        if let Err(e) = self.store.sessions().update_open(&session.id, open, self.patience(), change) {
            self.fault("change the session's record", &e);
        }
    }

    /// Records that a prompt came; `words` are set if a person wrote it.
    pub(crate) fn begin_turn(&self, session: &Session, words: Option<&str>) {
        /// Characters of a prompt to keep for display; the whole record must stay below a page.
        const SHOWN: usize = 160;
        let beginning = words.map(|words| {
            let end = words.char_indices().nth(SHOWN).map_or(words.len(), |(end, _)| end);
            words[..end].to_owned()
        });
        let now = self.now;
        self.update(session, |s| {
            // No hook reports an end by Esc, so the turn that the record shows may be an earlier one.
            s.at_work_since = s.at_work_since.or(s.turn_since).filter(|_| s.turn == Turn::Working);
            (s.turn, s.turn_since) = (Turn::Working, Some(now));
            (s.blocked_on, s.error) = (None, None);
            s.asked = beginning.or(s.asked.take());
        });
    }

    /// Records whose turn it is.
    pub(crate) fn set_turn(&self, session: &Session, turn: Turn) {
        if session.turn != turn {
            let now = self.now;
            self.update(session, |s| {
                (s.turn, s.turn_since, s.at_work_since) = (turn, Some(now), None);
                if turn != Turn::Blocked {
                    s.blocked_on = None;
                }
                if turn == Turn::Working {
                    s.error = None;
                }
            });
        }
    }

    /// A log line about this session.
    pub(crate) fn line(&self, event: &str, session: &Session) -> LogLine {
        LogLine {
            session: Some(session.id.clone()),
            agent: Some(session.agent.clone()),
            channel: Some(session.channel.clone()),
            ..LogLine::new(self.now, event)
        }
    }

    pub(crate) fn log(&self, line: &LogLine) {
        self.store.log().append(line);
    }

    /// Logs a failure of ours. The agent is not told.
    pub(crate) fn fault(&self, doing: &str, error: &dyn std::fmt::Display) {
        self.store.log().fault(self.now, doing, error);
    }
}

/// The working folder of the event.
pub(crate) fn cwd_of<'a>(event: &'a HookEvent<'_>) -> &'a str {
    event.cwd.as_deref().filter(|cwd| Path::new(cwd).is_absolute()).unwrap_or("/")
}
