//! Handoffs that change their home machine.
//!
//! `fleet/homes/{handoff}.json` says where a handoff that was ever given to another machine is, as far as this machine
//! knows. It is written before the database is asked, and the hooks here can no longer claim the handoff then, so at
//! no instant two machines may. `baton_core::fleet::home` has the rules.
//!
//! When the database knows all that a record says, the record is renamed into `homes/settled/`, so that the daemon reads
//! only what has yet to move when it wakes. If both folders have a record of a handoff, the one in `homes/` is newer.

#[cfg(feature = "fleet")]
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use baton_core::fleet::MachineName;
use baton_core::fleet::envelope::{Handoff, Kind};
use baton_core::fleet::home::Local;
#[cfg(feature = "fleet")]
use baton_core::fleet::{home::Move, watermark};
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

/// The folder of the settled records, below the others.
const SETTLED: &str = "settled";
/// How long a command waits for the database to move a handoff.
const PATIENCE: Duration = Duration::from_secs(15);
/// And for the daemon to try a database once more that was away.
const SECOND_TRY: Duration = Duration::from_secs(3);

/// Where a handoff is, and its transfer data.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HomeRecord {
    pub handoff: HandoffId,
    pub local: Local,
    /// Since when: of a move, when the database acknowledged it.
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

impl HomeRecord {
    /// Whether the database knows all of it.
    fn is_settled(&self) -> bool {
        match self.local {
            Local::Here { .. } => true,
            Local::Leaving { .. } => false,
            Local::Away { .. } => !self.again,
        }
    }

    /// The machine that it was given to.
    #[cfg(feature = "fleet")]
    pub(super) fn gone_to(self) -> Option<MachineName> {
        match self.local {
            Local::Here { .. } => None,
            Local::Leaving { to, .. } | Local::Away { to, .. } => Some(to),
        }
    }

    /// The move that the database does not know yet.
    #[cfg(feature = "fleet")]
    pub(super) fn unsaid(&self, me: &MachineName) -> Option<Move> {
        self.local.wanted_move(me).filter(|_| !self.is_settled())
    }

    /// Marks a move for repetition, because the database was restored from a backup: the moves of the last days are sent
    /// again, with the document unless the other side has it. Returns whether this changes the record.
    #[cfg(feature = "fleet")]
    pub(super) fn say_again(&mut self, is_there: impl Fn(&Parcel) -> bool, now: Timestamp) -> bool {
        let local = self.local.after_restore();
        let has_changed = local != self.local;
        if has_changed {
            (self.local, self.at) = (local, now);
        }
        let is_again =
            matches!(self.local, Local::Away { .. }) && now.duration_since(self.at) < watermark::KEPT;
        let was_again = std::mem::replace(&mut self.again, is_again);
        let is_dropped = is_again && self.parcel.take_if(|parcel| is_there(parcel)).is_some();
        has_changed || was_again != is_again || is_dropped
    }

    /// Drops the document of a move that is too old to be repeated. Returns whether this changes the record.
    #[cfg(feature = "fleet")]
    pub(super) fn forget_move(&mut self, now: Timestamp) -> bool {
        let is_over =
            matches!(self.local, Local::Away { .. }) && now.duration_since(self.at) >= watermark::KEPT;
        is_over && (std::mem::take(&mut self.again) | self.parcel.take().is_some())
    }
}

/// The folder of the records, and of the patches that came with handoffs.
pub(super) fn dir(state: &Path) -> PathBuf {
    folder(state).join("homes")
}

fn settled_dir(state: &Path) -> PathBuf {
    dir(state).join(SETTLED)
}

fn file(handoff: &HandoffId) -> String {
    format!("{handoff}.json")
}

pub(crate) fn read(state: &Path, handoff: &HandoffId) -> Result<Option<HomeRecord>, FileError> {
    // In this order: a record that is moved in between is found in the second place.
    match record::read(&dir(state).join(file(handoff)))? {
        Some(home) => Ok(Some(home)),
        None => record::read(&settled_dir(state).join(file(handoff))),
    }
}

