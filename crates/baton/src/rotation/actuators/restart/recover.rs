//! Before a start: finds rotations that an earlier supervisor left unfinished, and identifies the agent.

use std::time::Duration;

use baton_core::agent::Agent;
use baton_core::handoff::Status;
use baton_core::ids::AgentId;
use baton_core::launch::Launch;
use baton_core::rotation::{Effect, Event, RecoveryFacts, Rotation, Step};
use jiff::Timestamp;

use crate::config::Config;
use crate::project;
use crate::rotation::actuators::restart::{PATIENCE, RunOptions};
use crate::rotation::journal;
use crate::sessions::register::name_is_free;
use crate::sessions::{caller, rights};
use crate::store::Store;
use crate::store::agents::is_reserved;
use crate::store::handoffs::StoreError;
use crate::sys::lock::Lock;
use crate::sys::{child, process};

/// How long to wait for an old client that may have been told to end already.
const TIME_TO_DIE: Duration = Duration::from_secs(1);

/// The rotation that this start must finish, and the message for the user.
pub(super) struct Recovery {
    pub adopt: Option<Rotation>,
    pub to_say: Vec<String>,
}

/// Looks at every open rotation whose supervisor is dead, and finishes it, gives it up, or takes it over.
pub(super) fn open_rotations(
    store: &Store,
    config: &Config,
    options: &RunOptions,
    launch: &Launch,
) -> anyhow::Result<Recovery> {
    let mut found = Recovery { adopt: None, to_say: Vec::new() };
    let is_orphan = |r: &Rotation| r.step.is_open() && !process::is_alive(&r.supervisor);
    if store.rotations().which(is_orphan).is_empty() {
        return Ok(found);
    }
    // Only one of two concurrent starts recovers.
    let _lock = Lock::acquire(&store.state.join("run/recover.lock"), PATIENCE)?;
    let channel = channel(store, config, options)?;
    let me = process::identify(std::process::id());
    for mut rotation in store.rotations().which(is_orphan) {
        let Some(agent) = store.agents().get(&rotation.agent)? else { continue };
        let facts = match facts(store, config, &agent, &rotation) {
            Ok(facts) => facts,
            // The handoff may have been loaded, and then a second client would work on the same task.
            Err(e) => {
                found.to_say.push(format!(
                    "baton: a rotation of {} was cut short and is left as it is, because handoff {} cannot be looked \
                     at: {e}",
                    rotation.agent, rotation.handoff
                ));
                continue;
            }
        };
        let (next, effects) = rotation.next(Event::Found(facts), false);
        rotation = next;
        let ours = agent.channel == channel
            && agent.provider == options.provider.name
            && options.name.as_ref().is_none_or(|n| n == &agent.id)
            && !launch.chooses_its_beginning(&options.provider.grammar)
            && found.adopt.is_none();
        if effects.contains(&Effect::Start) {
            if ours && let Some(me) = &me {
                rotation.supervisor = me.clone();
                journal::record(store, &rotation)?;
                found.to_say.push(format!(
                    "baton: continuing {} from handoff {}; its rotation was cut short",
                    rotation.agent, rotation.handoff
                ));
                found.adopt = Some(rotation);
                continue;
            }
            // Another start gets the handoff from its own hooks; nobody else finishes this rotation.
            rotation.step = Step::Failed;
            rotation.note =
                Some("its supervisor was killed; the handoff waits for the next start".to_owned());
            found.to_say.push(format!(
                "baton: a rotation of {} was cut short; handoff {} waits",
                rotation.agent, rotation.handoff
            ));
        }
        journal::record(store, &rotation)?;
        found.to_say.extend(effects.into_iter().filter_map(|e| match e {
            Effect::Over(line) => line,
            _ => None,
        }));
    }
    Ok(found)
}

fn facts(
    store: &Store,
    config: &Config,
    agent: &Agent,
    rotation: &Rotation,
) -> Result<RecoveryFacts, StoreError> {
    if let Some(old) = rotation.old.as_ref().filter(|_| rotation.step == Step::Stopping) {
        // It may have been told to end just before its supervisor was killed.
        child::wait_for_end(old, TIME_TO_DIE);
    }
    let alive = |p: &Option<baton_core::process::Process>| p.as_ref().is_some_and(process::is_alive);
    let entry = store.handoffs(config).entry(&agent.channel, &rotation.handoff)?;
    let loaded = entry.is_some_and(|entry| {
        entry.status == Status::Consumed
            || entry.claim.as_ref().and_then(|c| c.process.as_ref()).is_some_and(process::is_alive)
    });
    Ok(RecoveryFacts {
        old_alive: alive(&rotation.old) && rotation.old != rotation.new,
        new_alive: alive(&rotation.new) || (rotation.new.is_none() && alive(&agent.process)),
        loaded,
    })
}

fn channel(
    store: &Store,
    config: &Config,
    options: &RunOptions,
) -> anyhow::Result<baton_core::ids::ChannelName> {
    let paths = crate::sys::paths::Paths::from_env()?;
    let env = std::env::var("BATON_CHANNEL").ok();
    let _ = store;
    Ok(crate::project::channel::of(&options.cwd, None, env, config, &paths)?.name)
}

/// Registers the agent under the name asked for, or the next free one of the project.
pub(super) fn new_agent(store: &Store, config: &Config, options: &RunOptions) -> anyhow::Result<AgentId> {
    let channel = channel(store, config, options)?;
    let now = Timestamp::now();
    let cwd = options.cwd.display().to_string();
    let parent = std::env::var("CLAUDE_SESSION_MANAGER_ID").ok().and_then(|id| AgentId::new(id).ok());
    let make = |id: AgentId| {
        let mut agent = Agent::new(id, options.provider.name, channel.clone(), cwd.clone(), now);
        agent.parent.clone_from(&parent);
        agent.approvals = options.approvals;
        agent.approver.clone_from(&options.approver);
        agent
    };
    let Some(name) = &options.name else {
        let is_free = |known: &Agent| name_is_free(store, known, &channel);
        let caller = caller::of_this_process(store);
        let rules = &config.approvals.rules;
        let may_have = |name: &AgentId| rights::refuse_name(store, rules, &caller, name).is_none();
        return Ok(store.agents().create(&project::name(&options.cwd), make, may_have, is_free)?.id);
    };
    anyhow::ensure!(!is_reserved(name), "no agent may be called {name}; choose another name");
    if let Some(known) = store.agents().get(name)? {
        anyhow::ensure!(
            !store.is_running(name),
            "agent {name} is already running; choose another name or `baton retire {name}` first"
        );
        // An agent that has ended comes back under its name.
        store.agents().update(name, PATIENCE, |agent| {
            agent.named = true;
            agent.approvals |= options.approvals;
            if options.approver.is_some() {
                agent.approver.clone_from(&options.approver);
            }
        })?;
        return Ok(known.id);
    }
    store.agents().put(&Agent { named: true, ..make(name.clone()) })?;
    Ok(name.clone())
}
