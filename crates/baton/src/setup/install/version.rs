//! Asks the installed client for its version.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::providers;

/// The oldest client seen to load a plugin folder from its skills folder.
pub(crate) const PLUGIN_FOLDERS: Version = Version(2, 1, 250);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub u32, pub u32, pub u32);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl Version {
    /// From the first word of `2.1.325 (Claude Code)`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split_whitespace().next()?.splitn(3, '.');
        let mut number = || {
            let part = parts.next()?;
            let digits = part.find(|c: char| !c.is_ascii_digit()).map_or(part, |end| &part[..end]);
            digits.parse().ok()
        };
        Some(Self(number()?, number()?, number()?))
    }
}

/// The client on the PATH and the version that it reports.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub path: PathBuf,
    pub version: Option<Version>,
}

pub(crate) fn client() -> Option<Client> {
    let path = on_path(providers::USUAL)?;
    let version = answer(&path, &["--version"]).and_then(|text| Version::parse(&text));
    Some(Client { path, version })
}

/// The first executable file of this name on the PATH.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|p| is_program(p))
}

pub(crate) fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// A program's output, if it ends within five seconds.
pub(crate) fn answer(program: &Path, args: &[&str]) -> Option<String> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let began = Instant::now();
    while child.try_wait().ok()?.is_none() {
        if began.elapsed() > Duration::from_secs(5) {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // It has ended, and a version fits any pipe.
    let mut text = String::new();
    child.stdout.take()?.take(64 << 10).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_the_client_prints_them_and_compared_by_number() {
        assert_eq!(Version::parse("2.1.325 (Claude Code)\n"), Some(Version(2, 1, 325)));
        assert_eq!(Version::parse("2.1.9-beta.1"), Some(Version(2, 1, 9)));
        assert_eq!(Version::parse("garbage"), None);
        assert!(Version(2, 1, 99) < PLUGIN_FOLDERS && PLUGIN_FOLDERS < Version(2, 2, 0));
    }
}
