//! What every listing prints at 60, 80 and 120 columns, plain and coloured: one home with something of everything in it.
//! Times, ids and numbers of processes are masked at their own width, so that columns stay where they are.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Stdio};

use baton_testkit::Home;
use baton_testkit::hooks::Client;
use baton_testkit::wait::wait_until;
use serde_json::{Value, json};

use crate::BATON;
use crate::tables::at;

pub(crate) const WIDTHS: [u16; 3] = [60, 80, 120];

/// The listings, and the names of their snapshots.
pub(crate) const COMMANDS: [(&str, &str); 28] = [
    ("agents", "agents"),
    ("agents_tree", "agents --tree"),
    ("status", "status --all"),
    ("children", "children lead"),
    ("approvals", "approvals"),
    ("approvals_log", "approvals log"),
    ("inbox_of_an_agent", "inbox tests"),
    ("outbox", "outbox"),
    ("reminders", "reminders"),
    ("what", "what tests"),
    ("tail", "tail tests"),
    ("handoffs", "handoffs"),
    ("handoffs_list", "handoffs list --all"),
    ("handoffs_history", "handoffs history"),
    ("handoffs_chain", "handoffs chain"),
    ("sessions_list", "sessions list"),
    ("sessions_tree", "sessions tree"),
    ("sessions_search", "sessions search grammar"),
    ("backup_list", "backup list"),
    ("memory_list", "memory list"),
    ("memory_pending", "memory pending"),
    ("checkpoint_list", "checkpoint list"),
    ("log", "log -n 8"),
    ("config_why", "config --why"),
    ("channel", "channel --why"),
    ("trust", "trust --list"),
    ("serve_status", "serve --status"),
    ("inbox", "inbox"),
];

/// A client with a conversation whose id tells it apart.
pub(crate) fn client(home: &Home, n: u8) -> Client<'_> {
    let mut client = Client::new(home);
    client.session = format!("{n}{n}{n}{n}{n}{n}{n}{n}-5afe-4000-8000-0000115719{n}{n}");
    client.starts("startup").ok();
    client
}

pub(crate) fn spoke(client: &Client<'_>, prompt: &str, tokens: u64) {
    client.says(prompt);
    client.hook_with("UserPromptSubmit", json!({ "prompt": prompt })).ok();
    client.answers(tokens);
    client.hook_with("Stop", json!({ "last_assistant_message": "Done with that." })).ok();
}

/// A hook that waits for an answer.
fn ask(client: &Client<'_>, fields: Value) -> Child {
    let mut command = client.command("PermissionRequest");
    let mut hook = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let payload = client.payload("PermissionRequest", fields).to_string();
    hook.stdin.take().unwrap().write_all(payload.as_bytes()).unwrap();
    hook
}

fn waiting(home: &Home) -> Vec<Value> {
    let rows: Value = serde_json::from_str(&home.run("approvals --json").out).unwrap_or(json!([]));
    rows.as_array().unwrap().iter().filter(|row| row["state"] == "waiting").cloned().collect()
}

pub(crate) fn words(home: &Home, args: &[&str]) -> String {
    baton_testkit::home::run(&mut home.baton(args)).ok()
}

/// Replaces what differs from run to run by something of the same width.
pub(crate) struct Mask(pub(crate) Vec<(String, String)>);

impl Mask {
    pub(crate) fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.0 {
            text = text.replace(from, to);
            // A narrow column cuts it, with a mark.
            for cut in (2..from.len()).rev().filter(|cut| from.is_char_boundary(*cut)) {
                text = text.replace(&format!("={}…", &from[..cut]), &format!("={}…", &to[..cut]));
            }
        }
        // The harness's own mark that everything was printed.
        while let Some(from) = text.find("\x1b]777;drained") {
            let end = text[from..].find('\x07').map_or(text.len(), |end| from + end + 1);
            text.replace_range(from..end, "");
        }
        // If a line was cleared, its last text counts; whether there is one depends on timing.
        let last = |line: &'_ str| line.rfind("\x1b[2K").map_or(0, |at| at + 4);
        let lines: Vec<&str> = text.lines().map(|line| &line[last(line)..]).collect();
        let text = numbers(&(lines.join("\n") + "\n"));
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        lines.join("\n") + "\n"
    }
}

