//! Classifies the work that a line does.

use serde::{Deserialize, Serialize};

use super::program::{base, inner, is_cmdlet, program};
use super::syntax::simple_commands;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkKind {
    Test,
    Build,
    Lint,
    Run,
}

/// The kind of work that `line` does; its most telling command decides.
pub(in crate::ledger) fn kind(line: &str) -> Option<WorkKind> {
    simple_commands(line).iter().filter_map(|words| kind_of(program(words), 0)).min()
}

/// Options that take the next word as their value, so that it is not the verb.
const VALUED: [&str; 13] = [
    "--filter",
    "-F",
    "-C",
    "--dir",
    "--prefix",
    "-w",
    "--workspace",
    "--cwd",
    "-f",
    "--project",
    "-p",
    "--package",
    "--config",
];

/// How many words of options may precede the command that a container runs.
const INSIDE: usize = 24;

/// The words after the program `name`, without the values of its options.
fn operands<'w>(name: &str, words: &'w [String]) -> Vec<&'w str> {
    let mut rest: Vec<&str> = Vec::with_capacity(words.len());
    let mut valued = false;
    for word in words[1..].iter().map(String::as_str) {
        if !valued {
            rest.push(word);
        }
        // Only to pnpm `-w` is the workspace's root.
        valued = VALUED.contains(&word) && !(name == "pnpm" && word == "-w");
    }
    rest
}

