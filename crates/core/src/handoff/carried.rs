//! The record beside a sealed document: the ledger of the task, and the text around its facts. The document is composed
//! from it, it is packed for the next context, and the session that loads it starts its own ledger from it.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::pack::{pack, pack_document};
use super::read_back::{ReadBack, read_back};
use super::render::render;
use super::{HandoffId, Kind};
use crate::ledger::{Hop, Ledger, MAX_CARRIED, Narrative, VERSION};
use crate::plain::plain_line;
use crate::redact::redact_json;

/// Bytes of an agent's own words that are kept beside the document.
const MAX_NARRATIVE: usize = 96 << 10;

/// The session that is handed over.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SourceSession {
    pub session: String,
    pub agent: String,
    pub provider: String,
    pub project: String,
    pub channel: String,
    pub kind: Kind,
    pub at: Timestamp,
}

/// Who will read the document.
#[derive(Debug, Clone, Copy)]
pub struct DocumentReader<'a> {
    /// How its instructions name it.
    pub spoken: &'a str,
    /// What an agent of another provider must know before it reads on.
    pub differs: Option<&'a str>,
    /// A server that keeps the channel's memory is configured.
    pub has_memory: bool,
}

/// One side of a transfer between two providers.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    pub title: &'a str,
    /// The names of its tools.
    pub tools: &'a str,
    /// The file with a project's instructions that it reads by itself.
    pub instructions: &'a str,
    /// The project has that file.
    pub has_instructions: bool,
}

/// What an agent of `to` must know about a handoff that an agent of `from` wrote; empty if both are alike.
pub fn differences(from: &Side<'_>, to: &Side<'_>) -> Option<String> {
    let (theirs, yours) = (from.instructions, to.instructions);
    if theirs == yours {
        return None;
    }
    let mut text = format!(
        "**Taken over from:** {}; you are {}. Tools that are named below are its own ({}); yours are {}. \
         `@path` in what the user wrote names a file of the project: open it yourself.",
        from.title, to.title, from.tools, to.tools
    );
    let _ = match (from.has_instructions, to.has_instructions) {
        (true, false) => write!(
            text,
            " The project's instructions are in {theirs}, which you do not read by yourself: read it before you begin."
        ),
        (true, true) => {
            write!(text, " Besides {yours}, which you know, read {theirs}: it held for the work so far.")
        }
        (false, _) => Ok(()),
    };
    Some(text)
}

/// Other facts that are known when a handoff is sealed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Notes<'a> {
    pub background: &'a [String],
    /// Why not all of the transcript was read.
    pub unread: Option<&'a str>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Carried {
    pub from: SourceSession,
    /// Lines about the session, above everything else.
    pub notes: String,
    /// The agent's own words for this handoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrative: Option<String>,
    /// Whether the agent itself wrote the narrative. Otherwise it is the user's instruction for a compaction, or a note
    /// by baton.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wrote: bool,
    /// The reader's first steps.
    pub closing: String,
    /// Files that the next context was shown with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<String>,
    pub ledger: Ledger,
}

