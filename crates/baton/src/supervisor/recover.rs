//! Before a start: what an earlier supervisor left unfinished, and who the agent is.

use std::time::Duration;

use baton_core::agent::Agent;
use baton_core::handoff::Status;
use baton_core::ids::AgentId;
use baton_core::launch::Launch;
use baton_core::rotation::{Effect, Event, Facts, Rotation, Step};
use jiff::Timestamp;

use super::{Options, PATIENCE};
use crate::config::Config;
use crate::hot::project_name;
use crate::store::{Store, rotations};
use crate::sys::lock::Lock;
use crate::sys::{child, process};

/// How long an old client is given that was perhaps told to end already.
const TIME_TO_DIE: Duration = Duration::from_secs(1);

/// What was found, and the rotation this start shall finish.
pub struct Found {
    pub adopt: Option<Rotation>,
    pub to_say: Vec<String>,
}

/// Looks at every open rotation whose supervisor is dead: finishes, gives up, or takes one over.
pub fn open_rotations(
    store: &Store,
    config: &Config,
    options: &Options,
    launch: &Launch,
) -> anyhow::Result<Found> {
    let mut found = Found { adopt: None, to_say: Vec::new() };
    let is_orphan = |r: &Rotation| r.step.is_open() && !process::is_alive(&r.supervisor);
    if !rotations::any(&store.state, is_orphan) {
        return Ok(found);
    }
    // Of two starts at once only one recovers.
    let _lock = Lock::acquire(&store.state.join("run/recover.lock"), PATIENCE)?;
    let channel = channel(store, config, options)?;
    let me = process::identify(std::process::id());
    for mut rotation in rotations::which(&store.state, is_orphan) {
        let Some(agent) = store.agents().get(&rotation.agent)? else { continue };
        let facts = facts(store, config, &agent, &rotation);
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
                rotations::put(&store.state, &rotation)?;
                found.to_say.push(format!(
                    "baton: continuing {} from handoff {}; its rotation was cut short",
                    rotation.agent, rotation.handoff
                ));
                found.adopt = Some(rotation);
                continue;
            }
            // Another start will be given the handoff by its own hooks; nobody else finishes this one.
            rotation.step = Step::Failed;
            rotation.note =
                Some("its supervisor was killed; the handoff waits for the next start".to_owned());
            found.to_say.push(format!(
                "baton: a rotation of {} was cut short; handoff {} waits",
                rotation.agent, rotation.handoff
            ));
        }
        rotations::put(&store.state, &rotation)?;
        found.to_say.extend(effects.into_iter().filter_map(|e| match e {
            Effect::Over(line) => line,
            _ => None,
        }));
    }
    Ok(found)
}

fn facts(store: &Store, config: &Config, agent: &Agent, rotation: &Rotation) -> Facts {
    if let Some(old) = rotation.old.as_ref().filter(|_| rotation.step == Step::Stopping) {
        // It may have been told to end just before its supervisor was killed.
        child::wait_for_end(old, TIME_TO_DIE);
    }
    let alive = |p: &Option<baton_core::process::Process>| p.as_ref().is_some_and(process::is_alive);
    let entry = store.handoffs(config).find(&agent.channel, &rotation.handoff).ok().flatten();
    let loaded = entry.is_some_and(|l| {
        l.entry.status == Status::Consumed
            || l.entry.claim.as_ref().and_then(|c| c.process.as_ref()).is_some_and(process::is_alive)
    });
    Facts {
        old_alive: alive(&rotation.old) && rotation.old != rotation.new,
        new_alive: alive(&rotation.new) || (rotation.new.is_none() && alive(&agent.process)),
        loaded,
    }
}

fn channel(
    store: &Store,
    config: &Config,
    options: &Options,
) -> anyhow::Result<baton_core::ids::ChannelName> {
    let paths = crate::paths::Paths::from_env()?;
    let env = std::env::var("BATON_CHANNEL").ok();
    let _ = store;
    Ok(crate::channel::of(&options.cwd, None, env, config, &paths)?.name)
}

/// Registers the agent under the name asked for, or the next free one of the project.
pub fn new_agent(store: &Store, config: &Config, options: &Options) -> anyhow::Result<AgentId> {
    let channel = channel(store, config, options)?;
    let now = Timestamp::now();
    let cwd = options.cwd.display().to_string();
    let parent = std::env::var("CLAUDE_SESSION_MANAGER_ID").ok().and_then(|id| AgentId::new(id).ok());
    let make = |id: AgentId| {
        let mut agent = Agent::new(id, options.provider.name, channel.clone(), cwd.clone(), now);
        agent.parent.clone_from(&parent);
        agent
    };
    let Some(name) = &options.name else {
        return Ok(store.agents().create(&project_name(&options.cwd), make)?.id);
    };
    if let Some(known) = store.agents().get(name)? {
        anyhow::ensure!(
            !store.agents().is_live(name),
            "agent {name} is already running; choose another name or `baton retire {name}` first"
        );
        // An agent that has ended comes back under its name.
        return Ok(known.id);
    }
    store.agents().put(&make(name.clone()))?;
    Ok(name.clone())
}
