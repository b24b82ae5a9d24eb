//! The boxes in the middle of the screen that ask for input, and the help.

use baton_core::approval::Request;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use crate::tui::keys::{AgentAction, shown};
use crate::tui::model::{Mode, Model, SpawnForm};
use crate::tui::render::style::Tone;
use crate::tui::render::text::{StyledLine, cut, fit, put, wrap};
use crate::tui::render::{chart, frame, request};
use crate::tui::update::inside;
use crate::views::agent::QuestionView;

pub(crate) fn draw(model: &Model, buffer: &mut Buffer) {
    let (title, lines) = match &model.mode {
        Mode::Browse | Mode::Find => return,
        Mode::Help(_) => ("keys", help(model)),
        Mode::Send(input) => ("send", write(model, &input.text)),
        Mode::Decide { request, answers } => ("what it asks for", decide(model, request, answers.len())),
        Mode::Deny { request, reason } => ("deny", deny(model, request, &reason.text)),
        Mode::Answer { request, answers, text } => {
            ("answer", answer(model, request, answers.len(), &text.text))
        }
        Mode::Reply { question, text } => ("answer", reply(model, question, &text.text)),
        Mode::Confirm { question, command } => ("sure?", confirm(model, question, command)),
        Mode::Spawn(form) => ("start an agent", spawn(model, form)),
    };
    let area = fitted(model.overlay(), lines.len());
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            buffer[(x, y)].reset();
        }
    }
    frame(model, buffer, area, title, true);
    let inner = inside(area);
    let inner = Rect::new(inner.x + 1, inner.y, inner.width.saturating_sub(2), inner.height);
    let room = usize::from(inner.height);
    let kept = match model.mode {
        _ if lines.len() <= room => lines,
        Mode::Help(from) => help_page(model, &lines, from, room),
        // The keys are the last lines; keep them visible.
        _ => {
            let head = room.saturating_sub(3);
            let mut kept: Vec<StyledLine> = lines[..head.min(lines.len())].to_vec();
            let dim = model.look.style(Tone::Dim);
            kept.push(StyledLine::new(format!("… {} more lines", lines.len() - head - 2), dim));
            kept.extend(lines[lines.len().saturating_sub(2)..].iter().cloned());
            kept
        }
    };
    for (row, line) in kept.iter().enumerate() {
        put(buffer, inner, u16::try_from(row).unwrap_or(u16::MAX), line);
    }
}

/// Shrinks the box to the height that this many lines need.
fn fitted(area: Rect, lines: usize) -> Rect {
    let height = u16::try_from(lines).unwrap_or(u16::MAX).saturating_add(2).min(area.height);
    Rect::new(area.x, area.y + (area.height - height) / 2, area.width, height)
}

/// The part of the help that fits, and how to see the rest.
fn help_page(model: &Model, lines: &[StyledLine], from: usize, room: usize) -> Vec<StyledLine> {
    let shown = room.saturating_sub(1);
    let from = from.min(lines.len().saturating_sub(shown + 1));
    let mut kept: Vec<StyledLine> = lines[..lines.len() - 1].iter().skip(from).take(shown).cloned().collect();
    let text =
        if from + shown < lines.len() - 1 { "Space: more; Esc closes this" } else { "Esc closes this" };
    kept.push(StyledLine::new(text, model.look.style(Tone::Dim)));
    kept
}

/// How many lines of the help do not fit.
pub(crate) fn hidden_help(model: &Model) -> usize {
    let room = usize::from(inside(model.overlay()).height);
    help(model).len().saturating_sub(room)
}

fn columns(model: &Model) -> usize {
    usize::from(model.overlay().width.saturating_sub(4))
}

fn key_line(model: &Model, keys: &[(&str, &str)]) -> StyledLine {
    let mut line = StyledLine::default();
    for (n, (key, title)) in keys.iter().enumerate() {
        let gap = if n == 0 { "" } else { "  " };
        line = line
            .with(format!("{gap}{key} "), model.look.style(Tone::Key))
            .with(*title, model.look.style(Tone::Dim));
    }
    line
}

