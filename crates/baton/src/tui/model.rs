//! What the screen shows, as a value. [`super::update`] changes it, [`super::render`] draws it; both are pure.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::transcript::pages::ConversationPage;
use jiff::Timestamp;
use serde_json::Value;

use crate::fleet::roll::FleetView;
use crate::store::log::LogLine;
use crate::tui::tree::{self, TreeRow};
use crate::views::agent::{AgentView, QuestionView};
use crate::views::chain::ChainView;
use crate::views::draft::DraftView;
use crate::views::levels::LevelsView;

/// The tabs of the right side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tab {
    Now,
    Handoff,
    Chain,
    Mail,
    Approvals,
    Log,
}

impl Tab {
    pub(crate) const ALL: [Self; 6] =
        [Self::Now, Self::Handoff, Self::Chain, Self::Mail, Self::Approvals, Self::Log];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Now => "Now",
            Self::Handoff => "Handoff",
            Self::Chain => "Chain",
            Self::Mail => "Mail",
            Self::Approvals => "Approvals",
            Self::Log => "Log",
        }
    }

    /// The newest entry is at the end, so scrolling starts there.
    pub(crate) fn ends_with_the_newest(self) -> bool {
        matches!(self, Self::Now | Self::Mail | Self::Log)
    }
}

/// What the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TerminalStyle {
    pub colour: bool,
    pub unicode: bool,
}

/// Which agents are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Matches the name, the state, the goal or the project.
    pub text: String,
    pub state: StateFilter,
    pub project: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum StateFilter {
    #[default]
    All,
    NeedsYou,
    Working,
    Idle,
    Over,
}

impl StateFilter {
    pub(crate) const ALL: [Self; 5] = [Self::All, Self::NeedsYou, Self::Working, Self::Idle, Self::Over];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::NeedsYou => "who need you",
            Self::Working => "working",
            Self::Idle => "idle",
            Self::Over => "ended",
        }
    }

    fn lets(self, agent: &AgentView) -> bool {
        match self {
            Self::All => true,
            Self::NeedsYou => agent.needs_person(),
            Self::Working => matches!(agent.state.as_str(), "working" | "handing over"),
            Self::Idle => matches!(agent.state.as_str(), "idle" | "done"),
            Self::Over => is_over(agent),
        }
    }
}

pub(crate) fn is_over(agent: &AgentView) -> bool {
    matches!(agent.state.as_str(), "ended" | "retired")
}

impl Filter {
    pub(crate) fn lets(&self, agent: &AgentView) -> bool {
        let found = |text: &str| text.to_lowercase().contains(&self.text.to_lowercase());
        let words = [Some(&agent.id), Some(&agent.words), Some(&agent.project), agent.goal.as_ref()];
        self.state.lets(agent)
            && self.project.as_ref().is_none_or(|project| *project == agent.project)
            && (self.text.is_empty() || words.into_iter().flatten().any(|word| found(word)))
    }

    pub(crate) fn is_on(&self) -> bool {
        *self != Self::default()
    }
}

/// What has been read about the selected agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Detail {
    pub conversation: Option<Result<ConversationPage, String>>,
    pub draft: Option<Result<DraftView, String>>,
    pub chain: Option<Result<ChainView, String>>,
    pub mail: Option<Result<Vec<Value>, String>>,
    pub log: Option<Result<Vec<LogLine>, String>>,
    pub levels: Option<Result<LevelsView, String>>,
}

/// A text that is being typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TextInput {
    pub text: String,
}

/// The fields of the form that starts an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SpawnForm {
    pub fields: [TextInput; 4],
    pub at: usize,
}

impl SpawnForm {
    pub(crate) const NAMES: [&'static str; 4] = ["name", "client", "folder", "prompt"];

    pub(crate) fn command(&self) -> Vec<String> {
        let name = self.fields[0].text.trim();
        let mut words = vec!["spawn".to_owned(), if name.is_empty() { "NAME" } else { name }.to_owned()];
        for (option, field) in ["--provider", "--cwd", "--prompt"].iter().zip(&self.fields[1..]) {
            if !field.text.trim().is_empty() {
                words.extend([(*option).to_owned(), field.text.trim().to_owned()]);
            }
        }
        words
    }
}

/// What the keys currently mean.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Mode {
    Browse,
    Find,
    /// The help, from this line on.
    Help(usize),
    Send(TextInput),
    /// The full request, and the answers so far.
    Decide {
        request: Value,
        answers: Vec<String>,
    },
    Deny {
        request: Value,
        reason: TextInput,
    },
    /// The next answer to a request's questions, in the user's own words.
    Answer {
        request: Value,
        answers: Vec<String>,
        text: TextInput,
    },
    /// The answer to a message that its sender waits for.
    Reply {
        question: QuestionView,
        text: TextInput,
    },
    /// An action that needs confirmation.
    Confirm {
        question: String,
        command: Vec<String>,
    },
    Spawn(SpawnForm),
}

