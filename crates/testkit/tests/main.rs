//! The testkit itself, and the real clients that it drives.
#![expect(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

mod clients;
mod model;
mod tmux;
