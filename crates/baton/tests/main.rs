//! The binary as its users meet it: real processes, real files.

mod doctor;
mod faults;
mod install;
mod kill;
mod settings;
mod store;

/// The binary under test.
const BATON: &str = env!("CARGO_BIN_EXE_baton");
