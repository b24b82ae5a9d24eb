//! A turn ends: what the agent handed over is sealed, or it is asked once more, or a handoff is sealed for it.

use std::path::Path;

use baton_core::handoff::Kind;
use baton_core::latch::{AtStop, StopContext};
use baton_core::notice;
use baton_core::say;
use baton_core::session::{Request, Session, Turn};
use baton_core::wire::claude::output::HookOutput;
use serde_json::json;

use super::hook::{self, Answer, output};
use super::measure::measure;
use super::mirror;
use super::post::{OwnedSituation, settle_claim, tell};
use super::scene::Scene;
use crate::rotate::{self, When, Wish};
use crate::sealing::{self, Sealing};
use crate::{offer, poke};

pub fn stop(scene: &Scene, session: &Session, hook_active: bool, background: Vec<String>) -> Answer {
    settle_claim(scene, session);
    let measured = measure(scene, session);
    mirror::turn_ended(scene, session);
    let gauge = &measured.gauge;
    let voice = scene.config.context.voice();
    // Whether somebody can give a fresh context matters only where something is to be done.
    let is_quiet = |s: &Session| {
        let context = StopContext { hook_active, rotatable: true };
        s.request.is_none() && s.latches.at_stop(gauge.level, voice, context).1 == AtStop::Nothing
    };
    let rotatable = !is_quiet(session) && scene.is_rotatable(&session.agent);
    let context = StopContext { hook_active, rotatable };
    let total = gauge.reading.as_ref().map(baton_core::reading::Reading::total);

    // One change of the record decides; of two Stops at once only one finds the latch open.
    let (request, then) = hook::update(scene, session, |s| {
        (s.turn, s.turn_since) = (Turn::Idle, Some(scene.now));
        s.background.clone_from(&background);
        if let Some(total) = total {
            s.turn_ends.push(total);
        }
        let request = s.request.take();
        if request.is_some() {
            s.sealing = Some(scene.now);
            s.latches = s.latches.handed_off();
            return (request, AtStop::Nothing);
        }
        let (latches, then) = s.latches.at_stop(gauge.level, voice, context);
        s.latches = latches;
        if matches!(then, AtStop::Seal { .. }) {
            s.sealing = Some(scene.now);
        }
        if then == AtStop::Block {
            s.turn = Turn::Working;
        }
        (None, then)
    })
    .unwrap_or((None, AtStop::Nothing));

    let seals = request.is_some() || matches!(then, AtStop::Seal { .. });
    // What still runs is told by this very event, and named in what is sealed.
    let told = seals.then(|| Session { background, ..session.clone() });
    let session = told.as_ref().unwrap_or(session);
    let mut line = scene.line("stop", session);
    line.detail = json!({ "tokens": gauge.reading.map(|r| r.tokens), "level": gauge.level });
    let answer = match (request, then) {
        (Some(request), _) => {
            line.detail["request"] = json!(request.path);
            hand_over(scene, session, &request, rotatable)
        }
        (None, AtStop::Block) => {
            line.detail["blocked"] = json!(true);
            offer::prepare(Path::new(&session.cwd));
            let situation = OwnedSituation::new(scene, session, gauge);
            HookOutput::new("Stop").block(situation.with(say::stop_reason)).to_json()
        }
        (None, AtStop::Seal { rotate }) if scene.config.handoff.seal => {
            let sealing = Sealing { session, kind: Kind::Auto, narrative: None, for_self: true };
            seal(scene, &sealing, rotate, "a critical end of turn", None)
        }
        (None, AtStop::Nothing | AtStop::Seal { .. }) => None,
    };
    if seals {
        hook::update(scene, session, |s| s.sealing = None);
    }
    scene.log(&line);
    Answer { text: answer, mail: Vec::new() }
}

/// The agent ran `baton handoff` in this turn: seal its words with the facts, ask for a fresh context.
#[cold]
fn hand_over(scene: &Scene, session: &Session, request: &Request, rotatable: bool) -> Option<String> {
    let narrative = match sealing::requested_text(request) {
        Ok(text) => text,
        Err(e) => {
            // Nothing is pending any more and mail flows on: the agent is simply idle.
            hook::update(scene, session, |s| s.latches.handed_off = false);
            scene.fault("read the handoff that was handed over", &e);
            tell_parent(scene, session, &e);
            return output("Stop", None, Some(format!("baton: the handoff was not sealed: {e}")));
        }
    };
    let sealing = Sealing { session, kind: Kind::Manual, narrative: Some(&narrative), for_self: true };
    // A file that is still there is named in the prompt of the fresh context, as the agent knows it.
    let file = request.path.as_deref().filter(|path| Path::new(path).is_file());
    seal(scene, &sealing, rotatable, "the agent", file)
}

#[cold]
fn seal(scene: &Scene, sealing: &Sealing<'_>, rotate: bool, by: &str, file: Option<&str>) -> Option<String> {
    match sealing::seal(&scene.store, &scene.config, sealing, scene.now) {
        Ok(sealed) => {
            let id = sealed.entry.id;
            // A person may be typing the next prompt; what the agent itself asked for comes at once.
            let attended = !sealing.session.headless && sealing.kind == Kind::Auto;
            let when = if attended { When::Idle } else { When::EndOfTurn };
            let wish = Wish { by, when, file };
            if let Err(e) =
                rotate::request_with(&scene.store, &scene.config, sealing.session, &id, &wish, scene.now)
            {
                scene.fault("ask for a fresh context", &e);
            }
            // A client that never says that it is idle leaves it to its user when that is.
            let by_itself = rotate && (when != When::Idle || scene.provider.hooks.tells_idle);
            // On a shared daemon the fresh context is another conversation than the one on the screen.
            let said = if by_itself && sealing.session.shared {
                say::user_sealed_elsewhere(id.as_str(), sealing.session.agent.as_str())
            } else {
                say::user_sealed(id.as_str(), by_itself)
            };
            output("Stop", None, Some(said))
        }
        Err(e) => {
            scene.fault("seal the handoff", &e);
            tell_parent(scene, sealing.session, &e);
            output("Stop", None, Some(format!("baton: the handoff was not sealed: {e}")))
        }
    }
}

/// A parent hears that its child's handoff failed; the child is idle and goes on.
fn tell_parent(scene: &Scene, session: &Session, error: &dyn std::fmt::Display) {
    let parent = scene.store.agents().get(&session.agent).ok().flatten().and_then(|a| a.parent);
    if let Some(parent) = parent {
        tell(scene, &parent, &notice::Kind::HandoffFailed.text(session.agent.as_str(), &error.to_string()));
    }
}

/// The turn ended in an API error. No Stop follows, so this is the end of the turn.
#[cold]
pub fn failure(scene: &Scene, session: &Session, error: &str, message: Option<&str>) {
    let turn = if error == "rate_limit" { Turn::Limit } else { Turn::Idle };
    let said = (turn == Turn::Limit).then(|| message.unwrap_or_default().to_owned());
    hook::update(scene, session, |s| {
        (s.turn, s.turn_since, s.limit) = (turn, Some(scene.now), said);
    });
    mirror::everything(scene, session);
    poke::supervisor(&scene.store.state, &session.agent);
    let mut line = scene.line("stop-failure", session);
    line.detail = json!({ "error": error, "message": message });
    scene.log(&line);
}
