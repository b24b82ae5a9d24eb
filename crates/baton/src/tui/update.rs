//! Updates the model: an event in, a changed model and its effects out.

use baton_core::transcript::pages::ConversationPage;
use crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use jiff::Timestamp;
use ratatui_core::layout::{Position, Rect};
use serde_json::Value;

use crate::fleet::roll::FleetView;
use crate::store::log::LogLine;
use crate::tui::dialogs::typed;
use crate::tui::keys::{AgentAction, attach, shown, words};
use crate::tui::model::{Detail, Link, Mode, Model, SpawnForm, StateFilter, Tab, TextInput, is_over};
use crate::tui::render;
use crate::views::agent::AgentView;
use crate::views::chain::ChainView;
use crate::views::draft::DraftView;
use crate::views::levels::LevelsView;

/// An event that the screen reacts to.
#[derive(Debug)]
pub(crate) enum ScreenEvent {
    Key(KeyEvent),
    Mouse(MouseEvent),
    Paste(String),
    Resize(u16, u16),
    /// The time that [`Model::next_tick`] gave has passed.
    Tick,
    Link(Link),
    Agents(Vec<AgentView>),
    /// The other machines.
    Fleet(FleetView),
    Agent(Box<AgentView>),
    Gone(String),
    /// The log grew.
    Logged(Box<LogLine>),
    Read {
        agent: String,
        view: DetailData,
    },
    Approvals(Vec<Value>),
    /// A command has ended.
    Ran {
        command: Vec<String>,
        ok: bool,
        said: String,
    },
}

/// Data that was read for the right side.
#[derive(Debug)]
pub(crate) enum DetailData {
    Conversation(Result<ConversationPage, String>),
    Draft(Result<DraftView, String>),
    Chain(Result<ChainView, String>),
    Mail(Result<Vec<Value>, String>),
    Log(Result<Vec<LogLine>, String>),
    Levels(Result<LevelsView, String>),
}

/// Data to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Want {
    Conversation,
    Draft,
    Chain,
    Mail,
    Log,
    Levels,
    Approvals,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScreenEffect {
    Read(Want, String),
    /// Runs one of our commands in the background.
    Run(Vec<String>),
    /// Runs a command that takes over the terminal until it ends.
    Foreground(Vec<String>),
    /// Opens the user's editor for a message to this agent, with the text so far.
    Edit {
        agent: String,
        text: String,
    },
    /// Copies a text to the clipboard.
    Copy(String),
    Suspend,
    Quit,
}

impl Model {
    /// Updates the model. Nothing is carried out here: the effects are returned.
    pub(crate) fn update(&mut self, event: ScreenEvent, now: Timestamp) -> Vec<ScreenEffect> {
        self.now = now;
        match event {
            ScreenEvent::Key(key) if key.kind != KeyEventKind::Release => return self.key(key),
            ScreenEvent::Key(_) | ScreenEvent::Tick => {}
            ScreenEvent::Mouse(mouse) => return self.mouse(mouse),
            ScreenEvent::Paste(text) => self.paste(&text),
            ScreenEvent::Resize(width, height) => {
                (self.width, self.height) = (width, height);
                self.keep_in_sight();
            }
            ScreenEvent::Link(link) => self.link = link,
            ScreenEvent::Agents(agents) => {
                self.agents = agents.into_iter().map(|agent| (agent.id.clone(), agent)).collect();
                self.arrange();
                return self.read_all();
            }
            ScreenEvent::Fleet(fleet) => {
                self.fleet = fleet;
                self.keep_in_sight();
            }
            ScreenEvent::Agent(agent) => return self.changed(*agent),
            ScreenEvent::Gone(id) => {
                self.agents.remove(&id);
                self.arrange();
            }
            ScreenEvent::Logged(line) => return self.logged(&line),
            ScreenEvent::Read { agent, view } => self.read(&agent, view),
            ScreenEvent::Approvals(approvals) => self.approvals = approvals,
            ScreenEvent::Ran { command, ok, said } => {
                let first = said.lines().next().unwrap_or_default();
                let command = shown(&command);
                // Show the reason first: the person has just given the command, which may be long.
                let text = if ok {
                    format!("{command} · {first}")
                } else {
                    format!("{} · {command}", first.trim_start_matches("baton: "))
                };
                self.status = Some((text, !ok));
                return self.read_all();
            }
        }
        Vec::new()
    }

    /// Requests everything that the right side shows now.
    fn read_all(&self) -> Vec<ScreenEffect> {
        let Some(id) = self.selected.clone() else {
            return vec![ScreenEffect::Read(Want::Approvals, String::new())];
        };
        let mut effects = vec![ScreenEffect::Read(Want::Approvals, String::new())];
        if self.is_wide() || self.open {
            effects.push(ScreenEffect::Read(Want::Levels, id.clone()));
        }
        effects.extend(self.read_tab(id));
        effects
    }

