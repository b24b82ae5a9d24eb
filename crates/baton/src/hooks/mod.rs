//! The path that runs on every tool call: `baton hook EVENT` and `baton statusline`.
//!
//! A hook never hurts: it exits 0, prints one valid answer or nothing, and is done within its deadline, whatever
//! it was sent and whatever state our files are in. Faults go to the log. Nothing here starts a process, opens a
//! socket or waits for the disk, except where an event seals or loads a handoff.
//!
//! `#[cold]` marks code that few calls need. It is placed apart from the rest, so that the other calls do not have to
//! page it in.

mod answer;
mod compact;
mod dispatch;
mod permission;
mod start;
mod statusline;
mod stop;
mod window;
mod work;

use std::ffi::OsString;

use crate::setup::install::has_own_hooks;
use crate::setup::install::ours::SHARED_FLAG;
use crate::sys::deadline;
use crate::sys::paths::Paths;

/// Whether this command line is ours. Decided before anything else is set up.
pub fn is_hot(args: &[OsString]) -> bool {
    matches!(args.get(1).and_then(|a| a.to_str()), Some("hook" | "statusline"))
        // `--help` goes to the ordinary command line; a line for tmux is for no client.
        && !args[2..].iter().any(|a| a == "--help" || a == "-h" || a.as_encoded_bytes().starts_with(b"--tmux"))
}

pub fn main(args: &[OsString]) -> ! {
    // A bug of ours must not hurt the agent: say nothing, exit 0.
    std::panic::set_hook(Box::new(|info| {
        dispatch::log_panic(&info.to_string());
        std::process::exit(0);
    }));
    deadline::ignore_file_limit();
    let rest: Vec<&str> = args[2..].iter().filter_map(|a| a.to_str()).collect();
    match args[1].to_str() {
        // Hooks that a team shares do nothing if the user's own install serves every project.
        Some("hook")
            if rest.contains(&SHARED_FLAG) && Paths::from_env().is_ok_and(|paths| has_own_hooks(&paths)) => {}
        Some("hook") => dispatch::run(&rest),
        _ => statusline::run(&rest),
    }
    crate::sys::process::leave()
}
