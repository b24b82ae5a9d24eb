//! `baton companion compact`: a compaction is about to happen; the sealed handoff becomes the context instead.
//!
//! It is a completed rotation: sealed, consumed, journaled, latches open again, the parent told; all on disk before
//! the answer is given. Whatever fails here leaves the compaction to the client, whose PreCompact hook seals.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use baton_core::agent::RotationRequest;
use baton_core::companion::tail::{Kept, Row, keep};
use baton_core::companion::wire::{Answer, Compaction as Asked, VERSION};
use baton_core::handoff::pack::chars_for_tokens;
use baton_core::handoff::render::narrative_of;
use baton_core::handoff::{HandoffId, Kind};
use baton_core::ids::{SessionId, unsafe_name};
use baton_core::latch::Rearm;
use baton_core::rotation::Step;
use baton_core::say;
use baton_core::session::{PreCompact, Session};
use baton_core::transcript::tail::Tail;
use serde_json::json;

use super::journal;
use crate::config::{Compaction, Narrative};
use crate::frame;
use crate::hot::measure::{self, Measured};
use crate::hot::scene::Scene;
use crate::hot::{compact, input, post};
use crate::paths::Paths;
use crate::sealing::{self, Sealing};
use crate::store::{Store, rotations};
use crate::sys::fs::{self, PRIVATE, Sync};
use crate::sys::process;

/// Characters of the answer. No hook's limit applies to it.
const BUDGET: usize = 16_000;
/// A longer pending tail has its tool results shortened.
const TAIL_TOKENS: usize = 20_000;
/// How long the session's own model may take for a narrative, and how much of it is used.
const FORK_PATIENCE: Duration = Duration::from_mins(1);
const FORK_CHARS: usize = 6_000;
const FORK: &str = "Your context is about to be replaced by a handoff; the facts of the transcript (files, commands, \
    errors, the user's words) are added to it by rule. Write only what they do not show, in at most 600 words of \
    plain Markdown: what the user wants and why, what you decided and why, what you tried that failed, what is \
    half done, and the very next step. State nothing that you have not seen. Use no tools.";
const PATIENCE: Duration = Duration::from_millis(300);

pub fn run() -> anyhow::Result<()> {
    let bytes = input::read_object(Duration::from_secs(1))?;
    let asked: Asked = serde_json::from_slice(&bytes).context("a compaction that cannot be understood")?;
    let answer = answer(&asked)?;
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &answer)?;
    out.write_all(b"\n")?;
    Ok(())
}

fn answer(asked: &Asked) -> anyhow::Result<Answer> {
    anyhow::ensure!(asked.v == VERSION, "version {} of the mod's protocol is not known here", asked.v);
    let store = Store::new(&Paths::from_env()?);
    let id = SessionId::new(asked.session.as_str())?;
    let Some(session) = store.sessions().get(&id)? else {
        return Ok(Answer::Next { why: "no hook has registered this session".to_owned() });
    };
    let scene = Scene::at(&session.cwd).context("there is no home folder")?;
    let measured = measure::measure(&scene, &session);
    if let Some(other) = somebody_else(asked, &scene, &session, &measured) {
        log(&scene, &session, asked, &measured, &other);
        return Ok(other);
    }
    if let Some(fork) = fork(asked, &scene, &session) {
        return Ok(fork);
    }
    let (handoff, text) = rotate(asked, &scene, &session, &measured)?;
    let keep = if asked.trigger == "manual" { Vec::new() } else { tail(&scene, &handoff, &asked.rows) };
    let answer = Answer::Handoff { handoff, text, keep };
    log(&scene, &session, asked, &measured, &answer);
    Ok(answer)
}

