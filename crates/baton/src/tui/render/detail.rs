//! The right side: the selected agent's conversation, handoff, history, mail, requests and log.

use baton_core::approval::Request;
use baton_core::reading::tokens;
use baton_core::transcript::entries::{ConversationEntry, EntryKind, ToolResult};
use serde_json::Value;

use crate::sys::clock::{age, clock};
use crate::tui::model::{Model, Tab};
use crate::tui::render::request;
use crate::tui::render::style::Tone;
use crate::tui::render::text::{StyledLine, cut, fit, width, wrap};
use crate::views::agent::{AgentView, QuestionView};
use crate::views::chain::{ChainView, HopView};
use crate::views::draft::DraftView;

/// How many characters of a text are shown; the transcript has the rest.
const MAX_TEXT: usize = 3_000;
/// How many lines of a request are shown below the conversation.
const MAX_REQUEST: usize = 12;

/// All lines of the tab.
pub(crate) fn lines(model: &Model, columns: usize) -> Vec<StyledLine> {
    let Some(agent) = model.agent() else { return Vec::new() };
    let detail = &model.detail;
    match model.tab {
        Tab::Now => now(model, agent, columns),
        Tab::Handoff => told(model, detail.draft.as_ref(), |draft| handoff(model, draft, columns)),
        Tab::Chain => told(model, detail.chain.as_ref(), |chain| chained(model, chain, columns)),
        Tab::Mail => told(model, detail.mail.as_ref(), |mail| mailed(model, mail, columns)),
        Tab::Approvals => approvals(model, agent, columns),
        Tab::Log => told(model, detail.log.as_ref(), |lines| {
            let dim = model.look.style(Tone::Dim);
            let line = |line: &crate::store::log::LogLine| {
                let detail = in_words(&line.detail);
                let at = clock(line.at, model.now);
                let event = fit(&line.event, 20);
                let room = columns.saturating_sub(width(&at) + 23);
                StyledLine::new(format!("{at} "), dim)
                    .with(format!("{event} "), model.look.style(Tone::Plain))
                    .with(cut(&detail, room), dim)
            };
            lines.iter().map(line).collect()
        }),
    }
}

/// The detail of a log line in words, without JSON syntax.
fn in_words(detail: &Value) -> String {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match detail {
        Value::Null => String::new(),
        Value::Object(fields) => {
            let told = fields.iter().filter(|(_, value)| !value.is_null());
            told.map(|(name, value)| format!("{name} {}", word(value))).collect::<Vec<_>>().join(" · ")
        }
        other => word(other),
    }
}

/// The lines of what was read, or a note that it is still being read or could not be.
fn told<T>(
    model: &Model,
    read: Option<&Result<T, String>>,
    lines: impl FnOnce(&T) -> Vec<StyledLine>,
) -> Vec<StyledLine> {
    match read {
        None => vec![StyledLine::new("reading …", model.look.style(Tone::Dim))],
        Some(Err(why)) => vec![StyledLine::new(why.clone(), model.look.style(Tone::Warn))],
        Some(Ok(value)) => {
            let lines = lines(value);
            if lines.is_empty() {
                vec![StyledLine::new("nothing yet", model.look.style(Tone::Dim))]
            } else {
                lines
            }
        }
    }
}

fn now(model: &Model, agent: &AgentView, columns: usize) -> Vec<StyledLine> {
    let look = model.look;
    let mut lines = facts(model, agent, columns);
    lines.push(rule(model, columns));
    lines.extend(told(model, model.detail.conversation.as_ref(), |page| {
        let mut lines = Vec::new();
        if page.more {
            lines.push(StyledLine::new("… earlier", look.style(Tone::Dim)));
        }
        for entry in &page.entries {
            lines.extend(said(model, entry, columns));
        }
        lines
    }));
    if let Some(pending) = &agent.pending {
        lines.push(StyledLine::default());
        lines.extend(paragraph(&pending.waits_for, columns, look.style(Tone::Moving)));
        lines.push(StyledLine::new("[c] ", look.style(Tone::Key)).with("cancel it", look.style(Tone::Dim)));
    }
    if let Some(asked) = model.request() {
        lines.push(rule(model, columns));
        lines.extend(asks(model, asked, columns));
    } else if let Some(question) = &agent.question {
        lines.push(rule(model, columns));
        lines.extend(asks_user(model, agent, question, columns));
    } else if let Some(need) = &agent.needs {
        lines.push(rule(model, columns));
        lines.extend(paragraph(&need.text, columns, look.style(Tone::Need)));
        let ago = format!("since {} ({} ago)", clock(need.since, model.now), age(need.since, model.now));
        lines.push(StyledLine::new(ago, look.style(Tone::Dim)));
    }
    lines
}

