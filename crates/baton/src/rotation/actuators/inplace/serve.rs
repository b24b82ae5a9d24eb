//! `baton companion`: runs beside one client for as long as it lives. Sleeps until the mod sends an event, a file
//! changes or the client is gone; decides with `core::companion`; prints orders for the mod.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use baton_core::agent::{Agent, STALE};
use baton_core::companion::wire::{Hello, ModLine, ModMessage, VERSION};
use baton_core::companion::{Input, Look, Order, State, Text, Unsealed};
use baton_core::handoff::HandoffId;
use baton_core::process::Process;
use baton_core::prompt;
use baton_core::rotation::{Actuator, Event, Rotation};
use baton_core::session::due_at;
use baton_core::session::{Session, Turn};
use jiff::{SignedDuration, Timestamp};
use rustix::process::Signal;

use crate::handoffs::attach::PendingFiles;
use crate::mail::deliver::Occasion;
use crate::mail::maildir::{Claimed, Mail};
use crate::mail::{announce, deliver};
use crate::providers;
use crate::rotation::{journal, pending, request};
use crate::sessions::context::Context;
use crate::store::Store;
use crate::store::companions::Companion as About;
use crate::store::log::LogLine;
use crate::sys::fs;
use crate::sys::lock::Lock;
use crate::sys::paths::Paths;
use crate::sys::poll::{self, PollFd, PollFlags};
use crate::sys::process;
use crate::sys::stdin;
use crate::sys::watch::{FolderChange, Interest, Watch};

const PATIENCE: Duration = Duration::from_millis(500);
/// The session's record follows the copy of a handed-over document within this time.
const RECORDED: SignedDuration = SignedDuration::from_secs(3);
/// Characters of mail in one prompt. No hook limit applies here.
const SUBMITTED: usize = 60_000;
/// How long to wait for the mod's hello, and for the lock of a predecessor that is about to end.
const START: Duration = Duration::from_secs(5);

pub(super) fn run() -> anyhow::Result<()> {
    let hello = stdin::read_object(START)?;
    let hello: Hello = serde_json::from_slice(&hello).context("a hello that cannot be understood")?;
    anyhow::ensure!(hello.v == VERSION, "version {} of the mod's protocol is not known here", hello.v);
    let store = Store::new(&Paths::from_env()?);
    let client = process::identify(process::parent_pid()).context("the client is gone")?;
    let me = process::identify(std::process::id()).context("this process was not found in /proc")?;
    let companions = store.companions();
    let path = |kind: &str| companions.path(client.pid, kind);
    companions.sweep();
    let _lock = Lock::acquire(&path("lock"), START)?;
    fs::remove(&path("sock"))?;
    let listener = UnixListener::bind(path("sock")).context("no socket for the mod")?;
    let about = About {
        process: me.clone(),
        client: client.clone(),
        client_version: hello.client,
        since: Timestamp::now(),
        interactive: hello.interactive,
        braked: false,
        silent: None,
        interrupted_for: companions.interrupted_for(&client),
    };
    // Say hello before the record makes us visible. If the companion hangs in between, others must not know about it
    // while the mod does not know its socket.
    let socket = path("sock").display().to_string();
    print(&ModLine::Hello { v: VERSION, socket: socket.into() })?;
    companions.put(&about)?;
    let module = hello.plugin.map(|dir| PathBuf::from(dir).join("hooks/register.js"));
    let home = Home::new(module, path("json"))?;
    let agents = store.agents();
    for folder in [agents.folder(), agents.processes_folder()] {
        fs::private_dir(folder)?;
    }
    let watch = Watch::folders(&[agents.folder(), agents.processes_folder()])?;
    let mut companion = Companion {
        socket: path("sock"),
        store,
        client,
        me,
        about,
        listener,
        poked: None,
        watch,
        home,
        told_to_end: told_to_end()?,
        agent: None,
        state: State::default(),
        rotation: None,
        held: Vec::new(),
        status: false,
        again: None,
    };
    let outcome = companion.live(hello.interactive, hello.turn);
    if companion.home.has_records() {
        companion.leave();
    }
    outcome
}

