//! What a chain remembers: cuts a session into several, each the context of one agent that writes nothing itself, and
//! drives them through the real binary's hooks. The questions are about what the last start is given.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use baton_core::handoff::HandoffId;
use baton_core::handoff::frame::HEAD;
use serde_json::json;

use super::corpus::Transcript;
use super::probes::{fold, rules};
use super::story::{Story, What};
use crate::codex::{self, CodexClient};
use crate::home::Home;
use crate::hooks::{Client, HookOutput, session_id};

/// A request is matched by its beginning.
const REQUEST: usize = 120;

/// One of the sessions that a transcript is cut into.
#[derive(Debug)]
pub struct Stretch {
    /// Its bytes in the transcript.
    pub from: usize,
    pub to: usize,
    /// The index of the event after its last one.
    pub at: usize,
    pub first: Option<String>,
    pub last: Option<String>,
    pub rules: Vec<String>,
    /// The user's whole first prompt.
    prompt: Option<String>,
    /// The agent's last message.
    reply: String,
}

/// `count` stretches of about equally many acts; empty if there are too few acts to cut.
pub fn stretches(story: &Story, count: usize) -> Vec<Stretch> {
    if story.events.len() < count * 4 {
        return Vec::new();
    }
    let index = |i: usize| i * story.events.len() / count;
    let start =
        |i: usize| if i == 0 { 0 } else { story.events.get(index(i)).map_or(story.len, |e| e.offset) };
    let cut = |i: usize| {
        let (from, to) = (start(i), start(i + 1));
        let events = || story.events.iter().filter(|e| (from..to).contains(&e.offset));
        let said: Vec<&str> = events()
            .filter_map(|e| if let What::Said(text) = &e.what { Some(text.as_str()) } else { None })
            .collect();
        let mut replies =
            events().filter_map(|e| if let What::Reply(text) = &e.what { Some(text) } else { None });
        let asked = |text: &&str| fold(text).chars().take(REQUEST).collect::<String>();
        Stretch {
            from,
            to,
            at: index(i + 1),
            first: said.first().map(asked),
            last: said.last().map(asked),
            rules: said.iter().flat_map(|text| rules(text)).collect(),
            prompt: said.first().map(|text| (*text).to_owned()),
            reply: replies.next_back().cloned().unwrap_or_default(),
        }
    };
    (0..count).map(cut).collect()
}

/// What the last context is given, and how long the slowest sealing Stop took.
pub struct LastContext {
    pub text: String,
    pub slowest: Duration,
}

/// Every context ends with a critical Stop and `/clear`, or with a new thread; uses the hooks' 9,500 characters.
pub fn last_start(
    baton: &Path,
    transcript: &Transcript,
    story: &Story,
    parts: &[Stretch],
) -> Result<LastContext> {
    let home = Home::in_memory(baton);
    let earlier = &parts[..parts.len() - 1];
    if story.is_codex {
        return codex_start(&home, transcript, earlier);
    }
    let mut client = Client::new(&home);
    claude_contexts(&mut client, transcript, earlier)
}

/// The same, but the last context ends with a compaction that the mod answers, with its 40,000 characters. Codex has no
/// mod.
pub fn last_answer(baton: &Path, transcript: &Transcript, parts: &[Stretch]) -> Result<String> {
    let home = Home::in_memory(baton);
    let Some((last, earlier)) = parts[..parts.len() - 1].split_last() else {
        bail!("one context has no chain")
    };
    let mut client = Client::new(&home);
    let given = claude_contexts(&mut client, transcript, earlier)?;
    claude_works(&client, transcript, last, Some(given.text.as_str()).filter(|_| !earlier.is_empty()))?;
    let asked = json!({ "v": 1, "session": client.session, "trigger": "auto", "rows": [] });
    let answer = home.run_with_input("companion compact", &asked.to_string()).json();
    let Some(text) = answer["text"].as_str() else { bail!("the compaction was not answered: {answer}") };
    Ok(text.to_owned())
}

fn claude_contexts(
    client: &mut Client<'_>,
    transcript: &Transcript,
    parts: &[Stretch],
) -> Result<LastContext> {
    let mut given = client.starts("startup").context();
    let mut slowest = Duration::ZERO;
    let mut ids = Vec::new();
    for part in parts {
        claude_works(client, transcript, part, given.as_deref())?;
        // The request for a handoff comes here; this agent ignores it.
        client.hook_with("PostToolUse", json!({})).answer();
        let (sealed, took) = until_sealed(|active| {
            let fields = json!({ "stop_hook_active": active, "last_assistant_message": part.reply });
            client.hook_with("Stop", fields)
        })?;
        ensure!(!ids.contains(&sealed), "{sealed} was sealed twice");
        ids.push(sealed);
        slowest = slowest.max(took);
        given = client.clears().context();
    }
    match given {
        Some(text) => Ok(LastContext { text, slowest }),
        None if parts.is_empty() => Ok(LastContext { text: String::new(), slowest }),
        None => bail!("the last start was given nothing"),
    }
}

