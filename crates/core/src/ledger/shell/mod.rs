//! Reading a shell command line as far as facts need it: its simple commands, their words, what kind of work they do,
//! and which files they read, write or remove. Nothing is expanded; words that are not literal are left alone.
//! PowerShell is read by the same rules.

mod files;
mod kind;
mod program;
mod syntax;
#[cfg(test)]
mod tests;

pub(super) use files::{Stretch, changed, folders, prints, range, reads};
pub use kind::WorkKind;
pub(super) use kind::{kind, topic};
