//! Which channel a folder belongs to, according to the binary, in real folders and real repositories.

use std::os::unix::fs::symlink;
use std::path::Path;

use baton_testkit::home::run;
use baton_testkit::{Home, tools};

fn home() -> Home {
    Home::new(crate::BATON)
}

/// Runs `baton channel` in `dir` with more arguments.
fn channel(home: &Home, dir: &Path, more: &str) -> String {
    let line = format!("channel {more}");
    run(home.baton(line.split_whitespace()).current_dir(dir)).ok().trim_end().to_owned()
}

/// Runs git with an identity and without the machine's configuration.
fn git(home: &Home, dir: &Path, line: &str) {
    let mut command = home.command("git");
    for (who, name) in [("AUTHOR", "A"), ("COMMITTER", "C")] {
        command.env(format!("GIT_{who}_NAME"), name).env(format!("GIT_{who}_EMAIL"), "dev@example.invalid");
    }
    command.env("GIT_CONFIG_NOSYSTEM", "1").args([
        "-c",
        "protocol.file.allow=always",
        "-c",
        "init.defaultBranch=main",
    ]);
    run(command.args(line.split_whitespace()).current_dir(dir)).ok();
}

fn repository(home: &Home, name: &str) -> std::path::PathBuf {
    let dir = home.path().join(name);
    std::fs::create_dir_all(&dir).unwrap();
    git(home, &dir, "init -q");
    git(home, &dir, "commit -q --allow-empty -m first");
    dir
}

#[test]
fn each_source_gives_way_to_the_one_before_it() {
    if !tools::has(&["git"]) {
        return;
    }
    let home = home();
    let app = home.project();
    assert_eq!(channel(&home, &app, "--why"), "global  (no project found above this folder)");

    std::fs::create_dir(app.join(".claude")).unwrap();
    let marked = channel(&home, &app, "--why");
    assert!(
        marked.starts_with("app-") && marked.contains("has a .claude folder or a .baton.toml"),
        "{marked}"
    );

    git(&home, &app, "init -q");
    let repository = channel(&home, &app, "--why");
    assert!(repository.starts_with("app-") && repository.contains("(git repository "), "{repository}");

    home.write("work/app/.baton.toml", "channel = \"own\"\n");
    assert_eq!(channel(&home, &app, "--why"), repository, "a stranger names no channel");
    home.trust();
    assert_eq!(home.tidy(&channel(&home, &app, "--why")), "own  (channel in ~/work/app/.baton.toml)");

    home.write(".config/baton/config.toml", "[channels]\n\"~/work\" = \"mapped\"\n");
    assert_eq!(
        home.tidy(&channel(&home, &app, "--why")),
        "mapped  ([channels] \"~/work\" in the configuration)"
    );

    let mut command = home.baton(["channel", "--why"]);
    assert_eq!(run(command.env("BATON_CHANNEL", "variable")).ok(), "variable  (BATON_CHANNEL)\n");
    let mut command = home.baton(["--channel", "flag", "channel", "--why"]);
    assert_eq!(run(command.env("BATON_CHANNEL", "variable")).ok(), "flag  (--channel)\n");
}

#[test]
fn the_longest_configured_path_wins_and_slashes_and_links_change_nothing() {
    let home = home();
    home.write(
        ".config/baton/config.toml",
        "[channels]\n\"~/work/\" = \"outer\"\n\"~/work/app/\" = \"inner\"\n\"~/work/ap\" = \"wrong\"\n",
    );
    let app = home.project();
    std::fs::create_dir_all(app.join("src/deep")).unwrap();
    std::fs::create_dir_all(home.path().join("work/app2")).unwrap();
    symlink(&app, home.path().join("link")).unwrap();
    assert_eq!(channel(&home, &app, ""), "inner");
    assert_eq!(channel(&home, &app.join("src/deep"), ""), "inner");
    assert_eq!(channel(&home, &home.path().join("work/app2"), ""), "outer");
    assert_eq!(channel(&home, &home.path().join("link/src"), ""), "inner");
    for path in ["work/app", "work/app/", "work/app//src/../src/", "link", "link/"] {
        assert_eq!(channel(&home, home.path(), path), "inner", "{path}");
    }
}

