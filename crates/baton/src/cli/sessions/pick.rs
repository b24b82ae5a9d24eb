//! `baton sessions` in a terminal: choose a conversation and resume it.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use baton_core::ids::SessionId;
use baton_core::plain::plain_line;
use baton_core::speaker::{is_from_a_person, listed};

use crate::cli::args::ConversationScope;
use crate::cli::sessions::list::{Listing, state};
use crate::cli::sessions::show::turns_of;
use crate::cli::sessions::tree::Chains;
use crate::cli::sessions::{read, report_skipped, resume, scope, search};
use crate::cli::ui::Paint;
use crate::cli::ui::picker::{Choice, Wording, pick};
use crate::cli::{App, Outcome};
use crate::history::Catalogue;
use crate::sys::fs;

const WORDING: Wording = Wording {
    question: "Resume which session of",
    near: "this project",
    all: "all projects",
    action: "resume",
};

pub(super) fn run(app: &App) -> anyhow::Result<Outcome> {
    let catalogue = read(app);
    let scope = scope(app, &ConversationScope::default())?;
    let listing = Listing::new(app, &catalogue);
    let chains = Chains::new(app, &catalogue);
    let folded = folded(&catalogue, &chains);
    let sessions = folded.iter().map(|(n, earlier)| {
        let row = &catalogue.rows[*n];
        let (title, project) = (listing.title(row), listing.project(row));
        let (id, age, state) = (row.source.id.short(), listing.age(row), state(Paint::plain(), row));
        // The titles of a task's earlier contexts match too.
        let about: Vec<String> =
            earlier.iter().map(|n| &catalogue.rows[*n]).map(|row| listing.title(row)).collect();
        let id_of = |n: &usize| catalogue.rows[*n].source.id.as_str();
        let ids: Vec<&str> = earlier.iter().map(id_of).collect();
        let more =
            if earlier.is_empty() { String::new() } else { format!("{} contexts · ", earlier.len() + 1) };
        Session {
            is_here: scope.contains(row),
            facts: format!("{id:<8}  {age:>4}  {state:<12}"),
            haystack: format!("{title} {} {project} {} {}", about.join(" "), row.source.id, ids.join(" "))
                .to_lowercase(),
            title: format!("{more}{title}"),
            project,
            path: row.source.path.clone(),
            seen: OnceCell::new(),
        }
    });
    let sessions: Vec<Session> = sessions.collect();
    if sessions.is_empty() {
        report_skipped(app, &catalogue.skipped);
        eprintln!("baton: there is no session yet");
        return Ok(Outcome::Nothing);
    }
    let said = |words: &str| {
        let found = search::sessions_with(app, &catalogue, words);
        let is_among = |n: &usize| found.contains(&catalogue.rows[*n].source.id);
        let has = |(n, earlier): &(usize, Vec<usize>)| is_among(n) || earlier.iter().any(is_among);
        folded.iter().enumerate().filter(|(_, row)| has(row)).map(|(at, _)| at).collect()
    };
    let Some(chosen) = pick(&WORDING, &sessions, said)? else { return Ok(Outcome::Done) };
    resume::start(app, &scope, &catalogue.rows[folded[chosen].0], &[])
}

/// One row per task: its newest conversation, and the earlier ones that led there.
fn folded<'c>(catalogue: &'c Catalogue, chains: &Chains<'c>) -> Vec<(usize, Vec<usize>)> {
    let mut of_root: HashMap<&'c SessionId, usize> = HashMap::new();
    let mut rows: Vec<(usize, Vec<usize>)> = Vec::new();
    // Newest come first.
    for (n, row) in catalogue.rows.iter().enumerate() {
        let root = chains.root_of(&row.source.id);
        if let Some(at) = of_root.get(root) {
            rows[*at].1.push(n);
        } else {
            of_root.insert(root, rows.len());
            rows.push((n, Vec::new()));
        }
    }
    rows
}

/// How much of a transcript's end to read for the preview.
const END: u64 = 64 << 10;

/// The last words of both sides, newest last.
fn last_words(path: &Path) -> Vec<String> {
    let read = || -> std::io::Result<Vec<(&'static str, String)>> {
        let mut file = fs::open_read(path)?;
        let from = file.metadata()?.len().saturating_sub(END);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(END).read_to_end(&mut bytes)?;
        // The first line is incomplete.
        let whole =
            if from == 0 { 0 } else { memchr::memchr(b'\n', &bytes).map_or(bytes.len(), |at| at + 1) };
        turns_of(&bytes[whole..])
    };
    let turns = read().unwrap_or_default();
    let said = turns.iter().filter_map(|(who, what)| match *who {
        "agent" => Some(format!("agent: {}", plain_line(what, 300))),
        // A message names its sender.
        "user" if is_from_a_person(what) => Some(format!("user: {}", plain_line(what, 300))),
        "user" => listed(what).map(|what| plain_line(&what, 300)),
        _ => None,
    });
    let mut lines: Vec<String> = said.collect();
    lines.drain(..lines.len().saturating_sub(4));
    lines
}

struct Session {
    is_here: bool,
    /// Id, age and state.
    facts: String,
    title: String,
    project: String,
    haystack: String,
    path: PathBuf,
    /// Its last words, loaded on first use.
    seen: OnceCell<Vec<String>>,
}

impl Choice for Session {
    fn line(&self, all: bool) -> String {
        let Self { facts, title, project, .. } = self;
        if all { format!("{facts}  {project}  {title}") } else { format!("{facts}  {title}") }
    }

    fn haystack(&self) -> &str {
        &self.haystack
    }

    fn is_near(&self) -> bool {
        self.is_here
    }

    fn preview(&self) -> Vec<String> {
        let words = self.seen.get_or_init(|| last_words(&self.path));
        [self.title.clone(), self.project.clone()].into_iter().chain(words.iter().cloned()).collect()
    }
}
