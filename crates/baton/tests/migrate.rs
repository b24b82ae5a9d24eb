//! `baton install --migrate` recognises other tools' installs, moves them aside and brings them back byte for byte;
//! until then baton leaves to them what they do.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use baton_testkit::hooks::Client;
use baton_testkit::pty::{Pty, code};
use baton_testkit::{Home, tools};
use serde_json::{Value, json};

use crate::install::{baton, home};

/// One tool in a home: small files of our own that resemble the real ones.
struct Tool {
    name: &'static str,
    scripts: &'static [(&'static str, &'static str)],
    settings: (&'static str, &'static str),
    /// Files that it has written.
    data: &'static [(&'static str, &'static str)],
    /// Its scripts that do nothing that baton does; they stay.
    stays: &'static [&'static str],
}

const AUTO_HANDOFF: Tool = Tool {
    name: "claude-auto-handoff",
    scripts: &[
        (".claude/hooks/context-monitor.sh", "#!/bin/sh\necho OK:1KB > ~/.claude/.context-status\n"),
        (
            ".claude/hooks/session-start-from-handoff.sh",
            "#!/bin/sh\n. ~/.claude/hooks/lib/get-channel.sh\nDIR=$HOME/.claude/handoff\nload_handoff\n",
        ),
        (".claude/hooks/pre-compact-handoff.sh", "#!/bin/sh\ncreate_handoff auto\n"),
        (".claude/hooks/lib/get-channel.sh", "get_channel() { echo global; }\n"),
        (".local/bin/claude-wrapper", "#!/bin/sh\nrm -f ~/.claude/.restart-session\nclaude \"$@\"\n"),
    ],
    settings: (
        ".claude/settings.json",
        r#"{
  // mine
  "model": "opus",
  "hooks": {
    "SessionStart": [{ "matcher": "startup", "hooks": [
      { "type": "command", "command": "$HOME/.claude/hooks/session-start-from-handoff.sh" }] }],
    "PreCompact": [{ "hooks": [{ "type": "command", "command": "~/.claude/hooks/pre-compact-handoff.sh" }] }],
    "PostToolUse": [{ "matcher": ".*", "hooks": [
      { "type": "command", "command": "$HOME/.claude/hooks/context-monitor.sh", "timeout": 5 },
      { "type": "command", "command": "/bin/true" }] }]
  }
}
"#,
    ),
    data: &[
        (".claude/handoff/global.manifest.json", "{}\n"),
        (".claude/handoff/archive/HO-20260202-064530-c74cc080.md", "# old\n"),
        (
            ".bashrc",
            "export A=1\n# Claude Auto-Handoff\nalias claude='~/.local/bin/claude-wrapper'\nalias ll='ls -l'\n",
        ),
    ],
    stays: &[],
};

const MEMORY: Tool = Tool {
    name: "claude-memory",
    scripts: &[
        ("work/app/.claude/hooks/on-session-start.sh", "#!/bin/sh\necho SESSION_BACKUP_PENDING\n"),
        ("work/app/.claude/hooks/on-session-end.sh", "#!/bin/sh\necho x > .claude/memory/.pending-backup\n"),
        ("work/app/.claude/hooks/on-pre-compact.sh", "#!/bin/sh\necho x > .claude/memory/.pending-backup\n"),
        ("work/app/.claude/scripts/discard-backup.sh", "#!/bin/sh\nrm .claude/memory/.pending-backup\n"),
        ("work/app/.claude/commands/document-and-save.md", "Update active-context.md first.\n"),
        ("work/app/.claude/commands/resume-latest.md", "Look for SESSION_BACKUP_PENDING.\n"),
    ],
    settings: (
        "work/app/.claude/settings.json",
        r#"{"hooks":{
  "PreCompact":[{"matcher":"auto|manual","hooks":[{"type":"command","command":"bash -c '\"$CLAUDE_PROJECT_DIR/.claude/hooks/on-pre-compact.sh\"'"}]}],
  "SessionStart":[{"hooks":[{"type":"command","command":"bash \"$CLAUDE_PROJECT_DIR/.claude/hooks/on-session-start.sh\""}]}],
  "SessionEnd":[{"hooks":[{"type":"command","command":"\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/on-session-end.sh"}]}]
}}
"#,
    ),
    data: &[
        ("work/app/.claude/memory/session-2026-01-15-1430.md", "# A session\n"),
        ("work/app/.claude/memory/active-context.md", "# Where we are\n"),
    ],
    stays: &[],
};

