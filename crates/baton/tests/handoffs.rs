//! `baton handoffs`: the life of a handoff, how bad input is handled, and how the command line behaves.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use baton_testkit::home::{CommandOutput, run};
use baton_testkit::wait::wait_until;
use baton_testkit::{Home, tools, trace};
use serde_json::Value;

use crate::store::{channel, leftovers, live_agent, verified};

fn home() -> Home {
    let home = Home::new(crate::BATON);
    home.write("work/app/doc.md", "# Handoff\n\nwords\n");
    home
}

/// The command line `baton --channel app handoffs LINE`.
fn app(line: &str) -> String {
    format!("--channel app handoffs {line}")
}

fn seal(home: &Home) -> String {
    home.run(&app("seal doc.md")).ok().trim().to_owned()
}

fn status(home: &Home, id: &str) -> String {
    let all = home.run(&app("list --json")).json();
    let found = all.as_array().unwrap().iter().find(|e| e["id"] == id).expect("it is listed");
    found["status"].as_str().unwrap().to_owned()
}

/// Every file of the store with its bytes.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else {
            all.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

// --- The life of a handoff ---

#[test]
fn load_prints_the_document_once_and_says_who_consumed_it() {
    let home = home();
    let id = seal(&home);
    let peeked = home.run(&app("load --peek")).ok();
    assert_eq!(status(&home, &id), "active");
    let loaded = home.run(&app("load --session reader")).ok();
    assert_eq!(peeked, loaded);
    assert!(loaded.starts_with(&format!("<!-- HANDOFF-ID: {id} -->\n")), "{loaded}");
    assert!(loaded.ends_with("-->\n\n# Handoff\n\nwords\n"), "{loaded}");
    let err = home.run(&app("load")).fails(3);
    assert!(
        err.contains(&format!("{id} was already consumed; `baton handoffs show {id}` prints it")),
        "{err}"
    );
    assert_eq!(home.run(&format!("handoffs show {id}")).ok(), loaded);
    let entry = &home.run(&app("list --json")).json()[0];
    assert_eq!(entry["consumed_by_session"], "reader");
    assert_eq!(entry["consumed_by_pid"], std::process::id());
    assert!(entry["consumed_at"].is_string());
}

#[test]
fn a_newer_handoff_takes_the_place_of_the_active_one_which_stays_in_the_archive() {
    let home = home();
    let (one, two) = (seal(&home), seal(&home));
    assert_ne!(one, two, "two in one second do not collide");
    assert_eq!(home.run(&app("current")).ok().trim(), two);
    assert_eq!((status(&home, &one), status(&home, &two)), ("cleared".into(), "active".into()));
    assert!(home.run(&format!("handoffs show {one}")).ok().ends_with("words\n"));
    let active = home.run(&app("list --json")).json();
    assert_eq!(active.as_array().unwrap().iter().filter(|e| e["status"] == "active").count(), 1);
}

#[test]
fn a_dozen_in_one_second_are_listed_in_the_order_of_their_sealing() {
    let home = home();
    let sealed: Vec<String> = (0..12).map(|_| seal(&home)).collect();
    let listed = home.run(&app("list --json")).json();
    let listed: Vec<&str> = listed.as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap()).collect();
    assert!(listed.iter().rev().copied().eq(sealed.iter().map(String::as_str)), "{listed:?}");
}

#[test]
fn an_expired_handoff_is_loaded_only_by_its_id() {
    let home = home();
    let id = seal(&home);
    let created: jiff::Timestamp =
        home.run(&app("list --json")).json()[0]["created_at"].as_str().unwrap().parse().unwrap();
    wait_until("it to be older than a millisecond", || {
        jiff::Timestamp::now().duration_since(created) > jiff::SignedDuration::from_millis(1)
    });
    let mut command = home.baton(app("load").split(' ').map(str::to_owned));
    let err = run(command.env("BATON_HANDOFF_EXPIRY", "1ms")).fails(3);
    assert!(err.contains(&format!("{id} has expired; `baton handoffs load {id}` loads it anyway")), "{err}");
    assert_eq!(status(&home, &id), "expired");
    assert!(home.run(&app(&format!("load {id}"))).ok().ends_with("words\n"));
    assert_eq!(status(&home, &id), "consumed");
}

