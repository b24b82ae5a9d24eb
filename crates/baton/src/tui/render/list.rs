//! The left side: the agents, what they do, and how full they are.

use baton_core::reading::tokens;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Modifier, Style};

use crate::sys::clock::age;
use crate::tui::model::{Model, is_over};
use crate::tui::render::style::{Tone, level_tone, tone};
use crate::tui::render::text::{StyledLine, cut, fit, put, width};
use crate::tui::tree::TreeRow;
use crate::tui::update::inside;
use crate::views::agent::AgentView;

/// Width of a bar.
pub(crate) const BAR: u64 = 10;
/// Width of a state with its age.
const STATE: usize = 14;
/// The least width of an agent's need beside its bar.
const LEAST_NEED: usize = 36;
/// Columns between the two: since when, and mail.
const ASIDE: usize = 14;

pub(crate) fn draw(model: &Model, buffer: &mut Buffer, area: Rect) {
    let inner = inside(area);
    let names = model.rows.iter().map(|row| width(&row.prefix) + width(&row.id)).max().unwrap_or(0);
    let name = names.clamp(8, usize::from(inner.width / 4).max(12));
    for (y, n) in model.visible_rows().into_iter().enumerate() {
        let row = &model.rows[n];
        let Some(agent) = model.agents.get(&row.id) else { continue };
        let y = u16::try_from(y).unwrap_or(u16::MAX);
        let line = line(model, row, agent, name, usize::from(inner.width));
        put(buffer, inner, y, &line);
        if model.selected.as_ref() == Some(&row.id) {
            let whole = Rect::new(inner.x, inner.y + y, inner.width, 1);
            let style = if model.look.colour { Modifier::BOLD } else { Modifier::REVERSED };
            buffer.set_style(whole, Style::new().add_modifier(style));
            if model.look.colour {
                // Reversing only the marker and the name keeps the colours of the rest readable.
                let lead = Rect::new(inner.x, inner.y + y, 4.min(inner.width), 1);
                buffer.set_style(lead, Style::new().add_modifier(Modifier::REVERSED));
            }
        }
    }
    if model.rows.is_empty() {
        let dim = model.look.style(Tone::Dim);
        let text = match (model.agents.is_empty(), model.filter.is_on()) {
            (_, true) => "Nobody matches; Esc shows all.",
            (true, _) if model.is_installed => {
                "No agent is here. n starts one; a client that you start in a terminal shows up by itself."
            }
            (true, _) => {
                "No agent is here. n starts one. baton is not installed: clients that you start in a terminal show \
                 up after `baton install`."
            }
            _ => "",
        };
        for (row, text) in super::text::wrap(text, usize::from(inner.width)).into_iter().enumerate() {
            put(buffer, inner, u16::try_from(row).unwrap_or(0), &StyledLine::new(text, dim));
        }
    }
}

