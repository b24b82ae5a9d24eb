//! Draws the model. The same model always gives the same cells.

mod chart;
mod detail;
pub(crate) mod elsewhere;
mod list;
pub(crate) mod overlay;
mod request;
mod style;
mod text;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use crate::store::log::LogLine;
use crate::tui::model::{Link, Mode, Model, Tab};
use crate::tui::update::inside;

use style::Tone;
use text::{StyledLine, cut, put, width, wrap};

/// The whole screen.
pub(crate) fn render(model: &Model, buffer: &mut Buffer) {
    let areas = model.areas();
    if model.width < 20 || model.height < 6 {
        let line = StyledLine::new("too small", model.look.style(Tone::Plain));
        let area = buffer.area;
        put(buffer, area, 0, &line);
        return;
    }
    head(model, buffer, areas.head);
    if areas.list.height > 1 {
        frame(model, buffer, areas.list, &list_title(model), areas.detail.width == 0);
        list::draw(model, buffer, areas.list);
    }
    if areas.elsewhere.height > 2 {
        frame(model, buffer, areas.elsewhere, &elsewhere::title(model), false);
        elsewhere::draw(model, buffer, areas.elsewhere);
    }
    if areas.chart.height > 1 {
        let title = model.selected.as_deref().map_or_else(String::new, |name| format!("context of {name}"));
        frame(model, buffer, areas.chart, &title, false);
        chart::draw(model, buffer, areas.chart);
    }
    if areas.needs.height > 0 {
        needs(model, buffer, areas.needs);
    }
    if areas.detail.height > 1 {
        frame(model, buffer, areas.detail, "", false);
        tabs(model, buffer, areas.detail);
        text_of_tab(model, buffer, areas.detail);
    }
    foot(model, buffer, areas.foot);
    overlay::draw(model, buffer);
}

fn list_title(model: &Model) -> String {
    let mut title = "agents".to_owned();
    let filter = &model.filter;
    if filter.state != crate::tui::model::StateFilter::All {
        title = format!("{title} · {}", filter.state.title());
    }
    if let Some(project) = &filter.project {
        title = format!("{title} · {project}");
    }
    if !filter.text.is_empty() || model.mode == Mode::Find {
        let cursor = if model.mode == Mode::Find { model.look.pick("▏", "_") } else { "" };
        title = format!("{title} · /{}{cursor}", filter.text);
    }
    title
}

fn head(model: &Model, buffer: &mut Buffer, area: Rect) {
    let look = model.look;
    let dim = look.style(Tone::Dim);
    let count = |state: &str| model.agents.values().filter(|agent| agent.state == state).count();
    let needing = model.count_needing();
    let there = model.agents.values().filter(|agent| !crate::tui::model::is_over(agent)).count();
    let agents = if there == 1 { "1 agent".to_owned() } else { format!("{there} agents") };
    let needs = match needing {
        0 => StyledLine::new(" · nobody needs you", dim),
        1 => StyledLine::new(" · 1 needs you", look.style(Tone::Need)),
        n => StyledLine::new(format!(" · {n} need you"), look.style(Tone::Need)),
    };
    let mut line = StyledLine::new(" baton ", look.style(Tone::Bold))
        .with(format!(" {agents}"), look.style(Tone::Plain));
    line.0.extend(needs.0);
    let source = match model.link {
        Link::Connecting => "connecting",
        Link::Daemon => "daemon ok",
        Link::Lost => "daemon gone, looking for it",
        Link::Files => "from the files",
    };
    let clock = model.now.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M").to_string();
    let used = |line: &StyledLine| line.0.iter().map(|(text, _)| width(text)).sum::<usize>();
    let columns = usize::from(area.width);
    let working = format!(" · {} working", count("working"));
    let mut right = format!("{source} · {clock} ");
    // On a narrow screen a lost daemon matters more than the clock and the count of working agents.
    let has_room = used(&line) + width(&working) + width(&right) + 2 <= columns;
    if model.link == Link::Lost && !has_room {
        "daemon gone ".clone_into(&mut right);
    } else {
        line = line.with(working, dim);
    }
    if let unread @ 1.. = model.unread() {
        line = line.with(format!(" · {}{unread} to you", look.pick("✉", "@")), look.style(Tone::Moving));
    }
    put(buffer, area, 0, &line);
    let used = used(&line);
    if used + width(&right) + 2 <= columns {
        let tone = if model.link == Link::Lost { Tone::Warn } else { Tone::Dim };
        let x = area.width - u16::try_from(width(&right)).unwrap_or(0);
        let place = Rect::new(x, area.y, area.width - x, 1);
        let room = usize::from(x).saturating_sub(used + 4);
        put(buffer, place, 0, &StyledLine::new(right, look.style(tone)));
        let about = header_about(model);
        if !about.is_empty() && room >= 12 {
            let about = cut(&about, room);
            let from = used + 2 + (room - width(&about)) / 2;
            let place = Rect::new(u16::try_from(from).unwrap_or(0), area.y, x, 1);
            put(buffer, place, 0, &StyledLine::new(about, look.style(Tone::Plain)));
        }
    }
}

