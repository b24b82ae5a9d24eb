//! Tells what happens on the stage, as it happens, to somebody who has never seen it.

use std::time::Duration;

use baton_core::plain::plain;
use serde_json::Value;

use crate::cli::screen::Paint;

/// What is to be printed, and how long to rest before it.
#[derive(Debug, Default, PartialEq)]
pub struct Told {
    pub rest: Duration,
    pub text: String,
    /// A turn is over: the agent waits for a prompt.
    pub turn_over: bool,
    /// What follows it.
    pub then: Option<Box<Told>>,
}

pub struct Story {
    paint: Paint,
    rest: Duration,
    contexts: usize,
    /// Something for the model that belongs behind the tool call it came with.
    aside: Option<String>,
    old_session: String,
    pub handoff: Option<String>,
    pub over: bool,
}

const WIDTH: usize = 76;

impl Story {
    pub fn new(paint: Paint, rest: Duration) -> Self {
        Self { paint, rest, contexts: 0, aside: None, old_session: String::new(), handoff: None, over: false }
    }

    /// One thing that happened.
    pub fn tell(&mut self, event: &Value) -> Told {
        let text = |key: &str| event[key].as_str().unwrap_or_default();
        match text("kind") {
            "context-begins" => self.begins(text("session")),
            "prompt" => self.prompt(text("text")),
            "said" if text("text") == "Done." => Told::default(),
            "said" => self.speech("agent", text("text"), Paint::green),
            "tool" => self.tool(event),
            "context" if text("event").starts_with("PostToolUse") => {
                self.aside = Some(text("text").to_owned());
                Told::default()
            }
            "context" if text("event") == "SessionStart" => {
                let size = text("text").chars().count();
                self.aside_line(&format!(
                    "The handoff is in front of it before it reads a word: {size} characters."
                ))
            }
            "block" => self.asks(),
            // It came with a tool call, which is told first.
            "message" if text("event").starts_with("PostToolUse") => Told::default(),
            "message" => self.message(text("text")),
            "statusline" => self.status(text("text")),
            _ => Told::default(),
        }
    }

    fn begins(&mut self, session: &str) -> Told {
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

    fn prompt(&self, text: &str) -> Told {
        let who = if crate::rotate::is_from_a_person(text) { "you" } else { "baton" };
        self.speech(who, text, Paint::bold)
    }

    fn tool(&mut self, event: &Value) -> Told {
        let input = &event["input"];
        let output = event["output"].as_str().unwrap_or_default().trim_end();
        let dim = |text: &str| self.paint.dim(text);
        let mut text = String::new();
        if let Some(command) = input["command"].as_str() {
            text.push_str(&indented(2, &format!("$ {command}"), dim));
            // As the client tells a failure; the test's own words say it better.
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
        Told { text, then: then.map(Box::new), ..Told::default() }
    }

    fn asks(&self) -> Told {
        self.heading(
            "3",
            "Nearly full: baton asks for a handoff, before the client compacts.",
            "A compaction forgets, by a summary that nobody chose. A handoff is chosen.",
        )
    }

    fn message(&mut self, text: &str) -> Told {
        if let Some(id) = text.split_whitespace().find(|w| w.starts_with("HO-")) {
            self.handoff.get_or_insert_with(|| id.to_owned());
        }
        Told { text: indented(0, text, |row| self.paint.yellow(row)), ..Told::default() }
    }

    fn status(&mut self, text: &str) -> Told {
        let text = plain(text);
        // Before the first answer there is nothing to show.
        if !text.contains('%') {
            return Told::default();
        }
        self.over = self.contexts > 1;
        Told { turn_over: true, ..self.speech("context", &text, |p, t| p.dim(t.trim_end_matches(" ▸"))) }
    }

    fn heading(&self, number: &str, title: &str, more: &str) -> Told {
        let mut text = format!("\n{} {}\n", self.paint.yellow(number), self.paint.bold(title));
        if !more.is_empty() {
            text.push_str(&self.aside_line(more).text);
        }
        text.push('\n');
        Told { rest: self.rest, text, ..Told::default() }
    }

    /// What somebody says; `paint` is laid on who it is.
    fn speech(&self, who: &str, text: &str, paint: impl Fn(Paint, &str) -> String) -> Told {
        let who = format!("{who} ▸");
        let text = indented(0, &format!("{who} {text}"), |row| match row.strip_prefix(&who) {
            Some(rest) => format!("{}{rest}", paint(self.paint, &who)),
            None => row.to_owned(),
        });
        Told { text, ..Told::default() }
    }

    fn aside_line(&self, text: &str) -> Told {
        Told { text: indented(0, text, |row| self.paint.dim(row)), ..Told::default() }
    }
}

/// Set in, so that headings stand out, and wrapped where it is too long; `paint` is laid on each row.
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

/// Rows of at most `width` characters; a line that fits is left as it is.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    if line.chars().count() <= width {
        return vec![line.to_owned()];
    }
    let mut rows = vec![String::new()];
    for word in line.split_whitespace() {
        let full = rows.last().is_some_and(|r| r.chars().count() + 1 + word.chars().count() > width - 2);
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
        assert_eq!(aside, Told::default());
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
