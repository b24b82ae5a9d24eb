//! `baton approve [ID]`: allows what an agent asks for. Without an id, shows one request after the other on screen.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use baton_core::approval::{Case, Door, Grant, PLAN, QUESTION, RequestId, View};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::approvals::{self, ApprovalRefusal, ApprovalReply};
use crate::cli::args::{ApproveArgs, DoorArg};
use crate::cli::ui::text::width;
use crate::cli::ui::{Paint, print, request};
use crate::cli::{App, Outcome};
use crate::sessions::caller::Caller;
use crate::sys::editor;
use crate::sys::fs::{self, PRIVATE, Sync};
use crate::sys::terminal::{self, RawMode};

/// How soon a request answered elsewhere leaves the screen.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A key pressed sooner than this after a request was drawn was intended for the previous one.
const READ_FIRST: Duration = Duration::from_millis(500);

pub(super) fn run(app: &App, args: &ApproveArgs) -> anyhow::Result<Outcome> {
    let (store, now) = (app.store(), Timestamp::now());
    if let (true, Some(agent)) = (args.all, &args.agent) {
        return all(app, agent);
    }
    let Some(id) = &args.id else { return screen(app) };
    let case = match approvals::find(&store, id, now) {
        Ok(case) => case,
        Err(e) => return Ok(refused(&e)),
    };
    let grant = match (args.always, args.session) {
        (true, _) => Grant::Always,
        (_, true) => Grant::Session,
        _ => Grant::Once,
    };
    let input = if args.edit { Some(edited(app, &case)?) } else { None };
    give(app, &case, args.door, &ApprovalReply::Approve { grant, input })
}

/// Gives a reply through this door, and reports the result.
pub(super) fn give(app: &App, case: &Case, door: DoorArg, reply: &ApprovalReply) -> anyhow::Result<Outcome> {
    let door = match door {
        DoorArg::Cli => Door::Cli,
        DoorArg::Screen => Door::Screen,
    };
    match approvals::answer(&app.store(), case, None, &app.caller(), door, reply, Timestamp::now()) {
        Ok(_) => {
            print(&format!("{}\n", done(case, reply)))?;
            Ok(Outcome::Done)
        }
        Err(e) => Ok(refused(&e)),
    }
}

fn done(case: &Case, reply: &ApprovalReply) -> String {
    let (agent, about) = (&case.request.agent, approvals::summary(&case.request, 60));
    match reply {
        ApprovalReply::Approve { .. } => format!("{agent} may: {} {about}", case.request.tool),
        ApprovalReply::Deny { .. } => format!("{agent} may not: {} {about}", case.request.tool),
        ApprovalReply::Answer(_) => format!("{agent} has its answer: {about}"),
    }
}

pub(super) fn refused(refusal: &ApprovalRefusal) -> Outcome {
    eprintln!("baton: {refusal}");
    if matches!(refusal, ApprovalRefusal::Unknown(_) | ApprovalRefusal::TooShort { .. }) {
        Outcome::Nothing
    } else {
        Outcome::Failed
    }
}

/// Allows all requests of an agent once each, except questions and plans.
fn all(app: &App, agent: &baton_core::ids::AgentId) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::Nothing;
    for case in approvals::waiting(&app.store(), Timestamp::now())? {
        if case.request.agent != *agent || [QUESTION, PLAN].contains(&case.request.tool.as_str()) {
            continue;
        }
        let given =
            give(app, &case, DoorArg::Cli, &ApprovalReply::Approve { grant: Grant::Once, input: None })?;
        outcome = if outcome == Outcome::Failed { outcome } else { given };
    }
    if outcome == Outcome::Nothing {
        // Not everybody may know whether it asks for something.
        if let Caller::Agent(caller) = app.caller()
            && app.store().agents().get(agent)?.is_none_or(|a| a.approver.as_ref() != Some(&caller))
        {
            eprintln!("baton: only the user may answer for {agent}, and you are {caller}");
            return Ok(Outcome::Failed);
        }
        eprintln!("baton: {agent} has no request that can be allowed this way");
    }
    Ok(outcome)
}

/// The input as edited by the user: a command as text, anything else as JSON.
fn edited(app: &App, case: &Case) -> anyhow::Result<Value> {
    let command = match case.request.view() {
        View::Command { command, .. } => Some(command.to_owned()),
        _ => None,
    };
    let before = match &command {
        Some(command) => format!("{command}\n"),
        None => serde_json::to_string_pretty(&case.request.input)? + "\n",
    };
    let dir = app.store().state.join("run");
    fs::private_dir(&dir)?;
    let extension = if command.is_some() { "sh" } else { "json" };
    let path = dir.join(format!("edit-{}-{}.{extension}", case.id.short(), std::process::id()));
    fs::replace(&path, before.as_bytes(), PRIVATE, Sync::No)?;
    let ended = editor::open(&path);
    let after = std::fs::read_to_string(&path);
    fs::remove(&path)?;
    ended.context("nothing was answered")?;
    let after = after.context("the edited file cannot be read; nothing was answered")?;
    if command.is_some() {
        let mut input = case.request.input.clone();
        // Editors end a file with a newline that nobody typed.
        input["command"] = json!(after.strip_suffix('\n').unwrap_or(&after));
        return Ok(input);
    }
    let input: Value = serde_json::from_str(&after).context("this is not JSON; nothing was answered")?;
    ensure!(input.is_object(), "an input is a JSON object; nothing was answered");
    Ok(input)
}

