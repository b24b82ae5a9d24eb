//! Settings: where each value comes from, and how mistakes are reported.

use baton::testing::KEYS;
use baton_testkit::Home;
use baton_testkit::home::run;
use insta::assert_snapshot;

/// What `baton config` says of `text` in the user's file, and `baton trust` of it in a project's.
fn complaint(file: &str, text: &str) -> String {
    let home = Home::new(crate::BATON);
    home.write(file, text);
    if file == PROJECT {
        return home.tidy(&home.run("trust").fails(1));
    }
    let ran = home.run("config");
    assert_eq!(ran.out, "");
    home.tidy(&ran.fails(1))
}

const USER: &str = ".config/baton/config.toml";
const PROJECT: &str = "work/app/.baton.toml";

#[test]
fn an_unknown_key_is_told_with_its_line_and_what_was_meant() {
    assert_snapshot!(complaint(USER, "# mine\n\n[context]\nwarning_percent = 50\n"),
        @r#"baton: ~/.config/baton/config.toml:4: "context.warning_percent" is not a setting; did you mean context.warning_percentage?"#);
    assert_snapshot!(complaint(USER, "[handof]\nexpiry = \"2h\"\n"),
        @r#"baton: ~/.config/baton/config.toml:2: "handof.expiry" is not a setting; did you mean handoff.expiry?"#);
    let listed = complaint(USER, "context = 5\n");
    assert!(
        listed.contains(r#"config.toml:1: "context" is not a setting; [context] has context.enabled,"#),
        "{listed}"
    );
    assert_snapshot!(complaint(USER, "[vim]\ntabs = 4\n"),
        @r#"baton: ~/.config/baton/config.toml:2: "vim.tabs" is not a setting; `baton config` lists what there is"#);
    assert_snapshot!(complaint(PROJECT, "chanel = \"x\"\n"),
        @r#"baton: nothing is accepted until this is corrected: ~/work/app/.baton.toml:1: "chanel" is not a setting; did you mean channel?"#);
}

#[test]
fn a_wrong_value_is_reported_with_its_line_and_what_is_allowed() {
    assert_snapshot!(complaint(USER, "[context]\nenabled = true\nwarning_percentage = 150\n"),
        @"baton: ~/.config/baton/config.toml:3: context.warning_percentage takes a whole number from 1 to 100, not 150");
    assert_snapshot!(complaint(USER, "[handoff]\nexpiry = \"soon\"\n"),
        @r#"baton: ~/.config/baton/config.toml:2: handoff.expiry takes a duration like "2h", "90m" or "30s", not "soon""#);
    assert_snapshot!(complaint(USER, "[handoff]\nexpiry = 2\n"),
        @r#"baton: ~/.config/baton/config.toml:2: handoff.expiry takes a duration like "2h", "90m" or "30s", not 2"#);
    assert_snapshot!(complaint(USER, "[handoff]\ndir = \"here\"\n"),
        @r#"baton: ~/.config/baton/config.toml:2: handoff.dir takes an absolute path, or one that begins with ~/, not "here""#);
    assert_snapshot!(complaint(USER, "checkpoints = [1]\n"),
        @"baton: ~/.config/baton/config.toml:1: checkpoints takes true or false, not a list or table");
    assert_snapshot!(complaint(USER, "[channels]\n\"relative/path\" = \"x\"\n"),
        @r#"baton: ~/.config/baton/config.toml:2: "relative/path" must be an absolute path or begin with ~/"#);
    assert_snapshot!(complaint(USER, "[channels]\n\"~/x\" = 5\n"),
        @"baton: ~/.config/baton/config.toml:2: a channel is a name in quotes");
}

#[test]
fn invalid_toml_is_reported_with_its_line() {
    assert_snapshot!(complaint(USER, "[context]\nenabled = maybe\n"),
        @"baton: ~/.config/baton/config.toml:2: string values must be quoted, expected literal string");
    assert_snapshot!(complaint(USER, "[context\n"),
        @"baton: ~/.config/baton/config.toml:1: unclosed table, expected `]`");
}

/// If an accepted project sets something that only the user may set, that line is ignored and everything else works.
#[test]
fn a_project_cannot_move_the_store_or_the_channels_of_others() {
    let home = Home::new(crate::BATON);
    home.write(
        PROJECT,
        "checkpoints = true\n[handoff]\ndir = \"/elsewhere\"\n[notify]\ncommand = \"evil\"\n[channels]\n\"~/other\" = \"mine\"\n\
         [approvals]\nallow = [\"Bash(*)\"]\n[panes]\nsocket = \"/tmp/theirs\"\n",
    );
    let said = home.run("trust").ok();
    let (honoured, never) = said.split_once("Not honoured; only your own config.toml may set it:").unwrap();
    assert!(honoured.contains("checkpoints"), "{said}");
    for key in ["handoff.dir", "notify.command", "channels", "approvals.allow", "panes.socket"] {
        assert!(never.contains(key) && !honoured.contains(key), "{key}: {said}");
    }
    let why = home.run("config --why").ok();
    assert!(why.contains("only in your own config.toml: ~/work/app/.baton.toml:3"), "{why}");
    assert!(!why.contains("not trusted"), "{why}");
    for line in ["status", "agents", "channel", "handoffs list", "config", "trust --forget"] {
        assert_ne!(home.run(line).code, Some(1), "{line}");
    }
}

#[test]
fn a_wrong_variable_is_reported_by_its_name() {
    let home = Home::new(crate::BATON);
    let mut command = home.baton(["config"]);
    assert_snapshot!(run(command.env("BATON_CONTEXT_WARNING_PERCENTAGE", "lots")).fails(1),
        @r#"baton: BATON_CONTEXT_WARNING_PERCENTAGE: context.warning_percentage takes a whole number from 1 to 100, not "lots""#);
}

#[test]
fn every_value_says_where_it_came_from_and_the_nearer_one_counts() {
    let home = Home::new(crate::BATON);
    home.write(
        USER,
        "[context]\nwarning_percentage = 45\ncritical_tokens = \"150k\"\n\n[channels]\n\"~/work\" = \"w\"\n",
    );
    home.write(PROJECT, "channel = \"own\"\n[context]\nwarning_percentage = 55\n");
    home.trust();
    let mut command = home.baton(["config"]);
    let shown = run(command.env("BATON_HANDOFF_EXPIRY", "90m").env("BATON_AGENT_PACE", "not a setting")).ok();
    for key in KEYS {
        assert!(shown.lines().any(|line| line.split_whitespace().next() == Some(key.name)), "{}", key.name);
    }
    // Key, value and origin of what was set; the column widths depend on the path of the home.
    let set: Vec<String> = shown
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| !line.contains("  default  "))
        .map(|line| {
            line.split("  ").map(str::trim).filter(|c| !c.is_empty()).take(3).collect::<Vec<_>>().join(" | ")
        })
        .collect();
    assert_snapshot!(set.join("\n"), @r#"
    SETTING | VALUE | FROM
    context.warning_percentage | 55 | ~/work/app/.baton.toml:3
    context.critical_tokens | 150000 | ~/.config/baton/config.toml:3
    handoff.expiry | 1h 30m | BATON_HANDOFF_EXPIRY
    channels."~/work" | w | ~/.config/baton/config.toml:6
    channel | own | ~/work/app/.baton.toml
    "#);

    let mut command = home.baton(["config", "--json"]);
    let json = run(command.env("BATON_HANDOFF_EXPIRY", "90m")).json();
    let setting = |name: &str| {
        let all = json["settings"].as_array().unwrap();
        let found = all.iter().find(|s| s["key"] == name).unwrap();
        (found["value"].as_str().unwrap().to_owned(), found["from"].as_str().unwrap().to_owned())
    };
    assert_eq!(setting("context.warning_percentage"), ("55".into(), "~/work/app/.baton.toml:3".into()));
    assert_eq!(setting("handoff.expiry"), ("1h 30m".into(), "BATON_HANDOFF_EXPIRY".into()));
    assert_eq!(setting("run.max_restarts"), ("10".into(), "default".into()));
}

#[test]
fn a_configuration_that_is_a_link_into_a_dotfile_folder_is_read() {
    let home = Home::new(crate::BATON);
    home.write("dotfiles/baton.toml", "[run]\nmax_restarts = 3\n");
    std::fs::create_dir_all(home.path().join(".config/baton")).unwrap();
    std::os::unix::fs::symlink("../../dotfiles/baton.toml", home.path().join(USER)).unwrap();
    let shown = home.run("config").ok();
    let line = shown.lines().find(|l| l.starts_with("run.max_restarts")).unwrap();
    assert!(line.contains(" 3 "), "{line}");
}

#[test]
fn a_setting_is_changed_in_the_users_own_file_and_checked_like_any_other() {
    let home = Home::new(crate::BATON);
    home.write(USER, "# mine\n[context]\nwarning_percentage = 55 # for now\n");
    let said = home.run("config set context.warning_percentage 60").ok();
    assert_eq!(said, "context.warning_percentage is 60 now (~/.config/baton/config.toml:3).\n");
    home.run("config set handoff.expiry 3h").ok();
    let text = || std::fs::read_to_string(home.path().join(USER)).unwrap();
    assert_eq!(
        text(),
        "# mine\n[context]\nwarning_percentage = 60 # for now\n\n[handoff]\nexpiry = \"3h\"\n"
    );
    let before = text();
    let said = home.tidy(&home.run("config set context.warning_percentage 150").fails(1));
    assert!(said.contains("takes a whole number from 1 to 100, not 150"), "{said}");
    let said = home.run("config set context.warning 50").fails(1);
    assert!(
        said.contains("did you mean one of context.warning_percentage, context.warning_tokens"),
        "{said}"
    );
    assert!(said.contains("nothing was changed: ") && !said.contains("config.toml"), "{said}");
    assert_eq!(text(), before, "what is refused changes nothing");

    let said = run(home.baton(["config", "set", "run.park", "false"]).env("BATON_RUN_PARK", "true")).ok();
    assert_eq!(said, "run.park is true now (BATON_RUN_PARK, which overrides your own file here).\n");
    home.run("config unset run.park").ok();
    home.run("config unset handoff.expiry").ok();
    assert_eq!(text(), "# mine\n[context]\nwarning_percentage = 60 # for now\n");
    assert!(home.run("config unset handoff.expiry").fails(3).is_empty());
}

#[test]
fn an_editor_that_leaves_a_mistake_changes_nothing() {
    let home = Home::new(crate::BATON);
    home.write(USER, "[context\n");
    let edit = |script: &str| {
        let editor = home.write("editor", format!("#!/bin/sh\n{script}\n"));
        run(home
            .baton(["config", "edit"])
            .env("EDITOR", format!("sh {}", editor.display()))
            .env_remove("VISUAL"))
    };
    let said = edit("echo 'context.advise = 7' > \"$1\"").fails(1);
    assert!(
        said.contains("context.advise takes true or false") && said.contains("nothing was changed"),
        "{said}"
    );
    let text = || std::fs::read_to_string(home.path().join(USER)).unwrap();
    assert_eq!(text(), "[context\n");
    edit("echo 'context.advise = false' > \"$1\"").ok();
    assert_eq!(text(), "context.advise = false\n", "a broken file can be mended by it");
    edit("true").fails(3);
}

#[test]
fn rules_of_approvals_are_shown_with_their_place_and_can_be_set() {
    let home = Home::new(crate::BATON);
    home.write(
        USER,
        "[approvals]\nallow = [\n  \"Bash(ls:*)\",\n]\n[approvals.trees.lead]\ndeny = [\"Bash(rm:*)\"]\n",
    );
    for args in ["config", "config --why"] {
        let shown = home.run(args).ok();
        let line =
            |key: &str| shown.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("{shown}"));
        assert!(line("approvals.allow ").contains("Bash(ls:*)"), "{shown}");
        assert!(line("approvals.allow ").contains("~/.config/baton/config.toml:3"), "{shown}");
        assert!(line("approvals.trees.lead.deny ").contains("Bash(rm:*)"), "{shown}");
    }
    assert_eq!(home.run("config --json").json()["rules"][0]["rule"], "Bash(ls:*)");
    let set = |args: &[&str]| run(&mut home.baton([&["config"], args].concat()));
    let said = set(&["set", "approvals.allow", "[\"Bash(make:*)\", \"Read\"]"]).ok();
    assert!(said.contains("approvals.allow is Bash(make:*), Read now"), "{said}");
    let said = set(&["set", "approvals.alow", "Read"]).fails(1);
    assert!(said.contains("did you mean approvals.allow?") && !said.contains("config.toml:"), "{said}");
    set(&["unset", "approvals.trees.lead.deny"]).ok();
    assert!(!home.run("config --why").ok().contains("lead"));
}
