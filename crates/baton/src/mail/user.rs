//! The user's own inbox, `mail/user`: what agents send to `user`, and notices about agents without a parent.

use std::path::Path;

use baton_core::ids::AgentId;
use baton_core::notice::{Notice, name_in_key};
use jiff::Timestamp;

use crate::mail::keyed::{self, Key};
use crate::mail::maildir::{Draft, Mail};
use crate::store::Store;
use crate::sys::fs::{self, PRIVATE, Sync};

pub(crate) const NAME: &str = "user";

pub(crate) fn id() -> AgentId {
    AgentId::new(NAME).expect("a plain word is a name")
}

/// A file of this name in the mailbox means that it holds unread mail, so that status lines need not list the mailbox
/// at every render.
const MARK: &str = "unread";

pub(in crate::mail) fn mark_unread(home: &Path) {
    // Without the mark, the message is only missing in status lines.
    let _ = fs::create(&home.join(MARK), b"", PRIVATE, Sync::No);
}

pub(in crate::mail) fn clear_mark(home: &Path) {
    let _ = fs::remove(&home.join(MARK));
}

/// Whether something waits for the user; `root` holds all mailboxes.
pub(in crate::mail) fn is_marked(root: &Path) -> bool {
    fs::is_in(root, "user/unread")
}

/// Leaves a notice, once per occasion. The newest of a kind replaces the older ones about the same agent.
pub(crate) fn tell(
    store: &Store,
    agent: &AgentId,
    notice: Notice,
    text: &str,
    now: Timestamp,
) -> anyhow::Result<()> {
    let mail = Mail::of(store);
    let key = notice.key(agent.as_str());
    let draft = Draft::new("baton", text);
    let (id, is_new) = keyed::post(&mail, &self::id(), &draft, &Key::new(key.as_str())?, now)?;
    if !is_new {
        return Ok(());
    }
    let about = (notice.kind.as_str(), &*name_in_key(agent.as_str()));
    let is_older = |name: &str| name != id && occasion(name) == Some(about);
    mail.replace(&self::id(), &is_older, "a newer one of its kind came", now)?;
    Ok(())
}

/// The kind and the agent in the name of a notice: `m{stamp}-{pid}-{kind}-{occasion}-{agent}`.
fn occasion(name: &str) -> Option<(&str, &str)> {
    let key = name.splitn(3, '-').nth(2)?;
    // A kind may have dashes, an occasion is a number.
    let at =
        key.match_indices('-').find(|(at, _)| key[at + 1..].starts_with(|c: char| c.is_ascii_digit()))?.0;
    let (kind, rest) = (&key[..at], &key[at + 1..]);
    Some((kind, rest.split_once('-')?.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::notice::NoticeKind;

    #[test]
    fn a_notices_name_tells_its_kind_and_its_agent() {
        for (kind, agent) in
            [(NoticeKind::Idle, "app"), (NoticeKind::HandoffFailed, "app-oak"), (NoticeKind::Died, "a-1")]
        {
            let name = format!("m00179-77-{}", Notice { kind, stamp: 17_000 }.key(agent));
            assert_eq!(occasion(&name), Some((kind.as_str(), agent)), "{name}");
        }
        assert_eq!(occasion("m00179-77-0001"), None);
    }

    #[test]
    fn the_newest_notice_replaces_the_older_about_the_same_agent_however_long_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store { state: dir.path().into(), claude: dir.path().into() };
        let now = Timestamp::now();
        let leave = |agent: &str, stamp: i128, text: &str| {
            let agent = AgentId::new(agent).unwrap();
            tell(&store, &agent, Notice { kind: NoticeKind::Idle, stamp }, text, now).unwrap();
        };
        let (one, other) = ("x".repeat(128), format!("{}y", "x".repeat(127)));
        leave(&one, 1, "older");
        leave(&other, 1, "of another agent");
        leave(&one, 2, "newer");
        let mut waiting: Vec<String> = Mail::of(&store)
            .list(&self::id())
            .into_iter()
            .filter(|(_, state)| *state == crate::mail::maildir::State::Queued)
            .map(|(message, _)| message.text)
            .collect();
        waiting.sort();
        assert_eq!(waiting, ["newer", "of another agent"]);
    }
}