/// Why this compaction is not ours to answer, if it is not.
fn somebody_else(asked: &Asked, scene: &Scene, session: &Session, measured: &Measured) -> Option<Answer> {
    let manual = asked.trigger == "manual";
    let next = |why: &str| Some(Answer::Next { why: why.to_owned() });
    if asked.trigger == "precompute" {
        return Some(Answer::Skip {
            why: "baton: nothing to prepare, a handoff is ready at once".to_owned(),
        });
    }
    if !scene.config.handoff.seal {
        return next("handoff.seal is off");
    }
    match scene.config.compaction {
        Compaction::Client => return next("compaction = \"client\""),
        Compaction::Ask if !manual => return next("compaction = \"ask\" and nobody asked"),
        Compaction::Handoff | Compaction::Ask => {}
    }
    // Our answer was the context, the model has not answered since, and the client wants to compact again.
    let ours = session.precompact.as_ref().is_some_and(|p| p.answered);
    if !manual && ours && matches!(measured.tail, Some(Tail::Compacted(_))) {
        return next("the last compaction was ours and nothing has been answered since");
    }
    None
}

/// Where the agent has written nothing in this cycle and the user wants its words, its model is asked once.
fn fork(asked: &Asked, scene: &Scene, session: &Session) -> Option<Answer> {
    let wanted = scene.config.narrative == Narrative::Fork && asked.fork.is_none();
    if !wanted || own_words(scene, session).is_some() {
        return None;
    }
    let ms = u64::try_from(FORK_PATIENCE.as_millis()).unwrap_or(u64::MAX);
    Some(Answer::Fork { prompt: FORK.to_owned(), ms })
}

/// Seals, consumes and records; the text of the new context.
fn rotate(
    asked: &Asked,
    scene: &Scene,
    session: &Session,
    measured: &Measured,
) -> anyhow::Result<(HandoffId, String)> {
    let narrative = narrative(asked, scene, session);
    let sealing =
        Sealing { session, kind: Kind::Precompact, narrative: narrative.as_deref(), for_self: true };
    let sealed = sealing::seal(&scene.store, &scene.config, &sealing, scene.now)?;
    let id = sealed.entry.id;
    let mut handoffs = scene.store.handoffs(&scene.config);
    handoffs.patience = PATIENCE;
    let pid = session.process.as_ref().map_or(0, |p| p.pid);
    let loaded = handoffs
        .load_id(&session.channel, &id, &session.id, pid, scene.now)?
        .map_err(|refusal| anyhow::anyhow!("handoff {id} was just sealed and cannot be loaded: {refusal}"))?;

    let mark = PreCompact {
        at: scene.now,
        transcript_len: measured.transcript_len,
        handoff: Some(id.clone()),
        answered: true,
    };
    let reading = measured.gauge.reading;
    scene.store.sessions().update(&session.id, PATIENCE, |s| {
        s.latches = s.latches.rearm(Rearm::Rotation, reading.as_ref());
        s.precompact = Some(mark);
        s.request = None;
    })?;
    journal(asked, scene, session, &id)?;
    if asked.trigger == "auto" {
        compact::observe(scene, session, measured);
    }
    let path = sealed.path.display().to_string();
    Ok((id, frame::loaded(&loaded, scene.now, BUDGET, &path)))
}

/// The agent's words of this cycle, if it wrote some.
fn own_words(scene: &Scene, session: &Session) -> Option<String> {
    let requested = session.request.as_ref().and_then(|r| sealing::requested_text(r).ok());
    let waiting = || {
        let agent = scene.store.agents().get(&session.agent).ok()??;
        let request = agent.rotation.filter(|r| r.session == session.id)?;
        let sealed = scene.store.handoffs(&scene.config).find(&session.channel, &request.handoff).ok()??;
        narrative_of(sealed.body()).map(str::to_owned)
    };
    requested.or_else(waiting)
}

