//! The kinds of values that settings have: how each is read, and how `baton config` prints it.

use std::path::PathBuf;
use std::time::Duration;

use baton_core::ids::ChannelName;
use jiff::SignedDuration;

use crate::config::keys::RawSetting;
use crate::config::{CompactionChoice, NarrativeSource, WaitFor};
use crate::sys::paths::Paths;

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

pub(super) fn yes_no(raw: &RawSetting, _: &Paths) -> Result<bool, &'static str> {
    match raw {
        RawSetting::Bool(b) => Ok(*b),
        RawSetting::Text(t) => match t.as_str() {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" => Ok(false),
            _ => Err(YES_NO),
        },
        _ => Err(YES_NO),
    }
}

fn number(raw: &RawSetting) -> Option<i64> {
    match raw {
        RawSetting::Int(n) => Some(*n),
        RawSetting::Text(t) => {
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

pub(super) fn percent(raw: &RawSetting, _: &Paths) -> Result<u8, &'static str> {
    number(raw).and_then(|n| u8::try_from(n).ok()).filter(|n| (1..=100).contains(n)).ok_or(PERCENT)
}

pub(super) fn percent_or_none(raw: &RawSetting, paths: &Paths) -> Result<Option<u8>, &'static str> {
    percent(raw, paths).map(Some)
}

pub(super) fn tokens(raw: &RawSetting, _: &Paths) -> Result<u64, &'static str> {
    number(raw).and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0).ok_or(TOKENS)
}

pub(super) fn tokens_or_none(raw: &RawSetting, paths: &Paths) -> Result<Option<u64>, &'static str> {
    tokens(raw, paths).map(Some)
}

pub(super) fn kilobytes(raw: &RawSetting, _: &Paths) -> Result<u64, &'static str> {
    number(raw).and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0).ok_or(SIZE)
}

pub(super) fn count(raw: &RawSetting, _: &Paths) -> Result<u64, &'static str> {
    number(raw).and_then(|n| u64::try_from(n).ok()).ok_or(COUNT)
}

pub(super) fn days(raw: &RawSetting, _: &Paths) -> Result<u64, &'static str> {
    number(raw)
        .and_then(|n| u64::try_from(n).ok())
        .filter(|n| (1..=36_500).contains(n))
        .ok_or("a number of days above 0")
}

pub(super) fn command(raw: &RawSetting, _: &Paths) -> Result<Option<String>, &'static str> {
    match raw {
        RawSetting::Text(text) if !text.trim().is_empty() => Ok(Some(text.clone())),
        _ => Err("a command line for sh"),
    }
}

pub(super) fn muted(raw: &RawSetting, _: &Paths) -> Result<String, &'static str> {
    let is_rule = |rule: &str| rule.split_once(':').is_some_and(|(a, b)| !a.is_empty() && !b.is_empty());
    match raw {
        RawSetting::Text(text) if text.split([',', ' ']).filter(|r| !r.is_empty()).all(is_rule) => {
            Ok(text.clone())
        }
        _ => Err("words like reviewer:idle, separated by commas"),
    }
}

pub(super) fn loopback(raw: &RawSetting, _: &Paths) -> Result<Option<String>, &'static str> {
    let text = match raw {
        RawSetting::Int(port) => port.to_string(),
        RawSetting::Text(text) => text.trim().to_owned(),
        _ => String::new(),
    };
    match crate::config::address::http_address(&text) {
        Ok(address) if !text.is_empty() => Ok(Some(address.to_string())),
        _ => Err("a port or an address that only this machine can reach, like 8420 or \"127.0.0.1:8420\""),
    }
}

pub(super) fn hosts(raw: &RawSetting, _: &Paths) -> Result<Vec<String>, &'static str> {
    let RawSetting::Text(text) = raw else { return Err(HOSTS) };
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| crate::config::address::proxy_host(name).ok_or(HOSTS)).collect()
}

pub(super) fn channels(raw: &RawSetting, _: &Paths) -> Result<Vec<String>, &'static str> {
    let RawSetting::Text(text) = raw else { return Err(CHANNELS) };
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| ChannelName::new(name).map(|name| name.to_string()).map_err(|_| CHANNELS)).collect()
}

