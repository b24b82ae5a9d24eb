//! The providers: one row each. What differs between agents is data here, not a branch elsewhere.

use std::path::{Path, PathBuf};

use baton_core::launch::Grammar;

/// One agent program.
#[derive(Debug)]
pub struct Provider {
    pub name: &'static str,
    pub program: Program,
    pub grammar: Grammar,
    /// What to do when it is not there.
    pub install: &'static str,
}

/// What is started.
#[derive(Debug)]
pub enum Program {
    /// Found on the PATH.
    Named(&'static str),
    /// This binary, with this first argument: the scripted agent.
    Own(&'static str),
}

const CLAUDE_LIKE: Grammar = Grammar {
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
    output_format: "--output-format",
    model: "--model",
    permission_mode: "--permission-mode",
    resume: "--resume",
    plugin_dir: "--plugin-dir",
};

/// In the order in which they are looked for when none is named.
pub const PROVIDERS: &[Provider] = &[
    Provider {
        name: "claude",
        program: Program::Named("claude"),
        grammar: CLAUDE_LIKE,
        install: "npm install -g @anthropic-ai/claude-code",
    },
    Provider {
        name: "demo",
        program: Program::Own("demo-agent"),
        grammar: CLAUDE_LIKE,
        install: "it is part of baton",
    },
];

pub fn find(name: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|p| p.name == name)
}

impl Provider {
    /// The program and the arguments that come before all others; `None` if it is not on the PATH.
    pub fn locate(&self) -> Option<(PathBuf, Vec<String>)> {
        match self.program {
            Program::Named(name) => on_path(name).map(|path| (path, Vec::new())),
            Program::Own(first) => Some((std::env::current_exe().ok()?, vec![first.to_owned()])),
        }
    }
}

/// Where the client keeps the conversations of `cwd`.
pub fn transcripts(claude: &Path, cwd: &Path) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    claude.join("projects").join(cwd.display().to_string().chars().map(plain).collect::<String>())
}

fn on_path(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let executable = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(name)).find(|path| executable(path))
}
