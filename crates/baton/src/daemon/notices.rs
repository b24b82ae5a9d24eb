//! Tells a child's parent by mail, and the user if they want it, what an agent waits for.

use std::collections::{BTreeSet, HashMap};
use std::process::Command;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use baton_core::agent::Agent;
use baton_core::approval::{AnswerAuthor, Case, RequestId};
use baton_core::halt::{Audience, Halt, LimitEnd};
use baton_core::ids::AgentId;
use baton_core::limit;
use baton_core::message::Message;
use baton_core::need::WaitingRequest;
use baton_core::notice::{self, Due, Notice, NoticeFacts, NoticeKind, beginning, client_of, due};
use baton_core::rotation::{Rotation, Step};
use baton_core::session::Session;
use jiff::{SignedDuration, Timestamp};

use crate::approvals;
use crate::config::Config;
use crate::daemon::Daemon;
use crate::mail::maildir::Mail;
use crate::mail::{notify, user};
use crate::rotation::pending;
use crate::sessions::{done, turn};
use crate::store::record;
use crate::sys::fs::{self, FileError, PRIVATE, Sync};
use crate::sys::{child, clock};
use crate::views;

/// Older events than this, counted from the daemon's start, are not news.
const OLD: SignedDuration = SignedDuration::from_mins(10);
/// The same for a death, which may have gone unnoticed.
const OLD_DEATH: SignedDuration = SignedDuration::from_hours(72);
/// A hanging user command is killed after this time.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// How many missed answers to consider; older ones are not news.
const MAX_MISSED: usize = 100;
/// How many user commands run at once; more wait for one to end.
const MAX_COMMANDS: usize = 4;
/// How many may wait; more are skipped.
const MAX_WAITING: usize = 64;

/// Sends the notice that is due for an agent. Returns when to check again if one is about to become due.
pub(crate) fn check_agent(daemon: &Daemon, id: &AgentId) -> Option<Timestamp> {
    let now = Timestamp::now();
    if let Some(at) = untold_end(daemon, id, now) {
        return Some(at);
    }
    let (agent, session, notice) = {
        let roster = daemon.roster();
        let entry = roster.get(id)?;
        let session = entry.session.as_ref();
        let facts = NoticeFacts {
            live: entry.live,
            ended: entry.agent.ended.is_some() || session.is_some_and(|s| s.ended.is_some()),
            turn: session.map(|s| s.turn).unwrap_or_default(),
            turn_since: session.and_then(|s| s.turn_since),
            limit_since: session.and_then(Session::parked).and_then(|parked| parked.since),
            failed: session.is_some_and(|s| s.error.is_some()),
            done: session.and_then(|s| s.done.as_ref()).map(|done| done.at),
            rotating: entry
                .agent
                .rotation
                .as_ref()
                .map(|r| r.at)
                .or(session.and_then(|s| Some(s.request.as_ref()?.at))),
            pending: session.and_then(|s| {
                let braked = daemon.store.presence(&entry.agent).is_braked();
                Some((s.pending(braked)?, s.request.as_ref()?.at))
            }),
            stopped: entry.agent.stopped().map(|stopped| stopped.at),
            process: client_of(&entry.agent, session),
        };
        match due(&facts, now) {
            Due::Nothing => return None,
            Due::At(then) => return Some(then),
            Due::Now(_) if !is_news(daemon, &facts, entry.was_live) => return None,
            Due::Now(notice) => (entry.agent.clone(), entry.session.clone(), notice),
        }
    };
    let detail = |audience| match (notice.kind, &session) {
        (NoticeKind::HandoffPending, Some(session)) => {
            pending::text(&daemon.store, &agent, session, audience)
                .or_else(|| agent.stopped().map(|stopped| stopped.why.clone()))
        }
        _ => Some(detail(daemon, &agent, session.as_ref(), notice.kind, audience)),
    };
    // It was carried out meanwhile.
    let (to_user, to_agent) = (detail(Audience::User)?, detail(Audience::Agent)?);
    let for_reader = |audience| match audience {
        Audience::User => to_user.clone(),
        Audience::Agent => to_agent.clone(),
    };
    send(daemon, &agent, session.as_ref(), notice, &for_reader, now);
    if notice.kind == NoticeKind::Idle {
        notify_senders(daemon, &agent, notice, now);
    }
    None
}

/// Checks a turn that the hooks saw begin once: Esc may have taken its prompt back, and nothing reports that. Returns
/// when to check if it is too early.
fn untold_end(daemon: &Daemon, id: &AgentId, now: Timestamp) -> Option<Timestamp> {
    let session = daemon.roster().get(id).filter(|entry| entry.live)?.session.clone()?;
    let at = turn::untold_from(&session)?;
    if now < at {
        return Some(at);
    }
    // The changed record brings us back.
    pending::end_untold(&daemon.store, &session, now);
    None
}