    fn read_tab(&self, id: String) -> Option<ScreenEffect> {
        let want = match self.tab {
            Tab::Now => Want::Conversation,
            Tab::Handoff => Want::Draft,
            Tab::Chain => Want::Chain,
            Tab::Mail => Want::Mail,
            Tab::Log => Want::Log,
            Tab::Approvals => return None,
        };
        (self.is_wide() || self.open).then_some(ScreenEffect::Read(want, id))
    }

    fn changed(&mut self, agent: AgentView) -> Vec<ScreenEffect> {
        let id = agent.id.clone();
        let before = self.agents.insert(id.clone(), agent);
        let asks = |agent: Option<&AgentView>| agent.and_then(|a| a.needs.clone());
        let asked = asks(before.as_ref()) != asks(self.agents.get(&id));
        // A reading alone does not change the order of the list.
        let place =
            |a: &AgentView| (a.needs.clone(), a.parent.clone(), is_over(a), a.state.clone(), a.words.clone());
        if before.as_ref().map(place) != self.agents.get(&id).map(place) {
            self.arrange();
        }
        let mut effects = Vec::new();
        if asked {
            effects.push(ScreenEffect::Read(Want::Approvals, String::new()));
        }
        if self.selected.as_ref() == Some(&id) && (self.is_wide() || self.open) {
            effects.push(ScreenEffect::Read(Want::Levels, id));
        }
        effects
    }

    fn logged(&mut self, line: &LogLine) -> Vec<ScreenEffect> {
        if let Some(text) = render::story(line) {
            self.status = Some((text, false));
        }
        let about = line.agent.as_ref().map(ToString::to_string);
        if about.is_none() || about != self.selected {
            return Vec::new();
        }
        // A draft reads the whole transcript, so refresh it only when a turn has ended.
        if self.tab == Tab::Handoff && line.event != "stop" {
            return Vec::new();
        }
        self.read_tab(about.unwrap_or_default()).into_iter().collect()
    }

    fn read(&mut self, agent: &str, view: DetailData) {
        if self.selected.as_deref() != Some(agent) {
            return;
        }
        let detail = &mut self.detail;
        match view {
            DetailData::Conversation(page) => detail.conversation = Some(page),
            DetailData::Draft(draft) => detail.draft = Some(draft),
            DetailData::Chain(chain) => detail.chain = Some(chain),
            DetailData::Mail(mail) => detail.mail = Some(mail),
            DetailData::Log(log) => detail.log = Some(log),
            DetailData::Levels(levels) => detail.levels = Some(levels),
        }
    }

    fn select(&mut self, at: usize) -> Vec<ScreenEffect> {
        let Some(row) = self.rows.get(at.min(self.rows.len().saturating_sub(1))) else { return Vec::new() };
        if self.selected.as_ref() != Some(&row.id) {
            self.selected = Some(row.id.clone());
            (self.detail, self.scroll) = (Detail::default(), 0);
        }
        self.keep_in_sight();
        self.read_all()
    }

    fn step(&mut self, by: isize) -> Vec<ScreenEffect> {
        let at = self.position().unwrap_or(0).saturating_add_signed(by);
        self.select(at)
    }

    fn show(&mut self, tab: Tab) -> Vec<ScreenEffect> {
        (self.tab, self.scroll) = (tab, 0);
        self.read_all()
    }

    fn turn_tab(&mut self, by: usize) -> Vec<ScreenEffect> {
        let at = Tab::ALL.iter().position(|tab| *tab == self.tab).unwrap_or(0);
        self.show(Tab::ALL[(at + by) % Tab::ALL.len()])
    }

    /// Scrolls the right side. If the tab ends with the newest entry, up moves away from it.
    fn scroll(&mut self, up: bool, by: usize) {
        let away = up == self.tab.ends_with_the_newest();
        let most = render::detail_lines(self);
        self.scroll = if away { (self.scroll + by).min(most) } else { self.scroll.saturating_sub(by) };
    }

    fn key(&mut self, key: KeyEvent) -> Vec<ScreenEffect> {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        if ctrl && key.code == KeyCode::Char('z') {
            return vec![ScreenEffect::Suspend];
        }
        if ctrl && key.code == KeyCode::Char('c') {
            if self.mode == Mode::Browse {
                return vec![ScreenEffect::Quit];
            }
            self.mode = Mode::Browse;
            return Vec::new();
        }
        match std::mem::replace(&mut self.mode, Mode::Browse) {
            Mode::Browse => self.browse(key, ctrl),
            Mode::Find => self.find(key),
            Mode::Help(from) => self.help(from, key),
            Mode::Send(input) => self.write(input, key, ctrl),
            Mode::Decide { request, answers } => self.decide(request, answers, key),
            Mode::Deny { request, reason } => self.deny(request, reason, key),
            Mode::Answer { request, answers, text } => self.answer(request, answers, text, key),
            Mode::Reply { question, text } => self.reply(question, text, key),
            Mode::Confirm { question, command } => self.confirm(question, command, key),
            Mode::Spawn(form) => self.fill(form, key),
        }
    }

