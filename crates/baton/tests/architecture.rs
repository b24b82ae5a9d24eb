//! The code matches ARCHITECTURE.md: rooms import only rooms below them, and providers are rows of a table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The rooms of the binary from top to bottom. Each may use only those below it.
const ROOMS: [&str; 21] = [
    "hooks",
    "cli",
    "tui",
    "daemon",
    "demo",
    "setup",
    "fleet",
    "views",
    "rotation",
    "approvals",
    "sessions",
    "handoffs",
    "mail",
    "history",
    "project",
    "store",
    "config",
    "providers",
    "sys",
    "lib",
    "main",
];
/// Below the last room that holds code; `lib` and `main` only put the others together.
const CODE: usize = 19;

fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            sources(&entry.path(), into);
        } else if entry.path().extension().is_some_and(|x| x == "rs") {
            into.push(entry.path());
        }
    }
}

fn crates() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The files below `dir` (relative to `crates/`) by path, without comments.
pub(crate) fn code_of(dir: &str) -> BTreeMap<String, String> {
    let root = crates().join(dir);
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 50, "the sources of {dir} were not found");
    let text = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).unwrap();
        text.lines()
            .map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n")
            .collect::<String>()
    };
    files.iter().map(|file| (file.strip_prefix(&root).unwrap().display().to_string(), text(file))).collect()
}

/// The code of a file up to its module of tests.
pub(crate) fn without_tests(code: &str) -> &str {
    code.split("\nmod tests {").next().unwrap_or_default()
}

fn room_of(file: &str) -> &str {
    file.split('/').next().unwrap().trim_end_matches(".rs")
}

/// The path that leads from a file to the crate: `super::` as often as the file is deep.
fn way_up(file: &str) -> String {
    let folders = file.matches('/').count();
    "super::".repeat(if file.ends_with("/mod.rs") { folders } else { folders + 1 })
}

/// The length of the identifier that `text` begins with.
fn word(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// Splits what follows an opening brace at the commas of this level, up to its closing brace.
fn members(group: &str) -> Vec<&str> {
    let mut members = Vec::new();
    let (mut depth, mut start) = (1, 0);
    for (i, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (c == ',' && depth == 1) {
            members.push(group[start..i].trim());
            start = i + 1;
        }
        if depth == 0 {
            break;
        }
    }
    members
}

/// The modules that a path such as `mail::{deliver, maildir::Mail}` leads to, each as its names joined by `/`.
fn expand(path: &str, before: &str, into: &mut Vec<String>) {
    if let Some(group) = path.strip_prefix('{') {
        return members(group).into_iter().for_each(|member| expand(member, before, into));
    }
    let name = &path[..word(path)];
    if name.is_empty() || name == "self" {
        if !before.is_empty() {
            into.push(before.to_owned());
        }
        return;
    }
    let here = if before.is_empty() { name.to_owned() } else { format!("{before}/{name}") };
    match path[name.len()..].strip_prefix("::") {
        Some(rest) => expand(rest, &here, into),
        None => into.push(here),
    }
}

/// The paths of the crate that the code of `file` names, each as its names joined by `/`: of `crate::room::…`,
/// `crate::{room::…, room}`, and the same with `super::` for the crate.
fn paths_named(file: &str, code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let up = way_up(file);
    for (at, root) in code.match_indices("crate::").chain(code.match_indices(&up)) {
        expand(&code[at + root.len()..], "", &mut paths);
    }
    paths
}

fn rooms_named(file: &str, code: &str) -> Vec<String> {
    let mut rooms: Vec<String> =
        paths_named(file, code).iter().map(|path| room_of(path).to_owned()).collect();
    rooms.dedup();
    rooms
}

/// The file of the module that `path` leads to. Its last names may be an item, so they are left off until a file fits.
fn file_of<'f>(path: &str, files: &'f BTreeMap<String, String>) -> &'f str {
    let mut module = path;
    loop {
        let fits = [format!("{module}.rs"), format!("{module}/mod.rs")];
        if let Some(file) = files.keys().find(|file| fits.contains(file)) {
            return file;
        }
        match module.rsplit_once('/') {
            Some((parent, _)) => module = parent,
            None => return "",
        }
    }
}

/// Lists each file with each room above it that it uses.
fn reaches_up(files: &BTreeMap<String, String>) -> Vec<String> {
    let place = |room: &str| ROOMS.iter().position(|r| *r == room);
    let mut found = Vec::new();
    for (file, code) in files {
        let room = room_of(file);
        let Some(here) = place(room) else {
            found.push(format!("{file}: the room {room} has no place in the order"));
            continue;
        };
        for path in paths_named(file, code) {
            let used = room_of(&path);
            let Some(there) = place(used) else { continue };
            if there < here && here < CODE {
                let target = file_of(&path, files);
                found.push(format!("{file} uses {used} ({target}), which is above {room}"));
            }
        }
    }
    found.dedup();
    found
}

