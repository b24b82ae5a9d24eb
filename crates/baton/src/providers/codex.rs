//! Codex.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use baton_core::compaction::CompactionSettings;
use baton_core::event::HookEvent;
use baton_core::ids::SessionId;
use baton_core::launch::{Grammar, Resume};
use baton_core::nesting::is_too_deep;
use baton_core::transcript::rollout;
use baton_core::wire::claude::output::permission;
use baton_core::wire::codex::{BASE_TOKENS, parse_hook, refuse_tool, veto};
use jiff::{Timestamp, ToSpan as _};
use toml::de::{DeTable, DeValue};

use crate::providers::{Archive, Dialect, HookCaller, Hooks, Integration, Program, Provider, Queue, Window};
use crate::sys::paths::Paths;
use crate::sys::{fs, process};

pub(super) const CODEX: Provider = Provider {
    name: "codex",
    title: "Codex",
    spoken: "Codex",
    program: Program::Named("codex"),
    grammar: Grammar {
        with_value: &[
            "-c",
            "--config",
            "--enable",
            "--disable",
            "--remote",
            "--remote-auth-token-env",
            "-m",
            "--model",
            "--local-provider",
            "-p",
            "--profile",
            "-s",
            "--sandbox",
            "-C",
            "--cd",
            "--add-dir",
            "-a",
            "--ask-for-approval",
            "--thread-source",
            "--cyber-access-program",
            "--output-schema",
            "--color",
            "-o",
            "--output-last-message",
        ],
        with_many: &[],
        // Images belong to the first prompt.
        resuming: &["--last", "--all", "--include-non-interactive", "-i", "--image"],
        headless: &[],
        headless_words: &["exec", "e"],
        resuming_words: &["resume", "fork"],
        moving: &["--worktree"],
        output_format: None,
        streaming: &["--json"],
        model: "--model",
        permission_mode: None,
        resume: Resume::Word("resume"),
        harmless: &["-m", "--model", "--color", "-s=read-only", "--sandbox=read-only"],
        // On its shared daemon the agent would outlive the client that we stop, and run in another environment.
        interactive: &["--no-daemon"],
    },
    install: "npm install -g @openai/codex",
    refuses_handoff: None,
    hooks: Hooks {
        read,
        tail: |file, reach| rollout::last_usage(file, reach),
        base: BASE_TOKENS,
        budget: 9_500,
        // Five files of 5,000 tokens, within the limit that our entries set, also where each character takes three bytes.
        files_budget: 100_000,
        veto: |reason| Some(veto(reason)),
        veto_ends_turn: true,
        hears_at_stop: false,
        tells_idle: false,
        end_is_late: true,
        caller,
        compaction,
        window: Some(Window {
            tool: "new_context",
            feature: TOKEN_BUDGET,
            is_on: has_window,
            refuse: refuse_tool,
        }),
        decide: permission,
        takes_changes: false,
        dialog_stays: false,
    },
    integration: Integration::HooksFile,
    instructions: "AGENTS.md",
    expands_paths: false,
    tools: "exec_command (a shell), apply_patch and update_plan",
    session_variable: "CODEX_THREAD_ID",
    transcripts,
    place,
    queue: Some(Queue {
        args: |thread, text| ["queue", "--thread", thread, "--message", text].map(str::to_owned).to_vec(),
        home_variable: "CODEX_HOME",
        home: home_of,
        socket: "app-server-control/app-server-control.sock",
    }),
    session_of,
    archive: Some(Archive {
        root: |paths| paths.codex().join("sessions"),
        depth: 3,
        dialect: Dialect::Codex,
    }),
};

/// Codex inside another program, without a terminal; only that program can begin a new thread there.
pub(super) const CODEX_APP: Provider = Provider {
    name: "codex-app",
    title: "Codex in an app",
    program: Program::Foreign,
    install: "it is started by its app",
    refuses_handoff: Some("sm handoff is not supported for codex-app sessions"),
    queue: None,
    archive: None,
    ..CODEX
};

/// Where it compacts by default, in permille of the window that it reports, which is 95 % of the model's: nine tenths
/// of the model's window.
const COMPACTS_AT: u64 = 947;

fn read(bytes: &[u8]) -> Result<HookEvent<'_>, String> {
    let payload = parse_hook(bytes).map_err(|e| e.to_string())?;
    HookEvent::try_from(payload).map_err(|e| e.to_string())
}

/// By the day on which it began, whatever its folder: `sessions/2026/11/16/rollout-…-{id}.jsonl`.
fn place(paths: &Paths, _: &Path, session: &SessionId, was: &Path) -> Option<PathBuf> {
    let mut pieces = was.iter().rev().map(|piece| piece.to_str());
    let name = pieces.next()??;
    let [day, month, year] = [pieces.next()??, pieces.next()??, pieces.next()??];
    let is_number = |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_digit());
    let is_day = is_number(year, 4) && is_number(month, 2) && is_number(day, 2);
    let is_its = is_day && session_of(was).as_ref() == Some(session);
    is_its.then(|| paths.codex().join("sessions").join(year).join(month).join(day).join(name))
}

