//! What an install asks, copies, links, replaces and refuses.

use std::process::Command;

use super::*;

#[test]
fn the_other_install_mode_replaces_the_first_and_never_joins_it() {
    let home = home();
    let path = home.write(".claude/settings.json", "{\n  \"model\": \"opus\"\n}\n");
    baton(&home, "install --yes").ok();
    baton(&home, "install --yes --settings").ok();
    assert_eq!((our_hooks(&path), folder_is_whole(&home)), (EVENTS.len(), false));
    baton(&home, "install --yes").ok();
    assert_eq!((our_hooks(&path), folder_is_whole(&home)), (0, true));
    baton(&home, "uninstall --verify").ok();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\n  \"model\": \"opus\"\n}\n");
}

#[test]
fn a_newer_version_replaces_its_own_files_and_leaves_what_others_put_among_them() {
    let home = home();
    baton(&home, "install --yes").ok();
    let dir = home.path().join(".claude/skills/baton");
    let new = files(&dir);
    // As an older version left it.
    std::fs::write(dir.join("hooks/hooks.json"), "{\"hooks\":{}}\n").unwrap();
    std::fs::write(dir.join("commands/gone.md"), "old\n").unwrap();
    let stamp = serde_json::json!({ "version": "0.0.1", "files": { ".claude-plugin/plugin.json": "", "hooks/hooks.json": "", "commands/gone.md": "" } });
    std::fs::write(dir.join(".baton.json"), stamp.to_string()).unwrap();
    std::fs::write(dir.join("mine.txt"), "keep me").unwrap();
    baton(&home, "install --yes").ok();
    let mut expected = new;
    expected.push(("mine.txt".into(), b"keep me".to_vec()));
    expected.sort();
    let now: Vec<_> = files(&dir).into_iter().filter(|(name, _)| !name.starts_with("commands/")).collect();
    expected.retain(|(name, _)| !name.starts_with("commands/"));
    assert_eq!(now, expected);
    assert!(!dir.join("commands/gone.md").exists());
    let said = baton(&home, "uninstall").ok();
    assert!(said.contains("mine.txt is not ours and stays"), "{said}");
    assert_eq!(files(&dir), [("mine.txt".to_owned(), b"keep me".to_vec())]);
}

#[test]
fn a_folder_that_is_not_ours_and_a_program_that_is_not_ours_are_refused() {
    let home = Home::new(crate::BATON);
    home.write(".claude/skills/baton/SKILL.md", "a conductor's baton");
    assert!(baton(&home, "install --yes").fails(1).contains("not a folder of baton's"));
    std::fs::remove_dir_all(home.path().join(".claude/skills")).unwrap();
    home.write(".local/bin/baton", "#!/bin/sh\necho another\n");
    assert!(home.run("install --yes").fails(1).contains("another program"));
    assert_eq!(
        std::fs::read_to_string(home.path().join(".local/bin/baton")).unwrap(),
        "#!/bin/sh\necho another\n"
    );
    assert!(!home.path().join(".local/state").exists());
}

#[test]
fn the_program_is_copied_first_and_hooks_name_the_copy() {
    let home = Home::new(crate::BATON);
    baton(&home, "install --yes --bin-dir tools").ok();
    let copy = home.project().join("tools/baton");
    assert_eq!(std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o755);
    let hooks = std::fs::read_to_string(home.path().join(".claude/skills/baton/hooks/hooks.json")).unwrap();
    let hooks: Value = serde_json::from_str(&hooks).unwrap();
    assert_eq!(settings::all_hooks(&hooks).count(), EVENTS.len());
    for (event, hook) in settings::all_hooks(&hooks) {
        assert_eq!(hook["command"], copy.display().to_string());
        // As the client does it: program and arguments, without a shell.
        let out = Command::new(hook["command"].as_str().unwrap())
            .args(hook["args"].as_array().unwrap().iter().map(|a| a.as_str().unwrap()))
            .env("HOME", home.path())
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        assert!(out.status.success(), "{event}");
    }
}

