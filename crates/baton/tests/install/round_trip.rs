//! Promise 16: an uninstall restores byte for byte what an install changed in the settings.

use std::os::unix::fs::MetadataExt as _;

use baton_testkit::times;

use super::settings_files::{Case, Ours, SettingsKind, THEIRS, case, without_ours};
use super::*;

/// Runs every foreign hook, and the status line, as the client does.
fn others_work(home: &Home, path: &Path, what: &str) {
    let settings = value(path);
    let mut expected = String::new();
    for (event, hook) in
        settings::all_hooks(&settings).filter(|(e, h)| !baton::testing::install::ours::is_hook(h, e))
    {
        if let (Some(command), None) = (hook["command"].as_str(), hook.get("args")) {
            run(home.command("/bin/sh").args(["-c", command])).ok();
            expected += event;
        }
    }
    let ran = std::fs::read_to_string(home.path().join("ran")).unwrap_or_default();
    assert_eq!(ran, expected, "{what}");
    let _ = std::fs::remove_file(home.path().join("ran"));
}

fn round_trip(case: &Case, way: InstallMode) {
    let home = home();
    let path = case.place(&home);
    let what = format!(
        "file {} {way:?} {:?} {:?}:\n{}",
        case.seed,
        case.place,
        case.ours,
        String::from_utf8_lossy(case.bytes.as_deref().unwrap_or(b"(none)"))
    );
    let meta = std::fs::metadata(&path).ok().map(|m| (m.mode(), m.uid(), m.gid()));
    let ran = baton(&home, way.line());
    if matches!(case.place, SettingsKind::Unusable | SettingsKind::ReadOnly) {
        let said = ran.fails(1);
        assert!(said.contains("settings.json"), "{what}\n{said}");
        assert_eq!(bytes(&path), case.bytes, "{what}");
        assert!(!folder_is_whole(&home), "{what}: it went on");
        assert!(!home.path().join(".local/state/baton/install.json").exists(), "{what}");
        return;
    }
    ran.ok();

    // Installed: our hooks once, in one place; everything else unchanged.
    let (hooks, folder) = (our_hooks(&path), folder_is_whole(&home));
    assert_eq!(
        (hooks, folder),
        if way == InstallMode::Folder { (0, true) } else { (EVENTS.len(), false) },
        "{what}"
    );
    assert_eq!(without_ours(&value(&path)), without_ours(&case.meaning()), "{what}");
    let installed = bytes(&path).unwrap();
    let text = String::from_utf8(installed.clone()).unwrap();
    for comment in &case.comments {
        assert_eq!(text.matches(comment.as_str()).count(), 1, "{what}: {comment} in\n{text}");
    }
    if let Some(before) = &case.bytes {
        assert_eq!(before.starts_with("\u{feff}".as_bytes()), text.starts_with('\u{feff}'), "{what}");
        if text.contains("\r\n") && case.ours == Ours::None {
            assert_eq!(
                text.matches('\n').count(),
                text.matches("\r\n").count(),
                "{what}: mixed line ends\n{text}"
            );
        }
    }
    others_work(&home, &path, &what);
    let line = statusline(&home, &path, "s1");
    let had_theirs = String::from_utf8_lossy(case.bytes.as_deref().unwrap_or_default()).contains(THEIRS);
    assert_eq!(line.contains(THEIRS), had_theirs, "{what}\n{line}");
    assert!(line.lines().count() == if had_theirs { 2 } else { 1 }, "{what}\n{line}");

    // A second install changes nothing.
    let again = std::fs::metadata(&path).unwrap().mtime_nsec();
    assert!(baton(&home, way.line()).ok().contains("nothing was changed"), "{what}");
    assert_eq!(bytes(&path).unwrap(), installed, "{what}");
    assert_eq!(std::fs::metadata(&path).unwrap().mtime_nsec(), again, "{what}: written again");

    // Uninstall.
    baton(&home, "uninstall --verify").ok();
    assert!(!folder_is_whole(&home), "{what}");
    let after = bytes(&path);
    if case.ours == Ours::None {
        assert_eq!(
            after,
            case.bytes,
            "{what}\nafter:\n{}",
            String::from_utf8_lossy(after.as_deref().unwrap_or(b"(none)"))
        );
        assert_eq!(std::fs::metadata(&path).ok().map(|m| (m.mode(), m.uid(), m.gid())), meta, "{what}");
    } else {
        // Our earlier entries are not restored: they would point at nothing.
        assert_eq!(our_hooks(&path), 0, "{what}");
        assert_eq!(without_ours(&value(&path)), without_ours(&case.meaning()), "{what}");
    }
    assert_eq!(
        std::fs::symlink_metadata(&path).is_ok_and(|m| m.is_symlink()),
        case.place == SettingsKind::Link,
        "{what}"
    );
    assert!(!home.path().join(".local/state/baton").join("install.json").exists(), "{what}");
}

