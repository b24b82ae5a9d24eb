//! `baton sessions list --fleet` and `fetch`: conversations that other machines share.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use baton_core::fleet::MachineName;
use baton_core::plain::plain_line;
use jiff::Timestamp;
use serde_json::json;

use crate::cli::sessions::Output;
use crate::cli::ui::{Paint, age, page, print, print_json, size, table_ranked};
use crate::cli::{App, Outcome};
use crate::fleet::config::Membership;
use crate::fleet::conversations::{self, RemoteConversation};

/// How long `fetch` waits before it leaves the rest to the daemon.
const PATIENCE: Duration = Duration::from_mins(1);

/// The conversations that the others share, newest first; asks them first.
fn listed(app: &App) -> anyhow::Result<Vec<RemoteConversation>> {
    Membership::required(&app.paths.state)?;
    crate::daemon::client::ensure(&app.paths, &[])?;
    conversations::ask_all(&app.paths.state)
}

pub(super) fn list(app: &App, limit: usize, output: Output) -> anyhow::Result<Outcome> {
    let mut rows = listed(app)?;
    let more = if limit == 0 { 0 } else { rows.len().saturating_sub(limit) };
    rows.truncate(rows.len() - more);
    if output.json {
        let row = |row: &RemoteConversation| {
            let mut value = json!(row.conversation);
            value["machine"] = json!(row.machine);
            value["heard"] = json!(row.heard);
            value
        };
        print_json(&rows.iter().map(row).collect::<Vec<_>>())?;
        return Ok(if rows.is_empty() { Outcome::Nothing } else { Outcome::Done });
    }
    if rows.is_empty() {
        print(
            "No other machine shares a conversation. `baton config set fleet.share CHANNEL` there shares those of a channel.\n",
        )?;
        return Ok(Outcome::Nothing);
    }
    let now = Timestamp::now();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let it = &row.conversation;
            vec![
                it.session.short().to_owned(),
                row.machine.to_string(),
                age(it.last, now),
                size(it.bytes),
                plain_line(&it.project, 30),
                age(row.heard, now),
                plain_line(&it.title, 100),
            ]
        })
        .collect();
    let head =
        [("ID", 0), ("MACHINE", 0), ("AGE", 1), ("SIZE", 2), ("PROJECT", 3), ("HEARD", 4), ("ABOUT", 0)];
    let mut out = table_ranked(Paint::stdout(), &head, &cells);
    if more > 0 {
        let _ = writeln!(out, "… and {more} more; `-n 0` shows them all");
    }
    page(&out, output.paged)?;
    Ok(Outcome::Done)
}

pub(super) fn fetch(
    app: &App,
    prefix: &str,
    from: Option<&MachineName>,
    output: Output,
) -> anyhow::Result<Outcome> {
    let mut rows = listed(app)?;
    rows.retain(|row| {
        super::is_meant(&row.conversation.session, prefix) && from.is_none_or(|from| *from == row.machine)
    });
    let [row] = rows.as_slice() else {
        match rows.first() {
            None => eprintln!(
                "baton: no other machine shares a session {prefix:?}; `baton sessions list --fleet` names those that are"
            ),
            Some(_) => {
                eprintln!("baton: {prefix:?} matches several; write more of it, or add --from MACHINE");
            }
        }
        return Ok(Outcome::Nothing);
    };
    let (session, machine, store) = (&row.conversation.session, &row.machine, app.store());
    let asked = Timestamp::now();
    conversations::ask_for(&store, machine, session)?;
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(why) = conversations::refusal(&store.state, machine, session, asked)? {
            anyhow::bail!("{machine} did not give {session}: {why}");
        }
        if let Some((have, all)) = conversations::progress(&store, machine, session, asked)? {
            if have == all {
                break;
            }
            if Instant::now() >= until {
                print(&format!("{have} of {all} pieces of {session} are here; the rest comes by itself.\n"))?;
                return Ok(Outcome::Done);
            }
        } else if Instant::now() >= until {
            print(&format!(
                "{machine} was asked for {session} and has not answered; it comes when {machine} wakes.\n"
            ))?;
            return Ok(Outcome::Done);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    if output.json {
        print_json(&json!({ "session": session, "machine": machine, "bytes": row.conversation.bytes }))?;
    } else {
        print(&format!("{session} of {machine} is here; `baton sessions show {session}` shows it.\n"))?;
    }
    Ok(Outcome::Done)
}
