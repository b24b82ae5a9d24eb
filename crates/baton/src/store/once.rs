//! Mail that is sent once although it may be asked for twice: its sender gives it a key and may try again.
//!
//! `mail/{agent}/keys/{key}` holds the id that the message was given, and is written first. So whoever tries again,
//! after a crash at any instant, finds the message or writes it under the same id.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use baton_core::ids::{AgentId, unsafe_name};
use baton_core::message::{MAX_TEXT, Message, Urgency};
use jiff::Timestamp;

use super::mail::SendError;
use super::record;
use crate::sys::fs::{self, FileError, PRIVATE, Sync};

/// A message and the key under which its sender knows it.
#[derive(Debug, Clone, Copy)]
pub struct Keyed<'a> {
    pub key: &'a str,
    pub to: &'a AgentId,
    pub from: &'a str,
    pub text: &'a str,
    pub urgency: Urgency,
}

/// Two that send to one agent under one key at once must not both find nothing there. One process sends with keys: the
/// daemon. Those who send to others mostly have another lock: each waits for the disk while it holds one.
static ONE_AT_A_TIME: [Mutex<()>; 16] = [const { Mutex::new(()) }; 16];

fn lock_of(to: &AgentId) -> &'static Mutex<()> {
    let sum = to.as_str().bytes().fold(0, |sum: usize, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    &ONE_AT_A_TIME[sum % ONE_AT_A_TIME.len()]
}

/// Queues the message unless that was done before. `false` if it was. When this returns it is on disk.
pub fn send(state: &Path, mail: &Keyed<'_>, now: Timestamp) -> Result<(String, bool), SendError> {
    if mail.text.len() > MAX_TEXT {
        return Err(SendError::TooLarge(mail.text.len()));
    }
    if mail.text.trim().is_empty() {
        return Err(SendError::Empty);
    }
    let _alone = lock_of(mail.to).lock().unwrap_or_else(PoisonError::into_inner);
    let home = state.join("mail").join(mail.to.as_str());
    let place = |name: &str| home.join(name);
    fs::private_dirs(&home, &["tmp", "new", "cur", "keys"])?;
    let (id, fresh) = take_key(&place("keys"), mail.key, now)?;
    if !fresh && was_sent(&home, &id) {
        return Ok((id, false));
    }
    let message = Message {
        id: id.clone(),
        from: mail.from.to_owned(),
        to: mail.to.clone(),
        at: now,
        urgency: mail.urgency,
        expires: None,
        notify: false,
        text: mail.text.to_owned(),
    };
    let path = place("new").join(&id);
    let bytes = serde_json::to_vec(&message).map_err(|e| FileError::new("encode", &path, e))?;
    let written = fs::create(&path, &bytes, PRIVATE, Sync::Yes)?;
    Ok((id, written))
}

/// The id that belongs to the key, and whether it was given just now.
fn take_key(keys: &Path, key: &str, now: Timestamp) -> Result<(String, bool), SendError> {
    // Keys are checked where they enter; a bad one here would be ours.
    let key = if unsafe_name(key).is_some() { "bad-key" } else { key };
    let path = keys.join(key);
    let id = format!("m{:020}-{}-{key}", now.as_nanosecond(), std::process::id());
    let id: String = id.chars().take(120).collect();
    if fs::create(&path, &serde_json::to_vec(&id).unwrap_or_default(), PRIVATE, Sync::Yes)? {
        return Ok((id, true));
    }
    // A key that cannot be read was set aside by the look at it.
    match record::read::<String>(&path)?.filter(|id| unsafe_name(id).is_none()) {
        Some(id) => Ok((id, false)),
        None => Ok((id, true)),
    }
}

/// Is the message in one of the places it can be? Messages move forward only, or back to `new`, which is looked at last too.
fn was_sent(home: &Path, id: &str) -> bool {
    let held = || {
        std::fs::read_dir(home.join("tmp")).into_iter().flatten().flatten().any(|e| {
            e.file_name()
                .to_str()
                .and_then(|n| n.strip_prefix(id))
                .is_some_and(|rest| rest.starts_with(".by-"))
        })
    };
    let in_place = |name: &str| -> bool { PathBuf::from(home).join(name).join(id).exists() };
    in_place("new") || held() || ["cur", "expired", "failed", "new"].into_iter().any(in_place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_try_finds_the_first_wherever_it_has_got_to() {
        let dir = tempfile::tempdir().unwrap();
        let to = AgentId::new("app-1").unwrap();
        let mail = Keyed { key: "k1", to: &to, from: "user", text: "hello", urgency: Urgency::Sequential };
        let now = Timestamp::now();
        let (id, sent) = send(dir.path(), &mail, now).unwrap();
        assert!(sent);
        let home = dir.path().join("mail/app-1");
        let mut at = home.join("new").join(&id);
        for next in [home.join(format!("tmp/{id}.by-7-7")), home.join("cur").join(&id)] {
            assert_eq!(send(dir.path(), &mail, now).unwrap(), (id.clone(), false));
            std::fs::rename(&at, &next).unwrap();
            at = next;
        }
        assert_eq!(send(dir.path(), &mail, now).unwrap(), (id.clone(), false));
        assert_eq!(std::fs::read_dir(home.join("new")).unwrap().count(), 0);
        // The first try was killed after it had taken the key.
        std::fs::remove_file(&at).unwrap();
        assert_eq!(send(dir.path(), &mail, now).unwrap(), (id, true));
        let other = Keyed { key: "k2", ..mail };
        assert!(send(dir.path(), &other, now).unwrap().1);
    }
}
