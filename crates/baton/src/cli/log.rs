//! `baton log`: shows the event log.

use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use baton_core::ids::ChannelName;
use baton_core::level::Level;
use baton_core::plain::plain_line;
use serde_json::Value;

use crate::cli::args::LogArgs;
use crate::cli::ui::text::{cut, width};
use crate::cli::ui::{escaped, local, page, print};
use crate::cli::{App, Outcome};
use crate::store::log::{Log, LogLine};
use crate::sys::terminal;

pub(super) fn run(app: &App, args: &LogArgs) -> anyhow::Result<Outcome> {
    // A named session or agent is searched in all channels.
    let everywhere = args.all || args.session.is_some() || args.agent.is_some();
    let channel = if everywhere && app.channel_flag.is_none() { None } else { Some(app.channel()?) };
    let channel = channel.as_ref();
    let log = app.store().log();
    let mut files = log.days();
    let mut lines: Vec<String> = Vec::new();
    // Newest days first, until there are enough lines.
    while let Some(file) = files.pop() {
        let mut older: Vec<String> =
            read(&file, 0).0.into_iter().filter_map(|l| show(args, channel, &l)).collect();
        older.extend(lines);
        lines = older;
        if lines.len() >= args.lines {
            break;
        }
    }
    let from = lines.len().saturating_sub(args.lines);
    // JSON is for programs, and a follower wants to see the end.
    page(&lines[from..].concat(), !args.no_pager && !args.json && !args.follow)?;
    if args.follow {
        follow(args, channel, &log)?;
    }
    if lines.is_empty() && !args.json {
        let all = if channel.is_some() { " in this project; `--all` shows every project" } else { "" };
        print(&format!("Nothing yet{all}.\n"))?;
    }
    Ok(if lines.is_empty() { Outcome::Nothing } else { Outcome::Done })
}

/// Complete lines from `offset`, and their end. Skips lines that do not parse.
fn read(path: &Path, offset: u64) -> (Vec<LogLine>, u64) {
    let Ok(mut file) = crate::sys::fs::open_read(path) else { return (Vec::new(), offset) };
    if file.seek(SeekFrom::Start(offset)).is_err() {
        return (Vec::new(), offset);
    }
    let (mut lines, mut end) = (Vec::new(), offset);
    let mut reader = BufReader::new(file);
    let mut buffer = Vec::new();
    while let Ok(n) = reader.read_until(b'\n', &mut buffer) {
        if n == 0 || !buffer.ends_with(b"\n") {
            break;
        }
        end += n as u64;
        lines.extend(serde_json::from_slice(&buffer));
        buffer.clear();
    }
    (lines, end)
}

fn show(args: &LogArgs, channel: Option<&ChannelName>, line: &LogLine) -> Option<String> {
    let wanted = args
        .session
        .as_ref()
        .is_none_or(|s| line.session.as_ref().is_some_and(|id| id.as_str().starts_with(s)))
        && args.agent.as_ref().is_none_or(|a| line.agent.as_ref() == Some(a))
        // Lines without a project, such as internal faults, belong to all.
        && channel.is_none_or(|c| line.channel.as_ref().is_none_or(|n| n == c))
        && (!args.faults || line.event == "fault");
    if !wanted {
        return None;
    }
    if args.json {
        return Some(escaped(&serde_json::to_string(line).ok()?) + "\n");
    }
    let who = line.agent.as_ref().map_or_else(String::new, ToString::to_string);
    Some(shown(line, &who, terminal::size().map(|(columns, _)| usize::from(columns))))
}

/// Cut to the terminal's width; whole in a pipe. A narrow terminal shows only the time of day.
fn shown(line: &LogLine, who: &str, columns: Option<usize>) -> String {
    let is_narrow = columns.is_some_and(|columns| columns < 100);
    let at = local(line.at);
    let at = if is_narrow { at.split_once(' ').map_or(&*at, |(_, time)| time) } else { &at };
    // Our longest event name has 18 letters.
    let (agent, event) = if is_narrow { (10, 18) } else { (16, 20) };
    let who = if is_narrow { cut(who, agent) } else { who.into() };
    let pad = |text: &str, least: usize| format!("{text}{} ", " ".repeat(least.saturating_sub(width(text))));
    let text = format!("{at}  {}{}{}", pad(&who, agent), pad(&line.event, event), detail(&line.detail));
    let text = text.trim_end();
    columns.map_or_else(|| text.to_owned(), |columns| cut(text, columns).into_owned()) + "\n"
}

fn detail(value: &Value) -> String {
    let Value::Object(map) = value else { return String::new() };
    let mut parts = Vec::new();
    for (key, value) in map {
        match value {
            Value::Null => {}
            Value::String(text) if key == "level" => parts.push(format!("{key}={}", level_words(text))),
            Value::String(text) => parts.push(format!("{key}={}", plain_line(text, 120))),
            other => parts.push(format!("{key}={}", plain_line(&other.to_string(), 120))),
        }
    }
    parts.join(" ")
}

/// A level's usual words.
fn level_words(name: &str) -> String {
    let level = serde_json::from_value::<Level>(Value::String(name.to_owned()));
    level.map_or_else(|_| plain_line(name, 40), |level| level.words().to_owned())
}

/// Prints new lines, even past midnight. Polls four times a second; ends with Ctrl+C.
fn follow(args: &LogArgs, channel: Option<&ChannelName>, log: &Log) -> anyhow::Result<()> {
    let mut file = log.days().pop();
    let mut offset = file.as_ref().map_or(0, |f| read(f, 0).1);
    loop {
        std::thread::sleep(Duration::from_millis(250));
        let newest = log.days().pop();
        for path in [file.clone(), newest.clone().filter(|n| Some(n) != file.as_ref())].into_iter().flatten()
        {
            if Some(&path) != file.as_ref() {
                offset = 0;
            }
            let (lines, end) = read(&path, offset);
            offset = end;
            let text: String = lines.iter().filter_map(|l| show(args, channel, l)).collect();
            if !text.is_empty() {
                print(&text)?;
            }
        }
        file = newest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_the_terminal_and_says_levels_in_words() {
        let mut line = LogLine::new("2026-11-16T01:02:03Z".parse().unwrap(), "stop");
        line.detail = serde_json::json!({ "level": "EARLY_WARN", "file": "日本語のパーサー".repeat(9) });
        let whole = shown(&line, "app", None);
        assert!(whole.contains("level=early warning") && whole.contains("app              stop "), "{whole}");
        for columns in [60, 80, 120] {
            let text = shown(&line, "app", Some(columns));
            assert!(width(text.trim_end()) <= columns, "{columns}: {text}");
            assert!(text.contains("app ") && text.contains("stop "), "{text}");
        }
        let [short, long] =
            [("app", "stop"), ("parser-of-dates", "permission-request")].map(|(who, event)| {
                let mut line = LogLine::new(line.at, event);
                line.detail = serde_json::json!({ "tool": "Bash" });
                let text = shown(&line, who, Some(80));
                text.find("tool=").map(|at| width(&text[..at]))
            });
        assert_eq!(short, long, "the details stand in one column");
    }
}
