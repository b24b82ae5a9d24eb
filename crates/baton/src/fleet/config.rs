//! A machine's membership in a fleet. Private files in the state folder: a project can neither read nor set any of it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use baton_core::fleet::MachineName;
use serde::{Deserialize, Serialize};

use crate::fleet::folder;
use crate::store::record;
#[cfg(feature = "fleet")]
use crate::sys::fs;
use crate::sys::fs::FileError;

/// This machine's place in its fleet.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Membership {
    pub fleet: String,
    pub name: MachineName,
    /// The database, with the role and the password of this machine alone.
    pub url: String,
    /// The fleet's public key, by which the keys of other machines are proved.
    pub root: String,
    /// The seed of the key that signs.
    pub sign: String,
    /// The key that opens envelopes sealed for this machine.
    pub seal: String,
    /// The public half with its proofs, as the database shows it to others.
    pub card: String,
}

/// The founder's keys, to invite and revoke machines.
#[cfg(feature = "fleet")]
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Admin {
    pub fleet: String,
    /// The database with the role that owns the schema.
    pub url: String,
    /// The seed of the fleet's key.
    pub root: String,
    /// Machines that were revoked. Repeated to a database that was restored from a backup.
    #[serde(default)]
    pub revoked: Vec<Revoked>,
}

#[cfg(feature = "fleet")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Revoked {
    pub name: MachineName,
    /// The fleet key's word on it.
    pub tombstone: String,
}

impl Membership {
    pub(crate) fn path(state: &Path) -> PathBuf {
        folder(state).join("config.json")
    }

    pub(crate) fn read(state: &Path) -> Result<Option<Self>, FileError> {
        record::read(&Self::path(state))
    }

    /// The membership; an error outside a fleet.
    pub(crate) fn required(state: &Path) -> anyhow::Result<Self> {
        Self::read(state)?.context("this machine is not in a fleet; `baton help fleet` says how to join one")
    }

    #[cfg(feature = "fleet")]
    pub(crate) fn write(&self, state: &Path) -> Result<(), FileError> {
        fs::private_dir(&folder(state))?;
        record::write_synced(&Self::path(state), self)
    }
}

#[cfg(feature = "fleet")]
impl Admin {
    pub(crate) fn path(state: &Path) -> PathBuf {
        folder(state).join("admin.json")
    }

    pub(crate) fn read(state: &Path) -> Result<Option<Self>, FileError> {
        record::read(&Self::path(state))
    }

    pub(crate) fn write(&self, state: &Path) -> Result<(), FileError> {
        fs::private_dir(&folder(state))?;
        record::write_synced(&Self::path(state), self)
    }
}

/// A database's URL for people: without its password.
pub(crate) fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "a database".to_owned() };
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    match rest.rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split(':').next().unwrap_or(user);
            format!("{scheme}://{user}@{host}")
        }
        None => format!("{scheme}://{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_password() {
        for (url, want) in [
            (
                "postgres://team:s3cret@db.example:5432/app?sslmode=require#x",
                "postgres://team@db.example:5432/app",
            ),
            ("postgres://team:p%40ss@host/app", "postgres://team@host/app"),
            ("postgresql://host/app", "postgresql://host/app"),
            ("host=/run user=team password=s3cret", "a database"),
        ] {
            assert_eq!(shown(url), want);
        }
    }

    #[cfg(feature = "fleet")]
    #[test]
    fn keys_and_passwords_lie_in_files_that_only_their_user_reads() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let text = String::new;
        let name = MachineName::new("laptop").unwrap();
        let membership = Membership {
            fleet: text(),
            name,
            url: text(),
            root: text(),
            sign: text(),
            seal: text(),
            card: text(),
        };
        membership.write(dir.path()).unwrap();
        Admin { fleet: text(), url: text(), root: text(), revoked: Vec::new() }.write(dir.path()).unwrap();
        for file in ["config.json", "admin.json"] {
            let mode = std::fs::metadata(dir.path().join("fleet").join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
        let mode = std::fs::metadata(dir.path().join("fleet")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
