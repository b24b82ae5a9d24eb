//! The envelopes between machines. The database can read the header, which it routes by, and the header is
//! authenticated: the sending device signs it together with the sealed body. Only the receiving device can read the
//! body.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::MachineName;
use super::stage::Receipt;
use crate::ids::{AgentId, SessionId};
use crate::message::Urgency;

/// The version of the format that this program writes, and the newest that it reads.
pub const VERSION: u32 = 1;
/// The largest sealed body; the database refuses larger ones too.
pub const MAX_SEALED: usize = 4 << 20;
/// The largest header.
pub(crate) const MAX_HEADER: usize = 1024;

/// The purpose in the signature: a signature for another purpose never verifies here.
const PURPOSE: &[u8] = b"baton fleet envelope 1\0";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Mail,
    Receipts,
    Handoff,
    /// A question about conversations: [`super::conversation::Ask`].
    Ask,
    /// The answer to it: [`super::conversation::Answer`].
    Answer,
    /// A piece of a conversation: [`super::conversation::Chunk`].
    Chunk,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub v: u32,
    pub fleet: String,
    /// Unique in the fleet: `{machine}.{name of the file in its outbox}`.
    pub id: String,
    pub kind: Kind,
    pub from: MachineName,
    pub to: MachineName,
    /// The incarnation of the sender.
    pub epoch: u64,
}

/// Why an envelope is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Disbelief {
    #[error("its header cannot be understood")]
    Header,
    #[error("a newer baton wrote it (format {0}); update this machine")]
    Newer(u32),
    #[error("it says something else than the row it lies in")]
    Row,
    #[error("it is for another machine")]
    Reader,
    #[error("its id does not begin with its sender's name")]
    Id,
    #[error("it is of an earlier incarnation of its sender ({epoch}, and {known} was seen)")]
    Replayed { epoch: u64, known: u64 },
}

impl Header {
    /// The header as it is signed, stored and sent.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("a header is plain text and numbers")
    }

    /// Reads a header and checks it against its row: the fields that route a message must be the signed ones.
    pub fn read(text: &str, row: &Row<'_>) -> Result<Self, Disbelief> {
        #[derive(Deserialize)]
        struct Version {
            v: u32,
        }
        if text.len() > MAX_HEADER {
            return Err(Disbelief::Header);
        }
        let Version { v } = serde_json::from_str(text).map_err(|_| Disbelief::Header)?;
        if v > VERSION {
            return Err(Disbelief::Newer(v));
        }
        let header: Self = serde_json::from_str(text).map_err(|_| Disbelief::Header)?;
        if header.fleet != row.fleet || header.id != row.id || header.from.as_str() != row.sender {
            return Err(Disbelief::Row);
        }
        if &header.to != row.reader {
            return Err(Disbelief::Reader);
        }
        let own = header.id.strip_prefix(header.from.as_str()).and_then(|rest| rest.strip_prefix('.'));
        if own.is_none_or(|name| crate::ids::unsafe_name(name).is_some()) || header.id.len() > 120 {
            return Err(Disbelief::Id);
        }
        Ok(header)
    }

    /// Whether this incarnation of the sender may still speak; `known` is the latest one seen.
    pub fn check_epoch(&self, known: u64) -> Result<(), Disbelief> {
        if self.epoch < known { Err(Disbelief::Replayed { epoch: self.epoch, known }) } else { Ok(()) }
    }
}

/// The database's columns of an envelope.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    pub fleet: &'a str,
    pub id: &'a str,
    pub sender: &'a str,
    /// The reading machine.
    pub reader: &'a MachineName,
}

/// The bytes that the sender signs. The length in front keeps header and body apart.
pub fn signed_bytes(header: &str, sealed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PURPOSE.len() + 8 + header.len() + sealed.len());
    bytes.extend_from_slice(PURPOSE);
    bytes.extend_from_slice(&(header.len() as u64).to_be_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(sealed);
    bytes
}

/// The body of [`Kind::Mail`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    pub to: AgentId,
    /// An agent of the sending machine, or `user`.
    pub from: String,
    pub at: Timestamp,
    #[serde(default)]
    pub urgency: Urgency,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    pub text: String,
}

/// The body of [`Kind::Receipts`]: the fate of messages that the reader sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipts {
    pub receipts: Vec<Receipt>,
}

/// The state of a work tree, as far as the other side needs it to continue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkTree {
    /// The URL of the remote that the branch follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Files with changes that are in no commit.
    #[serde(default)]
    pub dirty: Vec<String>,
    /// Commits that no remote has, newest first: id and subject.
    #[serde(default)]
    pub unpushed: Vec<String>,
    /// The commit that `patch` applies to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Everything since `base`, in the form that `git apply` accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
}

impl WorkTree {
    /// Why the other side cannot reach the state here, if it cannot. A patch carries commits that no remote has.
    pub fn hindrance(&self) -> Option<String> {
        let commit = self.commit.as_ref()?;
        let short = &commit[..commit.len().min(10)];
        if self.remote.is_none() {
            return Some(format!(
                "commit {short} is in a repository without a remote, so no other machine can have it"
            ));
        }
        if self.patch.is_some() {
            return None;
        }
        if !self.unpushed.is_empty() {
            return Some(format!("no remote has these commits: {}", few(&self.unpushed)));
        }
        (!self.dirty.is_empty())
            .then(|| format!("these files have changes that are in no commit: {}", few(&self.dirty)))
    }

