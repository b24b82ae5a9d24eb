//! Keys while a box is open: a message, an answer, a reason, a confirmation, the fields of a form.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;

use crate::tui::keys::{shown, words};
use crate::tui::model::{Mode, Model, SpawnForm, TextInput};
use crate::tui::render::overlay;
use crate::tui::update::ScreenEffect;
use crate::views::agent::QuestionView;

impl Model {
    /// Scrolls the help if it does not fit; every other key closes it.
    pub(super) fn help(&mut self, from: usize, key: KeyEvent) -> Vec<ScreenEffect> {
        self.mode = Mode::Help(from);
        let most = overlay::hidden_help(self);
        match key.code {
            KeyCode::Char(' ' | 'j') | KeyCode::Down | KeyCode::PageDown if from < most => {
                self.mode = Mode::Help((from + 5).min(most));
            }
            KeyCode::Char('k') | KeyCode::Up | KeyCode::PageUp if from > 0 => {
                self.mode = Mode::Help(from.saturating_sub(5));
            }
            _ => self.mode = Mode::Browse,
        }
        Vec::new()
    }

    pub(super) fn write(&mut self, mut input: TextInput, key: KeyEvent, ctrl: bool) -> Vec<ScreenEffect> {
        let Some(agent) = self.selected.clone() else { return Vec::new() };
        match key.code {
            KeyCode::Esc => {}
            KeyCode::Char('e') if ctrl => return vec![ScreenEffect::Edit { agent, text: input.text }],
            KeyCode::Enter if input.text.trim().is_empty() => {}
            KeyCode::Enter => return vec![ScreenEffect::Run(words(&["send", &agent, "--", &input.text]))],
            _ => {
                typed(&mut input.text, key);
                self.mode = Mode::Send(input);
            }
        }
        Vec::new()
    }

    pub(super) fn decide(
        &mut self,
        request: Value,
        mut answers: Vec<String>,
        key: KeyEvent,
    ) -> Vec<ScreenEffect> {
        let id = request["id"].as_str().unwrap_or_default().to_owned();
        let questions = request["questions"].as_array().map_or(0, Vec::len);
        match key.code {
            KeyCode::Esc | KeyCode::Char('q') => return Vec::new(),
            KeyCode::Char('d') => {
                self.mode = Mode::Deny { request, reason: TextInput::default() };
                return Vec::new();
            }
            KeyCode::Char(digit @ '1'..='9') if questions > 0 => {
                answers.push(digit.to_string());
                return self.answered(request, answers);
            }
            KeyCode::Char('t') if questions > 0 => {
                self.mode = Mode::Answer { request, answers, text: TextInput::default() };
                return Vec::new();
            }
            KeyCode::Enter | KeyCode::Char('a') if questions == 0 => {
                return vec![ScreenEffect::Run(words(&["approve", &id]))];
            }
            KeyCode::Char('A') if questions == 0 => {
                return vec![ScreenEffect::Run(words(&["approve", &id, "--session"]))];
            }
            _ => {}
        }
        self.mode = Mode::Decide { request, answers };
        Vec::new()
    }

    /// Submits the answers once every question has one.
    fn answered(&mut self, request: Value, answers: Vec<String>) -> Vec<ScreenEffect> {
        if answers.len() < request["questions"].as_array().map_or(0, Vec::len) {
            self.mode = Mode::Decide { request, answers };
            return Vec::new();
        }
        let mut command = words(&["answer", request["id"].as_str().unwrap_or_default(), "--"]);
        command.extend(answers);
        vec![ScreenEffect::Run(command)]
    }

    pub(super) fn answer(
        &mut self,
        request: Value,
        mut answers: Vec<String>,
        mut text: TextInput,
        key: KeyEvent,
    ) -> Vec<ScreenEffect> {
        match key.code {
            // Back to the options.
            KeyCode::Esc => self.mode = Mode::Decide { request, answers },
            KeyCode::Enter if !text.text.trim().is_empty() => {
                answers.push(text.text.trim().to_owned());
                return self.answered(request, answers);
            }
            _ => {
                typed(&mut text.text, key);
                self.mode = Mode::Answer { request, answers, text };
            }
        }
        Vec::new()
    }

