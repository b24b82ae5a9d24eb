//! The files that a line reads, writes, moves or removes, and the folders that it goes to.

use crate::transcript::Touch;
use crate::transcript::patch::file_head;

use super::program::{base, is_cmdlet, program};
use super::syntax::simple_commands;

/// The folders that a line goes to: `cd x`, `git -C x`.
pub(in crate::ledger) fn folders(line: &str) -> Vec<String> {
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
pub(in crate::ledger) fn changed(line: &str) -> Vec<(Touch, String)> {
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

/// The paths among the arguments of a cmdlet, in the order in which it takes them: named and positional ones, but not
/// the values of other parameters.
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

/// The one file that `line` prints, if it prints one.
pub(in crate::ledger) fn reads(line: &str) -> Option<String> {
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
                    // After a pipe it reads the output of the first one.
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
pub(in crate::ledger) fn range(line: &str) -> Option<(u32, u32)> {
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

/// PowerShell's parameters for a number of lines from the beginning.
const FIRST: [&str; 3] = ["-first", "-totalcount", "-head"];

fn is_of_powershell(words: &[String]) -> bool {
    let name = words.first().map(|name| base(name)).unwrap_or_default();
    matches!(name.as_str(), "select-object" | "select" | "get-content" | "gc")
}

/// The number after one of the parameters `names`.
fn value_of(words: &[String], names: &[&str]) -> Option<u32> {
    let at = words.iter().position(|word| names.contains(&word.to_ascii_lowercase().as_str()))?;
    words.get(at + 1)?.parse().ok()
}

/// A stretch of a command's output: the file it comes from, where in the file it begins, and how many lines it may
/// have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ledger) struct Stretch {
    pub file: Option<String>,
    pub from: u32,
    pub lines: Option<u32>,
}

/// The parts of files that `line` prints, up to the first command with an unknown amount of output. Empty if it reads
/// fewer than two files.
pub(in crate::ledger) fn prints(line: &str) -> Vec<Stretch> {
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
                    // After a pipe it cuts the output of the previous one.
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
