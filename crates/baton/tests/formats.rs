//! Files of earlier versions can always be read; files of later versions are refused with an explanation and left
//! alone.
//!
//! `fixtures/formats/0.1` is a home as baton 0.1 left it: a demo's two sessions and its rotation, mail, a checkpoint, a
//! project's memory, an install. `fixtures/formats/1` is one of the first version of formats, when lists, keys and
//! install records had no version yet: a session that was compacted, its handoff with the ledger, a permission request,
//! an accepted folder, an install into Codex, a reminder, a new name, a handoff that was given to another machine. Paths
//! in them begin with `@HOME@`.

use std::path::{Path, PathBuf};

use baton_testkit::home::Home;
use serde_json::{Value, json};

const CHANNEL: &str = "app-9283dc";
const OLD: &str = "f47b6610-f393-4d67-9e48-e41d159240c8";

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/formats").join(name)
}

fn copy(from: &Path, to: &Path, home: &str) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target, home);
        } else {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            std::fs::write(target, text.replace("@HOME@", home)).unwrap();
        }
    }
}

fn old_home() -> Home {
    home_of("0.1")
}

fn home_of(version: &str) -> Home {
    let home = Home::new(crate::BATON);
    copy(&fixture(version), home.path(), &home.path().display().to_string());
    home
}

fn json_of(home: &Home, line: &str) -> Value {
    home.run(line).json()
}

#[test]
fn everything_that_version_0_1_wrote_is_read() {
    let home = old_home();
    let agents = json_of(&home, "status --all --json");
    assert_eq!(agents[0]["agent"]["id"], "app-1");
    assert_eq!(agents[0]["agent"]["in_a_row"], 1);
    assert_eq!(agents[0]["percentage"], 16);
    assert_eq!(agents[0]["mail"], 2);

    let handoffs = json_of(&home, &format!("handoffs list --json --channel {CHANNEL}"));
    let ids: Vec<_> = handoffs.as_array().unwrap().iter().map(|h| &h["id"]).collect();
    assert_eq!(ids, ["HO-20261117-121235-manual", "HO-20261117-121219-f47b6610"]);
    let shown = home.run(&format!("handoffs show HO-20261117-121219-f47b6610 --channel {CHANNEL}")).ok();
    assert!(shown.contains("Let `stamp` take `now` as well"), "{shown}");
    let history = home.run(&format!("handoffs history --channel {CHANNEL}")).ok();
    assert!(history.contains("consumed"), "{history}");

    let inbox = home.run("inbox app-1 --json").json();
    let texts: Vec<_> = inbox.as_array().unwrap().iter().map(|m| m["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["Mind the API", "The schema changed", "Look at this"]);

    let sessions = json_of(&home, "sessions list --all --json");
    assert_eq!(sessions.as_array().unwrap().len(), 2);
    let backups = json_of(&home, "backup list --json");
    assert!(backups.to_string().contains(OLD), "{backups}");
    home.run("backup verify").ok();
    let log = home.run("log --json --all").ok();
    assert!(log.contains("rotation-requested"), "{log}");
    let mut latest = home.baton(["checkpoint", "latest"]);
    let checkpoint = baton_testkit::home::run(latest.current_dir(home.path().join("app"))).ok();
    assert!(checkpoint.contains("Release 2.0"), "{checkpoint}");
    assert!(!home.run("doctor").out.contains("cannot be understood"));
}

#[test]
fn everything_that_the_first_version_of_formats_wrote_is_read() {
    let home = home_of("1");
    let id = "HO-20261117-195533-11111111";
    let shown = home.run(&format!("handoffs show {id} --channel app-57a474")).ok();
    assert!(shown.contains("Never use macros."), "{shown}");
    let chain = json_of(&home, &format!("handoffs chain {id} --channel app-57a474 --json"));
    assert!(chain.to_string().contains(id), "the ledger beside it is read: {chain}");
    let log = home.run("approvals log").ok();
    assert!(log.contains("cargo test -p core") && log.contains("allowed"), "{log}");
    let trusted = json_of(&home, "trust --list --json").to_string();
    assert!(trusted.contains(&home.project().display().to_string()), "{trusted}");
    let inbox = json_of(&home, "inbox --json").to_string();
    assert!(inbox.contains("was compacted before it had handed off"), "{inbox}");
    assert!(home.run("status --all --json").json().to_string().contains("\"tokens\":30000"));
    // Both are of a later year, or they would be over.
    let reminders = json_of(&home, "reminders --json").to_string();
    assert!(reminders.contains("Check the build"), "{reminders}");
    let renamed = json_of(&home, "what parser --json").to_string();
    assert!(renamed.contains("\"app\""), "{renamed}");
    // It was given to another machine, before settled records had a folder of their own.
    let given = home.run("handoffs load HO-20261117-195601-22222222").fails(1);
    assert!(given.contains("was given to desk"), "{given}");
    assert!(!home.run("doctor").out.contains("cannot be understood"));
    // It knows what was installed and removes exactly that.
    home.run("uninstall --yes --provider codex").ok();
    assert!(!home.path().join(".codex/hooks.json").exists());
    assert!(!home.state().join("codex/install.json").exists());
}

#[test]
fn every_rotation_journal_of_version_0_1_is_understood() {
    let home = old_home();
    let store = baton::testing::Store { state: home.state(), claude: home.path().join(".claude") };
    let all = store.rotations().which(|_| true);
    let told: Vec<_> =
        all.iter().map(|r| (r.actuator.as_str(), r.file.as_deref(), r.thread.as_ref())).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told.contains(&("tmux", Some("/p/.baton/handoff-app-1.md"), None)), "{told:?}");
    assert!(told.iter().any(|(actuator, _, thread)| *actuator == "thread" && thread.is_some()), "{told:?}");
    assert!(all.iter().all(|r| r.unknown.is_empty()), "nothing known lies in the unknown");
}

#[test]
fn new_files_state_their_version() {
    let home = old_home();
    home.run("send app-1 hello there").ok();
    let new = home.state().join("mail/app-1/new");
    let newest = std::fs::read_dir(new).unwrap().map(|e| e.unwrap().path()).max().unwrap();
    assert!(std::fs::read_to_string(newest).unwrap().starts_with("{\"v\":1,"));
    home.run("retire app-1").ok();
    assert!(
        std::fs::read_to_string(home.state().join("agents/app-1.json")).unwrap().starts_with("{\"v\":1,")
    );
    home.run("memory init").ok();
    home.run("install --yes --provider codex").ok();
    for name in ["memory/projects.json", "codex/install.json"] {
        let text = std::fs::read_to_string(home.state().join(name)).unwrap();
        assert!(text.starts_with("{\"v\":1,"), "{name}: {text}");
    }
}

/// Whether a file begins with a version: `{"v":1,…` as records do, or `{"version":1,…` as manifests and caches do.
fn says_its_version(text: &str) -> bool {
    let head: String = text.chars().filter(|c| !c.is_whitespace()).take(12).collect();
    head.starts_with("{\"v\":") || head.starts_with("{\"version\":")
}

fn files_below(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            files_below(&entry.path(), into);
        } else {
            into.push(entry.path());
        }
    }
}

