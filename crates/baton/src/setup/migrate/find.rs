//! Finds what other tools have installed here, without changing anything.

use std::path::{Path, PathBuf};

use baton_core::session::Duty;
use serde_json::Value;

use crate::project::trust::Trust;
use crate::setup::delegate;
use crate::setup::install::{InstallScope, files, project_of, settings};
use crate::setup::migrate::known::{self, PartKind, Tool, ToolPart};
use crate::sys::fs;
use crate::sys::paths::Paths;
use crate::sys::shell;

/// Relevant scripts and settings files are smaller.
const MAX: u64 = 16 << 20;

/// A file of another tool, and what registers it.
#[derive(Debug, Clone)]
pub(crate) struct ForeignFile {
    pub tool: &'static Tool,
    pub part: &'static ToolPart,
    pub path: PathBuf,
    /// Empty for commands and helpers, whose location registers them.
    pub entries: Vec<Registration>,
}

/// What calls a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registration {
    /// The file that contains it.
    pub file: PathBuf,
    pub how: RegistrationKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RegistrationKind {
    Hook {
        event: String,
        matcher: Option<String>,
        command: String,
    },
    StatusLine {
        command: String,
    },
    /// Our own status line runs it, under this key.
    Delegate {
        key: String,
        command: String,
    },
    Alias,
}

impl Registration {
    /// The entry as it would be in the settings without baton.
    pub(crate) fn undelegated(&self) -> Self {
        let how = match &self.how {
            RegistrationKind::Delegate { command, .. } => {
                RegistrationKind::StatusLine { command: command.clone() }
            }
            other => other.clone(),
        };
        Self { file: self.file.clone(), how }
    }
}

impl ForeignFile {
    /// Whether it acts when a session begins this way. An entry without a matcher always does.
    fn acts_at(&self, source: &str) -> bool {
        self.entries.iter().any(|entry| match &entry.how {
            RegistrationKind::Hook { event, matcher, .. } if event == "SessionStart" => {
                matcher.as_deref().is_none_or(|words| {
                    words.is_empty() || words.split('|').any(|w| matches!(w, "*" | ".*") || w == source)
                })
            }
            _ => true,
        })
    }
}

/// The settings files that the client reads here, and whether the user has trusted their project.
fn sources(paths: &Paths, project: &Path) -> Vec<(PathBuf, bool)> {
    let of = |shared| InstallScope::Project { dir: project.to_owned(), shared }.settings(paths);
    let mut files = vec![(InstallScope::User.settings(paths), true)];
    if project != paths.home {
        let accepted = Trust::read(paths).accepts(project);
        files.extend([(of(false), accepted), (of(true), accepted)]);
    }
    files
}

/// All files of other tools that affect sessions in `cwd`.
pub(crate) fn find(paths: &Paths, cwd: &Path) -> Vec<ForeignFile> {
    let project = project_of(paths, cwd);
    let mut all = Finder { paths, project: &project, found: Vec::new() };
    for (file, _) in sources(paths, &project) {
        all.in_settings(&file);
    }
    for profile in [".bashrc", ".zshrc"] {
        all.in_profile(&paths.home.join(profile));
    }
    let mut roots = vec![paths.claude.clone()];
    if project != paths.home {
        roots.push(project.join(".claude"));
    }
    for root in &roots {
        all.commands(root);
        all.helpers(root);
    }
    all.found
}

/// What other tools do in a session that begins in `cwd`. Called by a hook: reads the settings, and parses only those
/// that name a known script. An untrusted project cannot make baton step back.
pub(crate) fn duties(paths: &Paths, cwd: &Path, source: &str) -> Vec<(&'static Tool, Duty)> {
    let project = project_of(paths, cwd);
    let mut all = Finder { paths, project: &project, found: Vec::new() };
    for (file, accepted) in sources(paths, &project) {
        if accepted {
            all.in_settings(&file);
        }
    }
    let of = |f: &ForeignFile| f.part.duty.filter(|_| f.acts_at(source)).map(|duty| (f.tool, duty));
    let mut duties: Vec<(&'static Tool, Duty)> = all.found.iter().filter_map(of).collect();
    duties.sort_by_key(|(tool, duty)| (tool.name, *duty));
    duties.dedup_by_key(|(tool, duty)| (tool.name, *duty));
    duties
}

struct Finder<'a> {
    paths: &'a Paths,
    project: &'a Path,
    found: Vec<ForeignFile>,
}

