//! `baton approvals`: the waiting requests; `approvals log`: past answers and their authors.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use baton_core::approval::{Case, QUESTION, RequestId, Verdict};
use baton_core::ids::AgentId;
use baton_core::plain::{plain, plain_line};
use baton_core::redact::redact;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::approvals::{self, Dialog};
use crate::cli::args::{ApprovalsArgs, ApprovalsCommand};
use crate::cli::ui::{Paint, age, escaped, print, print_json, request, table_ranked};
use crate::cli::{App, Outcome};
use crate::sys::fs;
use crate::sys::watch::{Interest, Watch};

/// Look at least this often: a killed hook changes no file.
const LOOK_EVERY: Duration = Duration::from_secs(2);

pub(super) fn run(app: &App, args: &ApprovalsArgs) -> anyhow::Result<Outcome> {
    match &args.command {
        Some(ApprovalsCommand::Log { agent, lines, json }) => log(app, agent.as_ref(), *lines, *json),
        None if args.watch => watch(app, args.json),
        None => list(app, args.json),
    }
}

fn list(app: &App, as_json: bool) -> anyhow::Result<Outcome> {
    let (store, now) = (app.store(), Timestamp::now());
    let cases = approvals::waiting(&store, now)?;
    let blocked = approvals::at_terminals(&store, &cases);
    if as_json {
        let rows: Vec<Value> = cases
            .iter()
            .map(|case| approvals::row(&app.paths, case))
            .chain(blocked.iter().map(|dialog| json!(dialog)))
            .collect();
        print_json(&rows)?;
        return Ok(if rows.is_empty() { Outcome::Nothing } else { Outcome::Done });
    }
    if cases.is_empty() && blocked.is_empty() {
        print("No agent waits for an answer.\n")?;
        return Ok(Outcome::Nothing);
    }
    let paint = Paint::stdout();
    let mut out = String::new();
    for case in &cases {
        out.push_str(&request::text(paint, &app.paths, case, now));
        let _ = writeln!(out, "  {}\n", paint.dim(&ways(case)));
    }
    for dialog in &blocked {
        out.push_str(&request::dialog(paint, &app.paths, dialog, now));
    }
    print(&out)?;
    Ok(Outcome::Done)
}

/// The commands that answer this request.
fn ways(case: &Case) -> String {
    let id = case.id.short();
    match case.request.tool.as_str() {
        baton_core::approval::QUESTION => format!("baton answer {id} CHOICE · baton deny {id} \"reason\""),
        _ if case.request.is_unseen_plan() => {
            format!("baton attach {} · baton deny {id} \"reason\"", case.request.agent)
        }
        _ => format!("baton approve {id} · baton deny {id} \"reason\""),
    }
}

/// Prints each request when it comes, and when it is gone.
fn watch(app: &App, as_json: bool) -> anyhow::Result<Outcome> {
    let store = app.store();
    let dir = store.approvals().waiting_dir();
    fs::private_dir(&dir)?;
    let mut watch = Watch::new()?;
    watch.add(&dir, Interest::Queue)?;
    let mut shown: BTreeSet<RequestId> = BTreeSet::new();
    let mut dialogs: BTreeSet<Dialog> = BTreeSet::new();
    loop {
        let now = Timestamp::now();
        let cases = approvals::waiting(&store, now)?;
        for case in cases.iter().filter(|case| !shown.contains(&case.id)) {
            if as_json {
                print(&format!("{}\n", escaped(&approvals::row(&app.paths, case).to_string())))?;
            } else {
                let paint = Paint::stdout();
                let text = request::text(paint, &app.paths, case, now);
                print(&format!("{text}  {}\n\n", paint.dim(&ways(case))))?;
            }
        }
        let waiting: BTreeSet<RequestId> = cases.iter().map(|case| case.id.clone()).collect();
        for id in shown.difference(&waiting) {
            let said = store.approvals().answer_of(id)?.map(|answer| approvals::said(&answer));
            let said = said.unwrap_or_else(|| "gone".to_owned());
            if as_json {
                print(&format!("{}\n", json!({ "id": id, "gone": said })))?;
            } else {
                print(&format!("{}  {said}\n\n", id.short()))?;
            }
        }
        shown = waiting;
        let blocked: BTreeSet<Dialog> = approvals::at_terminals(&store, &cases).into_iter().collect();
        for dialog in blocked.difference(&dialogs) {
            if as_json {
                print(&format!("{}\n", escaped(&json!(dialog).to_string())))?;
            } else {
                print(&format!("{}\n", request::dialog(Paint::stdout(), &app.paths, dialog, now)))?;
            }
        }
        dialogs = blocked;
        watch.wait(LOOK_EVERY);
    }
}