#[test]
fn a_cleared_handoff_is_not_loaded_and_not_lost() {
    let home = home();
    let id = seal(&home);
    assert!(home.run(&app("clear")).ok().contains(&id));
    assert!(home.run(&app("clear")).fails(3).contains("no active handoff to clear"));
    assert!(home.run(&app("load")).fails(3).contains("was cleared"));
    assert!(home.run(&format!("handoffs show {id}")).ok().ends_with("words\n"));
}

#[test]
fn an_addressed_handoff_waits_for_its_agent_and_goes_to_nobody_else() {
    let home = home();
    live_agent(&home, "ada");
    let id = home.run(&app("seal doc.md --for-agent ada")).ok().trim().to_owned();
    let newer = seal(&home);
    assert!(home.run(&app("load --agent bob")).ok().contains(&newer));
    assert!(home.run(&app("load --agent bob")).code == Some(3));
    assert!(home.run(&app("load --agent ada")).ok().contains(&id));
}

#[test]
fn a_persons_handoff_outlives_an_agents_addressed_one() {
    let home = home();
    live_agent(&home, "ada");
    let persons = seal(&home);
    let agents = home.run(&app("seal doc.md --for-agent ada")).ok().trim().to_owned();
    assert_eq!((status(&home, &persons), status(&home, &agents)), ("active".to_owned(), "active".to_owned()));
    let next = home.run(&app("load --agent bob")).ok();
    assert!(next.contains(&persons) && !next.contains(&agents), "{next}");
    assert!(home.run(&app("load --agent ada")).ok().contains(&agents));
}

#[test]
fn the_history_tells_every_transition_in_its_order() {
    let home = home();
    let (one, two) = (seal(&home), seal(&home));
    home.run(&app("load")).ok();
    let events = home.run(&app("history --json")).json();
    let told: Vec<_> = events
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (e["what"].as_str().unwrap().to_owned(), e["entry"]["id"].as_str().unwrap().to_owned()))
        .collect();
    let expected = [("sealed", &one), ("cleared", &one), ("sealed", &two), ("consumed", &two)]
        .map(|(w, id)| (w.to_owned(), id.clone()));
    assert_eq!(told, expected);
}

// --- Bad input ---

/// Each way in which a manifest can be damaged.
fn damaged_manifests(home: &Home) -> Vec<(&'static str, Vec<u8>)> {
    let good = std::fs::read(home.store().join("app.manifest.json")).unwrap();
    let foreign = String::from_utf8(good.clone()).unwrap().replace("\"app\"", "\"other\"");
    vec![
        ("empty", Vec::new()),
        ("truncated", good[..good.len() / 2].to_vec()),
        ("garbage", b"\x00\xff\x00 not json".to_vec()),
        ("another shape", b"[1, 2, 3]\n".to_vec()),
        ("of another channel", foreign.into_bytes()),
    ]
}

