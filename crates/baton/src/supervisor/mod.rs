//! `baton run`: owns one agent's client for as long as the agent lives.
//!
//! The client has the terminal exactly as without us; we wait for its end, for the hooks' files to change and
//! for signals, and say nothing until something must be said. What a rotation does next is decided in
//! `core::rotation`; here it is carried out.

mod integration;
mod output;
mod recover;
mod signals;

use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use baton_core::agent::{Agent, Order};
use baton_core::handoff::Kind;
use baton_core::ids::AgentId;
use baton_core::launch::{Launch, Now};
use baton_core::limit;
use baton_core::process::Process;
use baton_core::rotation::{Effect, Event, Rotation, Step, permitted};
use baton_core::session::{Session, Turn};
use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use crate::config::Config;
use crate::providers::Provider;
use crate::store::log::{self, Line};
use crate::store::{Store, rotations};
use crate::sys::child::{Change, Child, stop_with};
use crate::sys::terminal::Kept;
use crate::sys::watch::Watch;
use crate::sys::{fs, process};
use crate::{companion, poke, rotate, sealing};

use output::Output;
use signals::Signals;

const PATIENCE: Duration = Duration::from_secs(2);
/// A companion that has not given the fresh context by then is not waited for any longer.
const IN_PLACE: Duration = Duration::from_secs(15);
/// An agent that ends sooner than this after its start did not start.
const AT_ONCE: Duration = Duration::from_secs(3);

/// What the user asked for.
pub struct Options {
    pub provider: &'static Provider,
    pub args: Vec<String>,
    pub name: Option<AgentId>,
    /// Start again after a crash.
    pub keep_alive: bool,
    pub cwd: PathBuf,
}

pub struct Supervisor {
    store: Store,
    config: Config,
    options: Options,
    program: PathBuf,
    prefix: Vec<String>,
    launch: Launch,
    headless: bool,
    agent: AgentId,
    me: Process,
    kept: Kept,
    signals: Signals,
    socket: UnixDatagram,
    socket_path: PathBuf,
    watch: Watch,
    output: Output,
    rotation: Option<Rotation>,
    /// Lines for the user, said when the terminal is ours again.
    to_say: Vec<String>,
}

/// Why a running client is being stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Purpose {
    Rotate,
    Retire,
    Resume {
        session: String,
        prompt: Option<String>,
    },
    /// We were told to end.
    Quit,
}

/// How watching one client ended.
struct Ended {
    change: Change,
    purpose: Option<Purpose>,
    lived: Duration,
}

/// Runs an agent until it is over; the answer is how its last client ended.
pub fn run(store: Store, config: Config, options: Options) -> anyhow::Result<Change> {
    let (program, prefix) = options.provider.locate().with_context(|| {
        format!(
            "{} is not on the PATH; install it with `{}`",
            options.provider.name, options.provider.install
        )
    })?;
    let launch = Launch::parse(&options.provider.grammar, &options.args);
    let headless = launch.is_headless(&options.provider.grammar);
    let me = process::identify(std::process::id()).context("this process is not to be found in /proc")?;
    let signals = Signals::listen()?;

    let found = recover::open_rotations(&store, &config, &options, &launch)?;
    for line in &found.to_say {
        eprintln!("{line}");
    }
    let agent = match found.adopt {
        Some(ref rotation) => rotation.agent.clone(),
        None => recover::new_agent(&store, &config, &options)?,
    };
    store.agents().update(&agent, PATIENCE, |a| {
        a.supervisor = Some(me.clone());
        a.launch.clone_from(&options.args);
        a.order = None;
        a.ended = None;
    })?;

    let socket_path = poke::socket_path(&store.state, &agent);
    fs::private_dir(socket_path.parent().unwrap_or(std::path::Path::new("/")))?;
    fs::remove(&socket_path)?;
    // A path too long for a socket leaves the watched files, which are enough.
    let socket = UnixDatagram::bind(&socket_path).or_else(|_| UnixDatagram::unbound())?;
    socket.set_nonblocking(true)?;
    let agents = store.state.join("agents");
    fs::private_dir(&agents)?;
    let watch = Watch::folders(&[&agents, &store.claude])?;
    let output = Output::new(headless, launch.output_format(&options.provider.grammar));

    let mut supervisor = Supervisor {
        store,
        config,
        program,
        prefix,
        launch,
        headless,
        agent,
        me,
        kept: Kept::now(),
        signals,
        socket,
        socket_path,
        watch,
        output,
        rotation: None,
        to_say: Vec::new(),
        options,
    };
    let outcome = supervisor.supervise(found.adopt);
    supervisor.leave();
    outcome
}