/// The action of a key.
enum KeyAction {
    Reply(ApprovalReply),
    /// Ask for text first.
    Type(Prompt),
    Next,
    Leave,
    Nothing,
}

#[derive(Clone, Copy)]
enum Prompt {
    Reason,
    Answer,
}

/// Shows one request after the other, oldest first.
fn screen(app: &App) -> anyhow::Result<Outcome> {
    if let Some(outcome) = app.refuse_agent("answer on a screen") {
        return Ok(outcome);
    }
    let store = app.store();
    if approvals::waiting(&store, Timestamp::now())?.is_empty() {
        print(&format!("No agent waits for an answer here.\n{}", at_terminals(app)))?;
        return Ok(Outcome::Nothing);
    }
    let Some(raw) = RawMode::enter()? else {
        eprintln!("baton: name a request; `baton approvals` lists what waits");
        return Ok(Outcome::Usage);
    };
    let mut skipped: Vec<RequestId> = Vec::new();
    let (mut note, mut typing): (String, Option<(Prompt, String)>) = (String::new(), None);
    let mut on_screen: Option<Case> = None;
    let mut drawn = None;
    let mut shown_at = Instant::now();
    let mut buffer = [0; 256];
    loop {
        let now = Timestamp::now();
        let waiting: Vec<Case> =
            approvals::waiting(&store, now)?.into_iter().filter(|c| !skipped.contains(&c.id)).collect();
        let Some(case) = waiting.first().cloned() else { break };
        if on_screen.as_ref().is_none_or(|before| before.id != case.id) {
            // The typed text was intended for another request.
            typing = None;
            drawn = None;
        }
        let size = terminal::size().unwrap_or((80, 24));
        if drawn != Some(size) {
            raw.show(draw(app, &case, waiting.len(), &note, typing.as_ref(), now).as_bytes())?;
            drawn = Some(size);
        }
        if on_screen.as_ref().is_none_or(|before| before.id != case.id) {
            shown_at = Instant::now();
            on_screen = Some(case.clone());
        }
        let Ok(typed) = raw.read(&mut buffer, LOOK_EVERY) else { return Ok(Outcome::Done) };
        if typed.is_empty() {
            continue;
        }
        drawn = None;
        // Several keys at once were typed before their effect was visible, so ignore them.
        let text = String::from_utf8_lossy(typed).into_owned();
        let step = match &mut typing {
            Some((prompt, line)) => match type_on(line, &text) {
                Some(true) => {
                    let (prompt, line) = (*prompt, std::mem::take(line));
                    typing = None;
                    match prompt {
                        Prompt::Reason => KeyAction::Reply(ApprovalReply::Deny { reason: line }),
                        Prompt::Answer => KeyAction::Reply(ApprovalReply::Answer(split(&case, &line))),
                    }
                }
                Some(false) => {
                    typing = None;
                    KeyAction::Nothing
                }
                None => KeyAction::Nothing,
            },
            None if decides(&text) && shown_at.elapsed() < READ_FIRST => {
                "this one has just appeared: read it, then press the key again".clone_into(&mut note);
                KeyAction::Nothing
            }
            // One key must not allow a request that is not fully visible.
            None if matches!(text.as_str(), "a" | "A") && !is_whole(app, &case, now) => {
                note = format!(
                    "it does not fit here: read it with `baton approvals`, then `baton approve {}`",
                    case.id.short()
                );
                KeyAction::Nothing
            }
            None => press(&case, &text),
        };
        match step {
            KeyAction::Reply(reply) => {
                let seen = Some(case.id.as_str());
                let given = approvals::answer(
                    &store,
                    &case,
                    seen,
                    &app.caller(),
                    Door::Screen,
                    &reply,
                    Timestamp::now(),
                );
                note = match given {
                    Ok(_) => done(&case, &reply),
                    Err(e) => e.to_string(),
                };
            }
            KeyAction::Type(prompt) => typing = Some((prompt, String::new())),
            KeyAction::Next => skipped.push(case.id.clone()),
            KeyAction::Leave => return Ok(Outcome::Done),
            KeyAction::Nothing => {}
        }
    }
    drop(raw);
    if !note.is_empty() {
        print(&format!("{note}\n"))?;
    }
    print(&format!("Nothing more waits.\n{}", at_terminals(app)))?;
    Ok(Outcome::Done)
}

