//! Mail that is sent once even if it is requested twice: its sender gives it a key and may retry.
//!
//! `mail/{agent}/keys/{key}` holds the message's id and is written first. A retry after a crash at any instant finds
//! the message, or writes it under the same id.

use std::path::Path;
use std::time::Duration;

use baton_core::ids::{AgentId, unsafe_name};
use baton_core::message::Urgency;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::mail::maildir::{Draft, Mail, SendError};
use crate::store::record;
use crate::sys::fs::{self, FileError, PRIVATE, Sync};
use crate::sys::lock::Lock;

/// The sender's own name for its message. Safe as a file name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key has 1 to {} letters, digits, dots, underscores and dashes", Key::MAX)]
pub(crate) struct BadKey;

impl Key {
    pub(crate) const MAX: usize = 120;

    pub(crate) fn new(text: impl Into<String>) -> Result<Self, BadKey> {
        let text = text.into();
        if unsafe_name(&text).is_some() || text.len() > Self::MAX { Err(BadKey) } else { Ok(Self(text)) }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// How long a sender waits for another one to the same agent, which may be waiting for the disk.
const PATIENCE: Duration = Duration::from_secs(1);

/// The content of a key's file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum KeyRecord {
    Message {
        id: String,
    },
    /// As version 0.1 wrote it.
    Id(String),
}

/// Queues the message unless that was done before. Returns its id, and whether it was queued now.
pub(crate) fn post(
    mail: &Mail,
    to: &AgentId,
    draft: &Draft<'_>,
    key: &Key,
    now: Timestamp,
) -> Result<(String, bool), SendError> {
    draft.check()?;
    let home = mail.home(to);
    fs::private_dirs(&home, &["tmp", "new", "cur", "keys"])?;
    // Two concurrent senders with one key must not both find nothing there. Hooks, attendants, commands and the daemon
    // all send.
    let _alone = Lock::acquire(&home.join("keys.lock"), PATIENCE)?;
    let (id, is_fresh) = take_key(&home.join("keys").join(key.as_str()), key, draft.urgency, now)?;
    if !is_fresh && was_sent(&home, &id)? {
        return Ok((id, false));
    }
    let is_new = mail.accept(&draft.message(id.clone(), to, now))?;
    Ok((id, is_new))
}

/// The id that belongs to the key, and whether it was assigned just now.
fn take_key(path: &Path, key: &Key, urgency: Urgency, now: Timestamp) -> Result<(String, bool), SendError> {
    let (stamp, letter) = (now.as_nanosecond(), urgency.letter());
    let id = format!("m{stamp:020}-{letter}{}-{}", std::process::id(), key.as_str());
    let id: String = id.chars().take(120).collect();
    let taken = KeyRecord::Message { id: id.clone() };
    let bytes = record::encode(&taken).map_err(|e| FileError::new("encode", path, e))?;
    if fs::create(path, &bytes, PRIVATE, Sync::Yes)? {
        return Ok((id, true));
    }
    // The record reader has set an unreadable key aside.
    let known = record::read::<KeyRecord>(path)?.map(|taken| match taken {
        KeyRecord::Message { id } | KeyRecord::Id(id) => id,
    });
    match known.filter(|id| unsafe_name(id).is_none()) {
        Some(id) => Ok((id, false)),
        None => Ok((id, true)),
    }
}

/// Whether the message is in any of its folders. Messages move forward only, or back to `new`, so look there first and
/// last. An error is not a no, which would send the message twice.
fn was_sent(home: &Path, id: &str) -> Result<bool, FileError> {
    let is_in = |place: &str| {
        let path = home.join(place).join(id);
        path.try_exists().map_err(|e| FileError::new("look for", &path, e))
    };
    let is_held = || -> Result<bool, FileError> {
        let tmp = home.join("tmp");
        let unread = |e| FileError::new("list", &tmp, e);
        for entry in std::fs::read_dir(&tmp).map_err(unread)? {
            let name = entry.map_err(unread)?.file_name();
            let rest = name.to_str().and_then(|name| name.strip_prefix(id));
            if rest.is_some_and(|rest| rest.starts_with(".by-")) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    if is_in("new")? || is_held()? {
        return Ok(true);
    }
    for place in ["cur", "expired", "failed", "new"] {
        if is_in(place)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    fn draft() -> Draft<'static> {
        Draft::new("user", "hello")
    }

    #[test]
    fn a_second_try_finds_the_first_wherever_it_has_got_to() {
        let dir = tempfile::tempdir().unwrap();
        let mail = Mail::of(&Store { state: dir.path().into(), claude: dir.path().into() });
        let to = AgentId::new("app-1").unwrap();
        let now = Timestamp::now();
        let send = |key: &str| post(&mail, &to, &draft(), &Key::new(key).unwrap(), now).unwrap();
        let (id, is_new) = send("k1");
        assert!(is_new);
        let home = dir.path().join("mail/app-1");
        let mut at = home.join("new").join(&id);
        for next in [home.join(format!("tmp/{id}.by-7-7")), home.join("cur").join(&id)] {
            assert_eq!(send("k1"), (id.clone(), false));
            std::fs::rename(&at, &next).unwrap();
            at = next;
        }
        assert_eq!(send("k1"), (id.clone(), false));
        assert_eq!(std::fs::read_dir(home.join("new")).unwrap().count(), 0);
        // The first try was killed after it had taken the key.
        std::fs::remove_file(&at).unwrap();
        assert_eq!(send("k1"), (id, true));
        assert!(send("k2").1);
    }

    /// Hooks, attendants and commands send under keys too, each in a separate process.
    #[test]
    fn a_sender_waits_for_another_process_that_sends_to_the_same_agent() {
        let dir = tempfile::tempdir().unwrap();
        let mail = Mail::of(&Store { state: dir.path().into(), claude: dir.path().into() });
        let to = AgentId::new("app-1").unwrap();
        let send = || post(&mail, &to, &draft(), &Key::new("k1").unwrap(), Timestamp::now());
        let other = Lock::acquire(&dir.path().join("mail/app-1/keys.lock"), Duration::ZERO).unwrap();
        assert!(matches!(send(), Err(SendError::Lock(_))));
        assert!(!dir.path().join("mail/app-1/keys/k1").exists(), "nothing is taken before the lock is");
        drop(other);
        assert!(send().unwrap().1);
    }

    #[test]
    fn a_key_says_its_version_and_one_of_version_0_1_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let mail = Mail::of(&Store { state: dir.path().into(), claude: dir.path().into() });
        let to = AgentId::new("app-1").unwrap();
        let send = || post(&mail, &to, &draft(), &Key::new("k1").unwrap(), Timestamp::now());
        let (id, _) = send().unwrap();
        let key = dir.path().join("mail/app-1/keys/k1");
        assert_eq!(std::fs::read_to_string(&key).unwrap(), format!("{{\"v\":1,\"id\":\"{id}\"}}\n"));
        std::fs::write(&key, format!("\"{id}\"")).unwrap();
        assert_eq!(send().unwrap(), (id, false));
        let newer = "{\"v\":99,\"id\":[]}\n";
        std::fs::write(&key, newer).unwrap();
        assert!(send().is_err(), "what cannot be read may have been sent");
        assert_eq!(std::fs::read_to_string(&key).unwrap(), newer);
    }

    #[test]
    fn two_keys_that_are_no_names_are_refused_and_never_one() {
        for bad in ["", "a/b", "..", "a b", "é", &"x".repeat(Key::MAX + 1)] {
            assert_eq!(Key::new(bad), Err(BadKey), "{bad:?}");
        }
        assert!(Key::new("idle-1794790000-app-1").is_ok());
    }
}