/// A new kind of record cannot be forgotten: every file of ours that holds JSON is checked.
#[test]
fn every_file_of_ours_says_the_version_of_its_format() {
    /// Files in the formats of the clients, and copies of files of theirs.
    const OF_OTHERS: [&str; 4] = ["plugin/", "mirror/", "originals/", "aside/"];
    let home = Home::new(crate::BATON);
    home.trust();
    home.run("install --yes").ok();
    home.run("install --yes --provider codex").ok();
    home.run("memory init").ok();
    let client = baton_testkit::hooks::Client::new(&home);
    client.starts("startup").ok();
    client.record(&json!({ "type": "user", "message": { "content": "Port the tests." } }));
    client.answers(20_000);
    client.hook("UserPromptSubmit").ok();
    client.hook("PostToolUse").ok();
    client.status_line(Some(30_000));
    home.run(&format!("send {} --important hello", client.agent())).ok();
    home.run("send user hello").ok();
    client.hook("PostToolUse").ok();
    home.run("checkpoint --goal g --now n").ok();
    let words = home.write("words.md", "# Words\nNext: the parser.");
    home.run(&format!("handoffs seal {}", words.display())).ok();
    client.hook_with("PreCompact", json!({ "trigger": "auto" })).ok();
    home.run("sessions list --all");
    home.run("backup verify").ok();
    home.run(&format!("rename {} other", client.agent())).ok();
    client.hook_with("SessionEnd", json!({ "reason": "clear" })).ok();

    let mut files = Vec::new();
    files_below(&home.state(), &mut files);
    files_below(&home.store(), &mut files);
    let mut kinds = std::collections::BTreeSet::new();
    for file in &files {
        let name = file.strip_prefix(home.path()).unwrap().display().to_string();
        let name = name.trim_start_matches(".local/state/baton/");
        let Ok(text) = std::fs::read_to_string(file) else { continue };
        let is_json = text.starts_with('{') || text.starts_with('[');
        let meta_of_a_mirror = name.ends_with("/meta.json");
        if is_json && (meta_of_a_mirror || !OF_OTHERS.iter().any(|folder| name.starts_with(folder))) {
            assert!(says_its_version(&text), "{name}: {}", text.lines().next().unwrap_or_default());
            kinds.insert(name.split('/').next().unwrap().to_owned());
        }
    }
    let expected =
        ["agents", "cache", "codex", "install.json", "log", "mail", "memory", "mirror", "processes"];
    for kind in expected.iter().chain(&["renamed", "sessions", "trust.json", "verified.json"]) {
        assert!(kinds.contains(*kind), "no {kind} was written: {kinds:?}");
    }
}

