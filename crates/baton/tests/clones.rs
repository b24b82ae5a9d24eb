//! Promise 22: a cloned project cannot write outside its folder, read or fill another channel, run a program, or speak
//! as the user. Every hostile clone meets every hook and every command that looks at a project.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use baton_core::plain::is_unseen;
use baton_testkit::clones::{CLONES, HostileClone, INJECTION, Victim};
use baton_testkit::hooks::{Client, EVENTS};
use baton_testkit::pty::Pty;
use baton_testkit::{Home, home, tools};
use serde_json::{Value, json};

use crate::BATON;

const SECRET: &str = "THE-VICTIMS-OWN-WORDS";
const CANARY: &str = "CANARY-CONTENT";
/// A command that waits for a pipe would never end, so give up after this.
const HANGS: Duration = Duration::from_secs(30);
/// A sealing hook promises one second. Allow ten times that for a busy machine and a debug build.
const DEADLINE: Duration = Duration::from_secs(10);

struct World {
    home: Home,
    victim: Victim,
}

impl World {
    fn new() -> Self {
        let home = Home::new(BATON);
        let at = |name: &str| home.path().join(name);
        let project = at("work/victim");
        for dir in [project.join(".git"), project.join(".baton"), at("outside")] {
            std::fs::create_dir_all(dir).unwrap();
        }
        std::fs::write(at("canary"), CANARY).unwrap();
        std::fs::write(project.join("doc.md"), SECRET).unwrap();
        // Targets that a link could lead to: checkpoints, and a memory with its backups.
        let events = project.join("thoughts/shared/handoffs/events");
        std::fs::create_dir_all(&events).unwrap();
        let checkpoint = format!(
            "---\nevent_type: handoff\ntimestamp: 2026-11-17T00:00:00Z\nsession_id: v\ngoal: {SECRET}\nnow: {SECRET}\n---\n"
        );
        std::fs::write(events.join("2026-11-17T00-00-00.000Z_victim01.md"), checkpoint).unwrap();
        let raw = project.join(".claude/memory/raw");
        std::fs::create_dir_all(&raw).unwrap();
        std::fs::write(raw.join("20261117_000000_other.jsonl"), SECRET).unwrap();
        let said = ran(home.baton(["channel"]).current_dir(&project));
        let channel = said.trim().to_owned();
        ran(home.baton(["handoffs", "seal", "doc.md"]).current_dir(&project));
        let victim = Victim { project, channel, canary: at("canary"), outside: at("outside") };
        Self { home, victim }
    }

    fn make(&self, clone: &HostileClone) -> PathBuf {
        let name = clone.folder.map_or_else(|| "clone".into(), |folder| folder());
        let dir = self.home.path().join("work").join(name);
        std::fs::create_dir_all(&dir).unwrap();
        (clone.make)(&dir, &self.victim);
        dir
    }

    /// Everything that no clone may change.
    fn outside(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = BTreeMap::new();
        for root in [&self.victim.project, &self.victim.outside, &self.victim.canary] {
            contents(root, &mut all);
        }
        all
    }

    fn victims_handoff(&self) -> Value {
        let channel = &self.victim.channel;
        self.home.run(&format!("handoffs list --json --channel {channel}")).json()
    }
}

fn ran(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn contents(path: &Path, into: &mut BTreeMap<PathBuf, Vec<u8>>) {
    let meta = std::fs::symlink_metadata(path).unwrap();
    if meta.is_dir() {
        into.insert(path.to_owned(), b"a folder".to_vec());
        for entry in std::fs::read_dir(path).unwrap() {
            contents(&entry.unwrap().path(), into);
        }
    } else if meta.is_file() {
        into.insert(path.to_owned(), std::fs::read(path).unwrap());
    } else {
        into.insert(path.to_owned(), b"something else".to_vec());
    }
}

/// The output and errors of a command, which must end by itself within the deadline and not with a usage error.
fn bounded(command: Command, input: &[u8], what: &str) -> String {
    let (code, text) = ended(command, input, what);
    assert!(code.is_some_and(|code| (0..=3).contains(&code)), "{what} died: {code:?}\n{text}");
    assert!(!text.contains("try '--help'"), "{what} is no command:\n{text}");
    text
}

fn ended(mut command: Command, input: &[u8], what: &str) -> (Option<i32>, String) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, input).ok();
    drop(stdin);
    let begun = Instant::now();
    let (sender, receiver) = std::sync::mpsc::channel();
    let pid = child.id();
    std::thread::spawn(move || sender.send(child.wait_with_output().unwrap()));
    let Ok(output) = receiver.recv_timeout(HANGS) else {
        Command::new("kill").args(["-9", &pid.to_string()]).status().ok();
        panic!("{what} hangs");
    };
    assert!(begun.elapsed() < DEADLINE, "{what} takes {:?}", begun.elapsed());
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), text)
}

