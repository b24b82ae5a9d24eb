//! `baton companion compact`: replaces a compaction that is about to happen with the sealed handoff.
//!
//! This is a complete rotation: sealed, consumed, journaled, latches rearmed, all on disk before the answer. If
//! anything fails, the client compacts, and its PreCompact hook seals.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use baton_core::agent::RotationRequest;
use baton_core::companion::tail::{MessageRow, TailState, keep};
use baton_core::companion::wire::{Compaction as Asked, CompactionAnswer, VERSION};
use baton_core::handoff::pack::chars_for_tokens;
use baton_core::handoff::render::narrative_of;
use baton_core::handoff::{HandoffId, Kind};
use baton_core::ids::{SessionId, unsafe_name};
use baton_core::latch::Rearm;
use baton_core::rotation::{Actuator, Rotation, Step};
use baton_core::say;
use baton_core::session::{Duty, PreCompact, Session};
use baton_core::transcript::tail::Tail;
use serde_json::json;

use crate::config::{CompactionChoice, NarrativeSource};
use crate::handoffs::attach;
use crate::handoffs::frame;
use crate::handoffs::seal::{self, Sealing};
use crate::project::memory::backups::BackupReason;
use crate::rotation::journal;
use crate::sessions::backup;
use crate::sessions::compaction::{self, Witness};
use crate::sessions::context::Context;
use crate::sessions::gauge::{self, Measurement};
use crate::store::Store;
use crate::sys::fs::{self, PRIVATE, Sync};
use crate::sys::paths::Paths;
use crate::sys::process;
use crate::sys::stdin;

/// In a pending tail longer than this, tool results are shortened.
const TAIL_TOKENS: usize = 20_000;
/// How long the session's own model may take for a narrative, and how much of it we use.
const FORK_PATIENCE: Duration = Duration::from_mins(1);
const FORK_CHARS: usize = 6_000;
const FORK: &str = "Your context is about to be replaced by a handoff; the facts of the transcript (files, commands, \
    errors, the user's words) are added to it by rule. Write only what they do not show, in at most 600 words of \
    plain Markdown: what the user wants and why, what you decided and why, what you tried that failed, what is \
    half done, and the very next step. State nothing that you have not seen. Use no tools.";
const PATIENCE: Duration = Duration::from_millis(300);

pub(super) fn run() -> anyhow::Result<()> {
    let bytes = stdin::read_object(Duration::from_secs(1))?;
    let asked: Asked = serde_json::from_slice(&bytes).context("a compaction that cannot be understood")?;
    let answer = answer(&asked)?;
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &answer)?;
    out.write_all(b"\n")?;
    Ok(())
}

fn answer(asked: &Asked) -> anyhow::Result<CompactionAnswer> {
    anyhow::ensure!(asked.v == VERSION, "version {} of the mod's protocol is not known here", asked.v);
    let store = Store::new(&Paths::from_env()?);
    let id = SessionId::new(asked.session.as_str())?;
    let Some(session) = store.sessions().get(&id)? else {
        return Ok(CompactionAnswer::Next { why: "no hook has registered this session".to_owned() });
    };
    let ctx = Context::of(&session).context("there is no home folder")?;
    let measured = gauge::measure(&ctx, &session);
    if let Some(other) = somebody_else(asked, &ctx, &session, &measured) {
        log(&ctx, &session, asked, &measured, &other);
        return Ok(other);
    }
    if let Some(fork) = fork(asked, &ctx, &session) {
        return Ok(fork);
    }
    let (handoff, text) = rotate(asked, &ctx, &session, &measured)?;
    let keep = if asked.trigger == "manual" { Vec::new() } else { tail(&ctx, &handoff, &asked.rows) };
    let answer = CompactionAnswer::Handoff { handoff, text, keep };
    log(&ctx, &session, asked, &measured, &answer);
    Ok(answer)
}