#[test]
fn without_consent_nothing_happens() {
    let home = home();
    for line in ["install", "install --dry-run"] {
        let before = files(home.path());
        let ran = baton(&home, line);
        assert!(ran.out.contains("+++ ~/.claude/settings.json"), "{}", ran.out);
        assert_eq!(ran.code, Some(i32::from(line == "install")), "{line}");
        assert_eq!(files(home.path()), before);
    }
}

#[test]
fn an_old_client_gets_hooks_in_its_settings() {
    let home = home();
    let bin = home.path().join("clients");
    for (version, hooks) in [("2.1.100", EVENTS.len()), ("2.1.325", 0)] {
        home.write("clients/claude", format!("#!/bin/sh\necho '{version} (Claude Code)'\n"));
        std::fs::set_permissions(bin.join("claude"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", bin.display());
        run(home.command(program(&home)).args(["install", "--yes"]).env("PATH", path)).ok();
        assert_eq!(our_hooks(&home.path().join(".claude/settings.json")), hooks, "{version}");
        assert_eq!(folder_is_whole(&home), hooks == 0);
    }
}

#[test]
fn sm_is_linked_unless_another_program_has_that_name() {
    let home = home();
    baton(&home, "install --yes --sm").ok();
    let link = home.path().join(".local/bin/sm");
    assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("baton"));
    assert!(baton(&home, "install --yes --sm").ok().contains("nothing was changed"));
    let said = run(home.command(&link).args(["handoff", "nowhere.md"]));
    assert_eq!(said.code, Some(2), "the same command under another name: {}", said.err);
    baton(&home, "uninstall").ok();
    assert!(std::fs::symlink_metadata(&link).is_err());

    home.write("other/sm", "#!/bin/sh\n");
    std::fs::set_permissions(home.path().join("other/sm"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", home.path().join("other").display());
    let said = run(home.command(program(&home)).args(["install", "--yes", "--sm"]).env("PATH", path)).ok();
    assert!(said.contains("another program"), "{said}");
    assert!(std::fs::symlink_metadata(&link).is_err());
}

#[test]
fn purge_removes_everything_that_baton_has_stored() {
    let home = home();
    home.write("doc.md", "# x\n");
    baton(&home, "install --yes").ok();
    baton(&home, "--channel app handoffs seal ../../doc.md").ok();
    let said = baton(&home, "uninstall").ok();
    assert!(said.contains("~/.claude/handoff") && said.contains("--purge"), "{said}");
    assert!(home.store().exists());
    baton(&home, "uninstall --purge").fails(1);
    assert!(home.store().exists(), "nobody said yes");
    baton(&home, "uninstall --purge --yes").ok();
    for gone in [".claude/handoff", ".local/state/baton", ".local/bin/baton"] {
        assert!(!home.path().join(gone).exists(), "{gone}");
    }
}

/// A package manager replaces the program in its own place; hooks that call a copy would keep using the old one.
#[test]
fn a_program_that_is_on_the_path_is_used_where_it_is() {
    let home = Home::new(crate::BATON);
    let own = home.path().join(".cargo/bin/baton");
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    std::fs::copy(crate::BATON, &own).unwrap();
    let path = format!("{}:/usr/bin:/bin", own.parent().unwrap().display());
    let baton = |line: &str| run(home.command(&own).args(line.split(' ')).env("PATH", &path));
    let said = baton("install --yes").ok();
    assert!(!program(&home).exists(), "nothing was copied: {said}");
    let hooks = std::fs::read_to_string(home.path().join(".claude/skills/baton/hooks/hooks.json")).unwrap();
    assert!(hooks.contains(own.to_str().unwrap()), "{hooks}");
    assert!(baton("doctor").ok().contains("~/.cargo/bin/baton"));
    baton("uninstall --purge --yes").ok();
    assert!(own.exists(), "it belongs to whoever put it there");
}

#[test]
fn at_a_terminal_a_person_is_asked() {
    use std::io::Write as _;
    for (answer, done) in [("y\n", true), ("\n", false), ("no\n", false), ("d\ny\n", true)] {
        let home = home();
        let master =
            rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY).unwrap();
        rustix::pty::grantpt(&master).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let name = rustix::pty::ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = std::fs::File::options().read(true).write(true).open(name).unwrap();
        let mut master = std::fs::File::from(master);
        master.write_all(answer.as_bytes()).unwrap();
        let ran = run(home.command(program(&home)).arg("install").stdin(slave));
        let (shown, rest) = ran.out.split_once("Do it? [y/N, d for the whole diff]").unwrap();
        assert!(shown.contains("~/.claude/settings.json") && shown.lines().count() <= 10, "{shown}");
        assert_eq!(rest.contains("+++ ~/.claude/settings.json"), answer.starts_with('d'), "{rest}");
        assert_eq!(rest.contains("Next: ") && rest.contains("Worth knowing: "), done, "{rest}");
        assert_eq!((ran.code, folder_is_whole(&home)), (Some(i32::from(!done)), done), "{answer:?}");
    }
}

fn listed(home: &Home, list: &str) -> Vec<String> {
    let text = std::fs::read_to_string(home.path().join(".claude/settings.json")).unwrap();
    let settings: Value = serde_json::from_str(&text).unwrap();
    let rules = settings["permissions"][list].as_array().cloned().unwrap_or_default();
    rules.iter().map(|rule| rule.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_rules_for_leading_agents_cover_what_their_skill_teaches_and_stay_over_a_plain_install() {
    let home = home();
    baton(&home, "install --yes --agents").ok();
    let before = (listed(&home, "allow"), listed(&home, "deny"));
    let skill =
        std::fs::read_to_string(home.path().join(".claude/skills/baton/skills/lead/SKILL.md")).unwrap();
    let commands = skill.split('`').skip(1).step_by(2).filter(|code| code.contains("baton "));
    for command in commands.filter(|code| code.starts_with("baton")) {
        let verb = command.split_whitespace().nth(1).unwrap();
        assert!(before.0.contains(&format!("Bash(baton {verb}:*)")), "{command}: {:?}", before.0);
    }
    assert!(!skill.contains("/baton spawn"), "the client compares beginnings: {skill}");
    assert!(before.1.contains(&"Bash(baton config set:*)".to_owned()), "{:?}", before.1);
    assert!(baton(&home, "install --yes").ok().contains("nothing was changed"));
    assert_eq!((listed(&home, "allow"), listed(&home, "deny")), before);
    baton(&home, "uninstall").ok();
    baton(&home, "install --yes").ok();
    assert!(!listed(&home, "allow").contains(&"Bash(baton spawn:*)".to_owned()));
}

#[test]
fn only_the_user_installs_and_uninstalls() {
    let home = home();
    baton(&home, "install --yes").ok();
    let client = baton_testkit::hooks::Client::new(&home);
    client.starts("startup").ok();
    let before = files(&home.path().join(".claude"));
    for args in
        [&["install", "--yes", "--agents"][..], &["install", "--yes", "--no-permission"], &["uninstall"]]
    {
        let mut command = home.baton(args);
        client.dress(&mut command);
        let said = run(&mut command).fails(1);
        assert!(said.contains("only the user may"), "{args:?}: {said}");
    }
    assert_eq!(files(&home.path().join(".claude")), before);
    let mut shown = home.baton(["install", "--dry-run"]);
    client.dress(&mut shown);
    run(&mut shown).ok();
}

#[test]
fn planned_steps_have_no_done_mark_and_settings_list_their_additions() {
    let home = home();
    let said = baton(&home, "install --dry-run").ok();
    assert!(!said.contains('✓'), "{said}");
    let line = said.lines().find(|line| line.starts_with("·  ~/.claude/settings.json")).unwrap();
    assert!(line.contains("status line") && line.contains("rules that allow"), "{said}");
    baton(&home, "install --yes").ok();
    baton(&home, "uninstall").ok();
    let again = baton(&home, "uninstall").out;
    assert!(!again.contains("What remains is yours:\n`"), "{again}");
}
