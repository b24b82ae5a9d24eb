//! Handoffs that come from other machines: taken in once, in the folder of this machine that they belong to.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use baton_core::agent::Agent;
use baton_core::fleet::MachineName;
use baton_core::fleet::envelope::Handoff;
use baton_core::fleet::home::Local;
use baton_core::handoff::{Carried, HandoffId, Header};
use baton_core::message::Urgency;
use baton_core::prompt;
use jiff::Timestamp;

use crate::config::Config;
use crate::fleet::handoffs::{HomeRecord, dir, is_elsewhere, keep, read};
use crate::fleet::{conversations, tree};
use crate::mail::keyed::{self, Key};
use crate::mail::maildir::{Draft, Mail};
use crate::mail::{self, user};
use crate::project::channel;
use crate::store::Store;
use crate::sys::fs;
use crate::sys::paths::Paths;
use crate::sys::shell::quote;

/// Accepts a handoff whose home is this machine from now on, and returns the receipt for its sender. Known ones change
/// nothing.
pub(crate) fn receive(
    store: &Store,
    paths: &Paths,
    config: &Config,
    from: &MachineName,
    body: &Handoff,
    now: Timestamp,
) -> anyhow::Result<String> {
    let (header, _) = Header::parse(&body.text).context("its document cannot be read")?;
    let known = read(&store.state, &header.id)?;
    let Some(local) = Local::arrive(known.as_ref().map(|known| &known.local), body.epoch) else {
        return Ok("it had come before".to_owned());
    };
    if let Some(session) = &body.conversation {
        conversations::expect(&store.state, from, session)?;
    }
    // A folder that cannot be judged is one for the user to choose.
    let place = place(store, paths, config, body).unwrap_or_else(|e| {
        store.log().fault(now, "find the folder of a handoff from another machine", &format!("{e:#}"));
        None
    });
    let home = |waits| HomeRecord {
        handoff: header.id.clone(),
        local: local.clone(),
        at: now,
        from: Some(from.clone()),
        channel: place.as_ref().map(|(agent, _)| agent.channel.clone()),
        parcel: None,
        again: false,
        waits,
        why: None,
    };
    let Some((agent, is_new)) = &place else {
        keep(&store.state, &home(Some(body.clone())))?;
        let remote = body.tree.remote.as_deref().unwrap_or("no remote");
        let text = format!(
            "Handoff {} of {}@{from} is here, and no folder of this machine is known that it belongs to ({}, {remote}). \
             Clone or choose one, then: baton fleet take {} --into FOLDER",
            header.id, body.from, body.project, header.id
        );
        tell_user(store, &header.id, &text, now)?;
        return Ok("it waits for its user to choose a folder".to_owned());
    };
    let said = install(store, config, from, body, agent, *is_new, now)?;
    // Last: as long as this is missing, it is installed again.
    keep(&store.state, &home(None))?;
    Ok(said)
}

/// Continues with a waiting handoff in the folder that the user has chosen.
pub(crate) fn take(
    store: &Store,
    paths: &Paths,
    config: &Config,
    handoff: &HandoffId,
    into: &Path,
) -> anyhow::Result<String> {
    let mut home = read(&store.state, handoff)?
        .with_context(|| format!("no handoff {handoff} came from another machine"))?;
    if let Some(why) = is_elsewhere(&store.state, handoff)? {
        anyhow::bail!("{why}; it can be claimed there and nowhere else");
    }
    let Some(body) = home.waits.take() else {
        anyhow::bail!("{handoff} waits for nothing; `baton handoffs load {handoff}` loads it")
    };
    let now = Timestamp::now();
    let agent = newcomer(paths, config, &body, into, now)?;
    let agent = match store.agents().get(&agent.id)? {
        Some(known) => known,
        None => agent,
    };
    let from = home.from.clone().context("it is not on record where it came from")?;
    let said = install(store, config, &from, &body, &agent, true, now)?;
    home.channel = Some(agent.channel);
    keep(&store.state, &home)?;
    Ok(said)
}

fn newcomer(
    paths: &Paths,
    config: &Config,
    body: &Handoff,
    cwd: &Path,
    now: Timestamp,
) -> anyhow::Result<Agent> {
    let cwd = channel::real(cwd);
    let channel = channel::of(&cwd, None, None, config, paths)?.name;
    Ok(Agent::new(body.agent.clone(), &body.provider, channel, cwd.display().to_string(), now))
}

