//! `baton memory save`: what a session leaves for the next one.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use baton_core::handoff::pack::pack;
use baton_core::handoff::verify;
use baton_core::ledger::Ledger;
use baton_core::plain::plain;
use baton_core::redact::redact;
use baton_core::session::Session;
use baton_core::transcript::lines::{self, Line};
use jiff::Timestamp;
use serde_json::json;

use super::{DIVIDER, counted, short_in};
use crate::cli::ui::{print, print_json};
use crate::cli::{App, Outcome, client_session, session_from_env};
use crate::handoffs::transcripts;
use crate::project::memory::{MemoryDir, active, backups, documents, saved};
use crate::store::Store;
use crate::sys::fs;

/// More than any session has to say.
const MAX_TEXT: u64 = 2 << 20;
/// The maximum characters of facts in a session document.
const FACTS: usize = 8_000;

pub(super) fn read_text(file: &Path) -> anyhow::Result<String> {
    let bytes = if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .take(MAX_TEXT + 1)
            .read_to_end(&mut bytes)
            .context("could not read the text")?;
        bytes
    } else {
        fs::read(file, MAX_TEXT)?.with_context(|| format!("{} is not there", file.display()))?
    };
    if bytes.len() as u64 > MAX_TEXT {
        bail!("the text is longer than 2 MB; shorten it");
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(redact(&plain(&text)).text.into_owned())
}

/// The session that this command runs in, if we know it.
pub(super) fn this_session(store: &Store) -> Option<Session> {
    store.sessions().readable(&client_session()?)
}

pub(super) fn save(
    app: &App,
    store: &Store,
    place: &MemoryDir,
    file: &Path,
    to: Option<&Path>,
    json: bool,
) -> anyhow::Result<Outcome> {
    if place.project.is_none() {
        bail!("this project has no memory yet; `baton memory init` gives it one, then save again");
    }
    let text = read_text(file)?;
    let parts = text.split_once(&format!("\n{DIVIDER}\n"));
    let Some((now_part, document)) = parts.filter(|(a, b)| !a.trim().is_empty() && !b.trim().is_empty())
    else {
        eprintln!(
            "baton: nothing was saved: the text needs two parts, where the work stands now and the whole session, \
             with the line\n{DIVIDER}\nbetween them"
        );
        return Ok(Outcome::Usage);
    };
    let now = Timestamp::now();
    let session = session_from_env();
    let record = this_session(store);
    if let Some(record) = &record {
        transcripts::catch_up(record);
    }
    // First write what every session begins with: if we are interrupted here, the next one still knows the state of the
    // work.
    let written = active::write(place, now_part, &session, now)?;
    let body = compose(record.as_ref(), document, &written);
    let to = to.map(|path| app.cwd.join(path));
    let path = documents::write(place, to.as_deref(), &body, &session, now)
        .context("active-context.md is saved, the session document is not")?;
    if let Some(record) = &record {
        saved::note(store, record, &path, now)?;
    }
    // This save is newer than everything that waited.
    let settled = backups::settle(place, "saved", |p| p.at <= now)?;
    if json {
        print_json(
            &json!({ "active_context": place.active_context(), "document": path, "settled": settled }),
        )?;
        return Ok(Outcome::Done);
    }
    let mut out = format!(
        "Saved at {}\n  {} (every session here begins with it)\n  {}\nIn a new session, /resume-from {} brings all of it back.\n",
        now.strftime("%Y-%m-%d %H:%M UTC"),
        app.paths.short(&place.active_context()),
        app.paths.short(&path),
        short_in(place, &path),
    );
    if !settled.is_empty() {
        let backups = counted(settled.len(), "pending backup");
        let _ = writeln!(
            out,
            "{backups} of earlier sessions {} settled by this; `baton backup list` still has {}.",
            if settled.len() == 1 { "is" } else { "are" },
            if settled.len() == 1 { "it" } else { "them" },
        );
    }
    print(&out)?;
    Ok(Outcome::Done)
}

/// The document: the agent's words with unproven claims marked, the facts, and the previous active context.
pub(super) fn compose(session: Option<&Session>, document: &str, written: &active::DisplacedText) -> String {
    let ledger = session.and_then(|s| s.transcript.as_deref()).and_then(|t| ledger_before_save(Path::new(t)));
    let mut body = match &ledger {
        Some(ledger) => verify::mark(document.trim(), ledger),
        None => document.trim().to_owned(),
    };
    if let Some(rest) = &written.overflow {
        let _ = write!(body, "\n{}\n{rest}", documents::CONTINUED);
    }
    if let (Some(ledger), Some(session)) = (ledger.filter(|l| !l.is_empty()), session) {
        let pointer = format!("baton sessions show {}", session.id);
        let facts = pack(&ledger, None, FACTS, &pointer).text;
        let _ = write!(body, "\n{}\n{}", documents::FACTS, redact(&plain(&facts)).text.trim());
    }
    if let Some(before) = &written.before {
        let _ = write!(body, "\n{}\n{before}", documents::BEFORE);
    }
    body
}

/// The ledger of the transcript, without the calls that saved it: their text is the document itself.
fn ledger_before_save(transcript: &Path) -> Option<Ledger> {
    let file = fs::open_read(transcript).ok()?;
    let mut ledger = Ledger::default();
    let reader = std::io::BufReader::with_capacity(256 << 10, file);
    let read = lines::for_each(reader, 0, lines::MAX_LINE, |line, offset| {
        let Line::Whole(bytes) = line else { return };
        let has = |text: &str| memchr::memmem::find(bytes, text.as_bytes()).is_some();
        if !(has(DIVIDER) && has("memory save")) {
            ledger.feed(bytes, offset);
        }
    });
    read.ok().map(|_| ledger)
}
