//! Reading a shell command line as far as facts need it: its simple commands, their words, what kind of work they
//! do, and which files they write or remove. No expansion: what is not literal is left alone.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Test,
    Build,
    Lint,
    Run,
}

/// The words of each simple command in `line`. Quotes are taken off; a here-document's body is not read.
pub fn simple_commands(line: &str) -> Vec<Vec<String>> {
    // A here-document may stand inside quotes too (`-m "$(cat <<EOF…`), and its body obeys no quoting.
    let line = here_document(line).map_or(line, |at| &line[..at + 2]);
    let mut commands = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut in_word = false;
    let mut chars = line.chars().peekable();
    let end_word = |words: &mut Vec<String>, word: &mut String, in_word: &mut bool| {
        if *in_word {
            words.push(std::mem::take(word));
            *in_word = false;
        }
    };
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' => {
                in_word = true;
                while let Some(q) = chars.next() {
                    if q == c {
                        break;
                    }
                    if q == '\\' && c == '"' {
                        word.extend(chars.next());
                    } else {
                        word.push(q);
                    }
                }
            }
            '\\' => {
                // A line continued is one line.
                match chars.next() {
                    Some('\n') | None => {}
                    Some(escaped) => {
                        in_word = true;
                        word.push(escaped);
                    }
                }
            }
            '<' if chars.peek() == Some(&'<') => {
                end_word(&mut words, &mut word, &mut in_word);
                words.push("<<".to_owned());
                break;
            }
            '>' => {
                let descriptor = in_word && word.bytes().all(|b| b.is_ascii_digit());
                if descriptor {
                    word.clear();
                    in_word = false;
                }
                end_word(&mut words, &mut word, &mut in_word);
                let append = chars.next_if_eq(&'>').is_some();
                if chars.next_if_eq(&'&').is_some() {
                    // 2>&1: no file.
                    while chars.next_if(char::is_ascii_digit).is_some() {}
                } else {
                    words.push(if append { ">>" } else { ">" }.to_owned());
                }
            }
            '#' if !in_word => while chars.next_if(|c| *c != '\n').is_some() {},
            ';' | '\n' | '|' | '&' => {
                end_word(&mut words, &mut word, &mut in_word);
                if !words.is_empty() {
                    commands.push(std::mem::take(&mut words));
                }
            }
            c if c.is_whitespace() => end_word(&mut words, &mut word, &mut in_word),
            '(' | ')' if !in_word => {}
            c => {
                in_word = true;
                word.push(c);
            }
        }
    }
    end_word(&mut words, &mut word, &mut in_word);
    if !words.is_empty() {
        commands.push(words);
    }
    commands
}

/// Where the first `<<WORD` begins, if there is one; `<<<` gives a single string.
fn here_document(line: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = line[from..].find("<<").map(|i| from + i) {
        let after = &line[at + 2..];
        let word = after.trim_start_matches('-').trim_start_matches([' ', '\\']);
        if !after.starts_with('<')
            && word.starts_with(|c: char| c.is_alphabetic() || matches!(c, '\'' | '"' | '_'))
        {
            return Some(at);
        }
        from = at + 2 + after.len() - after.trim_start_matches('<').len();
    }
    None
}

/// The program and its arguments, without what only prepares it.
fn program(words: &[String]) -> &[String] {
    let mut rest = words;
    while let Some(first) = rest.first() {
        let assignment = first.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        });
        if assignment {
            rest = &rest[1..];
            continue;
        }
        rest = match first.as_str() {
            "sudo" | "time" | "env" | "exec" | "nohup" | "command" | "nice" | "stdbuf" | "!" | "if"
            | "then" | "do" | "while" | "{" | "npx" | "pnpx" | "bunx" | "uvx" => &rest[1..],
            "timeout" => rest.get(2..).unwrap_or_default(),
            "uv" | "poetry" | "pipenv" | "bundle" | "rye" | "hatch"
                if matches!(rest.get(1).map(String::as_str), Some("exec" | "run")) =>
            {
                &rest[2..]
            }
            _ => return rest,
        };
    }
    rest
}

/// What kind of work `line` does; the most telling of its commands decides.
pub fn kind(line: &str) -> Option<Kind> {
    simple_commands(line).iter().filter_map(|words| kind_of(program(words))).min()
}

