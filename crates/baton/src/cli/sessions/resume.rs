//! `baton sessions resume`: the client started on a conversation again, after it was seen to be one of this project.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use baton_core::ids::AgentId;
use baton_core::launch::{Launch, Now};
use baton_core::plain::plain_line;
use baton_core::session::Session;
use jiff::Timestamp;

use super::super::args::WhoseArgs;
use super::super::backup::restore::{self, Wish};
use super::super::{App, Outcome};
use super::list::end_of;
use super::{Scope, by_beginning, read};
use crate::across::{self, To};
use crate::providers::PROVIDERS;
use crate::sessions::catalogue::State;
use crate::sessions::{QuickMap, Row, ends};
use crate::supervisor::{self, Options};
use crate::sys::child::end_like;
use crate::{channel, providers, rotate};

/// `other` names the client in which a new agent takes the work up, instead of the conversation's own.
pub fn run(app: &App, id: Option<&str>, other: Option<&str>, args: &[String]) -> anyhow::Result<Outcome> {
    let catalogue = read(app);
    let scope = Scope::new(app, &WhoseArgs::default())?;
    let row = if let Some(id) = id {
        by_beginning(&catalogue, id)
    } else {
        let newest = catalogue.rows().find(|row| scope.holds(row));
        if newest.is_none() {
            eprintln!(
                "baton: there is no session in {}; `baton sessions list --all` names others",
                scope.name()
            );
        }
        newest
    };
    let Some(row) = row else { return Ok(Outcome::Nothing) };
    match other {
        Some(name) => start_in(app, &scope, row, name, args),
        None => start(app, &scope, row, args),
    }
}

/// Begins a new agent of the client `name` with a handoff made from the conversation's transcript.
fn start_in(app: &App, scope: &Scope<'_>, row: &Row, name: &str, args: &[String]) -> anyhow::Result<Outcome> {
    let (id, cwd, store) = (&row.source.id, row.cwd(), app.store());
    let Some(provider) = providers::find(name).filter(|p| p.refuses_handoff.is_none()) else {
        let known: Vec<_> =
            PROVIDERS.iter().filter(|p| p.refuses_handoff.is_none()).map(|p| p.name).collect();
        eprintln!("baton: there is no client {name}; name one of {}", known.join(", "));
        return Ok(Outcome::Usage);
    };
    if is_elsewhere(scope, row, &format!("baton sessions resume {id} --in {name}")) {
        return Ok(Outcome::Failed);
    }
    if row.source.is_mirrored() {
        return restored(app, row, |row| start_in(app, scope, row, name, args));
    }
    if !cwd.is_dir() {
        eprintln!("baton: session {id} cannot be taken up: its folder {} is gone", app.paths.short(&cwd));
        return Ok(Outcome::Failed);
    }
    // Before anything is made for an agent that cannot start.
    if provider.locate().is_none() {
        eprintln!("baton: {name} is not on the PATH; install it with `{}`", provider.install);
        return Ok(Outcome::Failed);
    }
    let session = match store.sessions().get(id)? {
        Some(mut known) => {
            known.transcript = Some(row.source.path().display().to_string());
            known
        }
        None => unheard(app, row)?,
    };
    let to = To::Provider(provider);
    let moved = across::move_to(&store, &app.resolved.config, &session, to, None, Timestamp::now())?;
    eprintln!("baton: handoff {} holds what session {id} did; {} takes it up", moved.handoff, moved.agent);
    let now = Now { model: None, permission_mode: None };
    let prompt = rotate::continuation(&moved.handoff);
    let args = Launch::parse(&provider.grammar, args).fresh(&provider.grammar, &prompt, &now);
    let options = Options { provider, args, name: Some(moved.agent), keep_alive: false, cwd };
    let change = supervisor::run(store, app.resolved.config.clone(), options)?;
    end_like(change)
}

/// A conversation that no hook of ours has told of: its transcript is all there is.
fn unheard(app: &App, row: &Row) -> anyhow::Result<Session> {
    let (id, cwd) = (row.source.id.clone(), row.cwd());
    let channel = app.channel_of(&cwd)?.name;
    let begun = row.begun().unwrap_or_else(|| row.last());
    let agent = AgentId::new(row.provider())?;
    let mut session = Session::new(id, row.provider(), agent, channel, begun, "seen");
    session.cwd = cwd.display().to_string();
    session.transcript = Some(row.source.path().display().to_string());
    Ok(session)
}

/// Says where a conversation of another project is resumed.
fn is_elsewhere(scope: &Scope<'_>, row: &Row, command: &str) -> bool {
    let elsewhere = !scope.holds(row);
    if elsewhere {
        eprintln!("baton: session {} belongs to another project; run it there:", row.source.id);
        eprintln!("  cd {} && {command}", quoted(row.facts.cwd));
    }
    elsewhere
}

