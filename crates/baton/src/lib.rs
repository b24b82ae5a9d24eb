//! The effects and the binary: `main → {hot, cli} → supervisor → store → sys`, and everything may ask `core`.
//!
//! A library only so that tests and benchmarks reach the parts; its interface is the command line.

pub mod across;
pub mod channel;
pub mod cli;
pub mod client;
pub mod companion;
pub mod config;
pub mod daemon;
pub mod demo;
pub mod doctor;
pub mod frame;
pub mod hot;
pub mod install;
pub mod memory;
pub mod offer;
pub mod panes;
pub mod paths;
pub mod poke;
pub mod providers;
pub mod rotate;
pub mod sealing;
pub mod sessions;
pub mod store;
pub mod supervisor;
pub mod sys;
pub mod threads;
pub mod tmux;
pub mod transcripts;
pub mod wake;