/// What goes above the facts: what the user asked of this compaction, and the agent's words or its model's.
fn narrative(asked: &Asked, scene: &Scene, session: &Session) -> Option<String> {
    let forked = || {
        let text: String = asked.fork.as_ref()?.text.trim().chars().take(FORK_CHARS).collect();
        (!text.is_empty()).then_some(text)
    };
    let words = own_words(scene, session).or_else(forked);
    let wish = asked.instructions.as_deref().map(str::trim).filter(|i| !i.is_empty());
    let wish = wish.map(|i| format!("## What the user asked to keep\n\n{i}"));
    let parts: Vec<String> = wish.into_iter().chain(words).collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// The rotation in the journal, the agent's record and its parent's mail.
fn journal(asked: &Asked, scene: &Scene, session: &Session, id: &HandoffId) -> anyhow::Result<()> {
    let path = scene.store.handoffs(&scene.config).archived_path(id).display().to_string();
    let agents = scene.store.agents();
    let waiting = agents.update(&session.agent, PATIENCE, |agent| {
        agent.last_handoff = Some(id.clone());
        agent.last_handoff_path = Some(path);
        // A rotation that waited for a fresh context has it now.
        agent.rotation.take_if(|r| r.session == session.id)
    })?;
    if let Some(Some(request)) = waiting {
        scene.store.published().clear_restart(&request.session)?;
    }
    let Some(agent) = agents.get(&session.agent)? else { return Ok(()) };
    let request = RotationRequest {
        at: scene.now,
        handoff: id.clone(),
        session: session.id.clone(),
        by: format!("a compaction ({})", asked.trigger),
        path: None,
        wait_for_idle: false,
        at_once: false,
    };
    let me = process::identify(std::process::id()).context("this process is not to be found in /proc")?;
    let mut rotation = journal::rotation(&agent, &request, &me, scene.now);
    (rotation.step, rotation.new) = (Step::Done, agent.process.clone());
    rotations::put(&scene.store.state, &rotation)?;
    if let Some(parent) = &agent.parent {
        post::tell(scene, parent, &say::parent_continued(agent.id.as_str(), id.as_str()));
    }
    Ok(())
}

/// The rows to hand back; what is shortened is kept whole beside the handoff's state.
fn tail(scene: &Scene, handoff: &HandoffId, rows: &[Row]) -> Vec<Kept> {
    let dir = scene.store.state.join("tails").join(handoff.as_str());
    let file = |id: &str| -> PathBuf {
        dir.join(if unsafe_name(id).is_none() { format!("{id}.txt") } else { "result.txt".to_owned() })
    };
    let kept = keep(rows, chars_for_tokens(TAIL_TOKENS), |id| file(id).display().to_string());
    let shortened = kept.iter().flat_map(|k| k.results.keys());
    for id in shortened {
        let whole = rows.iter().flat_map(|r| &r.results).rfind(|r| &r.id == id);
        let Some(whole) = whole else { continue };
        let stored = fs::private_dir(&dir)
            .and_then(|()| fs::replace(&file(id), whole.text.as_bytes(), PRIVATE, Sync::Yes));
        if let Err(e) = stored {
            // Nothing may be lost: the client gets the tail as it is.
            scene.fault("keep a long tool result", &e);
            return kept.into_iter().map(|k| Kept { row: k.row, results: BTreeMap::default() }).collect();
        }
    }
    kept
}

fn log(scene: &Scene, session: &Session, asked: &Asked, measured: &Measured, answer: &Answer) {
    let mut line = scene.line("compaction", session);
    line.detail = json!({
        "trigger": asked.trigger,
        "tokens": measured.gauge.reading.map(|r| r.tokens),
        "answer": match answer {
            Answer::Handoff { .. } => "handoff",
            Answer::Fork { .. } => "fork",
            Answer::Next { .. } => "client",
            Answer::Skip { .. } => "skip",
        },
        "handoff": match answer { Answer::Handoff { handoff, .. } => Some(handoff), _ => None },
        "why": match answer { Answer::Next { why } | Answer::Skip { why } => Some(why), _ => None },
        "fork": asked.fork.as_ref().map(|f| json!({ "chars": f.text.chars().count(), "usage": f.usage })),
        "rows": match answer { Answer::Handoff { keep, .. } => keep.len(), _ => 0 },
    });
    scene.log(&line);
}
