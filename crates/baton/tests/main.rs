//! The binary as its users meet it: real processes, real files.
#![allow(unreachable_pub, reason = "what the modules of a test crate share is for that crate alone")]
// Everything here is a test or a test helper, where an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

mod across;
mod agent;
mod api;
mod approvals;
mod architecture;
mod backup;
mod chain;
mod channel;
mod checkpoint;
mod clients;
mod clones;
mod codex;
mod companion;
mod config;
mod cycle;
mod deferred;
mod demo;
mod docs;
mod doctor;
mod faults;
mod files;
mod fleet;
mod formats;
mod fuzzed;
mod handoffs;
mod help;
mod hooks;
mod hostile;
mod hostile_sockets;
mod hot;
mod identity;
mod install;
mod kill;
mod lead;
mod listings;
mod load;
mod mail;
mod matrix;
mod memory;
mod migrate;
mod mirror;
mod modes;
mod notices;
mod openapi;
mod outputs;
mod packaging;
mod page;
mod panes;
mod providers;
mod race;
mod retention;
mod run;
mod screen;
mod serve;
mod sessions;
mod soak;
mod spawn;
mod speakers;
mod start;
mod statusline;
mod store;
mod tables;
mod terminal;
mod threads;
mod top;
mod unattended;
mod wake;
mod world;

/// The binary under test.
const BATON: &str = env!("CARGO_BIN_EXE_baton");
