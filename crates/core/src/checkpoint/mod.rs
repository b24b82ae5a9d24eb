//! Checkpoints: a workflow's goal and now. Each is one event file, seen by all instances of the workflow.
//!
//! We write frontmatter and body. We read those and similar files: whole YAML files, quoted values, lists in either
//! style. People and other tools write these files too, so skip what we cannot parse instead of failing.

mod yaml;

use std::fmt::Write as _;

use jiff::Timestamp;

/// The contents of one event file.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Checkpoint {
    pub event_type: String,
    pub timestamp: Option<Timestamp>,
    pub session_id: String,
    pub session_name: Option<String>,
    pub goal: String,
    pub now: String,
    pub done_this_session: Vec<String>,
    pub blockers: Vec<String>,
    pub next: Vec<String>,
}

impl Checkpoint {
    /// The file's text.
    pub fn format(&self) -> String {
        let mut out = String::from("---\n");
        let mut line = |key: &str, value: &str| {
            let _ = writeln!(out, "{key}: {}", yaml::scalar(value));
        };
        line("event_type", if self.event_type.is_empty() { "handoff" } else { &self.event_type });
        if let Some(at) = self.timestamp {
            line("timestamp", &iso(at));
        }
        line("session_id", &self.session_id);
        if let Some(name) = &self.session_name {
            line("session_name", name);
        }
        out.push_str("---\n\n");
        let _ = writeln!(out, "goal: {}", yaml::scalar(&self.goal));
        let _ = writeln!(out, "now: {}", yaml::scalar(&self.now));
        let lists = [
            ("done_this_session", &self.done_this_session),
            ("blockers", &self.blockers),
            ("next", &self.next),
        ];
        for (key, items) in lists {
            if !items.is_empty() {
                let _ = writeln!(out, "{key}:");
                for item in items {
                    let _ = writeln!(out, "  - {}", yaml::scalar(item));
                }
            }
        }
        out
    }

    /// Parses any file of this shape; `None` if it has neither goal nor now.
    ///
    /// The first value of a key wins, so a body cannot change what the frontmatter says.
    pub fn parse(text: &str) -> Option<Self> {
        let mut c = Self::default();
        for (key, values) in yaml::entries(text) {
            let single = |slot: &mut String, values: Vec<String>| {
                if slot.is_empty() {
                    *slot = values.join("; ");
                }
            };
            let several = |slot: &mut Vec<String>, values| {
                if slot.is_empty() {
                    *slot = values;
                }
            };
            match key {
                "event_type" => single(&mut c.event_type, values),
                "timestamp" => c.timestamp = c.timestamp.or_else(|| values.first()?.parse().ok()),
                "session_id" => single(&mut c.session_id, values),
                "session_name" => c.session_name = c.session_name.or_else(|| values.into_iter().next()),
                "goal" => single(&mut c.goal, values),
                "now" => single(&mut c.now, values),
                "done_this_session" => several(&mut c.done_this_session, values),
                "blockers" => several(&mut c.blockers, values),
                "next" => several(&mut c.next, values),
                _ => {}
            }
        }
        (!c.goal.is_empty() || !c.now.is_empty()).then_some(c)
    }
}

/// `2026-01-09T14:00:00.000Z`
fn iso(at: Timestamp) -> String {
    format!("{at:.3}")
}

/// `2026-01-09T14-00-00.000Z_a1b2c3d4.md`
pub fn file_name(at: Timestamp, session8: &str) -> String {
    format!("{}_{session8}.md", iso(at).replace(':', "-"))
}

/// A parsed file name, ordered by time, then by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName<'a> {
    /// `20260109140000000`: the digits of the time, to the millisecond.
    digits: u64,
    name: &'a str,
}

impl<'a> FileName<'a> {
    /// `None` if this is not a checkpoint's name. Computes no date, because folders hold thousands of names.
    pub fn parse(name: &'a str) -> Option<Self> {
        const SHAPE: &[u8] = b"dddd-dd-ddTdd-dd-dd";
        let stem = [".md", ".yaml", ".yml"].iter().find_map(|e| name.strip_suffix(e))?;
        let (time, session) = stem.split_once('_')?;
        let time = time.strip_suffix('Z')?.as_bytes();
        if session.is_empty() || time.len() < SHAPE.len() {
            return None;
        }
        let (time, fraction) = time.split_at(SHAPE.len());
        let mut digits = 0u64;
        for (&b, &want) in time.iter().zip(SHAPE) {
            match (want, b) {
                (b'd', b'0'..=b'9') => digits = digits * 10 + u64::from(b - b'0'),
                (b'd', _) => return None,
                // Some tools write colons in the time.
                (b'-', b':') => {}
                (want, b) if want == b => {}
                _ => return None,
            }
        }
        let fraction = match fraction {
            [] => &[][..],
            [b'.', rest @ ..] if !rest.is_empty() && rest.iter().all(u8::is_ascii_digit) => rest,
            _ => return None,
        };
        for place in 0..3 {
            digits = digits * 10 + fraction.get(place).map_or(0, |b| u64::from(b - b'0'));
        }
        Some(Self { digits, name })
    }

    pub fn as_str(&self) -> &'a str {
        self.name
    }

    /// The session's eight characters.
    pub fn session8(&self) -> &'a str {
        let rest = self.name.split_once('_').map_or("", |(_, rest)| rest);
        rest.split_once('.').map_or(rest, |(session, _)| session)
    }

    /// The time in the file's name; `None` if that date does not exist.
    pub fn timestamp(&self) -> Option<Timestamp> {
        let mut digits = self.digits;
        let mut take = |base: u64| {
            let part = digits % base;
            digits /= base;
            i32::try_from(part).ok()
        };
        let millisecond = take(1000)?;
        let parts = [take(100)?, take(100)?, take(100)?, take(100)?, take(100)?].map(i8::try_from);
        let [Ok(second), Ok(minute), Ok(hour), Ok(day), Ok(month)] = parts else { return None };
        let year = i16::try_from(take(10_000)?).ok()?;
        let civil =
            jiff::civil::DateTime::new(year, month, day, hour, minute, second, millisecond * 1_000_000)
                .ok()?;
        civil.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|z| z.timestamp())
    }
}

/// The author of a checkpoint, as seen from one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointAuthor {
    /// A person, or an author unknown on this machine: a teammate, another tool.
    Person,
    /// The agent of this session, now or before a rotation.
    Own,
    /// Another agent on this machine.
    Agent,
}

impl CheckpointAuthor {
    /// Classifies the file's eight characters. `own`: short ids of the agent's sessions. `known`: is it any session
    /// here?
    pub fn of(session8: &str, own: &[&str], known: impl FnOnce(&str) -> bool) -> Self {
        if own.contains(&session8) {
            Self::Own
        } else if session8 != MANUAL && known(session8) {
            Self::Agent
        } else {
            Self::Person
        }
    }
}

/// Replaces the session id in a person's checkpoint.
pub const MANUAL: &str = "manual";

/// The checkpoint that a session's status line starts from: a person's newest until they or that workflow (by name)
/// replace it, else the agent's own. For a named workflow, the newest one by any author is then shown.
pub fn shown(
    person: Option<(Timestamp, Checkpoint)>,
    own: Option<(Timestamp, Checkpoint)>,
) -> Option<Checkpoint> {
    let (Some(person), Some(own)) = (&person, &own) else { return person.or(own).map(|(_, c)| c) };
    let replaced = own.0 > person.0 && own.1.session_name == person.1.session_name;
    Some(if replaced { own.1.clone() } else { person.1.clone() })
}

#[cfg(test)]
mod tests;
