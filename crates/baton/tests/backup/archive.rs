//! A conversation in one file: what `tar` reads, what comes back elsewhere, and what is refused.

use std::path::{Path, PathBuf};

use baton_testkit::{Home, Ran};
use serde_json::json;

use super::{home, moved, past, past_with, walk};

#[test]
fn an_archive_is_one_that_tar_reads() {
    let home = home();
    let past = past(&home, "Archive");
    home.run(&format!("backup export {} out.tar", past.session)).ok();
    let tar =
        home.command("tar").args(["-xOf", "out.tar", &format!("{}.jsonl", past.session)]).output().unwrap();
    assert!(tar.status.success(), "{}", String::from_utf8_lossy(&tar.stderr));
    assert_eq!(tar.stdout, past.bytes);
    home.run(&format!("backup export {} out.tar.zst", past.session)).ok();
    let size = |name: &str| std::fs::metadata(home.project().join(name)).unwrap().len();
    assert!(size("out.tar.zst") < size("out.tar") / 2);
}

fn restore(home: &Home, from: &Path, args: &[&str]) -> Ran {
    let mut command = home.baton(["backup", "restore"]);
    baton_testkit::home::run(command.arg(from).args(args))
}

/// Nothing of an archive is left where it was unpacked.
fn leaves_nothing(home: &Home) {
    let left = walk(&home.state().join("mirror"));
    assert!(!left.iter().any(|p| p.to_string_lossy().contains(".import.")), "{left:?}");
}

#[test]
fn an_archive_comes_back_on_another_machine_under_another_project_with_its_subagents() {
    let home = home();
    let past = past_with(&home, "Take me along", |client| {
        let helpers = client.transcript().with_extension("").join("subagents");
        std::fs::create_dir_all(&helpers).unwrap();
        let line = json!({ "type": "user", "isSidechain": true, "cwd": home.project(),
            "message": { "role": "user", "content": "help" } });
        std::fs::write(helpers.join("agent-a1.jsonl"), format!("{line}\n")).unwrap();
    });
    for name in ["out.tar", "out.tar.zst"] {
        let said = home.run(&format!("backup export {} {name}", past.session)).ok();
        assert!(said.contains("baton backup restore FILE"), "{said}");
        let archive = home.project().join(name);
        let other = Home::new(crate::BATON);
        let project = other.project().display().to_string();
        let said = restore(&other, &archive, &["--to", &project]).ok();
        let real = std::fs::canonicalize(other.project()).unwrap();
        assert!(
            said.contains(&format!("cd {} && claude --resume {}", real.display(), past.session)),
            "{said}"
        );
        let mut restored = walk(&other.path().join(".claude/projects"));
        restored.sort();
        assert_eq!(restored.len(), 2, "{restored:?}");
        let text = std::fs::read_to_string(&restored[1]).unwrap();
        assert_eq!(text, moved(&home, &past, &other.project()), "every byte but the project's path");
        let was = home.project().display().to_string();
        let subagent = std::fs::read_to_string(&restored[0]).unwrap();
        assert!(restored[0].ends_with(format!("{}/subagents/agent-a1.jsonl", past.session)), "{restored:?}");
        assert!(subagent.contains(&real.display().to_string()) && !subagent.contains(&was), "{subagent}");
        leaves_nothing(&other);
        let listed = other.run("sessions list --json").json();
        assert_eq!(
            (listed[0]["id"].as_str(), listed[0]["resumable"].as_bool()),
            (Some(&*past.session), Some(true))
        );
        assert!(
            restore(&other, &archive, &["--to", &project]).ok().contains("is back"),
            "once more is no conflict"
        );
    }
}

#[test]
fn an_earlier_generation_comes_back_from_an_archive_too() {
    let home = home();
    let past = past(&home, "Before");
    std::fs::write(
        &past.transcript,
        "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"rewritten\"}}\n",
    )
    .unwrap();
    home.run(&format!("backup verify {}", past.session)).ok();
    home.run(&format!("backup export {} out.tar", past.session)).ok();
    let archive = home.project().join("out.tar");
    let other = Home::new(crate::BATON);
    let project = other.project().display().to_string();
    let none = restore(&other, &archive, &["--to", &project, "--generation", "9"]).fails(1);
    assert!(none.contains("no generation 9"), "{none}");
    restore(&other, &archive, &["--to", &project, "--generation", "1"]).ok();
    let restored = walk(&other.path().join(".claude/projects"));
    let text = std::fs::read_to_string(&restored[0]).unwrap();
    assert!(text.contains("Before") && !text.contains("rewritten"), "{text}");
}

/// What comes from elsewhere says where it lay there; it is no place to write to.
#[test]
fn an_export_is_restored_to_the_clients_own_place_whatever_it_says() {
    let home = home();
    let past = past(&home, "Mine");
    home.run(&format!("backup export {} out", past.session)).ok();
    let about = home.project().join("out/baton.json");
    let other = Home::new(crate::BATON);
    let trap = other.path().join(".profile");
    let said =
        json!({ "session": past.session, "provider": "claude", "cwd": other.project(), "transcript": trap });
    std::fs::write(about, said.to_string()).unwrap();
    restore(&other, &home.project().join("out"), &[]).ok();
    assert!(!trap.exists());
    assert_eq!(walk(&other.path().join(".claude/projects")).len(), 1);
}

