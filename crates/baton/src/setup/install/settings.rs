//! Edits the client's settings as a syntax tree: keeps comments, order, indentation and line ends.
//!
//! Pure: text in, text out. Our entries are recognised by their content, so they can be removed even if others have
//! edited the file since.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;

use crate::setup::install::ours::{self, Hook, REFRESH};

/// What the file should contain of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedEntries {
    /// Set if there is no plugin folder.
    pub hooks: Option<Vec<(&'static str, Hook)>>,
    /// The command of the status line entry.
    pub statusline: Option<String>,
    /// Permission rules for unattended agents.
    pub rules: Vec<&'static str>,
    /// Permission rules that stop agents from deciding for the user.
    pub denied: Vec<&'static str>,
}

impl WantedEntries {
    pub(crate) const NOTHING: Self =
        Self { hooks: None, statusline: None, rules: Vec::new(), denied: Vec::new() };
}

/// How to remove our entries again.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Undo {
    /// The earlier status line in this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statusline: Option<PreviousStatusLine>,
    /// The permission rule existed before us; written by older versions, which had only one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep_rule: bool,
    /// The permission rules that existed before us.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keep_rules: Vec<String>,
    /// The deny rules that existed before us.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keep_denied: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PreviousStatusLine {
    pub command: String,
    /// It set its own refresh interval, which we keep.
    pub own_refresh: bool,
}

/// Why we do not edit a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsRefusal {
    #[error("it is not valid JSON: {0}")]
    Unparsable(String),
    #[error("it is not UTF-8 text")]
    NotText,
    #[error("{0} in it is not {1}")]
    Shape(String, &'static str),
    #[error("it has {0:?} twice, and only one of them counts; remove one")]
    Twice(String),
}

/// A file's current content.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SettingsSummary {
    /// Our hooks, as event and entry.
    pub hooks: Vec<(String, Value)>,
    /// The status line's command, ours or not.
    pub statusline: Option<String>,
    /// Allow rules that an install adds.
    pub rules: Vec<String>,
    /// Deny rules that an install adds.
    pub denied: Vec<String>,
}

impl SettingsSummary {
    pub(crate) fn has_our_statusline(&self) -> bool {
        self.statusline.as_deref().is_some_and(ours::is_statusline)
    }

    pub fn has_ours(&self) -> bool {
        !self.hooks.is_empty() || self.has_our_statusline()
    }
}

/// People who edit settings by hand use comments and trailing commas; accept nothing beyond that.
const DIALECT: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

const BOM: &str = "\u{feff}";

/// A parsed file. The root must outlive every node taken from it.
pub(in crate::setup) struct Document {
    bom: &'static str,
    pub(in crate::setup) root: CstRootNode,
}

impl Document {
    pub(in crate::setup) fn parse(bytes: &[u8]) -> Result<Self, SettingsRefusal> {
        let text = std::str::from_utf8(bytes).map_err(|_| SettingsRefusal::NotText)?;
        let (bom, text) = text.strip_prefix(BOM).map_or(("", text), |rest| (BOM, rest));
        let root =
            CstRootNode::parse(text, &DIALECT).map_err(|e| SettingsRefusal::Unparsable(e.to_string()))?;
        let document = Self { bom, root };
        if let Some(object) = document.object()? {
            no_twins(&object)?;
            if let Some(hooks) = object.object_value("hooks") {
                no_twins(&hooks)?;
            }
        }
        Ok(document)
    }

    /// The settings; `None` for an empty file.
    pub(in crate::setup) fn object(&self) -> Result<Option<CstObject>, SettingsRefusal> {
        match self.root.value() {
            None => Ok(None),
            Some(value) => value.as_object().map(Some).ok_or_else(|| shape("the whole file", "an object")),
        }
    }

    pub(in crate::setup) fn text(&self) -> Vec<u8> {
        format!("{}{}", self.bom, self.root).into_bytes()
    }
}

