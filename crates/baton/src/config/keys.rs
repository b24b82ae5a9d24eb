//! The table of everything that can be set. To add a setting, add a field to [`Config`] and a row here.

use std::path::PathBuf;
use std::time::Duration;

use baton_core::ids::ChannelName;
use jiff::SignedDuration;

use crate::config::{Compaction, Config, Narrative, WaitFor};
use crate::sys::paths::Paths;

/// One setting.
pub struct Key {
    /// `section.key`, or a bare `key`.
    pub name: &'static str,
    pub help: &'static str,
    pub set: fn(&mut Config, &Raw, &Paths) -> Result<(), &'static str>,
    pub get: fn(&Config) -> String,
}

/// Who besides the user may set a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Nobody: where files lie, what runs on this machine, who is notified, and how long things are kept.
    User,
    /// A project whose folder the user has trusted.
    Accepted,
    /// Any project: it only changes what is shown there.
    Shown,
}

/// A value as written in a file or the environment.
#[derive(Debug, Clone, PartialEq)]
pub enum Raw {
    Bool(bool),
    Int(i64),
    Text(String),
    /// A list, a table or a date, which no key accepts.
    Other,
}

impl Key {
    pub fn reach(&self) -> Reach {
        let section = self.name.split_once('.').map_or("", |(section, _)| section);
        match (section, self.name) {
            ("notify" | "mirror" | "serve" | "page" | "approvals" | "fleet", _)
            | (_, "handoff.dir" | "retention_days" | "panes.socket") => Reach::User,
            (_, "memory.announce") => Reach::Shown,
            _ => Reach::Accepted,
        }
    }

    /// `BATON_CONTEXT_WARNING_PERCENTAGE` for `context.warning_percentage`.
    pub fn env_name(&self) -> String {
        format!("BATON_{}", self.name.replace('.', "_").to_uppercase())
    }

    /// Whether a variable may set it. A project sets those of its agents, and one of these may start the daemon.
    pub(crate) fn has_variable(&self) -> bool {
        !matches!(self.name, "page.write" | "serve.hosts" | "fleet.share" | "fleet.hide")
    }
}

const PERCENT: &str = "a whole number from 1 to 100";
const TOKENS: &str = "a number of tokens above 0, like 150000 or \"150k\"";
const SIZE: &str = "a number of kilobytes above 0";
const YES_NO: &str = "true or false";
const DURATION: &str = "a duration like \"2h\", \"90m\" or \"30s\"";
const COUNT: &str = "a whole number, 0 or more";
const BUDGET: &str = "a number of characters from 500 to 9500 (the client cuts what is longer than 10,000)";
const ANSWER_BUDGET: &str = "a number of characters from 500 to 200000";
const COMPACTION: &str = "\"handoff\", \"client\" or \"ask\"";
const HOSTS: &str = "names of a TLS proxy, like \"desk.example.org\" or \"desk.example.org:8443\"";
const CHANNELS: &str = "names of channels as `baton channel` tells them, separated by commas";
const FOLDER: &str = "an absolute path, or one that begins with ~/";

macro_rules! row {
    ($name:literal, $help:literal, $parse:ident, $($field:ident).+) => {
        Key {
            name: $name,
            help: $help,
            set: |config, raw, paths| {
                config.$($field).+ = $parse(raw, paths)?;
                Ok(())
            },
            get: |config| config.$($field).+.shown(),
        }
    };
}