#[test]
fn readers_refuse_a_damaged_manifest_and_repair_builds_it_again() {
    let template = home();
    seal(&template);
    for (how, bytes) in damaged_manifests(&template) {
        let home = home();
        let (old, id) = (seal(&home), seal(&home));
        let manifest = home.store().join("app.manifest.json");
        std::fs::write(&manifest, &bytes).unwrap();
        let before = contents(&home.store());
        for line in ["list", "current", "load --peek"] {
            let err = home.run(&app(line)).fails(1);
            assert!(err.contains(&manifest.display().to_string()), "{how}, {line}: {err}");
            assert!(err.contains("cannot be understood"), "{how}, {line}: {err}");
            assert!(err.contains("nothing was changed. Run `baton handoffs repair`"), "{how}, {line}: {err}");
            assert_eq!(contents(&home.store()), before, "{how}: `{line}` changed something");
        }
        let said = home.tidy(&home.run(&app("repair")).ok());
        assert!(said.contains("set aside ~/.claude/handoff/app.manifest.json as "), "{how}: {said}");
        assert!(said.contains(&format!("current is {id} (active)")), "{how}: {said}");
        let aside =
            contents(&home.store()).into_iter().find(|(p, _)| p.display().to_string().contains("damaged-"));
        assert_eq!(aside.expect("nothing is deleted").1, bytes, "{how}");
        assert!(home.run(&app("load")).ok().contains(&id), "{how}");
        assert_eq!((status(&home, &old), status(&home, &id)), ("cleared".into(), "consumed".into()), "{how}");
        assert!(home.run(&app("repair")).ok().contains("is sound; nothing was changed"), "{how}");
    }
}

#[test]
fn sealing_sets_a_damaged_manifest_aside_and_continues() {
    let template = home();
    seal(&template);
    for (how, bytes) in damaged_manifests(&template) {
        let home = home();
        let old = seal(&home);
        std::fs::write(home.store().join("app.manifest.json"), &bytes).unwrap();
        let id = seal(&home);
        assert_eq!((status(&home, &old), status(&home, &id)), ("cleared".into(), "active".into()), "{how}");
        let aside =
            contents(&home.store()).into_iter().find(|(p, _)| p.display().to_string().contains("damaged-"));
        assert_eq!(aside.expect("nothing is deleted").1, bytes, "{how}");
        assert!(home.run(&app("load")).ok().contains(&id), "{how}");
        let doctor = home.run("doctor");
        assert!(doctor.out.contains("damaged-"), "{how}: {}", doctor.out);
    }
}

#[test]
fn a_manifest_of_a_newer_baton_is_left_alone_by_every_command() {
    let home = home();
    seal(&home);
    let manifest = home.store().join("app.manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap().replace("\"version\": 1", "\"version\": 9");
    std::fs::write(&manifest, &text).unwrap();
    for line in ["list", "current", "load", "load --peek", "clear", "seal doc.md", "repair"] {
        let err = home.run(&app(line)).fails(1);
        assert!(err.contains("a newer baton"), "{line}: {err}");
        assert_eq!(std::fs::read_to_string(&manifest).unwrap(), text, "{line}");
    }
}

#[test]
fn a_rebuilt_manifest_remembers_the_addressed_handoffs_that_still_wait() {
    let home = home();
    live_agent(&home, "ada");
    let ada = home.run(&app("seal doc.md --for-agent ada --session s-ada")).ok().trim().to_owned();
    let bob = home.run(&app("seal doc.md --for-agent bob --session s-bob")).ok().trim().to_owned();
    home.run(&app("load --agent bob")).ok();
    let current = seal(&home);
    std::fs::write(home.store().join("app.manifest.json"), "{").unwrap();
    home.run(&app("repair")).ok();
    let manifest = verified(&home, &channel("app"));
    let waiting: Vec<String> = manifest.waiting.iter().map(|e| e.id.to_string()).collect();
    assert_eq!((waiting, manifest.current.unwrap().id.to_string()), (vec![ada.clone()], current));
    assert!(home.run(&app("load --agent ada")).ok().contains(&ada));
    assert_eq!(status(&home, &bob), "consumed");
}

