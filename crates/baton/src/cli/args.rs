//! What a user may write. The whole command line in one place; what it means is in the file of each verb.

use std::path::PathBuf;

use baton_core::handoff::HandoffId;
use baton_core::ids::{AgentId, SessionId};
use clap::{Args, Parser, Subcommand, ValueHint};

/// Keeps coding agents working across the limit of their context window.
#[derive(Debug, Parser)]
#[command(
    name = "baton",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    after_help = "\
Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 nothing there.
Try `baton demo` to see what it does."
)]
pub struct Cli {
    /// Act on this channel instead of the one found from the current folder
    #[arg(long, global = true, value_name = "NAME")]
    pub channel: Option<String>,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start an agent in this terminal that goes on for ever
    #[command(
        override_usage = "baton run [OPTIONS] [--] [PROVIDER] [ARGS]...",
        after_help = "\
Everything from the provider on is the agent's own command line:
  baton run                            the first client found, in this folder
  baton run claude --model opus        Claude Code with options of its own
  baton run -- claude -p \"Port it\"    headless, over as many contexts as the task needs
When the context is nearly full the agent hands over and continues in a fresh one. Its exit code is ours."
    )]
    Run(RunArgs),
    /// Give an agent a fresh context now, with a handoff from what its transcript proves
    Rotate(AgentArgs),
    /// Take back the last rotation: the earlier conversation is resumed, its handoff is active again
    Undo(AgentArgs),
    /// Stop an agent for good
    Retire(AgentArgs),
    /// Start an agent in a tmux pane of its own
    #[command(after_help = "\
Everything behind -- is the client's own command line:
  baton spawn reviewer --prompt \"Review the last commit\" -- --model opus
The agent lives on the tmux server `baton` (tmux -L baton), keeps its name over every fresh context, and is a child
of the agent that spawned it.")]
    Spawn(SpawnArgs),
    /// Show an agent's pane in this terminal
    Attach(AgentArgs),
    /// Wait until agents are idle, blocked or gone
    #[command(
        after_help = "Exit codes: 0 idle, blocked or at a limit, 1 still at work after the timeout, 3 one has ended."
    )]
    Wait(WaitArgs),
    /// The last lines of an agent's pane
    Tail(TailArgs),
    /// Attend to an agent that already runs in a tmux pane; without a name, list what could be adopted
    Adopt(AdoptArgs),
    /// The agents that an agent has spawned
    Children(ChildrenArgs),
    /// All agents, parents before their children; `agents restore` brings back those in panes
    Agents(AgentsArgs),
    /// Hand over: the last act of a turn. For agents; a person uses `baton handoffs`
    #[command(after_help = "\
The file is copied at once and sealed when the turn ends; then the agent continues in a fresh context
that begins with it. Called twice, the last one counts. Exit codes: 1 no such file, 2 not inside an agent.")]
    Handoff(HandoffArgs),
    /// Look at, load, write and mend the handoffs of a project
    Handoffs(HandoffsArgs),
    /// How full the agents are, and what waits for them
    Status(StatusArgs),
    /// Leave a message for an agent; it reads it at its next step
    Send(SendArgs),
    /// Messages of an agent, and whether they were delivered
    Inbox(InboxArgs),
    /// Messages that an agent, or you, sent, and what became of them
    Outbox(InboxArgs),
    /// Find, read and resume past conversations of every client
    #[command(after_help = "\
In a terminal, `baton sessions` alone lets you choose one: type to filter, Enter resumes, Esc leaves.")]
    Sessions(SessionsArgs),
    /// Copies of conversations: look at them, check them, bring them back
    #[command(after_help = "\
Every hook copies what the transcript grew by, so what a client cuts, rewrites or deletes is still here.
Nothing is removed by itself: `baton backup prune` says what goes, pinned sessions stay.")]
    Backup(BackupArgs),
    /// What sessions of this project leave for the next one
    Memory(MemoryArgs),
    /// Tell all instances of a workflow where it stands
    #[command(after_help = "\