/// The subject of the whole screen: the checkpoint that a person wrote, else the projects if there are several.
fn header_about(model: &Model) -> String {
    let projects = model.projects();
    if let Some(checkpoint) = model.agent().and_then(|agent| agent.checkpoint.clone()) {
        return checkpoint;
    }
    if projects.len() < 2 { String::new() } else { projects.into_iter().collect::<Vec<_>>().join(" · ") }
}

/// The last thing that happened on the left, the most useful keys on the right.
fn foot(model: &Model, buffer: &mut Buffer, area: Rect) {
    let look = model.look;
    let keys: &[(&str, &str)] = if model.is_wide() {
        &[("Enter", "attach"), ("s", "send"), ("r", "rotate"), ("/", "find"), ("?", "keys"), ("q", "leave")]
    } else if model.open {
        &[("Esc", "list"), ("s", "send"), ("Tab", "tabs"), ("?", "keys")]
    } else {
        &[("Enter", "open"), ("s", "send"), ("/", "find"), ("?", "keys")]
    };
    let mut right = StyledLine::default();
    for (key, title) in keys {
        right = right
            .with(format!("{key} "), look.style(Tone::Key))
            .with(format!("{title}  "), look.style(Tone::Dim));
    }
    let needed: usize = right.0.iter().map(|(text, _)| width(text)).sum();
    let columns = usize::from(area.width);
    let room = columns.saturating_sub(needed + 3);
    if let Some((status, failed)) = &model.status {
        let style = look.style(if *failed { Tone::Bad } else { Tone::Dim });
        // A failure is shown in full, over the keys and the rows above them; other news is cut.
        if *failed && width(status) > room {
            return told(buffer, area, status, style);
        }
        put(buffer, area, 0, &StyledLine::new(format!(" {}", cut(status, room)), style));
    }
    let x = area.width.saturating_sub(u16::try_from(needed).unwrap_or(area.width));
    put(buffer, Rect::new(x, area.y, area.width - x, 1), 0, &right);
}

/// Draws a text that ends in the foot and takes as many rows as it needs, up to a third of the screen.
fn told(buffer: &mut Buffer, foot: Rect, text: &str, style: ratatui_core::style::Style) {
    let lines = wrap(text, usize::from(foot.width).saturating_sub(2));
    let rows = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(foot.bottom() / 3).max(1);
    let area = Rect::new(foot.x, foot.bottom() - rows, foot.width, rows);
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            buffer[(x, y)].reset();
        }
    }
    for (row, line) in lines.into_iter().enumerate() {
        put(
            buffer,
            area,
            u16::try_from(row).unwrap_or(u16::MAX),
            &StyledLine::new(format!(" {line}"), style),
        );
    }
}

/// On a small screen, above the agent: the other agents that need a person.
fn needs(model: &Model, buffer: &mut Buffer, area: Rect) {
    for (row, agent) in model.others_needing().into_iter().take(usize::from(area.height)).enumerate() {
        let text = format!("{} {}: {}", model.look.mark(agent), agent.id, agent.words);
        let line = StyledLine::new(cut(&text, usize::from(area.width)), model.look.style(Tone::Need));
        put(buffer, area, u16::try_from(row).unwrap_or(u16::MAX), &line);
    }
}

/// Draws a frame with a title in its top edge.
fn frame(model: &Model, buffer: &mut Buffer, area: Rect, title: &str, bold: bool) {
    if area.width < 2 || area.height < 2 {
        return;
    }
    let look = model.look;
    let style = look.style(if bold { Tone::Plain } else { Tone::Dim });
    let (corners, across, down) = if look.unicode {
        (["┌", "┐", "└", "┘"], "─", "│")
    } else {
        (["+", "+", "+", "+"], "-", "|")
    };
    let (right, bottom) = (area.right() - 1, area.bottom() - 1);
    for x in area.left()..area.right() {
        buffer[(x, area.top())].set_symbol(across).set_style(style);
        buffer[(x, bottom)].set_symbol(across).set_style(style);
    }
    for y in area.top()..area.bottom() {
        buffer[(area.left(), y)].set_symbol(down).set_style(style);
        buffer[(right, y)].set_symbol(down).set_style(style);
    }
    for ((x, y), corner) in
        [(area.left(), area.top()), (right, area.top()), (area.left(), bottom), (right, bottom)]
            .into_iter()
            .zip(corners)
    {
        buffer[(x, y)].set_symbol(corner).set_style(style);
    }
    if !title.is_empty() {
        let title = format!(" {} ", cut(title, usize::from(area.width.saturating_sub(6))));
        buffer.set_stringn(area.x + 1, area.y, title, usize::from(area.width - 2), look.style(Tone::Bold));
    }
}