#[test]
fn a_document_with_another_id_is_not_loaded_and_set_aside_by_repair() {
    let home = home();
    let id = seal(&home);
    let archived = home.store().join(format!("archive/{id}.md"));
    let foreign = std::fs::read_to_string(&archived).unwrap().replace(&id, "HO-20200101-000000-foreign");
    std::fs::write(&archived, &foreign).unwrap();
    std::fs::write(home.store().join("app-CURRENT.md"), &foreign).unwrap();
    let before = contents(&home.store());
    let err = home.run(&app("load")).fails(1);
    assert!(err.contains(&format!("carries handoff {id} (it carries HO-20200101-000000-foreign)")), "{err}");
    assert!(err.contains("nothing was loaded and nothing changed. Run `baton handoffs repair`"), "{err}");
    assert_eq!(contents(&home.store()), before);
    let said = home.run(&app("repair")).ok();
    assert_eq!(said.matches("set aside").count(), 3, "both documents and the manifest: {said}");
    assert!(home.run(&app("load")).fails(3).contains("there is no handoff"));
    let id = seal(&home);
    assert!(home.run(&app("load")).ok().contains(&id));
}

#[test]
fn a_waiting_handoff_without_its_document_does_not_block_the_channel() {
    let home = home();
    live_agent(&home, "ada");
    let ada = home.run(&app("seal doc.md --for-agent ada")).ok().trim().to_owned();
    let current = seal(&home);
    std::fs::remove_file(home.store().join(format!("archive/{ada}.md"))).unwrap();
    assert!(home.run(&app("load --agent ada")).fails(1).contains("Run `baton handoffs repair`"));
    assert!(home.run(&app("repair")).ok().contains(&format!("cleared {ada}")));
    assert_eq!(status(&home, &ada), "cleared");
    assert!(home.run(&app("load --agent ada")).ok().contains(&current));
}

/// Runs `line` while the disk fails to open `path`.
fn with_unreadable(home: &Home, line: &str, path: &Path) -> CommandOutput {
    let (calls, _) = trace::record(home, line);
    let opens = |call: &&trace::Call| {
        call.name.starts_with("open") && call.line.contains(&format!("{}\"", path.display()))
    };
    let call =
        calls.iter().find(opens).unwrap_or_else(|| panic!("`{line}` does not open {}", path.display()));
    trace::inject(home, line, call, "error=EIO")
}

#[test]
fn repair_leaves_a_document_alone_that_the_disk_fails_to_read() {
    if !trace::available() {
        return;
    }
    let home = home();
    live_agent(&home, "ada");
    let ada = home.run(&app("seal doc.md --for-agent ada")).ok().trim().to_owned();
    let current = seal(&home);
    for id in [&ada, &current] {
        let document = home.store().join(format!("archive/{id}.md"));
        let said = with_unreadable(&home, &app("repair"), &document).fails(1);
        assert!(said.contains(&document.display().to_string()) && said.contains("os error 5"), "{said}");
        assert_eq!((status(&home, &ada), status(&home, &current)), ("active".into(), "active".into()));
        assert!(document.exists());
    }
    assert!(home.run(&app("repair")).ok().contains("is sound; nothing was changed"));
}

#[test]
fn a_rebuilt_manifest_keeps_a_waiting_handoff_that_the_disk_fails_to_read() {
    if !trace::available() {
        return;
    }
    let home = home();
    live_agent(&home, "ada");
    let ada = home.run(&app("seal doc.md --for-agent ada")).ok().trim().to_owned();
    seal(&home);
    let manifest = home.store().join("app.manifest.json");
    let sound = std::fs::read(&manifest).unwrap();
    // Recording the calls repairs it, so damage it before each run.
    let document = home.store().join(format!("archive/{ada}.md"));
    std::fs::write(&manifest, "{").unwrap();
    let (calls, _) = trace::record(&home, &app("repair"));
    let name = format!("{}\"", document.display());
    let call = calls.iter().find(|call| call.name.starts_with("open") && call.line.contains(&name)).unwrap();
    std::fs::write(&manifest, "{").unwrap();
    trace::inject(&home, &app("repair"), call, "error=EIO").ok();
    let rebuilt = std::fs::read(&manifest).unwrap();
    assert_eq!(String::from_utf8_lossy(&rebuilt), String::from_utf8_lossy(&sound));
}

