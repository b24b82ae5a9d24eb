//! `baton outbox [AGENT]`: the messages that an agent, or you, sent, and their states.

use std::path::Path;

use baton_core::fleet::envelope::{self, Kind};
use baton_core::fleet::stage::Receipt;
use baton_core::plain::plain_line;
use jiff::Timestamp;
use serde_json::json;

use crate::cli::args::InboxArgs;
use crate::cli::ui::{Paint, age, print, print_json, table_ranked};
use crate::cli::{App, Outcome, inbox};
use crate::fleet::config::Membership;
use crate::fleet::outbox::Outbox;
use crate::mail::maildir::Mail;

pub(super) fn run(app: &App, args: &InboxArgs) -> anyhow::Result<Outcome> {
    let sender = match &args.agent {
        Some(agent) => agent.to_string(),
        None => app.current_session()?.map_or_else(|| "user".to_owned(), |session| session.agent.to_string()),
    };
    let mail = Mail::of(&app.store());
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
    let abroad = abroad(&app.paths.state, &sender)?;
    if args.json {
        let mut rows: Vec<_> = sent
            .iter()
            .map(|(m, state, receipt)| crate::views::mail::row(m, *state, receipt.as_ref()))
            .collect();
        rows.extend(abroad.iter().map(|(to, mail, receipt)| {
            let mut row = json!(mail);
            row["id"] = json!(receipt.id);
            row["to"] = json!(to);
            row["state"] = json!(receipt.stage);
            row["evidence"] = json!(receipt.evidence);
            row["since"] = json!(receipt.at);
            row
        }));
        print_json(&json!(rows))?;
        return Ok(Outcome::Done);
    }
    if sent.is_empty() && abroad.is_empty() {
        let who = if sender == "user" { "You have" } else { &format!("{sender} has") };
        print(&format!("{who} sent nothing.\n"))?;
        return Ok(Outcome::Nothing);
    }
    let (paint, now) = (Paint::stdout(), Timestamp::now());
    let mut rows: Vec<_> = sent
        .iter()
        .map(|(m, state, receipt)| {
            let evidence = receipt.as_ref().map(|r| plain_line(&r.evidence, 60)).unwrap_or_default();
            vec![
                age(m.at, now),
                m.to.to_string(),
                inbox::word(*state, paint),
                evidence,
                plain_line(&m.text, 60),
            ]
        })
        .collect();
    rows.extend(abroad.into_iter().map(|(to, mail, receipt)| {
        let evidence = plain_line(&receipt.evidence, 60);
        vec![age(mail.at, now), to, receipt.stage.as_str().to_owned(), evidence, plain_line(&mail.text, 60)]
    }));
    let head = [("AGE", 1), ("TO", 0), ("STATE", 0), ("EVIDENCE", 2), ("TEXT", 0)];
    print(&table_ranked(paint, &head, &rows))?;
    Ok(Outcome::Done)
}

/// Messages to other machines, and how far they have come.
fn abroad(state: &Path, sender: &str) -> anyhow::Result<Vec<(String, envelope::Mail, Receipt)>> {
    let Some(membership) = Membership::read(state)? else { return Ok(Vec::new()) };
    let parcels = Outbox::of(state).all(&membership.name)?.into_iter().filter(|(p, _)| p.kind == Kind::Mail);
    let mail = parcels.filter_map(|(parcel, receipt)| {
        let mail: envelope::Mail = serde_json::from_value(parcel.body).ok()?;
        (mail.from == sender).then(|| (format!("{}@{}", mail.to, parcel.to), mail, receipt))
    });
    Ok(mail.collect())
}
