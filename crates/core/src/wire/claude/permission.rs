//! The part of a payload that names the tool and its input. Parsed only where needed: the input may be large, and most
//! hooks never look at it.

use serde::Deserialize;
use serde_json::Value;

use crate::wire::claude::NotAPayload;

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ToolPayload {
    #[serde(default)]
    pub tool_name: Option<String>,
    #[serde(default)]
    pub tool_input: Value,
    #[serde(default, deserialize_with = "list")]
    pub permission_suggestions: Vec<Value>,
}

/// Treats anything but a list as empty.
fn list<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Vec<Value>, D::Error> {
    Ok(match Value::deserialize(d)? {
        Value::Array(items) => items,
        _ => Vec::new(),
    })
}

pub fn parse(bytes: &[u8]) -> Result<ToolPayload, NotAPayload> {
    super::parse(bytes)
}
