//! The binary as its users meet it: real processes, real files.

// Everything here is a test or its helper: an unwrap is a fine assertion.
#![allow(clippy::unwrap_used)]

mod across;
mod agent;
mod api;
mod backup;
mod channel;
mod checkpoint;
mod clients;
mod codex;
mod companion;
mod config;
mod cycle;
mod deferred;
mod demo;
mod doctor;
mod faults;
mod handoffs;
mod hooks;
mod hostile;
mod identity;
mod install;
mod kill;
mod load;
mod mail;
mod matrix;
mod memory;
mod mirror;
mod modes;
mod notices;
mod panes;
mod providers;
mod race;
mod retention;
mod run;
mod screen;
mod serve;
mod sessions;
mod settings;
mod spawn;
mod start;
mod statusline;
mod store;
mod terminal;
mod threads;

/// The binary under test.
const BATON: &str = env!("CARGO_BIN_EXE_baton");
