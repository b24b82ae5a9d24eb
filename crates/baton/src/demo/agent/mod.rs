//! The scripted agent: behaves towards hooks, status line, transcript, signals and terminal as we recorded Claude Code
//! 2.1.325, but its words come from a script. The demo and the tests run it; no model is involved.
//!
//! `baton demo-agent [options of the client] [PROMPT]`. Options it does not know are accepted. The environment:
//!
//! ```text
//! BATON_AGENT_SCRIPT   the script; without it a built-in one plays a small task (see `default.script`)
//! BATON_AGENT_SEEN     everything that reached the model or the user is appended here, one JSON object a line
//! BATON_AGENT_PACE     milliseconds between two steps; 0 with a script of your own, else 350
//! ```
//!
//! A script is plain text, one verb a line; indentation means nothing, `#` begins a comment line:
//!
//! ```text
//! window 200k                  the model's window; `model NAME` names it
//! asked obey                   when baton asks for a handoff: obey | obey-stdin | ignore
//! idle 500                     milliseconds without a prompt until Notification(idle_prompt)
//! drops 1                      the first Enter is lost; the text stays in the composer
//! stash off                    the key that puts a draft by does nothing
//! screen alternate             draw as the client does: alternate screen, mouse, hidden cursor
//! handoff <<END                what it writes when it obeys; else it composes what it knows
//! …
//! END
//! context                      what follows is played by the first context; the next `context` by the next one
//! turn                         one prompt's work; `turn lag` writes the last record only after the Stop hooks
//!   tokens 52%                 what the next answers report as usage: 104000, 104k or 52%
//!   grow 8%                    the same, added to what there is
//!   say TEXT                   an answer
//!   bash COMMAND               really runs, with the environment the client gives its tools
//!   write PATH TEXT            writes a file; `write PATH <<END` for several lines
//!   wait PATH                  blocks until PATH exists, or until a pipe of that name is written
//!   task PATH NAME             a background task that ends when PATH exists
//!   ask TEXT                   a permission dialog in place of the composer, until `y`, Esc or a hook answers it
//!   subagent COMMAND           a subagent runs COMMAND
//!   note TEXT                  the next step, for the handoff it may write
//!   recall                     says what the loaded handoff tells it to do next
//!   fail rate_limit TEXT       the API refuses; the turn ends in StopFailure
//! ```
//!
//! The seen file counts contexts across processes, so a restarted agent continues with the next one; the last one
//! repeats. A prompt beyond the last turn is answered with "Done.".

mod client;
mod compact;
mod composer;
mod context_log;
mod errand;
mod handoff;
mod hooks;
mod inbox;
mod options;
mod payload;
mod print;
mod screen;
mod script;
mod settings;
mod tools;
mod transcript;
mod turn;

use std::ffi::OsString;
use std::process::ExitCode;

/// `args` are the arguments after `demo-agent`.
pub fn main(args: &[OsString]) -> ExitCode {
    if let Some((first, command)) = args.split_first()
        && first == errand::FLAG
    {
        return errand::exec(command);
    }
    let ran = options::Options::parse(args).and_then(client::run);
    match ran {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            eprintln!("{e:#}");
            ExitCode::FAILURE
        }
    }
}
