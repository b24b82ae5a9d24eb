//! `HO-{YYYYMMDD}-{HHMMSS}-{session8}`: readable in a log, sortable by name, linked to the session it came from.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{BadId, SessionId, unsafe_name};

/// The name of one sealed handoff. All stamps are UTC.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct HandoffId(String);

impl HandoffId {
    /// The `nth` id for `session` in the second of `now`: the first has no suffix, the second ends in `-2`.
    pub fn mint(now: Timestamp, session: &SessionId, nth: u32) -> Self {
        let stamp = now.strftime("%Y%m%d-%H%M%S");
        // A dash inside the short session id would make the suffix ambiguous.
        let short: String = session.short().chars().filter(|c| *c != '-').collect();
        match nth {
            0 | 1 => Self(format!("HO-{stamp}-{short}")),
            n => Self(format!("HO-{stamp}-{short}-{n}")),
        }
    }

    pub fn new(text: impl Into<String>) -> Result<Self, BadId> {
        let text = text.into();
        let why = if text.starts_with("HO-") {
            unsafe_name(&text)
        } else {
            Some("a handoff id looks like HO-20260202-064530-c74cc080")
        };
        match why {
            None => Ok(Self(text)),
            Some(why) => Err(BadId { kind: "handoff id", text, why }),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HandoffId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for HandoffId {
    type Err = BadId;
    fn from_str(s: &str) -> Result<Self, BadId> {
        Self::new(s)
    }
}

impl<'de> Deserialize<'de> for HandoffId {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        Self::new(text.into_owned()).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_carries_the_second_and_the_session_and_counts_within_a_second() {
        let at: Timestamp = "2026-02-02T06:45:30Z".parse().unwrap();
        let session = SessionId::new("c74cc080-94b9-4841-b82f-a62cfb8efdc0").unwrap();
        assert_eq!(HandoffId::mint(at, &session, 1).as_str(), "HO-20260202-064530-c74cc080");
        assert_eq!(HandoffId::mint(at, &session, 2).as_str(), "HO-20260202-064530-c74cc080-2");
    }

    #[test]
    fn an_id_that_would_leave_the_archive_is_refused() {
        for bad in ["HO-../../x", "../HO-1", "HO-a/b", "", "20260202"] {
            assert!(HandoffId::new(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
