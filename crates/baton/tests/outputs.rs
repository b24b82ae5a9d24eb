//! What every command prints at 60, 80 and 120 columns, plain and coloured: its help, what a newcomer sees before and
//! after the install, and what it does with agents, handoffs and conversations. `listings.rs` has the tables.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use baton_testkit::Home;
use baton_testkit::pty::{Pty, code};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::listings::{COMMANDS, Mask, WIDTHS, client, copy, mask, spoke, words};

/// A command line, and the keys that answer its question.
type Case = (&'static str, &'static str);

/// Before the install.
const CLEAN: &[Case] = &[
    ("baton status", ""),
    ("baton agents", ""),
    ("baton doctor", ""),
    ("baton install", "n\r"),
    ("baton install --yes", ""),
    ("baton install --project --yes", ""),
    ("baton install --provider codex --yes", ""),
    ("baton install --migrate --yes", ""),
    ("baton uninstall", ""),
    ("baton run nothere", ""),
    ("baton version", ""),
    ("baton stauts", ""),
    ("baton handoffs lst", ""),
    ("baton status --wide", ""),
];

/// After the install, before the first session.
const INSTALLED: &[Case] = &[
    ("baton doctor", ""),
    ("baton doctor --fix", ""),
    ("baton install", ""),
    ("baton install --migrate --undo", ""),
    ("baton uninstall --verify", ""),
    ("baton status", ""),
    ("baton agents", ""),
    ("baton agents restore", ""),
    ("baton children", ""),
    ("baton adopt", ""),
    ("baton inbox", ""),
    ("baton outbox", ""),
    ("baton reply 3f2a91c0 yes", ""),
    ("baton reminders", ""),
    ("baton reminders cancel 3f2a91", ""),
    ("baton remind look", ""),
    ("baton approvals", ""),
    ("baton approvals log", ""),
    ("baton approve", ""),
    ("baton deny 3f2a91c0 no", ""),
    ("baton answer 3f2a91c0 2", ""),
    ("baton send nobody hello", ""),
    ("baton wait nobody", ""),
    ("baton what", ""),
    ("baton tail", ""),
    ("baton attach nobody", ""),
    ("baton rotate", ""),
    ("baton undo", ""),
    ("baton retire nobody", ""),
    ("baton clear nobody", ""),
    ("baton rename nobody other", ""),
    ("baton reparent nobody other", ""),
    ("baton done", ""),
    ("baton handoff notes.md", ""),
    ("baton move nobody desk", ""),
    ("baton fleet status", ""),
    ("baton fleet machines", ""),
    ("baton fleet doctor", ""),
    ("baton fleet invite desk", ""),
    ("baton fleet leave", ""),
    ("baton fleet revoke desk", ""),
    ("baton fleet purge desk", ""),
    ("baton fleet take HO-20261116-024800-c74cc080", ""),
    ("baton handoffs", ""),
    ("baton handoffs list --all", ""),
    ("baton handoffs show HO-20261116-024800-c74cc080", ""),
    ("baton handoffs current", ""),
    ("baton handoffs load", ""),
    ("baton handoffs clear", ""),
    ("baton handoffs history", ""),
    ("baton handoffs draft", ""),
    ("baton handoffs chain", ""),
    ("baton handoffs repair", ""),
    ("baton handoffs --channel api current", ""),
    ("baton sessions", ""),
    ("baton sessions list", ""),
    ("baton sessions show 0248d5f4", ""),
    ("baton sessions search parser", ""),
    ("baton sessions resume --last", ""),
    ("baton sessions tree", ""),
    ("baton sessions fetch 0248d5f4", ""),
    ("baton backup", ""),
    ("baton backup list --here", ""),
    ("baton backup verify", ""),
    ("baton backup compress", ""),
    ("baton backup prune", ""),
    ("baton backup pin 0248d5f4", ""),
    ("baton memory list", ""),
    ("baton memory pending", ""),
    ("baton memory discard", ""),
    ("baton memory context", ""),
    ("baton memory init", ""),
    ("baton checkpoint", ""),
    ("baton checkpoint list", ""),
    ("baton checkpoint latest", ""),
    ("baton log", ""),
    ("baton config set context.warning_percentage 55", ""),
    ("baton config set context.warning_percentage 200", ""),
    ("baton config set context.warnign 55", ""),
    ("baton config unset context.warning_percentage", ""),
    ("baton config edit", ""),
    ("baton trust", ""),
    ("baton trust --list", ""),
    ("baton trust --forget", ""),
    ("baton channel", ""),
    ("baton channel --why", ""),
    ("baton serve --status", ""),
    ("baton serve --stop", ""),
];

