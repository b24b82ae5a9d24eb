//! The whole command line in one place; each verb's file says what it does.

use std::path::PathBuf;

use baton_core::fleet::{Address, MachineName};
use baton_core::handoff::HandoffId;
use baton_core::ids::{AgentId, SessionId};
use clap::{Args, Parser, Subcommand, ValueHint};

/// Keeps coding agents working across the limit of their context window.
#[derive(Debug, Parser)]
#[command(
    name = "baton",
    version,
    max_term_width = 100,
    after_help = "\
`baton help COMMAND` explains one, with examples. `baton demo` shows in a minute what baton does.
Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 nothing there."
)]
pub(super) struct Cli {
    /// Act on this channel (the project that handoffs belong to), not on that of the current folder
    #[arg(long, global = true, value_name = "NAME")]
    pub channel: Option<String>,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run an agent here and keep it going, context after context
    #[command(
        override_usage = "baton run [OPTIONS] [--] [PROVIDER] [ARGS]...",
        after_help = "\
PROVIDER and everything after it are the agent's own command line:
  baton run                            the first client found, in this folder
  baton run claude --model opus        Claude Code with its own options
  baton run -- claude -p \"Port it\"    headless, over as many contexts as the task needs
When the context is nearly full, the agent hands over and continues in a fresh one. baton exits with the agent's code."
    )]
    Run(RunArgs),
    /// Give an agent a fresh context now; the handoff is made from what its transcript proves
    Rotate(AgentArgs),
    /// Undo the last rotation: resumes the earlier conversation and makes its handoff active again
    Undo(AgentArgs),
    /// Stop an agent for good
    Retire(AgentArgs),
    /// Start an agent in a new tmux pane
    #[command(after_help = "\
Everything after -- goes to the client:
  baton spawn reviewer --prompt \"Review the last commit\" -- --model opus
The agent lives on the tmux server `baton` (tmux -L baton), keeps its name across every fresh context, and is a
child of the agent that spawned it.")]
    Spawn(SpawnArgs),
    /// Show an agent's pane in this terminal
    Attach(AgentArgs),
    /// Wait until agents are idle, blocked, at a limit or ended
    #[command(
        after_help = "Exit codes: 0 all are idle, blocked or at a limit; 1 one still works after the timeout; 3 one has ended."
    )]
    Wait(WaitArgs),
    /// Open the live screen: who works, who needs you, how full they are; `baton` alone opens it too
    #[command(after_help = "\
Every action shows the command that does the same; `?` lists the keys.
  baton top               through the daemon, which it starts if necessary
  baton top --no-daemon   from the files alone")]
    Top(TopArgs),
    /// Open the page in your browser: who needs you, how full everybody is, what was said
    #[command(after_help = "\
The daemon serves it on 127.0.0.1; it is started if necessary. The address contains a code that works once, within a
minute. At first the page is read-only; --code prints eight digits that let it answer, send and rotate too.
  baton page           opens it
  baton page --print   prints the address, for another browser or a tunnel (ssh -L 8420:127.0.0.1:8420 this-machine)
  baton page --code    prints the digits that the page asks for before it changes anything")]
    Page(PageArgs),
    /// Show what an agent did last: prompts, tool calls and their results, answers
    #[command(after_help = "\
It reads the transcript, so it does not disturb the agent and does not depend on what its pane shows.")]
    Tail(TailArgs),
    /// Summarize an agent: its goal, current step, last answer, files and open points
    What(WhatArgs),
    /// Report that your task is finished. For agents; the parent gets it with your last answer
    #[command(after_help = "\
The task's chain of handoffs ends here. `--undo` takes the report back until the user asks for something new.")]
    Done(DoneArgs),
    /// Remind an agent, or yourself, at a later time
    #[command(
        override_usage = "baton remind <--in|--every|--at> TIME [NAME] TEXT",
        after_help = "\
The reminder arrives as a message and survives restarts. Without NAME it is for whoever runs the command. The daemon
sends it; if none runs, the agent's next hook does. A missed reminder arrives once, late, and says so."
    )]
    Remind(RemindArgs),
    /// List pending reminders; `reminders cancel ID` cancels one
    Reminders(RemindersArgs),
    /// Rename an agent; mail, handoffs and children follow
    Rename(RenameArgs),
    /// Give an agent an empty context: no handoff, nothing carried over (asks first)
    Clear(ClearArgs),
    /// Make an agent the child of another one
    Reparent(ReparentArgs),
    /// Answer a message in your inbox
    Reply(ReplyArgs),
    /// Adopt an agent that already runs in a tmux pane; without a name, list those that could be adopted
    Adopt(AdoptArgs),
    /// List the agents that an agent has spawned
    Children(ChildrenArgs),
    /// List all agents, parents before children; `agents restore` brings back those in panes
    Agents(AgentsArgs),
    /// Hand over, as the last act of a turn. For agents; a person uses `baton handoffs`
    #[command(after_help = "\
The file is copied at once and sealed when the turn ends; then the agent continues in a fresh context
that begins with it. If you call it twice, the last call counts. Exit codes: 1 no such file, 2 not inside an agent.")]
    Handoff(HandoffArgs),
    /// List, show, load, write and repair a project's handoffs
    Handoffs(HandoffsArgs),
    /// Show how full the agents are and what waits for them
    Status(StatusArgs),
    /// Send a message to an agent; it reads it when its turn has ended
    Send(SendArgs),
    /// List messages to you or an agent, and whether they arrived
    Inbox(InboxArgs),
    /// List messages that you or an agent sent, and what became of them
    Outbox(InboxArgs),
    /// Find, read and resume past conversations of every client
    #[command(after_help = "\
