//! `baton outbox [AGENT]`: what an agent, or you, sent, and what became of it.

use baton_core::plain::plain_line;
use jiff::Timestamp;
use serde_json::json;

use super::args::InboxArgs;
use super::screen::{Paint, age, print, print_json, table};
use super::{App, Outcome, inbox};

pub fn run(app: &App, args: &InboxArgs) -> anyhow::Result<Outcome> {
    let own = || app.current_session().map(|session| session.agent.to_string());
    let sender =
        args.agent.as_ref().map(ToString::to_string).or_else(own).unwrap_or_else(|| "user".to_owned());
    let mail = app.store().mail();
    let mut sent = Vec::new();
    for to in mail.boxes() {
        let receipts = mail.receipts(&to);
        let from_them = mail.list(&to).into_iter().filter(|(m, _)| m.from == sender);
        sent.extend(from_them.map(|(m, state)| {
            let receipt = receipts.get(&m.id).cloned();
            (m, state, receipt)
        }));
    }
    sent.sort_by(|a, b| a.0.id.cmp(&b.0.id));
    if args.json {
        let rows: Vec<_> =
            sent.iter().map(|(m, state, receipt)| inbox::row(m, *state, receipt.as_ref())).collect();
        print_json(&json!(rows))?;
        return Ok(Outcome::Done);
    }
    if sent.is_empty() {
        print(&format!("{sender} has sent nothing.\n"))?;
        return Ok(Outcome::Nothing);
    }
    let (paint, now) = (Paint::stdout(), Timestamp::now());
    let rows: Vec<_> = sent
        .iter()
        .map(|(m, state, receipt)| {
            let evidence = receipt.as_ref().map(|r| plain_line(&r.evidence, 60)).unwrap_or_default();
            vec![
                age(m.at, now),
                m.to.to_string(),
                inbox::word(*state, paint),
                plain_line(&m.text, 60),
                evidence,
            ]
        })
        .collect();
    print(&table(paint, &["AGE", "TO", "STATE", "TEXT", "EVIDENCE"], &rows))?;
    Ok(Outcome::Done)
}
