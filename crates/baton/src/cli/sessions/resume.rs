//! `baton sessions resume`: starts the client on an earlier conversation, after checking that it belongs to this
//! project.

use baton_core::ids::AgentId;
use baton_core::launch::{CurrentChoices, Launch};
use baton_core::plain::plain_line;
use baton_core::prompt;
use baton_core::session::Session;
use jiff::Timestamp;

use crate::cli::args::ConversationScope;
use crate::cli::backup::restore::{self, RestoreOptions};
use crate::cli::sessions::hindrance::Hindrances;
use crate::cli::sessions::{SearchScope, find, read, scope};
use crate::cli::{App, Outcome};
use crate::handoffs::attach;
use crate::handoffs::transfer;
use crate::handoffs::transfer::TransferTarget;
use crate::history::{Row, ends};
use crate::project::channel;
use crate::providers;
use crate::providers::PROVIDERS;
use crate::rotation::actuators::restart;
use crate::rotation::actuators::restart::RunOptions;
use crate::setup::plugin_dir;
use crate::sys::child::end_like;
use crate::sys::shell::quote_path;

/// `other` names a client in which a new agent takes up the work, instead of the conversation's own.
pub(super) fn run(
    app: &App,
    id: Option<&str>,
    other: Option<&str>,
    args: &[String],
) -> anyhow::Result<Outcome> {
    let catalogue = read(app);
    let scope = scope(app, &ConversationScope::default())?;
    let row = if let Some(id) = id {
        find(&catalogue, id)
    } else {
        let newest = catalogue.rows.iter().find(|row| scope.contains(row));
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

/// Starts a new agent of the client `name` with a handoff made from the conversation's transcript.
fn start_in(
    app: &App,
    scope: &SearchScope<'_>,
    row: &Row,
    name: &str,
    args: &[String],
) -> anyhow::Result<Outcome> {
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
    if row.source.mirrored {
        return restored(app, row, |row| start_in(app, scope, row, name, args));
    }
    if !cwd.is_dir() {
        eprintln!("baton: session {id} cannot be continued: its folder {} is gone", app.paths.short(&cwd));
        return Ok(Outcome::Failed);
    }
    // Check before creating anything for an agent that cannot start.
    if provider.locate().is_none() {
        eprintln!("baton: {name} is not on the PATH; install it with `{}`", provider.install);
        return Ok(Outcome::Failed);
    }
    let session = match store.sessions().get(id)? {
        Some(mut known) => {
            known.transcript = Some(row.source.path.display().to_string());
            known
        }
        None => unrecorded(app, row)?,
    };
    let to = TransferTarget::Provider(provider);
    let moved = transfer::move_to(&store, &app.resolved.config, &session, to, None, Timestamp::now())?;
    eprintln!(
        "baton: handoff {} holds the work of session {id}; {} continues it",
        moved.handoff, moved.agent
    );
    let now = CurrentChoices { model: None, permission_mode: None };
    let (prompt, config) = (prompt::continuation(&moved.handoff, None), &app.resolved.config);
    let prompt = attach::mentioned(&store, config, provider, &prompt, &moved.handoff);
    let args = Launch::parse(&provider.grammar, args).fresh(&provider.grammar, &prompt, &now);
    let options = RunOptions {
        provider,
        program: None,
        args,
        name: Some(moved.agent),
        keep_alive: false,
        cwd,
        integrate: plugin_dir::args,
        approvals: false,
        approver: None,
    };
    let change = restart::run(store, app.resolved.config.clone(), options)?;
    end_like(change)
}

/// A session that none of our hooks has reported; we only have its transcript.
fn unrecorded(app: &App, row: &Row) -> anyhow::Result<Session> {
    let (id, cwd) = (row.source.id.clone(), row.cwd());
    let channel = app.channel_of(&cwd)?.name;
    let begun = row.facts.begun.unwrap_or_else(|| row.last());
    let agent = AgentId::new(row.provider())?;
    let mut session = Session::new(id, row.provider(), agent, channel, begun, "seen");
    session.cwd = cwd.display().to_string();
    session.transcript = Some(row.source.path.display().to_string());
    Ok(session)
}

/// If the conversation belongs to another project, prints where to resume it.
fn is_elsewhere(scope: &SearchScope<'_>, row: &Row, command: &str) -> bool {
    let is_elsewhere = !scope.contains(row);
    if is_elsewhere {
        eprintln!("baton: session {} belongs to another project; run it there:", row.source.id);
        // A command to copy stays on one line.
        std::eprintln!("  cd {} && {command}", quote_path(&row.facts.cwd));
    }
    is_elsewhere
}

/// Checks that the conversation exists, is readable and belongs to this project, then starts its client on it.
pub(super) fn start(
    app: &App,
    scope: &SearchScope<'_>,
    row: &Row,
    args: &[String],
) -> anyhow::Result<Outcome> {
    let (id, cwd) = (&row.source.id, row.cwd());
    if is_elsewhere(scope, row, &format!("baton sessions resume {id}")) {
        return Ok(Outcome::Failed);
    }
    if row.source.mirrored {
        return restored(app, row, |row| start(app, scope, row, args));
    }
    if let Some(why) = Hindrances::new(app).of(row, &row.state()) {
        eprintln!("baton: session {id} cannot be resumed: {why}");
        return Ok(Outcome::Failed);
    }
    // The row may be older than the file.
    let file = plain_line(&app.paths.short(&row.source.path), 300);
    match ends::read(&row.source.path, row.source.dialect) {
        Err(e) => {
            eprintln!("baton: session {id} cannot be resumed: {file}: {}", e.why);
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
        eprintln!("  cd {} && {} resume {id}", quote_path(&row.facts.cwd), row.provider());
        return Ok(Outcome::Failed);
    };
    let grammar = &provider.grammar;
    let now = CurrentChoices { model: None, permission_mode: None };
    let args = Launch::parse(grammar, args).resume(grammar, id.as_str(), None, &now);
    // The agent gets its name back, unless it runs elsewhere.
    let agent = row.record.as_ref().and_then(|record| AgentId::new(&record.agent).ok());
    let name = agent.filter(|agent| !app.store().is_running(agent));
    if channel::real(&cwd) != channel::real(&app.cwd) {
        eprintln!("baton: resuming in {}", app.paths.short(&cwd));
    }
    let options = RunOptions {
        provider,
        program: None,
        args,
        name,
        keep_alive: false,
        cwd,
        integrate: plugin_dir::args,
        approvals: false,
        approver: None,
    };
    let change = restart::run(app.store(), app.resolved.config.clone(), options)?;
    end_like(change)
}

/// Restores a conversation that only the mirror has, then continues with it.
fn restored(
    app: &App,
    row: &Row,
    then: impl FnOnce(&Row) -> anyhow::Result<Outcome>,
) -> anyhow::Result<Outcome> {
    let id = row.source.id.as_str();
    let wish =
        RestoreOptions { what: id, generation: None, to: None, force: false, dry_run: false, bounds: None };
    match restore::run(app, &app.store(), &wish, false)? {
        Outcome::Done => {}
        other => return Ok(other),
    }
    let catalogue = read(app);
    match catalogue.rows.iter().find(|now| now.source.id == row.source.id && !now.source.mirrored) {
        Some(row) => then(row),
        None => anyhow::bail!("session {id} was restored but is not where its client keeps conversations"),
    }
}