fn kind_of(words: &[String], depth: u32) -> Option<WorkKind> {
    use WorkKind::{Build, Lint, Run, Test};
    if let Some(script) = inner(words).filter(|_| depth < 3) {
        return simple_commands(&script).iter().filter_map(|words| kind_of(program(words), depth + 1)).min();
    }
    if words.first().is_some_and(|word| word == "test" || word == "[") {
        return None;
    }
    let name = base(words.first()?);
    let rest = operands(&name, words);
    let verb = rest.iter().find(|w| !w.starts_with(['-', '+', '>', '<'])).copied().unwrap_or_default();
    // The words after the verb, or from it on, may be another command.
    let at = words.iter().skip(1).position(|word| word == verb).map_or(words.len(), |at| at + 1);
    let from = |at: usize| words.get(at..).filter(|words| !words.is_empty() && depth < 3);
    let command_from = |at: usize| from(at).and_then(|words| kind_of(program(words), depth + 1));
    let named = || rest.iter().filter_map(|w| target(w)).min();
    match name.as_str() {
        "go" | "cargo" | "dotnet" | "swift" | "zig" | "deno" | "bun" | "mix" | "bazel" | "sbt" | "lein"
        | "stack" | "cabal" | "flutter" | "dart" | "elm" | "gleam" | "nx" | "turbo" => match verb {
            "test" | "nextest" | "bench" | "t" | "miri" | "llvm-cov" | "tarpaulin" | "insta" | "mutants" => {
                Some(Test)
            }
            "build" | "install" | "check" | "compile" | "b" | "c" | "generate" => Some(Build),
            "vet" | "clippy" | "fmt" | "lint" | "format" | "analyze" | "deny" | "machete" | "audit" => {
                Some(Lint)
            }
            "run" | "task" | "make" | "xtask" | "hack" => Some(named().unwrap_or(Run)),
            _ => None,
        },
        "pytest" | "py.test" | "jest" | "vitest" | "mocha" | "ava" | "tox" | "nox" | "rspec" | "phpunit"
        | "ctest" | "bats" | "bashunit" | "playwright" | "cypress" | "karma" | "nosetests" | "gotestsum"
        | "tape" | "busted" | "invoke-pester" | "pester" | "minitest" | "prove" | "hurl" | "k6"
        | "bats-core" | "wtr" | "detox" | "maestro" | "xctest" | "unittest" | "trial" => Some(Test),
        "tsc" | "vue-tsc" | "webpack" | "vite" | "rollup" | "esbuild" | "tsup" | "cmake" | "ninja"
        | "meson" | "xcodebuild" | "msbuild" | "nmake" | "gcc" | "cc" | "clang" | "g++" | "clang++"
        | "rustc" | "javac" | "ant" | "goreleaser" | "maturin" | "wasm-pack" | "trunk" => Some(Build),
        "golangci-lint"
        | "eslint"
        | "prettier"
        | "ruff"
        | "flake8"
        | "pylint"
        | "mypy"
        | "pyright"
        | "basedpyright"
        | "pyrefly"
        | "ty"
        | "black"
        | "isort"
        | "gofmt"
        | "goimports"
        | "gofumpt"
        | "staticcheck"
        | "govulncheck"
        | "shellcheck"
        | "shfmt"
        | "biome"
        | "rubocop"
        | "stylelint"
        | "svelte-check"
        | "rustfmt"
        | "clang-format"
        | "clang-tidy"
        | "hadolint"
        | "actionlint"
        | "markdownlint"
        | "ktlint"
        | "swiftlint"
        | "swiftformat"
        | "oxlint"
        | "invoke-scriptanalyzer" => Some(Lint),
        "make" | "gmake" | "just" | "task" | "mise" | "rake" | "gradle" | "gradlew" | "mvn" | "mvnw"
        | "npm" | "pnpm" | "yarn" | "invoke" | "pre-commit" | "lerna" | "moon" | "ant.sh" | "hatch"
        | "pdm" | "pixi" | "rye" => named().or_else(|| match (name.as_str(), verb) {
            ("make" | "gmake", _) | ("mvn" | "mvnw", "package" | "install" | "verify") => Some(Build),
            ("pre-commit", _) => Some(Lint),
            ("npm" | "pnpm" | "yarn", "start") | ("just" | "task" | "rake" | "invoke", _) => Some(Run),
            ("npm", "t" | "tst") => Some(Test),
            ("npm" | "pnpm" | "yarn" | "mise" | "hatch" | "pdm" | "pixi" | "rye", "run") => {
                Some(command_from(at + 1).unwrap_or(Run))
            }
            // `pnpm tsc`: a program of the project.
            ("pnpm" | "yarn", _) => command_from(at),
            _ => None,
        }),
        "docker" | "podman" => {
            // The command inside decides.
            let last = words.len().min(at + INSIDE);
            let inside =
                || (at..last).filter(|_| depth == 0).find_map(command_from).filter(|kind| *kind != Run);
            match (verb, rest.contains(&"build")) {
                ("build" | "buildx", _) | ("compose", true) => Some(Build),
                ("run", _) => Some(inside().unwrap_or(Run)),
                ("exec" | "compose", _) => inside(),
                _ => None,
            }
        }
        "python" | "python3" | "python2" | "py" | "node" | "ruby" | "php" | "perl" | "java" | "tsx"
        | "ts-node" => {
            let module = words.iter().position(|w| w == "-m").map(|at| at + 1);
            let module = module.and_then(from);
            match module.and_then(|words| words.first()).map(String::as_str) {
                Some("pytest" | "unittest" | "nose") => return Some(Test),
                Some("build") => return Some(Build),
                Some("pip" | "venv" | "ensurepip" | "json.tool") => return None,
                Some(_) => return module.and_then(|m| kind_of(program(m), depth + 1)).or(Some(Run)),
                None => {}
            }
            if rest.contains(&"--test") {
                return Some(Test);
            }
            // A script given inline is a look at something, not the program being worked on.
            if rest.iter().any(|w| matches!(*w, "-c" | "-e" | "<<" | "--version")) || verb.is_empty() {
                return None;
            }
            // `node node_modules/vitest/vitest.mjs`: a tool by its file.
            let tool = verb.contains("node_modules").then(|| base(verb));
            let tool = tool.and_then(|tool| tool.rsplit_once('.').map(|(stem, _)| vec![stem.to_owned()]));
            let tested = target(verb) == Some(Test) || (verb.ends_with("manage.py") && named() == Some(Test));
            let kind = tool.and_then(|tool| kind_of(&tool, depth + 1));
            Some(kind.unwrap_or(if tested { Test } else { Run }))
        }
        "git" | "gh" | "grep" | "rg" | "ls" | "cat" | "echo" | "cd" | "find" | "sed" | "awk" | "head"
        | "tail" | "mkdir" | "md" | "rmdir" | "rm" | "cp" | "mv" | "ln" | "curl" | "wget" | "kill"
        | "pkill" | "ps" | "which" | "sleep" | "printf" | "export" | "source" | "wc" | "sort" | "jq"
        | "xargs" | "chmod" | "touch" | "brew" | "apt" | "pip" | "pip3" | "tree" | "diff" | "stat"
        | "file" | "du" | "df" | "open" | "code" | "ssh" | "scp" | "dir" | "del" | "copy" | "move"
        | "ren" | "type" | "findstr" | "pushd" | "popd" => None,
        // The name of a cmdlet says what it does; it does not run the words after it.
        _ if is_cmdlet(&words[0]) && !name.starts_with("invoke-") => None,
        _ if words[0].starts_with("./") || words[0].starts_with("../") || words[0].starts_with(".\\") => {
            Some(target(&name).or_else(|| target(verb)).unwrap_or(Run))
        }
        _ => {
            let script =
                [".sh", ".ps1", ".py", ".rb", ".js", ".bat"].iter().find_map(|end| name.strip_suffix(end));
            // For any runner, the verb may say what it does.
            script.and_then(target).or_else(|| {
                let plain =
                    verb.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b':' | b'-' | b'_'));
                target(verb).filter(|_| plain && verb == rest.first().copied().unwrap_or_default())
            })
        }
    }
}

