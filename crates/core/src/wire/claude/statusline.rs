//! The status line's payload. The first answer, and `/clear`, leave `current_usage` null: unknown, not zero.

use std::borrow::Cow;

use serde::Deserialize;

use super::NotAPayload;
use crate::wire::lax;

#[derive(Debug, Clone, Deserialize)]
pub struct StatusLine<'a> {
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub session_id: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub session_name: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub transcript_path: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub cwd: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub prompt_id: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub version: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::object")]
    pub model: Option<Model<'a>>,
    #[serde(default, borrow, deserialize_with = "lax::object")]
    pub workspace: Option<Workspace<'a>>,
    #[serde(default, deserialize_with = "lax::object")]
    pub context_window: Option<ContextWindow>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Model<'a> {
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub id: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub display_name: Option<Cow<'a, str>>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Workspace<'a> {
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub current_dir: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "lax::text")]
    pub project_dir: Option<Cow<'a, str>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub struct ContextWindow {
    #[serde(default, deserialize_with = "lax::count")]
    pub context_window_size: Option<u64>,
    #[serde(default, deserialize_with = "lax::object")]
    pub current_usage: Option<ApiUsage>,
    #[serde(default, deserialize_with = "lax::count")]
    pub used_percentage: Option<u64>,
}

/// The API's usage of the last answer; the transcript's records carry the same object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct ApiUsage {
    #[serde(default, deserialize_with = "lax::count")]
    pub input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lax::count")]
    pub cache_creation_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lax::count")]
    pub cache_read_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lax::count")]
    pub output_tokens: Option<u64>,
}

impl ApiUsage {
    /// Input and cache: the size of the context. A context is never empty, so zero means unknown too.
    pub fn input(&self) -> Option<u64> {
        let parts = [self.input_tokens, self.cache_creation_input_tokens, self.cache_read_input_tokens];
        let sum = parts.into_iter().flatten().fold(0u64, u64::saturating_add);
        (sum > 0).then_some(sum)
    }
}

/// Parses one status line payload, as leniently as for hooks.
pub fn parse_statusline(bytes: &[u8]) -> Result<StatusLine<'_>, NotAPayload> {
    super::parse(bytes)
}
