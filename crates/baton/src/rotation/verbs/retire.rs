//! Stop an agent for good.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use baton_core::agent::{Agent, SupervisorOrder};
use jiff::Timestamp;

use crate::config::Config;
use crate::mail::announce;
use crate::mail::maildir::Mail;
use crate::rotation::actuators::tmux::server::RecordedPane;
use crate::rotation::actuators::tmux::worktree::{self, WorktreeRemoval};
use crate::rotation::verbs::{VerbRefusal, permit};
use crate::sessions::caller::Caller;
use crate::store::Store;
use crate::sys::{child, process};

const PATIENCE: Duration = Duration::from_secs(2);

/// Ends the agent's client for good. Returns a message for the user.
pub(crate) fn retire(
    store: &Store,
    config: &Config,
    caller: &Caller,
    agent: &Agent,
) -> Result<String, VerbRefusal> {
    permit(store, caller, "retire", agent)?;
    if agent.supervisor.as_ref().is_some_and(process::is_alive) {
        store.agents().update(&agent.id, PATIENCE, |a| {
            a.order = Some(SupervisorOrder::Retire);
            a.retired = Some(Timestamp::now());
        })?;
        announce::wake_listeners(&store.state, &agent.id);
        return Ok(format!("{} is being stopped.", agent.id));
    }
    let now = Timestamp::now();
    // Record this before the client ends, so that every process that sees it end knows that it was intended.
    store.agents().update(&agent.id, PATIENCE, |a| a.retired = Some(now))?;
    let ended = match &agent.process {
        Some(client) => child::terminate(client)?,
        None => false,
    };
    if let Some(pane) = agent.pane.as_ref().filter(|pane| pane.spawned) {
        child::wait_for_end(&pane.process, config.run.grace);
        if process::is_alive(&pane.server) {
            // The pane closes by itself unless the client failed.
            let _ = RecordedPane::new(pane).close();
        }
    }
    store.agents().update(&agent.id, PATIENCE, |a| {
        a.ended = Some(now);
        a.waits = None;
    })?;
    let unread = Mail::of(store).fail_waiting(&agent.id, "the agent was retired", now)?;
    let mut said =
        if ended { format!("{} was stopped.", agent.id) } else { format!("{} was not running.", agent.id) };
    let (were, them) =
        if unread == 1 { ("message to it was", "it") } else { ("messages to it were", "them") };
    if unread > 0 {
        let _ = write!(said, "\n{unread} {were} never read; `baton inbox {}` shows {them}.", agent.id);
    }
    if let Some(path) = &agent.worktree {
        match worktree::remove(Path::new(path)) {
            WorktreeRemoval::Removed => {
                store.agents().update(&agent.id, PATIENCE, |a| a.worktree = None)?;
                let _ =
                    write!(said, "\nIts worktree {path} was removed; what it committed is on its branch.");
            }
            WorktreeRemoval::Kept(why) => {
                let _ = write!(said, "\nIts worktree {path} stays: {why}.");
            }
            WorktreeRemoval::Gone => {}
        }
    }
    Ok(said)
}
