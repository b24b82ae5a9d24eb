//! Handoffs that change their home machine.
//!
//! `fleet/homes/{handoff}.json` says where a handoff that was ever given to another machine is, as far as this machine
//! knows. It is written before the database is asked, and the hooks here can no longer claim the handoff then, so at
//! no instant two machines may. `baton_core::fleet::home` has the rules.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use baton_core::fleet::MachineName;
use baton_core::fleet::envelope::{Handoff, Kind};
use baton_core::fleet::home::Local;
use baton_core::handoff::{HandoffId, Header};
use baton_core::ids::{AgentId, ChannelName};
use baton_core::session::Session;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::fleet::config::Membership;
use crate::fleet::outbox::Parcel;
use crate::fleet::post::machine_of;
use crate::fleet::roll::{LinkState, LinkView, Roll};
use crate::fleet::{conversations, folder, tree, wake};
use crate::handoffs::seal::{self, Sealing};
use crate::project;
use crate::providers;
use crate::store::handoffs::Draft;
use crate::store::log::LogLine;
use crate::store::{Store, record};
use crate::sys::fs::{self, FileError};

/// How long a command waits for the database to move a handoff.
const PATIENCE: Duration = Duration::from_secs(15);
/// And for the daemon to try a database once more that was away.
const SECOND_TRY: Duration = Duration::from_secs(3);

/// Where a handoff is, and its transfer data.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HomeRecord {
    pub handoff: HandoffId,
    pub local: Local,
    pub at: Timestamp,
    /// The machine it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<MachineName>,
    /// Its channel on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelName>,
    /// The document to send, while it may have to be sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parcel: Option<Parcel>,
    /// The database was restored from a backup, so the move must be repeated to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// It has arrived, and its folder on this machine is not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Handoff>,
    /// Why the last attempt to move it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

pub(super) fn dir(state: &Path) -> PathBuf {
    folder(state).join("homes")
}

pub(crate) fn read(state: &Path, handoff: &HandoffId) -> Result<Option<HomeRecord>, FileError> {
    record::read(&dir(state).join(format!("{handoff}.json")))
}

#[cfg(feature = "fleet")]
pub(crate) fn all(state: &Path) -> Vec<HomeRecord> {
    record::all_readable(&dir(state))
}

pub(crate) fn keep(state: &Path, home: &HomeRecord) -> Result<(), FileError> {
    fs::private_dir(&dir(state))?;
    record::write_synced(&dir(state).join(format!("{}.json", home.handoff)), home)
}

/// Why a handoff cannot be loaded here, if its home is another machine.
pub(crate) fn is_elsewhere(state: &Path, handoff: &HandoffId) -> Result<Option<String>, FileError> {
    let Some(home) = read(state, handoff)? else { return Ok(None) };
    Ok(match &home.local {
        Local::Here { .. } => None,
        Local::Leaving { to, .. } => Some(format!("{handoff} is on its way to {to}")),
        Local::Away { to, .. } => Some(format!("{handoff} was given to {to}")),
    })
}

/// A copy of a handoff that has left this machine, for when its home sleeps and the work must continue. Its home cannot
/// know about the copy, so the copy warns of that. Only a handoff that was once here has a document to copy.
pub(crate) fn copy_of(
    store: &Store,
    config: &Config,
    id: &HandoffId,
    now: Timestamp,
) -> anyhow::Result<HandoffId> {
    let home = read(&store.state, id)?.with_context(|| format!("{id} has never left this machine"))?;
    let (Local::Leaving { to, .. } | Local::Away { to, .. }) = &home.local else {
        anyhow::bail!("the home of {id} is this machine; `baton handoffs load {id}` loads it")
    };
    let (handoffs, roll) = (store.handoffs(config), Roll::read(&store.state)?);
    let text = handoffs.show(id)?.with_context(|| format!("the document of {id} is no longer here"))?;
    let (header, body) =
        Header::parse(&text).with_context(|| format!("could not read the document of {id}"))?;
    let machine = roll.and_then(|roll| roll.machines.into_iter().find(|machine| machine.name == *to));
    let heard = machine.map_or_else(
        || "nothing was heard of it".to_owned(),
        |machine| match machine.heard {
            Some(at) => format!("it is {}, last heard {at}", machine.presence.as_str()),
            None => format!("it is {}, never heard", machine.presence.as_str()),
        },
    );
    let body = format!(
        "> **A copy.** The home of this work is the machine {to} ({heard}), under the id {id}. It can be taken up there too, \
         so find out what was done there before you do something that must happen once.\n\n{}",
        body.trim_start()
    );
    let carried = handoffs.carried(id)?;
    let draft = Draft {
        channel: &header.channel,
        session: &header.session,
        kind: "copy".into(),
        working_dir: &header.working_dir,
        body: &body,
        created_by_pid: std::process::id(),
        for_agent: None,
        for_session: None,
        rotation: None,
        carried: carried.as_ref(),
    };
    let copy = handoffs.seal(&draft, now)?.entry.id;
    let detail = serde_json::json!({ "copy": copy, "of": id, "home": to });
    store.log().append(&LogLine { detail, ..LogLine::new(now, "fleet-copied") });
    Ok(copy)
}