const MONITOR: Tool = Tool {
    name: "session-manager",
    scripts: &[
        (".claude/hooks/context_monitor.sh", "#!/bin/sh\n: $CLAUDE_SESSION_MANAGER_ID\necho '8% ctx'\n"),
        (".claude/hooks/precompact_notify.sh", "#!/bin/sh\n: $CLAUDE_SESSION_MANAGER_ID\n"),
        (".claude/hooks/session_clear_notify.sh", "#!/bin/sh\n: $CLAUDE_SESSION_MANAGER_ID\n"),
        (".claude/hooks/post_compact_recovery.sh", "#!/bin/sh\n: $CLAUDE_SESSION_MANAGER_ID\n"),
    ],
    settings: (
        ".claude/settings.json",
        r#"{
  "statusLine": { "type": "command", "command": "~/.claude/hooks/context_monitor.sh" },
  "hooks": {
    "PreCompact": [{ "hooks": [{ "type": "command", "command": "~/.claude/hooks/precompact_notify.sh" }] }],
    "SessionStart": [
      { "matcher": "clear", "hooks": [{ "type": "command", "command": "~/.claude/hooks/session_clear_notify.sh" }] },
      { "matcher": "compact", "hooks": [{ "type": "command", "command": "~/.claude/hooks/post_compact_recovery.sh" }] }
    ]
  }
}
"#,
    ),
    data: &[(".claude/hooks/context_monitor_delegate", "echo mine\n"), ("handoff.md", "# Go on\n")],
    stays: &[".claude/hooks/context_monitor_delegate"],
};

const TURNS: Tool = Tool {
    name: "session-manager",
    scripts: &[
        (".claude/hooks/notify_server.sh", "#!/bin/sh\n: $CLAUDE_SESSION_MANAGER_ID\n"),
        (".claude/hooks/log_tool_use.sh", "#!/bin/sh\n: $CLAUDE_SESSION_MANAGER_ID\n"),
    ],
    settings: (
        ".claude/settings.json",
        r#"{"hooks": {
  "Stop": [{"hooks": [{"type": "command", "command": "~/.claude/hooks/notify_server.sh"}]}],
  "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "~/.claude/hooks/notify_server.sh"}]}],
  "PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "~/.claude/hooks/log_tool_use.sh"}]}]
}}
"#,
    ),
    data: &[("handoff.md", "# Go on\n")],
    stays: &[],
};

const CONTINUOUS: Tool = Tool {
    name: "Continuous-Claude",
    scripts: &[
        (".claude/hooks/dist/session-start-continuity.mjs", "// reads thoughts/shared/handoffs\n"),
        (".claude/hooks/dist/pre-compact-continuity.mjs", "// CONTINUITY_CLAUDE-x.md\n"),
        (".claude/scripts/status.py", "# /tmp/claude-context-pct-12345678.txt\n"),
    ],
    settings: (
        ".claude/settings.json",
        r#"{
  "statusLine": { "type": "command", "command": "python3 $HOME/.claude/scripts/status.py" },
  "hooks": {
    "SessionStart": [{ "matcher": "resume|compact|clear", "hooks": [
      { "type": "command", "command": "node $HOME/.claude/hooks/dist/session-start-continuity.mjs", "timeout": 10 },
      { "type": "command", "command": "node $HOME/.claude/hooks/dist/session-register.mjs" } ] }],
    "PreCompact": [{ "hooks": [
      { "type": "command", "command": "node $HOME/.claude/hooks/dist/pre-compact-continuity.mjs" } ] }]
  }
}
"#,
    ),
    data: &[
        ("work/app/thoughts/shared/handoffs/auth/auto-handoff-1.yaml", "goal: a\nnow: b\n"),
        (".claude/hooks/dist/session-register.mjs", "// theirs\n"),
    ],
    stays: &[".claude/hooks/dist/session-register.mjs"],
};

const ALL: [&Tool; 5] = [&AUTO_HANDOFF, &MEMORY, &MONITOR, &TURNS, &CONTINUOUS];

