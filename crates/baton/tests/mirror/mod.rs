//! Promise 17: no raw conversation is lost. The mirror holds every byte that a hook could see, whatever the client does
//! to its transcript and however hooks end.

mod cost;
mod faults;

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::Ordering;

use baton::testing::mirror::{Mirror, MirrorOrigin, MirroredSession, PER_HOOK};
use baton_core::ids::SessionId;
use baton_testkit::Home;
use baton_testkit::hooks::Client;
use baton_testkit::rng::Rng;
use serde_json::json;

fn home() -> Home {
    Home::new(crate::BATON)
}

fn mirror(home: &Home) -> Mirror {
    Mirror::new(&home.state())
}

fn mirrored(home: &Home, session: &str) -> MirroredSession {
    let id = SessionId::new(session).unwrap();
    mirror(home).of(&id).unwrap().unwrap_or_else(|| panic!("nothing was mirrored of {session}"))
}

/// The contents of each generation of `part`, oldest first.
fn generations(mirrored: &MirroredSession, part: &str) -> Vec<Vec<u8>> {
    let part = mirrored.parts.iter().find(|p| p.name == part).expect("that part was mirrored");
    part.generations
        .iter()
        .map(|generation| {
            let mut bytes = Vec::new();
            part.open(generation).unwrap().read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes.len() as u64, generation.bytes);
            bytes
        })
        .collect()
}

#[test]
fn each_hook_copies_what_the_transcript_grew_by() {
    let home = home();
    let client = Client::new(&home);
    client.starts("startup").silent();
    for event in ["UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop", "SessionEnd"] {
        client.answers(20_000);
        client.hook(event).ok();
        let kept = mirrored(&home, &client.session);
        let transcript = std::fs::read(client.transcript()).unwrap();
        assert_eq!(generations(&kept, "main"), [transcript], "after {event}");
    }
    let kept = mirrored(&home, &client.session);
    assert_eq!(Path::new(&kept.meta.transcript), client.transcript());
    assert_eq!(Path::new(&kept.meta.cwd), home.project());
}

#[test]
fn text_that_was_cut_rewritten_or_deleted_is_still_there() {
    let home = home();
    let client = Client::new(&home);
    let path = client.transcript();
    let mut seen = Vec::new();
    let mut see = |what: &str| {
        client.hook("PostToolUse").ok();
        let now = std::fs::read(&path).unwrap_or_default();
        assert!(!now.is_empty());
        seen.push((what.to_owned(), now));
        let held = generations(&mirrored(&home, &client.session), "main");
        for (what, bytes) in &seen {
            assert!(held.iter().any(|g| g.starts_with(bytes)), "{what} is not in the mirror");
        }
        held.len()
    };
    client.answers(1_000);
    client.answers(2_000);
    assert_eq!(see("the first lines"), 1);
    let whole = std::fs::read(&path).unwrap();

    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(see("half of them"), 2, "a cut begins a generation");
    client.answers(3_000);
    assert_eq!(see("half of them and a new one"), 2, "which continues growing");

    let rewritten = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).replace("assistant", "ASSISTANT");
    std::fs::write(&path, rewritten).unwrap();
    assert_eq!(see("rewritten in its place"), 3);

    std::fs::remove_file(&path).unwrap();
    client.hook("PostToolUse").ok();
    client.answers(4_000);
    assert_eq!(see("a new one after a deletion"), 4);

    // The same length and the same end, but another file, so it is noticed.
    let mut bytes = std::fs::read(&path).unwrap();
    let other = path.with_extension("new");
    bytes[3] = b'X';
    std::fs::write(&other, &bytes).unwrap();
    std::fs::rename(&other, &path).unwrap();
    assert_eq!(see("another file in its place"), 5);

    // The same change in place is found when the session ends.
    bytes[3] = b'Y';
    std::fs::write(&path, &bytes).unwrap();
    client.hook("SessionEnd").ok();
    assert_eq!(generations(&mirrored(&home, &client.session), "main").last(), Some(&bytes));
}

