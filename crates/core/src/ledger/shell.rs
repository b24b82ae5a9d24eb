//! Reading a shell command line as far as facts need it: its simple commands, their words, what kind of work they
//! do, and which files they read, write or remove. No expansion: what is not literal is left alone. PowerShell is read
//! by the same rules.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::transcript::Touch;

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
                    Some(next) if next.is_alphanumeric() && in_word => word.push('\\'),
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

/// `line` without the bodies of its here-documents: they obey no quoting, and may stand inside quotes themselves
/// (`-m "$(cat <<EOF…`). What follows the closing word stays.
fn without_here_documents(line: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut rest = line;
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
        return Cow::Borrowed(line);
    }
    out.push_str(rest);
    Cow::Owned(out)
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
            | "then" | "do" | "while" | "{" | "npx" | "pnpx" | "bunx" | "uvx" | "corepack" | "xvfb-run"
            | "rtk" | "caffeinate" | "dotenv" => &rest[1..],
            "timeout" | "gtimeout" => rest.get(2..).unwrap_or_default(),
            // Options of what went before.
            flag if flag.starts_with('-') && rest.len() < words.len() => &rest[1..],
            "uv" | "poetry" | "pipenv" | "bundle" | "rye" | "hatch" | "mise" | "pixi" | "conda"
                if matches!(rest.get(1).map(String::as_str), Some("exec" | "x"))
                    || (first != "mise" && rest.get(1).is_some_and(|word| word == "run")) =>
            {
                &rest[2..]
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

/// The base name of a program, whatever its folder and extension.
fn base(word: &str) -> &str {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    name.strip_suffix(".exe").or_else(|| name.strip_suffix(".cmd")).unwrap_or(name)
}

/// A script that is given to a shell as one word.
fn inner(words: &[String]) -> Option<&str> {
    let shell =
        matches!(base(words.first()?), "bash" | "sh" | "zsh" | "dash" | "pwsh" | "powershell" | "cmd");
    let at = words
        .iter()
        .position(|w| matches!(w.as_str(), "-c" | "-lc" | "-Command" | "-command" | "/c" | "-ec"))?;
    words.get(at + 1).filter(|_| shell).map(String::as_str)
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

fn kind_of(words: &[String], depth: u32) -> Option<Kind> {
    use Kind::{Build, Lint, Run, Test};
    if let Some(script) = inner(words).filter(|_| depth < 3) {
        return simple_commands(script).iter().filter_map(|words| kind_of(program(words), depth + 1)).min();
    }
    if words.first().is_some_and(|word| word == "test" || word == "[") {
        return None;
    }
    let base = base(words.first()?);
    let mut rest: Vec<&str> = Vec::with_capacity(words.len());
    let mut valued = false;
    for word in words[1..].iter().map(String::as_str) {
        if !valued {
            rest.push(word);
        }
        valued = VALUED.contains(&word);
    }
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
        | "tape" | "busted" | "Invoke-Pester" | "pester" | "minitest" | "prove" | "hurl" | "k6"
        | "bats-core" | "wtr" | "detox" | "maestro" | "xctest" | "unittest" | "trial" => Some(Test),
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
                ("make" | "gmake", _) | ("mvn" | "mvnw", "package" | "install" | "verify") => Some(Build),
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
        "git" | "gh" | "grep" | "rg" | "ls" | "cat" | "echo" | "cd" | "find" | "sed" | "awk" | "head"
        | "tail" | "mkdir" | "rm" | "cp" | "mv" | "curl" | "wget" | "kill" | "pkill" | "ps" | "which"
        | "sleep" | "printf" | "export" | "source" | "wc" | "sort" | "jq" | "xargs" | "chmod" | "touch"
        | "brew" | "apt" | "pip" | "pip3" | "tree" | "diff" | "stat" | "file" | "du" | "df" | "open"
        | "code" | "ssh" | "scp" | "Get-ChildItem" | "Get-Content" | "Select-String" | "Set-Location"
        | "Write-Output" | "Write-Host" => None,
        _ if words[0].starts_with("./") || words[0].starts_with("../") || words[0].starts_with(".\\") => {
            Some(target(base).or_else(|| target(verb)).unwrap_or(Run))
        }
        _ => {
            let script =
                [".sh", ".ps1", ".py", ".rb", ".js", ".bat"].iter().find_map(|end| base.strip_suffix(end));
            // Whatever the runner: a verb that says what it does.
            script.and_then(target).or_else(|| {
                let plain =
                    verb.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b':' | b'-' | b'_'));
                target(verb).filter(|_| plain && verb == rest.first().copied().unwrap_or_default())
            })
        }
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
    let telling = commands.iter().map(|words| program(words)).find(|words| kind_of(words, 0).is_some());
    let Some(words) = telling.or_else(|| {
        let idle =
            |w: &[String]| w.first().is_none_or(|p| matches!(p.as_str(), "cd" | "echo" | "set" | "export"));
        commands.iter().map(|words| program(words)).find(|words| !idle(words))
    }) else {
        return String::new();
    };
    // What is searched for or printed is no verb: another pattern is another try.
    let looks = matches!(
        base(&words[0]),
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
            | "Select-String"
    );
    let verb = words[1..]
        .iter()
        .filter(|_| !looks)
        .find(|w| w.starts_with(|c: char| c.is_ascii_alphabetic()) && !w.contains(['/', '.']));
    match verb {
        Some(verb) => format!("{} {verb}", words[0]),
        None => words[0].clone(),
    }
}