/// Ages become `0s`, times of day and dates zeros, each as wide as it was.
fn numbers(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let run = chars[at..].iter().take_while(|c| c.is_ascii_digit()).count();
        let before = at.checked_sub(1).map(|n| chars[n]);
        // The `m` that ends a colour is no letter.
        let is_colour = before == Some('m') && chars[at.saturating_sub(6)..at].contains(&'\x1b');
        // Nor is the `T` before a time of day.
        let is_after_date = before == Some('T') && run == 2;
        let is_word = before.is_some_and(|c| c.is_alphanumeric() || c == '[' || c == ';');
        let is_inside = is_word && !is_colour && !is_after_date;
        if run == 0 || is_inside {
            out.push(chars[at]);
            at += 1;
            continue;
        }
        let next = chars.get(at + run).copied().unwrap_or(' ');
        let after = chars.get(at + run + 1).copied().unwrap_or(' ');
        let is_age = run <= 2 && matches!(next, 's' | 'm') && !after.is_alphanumeric();
        let is_clock = run == 2 && (next == ':' || before == Some(':'));
        let is_date =
            (run == 4 && next == '-') || (run == 2 && before == Some('-') && matches!(next, '-' | ' ' | 'T'));
        // A transcript's size depends on how long its time stamps are.
        let is_size = (next == ' ' && matches!(after, 'B' | 'k')) || (run == 4 && next == '.');
        if is_age {
            let rest: String = chars[at + run + 1..].iter().take(4).collect();
            let line = uncoloured(out.rsplit('\n').next().unwrap_or_default());
            let pad = "\u{a0}".repeat(run - 1);
            let is_last = rest.starts_with(['\x1b', '\n']) || rest.is_empty();
            let is_first = line.trim().is_empty() && !line.is_empty();
            // In a sentence nothing is padded; in a column it is on one side or the other.
            let (before, behind) = if rest.starts_with(" ago") || rest.starts_with(')') {
                ("", "")
            } else if is_last && !is_first && line.ends_with("  ") {
                // A last column is as wide as its widest age.
                out.truncate(out.trim_end_matches([' ', '\u{a0}']).len());
                ("  ", "")
            } else if is_last || is_first {
                (pad.as_str(), "")
            } else {
                ("", pad.as_str())
            };
            let _ = write!(out, "{before}0s{behind}");
            at += run + 1;
        } else if is_clock || is_date || is_size || run == 8 || run == 6 {
            out.extend(std::iter::repeat_n('0', run));
            at += run;
        } else {
            out.extend(&chars[at..at + run]);
            at += run;
        }
    }
    out.replace('\u{a0}', " ")
}

/// The text without its colours.
fn uncoloured(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    first + &parts.map(|part| part.split_once('m').map_or(part, |(_, text)| text)).collect::<String>()
}

#[test]
fn an_age_of_two_digits_is_as_wide_as_one() {
    for right in ["  7s  xx", "\x1b[1m  7s  xx", "name  \x1b[2m 7s\x1b[0m", "name   7s"] {
        assert_eq!(numbers(&right.replace(" 7s", "12s")), numbers(right), "{right:?}");
    }
    for narrow in ["name  7s\n", "name\x1b[2m  7s\x1b[0m"] {
        assert_eq!(numbers(&narrow.replace("  7s", "  12s")), numbers(narrow), "{narrow:?}");
        assert_eq!(numbers(&narrow.replace("  7s", "   7s")), numbers(narrow), "{narrow:?}");
    }
    for left in ["name  7s   7s    xx", "\x1b[1mname\x1b[0m  7s   xx"] {
        assert_eq!(numbers(&left.replace("7s ", "12s")), numbers(left), "{left:?}");
    }
}

