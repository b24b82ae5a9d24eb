//! A page of an agent's conversation.

use std::path::{Path, PathBuf};

use baton_core::agent::Agent;
use baton_core::ids::SessionId;
use baton_core::launch::Launch;
use baton_core::marks;
use baton_core::plain::{plain, plain_line};
use baton_core::redact::redact;
use baton_core::session::Session;
use baton_core::transcript::entries::{ConversationEntry, EntryKind};
use baton_core::transcript::pages::{ConversationPage, PageRange, first_line, page};
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::history::{catalogue, sources};
use crate::providers;
use crate::store::Store;
use crate::sys::fs;
use crate::sys::paths::Paths;
use crate::views::NotShown;

/// The maximum number of entries per page.
pub(crate) const MAX_ENTRIES: usize = 500;

/// The conversation of `session`, or of the agent's current one.
pub(crate) fn of(
    store: &Store,
    agent: &Agent,
    session: Option<&Session>,
    part: PageRange,
    limit: usize,
) -> Result<ConversationPage, NotShown> {
    let present = || agent.session.as_ref().and_then(|id| store.sessions().readable(id));
    let session = session.cloned().or_else(present);
    let session =
        session.ok_or_else(|| NotShown::Nothing(format!("{} has no conversation yet", agent.id)))?;
    let Some(path) = session.transcript.as_deref() else { return Ok(ConversationPage::default()) };
    let mut page = of_file(Path::new(path), part, limit)?;
    attribute(&mut page.entries, agent, &session);
    Ok(page)
}

/// The conversation in this transcript.
pub(crate) fn of_file(path: &Path, part: PageRange, limit: usize) -> Result<ConversationPage, NotShown> {
    match fs::open_regular(path) {
        Ok((mut file, _)) => Ok(page(&mut file, part, limit.clamp(1, MAX_ENTRIES))?),
        // A client writes the first turn of a conversation a moment after it began.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(ConversationPage::default()),
        Err(e) => Err(e.into()),
    }
}

/// A subagent's conversation is a separate file beside its session's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SubagentView {
    pub name: String,
    /// How its order begins.
    pub about: String,
    pub bytes: u64,
}

/// Where the conversation of a session is, whichever agent had it.
pub(crate) fn transcript_of(paths: &Paths, config: &Config, id: &SessionId) -> Result<PathBuf, NotShown> {
    let rows = catalogue::read(paths, config).rows;
    let Some(row) = rows.into_iter().find(|row| row.source.id == *id) else {
        return Err(NotShown::Nothing(format!(
            "there is no conversation {id}; `baton sessions list --all` lists them"
        )));
    };
    if row.source.mirrored {
        return Err(NotShown::Nothing(format!(
            "the client has deleted this conversation; `baton backup restore {id}` brings it back"
        )));
    }
    Ok(row.source.path)
}

/// The transcripts of the subagents of a session, the newest last.
pub(crate) fn subagents(transcript: &Path) -> Result<Vec<(PathBuf, SubagentView)>, NotShown> {
    let mut paths =
        sources::subagents(transcript).map_err(|skipped| NotShown::Failed(anyhow::anyhow!(skipped.why)))?;
    paths.sort_by_key(|path| std::fs::metadata(path).and_then(|about| about.modified()).ok());
    let view = |path: PathBuf| {
        let name = path.file_stem()?.to_str()?.to_owned();
        let about = first_prompt(&path).unwrap_or_default();
        let bytes = std::fs::metadata(&path).map_or(0, |about| about.len());
        Some((path, SubagentView { name, about, bytes }))
    };
    Ok(paths.into_iter().filter_map(view).collect())
}

/// How the order of a subagent begins.
fn first_prompt(path: &Path) -> Option<String> {
    let (mut file, about) = fs::open_regular(path).ok()?;
    let line = first_line(&mut file, about.len()).ok()?;
    let record: serde_json::Value = serde_json::from_slice(&line).ok()?;
    let content = &record["message"]["content"];
    let text = content.as_str().or_else(|| content[0]["text"].as_str())?;
    Some(plain_line(&redact(&plain(text)).text, 120))
}

/// Attributes entries beyond what the transcript says: the first prompt of a spawned agent comes from its spawner,
/// although the client records it as the user's, and a loaded handoff is reduced to its id.
pub(crate) fn attribute(entries: &mut [ConversationEntry], agent: &Agent, session: &Session) {
    for entry in &mut *entries {
        if let EntryKind::Note { text } = &mut entry.act
            && let Some(rest) = text.strip_prefix(marks::HANDOFF)
        {
            let id = rest.split(')').next().unwrap_or(rest);
            *text = format!("handoff {id} was loaded");
        }
    }
    let Some(spawner) = &agent.spawned_by else { return };
    let provider = providers::of(&agent.provider);
    let launch = Launch::parse(&provider.grammar, &agent.launch);
    let Some(given) = launch.prompt(&provider.grammar) else { return };
    if agent.since_anew().first() != Some(&session.id) {
        return;
    }
    let given = redact(&plain(given.trim())).text.into_owned();
    for entry in entries {
        if let EntryKind::Prompt { from, text } = &mut entry.act
            && from == "user"
            && given.starts_with(text.trim_end_matches('…'))
        {
            *from = spawner.to_string();
            return;
        }
    }
}
