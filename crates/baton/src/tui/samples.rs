//! Agents for tests.

use baton_core::level::Level;
use baton_core::levels::{LevelMark, LevelPoint, MarkKind};
use baton_core::need::{Need, NeedKind};
use baton_core::transcript::entries::{ConversationEntry, EntryKind, ToolResult};
use baton_core::transcript::pages::ConversationPage;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::providers;
use crate::tui::model::{Link, Model, TerminalStyle};
use crate::tui::update::{DetailData, ScreenEvent};
use crate::views::agent::AgentView;
use crate::views::levels::LevelsView;

/// The current time in every test.
pub(crate) fn now() -> Timestamp {
    "2026-11-17T04:52:00Z".parse().unwrap()
}

pub(crate) fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

pub(crate) fn agent(id: &str) -> AgentView {
    AgentView {
        id: id.into(),
        provider: providers::USUAL.into(),
        parent: None,
        channel: "api-0c1d2e".into(),
        project: "api".into(),
        cwd: "/home/ada/acme/api".into(),
        state: "idle".into(),
        state_since: Some(ago(14 * 60)),
        words: "idle".into(),
        needs: None,
        goal: None,
        now: None,
        checkpoint: None,
        last_answer: None,
        done: None,
        question: None,
        session: Some(format!("{id}-session")),
        session_since: Some(ago(3_600)),
        transcript_path: Some(format!("/home/ada/.claude/projects/api/{id}.jsonl")),
        model: Some("claude-opus-4-6".into()),
        level: Level::Ok,
        tokens: Some(36_000),
        tokens_used: Some(36_000),
        window: Some(200_000),
        used_percentage: Some(18),
        warn_at: Some(100_000),
        ask_at: Some(130_000),
        compacts_at: Some(167_000),
        left: Some(131_000),
        turns_left: None,
        limit_until: None,
        mail: 0,
        unread: 0,
        last_handoff: None,
        last_handoff_path: None,
        pending_handoff_path: None,
        pending: None,
        rotation: None,
        place: "pane %3".into(),
        undo_to: None,
        created: ago(9_000),
        ended: None,
    }
}

pub(crate) fn working(id: &str, seconds: i64) -> AgentView {
    AgentView {
        state: "working".into(),
        words: "working".into(),
        state_since: Some(ago(seconds)),
        ..agent(id)
    }
}

pub(crate) fn needing(agent: AgentView, kind: &str, text: &str, seconds: i64) -> AgentView {
    let kind = NeedKind::ALL.into_iter().find(|known| known.as_str() == kind).unwrap();
    let state = if kind == NeedKind::Limit { "limit" } else { "blocked" };
    AgentView {
        state: state.into(),
        words: text.into(),
        needs: Some(Need { kind, text: text.into(), since: ago(seconds) }),
        ..agent
    }
}

/// A set of sample agents.
pub(crate) fn house() -> Vec<AgentView> {
    let child = |agent: AgentView| AgentView { parent: Some("lead".into()), ..agent };
    let reviewer = AgentView { now: Some("Review PR 212, mind the public API.".into()), ..agent("reviewer") };
    vec![
        needing(reviewer, "permission", "asks: Bash \"cargo publish --dry-run\"", 40),
        AgentView {
            limit_until: Some(now() + SignedDuration::from_mins(38)),
            ..needing(agent("porter"), "limit", "limit until 05:30", 300)
        },
        AgentView {
            tokens: Some(115_000),
            level: Level::Warn,
            left: Some(52_000),
            turns_left: Some(9),
            goal: Some("Port the API to v2".into()),
            undo_to: Some("11112222-3333".into()),
            ..working("lead", 130)
        },
        child(AgentView { tokens: Some(20_000), left: Some(147_000), ..working("tests", 11) }),
        child(AgentView { mail: 1, tokens: Some(48_000), left: Some(119_000), ..agent("docs") }),
        child(AgentView {
            state: "done".into(),
            words: "done".into(),
            done: Some("PR 212 is green".into()),
            ..agent("fixer")
        }),
        AgentView { project: "web".into(), state_since: Some(ago(7_300)), ..agent("app") },
    ]
}

pub(crate) fn request() -> Value {
    json!({
        "id": "ab12cd34ef", "short": "ab12cd34", "agent": "reviewer", "session": "reviewer-session",
        "provider": providers::USUAL, "cwd": "/home/ada/acme/api", "tool": "Bash", "at": ago(40).to_string(),
        "input": { "command": "cargo publish --dry-run" }, "questions": [], "state": "waiting",
        "hook": null, "deadline": null,
    })
}

pub(crate) fn conversation() -> ConversationPage {
    let entry = |n: u32, act| ConversationEntry {
        offset: u64::from(n),
        at: Some(ago(120 - i64::from(n)).to_string()),
        act,
    };
    let tool = |n: u32, text: &str, ended: Option<(Option<i32>, i64)>| {
        let result = ended.map(|(exit, seconds)| ToolResult {
            failed: exit.is_some_and(|exit| exit != 0),
            exit,
            at: Some(ago(120 - i64::from(n) - seconds).to_string()),
            text: String::new(),
        });
        entry(n, EntryKind::Tool { text: text.into(), diff: None, result })
    };
    let asked = "Review PR 212, mind the public API.";
    ConversationPage {
        entries: vec![
            entry(1, EntryKind::Prompt { from: "user".into(), text: asked.into() }),
            entry(2, EntryKind::Reply { text: "Reading the diff first.".into() }),
            tool(3, "read src/session.rs", Some((None, 0))),
            tool(4, "$ cargo test -p core", Some((Some(0), 41))),
            tool(5, "$ cargo clippy", Some((Some(101), 9))),
            tool(6, "$ cargo publish --dry-run", None),
        ],
        more: true,
        next: Some(1),
    }
}

pub(crate) fn levels() -> LevelsView {
    let mut points = Vec::new();
    for cycle in 0..3_i64 {
        for n in 0..20_i64 {
            let at = ago(10_800 - cycle * 3_600 - n * 170);
            points.push(LevelPoint { at, tokens: u64::try_from(12_000 + n * 6_500).unwrap() });
        }
    }
    let mark = |seconds, kind| LevelMark { at: ago(seconds), kind, handoff: None };
    LevelsView {
        since: ago(43_200),
        points,
        marks: vec![
            mark(8_000, MarkKind::Warned),
            mark(7_600, MarkKind::Asked),
            mark(7_300, MarkKind::Sealed),
            mark(7_200, MarkKind::Rotated),
            mark(3_600, MarkKind::Compacted),
            mark(900, MarkKind::Limit),
        ],
        window: Some(200_000),
        warn_at: Some(100_000),
        ask_at: Some(130_000),
        compacts_at: Some(167_000),
    }
}

/// A screen that shows all of it.
pub(crate) fn screen(width: u16, height: u16, look: TerminalStyle) -> Model {
    let mut model = Model::new(width, height, look, Link::Daemon, now());
    model.update(ScreenEvent::Agents(house()), now());
    model.update(ScreenEvent::Approvals(vec![request()]), now());
    let read = |view| ScreenEvent::Read { agent: "reviewer".into(), view };
    // The limit is older than the request, so it comes first.
    model.update(ScreenEvent::Key(crossterm::event::KeyCode::Down.into()), now());
    model.update(read(DetailData::Conversation(Ok(conversation()))), now());
    model.update(read(DetailData::Levels(Ok(levels()))), now());
    model
}
