//! Providers are rows of a table: no other code asks which one it has.

use crate::architecture::{code_of, without_tests};

/// Whether a line has a provider's name as a separate string: wherever that is used, it is knowledge about the
/// provider.
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
    ("core/src/redact/assign/mod.rs", 1),
];

/// Whether a line names a variant of the enum of providers or their dialects, in any expression or pattern.
fn asks_for_a_variant(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let variants = ["Claude", "Codex", "Demo", "Gemini", "{", "*"];
    ["Provider::", "Dialect::"].iter().any(|path| {
        code.split(path).skip(1).any(|rest| variants.iter().any(|variant| rest.starts_with(variant)))
    })
}

/// Whether a line compares a session's or an agent's provider with another one.
fn compares_providers(line: &str) -> bool {
    ["provider", "provider.name"]
        .iter()
        .any(|field| [" == ", " != "].iter().any(|compares| line.contains(&format!("{field}{compares}"))))
}

#[test]
fn nothing_outside_the_table_and_the_wire_asks_which_provider_it_has() {
    let table = ["baton/src/providers/", "core/src/wire/", "core/src/transcript/"];
    let mut found = Vec::new();
    let files = ["core/src", "baton/src"]
        .into_iter()
        .flat_map(|dir| code_of(dir).into_iter().map(move |(file, code)| (format!("{dir}/{file}"), code)));
    for (name, code) in files {
        if table.iter().any(|part| name.starts_with(part)) || name.ends_with("/tests.rs") {
            continue;
        }
        let mut other_words =
            OTHER_WORDS.iter().find(|(file, _)| name == *file).map_or(0, |(_, times)| *times);
        for (at, line) in without_tests(&code).lines().enumerate() {
            let compared_with_another = line.contains("options.provider.name");
            let mut names = names_a_provider(line);
            if names && other_words > 0 {
                (names, other_words) = (false, other_words - 1);
            }
            let compares = compares_providers(line) && !compared_with_another;
            if names || asks_for_a_variant(line) || compares {
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
    for line in [
        "Provider::Claude => 1,",
        "if it == Dialect::Codex {",
        "matches!(d, Dialect::Codex)",
        "use transcript::Provider::{Claude, Codex};",
        "use Provider::*;",
    ] {
        assert!(asks_for_a_variant(line), "{line}");
    }
    for line in ["if session.provider == name {", "a.provider.name != b", "x.provider != y"] {
        assert!(compares_providers(line), "{line}");
    }
    assert!(!compares_providers("provider: provider.name.to_owned(),"));
    assert!(!asks_for_a_variant("Provider::of(&session.provider)"));
    for line in ["// == \"codex\"", "\"~/.claude\"", "codex::hooks"] {
        assert!(!names_a_provider(line), "{line}");
    }
}
