//! The binary as its users meet it: real processes, real files.

mod channel;
mod config;
mod faults;
mod handoffs;
mod kill;
mod modes;
mod race;
mod store;

/// The binary under test.
const BATON: &str = env!("CARGO_BIN_EXE_baton");
