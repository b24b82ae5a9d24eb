//! What belongs to baton in somebody's settings: the entries it writes and how it knows them again.

use serde_json::{Value, json};

use crate::hot::PROVIDER_FLAG;
pub use crate::hot::SHARED_FLAG;
pub use crate::hot::delegate::{THEN_FLAG, is_statusline};
use crate::hot::delegate::{is_baton, words};

/// The events baton listens to, and the seconds the client gives each. Those that seal get more: the client
/// cancels a slow SessionEnd after one to two seconds unless its entry says otherwise.
pub const EVENTS: [(&str, u32); 14] = [
    ("SessionStart", 10),
    ("UserPromptSubmit", 10),
    ("PostToolUse", 10),
    ("PostToolUseFailure", 10),
    ("Stop", 10),
    ("StopFailure", 10),
    ("PreCompact", 30),
    ("PostCompact", 10),
    ("SessionEnd", 30),
    ("Notification", 10),
    ("PermissionRequest", 10),
    ("SubagentStart", 10),
    ("SubagentStop", 10),
    ("PostModelSwitch", 10),
];

/// How often an idle client asks for the status line again, in seconds.
pub const REFRESH: u32 = 10;

/// Lets an unattended agent hand over; without it the client would ask a person who is not there.
pub const RULE: &str = "Bash(baton handoff:*)";

/// The program as entries name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// Where it was installed. Runs in exec form, so no shell is started.
    At(String),
    /// Found on each teammate's PATH.
    OnPath,
}

impl Program {
    pub fn name(&self) -> &str {
        match self {
            Self::At(path) => path,
            Self::OnPath => "baton",
        }
    }

    /// The entry for `event`, without its matcher group.
    pub fn hook(&self, event: &str, timeout: u32) -> Hook {
        let mut args = vec!["hook".to_owned(), event.to_owned()];
        if *self == Self::OnPath {
            args.push(SHARED_FLAG.to_owned());
        }
        Hook { kind: "command", command: self.name().to_owned(), args, timeout, context_limit: None }
    }

    /// The entries for all events.
    pub fn hooks(&self) -> Vec<(&'static str, Hook)> {
        EVENTS.iter().map(|&(event, timeout)| (event, self.hook(event, timeout))).collect()
    }

    /// The command of the status line entry, which the client gives to a shell.
    pub fn statusline(&self, then: Option<&str>) -> String {
        let program = quoted(self.name());
        match then {
            Some(key) => format!("{program} statusline {THEN_FLAG} {key}"),
            None => format!("{program} statusline"),
        }
    }
}

/// A hook, its fields in the order people write them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    pub kind: &'static str,
    pub command: String,
    /// Without any, `command` is a line for a shell.
    pub args: Vec<String>,
    pub timeout: u32,
    /// Tokens of its answer that reach the model, where the client cuts at fewer by itself.
    pub context_limit: Option<u32>,
}

impl Hook {
    pub fn value(&self) -> Value {
        let mut hook = json!({ "type": self.kind, "command": self.command, "timeout": self.timeout });
        if !self.args.is_empty() {
            hook["args"] = json!(self.args);
        }
        if let Some(limit) = self.context_limit {
            hook["additionalContextLimit"] = json!(limit);
        }
        hook
    }

    /// On one line.
    pub fn text(&self) -> String {
        format!(
            "{{ \"type\": {}, \"command\": {}, \"args\": {}, \"timeout\": {} }}",
            json!(self.kind),
            json!(self.command),
            json!(self.args),
            self.timeout
        )
    }
}

/// Is this hook one of ours, from this or an earlier version, in exec or shell form?
pub fn is_hook(hook: &Value, event: &str) -> bool {
    let Some(command) = hook.get("command").and_then(Value::as_str) else { return false };
    let argv: Vec<String> = match hook.get("args").and_then(Value::as_array) {
        Some(args) => {
            std::iter::once(command).chain(args.iter().filter_map(Value::as_str)).map(str::to_owned).collect()
        }
        None => words(command),
    };
    match argv.as_slice() {
        [program, verb, flag, _, named] if flag == PROVIDER_FLAG => {
            is_baton(program) && verb == "hook" && named == event
        }
        [program, verb, named, ..] => is_baton(program) && verb == "hook" && named == event,
        _ => false,
    }
}

/// The key after `--then` in a status line of ours.
pub fn then_key(command: &str) -> Option<String> {
    let words = words(command);
    let at = words.iter().position(|w| w == THEN_FLAG)?;
    words.get(at + 1).cloned()
}

/// The file that a command starts, if it is named by an absolute path.
pub fn program_of(hook: &Value) -> Option<String> {
    let command = hook.get("command").and_then(Value::as_str)?;
    let program =
        if hook.get("args").is_some() { command.to_owned() } else { words(command).into_iter().next()? };
    program.starts_with('/').then_some(program)
}

/// `text` as one word of a POSIX shell.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_hooks_are_known_in_every_form_they_ever_had_and_no_others() {
        let at = Program::At("/home/u/.local/bin/baton".into());
        assert!(is_hook(&at.hook("Stop", 10).value(), "Stop"));
        assert!(is_hook(&Program::OnPath.hook("Stop", 10).value(), "Stop"));
        assert!(is_hook(&json!({ "type": "command", "command": "'/o p/baton' hook Stop" }), "Stop"));
        let codex = json!({ "type": "command", "command": "/b/baton hook --provider codex Stop" });
        assert!(is_hook(&codex, "Stop"));
        assert!(!is_hook(&codex, "SessionEnd"));
        assert!(!is_hook(&at.hook("Stop", 10).value(), "SessionEnd"));
        assert!(!is_hook(&json!({ "type": "command", "command": "/x/relay hook Stop" }), "Stop"));
        assert!(!is_hook(&json!({ "type": "command", "command": "/x/baton race" }), "Stop"));
        assert!(!is_hook(&json!({ "type": "http", "url": "http://127.0.0.1/baton hook Stop" }), "Stop"));
    }

    #[test]
    fn a_path_with_spaces_and_quotes_survives_the_shell() {
        let odd = "/home/o' brien/my bin/baton";
        let command = Program::At(odd.into()).statusline(Some("user"));
        assert_eq!(words(&command), [odd, "statusline", "--then", "user"]);
        assert!(is_statusline(&command));
        assert_eq!(then_key(&command).as_deref(), Some("user"));
        assert_eq!(Program::OnPath.statusline(None), "baton statusline");
    }

    #[test]
    fn every_event_of_the_hot_path_is_registered_once() {
        let names: std::collections::BTreeSet<_> = EVENTS.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), EVENTS.len());
        for sealing in ["SessionEnd", "PreCompact"] {
            assert!(EVENTS.contains(&(sealing, 30)));
        }
    }
}