fn typed(model: &Model, text: &str) -> Vec<StyledLine> {
    let mut lines = wrap(&format!("{text}{}", model.look.pick("▏", "_")), columns(model));
    let most = 3;
    let skipped = lines.len().saturating_sub(most);
    lines.drain(..skipped);
    lines.into_iter().map(|line| StyledLine::new(line, model.look.style(Tone::Bold))).collect()
}

fn write(model: &Model, text: &str) -> Vec<StyledLine> {
    let name = model.selected.as_deref().unwrap_or_default();
    let dim = model.look.style(Tone::Dim);
    let mut lines = vec![StyledLine::new(format!("baton send {name} …"), dim)];
    lines.extend(typed(model, text));
    lines.push(StyledLine::default());
    lines.push(key_line(model, &[("Enter", "send"), ("Ctrl+E", "in your editor"), ("Esc", "leave")]));
    lines
}

fn asked(model: &Model, value: &serde_json::Value) -> Vec<StyledLine> {
    let Ok(parsed) = serde_json::from_value::<Request>(value.clone()) else {
        return vec![StyledLine::new(
            "it cannot be shown; answer it in its terminal",
            model.look.style(Tone::Bad),
        )];
    };
    let folder = request::folder(value, &parsed);
    let head = format!("{} asks for {} in {folder}", parsed.agent, parsed.asks_for());
    let mut lines = vec![StyledLine::new(cut(&head, columns(model)), model.look.style(Tone::Need))];
    lines.extend(request::lines(model, &parsed, columns(model)));
    lines
}

fn decide(model: &Model, value: &serde_json::Value, answered: usize) -> Vec<StyledLine> {
    let mut lines = asked(model, value);
    lines.push(StyledLine::default());
    let questions = value["questions"].as_array().map_or(0, Vec::len);
    let short = value["short"].as_str().unwrap_or("ID");
    let dim = model.look.style(Tone::Dim);
    if questions > 0 {
        if questions > 1 {
            let text = format!("question {} of {questions}", answered + 1);
            lines.push(StyledLine::new(text, model.look.style(Tone::Bold)));
        }
        lines.push(key_line(
            model,
            &[("1-9", "answer"), ("t", "in your own words"), ("d", "refuse"), ("Esc", "leave")],
        ));
        lines.push(StyledLine::new(format!("baton answer {short} N|TEXT"), dim));
    } else {
        let keys = [("Enter", "allow once"), ("A", "this session"), ("d", "deny…"), ("Esc", "leave")];
        lines.push(key_line(model, &keys));
        lines.push(StyledLine::new(format!("baton approve {short} [--session]"), dim));
    }
    lines
}

fn answer(model: &Model, value: &serde_json::Value, answered: usize, text: &str) -> Vec<StyledLine> {
    let mut lines = asked(model, value);
    let questions = value["questions"].as_array().map_or(0, Vec::len);
    let which =
        if questions > 1 { format!(" to question {} of {questions}", answered + 1) } else { String::new() };
    let head = format!("your answer{which}; several options with commas");
    lines.push(StyledLine::new(head, model.look.style(Tone::Dim)));
    lines.extend(typed(model, text));
    let short = value["short"].as_str().unwrap_or("ID");
    lines.push(key_line(model, &[("Enter", "answer"), ("Esc", "back")]));
    lines.push(StyledLine::new(format!("baton answer {short} TEXT"), model.look.style(Tone::Dim)));
    lines
}

fn reply(model: &Model, question: &QuestionView, text: &str) -> Vec<StyledLine> {
    let asks = format!("{} asks", model.selected.as_deref().unwrap_or_default());
    let mut lines = vec![StyledLine::new(asks, model.look.style(Tone::Need))];
    let bold = model.look.style(Tone::Bold);
    lines.extend(wrap(&question.text, columns(model)).into_iter().map(|line| StyledLine::new(line, bold)));
    lines.push(StyledLine::default());
    lines.extend(typed(model, text));
    lines.push(key_line(model, &[("Enter", "answer"), ("Esc", "leave")]));
    let command = format!("baton reply {} TEXT", question.id);
    lines.push(StyledLine::new(command, model.look.style(Tone::Dim)));
    lines
}