/// A state older than the daemon is not news. A death is, for days: nobody else may have noticed it.
fn is_news(daemon: &Daemon, facts: &NoticeFacts<'_>, was_live: bool) -> bool {
    let within = |time: SignedDuration| facts.turn_since.is_some_and(|since| since >= daemon.since - time);
    if facts.live { within(OLD) } else { was_live || within(OLD_DEATH) }
}

/// The notice's detail for this reader.
fn detail(
    daemon: &Daemon,
    agent: &Agent,
    session: Option<&Session>,
    kind: NoticeKind,
    audience: Audience,
) -> String {
    let of = |field: fn(&Session) -> Option<&String>| session.and_then(field).cloned().unwrap_or_default();
    match kind {
        NoticeKind::Idle => of(|s| s.answer.as_ref()),
        NoticeKind::Error => Halt::Error(&of(|s| s.error.as_ref())).words(audience),
        NoticeKind::Blocked => {
            let waiting = views::agent::waiting(&daemon.store).unwrap_or_else(|e| {
                daemon.fault("list what waits for an answer", &e);
                HashMap::new()
            });
            let dialog = || Halt::Blocked(Some(&of(|s| s.blocked_on.as_ref()))).words(audience);
            let inbox = views::agent::inbox(&daemon.store);
            let question = inbox
                .get(agent.id.as_str())
                .and_then(|sent| sent.question_of(session))
                .map(views::agent::asks);
            waiting.get(&agent.id).or(question.as_ref()).map_or_else(dialog, WaitingRequest::words)
        }
        NoticeKind::Limit => {
            let said = of(|s| s.limit.as_ref());
            let since = session.and_then(|s| s.turn_since).unwrap_or(agent.created);
            let known = session.and_then(Session::parked).or(agent.parked);
            let parked = known.unwrap_or_else(|| limit::parked(&said, None, since, &clock::zone));
            // An agent may read this on another day and knows no time zone.
            let until = parked.until.strftime("%Y-%m-%d %H:%M UTC").to_string();
            let words = Halt::Limit(Some(LimitEnd::of(&parked, &until))).words(audience);
            format!("{words} ({})", beginning(&said))
        }
        NoticeKind::Died => notify::UNSEEN.to_owned(),
        NoticeKind::Compacted | NoticeKind::HandoffFailed | NoticeKind::HandoffPending | NoticeKind::Done => {
            String::new()
        }
    }
}

/// Sends a notice if this changed rotation has failed.
pub(crate) fn check_rotation(daemon: &Daemon, id: &str) {
    let failed = || -> Result<Option<(Rotation, Agent)>, FileError> {
        let Some(rotation) = daemon.store.rotations().get(id)? else { return Ok(None) };
        if rotation.step != Step::Failed || rotation.at < daemon.since - OLD {
            return Ok(None);
        }
        Ok(daemon.store.agents().get(&rotation.agent)?.map(|agent| (rotation, agent)))
    };
    match failed() {
        Ok(Some((rotation, agent))) => {
            let notice = Notice { kind: NoticeKind::HandoffFailed, stamp: rotation.at.as_nanosecond() };
            let reason = rotation.note.as_deref().unwrap_or("no reason was given");
            send(daemon, &agent, None, notice, &|_| reason.to_owned(), Timestamp::now());
        }
        Ok(None) => {}
        Err(e) => daemon.fault("read the record of a rotation", &e),
    }
}

/// Tells the user once of each waiting request. The user's command gets its id, so that a program can answer.
pub(crate) fn check_approvals(daemon: &Daemon) {
    let now = Timestamp::now();
    let cases = match approvals::waiting(&daemon.store, now) {
        Ok(cases) => cases,
        Err(e) => return daemon.fault("list what waits for an answer", &e),
    };
    let config = daemon.config();
    let waiting: BTreeSet<RequestId> = cases.iter().map(|case| case.id.clone()).collect();
    let before = daemon.waiting(waiting.clone()).unwrap_or_else(|| answered_meanwhile(daemon));
    for id in before.difference(&waiting) {
        tell_answer(daemon, &config, id, now);
    }
    for case in cases {
        let request = &case.request;
        if notice::is_muted(&config.notify.mute, request.agent.as_str(), NoticeKind::Blocked) {
            continue;
        }
        let about = approvals::summary(request, 200);
        let text = format!(
            "[baton] {} asks for {}: {about} (baton approve {id}, baton deny {id} REASON)",
            request.agent,
            request.tool,
            id = case.id.short()
        );
        let key = format!("asks-{}", case.id);
        let request = Some(case.id.as_str());
        notify_user(daemon, &config, &case.request.agent, NoticeKind::Blocked, &key, &text, request);
    }
}

