//! `baton companion tell SOCKET`: one event of the mod. What belongs into the records is written here; what the
//! companion must decide upon is passed on to it, with a deadline of our own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use baton_core::companion::wire::{Line, Told};
use baton_core::ids::SessionId;
use baton_core::reading::{Reading, Source, newest};
use baton_core::session::{Session, Turn};

use super::presence::Record;
use crate::hot::scene::Scene;
use crate::hot::{hook, input, measure};
use crate::paths::Paths;
use crate::store::{Store, record};

/// A companion that needs longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(1);

pub fn run(socket: &str) -> anyhow::Result<()> {
    let bytes = input::read_object(PATIENCE)?;
    let told: Told = serde_json::from_slice(&bytes).context("an event that cannot be understood")?;
    note(&told);
    if matches!(told, Told::Measure { .. } | Told::Unknown) {
        return Ok(());
    }
    let answered = pass_on(Path::new(socket), &bytes);
    remember(Path::new(socket), answered.is_ok())?;
    if answered.is_err() {
        let text = "baton's companion does not answer: type /clear to continue from a sealed handoff";
        let line = Line::Status { text: Some(text.into()) };
        println!("{}", serde_json::to_string(&line)?);
    }
    answered
}

/// What the event says about the session.
fn note(told: &Told) {
    match told {
        Told::TurnEnded { session, aborted: true } => {
            // After Esc no Stop hook fires.
            if let Some((scene, session)) = scene(session) {
                hook::turn(&scene, &session, Turn::Idle);
            }
        }
        Told::Measure { session, tokens, window } => {
            if let Some((scene, session)) = scene(session) {
                gauge(&scene, &session, *tokens, *window);
            }
        }
        _ => {}
    }
}

fn scene(session: &str) -> Option<(Scene, Session)> {
    let store = Store::new(&Paths::from_env().ok()?);
    let session = store.sessions().get(&SessionId::new(session).ok()?).ok()??;
    Some((Scene::at(&session.cwd)?, session))
}

/// Joins the client's own count with the readings of hooks and status line.
fn gauge(scene: &Scene, session: &Session, tokens: u64, window: u64) {
    let open = scene.store.sessions().open_gauge(&session.id);
    let mut gauge = open.before.clone();
    let reading = Reading { tokens, output: 0, window, base: 0, at: scene.now, source: Source::Mod };
    // The same figures with the answer's own length know more than ours.
    let known = open.before.reading.is_some_and(|r| r.tokens == tokens && r.window == window);
    if window == 0 || tokens == 0 || known {
        return;
    }
    gauge.reading = newest(gauge.reading, Some(reading));
    gauge.window = Some(window);
    gauge.level = measure::level(scene, session, &gauge, None);
    if let Err(e) = open.keep(&gauge) {
        scene.fault("store a reading", &e);
    }
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

/// Whether the companion answered, for everybody who asks about it.
fn remember(socket: &Path, answered: bool) -> anyhow::Result<()> {
    let path = socket.with_extension("json");
    let Some(mut known) = record::read::<Record>(&path)? else { return Ok(()) };
    let silent = if answered { None } else { Some(jiff::Timestamp::now()) };
    if known.silent.is_some() != silent.is_some() {
        known.silent = silent;
        record::write(&path, &known)?;
    }
    Ok(())
}