Writes thoughts/shared/handoffs/events/{time}_{session}.md in the project; every status line shows the newest.")]
    Checkpoint(CheckpointArgs),
    /// What happened, from the log
    Log(LogArgs),
    /// Serve many agents: the API, notifications, housekeeping. Hooks and `baton run` work without it
    #[command(after_help = "\
Listens on a unix socket that only you can reach; with --http also on 127.0.0.1, where every request needs the token
in the file that `--status` names. All state is on disk: it may be stopped, killed and started again at any time.")]
    Serve(ServeArgs),
    /// Make this machine, or a project, ready: one command, shown before it is done
    #[command(after_help = "\
The program is copied to ~/.local/bin first. Then one plugin folder in the client's own folder carries the hooks,
and settings.json gets the status line and a permission rule for `baton handoff`. Other people's hooks stay, and a
status line that is there keeps working. `baton uninstall` makes it all as it was.")]
    Install(InstallArgs),
    /// Take it out again; settings become what they were, byte for byte
    Uninstall(UninstallArgs),
    /// Check that everything works, and say what to do where it does not
    Doctor(DoctorArgs),
    /// Tell which channel a folder belongs to
    Channel(ChannelArgs),
    /// Show every setting, its value and where it came from
    Config(ConfigArgs),
    /// See in a minute what baton does, in a temporary home
    Demo(DemoArgs),
    /// Complete commands and options in a shell
    #[command(after_help = "\
bash  baton completions bash > ~/.local/share/bash-completion/completions/baton
zsh   baton completions zsh > ~/.zfunc/_baton     (a folder that is in $fpath before compinit runs)
fish  baton completions fish > ~/.config/fish/completions/baton.fish")]
    Completions(CompletionsArgs),
    /// What the client calls on each event: reads one JSON payload, answers within its deadline, exits 0
    Hook {
        /// The client that calls, where it is not Claude Code
        #[arg(long, value_name = "NAME")]
        provider: Option<String>,
        /// SessionStart, UserPromptSubmit, PostToolUse, Stop, PreCompact, …
        event: Option<String>,
    },
    /// What the mod inside Claude Code starts: runs beside the client, clears its context and submits its mail
    Companion {
        /// `tell SOCKET` passes an event on, `compact` answers a compaction; nothing stays with the client
        call: Vec<String>,
    },
    /// Attend to the agents in tmux panes, in the foreground; the daemon does it by itself
    #[command(hide = true)]
    Panes,
    /// What the client calls for its status line: reads its numbers, prints one line
    #[command(after_help = "\