/// Whatever happens to a transcript between two hooks, every state that a hook saw is a prefix of some generation.
#[test]
fn every_state_that_a_hook_saw_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (mut cuts, mut most) = (0, 0);
    let mirror = Mirror::new(dir.path());
    for seed in 0..baton_testkit::times(100) as u64 {
        let mut rng = Rng::new(seed);
        let session = SessionId::new(format!("s{seed}")).unwrap();
        let transcript = dir.path().join(format!("t-{seed}.jsonl"));
        let origin =
            MirrorOrigin { session: &session, provider: "claude", transcript: &transcript, cwd: "/" };
        let mut met: Vec<Vec<u8>> = Vec::new();
        let mut now = Vec::new();
        for step in 0..40 {
            let mut flipped = false;
            match rng.pick(0..10) {
                0 if now.len() > 300 => {
                    let keep = usize::try_from(rng.pick(1..now.len() as u64)).unwrap();
                    now.truncate(keep);
                    cuts += 1;
                }
                1 => now.clear(),
                2 if now.len() > 300 => {
                    now[0] ^= 1;
                    flipped = true;
                }
                _ => {}
            }
            for _ in 0..rng.pick(0..4) {
                now.extend(format!("{{\"n\":{},\"step\":{step}}}\n", rng.pick(0..1 << 40)).repeat(3).bytes());
            }
            std::fs::write(&transcript, &now).unwrap();
            let file = std::fs::File::open(&transcript).unwrap();
            // If the first byte changed in place, only a full comparison notices.
            if flipped {
                mirror.compare(&origin, &file, 1 << 20).unwrap();
            }
            mirror.take(&origin, &file, PER_HOOK).unwrap();
            met.push(now.clone());
        }
        let kept = mirror.of(&session).unwrap().unwrap();
        let held = generations(&kept, "main");
        most = most.max(held.len());
        for (step, bytes) in met.iter().enumerate() {
            assert!(held.iter().any(|g| g.starts_with(bytes)), "seed {seed}: step {step} is lost");
        }
    }
    assert!(cuts > 50 && most > 3, "{cuts} cuts, {most} generations at most: nothing was tried");
}

#[test]
fn a_long_backlog_is_taken_in_shares_by_hooks_and_whole_at_the_end() {
    let home = home();
    let client = Client::new(&home);
    let line = format!("{}\n", "x".repeat(99_999));
    client.answers(10);
    std::fs::write(client.transcript(), line.repeat(50)).unwrap();
    for n in 1..=3u64 {
        client.hook("PostToolUse").ok();
        assert_eq!(mirrored(&home, &client.session).newest().unwrap().1.bytes, n * PER_HOOK);
    }
    client.hook("SessionEnd").ok();
    let held = generations(&mirrored(&home, &client.session), "main");
    assert_eq!(held, [line.repeat(50).into_bytes()]);
}

#[test]
fn conversations_of_subagents_are_kept_with_the_session() {
    let home = home();
    let client = Client::new(&home);
    client.answers(10);
    let dir = client.transcript().with_extension("").join("subagents");
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("agent-a1.jsonl");
    std::fs::write(&path, "{\"a\":1}\n").unwrap();
    client.hook_with("PostToolUse", json!({ "agent_id": "a1" })).silent();
    assert_eq!(generations(&mirrored(&home, &client.session), "agent-a1"), [b"{\"a\":1}\n"]);
    std::fs::write(&path, "{\"a\":1}\n{\"a\":2}\n").unwrap();
    client.hook_with("SubagentStop", json!({ "agent_id": "a1", "agent_transcript_path": path })).silent();
    assert_eq!(generations(&mirrored(&home, &client.session), "agent-a1"), [b"{\"a\":1}\n{\"a\":2}\n"]);
    // A transcript that nobody announced is found when the turn ends.
    std::fs::write(dir.join("agent-b2.jsonl"), "{\"b\":1}\n").unwrap();
    std::fs::write(dir.join("..hostile.jsonl"), "no name of ours\n").unwrap();
    client.hook("Stop").ok();
    let kept = mirrored(&home, &client.session);
    let names: Vec<&str> = kept.parts.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["main", "agent-a1", "agent-b2"]);
}

#[test]
fn a_transcript_that_is_not_a_file_does_no_harm() {
    let home = home();
    let client = Client::new(&home);
    for event in ["SessionStart", "PostToolUse", "Stop", "PreCompact", "SessionEnd"] {
        client.hook(event).ok();
    }
    std::fs::create_dir_all(client.transcript()).unwrap();
    for event in ["SessionStart", "PostToolUse", "Stop", "PreCompact", "SessionEnd"] {
        client.hook(event).ok();
    }
    std::fs::remove_dir(client.transcript()).unwrap();
    std::fs::write(client.transcript(), "").unwrap();
    for event in ["SessionStart", "PostToolUse", "Stop", "PreCompact", "SessionEnd"] {
        client.hook(event).ok();
    }
    client.answers(10);
    client.hook("PostToolUse").ok();
    let transcript = std::fs::read(client.transcript()).unwrap();
    assert_eq!(generations(&mirrored(&home, &client.session), "main"), [transcript]);
}

#[test]
fn nothing_is_copied_when_the_settings_say_so() {
    let home = home();
    home.write(".config/baton/config.toml", "[mirror]\nenabled = false\n");
    let client = Client::new(&home);
    client.answers(10);
    for event in ["SessionStart", "PostToolUse", "Stop", "PreCompact", "SessionEnd"] {
        client.hook(event).ok();
    }
    assert!(!home.state().join("mirror").exists());
}

