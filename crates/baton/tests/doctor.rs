//! `baton doctor` reports what is wrong with its remedy, and mends what is safe to mend.

use std::os::unix::fs::PermissionsExt as _;

use baton_testkit::Home;
use baton_testkit::home::run;
use serde_json::Value;

use crate::install::{baton, home, program};

/// The findings of one check.
fn findings(home: &Home, line: &str, check: &str) -> Vec<Value> {
    let ran = baton(home, line);
    let all: Vec<Value> =
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {} {}", ran.out, ran.err));
    let fails = all.iter().any(|f| f["level"] == "fail");
    assert_eq!(ran.code, Some(i32::from(fails)), "the exit code tells");
    for finding in &all {
        let must = matches!(finding["level"].as_str(), Some("warn" | "fail"));
        assert_eq!(
            finding["do"].is_string(),
            must,
            "what to do, exactly where there is something: {finding}"
        );
    }
    all.into_iter().filter(|f| f["check"] == check).collect()
}

fn levels(home: &Home, check: &str) -> Vec<String> {
    let found = findings(home, "doctor --json", check);
    found.iter().map(|f| f["level"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_fresh_install_has_nothing_to_mend() {
    let home = home();
    assert_eq!(levels(&home, "program")[0], "fail", "before it");
    assert_eq!(levels(&home, "hooks"), [""; 0], "what an install puts in place is not asked for before it");
    for way in ["install --yes", "install --yes --settings"] {
        baton(&home, way).ok();
        for check in [
            "hooks",
            "files",
            "policy",
            "status line",
            "permission",
            "folders",
            "locks",
            "clock",
            "thresholds",
        ] {
            let found = levels(&home, check);
            assert!(
                !found.is_empty() && found.iter().all(|level| level == "ok"),
                "{check} after {way}: {found:?}"
            );
        }
    }
}

#[test]
fn hooks_that_would_run_twice_are_found() {
    let home = home();
    baton(&home, "install --yes --settings").ok();
    let settings = std::fs::read_to_string(home.path().join(".claude/settings.json")).unwrap();
    home.write("work/app/.claude/settings.local.json", settings);
    let found = findings(&home, "doctor --json", "hooks");
    assert_eq!(found[0]["level"], "fail");
    assert!(found[0]["what"].as_str().unwrap().contains("twice"), "{found:?}");
}

#[test]
fn a_hook_whose_program_is_gone_is_found_ours_as_a_failure() {
    let home = home();
    let theirs = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"/nowhere/theirs --now"}]}]}}"#;
    home.write(".claude/settings.json", theirs);
    baton(&home, "install --yes").ok();
    assert_eq!(levels(&home, "files"), ["warn"]);
    std::fs::rename(program(&home), home.path().join("moved")).unwrap();
    let ran = run(home.command(home.path().join("moved")).args(["doctor", "--json"]));
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("which is not a program") && ran.out.contains("is not there"), "{}", ran.out);
}