impl Finder<'_> {
    fn in_settings(&mut self, file: &Path) {
        let Ok(real) = files::real(file) else { return };
        let Ok(Some(bytes)) = fs::read(&real, MAX) else { return };
        let names_one = |name: &str| memchr::memmem::find(&bytes, name.as_bytes()).is_some();
        if !names_one(delegate::THEN_FLAG) && !known::all().any(|(_, part)| names_one(part.file)) {
            return;
        }
        let Ok(value) = settings::value(&bytes) else { return };
        for (event, _, group) in settings::all_groups(&value) {
            let matcher = group.get("matcher").and_then(Value::as_str).map(str::to_owned);
            for hook in group.get("hooks").and_then(Value::as_array).into_iter().flatten() {
                let Some(command) = hook.get("command").and_then(Value::as_str) else { continue };
                let (event, matcher) = (event.to_owned(), matcher.clone());
                self.called_by(
                    command,
                    &real,
                    &RegistrationKind::Hook { event, matcher, command: command.to_owned() },
                );
            }
        }
        let Some(command) = value.get("statusLine").and_then(|s| s.get("command")).and_then(Value::as_str)
        else {
            return;
        };
        if !delegate::is_statusline(command) {
            self.called_by(command, &real, &RegistrationKind::StatusLine { command: command.to_owned() });
            return;
        }
        let words = shell::words(command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if let Some(key) = delegate::key(&words)
            && let Some(command) = delegate::command(&self.paths.state, key)
        {
            self.called_by(
                &command,
                &real,
                &RegistrationKind::Delegate { key: key.to_owned(), command: command.clone() },
            );
        }
    }

    /// Adds the known scripts that `command` calls.
    fn called_by(&mut self, command: &str, file: &Path, how: &RegistrationKind) {
        for path in scripts(command, &self.paths.home, self.project) {
            if let Some((tool, part)) = recognised(&path, |kind| kind == PartKind::Called) {
                self.add(tool, part, path, Some(Registration { file: file.to_owned(), how: how.clone() }));
            }
        }
    }

    fn in_profile(&mut self, file: &Path) {
        let Some(text) = fs::read(file, MAX).ok().flatten() else { return };
        for line in String::from_utf8_lossy(&text).lines() {
            let Some(alias) = aliased(line) else { continue };
            for path in scripts(alias, &self.paths.home, self.project) {
                if let Some((tool, part)) = recognised(&path, |kind| kind == PartKind::Wrapper) {
                    self.add(
                        tool,
                        part,
                        path,
                        Some(Registration { file: file.to_owned(), how: RegistrationKind::Alias }),
                    );
                }
            }
        }
    }

    fn commands(&mut self, root: &Path) {
        for (tool, part) in known::all().filter(|(_, part)| part.kind == PartKind::Command) {
            let path = root.join("commands").join(part.file);
            if holds(&path, part) {
                self.add(tool, part, path, None);
            }
        }
    }

    /// Adds helpers below the folder of a file that was found.
    fn helpers(&mut self, root: &Path) {
        for (tool, part) in known::all() {
            let PartKind::Helper(folder) = part.kind else { continue };
            let path = root.join(folder).join(part.file);
            let has_others = self.found.iter().any(|f| f.tool.name == tool.name && f.path.starts_with(root));
            if has_others && holds(&path, part) {
                self.add(tool, part, path, None);
            }
        }
    }

    fn add(
        &mut self,
        tool: &'static Tool,
        part: &'static ToolPart,
        path: PathBuf,
        entry: Option<Registration>,
    ) {
        match self.found.iter_mut().find(|f| f.path == path) {
            Some(found) => found.entries.extend(entry),
            None => self.found.push(ForeignFile { tool, part, path, entries: entry.into_iter().collect() }),
        }
    }
}

/// The value of an alias named like the client.
pub(super) fn aliased(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("alias claude=")
}

fn holds(path: &Path, part: &ToolPart) -> bool {
    fs::read(path, MAX).ok().flatten().is_some_and(|text| part.is_in(&text))
}

/// Identifies a file by its name and content.
fn recognised(path: &Path, is_kind: impl Fn(PartKind) -> bool) -> Option<(&'static Tool, &'static ToolPart)> {
    let name = path.file_name()?.to_str()?;
    known::named(name).filter(|(_, part)| is_kind(part.kind)).find(|(_, part)| holds(path, part))
}

/// The files that a command names. Expands the client's variables and unquotes nested shell commands.
pub(crate) fn scripts(command: &str, home: &Path, project: &Path) -> Vec<PathBuf> {
    let mut command = command.to_owned();
    for (variable, path) in [("HOME", home), ("CLAUDE_PROJECT_DIR", project)] {
        let path = path.to_string_lossy();
        for form in [format!("${{{variable}}}"), format!("${variable}")] {
            command = command.replace(&form, &path);
        }
    }
    let mut words = Vec::new();
    for word in shell::words(&command) {
        // `bash -c '"…/script.sh"'` is a command within a command.
        if word.contains([' ', '"', '\'']) {
            words.extend(shell::words(&word));
        }
        words.push(word);
    }
    let path = |word: &String| match word.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => project.join(word),
    };
    let mut paths: Vec<PathBuf> = words.iter().map(path).filter(|p| p.is_file()).collect();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_found_in_every_way_that_settings_name_one() {
        let dir = tempfile::tempdir().unwrap();
        let (home, project) = (dir.path().join("home"), dir.path().join("my app"));
        for root in [&home, &project] {
            std::fs::create_dir_all(root.join(".claude")).unwrap();
            std::fs::write(root.join(".claude/x.sh"), "").unwrap();
        }
        let (of_home, of_project) = (home.join(".claude/x.sh"), project.join(".claude/x.sh"));
        for (command, found) in [
            ("~/.claude/x.sh", &of_home),
            ("$HOME/.claude/x.sh", &of_home),
            ("bash ${HOME}/.claude/x.sh --now", &of_home),
            ("\"$CLAUDE_PROJECT_DIR\"/.claude/x.sh", &of_project),
            ("bash -c '\"$CLAUDE_PROJECT_DIR/.claude/x.sh\"'", &of_project),
            (".claude/x.sh", &of_project),
        ] {
            assert_eq!(scripts(command, &home, &project), std::slice::from_ref(found), "{command}");
        }
        assert!(scripts("echo hello", &home, &project).is_empty());
    }
}
