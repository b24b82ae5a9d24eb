//! The pages for people: runs every command in them in a real terminal of 80 columns and 24 rows, in the order in which
//! a reader would type it.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use baton_testkit::Home;
use baton_testkit::hooks::Client;
use baton_testkit::pty::{Pty, code};
use baton_testkit::wait::{wait_for, wait_until};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;

use crate::listings::Mask;
use crate::world::{QUIET, World};

/// One page for each task.
const PAGES: [&str; 11] = [
    "install.md",
    "one-agent.md",
    "many-agents.md",
    "coming-back.md",
    "codex.md",
    "settings.md",
    "trouble.md",
    "migrate.md",
    "leading.md",
    "approvals.md",
    "daemon.md",
];

/// Commands that run until the reader leaves, and the text that shows that they have started.
const STAY: [(&str, &str); 11] = [
    ("baton sessions resume --last", "❯"),
    ("baton sessions", "Enter"),
    ("baton attach chief", "❯"),
    ("baton run claude", "❯"),
    ("baton log --follow", ""),
    ("baton top", "agents"),
    ("baton tail lead --follow", ""),
    ("baton attach lead", "❯"),
    ("baton approvals --watch", ""),
    ("baton approve", "allow once"),
    ("baton serve", ""),
];

/// Commands that ask; the test answers yes.
const ASK: [&str; 4] = [
    "baton install",
    "baton install --provider codex",
    "baton install --provider codex --trust",
    "baton install --provider codex --fresh-window",
];

const FLEET: &str = "needs a PostgreSQL: tests/fleet has it";

/// Commands that cannot run here, and why.
const UNTRIED: &[(&str, &str)] = &[
    ("baton serve --http", "all tests share that port: tests/serve.rs has it with others"),
    ("baton handoff --to claude notes.md", "an agent runs this: tests/across.rs has it"),
    ("baton handoff --to app-oak", "an agent runs this: tests/across.rs has it"),
    ("baton handoff --to codex --spawn", "needs the real client: tests/clients has it"),
    (
        "baton handoff --to codex",
        "an agent runs this, and the other client must be there: tests/across.rs has it",
    ),
    ("baton sessions resume ID --in codex", "needs the other client: tests/across.rs has it"),
    ("baton run codex", "needs the real client: tests/clients has it"),
    ("baton run codex exec \"Port the tests\"", "needs the real client: tests/clients has it"),
    ("baton fleet init postgres://…", FLEET),
    ("baton fleet join postgres://… --name laptop", FLEET),
    ("baton agents --fleet", FLEET),
    ("baton send reviewer@desk \"PR 212 is ready\"", FLEET),
    ("baton move lead desk", FLEET),
];

