//! How the agent handles handoffs: notices a request, writes one, recognises a loaded one.

use crate::demo::agent::client::{Client, Go};
use crate::demo::agent::script::HandoffManner;

/// A requested handoff that is not written yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ask {
    /// The path as the command names it, quoted for a shell.
    word: String,
    path: String,
}

/// Finds `baton handoff PATH` in a text for the model.
pub(super) fn find_ask(text: &str) -> Option<Ask> {
    let (_, after) = text.split_once("`baton handoff ")?;
    let (word, _) = after.split_once('`')?;
    let path = match word.strip_prefix('\'').and_then(|w| w.strip_suffix('\'')) {
        Some(quoted) => quoted.replace(r"'\''", "'"),
        None => word.to_owned(),
    };
    Some(Ask { word: word.to_owned(), path })
}

/// The next step in a loaded handoff.
pub(super) fn next_step(handoff: &str) -> Option<String> {
    let (_, after) = handoff.split_once("\n## Next")?;
    let section = after.split_once('\n')?.1;
    let section = section.split("\n#").next().unwrap_or_default().trim();
    (!section.is_empty()).then(|| section.replace('\n', " "))
}

impl Client {
    /// Notes texts that reached the model.
    pub(super) fn remember(&mut self, texts: &[String]) {
        for text in texts {
            // A handoff describes earlier work; its requests are not current.
            if text.contains("=== HANDOFF LOADED") {
                self.loaded = Some(text.clone());
            } else if let Some(ask) = find_ask(text) {
                self.ask = Some(ask);
            }
        }
    }

    /// Hands over if it was asked to and its script obeys.
    pub(super) fn hand_over_if_asked(&mut self) -> Go<()> {
        let Some(ask) = self.ask.take() else { return Ok(()) };
        let text = self.script.handoff.clone().unwrap_or_else(|| self.compose());
        match self.script.asked {
            HandoffManner::Ignore => {}
            HandoffManner::Obey => {
                self.write(std::path::Path::new(&ask.path), &text)?;
                self.bash(&format!("baton handoff {}", ask.word))?;
            }
            HandoffManner::ObeyStdin => {
                self.bash(&format!("baton handoff - <<'END_OF_HANDOFF'\n{text}\nEND_OF_HANDOFF"))?;
            }
        }
        Ok(())
    }

    /// Composes a handoff from its own state.
    fn compose(&self) -> String {
        let done: Vec<String> = self.said.iter().map(|line| format!("- {line}")).collect();
        let done = done.join("\n");
        let next = self.notes.last().map_or("Go on with the task.", String::as_str);
        let task = self.first_prompt.as_deref().unwrap_or("No task was given.");
        format!("# Handoff\n\n## Task\n{task}\n\n## Done\n{done}\n\n## Next\n{next}\n")
    }

    /// States the next step from a loaded handoff, to show that it knows it.
    pub(super) fn recall(&self) -> String {
        match self.loaded.as_deref().and_then(next_step) {
            Some(next) => format!("I continue from the handoff. Next: {next}"),
            None => "Nothing was handed over to me.".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_found_as_the_shell_takes_it() {
        let ask = find_ask("write it, then run `baton handoff .baton/h.md` as the last act").unwrap();
        assert_eq!((ask.word.as_str(), ask.path.as_str()), (".baton/h.md", ".baton/h.md"));
        let ask = find_ask(r"run `baton handoff 'it'\''s here.md'`").unwrap();
        assert_eq!((ask.word.as_str(), ask.path.as_str()), (r"'it'\''s here.md'", "it's here.md"));
        assert_eq!(find_ask("nothing of that kind"), None);
    }

    #[test]
    fn the_next_step_is_the_section_of_that_name() {
        let text = "# Handoff\n\n## Done\n- a\n\n## Next\nRun it.\nThen stop.\n\n## Facts\nx\n";
        assert_eq!(next_step(text).as_deref(), Some("Run it. Then stop."));
        assert_eq!(next_step("# Handoff\n"), None);
    }
}
