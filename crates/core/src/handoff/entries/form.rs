//! How one fact is written: labels and counts are ours, everything else is verbatim.

use crate::ledger::shell::WorkKind;
use crate::ledger::text::{clip, clip_lines, clip_words, fits, fold, sentences};
use crate::ledger::{
    AnsweredQuestion, Command, CommandOutcome, Failure, File, ReplacedApproach, Utterance, UtteranceKind,
    rule_strength,
};
use crate::transcript::Author;

/// Who asked, if not the user, and with which slash command.
pub(super) fn by(said: &Utterance) -> String {
    let with = said.command.as_ref().map_or_else(String::new, |name| format!(" with {}", code(name)));
    match &said.author {
        Author::Agent(name) if !name.is_empty() => format!(" by {name}{with}"),
        Author::User => with,
        _ => format!(" by someone else{with}"),
    }
}

/// The label and the words: at each of `sizes`, largest first, then on one line of at least `least` characters.
pub(super) fn quoted(label: &str, said: &Utterance, sizes: &[usize], least: usize) -> Vec<String> {
    let mut forms: Vec<String> = Vec::new();
    for &max in sizes {
        let Some(shown) = clip(&said.text, max) else { continue };
        let form = lines(&format!("{label}{}", more(said, shown)), shown);
        if forms.last() != Some(&form) {
            forms.push(form);
        }
    }
    let short = brief(label, said, least);
    if forms.last().is_none_or(|last| last.chars().count() > short.chars().count()) {
        forms.push(short);
    }
    forms
}

/// The beginning of `said` on one line: up to the end of a sentence if one ends soon, else cut and marked.
pub(super) fn brief(label: &str, said: &Utterance, least: usize) -> String {
    let folded = fold(&said.text);
    let shown = if fits(&folded, least + least / 2) {
        folded.clone()
    } else {
        match clip(&folded, least + least / 2) {
            Some(sentence) if !fits(sentence, least - 1) => sentence.to_owned(),
            _ => clip_words(&folded, least + 12).into_owned(),
        }
    };
    format!("{label}{} {shown}", more(said, &shown))
}

fn more(said: &Utterance, shown: &str) -> String {
    let whole = said.text.chars().count() + said.left_out;
    let left = whole.saturating_sub(shown.chars().count());
    if left > 2 { format!(" in part ({left} more characters)") } else { String::new() }
}

/// The beginning and the end of a long message, because the next turn needs its conclusion.
pub(super) fn concluding(label: &str, said: &Utterance, max: usize) -> Option<String> {
    if fits(&said.text, max) || said.left_out > 0 {
        return None;
    }
    let head = clip(&said.text, max / 3)?;
    let rest = &said.text[head.len()..];
    let from = rest.char_indices().rev().nth(max - max / 3).map_or(0, |(i, _)| i);
    // From the next beginning of a paragraph or sentence on.
    let tail = &rest[from..];
    let begin = tail.find("\n\n").or_else(|| tail.find(". ").map(|i| i + 1)).unwrap_or(0);
    let tail = tail[begin..].trim();
    let left = said.text.chars().count().saturating_sub(head.chars().count() + tail.chars().count());
    Some(format!("{label} in part ({left} more characters between)\n{}\n{}", fenced(head), fenced(tail)))
}

/// A long message reduced to its beginning and the sentences that set a rule, each whole.
pub(super) fn digest(text: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut seen = 0;
    let mut used = 0;
    for sentence in sentences(text) {
        let size = sentence.chars().count();
        // The note on how much was pasted belongs to the message wherever it appears.
        let pasted = sentence.starts_with("[… ") && sentence.ends_with(" characters]");
        if (seen + size <= 240 || pasted || rule_strength(sentence) == Some(true)) && used + size <= 900 {
            kept.push(sentence);
            used += size;
        }
        seen += size;
    }
    kept.join("\n")
}

/// The label before quoted words: how they arrived, and who said them if not the user.
pub(super) fn label(said: &Utterance) -> String {
    let by = match &said.author {
        Author::User => String::new(),
        Author::Agent(name) if name.is_empty() => "said in the session by an agent:".to_owned(),
        Author::Agent(name) => format!("said in the session by {name}:"),
        Author::Client | Author::Tool | Author::Unknown => "said in the session:".to_owned(),
    };
    let way = match (&said.asked, said.way) {
        (Some(question), _) => format!("asked \u{201c}{}\u{201d}:", fold(&clip_words(question, 160))),
        (None, UtteranceKind::Command) => match &said.command {
            Some(name) => format!("with the command {}:", code(name)),
            None => String::new(),
        },
        (None, UtteranceKind::Refusal) => "refusing a call:".to_owned(),
        (
            None,
            UtteranceKind::Prompt | UtteranceKind::Task | UtteranceKind::Queued | UtteranceKind::Reply,
        ) => String::new(),
    };
    format!("- {by} {way}").replace("  ", " ").trim_end().to_owned()
}

