//! `baton status`: how full the agents are and what waits for them.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::Path;

use baton_core::agent::Agent;
use baton_core::compaction::{CompactionPoint, compaction_point};
use baton_core::ids::ChannelName;
use baton_core::level::Level;
use baton_core::session::{Gauge, Session, Turn};
use baton_core::statusline::tokens;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use super::args::StatusArgs;
use super::screen::{Paint, print, print_json, table};
use super::{App, Outcome};
use crate::companion::{self, Presence};
use crate::store::compaction;
use crate::sys::process;
use crate::sys::watch::Watch;

pub fn run(app: &App, args: &StatusArgs) -> anyhow::Result<Outcome> {
    let store = app.store();
    let agents = |a: &Agent, channel: &ChannelName| match &args.agent {
        Some(id) => &a.id == id,
        None => args.all || (&a.channel == channel && store.agents().lives(a)),
    };
    let nothing = |channel: &ChannelName| match &args.agent {
        Some(id) => format!("There is no agent {id}.\n"),
        None => format!("No agent is running in channel {channel}; `--all` shows the others.\n"),
    };
    if args.watch {
        return watch(app, agents, nothing);
    }
    show(app, agents, nothing, args.json)
}

/// Shows the table anew whenever a hook has told something, and every few seconds for what nobody tells.
fn watch(
    app: &App,
    wanted: impl Fn(&Agent, &ChannelName) -> bool,
    nothing: impl Fn(&ChannelName) -> String,
) -> anyhow::Result<Outcome> {
    const AT_LEAST: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
    let state = app.store().state.clone();
    let folders: Vec<_> = ["agents", "sessions", "mail"].iter().map(|name| state.join(name)).collect();
    for dir in &folders {
        crate::sys::fs::private_dir(dir)?;
    }
    let watched = Watch::folders(&folders.iter().map(std::path::PathBuf::as_path).collect::<Vec<_>>())?;
    let clears = std::io::stdout().is_terminal();
    loop {
        if clears {
            // Home, then each line over the old one, then what is left of the old screen: no flicker.
            print("\x1b[H\x1b[2J")?;
        }
        show(app, &wanted, &nothing, false)?;
        let mut fds: Vec<_> =
            watched.fd().iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        let _ = poll(&mut fds, Some(&AT_LEAST));
        watched.drain_where(|_| true);
    }
}

/// The agents of the project around `dir` on one short line, for the status line of tmux.
pub fn tmux_line(app: &App, dir: &Path) -> anyhow::Result<Outcome> {
    let dir = std::fs::canonicalize(app.cwd.join(dir)).unwrap_or_else(|_| app.cwd.clone());
    let channel = app.channel_of(&dir)?.name;
    let store = app.store();
    let agents = store.agents().all().into_iter().filter(|a| a.channel == channel && store.agents().lives(a));
    let parts: Vec<String> = agents
        .map(|agent| {
            let row = Row::of(app, agent);
            let fill = row.gauge.reading.map_or_else(|| "–".to_owned(), |r| format!("{}%", r.percentage()));
            // tmux reads `#` as the beginning of a format.
            let name = row.agent.id.to_string().replace('#', "");
            let colour = match row.gauge.level {
                Level::Ok => "default",
                Level::EarlyWarn | Level::Warn => "yellow",
                Level::Critical => "red",
            };
            let mail = if row.mail == 0 { String::new() } else { format!(" ✉{}", row.mail) };
            let waits = if row.agent.rotation.is_some() { " ⟳" } else { "" };
            format!("#[fg={colour}]{name} {fill}{mail}{waits}#[default]")
        })
        .collect();
    print(&format!("{}\n", parts.join(" · ")))?;
    Ok(Outcome::Done)
}

/// The table of those agents that `wanted` lets through, or what `nothing` says.
pub fn show(
    app: &App,
    wanted: impl Fn(&Agent, &ChannelName) -> bool,
    nothing: impl Fn(&ChannelName) -> String,
    json: bool,
) -> anyhow::Result<Outcome> {
    let store = app.store();
    let channel = app.channel()?;
    let agents: Vec<Agent> = store.agents().all().into_iter().filter(|a| wanted(a, &channel)).collect();
    let rows: Vec<Row> = agents.into_iter().map(|agent| Row::of(app, agent)).collect();
    if json {
        print_json(&rows.iter().map(Row::json).collect::<Vec<_>>())?;
        return Ok(if rows.is_empty() { Outcome::Nothing } else { Outcome::Done });
    }
    if rows.is_empty() {
        print(&nothing(&channel))?;
        return Ok(Outcome::Nothing);
    }
    let paint = Paint::stdout();
    let cells: Vec<_> = rows.iter().map(|row| row.cells(paint)).collect();
    let mut out = table(
        paint,
        &["AGENT", "STATE", "LEVEL", "CONTEXT", "LEFT", "TURNS", "MAIL", "BY", "HANDOFF"],
        &cells,
    );
    for line in clamps(app, &rows).into_iter().chain(rows.iter().filter_map(Row::trouble)) {
        let _ = writeln!(out, "{line}");
    }
    print(&out)?;
    Ok(Outcome::Done)
}

