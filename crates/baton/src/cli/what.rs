//! `baton what NAME [state|goal|now|last|files|open]`: an agent's task and state, from its transcript and the task
//! before it. The agent is neither asked nor disturbed.

use std::fmt::Write as _;

use baton_core::agent::Agent;
use baton_core::handoff::render::goal_and_now;
use baton_core::ledger::Ledger;
use baton_core::plain::{plain, plain_line};
use baton_core::redact::redact;
use baton_core::transcript::TodoStatus;
use baton_core::transcript::entries::{ConversationEntry, EntryKind};
use jiff::Timestamp;
use serde_json::json;

use crate::cli::args::{WhatArgs, WhatPart};
use crate::cli::ui::{Paint, age, print, print_json};
use crate::cli::{App, Outcome, tail};
use crate::handoffs::transcripts::LocatedTranscript;
use crate::views::agent;
use crate::views::conversation::attribute;

/// The maximum number of files named.
const FILES: usize = 20;
/// How many entries to search for the last answer.
const RECENT: usize = 2_000;

struct Answer {
    /// Its activity or the event that it waits for, and since when.
    state: String,
    /// The words with which it declared its task finished.
    done: Option<String>,
    goal: Option<String>,
    now: Option<String>,
    last: Option<String>,
    files: Vec<String>,
    open: Vec<String>,
}

pub(super) fn run(app: &App, args: &WhatArgs) -> anyhow::Result<Outcome> {
    let Some(agent) = app.meant_agent(args.agent.as_ref())? else { return Ok(Outcome::Nothing) };
    let Some(answer) = answer(app, &agent)? else { return Ok(Outcome::Nothing) };
    let part = args.part;
    if args.json {
        let whole = json!({ "agent": agent.id, "state": answer.state, "done": answer.done, "goal": answer.goal, "now": answer.now, "last": answer.last,
            "files": answer.files, "open": answer.open });
        print_json(&part.map_or_else(|| whole.clone(), |part| whole[name(part)].clone()))?;
        return Ok(Outcome::Done);
    }
    let Some(part) = part else {
        print(&all(&agent, &answer))?;
        return Ok(Outcome::Done);
    };
    let text = match part {
        WhatPart::State => Some(answer.state),
        WhatPart::Goal => answer.goal,
        WhatPart::Now => answer.now,
        WhatPart::Last => answer.last,
        WhatPart::Files => (!answer.files.is_empty()).then(|| answer.files.join("\n")),
        WhatPart::Open => (!answer.open.is_empty()).then(|| answer.open.join("\n")),
    };
    let Some(text) = text else {
        eprintln!("baton: that is unknown: {} has no {}", agent.id, name(part));
        return Ok(Outcome::Nothing);
    };
    print(&format!("{}\n", text.trim_end()))?;
    Ok(Outcome::Done)
}

fn name(part: WhatPart) -> &'static str {
    match part {
        WhatPart::State => "state",
        WhatPart::Goal => "goal",
        WhatPart::Now => "now",
        WhatPart::Last => "last",
        WhatPart::Files => "files",
        WhatPart::Open => "open",
    }
}

fn answer(app: &App, agent: &Agent) -> anyhow::Result<Option<Answer>> {
    let Some((session, follower)) = tail::open(app, agent, RECENT)? else { return Ok(None) };
    let path = session.transcript.clone().unwrap_or_default().into();
    let found = LocatedTranscript { path, session: Some(session) };
    let store = app.store();
    let ledger = if found.path.is_file() {
        found.ledger(&store, &app.handoffs())?
    } else {
        // If the client deleted the transcript, only the entries remain.
        Ledger::new()
    };
    let clean = |text: &str| redact(&plain(text)).text.into_owned();
    let goal = goal_and_now(&ledger).map(|(goal, _)| goal);
    let doing = ledger.todos.open().find(|task| task.status == TodoStatus::InProgress);
    let mut entries: Vec<ConversationEntry> = follower.conversation.entries().cloned().collect();
    if let Some(session) = &found.session {
        attribute(&mut entries, agent, session);
    }
    // The last request, which may be a message; our own prompts ask for nothing new.
    let asked = entries.iter().rev().find_map(|entry| match &entry.act {
        EntryKind::Prompt { from, text } if from == "user" => Some(text.clone()),
        EntryKind::Prompt { from, text } if !["baton", "client", "tool"].contains(&from.as_str()) => {
            Some(format!("{from}: {text}"))
        }
        _ => None,
    });
    let mut files: Vec<_> = ledger.files.files.iter().filter(|file| file.is_touched()).collect();
    files.sort_by_key(|file| std::cmp::Reverse(file.act));
    let files = files.into_iter().take(FILES).map(|file| {
        let how = match (file.created, file.deleted, file.edits) {
            (_, true, _) => "deleted",
            (true, ..) => "created",
            (.., 0) => "read",
            _ => "edited",
        };
        format!("{how} {}", clean(&file.path))
    });
    let todos = ledger.todos.open().map(|task| format!("todo: {}", clean(&task.text)));
    let questions = ledger.questions.iter().map(|question| format!("asked: {}", clean(&question.text)));
    let running = ledger.jobs.jobs.items.iter().filter(|job| job.running);
    let jobs = running.map(|job| format!("running: {}", clean(&job.what)));
    let calls = ledger.in_flight().map(|call| format!("running: {}", clean(call)));
    // An agent that only ever got messages was asked for something too.
    let first = entries.iter().find_map(|entry| match &entry.act {
        EntryKind::Prompt { text, .. } => Some(text.clone()),
        _ => None,
    });
    let view = agent::all(&store, true, |_| app.resolved.config.context.thresholds())
        .into_iter()
        .find(|view| view.id == agent.id.as_str());
    let state = view.as_ref().map_or_else(String::new, |view| {
        let since = view.needs.as_ref().map(|need| need.since).or(view.state_since);
        let ago = since.map(|since| format!(" ({})", age(since, Timestamp::now())));
        format!("{}{}", view.words, ago.unwrap_or_default())
    });
    Ok(Some(Answer {
        state,
        done: view.and_then(|view| view.done),
        goal: goal.map(|text| clean(&text)).or(first),
        now: doing.map(|task| clean(&task.text)).or(asked),
        last: follower.conversation.last_reply().map(str::to_owned),
        files: files.collect(),
        open: todos.chain(questions).chain(jobs).chain(calls).collect(),
    }))
}

fn all(agent: &Agent, answer: &Answer) -> String {
    let paint = Paint::stdout();
    let mut out = String::new();
    let mut line = |name: &str, text: &str| {
        let _ = writeln!(out, "{} {text}", paint.bold(&format!("{name:<6}")));
    };
    line("state", &plain_line(&answer.state, 300));
    if let Some(done) = &answer.done {
        line("done", &plain_line(done, 300));
    }
    if let Some(role) = &agent.role {
        line("role", &plain_line(role, 80));
    }
    line("goal", &answer.goal.as_deref().map_or_else(|| "–".to_owned(), |text| plain_line(text, 300)));
    line("now", &answer.now.as_deref().map_or_else(|| "–".to_owned(), |text| plain_line(text, 300)));
    line("last", &answer.last.as_deref().map_or_else(|| "–".to_owned(), |text| plain_line(text, 600)));
    for (name, list) in [("files", &answer.files), ("open", &answer.open)] {
        for (n, item) in list.iter().enumerate() {
            line(if n == 0 { name } else { "" }, &plain_line(item, 200));
        }
    }
    out
}
