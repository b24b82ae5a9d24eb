//! A conversation in one file: `tar` can read it, it can be restored elsewhere, and bad archives are refused.

use std::path::{Path, PathBuf};

use baton_testkit::{CommandOutput, Home};
use proptest::prelude::*;
use serde_json::json;

use super::{home, moved, past, past_with, walk};

#[test]
fn tar_can_read_an_archive() {
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

fn restore(home: &Home, from: &Path, args: &[&str]) -> CommandOutput {
    let mut command = home.baton(["backup", "restore"]);
    baton_testkit::home::run(command.arg(from).args(args))
}

/// Asserts that nothing is left where an archive was unpacked.
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

/// An export says where the file was on its machine; we never write to that path.
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
fn a_file_that_is_not_our_archive_is_refused_and_writes_nothing() {
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
        ("link.tar", "was not made by"),
        ("other.tar", "does not write"),
        ("empty.tar", "was not made by"),
        ("cut.tar", "cut off"),
        ("cut-in-header.tar", "cut off"),
        ("cut.tar.zst", "could not read the archive"),
        ("garbage.tar.zst", "could not read the archive"),
        ("claims.tar", "raise --max-size"),
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

#[test]
fn an_archive_with_too_many_files_is_refused_until_the_bound_is_raised() {
    let home = home();
    let past = past(&home, "Many");
    home.run(&format!("backup export {} out.tar", past.session)).ok();
    let other = Home::new(crate::BATON);
    let project = other.project().display().to_string();
    let archive = home.project().join("out.tar");
    let said = restore(&other, &archive, &["--to", &project, "--max-files", "1"]).fails(1);
    assert!(said.contains("more than 1 files") && said.contains("--max-files"), "{said}");
    leaves_nothing(&other);
    restore(&other, &archive, &["--to", &project, "--max-files", "2"]).ok();
}

#[test]
fn the_folder_that_an_export_names_is_not_printed_when_a_terminal_would_obey_it() {
    let home = home();
    let past = past(&home, "Folder");
    home.run(&format!("backup export {} out", past.session)).ok();
    let about = home.project().join("out/baton.json");
    let mut named: serde_json::Value = serde_json::from_slice(&std::fs::read(&about).unwrap()).unwrap();
    let other = Home::new(crate::BATON);
    let out = home.project().join("out");
    for cwd in ["/x\u{1b}]0;owned\u{7}", "/x\n; rm -rf ~", "/x\u{202e}y"] {
        named["cwd"] = cwd.into();
        std::fs::write(&about, named.to_string()).unwrap();
        for more in [&[][..], &["--dry-run"]] {
            let said = restore(&other, &out, more).fails(1);
            assert!(
                said.contains("--to PROJECT") && !said.contains(['\u{1b}', '\u{7}', '\u{202e}']),
                "{said:?}"
            );
        }
    }
    restore(&other, &out, &["--to", &other.project().display().to_string()]).ok();
}

/// A ustar header with any name, kind and size and a correct checksum.
fn header(name: &[u8], kind: u8, size: &[u8], linked: &[u8]) -> [u8; 512] {
    let mut block = [0; 512];
    let mut put = |at: usize, bytes: &[u8], most: usize| {
        let bytes = &bytes[..bytes.len().min(most)];
        block[at..at + bytes.len()].copy_from_slice(bytes);
    };
    put(0, name, 100);
    put(100, b"0000644\0", 8);
    put(124, size, 12);
    put(136, b"00000000000\0", 12);
    put(156, &[kind], 1);
    put(157, linked, 100);
    put(257, b"ustar\x0000", 8);
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// Names that lead elsewhere, names as an export writes them, and arbitrary ones.
fn names() -> impl Strategy<Value = Vec<u8>> {
    let id = "0198c0de-0000-4000-8000-000000000001";
    let chosen = [
        "../../evil.jsonl",
        "/tmp/evil.jsonl",
        "baton.json",
        "{id}.jsonl",
        "{id}/subagents/agent-a1.jsonl",
        "{id}/../../../evil.jsonl",
        "./{id}.jsonl",
        "{id}.jsonl/../x.jsonl",
        "..",
        "",
        "{id}//..//x.jsonl",
    ];
    prop_oneof![
        4 => proptest::sample::select(chosen.map(|name| name.replace("{id}", id).into_bytes()).to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..100),
    ]
}

fn entries() -> impl Strategy<Value = Vec<u8>> {
    let kinds = proptest::sample::select(b"0\x0012345679xgLK".to_vec());
    let linked = proptest::sample::select(vec![&b""[..], b"/etc/passwd", b"../../../evil", b"."]);
    let content = prop_oneof![
        Just(
            b"{\"type\":\"user\",\"cwd\":\"/tmp\",\"message\":{\"role\":\"user\",\"content\":\"x\"}}\n"
                .to_vec()
        ),
        proptest::collection::vec(any::<u8>(), 0..1500),
    ];
    // Mostly the true size, sometimes any other.
    let size = prop_oneof![3 => Just(None), 1 => "[0-7]{11}".prop_map(Some)];
    (names(), kinds, linked, content, size).prop_map(|(name, kind, linked, content, size)| {
        let size = size.unwrap_or_else(|| format!("{:011o}", content.len()));
        let mut out = header(&name, kind, format!("{size}\0").as_bytes(), linked).to_vec();
        out.extend(&content);
        out.resize(out.len().next_multiple_of(512), 0);
        out
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: u32::try_from(baton_testkit::times(48)).unwrap_or(48),
        // Each case starts a process. The message of a failure is enough, so do not shrink it for minutes.
        max_shrink_iters: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever an archive says, it creates files only where a restored conversation belongs.
    #[test]
    fn no_archive_writes_outside_the_folders_of_conversations(
        entries in proptest::collection::vec(entries(), 0..5),
        is_ended in any::<bool>(),
        cut in proptest::option::of(0_usize..4096),
    ) {
        let home = Home::new(crate::BATON);
        let mut bytes = entries.concat();
        if is_ended {
            bytes.extend([0; 1024]);
        }
        if let Some(cut) = cut {
            bytes.truncate(cut);
        }
        let archive = home.write("in.tar", &bytes);
        let before = walk(home.path());
        let project = home.project().display().to_string();
        let ran = restore(&home, &archive, &["--to", &project]);
        prop_assert!(matches!(ran.code, Some(0 | 1 | 3)), "{ran:?}");
        let mut after = walk(home.path());
        after.retain(|path| !before.contains(path));
        after.retain(|path| !path.starts_with(home.state()));
        after.retain(|path| !path.starts_with(home.path().join(".claude/projects")));
        prop_assert_eq!(after, Vec::<PathBuf>::new());
        prop_assert_eq!(std::fs::read(&archive).unwrap(), bytes);
        prop_assert!(!Path::new("/tmp/evil.jsonl").exists());
        leaves_nothing(&home);
        let links = home.command("find").arg(home.path()).args(["-type", "l"]).output().unwrap();
        prop_assert!(links.stdout.is_empty(), "{:?}", links);
    }
}
