//! Types text into a pane. The tmux server checks the pane, pastes and submits in one step.
//!
//! The text comes from a file, so that a caller that is killed has sent all of it or nothing. The paste is bracketed,
//! so that no line acts as a key or is submitted early; Enter is sent separately. No other key can slip in unnoticed
//! between the look at the screen and the paste, because the server compares cursor, mode and process with the ones we
//! saw.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use crate::rotation::actuators::tmux::server::{PaneState, RecordedPane};

/// The condition that the pane is as we saw it. The server evaluates it together with the command that follows.
fn is_as(seen: &PaneState) -> String {
    format!(
        "#{{&&:#{{==:#{{pane_in_mode}},{}}},#{{&&:#{{==:#{{pane_pid}},{}}},#{{&&:#{{==:#{{cursor_x}},{}}},#{{==:#{{cursor_y}},{}}}}}}}}}",
        u8::from(seen.in_mode),
        seen.process,
        seen.cursor.0,
        seen.cursor.1
    )
}

impl RecordedPane<'_> {
    /// Leaves copy mode, or another mode that takes the keys, if the pane still runs the same process.
    pub(crate) fn leave_mode(&self, seen: &PaneState) -> anyhow::Result<()> {
        let (pane, same) = (&self.pane.id, format!("#{{==:#{{pane_pid}},{}}}", seen.process));
        let leave = format!("send-keys -X -t {pane} cancel");
        self.server.run(&["if-shell", "-F", "-t", pane, &same, &leave]).map(drop)
    }

    /// Sends one key by its tmux name. Returns `false`, and sends nothing, if the pane is no longer as `seen`.
    pub(crate) fn key(&self, key: &str, seen: &PaneState) -> anyhow::Result<bool> {
        let pane = &self.pane.id;
        let send = format!("send-keys -t {pane} {key} ; display-message -p sent");
        let said = self.server.run(&[
            "if-shell",
            "-F",
            "-t",
            pane,
            &is_as(seen),
            &send,
            "display-message -p changed",
        ])?;
        Ok(said.trim() == "sent")
    }

    /// Types the text in `file` and Enter. Returns `false`, and types nothing, if the pane is no longer as `seen`.
    pub(crate) fn type_file(&self, file: &Path, seen: &PaneState) -> anyhow::Result<bool> {
        let pane = &self.pane.id;
        let buffer = format!("baton-{}", pane.trim_start_matches('%'));
        let same = is_as(seen);
        let type_it = format!(
            "paste-buffer -p -r -d -b {buffer} -t {pane} ; send-keys -t {pane} Enter ; display-message -p typed"
        );
        let leave_it = format!("delete-buffer -b {buffer} ; display-message -p changed");
        let mut words: Vec<OsString> =
            vec!["load-buffer".into(), "-b".into(), OsString::from(&buffer), file.into()];
        let rest = [";", "if-shell", "-F", "-t", pane, &same, &type_it, &leave_it];
        words.extend(rest.iter().map(OsString::from));
        Ok(self.server.run(&words)?.trim() == "typed")
    }
}

/// Escapes a semicolon at the end of a word, which tmux would read as the end of the command.
pub(super) fn word(word: &OsStr) -> OsString {
    match word.as_encoded_bytes().strip_suffix(b";") {
        Some(rest) => OsString::from_vec([rest, b"\\;"].concat()),
        None => word.to_owned(),
    }
}