/// Describes the agent in a line or two.
fn facts(model: &Model, agent: &AgentView, columns: usize) -> Vec<StyledLine> {
    let look = model.look;
    let dim = look.style(Tone::Dim);
    let client = agent.model.as_deref().unwrap_or(&agent.provider);
    let mut about = vec![client.to_owned(), agent.project.clone(), agent.place.clone()];
    if let (Some(tokens_now), Some(end)) = (agent.tokens, agent.compacts_at) {
        about.push(format!("{} of {}", tokens(tokens_now), tokens(end)));
    }
    let mut lines = vec![StyledLine::new(cut(&about.join(" · "), columns), dim)];
    for (name, text) in [("goal ", &agent.goal), ("now  ", &agent.now)] {
        if let Some(text) = text {
            let text = cut(text, columns.saturating_sub(5));
            lines.push(StyledLine::new(name, dim).with(text, look.style(Tone::Plain)));
        }
    }
    lines
}

fn rule(model: &Model, columns: usize) -> StyledLine {
    StyledLine::new(model.look.pick("─", "-").repeat(columns), model.look.style(Tone::Dim))
}

fn paragraph(text: &str, columns: usize, style: ratatui_core::style::Style) -> Vec<StyledLine> {
    wrap(text, columns).into_iter().map(|line| StyledLine::new(line, style)).collect()
}

fn said(model: &Model, entry: &ConversationEntry, columns: usize) -> Vec<StyledLine> {
    let look = model.look;
    let (plain, dim) = (look.style(Tone::Plain), look.style(Tone::Dim));
    let (who, text, style, body) = match &entry.act {
        EntryKind::Tool { text, result, .. } => {
            return vec![tool(model, entry, text, result.as_ref(), columns)];
        }
        EntryKind::Prompt { from, text } => match from.as_str() {
            "user" => ("you", text, look.style(Tone::Bold), plain),
            "baton" => ("baton", text, look.style(Tone::Moving), look.style(Tone::Moving)),
            from => (from, text, look.style(Tone::Moving), plain),
        },
        EntryKind::Reply { text } => ("agent", text, plain, plain),
        EntryKind::Note { text } => (look.pick("—", "-"), text, dim, dim),
    };
    let name = fit(who, 7);
    let short: String = text.chars().take(MAX_TEXT).collect();
    let text = if short.len() < text.len() { format!("{short} …") } else { short };
    let lines = wrap(&text, columns.saturating_sub(8)).into_iter().enumerate().map(|(n, text)| {
        let head = if n == 0 { format!("{name} ") } else { " ".repeat(8) };
        StyledLine::new(head, style).with(text, body)
    });
    lines.collect()
}

fn tool(
    model: &Model,
    entry: &ConversationEntry,
    text: &str,
    result: Option<&ToolResult>,
    columns: usize,
) -> StyledLine {
    let look = model.look;
    let (mark, tone) = match result {
        Some(result) if result.failed => (look.pick("✗", "x"), Tone::Bad),
        Some(_) => (look.pick("✓", "+"), Tone::Good),
        None => (look.pick("…", "."), Tone::Need),
    };
    let waits = result.is_none() && model.request().is_some();
    let exit = result.and_then(|result| result.exit).map(|exit| format!("exit {exit}"));
    let took = entry.seconds().filter(|seconds| *seconds > 0).map(duration);
    let end = match (result, entry.time()) {
        _ if waits => "waits for you".to_owned(),
        (None, Some(at)) => format!("runs {}", age(at, model.now)),
        (None, None) => "runs".to_owned(),
        (Some(_), _) => {
            let took = took.map(|took| if exit.is_some() { format!("{took:>4}") } else { took });
            exit.into_iter().chain(took).collect::<Vec<_>>().join(" ")
        }
    };
    let room = columns.saturating_sub(4 + width(&end) + 2);
    let first = text.lines().next().unwrap_or_default();
    let text = if first.len() < text.len() { format!("{first} …") } else { first.to_owned() };
    StyledLine::new(format!("  {mark} "), look.style(tone))
        .with(fit(&text, room), look.style(Tone::Plain))
        .with(format!("  {end}"), look.style(if waits || tone == Tone::Bad { tone } else { Tone::Dim }))
}