#[test]
fn a_listing_of_the_channels_that_fails_midway_is_an_error() {
    if !trace::available() {
        return;
    }
    let home = home();
    let ids = ["app", "other"]
        .map(|channel| home.run(&format!("--channel {channel} handoffs seal doc.md")).ok().trim().to_owned());
    let (counts, _) = trace::counted(&home, "handoffs list --all");
    let calls = counts.calls["getdents64"];
    let mut failed = 0;
    for nth in 1..=calls {
        let call = trace::Call { name: "getdents64".to_owned(), nth, line: String::new() };
        let ran = trace::inject(&home, "handoffs list --all", &call, "error=EIO");
        failed += usize::from(ran.code == Some(1));
        let is_whole = ids.iter().all(|id| ran.out.contains(id.as_str()));
        assert!(ran.code == Some(1) || is_whole, "call {nth} cost rows and nobody was told: {ran:?}");
    }
    assert_eq!(failed, 2, "reading the names, and finding their end");
}

#[test]
fn a_missing_or_lagging_current_is_mended_from_the_archive() {
    for lagging in [None, Some("half a docum")] {
        let home = home();
        let id = seal(&home);
        let current = home.store().join("app-CURRENT.md");
        match lagging {
            None => std::fs::remove_file(&current).unwrap(),
            Some(text) => std::fs::write(&current, text).unwrap(),
        }
        assert!(home.run(&app("load")).ok().contains(&id));
        assert!(std::fs::read_to_string(&current).unwrap().ends_with("words\n"));
    }
}

#[test]
fn repair_sets_aside_even_a_link_that_lies_where_the_current_document_belongs() {
    let home = home();
    let id = seal(&home);
    let (target, current) = (home.path().join("nowhere"), home.store().join("app-CURRENT.md"));
    std::fs::remove_file(&current).unwrap();
    std::os::unix::fs::symlink(&target, &current).unwrap();
    home.run(&app("repair")).ok();
    assert!(std::fs::read_to_string(&current).unwrap().contains(&id));
    assert!(!current.is_symlink() && !target.exists());
}

#[test]
fn a_file_where_a_folder_belongs_and_a_folder_where_a_file_belongs_are_named() {
    for (file, told) in [
        (".claude", "there is a file where a folder belongs; move it away"),
        (".claude/handoff", "there is a file where a folder belongs; move it away"),
        (".claude/handoff/archive", "there is a file where a folder belongs; move it away"),
    ] {
        let home = home();
        home.write(file, "in the way");
        let err = home.run(&app("seal doc.md")).fails(1);
        assert!(err.contains("could not create the folder") && err.contains(told), "{file}: {err}");
    }
    let home = home();
    seal(&home);
    std::fs::remove_file(home.store().join("app-CURRENT.md")).unwrap();
    std::fs::create_dir(home.store().join("app-CURRENT.md")).unwrap();
    let err = home.run(&app("seal doc.md")).fails(1);
    assert!(err.contains("there is a folder where a file belongs; move it away"), "{err}");
}

#[test]
fn one_damaged_channel_does_not_hide_the_others() {
    let home = home();
    let id = seal(&home);
    home.run("--channel broken handoffs seal doc.md").ok();
    std::fs::write(home.store().join("broken.manifest.json"), "{").unwrap();
    for json in ["", " --json"] {
        let ran = home.run(&format!("handoffs list --all{json}"));
        assert!(
            ran.out.contains(&id) && ran.err.contains("channel broken is left out: the manifest"),
            "{ran:?}"
        );
        ran.fails(1);
    }
}

