//! baton: keeps coding agents working across the limit of their context window.

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Hooks and the status line run on every tool call; they go before anything that costs a start.
    let args: Vec<OsString> = std::env::args_os().collect();
    if baton::hot::is_hot(&args) { baton::hot::main(&args) } else { baton::cli::main() }
}
