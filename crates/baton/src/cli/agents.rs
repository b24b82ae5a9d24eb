//! `baton agents`: all of them.

use super::args::AgentsArgs;
use super::{App, Outcome, status};

pub fn run(app: &App, args: &AgentsArgs) -> anyhow::Result<Outcome> {
    status::show(app, |_, _| true, |_| "No agent has been seen yet.\n".to_owned(), args.json)
}
