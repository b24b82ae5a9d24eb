//! The user's own editor.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

/// Opens the file in `$VISUAL`, `$EDITOR` or vi, and returns when it is closed. As in git, a shell interprets the
/// variable, because it may contain arguments.
pub(crate) fn open(path: &Path) -> anyhow::Result<()> {
    let named = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor = named("VISUAL").or_else(|| named("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    let script = format!("{editor} \"$1\"");
    let ended = Command::new("/bin/sh").args(["-c", &script, "sh"]).arg(path).status();
    let ended = ended.with_context(|| format!("could not start the editor {editor}"))?;
    ensure!(ended.success(), "the editor {editor} failed ({ended}); set EDITOR to one that is there");
    Ok(())
}