/// The handoffs whose records are not among the settled ones.
#[cfg(feature = "fleet")]
pub(super) fn unsettled(state: &Path) -> Result<BTreeSet<HandoffId>, FileError> {
    handoffs_in(&dir(state))
}

/// All handoffs that left this machine or came to it.
#[cfg(feature = "fleet")]
pub(super) fn all(state: &Path) -> Result<BTreeSet<HandoffId>, FileError> {
    let mut all = unsettled(state)?;
    all.extend(handoffs_in(&settled_dir(state))?);
    Ok(all)
}

#[cfg(feature = "fleet")]
fn handoffs_in(dir: &Path) -> Result<BTreeSet<HandoffId>, FileError> {
    let names = fs::names(dir)?;
    Ok(names.iter().filter_map(|name| HandoffId::new(name.strip_suffix(".json")?).ok()).collect())
}

/// Stores a record.
pub(crate) fn keep(state: &Path, home: &HomeRecord) -> Result<(), FileError> {
    fs::private_dirs(&dir(state), &[SETTLED])?;
    record::write_synced(&dir(state).join(file(&home.handoff)), home)?;
    settle(state, home)
}

/// Puts a stored record among the settled ones, if it is one of them.
pub(super) fn settle(state: &Path, home: &HomeRecord) -> Result<(), FileError> {
    if !home.is_settled() {
        return Ok(());
    }
    fs::private_dirs(&dir(state), &[SETTLED])?;
    let (from, to) = (dir(state).join(file(&home.handoff)), settled_dir(state).join(file(&home.handoff)));
    // Not synced: if the machine loses power, the record is in its first place again.
    match std::fs::rename(&from, &to) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(FileError::new("settle", &from, e)),
        _ => Ok(()),
    }
}