For a client that takes no status line of others, tmux shows it:
  set -g status-right '#(baton statusline --tmux #{pane_current_path})'
  set -g status-interval 5")]
    Statusline {
        /// One short line for the status line of tmux: the agents of the project around this folder
        #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = ".")]
        tmux: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub struct HandoffsArgs {
    #[command(subcommand)]
    pub command: Option<Handoffs>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Do not page long output
    #[arg(long, global = true)]
    pub no_pager: bool,
}

#[derive(Debug, Subcommand)]
pub enum Handoffs {
    /// List handoffs and their states, newest first (what `baton handoffs` does by itself)
    List {
        /// Of all channels
        #[arg(long)]
        all: bool,
        /// At most this many
        #[arg(long, short = 'n', default_value_t = 20, value_name = "N")]
        limit: usize,
    },
    /// Print the document of one handoff without changing its state
    Show { id: HandoffId },
    /// Tell the active handoff's id
    Current,
    /// Print the active handoff, or the one named, and mark it consumed
    #[command(after_help = "\
Two who load at once: one gets it, the other is told so (exit 3).
An expired handoff is not loaded by itself but can be loaded by its id.")]
    Load {
        id: Option<HandoffId>,
        /// Only print it; its state stays as it is
        #[arg(long)]
        peek: bool,
        /// The session that loads it [default: the one this runs in, else `manual`]
        #[arg(long)]
        session: Option<SessionId>,
        /// The agent that loads it
        #[arg(long)]
        agent: Option<AgentId>,
    },
    /// Set the active handoff aside without loading it
    Clear { id: Option<HandoffId> },
    /// The audit trail: who sealed, claimed, consumed what and when
    History,
    /// Print where the active document, the manifest and the archive are
    Path,
    /// Write a handoff: FILE, or - for standard input
    #[command(after_help = "\
When this returns, the handoff is on disk and survives a crash of the machine.
It prints the handoff's id. The one it replaces stays in the archive.")]
    Seal {
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Why it is written: manual, auto, precompact, crash, or a word of your own
        #[arg(long = "type", default_value = "manual", value_name = "TYPE")]
        kind: String,
        /// The session it comes from [default: the one this runs in, else `manual`]
        #[arg(long)]
        session: Option<SessionId>,
        /// Only this agent may load it
        #[arg(long, value_name = "AGENT")]
        for_agent: Option<AgentId>,
    },
    /// Print what would be sealed now from a session's transcript, without sealing it
    Draft {
        /// A session id (its beginning is enough) or a transcript [default: this project's latest session]
        what: Option<String>,
        /// Pack it into so many characters
        #[arg(long, value_name = "N")]
        budget: Option<usize>,
    },
    /// Mend a damaged channel: sets files aside, never deletes, says what it did
    Repair,
}

#[derive(Debug, Args)]
pub struct ScopeArgs {
    /// For all projects of this user (the default)
    #[arg(long, conflicts_with = "project")]
    pub user: bool,
    /// For the project around the current folder: entries in .claude/settings.local.json
    #[arg(long)]
    pub project: bool,
    /// With --project: for the whole team, in .claude/settings.json, with `baton` found on each PATH
    #[arg(long, requires = "project")]
    pub shared: bool,
}

#[derive(Debug, Args)]
pub struct InstallArgs {
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// The client: claude, codex
    #[arg(long, value_name = "NAME", default_value = "claude")]
    pub provider: String,
    /// Codex runs hooks only after you have reviewed them: review and trust baton's here (asks first)
    #[arg(long)]
    pub trust: bool,
    /// Show what would change, change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// Leave the status line alone
    #[arg(long)]
    pub no_statusline: bool,
    /// Leave out the slash commands
    #[arg(long)]
    pub no_commands: bool,
    /// With --project: leave out its memory (.claude/memory and a block in CLAUDE.md)
    #[arg(long, requires = "project")]
    pub no_memory: bool,
    /// Leave out the rule that lets agents run `baton handoff` without asking
    #[arg(long)]
    pub no_permission: bool,
    /// Put the hooks into settings.json instead of a plugin folder
    #[arg(long)]
    pub settings: bool,
    /// Also link `sm` to baton, unless another program has that name
    #[arg(long)]
    pub sm: bool,
    /// Where the program goes [default: ~/.local/bin]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub bin_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct UninstallArgs {
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// The client: claude, codex
    #[arg(long, value_name = "NAME", default_value = "claude")]
    pub provider: String,
    /// Show what would change, change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Look again afterwards, and fail if anything of baton's is left in the client
    #[arg(long)]
    pub verify: bool,
    /// Also remove the program, handoffs, logs and everything else baton has kept; asks first
    #[arg(long, conflicts_with = "project")]
    pub purge: bool,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub yes: bool,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Mend what can be mended without asking
    #[arg(long)]
    pub fix: bool,
    /// Run a whole cycle in a temporary home: fill, hand over, clear, load
    #[arg(long)]
    pub rehearse: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ChannelArgs {
    /// The folder to ask about [default: the current one]
    #[arg(value_hint = ValueHint::DirPath)]
    pub path: Option<PathBuf>,
    /// Also tell why
    #[arg(long)]
    pub why: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Without pauses
    #[arg(long)]
    pub fast: bool,
    /// Keep the temporary home and say where it is
    #[arg(long)]
    pub keep: bool,
}

#[derive(Debug, Args)]
pub struct HandoffArgs {
    /// The document, or - for standard input
    #[arg(value_hint = ValueHint::FilePath, required_unless_present_any = ["cancel", "status", "to"])]
    pub file: Option<PathBuf>,
    /// Give the work to another agent: codex, claude, or the name of one; without a FILE, what the transcript proves
    #[arg(long, value_name = "AGENT", conflicts_with_all = ["cancel", "status", "now"])]
    pub to: Option<String>,
    /// With --to: start a new agent in a tmux pane, as an agent that has a pane itself always does
    #[arg(long, requires = "to")]
    pub spawn: bool,
    /// With --to: print JSON
    #[arg(long, requires = "to")]
    pub json: bool,
    /// Take back what was handed over in this turn
    #[arg(long, conflicts_with_all = ["file", "status"])]
    pub cancel: bool,
    /// Tell what is pending
    #[arg(long, conflicts_with = "file")]
    pub status: bool,
    /// Seal and rotate at once, not at the end of the turn
    #[arg(long, requires = "file")]
    pub now: bool,
}

#[derive(Debug, Args)]
#[command(trailing_var_arg = true)]
pub struct RunArgs {
    /// The agent's name [default: {project}-{n}]
    #[arg(long)]
    pub name: Option<AgentId>,
    /// Start it again when it crashes
    #[arg(long)]
    pub keep_alive: bool,
    /// The provider, and its own arguments
    #[arg(allow_hyphen_values = true)]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Which agent [default: the one running in this project]
    pub agent: Option<AgentId>,
}

#[derive(Debug, Args)]
pub struct SpawnArgs {
    /// The agent's name; unique
    pub name: AgentId,
    /// The client: claude, codex, demo [default: the first that is there]
    #[arg(long)]
    pub provider: Option<String>,
    /// In a git worktree of its own, on a branch of its name
    #[arg(long)]
    pub worktree: bool,
    /// Its first prompt, or - for standard input
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt_file", allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// Its first prompt from a file, or - for standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub prompt_file: Option<PathBuf>,
    /// Where it works [default: the current folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,
    /// Whose child it is [default: the agent this runs in]
    #[arg(long, value_name = "AGENT")]
    pub parent: Option<AgentId>,
    /// The tmux server, by name or path of its socket [default: panes.socket]
    #[arg(long)]
    pub socket: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The client's own arguments
    #[arg(last = true)]
    pub args: Vec<String>,
}

#[derive(Debug, Args)]
pub struct WaitArgs {
    #[arg(required = true)]
    pub agents: Vec<AgentId>,
    /// Until one of them is, not all
    #[arg(long)]
    pub any: bool,
    /// At most so long: 30s, 10m, 2h
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<jiff::SignedDuration>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct TailArgs {
    /// Which agent [default: the one running in this project]
    pub agent: Option<AgentId>,
    /// The last N lines
    #[arg(long, short = 'n', default_value_t = 40, value_name = "N")]
    pub lines: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct AdoptArgs {
    /// The agent's name, or the id of its conversation
    pub agent: Option<String>,
    /// Look for it on this tmux server, by name or path of its socket
    #[arg(long)]
    pub socket: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ChildrenArgs {
    /// Whose [default: the agent this runs in]
    pub agent: Option<AgentId>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum AgentsCommand {
    /// Start again, with their handoff, agents that lived in panes before a reboot or a crash
    Restore {
        /// Only these; also ones that were retired
        agents: Vec<AgentId>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub struct AgentsArgs {
    #[command(subcommand)]
    pub command: Option<AgentsCommand>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Only this agent
    pub agent: Option<AgentId>,
    /// Also agents of other projects, and those that have ended
    #[arg(long)]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show it anew whenever something changes, until Ctrl+C
    #[arg(long, conflicts_with = "json")]
    pub watch: bool,
}

#[derive(Debug, Args)]
pub struct SendArgs {
    /// The agent's name; `baton status` lists them
    pub to: AgentId,
    /// The text, or - for standard input
    #[arg(required = true)]
    pub text: Vec<String>,
    /// Read at the next tool call
    #[arg(long, conflicts_with = "urgent")]
    pub important: bool,
    /// Interrupt the turn, where that can be done
    #[arg(long)]
    pub urgent: bool,
    /// Not to be read any more after so long: 30m, 2h
    #[arg(long, value_name = "DURATION")]
    pub expires: Option<jiff::SignedDuration>,
    /// Tell the sender when the turn in which it was read has ended
    #[arg(long)]
    pub notify: bool,
    /// Who it is from [default: the agent this runs in, else `user`]
    #[arg(long)]
    pub from: Option<AgentId>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct InboxArgs {
    /// Whose [default: the agent this runs in]
    pub agent: Option<AgentId>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct CheckpointArgs {
    #[command(subcommand)]
    pub command: Option<CheckpointCommand>,
    /// What the workflow is about, or has accomplished
    #[arg(long)]
    pub goal: Option<String>,
    /// What needs to happen next
    #[arg(long)]
    pub now: Option<String>,
    /// Something that is done (repeatable)
    #[arg(long, value_name = "TEXT")]
    pub done: Vec<String>,
    /// Something that is in the way (repeatable)
    #[arg(long, value_name = "TEXT")]
    pub blocker: Vec<String>,
    /// A next step (repeatable)
    #[arg(long, value_name = "TEXT")]
    pub next: Vec<String>,
    /// The workflow's name, to group by
    #[arg(long)]
    pub name: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum CheckpointCommand {
    /// All checkpoints, newest first
    List {
        /// Only of this workflow
        #[arg(long)]
        name: Option<String>,
        /// At most this many
        #[arg(long, short = 'n', default_value_t = 20, value_name = "N")]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// The newest checkpoint
    Latest {
        /// Only of this workflow
        #[arg(long)]
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub struct BackupArgs {
    #[command(subcommand)]
    pub command: Option<Backup>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Backup {
    /// All copies, newest first (what `baton backup` does by itself)
    List {
        /// Only of the current folder
        #[arg(long)]
        here: bool,
    },
    /// Take what is missing, then read everything once and say what is damaged
    Verify {
        /// A session id (its beginning is enough) [default: all]
        session: Option<String>,
    },
    /// Put a conversation back where the client resumes it, and say how
    #[command(after_help = "\
A transcript that says more than the copy, or something else, is not replaced without --force, and is kept then.
With --to the conversation moves: its working folder and paths become those of the other project.")]
    Restore {
        /// A session id (its beginning is enough), or a folder or archive that `export` made
        session: String,
        /// What it held before it was rewritten or cut; `list --json` shows the numbers [default: the newest]
        #[arg(long, value_name = "N")]
        generation: Option<u32>,
        /// Under another project
        #[arg(long, value_name = "PROJECT", value_hint = ValueHint::DirPath)]
        to: Option<PathBuf>,
        /// Replace a transcript that says more or something else; it is kept beside
        #[arg(long)]
        force: bool,
        /// Say what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Write a conversation to a new folder, or to one file if its name ends in .tar or .tar.zst
    Export {
        /// A session id; its beginning is enough
        session: String,
        #[arg(value_hint = ValueHint::AnyPath)]
        to: PathBuf,
    },
    /// Remove what is older or more than the settings keep, and say what
    Prune {
        /// Only say what would be removed
        #[arg(long)]
        dry_run: bool,
        /// Days instead of `mirror.keep_days`; 0 keeps for ever
        #[arg(long, value_name = "DAYS")]
        keep_days: Option<u64>,
        /// Megabytes instead of `mirror.max_mb`; 0 is no limit
        #[arg(long, value_name = "MB")]
        max_mb: Option<u64>,
    },
    /// Compress sessions that are over
    Compress {
        /// A session id (its beginning is enough) [default: all]
        session: Option<String>,
    },
    /// Keep a session for ever
    Pin {
        /// A session id; its beginning is enough
        session: String,
    },
    /// Let it be pruned again
    Unpin {
        /// A session id; its beginning is enough
        session: String,
    },
}

#[derive(Debug, Args)]
pub struct MemoryArgs {
    #[command(subcommand)]
    pub command: Memory,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Memory {
    /// Give this project a memory: .claude/memory and a block in CLAUDE.md
    Init {
        /// Take it back; files that were edited become what they were, what was saved stays
        #[arg(long)]
        remove: bool,
    },
    /// Save this session: active-context.md first, then a session document
    #[command(after_help = "\
The text has two parts: where the work stands, which every session begins with, and the whole session. Between them
stands the line
  === session document ===
Times and ids are stamped, facts from the transcript are added, secrets are redacted.")]
    Save {
        /// The text, or - for standard input
        #[arg(default_value = "-", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Where the document goes [default: .claude/memory/session-{time}.md]
        #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
        to: Option<PathBuf>,
    },
    /// Backups that nobody has looked at yet, newest first
    Pending {
        /// For a skill: exit 0 also when there is nothing
        #[arg(long)]
        agent: bool,
    },
    /// Drop the newest pending backup; the mirror stays
    Discard {
        /// All of them
        #[arg(long)]
        all: bool,
        /// For a skill: exit 0 also when there is nothing
        #[arg(long)]
        agent: bool,
    },
    /// Saved sessions of this project, pending backups first
    List {
        /// For a skill: exit 0 also when there is nothing
        #[arg(long)]
        agent: bool,
    },
    /// What to go on from: the facts of the pending backup, else the newest session document
    Context {
        /// This session document instead
        #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
        from: Option<PathBuf>,
        /// Write this text, or - for standard input, to active-context.md and settle the backup
        #[arg(long, value_name = "FILE", conflicts_with = "from")]
        update: Option<PathBuf>,
        /// At most so many characters
        #[arg(long, value_name = "N", default_value_t = 9_000)]
        budget: usize,
        /// For a skill: exit 0 also when there is nothing
        #[arg(long)]
        agent: bool,
    },
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    pub shell: ShellArg,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum ShellArg {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
pub struct LogArgs {
    /// Wait for more
    #[arg(long, short = 'f')]
    pub follow: bool,
    /// Only of this session (its beginning is enough)
    #[arg(long)]
    pub session: Option<String>,
    /// Only of this agent
    #[arg(long)]
    pub agent: Option<AgentId>,
    /// The last N lines
    #[arg(long, short = 'n', default_value_t = 50, value_name = "N")]
    pub lines: usize,
    /// Only what went wrong
    #[arg(long)]
    pub faults: bool,
    /// Print JSON, one line each
    #[arg(long)]
    pub json: bool,
    /// Do not page long output
    #[arg(long)]
    pub no_pager: bool,
}

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Go to the background; done when it listens
    #[arg(long, conflicts_with_all = ["stop", "status", "print_unit"])]
    pub detach: bool,
    /// Stop the one that runs
    #[arg(long, conflicts_with_all = ["status", "print_unit", "http"])]
    pub stop: bool,
    /// Tell whether one runs, and where it listens (exit 3: none)
    #[arg(long, conflicts_with_all = ["print_unit", "http"])]
    pub status: bool,
    /// Print a unit that starts it at login
    #[arg(long, value_name = "KIND")]
    pub print_unit: Option<UnitKind>,
    /// Also listen on this loopback address or port [default: 127.0.0.1:8420; always: the setting serve.http]
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "")]
    pub http: Option<String>,
    /// With --status: print JSON
    #[arg(long)]
    pub json: bool,
    /// Started by `--detach`: says on its output that it listens, and lets go of it
    #[arg(long, hide = true)]
    pub detached: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum UnitKind {
    Systemd,
    Launchd,
}

#[derive(Debug, Args)]
pub struct SessionsArgs {
    #[command(subcommand)]
    pub command: Option<Sessions>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Do not page long output
    #[arg(long, global = true)]
    pub no_pager: bool,
}

/// Whose conversations are meant.
#[derive(Debug, Args, Default)]
pub struct WhoseArgs {
    /// Of all projects, not only of this one
    #[arg(long)]
    pub all: bool,
    /// Of this project: its folder, the folder's name, or its channel
    #[arg(long, value_name = "PROJECT", conflicts_with = "all")]
    pub project: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Sessions {
    /// List conversations, newest first (what `baton sessions` does when it is not in a terminal)
    #[command(after_help = "\
A row tells what it was about, when and how long, how many tokens it held, how it ended, and the handoffs
in and out. A mark before the title: `>` runs now, `-` cannot be resumed as it is. Titles have no secrets.")]
    List {
        #[command(flatten)]
        whose: WhoseArgs,
        /// At most this many; 0 for all
        #[arg(long, short = 'n', default_value_t = 20, value_name = "N")]
        limit: usize,
    },
    /// What one conversation was about
    Show {
        /// A session id (its beginning is enough) or a transcript
        id: String,
        /// The facts that its transcript proves (the default)
        #[arg(long, conflicts_with_all = ["turns", "raw"])]
        ledger: bool,
        /// Who said and did what, one line each
        #[arg(long, conflicts_with = "raw")]
        turns: bool,
        /// The transcript as it is, secrets included
        #[arg(long)]
        raw: bool,
    },
    /// Find words in what was said and done, also before compactions and in mirrors
    #[command(after_help = "\
Words must all be in one message; '\"a phrase\"' is one piece. Small letters match capital ones too.
The best come first: words together, the user's own, the newest. Known secrets are found but not shown.")]
    Search(SearchArgs),
    /// Start the client on a conversation again
    #[command(after_help = "\
Everything behind `--` goes to the client. A conversation of another project is not resumed here; the
command that does it there is printed (exit 1).")]
    Resume {
        /// A session id (its beginning is enough)
        #[arg(required_unless_present = "last")]
        id: Option<String>,
        /// The newest conversation of this project
        #[arg(long, conflicts_with = "id")]
        last: bool,
        /// A new agent of this client (claude, codex) instead, begun with what the conversation's transcript proves
        #[arg(long = "in", value_name = "CLIENT")]
        other: Option<String>,
        /// Options for the client
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// The chains of sessions and the handoffs between them
    Tree {
        /// Only the chain of this session (the beginning of its id is enough)
        id: Option<String>,
        #[command(flatten)]
        whose: WhoseArgs,
    },
}

#[derive(Debug, Args)]
pub struct SearchArgs {
    /// Words and '"phrases"'
    #[arg(required = true)]
    pub query: Vec<String>,
    /// Take the query as a regular expression
    #[arg(long)]
    pub regex: bool,
    /// Only what this one said: user, assistant, tool
    #[arg(long, value_enum)]
    pub role: Option<RoleArg>,
    /// Only calls of this tool and what they gave
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Only calls about this file; the end of its path is enough
    #[arg(long, value_name = "PATH")]
    pub file: Option<String>,
    /// Not before: 2026-11-01, 2026-11-01T12:00Z, or 3h, 7d ago
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Before
    #[arg(long, value_name = "WHEN")]
    pub until: Option<String>,
    #[command(flatten)]
    pub whose: WhoseArgs,
    /// Lines of context around each hit
    #[arg(long, short = 'C', default_value_t = 0, value_name = "N")]
    pub context: usize,
    /// At most this many hits
    #[arg(long, short = 'n', default_value_t = 20, value_name = "N")]
    pub limit: usize,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum RoleArg {
    User,
    Assistant,
    Tool,
}
