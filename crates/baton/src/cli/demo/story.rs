//! Narrates the demo as it happens, for newcomers.

use std::time::Duration;

use baton_core::plain::plain;
use serde_json::Value;

use crate::cli::ui::Paint;
use crate::cli::ui::text::width as columns;

/// The text to print, and the pause before it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Beat {
    pub rest: Duration,
    pub text: String,
    /// The turn is over and the agent waits for a prompt.
    pub turn_over: bool,
    /// The beat that follows.
    pub then: Option<Box<Beat>>,
}

pub(super) struct Story {
    paint: Paint,
    rest: Duration,
    contexts: usize,
    /// Text for the model that is shown after the tool call that carried it.
    aside: Option<String>,
    old_session: String,
    pub handoff: Option<String>,
    pub over: bool,
}

const WIDTH: usize = 76;

impl Story {
    pub(super) fn new(paint: Paint, rest: Duration) -> Self {
        Self { paint, rest, contexts: 0, aside: None, old_session: String::new(), handoff: None, over: false }
    }

    /// Narrates one event.
    pub(super) fn tell(&mut self, event: &Value) -> Beat {
        let text = |key: &str| event[key].as_str().unwrap_or_default();
        match text("kind") {
            "context-begins" => self.begins(text("session")),
            "prompt" => self.prompt(text("text")),
            "said" if text("text") == "Done." => Beat::default(),
            "said" => self.speech("agent", text("text"), Paint::green),
            "tool" => self.tool(event),
            "context" if text("event").starts_with("PostToolUse") => {
                self.aside = Some(text("text").to_owned());
                Beat::default()
            }
            "context" if text("event") == "SessionStart" => {
                let size = text("text").chars().count();
                self.aside_line(&format!(
                    "The handoff is in front of it before it reads a word: {size} characters."
                ))
            }
            "block" => self.asks(),
            // The message came with a tool call, which is shown first.
            "message" if text("event").starts_with("PostToolUse") => Beat::default(),
            "message" => self.message(text("text")),
            "statusline" => self.status(text("text")),
            _ => Beat::default(),
        }
    }

    fn begins(&mut self, session: &str) -> Beat {
        self.contexts += 1;
        if self.contexts == 1 {
            session.clone_into(&mut self.old_session);
            return self.heading("1", "An agent works, and its context fills.", "");
        }
        let (old, new) = (short(&self.old_session), short(session));
        self.heading(
            "4",
            "A fresh context.",
            &format!("The old client was stopped and a new one started: session {old} became {new}."),
        )
    }

    fn prompt(&self, text: &str) -> Beat {
        let who = if baton_core::speaker::is_from_a_person(text) { "you" } else { "baton" };
        self.speech(who, text, Paint::bold)
    }

    fn tool(&mut self, event: &Value) -> Beat {
        let input = &event["input"];
        let output = event["output"].as_str().unwrap_or_default().trim_end();
        let dim = |text: &str| self.paint.dim(text);
        let mut text = String::new();
        if let Some(command) = input["command"].as_str() {
            text.push_str(&indented(2, &format!("$ {command}"), dim));
            // Drop the client's exit code line; the test's own words say it better.
            let said: Vec<_> = output.lines().filter(|l| !l.starts_with("Exit code ")).collect();
            text.push_str(&indented(4, &said.join("\n"), str::to_owned));
        } else {
            let path = input["file_path"].as_str().unwrap_or_default();
            let path = path.split_once("/app/").map_or(path, |(_, rest)| rest);
            text.push_str(&indented(2, &format!("writes {path}"), dim));
            if path.contains("handoff") {
                let content = input["content"].as_str().unwrap_or_default();
                let lines: Vec<_> = content.lines().map(|line| format!("│ {line}")).collect();
                text.push_str(&indented(4, &lines.join("\n"), dim));
            }
        }
        let then = match self.aside.take() {
            Some(aside) if aside.contains("`baton handoff ") => Some(self.asks()),
            Some(aside) => {
                let mut head =
                    self.heading("2", "At half, baton says one sentence to the agent. Only one.", "");
                let sentence = aside.trim_start_matches("[baton] ");
                head.text.push_str(&self.speech("baton", sentence, Paint::yellow).text);
                Some(head)
            }
            None => None,
        };
        Beat { text, then: then.map(Box::new), ..Beat::default() }
    }

