//! `baton log`: what happened.

use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::plain::plain_line;
use serde_json::Value;

use super::args::LogArgs;
use super::screen::{local, page, print};
use super::{App, Outcome};
use crate::store::log::{Line, folder};

pub fn run(app: &App, args: &LogArgs) -> anyhow::Result<Outcome> {
    let dir = folder(&app.store().state);
    let mut files = days(&dir);
    let mut lines: Vec<String> = Vec::new();
    // The newest days first, until there are enough lines.
    while let Some(file) = files.pop() {
        let mut older: Vec<String> =
            read(&file, 0).0.into_iter().filter_map(|l| show(app, args, &l)).collect();
        older.extend(lines);
        lines = older;
        if lines.len() >= args.lines {
            break;
        }
    }
    let from = lines.len().saturating_sub(args.lines);
    // JSON is for programs, and who follows wants to see the end.
    page(&lines[from..].concat(), !args.no_pager && !args.json && !args.follow)?;
    if args.follow {
        follow(app, args, &dir)?;
    }
    Ok(if lines.is_empty() { Outcome::Nothing } else { Outcome::Done })
}

fn days(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "jsonl"))
        .collect();
    files.sort();
    files
}

/// Whole lines from `offset` on, and where they end. Lines that cannot be understood are passed over.
fn read(path: &Path, offset: u64) -> (Vec<Line>, u64) {
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

fn show(app: &App, args: &LogArgs, line: &Line) -> Option<String> {
    let wanted = args
        .session
        .as_ref()
        .is_none_or(|s| line.session.as_ref().is_some_and(|id| id.as_str().starts_with(s)))
        && args.agent.as_ref().is_none_or(|a| line.agent.as_ref() == Some(a))
        && app.channel_flag.as_ref().is_none_or(|c| line.channel.as_ref().is_some_and(|n| n.as_str() == c))
        && (!args.faults || line.event == "fault");
    if !wanted {
        return None;
    }
    if args.json {
        return Some(serde_json::to_string(line).ok()? + "\n");
    }
    let who = line.agent.as_ref().map_or_else(String::new, ToString::to_string);
    Some(format!("{}  {:<16} {:<20} {}\n", local(line.at), who, line.event, detail(&line.detail)))
}

fn detail(value: &Value) -> String {
    let Value::Object(map) = value else { return String::new() };
    let mut parts = Vec::new();
    for (key, value) in map {
        match value {
            Value::Null => {}
            Value::String(text) => parts.push(format!("{key}={}", plain_line(text, 120))),
            other => parts.push(format!("{key}={}", plain_line(&other.to_string(), 120))),
        }
    }
    parts.join(" ")
}

/// Prints what is appended from now on, over midnight too. Looks four times a second; ends with Ctrl+C.
fn follow(app: &App, args: &LogArgs, dir: &Path) -> anyhow::Result<()> {
    let mut file = days(dir).pop();
    let mut offset = file.as_ref().map_or(0, |f| read(f, 0).1);
    loop {
        std::thread::sleep(Duration::from_millis(250));
        let newest = days(dir).pop();
        for path in [file.clone(), newest.clone().filter(|n| Some(n) != file.as_ref())].into_iter().flatten()
        {
            if Some(&path) != file.as_ref() {
                offset = 0;
            }
            let (lines, end) = read(&path, offset);
            offset = end;
            let text: String = lines.iter().filter_map(|l| show(app, args, l)).collect();
            if !text.is_empty() {
                print(&text)?;
            }
        }
        file = newest;
    }
}
