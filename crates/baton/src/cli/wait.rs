//! `baton wait NAME…`: waits until agents are idle, blocked, in error, at a limit or ended.

use std::time::{Duration, Instant};

use baton_core::agent::{Agent, AgentState};
use baton_core::halt::{Audience, Halt, LimitEnd};
use baton_core::ids::AgentId;
use baton_core::launch::Launch;
use baton_core::pending::Pending;
use baton_core::plain::{plain, plain_line};
use baton_core::redact::redact;
use baton_core::session::{Session, Turn};
use jiff::Timestamp;
use serde_json::json;

use crate::cli::args::WaitArgs;
use crate::cli::ui::{print, print_json};
use crate::cli::{App, Outcome};
use crate::mail::maildir::Mail;
use crate::providers;
use crate::rotation::{journal, pending};
use crate::sessions::claim;
use crate::store::Store;
use crate::sys::clock::clock;
use crate::sys::process;
use crate::sys::watch::Watch;

/// Look at least this often: a killed client changes no file.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How many characters of an error to show.
const ERROR: usize = 200;

pub(super) fn run(app: &App, args: &WaitArgs) -> anyhow::Result<Outcome> {
    let store = app.store();
    let (mut names, mut in_panes) = (Vec::new(), Vec::new());
    for name in &args.agents {
        let Some(agent) = app.named_agent(name)? else { return Ok(Outcome::Nothing) };
        names.push(agent.id.clone());
        in_panes.extend(agent.pane.is_some().then_some(agent));
    }
    let mut watch = Watch::folders(&[store.agents().folder(), store.sessions().folder()])?;
    let timeout = args.timeout.map(Duration::try_from).transpose()?;
    let until = timeout.map(|t| Instant::now() + t);
    loop {
        // The daemon may be killed while we wait. One that does not start is no reason to try again and again.
        in_panes.retain(|agent| app.keep_attended(agent));
        let mut states = Vec::new();
        for name in &names {
            states.push((name, standing(&store, name, args.done)?));
        }
        let done = |(_, standing): &(_, Standing)| matches!(standing, Standing::Resting(..));
        if states.iter().all(done) || (args.any && states.iter().any(done)) {
            return tell(args, &states);
        }
        let left = until.map(|u| u.saturating_duration_since(Instant::now()));
        if left.is_some_and(|l| l.is_zero()) {
            let busy: Vec<String> = states
                .iter()
                .filter_map(|(name, standing)| match standing {
                    Standing::Busy(None) => Some(name.to_string()),
                    Standing::Busy(Some(why)) => Some(format!("{name} ({why})")),
                    Standing::Resting(..) => None,
                })
                .collect();
            eprintln!("baton: still at work: {}", busy.join(", "));
            return Ok(Outcome::Failed);
        }
        // Whatever changed, read the states again.
        watch.wait(left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY)));
    }
}

/// Whether to keep waiting for an agent.
enum Standing {
    /// It works, starts, rotates or is about to read its mail; with a reason if there is more to say.
    Busy(Option<String>),
    /// Nothing to wait for, with the reason why it needs a person, if it does.
    Resting(AgentState, Option<String>),
}

fn standing(store: &Store, name: &AgentId, until_done: bool) -> anyhow::Result<Standing> {
    let standing = stands(store, name)?;
    let is_done = || -> anyhow::Result<bool> {
        let agent = store.agents().get(name)?;
        let last = agent.and_then(|agent| agent.session.or_else(|| agent.sessions.last().cloned()));
        let session = last.map(|id| store.sessions().get(&id)).transpose()?.flatten();
        Ok(session.is_some_and(|session| session.done.is_some()))
    };
    Ok(match standing {
        Standing::Resting(_, waits) if is_done()? => Standing::Resting(AgentState::Done, waits),
        Standing::Resting(state, waits) if until_done && !state.is_over() => {
            let words = waits.map_or_else(String::new, |waits| format!(", {waits}"));
            Standing::Busy(Some(format!("{}, and has not said that it is done{words}", state.as_str())))
        }
        other => other,
    })
}