#[test]
fn no_room_reaches_up() {
    assert_eq!(reaches_up(&code_of("baton/src")), [""; 0], "move what both need down, or pass it in");
}

/// The modules of one cycle, each as "file uses module", or nothing. `room_of` decides which module a file is in.
fn a_cycle(files: &BTreeMap<String, String>) -> Vec<String> {
    let mut uses: BTreeMap<&str, BTreeMap<String, &str>> = BTreeMap::new();
    for (file, code) in files {
        let here = room_of(file);
        for there in rooms_named(file, code) {
            if there != here && files.keys().any(|f| room_of(f) == there) {
                uses.entry(here).or_default().entry(there).or_insert(file);
            }
        }
    }
    // Remove modules that use no module left in the map; they are in no cycle.
    loop {
        let known: Vec<&str> = uses.keys().copied().collect();
        for targets in uses.values_mut() {
            targets.retain(|target, _| known.contains(&target.as_str()));
        }
        let before = uses.len();
        uses.retain(|_, targets| !targets.is_empty());
        if uses.len() == before {
            break;
        }
    }
    let Some(mut at) = uses.keys().next().copied() else { return Vec::new() };
    let mut way: Vec<&str> = Vec::new();
    while !way.contains(&at) {
        way.push(at);
        at = uses[at].keys().next().unwrap();
    }
    let cycle = &way[way.iter().position(|m| *m == at).unwrap()..];
    let next = |i: usize| cycle[(i + 1) % cycle.len()];
    cycle.iter().enumerate().map(|(i, m)| format!("{} uses {}", uses[m][next(i)], next(i))).collect()
}

#[test]
fn the_core_has_no_cycle_of_modules() {
    let mut files = code_of("core/src");
    // Tests and simulations combine modules as a caller does.
    files.retain(|file, _| file != "lib.rs" && !file.contains("test") && !file.contains("simulation"));
    for code in files.values_mut() {
        *code = without_tests(code).to_owned();
    }
    assert_eq!(a_cycle(&files), [""; 0], "move what both need down, or pass it in");
}

#[test]
fn a_cycle_is_found_and_named_by_its_files() {
    let files =
        |list: &[(&str, &str)]| list.iter().map(|(f, c)| ((*f).to_owned(), (*c).to_owned())).collect();
    let ring = files(&[
        ("a.rs", "use crate::b::X;"),
        ("b/mod.rs", ""),
        ("b/deep.rs", "use crate::{c, d::Y};"),
        ("c.rs", "fn f() { crate::a::g() }"),
        ("d.rs", ""),
        ("top.rs", "use crate::a;"),
    ]);
    assert_eq!(a_cycle(&ring), ["a.rs uses b", "b/deep.rs uses c", "c.rs uses a"]);
    let tree = files(&[("a.rs", "use crate::b;"), ("b.rs", "use crate::c;"), ("c.rs", "")]);
    assert_eq!(a_cycle(&tree), [""; 0]);
}

#[test]
fn hooks_are_imported_by_nobody() {
    for (file, code) in code_of("baton/src") {
        let entry = ["main.rs", "lib.rs"].contains(&file.as_str()) || room_of(&file) == "hooks";
        assert!(entry || !rooms_named(&file, &code).contains(&"hooks".to_owned()), "{file}");
    }
}

/// The parts of the standard library that reach outside and that `code` names: `std::fs`, `std::{fmt, fs}`.
fn reaches_out(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for part in ["fs", "env", "net", "process"] {
        let grouped = code.split("std::{").skip(1).filter_map(|rest| rest.split(';').next());
        let mut words = grouped.flat_map(|group| group.split(|c: char| !c.is_alphanumeric() && c != '_'));
        if code.contains(&format!("std::{part}")) || words.any(|word| word == part) {
            found.push(part);
        }
    }
    found.extend(
        ["Timestamp::now", "SystemTime::now", "Instant::now"].iter().filter(|now| code.contains(**now)),
    );
    found
}

#[test]
fn the_core_touches_nothing() {
    for (file, code) in code_of("core/src") {
        assert_eq!(reaches_out(without_tests(&code)), [""; 0], "{file}");
    }
    assert_eq!(reaches_out("use std::{fmt, fs::File};"), ["fs"]);
    assert_eq!(reaches_out("use std::{fmt, mem};\nlet env = 1;"), [""; 0]);
    assert_eq!(reaches_out("let at = Timestamp::now();"), ["Timestamp::now"]);
}

#[test]
fn unsafe_code_is_in_sys_alone() {
    for (file, code) in code_of("baton/src").into_iter().chain(code_of("core/src")) {
        assert!(file.starts_with("sys/") || !code.contains("unsafe "), "{file}");
    }
}

