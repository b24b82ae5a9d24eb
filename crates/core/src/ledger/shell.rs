//! Reading a shell command line as far as facts need it: its simple commands, their words, what kind of work they
//! do, and which files they read, write or remove. No expansion: what is not literal is left alone. PowerShell is read
//! by the same rules.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::transcript::Touch;
use crate::transcript::patch::file_head;

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
    let line = without_here_documents(line);
    let mut commands = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut in_word = false;
    let mut called = false;
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
                called &= in_word;
                in_word = true;
                while let Some(q) = chars.next() {
                    if q == c {
                        break;
                    }
                    // A path of Windows keeps its backslashes.
                    if q == '\\'
                        && c == '"'
                        && chars.peek().is_some_and(|n| matches!(n, '"' | '\\' | '$' | '`'))
                    {
                        word.extend(chars.next());
                    } else {
                        word.push(q);
                    }
                }
            }
            '\\' => {
                // A line continued is one line; before a letter it is a path of Windows.
                match chars.peek() {
                    Some('\n') | None => {
                        chars.next();
                    }
                    Some(next) if in_word && is_of_path(&word, *next) => word.push('\\'),
                    Some(_) => {
                        in_word = true;
                        word.extend(chars.next());
                    }
                }
            }
            '<' if chars.peek() == Some(&'<') => {
                end_word(&mut words, &mut word, &mut in_word);
                chars.next();
                while chars.next_if(|c| *c == '<').is_some() {}
                words.push("<<".to_owned());
            }
            '>' => {
                let descriptor = in_word && word.bytes().all(|b| b.is_ascii_digit() || b == b'*');
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
            // PowerShell continues a line with it.
            '`' if chars.peek() == Some(&'\n') => {
                chars.next();
                end_word(&mut words, &mut word, &mut in_word);
            }
            // What stands in `$(…)` is a command of its own.
            '(' if word.ends_with('$') => {
                word.pop();
                in_word = !word.is_empty();
                end_word(&mut words, &mut word, &mut in_word);
                end_command(&mut commands, &mut words);
            }
            '(' if in_word => {
                called = true;
                word.push(c);
            }
            '(' => {}
            // It ends a group of commands; behind `call(` it is part of the word.
            ')' if !(in_word && called) => {
                end_word(&mut words, &mut word, &mut in_word);
                end_command(&mut commands, &mut words);
            }
            '#' if !in_word => while chars.next_if(|c| *c != '\n').is_some() {},
            ';' | '\n' | '|' | '&' => {
                end_word(&mut words, &mut word, &mut in_word);
                end_command(&mut commands, &mut words);
            }
            c if c.is_whitespace() => end_word(&mut words, &mut word, &mut in_word),
            c => {
                called &= in_word;
                in_word = true;
                word.push(c);
            }
        }
    }
    end_word(&mut words, &mut word, &mut in_word);
    end_command(&mut commands, &mut words);
    commands
}

fn end_command(commands: &mut Vec<Vec<String>>, words: &mut Vec<String>) {
    if !words.is_empty() {
        commands.push(std::mem::take(words));
    }
}

/// Is a backslash between `word` and `next` part of a path of Windows?
fn is_of_path(word: &str, next: char) -> bool {
    next.is_alphanumeric()
        || (matches!(next, '.' | '_' | '-')
            && (word.as_bytes().get(1) == Some(&b':') || word.starts_with(".\\")))
}

