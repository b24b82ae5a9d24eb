//! The displayed results of a search over all conversations.

use baton_core::ids::SessionId;
use baton_core::search::{BadQuery, Query};
use baton_core::transcript::passages::Role;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::history::catalogue::{self, Titles};
use crate::history::excerpt::excerpt;
use crate::history::scan::SearchProgress;
use crate::history::scope::{ProjectFilter, SearchScope};
use crate::history::search::{MOST, SearchHit, SearchRequest, TargetKind, search, targets};
use crate::history::{Catalogue, Row};
use crate::sys::paths::Paths;
use crate::sys::shell::quote_path;

/// A search's options: those of `baton sessions search`.
pub(crate) struct SearchOrder {
    pub words: String,
    pub regex: bool,
    pub role: Option<Role>,
    pub tool: Option<String>,
    pub file: Option<String>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    /// The name of a project; without one, all of them.
    pub project: Option<String>,
    /// Lines around each hit.
    pub context: usize,
    pub limit: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FoundView {
    /// Best first.
    pub hits: Vec<HitView>,
    /// There are more hits.
    pub more: bool,
    /// How many conversations were searched.
    pub searched: usize,
    /// How many files could not be searched.
    pub skipped: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HitView {
    pub session: String,
    /// The agent of the session, if it is one of ours.
    pub agent: Option<String>,
    pub provider: String,
    pub title: String,
    pub project: String,
    pub at: Option<Timestamp>,
    pub role: Role,
    pub tool: Option<String>,
    pub offset: u64,
    pub subagent: bool,
    /// The client has deleted it.
    pub mirror: bool,
    pub before: Vec<String>,
    pub line: Vec<PieceView>,
    pub after: Vec<String>,
    pub times: usize,
    /// The command that resumes the conversation.
    pub resume: String,
}

/// A piece of a line, and whether it matches the search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PieceView {
    pub text: String,
    pub found: bool,
}

pub(crate) fn of(paths: &Paths, config: &Config, order: &SearchOrder) -> Result<FoundView, BadQuery> {
    let query = if order.regex { Query::regex(&order.words)? } else { Query::words(&order.words)? };
    let catalogue = catalogue::read(paths, config);
    let whose = order.project.clone().map_or(ProjectFilter::All, ProjectFilter::Named);
    let scope = SearchScope::new(paths, config, whose);
    let (targets, skipped) = targets(&paths.state, &catalogue, &scope, order.since);
    let request = SearchRequest {
        query: &query,
        role: order.role,
        tool: order.tool.as_deref(),
        file: order.file.as_deref(),
        since: order.since,
        until: order.until,
        most: MOST,
        now: Timestamp::now(),
    };
    let found = search(&targets, &request, &SearchProgress::default());
    let titles = Titles::new(&catalogue);
    let shown = found.hits.iter().take(order.limit);
    Ok(FoundView {
        hits: shown.map(|hit| hit_view(paths, &catalogue, &titles, hit, &query, order.context)).collect(),
        more: found.cut || found.hits.len() > order.limit,
        searched: catalogue.rows.iter().filter(|row| scope.contains(row)).count(),
        skipped: skipped.len() + found.skipped.len(),
    })
}

fn hit_view(
    paths: &Paths,
    catalogue: &Catalogue,
    titles: &Titles<'_>,
    hit: &SearchHit,
    query: &Query,
    context: usize,
) -> HitView {
    let row: Option<&Row> = catalogue.rows.iter().find(|row| row.source.id == hit.session);
    let shown = excerpt(hit, query, context);
    let cwd = row.map(|row| row.facts.cwd.as_str()).unwrap_or_default();
    HitView {
        session: hit.session.to_string(),
        agent: row.and_then(|row| row.record.as_ref()).map(|record| record.agent.clone()),
        provider: row.map_or_else(String::new, |row| row.provider().to_owned()),
        title: row.map(|row| titles.of(row).to_owned()).unwrap_or_default(),
        project: paths.short(cwd.as_ref()),
        at: hit.time,
        role: hit.role,
        tool: hit.tool.clone(),
        offset: hit.offset,
        subagent: hit.kind == TargetKind::Subagent,
        mirror: hit.kind == TargetKind::Mirror,
        before: shown.before,
        line: pieces(&shown.line, query),
        after: shown.after,
        times: hit.times,
        resume: resume(&paths.short(cwd.as_ref()), &hit.session),
    }
}

/// Goes to its folder first, if its transcript names one.
fn resume(cwd: &str, session: &SessionId) -> String {
    let command = format!("baton sessions resume {session}");
    if cwd.is_empty() { command } else { format!("cd {} && {command}", quote_path(cwd)) }
}

fn pieces(line: &str, query: &Query) -> Vec<PieceView> {
    let mut pieces = Vec::new();
    let mut end = 0;
    let mut push = |text: &str, found| {
        if !text.is_empty() {
            pieces.push(PieceView { text: text.to_owned(), found });
        }
    };
    for mark in query.marks(line) {
        push(&line[end..mark.start], false);
        push(&line[mark.clone()], true);
        end = mark.end;
    }
    push(&line[end..], false);
    pieces
}
