//! `baton panes`: the attendant of all panes, in the foreground. The daemon runs it by itself.

use std::os::unix::net::UnixStream;

use super::{App, Outcome};
use crate::panes;

pub fn run(app: &App) -> anyhow::Result<Outcome> {
    let (stop, told) = UnixStream::pair()?;
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        signal_hook::low_level::pipe::register(signal, told.try_clone()?)?;
    }
    panes::attend(&app.store(), &stop)?;
    Ok(Outcome::Done)
}