/// `line` without the bodies of its here-documents: they obey no quoting, and may stand inside quotes themselves
/// (`-m "$(cat <<EOF…`). What follows the closing word stays.
fn without_here_documents(line: &str) -> Cow<'_, str> {
    let line = without_here_strings(line);
    let mut out = String::new();
    let mut rest = line.as_ref();
    while let Some((at, word)) = here_document(rest) {
        // The body begins with the next line and ends with a line that is the word alone.
        let Some(begin) = rest[at..].find('\n').map(|i| at + i + 1) else { break };
        let mut end = rest.len();
        let mut from = begin;
        for text in rest[begin..].split_inclusive('\n') {
            from += text.len();
            if text.trim() == word {
                end = from;
                break;
            }
        }
        out.push_str(&rest[..begin]);
        rest = &rest[end..];
    }
    if out.is_empty() {
        return line;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// `line` without the texts between `@'` at the end of a line and `'@` at the beginning of another, as PowerShell
/// writes them.
fn without_here_strings(line: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut rest = line;
    while let Some((at, end)) = here_string(rest) {
        let Some(length) = rest[at..].find(end) else { break };
        // One word stands in its place.
        out.push_str(&rest[..at]);
        out.push_str("@text");
        rest = &rest[at + length + end.len()..];
    }
    if out.is_empty() {
        return Cow::Borrowed(line);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Where the first here-string of PowerShell begins, and what ends it.
fn here_string(line: &str) -> Option<(usize, &'static str)> {
    line.match_indices('@').find_map(|(at, _)| {
        let quote = line[at + 1..].chars().next()?;
        let end = match quote {
            '\'' => "\n'@",
            '"' => "\n\"@",
            _ => return None,
        };
        let blank = line[at + 2..].trim_start_matches([' ', '\t', '\r']);
        blank.starts_with('\n').then_some((at, end))
    })
}

/// Where the first `<<WORD` begins and its word, if there is one; `<<<` gives a single string.
fn here_document(line: &str) -> Option<(usize, &str)> {
    let mut from = 0;
    while let Some(at) = line[from..].find("<<").map(|i| from + i) {
        let after = &line[at + 2..];
        let word = after.trim_start_matches('-').trim_start_matches([' ', '\\', '\'', '"']);
        let end = word.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(word.len());
        if !after.starts_with('<') && word.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            return Some((at, &word[..end]));
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
            let name = name.trim_start_matches("$env:");
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        });
        if assignment {
            rest = &rest[1..];
            continue;
        }
        rest = match first.as_str() {
            "sudo" | "time" | "env" | "exec" | "nohup" | "command" | "nice" | "stdbuf" | "!" | "if"
            | "then" | "do" | "else" | "while" | "{" | "npx" | "pnpx" | "bunx" | "uvx" | "corepack"
            | "xvfb-run" | "rtk" | "caffeinate" | "dotenv" | "Measure-Command" => &rest[1..],
            "timeout" | "gtimeout" => {
                let is_time = |word: &String| word.starts_with(|c: char| c == '-' || c.is_ascii_digit());
                let at = rest[1..].iter().position(|word| !is_time(word)).map_or(rest.len(), |at| at + 1);
                &rest[at..]
            }
            // `$out = go test`, as PowerShell keeps an output.
            name if name.starts_with('$') && rest.get(1).is_some_and(|word| word == "=") => &rest[2..],
            // Options of what went before.
            flag if flag.starts_with('-') && rest.len() < words.len() => {
                let valued = RUNNER_VALUED.contains(&flag) && words[0] != "time";
                &rest[if valued { 2.min(rest.len()) } else { 1 }..]
            }
            "uv" | "poetry" | "pipenv" | "bundle" | "mise" | "conda"
                if matches!(rest.get(1).map(String::as_str), Some("exec" | "x"))
                    || (first != "mise" && rest.get(1).is_some_and(|word| word == "run")) =>
            {
                &rest[2..]
            }
            "coverage" if rest.get(1).is_some_and(|word| word == "run") => {
                match rest.iter().position(|word| word == "-m") {
                    Some(at) => rest.get(at + 1..).unwrap_or_default(),
                    None => return rest,
                }
            }
            // `pnpm --filter web exec vitest`: what is run stands behind the verb.
            "npm" | "pnpm" | "yarn" | "bun" => {
                match rest.iter().position(|w| matches!(w.as_str(), "exec" | "dlx" | "x")) {
                    Some(at) if at + 1 < rest.len() => &rest[at + 1..],
                    _ => return rest,
                }
            }
            _ => return rest,
        };
    }
    rest
}

/// Options of programs that run others, which take the next word.
const RUNNER_VALUED: [&str; 14] = [
    "-p",
    "--package",
    "--with",
    "--extra",
    "--group",
    "--only-group",
    "--python",
    "--project",
    "--directory",
    "--env-file",
    "--from",
    "-u",
    "-n",
    "-k",
];

/// The base name of a program, whatever its folder and extension. Only PowerShell writes capital letters, and does not
/// tell them from small ones.
fn base(word: &str) -> String {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    let name = name.to_ascii_lowercase();
    let end = [".exe", ".cmd"].iter().find_map(|end| name.strip_suffix(end));
    end.map(str::to_owned).unwrap_or(name)
}

/// A script that is given to a shell: one word of it, or for the shells of Windows all that follow.
fn inner(words: &[String]) -> Option<Cow<'_, str>> {
    let shell = base(words.first()?);
    let is_windows = matches!(shell.as_str(), "pwsh" | "powershell" | "cmd");
    if !is_windows && !matches!(shell.as_str(), "bash" | "sh" | "zsh" | "dash") {
        return None;
    }
    let is_file = |word: &str| word.to_ascii_lowercase().ends_with(".ps1");
    let at = words[1..].iter().position(|word| {
        matches!(
            word.to_ascii_lowercase().as_str(),
            "-c" | "-lc" | "-ec" | "-command" | "-file" | "-f" | "/c"
        ) || (is_windows && is_file(word))
    })?;
    // A file stands for itself.
    let from = if is_file(&words[at + 1]) { at + 1 } else { at + 2 };
    match words.get(from..)? {
        [] => None,
        [one] => Some(Cow::Borrowed(one)),
        [one, ..] if !is_windows => Some(Cow::Borrowed(one)),
        all => Some(Cow::Owned(all.join(" "))),
    }
}

