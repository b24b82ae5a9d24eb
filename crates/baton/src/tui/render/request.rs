//! A permission request in full, with invisible characters made visible.

use baton_core::approval::{Request, View, visible};
use serde_json::Value;

use crate::tui::model::Model;
use crate::tui::render::style::Tone;
use crate::tui::render::text::{StyledLine, wrap};

pub(crate) fn lines(model: &Model, request: &Request, columns: usize) -> Vec<StyledLine> {
    let look = model.look;
    let mut out = Vec::new();
    let mut add = |mark: &str, text: &str, tone: Tone| {
        for line in text.lines() {
            for (n, part) in wrap(&visible(line), columns.saturating_sub(mark.len())).into_iter().enumerate()
            {
                let mark = if n == 0 { mark.to_owned() } else { " ".repeat(mark.len()) };
                out.push(StyledLine::new(format!("{mark}{part}"), look.style(tone)));
            }
        }
    };
    match request.view() {
        View::Command { command, description } => {
            add("", command, Tone::Bold);
            add("", description.unwrap_or_default(), Tone::Dim);
        }
        View::Edits { path, edits } => {
            add("", path, Tone::Bold);
            for edit in edits {
                if edit.everywhere {
                    add("", "(every occurrence)", Tone::Warn);
                }
                add("- ", edit.old, Tone::Bad);
                add("+ ", edit.new, Tone::Good);
            }
        }
        View::Patch(patch) => {
            for line in patch.lines() {
                let tone = match line.as_bytes().first() {
                    Some(b'+') => Tone::Good,
                    Some(b'-') => Tone::Bad,
                    Some(b'*' | b'@') => Tone::Bold,
                    _ => Tone::Plain,
                };
                add("", line, tone);
            }
        }
        View::Write { path, content } => {
            add("", path, Tone::Bold);
            add("+ ", content, Tone::Good);
        }
        View::Questions(questions) => {
            for question in questions {
                add("", &question.question, Tone::Bold);
                for (n, (label, meaning)) in question.options.iter().enumerate() {
                    let text = if meaning.is_empty() { label.clone() } else { format!("{label}: {meaning}") };
                    add(&format!("[{}] ", n + 1), &text, Tone::Plain);
                }
                if question.multiple {
                    add("", "(several, with commas)", Tone::Dim);
                }
            }
        }
        View::Plan { plan, path } => {
            add("", plan, Tone::Plain);
            if let Some(path) = path {
                add("", &format!("in {path}"), Tone::Dim);
            }
        }
        View::Other(input) => {
            let text = serde_json::to_string_pretty(input).unwrap_or_default();
            add("", &text, Tone::Plain);
        }
    }
    let grants = request.grants();
    if !grants.is_empty() {
        add("", &format!("--session and --always also grant: {}", grants.join("; ")), Tone::Warn);
    }
    out
}

/// Where it was asked, as people write it.
pub(crate) fn folder<'a>(value: &'a Value, request: &'a Request) -> &'a str {
    value["folder"].as_str().unwrap_or(&request.cwd)
}

/// The keys that answer a request, with the equivalent command.
pub(crate) fn keys(model: &Model, request: &Value) -> StyledLine {
    let look = model.look;
    let (key, dim) = (look.style(Tone::Key), look.style(Tone::Dim));
    let short = request["short"].as_str().unwrap_or("ID");
    let questions = request["questions"].as_array().map_or(0, Vec::len);
    let first = if questions > 0 { " answer  " } else { " allow…  " };
    let command =
        if questions > 0 { format!("baton answer {short} N|TEXT") } else { format!("baton approve {short}") };
    StyledLine::new("[a]", key).with(first, dim).with("[d]", key).with(" deny…  ", dim).with(command, dim)
}
