//! A session begins or ends: whose it is, what it is given, what it leaves.

use std::path::Path;

use baton_core::agent::{Agent, Arrival, Whose, whose};
use baton_core::event::{HookEvent, StartSource};
use baton_core::handoff::{Claimant, Kind, Refusal};
use baton_core::ids::{AgentId, ChannelName, SessionId};
use baton_core::latch::Rearm;
use baton_core::say;
use baton_core::session::{Ended, Session, Turn};
use serde_json::json;

use super::hook::{Answer, output};
use super::post::{deliver, framed};
use super::scene::Scene;
use super::{SEAL_PATIENCE, crash, hook, memory, mirror};
use crate::frame;
use crate::memory::backups::Why;
use crate::providers::Caller;
use crate::store::handoffs::Loaded;
use crate::store::published;
use crate::sys::process;

/// SessionStart: recognise the session, load what is meant for it, hand over mail.
#[cold]
pub fn session_start(
    scene: &Scene,
    event: &HookEvent<'_>,
    source: &StartSource<'_>,
    model: Option<&str>,
) -> Option<Answer> {
    let session = register(scene, event, source_name(source), model)?;
    mirror::everything(scene, &session);
    let given = give(scene, &session, source);
    let waiting = memory::waiting(scene, &session, source, given.from.as_ref());
    let mut parts: Vec<String> = given.context.into_iter().collect();
    let mut messages: Vec<String> = given.message.into_iter().collect();
    if let Some((context, message)) = waiting {
        parts.push(context);
        messages.push(message);
    }
    // Nobody acts on what comes with a start; where somebody can type, it comes with the first prompt or as one.
    let mail = if scene.is_typed_to(&session.agent) {
        Vec::new()
    } else {
        deliver(scene, &session, parts.iter().map(|p| p.chars().count()).sum())
    };
    parts.extend(mail.iter().map(framed));

    let mut line = scene.line("session-start", &session);
    line.detail = json!({ "source": source_name(source), "handoff": given.handoff, "mail": mail.len() });
    scene.log(&line);
    let context = (!parts.is_empty()).then(|| parts.join("\n\n"));
    let message = (!messages.is_empty()).then(|| messages.join("\n"));
    Some(Answer { text: output("SessionStart", context, message), mail })
}

fn source_name<'a>(source: &'a StartSource<'_>) -> &'a str {
    match source {
        StartSource::Startup => "startup",
        StartSource::Resume => "resume",
        StartSource::Fork => "fork",
        StartSource::Clear => "clear",
        StartSource::Compact => "compact",
        StartSource::Other(name) => name,
    }
}

/// What a starting session is given.
#[derive(Default)]
struct Given {
    context: Option<String>,
    message: Option<String>,
    handoff: Option<String>,
    /// The session that the handoff carries over.
    from: Option<SessionId>,
}

fn give(scene: &Scene, session: &Session, source: &StartSource<'_>) -> Given {
    let mut handoffs = scene.store.handoffs(&scene.config);
    handoffs.patience = SEAL_PATIENCE;
    let dir = crate::channel::real(&scene.cwd).display().to_string();
    let who = Claimant {
        session: &session.id,
        agent: Some(&session.agent),
        process: session.process.as_ref(),
        working_dir: &dir,
    };
    let answer = match source {
        StartSource::Startup | StartSource::Clear if may_load(scene, session) => {
            let answer = handoffs.claim(&session.channel, &who, scene.now);
            let nothing = matches!(&answer, Ok(Err(refusal)) if !matches!(refusal, Refusal::Claimed(..)));
            // Nothing was handed over; somebody may have died before that.
            if nothing && crash::seal(scene, session) {
                handoffs.claim(&session.channel, &who, scene.now)
            } else {
                answer
            }
        }
        StartSource::Compact => return after_compaction(scene, session),
        StartSource::Resume | StartSource::Fork => {
            // The conversation is already there; what waits is mentioned, not loaded into it.
            return match handoffs.peek(&session.channel, &who, scene.now) {
                Ok(Ok(loaded)) if loaded.entry.session_id != session.id => Given {
                    message: Some(format!(
                        "baton: handoff {id} waits in channel {}; `baton handoffs load {id}` loads it",
                        session.channel,
                        id = loaded.entry.id
                    )),
                    ..Given::default()
                },
                _ => Given::default(),
            };
        }
        _ => return Given::default(),
    };
    match answer {
        Ok(Ok(loaded)) => loaded_into(scene, session, &loaded),
        Ok(Err(refusal)) => Given { message: mention(&refusal), ..Given::default() },
        Err(e) => {
            scene.fault("load the handoff", &e);
            Given {
                message: Some(format!("baton: the handoff could not be loaded: {e}")),
                ..Given::default()
            }
        }
    }
}