/// Our parent is the client or its daemon. If a node wrapper started the client, the wrapper is the process to watch.
fn caller() -> HookCaller {
    let pid = process::parent_pid();
    let args = process::arguments(pid);
    let is = |word: &str| args.iter().skip(1).any(|arg| arg == word);
    let (shared, headless) = (is("app-server"), is("exec") || is("e"));
    // Its own shared daemon listens on a socket; without one it serves the program that started it.
    let row = (shared && !is("--listen")).then_some(CODEX_APP.name);
    let wrapper = process::parent_of(pid).filter(|&above| is_wrapper(&process::arguments(above)));
    HookCaller { process: process::identify(wrapper.unwrap_or(pid)), shared, row, headless, args }
}

/// Whether this is the package's own starter: `node …/codex.js …`, often by the name of a link.
fn is_wrapper(args: &[String]) -> bool {
    let name = |at: usize| args.get(at).and_then(|a| Path::new(a).file_name()?.to_str());
    matches!(name(0), Some("node" | "bun")) && matches!(name(1), Some("codex" | "codex.js"))
}

fn compaction(paths: &Paths, cwd: &Path, caller: &HookCaller) -> CompactionSettings {
    const LIMIT: &str = "model_auto_compact_token_limit";
    let limit = config_override(&caller.args, LIMIT).and_then(|v| v.trim().parse().ok()).or_else(|| {
        let project = read_config(&cwd.join(".codex/config.toml"), LIMIT);
        project.or_else(|| read_config(&paths.codex().join("config.toml"), LIMIT))?.parse().ok()
    });
    CompactionSettings { limit, permille: Some(COMPACTS_AT), ..CompactionSettings::default() }
}

/// Under development in the client: an agent's tool for a fresh window, and compactions without a summary.
const TOKEN_BUDGET: &str = "token_budget";

/// As the command line says, else as the configuration does.
fn has_window(paths: &Paths, cwd: &Path, caller: &HookCaller) -> bool {
    let is_on =
        |value: &str| value == "true" || value.contains("enabled = true") || value.contains("enabled=true");
    let named = |option: &str| {
        let mut words = caller.args.windows(2);
        let inline = format!("{option}={TOKEN_BUDGET}");
        words.any(|pair| pair[0] == option && pair[1] == TOKEN_BUDGET) || caller.args.contains(&inline)
    };
    if named("--disable") {
        return false;
    }
    let given = ["", ".enabled"]
        .iter()
        .find_map(|key| config_override(&caller.args, &format!("features.{TOKEN_BUDGET}{key}")));
    match given {
        _ if named("--enable") => true,
        Some(value) => is_on(value),
        None => [cwd.join(".codex/config.toml"), paths.codex().join("config.toml")]
            .iter()
            .find_map(|path| read_feature(path, TOKEN_BUDGET))
            .unwrap_or(false),
    }
}

/// One of its configuration files, if it can be parsed safely: a project brings its own.
fn config_text(path: &Path) -> Option<String> {
    let real = std::fs::canonicalize(path).ok()?;
    let bytes = fs::read(&real, 4 << 20).ok()??;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (!is_too_deep(&text)).then_some(text)
}

/// A feature in one of its configuration files: `true`, or a table that says `enabled`.
fn read_feature(path: &Path, name: &str) -> Option<bool> {
    let text = config_text(path)?;
    let table = DeTable::parse(&text).ok()?;
    match table.get_ref().get("features")?.get_ref().get(name)?.get_ref() {
        DeValue::Boolean(is_on) => Some(*is_on),
        DeValue::Table(table) => match table.get("enabled")?.get_ref() {
            DeValue::Boolean(is_on) => Some(*is_on),
            _ => None,
        },
        _ => None,
    }
}

/// What `-c key=value` says on a command line; the last one counts.
fn config_override<'a>(args: &'a [String], key: &str) -> Option<&'a str> {
    let inline = |arg: &'a str| arg.strip_prefix("--config=").or_else(|| arg.strip_prefix("-c"));
    args.iter()
        .enumerate()
        .filter_map(|(at, arg)| match arg.as_str() {
            "-c" | "--config" => args.get(at + 1).map(String::as_str),
            arg => inline(arg),
        })
        .filter_map(|setting| setting.split_once('='))
        .filter(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim_matches(|c| c == '"' || c == ' '))
        .next_back()
}

/// A top-level number or text in one of its configuration files.
fn read_config(path: &Path, key: &str) -> Option<String> {
    let text = config_text(path)?;
    let table = DeTable::parse(&text).ok()?;
    match table.get_ref().get(key)?.get_ref() {
        DeValue::Integer(n) => Some(n.as_str().replace('_', "")),
        DeValue::String(text) => Some(text.as_ref().to_owned()),
        _ => None,
    }
}

