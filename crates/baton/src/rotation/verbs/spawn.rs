//! Spawns an agent in a new tmux pane.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use baton_core::agent::Agent;
use baton_core::handoff::Status;
use baton_core::ids::{AgentId, ChannelName};
use baton_core::launch::Launch;
use baton_core::plain::plain_line;
use jiff::Timestamp;

use crate::config::Config;
use crate::handoffs::offer;
use crate::providers::{self, PROVIDERS, Provider};
use crate::rotation::actuators::tmux::launch::{self, MAX_PROMPT, PaneSpec};
use crate::rotation::actuators::tmux::worktree;
use crate::rotation::verbs::{VerbRefusal, permit};
use crate::sessions::caller::Caller;
use crate::sessions::rights;
use crate::store::Store;
use crate::sys::fs::{self, PRIVATE, Sync};

const PATIENCE: Duration = Duration::from_secs(2);

/// The caller's order for a new agent.
#[derive(Debug, Default)]
pub(crate) struct SpawnOrder {
    /// The client's name; defaults to the configured one, else the first that is installed.
    pub provider: Option<String>,
    pub cwd: PathBuf,
    /// Whether to work in a new git worktree.
    pub worktree: bool,
    pub prompt: Option<String>,
    /// The parent; the caller must be allowed to give it children.
    pub parent: Option<AgentId>,
    /// The parent if none is named and no agent asks: the agent whose session this runs in.
    pub otherwise: Option<AgentId>,
    pub approver: Option<AgentId>,
    /// Its purpose, in a few words.
    pub role: Option<String>,
    /// The client's own arguments.
    pub args: Vec<String>,
    /// The tmux server; defaults to the configured one.
    pub socket: Option<String>,
}

/// Starts an agent under this name. `channel_of` returns the channel of the folder it works in.
pub(crate) fn spawn(
    store: &Store,
    config: &Config,
    caller: &Caller,
    name: &AgentId,
    order: SpawnOrder,
    channel_of: impl Fn(&Path) -> anyhow::Result<ChannelName>,
) -> Result<Agent, VerbRefusal> {
    if let Some(approver) = &order.approver {
        if let Some(why) = caller.not_the_user("make somebody an approver") {
            return Err(VerbRefusal::Forbidden(why));
        }
        if approver == name {
            return Err(VerbRefusal::Conflict("no agent answers for itself".to_owned()));
        }
        ensure_approver(store, approver)?;
    }
    if let Some(why) = rights::refuse_name(store, &config.approvals.rules, caller, name) {
        return Err(VerbRefusal::Forbidden(why));
    }
    let SpawnOrder { mut cwd, prompt, args, .. } = order;
    if !cwd.is_dir() {
        return Err(VerbRefusal::Conflict(format!(
            "{} is not a folder; name one with --cwd",
            plain_line(&cwd.display().to_string(), 4096)
        )));
    }
    let provider = named_or_usual(config, order.provider.as_deref())?;
    launch::ensure_there(provider)?;
    refuse_more_than_harmless(caller, provider, &args)?;
    if let Some(parent) = &order.parent {
        let Some(agent) = store.agents().get(parent)? else {
            return Err(VerbRefusal::Nothing(format!(
                "there is no agent {parent} that could be the parent; `baton agents` lists them"
            )));
        };
        permit(store, caller, "spawn agents for", &agent)?;
    }
    // An agent that ended comes back with its mail and handoffs. One that was retired does not: it is a new agent.
    let known = store.agents().get(name)?;
    if let Some(known) = &known {
        permit(store, caller, "bring back", known)?;
    }
    let asking = if let Caller::Agent(id) = caller { Some(id.clone()) } else { None };
    let spawner = asking.clone();
    let mut made = None;
    if order.worktree {
        cwd = worktree::make(store, &cwd, name)?;
        made = Some(cwd.clone());
    }
    let prompt = match prompt {
        Some(text) if text.len() > MAX_PROMPT => Some(by_file(store, &cwd, name, &text)?),
        other => other,
    };
    let args = match &prompt {
        Some(text) => launch::with_prompt(args, text),
        None => args,
    };
    let spec = PaneSpec {
        name: name.clone(),
        provider,
        channel: channel_of(&cwd)?,
        cwd,
        parent: order.parent.or(asking).or(order.otherwise),
        approver: order.approver,
        role: order.role,
        worktree: made,
        anew: true,
        args,
        socket: order.socket.unwrap_or_else(|| config.panes.socket.clone()),
    };
    if let Some(retired) = known.filter(|known| known.retired.is_some() && !store.is_running(name)) {
        clear_left(store, config, &retired)?;
        store.agents().free_below(name)?;
    }
    let mut agent = launch::start(store, &spec)?;
    // An agent that returns under its name may have another spawner now.
    store.agents().update(name, PATIENCE, |agent| agent.spawned_by.clone_from(&spawner))?;
    agent.spawned_by = spawner;
    Ok(agent)
}