#[test]
fn a_disk_that_fills_up_refuses_the_new_handoff_and_keeps_the_old_one() {
    let home = home();
    let store = home.path().join(".claude");
    std::fs::create_dir(&store).unwrap();
    let mounted =
        home.command("mount").args(["-t", "tmpfs", "-o", "size=128k", "tmpfs"]).arg(&store).output();
    if !mounted.is_ok_and(|out| out.status.success()) {
        tools::skip("no file system can be mounted here; the faults tests inject ENOSPC instead");
        return;
    }
    let result = std::panic::catch_unwind(|| {
        let id = seal(&home);
        home.write("work/app/doc.md", "x".repeat(200_000));
        let err = home.run(&app("seal doc.md")).fails(1);
        assert!(err.contains("could not write") && err.contains("free some space on that disk"), "{err}");
        assert_eq!(leftovers(&home.store()), Vec::<String>::new());
        assert_eq!(home.run(&app("current")).ok().trim(), id);
        assert!(home.run(&app("load")).ok().ends_with("words\n"));
    });
    run(home.command("umount").arg(&store)).ok();
    result.unwrap();
}

#[test]
fn input_that_cannot_be_a_handoff_is_refused_before_anything_is_written() {
    let home = home();
    home.write("work/app/blank.md", " \n\n");
    home.write("work/app/binary.md", b"\xff\xfe\x00");
    home.write("work/app/huge.md", "x".repeat((8 << 20) + 1));
    for (line, told) in [
        ("seal blank.md", "there is no text in the handoff"),
        ("seal binary.md", "is not UTF-8 text"),
        ("seal huge.md", "more than the 8388608 that are accepted"),
        ("seal missing.md", "could not read the handoff missing.md; check the path"),
        ("seal doc.md --type a-type-of-more-than-forty-characters-is-a-sentence", "is one short word"),
    ] {
        let ran = home.run(&app(line));
        assert!(ran.err.contains(told), "{line}: {ran:?}");
        ran.fails(1);
    }
    assert!(!home.path().join(".claude").exists());
}

// --- The command line ---

#[test]
fn the_exit_code_distinguishes_success_failure_misuse_and_nothing_found() {
    let home = home();
    for line in ["load", "load --peek", "clear", "current", "list", "history", "show HO-20200101-000000-x"] {
        assert_eq!(home.run(&app(line)).code, Some(3), "{line}");
    }
    assert!(!home.path().join(".claude").exists(), "asking creates nothing");
    for line in
        ["handoffs nonsense", "--no-such-flag", "handoffs show ../x", "handoffs load --session a/b", ""]
    {
        assert_eq!(home.run(line).code, Some(2), "{line}");
    }
    assert_eq!(home.run("--channel ../x handoffs").code, Some(1));
    seal(&home);
    for line in ["list", "current", "history", "path", "load --peek", "repair", "load"] {
        assert_eq!(home.run(&app(line)).code, Some(0), "{line}");
    }
}

#[test]
fn every_listing_comes_as_json() {
    let home = home();
    let sealed = home.run(&app("seal doc.md --type auto --json")).json();
    assert_eq!((&sealed["type"], &sealed["channel"]), (&Value::from("auto"), &Value::from("app")));
    assert!(Path::new(sealed["path"].as_str().unwrap()).is_file());
    let id = sealed["id"].as_str().unwrap();
    for line in
        ["--json", "list --json", "list --all --json", "current --json", "history --json", "path --json"]
    {
        home.run(&app(line)).json();
    }
    assert!(home.run(&app(&format!("show {id} --json"))).json()["document"].is_string());
    assert_eq!(home.run(&app("load --json")).json()["status"], "consumed");
    assert_eq!(home.run(&app("repair --json")).json(), Value::from(Vec::<Value>::new()));
    let none = home.run(&app("current --json"));
    assert_eq!((none.code, none.out.as_str()), (Some(3), "null\n"));
    let none = home.run("--channel other handoffs --json");
    assert_eq!(serde_json::from_str::<Value>(&none.out).unwrap(), Value::from(Vec::<Value>::new()));
}

