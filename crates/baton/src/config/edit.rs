//! Edits the user's own settings file: keeps comments, order and layout, and writes nothing that reading would refuse.

use std::path::{Path, PathBuf};

use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

use crate::config::parse::{self, ConfigError};
use crate::sys::fs::{self, FileError, SHARED, Sync};
use crate::sys::paths::Paths;

/// The file's text, empty if there is none, and its real path: a dotfile manager may link it.
pub(crate) fn read(paths: &Paths) -> Result<(PathBuf, String), FileError> {
    let path = std::fs::canonicalize(&paths.config).unwrap_or_else(|_| paths.config.clone());
    let bytes = fs::read(&path, parse::MAX)?.unwrap_or_default();
    Ok((path, String::from_utf8_lossy(&bytes).into_owned()))
}

/// Whether this text is a valid settings file.
pub(crate) fn check(text: &str, paths: &Paths) -> Result<(), ConfigError> {
    parse::check_user(text.as_bytes(), paths)
}

/// Whether `key` holds rules of `[approvals]`: a list, for everybody or for one agent or tree.
pub(crate) fn is_rules(key: &str) -> bool {
    let lists = ["allow", "deny"];
    match key.split('.').collect::<Vec<_>>().as_slice() {
        ["approvals", list] => lists.contains(list),
        ["approvals", whose, _, list] => parse::RULES.contains(whose) && lists.contains(list),
        _ => false,
    }
}

/// The text with `key` set to `value`, read as the first of a boolean, a number and a text that the key accepts. Rules
/// are a list as in the file, or one rule.
pub(crate) fn set(text: &str, key: &str, value: &str, paths: &Paths) -> Result<String, ConfigError> {
    check(text, paths)?;
    let mut candidates: Vec<Value> = Vec::new();
    if is_rules(key) {
        let list = value.parse::<Value>().ok().filter(Value::is_array);
        candidates.push(list.unwrap_or_else(|| Value::from(toml_edit::Array::from_iter([value]))));
    }
    candidates.extend(value.parse::<bool>().ok().map(Value::from));
    candidates.extend(value.parse::<i64>().ok().map(Value::from));
    candidates.push(Value::from(value));
    let mut refused = None;
    for candidate in candidates {
        let after = with(text, key, candidate);
        match check(&after, paths) {
            Ok(()) => return Ok(after),
            Err(e) => refused = refused.or(Some(e.unwritten())),
        }
    }
    match refused {
        Some(e) => Err(e),
        None => Ok(text.to_owned()),
    }
}

/// The text without `key`, which restores the default; `None` if it is not set there.
pub(crate) fn unset(text: &str, key: &str, paths: &Paths) -> Result<Option<String>, ConfigError> {
    check(text, paths)?;
    let mut document = parsed(text);
    let (sections, name) = split(key);
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for section in &sections {
        match table.get_mut(section).and_then(Item::as_table_like_mut) {
            Some(inner) => table = inner,
            None => return Ok(None),
        }
    }
    if table.remove(name).is_none() {
        return Ok(None);
    }
    // Keep a heading with a comment.
    for depth in (0..sections.len()).rev() {
        let mut outer: &mut dyn TableLike = document.as_table_mut();
        for section in &sections[..depth] {
            match outer.get_mut(section).and_then(Item::as_table_like_mut) {
                Some(inner) => outer = inner,
                None => return Ok(Some(document.to_string())),
            }
        }
        if outer.get(sections[depth]).and_then(Item::as_table).is_some_and(is_bare) {
            outer.remove(sections[depth]);
        }
    }
    Ok(Some(document.to_string()))
}

/// The sections of a key, outermost first, and its own name.
fn split(key: &str) -> (Vec<&str>, &str) {
    let mut parts: Vec<&str> = key.split('.').collect();
    let name = parts.pop().unwrap_or_default();
    (parts, name)
}

fn is_bare(table: &Table) -> bool {
    let prefix = table.decor().prefix().and_then(|p| p.as_str()).unwrap_or_default();
    table.is_empty() && prefix.trim().is_empty()
}

/// The text was checked before, so it parses.
fn parsed(text: &str) -> DocumentMut {
    text.parse().unwrap_or_default()
}