/// The folders that the companion depends on: the plugin it came with, and our own records. It ends when they are gone.
struct Home {
    /// The mod's own file, if the mod named its folder.
    module: Option<PathBuf>,
    record: PathBuf,
    lost: Watch,
}

impl Home {
    fn new(module: Option<PathBuf>, record: PathBuf) -> anyhow::Result<Self> {
        let mut lost = Watch::new()?;
        for dir in [module.as_deref(), Some(&*record)].into_iter().flatten().filter_map(Path::parent) {
            match lost.add(dir, Interest::Loss) {
                // Already gone; the first check notices.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                added => drop(added?),
            }
        }
        Ok(Self { module, record, lost })
    }

    fn has_records(&self) -> bool {
        self.record.exists()
    }

    fn is_there(&self) -> bool {
        self.has_records() && self.module.as_ref().is_none_or(|module| module.exists())
    }
}

struct Companion {
    store: Store,
    client: Process,
    me: Process,
    about: About,
    socket: PathBuf,
    listener: UnixListener,
    /// Receives datagrams from processes that changed our agent's files; bound once the agent is known.
    poked: Option<UnixDatagram>,
    watch: Watch,
    home: Home,
    /// The client ends us with SIGTERM, its terminal with SIGHUP.
    told_to_end: UnixStream,
    agent: Option<Agent>,
    state: State,
    rotation: Option<Rotation>,
    /// Mail that was submitted and has no answer yet.
    held: Vec<Claimed>,
    /// Whether the client shows a status line of ours.
    status: bool,
    /// When to look again although nothing happened.
    again: Option<Timestamp>,
}

impl Companion {
    fn live(&mut self, interactive: bool, turn: Option<bool>) -> anyhow::Result<()> {
        let interrupted_for = self.about.interrupted_for.clone();
        let working = turn.unwrap_or_else(|| self.in_turn());
        self.feed(Input::Started { interactive, working, interrupted_for });
        let mut look = true;
        loop {
            if look {
                self.look_again();
            }
            let Some(woken) = self.wait()? else { return Ok(()) };
            look = woken.files;
            if woken.told
                && let Some(told) = self.hear()
            {
                look |= self.told(told);
            }
            look |= self.again.take_if(|at| *at <= Timestamp::now()).is_some();
            if self.state.deadline().is_some_and(|d| d <= Timestamp::now()) {
                self.look_again();
                self.feed(Input::Tick);
            }
        }
    }

    /// Whether a turn is already running. An earlier companion may have ended in the middle of one.
    fn in_turn(&self) -> bool {
        let Ok(agent) = self.store.agents().of_process(&self.client) else { return true };
        let session = agent.and_then(|a| a.session).map(|id| self.store.sessions().get(&id)).transpose();
        // A session whose record cannot be read may be in a turn.
        session.map_or(true, |s| s.flatten().is_some_and(|s| matches!(s.turn, Turn::Working | Turn::Blocked)))
    }