/// Agents whose dialogs this screen cannot answer.
fn at_terminals(app: &App) -> String {
    let now = Timestamp::now();
    let dialogs = approvals::at_terminals(&app.store(), &[]);
    dialogs.iter().map(|dialog| request::dialog(Paint::stdout(), &app.paths, dialog, now)).collect()
}

fn is_whole(app: &App, case: &Case, now: Timestamp) -> bool {
    fitting(&request::text(Paint::plain(), &app.paths, case, now)).1 == 0
}

/// Whether this key alone gives an answer.
fn decides(key: &str) -> bool {
    matches!(key, "a" | "A") || key.bytes().all(|b| b.is_ascii_digit())
}

fn press(case: &Case, key: &str) -> KeyAction {
    let is_question = case.request.tool == QUESTION;
    let allow = |grant| KeyAction::Reply(ApprovalReply::Approve { grant, input: None });
    match key {
        "a" if !is_question => allow(Grant::Once),
        "A" if !is_question => allow(Grant::Session),
        "d" => KeyAction::Type(Prompt::Reason),
        "t" if is_question => KeyAction::Type(Prompt::Answer),
        "s" => KeyAction::Next,
        "q" | "\x1b" | "\x03" | "\x04" => KeyAction::Leave,
        digit if is_question && case.request.questions().len() == 1 && digit.len() == 1 => {
            match digit.parse::<usize>() {
                Ok(1..) => KeyAction::Reply(ApprovalReply::Answer(vec![digit.to_owned()])),
                _ => KeyAction::Nothing,
            }
        }
        _ => KeyAction::Nothing,
    }
}

/// `Some(true)` with Enter, `Some(false)` with Esc.
fn type_on(line: &mut String, typed: &str) -> Option<bool> {
    if typed.starts_with('\x1b') || typed.contains('\x03') {
        return Some(false);
    }
    for c in typed.chars() {
        match c {
            '\r' | '\n' => return Some(true),
            '\x7f' | '\x08' => drop(line.pop()),
            '\x15' => line.clear(),
            c if c.is_control() => {}
            c => line.push(c),
        }
    }
    None
}

/// Several questions are answered on one line, separated by semicolons.
fn split(case: &Case, line: &str) -> Vec<String> {
    if case.request.questions().len() > 1 {
        line.split(';').map(|piece| piece.trim().to_owned()).collect()
    } else {
        vec![line.to_owned()]
    }
}

fn draw(
    app: &App,
    case: &Case,
    count: usize,
    note: &str,
    typing: Option<&(Prompt, String)>,
    now: Timestamp,
) -> String {
    let paint = Paint::stdout();
    let keys = match (case.request.tool.as_str(), typing) {
        (_, Some((Prompt::Reason, line))) => {
            format!("Reason, word for word: {line}\u{2588}   (Enter denies, Esc goes back)")
        }
        (_, Some((Prompt::Answer, line))) => {
            format!("Answer: {line}\u{2588}   (Enter answers, Esc goes back)")
        }
        (QUESTION, None) => "[1-9] option  [t] type an answer  [d] deny…  [s] skip  [q] leave".to_owned(),
        (PLAN, None) if case.request.is_unseen_plan() => {
            format!("baton attach {} answers it  [d] deny…  [s] skip  [q] leave", case.request.agent)
        }
        (PLAN, None) => "[a] accept the plan  [d] deny…  [s] skip  [q] leave".to_owned(),
        _ => "[a] allow once  [A] for this session  [d] deny…  [s] skip  [q] leave".to_owned(),
    };
    let more = if count > 1 { format!("{} more after this one", count - 1) } else { String::new() };
    let text = request::text(paint, &app.paths, case, now);
    let (shown, left) = fitting(&text);
    let mut shown = shown.join("\r\n");
    if left > 0 {
        let _ = write!(shown, "\r\n    … {left} more lines");
    }
    format!("\x1b[2J\x1b[H\x1b[?7h{shown}\r\n\r\n  {keys}\r\n  {}\r\n  {note}\r\n", paint.dim(&more))
}

/// The lines that fit on the screen, counting wrapped ones, and how many are left out.
fn fitting(text: &str) -> (Vec<&str>, usize) {
    // Below come the keys, two notes and the count of omitted lines.
    const FRAME: usize = 7;
    let (columns, rows) = terminal::size().unwrap_or((80, 24));
    let (columns, mut room) = (usize::from(columns).max(1), usize::from(rows).saturating_sub(FRAME).max(1));
    let lines: Vec<&str> = text.lines().collect();
    let mut shown = Vec::new();
    for line in &lines {
        let needed = width(line).div_ceil(columns).max(1);
        if needed > room {
            break;
        }
        room -= needed;
        shown.push(*line);
    }
    let left = lines.len() - shown.len();
    (shown, left)
}
