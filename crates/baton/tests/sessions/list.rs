//! `baton sessions list`: one row for each conversation, thousands at once.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use baton_testkit::hooks::Client;
use baton_testkit::{Home, history, trace};
use serde_json::{Value, json};

use super::made::{Claude, codex, id};
use crate::BATON;

/// A project with one conversation, and another with two.
fn two_projects() -> Home {
    let home = Home::in_memory(BATON);
    home.write("work/app/.baton.toml", "");
    home.write("work/other/.baton.toml", "");
    let app = home.project();
    Claude::new(&home, 1, &app).user("Port the parser.").says("Ported.").says("Tested.").write();
    let other = home.path().join("work/other");
    Claude::new(&home, 2, &other)
        .user("Fix the lexer.")
        .calls("t", "Bash", &json!({ "command": "make" }))
        .write();
    let other = std::fs::canonicalize(other).unwrap();
    codex(&home.path().join(".codex"), 3, &other, "Say hello", "Hello.");
    home
}

#[test]
fn a_row_shows_title_age_length_tokens_and_how_the_conversation_ended() {
    let home = two_projects();
    let rows = home.run("sessions list --all --json").json();
    let rows = rows.as_array().unwrap();
    assert_eq!(
        rows.iter().map(|r| r["title"].as_str().unwrap()).collect::<Vec<_>>(),
        ["Say hello", "Fix the lexer.", "Port the parser."]
    );
    let row = &rows[2];
    assert_eq!((row["id"].as_str(), row["provider"].as_str()), (Some(id(1).as_str()), Some("claude")));
    assert_eq!((row["tokens"].as_u64(), row["seconds"].as_u64()), (Some(42_000), Some(120)));
    assert_eq!((row["ending"].as_str(), row["resumable"].as_bool()), (Some("answered"), Some(true)));
    assert_eq!((row["branch"].as_str(), row["model"].as_str()), (Some("main"), Some("claude-opus-5-5")));
    assert_eq!(rows[1]["ending"], "unfinished");
    assert_eq!((rows[0]["provider"].as_str(), rows[0]["tokens"].as_u64()), (Some("codex"), Some(5050)));
    let text = home.run("sessions list --all").ok();
    let line = text.lines().find(|l| l.contains("Port the parser.")).unwrap();
    for part in ["00000001", "2m", "42k", "done", "~/work/app"] {
        assert!(line.contains(part), "{part} is missing in {text}");
    }
}