#[test]
fn a_cloned_project_cannot_turn_the_mirror_off() {
    let home = home();
    home.write("work/app/.baton.toml", "[mirror]\nenabled = false\n");
    let client = Client::new(&home);
    client.answers(10);
    client.hook("PostToolUse").ok();
    assert_eq!(generations(&mirrored(&home, &client.session), "main").len(), 1);
    let said = home.run("trust").ok();
    assert!(said.contains("Not honoured; only your own config.toml may set it"), "{said}");
    client.answers(20);
    client.hook("PostToolUse").ok();
    let transcript = std::fs::read(client.transcript()).unwrap();
    assert_eq!(generations(&mirrored(&home, &client.session), "main"), [transcript]);
}

/// Fifty hooks at once while the transcript grows: no byte is doubled, none is missing.
#[test]
fn concurrent_hooks_copy_each_byte_once() {
    let home = home();
    let client = Client::new(&home);
    client.starts("startup").silent();
    for round in 0..4 {
        let payload = home.write("payload.json", client.usual("PostToolUse").to_string());
        let mut running = Vec::new();
        for n in 0..50 {
            client.answers(1_000 + 100 * round + n);
            let mut command = client.command("PostToolUse");
            command.stdin(std::fs::File::open(&payload).unwrap()).stdout(Stdio::null());
            running.push(command.spawn().unwrap());
        }
        for mut hook in running {
            assert!(hook.wait().unwrap().success());
        }
        client.hook("PostToolUse").ok();
        let transcript = std::fs::read(client.transcript()).unwrap();
        assert_eq!(generations(&mirrored(&home, &client.session), "main"), [transcript]);
    }
}

#[test]
fn files_are_0600_and_folders_0700_under_umask_000() {
    let home = home();
    let client = Client::new(&home);
    client.answers(10);
    let payload = home.write("payload.json", client.usual("PostToolUse").to_string());
    let mut command = home.command("sh");
    command.args(["-c", "umask 000; exec \"$0\" hook PostToolUse", crate::BATON]);
    client.dress(&mut command);
    let mut hook = command.stdin(std::fs::File::open(&payload).unwrap()).spawn().unwrap();
    assert!(hook.wait().unwrap().success());
    let folder = mirror(&home).folder(&SessionId::new(client.session.clone()).unwrap());
    let mode = |path: &Path| path.symlink_metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(folder.parent().unwrap()), 0o700);
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().map(|e| e.path()).collect();
    assert!(files.len() >= 2, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn a_link_planted_in_the_mirror_is_not_followed() {
    let home = home();
    let client = Client::new(&home);
    client.answers(10);
    client.hook("PostToolUse").ok();
    // It looks like a copy to continue; following the link would write to it.
    let precious = std::fs::read(client.transcript()).unwrap();
    let target = home.write("precious", &precious);
    let folder = mirror(&home).folder(&SessionId::new(client.session.clone()).unwrap());
    std::fs::remove_file(folder.join("main.jsonl")).unwrap();
    std::os::unix::fs::symlink(&target, folder.join("main.jsonl")).unwrap();
    client.answers(20);
    client.hook("PostToolUse").ok();
    assert_eq!(std::fs::read(&target).unwrap(), precious);
}

/// A client that writes, and sometimes truncates or rewrites its file, while hooks copy what they see.
#[test]
fn a_transcript_that_changes_while_it_is_copied_is_whole_in_the_end() {
    use std::io::Write as _;
    let dir = tempfile::tempdir().unwrap();
    let mirror = Mirror::new(dir.path());
    let session = SessionId::new("s").unwrap();
    let transcript = dir.path().join("t.jsonl");
    std::fs::write(&transcript, "").unwrap();
    let origin = MirrorOrigin { session: &session, provider: "claude", transcript: &transcript, cwd: "/" };
    // The writer continues until hooks have run often enough, however the two are scheduled.
    let met = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut rng = Rng::new(7);
            let mut n = 0;
            while n < 3_000 || !met.load(Ordering::Relaxed) {
                let mut file = std::fs::OpenOptions::new().append(true).open(&transcript).unwrap();
                writeln!(file, "{{\"n\":{n},\"id\":{}}}", rng.roll()).unwrap();
                let len = file.metadata().unwrap().len();
                match rng.pick(0..200) {
                    0 => file.set_len(len / 2).unwrap(),
                    1 => std::fs::write(&transcript, "{\"rewritten\":true}\n").unwrap(),
                    _ => {}
                }
                n += 1;
            }
        });
        let (mut hooks, mut generations) = (0, 0);
        while !writer.is_finished() {
            let source = std::fs::File::open(&transcript).unwrap();
            let took = mirror.take(&origin, &source, PER_HOOK).unwrap();
            hooks += 1;
            generations += u32::from(took.began);
            met.store(hooks > 20 && generations > 4, Ordering::Relaxed);
        }
    });
    let source = std::fs::File::open(&transcript).unwrap();
    while mirror.take(&origin, &source, PER_HOOK).unwrap().left > 0 {}
    let kept = mirror.of(&session).unwrap().unwrap();
    assert_eq!(generations(&kept, "main").last(), Some(&std::fs::read(&transcript).unwrap()));
    assert!(kept.main().unwrap().generations.len() > 3);
}