/// Headless runs that nobody of ours started do not take the work away from a person's session.
fn may_load(scene: &Scene, session: &Session) -> bool {
    !session.headless || scene.config.handoff.headless || scene.is_rotatable(&session.agent)
}

fn loaded_into(scene: &Scene, session: &Session, loaded: &Loaded) -> Given {
    let id = loaded.entry.id.clone();
    let claimed = hook::update(scene, session, |s| {
        s.claim = Some(id.clone());
        s.latches = s.latches.rearm(Rearm::Rotation, None);
    });
    if claimed.is_none() {
        // Nobody would ever turn this claim into consumption; the words are still the agent's.
        scene.fault("remember the claim", &"the session's record could not be changed");
    }
    finish_rotation(scene, session, &id);
    let message = match loaded.entry.kind {
        Kind::Crash => say::user_loaded_crash(id.as_str(), loaded.entry.session_id.short()),
        _ => say::user_loaded(id.as_str(), session.channel.as_str()),
    };
    Given {
        from: Some(loaded.entry.session_id.clone()),
        context: Some(frame::loaded(
            loaded,
            scene.now,
            frame::budget(&scene.config),
            &archived(scene, loaded),
        )),
        message: Some(message),
        handoff: Some(id.to_string()),
    }
}

fn archived(scene: &Scene, loaded: &Loaded) -> String {
    scene.store.handoffs(&scene.config).archived_path(&loaded.entry.id).display().to_string()
}

/// The fresh context has come: the request is fulfilled, the signal for other people's scripts goes away.
fn finish_rotation(scene: &Scene, session: &Session, id: &baton_core::handoff::HandoffId) {
    let done = scene.store.agents().update(&session.agent, SEAL_PATIENCE, |agent| {
        agent.rotation.take_if(|r| &r.handoff == id).map(|r| r.session)
    });
    match done {
        Ok(Some(Some(old))) => {
            if let Err(e) = scene.store.published().clear_restart(&old) {
                scene.fault("remove the restart signal", &e);
            }
        }
        Ok(_) => {}
        Err(e) => scene.fault("finish the rotation", &e),
    }
}

/// After a compaction only the session's own handoff comes back: the one sealed for it just before, else the
/// last it wrote.
fn after_compaction(scene: &Scene, session: &Session) -> Given {
    if session.precompact.as_ref().is_some_and(|p| p.answered) {
        // The handoff is the context already.
        return Given::default();
    }
    let mut handoffs = scene.store.handoffs(&scene.config);
    handoffs.patience = SEAL_PATIENCE;
    let Some(id) =
        session.precompact.as_ref().and_then(|p| p.handoff.clone()).or_else(|| session.last_handoff.clone())
    else {
        return Given::default();
    };
    let pid = session.process.as_ref().map_or(0, |p| p.pid);
    let loaded = match handoffs.load_id(&session.channel, &id, &session.id, pid, scene.now) {
        Ok(Ok(loaded)) => Some(loaded),
        // Loaded before: shown again, because the compaction has taken it away.
        Ok(Err(_)) => handoffs.find(&session.channel, &id).ok().flatten(),
        Err(e) => {
            scene.fault("load the session's own handoff", &e);
            None
        }
    };
    let Some(loaded) = loaded else { return Given::default() };
    Given {
        context: Some(frame::loaded(
            &loaded,
            scene.now,
            frame::budget(&scene.config),
            &archived(scene, &loaded),
        )),
        from: Some(loaded.entry.session_id.clone()),
        message: Some(say::user_compacted(id.as_str())),
        handoff: Some(id.to_string()),
    }
}

