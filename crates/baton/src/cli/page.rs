//! `baton page`: opens the page of the daemon, logged in by a code that works once.

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use crate::cli::args::PageArgs;
use crate::cli::ui::{print, print_json};
use crate::cli::{App, Outcome};
use crate::daemon::client;
use crate::sys::browser;

pub(super) fn run(app: &App, args: &PageArgs) -> anyhow::Result<Outcome> {
    if let Some(outcome) = app.refuse_agent("open the page") {
        return Ok(outcome);
    }
    client::ensure(&app.paths, &[])?;
    let listening = ask(app, "/listen")?;
    let http = listening["http"].as_str().context("the daemon has no port")?;
    if args.code {
        let code = text(&ask(app, "/confirmations")?, "code")?;
        if args.json {
            print_json(&json!({ "code": code }))?;
        } else {
            print(&format!(
                "{} {}\nType it into the page within three minutes: until you log out there, it may change things.\n",
                &code[..4],
                &code[4..]
            ))?;
        }
        return Ok(Outcome::Done);
    }
    let holder = listening["holder"].as_str();
    if let Some(holder) = holder {
        eprintln!("baton: {holder} has port {}, so the page is at {http}", listening["wanted"]);
    }
    let address = format!("http://{http}/#code={}", text(&ask(app, "/codes")?, "code")?);
    if args.json {
        print_json(&json!({ "address": address, "http": http, "holder": holder }))?;
        return Ok(Outcome::Done);
    }
    if !args.print {
        match browser::open(&address) {
            Ok(()) => {
                print(&format!("Opened http://{http}/ in your browser.\n"))?;
                return Ok(Outcome::Done);
            }
            Err(e) => eprintln!("baton: {e:#}; open this address yourself, within a minute:"),
        }
    }
    print(&format!("{address}\n"))?;
    Ok(Outcome::Done)
}

fn ask(app: &App, path: &str) -> anyhow::Result<Value> {
    let answer = client::ask(&app.paths, "POST", path, Some(&json!({})))?;
    let (status, answer) = answer.context("the daemon is gone; try again")?;
    match status {
        200 => Ok(answer),
        // The daemon is from an older baton.
        404 | 405 => bail!("the running daemon has no page; end it with `baton serve --stop` and try again"),
        _ => bail!("{}", answer["error"].as_str().unwrap_or("the daemon refused")),
    }
}

fn text(answer: &Value, key: &str) -> anyhow::Result<String> {
    answer[key].as_str().map(str::to_owned).context("could not understand the daemon's answer; restart it")
}
