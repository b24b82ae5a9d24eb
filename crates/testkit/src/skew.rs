//! A clock that is wrong: libfaketime, preloaded into programs that are linked to the system's libc.

use std::process::Command;

use crate::tools;

#[derive(Debug, Clone)]
pub struct Skew {
    library: String,
    by: String,
}

impl Skew {
    /// A clock that is wrong by this much, like `+1h`; `None` if libfaketime is not installed.
    pub fn by(by: &str) -> Option<Self> {
        if !tools::is_installed("faketime") {
            return None;
        }
        // Distributions keep the library in different places; its own program knows where.
        let asked = Command::new("faketime").args(["-f", "+0s", "sh", "-c", "echo \"$LD_PRELOAD\""]).output();
        let library = String::from_utf8(asked.ok()?.stdout).ok()?.trim().to_owned();
        (!library.is_empty()).then(|| Self { library, by: by.to_owned() })
    }

    pub fn dress(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME", &self.by)
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
}