/// What kind of work `line` does; the most telling of its commands decides.
pub fn kind(line: &str) -> Option<Kind> {
    simple_commands(line).iter().filter_map(|words| kind_of(program(words), 0)).min()
}

/// Options that take the next word, which is no verb.
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

/// How many words of options may stand before what a container runs.
const INSIDE: usize = 24;

/// The words behind the program `name`, without the values of its options.
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

fn kind_of(words: &[String], depth: u32) -> Option<Kind> {
    use Kind::{Build, Lint, Run, Test};
    if let Some(script) = inner(words).filter(|_| depth < 3) {
        return simple_commands(&script).iter().filter_map(|words| kind_of(program(words), depth + 1)).min();
    }
    if words.first().is_some_and(|word| word == "test" || word == "[") {
        return None;
    }
    let name = base(words.first()?);
    let rest = operands(&name, words);
    let verb = rest.iter().find(|w| !w.starts_with(['-', '+', '>', '<'])).copied().unwrap_or_default();
    // What stands behind the verb, or from it on, may be a command of its own.
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
            // What is run inside is what counts.
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
        // A cmdlet says what it does by its own name: it is no runner of what stands behind it.
        _ if is_cmdlet(&words[0]) && !name.starts_with("invoke-") => None,
        _ if words[0].starts_with("./") || words[0].starts_with("../") || words[0].starts_with(".\\") => {
            Some(target(&name).or_else(|| target(verb)).unwrap_or(Run))
        }
        _ => {
            let script =
                [".sh", ".ps1", ".py", ".rb", ".js", ".bat"].iter().find_map(|end| name.strip_suffix(end));
            // Whatever the runner: a verb that says what it does.
            script.and_then(target).or_else(|| {
                let plain =
                    verb.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b':' | b'-' | b'_'));
                target(verb).filter(|_| plain && verb == rest.first().copied().unwrap_or_default())
            })
        }
    }
}

