//! A permission request for people: complete, with invisible characters escaped.

use std::fmt::Write as _;
use std::path::Path;

use baton_core::approval::{Case, View, visible};
use jiff::Timestamp;
use similar::ChangeTag;

use crate::approvals::Dialog;
use crate::cli::ui::{Paint, age};
use crate::sys::paths::Paths;
use crate::views::diff;

/// The requester, since when and where, then the request.
pub(crate) fn text(paint: Paint, paths: &Paths, case: &Case, now: Timestamp) -> String {
    let request = &case.request;
    let subagent = request.subagent.as_deref().map(|id| format!(" (its subagent {})", visible(id)));
    let mut out = format!(
        "{}  {}{} asks for {}, {} ago, in {}\n",
        paint.yellow(&paint.bold(case.id.short())),
        paint.bold(request.agent.as_str()),
        subagent.unwrap_or_default(),
        paint.bold(&visible(request.asks_for())),
        age(request.at, now),
        paths.short(Path::new(&request.cwd)),
    );
    out.push_str(&body(paint, case));
    out
}

/// An agent at a dialog that must be answered in its terminal.
pub(crate) fn dialog(paint: Paint, paths: &Paths, dialog: &Dialog, now: Timestamp) -> String {
    let agent = paint.bold(dialog.agent.as_str());
    let since = dialog.since.map(|at| format!(", since {}", age(at, now))).unwrap_or_default();
    let place = paths.short(Path::new(&dialog.cwd));
    let mut out = format!(
        "{agent} waits in its terminal{since}, in {place}; `baton attach {}` shows it\n",
        dialog.agent
    );
    if let Some(about) = &dialog.about {
        lines(&mut out, "", about, |line| paint.dim(line));
    }
    out
}

/// The request itself, indented.
pub(crate) fn body(paint: Paint, case: &Case) -> String {
    let mut out = String::new();
    match case.request.view() {
        View::Command { command, description } => {
            lines(&mut out, "", command, str::to_owned);
            if let Some(description) = description {
                lines(&mut out, "", description, |line| paint.dim(line));
            }
        }
        View::Edits { path, edits } => {
            lines(&mut out, "", path, |line| paint.bold(line));
            for edit in edits {
                if edit.everywhere {
                    lines(&mut out, "", "(every occurrence)", |line| paint.yellow(line));
                }
                for (tag, text) in diff::changes(edit.old, edit.new) {
                    match tag {
                        ChangeTag::Delete => lines(&mut out, "- ", text, |line| paint.red(line)),
                        ChangeTag::Insert => lines(&mut out, "+ ", text, |line| paint.green(line)),
                        ChangeTag::Equal => lines(&mut out, "  ", text, str::to_owned),
                    }
                }
            }
        }
        View::Patch(patch) => lines(&mut out, "", patch, |line| match line.as_bytes().first() {
            Some(b'+') => paint.green(line),
            Some(b'-') => paint.red(line),
            Some(b'*' | b'@') => paint.bold(line),
            _ => line.to_owned(),
        }),
        View::Write { path, content } => {
            lines(&mut out, "", path, |line| paint.bold(line));
            lines(&mut out, "+ ", content, |line| paint.green(line));
        }
        View::Questions(questions) => {
            for question in questions {
                lines(&mut out, "", &question.question, |line| paint.bold(line));
                for (n, (label, meaning)) in question.options.iter().enumerate() {
                    let option =
                        if meaning.is_empty() { label.clone() } else { format!("{label}: {meaning}") };
                    lines(&mut out, &format!("{}. ", n + 1), &option, str::to_owned);
                }
                if question.multiple {
                    lines(&mut out, "", "(several, with commas)", |line| paint.dim(line));
                }
            }
        }
        View::Plan { plan, path } => {
            lines(&mut out, "", plan, str::to_owned);
            if let Some(path) = path {
                lines(&mut out, "", &format!("in {path}"), |line| paint.dim(line));
            }
        }
        View::Other(input) => {
            let text = serde_json::to_string_pretty(input).unwrap_or_default();
            lines(&mut out, "", &text, str::to_owned);
        }
    }
    let grants = case.request.grants();
    if !grants.is_empty() {
        let text = format!("--session and --always also grant: {}", grants.join("; "));
        lines(&mut out, "", &text, |line| paint.yellow(line));
    }
    out
}

fn lines(out: &mut String, mark: &str, text: &str, paint: impl Fn(&str) -> String) {
    for line in text.split_inclusive('\n') {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let _ = writeln!(out, "    {}", paint(&format!("{mark}{}", visible(line))));
    }
}
