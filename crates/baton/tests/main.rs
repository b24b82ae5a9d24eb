//! The binary as its users meet it: real processes, real files.

mod faults;
mod kill;
mod store;

/// The binary under test.
const BATON: &str = env!("CARGO_BIN_EXE_baton");
