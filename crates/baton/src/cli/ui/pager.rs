//! Shows long output in a pager if a person reads it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::cli::ui::print_raw;
use crate::sys::terminal;

/// Writes to standard output; through `$PAGER` or `less` if that is a terminal with fewer rows than `text`.
pub(crate) fn page(text: &str, paged: bool) -> anyhow::Result<()> {
    let rows = if paged { terminal::size().map(|(_, rows)| usize::from(rows)) } else { None };
    match rows {
        Some(rows) if text.lines().count() >= rows && through_pager(text) => Ok(()),
        _ => print_raw(text),
    }
}

/// `false` if there is no pager and nothing was shown.
fn through_pager(text: &str) -> bool {
    let pager = std::env::var("PAGER").unwrap_or_else(|_| "less".to_owned());
    if pager.trim().is_empty() || pager.trim() == "cat" {
        return false;
    }
    // The variable may be a whole command line, so run it in a shell.
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &pager]).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    // Ctrl+C belongs to the pager. If it ended us, the shell and the pager would fight over the terminal.
    let interrupted = std::sync::Arc::default();
    let handler = signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted);
    let Ok(mut child) = command.spawn() else { return false };
    if let Some(mut stdin) = child.stdin.take() {
        // A user who leaves the pager early has read enough.
        let _ = stdin.write_all(text.as_bytes());
    }
    let ended = child.wait();
    if let Ok(id) = handler {
        signal_hook::low_level::unregister(id);
    }
    // The shell exits with 126 or 127 if it cannot run the program.
    ended.is_ok_and(|status| status.code() != Some(127) && status.code() != Some(126))
}