fn kind_of(words: &[String]) -> Option<Kind> {
    use Kind::{Build, Lint, Run, Test};
    let base = words.first()?.rsplit('/').next()?;
    let rest: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    let verb = rest.iter().find(|w| !w.starts_with(['-', '+', '>', '<'])).copied().unwrap_or_default();
    match base {
        "go" | "cargo" | "dotnet" | "swift" | "zig" | "deno" | "bun" | "mix" | "bazel" | "sbt" | "lein"
        | "stack" | "cabal" | "flutter" | "dart" | "elm" | "gleam" | "nx" | "turbo" => match verb {
            "test" | "nextest" | "bench" | "t" => Some(Test),
            "build" | "install" | "check" | "compile" | "b" | "c" | "generate" => Some(Build),
            "vet" | "clippy" | "fmt" | "lint" | "format" | "analyze" => Some(Lint),
            "run" => Some(rest.iter().filter_map(|w| target(w)).min().unwrap_or(Run)),
            _ => None,
        },
        "pytest" | "py.test" | "jest" | "vitest" | "mocha" | "ava" | "tox" | "nox" | "rspec" | "phpunit"
        | "ctest" | "bats" | "bashunit" | "playwright" | "cypress" | "karma" | "nosetests" | "gotestsum"
        | "tape" | "busted" => Some(Test),
        "tsc" | "webpack" | "vite" | "rollup" | "esbuild" | "cmake" | "ninja" | "meson" | "xcodebuild"
        | "gcc" | "cc" | "clang" | "g++" | "clang++" | "rustc" | "javac" | "ant" | "goreleaser" => {
            Some(Build)
        }
        "golangci-lint" | "eslint" | "prettier" | "ruff" | "flake8" | "pylint" | "mypy" | "pyright"
        | "black" | "isort" | "gofmt" | "goimports" | "gofumpt" | "staticcheck" | "shellcheck" | "shfmt"
        | "biome" | "rubocop" | "stylelint" | "rustfmt" | "clang-format" | "clang-tidy" | "hadolint"
        | "actionlint" | "markdownlint" | "ktlint" | "swiftlint" | "swiftformat" | "oxlint" => Some(Lint),
        "make" | "gmake" | "just" | "task" | "mise" | "rake" | "gradle" | "gradlew" | "mvn" | "mvnw"
        | "npm" | "pnpm" | "yarn" | "invoke" | "pre-commit" | "lerna" | "moon" | "ant.sh" => {
            let named = rest.iter().filter_map(|w| target(w)).min();
            named.or(match (base, verb) {
                ("make" | "gmake", "") | ("mvn" | "mvnw", "package" | "install" | "verify") => Some(Build),
                ("pre-commit", _) => Some(Lint),
                ("npm" | "pnpm" | "yarn", "start") => Some(Run),
                ("npm" | "pnpm" | "yarn" | "mise", "run") | ("just" | "task" | "rake" | "invoke", _) => {
                    Some(Run)
                }
                _ => None,
            })
        }
        "docker" | "podman" => match verb {
            "build" | "buildx" => Some(Build),
            "run" => Some(Run),
            _ => None,
        },
        "python" | "python3" | "python2" | "node" | "ruby" | "php" | "perl" | "java" | "tsx" | "ts-node" => {
            match rest.iter().position(|w| *w == "-m").and_then(|at| rest.get(at + 1)) {
                Some(&"pytest" | &"unittest" | &"nose") => Some(Test),
                Some(&"mypy" | &"ruff" | &"black" | &"flake8" | &"pylint") => Some(Lint),
                Some(&"build") => Some(Build),
                Some(_) => Some(Run),
                // A script given inline is a look at something, not the program being worked on.
                None if rest.iter().any(|w| matches!(*w, "-c" | "-e" | "<<" | "--version"))
                    || verb.is_empty() =>
                {
                    None
                }
                None => Some(if target(verb) == Some(Test) { Test } else { Run }),
            }
        }
        _ if words[0].starts_with("./") || words[0].starts_with("../") => Some(target(base).unwrap_or(Run)),
        _ => base.strip_suffix(".sh").and_then(target),
    }
}