pub(in crate::setup) fn shape(what: impl Into<String>, should: &'static str) -> SettingsRefusal {
    SettingsRefusal::Shape(what.into(), should)
}

/// Refuses duplicate names: the client would use one and we might edit the other.
fn no_twins(object: &CstObject) -> Result<(), SettingsRefusal> {
    let mut names: Vec<String> = object.properties().iter().filter_map(CstObjectProp::decoded_name).collect();
    names.sort();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(SettingsRefusal::Twice(pair[0].clone())),
        None => Ok(()),
    }
}

/// The file as plain values, for read-only use.
pub fn value(bytes: &[u8]) -> Result<Value, SettingsRefusal> {
    let document = Document::parse(bytes)?;
    Ok(document.root.to_serde_value().unwrap_or(Value::Null))
}

/// Our entries and the status line in the file.
pub fn look(bytes: &[u8]) -> Result<SettingsSummary, SettingsRefusal> {
    let value = value(bytes)?;
    let hooks = all_hooks(&value).filter(|(event, hook)| ours::is_hook(hook, event));
    let hooks = hooks.map(|(event, hook)| (event.to_owned(), hook.clone())).collect();
    let statusline = value.get("statusLine").and_then(|s| s.get("command")).and_then(Value::as_str);
    let rules = |list: &List| {
        let rules = value.get("permissions").and_then(|p| p.get(list.name)).and_then(Value::as_array);
        let rules = rules.into_iter().flatten().filter_map(Value::as_str);
        rules.filter(|rule| (list.is_ours)(rule)).map(str::to_owned).collect()
    };
    let (rules, denied) = (rules(&ALLOW), rules(&DENY));
    Ok(SettingsSummary { hooks, statusline: statusline.map(str::to_owned), rules, denied })
}

/// A list of permission rules, and which of them are ours.
struct List {
    name: &'static str,
    is_ours: fn(&str) -> bool,
}

const ALLOW: List = List { name: "allow", is_ours: ours::is_rule };
const DENY: List = List { name: "deny", is_ours: ours::is_denied };

/// Every hook of every event, whoever owns it.
pub fn all_hooks(settings: &Value) -> impl Iterator<Item = (&str, &Value)> {
    all_groups(settings).flat_map(|(event, _, group)| {
        let hooks = group.get("hooks").and_then(Value::as_array).into_iter().flatten();
        hooks.map(move |hook| (event, hook))
    })
}

/// Every group of hooks: its event, its index among that event's groups, and the group.
pub(crate) fn all_groups(settings: &Value) -> impl Iterator<Item = (&str, usize, &Value)> {
    let events = settings.get("hooks").and_then(Value::as_object).into_iter().flatten();
    events.flat_map(|(event, groups)| {
        let groups = groups.as_array().into_iter().flatten().enumerate();
        groups.map(move |(at, group)| (event.as_str(), at, group))
    })
}

/// Whether the file already contains exactly our wanted entries.
pub fn holds(bytes: &[u8], wanted: &WantedEntries) -> Result<bool, SettingsRefusal> {
    let found = look(bytes)?;
    let mut expected: Vec<(String, Value)> = match &wanted.hooks {
        Some(hooks) => hooks.iter().map(|(event, hook)| ((*event).to_owned(), hook.value())).collect(),
        None => Vec::new(),
    };
    let mut hooks = found.hooks.clone();
    let by_event = |a: &(String, Value), b: &(String, Value)| a.0.cmp(&b.0);
    hooks.sort_by(by_event);
    expected.sort_by(by_event);
    let statusline = match &wanted.statusline {
        Some(command) => found.statusline.as_ref() == Some(command),
        None => !found.has_our_statusline(),
    };
    let has = |found: &[String], wanted: &[&str]| wanted.iter().all(|rule| found.iter().any(|f| f == rule));
    // An extra allow rule is from an earlier install; an extra deny rule blocks what is wanted now.
    let denied = has(&found.denied, &wanted.denied) && found.denied.len() <= wanted.denied.len();
    let rules = has(&found.rules, &wanted.rules) && denied;
    Ok(hooks == expected && statusline && rules)
}

