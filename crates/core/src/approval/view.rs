//! A request as shown to a person: complete, with nothing hidden.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use crate::approval::{PATCH, PLAN, QUESTION, Request};
use crate::plain::is_unseen;

/// The request in the form that suits its tool.
#[derive(Debug, Clone, PartialEq)]
pub enum View<'a> {
    Command {
        command: &'a str,
        description: Option<&'a str>,
    },
    /// Replacements in one file.
    Edits {
        path: &'a str,
        edits: Vec<Replacement<'a>>,
    },
    Write {
        path: &'a str,
        content: &'a str,
    },
    /// A patch over any number of files, in the client's own format.
    Patch(&'a str),
    Questions(Vec<Question>),
    /// The plan, and the file that the client keeps it in.
    Plan {
        plan: &'a str,
        path: Option<&'a str>,
    },
    Other(&'a Value),
}

/// One replacement in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replacement<'a> {
    pub old: &'a str,
    pub new: &'a str,
    /// Replaces every occurrence, not only one.
    pub everywhere: bool,
}

impl<'a> Replacement<'a> {
    /// `None` if the input has fields that this view would hide.
    fn read(input: &'a Value, more: &[&str]) -> Option<Self> {
        let names = ["old_string", "new_string", "replace_all"];
        let fields = input.as_object()?;
        let is_shown = fields.keys().all(|name| names.contains(&&**name) || more.contains(&&**name));
        let everywhere = match fields.get("replace_all") {
            None => false,
            Some(value) => value.as_bool()?,
        };
        let text = |name: &str| fields.get(name)?.as_str();
        is_shown.then_some(Self { old: text("old_string")?, new: text("new_string")?, everywhere })
    }
}

/// One question with its options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Question {
    pub question: String,
    /// Label and meaning of each.
    pub options: Vec<(String, String)>,
    pub multiple: bool,
}

