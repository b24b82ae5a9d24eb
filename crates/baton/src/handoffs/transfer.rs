//! Moves work to another agent, of the same provider or another: the same handoff, addressed to it, with a note on the
//! differences.

use std::path::Path;
use std::time::Duration;

use baton_core::agent::Agent;
use baton_core::handoff::carried::{self, Side};
use baton_core::handoff::{HandoffId, Kind};
use baton_core::ids::AgentId;
use baton_core::message::Urgency;
use baton_core::prompt;
use baton_core::session::Session;
use jiff::Timestamp;

use crate::config::Config;
use crate::handoffs::seal;
use crate::handoffs::seal::Sealing;
use crate::mail::{self, maildir::Draft};
use crate::project;
use crate::providers::{self, Provider};
use crate::store::Store;
use crate::sys::shell::quote;

const PATIENCE: Duration = Duration::from_secs(2);

/// Where the work goes.
#[derive(Debug)]
pub(crate) enum TransferTarget {
    /// A new agent of this provider.
    Provider(&'static Provider),
    Agent(Box<Agent>),
}

/// The result of a transfer.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub handoff: HandoffId,
    pub agent: AgentId,
    pub provider: &'static Provider,
    /// Whether it runs already and was notified by mail; otherwise somebody must start it.
    pub live: bool,
}

impl Transfer {
    /// The command that starts the agent with the handoff in front of it.
    pub(crate) fn command(&self) -> String {
        let prompt = prompt::continuation(&self.handoff, None);
        format!("baton run --name {} {} {}", self.agent, self.provider.name, quote(&prompt))
    }
}

/// The provider or the agent of this name; a provider's name means a new agent.
pub(crate) fn target(store: &Store, name: &str) -> anyhow::Result<Option<TransferTarget>> {
    if let Some(provider) = providers::find(name).filter(|p| p.refuses_handoff.is_none()) {
        return Ok(Some(TransferTarget::Provider(provider)));
    }
    let Ok(id) = AgentId::new(name) else { return Ok(None) };
    Ok(store.agents().get(&id)?.map(|agent| TransferTarget::Agent(Box::new(agent))))
}

/// Seals the work of `session`, with the agent's own words if there are any, for `to`.
pub(crate) fn move_to(
    store: &Store,
    config: &Config,
    session: &Session,
    to: TransferTarget,
    narrative: Option<&str>,
    now: Timestamp,
) -> anyhow::Result<Transfer> {
    let (agent, provider) = match to {
        TransferTarget::Agent(agent) => {
            let provider = providers::of(&agent.provider);
            (*agent, provider)
        }
        TransferTarget::Provider(provider) => {
            let make = |id| Agent::new(id, provider.name, session.channel.clone(), session.cwd.clone(), now);
            // A new name: the handoff waits under it for an agent that has not started yet.
            let may_have = |name: &AgentId| !config.approvals.rules.speak_of(name);
            let project = project::name(Path::new(&session.cwd));
            (store.agents().create(&project, make, may_have, |_| false)?, provider)
        }
    };
    anyhow::ensure!(
        agent.id != session.agent,
        "{} is the agent itself; `baton handoff FILE` gives it a fresh context",
        agent.id
    );
    let kind = if narrative.is_some() { Kind::Manual } else { Kind::Auto };
    let sealing = Sealing { session, kind, narrative, for_self: false };
    let reader = seal::Recipient { agent: &agent.id, provider };
    let sealed = seal::seal_for(store, config, &sealing, &reader, now)?;
    let handoff = sealed.entry.id;
    // It has handed over, so it must not be asked for another handoff in this cycle.
    store.sessions().update(&session.id, PATIENCE, |s| s.latches = s.latches.handed_off())?;
    let path = sealed.path.display().to_string();
    store.agents().update(&agent.id, PATIENCE, |a| {
        a.last_handoff = Some(handoff.clone());
        a.last_handoff_path = Some(path);
    })?;
    let live = store.presence(&agent).is_there();
    if live {
        let text = format!(
            "Handoff {handoff} is for you: it holds the work of {} in {}. `baton handoffs load {handoff}` shows it \
             to you and marks it as taken.",
            session.agent, session.cwd
        );
        let from = session.agent.as_str();
        let urgency = Urgency::Important;
        let draft = Draft { urgency, ..Draft::new(from, &text) };
        mail::send(store, &agent, &draft, None, now)?;
    }
    Ok(Transfer { handoff, agent: agent.id, provider, live })
}

/// What an agent of `to` must know about a handoff from an agent of `from` in this folder; `None` if nothing differs.
pub(crate) fn differences(from: &Provider, to: &Provider, cwd: &Path) -> Option<String> {
    let project = project::root(cwd);
    let side = |provider: &Provider| Side {
        title: provider.title,
        tools: provider.tools,
        instructions: provider.instructions,
        has_instructions: [project, cwd].iter().any(|dir| dir.join(provider.instructions).exists()),
    };
    carried::differences(&side(from), &side(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_differences_between_the_two_agents_are_stated() {
        let dir = tempfile::tempdir().unwrap();
        let [claude, codex, demo] = ["claude", "codex", "demo"].map(|n| providers::find(n).unwrap());
        assert_eq!(differences(claude, demo, dir.path()), None);
        assert_eq!(differences(codex, codex, dir.path()), None);
        let bare = differences(claude, codex, dir.path()).unwrap();
        assert!(
            bare.contains("you are Codex") && bare.contains("apply_patch") && !bare.contains("CLAUDE.md"),
            "{bare}"
        );
        std::fs::write(dir.path().join("CLAUDE.md"), "").unwrap();
        let text = differences(claude, codex, dir.path()).unwrap();
        assert!(text.contains("read it before you begin"), "{text}");
        std::fs::write(dir.path().join("AGENTS.md"), "").unwrap();
        assert!(differences(claude, codex, dir.path()).unwrap().contains("Besides AGENTS.md"));
        assert!(differences(codex, claude, dir.path()).unwrap().contains("Besides CLAUDE.md"));
    }
}
