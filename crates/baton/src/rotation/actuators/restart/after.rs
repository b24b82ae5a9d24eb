//! After a client has ended: the next context, the same conversation again, or the end.

use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use baton_core::handoff::{HandoffId, Kind};
use baton_core::launch::{CurrentChoices, Grammar, Launch};
use baton_core::prompt;
use baton_core::rotation::{Event, Rotation, Step};
use baton_core::session::Session;
use jiff::Timestamp;
use rustix::process::Signal;

use crate::handoffs::attach;
use crate::handoffs::seal;
use crate::handoffs::seal::Sealing;
use crate::mail::notify;
use crate::rotation::actuators::restart::limits::until;
use crate::rotation::actuators::restart::vigil::{ClientEnd, Purpose};
use crate::rotation::actuators::restart::{PATIENCE, Supervisor};
use crate::sys::child::Change;

/// A client that ends sooner than this failed to start.
const AT_ONCE: Duration = Duration::from_secs(3);
/// How many failed starts in a row are allowed.
const MOST_CRASHES: u32 = 5;

/// The next client: its arguments, and how long to wait before it.
pub(crate) struct NextClient {
    pub args: Vec<String>,
    pub pause: Duration,
}

impl From<Vec<String>> for NextClient {
    fn from(args: Vec<String>) -> Self {
        Self { args, pause: Duration::ZERO }
    }
}

impl Supervisor {
    /// Returns the next client to start after one has ended, or `None` when the agent is over.
    pub(crate) fn after(
        &mut self,
        ended: &ClientEnd,
        crashes: &mut u32,
    ) -> anyhow::Result<Option<NextClient>> {
        self.confirm();
        match &ended.purpose {
            Some(Purpose::Rotate) => {
                self.advance(&Event::Stopped, None);
                let rotation = self.rotation.clone().context("a rotation without its record")?;
                self.output.next_context();
                return Ok(Some(self.fresh_args(&rotation).into()));
            }
            Some(Purpose::Resume { session, prompt }) => {
                let args = self.with_choices(|launch, grammar, now| {
                    launch.resume(grammar, session, prompt.as_deref(), now)
                });
                return Ok(Some(args.into()));
            }
            Some(Purpose::Clear { prompt }) => {
                self.output.next_context();
                let args = self.with_choices(|launch, grammar, now| match prompt {
                    Some(prompt) => launch.fresh(grammar, prompt, now),
                    None => launch.empty(grammar, now),
                });
                return Ok(Some(args.into()));
            }
            Some(Purpose::Retire | Purpose::Quit) => return Ok(None),
            None => {}
        }
        if self.rotation.as_ref().is_some_and(|r| r.step == Step::Started) {
            self.advance(&Event::NewExited, None);
        }
        if self.headless
            && let Some(next) = self.next_context(ended)?
        {
            return Ok(Some(next));
        }
        if self.is_crash(ended.change) {
            self.seal_crash(ended);
            if let Some(agent) = self.record() {
                let (session, now) = (self.session(&agent), Timestamp::now());
                let how = match ended.change {
                    Change::Killed(signal) => format!("its client was killed by signal {signal}"),
                    Change::Exited(code) => format!("its client ended with exit code {code}"),
                    Change::Stopped => notify::UNSEEN.to_owned(),
                };
                notify::death(&self.store, &agent, session.as_ref(), &how, now);
            }
            if (self.options.keep_alive || self.headless)
                && let Some(next) = self.after_crash(ended, crashes)
            {
                return Ok(Some(next));
            }
        }
        if let Some(waiting) = self.record().and_then(|a| a.rotation) {
            self.to_say.push(format!(
                "baton: handoff {} is sealed; the next start in this project begins with it",
                waiting.handoff
            ));
        }
        self.output.print_result()?;
        Ok(None)
    }