/// What the user is told when nothing was loaded, if it is worth a line.
fn mention(refusal: &Refusal) -> Option<String> {
    match refusal {
        Refusal::Expired(id) => {
            Some(format!("baton: handoff {id} has expired; `baton handoffs load {id}` loads it all the same"))
        }
        Refusal::Claimed(id, by) => {
            Some(format!("baton: handoff {id} is being loaded by session {by}; this one starts fresh"))
        }
        _ => None,
    }
}

/// Finds or makes the records of the session and its agent. `source` is how it began, as far as is known.
#[cold]
pub fn register(scene: &Scene, event: &HookEvent<'_>, source: &str, model: Option<&str>) -> Option<Session> {
    match try_register(scene, event, source, model) {
        Ok(session) => Some(session),
        Err(e) => {
            scene.fault("register the session", &e);
            None
        }
    }
}

fn try_register(
    scene: &Scene,
    event: &HookEvent<'_>,
    source: &str,
    model: Option<&str>,
) -> anyhow::Result<Session> {
    let (sessions, agents) = (scene.store.sessions(), scene.store.agents());
    let caller = (scene.provider.hooks.caller)();
    let client = caller.process.clone().filter(|_| !caller.shared);
    // Several hooks of one session may be the first at once: one makes the record, the others find it.
    let seen = source == "seen";
    let patience = if seen { scene.patience() } else { SEAL_PATIENCE };
    let _lock = sessions.lock(&event.session, patience)?;
    let known = sessions.get(&event.session)?;
    if let Some(known) = known.as_ref().filter(|_| seen) {
        return Ok(known.clone());
    }
    let channel = match scene.channel() {
        Some(channel) => channel.name,
        None => ChannelName::new(baton_core::handoff::manifest::GLOBAL)?,
    };
    let agent = find_agent(scene, &event.session, &caller, known.as_ref(), &channel)?;
    let previous = agent.session.clone();
    agents.update(&agent.id, patience, |a| {
        a.enter(&event.session, client.clone());
        a.channel = channel.clone();
    })?;
    if let Some(client) = &client {
        agents.note_process(client, &agent.id)?;
    }

    let transcript = event.transcript.as_deref().map(str::to_owned);
    let mut session = known.unwrap_or_else(|| {
        let (id, agent) = (event.session.clone(), agent.id.clone());
        Session::new(id, caller.row.unwrap_or(scene.provider.name), agent, channel.clone(), scene.now, source)
    });
    session.agent = agent.id.clone();
    session.channel = channel;
    session.cwd = scene.cwd.display().to_string();
    session.transcript = transcript.or(session.transcript);
    session.model = model.map(str::to_owned).or(session.model);
    session.process = client;
    session.ended = None;
    session.headless = caller.headless;
    session.shared = caller.shared;
    session.compaction = (scene.provider.hooks.compaction)(&scene.paths, &scene.cwd, &caller);
    if source == "clear" {
        session.latches = session.latches.rearm(Rearm::Clear, None);
    }
    sessions.put(&session)?;
    publish(scene, &session, previous.as_ref());
    Ok(session)
}

