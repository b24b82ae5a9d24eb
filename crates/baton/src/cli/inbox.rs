//! `baton inbox [AGENT]`: messages and whether they were delivered.

use baton_core::plain::plain_line;
use jiff::Timestamp;
use serde_json::json;

use super::args::InboxArgs;
use super::screen::{Paint, age, print, print_json, table};
use super::{App, Outcome};
use crate::store::mail::State;

pub fn run(app: &App, args: &InboxArgs) -> anyhow::Result<Outcome> {
    let own = || app.current_session().map(|session| session.agent);
    let Some(agent) = args.agent.clone().or_else(own) else {
        eprintln!("baton: name the agent whose messages you want; `baton status` lists them");
        return Ok(Outcome::Usage);
    };
    let messages = app.store().mail().list(&agent);
    if args.json {
        let rows: Vec<_> = messages
            .iter()
            .map(|(m, state)| {
                let mut row = json!(m);
                row["state"] = json!(state);
                row
            })
            .collect();
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
        .map(|(m, state)| {
            let state = match state {
                State::Queued => paint.yellow("queued"),
                State::Delivered => "delivered".to_owned(),
            };
            vec![age(m.at, now), m.from.clone(), state, plain_line(&m.text, 80)]
        })
        .collect();
    print(&table(paint, &["AGE", "FROM", "STATE", "TEXT"], &rows))?;
    Ok(Outcome::Done)
}