/// Requests answered while no daemon ran. Each answer has a key, so nobody is told twice.
fn answered_meanwhile(daemon: &Daemon) -> BTreeSet<RequestId> {
    let is_news = |case: &Case| case.answer.as_ref().is_some_and(|answer| answer.at >= daemon.since - OLD);
    match approvals::past(&daemon.store, MAX_MISSED) {
        Ok(cases) => cases.into_iter().filter(is_news).map(|case| case.id).collect(),
        Err(e) => {
            daemon.fault("list what was answered", &e);
            BTreeSet::new()
        }
    }
}

/// Tells the parent, who was notified of the request, how it was answered, unless the parent answered it.
fn tell_answer(daemon: &Daemon, config: &Config, id: &RequestId, now: Timestamp) {
    let answered = daemon.store.approvals().get(id).map_err(anyhow::Error::from).and_then(|case| {
        let Some(Case { request, answer: Some(answer), .. }) = case else { return Ok(()) };
        let Some(agent) = daemon.store.agents().get(&request.agent)? else { return Ok(()) };
        let Some(parent) = notify::parent_of(&daemon.store, &agent) else { return Ok(()) };
        let is_its_own = answer.author == AnswerAuthor::Agent(parent.id.clone());
        let is_muted = notify::is_muted(&config.notify, &agent, NoticeKind::Blocked);
        if is_its_own || is_muted || !config.notify.parent {
            return Ok(());
        }
        let (said, about) = (approvals::said(&answer), approvals::summary(&request, 200));
        let text = format!("[baton] what {} asked for is over, {said}: {}: {about}", agent.id, request.tool);
        notify::mail(&daemon.store, &parent, &format!("answered-{}", id.short()), &text, now)
    });
    if let Err(e) = answered {
        daemon.fault("tell how a request was answered", &e);
    }
}

/// Sends a notice to the agent's parent or the user's inbox, and to the user's own command if set.
fn send(
    daemon: &Daemon,
    agent: &Agent,
    session: Option<&Session>,
    notice: Notice,
    detail: &dyn Fn(Audience) -> String,
    now: Timestamp,
) {
    let done = session.and_then(|s| Some((s, s.done.as_ref()?))).filter(|_| notice.kind == NoticeKind::Done);
    let text = |audience| match done {
        Some((session, done)) => done::text(session, done, None),
        None => notice.kind.text(agent.id.as_str(), &detail(audience)),
    };
    let config = daemon.config();
    if notify::is_muted(&config.notify, agent, notice.kind) {
        return;
    }
    if is_awaited(daemon, agent, session, notice.kind)
        && !is_asked_of_user(daemon, agent, session, notice.kind)
    {
        let text = text(notify::audience(&daemon.store, agent));
        notify::tell(&daemon.store, &config.notify, agent, notice, &text, now);
    }
    // The user was already notified of a request that can be answered outside the client.
    let is_request =
        notice.kind == NoticeKind::Blocked && session.is_some_and(|session| has_request(daemon, session));
    let notices = daemon.store.state.join("notices");
    let was_told = agent.former.iter().any(|name| notices.join(notice.key(name.as_str())).exists());
    if !is_request && !was_told {
        let (key, text) = (notice.key(agent.id.as_str()), text(Audience::User));
        notify_user(daemon, &config, &agent.id, notice.kind, &key, &text, None);
    }
}

/// Whether a request of this session can be answered outside the client.
fn has_request(daemon: &Daemon, session: &Session) -> bool {
    match approvals::waiting(&daemon.store, Timestamp::now()) {
        Ok(cases) => cases.iter().any(|case| case.request.session == session.id),
        Err(e) => {
            daemon.fault("list what waits for an answer", &e);
            false
        }
    }
}

/// Whether it waits for the answer to its own message in the user's inbox, where the notice would go too.
fn is_asked_of_user(daemon: &Daemon, agent: &Agent, session: Option<&Session>, kind: NoticeKind) -> bool {
    if kind != NoticeKind::Blocked || notify::parent_of(&daemon.store, agent).is_some() {
        return false;
    }
    let inbox = views::agent::inbox(&daemon.store);
    inbox.get(agent.id.as_str()).is_some_and(|sent| sent.question_of(session).is_some())
}

/// The end of a turn is told only to whoever caused it.
fn is_awaited(daemon: &Daemon, agent: &Agent, session: Option<&Session>, kind: NoticeKind) -> bool {
    let parent = notify::parent_of(&daemon.store, agent);
    let listener = parent.as_ref().map_or(user::NAME, |parent| parent.id.as_str());
    kind != NoticeKind::Idle || session.is_some_and(|s| s.asked_by.iter().any(|asker| asker == listener))
}