fn line(model: &Model, row: &TreeRow, agent: &AgentView, name: usize, columns: usize) -> StyledLine {
    let look = model.look;
    let (plain, dim, tone) = (look.style(Tone::Plain), look.style(Tone::Dim), look.style(tone(agent)));
    let chosen = model.selected.as_ref() == Some(&row.id);
    let pointer = if chosen { look.pick("▶", ">") } else { " " };
    let prefix = if look.unicode {
        row.prefix.clone()
    } else {
        row.prefix.replace('│', "|").replace(['├', '└'], "+")
    };
    let room = name.saturating_sub(width(&prefix));
    let line = StyledLine::new(format!("{pointer} {} ", look.mark(agent)), tone)
        .with(prefix, dim)
        .with(fit(&agent.id, room), if is_over(agent) { dim } else { plain })
        .with("  ", plain);
    let used = 4 + name + 2;
    let rest = columns.saturating_sub(used);
    if let Some(need) = &agent.needs {
        let ago = age(need.since, model.now);
        let ago = match agent.limit_until {
            Some(until) if until > model.now => format!(" (in {})", age(model.now, until)),
            _ => format!("  {ago}"),
        };
        let mail = mail(model, agent);
        let aside = width(&ago) + width(&mail);
        // Its need comes first; a bar is drawn only if there is room for both.
        let room = rest.saturating_sub(ASIDE + usize::try_from(BAR).unwrap_or(10));
        if agent.tokens.is_none() || room < LEAST_NEED || aside > ASIDE {
            let text = cut(&need.text, rest.saturating_sub(aside + 1));
            return line.with(text, tone).with(ago, dim).with(mail, look.style(Tone::Moving));
        }
        let line = line
            .with(fit(&need.text, room), tone)
            .with(ago, dim)
            .with(mail, look.style(Tone::Moving))
            .with(" ".repeat(ASIDE - aside), plain);
        return bar(model, agent)
            .into_iter()
            .fold(line, |line, (text, tone)| line.with(text, look.style(tone)));
    }
    let state = format!("{}{}", short(&agent.words), since(model, agent));
    let line = line.with(fit(&state, STATE), tone);
    let rest = rest.saturating_sub(STATE);
    let is_done = agent.state == "done";
    if is_done || is_over(agent) || agent.tokens.is_none() {
        let done = agent.done.as_ref().filter(|_| is_done).map(|said| format!("\"{said}\""));
        let said = done.as_deref().or(agent.last_answer.as_deref()).or(agent.now.as_deref());
        let said = said.unwrap_or_default();
        let mail = mail(model, agent);
        // Its last words take the place of the bar.
        let gap = if mail.is_empty() { "" } else { "  " };
        let said = cut(said, rest.saturating_sub(gap.len() + width(&mail)));
        return line.with(mail, look.style(Tone::Moving)).with(format!("{gap}{said}"), dim);
    }
    let mut line = line;
    for (text, tone) in bar(model, agent) {
        line = line.with(text, look.style(tone));
    }
    let mut rest = rest.saturating_sub(usize::try_from(BAR).unwrap_or(10));
    let left = agent.left.map_or_else(String::new, |left| format!(" {:>5} left", tokens(left)));
    line = more(line, &mut rest, left, look.style(level_tone(agent.level)));
    let turns =
        agent.turns_left.map_or_else(|| " ".repeat(5), |turns| format!(" {}", fit(&format!("~{turns}t"), 4)));
    line = more(line, &mut rest, turns, dim);
    line = more(line, &mut rest, mail(model, agent), look.style(Tone::Moving));
    let about = [agent.goal.as_deref(), agent.now.as_deref()].into_iter().flatten().next();
    let client = agent.model.as_deref().map_or(agent.provider.as_str(), model_name);
    let client = format!("  {client} {}", agent.project);
    if rest > width(&client) + 16 {
        if let Some(about) = about {
            let text = format!("  {}", cut(about, rest - width(&client) - 3));
            line = more(line, &mut rest, text, plain);
        }
        line = more(line, &mut rest, client, dim);
    } else if let Some(about) = about.filter(|_| rest > 12) {
        let text = format!("  {}", cut(about, rest - 2));
        line = more(line, &mut rest, text, dim);
    }
    line
}

/// Appends `text` to the line if there is room.
fn more(line: StyledLine, rest: &mut usize, text: String, style: Style) -> StyledLine {
    let needed = width(&text);
    if needed == 0 || needed > *rest {
        return line;
    }
    *rest -= needed;
    line.with(text, style)
}

/// `claude-opus-4-6` → `opus-4-6`: the vendor's name adds nothing next to the client's.
fn model_name(model: &str) -> &str {
    model.strip_prefix("claude-").unwrap_or(model)
}

fn short(words: &str) -> &str {
    // The right side has the details.
    if words == "working, then hands over" { "hands over" } else { words }
}

fn since(model: &Model, agent: &AgentView) -> String {
    match agent.state_since {
        Some(since) if agent.words != "starting" => format!(" {}", age(since, model.now)),
        _ => String::new(),
    }
}

fn mail(model: &Model, agent: &AgentView) -> String {
    let envelope = model.look.pick("✉", "@");
    match (agent.mail, agent.unread) {
        (0, 0) => String::new(),
        (waits, 0) => format!(" {envelope}{waits}"),
        (0, unread) => format!(" {envelope}{unread} to you"),
        (waits, unread) => format!(" {envelope}{waits} {envelope}{unread} to you"),
    }
}

/// Fills towards the compaction point, rounded down, with ticks where baton speaks and where it asks.
pub(crate) fn bar(model: &Model, agent: &AgentView) -> Vec<(String, Tone)> {
    let look = model.look;
    let Some((tokens, end)) =
        agent.tokens.zip(agent.compacts_at.or(agent.window)).filter(|(_, end)| *end > 0)
    else {
        return vec![(" ".repeat(usize::try_from(BAR).unwrap_or(10)), Tone::Dim)];
    };
    let cell = |at: u64| (at.saturating_mul(BAR) / end).min(BAR);
    let filled = cell(tokens);
    let ticks = [agent.warn_at, agent.ask_at].map(|at| at.map(|at| cell(at).min(BAR - 1)));
    let mut bar: Vec<(String, Tone)> = Vec::new();
    for n in 0..BAR {
        let (text, tone) = if ticks.contains(&Some(n)) {
            (look.pick("│", "|"), if n < filled { level_tone(agent.level) } else { Tone::Dim })
        } else if n < filled {
            (look.pick("▰", "#"), level_tone(agent.level))
        } else {
            (look.pick("▱", "-"), Tone::Dim)
        };
        match bar.last_mut() {
            Some((before, known)) if *known == tone => before.push_str(text),
            _ => bar.push((text.to_owned(), tone)),
        }
    }
    bar
}