/// Returns the answer if this compaction is not ours to replace.
fn somebody_else(
    asked: &Asked,
    ctx: &Context,
    session: &Session,
    measured: &Measurement,
) -> Option<CompactionAnswer> {
    let manual = asked.trigger == "manual";
    let next = |why: &str| Some(CompactionAnswer::Next { why: why.to_owned() });
    if asked.trigger == "precompute" {
        return Some(CompactionAnswer::Skip {
            why: "baton: nothing to prepare, a handoff is ready at once".to_owned(),
        });
    }
    if !ctx.config.handoff.seal {
        return next("handoff.seal is off");
    }
    if session.leaves(Duty::Seal) {
        return next("another tool's scripts hand over here");
    }
    match ctx.config.compaction {
        CompactionChoice::Client => return next("compaction = \"client\""),
        CompactionChoice::Ask if !manual => return next("compaction = \"ask\" and nobody asked"),
        CompactionChoice::Handoff | CompactionChoice::Ask => {}
    }
    // Our handoff is already the context, the model has not answered since, and the client wants to compact again.
    let ours = session.precompact.as_ref().is_some_and(|p| p.answered);
    if !manual && ours && matches!(measured.tail, Some(Tail::Compacted(_))) {
        return next("the last compaction was ours and nothing has been answered since");
    }
    None
}

/// Asks the session's model for a narrative, once, if the user wants one and the agent wrote nothing in this cycle.
fn fork(asked: &Asked, ctx: &Context, session: &Session) -> Option<CompactionAnswer> {
    let wanted = ctx.config.narrative == NarrativeSource::Fork && asked.fork.is_none();
    if !wanted || own_words(ctx, session).is_some() {
        return None;
    }
    let ms = u64::try_from(FORK_PATIENCE.as_millis()).unwrap_or(u64::MAX);
    Some(CompactionAnswer::Fork { prompt: FORK.to_owned(), ms })
}

/// Seals, consumes and records the handoff. Returns its id and the text of the new context.
fn rotate(
    asked: &Asked,
    ctx: &Context,
    session: &Session,
    measured: &Measurement,
) -> anyhow::Result<(HandoffId, String)> {
    let narrative = narrative(asked, ctx, session);
    let sealing =
        Sealing { session, kind: Kind::Precompact, narrative: narrative.as_deref(), for_self: true };
    let sealed = seal::seal(&ctx.store, &ctx.config, &sealing, ctx.now)?;
    let id = sealed.entry.id;
    let mut handoffs = ctx.store.handoffs(&ctx.config);
    handoffs.patience = PATIENCE;
    let pid = session.process.as_ref().map_or(0, |p| p.pid);
    let loaded = handoffs
        .load_id(&session.channel, &id, &session.id, pid, ctx.now)?
        .map_err(|refusal| anyhow::anyhow!("handoff {id} was just sealed and cannot be loaded: {refusal}"))?;

    let mark = PreCompact {
        window: false,
        at: ctx.now,
        transcript_len: measured.transcript_len,
        handoff: Some(id.clone()),
        answered: true,
    };
    let reading = measured.gauge.reading;
    ctx.store.sessions().update(&session.id, PATIENCE, |s| {
        s.latches = s.latches.rearm(Rearm::Rotation, reading.as_ref());
        s.precompact = Some(mark);
        s.request = None;
    })?;
    journal(asked, ctx, session, &id)?;
    gauge::empty(ctx, session);
    // PreCompact does not fire here, so make the backup now; the handoff that was just loaded settles it.
    backup::back_up(ctx, session, BackupReason::PreCompact);
    backup::settle_carried(ctx, session);
    if asked.trigger == "auto" {
        compaction::observe(ctx, session, measured, Witness::Client);
    }
    let path = sealed.path.display().to_string();
    // No hook's limit applies to the answer.
    let budget = usize::try_from(ctx.config.handoff.answer_budget).unwrap_or(usize::MAX);
    let wish = wish(asked).map(say::user_wants_kept).unwrap_or_default();
    let room = budget.saturating_sub(wish.chars().count());
    let text = wish + &frame::loaded(&ctx.store, &loaded, ctx.now, room, &path);
    let files = attach::files(&ctx.store, &ctx.config, &id);
    attach::note(&ctx.store, &ctx.config, &id, &files);
    let Some(files) = attach::shown(&ctx.store, &id, &files) else { return Ok((id, text)) };
    Ok((id, format!("{text}\n\n{files}")))
}