    fn browse(&mut self, key: KeyEvent, ctrl: bool) -> Vec<ScreenEffect> {
        let page = isize::try_from(self.areas().rows().max(2) - 1).unwrap_or(1);
        let tall = usize::from(self.height / 2);
        match key.code {
            KeyCode::Char('q') => return vec![ScreenEffect::Quit],
            KeyCode::Char('u') if ctrl => self.scroll(true, tall),
            KeyCode::Char('d') if ctrl => self.scroll(false, tall),
            KeyCode::Char('l') if ctrl => return self.read_all(),
            KeyCode::Char(_) if ctrl => {}
            KeyCode::Down | KeyCode::Char('j') if self.is_wide() || !self.open => return self.step(1),
            KeyCode::Up | KeyCode::Char('k') if self.is_wide() || !self.open => return self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll(false, 1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll(true, 1),
            KeyCode::Char('J') => self.scroll(false, 3),
            KeyCode::Char('K') => self.scroll(true, 3),
            KeyCode::PageDown if self.is_wide() || self.open => self.scroll(false, tall),
            KeyCode::PageUp if self.is_wide() || self.open => self.scroll(true, tall),
            KeyCode::PageDown => return self.step(page),
            KeyCode::PageUp => return self.step(-page),
            KeyCode::Home | KeyCode::Char('g') => return self.select(0),
            KeyCode::End | KeyCode::Char('G') => return self.select(usize::MAX),
            KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => return self.turn_tab(1),
            KeyCode::BackTab | KeyCode::Left | KeyCode::Char('h') => {
                return self.turn_tab(Tab::ALL.len() - 1);
            }
            KeyCode::Char(digit @ '1'..='6') => {
                return self.show(Tab::ALL[usize::from(digit as u8 - b'1')]);
            }
            KeyCode::Char('/') => self.mode = Mode::Find,
            KeyCode::Char('f') => return self.next_state(),
            KeyCode::Char('p') => return self.next_project(),
            KeyCode::Char('?') => self.mode = Mode::Help(0),
            KeyCode::Esc if self.open => {
                self.open = false;
                self.keep_in_sight();
            }
            KeyCode::Esc if self.filter.is_on() => {
                self.filter = crate::tui::model::Filter::default();
                self.arrange();
            }
            KeyCode::Esc => self.status = None,
            KeyCode::Enter if !self.is_wide() && !self.open => {
                self.open = true;
                return self.read_all();
            }
            KeyCode::Enter => return self.act(AgentAction::Attach),
            KeyCode::Char(c) => {
                let key = c.to_string();
                if let Some(action) = AgentAction::ALL.into_iter().find(|action| action.key() == key) {
                    return self.act(action);
                }
            }
            _ => {}
        }
        Vec::new()
    }

    fn act(&mut self, action: AgentAction) -> Vec<ScreenEffect> {
        if action == AgentAction::Spawn {
            let mut form = SpawnForm::default();
            form.fields[2].text = self.agent().map_or_else(|| self.cwd.clone(), |agent| agent.cwd.clone());
            self.mode = Mode::Spawn(form);
            return Vec::new();
        }
        let Some(agent) = self.agent().cloned() else {
            self.status = Some(("There is no agent to do that to; n starts one".to_owned(), true));
            return Vec::new();
        };
        let confirm =
            |question: String, command: &[&str]| Mode::Confirm { question, command: words(command) };
        match action {
            AgentAction::Attach => return vec![ScreenEffect::Foreground(attach(&agent))],
            AgentAction::Send => self.mode = Mode::Send(TextInput::default()),
            AgentAction::Approve => match (self.request().cloned(), agent.question) {
                (Some(request), _) => self.mode = Mode::Decide { request, answers: Vec::new() },
                (None, Some(question)) => self.mode = Mode::Reply { question, text: TextInput::default() },
                (None, None) if agent.needs.as_ref().is_some_and(|need| need.kind.is_request()) => {
                    self.status = Some(("reading what it asks for; press a again".to_owned(), false));
                    return vec![ScreenEffect::Read(Want::Approvals, String::new())];
                }
                (None, None) => self.status = Some((format!("{} asks for nothing here", agent.id), true)),
            },
            AgentAction::Deny => match self.request().cloned() {
                Some(request) => self.mode = Mode::Deny { request, reason: TextInput::default() },
                None => self.status = Some((format!("{} asks for nothing here", agent.id), true)),
            },
            AgentAction::Rotate => {
                let question = format!("Seal a handoff of {} and give it a fresh context?", agent.id);
                self.mode = confirm(question, &["rotate", &agent.id]);
            }
            AgentAction::Undo => match &agent.undo_to {
                Some(session) => {
                    let short: String = session.chars().take(8).collect();
                    let question =
                        format!("Take {} back to its conversation {short}, before the rotation?", agent.id);
                    self.mode = confirm(question, &["undo", &agent.id]);
                }
                None => self.status = Some((format!("There is no rotation of {} to undo", agent.id), true)),
            },
            AgentAction::Retire => {
                let question = format!("Stop {} for good? Its conversation stays.", agent.id);
                self.mode = confirm(question, &["retire", &agent.id]);
            }
            AgentAction::Cancel if agent.pending.is_none() && agent.rotation.is_none() => {
                self.status = Some((format!("No handoff of {} is pending", agent.id), true));
            }
            AgentAction::Cancel => {
                return vec![ScreenEffect::Run(words(&["handoff", "--cancel", "--of", &agent.id]))];
            }
            AgentAction::Diff => return self.show(Tab::Handoff),
            AgentAction::Copy => {
                let ids = [agent.transcript_path, agent.session];
                let text = ids.into_iter().flatten().next().unwrap_or(agent.id);
                self.status = Some((format!("copied {text}"), false));
                return vec![ScreenEffect::Copy(text)];
            }
            AgentAction::Spawn => {}
        }
        Vec::new()
    }

    fn next_state(&mut self) -> Vec<ScreenEffect> {
        let at = StateFilter::ALL.iter().position(|state| *state == self.filter.state).unwrap_or(0);
        self.filter.state = StateFilter::ALL[(at + 1) % StateFilter::ALL.len()];
        self.arrange();
        self.read_all()
    }

    fn next_project(&mut self) -> Vec<ScreenEffect> {
        let mut projects: Vec<&String> = self.agents.values().map(|agent| &agent.project).collect();
        projects.sort();
        projects.dedup();
        let next = match &self.filter.project {
            None => projects.first().copied(),
            Some(project) => projects.iter().find(|p| **p > project).copied(),
        };
        self.filter.project = next.cloned();
        self.arrange();
        self.read_all()
    }

    fn find(&mut self, key: KeyEvent) -> Vec<ScreenEffect> {
        match key.code {
            KeyCode::Enter => return self.read_all(),
            KeyCode::Esc => self.filter.text.clear(),
            _ => {
                typed(&mut self.filter.text, key);
                self.mode = Mode::Find;
            }
        }
        self.arrange();
        self.read_all()
    }

    fn mouse(&mut self, mouse: MouseEvent) -> Vec<ScreenEffect> {
        let at = Position::new(mouse.column, mouse.row);
        let areas = self.areas();
        if self.mode != Mode::Browse {
            return Vec::new();
        }
        match mouse.kind {
            MouseEventKind::ScrollUp | MouseEventKind::ScrollDown => {
                let up = mouse.kind == MouseEventKind::ScrollUp;
                if areas.list.contains(at) {
                    return self.step(if up { -1 } else { 1 });
                }
                self.scroll(up, 3);
            }
            MouseEventKind::Down(MouseButton::Left) if areas.list.contains(at) => {
                let Some(row) = at.y.checked_sub(areas.list.y + 1).filter(|row| *row < areas.rows()) else {
                    return Vec::new();
                };
                let Some(&n) = self.visible_rows().get(usize::from(row)) else { return Vec::new() };
                if !self.is_wide() && self.position() == Some(n) {
                    self.open = true;
                }
                return self.select(n);
            }
            MouseEventKind::Down(MouseButton::Left) if at.y == areas.detail.y && areas.detail.width > 0 => {
                if let Some(tab) = render::tab_at(self, areas.detail, at.x) {
                    return self.show(tab);
                }
            }
            MouseEventKind::Down(MouseButton::Left) if areas.needs.contains(at) => {
                let id = self
                    .others_needing()
                    .get(usize::from(at.y - areas.needs.y))
                    .map(|agent| agent.id.clone());
                if let Some(n) = id.and_then(|id| self.rows.iter().position(|row| row.id == id)) {
                    return self.select(n);
                }
            }
            _ => {}
        }
        Vec::new()
    }
}

/// The area inside a frame.
pub(crate) fn inside(area: Rect) -> Rect {
    Rect::new(
        area.x + u16::from(area.width > 1),
        area.y + u16::from(area.height > 1),
        area.width.saturating_sub(2),
        area.height.saturating_sub(2),
    )
}