/// Verifies that the conversation is there, readable and of this project, and starts its client on it.
pub fn start(app: &App, scope: &Scope<'_>, row: &Row, args: &[String]) -> anyhow::Result<Outcome> {
    let (id, cwd) = (&row.source.id, row.cwd());
    if is_elsewhere(scope, row, &format!("baton sessions resume {id}")) {
        return Ok(Outcome::Failed);
    }
    if row.source.is_mirrored() {
        return restored(app, row, |row| start(app, scope, row, args));
    }
    if let Some(why) = Hindrances::new(app).of(row) {
        eprintln!("baton: session {id} cannot be resumed: {why}");
        return Ok(Outcome::Failed);
    }
    // What the list shows may be older than what is there now.
    let file = plain_line(&app.paths.short(&row.source.path()), 300);
    match ends::read(&row.source.path(), row.source.provider) {
        Err(no) => {
            eprintln!("baton: session {id} cannot be resumed: {file}: {}", no.why);
            return Ok(Outcome::Failed);
        }
        Ok(now) if now.session.as_deref().is_some_and(|inside| inside != id.as_str()) => {
            let inside = plain_line(&now.session.unwrap_or_default(), 60);
            eprintln!("baton: {file} holds session {inside}, not {id}; it is not resumed");
            return Ok(Outcome::Failed);
        }
        Ok(_) => {}
    }
    let Some(provider) = providers::find(row.provider()) else {
        eprintln!("baton: it does not start {} itself; run it there:", row.provider());
        eprintln!("  cd {} && {} resume {id}", quoted(row.facts.cwd), row.provider());
        return Ok(Outcome::Failed);
    };
    let grammar = &provider.grammar;
    let now = Now { model: None, permission_mode: None };
    let args = Launch::parse(grammar, args).resume(grammar, id.as_str(), None, &now);
    // The agent comes back under its name, unless it goes on elsewhere.
    let agent = row.known().and_then(|known| AgentId::new(known.agent).ok());
    let name = agent.filter(|agent| !app.store().agents().is_live(agent));
    if channel::real(&cwd) != channel::real(&app.cwd) {
        eprintln!("baton: resuming in {}", app.paths.short(&cwd));
    }
    let options = Options { provider, args, name, keep_alive: false, cwd };
    let change = supervisor::run(app.store(), app.resolved.config.clone(), options)?;
    end_like(change)
}

/// Brings back what only the mirror has, and goes on with it.
fn restored(
    app: &App,
    row: &Row,
    then: impl FnOnce(&Row) -> anyhow::Result<Outcome>,
) -> anyhow::Result<Outcome> {
    let id = row.source.id.as_str();
    let wish = Wish { what: id, generation: None, to: None, force: false, dry_run: false };
    match restore::run(app, &app.store(), &wish, false)? {
        Outcome::Done => {}
        other => return Ok(other),
    }
    let catalogue = read(app);
    match catalogue.rows().find(|now| now.source.id == row.source.id && !now.source.is_mirrored()) {
        Some(row) => then(row),
        None => anyhow::bail!("session {id} was restored but is not where its client keeps conversations"),
    }
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-~+@:".contains(c);
    if path.chars().all(plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

/// Why conversations cannot be resumed; what is known of a folder is asked once.
pub struct Hindrances<'a> {
    app: &'a App,
    folders: RefCell<QuickMap<&'static str, Rc<Folder>>>,
}

/// A folder that conversations belong to.
pub struct Folder {
    /// As people write it.
    pub name: String,
    /// Where the client looks for its conversations; nothing if the folder is gone.
    place: Option<PathBuf>,
}

/// Why a conversation that does not run cannot be resumed.
pub enum Hindrance<'p> {
    NoFolder,
    Gone,
    Elsewhere(&'p Path),
}

impl<'a> Hindrances<'a> {
    pub fn new(app: &'a App) -> Self {
        Self { app, folders: RefCell::default() }
    }

    /// Why `row` cannot be resumed as it is, if it cannot.
    pub fn of(&self, row: &Row) -> Option<String> {
        if let State::Running(pid) = row.state() {
            return Some(format!("it runs now, in process {pid}"));
        }
        let folder = self.folder(row);
        let why = folder.hinders(row)?;
        Some(match why {
            Hindrance::NoFolder => "its transcript does not tell its folder".to_owned(),
            Hindrance::Gone => format!("its folder {} is gone", self.app.paths.short(&row.cwd())),
            Hindrance::Elsewhere(place) => {
                format!("the client looks for it in {}", self.app.paths.short(place))
            }
        })
    }

    pub fn folder(&self, row: &Row) -> Rc<Folder> {
        let cwd = row.facts.cwd;
        let mut folders = self.folders.borrow_mut();
        let folder = folders.entry(cwd).or_insert_with(|| {
            let real = std::fs::canonicalize(cwd).ok().filter(|p| p.is_dir());
            Rc::new(Folder {
                name: end_of(&plain_line(&self.app.paths.short(&row.cwd()), 400), 60).into_owned(),
                place: real.map(|real| providers::claude_folder(&self.app.paths, &real)),
            })
        });
        Rc::clone(folder)
    }
}

impl Folder {
    /// What hinders `row`, whose folder this is and which does not run.
    pub fn hinders(&self, row: &Row) -> Option<Hindrance<'_>> {
        if !row.facts.cwd.starts_with('/') {
            return Some(Hindrance::NoFolder);
        }
        let Some(place) = &self.place else { return Some(Hindrance::Gone) };
        // What only the mirror has is brought back before it is resumed.
        let is_there =
            row.source.is_mirrored() || !row.source.provider.is_kept_by_project() || row.source.is_in(place);
        (!is_there).then_some(Hindrance::Elsewhere(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_command_is_one_word_of_the_shell() {
        assert_eq!(quoted("~/work/app"), "~/work/app");
        assert_eq!(quoted("/a b/it's; rm -rf x"), r"'/a b/it'\''s; rm -rf x'");
    }
}
