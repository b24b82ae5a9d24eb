//! `baton sessions`: past conversations of every client, found, read and resumed.

mod fleet;
mod hindrance;
mod list;
mod pick;
mod resume;
mod search;
mod show;
mod tree;

use std::io::IsTerminal as _;

use baton_core::handoff::manifest::GLOBAL;
use baton_core::plain::plain_line;

use crate::cli::args::{ConversationScope, Sessions as Verb, SessionsArgs};
use crate::cli::{App, Outcome};
use crate::history::scope::{ProjectFilter, SearchScope};
use crate::history::sources::Skipped;
use crate::history::{Catalogue, Row, catalogue};
use crate::project::channel;

/// The output format.
#[derive(Debug, Clone, Copy)]
struct Output {
    json: bool,
    paged: bool,
}

pub(super) fn run(app: &App, args: SessionsArgs) -> anyhow::Result<Outcome> {
    let output = Output { json: args.json, paged: !args.no_pager };
    let can_ask = std::io::stdout().is_terminal() && std::io::stdin().is_terminal() && !output.json;
    match args.command {
        None if can_ask => pick::run(app),
        None => list::run(app, &ConversationScope::default(), 20, output),
        Some(Verb::List { limit, fleet: true, .. }) => fleet::list(app, limit, output),
        Some(Verb::Fetch { session, from }) => fleet::fetch(app, &session, from.as_ref(), output),
        Some(Verb::List { whose, limit, .. }) => list::run(app, &whose, limit, output),
        Some(Verb::Show { id, ledger: _, turns, raw }) => show::run(app, &id, turns, raw, output),
        Some(Verb::Search(args)) => search::run(app, &args, output),
        Some(Verb::Resume { id, last, other, args }) => {
            resume::run(app, id.as_deref().filter(|_| !last), other.as_deref(), &args)
        }
        Some(Verb::Tree { id, whose }) => tree::run(app, id.as_deref(), &whose, output),
    }
}

fn read(app: &App) -> Catalogue {
    catalogue::read(&app.paths, &app.resolved.config)
}

/// The one conversation whose id begins with `prefix`. Prints why if there is none or more than one.
fn find<'c>(catalogue: &'c Catalogue, prefix: &str) -> Option<&'c Row> {
    let mut matching = catalogue.rows.iter().filter(|row| is_meant(&row.source.id, prefix));
    match (matching.next(), matching.next()) {
        (Some(row), None) => Some(row),
        (Some(a), Some(b)) => {
            let (a, b) = (&a.source.id, &b.source.id);
            eprintln!("baton: {prefix:?} matches several sessions, {a} and {b}; write more of it");
            None
        }
        (None, _) => {
            eprintln!("baton: no session {prefix:?} was found; `baton sessions list --all` lists them");
            None
        }
    }
}

/// Which conversations a command covers.
fn scope<'a>(app: &'a App, args: &ConversationScope) -> anyhow::Result<SearchScope<'a>> {
    let whose = match &args.project {
        _ if args.all => ProjectFilter::All,
        Some(project) if project.contains('/') || app.cwd.join(project).is_dir() => {
            ProjectFilter::Folder(channel::real(&app.cwd.join(app.paths.expand(project))))
        }
        Some(project) => ProjectFilter::Named(project.clone()),
        // Folders outside any project have nothing in common but their channel.
        None => match app.channel()? {
            name if name.as_str() == GLOBAL => ProjectFilter::Folder(channel::real(&app.cwd)),
            name => ProjectFilter::Channel { name: name.to_string(), called: app.place()? },
        },
    };
    Ok(SearchScope::new(&app.paths, &app.resolved.config, whose))
}

/// Reports skipped files in one line.
fn report_skipped(app: &App, skipped: &[Skipped]) {
    let Some(first) = skipped.first() else { return };
    let name = plain_line(&app.paths.short(&first.path), 200);
    let why = plain_line(&first.why, 100);
    match skipped.len() {
        1 => eprintln!("baton: {name} was left out: {why}"),
        n => eprintln!("baton: {n} files were left out; the first: {name}: {why}"),
    }
}

/// Whether `text` names the session: a prefix of its id, or the short form in listings.
fn is_meant(id: &baton_core::ids::SessionId, text: &str) -> bool {
    id.as_str().starts_with(text) || id.short() == text
}
