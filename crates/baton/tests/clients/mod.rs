//! baton with the real clients on a scripted model. Each test asserts on what the model was sent and on the files
//! left behind. `scripts/test-clients` installs the clients and runs these; without one they say so.

mod across;
mod claude;
mod claude_payloads;
mod codex;
mod codex_daemon;
mod codex_payloads;
mod codex_tmux;
mod companion;
mod companion_lives;
mod companion_mail;
mod companion_rotation;
mod memory;
mod sessions;
mod tmux;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use baton_testkit::clients::{Launch, Place};

use crate::BATON;

const LONG: Duration = Duration::from_mins(1);

/// A home where `baton` is on the PATH of everything the client starts.
fn place() -> Result<Place> {
    let place = Place::new()?;
    place.link("baton", Path::new(BATON))?;
    Ok(place)
}

/// `baton run claude` with what `launch` would have given to the client.
fn under_run(launch: Launch) -> Launch {
    launch.under(BATON, &["run", "claude"])
}

/// `baton` itself, in the same home.
fn baton(place: &Place, args: &[&str]) -> Result<String> {
    let finished = place.launch(BATON).args(args).run(LONG)?;
    anyhow::ensure!(finished.code == Some(0), "baton {}: {finished:?}", args.join(" "));
    Ok(finished.stdout)
}