/// How long a tool call took, in the units of ages.
fn duration(seconds: u64) -> String {
    let then = jiff::Timestamp::UNIX_EPOCH;
    let took = i64::try_from(seconds).unwrap_or(i64::MAX);
    age(then, then.saturating_add(jiff::SignedDuration::from_secs(took)).unwrap_or(jiff::Timestamp::MAX))
}

/// A request with the keys that answer it.
fn asks(model: &Model, asked: &Value, columns: usize) -> Vec<StyledLine> {
    let look = model.look;
    let mut lines = Vec::new();
    let Ok(parsed) = serde_json::from_value::<Request>(asked.clone()) else { return lines };
    let folder = request::folder(asked, &parsed);
    let head = format!("asks for {}, {} ago, in {folder}", parsed.asks_for(), age(parsed.at, model.now));
    lines.push(StyledLine::new(cut(&head, columns), look.style(Tone::Need)));
    let mut body = request::lines(model, &parsed, columns.saturating_sub(2));
    let more = body.len().saturating_sub(MAX_REQUEST);
    body.truncate(MAX_REQUEST);
    for line in body {
        let mut indented = StyledLine::new("  ", look.style(Tone::Plain));
        indented.0.extend(line.0);
        lines.push(indented);
    }
    if more > 0 {
        lines.push(StyledLine::new(format!("  … {more} more lines; a shows all"), look.style(Tone::Dim)));
    }
    lines.push(request::keys(model, asked));
    lines
}

/// A message whose sender waits for the answer, with the key that gives it.
fn asks_user(model: &Model, agent: &AgentView, question: &QuestionView, columns: usize) -> Vec<StyledLine> {
    let look = model.look;
    let since = agent.needs.as_ref().map_or(model.now, |need| need.since);
    let head = format!("asks you, {} ago", age(since, model.now));
    let mut lines = vec![StyledLine::new(head, look.style(Tone::Need))];
    let text = wrap(&question.text, columns.saturating_sub(2)).into_iter().take(MAX_REQUEST);
    lines.extend(text.map(|line| StyledLine::new(format!("  {line}"), look.style(Tone::Bold))));
    lines.push(
        StyledLine::new("[a]", look.style(Tone::Key))
            .with(format!(" answer  baton reply {} TEXT", question.id), look.style(Tone::Dim)),
    );
    lines
}

fn handoff(model: &Model, draft: &DraftView, columns: usize) -> Vec<StyledLine> {
    let look = model.look;
    let mut lines = Vec::new();
    match &draft.against {
        Some(id) if draft.lacking.is_empty() => {
            lines.push(StyledLine::new(format!("lacks nothing that {id} had"), look.style(Tone::Good)));
        }
        Some(id) => {
            lines.push(StyledLine::new(format!("lacks what {id} had:"), look.style(Tone::Warn)));
            for item in &draft.lacking {
                let text = cut(&item.text, columns.saturating_sub(12));
                lines.push(StyledLine::new(format!("- {:<9} {text}", item.kind), look.style(Tone::Bad)));
            }
        }
        None => {
            lines.push(StyledLine::new(
                "sealed now, it would be the first of its task",
                look.style(Tone::Dim),
            ));
        }
    }
    lines.push(rule(model, columns));
    for line in wrap(&draft.document, columns) {
        let tone = if line.starts_with('#') { Tone::Bold } else { Tone::Plain };
        lines.push(StyledLine::new(line, look.style(tone)));
    }
    lines
}

