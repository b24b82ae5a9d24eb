//! Below the list: the other machines and their agents, as last heard.

use baton_core::fleet::presence::{Presence, SharedAgent};
use baton_core::plain::plain_line;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use crate::fleet::roll::{LinkState, MachineView};
use crate::sys::clock::age;
use crate::tui::model::{Model, StateFilter};
use crate::tui::render::style::Tone;
use crate::tui::render::text::{StyledLine, cut, fit, put};
use crate::tui::update::inside;

pub(crate) fn draw(model: &Model, buffer: &mut Buffer, area: Rect) {
    let inner = inside(area);
    let lines = lines(model);
    let room = usize::from(inner.height);
    // The last line says how many lines are not shown.
    let hidden = if lines.len() > room { lines.len() - room + 1 } else { 0 };
    let columns = usize::from(inner.width);
    for (y, (text, tone)) in lines.iter().take(room - usize::from(hidden > 0)).enumerate() {
        let line = StyledLine::new(cut(text, columns), model.look.style(*tone));
        put(buffer, inner, u16::try_from(y).unwrap_or(u16::MAX), &line);
    }
    if hidden > 0 {
        let text = format!("… {hidden} more: baton agents --fleet");
        let line = StyledLine::new(cut(&text, columns), model.look.style(Tone::Dim));
        put(buffer, inner, inner.height.saturating_sub(1), &line);
    }
}

/// The title of the frame: how old this is.
pub(crate) fn title(model: &Model) -> String {
    let fleet = &model.fleet;
    let news = fleet.news.map_or_else(|| "nothing heard yet".to_owned(), |at| age(at, model.now) + " old");
    match &fleet.link {
        Some(link) if link.state != LinkState::Connected => {
            format!("elsewhere, {news}; the database is away {}", age(link.since, model.now))
        }
        _ => format!("elsewhere, {news}"),
    }
}

/// A line for each machine and each of its agents; empty without a fleet, or if the filter matches nobody.
pub(crate) fn lines(model: &Model) -> Vec<(String, Tone)> {
    let mut lines = Vec::new();
    let filter = &model.filter;
    let is_filtered = filter.is_on();
    for machine in &model.fleet.machines {
        let is_shown = |agent: &&SharedAgent| {
            let found = |text: &str| text.to_lowercase().contains(&filter.text.to_lowercase());
            filter.state == StateFilter::All
                && filter.project.as_ref().is_none_or(|project| *project == agent.project)
                && (filter.text.is_empty() || found(&agent.name) || found(&agent.project))
        };
        let is_gone = machine.presence == Presence::Gone;
        let agents: Vec<&SharedAgent> = machine.agents.iter().filter(|_| !is_gone).filter(is_shown).collect();
        if is_filtered && agents.is_empty() {
            continue;
        }
        lines.push(machine_line(model, machine));
        lines.extend(agents.into_iter().map(|agent| agent_line(machine, agent)));
    }
    lines
}

fn machine_line(model: &Model, machine: &MachineView) -> (String, Tone) {
    let heard = machine
        .heard
        .map_or_else(|| "never heard".to_owned(), |at| format!("heard {} ago", age(at, model.now)));
    let doubt = machine.doubt.as_deref().map(|why| format!("; not believed: {}", plain_line(why, 80)));
    let text =
        format!("{} {}, {heard}{}", machine.name, machine.presence.as_str(), doubt.unwrap_or_default());
    (text, if machine.presence == Presence::Awake { Tone::Plain } else { Tone::Dim })
}

fn agent_line(machine: &MachineView, agent: &SharedAgent) -> (String, Tone) {
    let used = agent.used_percentage.map(|used| format!("{used} %")).unwrap_or_default();
    let text = format!(
        "  {} {} {used:>5}  {}",
        fit(&format!("{}@{}", plain_line(&agent.name, 40), machine.name), 24),
        fit(&plain_line(&agent.state, 14), 14),
        plain_line(&agent.project, 30)
    );
    // The last report of a sleeping machine may be out of date.
    (text, if machine.presence == Presence::Awake { Tone::Plain } else { Tone::Dim })
}
