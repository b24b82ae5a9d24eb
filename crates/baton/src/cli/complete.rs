//! `baton complete WORDS…`: the values that could come next. The scripts of `completions` know commands and options;
//! agents, sessions, handoffs, providers and settings change, so the scripts ask here.

use clap::{Arg, ArgAction, Command};

use crate::cli::ui::print_raw;
use crate::cli::{App, Outcome, help};
use crate::config::KEYS;
use crate::history::catalogue;
use crate::providers::PROVIDERS;

/// Shells do not show more than this.
const MOST: usize = 200;

/// The kind of value that an argument takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    Agents,
    AgentsAndProviders,
    Handoffs,
    Sessions,
    Providers,
    Settings,
}

/// By the command's path, as far as it matters, and the argument's name.
const ARGUMENTS: &[(&str, &str, Values)] = &[
    ("config set", "key", Values::Settings),
    ("config unset", "key", Values::Settings),
    ("handoff", "to", Values::AgentsAndProviders),
    ("handoffs", "id", Values::Handoffs),
    ("handoffs", "a", Values::Handoffs),
    ("handoffs", "b", Values::Handoffs),
    ("handoffs", "from", Values::Handoffs),
    ("sessions", "id", Values::Sessions),
    ("sessions resume", "other", Values::Providers),
    ("", "session", Values::Sessions),
    ("", "provider", Values::Providers),
    ("", "agent", Values::Agents),
    ("", "agents", Values::Agents),
    ("", "for_agent", Values::Agents),
    ("", "parent", Values::Agents),
    ("", "approver", Values::Agents),
    ("send", "to", Values::Agents),
    ("send", "from", Values::Agents),
];

pub(super) fn run(app: &App, words: &[String]) -> anyhow::Result<Outcome> {
    let typed = words.last().map_or("", String::as_str);
    // Some shells pass `--agent=re` as one word.
    let (before, typed) = match typed.split_once('=') {
        Some((option, value)) if option.starts_with("--") => (format!("{option}="), value),
        _ => (String::new(), typed),
    };
    let Some(values) = meant(&help::command(), words) else { return Ok(Outcome::Done) };
    let mut all = candidates(app, values);
    all.retain(|value| value.starts_with(typed));
    all.truncate(MOST);
    print_raw(&all.iter().fold(String::new(), |out, value| out + &before + value + "\n"))?;
    Ok(Outcome::Done)
}

/// The kind of value of the last word.
fn meant(root: &Command, words: &[String]) -> Option<Values> {
    let (typed, before) = words.split_last()?;
    let (mut command, mut path, mut position) = (root, String::new(), 0);
    let mut open: Option<&Arg> = None;
    for word in before {
        if open.take().is_some() {
            continue;
        }
        if word == "--" {
            return None;
        }
        if word.starts_with('-') && word.len() > 1 {
            open = option(root, command, word).filter(|_| !word.contains('='));
            continue;
        }
        match command.find_subcommand(word) {
            Some(found) => {
                if !path.is_empty() {
                    path.push(' ');
                }
                path.push_str(found.get_name());
                (command, position) = (found, 0);
            }
            None => position += 1,
        }
    }
    let arg = match open {
        Some(arg) => arg,
        None if typed.starts_with("--") && typed.contains('=') => option(root, command, typed)?,
        None if typed.starts_with('-') => return None,
        None => {
            let places: Vec<&Arg> = command.get_positionals().collect();
            // The last positional may take any number of words.
            let many = |arg: &&Arg| matches!(arg.get_action(), ArgAction::Append);
            places.get(position).or_else(|| places.last().filter(|arg| many(arg))).copied()?
        }
    };
    let name = arg.get_id().as_str();
    let is_below = |of: &str| {
        of.is_empty() || path == of || path.strip_prefix(of).is_some_and(|rest| rest.starts_with(' '))
    };
    ARGUMENTS.iter().find(|(of, named, _)| *named == name && is_below(of)).map(|(_, _, values)| *values)
}

/// The option with this name, if it takes a value.
fn option<'c>(root: &'c Command, command: &'c Command, word: &str) -> Option<&'c Arg> {
    let name = word.split('=').next().unwrap_or(word);
    let is_named = |arg: &&Arg| match name.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short().is_some_and(|short| name.len() == 2 && name.ends_with(short)),
    };
    let takes_value = |arg: &&Arg| matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let find = |command: &'c Command| command.get_opts().find(|arg| is_named(arg) && takes_value(arg));
    find(command).or_else(|| find(root))
}

fn candidates(app: &App, values: Values) -> Vec<String> {
    let agents = || {
        let mut all = app.store().agents().all();
        all.retain(|agent| agent.ended.is_none());
        all.into_iter().map(|agent| agent.id.to_string()).collect::<Vec<_>>()
    };
    let providers =
        || PROVIDERS.iter().filter(|p| p.is_client()).map(|p| p.name.to_owned()).collect::<Vec<_>>();
    match values {
        Values::Agents => agents(),
        Values::Providers => providers(),
        Values::AgentsAndProviders => agents().into_iter().chain(providers()).collect(),
        Values::Settings => KEYS.iter().map(|key| key.name.to_owned()).collect(),
        Values::Handoffs => {
            let handoffs = app.handoffs();
            let mut all: Vec<String> = handoffs
                .channels()
                .unwrap_or_default()
                .iter()
                .flat_map(|channel| handoffs.list(channel).unwrap_or_default())
                .map(|entry| entry.id.to_string())
                .collect();
            // Newest first: the name contains the time.
            all.sort_by(|a, b| b.cmp(a));
            all
        }
        Values::Sessions => {
            let all = catalogue::read(&app.paths, &app.resolved.config);
            all.rows.iter().map(|row| row.source.id.to_string()).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<Values> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        meant(&help::command(), &words)
    }

    #[test]
    fn each_place_on_the_command_line_is_known_by_what_it_names() {
        for (line, values) in [
            ("send re", Some(Values::Agents)),
            ("send --urgent re", Some(Values::Agents)),
            ("send reviewer hello", None),
            ("wait a b", Some(Values::Agents)),
            ("log --agent re", Some(Values::Agents)),
            ("log --agent=re", Some(Values::Agents)),
            ("log -n 5 --agent ", Some(Values::Agents)),
            ("handoffs show HO-", Some(Values::Handoffs)),
            ("handoffs diff HO-1 HO-", Some(Values::Handoffs)),
            ("handoff --to ", Some(Values::AgentsAndProviders)),
            ("sessions show 02", Some(Values::Sessions)),
            ("sessions resume 02 --in ", Some(Values::Providers)),
            ("backup restore 02", Some(Values::Sessions)),
            ("install --provider ", Some(Values::Providers)),
            ("config set con", Some(Values::Settings)),
            ("config set context.advise tr", None),
            ("rename app new", None),
            ("", None),
        ] {
            assert_eq!(of(line), values, "{line:?}");
        }
    }
}