/// The name before the tabs, shortened to fit; nothing if only a letter or two would fit.
fn tabs_name(model: &Model, area: Rect) -> String {
    let titles: usize = Tab::ALL.iter().map(|tab| tab.title().len() + 2).sum();
    let room = usize::from(area.width).saturating_sub(titles + 6).min(24);
    let name = model.selected.as_deref().unwrap_or_default();
    if room < width(name).min(6) { String::new() } else { cut(name, room) }
}

/// Where each tab's title begins and ends in the top edge of the right side.
fn tab_places(model: &Model, area: Rect) -> Vec<(Tab, u16, u16)> {
    let name = u16::try_from(width(&tabs_name(model, area))).unwrap_or(0);
    let mut x = area.x + 2 + if name > 0 { name + 2 } else { 0 };
    Tab::ALL
        .into_iter()
        .map(|tab| {
            let from = x;
            x += u16::try_from(tab.title().len()).unwrap_or(0) + 2;
            (tab, from, x - 1)
        })
        .collect()
}

fn tabs(model: &Model, buffer: &mut Buffer, area: Rect) {
    let look = model.look;
    let places = tab_places(model, area);
    let name = tabs_name(model, area);
    if !name.is_empty() {
        buffer.set_stringn(area.x + 1, area.y, format!(" {name} "), width(&name) + 2, look.style(Tone::Bold));
    }
    for (tab, from, to) in places {
        if to >= area.right() {
            break;
        }
        let chosen = tab == model.tab;
        let style = if chosen {
            look.style(Tone::Bold).add_modifier(ratatui_core::style::Modifier::UNDERLINED)
        } else {
            look.style(Tone::Dim)
        };
        buffer.set_string(from - 1, area.y, " ", look.style(Tone::Plain));
        buffer.set_string(from, area.y, tab.title(), style);
        buffer.set_string(to - 1, area.y, " ", look.style(Tone::Plain));
    }
}

/// The tab whose title is at this column.
pub(crate) fn tab_at(model: &Model, area: Rect, x: u16) -> Option<Tab> {
    tab_places(model, area).into_iter().find(|(_, from, to)| (*from..*to).contains(&x)).map(|(tab, ..)| tab)
}

fn text_area(area: Rect) -> Rect {
    let inner = inside(area);
    Rect::new(inner.x + u16::from(inner.width > 2), inner.y, inner.width.saturating_sub(2), inner.height)
}

fn text_of_tab(model: &Model, buffer: &mut Buffer, area: Rect) {
    let inner = text_area(area);
    let lines = detail::lines(model, usize::from(inner.width));
    let room = usize::from(inner.height);
    let most = lines.len().saturating_sub(room);
    let scroll = model.scroll.min(most);
    let first = if model.tab.ends_with_the_newest() { most - scroll } else { scroll };
    for (row, line) in lines.iter().skip(first).take(room).enumerate() {
        put(buffer, inner, u16::try_from(row).unwrap_or(u16::MAX), line);
    }
    if first > 0 || first + room < lines.len() {
        let text = format!(" {}/{} ", (first + room).min(lines.len()), lines.len());
        let x = area.right().saturating_sub(u16::try_from(text.len()).unwrap_or(0) + 1);
        buffer.set_string(x, area.bottom() - 1, text, model.look.style(Tone::Dim));
    }
}

/// How many lines of the tab do not fit.
pub(crate) fn detail_lines(model: &Model) -> usize {
    let inner = text_area(model.areas().detail);
    detail::lines(model, usize::from(inner.width)).len().saturating_sub(usize::from(inner.height))
}

/// A log line in words, if it is of interest to people.
pub(crate) fn story(line: &LogLine) -> Option<String> {
    let agent = line.agent.as_ref()?;
    let handoff = line.detail["handoff"].as_str().unwrap_or_default();
    let at = line.at.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M").to_string();
    let text = match line.event.as_str() {
        "session-start" if !handoff.is_empty() => {
            format!("{agent} handed over ({handoff}) and continues in a fresh context")
        }
        "session-start" => format!("{agent} has started"),
        "session-end" => format!("{agent} has ended"),
        "rotation-requested" => format!("{agent} hands over ({handoff})"),
        "pre-compact" => format!("the client compacts {agent}"),
        "approval-asked" => {
            format!("{agent} asks for {}", line.detail["tool"].as_str().unwrap_or("something"))
        }
        "approval-answered" => {
            format!("{agent}: {}", line.detail["answer"].as_str().unwrap_or("answered"))
        }
        "stop-failure" => format!("{agent} stopped: {}", line.detail["error"].as_str().unwrap_or("an error")),
        "session-died" => format!("{agent} died"),
        "handoff-cancelled" => format!("the handoff of {agent} was cancelled"),
        _ => return None,
    };
    Some(format!("{at} {text}"))
}
