//! Installs for one project, next to those of the user and of a team.

use super::settings_files::THEIRS;
use super::*;

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
    // The project's status line would hide the user's own, so ours runs it.
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
fn a_project_is_not_installed_into_while_the_users_own_status_line_cannot_be_read() {
    let home = home();
    std::fs::create_dir(home.project().join(".git")).unwrap();
    for broken in ["{ \"statusLine\": ", "[]"] {
        home.write(".claude/settings.json", broken);
        let said = baton(&home, "install --project --yes").fails(1);
        assert!(said.contains(".claude/settings.json"), "{said}");
        assert!(!home.project().join(".claude").exists());
    }
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
        let mut client = baton_testkit::hooks::Client::new(&home);
        client.session = session.to_owned();
        let mut command = home.baton(["hook", "SessionStart", "--shared"]);
        client.dress(&mut command);
        baton_testkit::hooks::send(command, client.usual("SessionStart").to_string().as_bytes()).ok();
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
fn the_home_folder_is_not_a_project() {
    let home = home();
    let ran =
        run(home.command(program(&home)).args(["install", "--project", "--yes"]).current_dir(home.path()));
    assert!(ran.fails(1).contains("home folder"));
}