/// Work that goes to another machine.
pub(crate) struct Departure<'a> {
    pub session: &'a Session,
    /// The agent that continues with it there.
    pub agent: &'a AgentId,
    pub machine: &'a MachineName,
    pub narrative: Option<&'a str>,
    pub with_patch: bool,
    /// The session's whole conversation follows.
    pub with_conversation: bool,
}

/// How a departure ended.
pub(crate) enum Departed {
    Moved(HandoffId),
    /// The database went away in between. It decides when it is back; until then nobody can claim the handoff.
    Undecided(HandoffId),
}

/// Refuses an action that needs the database while it is away.
fn require_link(state: &Path) -> anyhow::Result<Membership> {
    let membership = Membership::required(state)?;
    // The daemon pauses between its attempts, so the database may be back by now.
    wake(state);
    let until = Instant::now() + SECOND_TRY;
    loop {
        let away = LinkView::read(state)?.filter(|link| link.state != LinkState::Connected);
        let Some(link) = away else { return Ok(membership) };
        if Instant::now() >= until {
            anyhow::bail!(
                "a handoff changes its machine through the database, which is away since {:.0} ({}); nothing was changed",
                link.since,
                link.why.unwrap_or_default()
            );
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Seals the work of a session and gives it to another machine.
pub(crate) fn depart(store: &Store, config: &Config, departure: &Departure<'_>) -> anyhow::Result<Departed> {
    let state = &store.state;
    let membership = require_link(state)?;
    anyhow::ensure!(*departure.machine != membership.name, "{} is this machine", departure.machine);
    // Before anything is sealed: a name that was mistyped leaves no handoff behind.
    machine_of(state, departure.machine)?;
    let Departure { session, agent, machine, .. } = *departure;
    let cwd = Path::new(&session.cwd);
    let tree = tree::look(cwd, departure.with_patch)?;
    if let Some(why) = tree.hindrance() {
        anyhow::bail!(
            "{machine} cannot continue from here: {why}. Push first, or send the changes with --with-patch"
        );
    }
    // Before anything changes: it may be too large, or not there.
    let conversation = departure.with_conversation.then(|| conversations::cut(store, session)).transpose()?;
    let now = Timestamp::now();
    let kind = if departure.narrative.is_some() {
        baton_core::handoff::Kind::Manual
    } else {
        baton_core::handoff::Kind::Auto
    };
    let sealing = Sealing { session, kind, narrative: departure.narrative, for_self: false };
    // No agent of this machine has such a name.
    let nobody = AgentId::new(format!("{agent}.on.{machine}"))?;
    let reader = seal::Recipient { agent: &nobody, provider: providers::of(&session.provider) };
    let sealed = seal::seal_for(store, config, &sealing, &reader, now)?;
    let (handoffs, id) = (store.handoffs(config), sealed.entry.id);
    let local = Local::default().leave(machine.clone()).context("a handoff that was just sealed is here")?;
    let carried = handoffs.carried(&id)?.map(|carried| serde_json::to_value(carried.stored())).transpose()?;
    let body = Handoff {
        epoch: local.epoch(),
        agent: agent.clone(),
        provider: session.provider.clone(),
        from: session.agent.to_string(),
        cwd: session.cwd.clone(),
        project: project::name(cwd),
        text: handoffs.show(&id)?.context("the handoff vanished while it was sealed")?,
        carried: carried.unwrap_or_default(),
        tree,
        conversation: departure.with_conversation.then(|| session.id.clone()),
    };
    let parcel = Parcel {
        name: format!("h{}", id.as_str()),
        to: machine.clone(),
        kind: Kind::Handoff,
        at: now,
        expires: None,
        body: serde_json::to_value(body)?,
        channel: Some(session.channel.clone()),
    };
    let channel = Some(session.channel.clone());
    let home = HomeRecord {
        handoff: id.clone(),
        local,
        at: now,
        from: None,
        channel,
        parcel: Some(parcel),
        again: false,
        waits: None,
        why: None,
    };
    let given = handoffs.give_away(&session.channel, &id, || keep(state, &home), now);
    if !matches!(given, Ok(Ok(()))) {
        fs::remove(&dir(state).join(format!("{id}.json")))?;
    }
    given?.map_err(|refusal| anyhow::anyhow!("{refusal}; nothing was moved"))?;
    wake(state);
    let until = Instant::now() + PATIENCE;
    loop {
        let home = read(state, &id)?.context("the record of the handoff vanished")?;
        match home.local {
            Local::Away { .. } => {
                if let Some(conversation) = &conversation {
                    conversation.send(store, machine, &conversation.head.missing(None), now).with_context(
                        || format!("{id} was moved, but its conversation could not be sent along"),
                    )?;
                    wake(state);
                }
                return Ok(Departed::Moved(id));
            }
            Local::Here { .. } => {
                anyhow::bail!(
                    "{machine} was not given the handoff: {}; it is active here",
                    home.why.unwrap_or_default()
                )
            }
            Local::Leaving { .. } if Instant::now() >= until => return Ok(Departed::Undecided(id)),
            Local::Leaving { .. } => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}