pub const KEYS: &[Key] = &[
    row!("context.enabled", "measure how full the agent is, and tell it", yes_no, context.enabled),
    row!(
        "context.early_warning_percentage",
        "early warning from here, in percent of the window",
        percent,
        context.early_warning_percentage
    ),
    row!(
        "context.warning_percentage",
        "warning from here: one quiet sentence to the agent",
        percent,
        context.warning_percentage
    ),
    row!(
        "context.critical_percentage",
        "critical from here: the agent is asked for a handoff",
        percent,
        context.critical_percentage
    ),
    row!(
        "context.early_warning_tokens",
        "the same in tokens; the lower of the two counts",
        tokens_or_none,
        context.early_warning_tokens
    ),
    row!(
        "context.warning_tokens",
        "the same in tokens; the lower of the two counts",
        tokens_or_none,
        context.warning_tokens
    ),
    row!(
        "context.critical_tokens",
        "the same in tokens; the lower of the two counts",
        tokens_or_none,
        context.critical_tokens
    ),
    row!(
        "context.default_window",
        "window to assume when neither client nor model tells",
        tokens,
        context.default_window
    ),
    row!("context.advise", "say one quiet sentence at the warning", yes_no, context.advise),
    row!("context.request", "ask for a handoff when it is critical", yes_no, context.request),
    row!(
        "context.block_stop",
        "ask once more before a critical turn ends, when a fresh context can follow",
        yes_no,
        context.block_stop
    ),
    row!(
        "context.early_warning_kb",
        "last resort, when no token count can be had: size of the transcript",
        kilobytes,
        context.early_warning_kb
    ),
    row!("context.warning_kb", "last resort: warning from here", kilobytes, context.warning_kb),
    row!("context.critical_kb", "last resort: critical from here", kilobytes, context.critical_kb),
    row!("handoff.dir", "where handoffs lie", folder, handoff.dir),
    row!("handoff.expiry", "a handoff older than this is not loaded by itself", duration, handoff.expiry),
    row!(
        "handoff.budget",
        "characters of a loaded handoff put in front of the agent at once",
        budget,
        handoff.budget
    ),
    row!(
        "handoff.answer_budget",
        "characters of the handoff that answers a compaction",
        answer_budget,
        handoff.answer_budget
    ),
    row!(
        "handoff.files",
        "files in play that a fresh context is shown, the most recent first",
        count,
        handoff.files
    ),
    row!(
        "handoff.file_tokens",
        "tokens of one of these files; of a larger one the parts in play are shown",
        tokens,
        handoff.file_tokens
    ),
    row!(
        "handoff.headless",
        "load handoffs into headless runs that baton did not start",
        yes_no,
        handoff.headless
    ),
    row!(
        "handoff.seal",
        "seal an automatic handoff before compaction and at a critical end of turn",
        yes_no,
        handoff.seal
    ),
    row!(
        "handoff.block_compaction",
        "hold back automatic compaction while a rotation is about to happen",
        yes_no,
        handoff.block_compaction
    ),
    row!("run.provider", "what `baton run` starts when nothing is named", provider, run.provider),
    row!("run.grace", "how long a client may take to end before it is killed", wait, run.grace),
    row!("run.background_wait", "how long a rotation waits for background tasks", wait, run.background_wait),
    row!("run.in_place_wait", "how long an idle client's mod has the first try", wait, run.in_place_wait),
    row!("run.park", "wait for a usage limit to end, and come back by itself", yes_no, run.park),
    row!(
        "run.ceiling_percentage",
        "rotate in the middle of a turn when the context is this full",
        percent_or_none,
        run.ceiling_percentage
    ),
    row!("run.max_restarts", "rotations in a row without a prompt by a person", count, run.max_restarts),
    row!("mirror.enabled", "copy conversations as they grow, so that none is lost", yes_no, mirror.enabled),
    row!(
        "mirror.keep_days",
        "`baton backup prune` removes what is older; 0 keeps it forever",
        count,
        mirror.keep_days
    ),
    row!(
        "mirror.max_mb",
        "and the oldest while all of it takes more megabytes than this; 0 is no limit",
        count,
        mirror.max_mb
    ),
    row!("memory.announce", "tell a session that begins of a backup that waits", yes_no, memory.announce),
    row!(
        "panes.socket",
        "the tmux server on which spawned agents live: its name, or the path of its socket",
        socket,
        panes.socket
    ),
    row!(
        "panes.attend",
        "start the daemon, which types into the panes, with the first agent that needs it",
        yes_no,
        panes.attend
    ),
    row!(
        "compaction",
        "who answers a compaction: handoff, client, or ask (handoff for /compact, client for the rest)",
        compaction,
        compaction
    ),
    row!(
        "narrative",
        "when the agent wrote none before a compaction: off, or fork (its own model is asked, which costs tokens)",
        narrative,
        narrative
    ),
    row!(
        "notify.parent",
        "mail to an agent's parent, or without one to your inbox: its answer, errors, limits, dialogs, compactions",
        yes_no,
        notify.parent
    ),
    row!(
        "notify.desktop",
        "show on the desktop that an agent is blocked, dead or failed",
        yes_no,
        notify.desktop
    ),
    row!(
        "notify.command",
        "run by sh for each of these, with BATON_NOTICE, BATON_AGENT, BATON_TEXT and BATON_REQUEST set",
        command,
        notify.command
    ),
    row!(
        "notify.mute",
        "notices that nobody is sent, as agent:kind, agent:kind; * stands for all (kinds: idle, error, limit, blocked, \
         compacted, handoff-failed, handoff-pending; a death is always told)",
        muted,
        notify.mute
    ),
    row!(
        "approvals.wait_for",
        "whose permission requests also wait for `baton approve`: spawned, all or nobody",
        wait_for,
        approvals.wait_for
    ),
    row!(
        "approvals.deadline",
        "how long a request waits; then its dialog alone is left",
        week,
        approvals.deadline
    ),
    row!(
        "approvals.headless_deadline",
        "the same where nobody sits at the client",
        week,
        approvals.headless_deadline
    ),
    row!(
        "serve.http",
        "where the daemon also listens, also when a command starts it: a port or an address of this machine",
        loopback,
        serve.http
    ),
    row!(
        "serve.hosts",
        "names under which your own TLS proxy serves the page, separated by commas; for the next start of the daemon",
        hosts,
        serve.hosts
    ),
    row!(
        "page.write",
        "the page may answer, send, rotate, retire and spawn without a code (`baton page --code`)",
        yes_no,
        page.write
    ),
    row!(
        "fleet.share",
        "channels whose conversations other machines of the fleet may list and fetch, separated by commas",
        channels,
        fleet.share
    ),
    row!(
        "fleet.hide",
        "channels whose agents other machines of the fleet do not see, separated by commas",
        channels,
        fleet.hide
    ),
    row!(
        "retention_days",
        "days that log, archive and records of what is over are kept",
        days,
        retention_days
    ),
    row!("checkpoints", "publish a checkpoint with each handoff that has goal and now", yes_no, checkpoints),
];