/// Commands that look at the project they run in, with their input.
const COMMANDS: &[(&str, &str)] = &[
    ("status", ""),
    ("status --all --json", ""),
    ("agents --json", ""),
    ("channel --why", ""),
    ("config", ""),
    ("config --why", ""),
    ("config --json", ""),
    ("handoffs list", ""),
    ("handoffs current", ""),
    ("handoffs draft", ""),
    ("handoffs load --peek", ""),
    ("handoffs history", ""),
    ("handoffs path", ""),
    ("handoffs seal -", "A text to hand over."),
    ("handoffs show HO-20261117-000000-00000000", ""),
    ("handoff -", "A text to hand over."),
    ("sessions list", ""),
    ("sessions list --all --json", ""),
    ("sessions search anything", ""),
    ("sessions show nobody", ""),
    ("sessions tree", ""),
    ("memory pending", ""),
    ("memory list", ""),
    ("memory context", ""),
    ("memory save -", "Now.\n=== session document ===\nThen."),
    ("memory discard", ""),
    ("checkpoint latest", ""),
    ("checkpoint list", ""),
    ("checkpoint --goal Ours --now Now", ""),
    ("backup list", ""),
    ("backup prune --dry-run", ""),
    ("log", ""),
    ("doctor", ""),
    ("trust --list", ""),
    ("spawn w --worktree --provider demo", ""),
];

/// Commands that the owner runs after accepting the project. Links and names are as hostile as before.
const ACCEPTED: &[(&str, &str)] = &[
    ("trust", ""),
    ("memory init", ""),
    ("memory list", ""),
    ("memory context", ""),
    ("memory save -", "Now.\n=== session document ===\nThen."),
    ("memory pending", ""),
    ("memory discard --all", ""),
    ("backup prune --dry-run", ""),
    ("checkpoint --goal Ours --now Now", ""),
    ("handoffs load --peek", ""),
    ("install --project --dry-run", ""),
    ("status", ""),
];

fn check(text: &str, what: &str, is_in_name: bool) {
    assert!(!text.contains(SECRET), "{what} shows another channel's handoff:\n{text}");
    assert!(!text.contains(CANARY), "{what} shows a file outside:\n{text}");
    assert!(is_in_name || !text.contains(INJECTION), "{what} passes on planted words:\n{text}");
    let unseen = |c: char| is_unseen(c) && c != '\r';
    assert!(!text.contains(unseen), "{what} prints what a terminal obeys or hides: {text:?}");
    // A frame begins and ends with the same word. Outside the frames nothing may look like the end of one.
    let mut word = None;
    for line in text.lines() {
        let last = line.rsplit(' ').next();
        if word.is_none() && line.starts_with("=== HANDOFF LOADED") {
            word = last;
        } else if line.starts_with("=== END HANDOFF") {
            assert!(word.is_some(), "{what} ends a frame that it did not begin:\n{text}");
            word = word.filter(|_| word != last);
        }
    }
    assert_eq!(word, None, "{what} does not end its frame:\n{text}");
}

/// Runs every hook of a client in `dir`: first in the order of a session, then all of them.
fn every_hook(client: &Client<'_>, dir: &Path, name: &str, is_in_name: bool) {
    let cwd = dir.to_string_lossy().into_owned();
    let order = ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "PreCompact", "SessionEnd"];
    for event in order.iter().chain(EVENTS.iter()) {
        let mut payload = client.usual(event);
        payload["cwd"] = json!(cwd);
        let mut hook = client.command(event);
        hook.current_dir(dir);
        let what = format!("{name}: hook {event}");
        let text = bounded(hook, payload.to_string().as_bytes(), &what);
        // Hooks print JSON; the text for the agent is inside.
        let spoken = serde_json::from_str::<Value>(&text).map_or(text, |v| {
            format!(
                "{}\n{}",
                v["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default(),
                v["systemMessage"].as_str().unwrap_or_default()
            )
        });
        check(&spoken, &what, is_in_name);
    }
}