In a terminal, `baton sessions` alone lets you choose one: type to filter, type / and words to search what was said, press
Enter to resume.")]
    Sessions(SessionsArgs),
    /// List, verify, export and restore copies of conversations
    #[command(after_help = "\
Every hook copies what was added to the transcript, so what a client cuts, rewrites or deletes is still here.
Nothing is removed automatically: `baton backup prune` says what it removes; pinned sessions stay.")]
    Backup(BackupArgs),
    /// Save and load what this project's sessions leave for the next one
    Memory(MemoryArgs),
    /// Publish a workflow's goal and current step to all its instances
    #[command(after_help = "\
Writes thoughts/shared/handoffs/events/{time}_{session}.md in the project; every status line shows the newest.")]
    Checkpoint(CheckpointArgs),
    /// List what agents ask for: permission requests and questions, oldest first
    #[command(after_help = "\
The client shows its own dialog at the same time; the first answer counts.
  baton approvals --watch                 each one as it arrives
  baton approve                           answer one after the other, with keys
  baton approve 3f9a1c2b                  allow it once; --session, --always as its dialog offers
  baton deny 3f9a1c2b \"Use the staging database\"
  baton answer 3f9a1c2b 2                 a question, by number, label or a text of your own
Rules that answer automatically are in [approvals] in your own config.toml.")]
    Approvals(ApprovalsArgs),
    /// Allow what an agent asks for; without an id, one after the other
    Approve(ApproveArgs),
    /// Refuse what an agent asks for; it reads your reason
    Deny(DenyArgs),
    /// Answer an agent's question
    Answer(AnswerArgs),
    /// Show what happened, from the log
    Log(LogArgs),
    /// Run the daemon: the API, notifications, housekeeping. Hooks and `baton run` work without it
    #[command(after_help = "\
Listens on a unix socket that only you can reach; with --http also on 127.0.0.1, where every request needs the token
in the file that `--status` names. All state is on disk: you can stop, kill and restart it at any time.")]
    Serve(ServeArgs),
    /// Move an agent to another machine of the fleet: its handoff goes there, and it stops here
    #[command(after_help = "\
The handoff, its ledger and the state of the work tree go along. Refused if the other machine cannot get the commit:
push first, or carry the changes with --with-patch.")]
    Move(MoveArgs),
    /// Connect several machines: see their agents and write to them, through your own PostgreSQL
    #[command(after_help = "\
One machine founds the fleet and invites the others; each joins with a code that works once:
  baton fleet init postgres://team:secret@db.example/app   on the first machine
  baton fleet join postgres://team:secret@db.example/app   the same machine joins
  baton fleet invite desk                                  prints a code for the machine `desk`
  baton fleet join CODE                                    on that machine
Then `baton agents --fleet` shows all agents and `baton send NAME@MACHINE` reaches them, also while a machine sleeps.
What is sent is sealed for its reader; the database sees names and sizes. See docs/fleet.md.")]
    Fleet(FleetArgs),
    /// Set up baton on this machine or in a project: shows every change before it makes it
    #[command(after_help = "\
If `baton` is already on the PATH, the hooks call it there, so that upgrades reach them. Otherwise it is copied to
~/.local/bin. The hooks go into one plugin folder in the client's own folder; settings.json gets the status line and
the permission rules. Other tools' hooks stay, and an existing status line keeps working. `baton uninstall` restores
everything as it was.

  baton install                    for all your projects
  baton install --project          this project, with its own memory
  baton install --migrate          first move aside other tools' scripts that do the same
  baton install --migrate --undo   bring them back")]
    Install(InstallArgs),
    /// Remove baton from the clients; settings become what they were, byte for byte
    Uninstall(UninstallArgs),
    /// Check that everything works, and say how to fix what does not
    Doctor(DoctorArgs),
    /// Print a folder's channel: the name under which its project's handoffs are kept
    Channel(ChannelArgs),
    /// Show every setting, its value and its origin
    Config(ConfigArgs),
    /// Accept this project's own settings and memory; they have no effect until you do
    #[command(after_help = "\
Until you accept a project's folder, its .baton.toml may change only what is shown there, and a memory that came with a
clone is neither read nor written.

  baton trust            accept the project around this folder, as it is now
  baton trust --list     list the accepted folders
  baton trust --forget   stop accepting it