/// `lead` and its child `tests` have worked, and a handoff was sealed. `SESSION` and `HANDOFF` are theirs.
const AT_WORK: &[Case] = &[
    ("baton status lead", ""),
    ("baton status lost", ""),
    ("baton send tests 'The schema changed, see db/003.sql'", ""),
    ("baton send tests --important 'The schema changed, see db/003.sql'", ""),
    ("baton wait tests", ""),
    ("baton what tests", ""),
    ("baton tail tests", ""),
    ("baton done --agent tests 'PR 212 is green'", ""),
    ("baton done --agent tests --undo", ""),
    ("baton rename tests docs", ""),
    ("baton reparent tests --none", ""),
    ("baton reparent lead tests", ""),
    ("baton attach tests", ""),
    ("baton adopt tests", ""),
    ("baton rotate tests", ""),
    ("baton undo tests", ""),
    ("baton clear tests", ""),
    ("baton handoff notes.md", ""),
    ("baton handoffs current", ""),
    ("baton handoffs show HANDOFF", ""),
    ("baton handoffs load --peek", ""),
    ("baton handoffs load", ""),
    ("baton handoffs clear", ""),
    ("baton handoffs seal notes.md", ""),
    ("baton handoffs path", ""),
    ("baton handoffs chain drop", ""),
    ("baton handoffs diff HANDOFF HANDOFF", ""),
    ("baton handoffs repair", ""),
    ("baton sessions show SESSION", ""),
    ("baton sessions show SESSION --turns", ""),
    ("baton backup verify", ""),
    ("baton backup compress", ""),
    ("baton backup pin SESSION", ""),
    ("baton backup unpin SESSION", ""),
    ("baton backup restore SESSION --dry-run", ""),
    ("baton backup export SESSION talk", ""),
    ("baton memory save notes.md", ""),
    ("baton memory discard", ""),
    ("baton memory context", ""),
    ("baton memory init --remove", ""),
];

/// Commands whose output does not depend on the width, and the tests that check it.
const ELSEWHERE: [(&str, &str); 9] = [
    ("top", "a screen: the snapshots in src/tui"),
    ("page", "opens a browser: tests/page"),
    ("demo", "a story at its own pace: tests/demo.rs"),
    ("spawn", "needs a real tmux: tests/spawn.rs"),
    ("remind", "starts a daemon: tests/lead/remind.rs; its refusal is here"),
    ("completions", "a script for a shell: tests/help.rs"),
    ("help", "the same as --help: tests/help.rs"),
    ("fleet init", "needs a database: tests/fleet"),
    ("fleet join", "needs a database: tests/fleet"),
];

