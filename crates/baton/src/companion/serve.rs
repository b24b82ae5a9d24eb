//! `baton companion`: beside one client for as long as it lives. Sleeps until the mod tells something, a file
//! changes or the client has gone; decides with `core::companion`; prints orders for the mod.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use baton_core::agent::Agent;
use baton_core::companion::wire::{Hello, Line, Told, VERSION};
use baton_core::companion::{Input, Look, Order, State, Text};
use baton_core::process::Process;
use baton_core::rotation::{Event, Rotation, permitted};
use baton_core::session::{Session, Turn};
use jiff::{SignedDuration, Timestamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::journal;
use super::presence::{self, Record};
use crate::hot::scene::Scene;
use crate::hot::{input, post};
use crate::paths::Paths;
use crate::store::log::{self, Line as LogLine};
use crate::store::mail::Claimed;
use crate::store::{Store, record};
use crate::sys::fs;
use crate::sys::lock::Lock;
use crate::sys::process;
use crate::sys::watch::Watch;
use crate::{poke, rotate};

const PATIENCE: Duration = Duration::from_millis(500);
/// So long after the hooks saw a turn end, the mod has told it too, or its word was lost.
const SETTLED: SignedDuration = SignedDuration::from_secs(3);
/// Characters of mail in one prompt. No hook's limit applies to it.
const SUBMITTED: usize = 60_000;
/// The mod's hello comes with the start; its predecessor lets go of the lock when it ends.
const START: Duration = Duration::from_secs(5);

pub fn run() -> anyhow::Result<()> {
    let hello = input::read_object(START)?;
    let hello: Hello = serde_json::from_slice(&hello).context("a hello that cannot be understood")?;
    anyhow::ensure!(hello.v == VERSION, "version {} of the mod's protocol is not known here", hello.v);
    let store = Store::new(&Paths::from_env()?);
    let client = process::identify(process::parent_pid()).context("the client is gone")?;
    let me = process::identify(std::process::id()).context("this process is not to be found in /proc")?;
    let path = |kind: &str| presence::path(&store.state, client.pid, kind);
    presence::sweep(&store.state);
    let _lock = Lock::acquire(&path("lock"), START)?;
    fs::remove(&path("sock"))?;
    let listener = UnixListener::bind(path("sock")).context("no socket for the mod")?;
    let about = Record {
        process: me.clone(),
        client: client.clone(),
        client_version: hello.client,
        since: Timestamp::now(),
        interactive: hello.interactive,
        braked: false,
        silent: None,
    };
    // Before anybody else can know of us: one that hangs here would be found by others, and the mod would not know
    // whom to ask.
    let socket = path("sock").display().to_string();
    print(&Line::Hello { v: VERSION, socket: socket.into() })?;
    record::write(&path("json"), &about)?;
    for folder in ["agents", "processes"] {
        fs::private_dir(&store.state.join(folder))?;
    }
    let watch = Watch::folders(&[&store.state.join("agents"), &store.state.join("processes")])?;
    let mut companion = Companion {
        socket: path("sock"),
        store,
        client,
        me,
        about,
        listener,
        poked: None,
        watch,
        told_to_end: told_to_end()?,
        agent: None,
        state: State::default(),
        rotation: None,
        held: Vec::new(),
        status: false,
    };
    let outcome = companion.live(hello.interactive);
    companion.leave();
    outcome
}

struct Companion {
    store: Store,
    client: Process,
    me: Process,
    about: Record,
    socket: PathBuf,
    listener: UnixListener,
    /// Datagrams of those who changed our agent's files; only where the agent is known.
    poked: Option<UnixDatagram>,
    watch: Watch,
    /// The client ends us with SIGTERM, its terminal with SIGHUP.
    told_to_end: UnixStream,
    agent: Option<Agent>,
    state: State,
    rotation: Option<Rotation>,
    /// Mail that was submitted and has no answer yet.
    held: Vec<Claimed>,
    /// Does the client show a line of ours?
    status: bool,
}

impl Companion {
    fn live(&mut self, interactive: bool) -> anyhow::Result<()> {
        self.feed(Input::Started { interactive, working: self.in_turn() });
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
            if self.state.deadline().is_some_and(|d| d <= Timestamp::now()) {
                self.look_again();
                self.feed(Input::Tick);
            }
        }
    }

    /// Does a turn run already? An earlier companion may have ended in the middle of one.
    fn in_turn(&self) -> bool {
        let agent = self.store.agents().of_process(&self.client);
        let session = agent.and_then(|a| a.session).and_then(|id| self.store.sessions().get(&id).ok()?);
        session.is_some_and(|s| matches!(s.turn, Turn::Working | Turn::Blocked))
    }

    /// Sleeps until something happens; `None` when the client is gone.
    fn wait(&mut self) -> anyhow::Result<Option<Woken>> {
        let timeout = self.state.deadline().map(|d| {
            let left = Duration::try_from(d.duration_since(Timestamp::now())).unwrap_or_default();
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() }
        });
        let stdout = rustix::stdio::stdout();
        let ready: Vec<PollFlags> = {
            // Asked for nothing, our output still tells when its reader has gone.
            let mut fds = vec![
                PollFd::from_borrowed_fd(stdout, PollFlags::empty()),
                PollFd::from_borrowed_fd(self.told_to_end.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
            ];
            fds.extend(self.watch.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            fds.extend(self.poked.as_ref().map(|s| PollFd::from_borrowed_fd(s.as_fd(), PollFlags::IN)));
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(std::io::Error::from(e).into()),
            }
            fds.iter().map(PollFd::revents).collect()
        };
        if ready[0].intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) || !ready[1].is_empty() {
            return Ok(None);
        }
        let mut files = false;
        if ready[3..].iter().any(|r| !r.is_empty()) {
            let record = self.agent.as_ref().map(|a| format!("{}.json", a.id));
            let client = format!("{}.json", self.client.pid);
            // Messages have names of their own; everything else in these folders is somebody else's.
            files |= self.watch.drain_where(|name| {
                name == client
                    || Some(name) == record.as_deref()
                    || name.starts_with('m') && !name.contains('.')
            });
            let mut byte = [0; 8];
            while self.poked.as_ref().is_some_and(|s| s.recv(&mut byte).is_ok()) {
                files = true;
            }
        }
        Ok(Some(Woken { files, told: !ready[2].is_empty() }))
    }

    /// One event of the mod, acknowledged.
    fn hear(&self) -> Option<Told> {
        let (stream, _) = self.listener.accept().ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let mut line = String::new();
        BufReader::new(std::io::Read::take(&stream, 64 << 10)).read_line(&mut line).ok()?;
        let told = serde_json::from_str(&line).ok()?;
        (&stream).write_all(b"ok\n").ok()?;
        Some(told)
    }

    /// Returns whether the files should be looked at again.
    fn told(&mut self, told: Told) -> bool {
        let input = match told {
            Told::TurnBegan { .. } => Input::TurnBegan,
            Told::TurnEnded { aborted, .. } => {
                // The hooks of this turn have had their say: what they left must be known before we decide.
                self.look_again();
                Input::TurnEnded { aborted }
            }
            Told::Done { order } => {
                // So has the hook that loaded what this order was for.
                self.look_again();
                Input::Done(order)
            }
            Told::Refused { order, why } => Input::Refused(order, why),
            Told::Measure { .. } | Told::Unknown => return false,
        };
        self.feed(input);
        true
    }

    /// What the files say now.
    fn look(&mut self) -> anyhow::Result<Look> {
        let Some(agent) = self.store.agents().of_process(&self.client) else { return Ok(Look::default()) };
        if self.agent.as_ref().is_none_or(|known| known.id != agent.id) {
            self.meet(&agent)?;
        }
        let session = agent.session.as_ref().and_then(|id| self.store.sessions().get(id).ok().flatten());
        let at_limit = session.as_ref().is_some_and(|s| s.turn == Turn::Limit);
        let request = match agent.rotation.clone().filter(|_| !at_limit) {
            Some(request) if self.may_rotate(&agent, session.as_ref())? => Some(request),
            _ => None,
        };
        let under_way = request.as_ref().is_some_and(|r| agent.session.as_ref() != Some(&r.session));
        let mail = if at_limit { 0 } else { self.store.mail().waiting(&agent.id) };
        let urgent = if mail > 0 { self.store.mail().urgent(&agent.id) } else { None };
        let idle = session.as_ref().is_some_and(|s| {
            let since = s.turn_since.map(|t| Timestamp::now().duration_since(t));
            s.turn == Turn::Idle && since.is_some_and(|t| t > SETTLED)
        });
        let working = session.as_ref().filter(|s| s.turn == Turn::Working);
        let began = working.and_then(|s| s.turn_since);
        // The claim is open until somebody has said something to the fresh context.
        let owed = session.and_then(|s| s.claim).filter(|id| journal::rotated(&self.store, &agent, id));
        self.agent = Some(agent);
        Ok(Look { request, under_way, mail, urgent, owed, idle, began })
    }

    /// The hooks have said whose client this is.
    fn meet(&mut self, agent: &Agent) -> anyhow::Result<()> {
        let mail = self.store.state.join("mail").join(agent.id.as_str()).join("new");
        fs::private_dir(&mail)?;
        let (agents, processes) = (self.store.state.join("agents"), self.store.state.join("processes"));
        self.watch = Watch::folders(&[&agents, &processes, &mail])?;
        let path = poke::companion_path(&self.store.state, &agent.id);
        fs::private_dir(&self.store.state.join("run"))?;
        fs::remove(&path)?;
        // A path too long for a socket leaves the watched files, which are enough.
        self.poked = UnixDatagram::bind(&path).ok().filter(|s| s.set_nonblocking(true).is_ok());
        Ok(journal::settle(&self.store, agent)?)
    }

    fn may_rotate(&mut self, agent: &Agent, session: Option<&Session>) -> anyhow::Result<bool> {
        if self.rotation.is_some() {
            return Ok(true);
        }
        let tokens = session.and_then(|s| self.store.sessions().gauge(&s.id).reading).map(|r| r.tokens);
        let max = Scene::at(&agent.cwd).map_or(u64::MAX, |s| s.config.run.max_restarts);
        let Err(refused) = permitted(agent.in_a_row, max, tokens) else { return Ok(true) };
        self.log("rotation-refused", &refused.to_string());
        self.say(Some(format!("baton: no further rotation: {refused}")))?;
        self.store.agents().update(&agent.id, PATIENCE, |a| a.rotation = None)?;
        Ok(false)
    }

    /// Decides, and carries out what was decided. What fails is not followed by what was to come after it, so
    /// nothing is done that was not journaled; its deadline then ends the matter.
    fn feed(&mut self, input: Input) {
        let (next, orders) = std::mem::take(&mut self.state).next(input, Timestamp::now());
        self.state = next;
        // Two steps at once are one entry in the journal, which is synced.
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

    /// Looks at the files and decides anew; files that cannot be read now will change again.
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
                    let (rotation, _) =
                        journal::rotation(agent, &request, &self.me, Timestamp::now()).begin();
                    crate::store::rotations::put(&self.store.state, &rotation)?;
                    self.rotation = Some(rotation);
                }
            }
            Order::Clear(order) => print(&Line::Clear { order })?,
            Order::Abort(order) => {
                self.log("turn-aborted", "for an urgent message");
                print(&Line::Abort { order })?;
            }
            Order::Cleared => self.journal(Event::Stopped)?,
            Order::Loaded(handoff) => {
                self.journal(Event::Loaded(handoff))?;
                self.rotation = None;
                self.log("rotated", journal::ACTUATOR);
                if let Some(agent) = &self.agent {
                    rotate::count(&self.store, &agent.id, PATIENCE)?;
                }
                self.say(None)?;
            }
            Order::GiveUp(why) => {
                if let Some(mut rotation) = self.rotation.take() {
                    rotation.step = baton_core::rotation::Step::Failed;
                    rotation.note = Some(why.clone());
                    crate::store::rotations::put(&self.store.state, &rotation)?;
                    self.say(Some(format!("baton: handoff {} waits: {why}", rotation.handoff)))?;
                }
                self.log("rotation-waits", &why);
            }
            Order::Submit(order, Text::Continuation(handoff)) => {
                print(&Line::Submit { order, text: rotate::continuation(&handoff).into() })?;
            }
            Order::Submit(order, Text::Mail) => self.submit_mail(order, None)?,
            Order::Submit(order, Text::Urgent(id)) => self.submit_mail(order, Some(&id))?,
            Order::Accepted(Text::Mail | Text::Urgent(_)) => self.settle_mail(true),
            Order::Back(Text::Mail | Text::Urgent(_)) => self.settle_mail(false),
            Order::Accepted(Text::Continuation(_)) | Order::Back(Text::Continuation(_)) => {}
            Order::Braked(braked) => {
                self.about.braked = braked;
                record::write(&presence::path(&self.store.state, self.client.pid, "json"), &self.about)?;
            }
        }
        Ok(())
    }

    fn journal(&mut self, event: Event) -> anyhow::Result<()> {
        if let Some(rotation) = self.rotation.take() {
            self.rotation = Some(journal::advance(&self.store.state, rotation, event)?);
        }
        Ok(())
    }

    /// Claims what waits and submits it as one prompt, together with the message that the turn was interrupted for
    /// where a hook was faster and nobody has acted upon it.
    fn submit_mail(&mut self, order: u64, urgent: Option<&str>) -> anyhow::Result<()> {
        let session = self.agent.as_ref().and_then(|a| a.session.as_ref());
        let session = session.and_then(|id| self.store.sessions().get(id).ok().flatten());
        let mut parts = Vec::new();
        if let Some(session) = session
            && let Some(scene) = Scene::at(&session.cwd)
        {
            self.held = post::deliver_within(&scene, &session, SUBMITTED);
            let waited = |id: &str| self.held.iter().any(|m| m.message.id == id);
            parts.extend(urgent.filter(|id| !waited(id)).and_then(|id| post::again(&scene, &session, id)));
        }
        parts.extend(self.held.iter().map(post::framed));
        if parts.is_empty() {
            self.feed(Input::Nothing(order));
            return Ok(());
        }
        print(&Line::Submit { order, text: parts.join("\n\n").into() })
    }

    fn settle_mail(&mut self, accepted: bool) {
        let mail = self.store.mail();
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

    /// A line in the client's status area, only while there is something to say.
    fn say(&mut self, text: Option<String>) -> anyhow::Result<()> {
        if text.is_none() && !self.status {
            return Ok(());
        }
        self.status = text.is_some();
        print(&Line::Status { text: text.map(Into::into) })
    }

    fn log(&self, event: &str, note: &str) {
        let line = LogLine {
            agent: self.agent.as_ref().map(|a| a.id.clone()),
            session: self.agent.as_ref().and_then(|a| a.session.clone()),
            detail: serde_json::json!({ "note": note, "by": journal::ACTUATOR }),
            ..LogLine::new(Timestamp::now(), event)
        };
        log::append(&self.store.state, &line);
    }

    /// The client has gone: mail that nobody took is queued again, a rotation that did not come about is given up,
    /// our files go away.
    fn leave(&mut self) {
        self.settle_mail(false);
        if let Some(rotation) = self.rotation.take()
            && let Some(agent) = self.store.agents().of_process(&self.client)
        {
            let _ = journal::close(&self.store, &agent, rotation);
        }
        let _ = fs::remove(&self.socket);
        let _ = fs::remove(&self.socket.with_extension("json"));
        if let Some(agent) = &self.agent {
            let _ = fs::remove(&poke::companion_path(&self.store.state, &agent.id));
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

struct Woken {
    files: bool,
    told: bool,
}

/// One order, whole, at once.
fn print(line: &Line<'_>) -> anyhow::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("the client is gone")
}
