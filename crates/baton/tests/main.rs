//! The binary as its users meet it: real processes, real files.

// Everything here is a test or its helper: an unwrap is a fine assertion.
#![allow(clippy::unwrap_used)]

mod channel;
mod clients;
mod config;
mod demo;
mod faults;
mod handoffs;
mod kill;
mod modes;
mod race;
mod run;
mod store;
mod terminal;

/// The binary under test.
const BATON: &str = env!("CARGO_BIN_EXE_baton");
