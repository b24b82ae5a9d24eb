//! baton: keeps coding agents working across the limit of their context window.

use std::ffi::OsString;
use std::process::ExitCode;

/// musl's allocator gives each size of allocation separate pages and unmaps them when they are free, which costs maps,
/// unmaps and page faults.
#[cfg(target_env = "musl")]
use dlmalloc::GlobalDlmalloc as Allocator;
#[cfg(not(target_env = "musl"))]
use std::alloc::System as Allocator;

#[global_allocator]
static MEMORY: baton::entry::Arena<Allocator> = baton::entry::Arena::new(Allocator);

fn main() -> ExitCode {
    // Hooks and the status line run on every tool call; they go before anything that costs a start.
    let args: Vec<OsString> = std::env::args_os().collect();
    if baton::entry::is_hot(&args) {
        MEMORY.warm();
        baton::entry::hook(&args);
    }
    match args.get(1) {
        // Lives as long as its client, so it must stay small: no command line is parsed, no runtime is set up.
        Some(command) if command == "companion" && baton::entry::is_companion(&args) => {
            baton::entry::companion(&args[2..])
        }
        // What tmux runs in a pane: becomes the client.
        Some(command) if command == "pane" => baton::entry::become_client(args.get(2)),
        // Takes the options of another program, so it has no place in the declared command line.
        Some(command) if command == "demo-agent" => baton::entry::demo_agent(&args[2..]),
        Some(command) if command == baton::entry::HELD => baton::entry::become_held_client(&args[2..]),
        _ => baton::entry::main(),
    }
}
