//! `NAME@MACHINE`: an agent on another machine.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, BadId};

/// The name of a machine in its fleet. Also part of the names of files and of database roles, so it is plain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MachineName(String);

impl MachineName {
    /// Short enough for a role of the database together with the fleet's id.
    pub(crate) const MAX: usize = 32;

    pub fn new(text: impl Into<String>) -> Result<Self, BadId> {
        let text = text.into();
        let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let why = if text.is_empty() {
            "it is empty"
        } else if text.len() > Self::MAX {
            "it is longer than 32 characters"
        } else if !text.bytes().all(is_plain) || text.starts_with('-') || text.ends_with('-') {
            "a machine has small letters, digits and dashes between them"
        } else {
            return Ok(Self(text));
        };
        Err(BadId { kind: "machine name", text, why })
    }

    /// The name nearest to a host's own: `Anna's MacBook.local` becomes `team-s-macbook`.
    pub fn near(host: &str) -> Option<Self> {
        let host = host.split('.').next().unwrap_or(host);
        let mut name = String::new();
        for c in host.chars().map(|c| c.to_ascii_lowercase()) {
            if c.is_ascii_alphanumeric() {
                name.push(c);
            } else if !name.is_empty() && !name.ends_with('-') {
                name.push('-');
            }
        }
        name.truncate(Self::MAX);
        Self::new(name.trim_end_matches('-')).ok()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MachineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for MachineName {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        Self::new(text)
    }
}

impl TryFrom<String> for MachineName {
    type Error = BadId;
    fn try_from(text: String) -> Result<Self, BadId> {
        Self::new(text)
    }
}

impl From<MachineName> for String {
    fn from(name: MachineName) -> Self {
        name.0
    }
}

/// An agent's name, and its machine if one was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub agent: AgentId,
    pub machine: Option<MachineName>,
}

impl Address {
    pub fn at(agent: AgentId, machine: MachineName) -> Self {
        Self { agent, machine: Some(machine) }
    }
}

impl FromStr for Address {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        match text.split_once('@') {
            Some((agent, machine)) => {
                Ok(Self { agent: AgentId::new(agent)?, machine: Some(MachineName::new(machine)?) })
            }
            None => Ok(Self { agent: AgentId::new(text)?, machine: None }),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.machine {
            Some(machine) => write!(f, "{}@{machine}", self.agent),
            None => self.agent.fmt(f),
        }
    }
}

/// Whom an address refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    Here,
    There(MachineName),
    /// Nobody that is known has this name.
    Nobody,
    /// Several machines have an agent of this name, and this one has none.
    Several(Vec<MachineName>),
}

/// Resolves `address` as seen from `here`. A bare name is an agent of this machine first, else the only one of that name
/// elsewhere; among several nobody guesses.
pub fn resolve(
    address: &Address,
    here: Option<&MachineName>,
    is_here: bool,
    elsewhere: &[MachineName],
) -> Resolved {
    match &address.machine {
        Some(machine) if Some(machine) == here => Resolved::Here,
        Some(machine) => Resolved::There(machine.clone()),
        None if is_here => Resolved::Here,
        None => match elsewhere {
            [] => Resolved::Nobody,
            [only] => Resolved::There(only.clone()),
            several => Resolved::Several(several.to_vec()),
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn machine(name: &str) -> MachineName {
        MachineName::new(name).unwrap()
    }

    #[test]
    fn a_machines_name_is_safe_in_files_roles_and_terminals() {
        for bad in ["", "-a", "a-", "A", "a b", "a_b", "a.b", "a'; DROP TABLE x; --", "é", &"x".repeat(33)] {
            assert!(MachineName::new(bad).is_err(), "{bad:?} was accepted");
            assert!(serde_json::from_value::<MachineName>(serde_json::json!(bad)).is_err());
        }
        for good in ["laptop", "rented-7", "0", &"x".repeat(32)] {
            assert_eq!(machine(good).as_str(), good);
        }
        assert_eq!(MachineName::near("Team's MacBook.local"), Some(machine("team-s-macbook")));
        assert_eq!(MachineName::near("---"), None);
    }

    #[test]
    fn a_bare_name_is_here_first_then_the_only_one_and_never_a_guess() {
        let (laptop, desk, rented) = (machine("laptop"), machine("desk"), machine("rented"));
        let bare: Address = "app".parse().unwrap();
        let both = [desk.clone(), rented.clone()];
        assert_eq!(resolve(&bare, Some(&laptop), true, &both), Resolved::Here);
        assert_eq!(resolve(&bare, Some(&laptop), false, &both[..1]), Resolved::There(desk.clone()));
        assert_eq!(resolve(&bare, Some(&laptop), false, &both), Resolved::Several(both.to_vec()));
        assert_eq!(resolve(&bare, None, false, &[]), Resolved::Nobody);
        let there: Address = "app@desk".parse().unwrap();
        assert_eq!(resolve(&there, Some(&laptop), true, &[]), Resolved::There(desk.clone()));
        assert_eq!(resolve(&there, Some(&desk), false, &[]), Resolved::Here);
    }

    proptest! {
        #[test]
        fn an_address_reads_back_as_it_was_written(agent in "[a-zA-Z0-9][a-zA-Z0-9._-]{0,20}", at in "[a-z0-9]([a-z0-9-]{0,9}[a-z0-9])?") {
            let address = Address::at(AgentId::new(agent).unwrap(), machine(&at));
            prop_assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
        }

        #[test]
        fn no_text_panics_or_becomes_an_unsafe_name(text in "(?s).{0,40}") {
            if let Ok(address) = text.parse::<Address>() {
                prop_assert!(crate::ids::unsafe_name(address.agent.as_str()).is_none());
                prop_assert_eq!(address.to_string(), text);
            }
        }
    }
}
