//! `baton send AGENT TEXT`: queues a message for an agent.

use std::io::Read as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use baton_core::agent::Agent;
use baton_core::fleet::MachineName;
use baton_core::fleet::address::Resolved;
use baton_core::halt::Audience;
use baton_core::ids::AgentId;
use baton_core::message::{self, MAX_TEXT, Message, ReaderState, Urgency};
use baton_core::notice;
use baton_core::plain::plain;
use baton_core::session::{Session, Turn};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::cli::args::SendArgs;
use crate::cli::ui::{local, print, print_json, print_raw};
use crate::cli::{App, Outcome};
use crate::fleet::post;
use crate::mail;
use crate::mail::maildir::{Draft, Mail};
use crate::mail::user;
use crate::rotation::pending;
use crate::sessions::caller::Caller;
use crate::store::Store;
use crate::sys::watch::Watch;

/// How long the sender waits to learn whether an idle agent was woken. The message is queued in any case.
const TIME_TO_WAKE: Duration = Duration::from_secs(3);

pub(super) fn run(app: &App, args: &SendArgs) -> anyhow::Result<Outcome> {
    let store = app.store();
    let to = &args.to.agent;
    let is_user = *to == user::id();
    let is_here = || -> anyhow::Result<bool> {
        let agents = store.agents();
        Ok(is_user || agents.get(to)?.is_some() || agents.renamed(to)?.is_some())
    };
    let machine = match post::whom(&store.state, &args.to, is_here()?)? {
        Resolved::There(machine) => Some(machine),
        Resolved::Several(machines) => {
            let names: Vec<String> = machines.iter().map(|machine| format!("{to}@{machine}")).collect();
            eprintln!("baton: several machines have an agent {to}; write to one of {}", names.join(", "));
            return Ok(Outcome::Failed);
        }
        Resolved::Here | Resolved::Nobody => None,
    };
    let agent = if is_user || machine.is_some() { None } else { app.named_agent(to)? };
    if agent.is_none() && !is_user && machine.is_none() {
        return Ok(Outcome::Nothing);
    }
    let text = text_of(&args.text)?;
    let urgency = match (args.urgent, args.important) {
        (true, _) => Urgency::Urgent,
        (false, true) => Urgency::Important,
        (false, false) => Urgency::Sequential,
    };
    let caller = app.caller();
    let from = caller.name();
    if let Some(other) = args.from.as_ref().filter(|other| other.as_str() != from) {
        eprintln!("baton: this command was run by {from}, which cannot send in the name of {other}");
        return Ok(Outcome::Failed);
    }
    let now = Timestamp::now();
    let expires = args.expires.map(|time| now.checked_add(time)).transpose()?;
    let draft = Draft { urgency, expires, notify: args.notify, ..Draft::new(from, &text) };
    if let Some(machine) = &machine {
        return send_there(app, args, machine, &draft);
    }
    if args.ask {
        return ask(app, args, &caller, &text);
    }
    let Some(agent) = agent else {
        let sent = Mail::of(&store).post(to, &draft, now)?;
        if args.json {
            print_json(&sent)?;
        } else {
            print("It is in the user's inbox; `baton inbox` shows it.\n")?;
        }
        return Ok(Outcome::Done);
    };
    app.keep_attended(&agent);
    let sent = mail::send(&store, &agent, &draft, None, now)?;
    if args.notify {
        // The daemon watches for the end of the turn.
        crate::daemon::client::ensure(&app.paths, &[])?;
    }
    if args.json {
        print_json(
            &json!({ "id": sent.id, "from": from, "to": agent.id, "at": now, "urgency": urgency, "text": text }),
        )?;
    } else {
        let session = agent.session.as_ref().map(|id| store.sessions().get(id)).transpose()?.flatten();
        let session = session.map(|session| pending::caught_up(&store, session));
        let when = if sent.wake.succeeds_within(TIME_TO_WAKE) {
            "it was idle and has been woken".to_owned()
        } else {
            when_read(&store, &agent, session.as_ref(), urgency)
        };
        print(&format!("Queued for {}; {when}.\n", agent.id))?;
    }
    Ok(Outcome::Done)
}

/// Sends to an agent of another machine.
fn send_there(
    app: &App,
    args: &SendArgs,
    machine: &MachineName,
    draft: &Draft<'_>,
) -> anyhow::Result<Outcome> {
    if args.ask || args.notify {
        eprintln!(
            "baton: --ask and --notify work for agents of this machine; `baton outbox` shows when it was seen"
        );
        return Ok(Outcome::Usage);
    }
    let (state, to) = (&app.paths.state, &args.to.agent);
    let sent = post::send(state, to, machine, draft, Timestamp::now())?;
    // It is the daemon that sends.
    let daemon = crate::daemon::client::ensure(&app.paths, &[]);
    if args.json {
        return print_json(&json!({
            "id": sent.parcel.name, "from": draft.from, "to": format!("{to}@{machine}"), "at": sent.parcel.at,
            "urgency": draft.urgency, "text": draft.text, "stage": "queued",
        }))
        .map(|()| Outcome::Done);
    }
    let when = match (daemon, sent.away, sent.is_awake, sent.is_known) {
        (Err(e), ..) => format!("it waits for a daemon that can send it: {e:#}"),
        (_, Some(since), ..) => format!("it waits for the database, away since {}", local(since)),
        (_, _, Some(true), Some(false)) => format!("{machine} is awake and has not shown an agent {to} yet"),
        (_, _, Some(true), _) => format!("{machine} is awake"),
        (_, _, Some(false), _) => format!("{machine} is asleep and gets it when it wakes"),
        (_, _, None, _) => "the database has not been reached yet".to_owned(),
    };
    print(&format!("Queued for {to}@{machine}; {when}. `baton outbox` shows its progress.\n"))?;
    Ok(Outcome::Done)
}