fn put(home: &Home, tool: &Tool) {
    for (name, text) in tool.scripts {
        let path = home.write(name, text);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    home.write(tool.settings.0, tool.settings.1);
    for (name, text) in tool.data {
        home.write(name, text);
    }
}

/// Every file below the home but baton's own: name, mode, bytes.
fn everything(home: &Home) -> Vec<(String, u32, Vec<u8>)> {
    let all = crate::install::files(home.path());
    let theirs = all.into_iter().filter(|(name, _)| {
        !name.starts_with(".local/state/baton")
            && name != ".local/bin/baton"
            && !name.starts_with(".config/baton")
    });
    theirs
        .map(|(name, bytes)| {
            let mode = std::fs::metadata(home.path().join(&name)).unwrap().permissions().mode();
            (name, mode, bytes)
        })
        .collect()
}

fn others(home: &Home) -> Vec<Value> {
    let all: Vec<Value> = serde_json::from_str(&baton(home, "doctor --json").out).unwrap();
    all.into_iter().filter(|f| f["check"] == "others").collect()
}

fn looking_finds_it_and_changes_nothing(home: &Home, tool: &Tool, before: &[(String, u32, Vec<u8>)]) {
    let found = others(home);
    let is_named = |f: &Value| f["what"].as_str().unwrap().starts_with(tool.name);
    assert!(found.iter().any(is_named), "{}: {found:?}", tool.name);
    let shown = baton(home, "install --migrate --dry-run").ok();
    assert!(shown.contains(tool.name) && shown.contains("would be moved aside"), "{shown}");
    assert_eq!(everything(home), before);
}

#[test]
fn each_tool_is_recognised_moved_aside_and_brought_back_byte_for_byte() {
    for tool in ALL {
        // Both orders: a migration before the install, and one after it.
        for order in [&["install --migrate --yes"][..], &["install --yes", "install --migrate --yes"]] {
            for back in [["install --migrate --undo", "uninstall"], ["uninstall", "install --migrate --undo"]]
            {
                let home = home();
                put(&home, tool);
                let before = everything(&home);
                let is_first = order.len() == 1 && back[0] != "uninstall";
                if is_first {
                    looking_finds_it_and_changes_nothing(&home, tool, &before);
                }

                for line in order {
                    baton(&home, line).ok();
                }
                for (name, _) in tool.scripts {
                    assert!(!home.path().join(name).exists(), "{name} is aside");
                }
                for name in tool.stays {
                    assert!(home.path().join(name).exists(), "{name} is no matter of ours");
                }
                for (name, text) in tool.data.iter().filter(|(name, _)| *name != ".bashrc") {
                    let now = std::fs::read_to_string(home.path().join(name)).unwrap();
                    assert_eq!(now, *text, "{name} stays");
                }
                let what = |f: &Value| f["what"].as_str().unwrap().to_owned();
                assert!(
                    !is_first || !others(&home).iter().any(|f| what(f).starts_with(tool.name)),
                    "{:?}",
                    others(&home)
                );

                for line in back {
                    baton(&home, line).ok();
                }
                let after = everything(&home);
                let names =
                    |all: &[(String, u32, Vec<u8>)]| all.iter().map(|f| f.0.clone()).collect::<Vec<_>>();
                assert_eq!(names(&after), names(&before), "{} {order:?} {back:?}", tool.name);
                for (now, was) in after.iter().zip(&before) {
                    let text = |f: &(String, u32, Vec<u8>)| String::from_utf8_lossy(&f.2).into_owned();
                    assert_eq!(text(now), text(was), "{} {} {order:?} {back:?}", tool.name, was.0);
                    assert_eq!(now.1, was.1, "the mode of {}", was.0);
                }
            }
        }
    }
}

#[test]
fn a_name_alone_is_not_recognised() {
    let home = home();
    home.write(".claude/hooks/context-monitor.sh", "#!/bin/sh\necho my own\n");
    home.write(".claude/hooks/notify_server.sh", "#!/bin/sh\n: $CLAUDE_SESSION_MANAGER_ID\n");
    let hook = r#"{"hooks":{"PostToolUse":[{"hooks":[{"type":"command","command":"~/.claude/hooks/context-monitor.sh"}]}]}}"#;
    home.write(".claude/settings.json", hook);
    assert_eq!(others(&home), Vec::<Value>::new(), "one says something else, the other is called by nobody");
    let said = baton(&home, "install --migrate --yes").ok();
    assert!(said.contains("No scripts of other tools"), "{said}");
}

#[test]
fn install_says_what_it_leaves_to_others() {
    let home = home();
    put(&home, &AUTO_HANDOFF);
    let said = baton(&home, "install --yes").ok();
    for word in ["claude-auto-handoff is installed too", "context-monitor.sh", "baton install --migrate"] {
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn before_the_migration_nothing_has_two_writers() {
    let home = home();
    put(&home, &AUTO_HANDOFF);
    let status = home.path().join(".claude/.context-status");
    std::fs::write(&status, "theirs\n").unwrap();
    let client = Client::new(&home);
    let said = client.starts("startup").ok().message().unwrap();
    assert!(said.contains("claude-auto-handoff") && said.contains("baton install --migrate"), "{said}");
    client.answers(150_000);
    client.hook("PostToolUse").silent();
    client.hook("Stop").silent();
    assert_eq!(std::fs::read_to_string(&status).unwrap(), "theirs\n");
    assert!(home.run("handoffs list --json").json()["handoffs"].as_array().is_none_or(Vec::is_empty));

    baton(&home, "install --migrate --yes").ok();
    let client = Client::new(&home);
    assert!(client.starts("startup").ok().message().is_none_or(|said| !said.contains("claude-auto-handoff")));
    client.answers(150_000);
    let asked = client.hook("PostToolUse").ok();
    assert!(asked.context().unwrap().contains("baton handoff"), "now it is ours to ask");
    assert!(std::fs::read_to_string(&status).unwrap().starts_with("CRITICAL:"));
}

#[test]
fn baton_stands_back_only_in_an_accepted_project() {
    let home = home();
    put(&home, &MEMORY);
    let left = |client: &Client<'_>| client.kept()["left_to_others"].clone();
    let client = Client::new(&home);
    client.starts("startup").ok();
    assert_eq!(left(&client), Value::Null, "a clone's settings decide nothing");
    home.run("memory init").ok();
    let client = Client::new(&home);
    client.starts("startup").ok();
    assert_eq!(left(&client), json!(["backups"]));
    client.answers(20_000);
    client.hook_with("SessionEnd", json!({ "reason": "other" })).ok();
    let raw = crate::install::files(&home.project().join(".claude/memory/raw"));
    let names: Vec<&str> =
        raw.iter().map(|(name, _)| name.as_str()).filter(|name| *name != ".gitignore").collect();
    assert_eq!(names, [""; 0], "their script copies it");
    assert!(!home.project().join(".claude/memory/.pending.json").exists());
}

#[test]
fn a_backup_that_their_scripts_left_is_taken_up() {
    let home = home();
    put(&home, &MEMORY);
    home.run("memory init").ok();
    baton(&home, "install --migrate --yes").ok();
    let raw = home.write("work/app/.claude/memory/raw/20260115_143000Z_other.jsonl", "{\"type\":\"user\"}\n");
    home.write("work/app/.claude/memory/.pending-backup-exit", format!("{}\n", raw.display()));
    let said = Client::new(&home).starts("startup").ok().context().unwrap_or_default();
    assert!(said.contains("SESSION_BACKUP_PENDING") && said.contains("20260115_143000Z_other"), "{said}");
    home.run("memory discard").ok();
    assert!(!home.project().join(".claude/memory/.pending-backup-exit").exists(), "settled");
}

fn git(dir: &Path, args: &[&str]) {
    let out = std::process::Command::new("git").arg("-C").arg(dir).args(args).output().unwrap();
    assert!(out.status.success(), "{out:?}");
}

#[test]
fn files_that_git_tracks_are_asked_about_one_by_one() {
    if !tools::has(&["git"]) {
        return;
    }
    let home = home();
    put(&home, &MEMORY);
    let project: PathBuf = home.project();
    git(&project, &["init", "-q"]);
    git(&project, &["add", ".claude/settings.json", ".claude/commands/resume-latest.md"]);
    let before = everything(&home);

    let said = baton(&home, "install --migrate --yes").ok();
    assert!(said.contains("git tracks") && said.contains("so it stays"), "{said}");
    assert!(project.join(".claude/hooks/on-session-end.sh").exists(), "its entry stays, so it does");
    assert!(!project.join(".claude/commands/document-and-save.md").exists(), "nobody tracks this one");
    baton(&home, "install --migrate --undo").ok();
    baton(&home, "uninstall").ok();
    assert_eq!(everything(&home), before);

    let mut command = home.command(crate::install::program(&home));
    command.args(["install", "--migrate"]).env("PATH", "/usr/bin:/bin");
    let mut terminal = Pty::start(&command).unwrap();
    terminal.wait_for("resume-latest.md. Move it aside? [y/N]").unwrap();
    terminal.send("n\r").unwrap();
    terminal.wait_for("settings.json. Take their entries out of it? [y/N]").unwrap();
    terminal.send("y\r").unwrap();
    terminal.wait_for("Move them aside? [y/N, d for the whole diff]").unwrap();
    terminal.send("y\r").unwrap();
    terminal.wait_for("Do it?").unwrap();
    terminal.send("n\r").unwrap();
    assert_eq!(code(terminal.wait_for_end().unwrap()), 1);
    assert!(project.join(".claude/commands/resume-latest.md").exists());
    assert!(!project.join(".claude/hooks/on-session-end.sh").exists());
    assert_eq!(std::fs::read_to_string(project.join(".claude/settings.json")).unwrap().trim(), "{}");
    baton(&home, "install --migrate --undo").ok();
    assert_eq!(everything(&home), before);
}

#[test]
fn a_status_line_behind_theirs_comes_back_into_its_place() {
    let home = home();
    put(&home, &MONITOR);
    baton(&home, "install --migrate --yes --no-statusline").ok();
    let settings: Value =
        serde_json::from_slice(&std::fs::read(home.path().join(".claude/settings.json")).unwrap()).unwrap();
    assert_eq!(settings["statusLine"]["command"], "echo mine");
}

#[test]
fn an_unreadable_status_line_is_not_taken_for_a_missing_one() {
    let home = home();
    put(&home, &MONITOR);
    let kept = home.path().join(".claude/hooks/context_monitor_delegate");
    std::fs::remove_file(&kept).unwrap();
    std::fs::create_dir(&kept).unwrap();
    let settings = std::fs::read(home.path().join(".claude/settings.json")).unwrap();
    let said = baton(&home, "install --migrate --yes").fails(1);
    assert!(said.contains("context_monitor_delegate"), "{said}");
    assert_eq!(std::fs::read(home.path().join(".claude/settings.json")).unwrap(), settings);
    assert!(home.path().join(".claude/hooks/context_monitor.sh").exists(), "nothing was moved");
}

#[test]
fn entries_come_back_into_settings_that_were_changed_since() {
    let home = home();
    put(&home, &TURNS);
    baton(&home, "install --migrate --yes").ok();
    let path = home.path().join(".claude/settings.json");
    let text = std::fs::read_to_string(&path).unwrap().replacen('{', "{\"model\": \"haiku\", ", 1);
    std::fs::write(&path, text).unwrap();
    let said = baton(&home, "install --migrate --undo").ok();
    assert!(said.contains("their entries were added again"), "{said}");
    let settings: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(settings["model"], "haiku");
    assert_eq!(settings["hooks"]["Stop"][0]["hooks"][0]["command"], "~/.claude/hooks/notify_server.sh");
    assert_eq!(settings["hooks"]["PreToolUse"][0]["matcher"], "*");
    let again = baton(&home, "install --migrate --undo");
    assert!(again.out.contains("nothing to bring back"), "{}", again.out);
}

#[test]
fn a_purge_does_not_delete_what_was_moved_aside() {
    let home = home();
    put(&home, &TURNS);
    baton(&home, "install --migrate --yes").ok();
    let said = baton(&home, "uninstall --purge --yes").fails(1);
    assert!(said.contains("install --migrate --undo"), "{said}");
    baton(&home, "install --migrate --undo").ok();
    assert!(home.path().join(".claude/hooks/notify_server.sh").exists());
}