fn deny(model: &Model, value: &serde_json::Value, reason: &str) -> Vec<StyledLine> {
    let mut lines = asked(model, value);
    lines.push(StyledLine::new("why not? The agent reads it.", model.look.style(Tone::Dim)));
    lines.extend(typed(model, reason));
    let short = value["short"].as_str().unwrap_or("ID");
    lines.push(key_line(model, &[("Enter", "deny"), ("Esc", "leave")]));
    lines.push(StyledLine::new(format!("baton deny {short} REASON"), model.look.style(Tone::Dim)));
    lines
}

fn confirm(model: &Model, question: &str, command: &[String]) -> Vec<StyledLine> {
    let mut lines: Vec<StyledLine> = wrap(question, columns(model))
        .into_iter()
        .map(|line| StyledLine::new(line, model.look.style(Tone::Bold)))
        .collect();
    lines.push(StyledLine::new(shown(command), model.look.style(Tone::Dim)));
    lines.push(StyledLine::default());
    lines.push(key_line(model, &[("y", "yes"), ("n", "no")]));
    lines
}

fn spawn(model: &Model, form: &SpawnForm) -> Vec<StyledLine> {
    let look = model.look;
    let mut lines = Vec::new();
    for (n, (name, field)) in SpawnForm::NAMES.iter().zip(&form.fields).enumerate() {
        let here = n == form.at;
        let hint = match (*name, field.text.is_empty()) {
            ("client", true) => "the usual one",
            ("prompt", true) => "none",
            _ => "",
        };
        let room = columns(model).saturating_sub(12);
        // Show the end of a long text, because that is where the user types.
        let shown: String = {
            let skipped = field.text.chars().count().saturating_sub(room);
            field.text.chars().skip(skipped).collect()
        };
        let cursor = if here { look.pick("▏", "_") } else { "" };
        let tone = if here { Tone::Bold } else { Tone::Plain };
        lines.push(
            StyledLine::new(if here { look.pick("▶ ", "> ") } else { "  " }, look.style(Tone::Key))
                .with(fit(name, 8), look.style(Tone::Dim))
                .with(format!("{shown}{cursor}"), look.style(tone))
                .with(hint, look.style(Tone::Dim)),
        );
    }
    lines.push(StyledLine::default());
    lines.extend(
        wrap(&shown(&form.command()), columns(model))
            .into_iter()
            .take(3)
            .map(|line| StyledLine::new(line, look.style(Tone::Dim))),
    );
    lines.push(key_line(model, &[("Tab", "next"), ("Enter", "start from the last field"), ("Esc", "leave")]));
    lines
}

fn help(model: &Model) -> Vec<StyledLine> {
    let look = model.look;
    let (key, plain, dim) = (look.style(Tone::Key), look.style(Tone::Plain), look.style(Tone::Dim));
    let mut lines: Vec<StyledLine> = AgentAction::ALL
        .iter()
        .map(|action| {
            let room = columns(model).saturating_sub(36);
            StyledLine::new(fit(action.key(), 7), key)
                .with(fit(action.title(), 29), plain)
                .with(cut(&action.command(model.agent()), room), dim)
        })
        .collect();
    lines.push(StyledLine::default());
    for (keys, what) in [
        ("j k ↓ ↑", "the list; on a small screen also the text"),
        ("Tab 1-6", "the tabs; the mouse works too"),
        ("PgUp PgDn", "the text; also K J, the wheel"),
        ("/", "find by name, state, goal, project"),
        ("f", "only those who need you, work, are idle, ended"),
        ("p", "only one project"),
        ("Esc", "back; all again"),
        ("Ctrl+Z", "suspend"),
        ("q", "leave; the agents continue"),
    ] {
        lines.push(StyledLine::new(fit(keys, 11), key).with(what, plain));
    }
    lines.push(StyledLine::default());
    lines.push(StyledLine::new(chart::legend(look.unicode, columns(model)), dim));
    lines.push(StyledLine::new("any key closes this", dim));
    lines
}