impl Supervisor {
    fn supervise(&mut self, adopted: Option<Rotation>) -> anyhow::Result<Change> {
        let mut args = self.options.args.clone();
        if let Some(rotation) = adopted {
            args = self.fresh_args(&rotation);
            self.rotation = Some(rotation);
        }
        let mut crashes = 0;
        loop {
            let child = match self.start(&args) {
                Ok(child) => child,
                Err(e) => {
                    self.advance(&Event::CouldNotStart(e.to_string()), None);
                    self.say_now();
                    return Err(e);
                }
            };
            self.advance(&Event::Started(child.process.clone()), None);
            let ended = self.watch_child(child)?;
            match self.after(&ended, &mut crashes)? {
                Some(next) => args = next,
                None => return Ok(ended.change),
            }
        }
    }

    fn start(&self, args: &[String]) -> anyhow::Result<Child> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.prefix)
            .args(integration::args(&self.store, self.options.provider)?)
            .args(args)
            .current_dir(&self.options.cwd)
            .env("CLAUDE_SESSION_MANAGER_ID", self.agent.as_str());
        let child = Child::spawn(command, self.output.captures())
            .with_context(|| format!("could not start {}", self.program.display()))?;
        let process = child.process.clone();
        self.store.agents().update(&self.agent, PATIENCE, |a| a.process = Some(process))?;
        Ok(child)
    }

    /// Waits until the client has ended, and stops it when it is time.
    fn watch_child(&mut self, mut child: Child) -> anyhow::Result<Ended> {
        let began = Instant::now();
        let mut purpose: Option<Purpose> = None;
        let mut deadline: Option<Instant> = None;
        let mut killed = false;
        // The hooks may have spoken before we listened.
        let mut look = true;
        loop {
            if look {
                if purpose.is_none() {
                    purpose = self.look(&child, &mut deadline)?;
                }
                self.confirm();
            }
            let changed = self.wait(&mut child, deadline)?;
            look = changed.files;
            if let Some(signal) = self.signals.told_to_end() {
                // Whoever ends us means the agent; it gets the same word and the time to answer.
                child.signal(signal)?;
                purpose = Some(Purpose::Quit);
            }
            match child.poll()? {
                Some(Change::Stopped) => stop_with(&child)?,
                Some(change) => {
                    self.output.finish_reading(&mut child);
                    return Ok(Ended { change, purpose, lived: began.elapsed() });
                }
                None => {}
            }
            if deadline.is_some_and(|d| Instant::now() >= d) {
                match &purpose {
                    Some(Purpose::Rotate) => {
                        self.advance(&Event::Deadline, Some((&child, killed)));
                        if killed {
                            // It cannot be stopped; it goes on as it was.
                            purpose = None;
                            deadline = None;
                            continue;
                        }
                        killed = true;
                        deadline = Some(Instant::now() + PATIENCE);
                    }
                    Some(_) if !killed => {
                        child.signal(Signal::KILL)?;
                        killed = true;
                        deadline = None;
                    }
                    Some(_) => deadline = None,
                    None => {
                        // Not stopping: the deadline was for a load or a parked agent.
                        deadline = None;
                        self.advance(&Event::Deadline, None);
                        look = true;
                    }
                }
            }
        }
    }

    /// Sleeps until something happens.
    fn wait(&mut self, child: &mut Child, deadline: Option<Instant>) -> anyhow::Result<Woken> {
        let timeout = deadline.map(|d| {
            let left = d.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() }
        });
        let (ready, has_output) = {
            let output = child.stdout.as_ref().map(AsFd::as_fd);
            let watched = self.watch.fd();
            let mut fds = vec![
                PollFd::from_borrowed_fd(child.fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.signals.fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN),
            ];
            fds.extend(watched.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            let output_at = fds.len();
            fds.extend(output.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(std::io::Error::from(e).into()),
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            let has_output = ready.get(output_at).copied().unwrap_or(false);
            (ready, has_output)
        };
        if ready[1] {
            self.signals.drain();
        }
        let mut files = false;
        if ready[2] {
            let mut byte = [0; 8];
            while self.socket.recv(&mut byte).is_ok() {
                files = true;
            }
        }
        if ready.get(3).copied().unwrap_or(false) {
            let record = format!("{}.json", self.agent);
            files |= self.watch.drain(&[&record, ".restart-session"]);
        }
        if has_output {
            self.output.pump(child)?;
        }
        Ok(Woken { files })
    }

    fn record(&self) -> Option<Agent> {
        self.store.agents().get(&self.agent).ok().flatten()
    }

    fn session(&self, agent: &Agent) -> Option<Session> {
        self.store.sessions().get(agent.session.as_ref()?).ok().flatten()
    }

    /// Reads what the hooks and other terminals have left, and begins to stop the client if it is time.
    fn look(&mut self, child: &Child, deadline: &mut Option<Instant>) -> anyhow::Result<Option<Purpose>> {
        let Some(agent) = self.record() else { return Ok(None) };
        let session = self.session(&agent);
        match &agent.order {
            Some(Order::Retire) => return self.stop(child, deadline, Purpose::Retire).map(Some),
            Some(Order::Undo { session }) => {
                let back = Purpose::Resume { session: session.to_string(), prompt: None };
                self.store.agents().update(&self.agent, PATIENCE, |a| a.order = None)?;
                return self.stop(child, deadline, back).map(Some);
            }
            None => {}
        }
        if let Some(back) = self.parked(&agent, session.as_ref(), deadline)? {
            return self.stop(child, deadline, back).map(Some);
        }
        if let Some(session) = &session {
            self.heed_signal(session)?;
        }
        // A headless turn ends by itself; the next context follows its end.
        if self.headless || self.rotation.as_ref().is_some_and(|r| r.step.is_open()) {
            return Ok(None);
        }
        let Some(request) = self.record().and_then(|a| a.rotation) else { return Ok(None) };
        // Inside the client a rotation costs no draft and no restart; it has the first try.
        if let Some(until) = self.in_place_until(&agent, session.as_ref(), &request) {
            *deadline = Some(until);
            return Ok(None);
        }
        if request.wait_for_idle {
            return Ok(None);
        }
        if let Some(until) = session.as_ref().and_then(|s| self.background_until(s, request.at)) {
            *deadline = Some(until);
            return Ok(None);
        }
        if !self.may_rotate(&agent)? {
            return Ok(None);
        }
        let (rotation, effects) = self.saga(&agent, &request).begin();
        self.rotation = Some(rotation);
        self.carry_out(&effects, Some(child));
        *deadline = Some(Instant::now() + self.config.run.grace);
        Ok(Some(Purpose::Rotate))
    }

    fn stop(
        &self,
        child: &Child,
        deadline: &mut Option<Instant>,
        purpose: Purpose,
    ) -> anyhow::Result<Purpose> {
        child.signal(Signal::TERM)?;
        *deadline = Some(Instant::now() + self.config.run.grace);
        Ok(purpose)
    }

    /// Until when the rotation is left to the client's companion, if there is one that works.
    fn in_place_until(
        &self,
        agent: &Agent,
        session: Option<&Session>,
        request: &baton_core::agent::RotationRequest,
    ) -> Option<Instant> {
        let companion::Presence::Live(live) = companion::state(&self.store, agent) else { return None };
        let again = Instant::now() + IN_PLACE;
        let working = session.is_some_and(|s| s.turn != Turn::Idle);
        // It comes with the end of the turn, and after Esc with the person's next prompt.
        if working || live.braked {
            return Some(again);
        }
        let idle_since = session.and_then(|s| s.turn_since).map_or(request.at, |t| t.max(request.at));
        let waited = Duration::try_from(Timestamp::now().duration_since(idle_since)).unwrap_or_default();
        Some(Instant::now() + IN_PLACE.checked_sub(waited)?)
    }

    /// Until when running background tasks are waited for.
    fn background_until(&self, session: &Session, since: Timestamp) -> Option<Instant> {
        if session.background.is_empty() {
            return None;
        }
        let waited = Duration::try_from(Timestamp::now().duration_since(since)).unwrap_or_default();
        let left = self.config.run.background_wait.checked_sub(waited)?;
        Some(Instant::now() + left)
    }

    /// `.restart-session` with our session's id, written by somebody else's script.
    fn heed_signal(&self, session: &Session) -> anyhow::Result<()> {
        let signalled = self.store.published().read_restart().ok().flatten();
        let asked = self.record().is_some_and(|a| a.rotation.is_some());
        if signalled.is_none_or(|(id, _)| id != session.id) || asked {
            return Ok(());
        }
        let sealing = sealing::Sealing { session, kind: Kind::Auto, narrative: None, for_self: true };
        let now = Timestamp::now();
        let sealed = sealing::seal(&self.store, &self.config, &sealing, now)?;
        let by = "a restart signal";
        rotate::request(&self.store, &self.config, session, &sealed.entry.id, by, false, now)?;
        Ok(())
    }

    fn may_rotate(&mut self, agent: &Agent) -> anyhow::Result<bool> {
        let tokens =
            self.session(agent).and_then(|s| self.store.sessions().gauge(&s.id).reading).map(|r| r.tokens);
        match permitted(agent.in_a_row, self.config.run.max_restarts, tokens) {
            Ok(()) => Ok(true),
            Err(refused) => {
                self.log("rotation-refused", &refused.to_string());
                self.to_say.push(format!("baton: no further rotation: {refused}"));
                self.store.agents().update(&self.agent, PATIENCE, |a| a.rotation = None)?;
                Ok(false)
            }
        }
    }

    fn saga(&self, agent: &Agent, request: &baton_core::agent::RotationRequest) -> Rotation {
        let now = Timestamp::now();
        Rotation {
            id: format!("R-{}-{}", now.strftime("%Y%m%d-%H%M%S%3f"), self.agent),
            agent: self.agent.clone(),
            handoff: request.handoff.clone(),
            from: request.session.clone(),
            by: request.by.clone(),
            actuator: "restart".to_owned(),
            step: Step::Stopping,
            at: now,
            supervisor: self.me.clone(),
            old: agent.process.clone(),
            new: None,
            note: None,
            unknown: serde_json::Map::default(),
        }
    }

    /// Feeds an event to the open rotation, if there is one.
    fn advance(&mut self, event: &Event, child: Option<(&Child, bool)>) -> Vec<Effect> {
        let Some(rotation) = self.rotation.take() else { return Vec::new() };
        let (rotation, effects) = rotation.next(event.clone(), child.is_some_and(|(_, killed)| killed));
        self.rotation = Some(rotation);
        self.carry_out(&effects, child.map(|(child, _)| child));
        effects
    }

    fn carry_out(&mut self, effects: &[Effect], child: Option<&Child>) {
        for effect in effects {
            match (effect, child) {
                (Effect::Record, _) => {
                    if let Some(rotation) = &self.rotation
                        && let Err(e) = rotations::put(&self.store.state, rotation)
                    {
                        self.log("fault", &e.to_string());
                    }
                }
                (Effect::Terminate, Some(child)) => drop(child.signal(Signal::TERM)),
                (Effect::Kill, Some(child)) => drop(child.signal(Signal::KILL)),
                (Effect::Over(line), _) => self.to_say.extend(line.clone()),
                // The terminal and the start are the main loop's next steps; waiting is its way to be.
                _ => {}
            }
        }
    }

    /// Has the fresh context loaded its handoff? The hook that did so took the request away.
    fn confirm(&mut self) {
        let Some(rotation) = &self.rotation else { return };
        if rotation.step != Step::Started {
            return;
        }
        let loaded = self.record().is_some_and(|a| a.rotation.is_none());
        if loaded {
            let handoff = rotation.handoff.clone();
            self.advance(&Event::Loaded(handoff), None);
            self.log("rotated", "");
            let counted = self.store.agents().update(&self.agent, PATIENCE, |a| a.in_a_row += 1);
            if let Err(e) = counted {
                self.log("fault", &e.to_string());
            }
        }
    }

    /// A client has ended. The arguments for the next one, or nothing when it is over.
    fn after(&mut self, ended: &Ended, crashes: &mut u32) -> anyhow::Result<Option<Vec<String>>> {
        let killed = matches!(ended.change, Change::Killed(_));
        self.kept.restore(killed);
        self.confirm();
        match &ended.purpose {
            Some(Purpose::Rotate) => {
                self.advance(&Event::Stopped, None);
                let rotation = self.rotation.clone().context("a rotation without its record")?;
                self.say_now();
                return Ok(Some(self.fresh_args(&rotation)));
            }
            Some(Purpose::Resume { session, prompt }) => {
                let args = self.with_choices(|launch, grammar, now| {
                    launch.resume(grammar, session, prompt.as_deref(), now)
                });
                return Ok(Some(args));
            }
            Some(Purpose::Retire | Purpose::Quit) => {
                self.say_now();
                return Ok(None);
            }
            None => {}
        }
        if self.rotation.as_ref().is_some_and(|r| r.step == Step::Started) && ended.lived < AT_ONCE {
            self.advance(&Event::NewExited, None);
        }
        if self.headless
            && let Some(next) = self.next_context(ended)?
        {
            return Ok(Some(next));
        }
        if is_crash(ended.change) {
            self.seal_crash();
            let again = (self.options.keep_alive || self.headless) && *crashes < 5;
            if again {
                *crashes = if ended.lived < AT_ONCE { *crashes + 1 } else { 0 };
                self.say_now();
                self.pause(Duration::from_millis(250) * 2u32.pow(*crashes));
                return Ok(self.after_crash());
            }
        }
        if let Some(waiting) = self.record().and_then(|a| a.rotation) {
            self.to_say.push(format!(
                "baton: handoff {} is sealed; the next start in this project begins with it",
                waiting.handoff
            ));
        }
        self.output.print_result()?;
        self.say_now();
        Ok(None)
    }

    /// A headless turn ended: go on if a handoff is pending or the limit has ended.
    fn next_context(&mut self, ended: &Ended) -> anyhow::Result<Option<Vec<String>>> {
        let Some(agent) = self.record() else { return Ok(None) };
        let session = self.session(&agent);
        let mut none = None;
        self.parked(&agent, session.as_ref(), &mut none)?;
        if let Some(parked) = self.record().and_then(|a| a.parked)
            && let Some(session) = &session
        {
            eprintln!(
                "baton: {} is parked until {}{}",
                self.agent,
                parked.until,
                if parked.guess { " (a guess)" } else { "" }
            );
            let wait = Timestamp::now().until(parked.until).ok().and_then(|s| Duration::try_from(s).ok());
            if !self.pause(wait.unwrap_or_default()) {
                return Ok(None);
            }
            self.store.agents().update(&self.agent, PATIENCE, |a| a.parked = None)?;
            let id = session.id.to_string();
            return Ok(Some(self.with_choices(|l, g, now| l.resume(g, &id, Some(rotate::UNPARK), now))));
        }
        let Some(request) = agent.rotation.clone() else { return Ok(None) };
        if ended.change != Change::Exited(0) || !self.may_rotate(&agent)? {
            return Ok(None);
        }
        let (rotation, effects) = self.saga(&agent, &request).begin_stopped();
        eprintln!("baton: {} continues in a fresh context from {}", self.agent, rotation.handoff);
        self.rotation = Some(rotation.clone());
        self.carry_out(&effects, None);
        self.output.next_context();
        Ok(Some(self.fresh_args(&rotation)))
    }

    fn after_crash(&self) -> Option<Vec<String>> {
        let handoff = self.record().and_then(|a| a.last_handoff)?;
        let prompt = rotate::continuation(&handoff);
        Some(self.with_choices(|launch, grammar, now| launch.fresh(grammar, &prompt, now)))
    }

    fn fresh_args(&self, rotation: &Rotation) -> Vec<String> {
        let prompt = rotate::continuation(&rotation.handoff);
        self.with_choices(|launch, grammar, now| launch.fresh(grammar, &prompt, now))
    }

    /// The model and permission mode that the person has chosen since the start.
    fn with_choices(
        &self,
        make: impl FnOnce(&Launch, &baton_core::launch::Grammar, &Now<'_>) -> Vec<String>,
    ) -> Vec<String> {
        let session = self.record().and_then(|a| self.session(&a));
        let now = Now {
            // The model is passed only if the command line named one: a default may change for the better.
            model: None,
            permission_mode: session.as_ref().and_then(|s| s.permission_mode.as_deref()),
        };
        make(&self.launch, &self.options.provider.grammar, &now)
    }

    /// At a usage limit: park, and come back when it has ended. Returns how, when it is time.
    fn parked(
        &mut self,
        agent: &Agent,
        session: Option<&Session>,
        deadline: &mut Option<Instant>,
    ) -> anyhow::Result<Option<Purpose>> {
        let at_limit = session.filter(|s| s.turn == Turn::Limit);
        let now = Timestamp::now();
        match (at_limit, agent.parked) {
            (Some(session), None) if self.config.run.park => {
                let message = session.limit.as_deref().unwrap_or_default();
                let parked = limit::parked(message, 0, now);
                self.store.agents().update(&self.agent, PATIENCE, |a| a.parked = Some(parked))?;
                self.log("parked", &parked.until.to_string());
                *deadline = Some(Instant::now() + until(parked.until, now));
            }
            (Some(session), Some(parked)) if parked.until <= now => {
                // If it fails again the next wait is longer, unless the client names a time.
                let next = limit::parked("", parked.tries, now);
                self.store.agents().update(&self.agent, PATIENCE, |a| a.parked = Some(next))?;
                return Ok(Some(Purpose::Resume {
                    session: session.id.to_string(),
                    prompt: Some(rotate::UNPARK.to_owned()),
                }));
            }
            (Some(_), Some(parked)) => *deadline = Some(Instant::now() + until(parked.until, now)),
            (None, Some(_)) if session.is_some_and(|s| s.turn == Turn::Idle) => {
                self.store.agents().update(&self.agent, PATIENCE, |a| a.parked = None)?;
            }
            _ => {}
        }
        Ok(None)
    }

    /// The client died outside a rotation: keep what its transcript proves.
    fn seal_crash(&mut self) {
        let Some(session) = self.record().and_then(|a| self.session(&a)) else { return };
        let sealing =
            sealing::Sealing { session: &session, kind: Kind::Crash, narrative: None, for_self: true };
        match sealing::seal(&self.store, &self.config, &sealing, Timestamp::now()) {
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
                    "baton: {} ended without a word; what its transcript proves is kept in handoff {id}",
                    self.agent
                ));
            }
            Err(e) => self.to_say.push(format!(
                "baton: {} ended without a word, and nothing could be sealed: {e:#}",
                self.agent
            )),
        }
    }

    /// Waits; `false` if we were told to end meanwhile.
    fn pause(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            let timeout =
                Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            let mut fds = [PollFd::from_borrowed_fd(self.signals.fd(), PollFlags::IN)];
            let _ = poll(&mut fds, Some(&timeout));
            self.signals.drain();
            if self.signals.told_to_end().is_some() || self.signals.interrupted() {
                return false;
            }
        }
        true
    }

    fn say_now(&mut self) {
        for line in self.to_say.drain(..) {
            eprintln!("{line}");
        }
    }

    fn log(&self, event: &str, detail: &str) {
        let line = Line {
            agent: Some(self.agent.clone()),
            detail: serde_json::json!({ "note": detail }),
            ..Line::new(Timestamp::now(), event)
        };
        log::append(&self.store.state, &line);
    }

    /// The agent is over, or at least we are.
    fn leave(&mut self) {
        self.say_now();
        let ended = self.store.agents().update(&self.agent, PATIENCE, |a| {
            if a.supervisor.as_ref() == Some(&self.me) {
                a.supervisor = None;
                a.process = None;
                a.order = None;
                a.parked = None;
                a.ended = Some(Timestamp::now());
            }
        });
        if let Err(e) = ended {
            self.log("fault", &e.to_string());
        }
        let _ = fs::remove(&self.socket_path);
    }
}

/// What woke us.
struct Woken {
    files: bool,
}

fn until(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

/// Did it end in a way nobody asked for? Quitting, Ctrl+C, SIGTERM and SIGHUP are somebody's wish.
fn is_crash(change: Change) -> bool {
    match change {
        Change::Exited(code) => !matches!(code, 0 | 1 | 2 | 129 | 130 | 143),
        Change::Killed(signal) => {
            ![Signal::INT, Signal::TERM, Signal::HUP].iter().any(|s| s.as_raw() == signal)
        }
        Change::Stopped => false,
    }
}
