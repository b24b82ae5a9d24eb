//! `baton status`: how full the agents are, and what waits for them.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use baton_core::agent::{Agent, AgentState, LISTED, over_since};
use baton_core::compaction::{CompactionPoint, compaction_point};
use baton_core::gauge::Gauge;
use baton_core::halt::{Audience, Halt, LimitEnd};
use baton_core::handoff::{HandoffId, Status};
use baton_core::ids::ChannelName;
use baton_core::level::Level;
use baton_core::need::{self, NeedKind};
use baton_core::plain::{plain, plain_line};
use baton_core::reading::tokens;
use baton_core::redact::redact;
use baton_core::rotation::Actuator;
use baton_core::session::Session;
use jiff::Timestamp;
use serde_json::json;

use crate::cli::args::StatusArgs;
use crate::cli::ui::{Paint, clock, print, print_json, print_raw, table_ranked};
use crate::cli::{App, Outcome, fleet};
use crate::mail::maildir::Mail;
use crate::rotation::pending;
use crate::store::companions::CompanionState;
use crate::sys::watch::Watch;
use crate::views::agent;

pub(super) fn run(app: &App, args: &StatusArgs) -> anyhow::Result<Outcome> {
    if args.fleet {
        return fleet::agents(app, args.json);
    }
    let store = app.store();
    let named = args.agent.as_ref().map(|id| store.agents().name_now(id)).transpose()?;
    let agents = |a: &Agent, channel: &ChannelName| match &named {
        Some(id) => &a.id == id,
        None => args.all || (&a.channel == channel && store.presence(a).is_there()),
    };
    let nothing = |_: &ChannelName| match &args.agent {
        Some(id) => format!("There is no agent {id}.\n"),
        None => app
            .not_installed()
            .unwrap_or_else(|| "No agent is running in this project; `--all` shows all agents.\n".to_owned()),
    };
    if args.watch {
        return watch(app, agents, nothing);
    }
    show(app, agents, nothing, args.json)
}

/// Redraws the table whenever a hook reports something, and every few seconds for changes that nobody reports.
fn watch(
    app: &App,
    wanted: impl Fn(&Agent, &ChannelName) -> bool,
    nothing: impl Fn(&ChannelName) -> String,
) -> anyhow::Result<Outcome> {
    const AT_LEAST: Duration = Duration::from_secs(5);
    let state = app.store().state.clone();
    let folders: Vec<_> = ["agents", "sessions", "mail"].iter().map(|name| state.join(name)).collect();
    for dir in &folders {
        crate::sys::fs::private_dir(dir)?;
    }
    let mut watched = Watch::folders(&folders.iter().map(std::path::PathBuf::as_path).collect::<Vec<_>>())?;
    let clears = std::io::stdout().is_terminal();
    loop {
        if clears {
            // Start from an empty screen.
            print_raw("\x1b[H\x1b[2J")?;
        }
        show(app, &wanted, &nothing, false)?;
        // Whatever changed, redraw everything.
        watched.wait(AT_LEAST);
    }
}