#[test]
fn this_project_is_listed_unless_another_or_all_are_asked_for() {
    let home = two_projects();
    let titles = |line: &str| {
        let rows = home.run(line).json();
        rows.as_array().unwrap().iter().map(|r| r["title"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(titles("sessions list --json"), ["Port the parser."]);
    assert_eq!(
        titles("sessions --json"),
        ["Port the parser."],
        "without a terminal the list is what it does"
    );
    assert_eq!(titles("sessions list --project other --json"), ["Say hello", "Fix the lexer."]);
    assert_eq!(titles("sessions list --project ../other --json"), ["Say hello", "Fix the lexer."]);
    assert_eq!(titles("sessions list --all -n 1 --json"), ["Say hello"]);
    assert!(home.run("sessions list --all -n 1").ok().contains("and 2 more"));
    let nothing = home.run("sessions list --project nowhere");
    assert_eq!(nothing.code, Some(3), "{nothing:?}");
}

#[test]
fn codex_home_says_where_codex_keeps_its_transcripts() {
    let home = two_projects();
    let elsewhere = home.path().join("elsewhere");
    codex(&elsewhere, 9, &home.project(), "Only there", "Yes.");
    let mut command = home.baton(["sessions", "list", "--all", "--json"]);
    let rows = baton_testkit::home::run(command.env("CODEX_HOME", &elsewhere)).json();
    let titles: Vec<_> = rows.as_array().unwrap().iter().map(|r| r["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["Only there", "Fix the lexer.", "Port the parser."]);
}

#[test]
fn a_row_shows_handoffs_in_and_out_and_a_continued_session_keeps_the_title_it_continues() {
    let home = Home::in_memory(BATON);
    home.write("work/app/.claude/keep", "");
    let mut client = Client::new(&home);
    let asks = |client: &Client<'_>, text: &str| {
        let at = format!("{:.3}", jiff::Timestamp::now());
        client.record(&json!({ "type": "user", "uuid": text, "timestamp": at, "cwd": home.project(), "sessionId": client.session,
            "message": { "role": "user", "content": text } }));
    };
    client.starts("startup").silent();
    asks(&client, "Write the parser");
    client.answers(1000);
    client.hook("UserPromptSubmit").silent();
    let first = client.session.clone();
    let file = home.write("h.md", "# State\nHalf done.\n");
    let sealed = home.run(&format!("handoffs seal {} --session {first}", file.display())).ok();
    client.clears().ok();
    client.hook("UserPromptSubmit").ok();
    asks(&client, "Continue where the loaded handoff HO-1 left off.");
    client.answers(1000);
    let rows = home.run("sessions list --json").json();
    let row = |id: &str| rows.as_array().unwrap().iter().find(|r| r["id"] == id).unwrap().clone();
    let handoff = json!([sealed.trim()]);
    assert_eq!(
        (&row(&first)["handoffs_out"], &row(&first)["handoffs_in"]),
        (&handoff, &json!([])),
        "{rows:#}"
    );
    let second = row(&client.session);
    assert_eq!(second["handoffs_in"], handoff, "{rows:#}");
    assert_eq!(second["title"], "↳ Write the parser");
    assert_eq!((second["state"].as_str(), second["resumable"].as_bool()), (Some("running"), Some(false)));
    assert_eq!(
        (row(&first)["state"].as_str(), row(&first)["reason"].as_str()),
        (Some("ended"), Some("clear"))
    );
    let text = home.run("sessions list").ok();
    assert!(text.contains("1→") && text.contains("→1") && text.contains("running"), "{text}");
    let gone = client.session.clone();
    drop(client);
    let rows = home.run("sessions list --json").json();
    let row = rows.as_array().unwrap().iter().find(|r| r["id"] == gone.as_str()).unwrap().clone();
    assert_eq!(row["state"], "died", "killed without an end");
}

/// The record is appended in place, which does not change its folder's modification time.
#[test]
fn a_session_that_ends_while_nothing_else_changes_is_listed_as_ended() {
    let home = Home::in_memory(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.answers(1000);
    client.hook("Stop").ok();
    let an_hour_ago = SystemTime::now() - Duration::from_hours(1);
    let list = || {
        let records = std::fs::File::open(home.state().join("sessions")).unwrap();
        records.set_modified(an_hour_ago).unwrap();
        home.run("sessions list --all --json").json()[0]["state"].as_str().unwrap().to_owned()
    };
    assert_eq!((list(), list()), ("running".to_owned(), "running".to_owned()));
    client.hook_with("SessionEnd", json!({ "reason": "prompt_input_exit" })).ok();
    assert_eq!((list(), list()), ("ended".to_owned(), "ended".to_owned()));
}

/// The transcripts that a listing opens.
fn opened(home: &Home) -> (usize, String) {
    let (calls, ran) = trace::record(home, "sessions list --all --json");
    let opened = calls.iter().filter(|c| c.name.starts_with("open") && c.line.contains(".jsonl")).count();
    (opened, ran.ok())
}

#[test]
fn a_second_listing_opens_no_transcript_but_those_that_changed() {
    if !trace::available() {
        return;
    }
    let home = two_projects();
    let (first, told) = opened(&home);
    assert_eq!(first, 3);
    assert_eq!(opened(&home), (0, told.clone()), "nothing changed");
    let path =
        Claude::new(&home, 1, &home.project()).user("Port the parser.").says("Ported, and more.").write();
    let (third, changed) = opened(&home);
    assert_eq!(third, 1, "only the one that changed");
    assert_ne!(changed, told);
    std::fs::remove_file(path).unwrap();
    let (fourth, fewer) = opened(&home);
    assert_eq!((fourth, fewer.matches("\"id\"").count()), (0, 2));
}

/// How often a listing asks for the names in a folder, and how many sessions it lists.
fn names_read(home: &Home) -> (usize, usize) {
    let (counts, ran) = trace::counted(home, "sessions list --all");
    (counts.calls.get("getdents64").copied().unwrap_or_default(), ran.out.lines().count() - 1)
}

#[test]
fn transcripts_that_grow_appear_move_or_vanish_show_in_the_next_listing() {
    let home = two_projects();
    let listed = || home.run("sessions list --all --json").json();
    let ids = || listed().as_array().unwrap().iter().map(|r| r["id"].to_string()).collect::<String>();
    assert_eq!(listed()[2]["seconds"], 120);
    let one = Claude::new(&home, 1, &home.project()).user("Port the parser.").says("And more.").write();
    assert_eq!(listed()[2]["seconds"], 60);
    let new = Claude::new(&home, 4, &home.project()).user("Something new.").write();
    assert!(ids().contains(&id(4)), "{}", ids());
    std::fs::rename(&one, one.with_file_name(format!("{}.jsonl", id(5)))).unwrap();
    std::fs::remove_file(new).unwrap();
    let ids = ids();
    assert!(ids.contains(&id(5)) && !ids.contains(&id(1)) && !ids.contains(&id(4)), "{ids}");
}

/// Whichever folder's listing fails midway, the next listing is complete again.
#[test]
fn a_folder_whose_listing_fails_midway_is_reported_and_read_again() {
    if !trace::available() {
        return;
    }
    let home = two_projects();
    let (calls, sessions) = names_read(&home);
    assert_eq!(sessions, 3);
    let mut reported = 0;
    for nth in 1..=calls {
        std::fs::remove_file(home.state().join("cache/sessions.json")).unwrap();
        let call = trace::Call { name: "getdents64".to_owned(), nth, line: String::new() };
        let ran = trace::inject(&home, "sessions list --all", &call, "error=EIO");
        let is_reported = ran.err.contains("left out");
        reported += usize::from(is_reported);
        assert!(
            is_reported || ran.out.lines().count() == 4,
            "call {nth} cost rows and nobody was told: {ran:?}"
        );
        assert_eq!(names_read(&home).1, 3, "call {nth}: {ran:?}");
    }
    // Reading the names and finding their end: two folders of folders, three levels of days, and three of transcripts.
    assert!(reported >= 14, "{reported} of {calls} calls were reported");
}

#[test]
fn a_damaged_cache_is_replaced_and_a_missing_one_is_no_loss() {
    let home = two_projects();
    let told = home.run("sessions list --all --json").ok();
    let cache = home.state().join("cache/sessions.json");
    let good = std::fs::read(&cache).unwrap();
    let mut flipped = good.clone();
    let at = good.windows(4).position(|w| w == b"Port").unwrap();
    flipped[at] = b'S';
    let half = good[..good.len() / 2].to_vec();
    for bad in [flipped, half, Vec::new(), vec![0xff; 5000], b"{}\n{}".to_vec()] {
        std::fs::write(&cache, &bad).unwrap();
        assert_eq!(home.run("sessions list --all --json").ok(), told);
        // The number of digits in its times may differ.
        let now = std::fs::read_to_string(&cache).unwrap();
        let good = std::str::from_utf8(&good).unwrap();
        assert!(
            now.contains("Port") && now.len().abs_diff(good.len()) < 40,
            "a good one takes its place: {now}"
        );
    }
    std::fs::remove_file(&cache).unwrap();
    assert_eq!(home.run("sessions list --all --json").ok(), told);
    std::fs::remove_file(&cache).unwrap();
    std::fs::create_dir_all(&cache).unwrap();
    assert_eq!(
        home.run("sessions list --all --json").ok(),
        told,
        "a cache that cannot be written is only slower"
    );
}

#[test]
fn the_cache_of_an_earlier_build_is_replaced_and_that_of_a_newer_one_is_left_alone() {
    let home = two_projects();
    let listed = || home.run("sessions list --all --json").ok();
    let earlier =
        home.write(".local/state/baton/cache/sessions", "baton sessions 5 0.1.0 0123456789abcdef\n");
    let rows = listed();
    assert!(!earlier.exists(), "nobody reads it any more");
    let cache = home.state().join("cache/sessions.json");
    let good = std::fs::read_to_string(&cache).unwrap();
    let (heading, body) = good.split_once('\n').unwrap();
    let heading: Value = serde_json::from_str(heading).unwrap();
    let with = |field: &str, value: Value| {
        let mut changed = heading.clone();
        changed[field] = value;
        std::fs::write(&cache, format!("{changed}\n{body}")).unwrap();
        assert_eq!(listed(), rows);
        let after = std::fs::read_to_string(&cache).unwrap();
        let mut now = serde_json::from_str::<Value>(after.lines().next().unwrap()).unwrap();
        // The entries come in any order.
        now["checksum"] = heading["checksum"].clone();
        now
    };
    let version = heading["version"].as_u64().unwrap();
    assert_eq!(with("version", json!(version - 1)), heading, "an older format is replaced");
    assert_eq!(with("build", json!("0.0.1")), heading, "so are titles that were made by other rules");
    assert_eq!(with("version", json!(version + 1))["version"], version + 1, "a newer format is not ours");
    // Not even a change is written there.
    Claude::new(&home, 4, &home.project()).user("Something new.").write();
    assert!(listed().contains("Something new."));
    let after = std::fs::read_to_string(&cache).unwrap();
    assert!(after.ends_with(body) && !after.contains("Something new."), "{after}");
}

/// The system calls of a listing of all `sessions`: files opened, examined, read, and the total.
struct Syscalls {
    opened: usize,
    looked: usize,
    read: usize,
    bytes: u64,
    all: usize,
    calls: String,
}

const MEMORY: [&str; 6] = ["brk", "mmap", "munmap", "mremap", "mprotect", "madvise"];

fn asked(home: &Home, sessions: usize) -> Syscalls {
    let (counts, ran) = trace::counted(home, "sessions list --all -n 0");
    assert_eq!(ran.out.lines().count(), sessions + 1, "{}", ran.err);
    // Ignore how the allocator gets its memory.
    let calls: BTreeMap<String, usize> =
        counts.calls.into_iter().filter(|(name, _)| !MEMORY.contains(&&**name)).collect();
    let of = |names: &[&str]| names.iter().filter_map(|name| calls.get(*name)).sum::<usize>();
    Syscalls {
        opened: of(&["openat", "open"]),
        looked: of(&["statx", "newfstatat", "stat", "lstat", "fstat"]),
        read: of(&["read", "pread64"]),
        bytes: counts.bytes_read,
        all: calls.values().sum(),
        calls: format!("{calls:?}"),
    }
}

/// The bench measures how long a listing takes. This counts what makes it fast: the first one opens and reads each file
/// once, later ones only look at the entries of folders.
#[test]
fn each_file_of_five_thousand_sessions_is_read_once_and_later_none() {
    const SESSIONS: usize = 5_000;
    /// Calls that do not grow with the number of sessions: folders, libraries, threads.
    const OTHERS: usize = 800;
    if !trace::available() {
        return;
    }
    let home = Home::in_memory(BATON);
    history::generate(home.path(), SESSIONS, 3 << 10);
    let first = asked(&home, SESSIONS);
    assert!(first.opened <= 2 * SESSIONS + OTHERS, "a transcript and its record: {}", first.calls);
    assert!(first.looked <= 4 * SESSIONS + OTHERS, "{}", first.calls);
    assert!(first.read <= 2 * SESSIONS + OTHERS, "each with one read: {}", first.calls);
    let again = asked(&home, SESSIONS);
    assert!(again.opened <= OTHERS, "no transcript and no record: {}", again.calls);
    assert!(again.looked <= SESSIONS + OTHERS, "one look at each: {}", again.calls);
    assert!(again.all <= SESSIONS + 2 * OTHERS, "and nothing else: {}", again.calls);
    assert!(again.all * 5 < first.all, "{} of {}", again.calls, first.calls);
}

#[test]
fn only_the_two_ends_of_a_long_transcript_are_read() {
    if !trace::available() {
        return;
    }
    let home = Home::in_memory(BATON);
    history::generate(home.path(), 5, 3 << 20);
    let first = asked(&home, 5);
    // This includes the program's own libraries and settings.
    assert!(first.bytes < 300 << 10, "{} bytes: {}", first.bytes, first.calls);
}

#[test]
fn a_title_has_no_secret_and_no_control_character() {
    let home = Home::in_memory(BATON);
    let secret = ["ghp", "_", &"a1B2".repeat(9)].concat();
    Claude::new(&home, 1, &home.project())
        .user(&format!("Use {secret}\u{1b}[31m\u{202e} now\nplease"))
        .write();
    for line in ["sessions list --all", "sessions list --all --json"] {
        let told = home.run(line).ok();
        assert!(told.contains("[REDACTED:") && !told.contains("a1B2a1B2"), "{told}");
        assert!(!told.contains('\u{1b}') && !told.contains('\u{202e}'), "{told:?}");
    }
    let cache = std::fs::read(home.state().join("cache/sessions.json")).unwrap();
    let cache = String::from_utf8_lossy(&cache);
    assert!(cache.contains("now please") && !cache.contains("a1B2a1B2"), "it holds only what is shown");
    let value: Value = home.run("sessions list --all --json").json();
    assert!(value[0]["title"].as_str().unwrap().ends_with("now please"), "{value}");
}
