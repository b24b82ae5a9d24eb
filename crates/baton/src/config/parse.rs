//! From text to settings, with the place of every mistake.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{KEYS, Raw};
use super::{Origin, Resolved};
use crate::paths::Paths;
use crate::sys::fs::{self, FileError};

/// No sensible configuration is larger.
const MAX: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{place}: {problem}")]
    Wrong { place: Place, problem: String },
}

/// `path:line`, or the name of a variable.
#[derive(Debug, Clone)]
pub enum Place {
    Line(PathBuf, usize),
    Variable(String),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => f.write_str(name),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The user's own file, which may also map paths to channels.
    User,
    /// A project's file, which may name the project's channel. A cloned project must not be able to move
    /// files or channels of others, so paths are the user's alone.
    Project,
}

pub(super) fn file(
    resolved: &mut Resolved,
    path: &Path,
    scope: Scope,
    paths: &Paths,
) -> Result<(), ConfigError> {
    // A dotfile manager may link the configuration; follow that link here, and only here.
    let real = match std::fs::symlink_metadata(path) {
        // The usual case, on every hook: one look, and nothing more.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Ok(meta) if meta.is_symlink() => std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
        _ => path.to_owned(),
    };
    let Some(bytes) = fs::read(&real, MAX)? else { return Ok(()) };
    let text = String::from_utf8_lossy(&bytes);
    let line_of =
        |span: &Range<usize>| 1 + memchr::memchr_iter(b'\n', &text.as_bytes()[..span.start]).count();
    let wrong = |span: &Range<usize>, problem: String| ConfigError::Wrong {
        place: Place::Line(path.to_owned(), line_of(span)),
        problem,
    };
    let table =
        DeTable::parse(&text).map_err(|e| wrong(&e.span().unwrap_or(0..0), e.message().trim().to_owned()))?;
    for (key, value) in table.get_ref() {
        let (name, span) = (key.get_ref().as_ref(), value.span());
        let origin = |span: &Range<usize>| Origin::File { path: path.to_owned(), line: line_of(span) };
        match (name, value.get_ref()) {
            ("channels", DeValue::Table(map)) if scope == Scope::User => {
                for (from, to) in map {
                    let Some(to_name) = text_of(to) else {
                        return Err(wrong(&to.span(), "a channel is a name in quotes".into()));
                    };
                    check_channel(to_name).map_err(|p| wrong(&to.span(), p))?;
                    let from_path = paths.expand(from.get_ref());
                    if !from_path.is_absolute() {
                        let problem =
                            format!("{:?} must be an absolute path or begin with ~/", from.get_ref());
                        return Err(wrong(&from.span(), problem));
                    }
                    resolved.config.channels.push((from_path, to_name.to_owned()));
                    resolved.channel_origins.push(origin(&to.span()));
                }
            }
            ("channels", _) if scope == Scope::Project => {
                let problem = "[channels] can only be set in your own config.toml; \
                               a project names its own with channel = \"name\"";
                return Err(wrong(&key.span(), problem.into()));
            }
            ("channel", _) if scope == Scope::Project => {
                let Some(name) = text_of(value) else {
                    return Err(wrong(&span, "channel is a name in quotes".into()));
                };
                check_channel(name).map_err(|p| wrong(&span, p))?;
                let dir = path.parent().unwrap_or(Path::new("/")).to_owned();
                resolved.config.project_channel = Some((dir, name.to_owned()));
            }
            (section, DeValue::Table(entries)) => {
                for (key, value) in entries {
                    let full = format!("{section}.{}", key.get_ref());
                    set(resolved, &full, &raw(value), scope, origin(&value.span()), paths)
                        .map_err(|p| wrong(&key.span(), p))?;
                }
            }
            (name, _) => {
                set(resolved, name, &raw(value), scope, origin(&span), paths)
                    .map_err(|p| wrong(&key.span(), p))?;
            }
        }
    }
    Ok(())
}

/// `BATON_*` that name a key. Others with that prefix belong to other parts (`BATON_STATE_DIR`, …).
pub(super) fn environment(
    resolved: &mut Resolved,
    env: impl Iterator<Item = (String, String)>,
    paths: &Paths,
) -> Result<(), ConfigError> {
    for (name, value) in env.filter(|(name, _)| name.starts_with("BATON_")) {
        if let Some(key) = KEYS.iter().find(|k| k.env_name() == name) {
            let origin = Origin::Env(name.clone());
            set(resolved, key.name, &Raw::Text(value), Scope::User, origin, paths)
                .map_err(|problem| ConfigError::Wrong { place: Place::Variable(name), problem })?;
        }
    }
    Ok(())
}

fn set(
    resolved: &mut Resolved,
    name: &str,
    raw: &Raw,
    scope: Scope,
    origin: Origin,
    paths: &Paths,
) -> Result<(), String> {
    let Some(index) = KEYS.iter().position(|k| k.name == name) else {
        return Err(unknown(name, scope));
    };
    // Where your files lie, what runs on your machine and how long things are kept is not for a cloned project to say.
    let own = matches!(name, "handoff.dir" | "retention_days")
        || ["notify.", "mirror.", "serve."].iter().any(|section| name.starts_with(section));
    if scope == Scope::Project && own {
        return Err(format!("{name} can only be set in your own config.toml, not by a project"));
    }
    (KEYS[index].set)(&mut resolved.config, raw, paths)
        .map_err(|allowed| format!("{name} takes {allowed}, not {}", show(raw)))?;
    resolved.origins[index] = origin;
    Ok(())
}

fn unknown(name: &str, scope: Scope) -> String {
    let section = name.split_once('.').map_or("", |(s, _)| s);
    let mut allowed: Vec<&str> = KEYS
        .iter()
        .map(|k| k.name)
        .filter(|k| section.is_empty() || k.split('.').next() == Some(section))
        .collect();
    if allowed.is_empty() {
        allowed = KEYS.iter().map(|k| k.name).collect();
    }
    let extra = match scope {
        Scope::User if section.is_empty() => ", [channels]",
        Scope::Project if section.is_empty() => ", channel",
        _ => "",
    };
    format!("{name:?} is not a setting; allowed are {}{extra}", allowed.join(", "))
}

fn check_channel(name: &str) -> Result<(), String> {
    baton_core::ids::ChannelName::new(name).map(drop).map_err(|e| e.to_string())
}

fn text_of<'a>(value: &'a Spanned<DeValue<'_>>) -> Option<&'a str> {
    match value.get_ref() {
        DeValue::String(s) => Some(s.as_ref()),
        _ => None,
    }
}

fn raw(value: &Spanned<DeValue<'_>>) -> Raw {
    match value.get_ref() {
        DeValue::Boolean(b) => Raw::Bool(*b),
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).map_or(Raw::Other, Raw::Int),
        DeValue::String(s) => Raw::Text(s.to_string()),
        _ => Raw::Other,
    }
}

fn show(raw: &Raw) -> String {
    match raw {
        Raw::Bool(b) => b.to_string(),
        Raw::Int(n) => n.to_string(),
        Raw::Text(t) => format!("{t:?}"),
        Raw::Other => "a list or table".to_owned(),
    }
}
