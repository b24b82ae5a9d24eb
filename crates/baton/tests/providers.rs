//! Providers are rows of a table: no other code asks which one it has.

use std::path::{Path, PathBuf};

fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            sources(&entry.path(), into);
        } else if entry.path().extension().is_some_and(|x| x == "rs") {
            into.push(entry.path());
        }
    }
}

/// Whether a line has a provider's name as a string of its own: wherever that is used, it is knowledge of the provider.
fn names_a_provider(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    ["claude", "codex", "gemini", "opencode", "demo", "codex-app"]
        .iter()
        .any(|name| code.contains(&format!("\"{name}\"")))
}

/// Files in which such a string means something else, and how often.
const OTHER_WORDS: [(&str, usize); 6] = [
    // The command `baton demo`, and what its stage types.
    ("baton/src/cli/help.rs", 2),
    ("baton/src/cli/demo/stage.rs", 1),
    // The name of one of doctor's topics.
    ("baton/src/setup/doctor/mod.rs", 1),
    // One of our folders.
    ("baton/src/setup/install/codex.rs", 1),
    // The prefix of paths below the folder for temporary files.
    ("core/src/ledger/files.rs", 1),
    // A vendor in the names of secrets.
    ("core/src/redact/assign.rs", 1),
];

/// Whether a line names a variant of the enum of providers or their dialects, in any expression or pattern.
fn asks_for_a_variant(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    ["Provider::", "Dialect::"].iter().any(|path| {
        let after = code.split(path).skip(1);
        after
            .into_iter()
            .any(|rest| ["Claude", "Codex", "Demo", "Gemini"].iter().any(|name| rest.starts_with(name)))
    })
}

#[test]
fn nothing_outside_the_table_and_the_wire_asks_which_provider_it_has() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for dir in ["core/src", "baton/src"] {
        sources(&root.join(dir), &mut files);
    }
    assert!(files.len() > 100, "the sources were not found");
    let table = ["baton/src/providers/", "core/src/wire/", "core/src/transcript/"];
    let mut found = Vec::new();
    for file in files {
        let name = file.display().to_string();
        if table.iter().any(|part| name.contains(part)) || name.ends_with("/tests.rs") {
            continue;
        }
        let mut other_words =
            OTHER_WORDS.iter().find(|(file, _)| name.ends_with(file)).map_or(0, |(_, times)| *times);
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (at, line) in code.lines().enumerate() {
            let by_field = line.contains("provider ==") || line.contains("provider.name ==");
            let compared_with_another = line.contains("options.provider.name");
            let mut names = names_a_provider(line);
            if names && other_words > 0 {
                (names, other_words) = (false, other_words - 1);
            }
            if names || asks_for_a_variant(line) || (by_field && !compared_with_another) {
                found.push(format!("{name}:{}: {}", at + 1, line.trim()));
            }
        }
        if other_words > 0 {
            found.push(format!("{name}: OTHER_WORDS allows {other_words} more than there are"));
        }
    }
    assert_eq!(found, [""; 0], "a row of providers/mod.rs should say this");
}

#[test]
fn the_search_finds_what_it_is_there_for() {
    for line in [
        "if provider == \"codex\" {",
        "    \"claude\" => 1,",
        "Some(\"codex\") => 2,",
        "matches!(name, \"claude\" | \"demo\")",
        "if \"codex\" == name",
        "x.name != \"demo\"",
        "name.starts_with(\"codex\")",
        "Command::new(\"claude\")",
    ] {
        assert!(names_a_provider(line), "{line}");
    }
    for line in ["Provider::Claude => 1,", "if it == Dialect::Codex {", "matches!(d, Dialect::Codex)"] {
        assert!(asks_for_a_variant(line), "{line}");
    }
    assert!(!asks_for_a_variant("Provider::of(&session.provider)"));
    for line in ["// == \"codex\"", "\"~/.claude\"", "codex::hooks"] {
        assert!(!names_a_provider(line), "{line}");
    }
}