/// `sessions/Y/M/D/rollout-…`, by the local day on which the thread began; the first line has the folder.
fn transcripts(paths: &Paths, cwd: &Path) -> Vec<PathBuf> {
    let now = Timestamp::now();
    let days =
        [-24, 0, 24].map(|h| now.checked_add(h.hours()).unwrap_or(now).strftime("%Y/%m/%d").to_string());
    let dirs = days.iter().map(|day| paths.codex().join("sessions").join(day));
    let files = dirs.filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().flatten().map(|e| e.path());
    files.filter(|path| began_in(path, cwd)).collect()
}

fn began_in(rollout: &Path, cwd: &Path) -> bool {
    #[derive(serde::Deserialize)]
    struct MetaLine {
        payload: Meta,
    }
    #[derive(serde::Deserialize)]
    struct Meta {
        cwd: PathBuf,
    }
    let Ok(file) = fs::open_read(rollout) else { return false };
    let mut line = String::new();
    let read = BufReader::new(file.take(1 << 20)).read_line(&mut line);
    read.is_ok() && serde_json::from_str::<MetaLine>(&line).is_ok_and(|line| line.payload.cwd == cwd)
}

/// `CODEX_HOME/sessions/2026/11/16/rollout-….jsonl`.
fn home_of(rollout: &Path) -> Option<PathBuf> {
    rollout.ancestors().find(|dir| dir.ends_with("sessions"))?.parent().map(Path::to_owned)
}

/// `rollout-2026-11-16T00-45-20-{id}`: an id has five groups.
fn session_of(rollout: &Path) -> Option<SessionId> {
    let stem = rollout.file_stem()?.to_str()?.strip_prefix("rollout-")?;
    let at = stem.len().checked_sub(36).filter(|&at| stem.is_char_boundary(at))?;
    SessionId::new(&stem[at..]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_last_override_on_the_command_line_counts() {
        let key = "model_auto_compact_token_limit";
        let line =
            "codex -c model_auto_compact_token_limit=70000 --config=model_auto_compact_token_limit=60000 x";
        assert_eq!(config_override(&args(line), key), Some("60000"));
        assert_eq!(config_override(&args("codex -cmodel_auto_compact_token_limit=5"), key), Some("5"));
        assert_eq!(config_override(&args("codex -c other=1"), key), None);
    }

    #[test]
    fn the_fresh_window_is_on_where_the_command_line_or_the_configuration_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let below = |name: &str| dir.path().join(name);
        let paths = Paths {
            home: dir.path().to_owned(),
            claude: below(".claude"),
            state: below("state"),
            config: below("config.toml"),
        };
        let is_on = |line: &str| {
            let caller = HookCaller { args: args(line), ..HookCaller::default() };
            has_window(&paths, dir.path(), &caller)
        };
        assert!(!is_on("codex"));
        assert!(is_on("codex --enable token_budget x") && is_on("codex -c features.token_budget=true"));
        std::fs::create_dir_all(paths.codex()).unwrap();
        for (config, expected) in [
            ("[features]\ntoken_budget = true\n", true),
            ("[features.token_budget]\nenabled = true\n", true),
            ("[features.token_budget]\nreminder_threshold_tokens = 3\n", false),
            ("[features]\ntoken_budget = false\n", false),
        ] {
            std::fs::write(paths.codex().join("config.toml"), config).unwrap();
            assert_eq!(is_on("codex exec x"), expected, "{config}");
        }
        std::fs::write(paths.codex().join("config.toml"), "[features]\ntoken_budget = true\n").unwrap();
        assert!(!is_on("codex --disable token_budget") && !is_on("codex -c features.token_budget=false"));
    }

    #[test]
    fn the_starter_of_the_package_is_known_by_its_name() {
        assert!(is_wrapper(&args("node /usr/local/bin/codex exec x")));
        assert!(is_wrapper(&args("/usr/bin/node /x/bin/codex.js")));
        assert!(!is_wrapper(&args("node server.js codex")));
        assert!(!is_wrapper(&args("bash -c codex")));
    }

    #[test]
    fn the_clients_folder_is_above_its_rollouts() {
        let home = home_of(Path::new("/h/.codex/sessions/2026/11/16/rollout-x.jsonl")).unwrap();
        assert_eq!(home, Path::new("/h/.codex"));
        assert_eq!(home_of(Path::new("/h/.claude/projects/x.jsonl")), None);
    }

    #[test]
    fn a_rollout_tells_its_thread() {
        let name = "/x/rollout-2026-11-16T00-45-20-01a1e1d0-cefd-7b10-9097-bc70d02604ff.jsonl";
        let id = session_of(Path::new(name)).unwrap();
        assert_eq!(id.as_str(), "01a1e1d0-cefd-7b10-9097-bc70d02604ff");
        assert_eq!(session_of(Path::new("/x/notes.jsonl")), None);
        assert_eq!(session_of(Path::new("/x/rollout-short.jsonl")), None);
        let cut = "/x/rollout-ééééééééééééééééééé.jsonl";
        assert_eq!(session_of(Path::new(cut)), None, "the cut falls inside a character");
    }
}