/// Commands that a page offers for when something has gone wrong; here nothing has, so they may fail.
const REFUSED: [&str; 2] = ["baton undo", "baton backup restore ID"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The lines of a page's shell blocks that call baton, without their comments.
fn commands(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let (mut found, mut inside) = (Vec::new(), false);
    for line in text.lines() {
        if line.starts_with("```") {
            inside = !inside && matches!(line, "```sh" | "```console");
            continue;
        }
        let line = line.strip_prefix("$ ").unwrap_or(line);
        if inside && line.starts_with("baton ") {
            found.push(line.split(" #").next().unwrap().trim().to_owned());
        }
    }
    found
}

/// The request in the pages; the reader has one of their own.
const REQUEST: &str = "3f9a1c2b";

/// A reader's home: a client on the PATH, an earlier conversation, a sealed handoff.
struct Reader {
    world: World,
    session: String,
    handoff: String,
}

impl Reader {
    fn new() -> Option<Self> {
        let world = World::new(QUIET)?;
        let home = &world.home;
        let scripted =
            "[ \"$1\" = --version ] && echo '2.1.325 (Claude Code)' && exit\nexec baton demo-agent \"$@\"";
        let features = "[ \"$1\" = features ] && echo 'token_budget  under development  false' && exit\necho codex-cli 0.166.0";
        for (name, text) in [("claude", scripted), ("codex", features)] {
            let path = home.write(&format!("tools/{name}"), format!("#!/bin/sh\n{text}\n"));
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let client = Client::new(home);
        client.starts("startup").ok();
        client.record(
            &json!({ "type": "user", "uuid": "u", "sessionId": client.session, "cwd": home.project(),
            "timestamp": jiff::Timestamp::now().to_string(),
            "message": { "role": "user", "content": "Write the parser" } }),
        );
        client.answers(20_000);
        client.hook("Stop").ok();
        let session = client.session.clone();
        client.hook_with("SessionEnd", json!({ "reason": "other" })).ok();
        drop(client);
        let sealed = home.run_with_input("handoffs seal -", "# Go on\n").ok();
        let handoff = sealed.split_whitespace().find(|word| word.starts_with("HO-")).unwrap().to_owned();
        Some(Self { world, session, handoff })
    }

    /// Types a line; returns what the reader sees and the exit code, which is `None` for a command that the reader
    /// leaves.
    fn types(&self, line: &str) -> (String, Option<i32>) {
        let id = if line.starts_with("baton handoffs") { &self.handoff } else { &self.session };
        let home = &self.world.home;
        let client = Client::new(home);
        let asking =
            (line.contains(REQUEST) || line == "baton approve").then(|| Asking::new(home, &client, line));
        let request = asking.as_ref().map_or(REQUEST, |asking| &asking.id);
        let typed = line.replace(" ID", &format!(" {id}")).replace(REQUEST, request);
        // Makes the event happen that the reader waits for.
        if let Some(rest) = line.strip_prefix("baton wait ").filter(|rest| rest.contains("--done")) {
            for name in rest.split_whitespace().take_while(|word| !word.starts_with('-')) {
                // Its first prompt, or mail that comes later, would reopen the task.
                wait_until("it is idle and has no mail", || {
                    let rows: serde_json::Value =
                        serde_json::from_str(&home.run(&format!("status {name} --json")).out)
                            .unwrap_or_default();
                    let prompted =
                        self.world.agent(name)["launch"].as_array().is_some_and(|args| !args.is_empty());
                    let session = self.world.session(name);
                    let is_over = session["turn_since"].is_string() || !prompted;
                    session["turn"] == "idle" && is_over && rows[0]["mail"] == 0
                });
                home.run(&format!("done --agent {name} ready")).ok();
            }
        }
        let bin = Path::new(crate::BATON).parent().unwrap();
        let path = format!("{}:{}:/usr/bin:/bin", home.path().join("tools").display(), bin.display());
        let mut command = home.command("/bin/sh");
        command.args(["-c", &typed]).env("PATH", path).env("TERM", "xterm-256color").env("PAGER", "cat");
        command.env("TMUX_TMPDIR", home.path()).env("LANG", "C.UTF-8").env("EDITOR", "true");
        // The scripted agent draws its own screen; it is also the client that starts when none is named.
        command.env("BATON_PANES_ATTEND", "false").env("BATON_RUN_PROVIDER", "demo");
        command.env("BATON_AGENT_SCRIPT", home.path().join("agent.script"));
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let mut terminal = Pty::start_with(&command, |tty| Ok(tcsetwinsize(tty, size)?)).unwrap();
        if let Some((_, word)) = STAY.iter().find(|(stays, _)| *stays == line) {
            let seen = terminal.wait_for(word).unwrap_or_else(|e| panic!("{line}: {e}"));
            terminal.hang_up();
            return (seen, None);
        }
        if ASK.contains(&line) {
            terminal.wait_until(line, |screen| screen.contains("[y/N")).unwrap();
            terminal.send("y\r").unwrap();
        }
        let status = terminal.wait_for_end().unwrap_or_else(|e| panic!("{line}: {e}\n{}", terminal.screen()));
        terminal.drained().unwrap();
        (String::from_utf8_lossy(&terminal.raw()).into_owned(), Some(code(status)))
    }
}

/// A request that waits while a line is typed.
struct Asking<'a> {
    id: String,
    hook: std::process::Child,
    client: &'a Client<'a>,
}

impl<'a> Asking<'a> {
    fn new(home: &Home, client: &'a Client<'a>, line: &str) -> Self {
        client.starts("startup").ok();
        let fields = if line.starts_with("baton answer") {
            let options = json!([{ "label": "Red" }, { "label": "Blue" }]);
            json!({ "tool_name": "AskUserQuestion",
                "tool_input": { "questions": [{ "question": "Which colour?", "options": options }] } })
        } else {
            let rule = json!({ "type": "addRules", "behavior": "allow", "destination": "localSettings",
                "rules": [{ "toolName": "Bash", "ruleContent": "make:*" }] });
            json!({ "tool_name": "Bash", "tool_input": { "command": "make" }, "permission_suggestions": [rule] })
        };
        let mut command = client.command("PermissionRequest");
        command.env("BATON_APPROVALS_WAIT_FOR", "all");
        let mut hook = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let payload = client.payload("PermissionRequest", fields).to_string();
        hook.stdin.take().unwrap().write_all(payload.as_bytes()).unwrap();
        let id = wait_for("the request", || {
            let rows: serde_json::Value = serde_json::from_str(&home.run("approvals --json").out).ok()?;
            Some(rows.as_array()?.first()?["short"].as_str()?.to_owned())
        });
        Self { id, hook, client }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.client.hook("Stop").ok();
        let _ = self.hook.wait();
        self.client.hook("SessionEnd").ok();
    }
}

fn read(page: &str) {
    let Some(reader) = Reader::new() else { return };
    if page != "docs/install.md" {
        assert_eq!(reader.types("baton install --yes").1, Some(0));
    }
    reader.reads(page);
}

impl Reader {
    fn reads(&self, page: &str) {
        let lines = commands(page);
        assert!(!lines.is_empty(), "{page} has no commands");
        for line in lines.iter().filter(|line| !UNTRIED.iter().any(|(untried, _)| untried == *line)) {
            let (shown, code) = self.types(line);
            let is_fine = match code {
                None | Some(0) => true,
                // "Nothing there" is a valid answer.
                Some(3) => !shown.is_empty(),
                Some(_) => REFUSED.contains(&line.as_str()),
            };
            assert!(is_fine, "{page}: {line} ended with {code:?}\n{shown}");
        }
    }
}

#[test]
fn the_readme_works_in_a_terminal_of_80_by_24() {
    let Some(reader) = Reader::new() else { return };
    // The agent that the README writes to.
    reader.world.ready("app-oak");
    reader.reads("README.md");
    reader.world.home.run("serve --stop");
}

/// Runs a command in a terminal of 80 columns and 24 rows; returns what it shows there and its exit code.
pub(crate) fn in_terminal(command: &Command, keys: impl FnOnce(&mut Pty)) -> (String, i32) {
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let mut terminal =
        Pty::start_with(command, |tty| Ok(tcsetwinsize(tty, size)?)).unwrap_or_else(|e| panic!("{e:#}"));
    keys(&mut terminal);
    let status = terminal.wait_for_end().unwrap();
    terminal.drained().unwrap();
    let text = String::from_utf8_lossy(&terminal.raw()).replace('\r', "");
    (Mask(Vec::new()).apply(&text), code(status))
}

/// The pictures in the README: what a newcomer sees from a clean home on. `BATON_UPDATE=1` takes them again.
#[test]
fn the_pictures_in_the_readme_are_taken_from_a_walk_through_it() {
    let home = Home::new(crate::BATON);
    for (name, says) in [("claude", "2.1.325 (Claude Code)"), ("tmux", "tmux 3.3a")] {
        let path = home.write(&format!("tools/{name}"), format!("#!/bin/sh\necho '{says}'\n"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let bin = Path::new(crate::BATON).parent().unwrap();
    let path = format!("{}:{}:/usr/bin:/bin", home.path().join("tools").display(), bin.display());
    let types = |line: &str, keys: &dyn Fn(&mut Pty)| {
        let mut command = home.command("/bin/sh");
        command.args(["-c", line]).env("PATH", &path).env("NO_COLOR", "1");
        command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8").env("PAGER", "cat");
        let (text, code) = in_terminal(&command, keys);
        assert_eq!(code, 0, "{line}: {text}");
        text
    };
    types("baton install", &|terminal| {
        terminal.wait_for("[y/N").unwrap();
        terminal.send("y\r").unwrap();
    });
    types("baton doctor", &|_| ());
    // The reader's first session.
    let app = Client::new(&home).env("NO_COLOR", "1");
    app.starts("startup").ok();
    for (prompt, tokens) in [
        ("Read the session code.", 60_000),
        ("Write a test for the expiry.", 75_000),
        ("Make session_expiry pass.", 90_000),
    ] {
        crate::listings::spoke(&app, prompt, tokens);
    }
    app.says("Make session_expiry pass.");
    app.hook_with("UserPromptSubmit", json!({ "prompt": "Make session_expiry pass." })).ok();
    app.answers(104_000);
    app.hook("PostToolUse").ok();
    let status_line = app.status_line(Some(104_000));
    let status = types("baton status", &|_| ());
    types("baton checkpoint --goal 'Release 2.0' --now 'fix the flaky test'", &|_| ());
    let with_checkpoint = app.status_line(Some(104_000));
    // A second one beside it stops at a dialog.
    let oak = Client::new(&home);
    oak.starts("startup").ok();
    crate::listings::spoke(&oak, "Publish the crate.", 31_000);
    oak.hook_with("UserPromptSubmit", json!({ "prompt": "Publish the crate." })).ok();
    let publish = json!({ "tool_name": "Bash", "tool_input": { "command": "cargo publish --dry-run" } });
    oak.hook_with("PermissionRequest", publish).ok();
    let screen = std::cell::RefCell::new(String::new());
    types("baton top --no-daemon", &|terminal| {
        let shown = terminal.wait_for("1 needs you").unwrap();
        // An excerpt: of the empty rows in the middle one is enough.
        let mut rows: Vec<&str> = shown.lines().map(str::trim_end).collect();
        rows.dedup();
        *screen.borrow_mut() = rows.join("\n");
        terminal.send("q").unwrap();
    });
    let screen = Mask(Vec::new()).apply(&home.tidy(&screen.into_inner()));
    for (name, text) in [
        ("status line", status_line),
        ("status", status),
        ("status line with a checkpoint", with_checkpoint),
        ("screen", screen),
    ] {
        picture(name, &text);
    }
}

/// Compares a picture in the README with what was seen, or replaces it.
fn picture(name: &str, seen: &str) {
    let begin =
        format!("<!-- Picture of the {name}, by a test (BATON_UPDATE=1 cargo test the_pictures). -->\n```\n");
    let path = root().join("README.md");
    let whole = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = whole.split_once(&begin).unwrap_or_else(|| panic!("the README has no {begin}"));
    let (shown, after) = rest.split_once("```\n").expect("a picture ends");
    let seen = seen.trim_matches('\n').to_owned() + "\n";
    if std::env::var_os("BATON_UPDATE").is_some() {
        std::fs::write(&path, [before, &begin, &seen, "```\n", after].concat()).unwrap();
    } else {
        assert_eq!(shown, seen, "{name}: run again with BATON_UPDATE=1 and look at the difference");
    }
}

#[test]
fn what_the_page_about_leading_says_works() {
    if !baton_testkit::tools::has(&["git"]) {
        return;
    }
    let Some(reader) = Reader::new() else { return };
    for args in [
        &["init", "-q"][..],
        &[
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@localhost",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "start",
        ],
    ] {
        assert!(reader.world.home.command("git").args(args).status().unwrap().success());
    }
    for name in ["docs", "reviewer"] {
        reader.world.ready(name);
    }
    reader.reads("docs/leading.md");
    reader.world.home.run("serve --stop");
}

#[test]
fn what_the_page_about_approvals_says_works() {
    read("docs/approvals.md");
}

#[test]
fn what_the_page_about_the_daemon_says_works() {
    read("docs/daemon.md");
}

#[test]
fn what_the_page_about_installing_says_works() {
    read("docs/install.md");
}

#[test]
fn what_the_page_about_one_agent_says_works() {
    read("docs/one-agent.md");
}

#[test]
fn what_the_page_about_many_agents_says_works() {
    read("docs/many-agents.md");
}

#[test]
fn what_the_page_about_coming_back_says_works() {
    read("docs/coming-back.md");
}

#[test]
fn what_the_page_about_codex_says_works() {
    read("docs/codex.md");
}

#[test]
fn what_the_page_about_settings_says_works() {
    read("docs/settings.md");
}

#[test]
fn what_the_page_about_trouble_says_works() {
    read("docs/trouble.md");
}

#[test]
fn what_the_page_about_coming_over_says_works() {
    read("docs/migrate.md");
}

#[test]
fn the_readme_names_every_page_and_each_page_its_neighbours() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for page in PAGES {
        assert!(readme.contains(&format!("docs/{page}")), "{page}");
        let text = std::fs::read_to_string(root().join("docs").join(page)).unwrap();
        // Links must not be broken.
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            if !link.contains("://") && !link.is_empty() {
                assert!(root().join("docs").join(link).exists(), "{page} leads to {link}");
            }
        }
    }
    for command in ["/baton:handoff", "/baton:status"] {
        assert!(readme.contains(command), "{command}");
    }
}