/// `Get-Content`, `New-Item`: two words that begin with capital letters and a hyphen between them.
fn is_cmdlet(word: &str) -> bool {
    word.split_once('-').is_some_and(|(verb, noun)| {
        let is_word = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_uppercase())
                && text.bytes().all(|b| b.is_ascii_alphanumeric())
        };
        is_word(verb) && is_word(noun)
    })
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
    // What is searched for or printed is no verb: another pattern is another try.
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

/// The folders that a line goes to: `cd x`, `git -C x`.
pub(super) fn folders(line: &str) -> Vec<String> {
    let mut out = Vec::new();
    for words in simple_commands(line) {
        let Some(name) = words.first() else { continue };
        let found = match base(name).as_str() {
            "cd" | "chdir" | "pushd" | "sl" | "set-location" | "push-location" => {
                words[1..].iter().find(|word| !word.starts_with('-') && *word != "/d")
            }
            "git" if words.get(1).is_some_and(|word| word == "-C") => words.get(2),
            _ => None,
        };
        out.extend(found.cloned());
    }
    out
}

/// Files that `line` writes, moves or removes by name.
pub fn changed(line: &str) -> Vec<(Touch, String)> {
    let mut found = patched(line);
    for words in simple_commands(line) {
        for pair in words.windows(2) {
            let plain = literal_path(&pair[1]) && !pair[1].contains(char::is_whitespace);
            if matches!(pair[0].as_str(), ">" | ">>") && plain {
                found.push((Touch::Edited, pair[1].clone()));
            }
        }
        let words = program(&words);
        let end = words.iter().position(|w| matches!(w.as_str(), ">" | ">>" | "<<")).unwrap_or(words.len());
        let words = &words[..end];
        let Some(name) = words.first() else { continue };
        let skip = 1 + usize::from(name == "git");
        let verb = if name == "git" { words.get(1).cloned().unwrap_or_default() } else { base(name) };
        let of_powershell = is_cmdlet(name) || verb.contains('-');
        let args = if of_powershell {
            paths_of(&words[1..])
        } else {
            words.get(skip..).unwrap_or_default().iter().collect()
        };
        let args: Vec<&String> =
            args.into_iter().filter(|w| !w.starts_with('-') && literal_path(w)).collect();
        match verb.as_str() {
            "rm" | "remove-item" | "del" | "ri" => {
                found.extend(args.into_iter().map(|path| (Touch::Deleted, path.clone())));
            }
            "mv" | "move-item" | "ren" | "rename-item" => {
                if let [from, to] = args.as_slice()
                    && has_name(to)
                {
                    // A new name alone stays in its folder.
                    let folder = from.rfind(['/', '\\']).filter(|_| verb.starts_with("ren"));
                    let folder = folder.filter(|_| !to.contains(['/', '\\']));
                    let to = folder.map_or_else(|| (*to).clone(), |at| format!("{}{to}", &from[..=at]));
                    found.push((Touch::Deleted, (*from).clone()));
                    found.push((Touch::Created, to));
                }
            }
            "tee" => found.extend(args.into_iter().map(|path| (Touch::Edited, path.clone()))),
            "set-content" | "add-content" | "out-file" | "tee-object" => {
                found.extend(
                    args.first().filter(|path| has_name(path)).map(|path| (Touch::Edited, (*path).clone())),
                );
            }
            "new-item" => {
                let is_folder = words.iter().any(|word| word.eq_ignore_ascii_case("directory"));
                let file = args.first().filter(|path| !is_folder && has_name(path));
                found.extend(file.map(|path| (Touch::Created, (*path).clone())));
            }
            "sed" | "perl" if words.iter().any(|w| w.starts_with("-i") || w.starts_with("-pi")) => {
                let files =
                    args.into_iter().filter(|path| has_name(path) && !path.contains(char::is_whitespace));
                found.extend(files.map(|path| (Touch::Edited, path.clone())));
            }
            _ => {}
        }
    }
    found
}