fn chained(model: &Model, chain: &ChainView, columns: usize) -> Vec<StyledLine> {
    let look = model.look;
    let (plain, dim) = (look.style(Tone::Plain), look.style(Tone::Dim));
    let mut lines = Vec::new();
    if chain.earlier > 0 {
        lines.push(StyledLine::new(format!("{} earlier handoffs", chain.earlier), dim));
    }
    for session in &chain.sessions {
        let short: String = session.id.chars().take(8).collect();
        let until = session.ended.map_or_else(String::new, |at| format!(" until {}", clock(at, model.now)));
        let filled = session.tokens.map_or_else(String::new, |n| format!(" · {} tokens", tokens(n)));
        let head = format!(
            "{} {short}  {} {}{until}{filled}",
            look.pick("●", "*"),
            begun(session.source.as_str()),
            clock(session.started, model.now)
        );
        lines.push(StyledLine::new(cut(&head, columns), plain));
        for hop in chain.hops.iter().filter(|hop| hop.session == session.id) {
            lines.push(StyledLine::new(cut(&hopped(hop), columns), look.style(Tone::Moving)));
        }
    }
    let known = |hop: &&HopView| !chain.sessions.iter().any(|session| session.id == hop.session);
    let others: Vec<&HopView> = chain.hops.iter().filter(known).collect();
    if !others.is_empty() {
        lines.insert(0, StyledLine::new("before, in the same task:", dim));
        for (n, hop) in others.into_iter().enumerate() {
            lines.insert(n + 1, StyledLine::new(cut(&hopped(hop), columns), look.style(Tone::Moving)));
        }
    }
    lines
}

/// How a session began; the words of the page.
fn begun(source: &str) -> &str {
    match source {
        "startup" => "started",
        "clear" => "fresh context",
        "compact" => "compacted",
        "resume" => "resumed",
        "fork" => "forked",
        other => other,
    }
}

fn hopped(hop: &HopView) -> String {
    let by = if hop.wrote { "written by the agent" } else { "made by baton" };
    let carried = hop.carried.as_ref().map_or_else(String::new, |carried| {
        let some: Vec<String> = ["request", "rule", "open", "commit", "file"]
            .iter()
            .filter_map(|kind| {
                carried.get(*kind).map(|n| format!("{n} {kind}{}", if *n == 1 { "" } else { "s" }))
            })
            .collect();
        format!(" · {}", some.join(", "))
    });
    format!("  └ {} {} {by}{carried}", hop.handoff, hop.kind)
}

fn mailed(model: &Model, mail: &[Value], columns: usize) -> Vec<StyledLine> {
    let look = model.look;
    let mut lines = Vec::new();
    for message in mail {
        let text = |name: &str| message[name].as_str().unwrap_or_default();
        let at =
            text("at").parse::<jiff::Timestamp>().map_or_else(|_| String::new(), |at| age(at, model.now));
        let state = match text("state") {
            "delivered" => "seen",
            "queued" => "waits",
            other => other,
        };
        // Sequential is the default, so do not mention it.
        let urgency = match text("urgency") {
            "sequential" => String::new(),
            other => format!("{other}, "),
        };
        let head = format!("from {}, {at} ago: {urgency}{state}", text("from"));
        let tone = if state == "waits" { Tone::Moving } else { Tone::Dim };
        lines.push(StyledLine::new(cut(&head, columns), look.style(tone)));
        let short: String = baton_core::plain::plain(text("text")).chars().take(600).collect();
        for line in wrap(&short, columns.saturating_sub(2)) {
            lines.push(StyledLine::new(format!("  {line}"), look.style(Tone::Plain)));
        }
    }
    lines
}

fn approvals(model: &Model, agent: &AgentView, columns: usize) -> Vec<StyledLine> {
    let look = model.look;
    let mut lines = Vec::new();
    for asked in &model.approvals {
        let who = asked["agent"].as_str().unwrap_or_default();
        if who == agent.id {
            lines.extend(asks(model, asked, columns));
        } else {
            let at = asked["at"].as_str().and_then(|at| at.parse().ok());
            let ago = at.map_or_else(String::new, |at| format!(", {} ago", age(at, model.now)));
            let need = model.agents.get(who).and_then(|agent| agent.needs.as_ref());
            let tool = || format!("asks for {}", asked["asks_for"].as_str().unwrap_or_default());
            let text = format!("{who} {}{ago}", need.map_or_else(tool, |need| need.text.clone()));
            lines.push(StyledLine::new(cut(&text, columns), look.style(Tone::Dim)));
        }
        lines.push(StyledLine::default());
    }
    let asking = model.agents.values().filter_map(|agent| Some((agent, agent.question.as_ref()?)));
    for (other, question) in asking {
        if other.id == agent.id {
            lines.extend(asks_user(model, other, question, columns));
        } else {
            let text = format!("{} asks: {}", other.id, question.text);
            lines.push(StyledLine::new(cut(&text, columns), look.style(Tone::Dim)));
        }
        lines.push(StyledLine::default());
    }
    if lines.is_empty() {
        lines.push(StyledLine::new("Nobody asks for anything.", look.style(Tone::Dim)));
    }
    lines
}
