//! Parses settings and reports the position of every mistake.

use std::ops::Range;
use std::path::{Path, PathBuf};

use baton_core::approval::rules::{BadRule, Decision, Rule, RuleScope};
use baton_core::ids::AgentId;
use baton_core::nearest::nearest;
use baton_core::nesting::is_too_deep;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::keys::{KEYS, RawSetting, Reach, SettingKey};
use crate::config::{
    IgnoredBecause, IgnoredSetting, IsAccepted, PROJECT_FILE, ResolvedConfig, SettingOrigin,
};
use crate::sys::fs::{self, FileError};
use crate::sys::paths::Paths;

/// No sensible configuration is larger.
pub(super) const MAX: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{place}: {problem}")]
    Wrong { place: SettingSource, problem: String },
    /// The new value would be wrong, so it was not written.
    #[error("nothing was changed: {0}")]
    Unwritten(String),
}

impl ConfigError {
    /// The same error for a text that was not written, so that its line numbers lead nowhere.
    pub(super) fn unwritten(self) -> Self {
        match self {
            Self::Wrong { problem, .. } => Self::Unwritten(problem),
            other => other,
        }
    }
}

/// `path:line`, or the name of a variable.
#[derive(Debug, Clone)]
pub(crate) enum SettingSource {
    Line(PathBuf, usize),
    Variable(String),
}

impl std::fmt::Display for SettingSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => f.write_str(name),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// The user's own file, which may also map paths to channels.
    User,
    /// The file of a trusted project, which may name the project's channel.
    Accepted,
    /// Any other project's file. A clone may change only how baton looks there.
    Stranger,
}

pub(super) fn user_file(resolved: &mut ResolvedConfig, paths: &Paths) -> Result<(), ConfigError> {
    let path = &paths.config;
    let read = match fs::read(path, MAX) {
        // A dotfile manager may link the configuration; follow that link here, and only here.
        Err(e) if e.is_link() => {
            fs::read(&std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()), MAX)
        }
        read => read,
    };
    // Usually there is none, which every hook finds out by a single system call.
    let Some(bytes) = read? else { return Ok(()) };
    apply(resolved, path, &bytes, Scope::User, paths)
}

/// Whether `bytes` is a valid settings file of the user.
pub(super) fn check_user(bytes: &[u8], paths: &Paths) -> Result<(), ConfigError> {
    let mut resolved = ResolvedConfig::defaults(paths);
    apply(&mut resolved, &paths.config, bytes, Scope::User, paths)
}

/// The project file in `dir`. Notes the keys that an untrusted file may not set. Neither that nor a mistake in it is an
/// error: a clone must not be able to disable the user's own settings.
pub(super) fn project_file(
    resolved: &mut ResolvedConfig,
    dir: &Path,
    paths: &Paths,
    is_accepted: IsAccepted<'_>,
) -> Result<(), ConfigError> {
    let path = dir.join(PROJECT_FILE);
    let bytes = match fs::read(&path, MAX) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(()),
        Err(e) => {
            ignore(resolved, &path, 1, &e.to_string(), IgnoredBecause::Invalid);
            return Ok(());
        }
    };
    if is_accepted(dir, &bytes) {
        return apply(resolved, &path, &bytes, Scope::Accepted, paths);
    }
    let mut with = resolved.clone();
    match apply(&mut with, &path, &bytes, Scope::Stranger, paths) {
        Ok(()) => *resolved = with,
        Err(e) => ignore(resolved, &path, 1, &e.to_string(), IgnoredBecause::Invalid),
    }
    Ok(())
}