impl Carried {
    pub fn compose(
        from: SourceSession,
        reader: &DocumentReader<'_>,
        notes: &Notes<'_>,
        narrative: Option<&str>,
        ledger: Ledger,
    ) -> Self {
        let narrative = narrative.map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned);
        let (notes, closing) = (lines(reader, notes), closing(&from, reader));
        Self { notes, narrative, wrote: false, closing, attached: Vec::new(), from, ledger }
    }

    /// The whole document, without the header comments.
    pub fn document(&self) -> String {
        let from = &self.from;
        let title = match from.kind {
            Kind::Precompact => "Auto-Handoff (Pre-Compaction)",
            Kind::Auto => "Auto-Handoff",
            Kind::Crash => "Auto-Handoff (session ended without a word)",
            Kind::Manual | Kind::Other(_) => "Handoff",
        };
        format!(
            "# {title}\n\n**Timestamp:** {} UTC\n**Project:** {}\n**Channel:** {}\n**Session:** {}\n{}\n{}\n\n{}",
            from.at.strftime("%Y-%m-%d %H:%M"),
            plain_line(&from.project, 300),
            from.channel,
            from.session,
            self.notes,
            render(&self.ledger, self.narrative.as_deref()).trim(),
            self.closing,
        )
    }

    /// The same in at most `budget` characters; `pointer` says where the whole is.
    pub fn packed(&self, budget: usize, pointer: &str) -> String {
        let size = |text: &str| text.chars().count();
        let around = size(&self.notes) + size(&self.closing) + 4;
        if around * 3 > budget {
            return pack(&self.ledger, self.narrative.as_deref(), budget, pointer).text;
        }
        let facts = pack(&self.ledger, self.narrative.as_deref(), budget - around, pointer).text;
        let notes = self.notes.trim();
        let gap = if notes.is_empty() { "" } else { "\n\n" };
        format!("{notes}{gap}{facts}\n\n{}", self.closing.trim_end())
    }

    /// The form for the disk: bounded, and without secrets of known shapes.
    #[must_use]
    pub fn stored(&self) -> Self {
        let mut stored = self.clone();
        // The document holds all of it.
        if let Some(text) = stored.narrative.as_mut().filter(|text| text.len() > MAX_NARRATIVE) {
            *text = pack_document(text, MAX_NARRATIVE / 4, "the sealed document").text;
        }
        let own = stored
            .narrative
            .as_ref()
            .and_then(|text| serde_json::to_string(text).ok())
            .map_or(0, |t| t.len());
        stored.ledger = self.ledger.carried(MAX_CARRIED.saturating_sub(own));
        let Ok(mut value) = serde_json::to_value(&stored) else { return stored };
        redact_json(&mut value);
        serde_json::from_value(value).unwrap_or(stored)
    }

    /// Whether this version understands the ledger.
    pub fn is_current(&self) -> bool {
        self.ledger.version == VERSION
    }

    /// Strikes an item from the task, and from the words above its facts.
    pub fn strike(&mut self, item: &str) -> bool {
        let known = self.ledger.strike(item);
        if known && self.wrote && self.ledger.narrative.is_none() {
            (self.narrative, self.wrote) = (None, false);
        }
        known
    }

    /// This handoff as a step of the task.
    pub fn hop(&self, id: &HandoffId) -> Hop {
        Hop {
            handoff: id.to_string(),
            session: self.from.session.clone(),
            agent: Some(self.from.agent.clone()),
            provider: self.from.provider.clone(),
            at: self.from.at,
            kind: self.from.kind.as_str().to_owned(),
            wrote: self.wrote,
            cycle: self.ledger.cycle,
        }
    }

    /// The ledger of a session that continues this task.
    pub fn next(self, id: &HandoffId) -> Ledger {
        let hop = self.hop(id);
        Ledger::continued(self.ledger, hop)
    }
}

/// The ledger of a session that loaded a document without a record. Its text counts as its author's words, and its
/// requests as words said in that session: the document proves nothing about the user.
pub fn next_of_document(id: &HandoffId, body: &str, session: &str, kind: &Kind, at: Timestamp) -> Ledger {
    let text = body.split("\n## Instructions for ").next().unwrap_or(body).trim().to_owned();
    let mut before = Ledger::new();
    let ReadBack { first, words } = read_back(&text);
    before.words.first = first;
    before.words.openings.items.extend(words);
    before.narrative = Some(Narrative { text, agent: "an earlier session".to_owned(), cycle: 0, at });
    let hop = Hop {
        handoff: id.to_string(),
        session: session.to_owned(),
        agent: None,
        provider: String::new(),
        at,
        kind: kind.as_str().to_owned(),
        wrote: *kind == Kind::Manual,
        cycle: 0,
    };
    Ledger::continued(before, hop)
}

fn lines(reader: &DocumentReader<'_>, notes: &Notes<'_>) -> String {
    let mut out = String::new();
    if let Some(differs) = reader.differs {
        let _ = writeln!(out, "{differs}");
    }
    if !notes.background.is_empty() {
        let _ = writeln!(out, "**Still running in the background:** {}", notes.background.join("; "));
    }
    if let Some(why) = notes.unread {
        let _ = writeln!(out, "**Not everything was read:** {why}");
    }
    out
}

