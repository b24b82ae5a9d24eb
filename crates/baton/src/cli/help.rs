//! The declared command line for people: commands in groups, an example for each, `--channel` only where it applies.
//! Help, completions and the man page are generated from it.

use std::borrow::Cow;
use std::fmt::Write as _;

use clap::builder::StyledStr;
use clap::{Command, CommandFactory as _};

use crate::cli::args::Cli;
use crate::cli::ui::text::wrap;
use crate::sys::terminal;

/// The commands in the order people need them. Ungrouped ones come last.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Start here", &["install", "run", "status", "handoffs", "doctor"]),
    (
        "Many agents",
        &[
            "top",
            "page",
            "spawn",
            "agents",
            "attach",
            "send",
            "inbox",
            "outbox",
            "reply",
            "wait",
            "tail",
            "what",
            "remind",
            "reminders",
            "children",
            "adopt",
            "rename",
            "reparent",
            "rotate",
            "undo",
            "clear",
            "retire",
            "approvals",
            "approve",
            "deny",
            "answer",
            "move",
            "fleet",
        ],
    ),
    ("Coming back", &["sessions", "backup", "memory", "log"]),
    ("For agents", &["handoff", "done", "checkpoint"]),
    ("Settings", &["config", "trust", "channel", "serve", "completions", "uninstall"]),
    ("Help", &["demo", "help", "version"]),
];

/// Long lines are hard to read, however wide the terminal is.
const MAX_COLUMNS: usize = 100;

/// The columns that help texts may fill.
fn columns() -> usize {
    terminal::size().map_or(MAX_COLUMNS, |(columns, _)| usize::from(columns).min(MAX_COLUMNS))
}

/// Commands that only programs call.
const INTERNAL: [&str; 5] = ["hook", "companion", "statusline", "panes", "complete"];

/// The commands that act on one channel.
const WITH_CHANNEL: [&str; 6] = ["handoffs", "run", "spawn", "status", "log", "memory"];
/// The commands below `sessions` that do so; the others name a conversation.
const SESSIONS_WITH_CHANNEL: [&str; 3] = ["list", "search", "tree"];