pub(super) fn answer_budget(raw: &RawSetting, _: &Paths) -> Result<u64, &'static str> {
    let chars = number(raw).and_then(|n| u64::try_from(n).ok());
    chars.filter(|n| (500..=200_000).contains(n)).ok_or(ANSWER_BUDGET)
}

pub(super) fn budget(raw: &RawSetting, _: &Paths) -> Result<u64, &'static str> {
    number(raw).and_then(|n| u64::try_from(n).ok()).filter(|n| (500..=9_500).contains(n)).ok_or(BUDGET)
}

pub(super) fn duration(raw: &RawSetting, _: &Paths) -> Result<SignedDuration, &'static str> {
    let RawSetting::Text(text) = raw else { return Err(DURATION) };
    text.parse::<SignedDuration>().ok().filter(SignedDuration::is_positive).ok_or(DURATION)
}

pub(super) fn wait(raw: &RawSetting, paths: &Paths) -> Result<Duration, &'static str> {
    duration(raw, paths).and_then(|d| Duration::try_from(d).map_err(|_| DURATION))
}

/// Limited to the time that the installed client waits for the hook.
pub(super) fn week(raw: &RawSetting, paths: &Paths) -> Result<Duration, &'static str> {
    wait(raw, paths)
        .ok()
        .filter(|wait| *wait <= Duration::from_hours(24 * 7))
        .ok_or("a duration like \"24h\" or \"10m\", at most a week (168h)")
}

pub(super) fn wait_for(raw: &RawSetting, _: &Paths) -> Result<WaitFor, &'static str> {
    match raw {
        RawSetting::Text(t) if t == "all" => Ok(WaitFor::All),
        RawSetting::Text(t) if t == "spawned" => Ok(WaitFor::Spawned),
        RawSetting::Text(t) if t == "nobody" => Ok(WaitFor::Nobody),
        _ => Err("\"spawned\", \"all\" or \"nobody\""),
    }
}

pub(super) fn provider(raw: &RawSetting, _: &Paths) -> Result<Option<String>, &'static str> {
    match raw {
        RawSetting::Text(name) if crate::providers::find(name).is_some() => Ok(Some(name.clone())),
        _ => Err("the name of a provider: claude or demo"),
    }
}

pub(super) fn socket(raw: &RawSetting, _: &Paths) -> Result<String, &'static str> {
    match raw {
        RawSetting::Text(t) if !t.trim().is_empty() && !t.starts_with('-') => Ok(t.clone()),
        _ => Err("the name of a tmux server, or the path of its socket"),
    }
}

pub(super) fn compaction(raw: &RawSetting, _: &Paths) -> Result<CompactionChoice, &'static str> {
    match raw {
        RawSetting::Text(t) => match t.as_str() {
            "handoff" => Ok(CompactionChoice::Handoff),
            "client" => Ok(CompactionChoice::Client),
            "ask" => Ok(CompactionChoice::Ask),
            _ => Err(COMPACTION),
        },
        _ => Err(COMPACTION),
    }
}

pub(super) fn narrative(raw: &RawSetting, _: &Paths) -> Result<NarrativeSource, &'static str> {
    match raw {
        RawSetting::Text(t) if t == "off" => Ok(NarrativeSource::Off),
        RawSetting::Text(t) if t == "fork" => Ok(NarrativeSource::Fork),
        _ => Err("\"off\" or \"fork\""),
    }
}

pub(super) fn folder(raw: &RawSetting, paths: &Paths) -> Result<PathBuf, &'static str> {
    let RawSetting::Text(text) = raw else { return Err(FOLDER) };
    let path = paths.expand(text);
    if path.is_absolute() { Ok(path) } else { Err(FOLDER) }
}

/// A value as `baton config` prints it.
pub(super) trait Shown {
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
    NarrativeSource => |v: &Self| match v {
        Self::Off => "off".to_owned(),
        Self::Fork => "fork".to_owned(),
    },
    WaitFor => |v: &Self| match v {
        Self::All => "all".to_owned(),
        Self::Spawned => "spawned".to_owned(),
        Self::Nobody => "nobody".to_owned(),
    },
    CompactionChoice => |v: &Self| match v {
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