fn yes_no(raw: &Raw, _: &Paths) -> Result<bool, &'static str> {
    match raw {
        Raw::Bool(b) => Ok(*b),
        Raw::Text(t) => match t.as_str() {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" => Ok(false),
            _ => Err(YES_NO),
        },
        _ => Err(YES_NO),
    }
}

fn number(raw: &Raw) -> Option<i64> {
    match raw {
        Raw::Int(n) => Some(*n),
        Raw::Text(t) => {
            let t = t.trim().replace('_', "");
            match t.strip_suffix(['k', 'K']) {
                Some(k) => k.parse::<i64>().ok()?.checked_mul(1000),
                None => match t.strip_suffix(['m', 'M']) {
                    Some(m) => m.parse::<i64>().ok()?.checked_mul(1_000_000),
                    None => t.parse().ok(),
                },
            }
        }
        _ => None,
    }
}

fn percent(raw: &Raw, _: &Paths) -> Result<u8, &'static str> {
    number(raw).and_then(|n| u8::try_from(n).ok()).filter(|n| (1..=100).contains(n)).ok_or(PERCENT)
}

fn percent_or_none(raw: &Raw, paths: &Paths) -> Result<Option<u8>, &'static str> {
    percent(raw, paths).map(Some)
}

fn tokens(raw: &Raw, _: &Paths) -> Result<u64, &'static str> {
    number(raw).and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0).ok_or(TOKENS)
}