#[test]
fn a_codex_conversation_comes_back_below_the_day_on_which_it_began() {
    let home = home();
    let id = crate::sessions::made::id(7);
    let elsewhere = home.path().join("machine/.codex");
    let rollout = crate::sessions::made::codex(&elsewhere, 7, Path::new("/there/app"), "Say hello", "Hello.");
    let out = home.path().join("out");
    std::fs::create_dir_all(&out).unwrap();
    std::fs::copy(&rollout, out.join(format!("{id}.jsonl"))).unwrap();
    let about = |transcript: &Path| {
        json!({ "session": id, "provider": "codex", "cwd": "/there/app", "transcript": transcript })
            .to_string()
    };
    std::fs::write(out.join("baton.json"), about(Path::new("/etc/passwd"))).unwrap();
    let said = restore(&home, &out, &[]).fails(1);
    assert!(said.contains("keeps no conversations at /etc/passwd"), "{said}");
    std::fs::write(out.join("baton.json"), about(&rollout)).unwrap();
    let said = restore(&home, &out, &["--to", &home.project().display().to_string()]).ok();
    let real = std::fs::canonicalize(home.project()).unwrap();
    assert!(said.contains(&format!("cd {} && codex resume {id}", real.display())), "{said}");
    let place: PathBuf = home.path().join(".codex/sessions/2026/11/10").join(rollout.file_name().unwrap());
    assert!(std::fs::read_to_string(place).unwrap().contains(&format!("\"cwd\":\"{}\"", real.display())));
    let listed = home.run("sessions list --json").json();
    assert_eq!((listed[0]["id"].as_str(), listed[0]["title"].as_str()), (Some(&*id), Some("Say hello")));
}

#[test]
fn what_is_no_archive_of_ours_is_refused_and_writes_nothing() {
    let home = home();
    let past = past(&home, "Archive");
    home.run(&format!("backup export {} good.tar", past.session)).ok();
    home.run(&format!("backup export {} good.tar.zst", past.session)).ok();
    home.write("work/app/x.jsonl", "{}\n");
    home.write("work/app/baton.json", "{}");
    std::os::unix::fs::symlink("/etc/passwd", home.project().join("link.jsonl")).unwrap();
    let tar = |args: &[&str]| {
        let made = home.command("tar").arg("--format=ustar").args(args).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    tar(&["-cPf", "above.tar", "--transform=s,x.jsonl,../../x.jsonl,", "x.jsonl"]);
    tar(&["-cPf", "absolute.tar", "--transform=s,x.jsonl,/tmp/x.jsonl,", "x.jsonl"]);
    tar(&["-cf", "link.tar", "link.jsonl"]);
    tar(&["-cf", "other.tar", "--transform=s,x.jsonl,x.txt,", "x.jsonl"]);
    tar(&["-cf", "empty.tar", "baton.json"]);
    let whole = std::fs::read(home.project().join("good.tar")).unwrap();
    home.write("work/app/cut.tar", &whole[..whole.len() - 2000]);
    home.write("work/app/cut-in-header.tar", &whole[..600]);
    let packed = std::fs::read(home.project().join("good.tar.zst")).unwrap();
    home.write("work/app/cut.tar.zst", &packed[..packed.len() / 2]);
    home.write("work/app/garbage.tar.zst", [&packed[..20], &[0x55; 300]].concat());
    // An archive may claim any length.
    let mut claims = whole.clone();
    claims[124..135].copy_from_slice(b"77777777777");
    let sum: u32 = (0..512).map(|n| u32::from(if (148..156).contains(&n) { b' ' } else { claims[n] })).sum();
    claims[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    home.write("work/app/claims.tar", &claims);
    let other = Home::new(crate::BATON);
    let project = other.project().display().to_string();
    let before = walk(other.path());
    for (name, why) in [
        ("above.tar", "does not write"),
        ("absolute.tar", "does not write"),
        ("link.tar", "is nothing that"),
        ("other.tar", "does not write"),
        ("empty.tar", "is nothing that"),
        ("cut.tar", "cut off"),
        ("cut-in-header.tar", "cut off"),
        ("cut.tar.zst", "could not read the archive"),
        ("garbage.tar.zst", "could not read the archive"),
        ("claims.tar", "cut off"),
    ] {
        let said = restore(&other, &home.project().join(name), &["--to", &project]).fails(1);
        assert!(said.contains(why), "{name}: {said}");
        leaves_nothing(&other);
        assert_eq!(walk(&other.path().join(".claude")), Vec::<PathBuf>::new(), "{name}");
    }
    let mut after = walk(other.path());
    after.retain(|p| !before.contains(p) && !p.starts_with(other.state()));
    assert_eq!(after, Vec::<PathBuf>::new());
}
