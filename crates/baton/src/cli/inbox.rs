//! `baton inbox [AGENT]`: messages and whether they were delivered.

use baton_core::message::Message;
use baton_core::plain::plain_line;
use jiff::Timestamp;
use serde_json::json;

use super::args::InboxArgs;
use super::screen::{Paint, age, print, print_json, table};
use super::{App, Outcome};
use crate::store::mail::{Receipt, State};

pub fn run(app: &App, args: &InboxArgs) -> anyhow::Result<Outcome> {
    let own = || app.current_session().map(|session| session.agent);
    let Some(agent) = args.agent.clone().or_else(own) else {
        eprintln!("baton: name the agent whose messages you want; `baton status` lists them");
        return Ok(Outcome::Usage);
    };
    let mail = app.store().mail();
    let messages = mail.list(&agent);
    if args.json {
        let receipts = mail.receipts(&agent);
        let rows: Vec<_> = messages.iter().map(|(m, state)| row(m, *state, receipts.get(&m.id))).collect();
        print_json(&rows)?;
        return Ok(Outcome::Done);
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

/// A message with its state and how that is known.
pub fn row(message: &Message, state: State, receipt: Option<&Receipt>) -> serde_json::Value {
    let mut row = json!(message);
    row["state"] = json!(state);
    if let Some(receipt) = receipt.filter(|r| r.state == state) {
        row["evidence"] = json!(receipt.evidence);
        row["since"] = json!(receipt.at);
    }
    row
}

pub fn word(state: State, paint: Paint) -> String {
    match state {
        State::Queued => paint.yellow("queued"),
        State::Delivered => "delivered".to_owned(),
        State::Expired => paint.dim("expired"),
        State::Failed => paint.yellow("failed"),
    }
}
