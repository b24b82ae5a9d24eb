//! Text into a pane: compared, pasted and sent off by the server in one go.
//!
//! The text comes from a file, so that a caller that is killed has either sent all of it or nothing; the paste is
//! bracketed, so that no line of it is taken for a key or sent early; Enter is a key of its own. Between the look at
//! the screen and the paste nobody else's key can slip in unnoticed: the server itself compares the cursor, the mode
//! and the process with what was seen.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use super::{Facts, Known};

/// The pane is as it was seen: asked by the server itself, in the same breath as what follows.
fn is_as(seen: &Facts) -> String {
    format!(
        "#{{&&:#{{==:#{{pane_in_mode}},{}}},#{{&&:#{{==:#{{pane_pid}},{}}},#{{&&:#{{==:#{{cursor_x}},{}}},#{{==:#{{cursor_y}},{}}}}}}}}}",
        u8::from(seen.in_mode),
        seen.process,
        seen.cursor.0,
        seen.cursor.1
    )
}

impl Known<'_> {
    /// Leaves copy mode or whatever else takes the keys, if the pane still runs what it ran.
    pub fn leave_mode(&self, seen: &Facts) -> anyhow::Result<()> {
        let (pane, same) = (&self.pane.id, format!("#{{==:#{{pane_pid}},{}}}", seen.process));
        let leave = format!("send-keys -X -t {pane} cancel");
        self.server.run(&["if-shell", "-F", "-t", pane, &same, &leave]).map(drop)
    }

    /// One key by its tmux name. `false` if the pane is not as `seen` any more; then it was not sent.
    pub fn key(&self, key: &str, seen: &Facts) -> anyhow::Result<bool> {
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

    /// Types the text in `file` and Enter. `false` if the pane is not as `seen` any more; then nothing was typed.
    pub fn type_file(&self, file: &Path, seen: &Facts) -> anyhow::Result<bool> {
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

/// tmux takes a semicolon at the end of a word for the end of the command, unless it is escaped.
pub fn word(word: &OsStr) -> OsString {
    match word.as_encoded_bytes().strip_suffix(b";") {
        Some(rest) => OsString::from_vec([rest, b"\\;"].concat()),
        None => word.to_owned(),
    }
}
