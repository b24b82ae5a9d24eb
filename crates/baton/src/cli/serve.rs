//! `baton serve`: runs the daemon in the foreground or the background, shows and stops it.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cli::args::{ServeArgs, UnitKind};
use crate::cli::ui::{age, print, print_json, print_raw};
use crate::cli::{App, Outcome};
use crate::daemon::{self, RunDir, ServeOptions, client};
use crate::sys::{child, process};

pub(super) fn run(app: &App, args: &ServeArgs) -> anyhow::Result<Outcome> {
    if let Some(kind) = args.print_unit {
        return print_unit(kind);
    }
    if args.stop {
        return stop(app);
    }
    if args.status {
        return status(app, args.json);
    }
    let wanted = args.http.as_deref().or(app.resolved.config.serve.http.as_deref());
    let http = match wanted.map(crate::config::address::http_address).transpose() {
        Ok(http) => http,
        Err(why) => {
            eprintln!("baton: {why}");
            return Ok(Outcome::Usage);
        }
    };
    if !args.detach {
        daemon::run(&app.paths, &ServeOptions { http, detached: args.detached })?;
        return Ok(Outcome::Done);
    }
    let pass: Vec<String> = http.iter().flat_map(|at| ["--http".to_owned(), at.to_string()]).collect();
    match client::ensure(&app.paths, &pass)? {
        client::Startup::Done => {}
        client::Startup::NotNeeded => print("It runs already.\n")?,
    }
    status(app, args.json)
}

/// A running daemon's own report.
fn health(app: &App) -> anyhow::Result<Option<Value>> {
    Ok(client::ask(&app.paths, "GET", "/health", None)?.map(|(_, health)| health))
}

fn status(app: &App, as_json: bool) -> anyhow::Result<Outcome> {
    let run_dir = RunDir::new(&app.paths.state);
    let Some(health) = health(app)? else {
        if as_json {
            print_json(&json!({ "running": false }))?;
        } else {
            print("No daemon runs. `baton serve --detach` starts one; only the API and panes need it.\n")?;
        }
        return Ok(Outcome::Nothing);
    };
    if as_json {
        let token = health["http"].is_string().then(|| run_dir.token_path());
        let mut whole = json!({ "running": true, "socket": run_dir.socket(), "token": token });
        if let (Some(whole), Some(health)) = (whole.as_object_mut(), health.as_object()) {
            whole.extend(health.clone());
        }
        print_json(&whole)?;
        return Ok(Outcome::Done);
    }
    let since = health["since"].as_str().and_then(|s| s.parse().ok());
    let age = since.map_or_else(String::new, |since| format!(" for {}", age(since, Timestamp::now())));
    let mut text = format!(
        "Running{age} as process {}.\nSocket {}\n",
        health["pid"],
        app.paths.short(&run_dir.socket())
    );
    if let Some(http) = health["http"].as_str() {
        let _ = writeln!(text, "Also on http://{http}, token in {}", app.paths.short(&run_dir.token_path()));
    }
    print(&text)?;
    Ok(Outcome::Done)
}

fn stop(app: &App) -> anyhow::Result<Outcome> {
    let Some(health) = health(app)? else {
        print("No daemon runs.\n")?;
        return Ok(Outcome::Nothing);
    };
    let who = health["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).and_then(process::identify);
    client::ask(&app.paths, "POST", "/stop", Some(&json!({})))?;
    if let Some(who) = who {
        child::wait_for_end(&who, Duration::from_secs(15));
        anyhow::ensure!(
            !process::is_alive(&who),
            "process {} was told to stop and has not ended yet",
            who.pid
        );
    }
    print("Stopped.\n")?;
    Ok(Outcome::Done)
}

fn print_unit(kind: UnitKind) -> anyhow::Result<Outcome> {
    let program = std::env::current_exe().context("could not find our own program")?;
    print_raw(&match kind {
        UnitKind::Systemd => daemon::unit::systemd(&program),
        UnitKind::Launchd => daemon::unit::launchd(&program),
    })?;
    Ok(Outcome::Done)
}
