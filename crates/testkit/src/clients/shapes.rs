//! The shape of a client's payloads: every event, its field paths and their types, without values.
//!
//! `scripts/test-clients` keeps one file per version, with lines `event path type`, so that two versions can be
//! compared line by line.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// Tool data has no fixed shape.
const OPAQUE: &[&str] = &["tool_input", "tool_response", "tool_calls", "permission_suggestions"];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shapes(BTreeMap<(String, String), BTreeSet<&'static str>>);

impl Shapes {
    /// Adds one payload. A field counts even if it is only sometimes there.
    pub fn add(&mut self, event: &str, payload: &Value) {
        let fields = payload.as_object().into_iter().flatten();
        for (name, value) in fields {
            self.walk(event, name, value);
        }
    }

    fn walk(&mut self, event: &str, path: &str, value: &Value) {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "list",
            Value::Object(_) => "object",
        };
        self.0.entry((event.to_owned(), path.to_owned())).or_default().insert(kind);
        if OPAQUE.contains(&path) {
            return;
        }
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    self.walk(event, &format!("{path}.{name}"), value);
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.walk(event, &format!("{path}[]"), item);
                }
            }
            _ => {}
        }
    }

    /// One line per field, sorted.
    pub fn lines(&self) -> String {
        let mut text = String::new();
        for ((event, path), kinds) in &self.0 {
            let kinds: Vec<&str> = kinds.iter().copied().collect();
            let _ = writeln!(text, "{event} {path} {}", kinds.join("|"));
        }
        text
    }

    /// Writes them to the path in `BATON_SHAPES`, if set.
    pub fn keep(&self) -> Result<()> {
        let Some(path) = std::env::var_os("BATON_SHAPES") else { return Ok(()) };
        fs::write(&path, self.lines())
            .with_context(|| format!("keeping the shapes of the payloads in {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_shape_has_every_path_with_its_types_and_no_values() {
        let mut shapes = Shapes::default();
        shapes.add(
            "Stop",
            &json!({ "a": 1, "tasks": [{ "id": "x" }, { "id": null }], "e": { "level": "high" } }),
        );
        shapes.add("PostToolUse", &json!({ "tool_input": { "command": "ls" } }));
        assert_eq!(
            shapes.lines(),
            "PostToolUse tool_input object\nStop a number\nStop e object\nStop e.level string\nStop tasks list\n\
             Stop tasks[] object\nStop tasks[].id null|string\n"
        );
    }
}