A channel belongs to the project that used it first. If a .baton.toml names another project's channel, baton asks; in a
script, `--share-channel` says yes.")]
    Trust(TrustArgs),
    /// See in a minute what baton does, in a temporary home
    Demo(DemoArgs),
    /// Print a shell completion script: for commands, agents, sessions and handoffs
    #[command(after_help = "\
  bash  baton completions bash > ~/.local/share/bash-completion/completions/baton
  zsh   baton completions zsh > ~/.zfunc/_baton     (a folder in $fpath before compinit runs)
  fish  baton completions fish > ~/.config/fish/completions/baton.fish")]
    Completions(CompletionsArgs),
    /// What could come next on a command line, one per line: the scripts of `completions` ask
    #[command(hide = true)]
    Complete {
        /// The words behind `baton`, the last of them as far as it is typed
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Print the version
    Version,
    /// Print the man page: baton man > baton.1
    #[command(hide = true)]
    Man,
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
pub(super) struct HandoffsArgs {
    #[command(subcommand)]
    pub command: Option<Handoffs>,
    /// At most this many, without a command
    #[arg(long, short = 'n', default_value_t = 20, value_name = "N")]
    pub limit: usize,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Do not page long output
    #[arg(long, global = true)]
    pub no_pager: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Handoffs {
    /// List handoffs and their states, newest first (the same as `baton handoffs`)
    List {
        /// Show those of all channels
        #[arg(long)]
        all: bool,
        /// At most this many
        #[arg(long, short = 'n', default_value_t = 20, value_name = "N")]
        limit: usize,
    },
    /// Print the document of one handoff without changing its state
    Show {
        /// The handoff's id, as `baton handoffs` lists it
        id: HandoffId,
    },
    /// Print the active handoff's id
    Current,
    /// Print the active handoff, or the one named, and mark it consumed
    #[command(after_help = "\
If two sessions load at once, one gets the handoff and the other exits with 3.
An expired handoff is loaded only by its id.")]
    Load {
        /// The handoff's id [default: the active one]
        id: Option<HandoffId>,
        /// Only print it; do not change its state
        #[arg(long)]
        peek: bool,
        /// If its home is another machine: load a copy that says so. The work may then be done twice
        #[arg(long, requires = "id", conflicts_with = "peek")]
        force: bool,
        /// The session that loads it [default: the one this runs in, else `manual`]
        #[arg(long)]
        session: Option<SessionId>,
        /// The agent that loads it
        #[arg(long)]
        agent: Option<AgentId>,
    },
    /// Set the active handoff aside without loading it
    Clear {
        /// The handoff's id [default: the active one]
        id: Option<HandoffId>,
    },
    /// Show the audit trail: who sealed, claimed and consumed what, and when
    History,
    /// Print where the active document, the manifest and the archive are
    Path,
    /// Write a handoff: FILE, or - for standard input
    #[command(after_help = "\
When this returns, the handoff is on disk and survives a crash of the machine.
It prints the handoff's id. The one it replaces stays in the archive.")]
    Seal {
        /// The document, or - for standard input
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
        /// Fit it into this many characters
        #[arg(long, value_name = "N")]
        budget: Option<usize>,
        /// Compare it with the last handoff: what it lacks and what it adds
        #[arg(long, conflicts_with = "budget", value_name = "WHICH")]
        against: Option<Against>,
    },
    /// Show the handoffs that led to one: date, reason, author, and what each carried
    #[command(args_conflicts_with_subcommands = true)]
    Chain {
        /// The handoff's id [default: the newest]
        id: Option<HandoffId>,
        #[command(subcommand)]
        verb: Option<ChainVerb>,
    },
    /// Compare two handoffs: what the later one lacks (red) and what it adds
    Diff {
        /// The earlier handoff
        a: HandoffId,
        /// The later one
        b: HandoffId,
    },
    /// Repair damaged handoff files of this project: sets files aside, deletes nothing, says what it did
    Repair,
}

/// `baton handoffs chain …`.
#[derive(Debug, Subcommand)]
pub(super) enum ChainVerb {
    /// Forget one item that the task carries; without ITEM, list them
    Drop {
        /// The item, as the list names it
        item: Option<String>,
        /// The handoff that carries it [default: the newest]
        #[arg(long, value_name = "ID")]
        from: Option<HandoffId>,
    },
}

/// What a draft is compared with.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum Against {
    /// The newest handoff of the channel
    Last,
}

#[derive(Debug, Args)]
pub(super) struct ScopeArgs {
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
pub(super) struct InstallArgs {
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// The client: claude, codex
    #[arg(long, value_name = "PROVIDER", default_value = crate::providers::USUAL)]
    pub provider: String,
    /// Codex runs hooks only after you have reviewed them: review and trust baton's here (asks first)
    #[arg(long)]
    pub trust: bool,
    /// Codex: an agent that has handed over continues in a fresh window of the same thread (under development there)
    #[arg(long)]
    pub fresh_window: bool,
    /// Show what would change; change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// First move aside other tools' scripts, commands and settings entries that do what baton does; their data stays
    #[arg(long)]
    pub migrate: bool,
    /// Bring back what --migrate moved aside
    #[arg(long, requires = "migrate")]
    pub undo: bool,
    /// Leave the status line alone
    #[arg(long)]
    pub no_statusline: bool,
    /// Leave out the slash commands
    #[arg(long)]
    pub no_commands: bool,
    /// With --project: leave out its memory (.claude/memory and a block in CLAUDE.md)
    #[arg(long, requires = "project")]
    pub no_memory: bool,
    /// Leave out the permission rules, which let agents hand over without asking and keep them from deciding for you
    #[arg(long)]
    pub no_permission: bool,
    /// Also let agents send, wait, spawn, list and the like without asking: for agents that lead others
    #[arg(long, conflicts_with = "no_permission")]
    pub agents: bool,
    /// Put the hooks into settings.json instead of a plugin folder
    #[arg(long)]
    pub settings: bool,
    /// Also link `sm` to baton, unless another program has that name
    #[arg(long)]
    pub sm: bool,
    /// Where the program goes [default: where it is on the PATH, else ~/.local/bin]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub bin_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct UninstallArgs {
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// The client: claude, codex
    #[arg(long, value_name = "PROVIDER", default_value = crate::providers::USUAL)]
    pub provider: String,
    /// Show what would change; change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Check afterwards, and fail if anything of baton is left in the client
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
pub(super) struct DoctorArgs {
    /// Fix what can be fixed without asking
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
pub(super) struct ChannelArgs {
    /// The folder to ask about [default: the current one]
    #[arg(value_hint = ValueHint::DirPath)]
    pub path: Option<PathBuf>,
    /// Also say why
    #[arg(long)]
    pub why: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct TrustArgs {
    /// The folder [default: the current one]
    #[arg(value_hint = ValueHint::DirPath)]
    pub path: Option<PathBuf>,
    /// List the folders that are accepted
    #[arg(long, conflicts_with = "forget")]
    pub list: bool,
    /// Stop accepting this project
    #[arg(long)]
    pub forget: bool,
    /// Accept a channel that another project uses: each project then loads and replaces the other's handoffs
    #[arg(long, conflicts_with_all = ["list", "forget"])]
    pub share_channel: bool,
    /// Print JSON
    #[arg(long, requires = "list")]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct MoveArgs {
    /// The agent's name; `baton agents` lists them
    pub agent: AgentId,
    /// The machine; `baton fleet machines` lists them
    pub machine: MachineName,
    /// Carry along the changes that no git remote has
    #[arg(long)]
    pub with_patch: bool,
    /// Send its last session's whole conversation too, up to 64 MiB
    #[arg(long)]
    pub with_conversation: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct FleetArgs {
    #[command(subcommand)]
    pub command: FleetCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum FleetCommand {
    /// Create or update the schema in a database and found a fleet there
    Init {
        /// `postgres://USER:PASSWORD@HOST/DATABASE`, for a role that may create schemas and roles
        url: String,
    },
    /// Add this machine to the fleet
    Join {
        /// The code that `baton fleet invite` printed; on the machine that founded the fleet, the database's URL
        code: String,
        /// This machine's name, on the machine that founded the fleet [default: its host name]
        #[arg(long)]
        name: Option<MachineName>,
    },
    /// Print a code that lets another machine join, once and within a day
    Invite {
        /// The name that the machine will have
        name: MachineName,
    },
    /// Show whether the database is reachable, how much waits for it, and which machines are awake
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List all machines: awake, asleep or gone, and when they last reported
    Machines {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check the connection to the database: TLS, clocks, permissions, poolers
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Choose the folder for a handoff from another machine that fits no folder known here
    Take {
        /// The handoff's id
        handoff: HandoffId,
        /// The folder
        #[arg(long, value_hint = ValueHint::DirPath)]
        into: PathBuf,
    },
    /// Leave the fleet; what has not been sent is set aside
    Leave {
        /// Also forget that this machine founded the fleet: nobody can be invited or revoked any more
        #[arg(long)]
        dissolve: bool,
    },
    /// Remove a machine from the fleet: from now on it can neither read nor write
    Revoke {
        /// The machine's name
        name: MachineName,
    },
    /// Delete what the database holds about a machine that was revoked or has left, or about one of this machine's
    /// channels, and verify that
    Purge {
        /// The machine's name; with `--channel CHANNEL` instead, what this machine sent of that channel
        name: Option<MachineName>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    pub command: Option<ConfigCommand>,
    /// Show only settings that differ from their default: who set them, or why they have no effect
    #[arg(long, conflicts_with = "json")]
    pub why: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Change one setting in your own config.toml; comments and order stay
    Set {
        /// The setting, as `baton config` names it
        key: String,
        /// The value as in the file; text needs no quotes, and [approvals] also takes a single rule
        value: String,
    },
    /// Reset one setting to its default
    Unset {
        /// The setting, as `baton config` names it
        key: String,
    },
    /// Open your own config.toml in $VISUAL or $EDITOR; it is checked before it takes effect
    Edit,
}

#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Do not pause between the steps
    #[arg(long)]
    pub fast: bool,
    /// Keep the temporary home and say where it is
    #[arg(long)]
    pub keep: bool,
}

#[derive(Debug, Args)]
pub(super) struct HandoffArgs {
    /// The document, or - for standard input
    #[arg(value_hint = ValueHint::FilePath, required_unless_present_any = ["cancel", "status", "to"])]
    pub file: Option<PathBuf>,
    /// Give the work to another agent: codex, claude, or an agent's NAME or NAME@MACHINE; without a FILE, hands over what
    /// the transcript proves
    #[arg(long, value_name = "AGENT", conflicts_with_all = ["cancel", "status", "now"])]
    pub to: Option<String>,
    /// With --to: start a new agent in a tmux pane (always so if the caller is in a pane)
    #[arg(long, requires = "to")]
    pub spawn: bool,
    /// With --to NAME@MACHINE: carry along the changes that no git remote has
    #[arg(long, requires = "to")]
    pub with_patch: bool,
    /// With --to: print JSON
    #[arg(long, requires = "to")]
    pub json: bool,
    /// Cancel what was handed over in this turn
    #[arg(long, conflicts_with_all = ["file", "status"])]
    pub cancel: bool,
    /// With --cancel: this agent's handoff, not the caller's
    #[arg(long, value_name = "AGENT", requires = "cancel")]
    pub of: Option<AgentId>,
    /// Show what is pending
    #[arg(long, conflicts_with = "file")]
    pub status: bool,
    /// Seal and rotate at once, not at the end of the turn
    #[arg(long, requires = "file")]
    pub now: bool,
}

#[derive(Debug, Args)]
#[command(trailing_var_arg = true)]
pub(super) struct RunArgs {
    /// The agent's name [default: the project's, plus a word if taken]
    #[arg(long)]
    pub name: Option<AgentId>,
    /// Restart it when it crashes
    #[arg(long)]
    pub keep_alive: bool,
    /// Let its permission requests be answered elsewhere too (`baton approvals`)
    #[arg(long)]
    pub approvals: bool,
    /// Let this agent answer them too
    #[arg(long, value_name = "AGENT")]
    pub approver: Option<AgentId>,
    /// The scripted agent, which needs no client and no account
    #[arg(long)]
    pub demo: bool,
    /// The client (claude, codex, or the path of one), and its own arguments
    #[arg(allow_hyphen_values = true, value_name = "PROVIDER] [ARGS")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct AgentArgs {
    /// Which agent [default: the one running in this project]
    pub agent: Option<AgentId>,
}

#[derive(Debug, Args)]
pub(super) struct SpawnArgs {
    /// The agent's name, which must be unique
    pub name: AgentId,
    /// The client: claude, codex, demo [default: the first one found]
    #[arg(long)]
    pub provider: Option<String>,
    /// Give it its own git worktree, on a branch with its name
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
    /// Its parent [default: the agent this runs in]
    #[arg(long, value_name = "AGENT")]
    pub parent: Option<AgentId>,
    /// Its role in a word or two: shown beside its name and given to the agent
    #[arg(long, value_name = "ROLE")]
    pub role: Option<String>,
    /// Let this agent answer its permission requests too
    #[arg(long, value_name = "AGENT")]
    pub approver: Option<AgentId>,
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
pub(super) struct WaitArgs {
    /// Which agents
    #[arg(required = true)]
    pub agents: Vec<AgentId>,
    /// Return when one of them is, not all
    #[arg(long)]
    pub any: bool,
    /// Wait until they report that their task is finished (`baton done`), not only until they are idle
    #[arg(long)]
    pub done: bool,
    /// Give up after this time: 30s, 10m, 2h
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<jiff::SignedDuration>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Default, Args)]
pub(super) struct TopArgs {
    /// Read the files instead of asking the daemon
    #[arg(long)]
    pub no_daemon: bool,
    /// Include agents that ended more than a day ago
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Args)]
pub(super) struct PageArgs {
    /// Print the address instead of opening it
    #[arg(long, conflicts_with = "code")]
    pub print: bool,
    /// Print the code that lets an open page change things
    #[arg(long)]
    pub code: bool,
    /// Print JSON, and open nothing
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct TailArgs {
    /// Which agent [default: the one running in this project]
    pub agent: Option<AgentId>,
    /// Show the last N entries; with --screen, lines [default: 20; with --screen 40]
    #[arg(long, short = 'n', value_name = "N")]
    pub lines: Option<usize>,
    /// Show the last lines of its pane instead
    #[arg(long, conflicts_with = "follow")]
    pub screen: bool,
    /// Keep showing new entries until Ctrl+C
    #[arg(long, short = 'f')]
    pub follow: bool,
    /// Print JSON; with --follow one line each
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct WhatArgs {
    /// Which agent [default: the one running in this project]
    pub agent: Option<AgentId>,
    /// Show only this part
    pub part: Option<WhatPart>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum WhatPart {
    /// Whether it works, is idle or waits, and for what
    State,
    /// What was asked for first
    Goal,
    /// What it does now
    Now,
    /// Its last answer
    Last,
    /// The files it touched, newest first
    Files,
    /// Open todos, unanswered questions, running jobs
    Open,
}

#[derive(Debug, Args)]
pub(super) struct DoneArgs {
    /// The result
    pub text: Vec<String>,
    /// Take the report back
    #[arg(long, conflicts_with = "text")]
    pub undo: bool,
    /// For this agent, if you lead it [default: the one this runs in]
    #[arg(long, value_name = "NAME")]
    pub agent: Option<AgentId>,
}

/// A stretch of time as people write it.
fn span(text: &str) -> Result<jiff::SignedDuration, String> {
    text.parse().map_err(|_| "write it like 20m, 1h30m or 2d".to_owned())
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("when").required(true)))]
pub(super) struct RemindArgs {
    /// After this time: 20m, 1h30m
    #[arg(long = "in", value_name = "TIME", group = "when", value_parser = span)]
    pub after: Option<jiff::SignedDuration>,
    /// Repeat at this interval; the first one comes after this time
    #[arg(long, value_name = "TIME", group = "when", value_parser = span)]
    pub every: Option<jiff::SignedDuration>,
    /// At this time: 17:00, or "2026-11-18 09:00"
    #[arg(long, value_name = "TIME", group = "when")]
    pub at: Option<String>,
    /// Whom to remind, if not yourself, and the text
    #[arg(required = true, value_name = "NAME TEXT")]
    pub words: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct RemindersArgs {
    #[command(subcommand)]
    pub command: Option<RemindersCommand>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum RemindersCommand {
    /// Cancel a reminder
    Cancel {
        /// Its id, as `baton reminders` shows it
        id: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct RenameArgs {
    /// Its current name
    pub agent: AgentId,
    /// Its new name
    pub name: AgentId,
}

#[derive(Debug, Args)]
pub(super) struct ClearArgs {
    /// Which agent
    pub agent: AgentId,
    /// Its first prompt in the empty context
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub yes: bool,
}

#[derive(Debug, Args)]
pub(super) struct ReparentArgs {
    /// Which agent
    pub agent: AgentId,
    /// Its new parent; or --none
    #[arg(conflicts_with = "none")]
    pub parent: Option<AgentId>,
    /// No parent: its notices come to you
    #[arg(long)]
    pub none: bool,
}

#[derive(Debug, Args)]
pub(super) struct ReplyArgs {
    /// Which message, as `baton inbox` shows it
    pub id: String,
    /// The answer, or - for standard input
    #[arg(required = true)]
    pub text: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct AdoptArgs {
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
pub(super) struct ChildrenArgs {
    /// The parent [default: the agent this runs in]
    pub agent: Option<AgentId>,
    /// Include agents that ended more than a day ago
    #[arg(long)]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum AgentsCommand {
    /// Restart agents that lived in panes before a reboot or a crash, each with its handoff
    Restore {
        /// Only these, even if they were retired
        agents: Vec<AgentId>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct AgentsArgs {
    #[command(subcommand)]
    pub command: Option<AgentsCommand>,
    /// Include agents that ended more than a day ago
    #[arg(long)]
    pub all: bool,
    /// Show a tree: parents and children, with each agent's role and current work
    #[arg(long, conflicts_with = "json")]
    pub tree: bool,
    /// Show the agents of all machines of the fleet, as last reported
    #[arg(long, conflicts_with_all = ["tree", "all"])]
    pub fleet: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// Show only this agent
    pub agent: Option<AgentId>,
    /// Include agents of other projects, and those that have ended
    #[arg(long)]
    pub all: bool,
    /// Show the agents of all machines of the fleet, as last reported
    #[arg(long, conflicts_with_all = ["agent", "all", "watch"])]
    pub fleet: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Refresh whenever something changes, until Ctrl+C
    #[arg(long, conflicts_with = "json")]
    pub watch: bool,
}

#[derive(Debug, Args)]
pub(super) struct SendArgs {
    /// The agent's name, or NAME@MACHINE; `baton status` lists them
    #[arg(value_name = "AGENT")]
    pub to: Address,
    /// The text, or - for standard input
    #[arg(required = true)]
    pub text: Vec<String>,
    /// Read at the next tool call
    #[arg(long, conflicts_with = "urgent")]
    pub important: bool,
    /// Interrupt the running turn, if possible
    #[arg(long)]
    pub urgent: bool,
    /// To `user`: wait for the answer and print it
    #[arg(long, conflicts_with_all = ["important", "urgent", "notify", "expires"])]
    pub ask: bool,
    /// With --ask: stop waiting after this time; the answer then arrives as a message
    #[arg(long, value_name = "DURATION", requires = "ask")]
    pub timeout: Option<jiff::SignedDuration>,
    /// Discard it if it is still unread after this time: 30m, 2h
    #[arg(long, value_name = "DURATION")]
    pub expires: Option<jiff::SignedDuration>,
    /// Notify the sender when the turn in which it was read has ended
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
pub(super) struct InboxArgs {
    /// Whose messages to list [default: those of the agent this runs in, else yours]
    pub agent: Option<AgentId>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct CheckpointArgs {
    #[command(subcommand)]
    pub command: Option<CheckpointCommand>,
    /// What the workflow is about, or has accomplished
    #[arg(long)]
    pub goal: Option<String>,
    /// What needs to happen next
    #[arg(long)]
    pub now: Option<String>,
    /// A finished item (repeatable)
    #[arg(long, value_name = "TEXT")]
    pub done: Vec<String>,
    /// A blocker (repeatable)
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
pub(super) enum CheckpointCommand {
    /// List all checkpoints, newest first
    List {
        /// Show only this workflow
        #[arg(long)]
        name: Option<String>,
        /// At most this many
        #[arg(long, short = 'n', default_value_t = 20, value_name = "N")]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the newest checkpoint
    Latest {
        /// Show only this workflow
        #[arg(long)]
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct BackupArgs {
    #[command(subcommand)]
    pub command: Option<Backup>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Backup {
    /// List all copies, newest first (the same as `baton backup`)
    List {
        /// Show only those of the current folder
        #[arg(long)]
        here: bool,
    },
    /// Copy what is missing, then read everything once and report damage
    Verify {
        /// A session id (its beginning is enough) [default: all]
        session: Option<String>,
    },
    /// Put a conversation back where the client can resume it, and print the command
    #[command(after_help = "\
A transcript that has more than the copy, or differs from it, is replaced only with --force, and is then kept beside it.
With --to the conversation moves: its working folder and paths become those of the other project.")]
    Restore {
        /// A session id (its beginning is enough), or a folder or archive that `export` made
        session: String,
        /// An earlier version, from before it was rewritten or cut; `list --json` shows the numbers [default: the newest]
        #[arg(long, value_name = "N")]
        generation: Option<u32>,
        /// Restore it under another project
        #[arg(long, value_name = "PROJECT", value_hint = ValueHint::DirPath)]
        to: Option<PathBuf>,
        /// Replace a transcript that has more or differs; it is kept beside the restored one
        #[arg(long)]
        force: bool,
        /// The most an archive may unpack to, in GiB
        #[arg(long, value_name = "GIB", default_value_t = 4)]
        max_size: u64,
        /// The most files an archive may have
        #[arg(long, value_name = "N", default_value_t = 5_000)]
        max_files: u32,
        /// Say what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Write a conversation to a new folder, or to one file if its name ends in .tar or .tar.zst
    Export {
        /// A session id; its beginning is enough
        session: String,
        /// The new folder or file
        #[arg(value_hint = ValueHint::AnyPath)]
        to: PathBuf,
    },
    /// Remove what exceeds the age or size in the settings, and say what was removed
    Prune {
        /// Say what would be removed, and remove nothing
        #[arg(long)]
        dry_run: bool,
        /// Days instead of `mirror.keep_days`; 0 keeps forever
        #[arg(long, value_name = "DAYS")]
        keep_days: Option<u64>,
        /// Megabytes instead of `mirror.max_mb`; 0 is no limit
        #[arg(long, value_name = "MB")]
        max_mb: Option<u64>,
    },
    /// Compress ended sessions
    Compress {
        /// A session id (its beginning is enough) [default: all]
        session: Option<String>,
    },
    /// Keep a session forever
    Pin {
        /// A session id; its beginning is enough
        session: String,
    },
    /// Let a session be pruned again
    Unpin {
        /// A session id; its beginning is enough
        session: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct MemoryArgs {
    #[command(subcommand)]
    pub command: Memory,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Memory {
    /// Give this project a memory: .claude/memory and a block in CLAUDE.md
    Init {
        /// Remove it again; edited files become what they were, saved documents stay
        #[arg(long)]
        remove: bool,
    },
    /// Save this session: active-context.md first, then a session document
    #[command(after_help = "\
The text has two parts: the state of the work, which every session begins with, and the whole session. This line
separates them:
  === session document ===
baton stamps times and ids, adds facts from the transcript and redacts secrets.")]
    Save {
        /// The text, or - for standard input
        #[arg(default_value = "-", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Where the document goes [default: .claude/memory/session-{time}.md]
        #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
        to: Option<PathBuf>,
    },
    /// List backups that nobody has looked at yet, newest first
    Pending {
        /// For a skill: exit 0 even if there is nothing
        #[arg(long)]
        agent: bool,
    },
    /// Delete the newest pending backup and settle the older ones; the mirror stays
    Discard {
        /// Delete the files of all pending backups
        #[arg(long)]
        all: bool,
        /// The same as --all, as people type it after /discard-backup
        #[arg(value_name = "all", value_parser = ["all"])]
        which: Option<String>,
        /// For a skill: exit 0 even if there is nothing
        #[arg(long)]
        agent: bool,
    },
    /// List saved sessions of this project, pending backups first
    List {
        /// For a skill: exit 0 even if there is nothing
        #[arg(long)]
        agent: bool,
    },
    /// Print what to continue from: the facts of the pending backup, else the newest session document
    Context {
        /// This session document instead
        #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
        from: Option<PathBuf>,
        /// Write this text, or - for standard input, to active-context.md and settle the backup
        #[arg(long, value_name = "FILE", conflicts_with = "from")]
        update: Option<PathBuf>,
        /// At most this many characters
        #[arg(long, value_name = "N", default_value_t = 9_000)]
        budget: usize,
        /// For a skill: exit 0 even if there is nothing
        #[arg(long)]
        agent: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    pub shell: ShellArg,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum ShellArg {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
pub(super) struct ApprovalsArgs {
    #[command(subcommand)]
    pub command: Option<ApprovalsCommand>,
    /// Show each one as it arrives, until you leave
    #[arg(long)]
    pub watch: bool,
    /// Print JSON; with --watch one line each
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum ApprovalsCommand {
    /// Show what was asked and answered, newest first
    Log {
        /// Show only this agent
        #[arg(long)]
        agent: Option<AgentId>,
        /// Show the last N
        #[arg(long, short = 'n', default_value_t = 50, value_name = "N")]
        lines: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct ApproveArgs {
    /// Which interface asks
    #[arg(long, hide = true, default_value = "cli")]
    pub door: DoorArg,
    /// Which request; the beginning of its id is enough
    #[arg(conflicts_with = "all")]
    pub id: Option<String>,
    /// Also remember it, as the client's own dialog would
    #[arg(long, conflicts_with_all = ["session", "all"])]
    pub always: bool,
    /// Also allow it for the rest of the client's session
    #[arg(long, conflicts_with = "all")]
    pub session: bool,
    /// Change it in an editor first
    #[arg(long, conflicts_with = "all", requires = "id")]
    pub edit: bool,
    /// Allow everything that one agent asks for
    #[arg(long, requires = "agent")]
    pub all: bool,
    /// With --all: the agent
    #[arg(long, value_name = "NAME", requires = "all")]
    pub agent: Option<AgentId>,
}

/// The interfaces that answer through a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum DoorArg {
    Cli,
    Screen,
}

#[derive(Debug, Args)]
pub(super) struct DenyArgs {
    /// Which interface asks
    #[arg(long, hide = true, default_value = "cli")]
    pub door: DoorArg,
    /// Which request; the beginning of its id is enough
    pub id: String,
    /// What the agent reads, word for word
    #[arg(allow_hyphen_values = true)]
    pub reason: String,
}

#[derive(Debug, Args)]
pub(super) struct AnswerArgs {
    /// Which interface asks
    #[arg(long, hide = true, default_value = "cli")]
    pub door: DoorArg,
    /// Which question; the beginning of its id is enough
    pub id: String,
    /// For each question the number or label of an option (several with commas), or a text of your own
    #[arg(required = true, allow_hyphen_values = true)]
    pub answers: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct LogArgs {
    /// Cover all projects, not only this one
    #[arg(long)]
    pub all: bool,
    /// Keep showing new lines
    #[arg(long, short = 'f')]
    pub follow: bool,
    /// Show only this session (the beginning of its id is enough)
    #[arg(long)]
    pub session: Option<String>,
    /// Show only this agent
    #[arg(long)]
    pub agent: Option<AgentId>,
    /// Show the last N lines
    #[arg(long, short = 'n', default_value_t = 50, value_name = "N")]
    pub lines: usize,
    /// Show only failures
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
pub(super) struct ServeArgs {
    /// Run in the background; returns when it listens
    #[arg(long, conflicts_with_all = ["stop", "status", "print_unit"])]
    pub detach: bool,
    /// Stop the running daemon
    #[arg(long, conflicts_with_all = ["status", "print_unit", "http"])]
    pub stop: bool,
    /// Show whether one runs and where it listens (exit 3: none)
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
    /// Set by `--detach`: say on standard output that it listens, then close it
    #[arg(long, hide = true)]
    pub detached: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum UnitKind {
    Systemd,
    Launchd,
}

#[derive(Debug, Args)]
pub(super) struct SessionsArgs {
    #[command(subcommand)]
    pub command: Option<Sessions>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Do not page long output
    #[arg(long, global = true)]
    pub no_pager: bool,
}

/// Which conversations a command covers.
#[derive(Debug, Args, Default)]
pub(super) struct ConversationScope {
    /// Cover all projects, not only this one
    #[arg(long)]
    pub all: bool,
    /// Cover this project: its folder, the folder's name, or its channel
    #[arg(long, value_name = "PROJECT", conflicts_with = "all")]
    pub project: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Sessions {
    /// List conversations, newest first (what `baton sessions` does outside a terminal)
    #[command(after_help = "\
A row shows what it was about, when it ran and for how long, how many tokens it held, how it ended, and the
handoffs in and out. Marks before the title: `>` runs now, `-` cannot be resumed as it is. Titles have no secrets.")]
    List {
        #[command(flatten)]
        whose: ConversationScope,
        /// At most this many; 0 for all
        #[arg(long, short = 'n', default_value_t = 20, value_name = "N")]
        limit: usize,
        /// List those that other machines of the fleet share (`fleet.share` in their settings)
        #[arg(long)]
        fleet: bool,
    },
    /// Fetch a conversation that another machine of the fleet shares; it is then listed, shown and searched like one of
    /// this machine
    Fetch {
        /// The session, as `baton sessions list --fleet` names it; the beginning is enough
        session: String,
        /// The machine, if several have it
        #[arg(long)]
        from: Option<MachineName>,
    },
    /// Show what one conversation was about
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
    /// Find words in what was said and done, even before compactions and in mirrors
    #[command(after_help = "\
All words must be in one message; '\"a phrase\"' is one piece. Lower-case letters match capitals too.
The best come first: words together, the user's own, the newest. Known secrets are found but not shown.")]
    Search(SearchArgs),
    /// Resume a conversation in its client
    #[command(after_help = "\
Everything after `--` goes to the client. A conversation of another project is not resumed here; baton prints
the command that resumes it there (exit 1).")]
    Resume {
        /// A session id (its beginning is enough)
        #[arg(required_unless_present = "last")]
        id: Option<String>,
        /// The newest conversation of this project
        #[arg(long, conflicts_with = "id")]
        last: bool,
        /// A new agent of this client (claude, codex) instead, begun with what the conversation's transcript proves
        #[arg(long = "in", value_name = "PROVIDER")]
        other: Option<String>,
        /// Options for the client
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Show chains of sessions and the handoffs between them
    Tree {
        /// Only the chain of this session (the beginning of its id is enough)
        id: Option<String>,
        #[command(flatten)]
        whose: ConversationScope,
    },
}

#[derive(Debug, Args)]
pub(super) struct SearchArgs {
    /// Words and '"phrases"'
    #[arg(required = true)]
    pub query: Vec<String>,
    /// Take the query as a regular expression
    #[arg(long)]
    pub regex: bool,
    /// Find only what this role said: user, assistant, tool
    #[arg(long, value_enum)]
    pub role: Option<RoleArg>,
    /// Find only calls of this tool and their results
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Find only calls about this file; the end of its path is enough
    #[arg(long, value_name = "PATH")]
    pub file: Option<String>,
    /// Find only what was said since then: 2026-11-01, 2026-11-01T12:00Z, or 3h, 7d (ago)
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Find only what was said before then, written as for --since
    #[arg(long, value_name = "WHEN")]
    pub until: Option<String>,
    #[command(flatten)]
    pub whose: ConversationScope,
    /// Lines of context around each hit
    #[arg(long, short = 'C', default_value_t = 0, value_name = "N")]
    pub context: usize,
    /// At most this many hits
    #[arg(long, short = 'n', default_value_t = 20, value_name = "N")]
    pub limit: usize,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum RoleArg {
    User,
    Assistant,
    Tool,
}