/// The text of a message, or standard input for `-`.
pub(super) fn text_of(words: &[String]) -> anyhow::Result<String> {
    let [dash] = words else { return Ok(words.join(" ")) };
    if dash != "-" {
        return Ok(dash.clone());
    }
    let mut text = String::new();
    std::io::stdin()
        .take(MAX_TEXT as u64 + 1)
        .read_to_string(&mut text)
        .context("could not read the message from standard input")?;
    Ok(text)
}

/// Leaves a question in the user's inbox and waits for the answer. Meanwhile the agent shows as waiting for a person.
/// An answer that comes after we stopped waiting is an ordinary message.
fn ask(app: &App, args: &SendArgs, caller: &Caller, text: &str) -> anyhow::Result<Outcome> {
    let (Caller::Agent(agent), true) = (caller, args.to.agent == user::id()) else {
        eprintln!("baton: --ask is for an agent that asks its user: baton send user --ask \"…\"");
        return Ok(Outcome::Usage);
    };
    let (store, now) = (app.store(), Timestamp::now());
    let mail = Mail::of(&store);
    let asked = mail.post(&args.to.agent, &Draft { ask: true, ..Draft::new(agent.as_str(), text) }, now)?;
    let session = store.agents().get(agent)?.and_then(|agent| agent.session);
    let turn = |turn: Turn, about: Option<String>| {
        let Some(id) = &session else { return Ok(None) };
        store.sessions().update(id, Duration::from_secs(1), |s| {
            // Reset only our own state: the agent may meanwhile be at another dialog.
            if turn == Turn::Blocked || s.blocked_on.as_deref() == Some(&notice::beginning(text)) {
                (s.turn, s.turn_since, s.blocked_on) = (turn, Some(Timestamp::now()), about);
            }
        })
    };
    turn(Turn::Blocked, Some(notice::beginning(text)))?;
    let answer = wait_for_answer(&store, &mail, agent, &asked.id, args.timeout);
    turn(Turn::Working, None)?;
    let Some(answer) = answer? else {
        eprintln!("baton: no answer yet; it comes as a message when there is one");
        return Ok(Outcome::Failed);
    };
    if args.json {
        print_json(&answer)?;
    } else {
        print_raw(&format!("{}\n", plain(&answer.text)))?;
    }
    Ok(Outcome::Done)
}

/// Waits for the message that answers `asked`, and marks it as seen.
fn wait_for_answer(
    store: &Store,
    mail: &Mail,
    agent: &AgentId,
    asked: &str,
    timeout: Option<jiff::SignedDuration>,
) -> anyhow::Result<Option<Message>> {
    const LOOK_EVERY: Duration = Duration::from_secs(2);
    let until = timeout.map(Duration::try_from).transpose()?.map(|time| Instant::now() + time);
    let queue = store.state.join("mail").join(agent.as_str()).join("new");
    crate::sys::fs::private_dir(&queue)?;
    let mut watch = Watch::folders(&[&queue])?;
    loop {
        let answers = |message: &Message| message.reply_to.as_deref() == Some(asked);
        // A hook may have been faster; it is still the answer.
        if let Some((message, _)) = mail.list(agent).into_iter().find(|(message, _)| answers(message)) {
            mail.seen(agent, &message.id, "`baton send --ask` printed it", Timestamp::now());
            return Ok(Some(message));
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(None);
        }
        watch.wait(left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY)));
    }
}

/// Tells the sender when the agent reads a message queued just now.
fn when_read(store: &Store, agent: &Agent, session: Option<&Session>, urgency: Urgency) -> String {
    let presence = store.presence(agent);
    let reader = ReaderState {
        there: presence.is_there(),
        turn: session.map(|s| s.turn).unwrap_or_default(),
        pending: session.and_then(|s| s.pending(presence.is_braked())),
        reachable: presence.is_reachable(),
        braked: presence.is_braked(),
    };
    let pending = session.and_then(|s| pending::text(store, agent, s, Audience::User));
    let limit = session
        .and_then(Session::parked)
        .map(|p| p.until.to_zoned(TimeZone::system()).strftime("%H:%M").to_string());
    message::when_read(&reader, urgency, pending.as_deref(), limit.as_deref())
}