#[test]
fn a_record_of_a_later_version_is_refused_with_an_explanation_and_left_alone() {
    let home = old_home();
    let path = home.state().join("agents/app-1.json");
    let later = json!({ "v": 99, "id": { "moved": true } }).to_string();
    std::fs::write(&path, &later).unwrap();
    let said = home.run("send app-1 hello").fails(1);
    assert!(said.contains("a newer baton wrote it") && said.contains("Update baton"), "{said}");
    home.run("retire app-1").fails(1);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), later);
}

/// An unreadable list is not an empty one: nothing overwrites it, and everything that it may name is kept.
#[test]
fn commands_that_would_add_to_a_list_of_a_later_version_leave_it_alone() {
    let home = Home::new(crate::BATON);
    home.trust();
    home.run("memory init").ok();
    let client = baton_testkit::hooks::Client::new(&home);
    client.starts("startup").ok();
    client.answers(20_000);
    client.record(&serde_json::json!({ "type": "user", "message": { "content": "Port the tests." } }));
    let later = "{\"v\":99,\"all\":[]}\n";
    let lists = [
        home.project().join(".claude/memory/.pending.json"),
        home.state().join("memory/projects.json"),
        home.state().join("offers.json"),
    ];
    for path in &lists {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, later).unwrap();
    }
    client.hook("PreCompact");
    client.hook_with("SessionEnd", serde_json::json!({ "reason": "clear" }));
    home.run("memory pending");
    home.run("memory discard");
    home.run("backup prune");
    for path in &lists {
        assert_eq!(std::fs::read_to_string(path).unwrap(), later, "{}", path.display());
    }
}