    /// After a headless turn, continues if a handoff is pending or the usage limit has ended.
    fn next_context(&mut self, ended: &ClientEnd) -> anyhow::Result<Option<NextClient>> {
        let Some(agent) = self.record() else { return Ok(None) };
        let session = self.session(&agent);
        if let (Some(limit), Some(session)) = (self.limit(&agent, session.as_ref())?, &session) {
            let guess = session.parked().is_some_and(|parked| parked.guess);
            let guess = if guess { " (a guess)" } else { "" };
            eprintln!("baton: {} is parked until {limit}{guess}", self.agent);
            if !self.pause(until(limit, Timestamp::now())) {
                return Ok(None);
            }
            if agent.rotation.is_none()
                && let Purpose::Resume { session, prompt } = self.back(session)
            {
                self.output.next_context();
                let args = self.with_choices(|l, g, now| l.resume(g, &session, prompt.as_deref(), now));
                return Ok(Some(args.into()));
            }
        }
        let Some(request) = agent.rotation.clone() else { return Ok(None) };
        if ended.change != Change::Exited(0) {
            return Ok(None);
        }
        if !self.may_rotate(&agent)? {
            self.gave_up = true;
            self.to_say.push(format!(
                "baton: {} is not done; handoff {} waits, and `baton run --name {} {} …` continues from it",
                self.agent, request.handoff, self.agent, self.options.provider.name
            ));
            return Ok(None);
        }
        let (rotation, effects) = self.saga(&agent, &request).begin_stopped();
        eprintln!("baton: {} continues in a fresh context from {}", self.agent, rotation.handoff);
        self.rotation = Some(rotation.clone());
        self.carry_out(&effects, None);
        self.output.next_context();
        Ok(Some(self.fresh_args(&rotation).into()))
    }

    /// Restarts after a crash, with a backoff that doubles with each immediate death.
    fn after_crash(&mut self, ended: &ClientEnd, crashes: &mut u32) -> Option<NextClient> {
        *crashes = if ended.lived < AT_ONCE { *crashes + 1 } else { 1 };
        // Without a handoff there was no conversation to continue, and no reason to expect a better start.
        let handoff = self.record().and_then(|a| a.last_handoff)?;
        if *crashes > MOST_CRASHES {
            self.to_say.push(format!(
                "baton: {} died at once {MOST_CRASHES} times in a row; it is not started again",
                self.agent
            ));
            return None;
        }
        let pause = Duration::from_millis(250) * 2u32.pow(*crashes - 1);
        self.to_say.push(format!("baton: starting {} again in {:.2} s", self.agent, pause.as_secs_f32()));
        self.output.next_context();
        let prompt = self.with_files(&prompt::continuation(&handoff, None), &handoff);
        let args = self.with_choices(|launch, grammar, now| launch.fresh(grammar, &prompt, now));
        Some(NextClient { args, pause })
    }

    pub(crate) fn fresh_args(&self, rotation: &Rotation) -> Vec<String> {
        let prompt = self.with_files(&rotation.continuation(), &rotation.handoff);
        self.with_choices(|launch, grammar, now| launch.fresh(grammar, &prompt, now))
    }

    fn with_files(&self, prompt: &str, handoff: &HandoffId) -> String {
        attach::mentioned(&self.store, &self.config, self.options.provider, prompt, handoff)
    }