/// What the name of a task or script says: `test:ci`, `lint`, `build-release`.
fn target(name: &str) -> Option<Kind> {
    if name.starts_with('-') {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let parts: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let has = |words: &[&str]| parts.iter().any(|part| words.contains(part));
    if has(&["test", "tests", "e2e", "spec", "check", "ci", "verify", "coverage", "itest", "unittest"]) {
        Some(Kind::Test)
    } else if has(&["build", "compile", "bundle", "dist", "release", "assemble", "generate", "codegen"]) {
        Some(Kind::Build)
    } else if has(&["lint", "fmt", "format", "vet", "clippy", "typecheck", "types", "style"]) {
        Some(Kind::Lint)
    } else {
        None
    }
}

/// What a failing and a later succeeding command must share to count as two tries at one thing: the kind of
/// work if it has one, else program and verb.
pub fn topic(line: &str) -> String {
    let commands = simple_commands(line);
    let telling = commands.iter().map(|words| program(words)).find(|words| kind_of(words).is_some());
    let Some(words) = telling.or_else(|| {
        let idle =
            |w: &[String]| w.first().is_none_or(|p| matches!(p.as_str(), "cd" | "echo" | "set" | "export"));
        commands.iter().map(|words| program(words)).find(|words| !idle(words))
    }) else {
        return String::new();
    };
    let verb = words[1..]
        .iter()
        .find(|w| w.starts_with(|c: char| c.is_ascii_alphabetic()) && !w.contains(['/', '.']));
    match verb {
        Some(verb) => format!("{} {verb}", words[0]),
        None => words[0].clone(),
    }
}

/// Files that `line` removes by name.
pub fn removed(line: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for words in simple_commands(line) {
        let words = program(&words);
        let args = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["rm", ..] => &words[1..],
            ["git", "rm", ..] => &words[2..],
            _ => continue,
        };
        let end = args.iter().position(|w| matches!(w.as_str(), ">" | ">>" | "<<")).unwrap_or(args.len());
        paths.extend(args[..end].iter().filter(|w| literal_path(w)).cloned());
    }
    paths
}

/// Files that `line` writes by redirection.
pub fn written(line: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for words in simple_commands(line) {
        for pair in words.windows(2) {
            let plain = literal_path(&pair[1]) && !pair[1].contains(char::is_whitespace);
            if matches!(pair[0].as_str(), ">" | ">>") && plain {
                paths.push(pair[1].clone());
            }
        }
    }
    paths
}

fn literal_path(word: &str) -> bool {
    !word.is_empty()
        && word.len() < 300
        && !word.contains(['\n', '(', ')', '"', '='])
        && !word.starts_with(['-', '>', '<'])
        && !word.starts_with("/dev/")
        && !word.contains(['*', '?', '$', '`', '{', '[', '~'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_known_by_what_it_does() {
        let cases = [
            ("go test ./... 2>&1 | tail -20", Some(Kind::Test)),
            ("cd x && RUST_LOG=debug cargo test -p core", Some(Kind::Test)),
            ("mise run test:ci", Some(Kind::Test)),
            ("mise run fmt && mise run lint", Some(Kind::Lint)),
            ("cargo build --release", Some(Kind::Build)),
            ("timeout 60 npm run build", Some(Kind::Build)),
            ("npx eslint .", Some(Kind::Lint)),
            ("uv run pytest -q", Some(Kind::Test)),
            ("python3 -c 'print(1)'", None),
            ("go run ./cmd/x", Some(Kind::Run)),
            ("git commit -m 'make test pass'", None),
            ("grep -rn 'go test' .", None),
            ("./scripts/test", Some(Kind::Test)),
            ("make", Some(Kind::Build)),
        ];
        for (line, want) in cases {
            assert_eq!(kind(line), want, "{line}");
        }
    }

    #[test]
    fn files_removed_and_written_are_those_named_literally() {
        assert_eq!(removed("cd a && rm -f b.txt 'c d.txt' *.o $X 2>/dev/null"), ["b.txt", "c d.txt"]);
        assert_eq!(removed("git rm --cached old.rs"), ["old.rs"]);
        assert_eq!(written("cat > notes.md <<'EOF'\n> not-this\nEOF"), ["notes.md"]);
        let message = "git commit -m \"$(cat <<'EOF'\nsay \"x > y\" twice\nEOF\n)\"";
        assert_eq!(written(message), Vec::<String>::new());
        assert_eq!(written("make 2>&1 >/dev/null; echo 'a > b' >> log.txt"), ["log.txt"]);
    }

    #[test]
    fn two_tries_at_one_thing_share_a_topic() {
        assert_eq!(topic("go test ./a"), topic("cd b && go test -run X ./b 2>&1 | tail"));
        assert_ne!(topic("go test ./a"), topic("go build ./a"));
        assert_eq!(topic("git push origin x"), "git push");
    }
}