    /// One line for the agent that continues with it.
    pub fn summary(&self) -> String {
        let Some(commit) = &self.commit else { return "not under git".to_owned() };
        let branch = self.branch.as_deref().unwrap_or("no branch");
        let patch = if self.patch.is_some() { ", with a patch of what no remote has" } else { "" };
        format!("{branch} at {}{patch}", &commit[..commit.len().min(10)])
    }
}

fn few(names: &[String]) -> String {
    let shown = names.iter().take(5).map(String::as_str).collect::<Vec<_>>().join("; ");
    match names.len().saturating_sub(5) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// The body of [`Kind::Handoff`]: a handoff whose home is the reader's machine from now on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Handoff {
    /// The epoch at which the reader's machine is its home.
    pub epoch: u64,
    /// The agent that continues with it.
    pub agent: AgentId,
    pub provider: String,
    /// Whose work it is: an agent of the sending machine.
    pub from: String,
    /// The folder it was in there, and the project's name.
    pub cwd: String,
    pub project: String,
    /// The document, header first.
    pub text: String,
    /// The ledger behind it.
    #[serde(default)]
    pub carried: serde_json::Value,
    #[serde(default)]
    pub tree: WorkTree,
    /// The conversation that follows in pieces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<SessionId>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn machine(name: &str) -> MachineName {
        MachineName::new(name).unwrap()
    }

    fn header() -> Header {
        Header {
            v: VERSION,
            fleet: "00ff".into(),
            id: "laptop.m1".into(),
            kind: Kind::Mail,
            from: machine("laptop"),
            to: machine("desk"),
            epoch: 3,
        }
    }

    fn read(text: &str) -> Result<Header, Disbelief> {
        let row = Row { fleet: "00ff", id: "laptop.m1", sender: "laptop", reader: &machine("desk") };
        Header::read(text, &row)
    }

    #[test]
    fn a_header_is_held_against_the_row_it_came_in() {
        assert_eq!(read(&header().encode()), Ok(header()));
        let wrong: [(Header, Disbelief); 6] = [
            (Header { fleet: "other".into(), ..header() }, Disbelief::Row),
            (Header { id: "laptop.m2".into(), ..header() }, Disbelief::Row),
            (Header { from: machine("rented"), ..header() }, Disbelief::Row),
            (Header { to: machine("laptop"), ..header() }, Disbelief::Reader),
            (Header { v: 2, ..header() }, Disbelief::Newer(2)),
            (Header { id: "x".repeat(2000), ..header() }, Disbelief::Header),
        ];
        for (header, why) in wrong {
            assert_eq!(read(&header.encode()), Err(why), "{header:?}");
        }
        let row = Row { fleet: "00ff", id: "desk.m1", sender: "laptop", reader: &machine("desk") };
        let stolen = Header { id: "desk.m1".into(), ..header() };
        assert_eq!(Header::read(&stolen.encode(), &row), Err(Disbelief::Id));
    }

    #[test]
    fn an_earlier_incarnation_is_not_heard_again() {
        assert_eq!(header().check_epoch(3), Ok(()));
        assert_eq!(header().check_epoch(4), Err(Disbelief::Replayed { epoch: 3, known: 4 }));
    }

    #[test]
    fn what_the_other_side_cannot_have_is_named() {
        let tree = WorkTree {
            remote: Some("git@example:app".into()),
            branch: Some("main".into()),
            commit: Some("0123456789abcdef".into()),
            ..WorkTree::default()
        };
        assert_eq!(tree.hindrance(), None);
        assert_eq!(WorkTree::default().hindrance(), None, "not under git: nothing to have");
        let alone = WorkTree { remote: None, patch: Some("diff".into()), ..tree.clone() };
        assert!(alone.hindrance().unwrap().contains("without a remote"));
        let ahead = WorkTree { unpushed: vec!["0123 Parse it".into()], ..tree.clone() };
        assert!(ahead.hindrance().unwrap().contains("0123 Parse it"));
        let dirty = WorkTree { dirty: (0..7).map(|n| format!("f{n}")).collect(), ..tree };
        assert!(dirty.hindrance().unwrap().contains("f4; and 2 more"));
        assert_eq!(WorkTree { patch: Some("diff".into()), ..dirty }.hindrance(), None);
    }

    proptest! {
        #[test]
        fn no_text_is_a_header_by_accident(text in "(?s).{0,200}") {
            prop_assert!(read(&text).is_err());
        }

        #[test]
        fn no_two_envelopes_have_the_same_signed_bytes(
            a in "[a-z{}]{0,20}", b in prop::collection::vec(any::<u8>(), 0..20),
            c in "[a-z{}]{0,20}", d in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            prop_assert_eq!(signed_bytes(&a, &b) == signed_bytes(&c, &d), a == c && b == d);
        }
    }
}