    /// Builds the arguments with the permission mode that the person has chosen since the start.
    fn with_choices(
        &self,
        make: impl FnOnce(&Launch, &Grammar, &CurrentChoices<'_>) -> Vec<String>,
    ) -> Vec<String> {
        let session = self.record().and_then(|a| self.session(&a));
        let now = CurrentChoices {
            // Pass the model only if the command line named one, so that a better default applies.
            model: None,
            permission_mode: session.as_ref().and_then(|s| s.permission_mode.as_deref()),
        };
        make(&self.launch, &self.options.provider.grammar, &now)
    }

    /// Whether the client ended in a way nobody asked for. Quitting, Ctrl+C, SIGTERM and SIGHUP are deliberate; exit
    /// codes 1 and 2 are a crash if the session's end was never announced.
    fn is_crash(&self, change: Change) -> bool {
        match change {
            Change::Exited(0 | 129 | 130 | 143) | Change::Stopped => false,
            Change::Exited(1 | 2) => {
                self.record().and_then(|a| self.session(&a)).is_some_and(|s| s.ended.is_none())
            }
            Change::Exited(_) => true,
            Change::Killed(signal) => {
                ![Signal::INT, Signal::TERM, Signal::HUP].iter().any(|s| s.as_raw() == signal)
            }
        }
    }

    /// Seals what the transcript proves, after the client died outside a rotation.
    fn seal_crash(&mut self, ended: &ClientEnd) {
        let began = Timestamp::now().checked_sub(ended.lived).unwrap_or(Timestamp::MIN);
        let last = self.record().and_then(|a| self.session(&a));
        // A session that was over before this client began belongs to an earlier one.
        let known = last.filter(|s| s.ended.as_ref().is_none_or(|e| e.at > began));
        let guessed = known.is_none();
        let Some(session) = known.or_else(|| self.guess_session(ended.lived)) else { return };
        let narrative = guessed.then_some(
            "No hook of this session was ever heard. That this is its transcript is a guess: it is the newest one \
             of the folder.",
        );
        // Nobody brings an unnamed agent back once we are gone, so the next start in the project gets the handoff.
        let comes_back = self.options.keep_alive
            || self.headless
            || self.record().is_some_and(|agent| agent.keeps_to_itself());
        let sealing = Sealing { session: &session, kind: Kind::Crash, narrative, for_self: comes_back };
        match seal::seal(&self.store, &self.config, &sealing, Timestamp::now()) {
            Ok(sealed) => {
                let id = sealed.entry.id;
                let noted = self.store.agents().update(&self.agent, PATIENCE, |a| {
                    a.last_handoff = Some(id.clone());
                    a.last_handoff_path = Some(sealed.path.display().to_string());
                });
                if let Err(e) = noted {
                    self.log("fault", &e.to_string());
                }
                self.to_say.push(format!(
                    "baton: {} ended unexpectedly; what its transcript proves{} is kept in handoff {id}",
                    self.agent,
                    if guessed { " (the newest one of the folder, a guess)" } else { "" }
                ));
            }
            Err(e) => self.to_say.push(format!(
                "baton: {} ended unexpectedly, and nothing could be sealed: {e:#}",
                self.agent
            )),
        }
    }

    /// Guesses the session if no hook ever came: the newest transcript of this folder written while the client ran.
    fn guess_session(&self, lived: Duration) -> Option<Session> {
        // File times are coarse, and the client started slightly before we took the time.
        let since = SystemTime::now().checked_sub(lived + Duration::from_secs(1))?;
        let provider = self.options.provider;
        let paths = crate::sys::paths::Paths::from_env().ok()?;
        let (path, _) = (provider.transcripts)(&paths, &self.options.cwd)
            .into_iter()
            .filter_map(|path| Some((std::fs::metadata(&path).ok()?.modified().ok()?, path)))
            .map(|(modified, path)| (path, modified))
            .filter(|(path, modified)| *modified >= since && !self.is_known(path))
            .max_by_key(|(_, modified)| *modified)?;
        let id = (provider.session_of)(&path)?;
        let agent = self.record()?;
        let mut session =
            Session::new(id, &agent.provider, agent.id, agent.channel, Timestamp::now(), "guess");
        session.cwd = self.options.cwd.display().to_string();
        session.transcript = Some(path.display().to_string());
        Some(session)
    }

    /// Whether hooks have registered the session of this transcript.
    fn is_known(&self, transcript: &Path) -> bool {
        (self.options.provider.session_of)(transcript)
            .is_some_and(|id| !matches!(self.store.sessions().get(&id), Ok(None)))
    }

    /// Waits before the next start. Returns `false` if told to end meanwhile.
    pub(crate) fn ready(&mut self, next: &NextClient) -> bool {
        next.pause.is_zero() || self.pause(next.pause)
    }
}