/// A home whose commands find a client and a tmux of known versions.
fn prepared() -> Home {
    let home = Home::new(crate::BATON);
    for (name, says) in [
        ("claude", "2.1.325 (Claude Code)"),
        ("codex", "codex-cli 0.166.0"),
        ("tmux", "tmux 3.3a"),
        ("editor", ""),
    ] {
        let path = home.write(&format!("tools/{name}"), format!("#!/bin/sh\necho '{says}'\n"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let bin = crate::install::program(&home);
    std::fs::create_dir_all(bin.parent().unwrap()).unwrap();
    if std::fs::hard_link(crate::BATON, &bin).is_err() {
        std::fs::copy(crate::BATON, &bin).unwrap();
    }
    home.write("work/app/notes.md", "# Go on with the grammar\n\n=== session document ===\n# The grammar\n");
    home
}

/// What `line` shows in a terminal of so many columns, and its exit code.
fn shown(home: &Home, width: u16, coloured: bool, (line, keys): (&str, &str)) -> (String, i32) {
    let mut command = home.command("/bin/sh");
    let path = format!("{0}/.local/bin:{0}/tools:/usr/bin:/bin", home.path().display());
    command.args(["-c", &format!("exec {line}")]).env("PATH", path);
    command.env("PAGER", "cat").env("EDITOR", "editor").env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    // No background process of a command may write while its traces are removed.
    command.env("BATON_PANES_ATTEND", "false");
    if !coloured {
        command.env("NO_COLOR", "1");
    }
    let size = Winsize { ws_row: 24, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
    let mut terminal = Pty::start_with(&command, |tty| Ok(tcsetwinsize(tty, size)?)).unwrap();
    if !keys.is_empty() {
        terminal.wait_until(line, |screen| screen.contains("[y/N")).unwrap_or_else(|e| panic!("{line}: {e}"));
        terminal.send(keys).unwrap();
    }
    let status = terminal.wait_for_end().unwrap_or_else(|e| panic!("{line}: {e}\n{}", terminal.screen()));
    terminal.drained().unwrap();
    (String::from_utf8_lossy(&terminal.raw()).replace('\r', ""), code(status))
}

/// Without the codes that colour it.
fn stripped(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, code)) = rest.split_once('\x1b') {
        out.push_str(before);
        rest = code.split_once('m').map_or("", |(_, after)| after);
    }
    out + rest
}

/// The parts of a home that a command may change.
const CHANGED: [&str; 5] = [".local/state", ".claude", ".codex", ".config", "work/app"];

/// Runs every case at every width, plain and coloured, each from the same beginning.
fn all(home: &Home, masks: &Mask, cases: &[Case], replace: &[(&str, &str)]) -> String {
    let kept = tempfile::tempdir().unwrap();
    for name in CHANGED {
        std::fs::create_dir_all(home.path().join(name)).unwrap();
        let to = kept.path().join(name);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        copy(&home.path().join(name), &to);
    }
    let mut out = String::new();
    for (line, keys) in cases {
        let typed = replace.iter().fold((*line).to_owned(), |line, (from, to)| line.replace(from, to));
        let run = |width: u16, coloured: bool| {
            let (text, code) = shown(home, width, coloured, (&typed, keys));
            let text = masks.apply(&home.tidy(&text));
            for name in CHANGED {
                restore(&kept.path().join(name), &home.path().join(name), &typed);
            }
            (text, code)
        };
        let mut seen: Vec<(String, String, i32)> = Vec::new();
        for width in WIDTHS {
            let ((plain, code), (coloured, _)) = (run(width, false), run(width, true));
            assert_eq!(stripped(&coloured), plain, "{line} at {width}: colour changes no text");
            let codes = coloured.replace('\x1b', "␛");
            let text = if codes == plain { plain } else { format!("{plain}-- in colour\n{codes}") };
            match seen.last_mut() {
                Some((widths, before, _)) if *before == text => {
                    let _ = write!(widths, ", {width}");
                }
                _ => seen.push((width.to_string(), text, code)),
            }
        }
        for (widths, text, code) in seen {
            let exit = if code == 0 { String::new() } else { format!(" · exit {code}") };
            let _ = write!(out, "== {line} · {widths} columns{exit}\n{text}");
        }
    }
    out
}

/// Makes the content of `to` that of `from`; the folder itself stays, because a process may have it as its working
/// folder.
fn restore(from: &Path, to: &Path, after: &str) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(to).unwrap() {
        let path = entry.unwrap().path();
        let is_dir = path.symlink_metadata().unwrap().is_dir();
        let removed = if is_dir { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        removed.unwrap_or_else(|e| {
            panic!("after {after:?} something still writes below {}: {e}", path.display())
        });
    }
    let copied = std::process::Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
    assert!(copied.success());
}

fn masks(home: &Home) -> Mask {
    let channel = home.run("channel").ok().trim().to_owned();
    let mut masks = vec![(env!("CARGO_PKG_VERSION").to_owned(), "0.0.0".to_owned())];
    if let Some((_, hash)) = channel.split_once('-') {
        masks.push((hash.to_owned(), "x".repeat(hash.len())));
    }
    Mask(masks)
}

#[test]
fn what_a_newcomer_sees_before_the_install() {
    let home = prepared();
    insta::assert_snapshot!("before_the_install", all(&home, &masks(&home), CLEAN, &[]));
}

#[test]
fn what_every_command_says_before_the_first_session() {
    let home = prepared();
    crate::install::baton(&home, "install --yes").ok();
    insta::assert_snapshot!("after_the_install", all(&home, &masks(&home), INSTALLED, &[]));
}

#[test]
fn what_every_command_does_with_agents_at_work() {
    let home = prepared();
    crate::install::baton(&home, "install --yes").ok();
    home.run("memory init").ok();
    let [lead, tests] = [1, 2].map(|n| client(&home, n));
    words(&home, &["rename", "app", "lead"]);
    words(&home, &["rename", "app-oak", "tests"]);
    words(&home, &["reparent", "tests", "lead"]);
    spoke(&lead, "Split the work on the grammar between two agents.", 134_000);
    spoke(&tests, "Write the tests of the grammar.", 52_000);
    let sealed = home.run_with_input("handoffs seal -", "# Go on with the grammar\n").ok();
    let handoff = sealed.split_whitespace().find(|word| word.starts_with("HO-")).unwrap().to_owned();
    let mut masks = masks(&home);
    masks.0.push((handoff.clone(), mask("HO-", &handoff)));
    let replace = [("SESSION", tests.session.as_str()), ("HANDOFF", handoff.as_str())];
    insta::assert_snapshot!("at_work", all(&home, &masks, AT_WORK, &replace));
}

/// The commands below these words, as their help lists them.
fn below(home: &Home, words: &str) -> Vec<String> {
    let help = home.run(format!("{words} --help").trim()).ok();
    let is_root = words.is_empty();
    let mut found = Vec::new();
    let mut inside = false;
    for line in help.lines() {
        match line.strip_prefix("  ") {
            Some(row) if inside && !row.starts_with(' ') => {
                found.extend(
                    row.split_whitespace().next().map(|name| format!("{words} {name}").trim().to_owned()),
                );
            }
            Some(_) => {}
            None if line.is_empty() => inside = false,
            // The groups of all commands, or the commands of one.
            None => inside = line == "Commands:" || (is_root && line.ends_with(':')),
        }
    }
    found.retain(|name| !name.ends_with(" help"));
    found
}

fn every(home: &Home) -> Vec<String> {
    let mut all = below(home, "");
    let mut at = 0;
    while at < all.len() {
        let more = below(home, &all[at].clone());
        all.extend(more);
        at += 1;
    }
    all.sort();
    all
}

#[test]
fn every_command_is_in_a_snapshot() {
    let home = Home::new(crate::BATON);
    let lines: Vec<String> = [CLEAN, INSTALLED, AT_WORK]
        .iter()
        .flat_map(|cases| cases.iter().map(|(line, _)| line.trim_start_matches("baton ").to_owned()))
        .chain(COMMANDS.iter().map(|(_, line)| (*line).to_owned()))
        .chain(ELSEWHERE.iter().map(|(line, _)| (*line).to_owned()))
        .collect();
    let missing: Vec<String> = every(&home)
        .into_iter()
        .filter(|command| {
            !lines.iter().any(|line| line == command || line.starts_with(&format!("{command} ")))
        })
        .collect();
    assert_eq!(missing, [""; 0], "add a line for each to a table above");
}

/// The help of all commands. Its colours do not depend on the width, so they are in the snapshot once.
#[test]
fn the_help_of_every_command() {
    let home = prepared();
    let masks = Mask(vec![(env!("CARGO_PKG_VERSION").to_owned(), "0.0.0".to_owned())]);
    for width in WIDTHS {
        let mut out = String::new();
        for command in std::iter::once(String::new()).chain(every(&home)) {
            let line = format!("baton {command}").trim().to_owned() + " --help";
            let plain = masks.apply(&shown(&home, width, false, (&line, "")).0);
            let coloured = masks.apply(&shown(&home, width, true, (&line, "")).0);
            assert_eq!(stripped(&coloured), plain, "{line} at {width}: colour changes no text");
            for row in plain.lines() {
                assert!(row.chars().count() <= usize::from(width), "{line} at {width}: {row:?}");
            }
            let rows: Vec<&str> = plain.lines().collect();
            for pair in rows.windows(2).filter(|_| width == 120) {
                let is_bare = pair[0].starts_with("  <") || pair[0].starts_with("  [");
                let is_explained = pair[0].trim().contains("  ") || pair[1].starts_with("          ");
                assert!(!is_bare || is_explained, "{line} explains every argument: {:?}", pair[0]);
            }
            let _ = write!(out, "== {line}\n{plain}");
            if width == 80 && coloured != plain {
                let _ = write!(out, "-- in colour\n{}", coloured.replace('\x1b', "␛"));
            }
        }
        insta::assert_snapshot!(format!("help_at_{width}"), out);
    }
}