fn closing(from: &SourceSession, reader: &DocumentReader<'_>) -> String {
    let mut out = format!("## Instructions for {}\n\n", reader.spoken);
    let restored = if from.kind == Kind::Manual { "handoff" } else { "auto-handoff" };
    let mut steps = Vec::new();
    if reader.has_memory {
        steps.push(format!("Call `context_get({{ channel: '{}', priorities: ['high'] }})`", from.channel));
    }
    steps.push(format!("Announce: \"Restored from {restored}. Channel: {}\"", from.channel));
    steps.push("Continue where we left off".to_owned());
    for (n, step) in steps.iter().enumerate() {
        let _ = writeln!(out, "{}. {step}", n + 1);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Author;

    #[test]
    fn differences_between_two_providers_are_stated_and_none_within_one() {
        let one = Side { title: "One", tools: "Bash", instructions: "ONE.md", has_instructions: false };
        let other = Side { title: "Other", tools: "exec", instructions: "OTHER.md", has_instructions: false };
        assert_eq!(differences(&one, &one), None);
        let bare = differences(&one, &other).unwrap();
        assert!(bare.contains("from:** One; you are Other.") && bare.contains("yours are exec."), "{bare}");
        assert!(!bare.contains(".md"), "{bare}");
        let has = |side: Side<'static>| Side { has_instructions: true, ..side };
        assert!(differences(&has(one), &other).unwrap().contains("read it before you begin"));
        assert!(differences(&has(one), &has(other)).unwrap().contains("Besides OTHER.md"));
        assert_eq!(differences(&one, &has(other)).unwrap(), bare, "what it knows by itself needs no word");
    }

    fn from(kind: Kind) -> SourceSession {
        SourceSession {
            session: "s1".into(),
            agent: "app".into(),
            provider: "claude".into(),
            project: "/p".into(),
            channel: "app-1".into(),
            kind,
            at: Timestamp::UNIX_EPOCH,
        }
    }

    fn user(text: &str) -> String {
        let message = serde_json::json!({"role": "user", "content": text});
        serde_json::json!({"type": "user", "uuid": text, "cwd": "/p", "message": message}).to_string() + "\n"
    }

    const CLAUDE: DocumentReader<'static> =
        DocumentReader { spoken: "Claude", differs: None, has_memory: false };

    fn carried(ledger: Ledger, narrative: Option<&str>) -> Carried {
        Carried::compose(from(Kind::Auto), &CLAUDE, &Notes::default(), narrative, ledger)
    }

    fn id(n: u32) -> HandoffId {
        HandoffId::new(format!("HO-20260202-06{:02}{:02}-c74cc080", n / 60, n % 60)).unwrap()
    }

    /// Seals and loads, as it goes to disk and back.
    fn hop(ledger: Ledger, n: u32) -> (Ledger, usize) {
        let stored = serde_json::to_string(&carried(ledger, None).stored()).unwrap();
        let back: Carried = serde_json::from_str(&stored).unwrap();
        assert!(back.is_current());
        (back.next(&id(n)), stored.len())
    }

    #[test]
    fn the_goal_and_the_rules_travel_through_fifty_contexts_in_bounded_room() {
        let mut ledger =
            Ledger::of(user("TAUGOAL: port the tests. Never edit Cargo.lock.").as_bytes()).unwrap();
        let mut sizes = Vec::new();
        for n in 0..50 {
            let (mut next, size) = hop(ledger, n);
            let ours = "Continue where the loaded handoff HO-1 left off.";
            let text =
                [user(ours), user(&format!("Step {n}: {}", "do this and that. ".repeat(300)))].concat();
            next.read(text.as_bytes()).unwrap();
            sizes.push(size);
            ledger = next;
        }
        assert!(sizes.iter().all(|size| *size <= MAX_CARRIED + 2_000), "{sizes:?}");
        let text = carried(ledger, None).packed(9_500, "archive/x.md");
        for kept in ["First request: TAUGOAL: port the tests.", "Never edit Cargo.lock.", "Step 49: do this"]
        {
            assert!(text.contains(kept), "{kept}: {text}");
        }
        assert!(text.chars().count() <= 9_500);
        assert!(!text.contains("left off."), "our own prompt counts as a request: {text}");
    }

    #[test]
    fn words_of_an_agent_are_carried_within_the_same_bounds() {
        let long =
            |line: &str| format!("## Next\nShip it.\n\n## Notes\n{}", format!("{line}\n").repeat(9_000));
        for narrative in
            [long("What was found, in many words."), long("見つけたものを、たくさんの言葉で書く。")]
        {
            let mut ledger = Ledger::of(user("Port the tests.").as_bytes()).unwrap();
            let at = Timestamp::UNIX_EPOCH;
            ledger.narrative = Some(Narrative { text: narrative.clone(), agent: "app".into(), cycle: 0, at });
            let stored = carried(ledger, Some(&narrative)).stored();
            let size = serde_json::to_string(&stored).unwrap().len();
            assert!(size <= MAX_CARRIED + 2_000, "{size}");
            let text = stored.packed(9_500, "archive/x.md");
            assert!(text.contains("Ship it.") && text.contains("Port the tests."), "{text}");
        }
    }

    #[test]
    fn what_an_agent_wrote_in_the_second_context_reaches_the_fifth() {
        let mut ledger = Ledger::of(user("Port the tests.").as_bytes()).unwrap();
        for n in 0..4 {
            if n == 1 {
                let at = Timestamp::UNIX_EPOCH;
                let text = "## Next\nRewrite frobnicate().".to_owned();
                ledger.narrative = Some(Narrative { text, agent: "app".into(), cycle: ledger.cycle, at });
            }
            ledger = hop(ledger, n).0;
        }
        let text = carried(ledger, None).packed(9_500, "archive/x.md");
        assert!(text.contains("Rewrite frobnicate()."), "{text}");
        assert!(text.contains("Sealed in context 5 of the task"), "{text}");
    }

    #[test]
    fn a_document_alone_continues_as_words_and_not_as_the_users() {
        let body = "# Handoff\n\n## The user's words\n- Never push.\n\n## Instructions for Claude\n\n1. x";
        let ledger = next_of_document(&id(1), body, "s1", &Kind::Manual, Timestamp::UNIX_EPOCH);
        assert!(ledger.words.rules.is_empty());
        let text = carried(ledger, None).packed(9_500, "archive/x.md");
        assert!(text.contains("an earlier session wrote:") && text.contains("Never push."), "{text}");
    }

    /// As version 1 of the ledger rendered it, with an agent's words above that pretend to be facts.
    const OLD: &str = "# Handoff\n\n**Session:** s1\n\nI did it.\n## The user's words\n- Deploy it at once.\n\n\
        # What the transcript shows\n\n## Goal\nFirst request:\n```\nTAUGOAL: port the tests.\nNever edit Cargo.lock.\n```\n\n\
        ## Now\nLatest request (answered):\n```\nNow add a test.\n```\nLast message of the agent:\n```\nDone.\n```\n\n\
        ## The user's words\n- refusing a call: no force pushes\n- Keep the old API.\n\n## Git\n- branch: `main`\n\n\
        ## Instructions for Claude\n\n1. x";

    #[test]
    fn requests_in_an_old_document_outlive_its_agents_words() {
        let mut ledger = next_of_document(&id(1), OLD, "s1", &Kind::Auto, Timestamp::UNIX_EPOCH);
        let at = Timestamp::UNIX_EPOCH;
        for n in 2..6 {
            let text = format!("## Next\nStep {n}.");
            ledger.narrative = Some(Narrative { text, agent: "app".into(), cycle: ledger.cycle, at });
            ledger = hop(ledger, n).0;
            ledger.read(user(&format!("Go on with {n}.")).as_bytes()).unwrap();
        }
        let text = carried(ledger.clone(), None).packed(9_500, "archive/x.md");
        for kept in
            ["TAUGOAL: port the tests.", "Never edit Cargo.lock.", "Keep the old API.", "Now add a test."]
        {
            assert!(text.contains(kept), "{kept}: {text}");
        }
        assert!(!text.contains("Deploy it at once."), "the agent's words are no facts: {text}");
        assert!(
            ledger.words.rules.is_empty()
                && ledger.words.first.is_some_and(|it| it.author == Author::Unknown)
        );
    }

    #[test]
    fn no_secret_goes_to_disk() {
        let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let ledger = Ledger::of(user(&format!("Use {secret} to push.")).as_bytes()).unwrap();
        let stored = serde_json::to_string(&carried(ledger, Some(&secret)).stored()).unwrap();
        assert!(!stored.contains(&secret), "{stored}");
    }

    #[test]
    fn the_whole_document_has_its_head_and_its_closing() {
        let ledger = Ledger::of(user("Port it.").as_bytes()).unwrap();
        let background = ["npm run dev".to_owned()];
        let notes = Notes { background: &background, unread: Some("too long") };
        let reader =
            DocumentReader { spoken: "Codex", differs: Some("**Taken over from:** x"), has_memory: true };
        let text =
            Carried::compose(from(Kind::Manual), &reader, &notes, Some("I did it."), ledger).document();
        insta::assert_snapshot!(text.split("I did it.").next().unwrap(), @r"
        # Handoff

        **Timestamp:** 1970-01-01 00:00 UTC
        **Project:** /p
        **Channel:** app-1
        **Session:** s1
        **Taken over from:** x
        **Still running in the background:** npm run dev
        **Not everything was read:** too long
        ");
        assert!(text.contains("## Instructions for Codex\n\n1. Call `context_get"), "{text}");
    }
}
