//! What `baton` says about itself.

use baton_testkit::Home;
use baton_testkit::pty::{Pty, code};

use crate::BATON;

#[test]
fn baton_alone_and_its_help_show_the_commands_in_groups_with_those_that_matter_first() {
    let home = Home::new(BATON);
    let help = home.run("--help").ok();
    assert_eq!(home.run("").out.trim_end(), help.trim_end(), "baton alone says the same");
    assert_eq!(home.run("help").ok(), help);
    assert_eq!(home.run("help --help").ok(), help);
    let first: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Start here:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(first, ["install", "run", "status", "handoffs", "doctor"], "{help}");
    for internal in ["  hook ", "  companion ", "  statusline ", "  panes "] {
        assert!(!help.contains(internal), "{help}");
    }
    assert!(!help.contains("--channel"), "it means nothing here: {help}");
    let wide: Vec<&str> =
        help.lines().filter(|line| line.starts_with(' ') && line.chars().count() > 80).collect();
    assert_eq!(wide, [""; 0]);
}

#[test]
fn a_newcomer_who_types_baton_alone_sees_what_to_start_with_on_one_screen() {
    let home = Home::new(BATON);
    let mut pty = Pty::start(&home.baton([""; 0])).unwrap();
    let screen = pty.wait_for("baton demo").unwrap();
    assert_eq!(code(pty.wait_for_end().unwrap()), 0);
    for words in [
        "limit of their context window",
        "install ",
        "run ",
        "status ",
        "handoffs ",
        "doctor ",
        "`baton help`",
    ] {
        assert!(screen.contains(words), "{words}: {screen}");
    }
    assert!(!screen.contains("Many agents"), "{screen}");
}

#[test]
fn help_and_version_work_as_words() {
    let home = Home::new(BATON);
    assert_eq!(home.run("help run").ok(), home.run("run --help").ok());
    assert_eq!(home.run("help sessions search").ok(), home.run("sessions search --help").ok());
    assert_eq!(home.run("version").ok(), home.run("--version").ok());
    home.run("help nothing").fails(2);
}

#[test]
fn a_help_text_names_things_one_way() {
    let home = Home::new(BATON);
    let run = home.run("run --help").ok();
    assert!(run.contains("[default: the project's, plus a word if taken]"), "{run}");
    assert!(run.contains("[PROVIDER]") && !run.contains("COMMAND"), "{run}");
    for line in ["spawn --help", "install --help", "uninstall --help", "sessions resume --help"] {
        let help = home.run(line).ok();
        assert!(help.contains("<PROVIDER>") && !help.contains("<CLIENT>"), "{line}: {help}");
    }
    assert!(home.run("handoffs --help").ok().contains("--channel"));
    assert!(!home.run("doctor --help").ok().contains("--channel"));
    assert!(!home.run("sessions show --help").ok().contains("--channel"), "it names its conversation");
    assert!(home.run("sessions list --help").ok().contains("--channel"));
    for line in ["wait --help", "config set --help"] {
        let help = home.run(line).ok();
        let arguments = help.lines().skip_while(|l| !l.starts_with("Arguments:")).skip(1);
        for argument in arguments.take_while(|l| !l.is_empty()) {
            assert!(argument.split_whitespace().count() > 1, "{line} explains every argument: {help}");
        }
    }
    // It still works where it is not shown.
    home.run("--channel other channel").ok();
}

/// Columns are broken by hand or not at all.
#[test]
fn no_line_of_a_help_text_is_cut_by_a_narrow_terminal() -> anyhow::Result<()> {
    let home = Home::new(BATON);
    for verb in ["top", "run", "approvals", "install", "completions", "spawn"] {
        let help = crate::tables::at(&home, 80, &format!("{verb} --help"), false)?;
        let mut lines = help.lines().skip_while(|line| !line.trim_start().starts_with("baton ")).peekable();
        while let Some(line) = lines.next() {
            // A broken line continues where no example begins.
            let is_example = line.starts_with("  baton ");
            let next_is_odd = lines.peek().is_some_and(|next| next.starts_with(|c: char| c.is_lowercase()));
            assert!(!(is_example && next_is_odd), "{verb}: {line:?} is broken\n{help}");
        }
    }
    Ok(())
}

#[test]
fn the_man_page_comes_from_the_same_source() {
    let home = Home::new(BATON);
    let page = home.run("man").ok();
    assert!(page.contains(".TH baton 1") && page.contains("Run an agent here and keep it going"), "{page}");
    assert!(page.contains("sessions search") && !page.contains("companion"), "{page}");
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
    assert!(at("START HERE") < at("baton install") && at("baton install") < at("MANY AGENTS"), "{page}");
}

#[test]
fn without_an_install_the_commands_that_a_newcomer_tries_say_so() {
    let home = Home::new(BATON);
    for line in ["status", "agents"] {
        let ran = home.run(line);
        assert_eq!(ran.code, Some(3), "{line}");
        assert!(
            ran.out.contains("not installed") && ran.out.contains("baton install"),
            "{line}: {}",
            ran.out
        );
        assert!(!ran.out.contains("channel"), "{line}: {}", ran.out);
    }
    let ran = home.run("doctor");
    assert!(ran.out.contains("is not installed: no client calls it"), "{}", ran.out);
    assert_eq!(ran.out.matches("`baton install`").count(), 1, "said once: {}", ran.out);
    // Once it is installed, the same commands talk about agents.
    crate::install::baton(&home, "install --yes").ok();
    assert!(home.run("status").out.contains("No agent is running in this project"));
    assert!(home.run("agents").out.contains("No agent has run today"));
}
