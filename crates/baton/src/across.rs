//! Work that moves to another agent, of the same provider or another: the same handoff, addressed to it, with what
//! differs said.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use baton_core::agent::Agent;
use baton_core::handoff::{HandoffId, Kind};
use baton_core::ids::AgentId;
use baton_core::message::Urgency;
use baton_core::session::Session;
use jiff::Timestamp;

use crate::config::Config;
use crate::hot::project_name;
use crate::install::ours::quoted;
use crate::providers::{self, Provider};
use crate::rotate;
use crate::sealing::{self, Sealing};
use crate::store::Store;

const PATIENCE: Duration = Duration::from_secs(2);

/// Where the work goes.
#[derive(Debug)]
pub enum To {
    /// A new agent of this provider.
    Provider(&'static Provider),
    Agent(Box<Agent>),
}

/// What was done, and what is left to do.
#[derive(Debug)]
pub struct Moved {
    pub handoff: HandoffId,
    pub agent: AgentId,
    pub provider: &'static Provider,
    /// It runs already and was told by mail; else somebody must start it.
    pub live: bool,
}

impl Moved {
    /// The command that starts the agent with the handoff in front of it.
    pub fn command(&self) -> String {
        let prompt = rotate::continuation(&self.handoff);
        format!("baton run --name {} {} {}", self.agent, self.provider.name, quoted(&prompt))
    }
}

/// The provider or the agent of this name; a provider's name means a new agent.
pub fn target(store: &Store, name: &str) -> anyhow::Result<Option<To>> {
    if let Some(provider) = providers::find(name).filter(|p| p.refuses_handoff.is_none()) {
        return Ok(Some(To::Provider(provider)));
    }
    let Ok(id) = AgentId::new(name) else { return Ok(None) };
    Ok(store.agents().get(&id)?.map(|agent| To::Agent(Box::new(agent))))
}

/// Seals what `session` has done, with the agent's own words if there are some, for `to`.
pub fn move_to(
    store: &Store,
    config: &Config,
    session: &Session,
    to: To,
    narrative: Option<&str>,
    now: Timestamp,
) -> anyhow::Result<Moved> {
    let (agent, provider) = match to {
        To::Agent(agent) => {
            let provider = providers::of(&agent.provider);
            (*agent, provider)
        }
        To::Provider(provider) => {
            let make = |id| Agent::new(id, provider.name, session.channel.clone(), session.cwd.clone(), now);
            (store.agents().create(&project_name(Path::new(&session.cwd)), make)?, provider)
        }
    };
    anyhow::ensure!(
        agent.id != session.agent,
        "{} is the agent itself; `baton handoff FILE` gives it a fresh context",
        agent.id
    );
    let kind = if narrative.is_some() { Kind::Manual } else { Kind::Auto };
    let sealing = Sealing { session, kind, narrative, for_self: false };
    let reader = sealing::Reader { agent: &agent.id, provider };
    let sealed = sealing::seal_for(store, config, &sealing, Some(&reader), now)?;
    let handoff = sealed.entry.id;
    // It has handed over: nobody asks it for another one in this cycle.
    store.sessions().update(&session.id, PATIENCE, |s| s.latches = s.latches.handed_off())?;
    let path = sealed.path.display().to_string();
    store.agents().update(&agent.id, PATIENCE, |a| {
        a.last_handoff = Some(handoff.clone());
        a.last_handoff_path = Some(path);
    })?;
    let live = store.agents().lives(&agent);
    if live {
        let text = format!(
            "Handoff {handoff} is for you: it holds the work of {} in {}. `baton handoffs load {handoff}` shows it \
             to you and marks it as taken.",
            session.agent, session.cwd
        );
        store.mail().send(&agent.id, session.agent.as_str(), &text, Urgency::Important, now)?;
    }
    Ok(Moved { handoff, agent: agent.id, provider, live })
}

/// What an agent of `to` must know about a handoff that one of `from` wrote; nothing among their like.
pub fn differences(from: &Provider, to: &Provider, cwd: &Path) -> Option<String> {
    if std::ptr::eq(from, to) || from.instructions == to.instructions {
        return None;
    }
    let (theirs, yours) = (from.instructions, to.instructions);
    let project = cwd.ancestors().find(|dir| dir.join(".git").exists()).unwrap_or(cwd);
    let has = |name: &str| project.join(name).exists() || cwd.join(name).exists();
    let mut text = format!(
        "**Taken over from:** {}; you are {}. Tools that are named below are its own ({}); yours are {}. \
         `@path` in what the user wrote names a file of the project: open it yourself.",
        from.title, to.title, from.tools, to.tools
    );
    let _ = match (has(theirs), has(yours)) {
        (true, false) => write!(
            text,
            " The project's instructions are in {theirs}, which you do not read by yourself: read it before you begin."
        ),
        (true, true) => {
            write!(text, " Besides {yours}, which you know, read {theirs}: it held for the work so far.")
        }
        (false, _) => Ok(()),
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_said_and_among_their_like_nothing_is() {
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
