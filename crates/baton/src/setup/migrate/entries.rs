//! Removes other tools' entries from settings and profiles, and restores them. Pure: text in, text out.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use jsonc_parser::cst::{CstArray, CstInputValue, CstNode};

use crate::setup::delegate;
use crate::setup::install::settings::{Document, SettingsRefusal, remove_property, shape};
use crate::setup::migrate::find::{Registration, RegistrationKind, aliased};

/// A removed entry, to restore it in a file that has changed since.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RemovedEntry {
    Hook {
        event: String,
        #[serde(default)]
        matcher: Option<String>,
        hook: Value,
    },
    StatusLine {
        entry: Value,
    },
    Line {
        text: String,
    },
}

/// Removes the hooks and the status line in `entries` from settings. If the status line had another one behind it,
/// `behind`, that one replaces it.
pub(crate) fn take_out(
    bytes: &[u8],
    entries: &[&Registration],
    behind: Option<&str>,
) -> Result<(Vec<u8>, Vec<RemovedEntry>), SettingsRefusal> {
    let document = Document::parse(bytes)?;
    let Some(root) = document.object()? else { return Ok((bytes.to_vec(), Vec::new())) };
    let mut taken = Vec::new();
    let is_named = |event: &str, command: &str| {
        entries
            .iter()
            .any(|e| matches!(&e.how, RegistrationKind::Hook { event: at, command: c, .. } if at == event && c == command))
    };
    if let Some(hooks) = root.object_value("hooks") {
        for property in hooks.properties() {
            let (Some(event), Some(groups)) = (property.decoded_name(), property.array_value()) else {
                continue;
            };
            for group in groups.elements() {
                let Some(object) = group.as_object() else { continue };
                let Some(list) = object.array_value("hooks") else { continue };
                let matcher =
                    object.to_serde_value().and_then(|g| Some(g.get("matcher")?.as_str()?.to_owned()));
                let theirs = |node: &CstNode| {
                    let hook = node.to_serde_value()?;
                    is_named(&event, hook.get("command")?.as_str()?).then_some(hook)
                };
                let all = list.elements();
                let mine: Vec<(Value, CstNode)> =
                    all.iter().filter_map(|node| Some((theirs(node)?, node.clone()))).collect();
                let is_whole = mine.len() == all.len();
                if !mine.is_empty() && is_whole {
                    group.clone().remove();
                }
                for (hook, node) in mine {
                    taken.push(RemovedEntry::Hook { event: event.clone(), matcher: matcher.clone(), hook });
                    if !is_whole {
                        node.remove();
                    }
                }
            }
            if groups.elements().is_empty() {
                property.remove();
            }
        }
        if hooks.properties().is_empty() {
            remove_property(&root, "hooks");
        }
    }
    let is_statusline = |command: &str| {
        entries.iter().any(|e| matches!(&e.how, RegistrationKind::StatusLine { command: c } if c == command))
    };
    if let Some(there) = root.get("statusLine").and_then(|p| p.object_value())
        && let Some(entry) = there.to_serde_value()
        && entry.get("command").and_then(Value::as_str).is_some_and(is_statusline)
    {
        taken.push(RemovedEntry::StatusLine { entry });
        match behind {
            Some(behind) => {
                if let Some(command) = there.get("command") {
                    command.set_value(CstInputValue::String(behind.to_owned()));
                }
            }
            None => remove_property(&root, "statusLine"),
        }
    }
    Ok((document.text(), taken))
}