#[test]
fn every_listing_at_three_widths_plain_and_coloured() {
    let home = Home::new(BATON);
    let rules = "[approvals]\nwait_for = \"all\"\nallow = [\"Bash(ls:*)\"]\n[approvals.agents.lead]\ndeny = [\"Bash(rm:*)\"]\n";
    home.write(".config/baton/config.toml", rules);
    home.run("memory init").ok();
    let [lead, tests, old] = [1, 2, 3].map(|n| client(&home, n));
    words(&home, &["rename", "app", "lead"]);
    words(&home, &["rename", "app-oak", "tests"]);
    words(&home, &["rename", "app-elm", "old"]);
    words(&home, &["reparent", "tests", "lead"]);
    spoke(&lead, "Split the work on the grammar and 日本語のパーサー between two agents.", 134_000);
    spoke(&tests, "Write the tests of the grammar.", 52_000);
    spoke(&old, "Release 1.9.", 20_000);
    let sealed = home.run_with_input("handoffs seal -", "# Go on with the grammar\n").ok();
    let handoff = sealed.split_whitespace().find(|word| word.starts_with("HO-")).unwrap().to_owned();
    let document = "Here.\n=== session document ===\n# The grammar so far\n\nWhat was done.\n";
    home.run_with_input("memory save -", document).ok();
    words(&home, &["checkpoint", "--goal", "Release 2.0", "--now", "fix the flaky test"]);
    let mail = [
        words(&home, &["send", "tests", "The schema changed, see db/003.sql", "--json"]),
        words(&home, &["remind", "--at", "2099-01-02 09:00", "tests", "look at the build", "--json"]),
    ];
    // It was started for the reminder, and its notices would appear at an unpredictable width.
    home.run("serve --stop").ok();
    let mut send = home.baton([
        "send",
        "user",
        "The suite is green; shall I merge it into the release branch?",
        "--json",
    ]);
    tests.dress(&mut send);
    let to_user = baton_testkit::home::run(&mut send).ok();
    old.hook_with("SessionEnd", json!({ "reason": "prompt_input_exit" })).ok();
    let mut denied =
        ask(&lead, json!({ "tool_name": "Bash", "tool_input": { "command": "git push origin main" } }));
    wait_until("the first request", || waiting(&home).len() == 1);
    words(&home, &["deny", waiting(&home)[0]["short"].as_str().unwrap(), "Not before the review."]);
    denied.wait().unwrap();
    lead.hook("Stop").ok();
    let mut asked =
        ask(&tests, json!({ "tool_name": "Bash", "tool_input": { "command": "cargo publish --dry-run" } }));
    wait_until("the second request", || waiting(&home).len() == 1);
    let log = || home.run("log --json").out.matches("\"approval-asked\"").count();
    wait_until("both are logged", || log() == 2);

    let mut masks = vec![(handoff.clone(), mask("HO-", &handoff))];
    let mut ids: Vec<String> =
        waiting(&home).iter().map(|row| row["short"].as_str().unwrap().to_owned()).collect();
    let log = home.run("approvals log --json").json();
    ids.extend(log.as_array().unwrap().iter().map(|row| row["short"].as_str().unwrap().to_owned()));
    for printed in mail.iter().chain([&to_user]) {
        let row: Value = serde_json::from_str(printed).unwrap();
        let id = row["id"].as_str().unwrap();
        ids.push(if id.starts_with('m') { baton_core::message::short_id(id) } else { id.to_owned() });
    }
    let user_mail = home.run("inbox --json").json();
    ids.extend(user_mail.as_array().unwrap().iter().map(|m| m["short"].as_str().unwrap().to_owned()));
    masks.extend(ids.into_iter().map(|id| (id.clone(), "x".repeat(id.len()))));
    let channel = home.run("channel").ok().split_whitespace().next().unwrap().to_owned();
    masks.push((channel.clone(), mask("app-", &channel)));
    let masks = Mask(masks);

    let mail = home.state().join("mail/user");
    let unread = home.path().join("unread");
    copy(&mail, &unread);
    for (name, line) in COMMANDS {
        let mut all = String::new();
        for width in WIDTHS {
            let shown = |coloured: bool| {
                let text = masks.apply(&at(&home, width, line, coloured).unwrap());
                // Showing a message marks it as read, so restore it for the next width.
                copy(&unread, &mail);
                text
            };
            let (plain, coloured) = (shown(false), shown(true));
            let codes = coloured.replace('\x1b', "␛");
            let _ = write!(all, "== {line} · {width} columns\n{plain}");
            if codes != plain {
                let _ = write!(all, "-- in colour\n{codes}");
            }
        }
        insta::assert_snapshot!(name, home.tidy(&all));
    }
    tests.hook("Stop").ok();
    asked.wait().unwrap();
}

/// Makes `to` a copy of `from`.
pub(crate) fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    let copied = std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

/// A text of the same width with the same beginning.
pub(crate) fn mask(begin: &str, text: &str) -> String {
    format!("{begin}{}", "x".repeat(text.len() - begin.len()))
}

/// The rules do not know a secret with an invisible character in it; without that character it is whole again. So the
/// character goes first.
#[test]
fn a_secret_with_an_invisible_character_in_it_is_shown_nowhere() {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").ok();
    let (one, other) = ("a1B2c3D4e5F6g7H8i9", "J0k1L2m3N4o5P6q7R8");
    let secret = format!("ghp_{one}\u{200b}{other}");
    let prompt = format!("Push with {secret} now");
    client.hook_with("UserPromptSubmit", json!({ "prompt": prompt })).ok();
    client.says(&prompt);
    let error = format!("401 for {secret}");
    client.hook_with("StopFailure", json!({ "error": "server_error", "last_assistant_message": error })).ok();
    let session = client.session.clone();
    let agent = client.agent();
    for line in [
        "agents",
        "agents --json",
        "status --all",
        "status --all --json",
        "inbox",
        "inbox --json",
        "log --json",
        "sessions list --all",
        &format!("what {agent}"),
        &format!("what {agent} --json"),
        &format!("tail {agent}"),
        &format!("sessions show {session}"),
        &format!("sessions show {session} --turns --json"),
    ] {
        let said = home.run(line);
        assert!(!said.out.contains(one) && !said.out.contains(other), "{line}: {said:?}");
    }
    // An error quotes the request, so it does not reach the record either.
    let kept = client.kept()["error"].to_string();
    assert!(kept.contains("401 for") && !kept.contains(one) && !kept.contains(other), "{kept}");
}
