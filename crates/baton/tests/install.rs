//! Promise 16: what an install changes, an uninstall gives back, byte for byte; what others have goes on working.

mod codex;
mod delegated;
mod killed;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use baton::install::ours::EVENTS;
use baton::install::settings;
use baton_testkit::home::run;
use baton_testkit::race::on_all_processors;
use baton_testkit::{Home, Ran, times};
use serde_json::Value;

use crate::settings::{Case, Ours, Place, THEIRS, case, without_ours};

/// Both ways of installing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Folder,
    Settings,
}

impl Way {
    fn line(self) -> &'static str {
        match self {
            Self::Folder => "install --yes",
            Self::Settings => "install --yes --settings",
        }
    }
}

/// A home whose program is in place already: copying it hundreds of times would prove nothing.
pub fn home() -> Home {
    let home = Home::new(crate::BATON);
    let bin = program(&home);
    std::fs::create_dir_all(bin.parent().unwrap()).unwrap();
    if std::fs::hard_link(crate::BATON, &bin).is_err() {
        std::fs::copy(crate::BATON, &bin).unwrap();
    }
    home
}

/// Where the program is installed.
pub fn program(home: &Home) -> PathBuf {
    home.path().join(".local/bin/baton")
}

/// Runs baton from where it is installed, else from where it was built.
pub fn baton(home: &Home, line: &str) -> Ran {
    let installed = program(home);
    let program = if installed.exists() { installed } else { crate::BATON.into() };
    // No client of this machine may have a say.
    run(home.command(program).args(line.split_whitespace()).env("PATH", "/usr/bin:/bin"))
}

fn bytes(path: &Path) -> Option<Vec<u8>> {
    std::fs::read(path).ok()
}

fn value(path: &Path) -> Value {
    settings::value(&bytes(path).unwrap_or_default()).unwrap()
}

/// A folder's files with their bytes, by name.
pub fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(dir).unwrap().display().to_string();
                let link =
                    std::fs::read_link(entry.path()).ok().map(|to| to.into_os_string().into_encoded_bytes());
                found.push((name, link.unwrap_or_else(|| std::fs::read(entry.path()).unwrap())));
            }
        }
    }
    found.sort();
    found
}

fn folder_is_whole(home: &Home) -> bool {
    let dir = home.path().join(".claude/skills/baton");
    let Some(stamp) = baton::install::plugin::read_stamp(&dir) else {
        assert!(!dir.exists(), "a folder without its stamp: {:?}", files(&dir));
        return false;
    };
    for (name, hash) in &stamp.files {
        let bytes = std::fs::read(dir.join(name)).unwrap();
        assert_eq!(baton::install::plugin::sha256(&bytes), *hash, "{name}");
    }
    assert_eq!(files(&dir).len(), stamp.files.len() + 1);
    true
}

/// Our hooks in the settings, per event.
fn our_hooks(path: &Path) -> usize {
    bytes(path).map_or(0, |b| settings::look(&b).unwrap().hooks.len())
}

/// Runs every foreign hook, and the status line, the way the client does.
fn others_work(home: &Home, path: &Path, what: &str) {
    let settings = value(path);
    let mut expected = String::new();
    for (event, hook) in settings::all_hooks(&settings).filter(|(e, h)| !baton::install::ours::is_hook(h, e))
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

fn statusline(home: &Home, path: &Path, session: &str) -> String {
    let command = value(path)["statusLine"]["command"].as_str().unwrap().to_owned();
    let payload = home.write("payload", format!("{{\"session_id\":\"{session}\",\"cwd\":\"/\"}}"));
    run(home.command("/bin/sh").args(["-c", &command]).stdin(std::fs::File::open(payload).unwrap())).ok()
}

fn round_trip(case: &Case, way: Way) {
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
    if matches!(case.place, Place::Unusable | Place::ReadOnly) {
        let said = ran.fails(1);
        assert!(said.contains("settings.json"), "{what}\n{said}");
        assert_eq!(bytes(&path), case.bytes, "{what}");
        assert!(!folder_is_whole(&home), "{what}: it went on");
        assert!(!home.path().join(".local/state/baton/install.json").exists(), "{what}");
        return;
    }
    ran.ok();

    // Installed: ours once, in one place; everything else as it was.
    let (hooks, folder) = (our_hooks(&path), folder_is_whole(&home));
    assert_eq!((hooks, folder), if way == Way::Folder { (0, true) } else { (EVENTS.len(), false) }, "{what}");
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

    // Twice is once.
    let again = std::fs::metadata(&path).unwrap().mtime_nsec();
    assert!(baton(&home, way.line()).ok().contains("nothing was changed"), "{what}");
    assert_eq!(bytes(&path).unwrap(), installed, "{what}");
    assert_eq!(std::fs::metadata(&path).unwrap().mtime_nsec(), again, "{what}: written again");

    // Out again.
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
        // Entries of ours that were there before are not brought back: they would point at nothing.
        assert_eq!(our_hooks(&path), 0, "{what}");
        assert_eq!(without_ours(&value(&path)), without_ours(&case.meaning()), "{what}");
    }
    assert_eq!(
        std::fs::symlink_metadata(&path).is_ok_and(|m| m.is_symlink()),
        case.place == Place::Link,
        "{what}"
    );
    assert!(!home.path().join(".local/state/baton").join("install.json").exists(), "{what}");
}

