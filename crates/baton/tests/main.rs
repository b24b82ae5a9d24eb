//! The binary as its users meet it: real processes, real files.

// Everything here is a test or its helper: an unwrap is a fine assertion.
#![allow(clippy::unwrap_used)]

mod agent;
mod backup;
mod channel;
mod checkpoint;
mod clients;
mod codex;
mod companion;
mod config;
mod cycle;
mod demo;
mod doctor;
mod faults;
mod handoffs;
mod hooks;
mod identity;
mod install;
mod kill;
mod mail;
mod matrix;
mod memory;
mod mirror;
mod modes;
mod providers;
mod race;
mod run;
mod sessions;
mod settings;
mod start;
mod statusline;
mod store;
mod terminal;

/// The binary under test.
const BATON: &str = env!("CARGO_BIN_EXE_baton");