/// Each command with examples, and their effect if it is not obvious.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("install", &["baton install", "baton install --dry-run", "baton install --provider codex --trust"]),
    ("uninstall", &["baton uninstall --verify"]),
    ("doctor", &["baton doctor", "baton doctor --rehearse"]),
    ("run", &[]),
    ("approvals", &["baton approvals", "baton approvals --watch"]),
    ("approvals log", &["baton approvals log"]),
    ("approve", &["baton approve", "baton approve 3f2a91c0 --session", "baton approve --all --agent app"]),
    ("deny", &["baton deny 3f2a91c0 \"not on main\""]),
    ("answer", &["baton answer 3f2a91c0 \"the second one\""]),
    ("status", &["baton status", "baton status --all --watch"]),
    ("handoffs", &["baton handoffs", "baton handoffs -n 5", "baton handoffs draft"]),
    ("handoffs list", &["baton handoffs list --all -n 5"]),
    ("handoffs show", &["baton handoffs show HO-20261116-0248d5f4"]),
    ("handoffs current", &["baton handoffs current"]),
    ("handoffs load", &["baton handoffs load --peek"]),
    ("handoffs clear", &["baton handoffs clear"]),
    ("handoffs history", &["baton handoffs history"]),
    ("handoffs path", &["baton handoffs path"]),
    ("handoffs seal", &["baton handoffs seal notes.md", "baton handoffs seal - --type manual"]),
    ("handoffs draft", &["baton handoffs draft --budget 4000"]),
    ("handoffs chain", &["baton handoffs chain"]),
    ("handoffs chain drop", &["baton handoffs chain drop", "baton handoffs chain drop r04f1a2b"]),
    ("handoffs diff", &["baton handoffs diff HO-20261116-0248d5f4 HO-20261117-93ab01c2"]),
    ("handoffs repair", &["baton handoffs repair"]),
    ("top", &[]),
    ("page", &[]),
    ("spawn", &[]),
    ("agents", &["baton agents", "baton agents --tree", "baton agents --all --json", "baton agents --fleet"]),
    ("agents restore", &["baton agents restore", "baton agents restore reviewer"]),
    ("attach", &["baton attach reviewer"]),
    (
        "send",
        &[
            "baton send reviewer \"The schema changed, see db/003.sql\"",
            "baton send lead --urgent \"Stop\"",
            "baton send reviewer@desk \"Pull first\"",
        ],
    ),
    ("move", &["baton move reviewer desk", "baton move reviewer desk --with-patch"]),
    ("fleet", &[]),
    ("fleet take", &["baton fleet take HO-20261116-0248d5f4 --into ~/work/app"]),
    ("fleet init", &["baton fleet init postgres://team:secret@db.example/app"]),
    (
        "fleet join",
        &["baton fleet join CODE", "baton fleet join postgres://team:secret@db.example/app --name laptop"],
    ),
    ("fleet invite", &["baton fleet invite desk"]),
    ("fleet status", &["baton fleet status"]),
    ("fleet machines", &["baton fleet machines --json"]),
    ("fleet doctor", &["baton fleet doctor"]),
    ("fleet leave", &["baton fleet leave"]),
    ("fleet revoke", &["baton fleet revoke desk"]),
    ("fleet purge", &["baton fleet purge desk", "baton fleet purge --channel api"]),
    ("inbox", &["baton inbox", "baton inbox reviewer"]),
    ("reply", &["baton reply 3f2a91c0 \"Yes, release it\""]),
    ("outbox", &["baton outbox"]),
    ("wait", &["baton wait reviewer --timeout 10m", "baton wait tests docs --done"]),
    ("tail", &["baton tail reviewer -n 20", "baton tail reviewer --follow", "baton tail reviewer --screen"]),
    ("what", &["baton what reviewer", "baton what reviewer open"]),
    ("done", &["baton done \"PR 212 is green\"", "baton done --undo"]),
    (
        "remind",
        &[
            "baton remind --in 20m \"look at the build\"",
            "baton remind --every 1h reviewer \"Report where you are\"",
            "baton remind --at 17:00 \"write the summary\"",
        ],
    ),
    ("reminders", &["baton reminders"]),
    ("reminders cancel", &["baton reminders cancel 3f2a91"]),
    ("rename", &["baton rename app-oak reviewer"]),
    ("reparent", &["baton reparent reviewer lead", "baton reparent reviewer --none"]),
    ("clear", &["baton clear reviewer --prompt \"Review PR 213\""]),
    ("children", &["baton children lead"]),
    ("adopt", &["baton adopt", "baton adopt reviewer"]),
    ("rotate", &["baton rotate reviewer"]),
    ("undo", &["baton undo reviewer"]),
    ("retire", &["baton retire reviewer"]),
    ("sessions", &["baton sessions", "baton sessions search 'flaky test' --since 7d"]),
    ("sessions list", &["baton sessions list --all"]),
    ("sessions show", &["baton sessions show 0248d5f4 --turns"]),
    ("sessions search", &["baton sessions search 'flaky test' --role user --since 7d -C 2"]),
    ("sessions resume", &["baton sessions resume --last", "baton sessions resume 0248d5f4 --in codex"]),
    ("sessions tree", &["baton sessions tree"]),
    ("sessions fetch", &["baton sessions fetch 0248d5f4", "baton sessions fetch 0248d5f4 --from desk"]),
    ("backup", &["baton backup", "baton backup restore 0248d5f4"]),
    ("backup list", &["baton backup list --here"]),
    ("backup verify", &["baton backup verify"]),
    ("backup restore", &["baton backup restore 0248d5f4 --dry-run"]),
    ("backup export", &["baton backup export 0248d5f4 talk.tar.zst"]),
    ("backup prune", &["baton backup prune --dry-run"]),
    ("backup compress", &["baton backup compress"]),
    ("backup pin", &["baton backup pin 0248d5f4"]),
    ("backup unpin", &["baton backup unpin 0248d5f4"]),
    ("memory", &["baton memory init", "baton memory list"]),
    ("memory init", &["baton memory init", "baton memory init --remove"]),
    ("memory save", &["baton memory save notes.md"]),
    ("memory pending", &["baton memory pending"]),
    ("memory discard", &["baton memory discard", "baton memory discard --all"]),
    ("memory list", &["baton memory list"]),
    ("memory context", &["baton memory context"]),
    ("log", &["baton log", "baton log --follow --agent reviewer"]),
    ("handoff", &["baton handoff notes.md", "baton handoff --to codex"]),
    ("checkpoint", &["baton checkpoint --goal \"Release 2.0\" --now \"fix the flaky test\""]),
    ("checkpoint list", &["baton checkpoint list --name release"]),
    ("checkpoint latest", &["baton checkpoint latest"]),
    ("config", &["baton config", "baton config --why", "baton config set context.warning_percentage 55"]),
    ("config set", &["baton config set context.warning_percentage 55", "baton config set compaction client"]),
    ("config unset", &["baton config unset context.warning_percentage"]),
    ("config edit", &["baton config edit", "EDITOR=nano baton config edit"]),
    ("trust", &[]),
    ("channel", &["baton channel --why"]),
    ("serve", &["baton serve --detach", "baton serve --status"]),
    ("completions", &[]),
    ("demo", &["baton demo", "baton demo --fast"]),
    ("version", &["baton version"]),
];

