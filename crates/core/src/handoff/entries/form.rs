//! How one fact is written: labels and counts are ours, everything else is verbatim.

use crate::ledger::text::{clip, clip_lines, fold, sentences};
use crate::ledger::{Command, Failure, File, Outcome, Said, Way};
use crate::ledger::{rule_strength, shell::Kind};

pub(super) fn quoted(label: &str, said: &Said, sizes: &[usize]) -> Vec<String> {
    let whole = said.text.chars().count() + said.left_out;
    let mut forms: Vec<String> = Vec::new();
    for &max in sizes {
        let form = match clip(&said.text, max) {
            Some(shown) => {
                let left = whole.saturating_sub(shown.chars().count());
                let more = if left > 2 { format!("\n({left} more characters)") } else { String::new() };
                format!("{label}\n{}{more}", fenced(shown))
            }
            None => format!("{label} {whole} characters, too long to be shown here."),
        };
        if forms.last() != Some(&form) {
            forms.push(form);
        }
    }
    forms
}

/// Of a long message: how it begins and the sentences that set a rule, each whole.
pub(super) fn digest(text: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut seen = 0;
    let mut used = 0;
    for sentence in sentences(text) {
        let size = sentence.chars().count();
        if (seen + size <= 240 || rule_strength(sentence) == Some(true)) && used + size <= 900 {
            kept.push(sentence);
            used += size;
        }
        seen += size;
    }
    kept.join("\n")
}

/// A message of the user, or the sentences that are shown of it.
pub(super) fn bullet(said: &Said, shown: &str) -> String {
    let label = match said.way {
        Way::Prompt | Way::Queued => "",
        Way::Command => "with a command:",
        Way::Refusal => "refusing a call:",
        Way::Answer => "asked and answered:",
    };
    let left = (said.text.chars().count() + said.left_out).saturating_sub(shown.chars().count());
    let label = match (shown.trim().contains('\n'), label) {
        _ if left > 2 => format!("- {label} in part ({left} more characters):").replace("  ", " "),
        (true, "") => "- in full:".to_owned(),
        (_, label) => format!("- {label}").trim_end().to_owned(),
    };
    lines(&label, shown)
}

/// One line stands behind its label, several stand fenced below it.
pub(super) fn lines(label: &str, text: &str) -> String {
    let text = text.trim();
    if text.contains('\n') { format!("{label}\n{}", fenced(text)) } else { format!("{label} {text}") }
}

/// Verbatim lines, without the blank ones: headings and lists in them cannot be taken for ours.
fn fenced(text: &str) -> String {
    let kept: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}", kept.join("\n"))
}

pub(super) fn failure(error: &Failure, root: Option<&str>, max: usize) -> String {
    let cause = fold(&error.cause);
    let cause = if cause.is_empty() { cause } else { format!(" · {}", code(relative(&cause, root))) };
    let since = if error.resolved.is_some() { ", resolved since" } else { "" };
    let shown = clip_lines(&error.text, max);
    let left = error.text.chars().count() + error.left_out - shown.chars().count();
    let more = if left > 0 { format!(" ({left} more characters)") } else { String::new() };
    lines(&format!("- {}{since}{cause}{more} →", outcome(error.outcome)), shown)
}

pub(super) fn outcome(outcome: Outcome) -> String {
    match outcome {
        Outcome::Exit(0) => "ok (exit 0)".to_owned(),
        Outcome::Exit(code) => format!("failed (exit {code})"),
        Outcome::Failed => "failed".to_owned(),
        Outcome::Unknown => "result not seen".to_owned(),
    }
}

pub(super) fn command_forms(command: &Command) -> Vec<String> {
    let kind = match command.kind {
        Kind::Test => "test",
        Kind::Build => "build",
        Kind::Lint => "lint",
        Kind::Run => "run",
    };
    let times = if command.runs > 1 { format!(" · ×{}", command.runs) } else { String::new() };
    let status = match command.outcome {
        Outcome::Exit(0) if command.complains => "exit 0, but its output complains".to_owned(),
        other => outcome(other),
    };
    let short = format!("- {kind} · {status}{times} · {}", code(&fold(&command.text)));
    match &command.result {
        Some(result) => vec![format!("{short} → {}", code(&fold(result))), short],
        None => vec![short],
    }
}

pub(super) fn changes(file: &File) -> String {
    let mut parts = Vec::new();
    if file.created {
        parts.push("created".to_owned());
    }
    match file.edits {
        0 => {}
        1 => parts.push("edited".to_owned()),
        n => parts.push(format!("edited ×{n}")),
    }
    if file.deleted {
        parts.push("deleted".to_owned());
    }
    parts.join(", ")
}

/// Paths below the folder of the session are shown without it.
pub(super) fn relative<'p>(path: &'p str, root: Option<&str>) -> &'p str {
    let below = root.and_then(|root| path.strip_prefix(root)?.strip_prefix('/'));
    below.filter(|rest| !rest.is_empty()).unwrap_or(path)
}

/// A code span whatever the text holds.
pub(in crate::handoff) fn code(text: &str) -> String {
    if !text.contains('`') {
        return format!("`{text}`");
    }
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    format!("{fence} {text} {fence}")
}
