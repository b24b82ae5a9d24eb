//! `baton panes`: attends all panes in the foreground. The daemon does this by itself.

use std::os::unix::net::UnixStream;

use crate::cli::{App, Outcome};
use crate::rotation::actuators::tmux;

pub(super) fn run(app: &App) -> anyhow::Result<Outcome> {
    let (stop, told) = UnixStream::pair()?;
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        signal_hook::low_level::pipe::register(signal, told.try_clone()?)?;
    }
    tmux::attend(&app.store(), &stop)?;
    Ok(Outcome::Done)
}