fn apply(
    resolved: &mut ResolvedConfig,
    path: &Path,
    bytes: &[u8],
    scope: Scope,
    paths: &Paths,
) -> Result<(), ConfigError> {
    let text = String::from_utf8_lossy(bytes);
    let line_of =
        |span: &Range<usize>| 1 + memchr::memchr_iter(b'\n', &text.as_bytes()[..span.start]).count();
    let wrong = |span: &Range<usize>, problem: String| ConfigError::Wrong {
        place: SettingSource::Line(path.to_owned(), line_of(span)),
        problem,
    };
    if is_too_deep(&text) {
        return Err(wrong(&(0..0), "its brackets nest too deep".to_owned()));
    }
    let table =
        DeTable::parse(&text).map_err(|e| wrong(&e.span().unwrap_or(0..0), e.message().trim().to_owned()))?;
    for (key, value) in table.get_ref() {
        let (name, span) = (key.get_ref().as_ref(), value.span());
        let origin = |span: &Range<usize>| SettingOrigin::File { path: path.to_owned(), line: line_of(span) };
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
            ("channels", _) if scope != Scope::User => {
                ignore(resolved, path, line_of(&key.span()), "channels", IgnoredBecause::UserOnly);
            }
            ("channel", _) if scope == Scope::Stranger => {
                ignore(resolved, path, line_of(&span), name, IgnoredBecause::NotTrusted);
            }
            ("channel", _) if scope == Scope::Accepted => {
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
                    let is_rule = section == "approvals" && RULES.contains(&key.get_ref().as_ref());
                    if is_rule && scope == Scope::User {
                        rules(resolved, key.get_ref(), value, &origin, &wrong)?;
                        continue;
                    }
                    if let Some(why) = refused(&full, scope) {
                        ignore(resolved, path, line_of(&key.span()), &full, why);
                        continue;
                    }
                    set(resolved, &full, &raw(value), scope, origin(&value.span()), paths)
                        .map_err(|p| wrong(&key.span(), p))?;
                }
            }
            (name, _) => {
                if let Some(why) = refused(name, scope) {
                    ignore(resolved, path, line_of(&span), name, why);
                    continue;
                }
                set(resolved, name, &raw(value), scope, origin(&span), paths)
                    .map_err(|p| wrong(&key.span(), p))?;
            }
        }
    }
    Ok(())
}

/// Keys of `[approvals]` that hold rules. They have no variable, because a project may set the variables of its agents.
pub(super) const RULES: [&str; 4] = ["allow", "deny", "agents", "trees"];

type Wrong<'a> = &'a dyn Fn(&Range<usize>, String) -> ConfigError;
type OriginOf<'a> = &'a dyn Fn(&Range<usize>) -> SettingOrigin;
/// A rule, whose requests it applies to, and its origin.
type PlacedRule = ((RuleScope, Decision, Rule), SettingOrigin);

/// `allow = ["Bash(cargo test:*)"]` and `deny`, for everybody, or in `[approvals.agents.NAME]` and
/// `[approvals.trees.NAME]`.
fn rules(
    resolved: &mut ResolvedConfig,
    key: &str,
    value: &Spanned<DeValue<'_>>,
    origin: OriginOf<'_>,
    wrong: Wrong<'_>,
) -> Result<(), ConfigError> {
    let found = match (key, value.get_ref()) {
        ("allow" | "deny", _) => list(key, &RuleScope::Everybody, value, origin, wrong)?,
        (_, DeValue::Table(names)) => {
            let mut found = Vec::new();
            for (name, entries) in names {
                let agent =
                    AgentId::new(name.get_ref().as_ref()).map_err(|e| wrong(&name.span(), e.to_string()))?;
                let whose = if key == "agents" { RuleScope::Agent(agent) } else { RuleScope::Tree(agent) };
                let DeValue::Table(entries) = entries.get_ref() else {
                    return Err(wrong(
                        &name.span(),
                        "an agent's rules are a table with allow and deny".into(),
                    ));
                };
                for (key, value) in entries {
                    found.extend(list(key.get_ref(), &whose, value, origin, wrong)?);
                }
            }
            found
        }
        _ => return Err(wrong(&value.span(), format!("approvals.{key} is a table of agents"))),
    };
    for (rule, origin) in found {
        resolved.config.approvals.rules.0.push(rule);
        resolved.rule_origins.push(origin);
    }
    Ok(())
}

fn list(
    key: &str,
    whose: &RuleScope,
    value: &Spanned<DeValue<'_>>,
    origin: OriginOf<'_>,
    wrong: Wrong<'_>,
) -> Result<Vec<PlacedRule>, ConfigError> {
    let decision = match key {
        "allow" => Decision::Allow,
        "deny" => Decision::Deny,
        _ => {
            return Err(wrong(
                &value.span(),
                format!("{key:?} is not a list of rules; allowed are allow, deny"),
            ));
        }
    };
    let DeValue::Array(items) = value.get_ref() else {
        return Err(wrong(
            &value.span(),
            format!("{key} takes a list of rules, like [\"Bash(cargo test:*)\"]"),
        ));
    };
    let mut found = Vec::new();
    for item in items {
        let Some(text) = text_of(item) else { return Err(wrong(&item.span(), "a rule is a text".into())) };
        let rule: Rule = text.parse().map_err(|e: BadRule| wrong(&item.span(), e.to_string()))?;
        found.push(((whose.clone(), decision, rule), origin(&item.span())));
    }
    Ok(found)
}