#[test]
fn the_search_for_rooms_finds_every_form_of_a_path() {
    let named = |code| rooms_named("a/b.rs", code);
    assert_eq!(named("use crate::mail::maildir::Mail;"), ["mail"]);
    assert_eq!(named("use crate::{mail, store::{Store, log}, sys};"), ["mail", "store", "sys"]);
    assert_eq!(named("let x = crate::cli::ui::print(y);"), ["cli"]);
    assert_eq!(named("use super::super::{mail, cli::ui};"), ["mail", "cli"]);
    assert_eq!(rooms_named("a/mod.rs", "use super::mail::deliver;"), ["mail"]);
    assert_eq!(
        rooms_named("a/b/c.rs", "use super::super::mail::deliver;"),
        [""; 0],
        "a folder of its own room"
    );
    let tree = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(file, code)| ((*file).to_owned(), (*code).to_owned())).collect::<BTreeMap<_, _>>()
    };
    let up = reaches_up(&tree(&[
        ("mail/deliver.rs", "use crate::rotation::journal;"),
        ("rotation/actuators/mod.rs", ""),
        ("rotation/journal.rs", ""),
    ]));
    assert_eq!(up, ["mail/deliver.rs uses rotation (rotation/journal.rs), which is above mail"]);
    let file = |path| {
        let (used, root) = ("cli/ui/table.rs", "cli/ui/mod.rs");
        file_of(path, &tree(&[("cli/args.rs", ""), (used, ""), (root, "")])).to_owned()
    };
    assert_eq!(file("cli/ui/table/Cell"), "cli/ui/table.rs", "an item of a file");
    assert_eq!(file("cli/ui/print"), "cli/ui/mod.rs", "an item of a folder");
    assert!(
        reaches_up(&tree(&[("rotation/a.rs", "use crate::mail::announce;"), ("mail/b.rs", "")])).is_empty()
    );
}

/// A program that listens on our port gets no token from us, because we never connect to a port.
#[test]
fn nothing_of_ours_connects_to_a_tcp_port() {
    for (file, code) in code_of("baton/src") {
        let code = without_tests(&code);
        for way in ["TcpStream", "TcpSocket", "net::connect", "connect_any"] {
            assert!(!code.contains(way), "{file} uses {way}");
        }
    }
}

/// The text of ARCHITECTURE.md.
fn page() -> String {
    std::fs::read_to_string(crates().join("../ARCHITECTURE.md")).unwrap()
}

#[test]
fn the_page_lists_the_rooms_in_their_order_and_no_others() {
    let page = page();
    let table = page.lines().skip_while(|line| !line.starts_with("| room |")).skip(2);
    let listed: Vec<&str> = table.map_while(|line| line.strip_prefix("| `")?.split("/`").next()).collect();
    assert_eq!(listed, ROOMS[..CODE]);
    let mut folders: Vec<String> = std::fs::read_dir(crates().join("baton/src"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap().trim_end_matches(".rs").to_owned())
        .collect();
    let mut rooms: Vec<&str> = ROOMS.to_vec();
    folders.sort();
    rooms.sort_unstable();
    assert_eq!(folders, rooms);
}

#[test]
fn every_file_that_the_page_names_is_there() {
    let page = page();
    let roots = ["baton/src", "core/src", "baton", "core", ".", ".."].map(|root| crates().join(root));
    let names = page.split('`').skip(1).step_by(2).flat_map(|code| code.split_whitespace());
    let is_path = |name: &&str| {
        let is_file = [".rs", ".js", ".mjs", ".md"].iter().any(|end| name.ends_with(end));
        name.contains('/') && is_file && !name.contains(['<', '{', '~'])
    };
    let (mut seen, mut missing) = (0, Vec::new());
    for name in names.filter(is_path) {
        seen += 1;
        let in_core = name.strip_prefix("core/").map(|rest| crates().join("core/src").join(rest));
        let mut places = roots.iter().map(|root| root.join(name)).chain(in_core);
        if !places.any(|path| path.exists()) {
            missing.push(name);
        }
    }
    assert_eq!(missing, [""; 0]);
    assert!(seen > 40, "{seen} names of files were found in the page");
}

/// Each file of the API has the same name as the command that does the same.
#[test]
fn files_of_the_api_are_named_after_commands() {
    /// Routes for scripts and pages only; no command does the same.
    const ROUTES_ALONE: [&str; 3] = ["mod", "context_usage", "login"];
    let names = |dir: &str| -> Vec<String> {
        let files = std::fs::read_dir(crates().join("baton/src").join(dir)).unwrap().map(Result::unwrap);
        let name =
            |f: std::fs::DirEntry| f.file_name().to_str().map(|n| n.trim_end_matches(".rs").to_owned());
        files.filter_map(name).collect()
    };
    let commands = names("cli");
    for file in names("daemon/api") {
        assert!(ROUTES_ALONE.contains(&file.as_str()) || commands.contains(&file), "daemon/api/{file}.rs");
    }
}
