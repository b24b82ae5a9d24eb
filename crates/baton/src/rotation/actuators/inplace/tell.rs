//! `baton companion tell SOCKET`: handles one event of the mod. Updates the records, and passes the event on to the
//! companion, with a deadline.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use baton_core::companion::wire::{ModLine, ModMessage};
use baton_core::gauge::Report;
use baton_core::ids::SessionId;
use baton_core::reading::{Reading, ReadingSource};
use baton_core::session::{Session, Turn};

use crate::sessions::context::Context;
use crate::sessions::gauge;
use crate::store::companions::Companion;
use crate::store::{Store, record};
use crate::sys::paths::Paths;
use crate::sys::stdin;

/// A companion that needs longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn run(socket: &str) -> anyhow::Result<()> {
    let bytes = stdin::read_object(PATIENCE)?;
    let told: ModMessage = serde_json::from_slice(&bytes).context("an event that cannot be understood")?;
    note(&told);
    if matches!(told, ModMessage::Measure { .. } | ModMessage::Unknown) {
        return Ok(());
    }
    let answered = pass_on(Path::new(socket), &bytes);
    remember(Path::new(socket), answered.is_ok())?;
    if answered.is_err() {
        let text = "baton's companion does not answer: type /clear to continue from a sealed handoff";
        let line = ModLine::Status { text: Some(text.into()) };
        println!("{}", serde_json::to_string(&line)?);
    }
    answered
}

/// Records the event's facts about the session.
fn note(told: &ModMessage) {
    match told {
        ModMessage::TurnEnded { session, .. } => {
            // After Esc no Stop hook fires, and a killed hook recorded nothing.
            if let Some((ctx, session)) = context_of(session)
                && matches!(session.turn, Turn::Working | Turn::Blocked)
            {
                ctx.set_turn(&session, Turn::Idle);
            }
        }
        ModMessage::Measure { session, tokens, window } if *tokens > 0 && *window > 0 => {
            if let Some((ctx, session)) = context_of(session) {
                let (tokens, window, at) = (*tokens, *window, ctx.now);
                let reading = Reading { tokens, output: 0, window, base: 0, at, source: ReadingSource::Mod };
                gauge::take(&ctx, &session, &Report::of(reading));
            }
        }
        _ => {}
    }
}

fn context_of(session: &str) -> Option<(Context, Session)> {
    let store = Store::new(&Paths::from_env().ok()?);
    let session = store.sessions().readable(&SessionId::new(session).ok()?)?;
    Some((Context::of(&session)?, session))
}

fn pass_on(socket: &Path, event: &[u8]) -> anyhow::Result<()> {
    let mut stream = UnixStream::connect(socket).context("the companion is gone")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = event.to_vec();
    line.retain(|b| *b != b'\n');
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).context("the companion does not answer")?;
    anyhow::ensure!(!answer.is_empty(), "the companion hung up");
    Ok(())
}

/// Records whether the companion answered, for everybody who asks about it.
fn remember(socket: &Path, answered: bool) -> anyhow::Result<()> {
    let path = socket.with_extension("json");
    let Some(mut known) = record::read::<Companion>(&path)? else { return Ok(()) };
    let silent = if answered { None } else { Some(jiff::Timestamp::now()) };
    if known.silent.is_some() != silent.is_some() {
        known.silent = silent;
        record::write(&path, &known)?;
    }
    Ok(())
}