/// The files of a patch in Codex's envelope that a command carries.
fn patched(line: &str) -> Vec<(Touch, String)> {
    let Some((_, body)) = line.split_once("*** Begin Patch") else { return Vec::new() };
    if !line.contains("apply_patch") {
        return Vec::new();
    }
    body.lines().filter_map(file_head).map(|(touch, path)| (touch, path.to_owned())).collect()
}

/// The paths among the arguments of a cmdlet, in the order in which it takes them: those that are named, and those
/// that stand alone. The values of other parameters are none.
fn paths_of(words: &[String]) -> Vec<&String> {
    const PATHS: [&str; 6] = ["-path", "-literalpath", "-filepath", "-destination", "-newname", "-name"];
    const SWITCHES: [&str; 9] = [
        "-force",
        "-recurse",
        "-append",
        "-nonewline",
        "-raw",
        "-passthru",
        "-noclobber",
        "-whatif",
        "-verbose",
    ];
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let lower = word.to_ascii_lowercase();
        if !lower.starts_with('-') {
            found.push(word);
        } else if !SWITCHES.contains(&lower.as_str()) && !lower.contains(':') {
            at += 1;
            found.extend(words.get(at).filter(|_| PATHS.contains(&lower.as_str())));
        }
        at += 1;
    }
    found
}

/// The one file that `line` prints, if that is what it does.
pub fn reads(line: &str) -> Option<String> {
    let mut found = None;
    for words in simple_commands(line) {
        let words = program(&words);
        let Some(name) = words.first() else { continue };
        let name = base(name);
        match name.as_str() {
            "cd" | "echo" | "pwd" | "set-location" | "push-location" | "pop-location" | "write-output"
            | "write-host" | "true" | "printf" => {}
            "cat" | "sed" | "head" | "tail" | "nl" | "bat" | "less" | "type" | "get-content" | "gc"
            | "rg" | "grep" | "select-string" | "findstr" => {
                if words.iter().any(|w| matches!(w.as_str(), ">" | ">>" | "<<" | "-i")) {
                    return None;
                }
                let searching = matches!(name.as_str(), "rg" | "grep" | "select-string" | "findstr");
                let files: Vec<&String> = words[1..]
                    .iter()
                    .filter(|w| !w.starts_with('-') && literal_path(w) && has_name(w))
                    .filter(|w| !w.contains(char::is_whitespace))
                    .collect();
                match files.as_slice() {
                    // Behind a pipe it reads what the first one printed.
                    [] if found.is_some() => {}
                    [file] if found.is_none() && !(searching && words.len() < 3) => {
                        found = Some((*file).clone());
                    }
                    _ => return None,
                }
            }
            "wc" | "sort" | "uniq" | "cut" | "awk" | "tr" | "jq" | "select-object" | "select"
            | "out-string" | "where-object" | "sort-object" | "measure-object"
                if found.is_some() => {}
            _ => return None,
        }
    }
    found
}

/// The lines that `sed -n 'A,Bp'` and `Get-Content | Select-Object -Skip A -First B` print.
pub fn range(line: &str) -> Option<(u32, u32)> {
    let commands = simple_commands(line);
    let mut commands = commands.iter().map(|words| program(words));
    let words = commands.find(|words| {
        let name = words.first().map(|name| base(name)).unwrap_or_default();
        matches!(name.as_str(), "sed" | "head" | "select-object" | "select")
            || (name == "get-content" && value_of(words, &FIRST).is_some())
    })?;
    if let Some(count) = value_of(words, &FIRST).filter(|_| is_of_powershell(words)) {
        let from = value_of(words, &["-skip"]).unwrap_or(0) + 1;
        return Some((from, from + count.checked_sub(1)?));
    }
    words.iter().find_map(|word| {
        let (from, to) = word.strip_suffix('p')?.split_once(',')?;
        Some((from.parse().ok()?, to.parse().ok()?))
    })
}

