//! Turns a person's answer into what the client accepts.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::approval::{Question, Request};
use crate::ids::AgentId;

/// The hash of a request's record. People see its beginning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RequestId(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a request; `baton approvals` lists what waits")]
pub struct NotARequest(pub String);

impl RequestId {
    const LEN: usize = 64;
    /// How many characters people see and type.
    const SHORT: usize = 8;

    pub fn new(hash: impl Into<String>) -> Result<Self, NotARequest> {
        let hash = hash.into();
        let is_hex = hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if hash.len() == Self::LEN && is_hex { Ok(Self(hash)) } else { Err(NotARequest(hash)) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn short(&self) -> &str {
        &self.0[..Self::SHORT]
    }

    /// How many characters of an id must be given to refer to it.
    pub const LEAST: usize = 4;

    /// Whether `text` is a long enough prefix of this id.
    pub fn is_meant_by(&self, text: &str) -> bool {
        text.len() >= Self::LEAST && self.0.starts_with(text)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(d)?).map_err(serde::de::Error::custom)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAnswer {
    #[error("this is not a question; approve or deny it")]
    NoQuestion,
    #[error("there are {asked} questions and {given} answers; give one for each")]
    Count { asked: usize, given: usize },
    #[error("{given:?} is none of the {options} options of {question:?}")]
    NoOption { given: String, options: usize, question: String },
    #[error("an answer is empty")]
    Empty,
    #[error("the client offers nothing to remember for {0}; approve it once, or write a rule")]
    NothingToRemember(String),
}

/// The tool input that answers a question: for each question an option, by number or label, or free text.
pub fn answers(request: &Request, given: &[String]) -> Result<Value, BadAnswer> {
    let questions = request.questions();
    if questions.is_empty() {
        return Err(BadAnswer::NoQuestion);
    }
    if questions.len() != given.len() {
        return Err(BadAnswer::Count { asked: questions.len(), given: given.len() });
    }
    let mut answers = Map::new();
    for (question, given) in questions.iter().zip(given) {
        answers.insert(question.question.clone(), Value::String(choice(question, given)?));
    }
    let mut input = request.input.clone();
    input["answers"] = Value::Object(answers);
    Ok(input)
}

/// Suffix of an answer that an agent gave in the user's place; the only trace of its author.
const ANSWERED_BY: &str = " (answered by the agent ";

/// Marks every answer in the input as given by that agent.
pub fn attributed(mut input: Value, agent: &AgentId) -> Value {
    if let Some(answers) = input.get_mut("answers").and_then(Value::as_object_mut) {
        for answer in answers.values_mut() {
            *answer = json!(format!("{}{ANSWERED_BY}{agent})", answer.as_str().unwrap_or_default()));
        }
    }
    input
}

/// The agent that gave this answer, if it was not the user.
pub fn answered_by(answer: &str) -> Option<&str> {
    let (_, agent) = answer.trim_end().strip_suffix(')')?.rsplit_once(ANSWERED_BY)?;
    AgentId::new(agent).is_ok().then_some(agent)
}

/// A number or a label (in any case) selects that option; anything else is free text.
fn choice(question: &Question, given: &str) -> Result<String, BadAnswer> {
    let given = given.trim();
    if given.is_empty() {
        return Err(BadAnswer::Empty);
    }
    let pieces: Vec<&str> =
        if question.multiple { given.split(',').map(str::trim).collect() } else { vec![given] };
    let labels: Option<Vec<String>> = pieces.iter().map(|piece| label(question, piece)).collect();
    if let Some(labels) = labels {
        return Ok(labels.join(", "));
    }
    // A number out of range is a typo, not free text.
    if !question.options.is_empty() && given.bytes().all(|b| b.is_ascii_digit()) {
        let (options, question) = (question.options.len(), question.question.clone());
        return Err(BadAnswer::NoOption { given: given.to_owned(), options, question });
    }
    Ok(given.to_owned())
}

fn label(question: &Question, piece: &str) -> Option<String> {
    let by_label = || question.options.iter().find(|(label, _)| label.eq_ignore_ascii_case(piece));
    let by_number = || question.options.get(piece.parse::<usize>().ok()?.checked_sub(1)?);
    by_label().or_else(by_number).map(|(label, _)| label.clone())
}

/// How long a permission lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grant {
    #[default]
    Once,
    /// Until the client's session ends.
    Session,
    /// As the client's dialog would remember it.
    Always,
}

/// The permissions that go with an allow: the client's own suggestions, or a rule for exactly this command if it has
/// none.
pub fn granted(request: &Request, grant: Grant) -> Result<Vec<Value>, BadAnswer> {
    if grant == Grant::Once {
        return Ok(Vec::new());
    }
    let mut offered: Vec<Value> = request.suggestions.iter().filter(|s| s.is_object()).cloned().collect();
    if offered.is_empty() {
        let command = request.input.get("command").and_then(Value::as_str);
        let command = command.ok_or_else(|| BadAnswer::NothingToRemember(request.tool.clone()))?;
        let rule = json!({ "toolName": request.tool, "ruleContent": command });
        offered.push(json!({
            "type": "addRules", "rules": [rule], "behavior": "allow", "destination": "localSettings",
        }));
    }
    if grant == Grant::Session {
        for suggestion in &mut offered {
            suggestion["destination"] = json!("session");
        }
    }
    Ok(offered)
}
