//! The path that runs on every tool call: `baton hook EVENT` and `baton statusline`.
//!
//! A hook never hurts: it exits 0, prints one valid answer or nothing, and is done within its deadline, whatever
//! it was sent and whatever state our files are in. Faults go to the log. Nothing here starts a process, opens a
//! socket or waits for the disk, except where an event seals or loads a handoff.
//!
//! `#[cold]` marks what few calls need: its code then does not lie between that of the others, where each of them would
//! have to bring it into memory.

pub(crate) mod compact;
mod crash;
pub mod delegate;
pub(crate) mod hook;
pub(crate) mod input;
pub(crate) mod measure;
mod memory;
pub(crate) mod mirror;
pub(crate) mod post;
pub(crate) mod scene;
mod start;
mod statusline;
mod stop;

pub use start::project_name;

use std::ffi::OsString;
use std::time::Duration;

/// How long a hot hook waits for locks, all together, before it leaves the matter to the next one.
const HOT_PATIENCE: Duration = Duration::from_millis(20);
/// The same for hooks that seal or load.
const SEAL_PATIENCE: Duration = Duration::from_millis(300);

pub use hook::PROVIDER_FLAG;

/// Marks hooks that a project's team shares.
pub const SHARED_FLAG: &str = "--shared";

/// Is there an install for all projects of this user? Asked by shared hooks only.
fn has_own_hooks() -> bool {
    crate::paths::Paths::from_env().is_ok_and(|paths| {
        paths.claude.join("skills/baton/hooks/hooks.json").exists() || paths.state.join(OWN_HOOKS).exists()
    })
}

/// In the state folder while the user's settings hold our hooks.
pub const OWN_HOOKS: &str = "hooks-in-settings";

/// Is this command line ours? Decided before anything else is set up.
pub fn is_hot(args: &[OsString]) -> bool {
    matches!(args.get(1).and_then(|a| a.to_str()), Some("hook" | "statusline"))
        // `--help` of these commands teaches like that of the others; a line for tmux is for no client.
        && !args[2..].iter().any(|a| a == "--help" || a == "-h" || a.as_encoded_bytes().starts_with(b"--tmux"))
}

pub fn main(args: &[OsString]) -> ! {
    // A bug of ours must not become the agent's: say nothing, exit 0.
    std::panic::set_hook(Box::new(|info| {
        hook::log_panic(&info.to_string());
        std::process::exit(0);
    }));
    let rest: Vec<&str> = args[2..].iter().filter_map(|a| a.to_str()).collect();
    match args[1].to_str() {
        // Hooks that a team shares stand back where the user's own install serves every project.
        Some("hook") if rest.contains(&SHARED_FLAG) && has_own_hooks() => {}
        Some("hook") => hook::run(&rest),
        _ => statusline::run(&rest),
    }
    crate::sys::process::leave()
}