/// The folders that a line goes to: `cd x`, `git -C x`.
pub(super) fn folders(line: &str) -> Vec<String> {
    let mut out = Vec::new();
    for words in simple_commands(line) {
        let at = match words.first().map(String::as_str) {
            Some("cd" | "pushd" | "Set-Location") => 1,
            Some("git") if words.get(1).is_some_and(|word| word == "-C") => 2,
            _ => continue,
        };
        out.extend(words.get(at).cloned());
    }
    out
}

/// Files that `line` writes, moves or removes by name.
pub fn changed(line: &str) -> Vec<(Touch, String)> {
    let mut found = Vec::new();
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
        let verb = if name == "git" { words.get(1).map_or("", String::as_str) } else { base(name) };
        let args = words.get(skip..).unwrap_or_default().iter();
        let args: Vec<&String> = args.filter(|w| !w.starts_with('-') && literal_path(w)).collect();
        match verb {
            "rm" | "Remove-Item" | "del" => {
                found.extend(args.into_iter().map(|path| (Touch::Deleted, path.clone())));
            }
            "mv" | "Move-Item" | "ren" => {
                if let [from, to] = args.as_slice()
                    && has_name(to)
                {
                    found.push((Touch::Deleted, (*from).clone()));
                    found.push((Touch::Created, (*to).clone()));
                }
            }
            "tee" => found.extend(args.into_iter().map(|path| (Touch::Edited, path.clone()))),
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

/// The one file that `line` prints, if that is what it does.
pub fn reads(line: &str) -> Option<String> {
    let mut found = None;
    for words in simple_commands(line) {
        let words = program(&words);
        let Some(name) = words.first() else { continue };
        match base(name) {
            "cd" | "echo" | "pwd" | "Set-Location" | "true" | "printf" => {}
            "cat" | "sed" | "head" | "tail" | "nl" | "bat" | "less" | "type" | "Get-Content" | "gc"
            | "rg" | "grep" => {
                if words.iter().any(|w| matches!(w.as_str(), ">" | ">>" | "<<" | "-i")) {
                    return None;
                }
                let searching = matches!(base(name), "rg" | "grep");
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
            "wc" | "sort" | "uniq" | "cut" | "awk" | "tr" | "jq" if found.is_some() => {}
            _ => return None,
        }
    }
    found
}

/// The lines that `sed -n 'A,Bp'` and `head -n B` print.
pub fn range(line: &str) -> Option<(u32, u32)> {
    let commands = simple_commands(line);
    let words = commands
        .iter()
        .map(|words| program(words))
        .find(|words| words.first().is_some_and(|name| matches!(base(name), "sed" | "head")))?;
    words.iter().find_map(|word| {
        let (from, to) = word.strip_suffix('p')?.split_once(',')?;
        Some((from.parse().ok()?, to.parse().ok()?))
    })
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
        match base(name) {
            "cd" | "true" | "Set-Location" => {}
            "echo" | "pwd" => out.push(counted(1)),
            "printf" => {
                let breaks = words.get(1).map_or(0, |text| text.matches("\\n").count());
                out.push(counted(u32::try_from(breaks).unwrap_or(0)));
            }
            "cat" | "sed" | "head" | "tail" | "nl" | "bat" | "Get-Content" | "gc" => {
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

/// The first line and the number of lines that `sed -n 'A,Bp'` and `head -n N` print.
fn window(words: &[String]) -> (u32, Option<u32>) {
    let of_range = |word: &String| {
        let (from, to) = word.strip_suffix('p')?.split_once(',')?;
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        Some((from, Some(to.checked_sub(from)? + 1)))
    };
    if let Some(range) = words.iter().find_map(of_range) {
        return range;
    }
    let count = |word: &String| word.trim_start_matches("-n").trim_start_matches('-').parse().ok();
    match words.first().map(|name| base(name)) {
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