/// The agent that continues with it here, with its folder, and whether it is new here.
fn place(
    store: &Store,
    paths: &Paths,
    config: &Config,
    body: &Handoff,
) -> anyhow::Result<Option<(Agent, bool)>> {
    if let Some(agent) = store.agents().get(&body.agent)? {
        return Ok(Some((agent, false)));
    }
    let fits = |cwd: &str| -> bool {
        let dir = Path::new(cwd);
        match &body.tree.remote {
            Some(remote) => tree::remote(dir).ok().flatten().as_ref() == Some(remote),
            None => body.cwd == cwd && dir.is_dir() && body.tree.commit.is_none(),
        }
    };
    let known = store.agents().all().into_iter().map(|agent| agent.cwd);
    let known = known.chain(store.sessions().all().into_iter().map(|session| session.cwd));
    // Prefer a folder where an agent has worked here over one that only has the same path.
    let mut asked = HashSet::new();
    let folder = known
        .chain(std::iter::once(body.cwd.clone()))
        // Many sessions have the same folder, and git takes a while.
        .find(|cwd| asked.insert(cwd.clone()) && fits(cwd));
    let now = Timestamp::now();
    folder.map(|cwd| Ok((newcomer(paths, config, body, Path::new(&cwd), now)?, true))).transpose()
}

fn install(
    store: &Store,
    config: &Config,
    from: &MachineName,
    body: &Handoff,
    agent: &Agent,
    is_new: bool,
    now: Timestamp,
) -> anyhow::Result<String> {
    let (header, text) = Header::parse(&body.text).context("its document cannot be read")?;
    if is_new {
        let agent = Agent { named: true, ..agent.clone() };
        store.agents().create_named(&agent)?;
    }
    let id = header.id.clone();
    let header = Header {
        channel: agent.channel.clone(),
        working_dir: agent.cwd.clone(),
        for_agent: Some(agent.id.clone()),
        for_session: None,
        ..header
    };
    let carried: Option<Carried> = serde_json::from_value(body.carried.clone()).ok();
    let changes = match &body.tree.patch {
        Some(text) => {
            let file = dir(&store.state).join(format!("{id}.patch"));
            fs::private_dir(&dir(&store.state))?;
            fs::replace(&file, text.as_bytes(), fs::PRIVATE, fs::Sync::Yes)?;
            let (base, file) =
                (body.tree.base.as_deref().unwrap_or("the commit"), file.display().to_string());
            format!("What no remote has is in {file}: git checkout {base} && git apply {}", quote(&file))
        }
        None => String::new(),
    };
    let note = format!(
        "This work comes from the machine {from}, folder {}: {}. {changes}",
        body.cwd,
        body.tree.summary()
    );
    let text = format!("{}\n\n## Where it comes from\n\n{}\n", text.trim_end(), note.trim_end());
    let sealed = store.handoffs(config).arrive(&header, &text, carried.as_ref(), now)?;
    let path = sealed.path.display().to_string();
    store.agents().update(&agent.id, Duration::from_secs(2), |a| {
        a.last_handoff = Some(id.clone());
        a.last_handoff_path = Some(path);
        a.retired = None;
    })?;
    let sender = format!("{}@{from}", body.from);
    if store.presence(agent).is_there() {
        let text = format!(
            "Handoff {id} is for you: it holds the work of {sender}. `baton handoffs load {id}` shows it to you and \
             marks it as taken."
        );
        let draft = Draft { urgency: Urgency::Important, ..Draft::new(&sender, &text) };
        mail::send(store, agent, &draft, Some(&Key::new(format!("arrived-{id}"))?), now)?;
        return Ok(format!("{} runs there and was told", agent.id));
    }
    let prompt = prompt::continuation(&id, None);
    let command = format!("baton run --name {} {} {}", agent.id, agent.provider, quote(&prompt));
    let text = format!(
        "Handoff {id} of {sender} is here for {}. Start it in {} with:\n\n  {command}",
        agent.id, agent.cwd
    );
    tell_user(store, &id, &text, now)?;
    Ok(format!("it waits for {} to be started in {}", agent.id, agent.cwd))
}

fn tell_user(store: &Store, id: &HandoffId, text: &str, now: Timestamp) -> anyhow::Result<()> {
    let key = Key::new(format!("arrived-{id}"))?;
    keyed::post(&Mail::of(store), &user::id(), &Draft::new("baton", text), &key, now)?;
    Ok(())
}
