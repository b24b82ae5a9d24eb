//! Providers are rows of a table: nothing else asks which one it has.

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

/// What a comparison with a provider's name looks like: `== "codex"`, `"codex" =>`, `"codex" |`, and the like.
fn asks_for_a_name(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    ["claude", "codex", "gemini", "opencode", "demo", "codex-app"].iter().any(|name| {
        let quoted = format!("\"{name}\"");
        code.match_indices(&quoted).any(|(at, _)| {
            let (before, after) = (code[..at].trim_end(), code[at + quoted.len()..].trim_start());
            let before = before.strip_suffix("Some(").unwrap_or(before).trim_end();
            before.ends_with("==")
                || before.ends_with("!=")
                || after.trim_start_matches(')').trim_start().starts_with("=>")
                || after.starts_with('|')
                || after.starts_with("==")
        })
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
        if table.iter().any(|part| name.contains(part)) {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (at, line) in code.lines().enumerate() {
            let by_field = line.contains("provider ==") || line.contains("provider.name ==");
            let compared_with_another = line.contains("options.provider.name");
            if asks_for_a_name(line) || (by_field && !compared_with_another) {
                found.push(format!("{name}:{}: {}", at + 1, line.trim()));
            }
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
    ] {
        assert!(asks_for_a_name(line), "{line}");
    }
    for line in ["name: \"codex\",", "find(\"claude\")", "// == \"codex\"", "[\"run\", \"demo\", prompt]"] {
        assert!(!asks_for_a_name(line), "{line}");
    }
}
