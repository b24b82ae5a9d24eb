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
    asked: bool,
    old_session: String,
    pub handoff: Option<String>,
    pub over: bool,
}

const WIDTH: usize = 76;

impl Story {
    pub fn new(paint: Paint, rest: Duration) -> Self {
        Self {
            paint,
            rest,
            contexts: 0,
            aside: None,
            asked: false,
            old_session: String::new(),
            handoff: None,
            over: false,
        }
    }

    /// One thing that happened.
    pub fn tell(&mut self, event: &Value) -> Told {
        let text = |key: &str| event[key].as_str().unwrap_or_default();
        match text("kind") {
            "context-begins" => self.begins(text("session")),
            "prompt" => self.prompt(text("text")),
            "said" if text("text") == "Done." => Told::default(),
            "said" => self.line(&format!("{} {}", self.paint.green("agent ▸"), text("text"))),
            "tool" => self.tool(event),
            "context" if text("event").starts_with("PostToolUse") => {
                self.aside = Some(text("text").to_owned());
                Told::default()
            }
            "context" if text("event") == "SessionStart" => {
                let size = text("text").chars().count();
                self.line(&self.paint.dim(&format!(
                    "baton puts the handoff in front of it before it has read a word ({size} characters)"
                )))
            }
            "block" => self.asks(),
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

    fn prompt(&mut self, text: &str) -> Told {
        let who = if crate::rotate::is_from_a_person(text) { "you" } else { "baton" };
        self.line(&format!("{} {text}", self.paint.bold(&format!("{who} ▸"))))
    }

    fn tool(&mut self, event: &Value) -> Told {
        let input = &event["input"];
        let output = event["output"].as_str().unwrap_or_default().trim_end();
        let mut told = match input["command"].as_str() {
            Some(command) => {
                let mut told = self.line(&self.paint.dim(&format!("  $ {command}")));
                told.text.push_str(&indented(&format!("    {output}")));
                told
            }
            None => {
                let path = input["file_path"].as_str().unwrap_or_default();
                let path = path.split_once("/app/").map_or(path, |(_, rest)| rest);
                let mut told = self.line(&self.paint.dim(&format!("  writes {path}")));
                if self.asked {
                    for line in input["content"].as_str().unwrap_or_default().lines() {
                        told.text.push_str(&indented(&self.paint.dim(&format!("  │ {line}"))));
                    }
                }
                told
            }
        };
        match self.aside.take() {
            Some(aside) if aside.contains("`baton handoff ") => told.then = Some(Box::new(self.asks())),
            Some(aside) => {
                let mut head =
                    self.heading("2", "At half, baton says one sentence to the agent. Only one.", "");
                head.text.push_str(&quoted(self.paint, &aside));
                told.then = Some(Box::new(head));
            }
            None => {}
        }
        told
    }

    fn asks(&mut self) -> Told {
        self.asked = true;
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
        self.line(&self.paint.yellow(text))
    }

    fn status(&mut self, text: &str) -> Told {
        let text = plain(text);
        // Before the first answer there is nothing to show.
        if !text.contains('%') {
            return Told::default();
        }
        let mut told = self.line(&format!("{} {text}", self.paint.dim("context")));
        told.turn_over = true;
        self.over = self.contexts > 1;
        told
    }

    fn heading(&self, number: &str, title: &str, more: &str) -> Told {
        let mut text = format!("\n{} {}\n", self.paint.yellow(number), self.paint.bold(title));
        if !more.is_empty() {
            text.push_str(&indented(&self.paint.dim(more)));
        }
        text.push('\n');
        Told { rest: self.rest, text, turn_over: false, then: None }
    }

    fn line(&self, text: &str) -> Told {
        Told { rest: Duration::ZERO, text: indented(text), turn_over: false, then: None }
    }
}

fn quoted(paint: Paint, text: &str) -> String {
    indented(&format!("{} {}", paint.yellow("baton ▸"), text.trim_start_matches("[baton] ")))
}

/// Wrapped and set in, so that headings stand out.
fn indented(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let lead = line.len() - line.trim_start().len();
        let pad = " ".repeat(3 + lead);
        let mut row = String::new();
        for word in line.split_whitespace() {
            let width = |s: &str| plain(s).chars().count();
            if !row.is_empty() && width(&row) + 1 + width(word) > WIDTH - lead {
                out.push_str(&format!("{pad}{row}\n"));
                row = "  ".to_owned();
            }
            if !row.trim().is_empty() {
                row.push(' ');
            }
            row.push_str(word);
        }
        out.push_str(&format!("{pad}{row}\n"));
    }
    out
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