    fn asks(&self) -> Beat {
        self.heading(
            "3",
            "Nearly full: baton asks for a handoff, before the client compacts.",
            "A compaction forgets, by a summary that nobody chose. A handoff is chosen.",
        )
    }

    fn message(&mut self, text: &str) -> Beat {
        if let Some(id) = text.split_whitespace().find(|w| w.starts_with("HO-")) {
            self.handoff.get_or_insert_with(|| id.to_owned());
        }
        Beat { text: indented(0, text, |row| self.paint.yellow(row)), ..Beat::default() }
    }

    fn status(&mut self, text: &str) -> Beat {
        let text = plain(text);
        // Before the first answer there is nothing to show.
        if !text.contains('%') {
            return Beat::default();
        }
        self.over = self.contexts > 1;
        Beat { turn_over: true, ..self.speech("context", &text, |p, t| p.dim(t.trim_end_matches(" ▸"))) }
    }

    fn heading(&self, number: &str, title: &str, more: &str) -> Beat {
        let mut text = format!("\n{} {}\n", self.paint.yellow(number), self.paint.bold(title));
        if !more.is_empty() {
            text.push_str(&self.aside_line(more).text);
        }
        text.push('\n');
        Beat { rest: self.rest, text, ..Beat::default() }
    }

    /// A line of speech; `paint` applies to the speaker's name.
    fn speech(&self, who: &str, text: &str, paint: impl Fn(Paint, &str) -> String) -> Beat {
        let who = format!("{who} ▸");
        let text = indented(0, &format!("{who} {text}"), |row| match row.strip_prefix(&who) {
            Some(rest) => format!("{}{rest}", paint(self.paint, &who)),
            None => row.to_owned(),
        });
        Beat { text, ..Beat::default() }
    }

    fn aside_line(&self, text: &str) -> Beat {
        Beat { text: indented(0, text, |row| self.paint.dim(row)), ..Beat::default() }
    }
}

/// Indents so that headings stand out, and wraps long lines; `paint` applies to each row.
fn indented(lead: usize, text: &str, paint: impl Fn(&str) -> String) -> String {
    let pad = " ".repeat(3 + lead);
    let mut out = String::new();
    for line in text.lines() {
        for (n, row) in wrapped(line, WIDTH - lead).iter().enumerate() {
            let hang = if n > 0 { "  " } else { "" };
            out.push_str(&pad);
            out.push_str(hang);
            out.push_str(&paint(row));
            out.push('\n');
        }
    }
    out
}

/// Rows of at most `width` columns; leaves a line that fits unchanged.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    if columns(line) <= width {
        return vec![line.to_owned()];
    }
    let mut rows = vec![String::new()];
    for word in line.split_whitespace() {
        let full = rows.last().is_some_and(|r| columns(r) + 1 + columns(word) > width - 2);
        if full {
            rows.push(String::new());
        }
        if let Some(row) = rows.last_mut() {
            if !row.is_empty() {
                row.push(' ');
            }
            row.push_str(word);
        }
    }
    rows
}

fn short(session: &str) -> &str {
    session.get(..8).unwrap_or(session)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_sentence_for_the_agent_follows_the_tool_call_it_came_with() {
        let mut story = Story::new(Paint::plain(), Duration::ZERO);
        let aside =
            story.tell(&json!({ "kind": "context", "event": "PostToolUse", "text": "[baton] Half." }));
        assert_eq!(aside, Beat::default());
        let tool = json!({ "kind": "tool", "input": { "command": "make" }, "output": "ok\n" });
        let told = story.tell(&tool);
        assert_eq!(told.text, "     $ make\n       ok\n");
        let then = told.then.unwrap().text;
        assert!(then.ends_with("   baton ▸ Half.\n"), "{then}");
    }

    #[test]
    fn long_lines_are_wrapped_and_no_control_reaches_the_terminal() {
        let mut story = Story::new(Paint::plain(), Duration::ZERO);
        let said = "word ".repeat(40);
        let text = story.tell(&json!({ "kind": "said", "text": said })).text;
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH + 3), "{text}");
        let status = story.tell(&json!({ "kind": "statusline", "text": "\u{1b}[31m47%\u{1b}[0m" })).text;
        assert!(!status.contains('\u{1b}'), "{status:?}");
    }
}
