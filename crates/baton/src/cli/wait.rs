//! `baton wait NAME…`: until they are idle, blocked or gone.

use std::time::{Duration, Instant};

use baton_core::agent::Agent;
use baton_core::launch::Launch;
use baton_core::session::Turn;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use super::args::WaitArgs;
use super::screen::{print, print_json};
use super::{App, Outcome};
use crate::providers;
use crate::store::Store;
use crate::sys::process;
use crate::sys::watch::Watch;

/// Look at least this often: a client that is killed changes no file.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub fn run(app: &App, args: &WaitArgs) -> anyhow::Result<Outcome> {
    let store = app.store();
    for name in &args.agents {
        if store.agents().get(name)?.is_none() {
            eprintln!("baton: there is no agent {name}; `baton agents` names them");
            return Ok(Outcome::Nothing);
        }
    }
    let watch = Watch::folders(&[&store.state.join("agents"), &store.state.join("sessions")])?;
    let timeout = args.timeout.map(Duration::try_from).transpose()?;
    let until = timeout.map(|t| Instant::now() + t);
    loop {
        let states: Vec<_> = args.agents.iter().map(|name| (name, at(&store, name))).collect();
        let done = |(_, state): &(_, Option<&str>)| state.is_some();
        if states.iter().all(done) || (args.any && states.iter().any(done)) {
            return tell(args, &states);
        }
        let left = until.map(|u| u.saturating_duration_since(Instant::now()));
        if left.is_some_and(|l| l.is_zero()) {
            let busy: Vec<_> = states.iter().filter(|s| !done(s)).map(|(name, _)| name.as_str()).collect();
            eprintln!("baton: still at work: {}", busy.join(", "));
            return Ok(Outcome::Failed);
        }
        let pause = left.map_or(LOOK_EVERY, |l| l.min(LOOK_EVERY));
        let pause = Timespec { tv_sec: pause.as_secs().cast_signed(), tv_nsec: pause.subsec_nanos().into() };
        match watch.fd() {
            Some(fd) => drop(poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&pause))),
            None => std::thread::sleep(LOOK_EVERY),
        }
        watch.drain(&[]);
    }
}

/// The state in which there is nothing to wait for; nothing while the agent works, starts or rotates.
fn at(store: &Store, name: &baton_core::ids::AgentId) -> Option<&'static str> {
    let agent = store.agents().get(name).ok().flatten()?;
    if !store.agents().is_live(name) || !agent.process.as_ref().is_some_and(process::is_alive) {
        return Some("dead");
    }
    let session = agent.session.as_ref().and_then(|id| store.sessions().get(id).ok().flatten())?;
    let between = session.ended.is_some()
        || session.claim.is_some()
        || session.request.is_some()
        || agent.rotation.is_some();
    match session.turn {
        Turn::Blocked => Some("blocked"),
        Turn::Limit => Some("limit"),
        Turn::Idle if !between && !is_about_to_begin(&agent, session.turn_since.is_some()) => Some("idle"),
        _ => None,
    }
}

/// It was started with a prompt and has not come to it yet.
fn is_about_to_begin(agent: &Agent, has_worked: bool) -> bool {
    let prompted = providers::find(&agent.provider)
        .is_some_and(|p| Launch::parse(&p.grammar, &agent.launch).chooses_its_beginning(&p.grammar));
    prompted && !has_worked && agent.sessions.len() <= 1
}

fn tell(args: &WaitArgs, states: &[(&baton_core::ids::AgentId, Option<&str>)]) -> anyhow::Result<Outcome> {
    if args.json {
        let rows: Vec<_> =
            states.iter().map(|(name, state)| json!({ "agent": name, "state": state })).collect();
        print_json(&rows)?;
    } else {
        let lines: String =
            states.iter().filter_map(|(name, state)| Some(format!("{name}: {}\n", (*state)?))).collect();
        print(&lines)?;
    }
    let dead = states.iter().any(|(_, state)| *state == Some("dead"));
    Ok(if dead { Outcome::Nothing } else { Outcome::Done })
}