#[test]
fn switches_that_turn_hooks_off_are_found() {
    let home = home();
    baton(&home, "install --yes --no-permission --no-statusline").ok();
    for (settings, check) in [
        (r#"{"disableAllHooks": true}"#, "policy"),
        (r#"{"enabledPlugins": {"baton@skills-dir": false}}"#, "policy"),
        (r#"{"model": "#, "settings"),
    ] {
        home.write(".claude/settings.json", settings);
        assert_eq!(levels(&home, check), ["fail"], "{settings}");
    }
}

#[test]
fn a_status_line_of_somebody_else_is_told_from_ours_and_from_a_delegated_one() {
    let home = home();
    home.write(".claude/settings.json", r#"{"statusLine":{"type":"command","command":"echo theirs"}}"#);
    assert_eq!(levels(&home, "status line"), ["warn"]);
    baton(&home, "install --yes").ok();
    let found = findings(&home, "doctor --json", "status line");
    assert_eq!(found[0]["level"], "ok");
    assert!(found[0]["what"].as_str().unwrap().contains("echo theirs"), "{found:?}");
    std::fs::remove_file(home.path().join(".local/state/baton/delegates/user")).unwrap();
    assert_eq!(levels(&home, "status line"), ["warn"]);
}

#[test]
fn a_threshold_beyond_the_compaction_point_is_found() {
    let home = home();
    baton(&home, "install --yes").ok();
    home.write(".config/baton/config.toml", "[context]\ncritical_percentage = 95\n");
    assert_eq!(levels(&home, "thresholds"), ["warn", "warn"], "of both windows");
    home.write(".config/baton/config.toml", "");
    let settings = r#"{"env":{"CLAUDE_CODE_AUTO_COMPACT_WINDOW":"100000"}}"#;
    home.write("work/app/.claude/settings.json", settings);
    assert!(levels(&home, "thresholds").len() >= 3, "compacted at 67k of a million");
    assert_eq!(levels(&home, "auto-compact"), ["note"]);
}

#[test]
fn a_wrong_configuration_is_reported_and_stops_nothing_else() {
    let home = home();
    home.write(".config/baton/config.toml", "[context]\nnonsense = 1\n");
    let found = findings(&home, "doctor --json", "configuration");
    assert_eq!(found[0]["level"], "fail");
    assert!(found[0]["what"].as_str().unwrap().contains("config.toml:2"), "{found:?}");
}

#[test]
fn fix_mends_modes_and_removes_what_killed_runs_left() {
    let home = home();
    baton(&home, "install --yes").ok();
    let state = home.path().join(".local/state/baton");
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o755)).unwrap();
    // No process has this pid: it is above the kernel's limit.
    let file = home.write(".claude/.settings.json.4194305.0.tmp", "half");
    let dir = home.path().join(".claude/.baton-plugin.4194305.tmp");
    std::fs::create_dir(&dir).unwrap();
    drop(std::os::unix::net::UnixDatagram::bind({
        std::fs::create_dir_all(state.join("run")).unwrap();
        state.join("run/gone.sock")
    }));
    assert_eq!(levels(&home, "folders"), ["warn"]);
    assert_eq!(levels(&home, "leftovers"), ["warn"]);
    assert_eq!(levels(&home, "listeners"), ["note", "warn"]);
    let mended = findings(&home, "doctor --fix --json", "leftovers");
    assert_eq!(mended[0]["level"], "ok");
    assert!(!file.exists() && !dir.exists());
    assert_eq!(std::fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(levels(&home, "leftovers"), Vec::<String>::new());
    assert_eq!(levels(&home, "folders"), ["ok"]);
    assert_eq!(levels(&home, "listeners"), ["note"]);
}

#[test]
fn a_script_that_works_on_our_files_is_found_and_others_are_not_accused() {
    let home = home();
    let rival = home.write("tools/monitor.sh", "#!/bin/sh\necho WARN > ~/.claude/.context-status\n");
    let peaceful = home.write("tools/format.sh", "#!/bin/sh\ntrue\n");
    for path in [&rival, &peaceful] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let settings = |command: &str| serde_json::json!({ "hooks": { "PostToolUse": [{ "hooks": [{ "type": "command", "command": command }] }] } });
    home.write(".claude/settings.json", settings(&format!("bash {}", rival.display())).to_string());
    assert_eq!(levels(&home, "others"), ["warn"]);
    home.write(".claude/settings.json", settings(&peaceful.display().to_string()).to_string());
    assert_eq!(levels(&home, "others"), Vec::<String>::new());
}

#[test]
fn a_hook_that_ran_is_seen_in_the_log() {
    let home = home();
    assert_eq!(levels(&home, "called"), ["note"]);
    let payload = r#"{"session_id":"s","hook_event_name":"SessionStart","source":"startup","cwd":"/"}"#;
    home.run_with_input("hook SessionStart", payload).ok();
    assert_eq!(levels(&home, "called"), ["ok"]);
    home.run_with_input("hook Stop", "garbage").ok();
    assert_eq!(levels(&home, "called"), ["ok", "warn"], "and a fault is counted");
}

#[test]
fn a_rehearsal_goes_through_the_whole_cycle_and_touches_nothing_of_the_user() {
    let home = home();
    baton(&home, "install --yes").ok();
    let before = crate::install::files(&home.path().join(".claude"));
    let steps = findings(&home, "doctor --rehearse --json", "rehearsal");
    let what: Vec<&str> = steps.iter().map(|f| f["what"].as_str().unwrap()).collect();
    insta::assert_snapshot!(what.join("\n"), @r"
    Installed into a temporary home
    The scripted agent ran to its end
    Nearly full, it was asked for a handoff
    It handed over; the handoff was sealed
    It was cleared
    The handoff was loaded into the fresh context
    It continued from there
    The handoff counts as consumed
    Uninstalled; the settings are what they were, byte for byte
    ");
    assert_eq!(crate::install::files(&home.path().join(".claude")), before);
}

/// A rule is judged by what it allows, however it is written.
#[test]
fn what_an_unattended_agent_needs_is_checked_by_its_effect() {
    let home = home();
    baton(&home, "install --yes --no-permission").ok();
    let with = |allow: &[&str], deny: &[&str]| {
        let permissions = serde_json::json!({ "permissions": { "allow": allow, "deny": deny } });
        home.write(".claude/settings.json", permissions.to_string());
        levels(&home, "permission")
    };
    assert_eq!(with(&[], &[]), ["warn", "warn"]);
    assert_eq!(with(&["Bash(baton handoff:*)", "Edit(.baton/**)"], &[]), ["ok", "ok"]);
    assert_eq!(with(&["Bash(baton:*)", "Edit"], &[]), ["ok", "ok"]);
    assert_eq!(with(&["Bash(baton handoff)", "Write(.baton/**)"], &[]), ["warn", "warn"], "no effect");
    assert_eq!(with(&["Bash", "Edit"], &["Bash(baton:*)"]), ["warn", "ok"], "a denial counts more");
    std::fs::remove_file(home.path().join(".claude/settings.json")).unwrap();
    baton(&home, "install --yes --sm --agents").ok();
    assert_eq!(levels(&home, "permission"), ["ok", "ok", "ok", "ok"]);
    let settings = std::fs::read_to_string(home.path().join(".claude/settings.json")).unwrap();
    for rule in ["Bash(sm handoff:*)", "Bash(baton spawn:*)", "Bash(baton inbox:*)"] {
        assert!(settings.contains(rule), "{rule} in {settings}");
    }
    // Each rule is judged by its effect: one was removed, and one is denied elsewhere.
    let path = home.path().join(".claude/settings.json");
    for (from, to) in [
        ("Bash(baton wait:*)", "Bash(baton weight:*)"),
        ("\"Bash(baton trust:*)\"", "\"Bash(baton trust:*)\", \"Bash(baton tail:*)\""),
    ] {
        std::fs::write(&path, settings.replacen(from, to, 1)).unwrap();
        assert_eq!(levels(&home, "permission"), ["ok", "ok", "ok", "warn"], "{to}");
    }
}

#[test]
fn a_client_that_would_not_wait_for_an_answer_is_found() {
    let home = home();
    baton(&home, "install --yes --settings").ok();
    let path = home.path().join(".claude/settings.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut settings: Value = serde_json::from_str(&text).unwrap();
    // As an earlier version wrote it.
    settings["hooks"]["PermissionRequest"][0]["hooks"][0]["timeout"] = 10.into();
    std::fs::write(&path, settings.to_string()).unwrap();
    let found = findings(&home, "doctor --json", "hooks");
    let short = found.iter().find(|f| f["what"].as_str().unwrap().contains("does not wait for an answer"));
    assert_eq!(short.unwrap_or_else(|| panic!("{found:?}"))["level"], "warn");
    baton(&home, "install --yes --settings").ok();
    assert_eq!(levels(&home, "hooks"), ["ok"]);
}