/// Runs `each` for every number, on all processors.
fn for_each(count: usize, each: impl Fn(usize) + std::marker::Sync) {
    let next = AtomicUsize::new(0);
    on_all_processors(|_, _| {
        loop {
            let n = next.fetch_add(1, Relaxed);
            if n >= count {
                break;
            }
            each(n);
        }
    });
}

#[test]
fn install_and_uninstall_leave_every_settings_file_as_it_was_in_both_ways() {
    let count = times(240);
    for_each(count, |n| {
        let case = case(n as u64);
        round_trip(&case, Way::Folder);
        round_trip(&case, Way::Settings);
    });
    eprintln!("{count} settings files, two ways each");
}

#[test]
fn entries_are_taken_out_exactly_when_somebody_has_edited_the_file_since() {
    for_each(times(120), |n| {
        let case = case(n as u64);
        if matches!(case.place, Place::Unusable | Place::ReadOnly) || case.ours != Ours::None {
            return;
        }
        for way in [Way::Folder, Way::Settings] {
            let home = home();
            let path = case.place(&home);
            baton(&home, way.line()).ok();
            let text = String::from_utf8(bytes(&path).unwrap()).unwrap();
            // Comments may stand before the object; each takes a line of its own.
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
            assert_eq!((left.rule, left.statusline), (before.rule, before.statusline), "{}", what());
            let text = String::from_utf8(bytes(&path).unwrap()).unwrap();
            for comment in &case.comments {
                assert_eq!(text.matches(comment.as_str()).count(), 1, "{}", what());
            }
        }
    });
}

