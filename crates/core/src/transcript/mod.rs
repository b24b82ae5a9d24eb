//! Transcripts of every provider as one stream of records.
//!
//! A [`Parser`] takes one line at a time and knows nothing about files, so a caller may start at a remembered offset.
//! Records borrow from the line; parts that nobody asks for are never decoded.

pub(crate) mod claude;
pub(crate) mod codex;
pub mod entries;
mod glance;
pub mod lines;
pub mod outline;
pub mod pages;
mod parser;
pub mod passages;
pub(crate) mod patch;
mod record;
pub mod rollout;
mod script;
pub mod summary;
pub mod tail;

pub use parser::{Counts, Dialect, Parser};
pub use record::{
    Action, Author, Body, CallOutcome, Change, Hunk, Item, Origin, Record, ScriptCall, ScriptResult, Todo,
    TodoStatus, Touch,
};
