//! The binary as its users meet it: real processes, real files.

// Everything here is a test or its helper: an unwrap is a fine assertion.
#![allow(clippy::unwrap_used)]

mod channel;
mod config;
mod doctor;
mod faults;
mod handoffs;
mod install;
mod kill;
mod modes;
mod race;
mod settings;
mod store;

/// The binary under test.
const BATON: &str = env!("CARGO_BIN_EXE_baton");