/// One file of each kind, as a newer baton might leave it, which no hook or cleaning command may touch.
#[test]
fn files_of_a_later_version_survive_every_hook_and_every_cleaning_command() {
    let home = Home::new(crate::BATON);
    home.trust();
    home.run("install --yes").ok();
    home.run("install --yes --provider codex").ok();
    home.run("memory init").ok();
    let client = baton_testkit::hooks::Client::new(&home);
    client.starts("startup").ok();
    // Only after the start, which would have loaded it.
    let words = home.write("words.md", "# Words\nNext: the parser.");
    home.run(&format!("handoffs seal {}", words.display())).ok();
    let id = home.run("handoffs current").ok().split_whitespace().next().unwrap().to_owned();
    let channel = home.run("channel").ok().trim().to_owned();
    client.answers(20_000);
    client.record(&json!({ "type": "user", "message": { "content": "Port the tests." } }));
    client.hook("PostToolUse").ok();
    let (session, agent) = (client.session.clone(), client.agent());
    home.run("checkpoint --goal g --now n").ok();

    let later = "{\"v\":99,\"all\":{\"moved\":true}}\n".to_owned();
    let document = |id: &str| {
        let text = std::fs::read_to_string(home.store().join(format!("archive/{id}.md"))).unwrap();
        text.replace("<!-- FORMAT: 1 -->", "<!-- FORMAT: 99 -->")
    };
    let state = |name: &str| home.state().join(name);
    let kinds: Vec<(PathBuf, String)> = vec![
        (state(&format!("sessions/{session}.gauge")), later.clone()),
        (state(&format!("ledgers/{session}.json")), later.clone()),
        (state(&format!("cache/checkpoint-{channel}.json")), later.clone()),
        (state(&format!("mail/{agent}/new/m00000000000000000001-i1-0000")), later.clone()),
        (state(&format!("mail/{agent}/keys/k-1")), later.clone()),
        (state("rotations/R-20261117-121219378-x.json"), later.clone()),
        (state("companions/1.json"), later.clone()),
        (state("install.json"), later.clone()),
        (state("codex/install.json"), later.clone()),
        (state("trust.json"), later.clone()),
        (state("compaction.json"), later.clone()),
        (state("memory/projects.json"), later.clone()),
        (state("offers.json"), later.clone()),
        (home.project().join(".claude/memory/.pending.json"), later.clone()),
        (home.store().join(format!("archive/{id}.md")), document(&id)),
        (home.store().join(format!("archive/{id}.json")), later.clone()),
    ];
    // A copy of the newest document: a seal replaces it.
    let current = (home.store().join(format!("{channel}-CURRENT.md")), document(&id));
    for (path, bytes) in kinds.iter().chain([&current]) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    let sound = |after: &str| {
        for (path, bytes) in &kinds {
            let now = std::fs::read_to_string(path).unwrap_or_else(|e| format!("{e}"));
            assert_eq!(&now, bytes, "{} after {after}", path.display());
        }
    };
    let said = home.run("handoffs load").fails(1);
    assert!(said.contains("newer baton") && said.contains("Update baton"), "{said}");
    assert!(!said.contains("repair"), "nothing is broken: {said}");
    let said = home.run("handoffs repair").fails(1);
    assert!(said.contains("newer baton"), "{said}");
    assert_eq!(std::fs::read_to_string(&current.0).unwrap(), current.1, "repair left it alone");
    sound("repair");
    for line in [
        "install --yes",
        "uninstall --yes",
        "install --yes --provider codex",
        "uninstall --yes --provider codex",
    ] {
        let said = home.run(line).fails(1);
        assert!(said.contains("a newer baton wrote it"), "{line}: {said}");
        sound(line);
    }
    for event in baton_testkit::hooks::EVENTS.iter().filter(|event| **event != "SessionEnd") {
        client.answers(30_000);
        client.hook(event).ok();
        sound(event);
    }
    client.status_line(Some(40_000));
    sound("the status line");
    for line in
        ["memory pending", "memory discard", "memory init", "backup prune", "status", "agents", "doctor"]
    {
        home.run(line);
        sound(line);
    }
    client.hook_with("SessionEnd", json!({ "reason": "clear" })).ok();
    sound("SessionEnd");
}

/// The same for the records of the session and the agent and for the manifest, without which hooks do nothing.
#[test]
fn records_of_a_later_version_survive_every_hook_and_every_cleaning_command() {
    let later = "{\"v\":99,\"all\":{\"moved\":true}}\n";
    for kind in ["session", "agent", "manifest"] {
        let home = Home::new(crate::BATON);
        let words = home.write("words.md", "# Words\nNext: the parser.");
        home.run(&format!("handoffs seal {}", words.display())).ok();
        let channel = home.run("channel").ok().trim().to_owned();
        let client = baton_testkit::hooks::Client::new(&home);
        client.starts("startup").ok();
        client.answers(20_000);
        client.hook("PostToolUse").ok();
        let path = match kind {
            "session" => home.state().join(format!("sessions/{}.json", client.session)),
            "agent" => home.state().join(format!("agents/{}.json", client.agent())),
            _ => home.store().join(format!("{channel}.manifest.json")),
        };
        let later = if kind == "manifest" { "{\"version\":99,\"channel\":{}}\n" } else { later };
        std::fs::write(&path, later).unwrap();
        let sound = |after: &str| {
            let now = std::fs::read_to_string(&path).unwrap_or_else(|e| format!("{e}"));
            assert_eq!(now, later, "{kind} after {after}");
        };
        for event in baton_testkit::hooks::EVENTS {
            client.answers(30_000);
            client.hook(event).ok();
            sound(event);
        }
        for line in ["handoffs repair", "backup prune", "status --all", "agents", "doctor", "handoffs clear"]
        {
            home.run(line);
            sound(line);
        }
    }
}