    pub(super) fn reply(
        &mut self,
        question: QuestionView,
        mut text: TextInput,
        key: KeyEvent,
    ) -> Vec<ScreenEffect> {
        match key.code {
            KeyCode::Esc => return Vec::new(),
            KeyCode::Enter if !text.text.trim().is_empty() => {
                return vec![ScreenEffect::Run(words(&["reply", &question.id, "--", text.text.trim()]))];
            }
            _ => typed(&mut text.text, key),
        }
        self.mode = Mode::Reply { question, text };
        Vec::new()
    }

    pub(super) fn deny(&mut self, request: Value, mut reason: TextInput, key: KeyEvent) -> Vec<ScreenEffect> {
        match key.code {
            KeyCode::Esc => return Vec::new(),
            KeyCode::Enter if !reason.text.trim().is_empty() => {
                let id = request["id"].as_str().unwrap_or_default();
                return vec![ScreenEffect::Run(words(&["deny", id, "--", reason.text.trim()]))];
            }
            _ => typed(&mut reason.text, key),
        }
        self.mode = Mode::Deny { request, reason };
        Vec::new()
    }

    pub(super) fn confirm(
        &mut self,
        question: String,
        command: Vec<String>,
        key: KeyEvent,
    ) -> Vec<ScreenEffect> {
        match key.code {
            KeyCode::Enter | KeyCode::Char('y') => vec![ScreenEffect::Run(command)],
            KeyCode::Esc | KeyCode::Char('n' | 'q') => Vec::new(),
            _ => {
                self.mode = Mode::Confirm { question, command };
                Vec::new()
            }
        }
    }

    pub(super) fn fill(&mut self, mut form: SpawnForm, key: KeyEvent) -> Vec<ScreenEffect> {
        let last = form.fields.len() - 1;
        match key.code {
            KeyCode::Esc => return Vec::new(),
            KeyCode::Enter if form.at == last || key.modifiers.contains(KeyModifiers::CONTROL) => {
                if !form.fields[0].text.trim().is_empty() {
                    self.status = Some((format!("{} …", shown(&form.command())), false));
                    return vec![ScreenEffect::Run(form.command())];
                }
                form.at = 0;
            }
            KeyCode::Enter | KeyCode::Tab | KeyCode::Down => form.at = (form.at + 1) % form.fields.len(),
            KeyCode::BackTab | KeyCode::Up => form.at = form.at.checked_sub(1).unwrap_or(last),
            _ => typed(&mut form.fields[form.at].text, key),
        }
        self.mode = Mode::Spawn(form);
        Vec::new()
    }

    pub(super) fn paste(&mut self, text: &str) {
        let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        match &mut self.mode {
            Mode::Find => self.filter.text.push_str(&line),
            // A message may have several lines.
            Mode::Send(input) => {
                input.text.extend(text.chars().map(|c| if c == '\r' { '\n' } else { c }));
            }
            Mode::Deny { reason: text, .. } | Mode::Answer { text, .. } | Mode::Reply { text, .. } => {
                text.text.push_str(&line);
            }
            Mode::Spawn(form) => form.fields[form.at].text.push_str(&line),
            Mode::Browse | Mode::Help(_) | Mode::Decide { .. } | Mode::Confirm { .. } => {}
        }
    }
}

/// Applies a key to a line of text.
pub(super) fn typed(text: &mut String, key: KeyEvent) {
    match key.code {
        KeyCode::Backspace if key.modifiers.contains(KeyModifiers::ALT) => {
            let end = text.trim_end().rfind(' ').map_or(0, |at| at + 1);
            text.truncate(end);
        }
        KeyCode::Backspace => drop(text.pop()),
        KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => text.clear(),
        KeyCode::Char('w') if key.modifiers.contains(KeyModifiers::CONTROL) => {
            let end = text.trim_end().rfind(' ').map_or(0, |at| at + 1);
            text.truncate(end);
        }
        KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::CONTROL) => text.push(c),
        _ => {}
    }
}
