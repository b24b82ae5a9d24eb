//! `baton tail NAME`: an agent's latest actions from its transcript; `--screen` shows the end of its pane.

use std::time::Duration;

use anyhow::Context as _;
use baton_core::agent::Agent;
use baton_core::plain::{plain, plain_line};
use baton_core::session::Session;
use baton_core::transcript::entries::{ConversationEntry, EntryKind};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::cli::args::TailArgs;
use crate::cli::ui::{Paint, escaped, print, print_json, print_raw};
use crate::cli::{App, Outcome};
use crate::history::conversation::Follower;
use crate::rotation::actuators::tmux::server::{RecordedPane, Server};
use crate::sys::process;
use crate::sys::watch::Watch;
use crate::views::conversation::attribute;

/// The default numbers of entries and of screen lines.
const ENTRIES: usize = 20;
const LINES: usize = 40;
/// Longer lines are cut; answers are shown whole.
const WIDTH: usize = 160;
/// How many conversations to try if the newest are empty.
const LOOK_BACK: usize = 8;
/// How long to wait at most before reading a transcript again.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(super) fn run(app: &App, args: &TailArgs) -> anyhow::Result<Outcome> {
    let Some(agent) = app.meant_agent(args.agent.as_ref())? else { return Ok(Outcome::Nothing) };
    if args.screen {
        return screen(&agent, args);
    }
    let most = args.lines.unwrap_or(ENTRIES);
    let Some((session, follower)) = open(app, &agent, most)? else { return Ok(Outcome::Nothing) };
    let mut entries: Vec<ConversationEntry> = follower.conversation.entries().cloned().collect();
    attribute(&mut entries, &agent, &session);
    let paint = Paint::stdout();
    if agent.session.as_ref().is_some_and(|present| *present != session.id) && !args.json {
        let short = session.id.short();
        print(&paint.dim(&format!("— nothing yet in its fresh context; before it, in {short}: —\n")))?;
    }
    if args.json && !args.follow {
        print_json(&json!({ "agent": agent.id, "session": session.id, "entries": entries }))?;
        return Ok(Outcome::Done);
    }
    for entry in &entries {
        show(entry, paint, args.json)?;
    }
    if entries.is_empty() && !args.follow {
        print(&format!("{} has said and done nothing yet.\n", agent.id))?;
        return Ok(Outcome::Nothing);
    }
    if args.follow { follow(app, &agent, session, follower, args.json) } else { Ok(Outcome::Done) }
}

/// The agent's conversation; prints why there is none.
pub(super) fn open(app: &App, agent: &Agent, most: usize) -> anyhow::Result<Option<(Session, Follower)>> {
    let found = find(app, agent, most)?;
    if found.is_none() {
        eprintln!("baton: {} has no conversation yet, and no copy of one is kept", agent.id);
    }
    Ok(found)
}

/// The newest of its conversations in which something was said or done, else its present one.
fn find(app: &App, agent: &Agent, most: usize) -> anyhow::Result<Option<(Session, Follower)>> {
    let store = app.store();
    let doing = || format!("could not read the transcript of {}", agent.id);
    let before = agent.sessions.iter().rev().filter(|id| agent.session.as_ref() != Some(*id));
    let mut present = None;
    for id in agent.session.iter().chain(before).take(LOOK_BACK) {
        let Some(session) = store.sessions().get(id)? else { continue };
        let Some(follower) = Follower::open(&store, &session, most).with_context(doing)? else { continue };
        let is_empty = follower.conversation.entries().next().is_none();
        let found = Some((session, follower));
        if !is_empty {
            return Ok(found);
        }
        present = present.or(found);
    }
    Ok(present)
}

/// The agent's present conversation, for following it.
fn present(app: &App, agent: &Agent) -> anyhow::Result<Option<(Session, Follower)>> {
    let store = app.store();
    let session = agent.session.as_ref().map(|id| store.sessions().get(id)).transpose()?.flatten();
    let Some(session) = session else { return Ok(None) };
    let doing = || format!("could not read the transcript of {}", agent.id);
    let follower = Follower::open(&store, &session, usize::MAX).with_context(doing)?;
    Ok(follower.map(|follower| (session, follower)))
}

