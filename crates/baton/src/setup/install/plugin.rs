//! The plugin folder `skills/baton/` in the client's own folder, as a pure list of files.
//!
//! One folder is the whole integration; the client loads it in every project, and deleting it uninstalls.

use std::fmt::Write as _;
use std::path::Path;

use crate::setup::install::ours::{EVENTS, HookProgram};
use crate::setup::install::skills::SKILLS;
use crate::sys::hash::sha256;

/// The stamp: the version that wrote the folder and the hash of each file, so that a newer version replaces exactly its
/// own and an uninstall removes nothing of others.
pub(crate) const STAMP: &str = ".baton.json";

/// A file of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFile {
    /// Relative to the folder.
    pub path: &'static str,
    pub text: String,
}

/// All files, the stamp last.
pub fn files(program: &HookProgram, version: &str, commands: bool, dir: &Path) -> Vec<PluginFile> {
    let mut files = vec![
        PluginFile { path: ".claude-plugin/plugin.json", text: manifest(version) },
        PluginFile { path: "hooks/hooks.json", text: hooks(program) },
        PluginFile { path: "hooks/register.js", text: module(program.name(), dir) },
    ];
    if commands {
        files.push(PluginFile { path: "commands/handoff.md", text: HANDOFF.to_owned() });
        files.push(PluginFile { path: "commands/status.md", text: STATUS.to_owned() });
        let skills = SKILLS.iter().map(|s| PluginFile { path: s.path, text: s.text(program) });
        files.extend(skills);
    }
    files.push(PluginFile { path: STAMP, text: stamp(&files, version) });
    files
}

/// The mod for the plugin folder `dir`, with the program that it starts.
pub fn module(program: &str, dir: &Path) -> String {
    let literal = |text: &str| serde_json::Value::from(text).to_string();
    include_str!("../../../mod/register.js").replacen("'@BATON@'", &literal(program), 1).replacen(
        "'@PLUGIN@'",
        &literal(&dir.display().to_string()),
        1,
    )
}

fn manifest(version: &str) -> String {
    format!(
        "{{\n  \"name\": \"baton\",\n  \"version\": \"{version}\",\n  \"description\": \"{}\"\n}}\n",
        env!("CARGO_PKG_DESCRIPTION")
    )
}

/// One line per event, so that a person can read it.
fn hooks(program: &HookProgram) -> String {
    let mut text = "{\n  \"hooks\": {\n".to_owned();
    for (i, (event, timeout)) in EVENTS.iter().enumerate() {
        let comma = if i + 1 < EVENTS.len() { "," } else { "" };
        let entry = program.hook(event, *timeout).text();
        let _ = writeln!(text, "    \"{event}\": [{{ \"hooks\": [{entry}] }}]{comma}");
    }
    // The mod; a client too old for it ignores the entry.
    text.push_str("  },\n  \"modules\": [\"./register.js\"]\n}\n");
    text
}

fn stamp(files: &[PluginFile], version: &str) -> String {
    let hashes: serde_json::Map<_, _> =
        files.iter().map(|f| (f.path.to_owned(), sha256(f.text.as_bytes()).into())).collect();
    let stamp = serde_json::json!({ "version": version, "files": hashes });
    format!("{stamp:#}\n")
}

/// A stamp's contents.
#[derive(Debug, serde::Deserialize)]
pub struct PluginStamp {
    pub version: String,
    pub files: std::collections::BTreeMap<String, String>,
}

/// The stamp of the folder at `dir`, if it is one of ours.
pub fn read_stamp(dir: &Path) -> Option<PluginStamp> {
    let bytes = crate::sys::fs::read(&dir.join(STAMP), 1 << 20).ok()??;
    serde_json::from_slice(&bytes).ok()
}

const HANDOFF: &str = "\
---
description: Write down where the work stands and hand over to a fresh context
---
Write a handoff for whoever continues this work, in this order: the goal, what is being done right now and the very
next step, what is done, what is in the way, rules and corrections from the user in their own words, commands that
matter (tests above all) with their last result, files that matter. Facts only; say what you have not checked.

Pass it to `baton handoff -` on standard input in a single Bash call, and make that the last act of this turn.

$ARGUMENTS
";

const STATUS: &str = "\
---
description: How full this agent's context is, and what waits for it
---
Run `baton status` with Bash and show the user its output as it is. Do nothing else.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_registers_every_event_in_exec_form_with_an_absolute_path() {
        let files =
            files(&HookProgram::At("/home/u/.local/bin/baton".into()), "1.2.3", true, Path::new("/p"));
        let hooks: serde_json::Value = serde_json::from_str(&files[1].text).unwrap();
        for (event, timeout) in EVENTS {
            let entry = &hooks["hooks"][event][0]["hooks"][0];
            assert_eq!(entry["command"], "/home/u/.local/bin/baton");
            assert_eq!(entry["args"], serde_json::json!(["hook", event]));
            assert_eq!(entry["timeout"], timeout);
        }
        assert_eq!(hooks["hooks"].as_object().unwrap().len(), EVENTS.len());
        serde_json::from_str::<serde_json::Value>(&files[0].text).unwrap();
    }

    #[test]
    fn the_module_names_the_program_whatever_its_path_holds() {
        let text = module("/home/o'brien/my \"bin\"/baton", Path::new("/p"));
        assert!(text.contains(r#"const BATON = "/home/o'brien/my \"bin\"/baton""#), "{text}");
        assert!(text.contains(r#"const PLUGIN = "/p""#) && !text.contains('@'), "{text}");
    }

    #[test]
    fn the_stamp_names_version_and_hash_of_every_other_file() {
        let files = files(&HookProgram::At("/b/baton".into()), "1.2.3", true, Path::new("/p"));
        let (stamp, others) = files.split_last().unwrap();
        assert_eq!(stamp.path, STAMP);
        let stamp: PluginStamp = serde_json::from_str(&stamp.text).unwrap();
        assert_eq!(stamp.version, "1.2.3");
        for file in others {
            assert_eq!(stamp.files[file.path], sha256(file.text.as_bytes()));
        }
        assert_eq!(stamp.files.len(), others.len());
    }
}
