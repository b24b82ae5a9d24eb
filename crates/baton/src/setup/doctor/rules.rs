//! Matches permission rules as Claude Code does.

/// An agent's tool call.
pub(super) enum Call<'a> {
    Shell(&'a str),
    /// A file below the working folder.
    Write(&'a str),
}

/// Whether a permission rule covers a call.
pub(super) fn rule_covers(rule: &str, call: &Call<'_>) -> bool {
    let (tool, pattern) = match rule.split_once('(').map(|(tool, rest)| (tool, rest.strip_suffix(')'))) {
        Some((tool, Some(pattern))) => (tool, Some(pattern)),
        Some((_, None)) => return false,
        None => (rule, None),
    };
    match call {
        Call::Shell(command) => {
            tool == "Bash" && pattern.is_none_or(|pattern| shell_covers(pattern, command))
        }
        // The client honours path patterns for tools that write only in `Edit(…)` rules.
        Call::Write(path) => match pattern {
            None => matches!(tool, "Edit" | "Write"),
            Some(pattern) => tool == "Edit" && path_covers(pattern, path),
        },
    }
}

/// `prefix:*` matches these words and any that follow; `*` matches anything; otherwise the whole command must match.
fn shell_covers(pattern: &str, command: &str) -> bool {
    match pattern.strip_suffix(":*") {
        Some(prefix) => {
            command.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        }
        None => matches(pattern, command),
    }
}

/// As in a `.gitignore`, relative to the working folder. A pattern with `/` or `~` first lies elsewhere.
fn path_covers(pattern: &str, path: &str) -> bool {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    if pattern.starts_with(['/', '~']) {
        return false;
    }
    match pattern.strip_suffix("/**").or(pattern.strip_suffix('/')) {
        Some(folder) => path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')),
        None => matches(&pattern.replace("**", "*"), path),
    }
}

/// Whether `text` matches `pattern`, in which `*` matches anything.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(after) = text.strip_prefix(head) else { return false };
    (0..=after.len()).any(|at| after.is_char_boundary(at) && matches(rest, &after[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_known_by_what_it_lets_through() {
        let shell = |rule: &str| rule_covers(rule, &Call::Shell("baton handoff .baton/h.md"));
        for rule in ["Bash", "Bash(*)", "Bash(baton:*)", "Bash(baton handoff:*)", "Bash(baton *)"] {
            assert!(shell(rule), "{rule}");
        }
        for rule in
            ["Bash(baton hand:*)", "Bash(baton handoff)", "Read", "Bash(sm handoff:*)", "Bash(baton", ""]
        {
            assert!(!shell(rule), "{rule}");
        }
        let write = |rule: &str| rule_covers(rule, &Call::Write(".baton/handoff-app.md"));
        for rule in ["Edit", "Write", "Edit(**)", "Edit(.baton/**)", "Edit(./.baton/**)", "Edit(.baton/*.md)"]
        {
            assert!(write(rule), "{rule}");
        }
        // In the real client none of these has any effect.
        for rule in ["Write(.baton/**)", "Edit(/.baton/**)", "Edit(src/**)", "Edit(.bat/**)"] {
            assert!(!write(rule), "{rule}");
        }
    }
}