/// The agents of the project around `dir` on one short line, for tmux's status line.
pub(super) fn tmux_line(app: &App, dir: &Path) -> anyhow::Result<Outcome> {
    let dir = std::fs::canonicalize(app.cwd.join(dir)).unwrap_or_else(|_| app.cwd.clone());
    let channel = app.channel_of(&dir)?.name;
    let store = app.store();
    let agents =
        store.agents().all().into_iter().filter(|a| a.channel == channel && store.presence(a).is_there());
    let parts: Vec<String> = agents
        .map(|agent| {
            let row = Row::of(app, agent);
            let fill = row.gauge.reading.map_or_else(|| "–".to_owned(), |r| format!("{}%", r.percentage()));
            // tmux parses `#` as the beginning of a format.
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
    print_raw(&format!("{}\n", parts.join(" · ")))?;
    Ok(Outcome::Done)
}

/// The table of the agents that `wanted` accepts, or the text of `nothing`.
pub(super) fn show(
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
    let cells: Vec<_> = rows.iter().map(|row| row.cells("", paint)).collect();
    let mut out = table_ranked(paint, HEAD, &cells);
    let troubles = rows.iter().filter_map(Row::trouble).chain(needs(app, &rows));
    for line in clamps(app, &rows).into_iter().chain(troubles).chain(app.unread()) {
        let _ = writeln!(out, "{line}");
    }
    print(&out)?;
    Ok(Outcome::Done)
}

/// Why each of these agents needs a person, or the event that its handoff waits for, with its name.
pub(super) fn needs(app: &App, rows: &[Row]) -> Vec<String> {
    let (now, waiting) = (Timestamp::now(), agent::waiting(&app.store()).unwrap_or_default());
    let inbox = agent::inbox(&app.store());
    let of = |row: &Row| {
        let sent = inbox.get(row.agent.id.as_str());
        let question = sent.and_then(|sent| sent.question_of(row.session.as_ref())).map(agent::asks);
        let facts = need::Facts {
            agent: &row.agent,
            session: row.session.as_ref(),
            state: row.state(),
            waiting: waiting.get(&row.agent.id).or(question.as_ref()),
            pending: row
                .session
                .as_ref()
                .and_then(|s| s.pending(app.store().presence(&row.agent).is_braked())),
            rotatable: row.agent.rotation.is_some() && row.actuator.is_some(),
        };
        let need = need::need(&facts, |at| clock(at, now));
        // The table already shows until when an agent is parked.
        let need = need.filter(|need| row.live && need.kind != NeedKind::Limit);
        // For a pending handoff, show since when and why.
        let need = need.filter(|need| need.kind != NeedKind::Handoff || row.pending.is_none());
        let words = need.map(|need| plain_line(&redact(&plain(&need.text)).text, 300));
        Some(format!("{}: {}", row.agent.id, words.or_else(|| row.pending.clone())?))
    };
    rows.iter().filter_map(of).collect()
}

/// The columns of every table of agents, and the order in which a narrow terminal drops them.
pub(super) const HEAD: &[(&str, u8)] = &[
    ("AGENT", 0),
    ("STATE", 0),
    ("LEVEL", 2),
    ("CONTEXT", 0),
    ("LEFT", 3),
    ("TURNS", 7),
    ("MAIL", 1),
    ("BY", 6),
    ("PROJECT", 8),
    ("PANE", 5),
    ("HANDOFF", 4),
];

pub(super) struct Row {
    agent: Agent,
    session: Option<Session>,
    gauge: Gauge,
    point: Option<CompactionPoint>,
    /// Its newest handoff and that one's state; `None` if it cannot be found.
    handoff: Option<(HandoffId, Option<Status>)>,
    mail: usize,
    companion: CompanionState,
    actuator: Option<Actuator>,
    live: bool,
    pending: Option<String>,
}

impl Row {
    pub(super) fn of(app: &App, agent: Agent) -> Self {
        let store = app.store();
        let session = agent.session.as_ref().and_then(|id| store.sessions().readable(id));
        let mut session = session.map(|session| pending::caught_up(&store, session));
        if let Some(asked) = session.as_mut().and_then(|s| s.asked.as_mut()) {
            // The record has it unredacted.
            *asked = redact(&plain(asked)).text.into_owned();
        }
        let gauge = session.as_ref().map(|s| store.sessions().gauge(&s.id)).unwrap_or_default();
        let point = session.as_ref().zip(gauge.reading).map(|(s, reading)| {
            let model = gauge.model.as_deref().or(s.model.as_deref());
            let seen = store.compactions().observations();
            compaction_point(model, reading.window, &s.compaction, s.compacts_at, &seen)
        });
        let rotation = agent.rotation.as_ref().map(|rotation| &rotation.handoff);
        let handoff = rotation.or(agent.last_handoff.as_ref()).map(|id| {
            let entry = store.handoffs(&app.resolved.config).entry(&agent.channel, id);
            (id.clone(), entry.unwrap_or(None).map(|entry| entry.status))
        });
        let mail = Mail::of(&store).waiting(&agent.id);
        let presence = store.presence(&agent);
        let (companion, actuator) = (presence.companion(), presence.actuator());
        let live = presence.is_there();
        let pending =
            session.as_ref().filter(|_| live).and_then(|s| pending::text(&store, &agent, s, Audience::User));
        Self { agent, session, gauge, point, handoff, mail, companion, actuator, live, pending }
    }

    pub(super) fn agent(&self) -> &Agent {
        &self.agent
    }

    pub(super) fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Whether its client ended unexpectedly.
    pub(super) fn has_died(&self) -> bool {
        let ended = self.agent.ended.is_some() || self.session.as_ref().is_some_and(|s| s.ended.is_some());
        !self.live && !ended && self.agent.process.is_some()
    }

    fn left(&self) -> Option<u64> {
        self.point.zip(self.gauge.reading).map(|(point, reading)| point.distance(reading.total()))
    }

    fn turns_left(&self) -> Option<u64> {
        self.session.as_ref()?.turn_ends.turns_left(self.left()?)
    }

    pub(super) fn state(&self) -> AgentState {
        let rotating = self.agent.rotation.is_some() && self.actuator.is_some();
        AgentState::of(&self.agent, self.session.as_ref(), self.live, rotating)
    }

    /// Whether it ended so long ago that it is listed only on request.
    pub(super) fn is_history(&self, now: Timestamp) -> bool {
        let since = over_since(&self.agent, self.session.as_ref());
        self.state().is_over() && now.duration_since(since) > LISTED
    }

    /// Who gives this agent a fresh context.
    fn actuator(&self) -> &'static str {
        match (self.actuator, &self.companion) {
            _ if !self.live => "",
            (Some(actuator), _) => actuator.as_str(),
            (None, _) if self.session.as_ref().is_some_and(|s| s.opens_window) => Actuator::Window.as_str(),
            (None, CompanionState::Never | CompanionState::Live(_)) => "you",
            (None, broken) => broken.word(),
        }
    }

    /// A problem with its companion, if it had one.
    fn trouble(&self) -> Option<String> {
        let what = match &self.companion {
            _ if !self.live => return None,
            CompanionState::Silent(_) => "does not answer",
            CompanionState::Gone(_) => "has ended",
            CompanionState::Live(_) | CompanionState::Never => return None,
        };
        Some(format!(
            "{}: its companion {what}; `/reload-plugins` in the client starts it again, `/clear` continues by hand",
            self.agent.id
        ))
    }

    /// Its state, and for how long if known.
    fn state_words(&self, paint: Paint) -> String {
        let state = self.state();
        let parked = self.session.as_ref().and_then(Session::parked).filter(|_| state == AgentState::Limit);
        let now = Timestamp::now();
        let words = match parked {
            Some(parked) => {
                let until = clock(parked.until, now);
                Halt::Limit(Some(LimitEnd::of(&parked, &until))).words(Audience::User)
            }
            None => state.as_str().to_owned(),
        };
        match state {
            AgentState::Blocked | AgentState::Limit => paint.yellow(&words),
            AgentState::Error => paint.red(&words),
            AgentState::Working => paint.green(&words),
            AgentState::HandingOver => paint.cyan(&words),
            AgentState::Done => paint.bold(&words),
            _ if self.agent.waits.is_some() && self.live => paint.yellow(&words),
            AgentState::Idle | AgentState::Ended | AgentState::Retired => paint.dim(&words),
        }
    }

    /// One line of a tree: name, role, state, level, and its final words.
    pub(super) fn tree_line(&self, branch: &str, paint: Paint) -> String {
        let role = self.agent.role.as_deref().map(|role| format!(" ({})", plain_line(role, 40)));
        let mut parts = vec![self.state_words(paint)];
        parts.extend(self.gauge.reading.filter(|_| self.live).map(|r| format!("{}%", r.percentage())));
        parts.extend((self.mail > 0).then(|| format!("{} waiting", self.mail)));
        let session = self.session.as_ref().filter(|_| self.live);
        let said = session.and_then(|s| s.done.as_ref()).map(|done| done.text.as_str());
        let blocked = session.and_then(|s| s.blocked_on.as_deref());
        parts.extend(said.or(blocked).filter(|t| !t.is_empty()).map(|text| plain_line(text, 60)));
        format!("{branch}{}{}  {}\n", self.agent.id, role.unwrap_or_default(), parts.join(" · "))
    }

    /// One row under `HEAD`, with the branch of the tree before its name.
    pub(super) fn cells(&self, branch: &str, paint: Paint) -> Vec<String> {
        let dash = || "–".to_owned();
        let context = self.gauge.reading.map_or_else(dash, |r| {
            format!("{}% ({} of {})", r.percentage(), tokens(r.tokens), tokens(r.window))
        });
        let handoff = match &self.handoff {
            Some((id, Some(Status::Active) | None)) if self.agent.rotation.is_some() => {
                paint.yellow(&format!("{id} waits"))
            }
            Some((id, Some(status))) => format!("{id} {}", status.as_str()),
            Some((id, None)) => id.to_string(),
            None => String::new(),
        };
        let name = format!("{branch}{}", self.agent.id);
        let words = self.gauge.level.words();
        let level = match self.gauge.level {
            _ if self.gauge.reading.is_none() => dash(),
            Level::Ok => words.to_owned(),
            Level::EarlyWarn => paint.cyan(words),
            Level::Warn => paint.yellow(words),
            Level::Critical => paint.red(words),
        };
        let pane = self.agent.pane.as_ref().filter(|_| self.live);
        vec![
            name,
            self.state_words(paint),
            level,
            context,
            self.left().map_or_else(dash, tokens),
            self.turns_left().map_or_else(dash, |n| format!("~{n}")),
            if self.mail == 0 { String::new() } else { self.mail.to_string() },
            self.actuator().to_owned(),
            self.project(),
            pane.map(|pane| pane.id.clone()).unwrap_or_default(),
            handoff,
        ]
    }

    /// The name of its working folder.
    fn project(&self) -> String {
        let name = Path::new(&self.agent.cwd).file_name();
        name.map_or_else(String::new, |name| plain_line(&name.to_string_lossy(), 40))
    }

    pub(super) fn json(&self) -> serde_json::Value {
        json!({
            "agent": self.agent,
            "state": self.state().as_str(),
            "level": self.gauge.level,
            "reading": self.gauge.reading,
            "percentage": self.gauge.reading.map(|r| r.percentage()),
            "model": self.gauge.model,
            "compaction": self.point,
            "left": self.left(),
            "turns_left": self.turns_left(),
            "mail": self.mail,
            "handoff": self.handoff.as_ref().map(|(id, status)| json!({ "id": id, "status": status })),
            "actuator": self.actuator(),
            "pending": self.pending,
            "session": self.session,
        })
    }
}

/// Thresholds beyond the compaction point of one of these agents.
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