#[test]
fn install_and_uninstall_leave_every_settings_file_as_it_was_in_both_ways() {
    let count = times(240);
    for_each(count, |n| {
        let case = case(n as u64);
        round_trip(&case, InstallMode::Folder);
        round_trip(&case, InstallMode::Settings);
    });
    eprintln!("{count} settings files, two ways each");
}

#[test]
fn entries_are_taken_out_exactly_when_somebody_has_edited_the_file_since() {
    for_each(times(120), |n| {
        let case = case(n as u64);
        if matches!(case.place, SettingsKind::Unusable | SettingsKind::ReadOnly) || case.ours != Ours::None {
            return;
        }
        for way in [InstallMode::Folder, InstallMode::Settings] {
            let home = home();
            let path = case.place(&home);
            baton(&home, way.line()).ok();
            let text = String::from_utf8(bytes(&path).unwrap()).unwrap();
            // Comments may precede the object, each on its own line.
            let begins = |line: &&str| line.trim_start_matches('\u{feff}').trim_start().starts_with('{');
            let before: usize =
                text.split_inclusive('\n').take_while(|line| !begins(line)).map(str::len).sum();
            let begin = before + text[before..].find('{').unwrap();
            let edited = format!("{}{{ \"later\": [true], {}", &text[..begin], &text[begin + 1..]);
            std::fs::write(&path, &edited).unwrap();
            let said = baton(&home, "uninstall --verify").ok();
            assert!(said.contains("exactly our entries"), "{said}");
            let mut expected = without_ours(&case.meaning());
            expected["later"] = serde_json::json!([true]);
            let what = || {
                format!(
                    "{} {way:?}\n{edited}\nbecame\n{}",
                    case.seed,
                    String::from_utf8_lossy(&bytes(&path).unwrap())
                )
            };
            assert_eq!(without_ours(&value(&path)), expected, "{}", what());
            let left = settings::look(&bytes(&path).unwrap()).unwrap();
            assert!(!left.has_ours(), "{}", what());
            let before = settings::look(case.bytes.as_deref().unwrap_or(b"{}")).unwrap();
            assert_eq!((left.rules, left.statusline), (before.rules, before.statusline), "{}", what());
            let text = String::from_utf8(bytes(&path).unwrap()).unwrap();
            for comment in &case.comments {
                assert_eq!(text.matches(comment.as_str()).count(), 1, "{}", what());
            }
        }
    });
}

#[test]
fn a_status_line_that_the_user_sets_later_is_theirs() {
    let home = home();
    let path = home.write(".claude/settings.json", "{}\n");
    baton(&home, "install --yes").ok();
    let ours = value(&path)["statusLine"]["command"].as_str().unwrap().to_owned();
    let edited = std::fs::read_to_string(&path).unwrap().replace(&ours, "echo new");
    std::fs::write(&path, &edited).unwrap();
    baton(&home, "install --yes").ok();
    assert!(statusline(&home, &path, "s").ends_with("new\n"));
    baton(&home, "uninstall --verify").ok();
    assert_eq!(value(&path)["statusLine"]["command"], "echo new");
    // Also without a new install in between.
    baton(&home, "install --yes").ok();
    std::fs::write(&path, r#"{"statusLine":{"type":"command","command":"echo newer"}}"#).unwrap();
    baton(&home, "uninstall --verify").ok();
    assert_eq!(value(&path)["statusLine"]["command"], "echo newer");
}

#[test]
fn links_of_a_dotfile_manager_are_followed_and_stay() {
    let home = home();
    for dir in ["dotfiles/claude", "elsewhere/skills"] {
        std::fs::create_dir_all(home.path().join(dir)).unwrap();
    }
    let link =
        |to: &str, at: &str| std::os::unix::fs::symlink(home.path().join(to), home.path().join(at)).unwrap();
    link("dotfiles/claude", ".claude");
    link("elsewhere/skills", "dotfiles/claude/skills");
    let before = files(&home.path().join("dotfiles"));
    baton(&home, "install --yes").ok();
    assert!(home.path().join("elsewhere/skills/baton/hooks/hooks.json").exists());
    assert!(home.path().join("dotfiles/claude/settings.json").exists());
    assert!(folder_is_whole(&home));
    baton(&home, "uninstall --verify").ok();
    assert_eq!(files(&home.path().join("dotfiles")), before);
    assert_eq!(files(&home.path().join("elsewhere")), []);
    assert!(std::fs::read_link(home.path().join(".claude")).is_ok());
}

#[test]
fn a_link_that_leads_nowhere_is_refused() {
    let home = home();
    std::fs::create_dir(home.path().join(".claude")).unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all", home.path().join(".claude/settings.json")).unwrap();
    assert!(baton(&home, "install --yes").fails(1).contains("leads nowhere"));
}
