//! Runs the scripted model by hand: `scripted-model [--port N] [--log FILE] [SCRIPT.json]`.
//!
//! SCRIPT.json is a list of turns, each with any of `text`, `shell`, `tool` and `input`, `usage` (tokens in the
//! context), `error` (a status), `too_long`, `delay_ms`, `pace_ms`. Prints each request in one line, and logs it whole.

use std::fs::{File, OpenOptions};
use std::io::{Write as _, stdout};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use baton_testkit::model::{Request, Script, ScriptedModel, Turn, error, too_long};
use serde::Deserialize;
use serde_json::{Value, json};

const USAGE: &str = "usage: scripted-model [--port N] [--log FILE] [SCRIPT.json]";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTurn {
    text: Option<String>,
    shell: Option<String>,
    tool: Option<String>,
    #[serde(default)]
    input: Value,
    usage: Option<u64>,
    error: Option<u16>,
    #[serde(default)]
    too_long: bool,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    pace_ms: u64,
}

impl From<WrittenTurn> for Turn {
    fn from(written: WrittenTurn) -> Turn {
        let mut turn = match written.error {
            Some(status) => error(status),
            None if written.too_long => too_long(),
            None => Turn::default(),
        };
        if let Some(text) = written.text {
            turn = turn.text(text);
        }
        if let Some(command) = written.shell {
            turn = turn.shell(command);
        }
        if let Some(name) = written.tool {
            turn = turn.tool(name, written.input);
        }
        if let Some(tokens) = written.usage {
            turn = turn.usage(tokens);
        }
        turn.delay(Duration::from_millis(written.delay_ms)).pace(Duration::from_millis(written.pace_ms))
    }
}

fn main() -> Result<()> {
    let (mut port, mut log, mut script) = (0, None, Script::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--port" => port = args.next().context(USAGE)?.parse().context(USAGE)?,
            "--log" => {
                let path = args.next().context(USAGE)?;
                let file = OpenOptions::new().create(true).append(true).open(&path);
                log = Some(file.with_context(|| format!("opening the log {path}"))?);
            }
            flag if flag.starts_with('-') => bail!(USAGE),
            path => script = read_script(path)?,
        }
    }
    let model = ScriptedModel::start_on(port, script)?;
    println!("ANTHROPIC_BASE_URL={url}   Codex: base_url = \"{url}/v1\"", url = model.url());
    stdout().flush()?;
    let mut seen = 0;
    loop {
        let next =
            model.wait_until("the next request", Duration::from_hours(1), |requests| requests.len() > seen);
        if next.is_err() {
            continue;
        }
        for request in &model.requests()[seen..] {
            seen += 1;
            report(request, log.as_mut())?;
        }
    }
}

fn read_script(path: &str) -> Result<Script> {
    let bytes = std::fs::read(path).with_context(|| format!("reading the script {path}"))?;
    let turns: Vec<WrittenTurn> =
        serde_json::from_slice(&bytes).with_context(|| format!("reading the turns in {path}"))?;
    Ok(turns.into_iter().fold(Script::new(), |script, turn| script.turn(turn.into())))
}

fn report(request: &Request, log: Option<&mut File>) -> Result<()> {
    let said: String = request.last_user_text().chars().take(100).collect();
    println!("{} {:?} {} {} {said:?}", request.order, request.kind, request.method, request.path);
    stdout().flush()?;
    if let Some(log) = log {
        let record = json!({"order": request.order, "kind": format!("{:?}", request.kind), "session": request.session,
            "method": request.method, "path": request.path, "headers": request.headers, "body": request.body});
        writeln!(log, "{record}").context("writing the log")?;
    }
    Ok(())
}
