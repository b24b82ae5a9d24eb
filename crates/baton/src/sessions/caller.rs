//! Finds out who runs a command: the user, or an agent. Uses the process tree, because a variable is easily unset.
//!
//! This keeps an agent from acting as the user by accident or by a short detour: unset variables, `setsid -f`,
//! `nohup … &`. A hostile process of the same user can still leave the tree; SECURITY.md says so.

use baton_core::agent::Agent;
use baton_core::ids::{AgentId, SessionId};
use jiff::Timestamp;

use crate::providers::{self, PROVIDERS};
use crate::store::Store;
use crate::sys::fs::FileError;
use crate::sys::process;

/// Bound for walks up process and agent trees.
const DEEPEST: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    User,
    Agent(AgentId),
    /// Possibly an agent, so never treated as the user.
    Unknown,
}

impl Caller {
    pub(crate) fn is_agent(&self) -> bool {
        *self != Self::User
    }

    /// The name under which it sends messages.
    pub fn name(&self) -> &str {
        match self {
            Self::User => "user",
            Self::Agent(id) => id.as_str(),
            Self::Unknown => "unknown",
        }
    }

    /// The error for an action that only the user may take, or `None` for the user.
    pub(crate) fn not_the_user(&self, doing: &str) -> Option<String> {
        let by = match self {
            Self::User => return None,
            Self::Agent(agent) => format!("this command was run by {agent}"),
            Self::Unknown => "this command has no terminal and may have been run by an agent".to_owned(),
        };
        Some(format!("only the user may {doing}, and {by}; run it in your own terminal"))
    }
}

/// The error for a `caller` that may not do this to `agent`, which is neither itself nor below it.
pub(crate) fn stranger(caller: &Caller, doing: &str, agent: &AgentId) -> String {
    match caller {
        Caller::Unknown => format!(
            "only the user and the agents above {agent} may {doing} it, and this command, which has no terminal, may \
             have been run by another agent; ask the user"
        ),
        _ => format!(
            "{} may {doing} itself and the agents below it, and {agent} is neither; ask the user",
            caller.name()
        ),
    }
}

/// Who runs this process.
pub(crate) fn of_this_process(store: &Store) -> Caller {
    of_process(store, std::process::id())
}

/// Whether `caller` may rotate, undo or end `agent`: the user may, and an agent may for itself and those below it.
pub(crate) fn may_direct(store: &Store, caller: &Caller, agent: &Agent) -> Result<bool, FileError> {
    let root = match caller {
        Caller::User => return Ok(true),
        Caller::Agent(root) => root,
        Caller::Unknown => return Ok(false),
    };
    is_in_tree(store, agent, root)
}

/// Whether `agent` is `root` or was spawned below it.
pub(crate) fn is_in_tree(store: &Store, agent: &Agent, root: &AgentId) -> Result<bool, FileError> {
    let agents = store.agents();
    let mut at = Some(agent.id.clone());
    for _ in 0..DEEPEST {
        match at {
            Some(id) if &id == root => return Ok(true),
            Some(id) => at = agents.get(&id)?.and_then(|agent| agent.parent),
            None => break,
        }
    }
    Ok(false)
}

/// Who runs process `pid`. A read error might hide an agent, so the answer is then not the user.
pub(crate) fn of_process(store: &Store, pid: u32) -> Caller {
    find(store, pid).unwrap_or_else(|e| {
        store.log().fault(Timestamp::now(), "find out who runs a command", &e);
        Caller::Unknown
    })
}

/// Like [`of_process`], but returns the error.
pub(crate) fn find(store: &Store, pid: u32) -> Result<Caller, FileError> {
    let mut at = Some(pid);
    let mut tree = Vec::new();
    let mut is_below_client = false;
    for _ in 0..DEEPEST {
        let Some(here) = at.filter(|&pid| pid > 1) else { break };
        tree.push(here);
        let named = process::identify(here).map(|who| store.agents().name_of_process(&who)).transpose()?;
        if let Some(agent) = named.flatten() {
            return Ok(Caller::Agent(agent));
        }
        is_below_client |= is_client(store, here);
        at = process::parent_of(here);
    }
    if is_below_client {
        // A client that serves many conversations names each command's own in a variable, the only evidence there is.
        // An agent with its own client would have been found above, so a process that claims its name here is not that
        // agent.
        let claimed = agent_by_variables(store, pid)?;
        let has_client = |id: &AgentId| -> Result<bool, FileError> {
            let agent = store.agents().get(id)?;
            Ok(agent.and_then(|agent| agent.process).is_some_and(|client| process::is_alive(&client)))
        };
        return Ok(match claimed {
            Some(agent) if !has_client(&agent)? => Caller::Agent(agent),
            _ => Caller::Unknown,
        });
    }
    if may_be_cut_loose(store, &tree)? {
        return Ok(Caller::Unknown);
    }
    // The user may act as an agent, because an agent has fewer rights.
    Ok(agent_by_variables(store, pid)?.map_or(Caller::User, Caller::Agent))
}

/// Whether an agent may have started the first process of `tree` and cut it loose from its client.
///
/// A process that a person starts at a terminal descends from the leader of the terminal's session. A process without a
/// terminal (cron, a CI runner, an editor's jobs) descends from something that init has adopted; if that is older than
/// the first client of this boot, no agent started it. Clients that have ended are included, because processes that
/// they left behind may act later.
fn may_be_cut_loose(store: &Store, tree: &[u32]) -> Result<bool, FileError> {
    let is_adopted = |pid: &&u32| process::parent_of(**pid).is_some_and(process::adopts_orphans);
    // A process that entered a container from outside has no parent here, and no agent inside can do that.
    let Some(&adopted) = tree.iter().find(is_adopted) else { return Ok(false) };
    let leader = tree.first().and_then(|&pid| process::session_leader_of(pid));
    // A container's command runs in init's session.
    if leader.is_some_and(|pid| pid == 1 || (tree.contains(&pid) && process::has_terminal(pid))) {
        return Ok(false);
    }
    let Some(since) = process::identify(adopted) else { return Ok(true) };
    let agents = store.agents();
    let clients =
        agents.first_client()?.into_iter().chain(agents.every()?.into_iter().filter_map(|a| a.process));
    let mut of_this_boot = clients.filter(|client| client.boot == since.boot);
    Ok(of_this_boot.any(|client| client.start <= since.start))
}

/// Whether this is a client of the user whose state we keep: a shared daemon, or a client unknown to our hooks. A
/// client with another home (as in our tests) belongs to none of our agents.
fn is_client(store: &Store, pid: u32) -> bool {
    providers::is_client(&process::arguments(pid))
        && process::variable(pid, "HOME").is_none_or(|home| store.state.starts_with(home))
}

fn agent_by_variables(store: &Store, pid: u32) -> Result<Option<AgentId>, FileError> {
    let variable = |name: &str| {
        if pid == std::process::id() { std::env::var(name).ok() } else { process::variable(pid, name) }
    };
    for provider in PROVIDERS {
        let id = variable(provider.session_variable).and_then(|id| SessionId::new(id).ok());
        if let Some(session) = id.map(|id| store.sessions().get(&id)).transpose()?.flatten() {
            return Ok(Some(session.agent));
        }
    }
    let named = variable("CLAUDE_SESSION_MANAGER_ID").and_then(|id| AgentId::new(id).ok());
    named.map(|named| store.agents().name_now(&named)).transpose()
}
