//! Mail to another machine: resolves the address, and accepts the message here.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use baton_core::fleet::address::{Resolved, resolve};
use baton_core::fleet::envelope::{self, Kind};
use baton_core::fleet::presence::Presence;
use baton_core::fleet::{Address, MachineName};
use baton_core::ids::AgentId;
use jiff::Timestamp;

use crate::fleet::config::Membership;
use crate::fleet::outbox::{Outbox, Parcel};
use crate::fleet::roll::{LinkState, LinkView, MachineView, Roll};
use crate::fleet::{ask_for_news, wake};
use crate::mail::maildir::Draft;
use crate::mail::user;

/// How long a command waits for fresh news of other machines before it shows older ones.
const PATIENCE: Duration = Duration::from_secs(2);

/// Resolves `address`, as far as this machine knows. `is_here`: this machine has an agent of that name.
pub(crate) fn whom(state: &Path, address: &Address, is_here: bool) -> anyhow::Result<Resolved> {
    let Some(membership) = Membership::read(state)? else {
        return Ok(match &address.machine {
            Some(machine) => anyhow::bail!(
                "{address} is on {machine}, and this machine is not in a fleet; `baton help fleet` says how to join one"
            ),
            None if is_here => Resolved::Here,
            None => Resolved::Nobody,
        });
    };
    let elsewhere = match Roll::read(state)? {
        Some(roll) if !is_here => roll.machines_with(address.agent.as_str(), &membership.name),
        _ => Vec::new(),
    };
    Ok(resolve(address, Some(&membership.name), is_here, &elsewhere))
}

/// Accepts a message for an agent on another machine. When this returns it is on disk and will not be lost.
pub(crate) fn send(
    state: &Path,
    to: &AgentId,
    machine: &MachineName,
    draft: &Draft<'_>,
    now: Timestamp,
) -> anyhow::Result<RemoteMessage> {
    draft.check()?;
    let there = machine_of(state, machine)?;
    let body = envelope::Mail {
        to: to.clone(),
        from: draft.from.to_owned(),
        at: now,
        urgency: draft.urgency,
        expires: draft.expires,
        text: draft.text.to_owned(),
    };
    let body = serde_json::to_value(body).context("could not encode the message")?;
    let parcel = Outbox::of(state).put(machine, Kind::Mail, draft.expires, body, now)?;
    wake(state);
    let knows =
        |machine: &MachineView| *to == user::id() || machine.agents.iter().any(|a| a.name == to.as_str());
    let away = LinkView::read(state)?.filter(|link| link.state != LinkState::Connected);
    Ok(RemoteMessage {
        away: away.map(|link| link.since),
        is_awake: there.as_ref().map(|m| m.presence == Presence::Awake),
        is_known: there.as_ref().map(knows),
        parcel,
    })
}

/// An accepted message, and the last known state of its reader.
#[derive(Debug)]
pub(crate) struct RemoteMessage {
    pub parcel: Parcel,
    /// Since when the database cannot be reached.
    pub away: Option<Timestamp>,
    /// `None` if this machine does not know the other one.
    pub is_awake: Option<bool>,
    /// Whether the other machine has shown an agent of that name.
    pub is_known: Option<bool>,
}

/// The machine of this name, if the list of machines is known. Refuses one that is missing or gone.
pub(super) fn machine_of(state: &Path, name: &MachineName) -> anyhow::Result<Option<MachineView>> {
    let Some(roll) = Roll::read(state)? else { return Ok(None) };
    let find = |roll: Roll| roll.machines.into_iter().find(|m| m.name == *name);
    let found = if let Some(found) = find(roll) {
        found
    } else {
        // It may have joined since.
        let (roll, is_fresh) = ask_for_roll(state)?;
        roll.and_then(find).with_context(|| {
            if is_fresh {
                format!("there is no machine {name} in the fleet; `baton fleet machines` names them")
            } else {
                format!(
                    "no machine {name} is known here, and the database has not answered whether there is one now; \
                     `baton fleet status` tells why"
                )
            }
        })?
    };
    anyhow::ensure!(
        found.presence != Presence::Gone,
        "{name} is gone: it left, was revoked, or has not been heard for a week"
    );
    Ok(Some(found))
}

/// The current descriptions of all machines, or the last known ones.
pub(crate) fn fresh_roll(state: &Path) -> anyhow::Result<Option<Roll>> {
    Ok(ask_for_roll(state)?.0)
}

/// The same, and whether they are current.
fn ask_for_roll(state: &Path) -> anyhow::Result<(Option<Roll>, bool)> {
    // Not by the clock, which may differ from the daemon's.
    let before = Roll::read(state)?.map(|roll| roll.at);
    ask_for_news(state);
    let until = Instant::now() + PATIENCE;
    loop {
        let roll = Roll::read(state)?;
        let is_fresh = roll.as_ref().is_some_and(|roll| Some(roll.at) != before);
        if is_fresh || Instant::now() >= until {
            return Ok((roll, is_fresh));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
