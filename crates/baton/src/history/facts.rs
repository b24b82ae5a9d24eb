//! A listing's facts about a transcript.

use std::ops::Not;

use baton_core::plain::{plain, plain_line};
use baton_core::redact::redact;
use baton_core::speaker::listed;
use baton_core::transcript::summary::{Ending, Summary};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::history::sources::{FileStamp, TranscriptFile};

/// Longest title that is kept.
const TITLE: usize = 160;
/// Longest name of a branch or a model.
const NAME: usize = 60;

/// The result of reading a transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Transcript {
    /// The file's stamp when it was read.
    pub stamp: FileStamp,
    /// An error says why it is not a transcript, and holds until the file changes.
    pub facts: Result<ConversationFacts, String>,
}

/// A transcript's own facts. All text is plain and redacted, ready to show.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ConversationFacts {
    pub cwd: String,
    pub branch: Option<String>,
    pub title: String,
    /// The title is only a prompt to continue from a handoff.
    #[serde(skip_serializing_if = "Not::not")]
    pub continued: bool,
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::optional")]
    pub begun: Option<Timestamp>,
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::optional")]
    pub last: Option<Timestamp>,
    pub tokens: Option<u64>,
    pub model: Option<String>,
    pub ending: Ending,
    /// Not a separate conversation: its records belong to a subagent or another client.
    #[serde(skip_serializing_if = "Not::not")]
    pub foreign: bool,
}

impl ConversationFacts {
    pub(crate) fn new(source: &TranscriptFile, summary: &Summary) -> Self {
        let name = |text: &Option<String>| {
            text.as_deref().map(|text| plain_line(text, NAME)).filter(|text| !text.is_empty())
        };
        // Milliseconds, so that the first listing shows the same as later ones from the cache.
        let time =
            |at: Option<Timestamp>| at.and_then(|at| Timestamp::from_millisecond(at.as_millisecond()).ok());
        // The folder is shown and pasted into commands, so omit one that would not display exactly as written.
        let is_plain = |cwd: &&String| !cwd.contains(['\n', '\t']) && plain(cwd) == **cwd;
        Self {
            cwd: summary.cwd.as_ref().filter(is_plain).cloned().unwrap_or_default(),
            branch: name(&summary.branch),
            title: summary
                .about()
                .and_then(listed)
                .map_or_else(String::new, |about| plain_line(&redact(&plain(&about)).text, TITLE)),
            continued: summary.asked.as_deref().is_some_and(|asked| listed(asked).is_none()),
            begun: time(summary.begun),
            last: time(summary.last),
            tokens: summary.tokens,
            model: name(&summary.model),
            ending: summary.ending,
            foreign: summary.sidechain || summary.provider.is_some_and(|p| p != source.dialect),
        }
    }
}