/// How PowerShell names a number of lines from the beginning.
const FIRST: [&str; 3] = ["-first", "-totalcount", "-head"];

fn is_of_powershell(words: &[String]) -> bool {
    let name = words.first().map(|name| base(name)).unwrap_or_default();
    matches!(name.as_str(), "select-object" | "select" | "get-content" | "gc")
}

/// The number behind one of the parameters `names`.
fn value_of(words: &[String], names: &[&str]) -> Option<u32> {
    let at = words.iter().position(|word| names.contains(&word.to_ascii_lowercase().as_str()))?;
    words.get(at + 1)?.parse().ok()
}

/// A stretch of a command's output: whose text it is, where that begins in the file, and how many lines it may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stretch {
    pub file: Option<String>,
    pub from: u32,
    pub lines: Option<u32>,
}

/// What `line` prints one after the other, up to the first command of which nobody knows how much it prints. Nothing
/// where fewer than two files are read.
pub(super) fn prints(line: &str) -> Vec<Stretch> {
    let mut out: Vec<Stretch> = Vec::new();
    for words in simple_commands(line) {
        let words = program(&words);
        let Some(name) = words.first() else { continue };
        if words.iter().any(|w| matches!(w.as_str(), ">" | ">>" | "<<" | "-i")) {
            break;
        }
        let counted = |lines| Stretch { file: None, from: 0, lines: Some(lines) };
        match base(name).as_str() {
            "cd" | "true" | "set-location" => {}
            "echo" | "pwd" | "write-output" | "write-host" => out.push(counted(1)),
            "printf" => {
                let breaks = words.get(1).map_or(0, |text| text.matches("\\n").count());
                out.push(counted(u32::try_from(breaks).unwrap_or(0)));
            }
            "cat" | "sed" | "head" | "tail" | "nl" | "bat" | "get-content" | "gc" | "select-object"
            | "select" => {
                let files: Vec<&String> =
                    words[1..].iter().filter(|w| literal_path(w) && has_name(w)).collect();
                let (from, lines) = window(words);
                match (files.as_slice(), out.last_mut()) {
                    ([file], _) => out.push(Stretch { file: Some((*file).clone()), from, lines }),
                    // Behind a pipe it cuts what the one before printed.
                    ([], Some(last)) if last.lines.is_none() => (last.from, last.lines) = (from, lines),
                    _ => break,
                }
            }
            _ => break,
        }
    }
    if out.iter().filter(|part| part.file.is_some()).count() < 2 { Vec::new() } else { out }
}

/// The first line and the number of lines that `sed -n 'A,Bp'`, `head -n N` and `Select-Object -First N` print.
fn window(words: &[String]) -> (u32, Option<u32>) {
    let of_range = |word: &String| {
        let (from, to) = word.strip_suffix('p')?.split_once(',')?;
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        Some((from, Some(to.checked_sub(from)? + 1)))
    };
    if is_of_powershell(words) {
        let from = value_of(words, &["-skip"]).unwrap_or(0) + 1;
        let last = value_of(words, &["-last", "-tail"]);
        return match (value_of(words, &FIRST), last) {
            (None, Some(last)) => (0, Some(last)),
            (first, _) => (from, first),
        };
    }
    if let Some(range) = words.iter().find_map(of_range) {
        return range;
    }
    let count = |word: &String| word.trim_start_matches("-n").trim_start_matches('-').parse().ok();
    match words.first().map(|name| base(name)).as_deref() {
        Some("head") => (1, words[1..].iter().find_map(count).or(Some(10))),
        Some("tail") => (0, words[1..].iter().find_map(count).or(Some(10))),
        _ => (1, None),
    }
}

