//! Claude Code, and the scripted agent, which speaks its protocol.

use std::path::{Path, PathBuf};

use baton_core::compaction::CompactionSettings;
use baton_core::event::HookEvent;
use baton_core::ids::SessionId;
use baton_core::launch::{Grammar, Resume};
use baton_core::transcript::tail;
use baton_core::wire::claude::output::{BUDGET, HookOutput, permission};
use baton_core::wire::claude::parse_hook;

use crate::providers::{Archive, Dialect, HookCaller, Hooks, Integration, Program, Provider};
use crate::sys::paths::Paths;
use crate::sys::process;

const GRAMMAR: Grammar = Grammar {
    with_value: &[
        "--model",
        "--permission-mode",
        "--session-id",
        "--output-format",
        "--input-format",
        "--settings",
        "--setting-sources",
        "--system-prompt",
        "--append-system-prompt",
        "--fallback-model",
        "--max-turns",
        "--max-budget-usd",
        "--agent",
        "--agents",
        "--name",
        "-n",
        "--effort",
        "--permission-prompt-tool",
        "--json-schema",
    ],
    with_many: &[
        "--allowedTools",
        "--allowed-tools",
        "--disallowedTools",
        "--disallowed-tools",
        "--tools",
        "--add-dir",
        "--mcp-config",
        "--plugin-dir",
        "--betas",
    ],
    resuming: &["--resume", "-r", "--continue", "-c", "--fork-session", "--session-id", "--from-pr"],
    headless: &["-p", "--print"],
    headless_words: &[],
    resuming_words: &[],
    moving: &[],
    output_format: Some("--output-format"),
    streaming: &[],
    model: "--model",
    permission_mode: Some("--permission-mode"),
    resume: Resume::Option("--resume"),
    harmless: &[
        "--model",
        "--fallback-model",
        "--effort",
        "--max-turns",
        "--max-budget-usd",
        "--name",
        "-n",
        "--verbose",
        "--disallowedTools",
        "--disallowed-tools",
        "--permission-mode=plan",
    ],
    interactive: &[],
};

const HOOKS: Hooks = Hooks {
    read,
    tail: |file, reach| tail::last_usage(file, reach),
    base: 0,
    budget: BUDGET,
    files_budget: BUDGET,
    veto: |reason| HookOutput::new("PreCompact").block(reason).to_json(),
    veto_ends_turn: false,
    hears_at_stop: true,
    tells_idle: true,
    end_is_late: false,
    caller,
    compaction,
    window: None,
    decide: permission,
    takes_changes: true,
    dialog_stays: true,
};

pub(super) const CLAUDE: Provider = Provider {
    name: "claude",
    title: "Claude Code",
    spoken: "Claude",
    program: Program::Named("claude"),
    grammar: GRAMMAR,
    install: "npm install -g @anthropic-ai/claude-code",
    refuses_handoff: None,
    hooks: HOOKS,
    integration: Integration::PluginDir("--plugin-dir"),
    instructions: "CLAUDE.md",
    expands_paths: true,
    tools: "Bash, Read, Edit, Write, Grep, Glob and TodoWrite",
    session_variable: "CLAUDE_CODE_SESSION_ID",
    transcripts,
    place: |paths, cwd, session, _| Some(folder(paths, cwd).join(format!("{session}.jsonl"))),
    queue: None,
    session_of,
    archive: Some(Archive {
        root: |paths| paths.claude.join("projects"),
        depth: 1,
        dialect: Dialect::Claude,
    }),
};

pub(super) const DEMO: Provider = Provider {
    name: "demo",
    title: "the scripted agent",
    program: Program::Own("demo-agent"),
    install: "it is part of baton",
    archive: None,
    ..CLAUDE
};

fn read(bytes: &[u8]) -> Result<HookEvent<'_>, String> {
    let payload = parse_hook(bytes).map_err(|e| e.to_string())?;
    HookEvent::try_from(payload).map_err(|e| e.to_string())
}

/// The client names its own process; otherwise it is the one that started us.
fn caller() -> HookCaller {
    let pid =
        std::env::var("CLAUDE_PID").ok().and_then(|pid| pid.parse().ok()).unwrap_or_else(process::parent_pid);
    HookCaller {
        process: process::identify(pid),
        headless: std::env::var("CLAUDE_CODE_ENTRYPOINT").is_ok_and(|e| e.starts_with("sdk")),
        ..HookCaller::default()
    }
}

/// Its settings, its environment (which hooks inherit) and its command line.
fn compaction(paths: &Paths, cwd: &Path, caller: &HookCaller) -> CompactionSettings {
    const KNOWN: [&str; 3] =
        ["DISABLE_AUTO_COMPACT", "CLAUDE_CODE_AUTO_COMPACT_WINDOW", "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"];
    let ours = |name: &str| name.starts_with("CLAUDE") && name.contains("COMPACT");
    let values: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| ours(name) || KNOWN.contains(&name.as_str()))
        .collect();
    let settings = crate::providers::settings::compaction(paths, cwd);
    let mut found = CompactionSettings::from_env(settings.enabled, |name| {
        values.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    });
    found.unknown = settings.unknown || values.iter().any(|(name, _)| !KNOWN.contains(&name.as_str()));
    match &caller.process {
        Some(client) => found.with_options(&process::arguments(client.pid)),
        None => found,
    }
}

/// The folder in which it keeps the conversations of `cwd`.
pub(crate) fn folder(paths: &Paths, cwd: &Path) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    paths.claude.join("projects").join(cwd.display().to_string().chars().map(plain).collect::<String>())
}

/// There is a folder for each working folder, and a file for each conversation.
fn transcripts(paths: &Paths, cwd: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder(paths, cwd)).into_iter().flatten().flatten();
    entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|x| x == "jsonl")).collect()
}

fn session_of(transcript: &Path) -> Option<SessionId> {
    let stem = transcript.file_stem()?.to_str()?;
    if stem.starts_with("agent-") { None } else { SessionId::new(stem).ok() }
}
