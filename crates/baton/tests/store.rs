//! Checks of a store that do not ask the binary.

use std::path::Path;

use baton::testing::Agents;
use baton::testing::handoffs::{Draft, Handoffs};
use baton_core::agent::Agent;
use baton_core::handoff::{Entry, HandoffId, Header, Kind, Manifest};
use baton_core::ids::{AgentId, ChannelName, SessionId};
use baton_testkit::Home;
use jiff::{SignedDuration, Timestamp};

pub fn channel(name: &str) -> ChannelName {
    ChannelName::new(name).unwrap()
}

pub fn handoffs(home: &Home) -> Handoffs {
    Handoffs::new(home.store(), SignedDuration::from_hours(2), Box::new(Entry::is_addressed))
}

/// Seals a handoff without the binary, as an earlier session would have.
pub fn seal(home: &Home, name: &str, body: &str) -> HandoffId {
    let draft = Draft {
        channel: &channel(name),
        session: &SessionId::new("earlier").unwrap(),
        kind: Kind::Auto,
        working_dir: "/",
        body,
        created_by_pid: 1,
        for_agent: None,
        for_session: None,
        rotation: None,
        carried: None,
    };
    handoffs(home).seal(&draft, Timestamp::now()).unwrap().entry.id
}

/// Returns the manifest after checking what a store promises at every instant: the manifest is sound, and every handoff
/// it lists has a whole document that carries its id.
#[track_caller]
pub fn verified(home: &Home, name: &ChannelName) -> Manifest {
    let store = handoffs(home);
    let manifest = store.manifest(name).unwrap();
    for entry in manifest.entries() {
        let text = store.document(name, &manifest, entry).unwrap();
        let (header, _) = Header::parse(&text).unwrap();
        assert_eq!(header.id, entry.id);
        assert!(text.ends_with('\n'), "{} is torn", entry.id);
    }
    manifest
}

/// The text of handoff `id` in the archive.
#[track_caller]
pub fn archived_body(home: &Home, id: &HandoffId) -> String {
    let text = std::fs::read_to_string(handoffs(home).archived_path(id)).unwrap();
    let (header, body) = Header::parse(&text).unwrap();
    assert_eq!(&header.id, id);
    body.to_owned()
}

/// Files below `dir` that a killed or failing writer left behind.
pub fn leftovers(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            found.extend(leftovers(&entry.path()));
        } else if entry.path().extension().is_some_and(|e| e == "tmp") {
            found.push(name);
        }
    }
    found
}

/// Creates an agent that lives as long as this test, so that a handoff addressed to it waits for it.
pub fn live_agent(home: &Home, name: &str) {
    let (id, cwd) = (AgentId::new(name).unwrap(), home.project().display().to_string());
    let mut agent = Agent::new(id, "claude", channel("app"), cwd, Timestamp::now());
    agent.process = baton::testing::identify(std::process::id());
    Agents::new(&home.path().join(".local/state/baton")).put(&agent).unwrap();
}
