//! `baton handoffs chain`, `diff` and `draft --against`: a task's history, and what it carries.

use std::fmt::Write as _;

use anyhow::Context as _;
use baton_core::handoff::HandoffId;
use baton_core::ledger::{ItemKind, Ledger, TaskItem};
use baton_core::plain::plain_line;
use baton_core::redact::redact;
use jiff::Timestamp;
use serde_json::json;

use crate::cli::handoffs::OutputFormat;
use crate::cli::ui::{Paint, age, page, print, print_json, table};
use crate::cli::{App, Outcome};
use crate::handoffs::seal;
use crate::views::chain::hops;
use crate::views::draft::differences;

/// The handoffs that led to `id` (by default the channel's newest), oldest first.
pub(super) fn chain(
    app: &App,
    id: Option<&HandoffId>,
    look: OutputFormat,
    now: Timestamp,
) -> anyhow::Result<Outcome> {
    let Some(id) = chosen(app, id)? else { return Ok(Outcome::Nothing) };
    let Some(carried) = app.handoffs().carried(&id)? else {
        eprintln!("baton: only the document of {id} is kept; `baton handoffs show {id}` prints it");
        return Ok(Outcome::Nothing);
    };
    let rows = hops(&app.store(), &app.handoffs(), &id, &carried);
    if look.json {
        let hops: Vec<_> = rows
            .iter()
            .map(|row| {
                json!({ "handoff": row.handoff, "at": row.at, "type": row.kind, "agent": row.agent,
                    "wrote": row.wrote, "carried": row.carried })
            })
            .collect();
        print_json(&json!({ "hops": hops, "earlier": carried.ledger.earlier_hops,
            "attached": carried.attached, "items": carried.ledger.items() }))?;
        return Ok(Outcome::Done);
    }
    let paint = Paint::stdout();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let count = |kind: ItemKind| {
                let carried = row.carried.as_ref()?;
                Some(carried.get(kind.as_str()).copied().unwrap_or_default().to_string())
            };
            let mut cells = vec![row.handoff.clone(), age(row.at, now), row.kind.clone(), row.agent.clone()];
            cells.push(if row.wrote { "the agent" } else { "baton" }.to_owned());
            let kinds = [ItemKind::Request, ItemKind::Rule, ItemKind::Open, ItemKind::Commit, ItemKind::File];
            cells.extend(kinds.map(|kind| count(kind).unwrap_or_else(|| "–".to_owned())));
            cells
        })
        .collect();
    let head =
        ["HANDOFF", "AGE", "TYPE", "AGENT", "WRITTEN BY", "REQUESTS", "RULES", "OPEN", "COMMITS", "FILES"];
    let mut out = String::new();
    if carried.ledger.earlier_hops > 0 {
        let _ = writeln!(out, "{} earlier handoffs are not listed.", carried.ledger.earlier_hops);
    }
    out.push_str(&table(paint, &head, &cells));
    page(&out, look.paged)?;
    Ok(Outcome::Done)
}

/// Removes an item from the task; without one, lists what can be removed.
pub(super) fn drop_item(
    app: &App,
    item: Option<&str>,
    id: Option<&HandoffId>,
    look: OutputFormat,
) -> anyhow::Result<Outcome> {
    let Some(id) = chosen(app, id)? else { return Ok(Outcome::Nothing) };
    let Some(carried) = app.handoffs().carried(&id)? else {
        eprintln!("baton: only the document of {id} is kept; it has no items to drop");
        return Ok(Outcome::Nothing);
    };
    let items = carried.ledger.items();
    let Some(item) = item else {
        return list_items(&items, look);
    };
    let Some(known) = items.iter().find(|it| it.id == item) else {
        eprintln!("baton: handoff {id} carries no item {item}; `baton handoffs chain drop` lists them");
        return Ok(Outcome::Nothing);
    };
    seal::strike(&app.store(), &app.resolved.config, &id, item)?;
    if look.json {
        print_json(&json!({ "handoff": id, "dropped": known }))?;
        return Ok(Outcome::Done);
    }
    print(&format!(
        "Dropped {item} ({}): {}\nNo later context gets it; the sealed document stays as it was.\n",
        known.kind.as_str(),
        redact(&plain_line(&known.text, 160)).text
    ))?;
    Ok(Outcome::Done)
}

fn list_items(items: &[TaskItem], look: OutputFormat) -> anyhow::Result<Outcome> {
    if look.json {
        print_json(&items)?;
        return Ok(Outcome::Done);
    }
    let cells: Vec<Vec<String>> = items
        .iter()
        .map(|item| {
            let text = redact(&plain_line(&item.text, 100)).text.into_owned();
            vec![item.id.clone(), item.kind.as_str().to_owned(), text]
        })
        .collect();
    page(&table(Paint::stdout(), &["ITEM", "KIND", "TEXT"], &cells), look.paged)?;
    Ok(Outcome::Done)
}

fn chosen(app: &App, id: Option<&HandoffId>) -> anyhow::Result<Option<HandoffId>> {
    if let Some(id) = id {
        return Ok(Some(id.clone()));
    }
    let channel = app.channel()?;
    let newest = app.handoffs().list(&channel)?.into_iter().next();
    if newest.is_none() {
        eprintln!("baton: there are no handoffs in {} yet", app.place()?);
    }
    Ok(newest.map(|entry| entry.id))
}

/// The items that the later of two handoffs lacks, and those that it adds.
pub(super) fn diff(app: &App, a: &HandoffId, b: &HandoffId, look: OutputFormat) -> anyhow::Result<Outcome> {
    let read = |id: &HandoffId| {
        let carried = app.handoffs().carried(id)?;
        carried.with_context(|| format!("no ledger is kept of handoff {id}; only its document can be shown"))
    };
    let (earlier, later) = (read(a)?, read(b)?);
    show(&earlier.ledger, &later.ledger, look)
}

/// The items that a draft lacks, compared with the channel's last handoff.
pub(super) fn against_last(app: &App, draft: &Ledger, look: OutputFormat) -> anyhow::Result<Outcome> {
    let Some(id) = chosen(app, None)? else { return Ok(Outcome::Nothing) };
    let Some(carried) = app.handoffs().carried(&id)? else {
        eprintln!("baton: no ledger is kept of {id}, the last handoff; there is nothing to compare with");
        return Ok(Outcome::Nothing);
    };
    show(&carried.ledger, draft, look)
}

fn show(earlier: &Ledger, later: &Ledger, look: OutputFormat) -> anyhow::Result<Outcome> {
    let (lacking, more) = differences(earlier, later);
    if look.json {
        print_json(&json!({ "lacking": lacking, "more": more }))?;
        return Ok(Outcome::Done);
    }
    let paint = Paint::stdout();
    let line = |sign: char, item: &TaskItem| {
        format!("{sign} {:<9} {}", item.kind.as_str(), redact(&plain_line(&item.text, 160)).text)
    };
    let mut out = String::new();
    for item in &lacking {
        let _ = writeln!(out, "{}", paint.red(&line('-', item)));
    }
    for item in &more {
        let _ = writeln!(out, "{}", paint.green(&line('+', item)));
    }
    if out.is_empty() {
        return print("Both carry the same.\n").map(|()| Outcome::Done);
    }
    page(&out, look.paged)?;
    Ok(Outcome::Done)
}
