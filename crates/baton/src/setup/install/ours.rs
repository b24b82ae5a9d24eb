//! baton's entries in other people's settings: how they are written and recognised.

use serde_json::{Value, json};

use crate::setup::delegate::is_baton;
pub(crate) use crate::setup::delegate::{THEN_FLAG, is_statusline};
use crate::sys::shell::{quote, words};

/// Names the provider whose client calls a hook; the default one needs no name.
pub(crate) const PROVIDER_FLAG: &str = "--provider";
/// Marks hooks that a project's team shares.
pub(crate) const SHARED_FLAG: &str = "--shared";

/// The timeout in seconds of a hook that may wait for a person's answer: above the longest possible deadline, so that
/// the hook ends by its own. A hook that does not wait is done in milliseconds.
pub(crate) const WAITS: u32 = 7 * 24 * 3600 + 60;

/// The events that baton uses, and the client's timeout for each in seconds. Those that seal get more: the client
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
    ("PermissionRequest", WAITS),
    ("SubagentStart", 10),
    ("SubagentStop", 10),
    ("PostModelSwitch", 10),
];

/// How often, in seconds, an idle client refreshes the status line.
pub(crate) const REFRESH: u32 = 10;

/// Rules that let an unattended agent hand over: without them the client asks a person who is not there. The client has
/// one form for every tool that writes a file, `Edit(…)`, relative to the working folder; `Write(…)` has no effect
/// there.
pub const RULES: [&str; 2] = ["Bash(baton handoff:*)", "Edit(.baton/**)"];
/// The same for users of the name `sm`.
pub(crate) const SM_RULE: &str = "Bash(sm handoff:*)";
/// The commands that an agent needs to lead others, as the skill `lead` teaches them. An agent can retire only itself
/// and its descendants; `clear` and `rename` are left to the client's dialog.
pub const AGENT_RULES: [&str; 14] = [
    "Bash(baton send:*)",
    "Bash(baton wait:*)",
    "Bash(baton agents:*)",
    "Bash(baton spawn:*)",
    "Bash(baton tail:*)",
    "Bash(baton inbox:*)",
    "Bash(baton done:*)",
    "Bash(baton what:*)",
    "Bash(baton children:*)",
    "Bash(baton remind:*)",
    "Bash(baton reminders:*)",
    "Bash(baton reply:*)",
    "Bash(baton retire:*)",
    "Bash(baton status:*)",
];
/// Commands that no agent may run, because they decide for the user; the client itself refuses them.
pub const DENIED: [&str; 4] = [
    "Bash(baton trust:*)",
    "Bash(baton config set:*)",
    "Bash(baton config unset:*)",
    "Bash(baton config edit:*)",
];
/// The same for verbs that an agent needs only if it leads others and is their approver.
pub(crate) const DENIED_TO_ALL_BUT_LEADERS: [&str; 3] =
    ["Bash(baton approve:*)", "Bash(baton deny:*)", "Bash(baton answer:*)"];

/// Whether our install adds this allow rule.
pub fn is_rule(rule: &str) -> bool {
    rule == SM_RULE || RULES.contains(&rule) || AGENT_RULES.contains(&rule)
}

/// Whether our install adds this deny rule.
pub fn is_denied(rule: &str) -> bool {
    DENIED.contains(&rule) || DENIED_TO_ALL_BUT_LEADERS.contains(&rule)
}

/// Whether the client times out an entry before the hook's own deadline, so that a late answer reaches nobody.
pub(crate) fn is_impatient(hook: &Value, event: &str) -> bool {
    let timeout = hook.get("timeout").and_then(Value::as_u64).unwrap_or_default();
    event == "PermissionRequest" && timeout < u64::from(WAITS)
}

/// The program as named in entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookProgram {
    /// Its installed path. Runs in exec form, so no shell is started.
    At(String),
    /// Found on each teammate's PATH.
    OnPath,
}

impl HookProgram {
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
        Hook {
            kind: "command",
            command: self.name().to_owned(),
            args,
            timeout,
            context_limit: None,
            matcher: None,
        }
    }

    /// The entries for all events.
    pub fn hooks(&self) -> Vec<(&'static str, Hook)> {
        EVENTS.iter().map(|&(event, timeout)| (event, self.hook(event, timeout))).collect()
    }

    /// The command of the status line entry, which the client passes to a shell.
    pub fn statusline(&self, then: Option<&str>) -> String {
        let program = quote(self.name());
        match then {
            Some(key) => format!("{program} statusline {THEN_FLAG} {key}"),
            None => format!("{program} statusline"),
        }
    }
}

/// A hook with its fields in the customary order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    pub kind: &'static str,
    pub command: String,
    /// If empty, `command` is a shell command line.
    pub args: Vec<String>,
    pub timeout: u32,
    /// How many tokens of its answer reach the model, if the client's own limit is lower.
    pub context_limit: Option<u32>,
    /// The tools it applies to, if not all.
    pub matcher: Option<&'static str>,
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

    /// The entry on one line.
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

/// Whether this hook is ours, from this or an earlier version, in exec or shell form.
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
pub(crate) fn then_key(command: &str) -> Option<String> {
    let words = words(command);
    let at = words.iter().position(|w| w == THEN_FLAG)?;
    words.get(at + 1).cloned()
}

/// The file that a command starts, if named by an absolute path.
pub(crate) fn program_of(hook: &Value) -> Option<String> {
    let command = hook.get("command").and_then(Value::as_str)?;
    let program =
        if hook.get("args").is_some() { command.to_owned() } else { words(command).into_iter().next()? };
    program.starts_with('/').then_some(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_hooks_are_known_in_every_form_they_ever_had_and_no_others() {
        let at = HookProgram::At("/home/u/.local/bin/baton".into());
        assert!(is_hook(&at.hook("Stop", 10).value(), "Stop"));
        assert!(is_hook(&HookProgram::OnPath.hook("Stop", 10).value(), "Stop"));
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
        let command = HookProgram::At(odd.into()).statusline(Some("user"));
        assert_eq!(words(&command), [odd, "statusline", "--then", "user"]);
        assert!(is_statusline(&command));
        assert_eq!(then_key(&command).as_deref(), Some("user"));
        assert_eq!(HookProgram::OnPath.statusline(None), "baton statusline");
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