/// Adds the wanted entries to a file without ours. The second value undoes it.
pub fn add(bytes: &[u8], wanted: &WantedEntries) -> Result<(Vec<u8>, Undo), SettingsRefusal> {
    if *wanted == WantedEntries::NOTHING {
        return Ok((bytes.to_vec(), Undo::default()));
    }
    let document = Document::parse(bytes)?;
    document.object()?;
    let root = document.root.object_value_or_create().ok_or_else(|| shape("the whole file", "an object"))?;
    let mut undo = Undo::default();
    if let Some(entries) = &wanted.hooks {
        let hooks = root.object_value_or_create("hooks").ok_or_else(|| shape("\"hooks\"", "an object"))?;
        for (event, hook) in entries {
            let groups = hooks
                .array_value_or_create(event)
                .ok_or_else(|| shape(format!("hooks.{event}"), "a list"))?;
            groups.append(group(hook));
        }
    }
    if let Some(command) = &wanted.statusline {
        undo.statusline = add_statusline(&root, command)?;
    }
    undo.keep_rules = add_rules(&root, &ALLOW, &wanted.rules)?;
    undo.keep_denied = add_rules(&root, &DENY, &wanted.denied)?;
    Ok((document.text(), undo))
}

fn text(value: impl Into<String>) -> CstInputValue {
    CstInputValue::String(value.into())
}

fn group(hook: &Hook) -> CstInputValue {
    let mut fields = vec![("type".into(), text(hook.kind)), ("command".into(), text(&hook.command))];
    if !hook.args.is_empty() {
        fields.push(("args".into(), CstInputValue::Array(hook.args.iter().map(text).collect())));
    }
    fields.push(("timeout".into(), CstInputValue::Number(hook.timeout.to_string())));
    if let Some(limit) = hook.context_limit {
        fields.push(("additionalContextLimit".into(), CstInputValue::Number(limit.to_string())));
    }
    let matcher = hook.matcher;
    let hook = CstInputValue::Object(fields);
    let mut group = Vec::new();
    group.extend(matcher.map(|matcher| ("matcher".to_owned(), text(matcher))));
    group.push(("hooks".to_owned(), CstInputValue::Array(vec![hook])));
    CstInputValue::Object(group)
}

/// An existing status line keeps its place, comments and other fields; only its command becomes ours.
fn add_statusline(root: &CstObject, command: &str) -> Result<Option<PreviousStatusLine>, SettingsRefusal> {
    let refresh = || CstInputValue::Number(REFRESH.to_string());
    let Some(there) = root.get("statusLine") else {
        let entry = vec![
            ("type".into(), text("command")),
            ("command".into(), text(command)),
            ("refreshInterval".into(), refresh()),
        ];
        root.append("statusLine", CstInputValue::Object(entry));
        return Ok(None);
    };
    let unknown = || shape("\"statusLine\"", "a command; `--no-statusline` leaves it alone");
    let entry = there.object_value().ok_or_else(unknown)?;
    no_twins(&entry)?;
    if string(&entry, "type").is_some_and(|kind| kind != "command") {
        return Err(unknown());
    }
    let previous = string(&entry, "command").ok_or_else(unknown)?;
    entry.get("command").ok_or_else(unknown)?.set_value(text(command));
    let own_refresh = entry.get("refreshInterval").is_some();
    if !own_refresh {
        entry.append("refreshInterval", refresh());
    }
    Ok(Some(PreviousStatusLine { command: previous, own_refresh }))
}

fn string(object: &CstObject, name: &str) -> Option<String> {
    object.get(name)?.value()?.as_string_lit()?.decoded_value().ok()
}

