//! A hook that is killed, or meets a full disk, in any call while it copies new bytes.

use std::process::{Command, Stdio};

use baton_core::ids::SessionId;
use baton_testkit::hooks::Client;
use baton_testkit::kill::Pace;
use baton_testkit::rng::Rng;
use baton_testkit::{Home, trace};

use super::{generations, home, mirror, mirrored};

/// A home for one hook that has something to copy: new bytes, or a truncation that begins a generation.
struct Scene {
    home: Home,
    session: String,
    pid: u32,
    process: std::process::Child,
}

impl Scene {
    fn new(case: &str) -> Self {
        let home = home();
        let client = Client::new(&home);
        let session = client.session.clone();
        client.starts("startup").silent();
        client.answers(10);
        if case != "first" {
            client.hook("PostToolUse").ok();
        }
        let path = client.transcript();
        match case {
            "cut" => {
                let bytes = std::fs::read(&path).unwrap();
                std::fs::write(&path, &bytes[..bytes.len() - 20]).unwrap();
            }
            "rewritten" => std::fs::write(&path, "{\"other\":1}\n".repeat(100)).unwrap(),
            _ => client.answers(20),
        }
        home.write("payload.json", client.usual("PostToolUse").to_string());
        drop(client);
        let mut cat = Command::new("cat");
        let process = cat.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        Self { home, session, pid: process.id(), process }
    }

    fn dress(&self, command: &mut Command) {
        let payload = std::fs::File::open(self.home.path().join("payload.json")).unwrap();
        command.env("CLAUDE_PID", self.pid.to_string()).stdin(payload);
    }

    fn transcript(&self) -> Vec<u8> {
        let path = self.home.path().join(format!(".claude/projects/-app/{}.jsonl", self.session));
        std::fs::read(path).unwrap()
    }

    /// Asserts that every generation but the last is unchanged, and that the last is a prefix of the transcript.
    fn check(&self, before: &[Vec<u8>], what: &str) {
        let id = SessionId::new(self.session.clone()).unwrap();
        let Some(kept) = mirror(&self.home).of(&id).unwrap() else { return assert!(before.is_empty()) };
        let held = generations(&kept, "main");
        for old in before {
            assert!(held.iter().any(|g| g.starts_with(old)), "{what}: a byte that was there is gone");
        }
        let transcript = self.transcript();
        for generation in &held {
            let known = before.iter().any(|b| generation.starts_with(b) || b.starts_with(generation))
                || transcript.starts_with(generation);
            assert!(known, "{what}: a generation holds what nobody wrote");
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(format!("/tmp/claude-context-pct-{}.txt", self.session));
    }
}

/// Promises 1 and 2 for the mirror: a kill before, and a fault in, each call that touches it.
#[test]
fn a_kill_or_a_fault_in_any_call_loses_nothing_and_the_next_hook_continues() {
    if !trace::available() {
        return;
    }
    let mut tried = 0;
    for case in ["first", "grown", "cut", "rewritten"] {
        let scene = Scene::new(case);
        let (calls, ran) = trace::record_as(&scene.home, "hook PostToolUse", &|c| scene.dress(c));
        ran.ok();
        let calls: Vec<_> = calls.into_iter().filter(|c| c.line.contains("/mirror")).collect();
        assert!(calls.len() >= 2, "{case}: {calls:?}");
        for call in &calls {
            let faults: &[&str] = match call.name.as_str() {
                "open" | "openat" => &["signal=KILL", "error=EMFILE", "error=EROFS", "error=EACCES"],
                _ => &["signal=KILL", "error=ENOSPC", "error=EIO"],
            };
            for fault in faults {
                let scene = Scene::new(case);
                let id = SessionId::new(scene.session.clone()).unwrap();
                let before = mirror(&scene.home)
                    .of(&id)
                    .unwrap()
                    .map(|kept| generations(&kept, "main"))
                    .unwrap_or_default();
                let ran = trace::inject_as(&scene.home, "hook PostToolUse", &|c| scene.dress(c), call, fault);
                let what = format!("{case}: {fault} in {}", call.line);
                if *fault != "signal=KILL" {
                    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{what}");
                }
                scene.check(&before, &what);
                // The next hook completes it.
                let mut next = scene.home.baton(["hook", "PostToolUse"]);
                scene.dress(&mut next);
                assert!(next.status().unwrap().success());
                scene.check(&before, &what);
                let kept = mirrored(&scene.home, &scene.session);
                assert_eq!(generations(&kept, "main").last(), Some(&scene.transcript()), "{what}");
                tried += 1;
            }
        }
    }
    eprintln!("{tried} kills and faults");
    assert!(tried > 40);
}

/// SIGKILL at random instants within a hook's real run time.
#[test]
fn a_hook_killed_at_any_instant_leaves_a_prefix_of_the_transcript() {
    let home = home();
    let client = Client::new(&home);
    client.starts("startup").ok();
    client.answers(1);
    let payload = home.write("payload.json", client.usual("PostToolUse").to_string());
    let hook = || {
        let mut command = client.command("PostToolUse");
        command.stdin(std::fs::File::open(&payload).unwrap());
        command
    };
    let mut pace = Pace::measured((0..5).map(|_| hook()));
    let mut rng = Rng::announced("kills of hooks");
    let (mut killed, mut n) = (0, 0);
    // On a busy machine most get through, so continue until enough have died.
    while n < baton_testkit::times(200) as u64 || killed < 50 {
        client.answers(1_000 + n);
        killed += usize::from(pace.kill(hook(), &mut rng).killed);
        n += 1;
        let transcript = std::fs::read(client.transcript()).unwrap();
        let held = generations(&mirrored(&home, &client.session), "main");
        assert!(held.len() == 1 && transcript.starts_with(&held[0]), "after kill {n}");
    }
    client.hook("PostToolUse").ok();
    let transcript = std::fs::read(client.transcript()).unwrap();
    assert_eq!(generations(&mirrored(&home, &client.session), "main"), [transcript]);
}