fn stands(store: &Store, name: &AgentId) -> anyhow::Result<Standing> {
    // Check mail first: the hook that sees a message has already recorded its turn.
    let unseen = Mail::of(store).unseen(name);
    let Some(agent) = store.agents().get(name)? else {
        return Ok(Standing::Resting(AgentState::Ended, None));
    };
    if !store.is_running(name) || !agent.process.as_ref().is_some_and(process::is_alive) {
        return Ok(Standing::Resting(AgentState::of(&agent, None, false, false), None));
    }
    let session = agent.session.as_ref().map(|id| store.sessions().get(id)).transpose()?.flatten();
    let Some(session) = session else { return Ok(Standing::Busy(None)) };
    let session = pending::caught_up(store, session);
    let presence = store.presence(&agent);
    match session.turn {
        Turn::Blocked => {
            let words = Halt::Blocked(session.blocked_on.as_deref()).words(Audience::Agent);
            return Ok(Standing::Resting(AgentState::Blocked, Some(words)));
        }
        Turn::Limit => return Ok(Standing::Resting(AgentState::Limit, Some(at_limit(&session, unseen)))),
        Turn::Working | Turn::Idle => {}
    }
    if let Some(pending) = session.pending(presence.is_braked()) {
        let text = pending::text(store, &agent, &session, Audience::User);
        return Ok(match pending {
            Pending::NextPrompt => Standing::Resting(AgentState::Idle, text),
            Pending::Due | Pending::EndOfTurn => Standing::Busy(text),
        });
    }
    if session.turn == Turn::Working {
        return Ok(Standing::Busy(None));
    }
    if let Some(rotation) = &agent.rotation {
        let handoff = &rotation.handoff;
        return Ok(if presence.is_braked() {
            let text = "waits for your next prompt in its terminal (it was stopped with Esc)";
            Standing::Resting(AgentState::Idle, Some(format!("handoff {handoff} {text}")))
        } else if presence.actuator().is_none() {
            Standing::Resting(
                AgentState::Idle,
                Some(format!("handoff {handoff} waits for your /clear in its terminal")),
            )
        } else {
            Standing::Busy(Some(format!("handoff {handoff} waits for a fresh context")))
        });
    }
    let loaded = session.claim.as_ref().filter(|_| !claim::has_acted(&session));
    // Whoever gave it a fresh context prompts it, too.
    let is_prompted = presence.actuator().is_some()
        && loaded.is_some_and(|handoff| journal::was_rotated(store, &agent, handoff));
    if session.ended.is_some() || is_prompted || is_about_to_begin(&agent, session.turn_since.is_some()) {
        return Ok(Standing::Busy(None));
    }
    let mail = messages(unseen);
    if mail.is_some() && presence.is_reachable() {
        return Ok(Standing::Busy(mail));
    }
    let mail = mail.map(|messages| format!("{messages} for the next prompt in its terminal"));
    if let Some(handoff) = loaded {
        let text = format!("handoff {handoff} is loaded and waits for the first prompt in its terminal");
        return Ok(Standing::Resting(AgentState::Idle, joined([Some(text), mail])));
    }
    let Some(error) = &session.error else { return Ok(Standing::Resting(AgentState::Idle, mail)) };
    let error = plain_line(&redact(&plain(error)).text, ERROR);
    Ok(Standing::Resting(AgentState::Error, joined([Some(error), mail])))
}

fn joined(reasons: [Option<String>; 2]) -> Option<String> {
    let reasons: Vec<String> = reasons.into_iter().flatten().collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

fn messages(unseen: usize) -> Option<String> {
    match unseen {
        0 => None,
        1 => Some("1 message waits".to_owned()),
        n => Some(format!("{n} messages wait")),
    }
}

/// Until when a usage limit stops it, and how many messages wait.
fn at_limit(session: &Session, unseen: usize) -> String {
    let parked = session.parked();
    let until = parked.as_ref().map(|parked| clock(parked.until, Timestamp::now()));
    let end = parked.as_ref().zip(until.as_deref()).map(|(parked, until)| LimitEnd::of(parked, until));
    let words = Halt::Limit(end).words(Audience::User);
    match messages(unseen) {
        Some(messages) => format!("{words}; {messages}"),
        None => words,
    }
}

/// It was started with a prompt and has not begun to work on it.
fn is_about_to_begin(agent: &Agent, has_worked: bool) -> bool {
    let prompted = providers::find(&agent.provider)
        .is_some_and(|p| Launch::parse(&p.grammar, &agent.launch).chooses_its_beginning(&p.grammar));
    prompted && !has_worked && agent.since_anew().len() <= 1
}

fn tell(args: &WaitArgs, states: &[(&AgentId, Standing)]) -> anyhow::Result<Outcome> {
    let resting = |standing: &Standing| match standing {
        Standing::Resting(state, waits) => Some((*state, waits.clone())),
        Standing::Busy(_) => None,
    };
    if args.json {
        let row = |(name, standing): &(&AgentId, Standing)| {
            let (state, waits) = resting(standing).unzip();
            json!({ "agent": name, "state": state.map(AgentState::as_str), "waits": waits.flatten() })
        };
        print_json(&states.iter().map(row).collect::<Vec<_>>())?;
    } else {
        let line = |(name, standing): &(&AgentId, Standing)| {
            let (state, waits) = resting(standing)?;
            Some(match (state, waits) {
                // These words begin with the state.
                (AgentState::Limit, Some(waits)) => format!("{name}: {waits}\n"),
                (state, Some(waits)) => format!("{name}: {} ({waits})\n", state.as_str()),
                (state, None) => format!("{name}: {}\n", state.as_str()),
            })
        };
        print(&states.iter().filter_map(line).collect::<String>())?;
    }
    let over =
        states.iter().any(|(_, standing)| matches!(standing, Standing::Resting(state, _) if state.is_over()));
    Ok(if over { Outcome::Nothing } else { Outcome::Done })
}
