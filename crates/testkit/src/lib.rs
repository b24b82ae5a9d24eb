//! Drives baton in tests: real processes in a separate home, killed, raced and traced; real terminals; real clients on
//! a scripted model.

pub mod agent;
pub mod bench;
pub mod clients;
pub mod clones;
pub mod codex;
pub mod daemon;
pub mod history;
pub mod home;
pub mod hooks;
pub mod kill;
pub mod load;
pub mod model;
pub mod overflow;
pub mod page;
pub mod postgres;
pub mod pty;
pub mod quality;
pub mod race;
pub mod rng;
pub mod skew;
pub mod tmux;
pub mod tools;
pub mod trace;
pub mod wait;
pub mod wire;

pub use home::{CommandOutput, Home};
/// Whether to run the full counts, which take hours: `BATON_LONG=1`.
pub fn is_long() -> bool {
    std::env::var_os("BATON_LONG").is_some_and(|v| v == "1")
}

/// `count`, or ten times as many with `BATON_LONG=1`.
pub fn times(count: usize) -> usize {
    if is_long() { count * 10 } else { count }
}
