//! Tells a child's parent by mail, and the user if they asked for it, what an agent is waiting for.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use baton_core::agent::Agent;
use baton_core::ids::AgentId;
use baton_core::message::{Message, Urgency};
use baton_core::notice::{Due, Facts, Kind, Notice, due};
use baton_core::rotation::{Rotation, Step};
use jiff::{SignedDuration, Timestamp};

use super::Daemon;
use crate::config::Config;
use crate::store::once::{self, Keyed};
use crate::store::record;
use crate::sys::fs::{self, PRIVATE, Sync};

/// What began before we did and longer ago is no news any more.
const OLD: SignedDuration = SignedDuration::from_mins(10);
/// A user's command that hangs is ended after this.
const COMMAND: Duration = Duration::from_secs(10);
/// User's commands at once; more are left out.
const MOST: usize = 4;

/// Looks at one agent; says when to look again, if something is about to become due.
pub fn look(daemon: &Daemon, id: &AgentId) -> Option<Timestamp> {
    let now = Timestamp::now();
    let (agent, found) = {
        let roster = daemon.roster();
        let entry = roster.get(id)?;
        let session = entry.session.as_ref();
        let facts = Facts {
            live: entry.live,
            ended: entry.agent.ended.is_some() || session.is_some_and(|s| s.ended.is_some()),
            turn: session.map(|s| s.turn).unwrap_or_default(),
            turn_since: session.and_then(|s| s.turn_since),
            rotating: entry
                .agent
                .rotation
                .as_ref()
                .map(|r| r.at)
                .or(session.and_then(|s| Some(s.request.as_ref()?.at))),
            process: entry.agent.process.as_ref(),
        };
        match due(&facts, now) {
            Due::Nothing => return None,
            Due::At(then) => return Some(then),
            Due::Now(_) if !is_news(daemon, &facts, entry.lived) => return None,
            Due::Now(notice) => (entry.agent.clone(), notice),
        }
    };
    tell(daemon, &agent, found, "", now);
    if found.kind == Kind::Idle {
        answer_senders(daemon, &agent, found, now);
    }
    None
}

/// What has been so since long before we began is no news; neither is the death of one we never saw alive.
fn is_news(daemon: &Daemon, facts: &Facts<'_>, lived: bool) -> bool {
    let recent = facts.turn_since.is_some_and(|since| since >= daemon.since - OLD);
    recent || (lived && !facts.live)
}

/// A rotation's record has changed.
pub fn look_at_rotation(daemon: &Daemon, id: &str) {
    let path = daemon.store.state.join("rotations").join(format!("{id}.json"));
    let Some(rotation) = record::read::<Rotation>(&path).ok().flatten() else { return };
    if rotation.step != Step::Failed || rotation.at < daemon.since - OLD {
        return;
    }
    let Some(agent) = daemon.store.agents().get(&rotation.agent).ok().flatten() else { return };
    let notice = Notice { kind: Kind::HandoffFailed, stamp: rotation.at.as_nanosecond() };
    tell(daemon, &agent, notice, rotation.note.as_deref().unwrap_or("no reason was given"), Timestamp::now());
}

/// Names an occasion: the same one after a restart has the same name.
fn key(agent: &AgentId, notice: Notice) -> String {
    let short: String = agent.as_str().chars().take(40).collect();
    format!("{}-{}-{short}", notice.kind.as_str(), notice.stamp)
}

fn tell(daemon: &Daemon, agent: &Agent, notice: Notice, detail: &str, now: Timestamp) {
    let text = notice.kind.text(agent.id.as_str(), detail);
    let key = key(&agent.id, notice);
    let config = daemon.config();
    if let Some(parent) = agent.parent.as_ref().filter(|_| config.notify.parent) {
        let mail = Keyed { key: &key, to: parent, from: "baton", text: &text, urgency: Urgency::Sequential };
        match once::send(&daemon.store.state, &mail, now) {
            Ok((_, true)) => crate::poke::supervisor(&daemon.store.state, parent),
            Ok((_, false)) => {}
            Err(e) => daemon.fault("tell a parent about its child", &e),
        }
    }
    tell_user(daemon, &config, &agent.id, notice.kind, &key, &text);
}

/// Who sent a message with `--notify` that was read in the turn that has ended.
fn answer_senders(daemon: &Daemon, agent: &Agent, notice: Notice, now: Timestamp) {
    /// A turn that took longer has lost its senders' interest.
    const RECENT: usize = 64;
    let delivered = daemon.store.state.join("mail").join(agent.id.as_str()).join("cur");
    let mut names: Vec<String> = std::fs::read_dir(&delivered)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
        .filter(|name| name.starts_with('m'))
        .collect();
    names.sort_unstable();
    for name in names.iter().rev().take(RECENT) {
        let Some(message) = record::read::<Message>(&delivered.join(name)).ok().flatten() else { continue };
        if !wants_word(&message) || message.at.as_nanosecond() > notice.stamp {
            continue;
        }
        let short: String = message.id.chars().take(100).collect();
        let (key, text) = (format!("read-{short}"), Kind::Idle.text(agent.id.as_str(), ""));
        match AgentId::new(message.from.as_str()) {
            // A parent hears it anyway.
            Ok(sender) if agent.parent.as_ref() == Some(&sender) && daemon.config().notify.parent => {}
            Ok(sender) if message.from != "user" => {
                let mail = Keyed {
                    key: &key,
                    to: &sender,
                    from: "baton",
                    text: &text,
                    urgency: Urgency::Sequential,
                };
                if let Err(e) = once::send(&daemon.store.state, &mail, now) {
                    daemon.fault("tell a sender that the turn has ended", &e);
                }
            }
            _ => tell_user(daemon, &daemon.config(), &agent.id, Kind::Idle, &key, &text),
        }
    }
}

fn wants_word(message: &Message) -> bool {
    message.notify
}

/// The user's own way to hear of it. At most once for each occasion, and nobody waits for it.
fn tell_user(daemon: &Daemon, config: &Config, agent: &AgentId, kind: Kind, key: &str, text: &str) {
    // Idle agents are no reason to interrupt a person, unless a command of theirs decides.
    let desktop = config.notify.desktop && kind != Kind::Idle;
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
        start(daemon, shell.env("BATON_TEXT", text));
    }
    if desktop {
        let mut notify = if cfg!(target_os = "macos") {
            let mut script = Command::new("osascript");
            // The text is an argument and never a piece of the script.
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
        start(daemon, &mut notify);
    }
}

static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Starts it with nothing of ours in its hands, and ends it if it hangs.
fn start(daemon: &Daemon, command: &mut Command) {
    if RUNNING.fetch_add(1, Ordering::Relaxed) >= MOST {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
        return daemon.fault("notify the user", &"too many notifications are on their way already");
    }
    let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    match started {
        Ok(mut child) => {
            std::thread::spawn(move || {
                let until = Instant::now() + COMMAND;
                while matches!(child.try_wait(), Ok(None)) {
                    if Instant::now() >= until {
                        let _ = child.kill();
                        let _ = child.wait();
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
                RUNNING.fetch_sub(1, Ordering::Relaxed);
            });
        }
        Err(e) => {
            RUNNING.fetch_sub(1, Ordering::Relaxed);
            daemon.fault("notify the user", &e);
        }
    }
}
