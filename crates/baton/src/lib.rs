//! The effects and the binary: `main → cli → store → sys`, and everything may ask `core`.
//!
//! A library only so that tests and benchmarks reach the parts; its interface is the command line.

pub mod channel;
pub mod cli;
pub mod config;
pub mod paths;
pub mod store;
pub mod sys;
