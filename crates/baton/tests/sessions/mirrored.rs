//! Conversations that only the mirror still has, or has in another form: listed, found once, shown, restored.

use std::path::{Path, PathBuf};

use baton_testkit::Home;
use baton_testkit::home::run;
use baton_testkit::hooks::{Client, send};
use serde_json::{Value, json};

use super::made::{Claude, id};
use super::resume::{home, started, with_client};

/// Runs a whole session of the project, whose hooks mirror `path`.
fn mirror(home: &Home, n: u32, path: &Path) {
    let mut client = Client::new(home);
    client.session = id(n);
    for event in ["SessionStart", "PostToolUse", "SessionEnd"] {
        let mut payload = client.usual(event);
        payload["transcript_path"] = json!(path);
        send(client.command(event), payload.to_string().as_bytes()).ok();
    }
}

fn zebra(home: &Home, n: u32) -> PathBuf {
    Claude::new(home, n, &home.project()).user("Count the zebras").says("Seven zebras.").write()
}

fn json(home: &Home, line: &str) -> Vec<Value> {
    let ran = home.run(line);
    serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"))
}

#[test]
fn a_conversation_that_the_client_deleted_is_listed_found_shown_and_resumed_from_the_mirror() {
    for compressed in [false, true] {
        let home = home();
        let path = zebra(&home, 1);
        mirror(&home, 1, &path);
        if compressed {
            home.run("backup compress").ok();
        }
        let held = std::fs::read_dir(home.state().join("mirror").join(id(1))).unwrap().flatten();
        let is_packed = held.map(|e| e.path()).any(|p| p.extension().is_some_and(|e| e == "zst"));
        assert_eq!(is_packed, compressed, "the case is what it says");
        let before = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let rows = json(&home, "sessions list --json");
        assert_eq!(rows.len(), 1, "{rows:#?}");
        assert_eq!(
            (rows[0]["title"].as_str(), rows[0]["mirror"].as_bool()),
            (Some("Count the zebras"), Some(true))
        );
        assert_eq!((rows[0]["tokens"].as_u64(), rows[0]["resumable"].as_bool()), (Some(42_000), Some(true)));
        let found = json(&home, "sessions search zebras --json");
        assert_eq!(found.len(), 2, "{found:#?}");
        assert!(found.iter().all(|h| h["mirror"] == true && h["session"] == id(1).as_str()), "{found:#?}");
        assert!(home.run("sessions search zebras").ok().contains("(mirror)"));
        assert!(home.run("sessions show 00000001 --turns").ok().contains("Seven zebras."));
        assert_eq!(home.run("sessions show 00000001 --raw").ok().as_bytes(), before);
        let mut command = home.baton(["sessions", "resume", "--last"]);
        with_client(&home, &mut command);
        run(&mut command).ok();
        assert!(started(&home).unwrap().contains(&id(1)));
        assert_eq!(std::fs::read(&path).unwrap(), before, "it is back where it was, byte for byte");
        assert_eq!(json(&home, "sessions list --json")[0]["mirror"], false);
    }
}

#[test]
fn a_mirror_and_its_live_transcript_count_once_and_text_lost_in_a_rewrite_is_still_found() {
    let home = home();
    let path = zebra(&home, 1);
    mirror(&home, 1, &path);
    for compressed in [false, true] {
        if compressed {
            home.run("backup compress").ok();
        }
        let found = json(&home, "sessions search zebras --json");
        assert_eq!(found.len(), 2, "{found:#?}");
        assert!(found.iter().all(|h| h["mirror"] == false), "the live one is told: {found:#?}");
    }
    // The client discards its file and begins another under the same name.
    Claude::new(&home, 1, &home.project())
        .user("Count the lions, all of them, twice if need be")
        .says("Two lions.")
        .says("No more.")
        .write();
    mirror(&home, 1, &path);
    let found = json(&home, "sessions search zebras --json");
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found.iter().all(|h| h["mirror"] == true), "{found:#?}");
    let found = json(&home, "sessions search lions --json");
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found.iter().all(|h| h["mirror"] == false), "{found:#?}");
}
