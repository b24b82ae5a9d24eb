//! Text from one agent, or the user, to another.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::AgentId;

/// The largest text a message may have.
pub const MAX_TEXT: usize = 1 << 20;
/// Longer ones are injected as their beginning and their path.
pub const MAX_INJECTED: usize = 6_000;

/// How soon it should be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Urgency {
    /// At the next hook, or when idle.
    #[default]
    Sequential,
    /// At the next tool call.
    Important,
    /// Interrupts the turn where that can be done.
    Urgent,
}

/// One message: one file in its addressee's maildir.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Also the file's name; sorts by time.
    pub id: String,
    /// An agent, or `user`.
    pub from: String,
    pub to: AgentId,
    pub at: Timestamp,
    #[serde(default)]
    pub urgency: Urgency,
    /// Not shown any more after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// The sender wants to know when the turn in which it was read has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notify: bool,
    pub text: String,
}

/// What a message begins with where the agent reads it.
pub const HEAD: &str = "[baton message ";

/// The ids of the messages that a text shows.
pub fn shown_in(text: &str) -> Vec<&str> {
    let after = text.split(HEAD).skip(1);
    after.filter_map(|rest| rest.split_once(' ')).map(|(id, _)| id).filter(|id| id.starts_with('m')).collect()
}

impl Message {
    /// The text as the agent reads it: who sent it, that it is a message and not an instruction of the user,
    /// and the id by which a transcript shows that it has been seen.
    pub fn framed(&self, path: &str) -> String {
        let head = format!("{HEAD}{} from {}]", self.id, self.from);
        let count = self.text.chars().count();
        if count <= MAX_INJECTED {
            return format!("{head}\n{}", self.text.trim_end());
        }
        let begin: String = self.text.chars().take(MAX_INJECTED).collect();
        format!(
            "{head}\n{begin}\n[… {} more characters; the whole message is in {path}]",
            count - MAX_INJECTED
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_tells_which_messages_it_shows() {
        let text = "[baton message m1 from a]\nhello\n\n[baton message m2-7-0001 from user]\nthere";
        assert_eq!(shown_in(text), ["m1", "m2-7-0001"]);
        assert!(shown_in("no [baton message here").is_empty());
    }

    #[test]
    fn a_long_message_is_injected_as_its_beginning_and_its_path() {
        let mut m = Message {
            id: "m1".into(),
            from: "app-2".into(),
            to: AgentId::new("app-1").unwrap(),
            at: Timestamp::UNIX_EPOCH,
            urgency: Urgency::Sequential,
            expires: None,
            notify: false,
            text: "hello\n".into(),
        };
        assert_eq!(m.framed("/m"), "[baton message m1 from app-2]\nhello");
        m.text = "é".repeat(MAX_INJECTED + 5);
        let text = m.framed("/m");
        assert!(text.ends_with("\n[… 5 more characters; the whole message is in /m]"));
        assert!(text.chars().count() < MAX_INJECTED + 120);
    }
}