fn tokens_or_none(raw: &Raw, paths: &Paths) -> Result<Option<u64>, &'static str> {
    tokens(raw, paths).map(Some)
}

fn kilobytes(raw: &Raw, _: &Paths) -> Result<u64, &'static str> {
    number(raw).and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0).ok_or(SIZE)
}

fn count(raw: &Raw, _: &Paths) -> Result<u64, &'static str> {
    number(raw).and_then(|n| u64::try_from(n).ok()).ok_or(COUNT)
}

fn days(raw: &Raw, _: &Paths) -> Result<u64, &'static str> {
    number(raw)
        .and_then(|n| u64::try_from(n).ok())
        .filter(|n| (1..=36_500).contains(n))
        .ok_or("a number of days above 0")
}

fn command(raw: &Raw, _: &Paths) -> Result<Option<String>, &'static str> {
    match raw {
        Raw::Text(text) if !text.trim().is_empty() => Ok(Some(text.clone())),
        _ => Err("a command line for sh"),
    }
}

fn muted(raw: &Raw, _: &Paths) -> Result<String, &'static str> {
    let is_rule = |rule: &str| rule.split_once(':').is_some_and(|(a, b)| !a.is_empty() && !b.is_empty());
    match raw {
        Raw::Text(text) if text.split([',', ' ']).filter(|r| !r.is_empty()).all(is_rule) => Ok(text.clone()),
        _ => Err("words like reviewer:idle, separated by commas"),
    }
}

fn loopback(raw: &Raw, _: &Paths) -> Result<Option<String>, &'static str> {
    let text = match raw {
        Raw::Int(port) => port.to_string(),
        Raw::Text(text) => text.trim().to_owned(),
        _ => String::new(),
    };
    match crate::config::address::http_address(&text) {
        Ok(address) if !text.is_empty() => Ok(Some(address.to_string())),
        _ => Err("a port or an address that only this machine can reach, like 8420 or \"127.0.0.1:8420\""),
    }
}

fn hosts(raw: &Raw, _: &Paths) -> Result<Vec<String>, &'static str> {
    let Raw::Text(text) = raw else { return Err(HOSTS) };
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| crate::config::address::proxy_host(name).ok_or(HOSTS)).collect()
}

fn channels(raw: &Raw, _: &Paths) -> Result<Vec<String>, &'static str> {
    let Raw::Text(text) = raw else { return Err(CHANNELS) };
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| ChannelName::new(name).map(|name| name.to_string()).map_err(|_| CHANNELS)).collect()
}

fn answer_budget(raw: &Raw, _: &Paths) -> Result<u64, &'static str> {
    let chars = number(raw).and_then(|n| u64::try_from(n).ok());
    chars.filter(|n| (500..=200_000).contains(n)).ok_or(ANSWER_BUDGET)
}

fn budget(raw: &Raw, _: &Paths) -> Result<u64, &'static str> {
    number(raw).and_then(|n| u64::try_from(n).ok()).filter(|n| (500..=9_500).contains(n)).ok_or(BUDGET)
}

fn duration(raw: &Raw, _: &Paths) -> Result<SignedDuration, &'static str> {
    let Raw::Text(text) = raw else { return Err(DURATION) };
    text.parse::<SignedDuration>().ok().filter(SignedDuration::is_positive).ok_or(DURATION)
}

fn wait(raw: &Raw, paths: &Paths) -> Result<Duration, &'static str> {
    duration(raw, paths).and_then(|d| Duration::try_from(d).map_err(|_| DURATION))
}