/// The command line with its groups and examples.
pub(super) fn command() -> Command {
    let mut root = dressed(Cli::command(), "");
    for name in INTERNAL {
        root = root.mut_subcommand(name, |c| c.hide(true));
    }
    let channel = root.get_arguments().find(|a| a.get_id() == "channel").cloned();
    if let Some(channel) = channel {
        root = root.mut_arg("channel", |a| a.hide(true));
        for name in WITH_CHANNEL {
            root = root.mut_subcommand(name, |c| c.arg(channel.clone()));
        }
        root = root.mut_subcommand("sessions", |mut sessions| {
            for name in SESSIONS_WITH_CHANNEL {
                sessions = sessions.mut_subcommand(name, |c| c.arg(channel.clone().global(false)));
            }
            sessions
        });
    }
    let listing = listing(&root, &GROUPS);
    let listing = wrap(listing.trim_end(), columns());
    root.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listing}{{after-help}}"
    ))
}

/// The output of `baton` alone before an install: it fits on any screen.
pub(super) fn welcome() -> StyledStr {
    let root = dressed(Cli::command(), "");
    let about = root.get_about().map(ToString::to_string).unwrap_or_default();
    let text = format!(
        "{about}\n\n{}`baton demo` shows in a minute what baton does. `baton help` lists all commands, `baton help \
         COMMAND` explains one.",
        listing(&root, &GROUPS[..1])
    );
    StyledStr::from(wrap(&text, columns()))
}

/// The command with its epilogue as paragraphs, which wrap at the terminal's width, followed by its examples.
fn dressed(command: Command, path: &str) -> Command {
    let mut epilogue = command.get_after_help().map(|text| paragraphs(&text.to_string())).unwrap_or_default();
    let examples = EXAMPLES.iter().find(|(name, _)| *name == path).map_or(&[][..], |(_, lines)| lines);
    if !examples.is_empty() {
        let _ = write!(epilogue, "{}Examples:", if epilogue.is_empty() { "" } else { "\n\n" });
        for line in examples {
            let _ = write!(epilogue, "\n  {line}");
        }
    }
    // clap would wrap lines too, but loses their indent.
    let epilogue = wrap(&epilogue, columns());
    let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let mut command =
        if epilogue.is_empty() { command } else { command.after_help(StyledStr::from(epilogue)) };
    for name in names {
        let below = if path.is_empty() { name.clone() } else { format!("{path} {name}") };
        command = command.mut_subcommand(&name, |c| dressed(c, &below));
    }
    command
}

/// Joins the lines of a paragraph, so that the terminal's width decides where they break. Indented lines and those that
/// end in a colon stay separate.
fn paragraphs(text: &str) -> String {
    let mut out = String::new();
    let mut joins = false;
    for line in text.lines() {
        let stands_alone = line.is_empty() || line.starts_with(' ');
        if !out.is_empty() {
            out.push(if joins && !stands_alone { ' ' } else { '\n' });
        }
        out.push_str(&example(line, columns()));
        joins = !stands_alone && !line.ends_with(':');
    }
    out
}