fn find_agent(
    scene: &Scene,
    session: &SessionId,
    caller: &Caller,
    known: Option<&Session>,
    channel: &ChannelName,
) -> anyhow::Result<Agent> {
    let agents = scene.store.agents();
    // What serves many conversations knows none of them.
    let client = caller.process.as_ref().filter(|_| !caller.shared);
    let by_process = client.and_then(|c| agents.of_process(c));
    let by_env = std::env::var("CLAUDE_SESSION_MANAGER_ID")
        .ok()
        .filter(|_| !caller.shared)
        .and_then(|id| AgentId::new(id).ok())
        .and_then(|id| agents.get(&id).ok().flatten());
    let by_session = known.and_then(|s| agents.get(&s.agent).ok().flatten());
    let arrival = Arrival {
        session,
        client,
        client_parent: client.and_then(|c| process::parent_of(c.pid)),
        by_process: by_process.as_ref(),
        by_env: by_env.as_ref(),
        by_session: by_session.as_ref(),
        alive: &process::is_alive,
    };
    let (known, parent) = match whose(&arrival) {
        Whose::Known(id) => (agents.get(&id)?, None),
        Whose::ChildOf(parent) => (None, Some(parent)),
        Whose::New => (None, None),
    };
    if let Some(agent) = known {
        return Ok(agent);
    }
    let cwd = scene.cwd.display().to_string();
    Ok(agents.create(&project_name(&scene.cwd), |id| {
        let mut agent = Agent::new(
            id,
            caller.row.unwrap_or(scene.provider.name),
            channel.clone(),
            cwd.clone(),
            scene.now,
        );
        agent.parent.clone_from(&parent);
        agent
    })?)
}

/// The project's folder as the beginning of a name.
pub fn project_name(cwd: &Path) -> String {
    let root = cwd.ancestors().find(|dir| dir.join(".git").exists()).unwrap_or(cwd);
    let name = root.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let safe: String = name
        .chars()
        .take(40)
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' })
        .collect();
    let safe = safe.trim_matches(['-', '.']).to_owned();
    if safe.is_empty() { "agent".to_owned() } else { safe }
}

/// For scripts that read them: which session runs now, and no restart signal of one that is over.
fn publish(scene: &Scene, session: &Session, previous: Option<&SessionId>) {
    let published = scene.store.published();
    let transcript = session.transcript.as_deref().unwrap_or_default();
    let mut outcome = published.current_session(&session.id, transcript);
    if let Ok(Some((stale, _))) = published.read_restart() {
        let over = previous == Some(&stale) || {
            let record = scene.store.sessions().get(&stale).ok().flatten();
            record.is_none_or(|s| s.ended.is_some() || !s.process.as_ref().is_some_and(process::is_alive))
        };
        if over {
            outcome = outcome.and(published.clear_restart(&stale));
        }
    }
    if let Err(e) = outcome {
        scene.fault("publish the session", &e);
    }
}

/// SessionEnd: give back what was not used, note the end.
#[cold]
pub fn session_end(scene: &Scene, session: &Session, reason: &str) {
    mirror::ended(scene, session);
    memory::back_up(scene, session, Why::End(reason));
    if let Some(id) = &session.claim {
        let mut handoffs = scene.store.handoffs(&scene.config);
        handoffs.patience = SEAL_PATIENCE;
        if let Err(e) = handoffs.release(&session.channel, id, &session.id, scene.now) {
            scene.fault("give back the handoff", &e);
        }
    }
    hook::update(scene, session, |s| {
        s.claim = None;
        s.turn = Turn::Idle;
        s.ended = Some(Ended { at: scene.now, reason: reason.to_owned() });
    });
    // After /clear the same client goes on as the same agent.
    if reason != "clear" && !scene.provider.hooks.end_is_late {
        let ended = scene.store.agents().update(&session.agent, SEAL_PATIENCE, |agent| {
            if agent.session.as_ref() == Some(&session.id)
                && !agent.supervisor.as_ref().is_some_and(process::is_alive)
            {
                agent.ended = Some(scene.now);
            }
        });
        if let Err(e) = ended {
            scene.fault("note the agent's end", &e);
        }
    }
    let mut outcome = scene.store.published().clear_current_session(&session.id);
    outcome = outcome.and(published::remove_percentage(&session.id));
    if let Err(e) = outcome {
        scene.fault("tidy up after the session", &e);
    }
    let mut line = scene.line("session-end", session);
    line.detail = json!({ "reason": reason });
    scene.log(&line);
}
