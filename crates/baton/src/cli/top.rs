//! `baton top`: the screen to leave open.

use std::io::IsTerminal as _;

use crate::cli::args::TopArgs;
use crate::cli::{App, Outcome};
use crate::setup::install;
use crate::tui::{self, ScreenOptions};

pub(super) fn run(app: &App, args: &TopArgs) -> anyhow::Result<Outcome> {
    if !is_possible() {
        eprintln!(
            "baton: the screen needs a terminal; `baton agents` lists the agents, with --json for programs"
        );
        return Ok(Outcome::Usage);
    }
    let is_installed = install::is_installed(&app.paths, &app.cwd);
    let options = ScreenOptions { files: args.no_daemon, all: args.all, is_installed };
    tui::run(&app.paths, &app.resolved.config, &options)?;
    Ok(Outcome::Done)
}

/// Whether a person can see and type in this terminal.
pub(super) fn is_possible() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}
