//! The testkit itself, and the real clients driven by it.
#![expect(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

mod clients;
mod model;
mod tmux;
