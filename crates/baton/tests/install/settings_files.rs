//! Hundreds of settings files as people have them: every layout, every kind of neighbour, every mishap.

use std::path::PathBuf;

use baton::testing::install::ours::{EVENTS, HookProgram};
use baton::testing::install::settings::{self, WantedEntries};
use baton_core::wire::claude::EVENTS as ALL_EVENTS;
use baton_testkit::Home;
use baton_testkit::rng::Rng;
use serde_json::Value;

/// A generated file and its peculiarity.
#[derive(Debug, Clone)]
pub struct Case {
    pub seed: u64,
    pub bytes: Option<Vec<u8>>,
    pub ours: Ours,
    pub place: SettingsKind,
    pub comments: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ours {
    None,
    /// Some of our entries, from an earlier version in another place.
    Part,
    /// All of them, twice.
    Twice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsKind {
    Plain,
    Link,
    ReadOnly,
    /// Not JSON, or of a shape that cannot be merged into.
    Unusable,
}

/// The output of the foreign status line.
pub const THEIRS: &str = "theirs-still-here";

struct Writer {
    rng: Rng,
    comments: Vec<String>,
    commented: bool,
}

impl Writer {
    fn coin(&mut self, one_in: u64) -> bool {
        self.rng.pick(0..one_in) == 0
    }

    fn one_of(&mut self, count: usize) -> usize {
        usize::try_from(self.rng.pick(0..count as u64)).expect("less than count")
    }

    /// Sometimes a unique comment: with `tail` at the end of a line, otherwise on its own line.
    fn comment(&mut self, indent: usize, tail: bool) -> String {
        if !self.commented || !self.coin(3) {
            return String::new();
        }
        let text = format!("note {} \"quoted\" é {{[", self.comments.len());
        self.comments.push(text.clone());
        let comment = if tail || self.coin(2) { format!("// {text}") } else { format!("/* {text} */") };
        if tail { format!(" {comment}") } else { format!("{}{comment}\n", "\t".repeat(indent)) }
    }

    fn property(&mut self, name: &str, value: &str) -> String {
        format!("{}\t\"{name}\": {value}", self.comment(1, false))
    }

    fn hooks(&mut self) -> String {
        let every = self.coin(4);
        let mut events = Vec::new();
        for event in ALL_EVENTS {
            if every || self.coin(5) {
                let run = format!("printf %s {event} >> \\\"$HOME/ran\\\"");
                let one = format!("{{ \"type\": \"command\", \"command\": \"{run}\" }}");
                let other = "{ \"type\": \"http\", \"url\": \"http://127.0.0.1:9/hook\", \"timeout\": 2 }";
                let group = match self.rng.pick(0..4) {
                    0 => format!("[{{ \"matcher\": \"Bash|Edit\", \"hooks\": [{one}] }}]"),
                    1 => format!("[{{ \"hooks\": [{one}, {other}] }}]"),
                    2 => format!(
                        "[\n\t\t\t{{\n\t\t\t\t\"hooks\": [\n\t\t\t\t\t{one}\n\t\t\t\t]\n\t\t\t}}\n\t\t]"
                    ),
                    _ => format!("[{{\"hooks\":[{one}]}},{{\"hooks\":[{other}]}}]"),
                };
                events.push(format!("{}\t\t\"{event}\": {group}", self.comment(2, false)));
            }
        }
        if events.is_empty() {
            return (if self.coin(2) { "{}" } else { "{\n\t}" }).to_owned();
        }
        format!("{{\n{}\n\t}}", events.join(",\n"))
    }

    fn statusline(&mut self) -> String {
        let run = format!("cat > /dev/null; echo {THEIRS}");
        match self.rng.pick(0..4) {
            0 => format!("{{ \"type\": \"command\", \"command\": \"{run}\" }}"),
            1 => format!(
                "{{\n\t\t\"type\": \"command\",\n\t\t\"command\": \"{run}\",\n\t\t\"padding\": 0\n\t}}"
            ),
            2 => format!("{{\"command\":\"{run}\",\"type\":\"command\",\"refreshInterval\":3}}"),
            _ => format!(
                "{{\n\t\t\"type\": \"command\",{}\n\t\t\"command\": \"{run}\"\n\t}}",
                self.comment(0, true)
            ),
        }
    }

    fn permissions(&mut self) -> String {
        match self.rng.pick(0..5) {
            0 => "{}".to_owned(),
            1 => "{ \"allow\": [], \"deny\": [\"Read(.env)\"] }".to_owned(),
            2 => "{\n\t\t\"allow\": [\n\t\t\t\"Bash(ls:*)\",\n\t\t\t\"Bash(baton handoff:*)\"\n\t\t]\n\t}"
                .to_owned(),
            3 => "{\n\t\t\"allow\": [\"Bash(git diff:*)\"],\n\t\t\"defaultMode\": \"plan\"\n\t}".to_owned(),
            _ => "{\n\n\t\t\"deny\": []\n\n\t}".to_owned(),
        }
    }

    fn object(&mut self) -> String {
        let mut all = Vec::new();
        if self.coin(2) {
            all.push(self.property("model", "\"opus\""));
        }
        if self.coin(2) {
            all.push(self.property("env", "{ \"TOKEN\": \"a\\u00e9\\n\", \"N\": \"1\" }"));
        }
        if self.coin(2) {
            let value = self.permissions();
            all.push(self.property("permissions", &value));
        }
        if self.coin(2) {
            let value = self.hooks();
            all.push(self.property("hooks", &value));
        }
        if self.coin(2) {
            let value = self.statusline();
            all.push(self.property("statusLine", &value));
        }
        if self.coin(3) {
            all.push(self.property("odd", "[1, 2.50, -0, 1e3, null, \"é ☃ \\/\", {}, []]"));
        }
        for i in (1..all.len()).rev() {
            let j = self.one_of(i + 1);
            all.swap(i, j);
        }
        if all.is_empty() {
            return ["{}", "{ }", "{\n}", "", "\n", "  \n"][self.one_of(6)].to_owned();
        }
        let gap = if self.coin(6) { ",\n\n" } else { ",\n" };
        let trailing = if self.commented && self.coin(4) { "," } else { "" };
        let before = self.comment(0, false);
        let after = self.comment(0, true);
        format!("{before}{{\n{}{trailing}\n}}{after}", all.join(gap))
    }
}

/// The `seed`th file. Every twelfth is unusable, every twelfth read-only, every sixth a link, and a quarter contains
/// entries of ours.
pub fn case(seed: u64) -> Case {
    let mut rng = Rng::new(seed);
    let commented = rng.pick(0..2) == 0;
    let mut writer = Writer { rng, comments: Vec::new(), commented };
    let mut text = writer.object();
    let one_line = !commented && writer.coin(6);
    if one_line {
        text = text.replace(['\n', '\t'], "");
    }
    let indent = ["  ", "    ", "\t", " "][writer.one_of(4)];
    text = text.replace('\t', indent);
    if !text.is_empty() && !writer.coin(3) && !text.ends_with('\n') {
        text.push('\n');
    }
    if writer.coin(3) {
        text = text.replace('\n', "\r\n");
    }
    if writer.coin(5) {
        text.insert(0, '\u{feff}');
    }
    let mut bytes = Some(text.into_bytes());
    if seed % 20 == 19 {
        bytes = None;
    }
    let comments = if bytes.is_some() { std::mem::take(&mut writer.comments) } else { Vec::new() };
    let place = match seed % 12 {
        3 => SettingsKind::Unusable,
        5 if bytes.is_some() => SettingsKind::ReadOnly,
        7 | 8 if bytes.is_some() => SettingsKind::Link,
        _ => SettingsKind::Plain,
    };
    let ours = match seed % 8 {
        1 if bytes.is_some() && place != SettingsKind::Unusable => Ours::Part,
        6 if bytes.is_some() && place != SettingsKind::Unusable => Ours::Twice,
        _ => Ours::None,
    };
    if place == SettingsKind::Unusable {
        bytes = Some(unusable(seed, &bytes.unwrap_or_default()));
    } else if let Some(now) = &bytes {
        bytes = Some(with_ours(now, ours, &mut writer.rng));
    }
    Case { seed, bytes, ours, place, comments }
}

fn unusable(seed: u64, bytes: &[u8]) -> Vec<u8> {
    let cut = || [b"{ \"model\": ", bytes].concat();
    match seed / 12 % 6 {
        0 => cut(),
        1 => b"[1, 2]\n".to_vec(),
        2 => b"{ \"model\": \"caf\xe9\" }\n".to_vec(),
        3 => b"{ \"hooks\": {}, \"model\": \"a\", \"hooks\": {} }\n".to_vec(),
        4 => b"{ 'model': 'single' }\n".to_vec(),
        _ => b"{\n  \"statusLine\": {},\n  \"permissions\": [],\n  \"hooks\": []\n}\n".to_vec(),
    }
}

/// Adds our entries as an install of another version, in another place and without a record, has left them.
fn with_ours(bytes: &[u8], ours: Ours, rng: &mut Rng) -> Vec<u8> {
    let old = HookProgram::At("/opt/old place/baton".into());
    let has_statusline = settings::look(bytes).unwrap().statusline.is_some();
    let wanted = WantedEntries {
        hooks: Some(old.hooks()),
        statusline: (!has_statusline).then(|| old.statusline(None)),
        rules: Vec::new(),
        denied: Vec::new(),
    };
    match ours {
        Ours::None => bytes.to_vec(),
        Ours::Twice => {
            let once = settings::add(bytes, &wanted).unwrap().0;
            settings::add(&once, &WantedEntries { statusline: None, ..wanted }).unwrap().0
        }
        Ours::Part => {
            let mut text = String::from_utf8(settings::add(bytes, &wanted).unwrap().0).unwrap();
            // Some of them now call another program, so only a part is ours.
            for (event, _) in EVENTS {
                if rng.pick(0..2) == 0 {
                    text =
                        text.replace(&format!("\"hook\", \"{event}\""), &format!("\"other\", \"{event}\""));
                }
            }
            text.into_bytes()
        }
    }
}

impl Case {
    /// Puts the file where `home` has its settings.
    pub fn place(&self, home: &Home) -> PathBuf {
        let path = home.path().join(".claude/settings.json");
        let Some(bytes) = &self.bytes else { return path };
        if self.place == SettingsKind::Link {
            let target = home.write("dotfiles/claude.json", bytes);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(target, &path).unwrap();
        } else {
            home.write(".claude/settings.json", bytes);
        }
        let mode = match (self.place, self.seed % 3) {
            (SettingsKind::ReadOnly, _) => 0o444,
            (_, 0) => 0o600,
            (_, 1) => 0o644,
            _ => 0o664,
        };
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        path
    }

    /// What the file means to the client, without us.
    pub fn meaning(&self) -> Value {
        let bytes = self.bytes.clone().unwrap_or_default();
        settings::value(&bytes).unwrap()
    }
}

/// `settings` without our entries and without the empty containers around them.
pub fn without_ours(settings: &Value) -> Value {
    let mut value = settings.clone();
    let Some(root) = value.as_object_mut() else { return Value::Object(serde_json::Map::new()) };
    if let Some(hooks) = root.get_mut("hooks").and_then(Value::as_object_mut) {
        for (event, groups) in hooks.iter_mut() {
            for group in groups.as_array_mut().into_iter().flatten() {
                if let Some(list) = group.get_mut("hooks").and_then(Value::as_array_mut) {
                    list.retain(|hook| !baton::testing::install::ours::is_hook(hook, event));
                }
            }
            if let Some(groups) = groups.as_array_mut() {
                groups.retain(|g| g["hooks"] != Value::Array(Vec::new()));
            }
        }
        hooks.retain(|_, groups| *groups != Value::Array(Vec::new()));
    }
    if let Some(allow) =
        root.get_mut("permissions").and_then(|p| p.get_mut("allow")).and_then(Value::as_array_mut)
    {
        allow.retain(|rule| !rule.as_str().is_some_and(baton::testing::install::ours::is_rule));
    }
    if let Some(deny) =
        root.get_mut("permissions").and_then(|p| p.get_mut("deny")).and_then(Value::as_array_mut)
    {
        deny.retain(|rule| !rule.as_str().is_some_and(baton::testing::install::ours::is_denied));
    }
    if let Some(permissions) = root.get_mut("permissions").and_then(Value::as_object_mut) {
        permissions.retain(|_, v| *v != Value::Array(Vec::new()));
    }
    // The foreign status line is tested by running it.
    root.remove("statusLine");
    root.retain(|_, v| *v != Value::Object(serde_json::Map::new()));
    value
}

#[test]
fn the_generator_makes_every_kind_it_promises() {
    let cases: Vec<Case> = (0..240).map(case).collect();
    let count = |is: &dyn Fn(&Case) -> bool| cases.iter().filter(|c| is(c)).count();
    let has = |needle: &'static str| {
        move |c: &Case| c.bytes.as_ref().is_some_and(|b| memchr_find(b, needle.as_bytes()))
    };
    for (what, n) in [
        ("comments", count(&|c| !c.comments.is_empty())),
        ("CRLF", count(&has("\r\n"))),
        ("tabs", count(&has("\n\t"))),
        ("BOM", count(&has("\u{feff}"))),
        (
            "no final newline",
            count(&|c| c.bytes.as_ref().is_some_and(|b| !b.is_empty() && !b.ends_with(b"\n"))),
        ),
        ("links", count(&|c| c.place == SettingsKind::Link)),
        ("read-only", count(&|c| c.place == SettingsKind::ReadOnly)),
        ("unusable", count(&|c| c.place == SettingsKind::Unusable)),
        (
            "foreign hooks of every event",
            count(&|c| {
                let text = String::from_utf8_lossy(c.bytes.as_deref().unwrap_or_default()).into_owned();
                ALL_EVENTS.iter().all(|e| text.contains(&format!("printf %s {e}")))
            }),
        ),
        ("foreign status lines", count(&has(THEIRS))),
        ("ours in part", count(&|c| c.ours == Ours::Part)),
        ("ours twice", count(&|c| c.ours == Ours::Twice)),
        ("no file", count(&|c| c.bytes.is_none())),
    ] {
        assert!(n >= 5, "only {n} with {what}");
    }
}

fn memchr_find(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|w| w == needle)
}