/// A message of the user in the list of messages.
pub(super) fn bullets(said: &Utterance, whole: usize) -> Vec<String> {
    let label = label(said);
    let mut forms = Vec::new();
    if said.left_out == 0 && fits(&said.text, whole) {
        forms.push(lines(&label, &said.text));
    } else {
        let digest = digest(&said.text);
        if !digest.is_empty() {
            forms.push(lines(&format!("{label}{}", more(said, &digest)), &digest));
        }
    }
    let short = brief(&label, said, 130);
    if forms.last().is_none_or(|last: &String| last.chars().count() > short.chars().count() + 20) {
        forms.push(short);
    }
    forms
}

pub(super) fn answer_forms(answer: &AnsweredQuestion) -> Vec<String> {
    [300, 120, 60]
        .map(|size| {
            let question = fold(&clip_words(&answer.question, size));
            format!("- asked \u{201c}{question}\u{201d}: {}", fold(&clip_words(&answer.text, size * 4)))
        })
        .to_vec()
}

/// A single line follows its label; several lines go into a fence below it.
pub(super) fn lines(label: &str, text: &str) -> String {
    let text = text.trim();
    if !text.contains('\n') {
        return format!("{label} {text}");
    }
    let label = if label == "-" { "- said:" } else { label };
    format!("{label}\n{}", fenced(text))
}

/// Fences the lines verbatim, without blank ones, so that headings and lists in them cannot pass for ours.
pub(super) fn fenced(text: &str) -> String {
    let kept: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}", kept.join("\n"))
}

/// `is_named`: another line shows the whole command, so its beginning is enough here.
pub(super) fn failure(error: &Failure, max: usize, is_named: bool) -> String {
    let cause = fold(&error.cause);
    let most = if is_named { 80 } else { max.max(160) };
    let cause = if cause.is_empty() { cause } else { format!(" · {}", code(&clip_words(&cause, most))) };
    let since = if error.resolved.is_some() { ", resolved since" } else { "" };
    let shown = clip_lines(&error.text, max);
    let left = (error.text.chars().count() + error.left_out).saturating_sub(shown.chars().count());
    let more = if left > 0 { format!(" ({left} more characters)") } else { String::new() };
    lines(&format!("- {}{since}{cause}{more} →", outcome(error.outcome)), shown)
}

pub(super) fn outcome(outcome: CommandOutcome) -> String {
    match outcome {
        CommandOutcome::Exit(0) => "ok (exit 0)".to_owned(),
        CommandOutcome::Exit(code) => format!("failed (exit {code})"),
        CommandOutcome::Failed => "failed".to_owned(),
        CommandOutcome::Unknown => "exit status not seen".to_owned(),
    }
}

pub(super) fn command_forms(command: &Command, replaced: Option<&ReplacedApproach>) -> Vec<String> {
    let kind = match command.kind {
        WorkKind::Test => "test",
        WorkKind::Build => "build",
        WorkKind::Lint => "lint",
        WorkKind::Run => "run",
    };
    let times = if command.runs > 1 { format!(" · ×{}", command.runs) } else { String::new() };
    let status = match command.outcome {
        CommandOutcome::Exit(0) if command.complains => "exit 0, but its output complains".to_owned(),
        other => outcome(other),
    };
    let since = if replaced.is_some() { ", replaced since" } else { "" };
    let text = code(&fold(&command.text));
    let short = format!("- {status}{since} · {text}");
    let long = format!("- {kind} · {status}{since}{times} · {text}");
    let result =
        command.result.as_deref().map_or_else(String::new, |result| format!(" → {}", code(&fold(result))));
    let by =
        replaced.map_or_else(String::new, |entry| format!(" · replaced by {}", code(&fold(&entry.instead))));
    let mut forms = vec![format!("{long}{result}{by}"), format!("{long}{result}"), long, short];
    forms.dedup();
    forms
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
    if parts.is_empty() {
        let only = match (file.reads > 0, file.searches.is_empty()) {
            (true, _) => "read",
            (false, false) => "searched",
            (false, true) => "seen",
        };
        parts.push(only.to_owned());
    }
    parts.join(", ")
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

/// Month, day and minute of a record's stamp.
pub(super) fn stamp(at: Option<&str>) -> Option<String> {
    let (date, time) = at?.split_once('T')?;
    Some(format!("{} {}", date.get(5..10)?, time.get(..5)?))
}