/// Clears what still waits for a retired agent, because a new agent under its name has another task. It stays in the
/// archive.
fn clear_left(store: &Store, config: &Config, retired: &Agent) -> anyhow::Result<()> {
    let handoffs = store.handoffs(config);
    for entry in handoffs.manifest(&retired.channel)?.entries() {
        if entry.status == Status::Active && entry.for_agent.as_ref() == Some(&retired.id) {
            handoffs.clear(&retired.channel, Some(&entry.id), Timestamp::now())?;
        }
    }
    Ok(())
}

/// Refuses an unknown approver: an agent that took its name later would have its rights.
pub(crate) fn ensure_approver(store: &Store, approver: &AgentId) -> Result<(), VerbRefusal> {
    if store.agents().get(approver)?.is_some() {
        return Ok(());
    }
    Err(VerbRefusal::Nothing(format!(
        "there is no agent {approver} that could be the approver; start it first, `baton agents` names those there are"
    )))
}

/// The provider of this name; defaults to the configured one, else the first that is installed.
pub(crate) fn named_or_usual(config: &Config, name: Option<&str>) -> anyhow::Result<&'static Provider> {
    match name {
        Some(name) => providers::find(name).ok_or_else(|| {
            let known: Vec<_> = PROVIDERS.iter().map(|p| p.name).collect();
            anyhow!("there is no provider {name}; name one of {}", known.join(", "))
        }),
        None => usual(config),
    }
}

/// The configured provider, else the first client that is installed.
pub(crate) fn usual(config: &Config) -> anyhow::Result<&'static Provider> {
    if let Some(provider) = config.run.provider.as_deref().and_then(providers::find) {
        return Ok(provider);
    }
    let clients = || PROVIDERS.iter().filter(|p| p.is_client());
    clients().find(|p| p.locate().is_some()).ok_or_else(|| {
        let how: Vec<_> = clients().map(|p| format!("`{}`", p.install)).collect();
        anyhow!(
            "no client is on the PATH; install one with {}, or try the scripted agent with `baton run --demo`",
            how.join(" or ")
        )
    })
}

/// Refuses client options that might give the new agent more rights than its spawner has.
fn refuse_more_than_harmless(
    caller: &Caller,
    provider: &Provider,
    args: &[String],
) -> Result<(), VerbRefusal> {
    if !caller.is_agent() {
        return Ok(());
    }
    let launch = Launch::parse(&provider.grammar, args);
    let Some(beyond) = launch.beyond_harmless(&provider.grammar) else { return Ok(()) };
    Err(VerbRefusal::Forbidden(format!(
        "an agent may not give {beyond:?} to {} that it spawns; it may give {} (and the prompt by --prompt). Ask the \
         user to spawn it",
        provider.title,
        provider.grammar.harmless.join(", ")
    )))
}

/// Puts a prompt that is too long for a command line into a file that the agent may read without asking.
fn by_file(store: &Store, cwd: &Path, name: &AgentId, text: &str) -> anyhow::Result<String> {
    offer::prepare(store, cwd)?;
    let path = offer::handoff_path(store, cwd, name).context(
        "the prompt is too long for a command line, and .baton in this project is not baton's own, so it cannot be put there; shorten it, or move that folder away",
    )?;
    let path = Path::new(&path).with_file_name(format!("task-{name}.md"));
    fs::replace(&cwd.join(&path), text.as_bytes(), PRIVATE, Sync::No)?;
    Ok(format!("Read {} and do what it says.", path.display()))
}