/// For a machine that leaves its fleet: moves are no longer repeated, least of all to the next fleet. A handoff on its way
/// may have arrived, so it counts as given away.
#[cfg(feature = "fleet")]
pub(crate) fn leave(state: &Path) -> Result<(), FileError> {
    for handoff in all(state)? {
        let Some(home) = read(state, &handoff)? else { continue };
        if home.parcel.is_some() || !home.is_settled() {
            let local = home.local.after_restore();
            keep(state, &HomeRecord { local, parcel: None, again: false, ..home })?;
        }
    }
    Ok(())
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
    match given {
        Ok(Ok(())) => {}
        Ok(Err(refusal)) => anyhow::bail!("{refusal}; nothing was moved"),
        // What is on record is carried out by the daemon, as after a kill.
        Err(e) if read(state, &id)?.is_some() => {
            return Err(e).with_context(|| {
                format!(
                    "{id} goes to {machine} as soon as this is mended, unless somebody here takes it first"
                )
            });
        }
        Err(e) => return Err(e).context("nothing was moved"),
    }
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

#[cfg(test)]
#[cfg(feature = "fleet")]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn away(at: Timestamp) -> HomeRecord {
        let (handoff, to) =
            (HandoffId::new("HO-20261117-195533-11111111").unwrap(), MachineName::new("desk").unwrap());
        let parcel = Parcel {
            name: format!("h{handoff}"),
            to: to.clone(),
            kind: Kind::Handoff,
            at,
            expires: None,
            body: serde_json::json!({ "text": "the work" }),
            channel: None,
        };
        let local = Local::Away { to, epoch: 2 };
        let (from, channel, waits, why) = (None, None, None, None);
        HomeRecord { handoff, local, at, from, channel, parcel: Some(parcel), again: false, waits, why }
    }

    fn places(state: &Path) -> (usize, usize) {
        (unsettled(state).unwrap().len(), handoffs_in(&settled_dir(state)).unwrap().len())
    }

    #[test]
    fn a_record_is_apart_from_when_nothing_is_to_be_said_until_something_is() {
        let dir = tempfile::tempdir().unwrap();
        let (state, now) = (dir.path(), Timestamp::now());
        let mut home = away(now);
        home.local = Local::Leaving { to: MachineName::new("desk").unwrap(), epoch: 2 };
        keep(state, &home).unwrap();
        assert_eq!(places(state), (1, 0));
        keep(state, &away(now)).unwrap();
        assert_eq!(places(state), (0, 1));
        // A restore says it again. The record that is newer counts.
        let mut home = read(state, &home.handoff).unwrap().unwrap();
        assert!(home.say_again(|_| false, now) && home.parcel.is_some());
        keep(state, &home).unwrap();
        assert_eq!(places(state), (1, 1));
        assert!(read(state, &home.handoff).unwrap().unwrap().again);
        assert!(!home.say_again(|_| false, now), "once is enough");
        home.again = false;
        keep(state, &home).unwrap();
        assert_eq!(places(state), (0, 1));
        assert!(!read(state, &home.handoff).unwrap().unwrap().again);
        assert_eq!(all(state).unwrap().len(), 1);
    }

    #[test]
    fn a_record_of_the_earlier_layout_is_read_and_moved() {
        let dir = tempfile::tempdir().unwrap();
        let (state, home) = (dir.path(), away(Timestamp::now()));
        fs::private_dir(&super::dir(state)).unwrap();
        record::write(&super::dir(state).join(file(&home.handoff)), &home).unwrap();
        assert_eq!(is_elsewhere(state, &home.handoff).unwrap().unwrap().split(' ').next_back(), Some("desk"));
        settle(state, &home).unwrap();
        assert_eq!(places(state), (0, 1));
        assert!(is_elsewhere(state, &home.handoff).unwrap().is_some());
        settle(state, &home).unwrap();
    }

    #[test]
    fn after_a_restore_a_move_is_said_again_for_a_week_and_its_document_unless_the_other_side_has_it() {
        let now = Timestamp::now();
        let mut home = away(now);
        assert!(home.say_again(|parcel| parcel.name.ends_with("11111111"), now));
        assert!(home.again && home.parcel.is_none());
        let mut home = away(now - SignedDuration::from_hours(8 * 24));
        assert!(!home.say_again(|_| false, now) && !home.again);
        assert!(home.forget_move(now) && home.parcel.is_none() && !home.forget_move(now));
        assert!(!away(now).forget_move(now));
        // What has waited for longer may have moved a moment ago.
        let mut home = away(now - SignedDuration::from_hours(8 * 24));
        home.local = Local::Leaving { to: MachineName::new("desk").unwrap(), epoch: 2 };
        assert!(home.say_again(|_| false, now) && home.again && home.parcel.is_some());
        assert!(!home.forget_move(now));
        // It was said again for a week, and nobody has heard it.
        assert!(home.forget_move(now + watermark::KEPT) && home.is_settled());
    }

    #[test]
    fn a_machine_that_leaves_its_fleet_says_nothing_to_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let (state, mut home) = (dir.path(), away(Timestamp::now()));
        home.local = Local::Leaving { to: MachineName::new("desk").unwrap(), epoch: 2 };
        keep(state, &home).unwrap();
        leave(state).unwrap();
        assert_eq!(places(state), (0, 1));
        let home = read(state, &home.handoff).unwrap().unwrap();
        assert!(home.parcel.is_none() && home.gone_to().is_some());
    }

    #[test]
    fn records_that_cannot_be_listed_are_not_none() {
        let dir = tempfile::tempdir().unwrap();
        fs::private_dir(&folder(dir.path())).unwrap();
        std::fs::write(super::dir(dir.path()), "no folder").unwrap();
        assert!(unsettled(dir.path()).is_err() && all(dir.path()).is_err());
    }
}