/// Restores removed entries in a file that somebody has changed since, and keeps everything in it, including ours.
pub(crate) fn put_back(bytes: &[u8], taken: &[RemovedEntry], key: &str) -> Result<Vec<u8>, SettingsRefusal> {
    let document = Document::parse(bytes)?;
    document.object()?;
    let root = document.root.object_value_or_create().ok_or_else(|| shape("the whole file", "an object"))?;
    for one in taken {
        match one {
            RemovedEntry::Hook { event, matcher, hook } => {
                let hooks =
                    root.object_value_or_create("hooks").ok_or_else(|| shape("\"hooks\"", "an object"))?;
                let groups = hooks
                    .array_value_or_create(event)
                    .ok_or_else(|| shape(format!("hooks.{event}"), "a list"))?;
                if !has_hook(&groups, hook) {
                    let mut group: Vec<(String, CstInputValue)> = Vec::new();
                    group.extend(matcher.clone().map(|m| ("matcher".to_owned(), CstInputValue::String(m))));
                    group.push(("hooks".to_owned(), CstInputValue::Array(vec![input(hook)])));
                    groups.append(CstInputValue::Object(group));
                }
            }
            RemovedEntry::StatusLine { entry } => match root.get("statusLine").and_then(|p| p.object_value())
            {
                None => {
                    root.append("statusLine", input(entry));
                }
                // Ours is there now, so it runs the other one from now on.
                Some(there) => {
                    let command =
                        there.to_serde_value().and_then(|v| Some(v.get("command")?.as_str()?.to_owned()));
                    if let Some(command) =
                        command.filter(|c| delegate::is_statusline(c) && !c.contains(delegate::THEN_FLAG))
                        && let Some(property) = there.get("command")
                    {
                        let command = format!("{command} {} {key}", delegate::THEN_FLAG);
                        property.set_value(CstInputValue::String(command));
                    }
                }
            },
            RemovedEntry::Line { .. } => {}
        }
    }
    Ok(document.text())
}

/// Makes our own status line stop running another one.
pub(crate) fn drop_delegate(bytes: &[u8], key: &str) -> Result<Vec<u8>, SettingsRefusal> {
    let document = Document::parse(bytes)?;
    let entry = document.object()?.and_then(|root| root.get("statusLine")?.object_value());
    if let Some(property) = entry.and_then(|entry| entry.get("command"))
        && let Some(command) = property.value().and_then(|v| v.as_string_lit()?.decoded_value().ok())
        && let Some(ours) = command.strip_suffix(&format!(" {} {key}", delegate::THEN_FLAG))
    {
        property.set_value(CstInputValue::String(ours.to_owned()));
    }
    Ok(document.text())
}

fn has_hook(groups: &CstArray, hook: &Value) -> bool {
    let lists = groups.elements().into_iter().filter_map(|g| g.as_object()?.array_value("hooks"));
    lists.flat_map(|list| list.elements()).any(|node| node.to_serde_value().as_ref() == Some(hook))
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(b) => CstInputValue::Bool(*b),
        Value::Number(n) => CstInputValue::Number(n.to_string()),
        Value::String(s) => CstInputValue::String(s.clone()),
        Value::Array(all) => CstInputValue::Array(all.iter().map(input).collect()),
        Value::Object(all) => CstInputValue::Object(all.iter().map(|(k, v)| (k.clone(), input(v))).collect()),
    }
}

/// The comment that claude-auto-handoff's installer puts above its alias.
const ABOVE_ALIAS: &str = "# Claude Auto-Handoff";

/// Removes the aliases that call `wrapper` from a shell's profile.
pub(crate) fn take_alias(text: &[u8], wrapper: &str) -> (Vec<u8>, Vec<RemovedEntry>) {
    let (mut kept, mut taken) = (Vec::new(), Vec::new());
    let take = |line: &[u8], taken: &mut Vec<RemovedEntry>| {
        taken.push(RemovedEntry::Line { text: String::from_utf8_lossy(line).into_owned() });
    };
    let lines: Vec<&[u8]> = text.split_inclusive(|b| *b == b'\n').collect();
    let is_alias =
        |line: &[u8]| aliased(&String::from_utf8_lossy(line)).is_some_and(|value| value.contains(wrapper));
    for (at, line) in lines.iter().enumerate() {
        let above = line.trim_ascii() == ABOVE_ALIAS.as_bytes()
            && lines.get(at + 1).is_some_and(|next| is_alias(next));
        if above || is_alias(line) {
            take(line, &mut taken);
        } else {
            kept.extend_from_slice(line);
        }
    }
    (kept, taken)
}

/// Restores those lines at the end of a profile that has changed since.
pub(crate) fn put_alias_back(text: &[u8], taken: &[RemovedEntry]) -> Vec<u8> {
    let mut text = text.to_vec();
    for one in taken {
        let RemovedEntry::Line { text: line } = one else { continue };
        if !text.is_empty() && !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        text.extend_from_slice(line.as_bytes());
    }
    text
}