/// Asserts that no command left its mark.
fn nothing_ran(dir: &Path, name: &str) {
    let found = Command::new("find").arg(dir).args(["-name", "ran"]).output().unwrap();
    assert!(found.stdout.is_empty(), "{name}: a command ran");
}

#[test]
fn no_hostile_clone_reaches_beyond_its_folder() {
    if !tools::has(&["git"]) {
        return;
    }
    assert!(CLONES.len() >= 40, "{}", CLONES.len());
    for clone in CLONES {
        let world = World::new();
        let dir = world.make(clone);
        let before = world.outside();
        let handoff = world.victims_handoff();
        let is_in_name = clone.folder.is_some();
        let client = Client::new(&world.home);
        client.answers(150_000);
        every_hook(&client, &dir, clone.name, is_in_name);
        // The status line shows the goal and now of its folder.
        let mut line = world.home.baton(["statusline"]);
        client.dress(&mut line);
        let payload = json!({ "session_id": client.session, "cwd": dir.to_string_lossy(), "workspace": {
            "current_dir": dir.to_string_lossy() }, "model": { "id": "m", "display_name": "M" } });
        let what = format!("{}: statusline", clone.name);
        let shown = bounded(line, payload.to_string().as_bytes(), &what);
        assert!(!shown.contains(SECRET) && !shown.contains(CANARY), "{what}: {shown}");
        for (line, input) in COMMANDS {
            let mut command = world.home.baton(line.split(' '));
            command.current_dir(&dir);
            if line.starts_with("handoff ") {
                client.dress(&mut command);
            }
            let what = format!("{}: baton {line}", clone.name);
            check(&bounded(command, input.as_bytes(), &what), &what, is_in_name);
        }
        assert_eq!(world.outside(), before, "{}: something outside changed", clone.name);
        assert_eq!(world.victims_handoff(), handoff, "{}: the victim's handoff was touched", clone.name);
        nothing_ran(world.home.path(), clone.name);
        let _ = std::fs::remove_file(client.percentage_file());
    }
}

/// Acceptance enables the project's settings and memory. It does not let a link leave the folder or open a channel.
#[test]
fn a_hostile_clone_that_was_accepted_still_writes_nothing_outside() {
    if !tools::has(&["git"]) {
        return;
    }
    for clone in CLONES {
        let world = World::new();
        let dir = world.make(clone);
        let before = world.outside();
        let handoff = world.victims_handoff();
        let run = |line: &str, input: &str| {
            let mut command = world.home.baton(line.split(' '));
            command.current_dir(&dir);
            let what = format!("{}, accepted: baton {line}", clone.name);
            let text = bounded(command, input.as_bytes(), &what);
            assert!(!text.contains(SECRET) && !text.contains(CANARY), "{what}:\n{text}");
        };
        for (line, input) in &ACCEPTED[..2] {
            run(line, input);
        }
        let client = Client::new(&world.home);
        client.answers(150_000);
        for event in ["SessionStart", "PostToolUse", "PreCompact", "SessionEnd"] {
            let mut payload = client.usual(event);
            payload["cwd"] = json!(dir.to_string_lossy());
            let mut hook = client.command(event);
            hook.current_dir(&dir);
            let what = format!("{}, accepted: hook {event}", clone.name);
            let text = bounded(hook, payload.to_string().as_bytes(), &what);
            assert!(!text.contains(SECRET) && !text.contains(CANARY), "{what}:\n{text}");
        }
        for (line, input) in ACCEPTED {
            run(line, input);
        }
        assert_eq!(world.outside(), before, "{}, accepted: something outside changed", clone.name);
        assert_eq!(world.victims_handoff(), handoff, "{}, accepted: the victim's handoff", clone.name);
        nothing_ran(world.home.path(), clone.name);
        let _ = std::fs::remove_file(client.percentage_file());
    }
}