/// Follows the conversation, across fresh contexts too, until the agent is gone.
fn follow(
    app: &App,
    agent: &Agent,
    mut session: Session,
    mut follower: Follower,
    json: bool,
) -> anyhow::Result<Outcome> {
    let (store, paint) = (app.store(), Paint::stdout());
    let mut watch = Watch::folders(&[&store.state.join("agents"), &store.state.join("sessions")])?;
    follower.conversation.news();
    loop {
        watch.wait(LOOK_EVERY);
        // The client may have written more than its hooks have reported.
        let _ = follower.read_on();
        let mut news = follower.conversation.news();
        attribute(&mut news, agent, &session);
        for entry in news {
            show(&entry, paint, json)?;
        }
        let now = store.agents().get(&agent.id)?;
        let Some(now) = now.filter(|now| store.presence(now).is_there()) else { return Ok(Outcome::Done) };
        if now.session.as_ref().is_some_and(|id| *id != session.id)
            && let Some((next, with)) = present(app, &now)?
        {
            if !json {
                print(&paint.dim("— a fresh context —\n"))?;
            }
            (session, follower) = (next, with);
        }
    }
}

fn show(entry: &ConversationEntry, paint: Paint, json: bool) -> anyhow::Result<()> {
    if json {
        print_raw(&(escaped(&serde_json::to_string(entry)?) + "\n"))
    } else {
        print(&line(entry, paint))
    }
}

/// One entry for people: a line, or an answer as it is.
fn line(entry: &ConversationEntry, paint: Paint) -> String {
    let at = entry.at.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
    let at = at.map_or_else(
        || "     ".to_owned(),
        |at| at.to_zoned(TimeZone::system()).strftime("%H:%M").to_string(),
    );
    let at = paint.dim(&at);
    match &entry.act {
        EntryKind::Prompt { from, text } => {
            format!("{at}  {} {}\n", paint.cyan(&format!("{from:<6}")), paint.bold(&plain_line(text, WIDTH)))
        }
        EntryKind::Reply { text } => {
            let text = plain(text.trim_end()).replace('\n', "\n              ");
            format!("{at}  {} {text}\n", paint.green("agent "))
        }
        EntryKind::Tool { text, result, .. } => {
            let (mark, end) = match result {
                None => (paint.yellow("…"), String::new()),
                Some(result) => {
                    let exit = result.exit.map(|code| format!("exit {code}"));
                    // Claude Code puts the exit code before the output of a failed command.
                    let said = match result.exit {
                        Some(code) => {
                            result.text.strip_prefix(&format!("Exit code {code}")).unwrap_or(&result.text)
                        }
                        None => &result.text,
                    };
                    let why = result.failed.then(|| plain_line(said, 80)).filter(|t| !t.is_empty());
                    let end: Vec<String> = exit.into_iter().chain(why).collect();
                    let mark = if result.failed { paint.red("✗") } else { paint.green("✓") };
                    (mark, if end.is_empty() { String::new() } else { format!("  ({})", end.join(", ")) })
                }
            };
            format!("{at}    {mark}    {}{}\n", plain_line(text, WIDTH), paint.dim(&end))
        }
        EntryKind::Note { text } => {
            format!("{at}  {}\n", paint.dim(&format!("— {}", plain_line(text, WIDTH))))
        }
    }
}

/// The last lines of its pane.
fn screen(agent: &Agent, args: &TailArgs) -> anyhow::Result<Outcome> {
    let shown = agent.pane.as_ref().filter(|pane| {
        process::is_alive(&pane.server)
            && Server::of(pane).facts(&pane.id).is_some_and(|facts| facts.process == pane.process.pid)
    });
    let Some(pane) = shown else {
        eprintln!(
            "baton: {} has no pane that could be shown; without --screen its transcript is read",
            agent.id
        );
        return Ok(Outcome::Nothing);
    };
    let text = RecordedPane::new(pane).lines(args.lines.unwrap_or(LINES))?;
    if args.json {
        print_json(
            &json!({ "agent": agent.id, "pane": pane.id, "lines": text.lines().map(|l| plain(l)).collect::<Vec<_>>() }),
        )?;
    } else {
        print_raw(&format!("{}\n", plain(&text)))?;
    }
    Ok(Outcome::Done)
}