fn log(app: &App, agent: Option<&AgentId>, count: usize, as_json: bool) -> anyhow::Result<Outcome> {
    // Close requests that nobody waits for any more, so that they are included.
    approvals::waiting(&app.store(), Timestamp::now())?;
    let mut cases = approvals::past(&app.store(), usize::MAX)?;
    cases.retain(|case| agent.is_none_or(|agent| *agent == case.request.agent));
    cases.truncate(count);
    if as_json {
        print_json(&cases.iter().map(|case| approvals::row(&app.paths, case)).collect::<Vec<_>>())?;
        return Ok(if cases.is_empty() { Outcome::Nothing } else { Outcome::Done });
    }
    if cases.is_empty() {
        print("Nothing has been asked yet.\n")?;
        return Ok(Outcome::Nothing);
    }
    let now = Timestamp::now();
    let rows: Vec<Vec<String>> = cases.iter().map(|case| log_row(case, now)).collect();
    print(&table_ranked(Paint::stdout(), LOG_HEAD, &rows))?;
    Ok(Outcome::Done)
}

/// The columns of the log, and the order in which a narrow terminal drops them.
const LOG_HEAD: &[(&str, u8)] = &[
    ("ID", 0),
    ("AGE", 1),
    ("AGENT", 0),
    ("STATE", 0),
    ("BY", 2),
    ("VIA", 4),
    ("WAITED", 5),
    ("SAID", 3),
    ("TOOL", 6),
    ("ABOUT", 0),
];

/// The words of an answer beyond yes and no: the reason of a denial, and the permissions granted with an approval.
fn words_of(case: &Case) -> String {
    match case.answer.as_ref().map(|answer| &answer.verdict) {
        Some(Verdict::Deny { reason }) => plain_line(&redact(&plain(reason)).text, 60),
        Some(Verdict::Allow { permissions, .. }) if !permissions.is_empty() => {
            let is_for_session = permissions.iter().all(|grant| grant["destination"] == "session");
            if is_for_session { "for the session" } else { "always" }.to_owned()
        }
        Some(Verdict::Allow { input: Some(_), .. }) if case.request.tool == QUESTION => "answered".to_owned(),
        Some(Verdict::Allow { input: Some(input), .. }) if *input != case.request.input => {
            "changed".to_owned()
        }
        _ => String::new(),
    }
}

fn log_row(case: &Case, now: Timestamp) -> Vec<String> {
    let request = &case.request;
    let (state, by, via, waited) = match &case.answer {
        Some(answer) => {
            let state = match &answer.verdict {
                Verdict::Closed { because } => because.text(),
                _ => case.state().text(),
            };
            (state, answer.author.name(), answer.door.as_str(), age(request.at, answer.at))
        }
        None => (case.state().text(), String::new(), "", String::new()),
    };
    vec![
        case.id.short().to_owned(),
        age(request.at, now),
        request.agent.to_string(),
        state.to_owned(),
        plain_line(&by, 32),
        via.to_owned(),
        waited,
        words_of(case),
        plain_line(&request.tool, 24),
        approvals::summary(request, 60),
    ]
}
