//! A hook's answer, and the mail that it delivers.

use std::io::Write as _;

use baton_core::wire::claude::output::HookOutput;

use crate::mail::maildir::Claimed;

#[derive(Debug, Default)]
pub(super) struct Answer {
    pub text: Option<String>,
    pub mail: Vec<Claimed>,
}

impl Answer {
    pub(super) fn say(text: Option<String>) -> Self {
        Self { text, mail: Vec::new() }
    }

    /// Prints the answer. Returns whether all of it was written: a client may close our output, which is no fault.
    pub(super) fn print(&self) -> bool {
        let Some(text) = &self.text else { return true };
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()).is_ok()
    }
}

/// The answer in the client's format, if there is anything to say.
pub(super) fn output(event: &str, context: Option<String>, message: Option<String>) -> Option<String> {
    let mut answer = HookOutput::new(event);
    if let Some(context) = context {
        answer = answer.context(context);
    }
    if let Some(message) = message {
        answer = answer.system_message(message);
    }
    answer.to_json()
}