impl Request {
    pub fn view(&self) -> View<'_> {
        let text = |name: &str| self.input.get(name).and_then(Value::as_str);
        // A field that the view does not show must not slip through.
        let has_only =
            |names: &[&str]| self.input.as_object().is_some_and(|o| o.keys().all(|k| names.contains(&&**k)));
        match self.tool.as_str() {
            QUESTION if self.is_plain_question() => View::Questions(self.questions()),
            PLAN if has_only(&["plan", "planFilePath"]) => match text("plan") {
                Some(plan) => View::Plan { plan, path: text("planFilePath") },
                None => View::Other(&self.input),
            },
            "Bash" if has_only(&["command", "description"]) => match text("command") {
                Some(command) => View::Command { command, description: text("description") },
                None => View::Other(&self.input),
            },
            "Edit" => match (text("file_path"), Replacement::read(&self.input, &["file_path"])) {
                (Some(path), Some(edit)) => View::Edits { path, edits: vec![edit] },
                _ => View::Other(&self.input),
            },
            "MultiEdit" if has_only(&["file_path", "edits"]) => {
                let edits = self.input.get("edits").and_then(Value::as_array);
                let edits =
                    edits.and_then(|edits| edits.iter().map(|edit| Replacement::read(edit, &[])).collect());
                match (text("file_path"), edits) {
                    (Some(path), Some(edits)) => View::Edits { path, edits },
                    _ => View::Other(&self.input),
                }
            }
            PATCH if has_only(&["command"]) => text("command").map_or(View::Other(&self.input), View::Patch),
            "Write" if has_only(&["file_path", "content"]) => match (text("file_path"), text("content")) {
                (Some(path), Some(content)) => View::Write { path, content },
                _ => View::Other(&self.input),
            },
            _ => View::Other(&self.input),
        }
    }

    /// Whether [`Request::questions`] covers the whole input. A header only labels the question's tab in the dialog.
    fn is_plain_question(&self) -> bool {
        let has_only = |value: &Value, names: &[&str]| {
            value.as_object().is_some_and(|fields| fields.keys().all(|name| names.contains(&&**name)))
        };
        let list = |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned();
        let is_plain = |question: &Value| {
            has_only(question, &["question", "header", "options", "multiSelect"])
                && list(question, "options")
                    .is_none_or(|options| options.iter().all(|o| has_only(o, &["label", "description"])))
        };
        !self.questions().is_empty()
            && has_only(&self.input, &["questions"])
            && list(&self.input, "questions").is_some_and(|questions| questions.iter().all(is_plain))
    }

    /// In words, what the client will allow from now on if this is approved for more than one call.
    pub fn grants(&self) -> Vec<String> {
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let rule = |rule: &Value| {
            let tool = text(rule, "toolName")?;
            let has_only =
                rule.as_object()?.keys().all(|name| ["toolName", "ruleContent"].contains(&&**name));
            has_only.then(|| {
                text(rule, "ruleContent").map_or(tool.clone(), |content| format!("{tool}({content})"))
            })
        };
        let grant = |suggestion: &Value| {
            let list = |name: &str| suggestion.get(name).and_then(Value::as_array);
            match text(suggestion, "type")?.as_str() {
                "addRules" => {
                    let rules: Vec<String> = list("rules")?.iter().map(rule).collect::<Option<_>>()?;
                    Some(format!("{} {}", text(suggestion, "behavior")?, rules.join(", ")))
                }
                "setMode" => Some(format!("permission mode {}", text(suggestion, "mode")?)),
                "addDirectories" => {
                    let dirs: Vec<&str> =
                        list("directories")?.iter().map(Value::as_str).collect::<Option<_>>()?;
                    Some(format!("work in {}", dirs.join(", ")))
                }
                _ => None,
            }
        };
        // Show raw JSON for a suggestion that we do not understand.
        let offered = self.suggestions.iter().filter(|suggestion| suggestion.is_object());
        offered.map(|suggestion| grant(suggestion).unwrap_or_else(|| suggestion.to_string())).collect()
    }

    /// Whether this plan cannot be read here: the client passes a plan to its hooks only once it is in a file.
    pub fn is_unseen_plan(&self) -> bool {
        self.tool == PLAN
            && self.input.get("plan").and_then(Value::as_str).is_none_or(|p| p.trim().is_empty())
    }

    /// What it asks for, in words for people; other tools are named.
    pub fn asks_for(&self) -> &str {
        match self.tool.as_str() {
            QUESTION => "an answer",
            PLAN => "approval of its plan",
            tool => tool,
        }
    }

    /// The questions; empty for other tools and for questions that we cannot parse.
    pub fn questions(&self) -> Vec<Question> {
        let questions = self.input.get("questions").and_then(Value::as_array);
        let text = |value: &Value, name: &str| Some(value.get(name)?.as_str()?.to_owned());
        let question = |value: &Value| {
            let options = value.get("options").and_then(Value::as_array).into_iter().flatten();
            let option = |o: &Value| Some((text(o, "label")?, text(o, "description").unwrap_or_default()));
            Some(Question {
                question: text(value, "question")?,
                options: options.filter_map(option).collect(),
                multiple: value.get("multiSelect").and_then(Value::as_bool).unwrap_or(false),
            })
        };
        match questions {
            Some(questions) if self.tool == QUESTION => {
                questions.iter().map(question).collect::<Option<_>>().unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// The subject in a few words: the command, the file, the question.
    pub fn subject(&self) -> String {
        let text = |name: &str| self.input.get(name).and_then(Value::as_str).map(str::to_owned);
        let question = || self.questions().first().map(|q| q.question.clone());
        let known = ["command", "file_path", "notebook_path", "path", "url", "query", "plan", "pattern"];
        question().or_else(|| known.iter().find_map(|name| text(name))).unwrap_or_else(|| {
            if self.input.as_object().is_none_or(serde_json::Map::is_empty) {
                String::new()
            } else {
                self.input.to_string()
            }
        })
    }
}

/// `text` with every invisible character escaped, so that people read exactly what would run. Nothing is cut.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\r' => out.push_str("\\r"),
            '\t' => out.push('\t'),
            _ if is_unseen(c) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out
}