/// Limited to the time that the installed client waits for the hook.
fn week(raw: &Raw, paths: &Paths) -> Result<Duration, &'static str> {
    wait(raw, paths)
        .ok()
        .filter(|wait| *wait <= Duration::from_hours(24 * 7))
        .ok_or("a duration like \"24h\" or \"10m\", at most a week (168h)")
}

fn wait_for(raw: &Raw, _: &Paths) -> Result<WaitFor, &'static str> {
    match raw {
        Raw::Text(t) if t == "all" => Ok(WaitFor::All),
        Raw::Text(t) if t == "spawned" => Ok(WaitFor::Spawned),
        Raw::Text(t) if t == "nobody" => Ok(WaitFor::Nobody),
        _ => Err("\"spawned\", \"all\" or \"nobody\""),
    }
}

fn provider(raw: &Raw, _: &Paths) -> Result<Option<String>, &'static str> {
    match raw {
        Raw::Text(name) if crate::providers::find(name).is_some() => Ok(Some(name.clone())),
        _ => Err("the name of a provider: claude or demo"),
    }
}

fn socket(raw: &Raw, _: &Paths) -> Result<String, &'static str> {
    match raw {
        Raw::Text(t) if !t.trim().is_empty() && !t.starts_with('-') => Ok(t.clone()),
        _ => Err("the name of a tmux server, or the path of its socket"),
    }
}

fn compaction(raw: &Raw, _: &Paths) -> Result<Compaction, &'static str> {
    match raw {
        Raw::Text(t) => match t.as_str() {
            "handoff" => Ok(Compaction::Handoff),
            "client" => Ok(Compaction::Client),
            "ask" => Ok(Compaction::Ask),
            _ => Err(COMPACTION),
        },
        _ => Err(COMPACTION),
    }
}

fn narrative(raw: &Raw, _: &Paths) -> Result<Narrative, &'static str> {
    match raw {
        Raw::Text(t) if t == "off" => Ok(Narrative::Off),
        Raw::Text(t) if t == "fork" => Ok(Narrative::Fork),
        _ => Err("\"off\" or \"fork\""),
    }
}

fn folder(raw: &Raw, paths: &Paths) -> Result<PathBuf, &'static str> {
    let Raw::Text(text) = raw else { return Err(FOLDER) };
    let path = paths.expand(text);
    if path.is_absolute() { Ok(path) } else { Err(FOLDER) }
}

/// A value as `baton config` prints it.
trait Shown {
    fn shown(&self) -> String;
}

macro_rules! shown {
    ($($kind:ty => $show:expr),+ $(,)?) => {
        $(impl Shown for $kind {
            fn shown(&self) -> String {
                ($show)(self)
            }
        })+
    };
}

shown! {
    bool => bool::to_string,
    Narrative => |v: &Self| match v {
        Self::Off => "off".to_owned(),
        Self::Fork => "fork".to_owned(),
    },
    WaitFor => |v: &Self| match v {
        Self::All => "all".to_owned(),
        Self::Spawned => "spawned".to_owned(),
        Self::Nobody => "nobody".to_owned(),
    },
    Compaction => |v: &Self| match v {
        Self::Handoff => "handoff".to_owned(),
        Self::Client => "client".to_owned(),
        Self::Ask => "ask".to_owned(),
    },
    u8 => u8::to_string,
    u64 => u64::to_string,
    Option<u8> => |v: &Self| v.map_or_else(|| "-".to_owned(), |n| n.to_string()),
    Option<u64> => |v: &Self| v.map_or_else(|| "-".to_owned(), |n| n.to_string()),
    String => String::clone,
    Vec<String> => |v: &Self| if v.is_empty() { "-".to_owned() } else { v.join(", ") },
    PathBuf => |v: &Self| v.display().to_string(),
    SignedDuration => |v: &Self| format!("{v:#}"),
    Duration => |v: &Self| format!("{:#}", SignedDuration::try_from(*v).unwrap_or(SignedDuration::MAX)),
    Option<String> => |v: &Self| v.clone().unwrap_or_else(|| "-".to_owned()),
}