    /// Sleeps until something happens; `None` when the client, the plugin folder or our records are gone.
    fn wait(&mut self) -> anyhow::Result<Option<WakeReasons>> {
        if !self.home.is_there() {
            return Ok(None);
        }
        let next = [self.state.deadline(), self.again].into_iter().flatten().min();
        let left = next.map(|d| Duration::try_from(d.duration_since(Timestamp::now())).unwrap_or_default());
        let timeout = self.home.lost.timeout(self.watch.timeout(left));
        let stdout = rustix::stdio::stdout();
        let ready: Vec<PollFlags> = {
            // Poll stdout for no events: it still reports when its reader is gone.
            let mut fds = vec![
                PollFd::from_borrowed_fd(stdout, PollFlags::empty()),
                PollFd::from_borrowed_fd(self.told_to_end.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
            ];
            fds.extend(self.home.lost.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            fds.extend(self.watch.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            fds.extend(self.poked.as_ref().map(|s| PollFd::from_borrowed_fd(s.as_fd(), PollFlags::IN)));
            poll::wait(&mut fds, timeout)?;
            fds.iter().map(PollFd::revents).collect()
        };
        if ready[0].intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) || !ready[1].is_empty() {
            return Ok(None);
        }
        self.home.lost.drain(|_| true);
        if !self.home.is_there() {
            return Ok(None);
        }
        let record = self.agent.as_ref().map(|a| format!("{}.json", a.id));
        let client = format!("{}.json", self.client.pid);
        let copy = self.agent.as_ref().and_then(|a| a.session.as_ref()).map(|id| format!("{id}.md"));
        let mut handed_over = false;
        let mut files = self.watch.drain(|change| match change {
            FolderChange::Everything => true,
            // Message files start with `m` and have no extension; other files in these folders belong to others.
            FolderChange::Entry(_, name) => {
                let is_copy = Some(name) == copy.as_deref();
                handed_over |= is_copy;
                is_copy
                    || name == client
                    || Some(name) == record.as_deref()
                    || name.starts_with('m') && !name.contains('.')
            }
        });
        if handed_over {
            self.again = Some(Timestamp::now() + RECORDED);
        }
        let mut byte = [0; 8];
        while self.poked.as_ref().is_some_and(|s| s.recv(&mut byte).is_ok()) {
            files = true;
        }
        Ok(Some(WakeReasons { files, told: !ready[2].is_empty() }))
    }

    /// Receives one event of the mod and acknowledges it.
    fn hear(&self) -> Option<ModMessage> {
        let (stream, _) = self.listener.accept().ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let mut line = String::new();
        BufReader::new(std::io::Read::take(&stream, 64 << 10)).read_line(&mut line).ok()?;
        let told = serde_json::from_str(&line).ok()?;
        (&stream).write_all(b"ok\n").ok()?;
        Some(told)
    }

    /// Handles an event. Returns whether to look at the files again.
    fn told(&mut self, told: ModMessage) -> bool {
        let input = match told {
            ModMessage::TurnBegan { .. } => Input::TurnBegan,
            ModMessage::TurnEnded { aborted, .. } => {
                // The hooks of this turn have run; read their records before deciding.
                self.look_again();
                Input::TurnEnded { aborted }
            }
            ModMessage::Done { order } => {
                // The hook that loaded the handoff of this order has run too.
                self.look_again();
                Input::Done(order)
            }
            ModMessage::Refused { order, why } => Input::Refused(order, why),
            ModMessage::Measure { .. } | ModMessage::Unknown => return false,
        };
        self.feed(input);
        true
    }

    /// Reads the current facts from the files.
    fn look(&mut self) -> anyhow::Result<Look> {
        let Some(agent) = self.store.agents().of_process(&self.client)? else { return Ok(Look::default()) };
        if self.agent.as_ref().is_none_or(|known| known.id != agent.id) {
            self.meet(&agent)?;
        }
        let session = agent.session.as_ref().and_then(|id| self.store.sessions().readable(id));
        let session = session.map(|session| pending::caught_up(&self.store, session));
        let limit = session.as_ref().and_then(|s| Self::limit(&agent, s));
        // If the agent does not resume by itself after a limit, everything waits for the person.
        let at_limit = session.as_ref().is_some_and(|s| s.turn == Turn::Limit && limit.is_none());
        let stale = agent.rotation.as_ref().filter(|r| session.as_ref().is_some_and(|s| r.is_stale(s)));
        if let Some(stale) = stale {
            self.log("rotation-waits", &format!("handoff {}: {STALE}", stale.handoff));
            request::withdraw(&self.store, &agent.id, &stale.handoff, PATIENCE)?;
        }
        let request = match agent.rotation.clone().filter(|_| !at_limit && stale.is_none()) {
            Some(request) if self.may_rotate(&agent, session.as_ref())? => Some(request),
            _ => None,
        };
        let is_fresh = request.as_ref().is_some_and(|r| agent.session.as_ref() != Some(&r.session));
        // A record that cannot be read may belong to a context that began just now.
        let under_way = is_fresh.then(|| session.as_ref().map_or_else(Timestamp::now, |s| s.started));
        let continues = session.as_ref().and_then(|s| s.continues.clone());
        let mail = if at_limit { 0 } else { Mail::of(&self.store).waiting(&agent.id) };
        let urgent = if mail > 0 { Mail::of(&self.store).urgent(&agent.id) } else { None };
        let is_over = |s: &&Session| matches!(s.turn, Turn::Idle | Turn::Limit);
        let idle = session.as_ref().filter(is_over).and_then(|s| s.turn_since);
        let pending = session
            .as_ref()
            .filter(|s| s.request.is_some())
            .map(|s| due_at(s, false).map_or(Unsealed::EndOfTurn, Unsealed::From));
        let working = session.as_ref().filter(|s| s.turn == Turn::Working);
        let began = working.and_then(|s| s.turn_since);
        // The claim stays open until the fresh context gets its first prompt.
        let owed = session
            .filter(Session::awaits_first_prompt)
            .and_then(|s| s.claim)
            .filter(|id| journal::was_carried_out(&self.store, &agent, Actuator::InPlace, id));
        self.agent = Some(agent);
        Ok(Look { request, under_way, continues, mail, urgent, owed, idle, began, pending, limit })
    }

    /// When the client's usage limit ends, if the agent is to resume by itself then.
    fn limit(agent: &Agent, session: &Session) -> Option<Timestamp> {
        let parked = session.parked()?;
        let ctx = Context::at(&agent.cwd, providers::of(&agent.provider))?;
        ctx.config.run.park.then_some(parked.until)
    }

    /// Starts to serve the agent that the hooks registered for this client.
    fn meet(&mut self, agent: &Agent) -> anyhow::Result<()> {
        let mail = Mail::of(&self.store).dir(&agent.id, "new");
        fs::private_dir(&mail)?;
        let agents = self.store.agents();
        let requests = self.store.state.join("requests");
        fs::private_dir(&requests)?;
        self.watch = Watch::folders(&[agents.folder(), agents.processes_folder(), &requests, &mail])?;
        let path = announce::companion_socket(&self.store.state, &agent.id);
        fs::private_dir(&self.store.state.join("run"))?;
        fs::remove(&path)?;
        // If the path is too long for a socket, watching the files is enough.
        self.poked = UnixDatagram::bind(&path).ok().filter(|s| s.set_nonblocking(true).is_ok());
        Ok(journal::close_left(&self.store, Actuator::InPlace, Some(agent))?)
    }

    fn may_rotate(&mut self, agent: &Agent, session: Option<&Session>) -> anyhow::Result<bool> {
        if self.rotation.is_some() {
            return Ok(true);
        }
        let provider = providers::of(&agent.provider);
        let max = Context::at(&agent.cwd, provider).map_or(u64::MAX, |ctx| ctx.config.run.max_restarts);
        let Err(refused) = request::permit(&self.store, agent, session, max) else { return Ok(true) };
        self.log("rotation-refused", &refused.to_string());
        self.say(Some(format!("baton: no further rotation: {refused}")))?;
        self.store.agents().update(&agent.id, PATIENCE, |a| a.rotation = None)?;
        Ok(false)
    }

    /// Decides, and carries out the orders. The first failure stops the rest, so that nothing happens that was not
    /// journaled; the deadline then ends the attempt.
    fn feed(&mut self, input: Input) {
        let (next, orders) = std::mem::take(&mut self.state).next(input, Timestamp::now());
        self.state = next;
        // Journal the two steps as one entry, because each entry is synced.
        let both = orders.windows(2).any(|o| matches!(o, [Order::Cleared, Order::Loaded(_)]));
        for order in orders {
            if both && order == Order::Cleared {
                self.rotation = self.rotation.take().map(|r| r.next(Event::Stopped, true).0);
                continue;
            }
            if let Err(e) = self.carry_out(order) {
                self.log("fault", &format!("{e:#}"));
                break;
            }
        }
    }

    /// Reads the files and decides again. Files that cannot be read now will change again.
    fn look_again(&mut self) {
        match self.look() {
            Ok(looked) => self.feed(Input::Looked(looked)),
            Err(e) => self.log("fault", &format!("{e:#}")),
        }
    }

    fn carry_out(&mut self, order: Order) -> anyhow::Result<()> {
        match order {
            Order::Begin(request) => {
                if let Some(agent) = &self.agent {
                    let begun = journal::begin(&self.store, agent, &request, Actuator::InPlace, &self.me)?;
                    self.rotation = Some(begun);
                }
            }
            Order::Clear(order) => print(&ModLine::Clear { order })?,
            Order::Abort(order, urgent) => {
                self.log("turn-aborted", &format!("for the urgent message {urgent}"));
                self.about.interrupted_for = Some(urgent);
                self.store.companions().put(&self.about)?;
                print(&ModLine::Abort { order })?;
            }
            Order::CarryOut => self.carry_out_pending()?,
            Order::Cleared => self.journal(Event::Stopped)?,
            Order::Loaded(handoff) => {
                self.journal(Event::Loaded(handoff))?;
                self.rotation = None;
                self.log("rotated", Actuator::InPlace.as_str());
                if let Some(agent) = &self.agent {
                    request::count(&self.store, &agent.id, PATIENCE)?;
                }
                self.say(None)?;
            }
            Order::GiveUp(why) => {
                if let Some(rotation) = self.rotation.take() {
                    let handoff = rotation.handoff.clone();
                    journal::fail(&self.store, rotation, &why)?;
                    self.say(Some(format!("baton: handoff {handoff} waits: {why}")))?;
                }
                self.log("rotation-waits", &why);
            }
            Order::Withdraw(handoff) => {
                if let Some(agent) = &self.agent {
                    request::withdraw(&self.store, &agent.id, &handoff, PATIENCE)?;
                }
            }
            Order::Submit(order, Text::Continuation(handoff)) => {
                let append = self.files(&handoff).map(Into::into);
                print(&ModLine::Submit { order, text: self.continuation(&handoff).into(), append })?;
            }
            Order::Submit(order, Text::Mail) => self.submit_mail(order, None)?,
            Order::Submit(order, Text::Urgent(id)) => self.submit_mail(order, Some(&id))?,
            Order::Accepted(Text::Mail | Text::Urgent(_)) => self.settle_mail(true),
            Order::Back(Text::Mail | Text::Urgent(_)) => self.settle_mail(false),
            Order::Submit(order, Text::Unpark) => {
                self.log("unparked", "");
                print(&ModLine::Submit { order, text: prompt::UNPARK.into(), append: None })?;
            }
            Order::Accepted(Text::Continuation(_) | Text::Unpark)
            | Order::Back(Text::Continuation(_) | Text::Unpark) => {}
            Order::Braked(braked) => {
                self.about.braked = braked;
                self.store.companions().put(&self.about)?;
                if let Some((ctx, session)) = self.session()?.filter(|_| braked) {
                    pending::tell_waiting(&ctx, &session);
                }
            }
        }
        Ok(())
    }

    /// The running session, from its current record.
    fn session(&self) -> anyhow::Result<Option<(Context, Session)>> {
        let session = match self.agent.as_ref().and_then(|a| a.session.as_ref()) {
            Some(id) => self.store.sessions().get(id)?,
            None => None,
        };
        Ok(session.and_then(|s| Some((Context::of(&s)?, s))))
    }

    /// Carries out a pending handoff that no hook carried out at the end of the turn.
    fn carry_out_pending(&mut self) -> anyhow::Result<()> {
        let Some((ctx, session)) = self.session()? else { return Ok(()) };
        // If someone else is sealing it, the deadline brings us back.
        if pending::carry_out(&ctx, &session, false, "the agent").is_some() {
            self.again = Some(ctx.now);
        }
        Ok(())
    }

    /// The prompt for the fresh context. It names the agent's own file if this rotation, or an earlier one with the
    /// same handoff, has one.
    fn continuation(&self, handoff: &HandoffId) -> String {
        let file = match &self.rotation {
            Some(rotation) if &rotation.handoff == handoff => rotation.file.clone(),
            _ => self.store.rotations().file_of(handoff),
        };
        prompt::continuation(handoff, file.as_deref())
    }

    /// The files that wait for the first prompt. The client expands no paths in a prompt that a mod submits.
    fn files(&self, handoff: &HandoffId) -> Option<String> {
        let agent = self.agent.as_ref()?;
        let ctx = Context::at(&agent.cwd, providers::of(&agent.provider))?;
        let session = agent.session.as_ref()?;
        // Where the hooks could not load the handoff, none wait: the hook of this prompt has no room for them.
        let is_loaded = agent.rotation.as_ref().is_none_or(|r| &r.handoff != handoff);
        let waiting = PendingFiles::take(&self.store, session)
            .or_else(|| (!is_loaded).then(|| PendingFiles::of(&self.store, &ctx.config, handoff)));
        waiting?.all(&self.store, &ctx.config)
    }

    fn journal(&mut self, event: Event) -> anyhow::Result<()> {
        if let Some(rotation) = self.rotation.take() {
            self.rotation = Some(journal::advance(&self.store, rotation, event)?);
        }
        Ok(())
    }

    /// Claims queued mail and submits it as one prompt. Adds the message that the turn was interrupted for if a hook
    /// delivered it first and nobody has acted upon it.
    fn submit_mail(&mut self, order: u64, urgent: Option<&str>) -> anyhow::Result<()> {
        let session = self.agent.as_ref().and_then(|a| a.session.as_ref());
        let session = session.and_then(|id| self.store.sessions().readable(id));
        let mut parts = Vec::new();
        if let Some(session) = session {
            self.held = deliver::claim(&self.store, &session, Occasion::Pause, SUBMITTED, Timestamp::now());
            let waited = |id: &str| self.held.iter().any(|m| m.message.id == id);
            let again = urgent.filter(|id| !waited(id));
            parts.extend(again.and_then(|id| deliver::again(&self.store, &session, id)));
        }
        parts.extend(deliver::framed(&self.store, &self.held));
        if parts.is_empty() {
            self.feed(Input::Nothing(order));
            return Ok(());
        }
        print(&ModLine::Submit { order, text: parts.join("\n\n").into(), append: None })
    }

    fn settle_mail(&mut self, accepted: bool) {
        let mail = Mail::of(&self.store);
        for claimed in std::mem::take(&mut self.held) {
            let settled = if accepted {
                mail.delivered(&claimed, "submitted inside the client")
            } else {
                mail.put_back(&claimed)
            };
            let (event, detail) = match settled {
                Ok(()) if accepted => ("mail-submitted", claimed.message.id.clone()),
                Ok(()) => ("mail-waits", claimed.message.id.clone()),
                Err(e) => ("fault", e.to_string()),
            };
            self.log(event, &detail);
        }
    }

    /// Sets the line in the client's status area, or removes it.
    fn say(&mut self, text: Option<String>) -> anyhow::Result<()> {
        if text.is_none() && !self.status {
            return Ok(());
        }
        self.status = text.is_some();
        print(&ModLine::Status { text: text.map(Into::into) })
    }

    fn log(&self, event: &str, note: &str) {
        let line = LogLine {
            agent: self.agent.as_ref().map(|a| a.id.clone()),
            session: self.agent.as_ref().and_then(|a| a.session.clone()),
            detail: serde_json::json!({ "note": note, "by": Actuator::InPlace }),
            ..LogLine::new(Timestamp::now(), event)
        };
        self.store.log().append(&line);
    }

    /// Cleans up when the client is gone: requeues mail that nobody took, closes an open rotation, and removes our
    /// files.
    fn leave(&mut self) {
        self.settle_mail(false);
        if let Some(rotation) = self.rotation.take()
            && let Ok(Some(agent)) = self.store.agents().of_process(&self.client)
        {
            let _ = journal::close(&self.store, &agent, rotation);
        }
        let _ = fs::remove(&self.socket);
        let _ = fs::remove(&self.socket.with_extension("json"));
        if let Some(agent) = &self.agent {
            let _ = fs::remove(&announce::companion_socket(&self.store.state, &agent.id));
        }
    }
}

/// Readable when a signal asks us to end, so that nothing is left half done.
fn told_to_end() -> std::io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        signal_hook::low_level::pipe::register(signal.as_raw(), writer.try_clone()?)?;
    }
    Ok(reader)
}

struct WakeReasons {
    files: bool,
    told: bool,
}

/// Prints one order as a whole and flushes it.
fn print(line: &ModLine<'_>) -> anyhow::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("the client is gone")
}
