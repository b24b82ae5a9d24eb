//! In place, inside Claude Code: `baton companion` runs beside each client that has loaded our mod.
//!
//! ```text
//! baton companion          for the life of the client; prints orders, listens on a socket
//! baton companion tell S   one event of the mod, passed on to the companion at socket S
//! baton companion compact  answers one compaction and ends
//! ``` The mod decides nothing by itself; `core::companion` decides. A separate process answers each compaction, so
//! that a companion that hangs or has died cannot affect it. `docs/companion.md` has the protocol.

mod compact;
mod serve;
mod tell;

use std::ffi::OsString;
use std::process::ExitCode;

use jiff::Timestamp;

use crate::store::Store;
use crate::sys::paths::Paths;

/// Whether the mod calls us. `--help` goes to the ordinary command line.
pub fn is_ours(args: &[OsString]) -> bool {
    !args[2..].iter().any(|a| a == "--help" || a == "-h")
}

/// A failure only sets the exit code; the mod then leaves everything to the client.
pub fn main(args: &[OsString]) -> ExitCode {
    crate::sys::deadline::survive_file_limit();
    let words: Vec<&str> = args.iter().filter_map(|a| a.to_str()).collect();
    let outcome = match words.as_slice() {
        [] => serve::run(),
        ["compact"] => compact::run(),
        ["tell", socket] => tell::run(socket),
        _ => {
            eprintln!("baton: `companion` is started by the mod inside Claude Code; see docs/companion.md");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            log_fault(&words.join(" "), &e);
            ExitCode::from(1)
        }
    }
}

fn log_fault(doing: &str, error: &anyhow::Error) {
    let Ok(paths) = Paths::from_env() else { return };
    Store::new(&paths).log().fault(Timestamp::now(), &format!("companion {doing}"), error);
}