#[test]
fn a_reader_that_goes_away_is_not_an_error() {
    let home = home();
    seal(&home);
    for line in ["list", "history", "load --peek", "list --json"] {
        let mut child =
            home.baton(app(line).split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success() && out.stderr.is_empty(), "{line}: {out:?}");
    }
}

#[test]
fn colour_is_for_terminals_that_want_it() {
    let home = home();
    seal(&home);
    assert!(!home.run(&app("list")).ok().contains('\x1b'), "a pipe is no terminal");
    if !tools::has(&["script"]) {
        return;
    }
    let is_coloured_on_terminal = |more: &str| {
        let line = format!("TERM=xterm {more} {} --channel app handoffs list", crate::BATON);
        let out = home.command("script").args(["-qec", &line, "/dev/null"]).output().unwrap();
        out.stdout.contains(&0x1b)
    };
    assert!(is_coloured_on_terminal(""));
    assert!(!is_coloured_on_terminal("NO_COLOR=1"));
    assert!(!is_coloured_on_terminal("TERM=dumb"));
}

#[test]
fn a_handoff_may_come_on_standard_input() {
    let home = home();
    let id = home.run_with_input(&app("seal -"), "from a pipe\n").ok();
    assert!(home.run(&format!("handoffs show {}", id.trim())).ok().ends_with("\n\nfrom a pipe\n"));
}

/// The agent that handed over is gone, and another start has loaded it.
#[test]
fn status_shows_a_consumed_handoff_as_consumed() {
    let home = Home::new(crate::BATON);
    let client = baton_testkit::hooks::Client::new(&home);
    client.starts("startup").silent();
    client.hook("UserPromptSubmit").ok();
    let words = home.write("handoff.md", "# Words\n");
    let mut command = home.baton(["handoff", words.to_str().unwrap()]);
    client.dress(&mut command);
    baton_testkit::home::run(&mut command).ok();
    client.hook("Stop").ok();
    let id = home.run("handoffs --json").json()[0]["id"].as_str().unwrap().to_owned();
    assert!(home.run("status --all").ok().contains(&format!("{id} waits")));
    let agent = client.agent();
    client.hook("SessionEnd").ok();
    drop(client);
    home.run(&format!("handoffs load {id}")).ok();
    let shown = home.run("status --all").ok();
    assert!(shown.contains(&format!("{id} consumed")) && !shown.contains("waits"), "{shown}");
    let json = home.run(&format!("status {agent} --json")).json();
    assert_eq!(json[0]["handoff"], serde_json::json!({ "id": id, "status": "consumed" }), "{json}");
}

/// Regression: an unreadable record was taken to mean that the addressee was gone, although it may be there.
#[test]
fn a_handoff_for_an_agent_whose_record_cannot_be_read_is_kept_for_it() {
    let home = Home::new(crate::BATON);
    let client = baton_testkit::hooks::Client::new(&home);
    client.starts("startup").ok();
    client.hook("UserPromptSubmit").ok();
    client.answers(20_000);
    let mut handoff = home.baton(["handoff", "-"]);
    client.dress(&mut handoff);
    assert_eq!(baton_testkit::hooks::send(handoff, b"# Where I am\nHALF-WAY.\n").code, Some(0));
    client.hook("Stop").ok();
    let status = |id: &Value| {
        let list = home.run("handoffs --json").json();
        let found = list.as_array().unwrap().iter().find(|entry| &entry["id"] == id);
        found.map(|entry| entry["status"].clone()).unwrap_or_default()
    };
    let id = home.run("handoffs --json").json()[0]["id"].clone();
    assert_eq!(status(&id), "active");
    let record = home.state().join(format!("agents/{}.json", client.agent()));
    std::fs::write(&record, "{\"v\":99}\n").unwrap();
    let words = home.write("words.md", "# Another's words");
    for _ in 0..2 {
        home.run(&format!("handoffs seal {}", words.display())).ok();
        assert_eq!(status(&id), "active", "it waits for its addressee");
    }
}