/// One context up to its end, with its handoff and our prompt in its transcript as in a real one.
fn claude_works(
    client: &Client<'_>,
    transcript: &Transcript,
    part: &Stretch,
    given: Option<&str>,
) -> Result<()> {
    if let Some(given) = given.filter(|text| text.contains(HEAD)) {
        client.record(&json!({ "type": "attachment", "isSidechain": false, "sessionId": client.session,
            "attachment": { "type": "hook_additional_context", "content": [given] } }));
        let prompt = continuation(given)?;
        client.hook_with("UserPromptSubmit", json!({ "prompt": prompt })).answer();
        client.record(&json!({ "type": "user", "isSidechain": false, "uuid": session_id(),
            "sessionId": client.session, "message": { "role": "user", "content": prompt } }));
    } else if let Some(prompt) = &part.prompt {
        client.hook_with("UserPromptSubmit", json!({ "prompt": prompt })).answer();
    }
    append(&client.transcript(), &transcript.bytes[part.from..part.to])?;
    // The context is nearly full; the stretch's own last message stays the last.
    client.record(&json!({ "type": "assistant", "isSidechain": false, "uuid": session_id(),
        "timestamp": format!("{:.3}", jiff::Timestamp::now()),
        "message": { "role": "assistant", "model": "claude-opus-4-6", "id": session_id(), "content": [],
            "usage": { "input_tokens": 150_000, "output_tokens": 200 } } }));
    Ok(())
}

fn codex_start(home: &Home, transcript: &Transcript, parts: &[Stretch]) -> Result<LastContext> {
    let mut client = CodexClient::new(home);
    let mut given = client.starts("startup").context();
    let mut slowest = Duration::ZERO;
    for part in parts {
        if let Some(given) = given.as_deref().filter(|text| text.contains(HEAD)) {
            let prompt = continuation(given)?;
            client.says("developer", given);
            client.prompt(&prompt).answer();
            client.says("user", &prompt);
        } else if let Some(prompt) = &part.prompt {
            client.prompt(prompt).answer();
        }
        append(&client.rollout(), &transcript.bytes[part.from..part.to])?;
        client.counts(codex::WINDOW * 9 / 10);
        client.tool().answer();
        let (_, took) = until_sealed(|active| {
            client.hook("Stop", json!({ "stop_hook_active": active, "last_assistant_message": part.reply }))
        })?;
        slowest = slowest.max(took);
        client.hook("SessionEnd", json!({ "reason": "other" })).answer();
        client.thread = session_id();
        given = client.starts("clear").context();
    }
    let Some(text) = given else { bail!("the last start was given nothing") };
    Ok(LastContext { text, slowest })
}

/// The prompt that baton submits after a handoff, as in `core::prompt`.
fn continuation(given: &str) -> Result<String> {
    let id = given.split_once(HEAD).and_then(|(_, rest)| rest.split_once(')')).map(|(id, _)| id);
    Ok(baton_core::prompt::continuation(&HandoffId::new(id.unwrap_or_default())?, None))
}

fn append(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(bytes)?;
    if !bytes.ends_with(b"\n") {
        file.write_all(b"\n")?;
    }
    Ok(())
}

/// The agent is asked at most twice and ignores it; then the hook seals by itself.
fn until_sealed(mut stop: impl FnMut(bool) -> HookOutput) -> Result<(String, Duration)> {
    let mut said = Vec::new();
    for asked in 0..3 {
        let heard = stop(asked > 0);
        said.push(heard.out.clone());
        if let Some(message) = heard.message()
            && let Some(at) = message.find("HO-")
        {
            let id = message[at..].split([' ', ';']).next().unwrap_or_default();
            return Ok((id.to_owned(), heard.took));
        }
    }
    bail!("no Stop sealed a handoff: {said:?}")
}

/// How much of the earlier stretches a text contains, by how many contexts ago it was said.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    pub firsts: (usize, usize),
    pub lasts: (usize, usize),
    pub rules: (usize, usize),
    /// First requests and rules by the number of contexts since: hits and cases.
    pub by_age: Vec<(usize, usize)>,
}

impl Memory {
    /// Returns the missing facts.
    pub fn add(&mut self, text: &str, parts: &[Stretch]) -> Vec<String> {
        let whole = fold(text);
        let mut missed = Vec::new();
        for (i, part) in parts[..parts.len() - 1].iter().enumerate() {
            let age = parts.len() - 1 - i;
            self.by_age.resize(self.by_age.len().max(age), (0, 0));
            let mut ask = |what: &str, asked: &str, place: &mut (usize, usize), counts: bool| {
                let hit = usize::from(whole.contains(asked));
                place.0 += hit;
                place.1 += 1;
                if counts {
                    self.by_age[age - 1].0 += hit;
                    self.by_age[age - 1].1 += 1;
                }
                if hit == 0 {
                    missed.push(format!("{what}, {age} ago: {asked}"));
                }
            };
            if let Some(first) = &part.first {
                ask("first request", first, &mut self.firsts, true);
            }
            if let Some(last) = &part.last {
                ask("last request", last, &mut self.lasts, false);
            }
            for rule in &part.rules {
                ask("rule", rule, &mut self.rules, true);
            }
        }
        missed
    }

    /// First requests and rules together, which the target is about.
    pub fn share(&self) -> f64 {
        (self.firsts.0 + self.rules.0) as f64 / (self.firsts.1 + self.rules.1).max(1) as f64
    }
}