/// `BATON_*` variables that name a key. Others with that prefix belong to other parts (`BATON_STATE_DIR`, …).
pub(super) fn environment(
    resolved: &mut ResolvedConfig,
    env: impl Iterator<Item = (String, String)>,
    paths: &Paths,
) -> Result<(), ConfigError> {
    for (name, value) in env.filter(|(name, _)| name.starts_with("BATON_")) {
        if let Some(key) = KEYS.iter().find(|k| k.has_variable() && k.env_name() == name) {
            let origin = SettingOrigin::Env(name.clone());
            set(resolved, key.name, &RawSetting::Text(value), Scope::User, origin, paths)
                .map_err(|problem| ConfigError::Wrong { place: SettingSource::Variable(name), problem })?;
        }
    }
    Ok(())
}

fn set(
    resolved: &mut ResolvedConfig,
    name: &str,
    raw: &RawSetting,
    scope: Scope,
    origin: SettingOrigin,
    paths: &Paths,
) -> Result<(), String> {
    let Some(index) = KEYS.iter().position(|k| k.name == name) else {
        return Err(unknown(name, scope));
    };
    (KEYS[index].set)(&mut resolved.config, raw, paths)
        .map_err(|allowed| format!("{name} takes {allowed}, not {}", show(raw)))?;
    resolved.origins[index] = origin;
    Ok(())
}

/// Suggests a similar key, or else lists the keys.
fn unknown(name: &str, scope: Scope) -> String {
    let others: &[&str] = match scope {
        Scope::User => &["channels", "approvals.allow", "approvals.deny"],
        Scope::Accepted | Scope::Stranger => &["channel"],
    };
    let begun: Vec<&str> = KEYS.iter().map(|key| key.name).filter(|key| key.starts_with(name)).collect();
    if name.contains('.') && begun.len() > 1 {
        return format!("{name:?} is not a setting; did you mean one of {}?", begun.join(", "));
    }
    if let Some(meant) = nearest(name, KEYS.iter().map(|key| key.name).chain(others.iter().copied())) {
        return format!("{name:?} is not a setting; did you mean {meant}?");
    }
    let section = name.split_once('.').map_or(name, |(section, _)| section);
    let of_section: Vec<&str> =
        KEYS.iter().map(|key| key.name).filter(|key| key.split('.').next() == Some(section)).collect();
    if of_section.is_empty() {
        return format!("{name:?} is not a setting; `baton config` lists what there is");
    }
    format!("{name:?} is not a setting; [{section}] has {}", of_section.join(", "))
}

/// Why a file of this scope may not set `name`. A project may not set unknown keys: a newer baton may reserve them for
/// the user.
fn refused(name: &str, scope: Scope) -> Option<IgnoredBecause> {
    if scope == Scope::User {
        return None;
    }
    let reach = KEYS.iter().find(|key| key.name == name).map(SettingKey::reach);
    let is_rule = name.strip_prefix("approvals.").is_some_and(|key| RULES.contains(&key));
    match reach {
        Some(Reach::User) => Some(IgnoredBecause::UserOnly),
        None if is_rule => Some(IgnoredBecause::UserOnly),
        Some(Reach::Shown) => None,
        _ => (scope == Scope::Stranger).then_some(IgnoredBecause::NotTrusted),
    }
}

fn ignore(resolved: &mut ResolvedConfig, path: &Path, line: usize, what: &str, why: IgnoredBecause) {
    resolved.ignored.push(IgnoredSetting { path: path.to_owned(), line, what: what.to_owned(), why });
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

fn raw(value: &Spanned<DeValue<'_>>) -> RawSetting {
    match value.get_ref() {
        DeValue::Boolean(b) => RawSetting::Bool(*b),
        DeValue::Integer(n) => {
            i64::from_str_radix(n.as_str(), n.radix()).map_or(RawSetting::Other, RawSetting::Int)
        }
        DeValue::String(s) => RawSetting::Text(s.to_string()),
        _ => RawSetting::Other,
    }
}

fn show(raw: &RawSetting) -> String {
    match raw {
        RawSetting::Bool(b) => b.to_string(),
        RawSetting::Int(n) => n.to_string(),
        RawSetting::Text(t) => format!("{t:?}"),
        RawSetting::Other => "a list or table".to_owned(),
    }
}
