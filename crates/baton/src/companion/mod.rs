//! In place, inside Claude Code: `baton companion` runs beside each client that has loaded our mod.
//!
//! ```text
//! baton companion          for the life of the client; prints orders, listens on a socket
//! baton companion tell S   one event of the mod, passed on to the companion at socket S
//! baton companion compact  answers one compaction and ends
//! ```
//! The mod has no decisions of its own; what the companion decides is in `core::companion`. A compaction is answered
//! by a process of its own, so a companion that hangs or has died does not matter to it. `docs/companion.md` has
//! the protocol.

mod compact;
mod journal;
pub mod presence;
mod serve;
mod tell;

use std::ffi::OsString;
use std::process::ExitCode;

pub use presence::{Presence, is_live, state};

/// Is this a call of the mod? `--help` is answered with the other commands.
pub fn is_ours(args: &[OsString]) -> bool {
    !args[2..].iter().any(|a| a == "--help" || a == "-h")
}

/// A failure is an exit code: the mod then leaves everything to the client.
pub fn main(args: &[OsString]) -> ExitCode {
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
    let Ok(paths) = crate::paths::Paths::from_env() else { return };
    let mut line = crate::store::log::Line::new(jiff::Timestamp::now(), "fault");
    line.detail = serde_json::json!({ "doing": format!("companion {doing}"), "error": format!("{error:#}") });
    crate::store::log::append(&paths.state, &line);
}

/// The module as the plugin folder holds it, with the program it starts.
pub fn module(program: &str) -> String {
    let literal = serde_json::Value::from(program).to_string();
    include_str!("../../mod/register.js").replacen("'@BATON@'", &literal, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_names_the_program_whatever_its_path_holds() {
        let text = module("/home/o'brien/my \"bin\"/baton");
        assert!(text.contains(r#"const BATON = "/home/o'brien/my \"bin\"/baton""#), "{text}");
        assert!(!text.contains("@BATON@"));
    }
}
