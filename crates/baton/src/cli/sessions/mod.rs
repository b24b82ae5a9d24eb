//! `baton sessions`: past conversations of every client, found, read and resumed.

mod list;
mod picker;
mod resume;
mod search;
mod show;
mod tree;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use baton_core::handoff::manifest::GLOBAL;
use baton_core::plain::plain_line;

use super::args::{Sessions as Verb, SessionsArgs, WhoseArgs};
use super::{App, Outcome};
use crate::channel;
use crate::sessions::sources::Skipped;
use crate::sessions::{Catalogue, Row, catalogue};

/// How the answer is to look.
#[derive(Debug, Clone, Copy)]
struct Look {
    json: bool,
    paged: bool,
}

pub fn run(app: &App, args: SessionsArgs) -> anyhow::Result<Outcome> {
    let look = Look { json: args.json, paged: !args.no_pager };
    let asks = std::io::stdout().is_terminal() && std::io::stdin().is_terminal() && !look.json;
    match args.command {
        None if asks => picker::run(app),
        None => list::run(app, &WhoseArgs::default(), 20, look),
        Some(Verb::List { whose, limit }) => list::run(app, &whose, limit, look),
        Some(Verb::Show { id, ledger: _, turns, raw }) => show::run(app, &id, turns, raw, look),
        Some(Verb::Search(args)) => search::run(app, &args, look),
        Some(Verb::Resume { id, last, other, args }) => {
            resume::run(app, id.as_deref().filter(|_| !last), other.as_deref(), &args)
        }
        Some(Verb::Tree { id, whose }) => tree::run(app, id.as_deref(), &whose, look),
    }
}

fn read(app: &App) -> Catalogue {
    catalogue::read(&app.paths, &app.resolved.config)
}

/// The one conversation whose id begins so; said when there is none, or more than one.
fn by_beginning<'c>(catalogue: &'c Catalogue, id: &str) -> Option<&'c Row> {
    let mut matching = catalogue.rows().filter(|row| row.source.id.as_str().starts_with(id));
    match (matching.next(), matching.next()) {
        (Some(row), None) => Some(row),
        (Some(a), Some(b)) => {
            let (a, b) = (&a.source.id, &b.source.id);
            eprintln!("baton: {id:?} is the beginning of several sessions, {a} and {b}; write more of it");
            None
        }
        (None, _) => {
            eprintln!("baton: no session {id:?} was found; `baton sessions list --all` names them");
            None
        }
    }
}

/// Whose conversations are meant.
struct Scope<'a> {
    app: &'a App,
    whose: Whose,
    /// What is known of folders: asking costs a look at each folder above.
    known: RefCell<HashMap<PathBuf, bool>>,
}

enum Whose {
    All,
    /// This folder, or a project of this name.
    Folder(PathBuf),
    Named(String),
    Channel(String),
}

impl<'a> Scope<'a> {
    fn new(app: &'a App, args: &WhoseArgs) -> anyhow::Result<Self> {
        let whose = match &args.project {
            _ if args.all => Whose::All,
            Some(project) if project.contains('/') || app.cwd.join(project).is_dir() => {
                Whose::Folder(channel::real(&app.cwd.join(app.paths.expand(project))))
            }
            Some(project) => Whose::Named(project.clone()),
            // Folders that belong to no project have nothing in common but that.
            None => match app.channel()? {
                name if name.as_str() == GLOBAL => Whose::Folder(channel::real(&app.cwd)),
                name => Whose::Channel(name.to_string()),
            },
        };
        Ok(Self { app, whose, known: RefCell::default() })
    }

    fn holds(&self, row: &Row) -> bool {
        let recorded = row.known().map(|known| known.channel);
        match &self.whose {
            Whose::All => true,
            Whose::Channel(name) if recorded.is_some() => recorded == Some(name.as_str()),
            Whose::Named(name) if recorded == Some(name.as_str()) => true,
            _ => self.holds_folder(&row.cwd()),
        }
    }

    fn holds_folder(&self, cwd: &Path) -> bool {
        if cwd.as_os_str().is_empty() {
            return matches!(self.whose, Whose::All);
        }
        if let Some(known) = self.known.borrow().get(cwd) {
            return *known;
        }
        let channel = || {
            let (config, paths) = (&self.app.resolved.config, &self.app.paths);
            channel::of(cwd, None, None, config, paths).ok().map(|c| c.name.to_string())
        };
        let held = match &self.whose {
            Whose::All => true,
            Whose::Folder(folder) => channel::real(cwd).starts_with(folder),
            Whose::Named(name) => {
                cwd.file_name().is_some_and(|n| n == name.as_str()) || channel().as_ref() == Some(name)
            }
            Whose::Channel(name) => channel().as_ref() == Some(name),
        };
        self.known.borrow_mut().insert(cwd.to_owned(), held);
        held
    }

    /// How the scope is called in a message.
    fn name(&self) -> String {
        match &self.whose {
            Whose::All => "any project".to_owned(),
            Whose::Folder(folder) => self.app.paths.short(folder),
            Whose::Named(name) => format!("project {name}"),
            Whose::Channel(name) => format!("channel {name}"),
        }
    }
}

/// Files that were passed over, in one line.
fn say_skipped(app: &App, skipped: &[Skipped]) {
    let Some(first) = skipped.first() else { return };
    let name = plain_line(&app.paths.short(&first.path), 200);
    let why = plain_line(&first.why, 100);
    match skipped.len() {
        1 => eprintln!("baton: {name} was left out: {why}"),
        n => eprintln!("baton: {n} files were left out; the first: {name}: {why}"),
    }
}
