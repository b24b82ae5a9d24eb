//! Settings: where each value comes from, and what a mistake is told.

use baton::config::KEYS;
use baton_testkit::Home;
use baton_testkit::home::run;
use insta::assert_snapshot;

/// What `baton config` says of `text` in `file`. The list of what is allowed grows with the product; it is checked
/// here and left out of the answer.
fn complaint(file: &str, text: &str) -> String {
    let home = Home::new(crate::BATON);
    home.write(file, text);
    let ran = home.run("config");
    assert_eq!(ran.out, "");
    let err = home.tidy(&ran.fails(1));
    let Some((problem, allowed)) = err.split_once("; allowed are ") else { return err };
    assert!(allowed.trim_end().split(", ").any(|key| KEYS.iter().any(|k| k.name == key)), "{allowed}");
    format!("{problem}; allowed are …")
}

const USER: &str = ".config/baton/config.toml";
const PROJECT: &str = "work/app/.baton.toml";

#[test]
fn an_unknown_key_is_told_with_its_line_and_what_is_allowed() {
    assert_snapshot!(complaint(USER, "# mine\n\n[context]\nwarning_percent = 50\n"),
        @r#"baton: ~/.config/baton/config.toml:4: "context.warning_percent" is not a setting; allowed are …"#);
    assert_snapshot!(complaint(USER, "[handof]\nexpiry = \"2h\"\n"),
        @r#"baton: ~/.config/baton/config.toml:2: "handof.expiry" is not a setting; allowed are …"#);
    assert_snapshot!(complaint(USER, "context = 5\n"),
        @r#"baton: ~/.config/baton/config.toml:1: "context" is not a setting; allowed are …"#);
    assert_snapshot!(complaint(PROJECT, "chanel = \"x\"\n"),
        @r#"baton: ~/work/app/.baton.toml:1: "chanel" is not a setting; allowed are …"#);
}

#[test]
fn a_wrong_value_is_told_with_its_line_and_what_is_allowed() {
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
fn what_is_not_toml_is_told_with_its_line() {
    assert_snapshot!(complaint(USER, "[context]\nenabled = maybe\n"),
        @"baton: ~/.config/baton/config.toml:2: string values must be quoted, expected literal string");
    assert_snapshot!(complaint(USER, "[context\n"),
        @"baton: ~/.config/baton/config.toml:1: unclosed table, expected `]`");
}

#[test]
fn a_project_cannot_move_the_store_or_the_channels_of_others() {
    assert_snapshot!(complaint(PROJECT, "[handoff]\ndir = \"/elsewhere\"\n"),
        @"baton: ~/work/app/.baton.toml:2: handoff.dir can only be set in your own config.toml, not by a project");
    assert_snapshot!(complaint(PROJECT, "\n[channels]\n\"~/other\" = \"mine\"\n"),
        @"baton: ~/work/app/.baton.toml:2: [channels] can only be set in your own config.toml; a project names its own with channel = \"name\"");
}

#[test]
fn a_wrong_variable_is_told_by_its_name() {
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
    let mut command = home.baton(["config"]);
    let shown = run(command.env("BATON_HANDOFF_EXPIRY", "90m").env("BATON_STATE_DIR", "/not/a/setting")).ok();
    for key in KEYS {
        assert!(shown.lines().any(|line| line.split_whitespace().next() == Some(key.name)), "{}", key.name);
    }
    // Key, value and origin of what was set; the widths depend on where the home is.
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
