//! Transcripts of every provider as one stream of records.
//!
//! A [`Parser`] takes one line at a time and knows nothing of files, so a caller may start at a remembered
//! offset. What a line says is borrowed from it; what nobody asks for is never decoded.

pub mod claude;
pub mod codex;
mod glance;
pub mod lines;
mod parser;
pub mod passages;
mod record;
pub mod rollout;
pub mod summary;
pub mod tail;

pub use parser::{Counts, Parser, Provider};
pub use record::{Action, Body, Item, Origin, Record, Todo, TodoStatus, Touch};
