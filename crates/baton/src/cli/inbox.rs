//! `baton inbox [AGENT]`: messages and whether they were delivered. Without a name, the user sees their own.

use std::fmt::Write as _;

use baton_core::ids::AgentId;
use baton_core::message::{Message, short_id};
use baton_core::plain::{plain, plain_line};
use jiff::Timestamp;

use crate::cli::args::InboxArgs;
use crate::cli::ui::text::cut;
use crate::cli::ui::{Paint, age, print, print_json, table};
use crate::cli::{App, Outcome};
use crate::mail::maildir::Mail;
use crate::mail::maildir::State;
use crate::mail::{remind, user};
use crate::sessions::caller::Caller;
use crate::sys::terminal;
use crate::views::mail::row;

/// How many read messages to show again.
const RECENT: usize = 10;
pub(super) fn run(app: &App, args: &InboxArgs) -> anyhow::Result<Outcome> {
    let caller = app.caller();
    let agent = match (&args.agent, &caller) {
        (Some(agent), _) | (None, Caller::Agent(agent)) => app.store().agents().name_now(agent)?,
        (None, Caller::User | Caller::Unknown) => user::id(),
    };
    // Without a daemon, this command sends due reminders.
    remind::fire(&app.store(), Some(&agent), Timestamp::now());
    let mail = Mail::of(&app.store());
    let messages = mail.list(&agent);
    if args.json {
        let receipts = mail.receipts(&agent);
        let rows: Vec<_> = messages.iter().map(|(m, state)| row(m, *state, receipts.get(&m.id))).collect();
        print_json(&rows)?;
        return Ok(Outcome::Done);
    }
    if agent == user::id() {
        return own(&mail, &agent, &messages, &caller);
    }
    if messages.is_empty() {
        print(&format!("No messages for {agent}.\n"))?;
        return Ok(Outcome::Nothing);
    }
    let (paint, now) = (Paint::stdout(), Timestamp::now());
    let rows: Vec<_> = messages
        .iter()
        .map(|(m, state)| vec![age(m.at, now), m.from.clone(), word(*state, paint), plain_line(&m.text, 80)])
        .collect();
    print(&table(paint, &["AGE", "FROM", "STATE", "TEXT"], &rows))?;
    Ok(Outcome::Done)
}

/// The user's own inbox: new messages in full, then the last of the others as lines. Showing a message marks it as
/// read.
fn own(
    mail: &Mail,
    user: &AgentId,
    messages: &[(Message, State)],
    caller: &Caller,
) -> anyhow::Result<Outcome> {
    let (paint, now) = (Paint::stdout(), Timestamp::now());
    let columns = terminal::size().map_or(usize::MAX, |(columns, _)| usize::from(columns));
    let of = |state: State| messages.iter().filter(move |(_, is)| *is == state).map(|(message, _)| message);
    let mut out = String::new();
    let new: Vec<&Message> = of(State::Queued).collect();
    for message in &new {
        let id = short_id(&message.id);
        let head = format!("{:>4}  {id}  {}", age(message.at, now), message.from);
        let asks = if message.ask {
            format!(" waits for your answer: baton reply {id} \"…\"")
        } else {
            String::new()
        };
        let _ = writeln!(out, "{}{}", paint.bold(&head), paint.yellow(&asks));
        let words = plain(words(message)).trim_end().replace('\n', "\n      ");
        let _ = writeln!(out, "      {words}");
    }
    let read: Vec<&Message> = of(State::Delivered).collect();
    let recent = &read[read.len().saturating_sub(RECENT)..];
    if new.is_empty() {
        out.push_str(if recent.is_empty() { "No messages yet.\n" } else { "Nothing new. Read before:\n" });
    } else if !recent.is_empty() {
        let _ = writeln!(out, "\n{}", paint.dim("Read before:"));
    }
    for message in recent {
        let line = format!(
            "{:>4}  {}  {}  {}",
            age(message.at, now),
            short_id(&message.id),
            message.from,
            plain_line(words(message), 100)
        );
        let _ = writeln!(out, "{}", paint.dim(&cut(&line, columns)));
    }
    print(&out)?;
    // An agent that looks does not mark it as read for the user.
    if *caller == Caller::User {
        mail.all_seen(user, "read by the user", now);
    }
    Ok(if new.is_empty() { Outcome::Nothing } else { Outcome::Done })
}

/// The text of a message. Notices name their sender again, for agents.
fn words(message: &Message) -> &str {
    let text = message.text.as_str();
    if message.from == "baton" { text.strip_prefix("[baton] ").unwrap_or(text) } else { text }
}

pub(super) fn word(state: State, paint: Paint) -> String {
    match state {
        State::Queued => paint.yellow("queued"),
        State::Delivered => "delivered".to_owned(),
        State::Expired => paint.dim("expired"),
        State::Failed => paint.yellow("failed"),
    }
}