/// Adds the rules; returns those of ours that already existed, whoever added them.
fn add_rules(root: &CstObject, list: &List, wanted: &[&str]) -> Result<Vec<String>, SettingsRefusal> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let permissions =
        root.object_value_or_create("permissions").ok_or_else(|| shape("\"permissions\"", "an object"))?;
    no_twins(&permissions)?;
    let array = permissions
        .array_value_or_create(list.name)
        .ok_or_else(|| shape(format!("\"permissions.{}\"", list.name), "a list"))?;
    let there: Vec<String> = rules(&array, list).into_iter().map(|(rule, _)| rule).collect();
    for rule in wanted.iter().filter(|rule| !there.iter().any(|known| known == *rule)) {
        array.append(text(*rule));
    }
    Ok(there)
}

/// The rules in the list that an install adds.
fn rules(array: &CstArray, list: &List) -> Vec<(String, CstNode)> {
    let word = |node: &CstNode| node.as_string_lit().and_then(|s| s.decoded_value().ok());
    let all = array.elements().into_iter().filter_map(|node| Some((word(&node)?, node)));
    all.filter(|(rule, _)| (list.is_ours)(rule)).collect()
}

/// Removes exactly our entries and what they leave empty.
pub fn remove(bytes: &[u8], undo: &Undo) -> Result<Vec<u8>, SettingsRefusal> {
    let found = look(bytes)?;
    let document = Document::parse(bytes)?;
    let Some(root) = document.object()? else { return Ok(bytes.to_vec()) };
    if !found.hooks.is_empty()
        && let Some(hooks) = root.object_value("hooks")
    {
        remove_hooks(&hooks);
        if hooks.properties().is_empty() {
            remove_property(&root, "hooks");
        }
    }
    if found.has_our_statusline() {
        remove_statusline(&root, undo);
    }
    let is_kept = |kept: &[String], rule: &str| kept.iter().any(|known| known == rule);
    remove_rules(&root, &ALLOW, |rule| {
        is_kept(&undo.keep_rules, rule) || (undo.keep_rule && rule == ours::RULES[0])
    });
    remove_rules(&root, &DENY, |rule| is_kept(&undo.keep_denied, rule));
    Ok(document.text())
}

pub(in crate::setup) fn remove_property(object: &CstObject, name: &str) {
    if let Some(property) = object.get(name) {
        property.remove();
    }
}

fn remove_hooks(hooks: &CstObject) {
    for property in hooks.properties() {
        let (Some(event), Some(groups)) = (property.decoded_name(), property.array_value()) else { continue };
        let mut emptied = false;
        for group in groups.elements() {
            let Some(list) = group.as_object().and_then(|g| g.array_value("hooks")) else { continue };
            let is_ours = |node: &CstNode| node.to_serde_value().is_some_and(|v| ours::is_hook(&v, &event));
            let (mine, others): (Vec<_>, Vec<_>) = list.elements().into_iter().partition(is_ours);
            if mine.is_empty() {
                continue;
            }
            if others.is_empty() {
                group.remove();
                emptied = true;
            } else {
                mine.into_iter().for_each(CstNode::remove);
            }
        }
        if emptied && groups.elements().is_empty() {
            property.remove();
        }
    }
}

fn remove_statusline(root: &CstObject, undo: &Undo) {
    let entry = root.object_value("statusLine");
    match (&undo.statusline, entry) {
        (Some(previous), Some(entry)) => {
            if let Some(command) = entry.get("command") {
                command.set_value(text(&previous.command));
            }
            if !previous.own_refresh {
                remove_property(&entry, "refreshInterval");
            }
        }
        _ => remove_property(root, "statusLine"),
    }
}

fn remove_rules(root: &CstObject, list: &List, keeps: impl Fn(&str) -> bool) {
    let Some(permissions) = root.object_value("permissions") else { return };
    let Some(array) = permissions.array_value(list.name) else { return };
    let mine: Vec<_> = rules(&array, list).into_iter().filter(|(rule, _)| !keeps(rule)).collect();
    if mine.is_empty() {
        return;
    }
    for (_, node) in mine {
        node.remove();
    }
    if array.elements().is_empty() {
        remove_property(&permissions, list.name);
        if permissions.properties().is_empty() {
            remove_property(root, "permissions");
        }
    }
}
