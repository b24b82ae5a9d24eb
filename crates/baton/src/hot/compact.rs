//! Compaction comes: seal what the transcript proves before it is gone, and learn where it came.

use baton_core::event::Trigger;
use baton_core::handoff::Kind;
use baton_core::latch::Rearm;
use baton_core::say;
use baton_core::session::{PreCompact, Session, Turn};
use serde_json::json;

use super::measure::measure;
use super::post::tell;
use super::scene::Scene;
use super::{hook, memory, mirror};
use crate::memory::backups::Why;
use crate::rotate::{self, When};
use crate::sealing::{self, Sealing};
use crate::store::compaction;
use crate::sys::process;

/// PreCompact. Prints nothing: the client would take it for instructions to its summary.
#[cold]
pub fn pre(
    scene: &Scene,
    session: &Session,
    trigger: &Trigger<'_>,
    instructions: Option<&str>,
) -> Option<hook::Answer> {
    let measured = measure(scene, session);
    mirror::everything(scene, session);
    // A rotation that is sealed and has a live actuator makes compaction pointless; never hold it back otherwise.
    if *trigger == Trigger::Auto
        && scene.config.handoff.block_compaction
        && !scene.provider.hooks.veto_ends_turn
        && rotation_is_certain(scene, session)
    {
        let reason = "baton: a fresh context with the sealed handoff follows at the end of this turn";
        return Some(hook::Answer::say((scene.provider.hooks.veto)(reason)));
    }
    if *trigger == Trigger::Auto && scene.config.handoff.block_compaction && rotates_instead(scene, session) {
        return Some(hook::Answer::say((scene.provider.hooks.veto)(
            "baton: instead of a compaction, a fresh context with a sealed handoff follows at once",
        )));
    }
    // One compaction fires this two to four times; the transcript does not grow in between.
    let repeated = session.precompact.as_ref().is_some_and(|p| p.transcript_len == measured.transcript_len);
    if repeated {
        return None;
    }
    let mut handoff = None;
    if scene.config.handoff.seal {
        let sealing = Sealing { session, kind: Kind::Precompact, narrative: instructions, for_self: true };
        match sealing::seal(&scene.store, &scene.config, &sealing, scene.now) {
            Ok(sealed) => handoff = Some(sealed.entry.id),
            Err(e) => scene.fault("seal before compaction", &e),
        }
    }
    memory::back_up(scene, session, Why::PreCompact);
    let mark = PreCompact {
        at: scene.now,
        transcript_len: measured.transcript_len,
        handoff: handoff.clone(),
        answered: false,
    };
    hook::update(scene, session, |s| {
        s.latches = s.latches.rearm(Rearm::PreCompact, measured.gauge.reading.as_ref());
        s.precompact = Some(mark);
        s.request = None;
    });
    if *trigger == Trigger::Auto {
        observe(scene, session, &measured);
    }
    if let Some(parent) = parent(scene, session) {
        let what = handoff.as_ref().map_or("none", |id| id.as_str());
        tell(scene, &parent, &say::parent_compacted(session.agent.as_str(), what));
    }
    let mut line = scene.line("pre-compact", session);
    line.detail = json!({
        "trigger": match trigger { Trigger::Auto => "auto", Trigger::Manual => "manual", Trigger::Other(t) => t },
        "tokens": measured.gauge.reading.map(|r| r.tokens),
        "handoff": handoff,
    });
    scene.log(&line);
    None
}

/// The reading at an automatic compaction is where it came.
pub(crate) fn observe(scene: &Scene, session: &Session, measured: &super::measure::Measured) {
    let Some(reading) = measured.gauge.reading else { return };
    let model = measured.gauge.model.as_deref().or(session.model.as_deref());
    let noted =
        compaction::record(&scene.store.state, model, reading.window, &session.compaction, reading.total());
    if let Err(e) = noted {
        scene.fault("remember the compaction point", &e);
    }
}

fn rotation_is_certain(scene: &Scene, session: &Session) -> bool {
    let agent = scene.store.agents().get(&session.agent).ok().flatten();
    agent.is_some_and(|a| a.rotation.is_some()) && scene.is_rotatable(&session.agent)
}

/// Where holding back a compaction aborts the turn: seals what there is now and asks for the fresh context at once.
/// Only in the middle of a turn, whose prompt the transcript holds; before one, the prompt would be lost with it.
fn rotates_instead(scene: &Scene, session: &Session) -> bool {
    if !scene.provider.hooks.veto_ends_turn || session.turn != Turn::Working {
        return false;
    }
    let agent = scene.store.agents().get(&session.agent).ok().flatten();
    if !agent.is_some_and(|a| a.supervisor.as_ref().is_some_and(process::is_alive)) {
        return false;
    }
    let sealing = Sealing { session, kind: Kind::Auto, narrative: None, for_self: true };
    let asked = sealing::seal(&scene.store, &scene.config, &sealing, scene.now).and_then(|sealed| {
        let (id, by) = (sealed.entry.id, "a compaction held back");
        Ok(rotate::request(&scene.store, &scene.config, session, &id, by, When::AtOnce, scene.now)?)
    });
    if let Err(e) = &asked {
        scene.fault("rotate instead of a compaction", e);
    }
    asked.is_ok()
}

fn parent(scene: &Scene, session: &Session) -> Option<baton_core::ids::AgentId> {
    scene.store.agents().get(&session.agent).ok().flatten()?.parent
}

/// PostCompact: nothing to do but to note it; SessionStart(compact) came before it.
#[cold]
pub fn post(scene: &Scene, session: &Session) {
    scene.log(&scene.line("post-compact", session));
}