#[test]
fn a_clone_inside_an_accepted_folder_is_a_stranger() {
    let home = Home::new(BATON);
    let area = home.path().join("work/area");
    let clone = area.join("sub");
    std::fs::create_dir_all(clone.join(".git")).unwrap();
    let run = |dir: &Path, line: &str| home::run(home.baton(line.split(' ')).current_dir(dir));
    run(&area, "trust").ok();
    std::fs::write(clone.join(".baton.toml"), "channel = \"theirs\"\n").unwrap();
    let memory = clone.join(".claude/memory");
    std::fs::create_dir_all(&memory).unwrap();
    std::fs::write(memory.join("session-2026-11-17-0900.md"), INJECTION).unwrap();
    assert!(run(&clone, "channel").ok().starts_with("sub-"));
    let said = run(&clone, "memory context");
    assert!(!said.out.contains(INJECTION), "{said:?}");
    run(&clone, "trust").ok();
    assert_eq!(run(&clone, "channel").ok().trim(), "theirs");
    let said = run(&clone, "memory context");
    assert!(said.out.contains(INJECTION), "it is read once it is accepted: {said:?}");
}

#[test]
fn wrong_settings_are_refused_with_their_place_and_nothing_is_accepted() {
    let home = Home::new(BATON);
    std::fs::create_dir_all(home.project().join(".git")).unwrap();
    let settings = home.project().join(".baton.toml");
    for (text, place) in [
        ("[context]\nenabled = maybe\n", ".baton.toml:2: string values must be quoted"),
        ("channel = 5\n", ".baton.toml:1: channel is a name in quotes"),
        ("[[[[", ".baton.toml:1: "),
    ] {
        std::fs::write(&settings, text).unwrap();
        for line in ["trust", "trust --share-channel", "memory init", "install --project --yes"] {
            let said = home.run(line).fails(1);
            assert!(said.contains("nothing is accepted") && said.contains(place), "{line}: {said}");
            assert!(!said.contains("Honoured"), "{line}: {said}");
            assert_eq!(home.run("trust --list").code, Some(3), "{line}");
        }
        // What is wrong only with a channel is seen when it is accepted.
        let why = home.run("config --why").ok();
        assert_eq!(why.contains("baton trust"), text.starts_with("channel"), "accepting is no remedy: {why}");
    }
    std::fs::remove_file(&settings).unwrap();
    std::fs::write(&settings, vec![b'#'; 10 << 20]).unwrap();
    let said = home.run("trust").fails(1);
    assert!(said.contains("nothing is accepted") && said.contains(".baton.toml"), "{said}");
}