/// The kind of work in the name of a task or script: `test:ci`, `lint`, `build-release`.
fn target(name: &str) -> Option<WorkKind> {
    if name.starts_with('-') {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let parts: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let has = |words: &[&str]| parts.iter().any(|part| words.contains(part));
    if has(&["test", "tests", "e2e", "spec", "check", "ci", "verify", "coverage", "itest", "unittest"]) {
        Some(WorkKind::Test)
    } else if has(&["build", "compile", "bundle", "dist", "release", "assemble", "generate", "codegen"]) {
        Some(WorkKind::Build)
    } else if has(&["lint", "fmt", "format", "vet", "clippy", "typecheck", "types", "style"]) {
        Some(WorkKind::Lint)
    } else {
        None
    }
}

/// The key that a failing and a later succeeding command must share to count as two tries at one thing: the kind of
/// work if there is one, else program and verb.
pub(in crate::ledger) fn topic(line: &str) -> String {
    topic_of(line, 0)
}

fn topic_of(line: &str, depth: u32) -> String {
    let commands = simple_commands(line);
    let telling = commands.iter().map(|words| program(words)).find(|words| kind_of(words, 0).is_some());
    let Some(words) = telling.or_else(|| {
        let idle =
            |w: &[String]| w.first().is_none_or(|p| matches!(p.as_str(), "cd" | "echo" | "set" | "export"));
        commands.iter().map(|words| program(words)).find(|words| !idle(words))
    }) else {
        return String::new();
    };
    if let Some(script) = inner(words).filter(|_| depth < 3) {
        return topic_of(&script, depth + 1);
    }
    // A pattern or a printed text is not a verb: another pattern is another try.
    let name = base(&words[0]);
    let looks = matches!(
        name.as_str(),
        "rg" | "grep"
            | "egrep"
            | "fgrep"
            | "ag"
            | "fd"
            | "find"
            | "ls"
            | "cat"
            | "sed"
            | "head"
            | "tail"
            | "select-string"
            | "findstr"
            | "get-content"
            | "get-childitem"
    );
    let verb = operands(&name, words)
        .into_iter()
        .filter(|_| !looks)
        .find(|w| w.starts_with(|c: char| c.is_ascii_alphabetic()) && !w.contains(['/', '\\', '.']));
    match verb {
        Some(verb) => format!("{} {verb}", words[0]),
        None => words[0].clone(),
    }
}