fn with(text: &str, key: &str, value: Value) -> String {
    let mut document = parsed(text);
    let (sections, key) = split(key);
    let mut table: &mut dyn TableLike = document.as_table_mut();
    let last = sections.len().saturating_sub(1);
    for (n, section) in sections.into_iter().enumerate() {
        let item = table.entry(section).or_insert_with(|| {
            let mut inner = Table::new();
            // Only tables with values have a heading.
            inner.set_implicit(n < last);
            Item::Table(inner)
        });
        match item.as_table_like_mut() {
            Some(inner) => table = inner,
            // A value where a section belongs; reading the file reports that.
            None => return text.to_owned(),
        }
    }
    match table.get_mut(key).and_then(Item::as_value_mut) {
        // Keep the comment after the old value; it belongs to the key.
        Some(there) => {
            let decor = there.decor().clone();
            *there = value;
            *there.decor_mut() = decor;
        }
        None => drop(table.insert(key, Item::Value(value))),
    }
    document.to_string()
}

/// Writes the file atomically and keeps its mode.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), FileError> {
    if path.exists() {
        return fs::replace_as_it_was(path, text.as_bytes(), Sync::Yes);
    }
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(|e| FileError::new("create the folder", dir, e))?;
    }
    fs::replace(path, text.as_bytes(), SHARED, Sync::Yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> Paths {
        let dir = |name: &str| PathBuf::from("/home/u").join(name);
        Paths { home: dir(""), claude: dir(".claude"), state: dir("state"), config: dir("config.toml") }
    }

    const MINE: &str =
        "# mine\n[context]\n# why 55\nwarning_percentage = 55 # for now\n\n[run]\npark = true\n";

    #[test]
    fn comments_and_order_stay() {
        let after = set(MINE, "context.warning_percentage", "60", &paths()).unwrap();
        assert_eq!(after, MINE.replace("= 55 #", "= 60 #"));
        let after = set(MINE, "context.advise", "false", &paths()).unwrap();
        assert_eq!(after, MINE.replace("for now\n", "for now\nadvise = false\n"));
        let after = set(MINE, "compaction", "client", &paths()).unwrap();
        assert!(after.contains("compaction = \"client\"\n"), "{after}");
        check(&after, &paths()).unwrap();
        let after = set(MINE, "handoff.expiry", "3h", &paths()).unwrap();
        assert_eq!(after, format!("{MINE}\n[handoff]\nexpiry = \"3h\"\n"));
    }

    #[test]
    fn a_value_that_reading_would_refuse_is_not_written() {
        let said = |key: &str, value: &str| set(MINE, key, value, &paths()).unwrap_err().to_string();
        assert!(said("context.warning_percentage", "150").contains("a whole number from 1 to 100, not 150"));
        assert!(said("context.warning_percent", "50").contains("is not a setting"));
        assert!(said("run.park", "perhaps").contains("true or false"));
        let broken = set("[context\n", "run.park", "true", &paths()).unwrap_err().to_string();
        assert!(broken.starts_with("/home/u/config.toml:1:"), "{broken}");
    }

    #[test]
    fn rules_are_set_as_a_list_or_as_one_and_for_one_agent_too() {
        let after = set("", "approvals.allow", r#"["Bash(ls:*)", "Read"]"#, &paths()).unwrap();
        assert_eq!(after, "[approvals]\nallow = [\"Bash(ls:*)\", \"Read\"]\n");
        let one = set(MINE, "approvals.agents.reviewer.deny", "Bash(rm:*)", &paths()).unwrap();
        assert!(one.ends_with("\n[approvals.agents.reviewer]\ndeny = [\"Bash(rm:*)\"]\n"), "{one}");
        assert_eq!(unset(&one, "approvals.agents.reviewer.deny", &paths()).unwrap().unwrap(), MINE);
        let said = set("", "approvals.allow", "Edit(/etc/x)", &paths()).unwrap_err().to_string();
        assert!(said.contains("//path") && said.starts_with("nothing was changed: "), "{said}");
        assert!(!said.contains("config.toml"), "nothing was written there: {said}");
    }

    #[test]
    fn an_emptied_section_goes_unless_somebody_wrote_about_it() {
        assert_eq!(
            unset(MINE, "run.park", &paths()).unwrap().unwrap(),
            MINE.replace("\n[run]\npark = true\n", "")
        );
        let after = unset(MINE, "context.warning_percentage", &paths()).unwrap().unwrap();
        assert!(after.starts_with("# mine\n[context]\n"), "{after}");
        assert_eq!(unset(MINE, "run.grace", &paths()).unwrap(), None);
    }
}