/// Clones and downloads are unpacked below a home folder, and everybody's files below the root and in /tmp.
#[test]
fn a_folder_that_holds_more_than_a_project_is_not_accepted() {
    let home = Home::new(BATON);
    let shared = home.path().join("shared");
    std::fs::create_dir_all(&shared).unwrap();
    std::fs::set_permissions(&shared, std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
    for (folder, why) in [
        (home.path().to_str().unwrap(), "it is your home folder"),
        ("/", "your home folder is in it"),
        (shared.to_str().unwrap(), "everybody can put files there"),
    ] {
        let said = home.run(&format!("trust {folder}")).fails(1);
        assert!(said.contains("nothing was accepted") && said.contains(why), "{folder}: {said}");
        assert!(said.contains("in its own folder"), "{said}");
    }

    // One that an earlier version accepted covers nothing below it.
    home.run("trust").ok();
    let list = home.state().join("trust.json");
    let mut record = home::record(&list);
    let folders = record["folders"].as_object_mut().unwrap();
    let (_, accepted) = folders.iter().next().map(|(dir, accepted)| (dir.clone(), accepted.clone())).unwrap();
    let real = std::fs::canonicalize(home.path()).unwrap();
    folders.clear();
    folders.insert(real.display().to_string(), accepted.clone());
    folders.insert("/".to_owned(), accepted);
    std::fs::write(&list, record.to_string()).unwrap();
    let memory = home.path().join("download/.claude/memory");
    std::fs::create_dir_all(&memory).unwrap();
    std::fs::write(memory.join("session-2026-11-17-0900.md"), INJECTION).unwrap();
    let said = home::run(home.baton(["memory", "context"]).current_dir(home.path().join("download")));
    assert!(!said.out.contains(INJECTION), "{said:?}");
    home.run(&format!("trust --forget {}", home.path().display())).ok();

    // A home folder under version control is no project, and what is below it may be one.
    std::fs::create_dir_all(home.path().join(".git")).unwrap();
    let said = home::run(home.baton(["trust"]).current_dir(home.path().join("download"))).ok();
    assert!(said.contains("download is accepted"), "{said}");
    let said = home::run(home.baton(["memory", "context"]).current_dir(home.path().join("download")));
    assert!(said.out.contains(INJECTION), "{said:?}");
}

#[test]
fn a_work_tree_of_an_accepted_repository_is_accepted() {
    if !tools::has(&["git"]) {
        return;
    }
    let home = Home::new(BATON);
    let at = |name: &str| home.path().join(name);
    let git = |dir: &Path, args: &[&str]| {
        let mut git = home.command("git");
        ran(git.current_dir(dir).args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(args))
    };
    std::fs::create_dir_all(at("main")).unwrap();
    git(&at("main"), &["init", "-q"]);
    std::fs::write(at("main/.baton.toml"), "channel = \"ours\"\n").unwrap();
    git(&at("main"), &["add", "."]);
    git(&at("main"), &["commit", "-q", "-m", "one"]);
    git(&at("main"), &["worktree", "add", "-q", "../tree"]);
    let channel = |dir: &str| ran(home.baton(["channel"]).current_dir(at(dir))).trim().to_owned();
    assert_ne!(channel("tree"), "ours");
    ran(home.baton(["trust"]).current_dir(at("main")));
    assert_eq!((channel("main"), channel("tree")), ("ours".to_owned(), "ours".to_owned()));
    std::fs::write(at("tree/.baton.toml"), "channel = \"others\"\n").unwrap();
    assert_ne!(channel("tree"), "others", "changed settings are asked about there, too");
}

#[test]
fn settings_of_an_earlier_install_count_as_they_were_found() {
    let home = Home::new(BATON);
    let project = home.project();
    std::fs::create_dir_all(project.join(".git")).unwrap();
    std::fs::create_dir_all(home.state()).unwrap();
    let record = json!({ "v": 1, "installs": [{ "project": project }] });
    std::fs::write(home.state().join("install.json"), record.to_string()).unwrap();
    std::fs::write(project.join(".baton.toml"), "channel = \"mine\"\n").unwrap();
    assert_eq!(home.run("channel").ok().trim(), "mine", "what was installed before this was kept continues");
    std::fs::write(project.join(".baton.toml"), "channel = \"other\"\n").unwrap();
    assert!(home.run("channel").ok().starts_with("app-"), "a change is asked about");
    home.run("trust").ok();
    assert_eq!(home.run("channel").ok().trim(), "other");
}

#[test]
fn an_accepted_clones_settings_apply_until_they_change() {
    let world = World::new();
    let dir = world.home.path().join("work/clone");
    std::fs::create_dir_all(dir.join(".git")).unwrap();
    let settings = dir.join(".baton.toml");
    std::fs::write(&settings, "channel = \"mine\"\n[context]\ncritical_percentage = 60\n").unwrap();
    let run = |line: &str| ran(world.home.baton(line.split(' ')).current_dir(&dir));
    assert!(run("channel").starts_with("clone-"), "a stranger's channel is its folder's");
    let config = run("config");
    assert!(config.contains("context.critical_percentage: not trusted"), "{config}");
    let why = run("config --why");
    assert!(why.contains("not trusted: ~/work/clone/.baton.toml:1"), "{why}");
    let said = run("trust");
    assert!(said.contains("channel") && said.contains("is accepted"), "{said}");
    assert_eq!(run("channel").trim(), "mine");
    assert!(!run("config").contains("not trusted"));
    assert!(run("trust --list").contains("work/clone"));

    std::fs::write(&settings, format!("channel = \"{}\"\n", world.victim.channel)).unwrap();
    assert!(run("channel").starts_with("clone-"), "changed settings are a stranger's again");
    // A channel belongs to its first user: accepting the folder does not give access to it.
    for line in ["trust", "memory init", "install --project --yes"] {
        let said = home::run(world.home.baton(line.split(' ')).current_dir(&dir)).fails(1);
        assert!(said.contains("which ~/work/victim used first"), "{line}: {said}");
        assert!(run("channel").starts_with("clone-"), "{line}");
    }
    run("trust --share-channel");
    assert_eq!(run("channel").trim(), world.victim.channel);
    run("trust --forget");
    assert!(run("channel").starts_with("clone-"));
}

#[test]
fn a_person_at_a_terminal_is_asked_once_about_settings_and_a_memory_that_came_along() {
    let home = Home::new(BATON);
    let project = home.project();
    std::fs::create_dir_all(project.join(".git")).unwrap();
    std::fs::create_dir_all(project.join(".claude/memory")).unwrap();
    std::fs::write(project.join(".baton.toml"), "channel = \"theirs\"\n").unwrap();
    let asked = |answer: &str, then: &str, about_memory: bool| {
        let mut pty = Pty::start(&home.baton(["run", "--demo"])).unwrap();
        let screen = pty.wait_for("Accept this folder?").unwrap();
        assert!(screen.contains("channel"), "{screen}");
        assert_eq!(screen.contains(".claude/memory"), about_memory, "{screen}");
        pty.send(answer).unwrap();
        pty.wait_until("the answer counts", |screen| screen.contains(then) || trusted(&home)).unwrap();
    };
    asked("n\r", "Left out", true);
    assert_eq!(home.run("trust --list").code, Some(3), "a no accepts nothing");
    let declined = home::record(&home.state().join("trust.json"));
    assert_eq!(declined["declined"].as_object().map(serde_json::Map::len), Some(2), "{declined}");
    // Changed settings must be accepted again.
    std::fs::write(project.join(".baton.toml"), "channel = \"ours\"\n").unwrap();
    asked("y\r", "is accepted", false);
    assert_eq!(home.run("channel").ok().trim(), "ours");
}

fn trusted(home: &Home) -> bool {
    home.run("trust --list").code == Some(0)
}

#[test]
fn an_agent_cannot_accept_a_folder_for_its_user() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup");
    let refused = |line: &str| {
        let mut command = home.baton(line.split(' '));
        client.dress(&mut command);
        let said = home::run(&mut command).fails(1);
        assert!(said.contains("only the user may"), "{line}: {said}");
    };
    for line in ["trust", "memory init", "install --project --yes", "install --agents --yes"] {
        refused(line);
    }
    assert!(!home.state().join("trust.json").exists());

    // In an accepted folder an agent may create a memory, but that does not accept changed settings.
    home.run("trust").ok();
    std::fs::write(home.project().join(".baton.toml"), "channel = \"theirs\"\n").unwrap();
    let mut command = home.baton(["memory", "init"]);
    client.dress(&mut command);
    home::run(&mut command).ok();
    assert_ne!(home.run("channel").ok().trim(), "theirs");
}

#[test]
fn a_real_work_tree_and_a_real_submodule_keep_their_channels() {
    if !tools::has(&["git"]) {
        return;
    }
    let home = Home::new(BATON);
    let at = |name: &str| home.path().join(name);
    let git = |dir: &Path, args: &[&str]| {
        let mut git = home.command("git");
        git.current_dir(dir).args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t",
            "-c",
            "protocol.file.allow=always",
        ]);
        ran(git.args(args))
    };
    for name in ["main", "library"] {
        std::fs::create_dir_all(at(name)).unwrap();
        git(&at(name), &["init", "-q"]);
        git(&at(name), &["commit", "-q", "--allow-empty", "-m", "one"]);
    }
    git(&at("main"), &["worktree", "add", "-q", "../tree"]);
    git(&at("main"), &["submodule", "--quiet", "add", "../library", "sub"]);
    let channel = |dir: &str| ran(home.baton(["channel"]).current_dir(at(dir))).trim().to_owned();
    assert_eq!(channel("main"), channel("tree"), "all work trees share one");
    assert_ne!(channel("main"), channel("main/sub"));
    let why = ran(home.baton(["channel", "--why"]).current_dir(at("main/sub")));
    assert!(why.contains("git repository"), "{why}");
}