/// The agent's own words of this cycle, if any.
fn own_words(ctx: &Context, session: &Session) -> Option<String> {
    let requested = session.request.as_ref().and_then(|request| {
        let words = seal::requested_text(&ctx.store, request);
        words.inspect_err(|e| ctx.fault("read the handoff that was handed over", &e)).ok()
    });
    let waiting = || {
        let agent = ctx.store.agents().readable(&session.agent)?;
        let request = agent.rotation.filter(|r| r.session == session.id)?;
        match ctx.store.handoffs(&ctx.config).find(&session.channel, &request.handoff) {
            Ok(sealed) => narrative_of(sealed?.body()).map(str::to_owned),
            Err(e) => {
                ctx.fault("read the agent's own words", &e);
                None
            }
        }
    };
    requested.or_else(waiting)
}

/// The user's words after `/compact`.
fn wish(asked: &Asked) -> Option<&str> {
    asked.instructions.as_deref().map(str::trim).filter(|words| !words.is_empty())
}

/// The text above the facts: the user's instructions for this compaction, and the words of the agent or its model.
fn narrative(asked: &Asked, ctx: &Context, session: &Session) -> Option<String> {
    let forked = || {
        let text: String = asked.fork.as_ref()?.text.trim().chars().take(FORK_CHARS).collect();
        (!text.is_empty()).then_some(text)
    };
    let words = own_words(ctx, session).or_else(forked);
    let wish = wish(asked).map(compaction::wished);
    let parts: Vec<String> = wish.into_iter().chain(words).collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// Records the rotation in the journal and in the agent's record.
fn journal(asked: &Asked, ctx: &Context, session: &Session, id: &HandoffId) -> anyhow::Result<()> {
    let path = ctx.store.handoffs(&ctx.config).archived_path(id).display().to_string();
    let agents = ctx.store.agents();
    let waiting = agents.update(&session.agent, PATIENCE, |agent| {
        agent.last_handoff = Some(id.clone());
        agent.last_handoff_path = Some(path);
        // A rotation that waited has its fresh context now.
        agent.rotation.take_if(|r| r.session == session.id)
    })?;
    if let Some(Some(request)) = waiting {
        ctx.store.published().clear_restart(&request.session)?;
    }
    let Some(agent) = agents.get(&session.agent)? else { return Ok(()) };
    let request = RotationRequest {
        at: ctx.now,
        handoff: id.clone(),
        session: session.id.clone(),
        by: format!("a compaction ({})", asked.trigger),
        path: None,
        wait_for_idle: false,
        at_once: false,
    };
    let me = process::identify(std::process::id()).context("this process was not found in /proc")?;
    let mut rotation = Rotation::new(&agent, &request, Actuator::InPlace, &me, ctx.now);
    (rotation.step, rotation.new) = (Step::Done, agent.process.clone());
    journal::record(&ctx.store, &rotation)?;
    Ok(())
}

/// Selects the rows to hand back. Stores shortened results whole in the state folder.
fn tail(ctx: &Context, handoff: &HandoffId, rows: &[MessageRow]) -> Vec<TailState> {
    let dir = ctx.store.state.join("tails").join(handoff.as_str());
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
            // Hand the tail back unshortened, so that nothing is lost.
            ctx.fault("keep a long tool result", &e);
            return kept
                .into_iter()
                .map(|k| TailState { row: k.row, results: BTreeMap::default() })
                .collect();
        }
    }
    kept
}

fn log(ctx: &Context, session: &Session, asked: &Asked, measured: &Measurement, answer: &CompactionAnswer) {
    let mut line = ctx.line("compaction", session);
    line.detail = json!({
        "trigger": asked.trigger,
        "tokens": measured.gauge.reading.map(|r| r.tokens),
        "answer": match answer {
            CompactionAnswer::Handoff { .. } => "handoff",
            CompactionAnswer::Fork { .. } => "fork",
            CompactionAnswer::Next { .. } => "client",
            CompactionAnswer::Skip { .. } => "skip",
        },
        "handoff": match answer { CompactionAnswer::Handoff { handoff, .. } => Some(handoff), _ => None },
        "why": match answer { CompactionAnswer::Next { why } | CompactionAnswer::Skip { why } => Some(why), _ => None },
        "fork": asked.fork.as_ref().map(|f| json!({ "chars": f.text.chars().count(), "usage": f.usage })),
        "rows": match answer { CompactionAnswer::Handoff { keep, .. } => keep.len(), _ => 0 },
    });
    ctx.log(&line);
}