fn has_name(path: &str) -> bool {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    name.rsplit_once('.').is_some_and(|(_, ext)| {
        (1..=10).contains(&ext.len())
            && ext.bytes().all(|b| b.is_ascii_alphanumeric())
            && !ext.bytes().all(|b| b.is_ascii_digit())
    }) || matches!(name, "Makefile" | "Dockerfile" | "justfile" | "Rakefile" | "Gemfile" | "LICENSE")
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
    fn another_pattern_is_another_try_at_the_same_search() {
        assert_eq!(topic("rg -n 'test:unit|cargo test' mise.toml"), topic("rg -n unit mise.toml tasks"));
        assert_ne!(topic("git push origin"), topic("git pull origin"));
    }

    #[test]
    fn a_command_that_prints_several_files_says_how_much_of_each() {
        let part = |file: Option<&str>, from, lines| Stretch { file: file.map(str::to_owned), from, lines };
        assert_eq!(
            prints(
                "cd app && sed -n '11,20p' src/a.rs && echo -- && nl -ba src/b.rs | sed -n '1,5p'; git log -3"
            ),
            [
                part(Some("src/a.rs"), 11, Some(10)),
                part(None, 0, Some(1)),
                part(Some("src/b.rs"), 1, Some(5))
            ]
        );
        assert_eq!(
            prints("head -30 a.go; cat b.go"),
            [part(Some("a.go"), 1, Some(30)), part(Some("b.go"), 1, None)]
        );
        assert_eq!(prints("cat a.go"), [], "one file is no list");
        assert_eq!(prints("make && cat a.go && cat b.go"), [], "nobody knows how much make prints");
    }

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
    fn tests_of_any_runner_are_known() {
        let cases = [
            ("cat > a_test.go <<'EOF'\nfunc TestX() { go build }\nEOF\ngo test ./...", Some(Kind::Test)),
            ("pnpm --filter @acme/web exec vitest run src/a.test.ts", Some(Kind::Test)),
            ("corepack pnpm -C packages/api test", Some(Kind::Test)),
            ("Invoke-Pester -Path ./tests -Output Detailed", Some(Kind::Test)),
            ("pwsh -NoProfile -Command \"Invoke-Pester ./tests\"", Some(Kind::Test)),
            ("$env:CI='1'; dotnet test tests\\Unit.csproj --nologo", Some(Kind::Test)),
            ("bash -lc 'cd x && make test'", Some(Kind::Test)),
            ("bun test --filter trace", Some(Kind::Test)),
            ("php artisan test --parallel", Some(Kind::Run)),
            ("rails test test/models", Some(Kind::Test)),
            ("& 'C:\\Program Files\\dotnet\\dotnet.exe' build", Some(Kind::Build)),
            ("py -3 -m pytest", Some(Kind::Test)),
            ("python -m coverage run -m pytest", Some(Kind::Test)),
            ("uv run --extra dev --with tox pytest -q", Some(Kind::Test)),
            ("pdm run test:unit", Some(Kind::Test)),
            (r"C:\app\.venv\Scripts\python.exe -m pytest", Some(Kind::Test)),
            ("ty check src", Some(Kind::Lint)),
            ("cargo +nightly miri test", Some(Kind::Test)),
            ("cargo xtask lint", Some(Kind::Lint)),
            ("pnpm tsc --noEmit", Some(Kind::Build)),
            ("pnpm -w lint", Some(Kind::Lint)),
            ("yarn jest --ci", Some(Kind::Test)),
            ("npx -p typescript tsc -b", Some(Kind::Build)),
            ("node --test", Some(Kind::Test)),
            ("node node_modules/jest/bin/jest.js", Some(Kind::Test)),
            ("docker compose run --rm app pytest", Some(Kind::Test)),
            ("out=$(go test ./... 2>&1); echo \"$out\"", Some(Kind::Test)),
            ("(cd web && vitest)", Some(Kind::Test)),
            ("timeout -k 5 120 cargo test", Some(Kind::Test)),
            ("invoke-pester ./tests", Some(Kind::Test)),
            ("pwsh -NoProfile -ExecutionPolicy Bypass -File tests/run-tests.ps1", Some(Kind::Test)),
            ("cmd.exe /c npm run build", Some(Kind::Build)),
            ("Invoke-ScriptAnalyzer -Path .", Some(Kind::Lint)),
            ("go test `\n  -run TestX", Some(Kind::Test)),
            ("$text = @'\ngo test ./...\n'@; Write-Output $text", None),
            ("New-Item tests -ItemType Directory", None),
            ("Copy-Item build dist", None),
            ("docker compose up -d", None),
            ("git log --grep test", None),
            ("ls tests", None),
        ];
        for (line, want) in cases {
            assert_eq!(kind(line), want, "{line}");
        }
    }

    #[test]
    fn files_changed_are_those_named_literally() {
        let paths = |line: &str| {
            changed(line).into_iter().map(|(touch, path)| format!("{touch:?} {path}")).collect::<Vec<_>>()
        };
        assert_eq!(
            paths("cd a && rm -f b.txt 'c d.txt' *.o $X 2>/dev/null"),
            ["Deleted b.txt", "Deleted c d.txt"]
        );
        assert_eq!(paths("git rm --cached old.rs"), ["Deleted old.rs"]);
        assert_eq!(
            paths("cat > notes.md <<'EOF'\n> not-this\nEOF\necho x > more.md"),
            ["Edited notes.md", "Edited more.md"]
        );
        assert_eq!(
            paths(
                r"Set-Content -Path src\a.ps1 -Value done.txt; Rename-Item src\b.ps1 c.ps1; New-Item -ItemType File d.ps1"
            ),
            [r"Edited src\a.ps1", r"Deleted src\b.ps1", r"Created src\c.ps1", "Created d.ps1"]
        );
        assert_eq!(
            paths(
                "Remove-Item -Path x.ps1 -Force -ErrorAction SilentlyContinue; New-Item out -ItemType Directory"
            ),
            ["Deleted x.ps1"]
        );
        assert_eq!(
            paths(
                "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a.py\n+x = 1 > 0\n*** End Patch\nEOF\npytest"
            ),
            ["Created a.py"]
        );
        let message = "git commit -m \"$(cat <<'EOF'\nsay \"x > y\" twice\nEOF\n)\"";
        assert_eq!(paths(message), [""; 0]);
        assert_eq!(paths("make 2>&1 >/dev/null; echo 'a > b' >> log.txt"), ["Edited log.txt"]);
        assert_eq!(
            paths("sed -i 's/a/b/' src/x.rs && mv a.rs b.rs"),
            ["Edited src/x.rs", "Deleted a.rs", "Created b.rs"]
        );
    }

    #[test]
    fn a_command_that_prints_one_file_is_a_read() {
        assert_eq!(reads("sed -n '1,120p' src/a.rs").as_deref(), Some("src/a.rs"));
        assert_eq!(range("sed -n '1,120p' src/a.rs"), Some((1, 120)));
        let windows = r"Get-Content C:\app\a.go | Select-Object -Skip 100 -First 40";
        assert_eq!(reads(windows).as_deref(), Some(r"C:\app\a.go"));
        assert_eq!(range(windows), Some((101, 140)));
        assert_eq!(reads("cd app && cat Makefile | head -5").as_deref(), Some("Makefile"));
        assert_eq!(reads("rg -n foo src/b.ts").as_deref(), Some("src/b.ts"));
        for no in ["cat a.rs b.rs", "rg -n foo src", "cat > x.rs", "cargo test", "sed -i s/a/b/ x.rs"] {
            assert_eq!(reads(no), None, "{no}");
        }
    }

    #[test]
    fn two_tries_at_one_thing_share_a_topic() {
        assert_eq!(topic("go test ./a"), topic("cd b && go test -run X ./b 2>&1 | tail"));
        assert_ne!(topic("go test ./a"), topic("go build ./a"));
        assert_eq!(topic("git push origin x"), "git push");
    }
}