/// Where the figures come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Connecting,
    Daemon,
    /// The daemon has gone; we try to reach it again.
    Lost,
    Files,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Model {
    pub now: Timestamp,
    pub width: u16,
    pub height: u16,
    pub look: TerminalStyle,
    pub link: Link,
    pub agents: BTreeMap<String, AgentView>,
    pub rows: Vec<TreeRow>,
    /// The other machines; none without a fleet.
    pub fleet: FleetView,
    pub approvals: Vec<Value>,
    pub selected: Option<String>,
    /// The first visible row of the list.
    pub top: usize,
    pub filter: Filter,
    pub tab: Tab,
    /// On a small screen: the agent is shown instead of the list.
    pub open: bool,
    /// Lines scrolled away from the tab's usual position.
    pub scroll: usize,
    pub detail: Detail,
    pub mode: Mode,
    /// The last thing that happened, and whether it failed.
    pub status: Option<(String, bool)>,
    /// The folder in which new agents start by default.
    pub cwd: String,
    /// Clients call baton, so they show up by themselves.
    pub is_installed: bool,
}

impl Model {
    pub(crate) fn new(width: u16, height: u16, look: TerminalStyle, link: Link, now: Timestamp) -> Self {
        Self {
            now,
            width,
            height,
            look,
            link,
            agents: BTreeMap::new(),
            rows: Vec::new(),
            fleet: FleetView::default(),
            approvals: Vec::new(),
            selected: None,
            top: 0,
            filter: Filter::default(),
            tab: Tab::Now,
            open: false,
            scroll: 0,
            detail: Detail::default(),
            mode: Mode::Browse,
            status: None,
            cwd: String::new(),
            is_installed: true,
        }
    }

    pub(crate) fn agent(&self) -> Option<&AgentView> {
        self.agents.get(self.selected.as_ref()?)
    }

    /// The row of the selected agent.
    pub(crate) fn position(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.rows.iter().position(|row| row.id == *selected)
    }

    /// The oldest request of the selected agent.
    pub(crate) fn request(&self) -> Option<&Value> {
        let selected = self.selected.as_deref()?;
        self.approvals.iter().find(|request| request["agent"] == selected)
    }

    /// Rebuilds the list. The selection stays if its agent is still listed.
    pub(crate) fn arrange(&mut self) {
        self.rows = tree::rows(&self.agents, &self.filter);
        if self.position().is_none() {
            self.selected = self.rows.first().map(|row| row.id.clone());
            self.detail = Detail::default();
            self.scroll = 0;
        }
        self.keep_in_sight();
    }

    /// Scrolls the list so that the selected row is visible. A list that is not shown stays where it was.
    pub(crate) fn keep_in_sight(&mut self) {
        let visible = usize::from(self.areas().rows());
        if visible == 0 {
            return;
        }
        let pinned = self.pinned();
        let scrolled = visible - pinned;
        if let Some(at) = self.position().filter(|at| *at >= pinned) {
            self.top = self.top.min(at).max((at + 1).saturating_sub(scrolled));
        }
        self.top = self.top.min(self.rows.len().saturating_sub(scrolled)).max(pinned);
    }

    /// How many rows of agents that need a person stay at the top while the list scrolls below: if not all rows fit, at
    /// most half.
    fn pinned(&self) -> usize {
        let visible = usize::from(self.areas().rows());
        if self.rows.len() <= visible {
            return 0;
        }
        let needing = self.rows.iter().take_while(|row| self.needs_person(row)).count();
        needing.min(visible / 2)
    }

    fn needs_person(&self, row: &TreeRow) -> bool {
        self.agents.get(&row.id).is_some_and(AgentView::needs_person)
    }

    /// The rows that the list shows, from above.
    pub(crate) fn visible_rows(&self) -> Vec<usize> {
        let (visible, pinned) = (usize::from(self.areas().rows()), self.pinned());
        let top = self.top.max(pinned);
        (0..pinned).chain(top..self.rows.len()).take(visible).collect()
    }

    /// Messages from agents that the user has not read.
    pub(crate) fn unread(&self) -> usize {
        self.agents.values().map(|agent| agent.unread).sum()
    }

    /// The projects of the agents that have not ended.
    pub(crate) fn projects(&self) -> BTreeSet<&str> {
        let there = self.agents.values().filter(|agent| !is_over(agent));
        there.map(|agent| agent.project.as_str()).collect()
    }

    /// The other agents that need a person, the longest wait first.
    pub(crate) fn others_needing(&self) -> Vec<&AgentView> {
        let mut others: Vec<&AgentView> = self
            .agents
            .values()
            .filter(|agent| agent.needs_person() && Some(&agent.id) != self.selected.as_ref())
            .collect();
        others.sort_by_key(|agent| agent.needs.as_ref().map(|need| need.since));
        others
    }

    pub(crate) fn count_needing(&self) -> usize {
        self.agents.values().filter(|agent| agent.needs_person()).count()
    }

    /// Seconds until something on the screen has to change.
    pub(crate) fn next_tick(&self) -> u64 {
        let rows = self.visible_rows().into_iter();
        let shown = rows.filter_map(|n| self.agents.get(&self.rows[n].id));
        let ages = shown.filter(|agent| !is_over(agent)).filter_map(|agent| {
            let need = agent.needs.as_ref().map(|need| need.since);
            need.or(agent.state_since).map(|since| self.now.duration_since(since).as_secs())
        });
        let soonest =
            ages.map(|age| if age < 60 { 1 } else { 60 - u64::try_from(age % 60).unwrap_or(0) }).min();
        soonest.unwrap_or(60).clamp(1, 60)
    }
}