#[test]
fn a_project_inside_a_project_is_its_own() {
    if !tools::has(&["git"]) {
        return;
    }
    let home = home();
    let outer = repository(&home, "outer");
    let inner = repository(&home, "outer/vendor/inner");
    assert!(channel(&home, &outer.join("vendor"), "").starts_with("outer-"));
    assert!(channel(&home, &inner, "").starts_with("inner-"));
    // The outer project's settings do not apply to it.
    home.write("outer/.baton.toml", "channel = \"outer-own\"\n");
    run(home.baton(["trust"]).current_dir(&outer)).ok();
    assert_eq!(channel(&home, &outer.join("vendor"), ""), "outer-own");
    assert!(channel(&home, &inner, "").starts_with("inner-"));
}

#[test]
fn all_work_trees_of_a_repository_share_its_channel_and_a_submodule_does_not() {
    if !tools::has(&["git"]) {
        return;
    }
    let home = home();
    let app = repository(&home, "app");
    git(&home, &app, "worktree add -q ../elsewhere/feature");
    let feature = home.path().join("elsewhere/feature");
    assert_eq!(channel(&home, &app, ""), channel(&home, &feature, ""));
    std::fs::create_dir(feature.join("src")).unwrap();
    assert_eq!(channel(&home, &app, ""), channel(&home, &feature.join("src"), ""));

    repository(&home, "origin/lib");
    git(&home, &app, "submodule --quiet add ../origin/lib lib");
    let lib = channel(&home, &app.join("lib"), "");
    assert!(lib.starts_with("lib-"), "{lib}");
    assert_ne!(lib, channel(&home, &home.path().join("origin/lib"), ""));
}

#[test]
fn two_projects_with_one_folder_name_do_not_collide() {
    if !tools::has(&["git"]) {
        return;
    }
    let home = home();
    let (one, two) = (repository(&home, "one/app"), repository(&home, "two/app"));
    let (a, b) = (channel(&home, &one, ""), channel(&home, &two, ""));
    assert!(a.starts_with("app-") && b.starts_with("app-") && a != b, "{a} {b}");
}

#[test]
fn the_homes_own_claude_folder_makes_no_project_of_everything_below_it() {
    let home = home();
    std::fs::create_dir(home.path().join(".claude")).unwrap();
    assert_eq!(channel(&home, &home.project(), ""), "global");
    assert_eq!(channel(&home, home.path(), ""), "global");
}

#[test]
fn a_name_that_would_leave_the_store_is_refused_wherever_it_is_written() {
    let home = home();
    home.write("work/app/doc.md", "words");
    for bad in ["../x", "a/b", ".hidden", "a b", ""] {
        let err = run(&mut home.baton(["--channel", bad, "handoffs", "seal", "doc.md"])).fails(1);
        assert!(err.contains("is not usable"), "{bad:?}: {err}");
    }
    let err = run(home.baton(["handoffs", "seal", "doc.md"]).env("BATON_CHANNEL", "../x")).fails(1);
    assert!(err.contains("\"../x\" is not usable"), "{err}");
    home.write("work/app/.baton.toml", "\nchannel = \"../x\"\n");
    let err = home.tidy(&home.run("trust").fails(1));
    assert!(err.contains("~/work/app/.baton.toml:2: channel name \"../x\" is not usable"), "{err}");
    assert!(!home.store().exists() && !home.path().join(".claude").exists());
}

#[test]
fn the_answer_comes_as_json_too() {
    let home = home();
    let answer = home.run("--channel x channel --json").json();
    assert_eq!(answer, serde_json::json!({ "channel": "x", "why": "--channel" }));
}
