//! The identifiers of the domain. Each is validated once on entry and is a safe file name from then on.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest identifier we accept; long enough for every provider seen, short enough for any file system.
const MAX_LEN: usize = 128;

/// An identifier that cannot be a file name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {text:?} is not usable: {why}")]
pub struct BadId {
    pub kind: &'static str,
    pub text: String,
    pub why: &'static str,
}

/// Why `text` cannot be one of our file names; `None` if it can.
///
/// Letters, digits, `.`, `_` and `-`; not empty, not hidden, not `..`. Separators, control characters, spaces
/// and everything outside ASCII are refused, so a name can never leave its folder or surprise a terminal.
pub fn unsafe_name(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        return Some("it is empty");
    }
    if text.len() > MAX_LEN {
        return Some("it is longer than 128 characters");
    }
    if text.starts_with(['.', '-']) {
        return Some("it begins with a dot or a dash");
    }
    // Check every byte without stopping early: the compiler vectorises this, which is faster.
    let is_safe = |b: u8| b.is_ascii_alphanumeric() | matches!(b, b'.' | b'_' | b'-');
    if !text.bytes().fold(true, |safe, b| safe & is_safe(b)) {
        return Some("only letters, digits, dot, underscore and dash are allowed");
    }
    None
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub fn new(text: impl Into<String>) -> Result<Self, BadId> {
                let text = text.into();
                match unsafe_name(&text) {
                    None => Ok(Self(text)),
                    Some(why) => Err(BadId { kind: $kind, text, why }),
                }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = BadId;
            fn from_str(s: &str) -> Result<Self, BadId> {
                Self::new(s)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
                Self::new(text.into_owned()).map_err(serde::de::Error::custom)
            }
        }
    };
}

name_type! {
    /// One conversation of a provider.
    SessionId, "session id"
}
name_type! {
    /// A long-lived worker; survives every rotation.
    AgentId, "agent id"
}
name_type! {
    /// The project a handoff belongs to.
    ChannelName, "channel name"
}

impl SessionId {
    /// Eight characters for handoff ids and checkpoints: the first ones, or the last ones if the id begins with the
    /// time (UUID version 7, as Codex uses), because ids made in the same minute begin alike.
    pub fn short(&self) -> &str {
        let text = self.0.as_str();
        let begins_with_time = text.len() == 36 && text.as_bytes()[14] == b'7' && text.as_bytes()[8] == b'-';
        let short = if begins_with_time { text.get(28..) } else { text.get(..8) };
        short.unwrap_or(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_leave_their_folder_are_refused() {
        for bad in ["", "..", "../x", "a/b", ".hidden", "-rf", "a b", "a\nb", "ä", "a\0b", "\u{202e}x"] {
            assert!(ChannelName::new(bad).is_err(), "{bad:?} was accepted");
        }
        assert!(ChannelName::new("x".repeat(129)).is_err());
        for good in ["global", "my-app-1a2b3c", "A.b_c", "0398f495-c491-4e18-ad53-ad5ac70c0279"] {
            assert_eq!(ChannelName::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn two_codex_sessions_of_one_minute_have_different_short_ids() {
        let short = |text: &str| SessionId::new(text).unwrap().short().to_owned();
        let one = "019a8c1e-2f00-7c31-b0aa-4f7d9a1b2c3d";
        let other = "019a8c1e-2f44-7d02-9c11-0e5f6a7b8c9d";
        assert_eq!((short(one).as_str(), short(other).as_str()), ("9a1b2c3d", "6a7b8c9d"));
        assert_eq!(short("0398f495-c491-4e18-ad53-ad5ac70c0279"), "0398f495");
    }

    #[test]
    fn a_bad_name_inside_a_record_is_an_error_and_not_a_path() {
        assert!(serde_json::from_str::<SessionId>("\"../../etc/passwd\"").is_err());
        assert_eq!(serde_json::from_str::<SessionId>("\"abc\"").unwrap().short(), "abc");
    }
}