pub struct Row {
    agent: Agent,
    session: Option<Session>,
    gauge: Gauge,
    point: Option<CompactionPoint>,
    mail: usize,
    companion: Presence,
    /// Somebody types into its pane.
    typed: bool,
    followed: bool,
    live: bool,
}

impl Row {
    pub fn of(app: &App, agent: Agent) -> Self {
        let store = app.store();
        let session = agent.session.as_ref().and_then(|id| store.sessions().get(id).ok().flatten());
        let gauge = session.as_ref().map(|s| store.sessions().gauge(&s.id)).unwrap_or_default();
        let point = session.as_ref().zip(gauge.reading).map(|(s, reading)| {
            let model = gauge.model.as_deref().or(s.model.as_deref());
            compaction_point(model, reading.window, &s.compaction, &compaction::observations(&store.state))
        });
        let mail = store.mail().waiting(&agent.id);
        let companion = companion::state(&store, &agent);
        let typed = crate::panes::is_attended(&store, &agent);
        let followed =
            session.as_ref().is_some_and(|session| crate::threads::is_attended_session(&store, session));
        let live = store.agents().lives(&agent);
        Self { agent, session, gauge, point, mail, companion, typed, followed, live }
    }

    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    pub fn is_live(&self) -> bool {
        self.live
    }

    fn left(&self) -> Option<u64> {
        self.point.zip(self.gauge.reading).map(|(point, reading)| point.distance(reading.total()))
    }

    fn turns_left(&self) -> Option<u64> {
        self.session.as_ref()?.turn_ends.turns_left(self.left()?)
    }

    pub fn state(&self) -> &'static str {
        if !self.live {
            return "ended";
        }
        match self.session.as_ref().map(|s| s.turn) {
            Some(Turn::Working) => "working",
            Some(Turn::Blocked) => "blocked",
            Some(Turn::Limit) => "limit",
            Some(Turn::Idle) | None => "idle",
        }
    }

    /// Who gives this agent a fresh context.
    fn actuator(&self) -> &'static str {
        let supervised = self.agent.supervisor.as_ref().is_some_and(process::is_alive);
        match &self.companion {
            Presence::Live(record) if record.interactive => self.companion.word(),
            _ if supervised => "restart",
            _ if self.typed => "tmux",
            _ if self.followed => crate::threads::ACTUATOR,
            Presence::Never | Presence::Live(_) => "you",
            broken => broken.word(),
        }
    }

    /// A companion that was there and does not work any more.
    fn trouble(&self) -> Option<String> {
        let what = match &self.companion {
            _ if !self.live => return None,
            Presence::Silent(_) => "does not answer",
            Presence::Gone(_) => "has ended",
            Presence::Live(_) | Presence::Never => return None,
        };
        Some(format!(
            "{}: its companion {what}; `/reload-plugins` in the client starts it again, `/clear` continues by hand",
            self.agent.id
        ))
    }

    pub fn cells(&self, paint: Paint) -> Vec<String> {
        let dash = || "–".to_owned();
        let context = self.gauge.reading.map_or_else(dash, |r| {
            format!("{}% ({} of {})", r.percentage(), tokens(r.tokens), tokens(r.window))
        });
        let handoff = match (&self.agent.rotation, &self.agent.last_handoff) {
            (Some(rotation), _) => paint.yellow(&format!("{} waits", rotation.handoff)),
            (None, Some(id)) => id.to_string(),
            (None, None) => String::new(),
        };
        vec![
            self.agent.id.to_string(),
            self.state().to_owned(),
            self.gauge.level.to_string(),
            context,
            self.left().map_or_else(dash, tokens),
            self.turns_left().map_or_else(dash, |n| format!("~{n}")),
            if self.mail == 0 { String::new() } else { self.mail.to_string() },
            self.actuator().to_owned(),
            handoff,
        ]
    }

    pub fn json(&self) -> serde_json::Value {
        json!({
            "agent": self.agent,
            "state": self.state(),
            "level": self.gauge.level,
            "reading": self.gauge.reading,
            "percentage": self.gauge.reading.map(|r| r.percentage()),
            "model": self.gauge.model,
            "compaction": self.point,
            "left": self.left(),
            "turns_left": self.turns_left(),
            "mail": self.mail,
            "actuator": self.actuator(),
            "session": self.session,
        })
    }
}

/// Thresholds that lie beyond the compaction point of one of these agents.
fn clamps(app: &App, rows: &[Row]) -> Vec<String> {
    let thresholds = app.resolved.config.context.thresholds();
    let mut lines: Vec<String> = rows
        .iter()
        .filter_map(|row| Some((row.gauge.reading?, row.point?)))
        .flat_map(|(reading, point)| thresholds.clamps(reading.base, reading.window, point.end()))
        .map(|clamp| clamp.to_string())
        .collect();
    lines.dedup();
    lines
}