#[test]
fn the_other_way_replaces_the_first_and_never_joins_it() {
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
    // As an older version had it.
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
        // As the client does it: the program and its arguments, no shell.
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
fn without_a_yes_nothing_happens() {
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
fn a_project_gets_its_own_entries_and_gives_them_back() {
    let home = home();
    let project = home.project();
    std::fs::create_dir(project.join(".git")).unwrap();
    home.write("work/app/.gitignore", "target");
    let theirs = format!("{{ \"statusLine\": {{ \"type\": \"command\", \"command\": \"echo {THEIRS}\" }} }}");
    home.write(".claude/settings.json", &theirs);
    let before = files(&project);
    baton(&home, "install --project --yes").ok();
    let local = project.join(".claude/settings.local.json");
    assert_eq!(our_hooks(&local), EVENTS.len());
    assert!(!folder_is_whole(&home));
    let ignored = std::fs::read_to_string(project.join(".gitignore")).unwrap();
    assert!(
        ignored.starts_with("target\n") && ignored.contains("\n.claude/memory/raw/\n.baton/\n"),
        "{ignored}"
    );
    // The user's own status line would be hidden by the project's; ours runs it.
    assert!(statusline(&home, &local, "s").contains(THEIRS));
    assert!(baton(&home, "install --project --yes").ok().contains("nothing was changed"));
    // Hooks of the project and of the user would both run.
    assert!(baton(&home, "install --yes").fails(1).contains("twice"));
    assert!(baton(&home, "install --project --shared --yes").fails(1).contains("twice"));
    baton(&home, "uninstall --project --verify").ok();
    assert_eq!(files(&project), before);
    assert_eq!(std::fs::read_to_string(home.path().join(".claude/settings.json")).unwrap(), theirs);
    assert!(!project.join(".claude").exists());
}

#[test]
fn a_teams_hooks_stand_back_where_the_user_has_baton_for_all_projects() {
    let home = home();
    std::fs::create_dir(home.project().join(".git")).unwrap();
    baton(&home, "install --project --shared --yes").ok();
    let shared = home.project().join(".claude/settings.json");
    let settings = value(&shared);
    assert!(settings.get("statusLine").is_none(), "a team decides nothing about a person's status line");
    for (_, hook) in settings::all_hooks(&settings) {
        assert_eq!(hook["command"], "baton");
    }
    let start = |session: &str| {
        let payload = format!(
            "{{\"session_id\":\"{session}\",\"hook_event_name\":\"SessionStart\",\"source\":\"startup\",\"cwd\":\"{}\"}}",
            home.project().display()
        );
        home.run_with_input("hook SessionStart --shared", &payload).ok();
        home.path().join(format!(".local/state/baton/sessions/{session}.json")).exists()
    };
    assert!(start("one"), "alone it works");
    for (line, session) in [("install --yes", "two"), ("install --yes --settings", "three")] {
        baton(&home, line).ok();
        assert!(!start(session), "{line}: the user's own hook has seen to it");
    }
    baton(&home, "uninstall").ok();
    assert!(start("four"));
}

#[test]
fn a_local_install_adds_no_hooks_where_the_users_own_serve_the_project() {
    let home = home();
    std::fs::create_dir(home.project().join(".git")).unwrap();
    baton(&home, "install --yes").ok();
    let said = baton(&home, "install --project --yes").ok();
    assert!(said.contains("no hooks are added"), "{said}");
    assert_eq!(our_hooks(&home.project().join(".claude/settings.local.json")), 0);
    assert!(home.project().join(".gitignore").exists());
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
fn purge_removes_everything_that_baton_has_kept() {
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

#[test]
fn the_home_folder_is_no_project() {
    let home = home();
    let ran =
        run(home.command(program(&home)).args(["install", "--project", "--yes"]).current_dir(home.path()));
    assert!(ran.fails(1).contains("home folder"));
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
    // Without a new install in between, too.
    baton(&home, "install --yes").ok();
    std::fs::write(&path, r#"{"statusLine":{"type":"command","command":"echo newer"}}"#).unwrap();
    baton(&home, "uninstall --verify").ok();
    assert_eq!(value(&path)["statusLine"]["command"], "echo newer");
}

#[test]
fn at_a_terminal_a_person_is_asked() {
    use std::io::Write as _;
    for (answer, done) in [("y\n", true), ("\n", false), ("no\n", false)] {
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
        assert!(
            ran.out.contains("+++ ~/.claude/settings.json") && ran.out.contains("Do it? [y/N]"),
            "{}",
            ran.out
        );
        assert_eq!((ran.code, folder_is_whole(&home)), (Some(i32::from(!done)), done), "{answer:?}");
    }
}

const BEGIN: &str = "<!-- Written by a test (BATON_UPDATE=1 cargo test the_transcript); do not edit. -->\n";
const END: &str = "<!-- End of what the test writes. -->\n";

/// What a newcomer sees. The README shows it, so it must be true: `BATON_UPDATE=1` writes it anew.
#[test]
fn the_transcript_in_the_documentation_is_what_happens() {
    let home = Home::new(crate::BATON);
    for (name, says) in [("claude", "2.1.325 (Claude Code)"), ("tmux", "tmux 3.3a")] {
        let path = home.write(&format!("tools/{name}"), format!("#!/bin/sh\necho '{says}'\n"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path =
        format!("{}:{}", home.path().join(".local/bin").display(), home.path().join("tools").display());
    let mut text = "```console\n".to_owned();
    for line in ["./baton install --yes", "baton doctor", "baton uninstall --verify"] {
        let installed = program(&home);
        let program = if line.starts_with("./") { Path::new(crate::BATON) } else { &installed };
        let out = run(home.command(program).args(line.split(' ').skip(1)).env("PATH", &path)).ok();
        text = text + "$ " + line + "\n" + &home.tidy(&out) + "\n";
    }
    text = text.trim_end().to_owned() + "\n```\n";
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let whole = std::fs::read_to_string(&readme).unwrap();
    let (before, rest) = whole.split_once(BEGIN).expect("the README marks where the transcript begins");
    let (shown, after) = rest.split_once(END).expect("the README marks where the transcript ends");
    if std::env::var_os("BATON_UPDATE").is_some() {
        std::fs::write(&readme, [before, BEGIN, &text, END, after].concat()).unwrap();
    } else {
        assert_eq!(shown, text, "run again with BATON_UPDATE=1 and look at the difference");
    }
    // Nothing is left but the program.
    let left: Vec<_> =
        files(home.path()).into_iter().map(|(name, _)| name).filter(|n| !n.starts_with("tools/")).collect();
    assert_eq!(left, [".local/bin/baton"]);
}
