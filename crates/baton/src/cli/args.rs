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
    /// Look at, load, write and mend the handoffs of a project
    Handoffs(HandoffsArgs),
    /// Tell which channel a folder belongs to
    Channel(ChannelArgs),
    /// Show every setting, its value and where it came from
    Config(ConfigArgs),
    /// See in a minute what baton does, in a temporary home
    Demo(DemoArgs),
}

#[derive(Debug, Args)]
pub struct HandoffsArgs {
    #[command(subcommand)]
    pub command: Option<Handoffs>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
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
    /// Mend a damaged channel: sets files aside, never deletes, says what it did
    Repair,
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
    /// Keep the temporary home and say where it is
    #[arg(long)]
    pub keep: bool,
}