/// A command and its explanation after a gap, or below it if the line would be too long.
fn example(line: &str, columns: usize) -> Cow<'_, str> {
    let gap = line.trim_start().find("   ").map(|at| at + line.len() - line.trim_start().len());
    match gap {
        Some(at) if line.chars().count() > columns => {
            Cow::Owned(format!("{}\n      {}", line[..at].trim_end(), line[at..].trim()))
        }
        _ => Cow::Borrowed(line),
    }
}

/// The groups with the names in them, for the man page.
pub(super) fn groups() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    GROUPS.into_iter()
}

fn listing(root: &Command, groups: &[(&'static str, &'static [&'static str])]) -> String {
    let about = |name: &str| -> Option<String> {
        if name == "help" {
            return Some("Explain a command".to_owned());
        }
        let command = root.get_subcommands().find(|c| c.get_name() == name && !c.is_hide_set())?;
        let text = command.get_about()?.to_string();
        // The first clause; the command's own help has the rest.
        let end = [": ", "; ", ". "].iter().filter_map(|mark| text.find(mark)).min().unwrap_or(text.len());
        Some(text[..end].to_owned())
    };
    let grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let rest: Vec<&str> =
        root.get_subcommands().map(Command::get_name).filter(|name| !grouped(name)).collect();
    let rest = (groups.len() == GROUPS.len()).then_some(("More", &rest[..]));
    let mut out = String::new();
    for (title, names) in groups.iter().copied().chain(rest) {
        let rows: Vec<_> = names.iter().filter_map(|name| Some((name, about(name)?))).collect();
        if rows.is_empty() {
            continue;
        }
        let (heading, end) =
            (root.get_styles().get_header().render(), root.get_styles().get_header().render_reset());
        let _ = writeln!(out, "{heading}{title}:{end}");
        for (name, about) in rows {
            let _ = writeln!(out, "  {name:<12} {about}");
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visible<'c>(command: &'c Command, path: &str, into: &mut Vec<(String, &'c Command)>) {
        for sub in command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
            let path = format!("{path} {}", sub.get_name()).trim().to_owned();
            into.push((path.clone(), sub));
            visible(sub, &path, into);
        }
    }

    #[test]
    fn every_command_has_an_example_and_every_example_can_be_typed() {
        let root = command();
        let mut commands = Vec::new();
        visible(&root, "", &mut commands);
        assert!(commands.len() > 50, "{}", commands.len());
        for (path, command) in commands {
            let epilogue = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let typed: Vec<&str> = epilogue.lines().filter(|line| line.contains("baton ")).collect();
            assert!(!typed.is_empty(), "{path} has no example");
            for line in typed.iter().filter_map(|line| line.strip_prefix("  baton ")) {
                // A gap separates the example from its explanation.
                let words = shlex::split(line.split("   ").next().unwrap()).unwrap();
                let parsed =
                    super::command().try_get_matches_from([vec!["baton".to_owned()], words].concat());
                assert!(parsed.is_ok(), "{path}: baton {line}: {}", parsed.unwrap_err());
            }
        }
        for (path, _) in EXAMPLES {
            let mut at = &root;
            for name in path.split(' ') {
                at = at.find_subcommand(name).unwrap_or_else(|| panic!("{path} is no command"));
            }
        }
    }

    #[test]
    fn every_visible_command_has_a_group() {
        let root = command();
        let grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
        for command in root.get_subcommands().filter(|c| !c.is_hide_set()) {
            assert!(grouped(command.get_name()), "{} is in no group", command.get_name());
        }
    }

    #[test]
    fn epilogues_wrap_where_the_terminal_ends() {
        assert_eq!(paragraphs("one\ntwo\n\nthree:\n  four\nfive"), "one two\n\nthree:\n  four\nfive");
        let long = format!("  baton run    {}", "x".repeat(70));
        assert_eq!(example(&long, 80), format!("  baton run\n      {}", "x".repeat(70)));
        assert_eq!(example(&long, 90), long);
    }
}