/// Sends a notice by mail, once per occasion, unless the recipient is no longer on record.
fn send_mail(daemon: &Daemon, to: &AgentId, text: &str, key: &str, now: Timestamp) {
    let sent = daemon.store.agents().get(to).map_err(anyhow::Error::from).and_then(|agent| match agent {
        Some(agent) => notify::mail(&daemon.store, &agent, key, text, now),
        None => Ok(()),
    });
    if let Err(e) = sent {
        daemon.fault("send a notice", &e);
    }
}

/// Notifies the senders of messages with `--notify` that were read in the ended turn.
fn notify_senders(daemon: &Daemon, agent: &Agent, notice: Notice, now: Timestamp) {
    /// How many delivered messages to check, newest first; no turn reads more.
    const RECENT: usize = 64;
    let delivered = Mail::of(&daemon.store).dir(&agent.id, "cur");
    let mut names: Vec<String> = std::fs::read_dir(&delivered)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
        .filter(|name| name.starts_with('m'))
        .collect();
    names.sort_unstable();
    for name in names.iter().rev().take(RECENT) {
        let message = match record::read::<Message>(&delivered.join(name)) {
            Ok(Some(message)) => message,
            Ok(None) => continue,
            Err(e) => {
                daemon.fault("read a delivered message", &e);
                continue;
            }
        };
        if !message.notify || message.at.as_nanosecond() > notice.stamp {
            continue;
        }
        let short: String = message.id.chars().take(100).collect();
        let (key, text) = (format!("read-{short}"), NoticeKind::Idle.text(agent.id.as_str(), ""));
        match AgentId::new(message.from.as_str()) {
            // A parent is told anyway.
            Ok(sender) if agent.parent.as_ref() == Some(&sender) && daemon.config().notify.parent => {}
            Ok(sender) if message.from != "user" => {
                send_mail(daemon, &sender, &text, &key, now);
            }
            _ => notify_user(daemon, &daemon.config(), &agent.id, NoticeKind::Idle, &key, &text, None),
        }
    }
}

/// Notifies the user as configured, at most once per occasion, without waiting for it.
fn notify_user(
    daemon: &Daemon,
    config: &Config,
    agent: &AgentId,
    kind: NoticeKind,
    key: &str,
    text: &str,
    request: Option<&str>,
) {
    // An idle agent is no reason to interrupt a person, but their own command may decide otherwise.
    let desktop = config.notify.desktop && kind != NoticeKind::Idle;
    if !desktop && config.notify.command.is_none() {
        return;
    }
    let dir = daemon.store.state.join("notices");
    let first = fs::private_dir(&dir).and_then(|()| fs::create(&dir.join(key), b"", PRIVATE, Sync::No));
    match first {
        Ok(true) => {}
        Ok(false) => return,
        Err(e) => return daemon.fault("remember a notification", &e),
    }
    if let Some(command) = &config.notify.command {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).env("BATON_NOTICE", kind.as_str()).env("BATON_AGENT", agent.as_str());
        shell.env("BATON_REQUEST", request.unwrap_or_default());
        shell.env("BATON_TEXT", text);
        start(daemon, shell);
    }
    if desktop {
        let notify = if cfg!(target_os = "macos") {
            let mut script = Command::new("osascript");
            // The text is an argument, never part of the script.
            script.args([
                "-e",
                "on run argv",
                "-e",
                "display notification (item 1 of argv) with title \"baton\"",
            ]);
            script.args(["-e", "end run", text]);
            script
        } else {
            let mut notify = Command::new("notify-send");
            notify.args(["--app-name=baton", "--", "baton", text]);
            notify
        };
        start(daemon, notify);
    }
}

/// The running user commands, and those waiting for one to end.
static COMMANDS: Mutex<Commands> = Mutex::new(Commands { running: 0, waiting: 0 });
static ENDED: Condvar = Condvar::new();

struct Commands {
    running: usize,
    waiting: usize,
}

/// Runs a command without our descriptors, and kills it if it hangs. Does not wait for it; only a few run at a time.
fn start(daemon: &Daemon, command: Command) {
    // No code panics while it holds this lock.
    let commands = || COMMANDS.lock().unwrap_or_else(PoisonError::into_inner);
    if commands().waiting >= MAX_WAITING {
        return daemon.fault("notify the user", &"too many notifications at once");
    }
    commands().waiting += 1;
    let log = daemon.store.log();
    std::thread::spawn(move || {
        let full = |commands: &mut Commands| commands.running >= MAX_COMMANDS;
        let mut place = ENDED.wait_while(commands(), full).unwrap_or_else(PoisonError::into_inner);
        place.waiting -= 1;
        place.running += 1;
        drop(place);
        match child::run_aside(command, COMMAND_TIMEOUT) {
            Some(ended) => drop(ended.recv()),
            None => log.fault(Timestamp::now(), "notify the user", &"the command could not be started"),
        }
        commands().running -= 1;
        ENDED.notify_one();
    });
}
