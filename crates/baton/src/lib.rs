//! The effects and the binary. Every room may use `core`.
//!
//! A library only so that tests, benchmarks and fuzz targets reach a few parts; its interface is the command line.

mod approvals;
mod cli;
mod config;
mod daemon;
mod demo;
mod fleet;
mod handoffs;
mod history;
mod hooks;
mod mail;
mod project;
mod providers;
mod rotation;
mod sessions;
mod setup;
mod store;
mod sys;
mod tui;
mod views;

/// What the binary calls.
pub mod entry {
    pub use crate::cli::{become_client, main};
    pub use crate::demo::agent::main as demo_agent;
    pub use crate::hooks::{is_hot, main as hook};
    pub use crate::rotation::actuators::inplace::{is_ours as is_companion, main as companion};
    pub use crate::sys::arena::Arena;
    pub use crate::sys::child::{HELD, become_client as become_held_client};
}

/// What tests, benchmarks and fuzz targets reach.
pub mod testing {
    pub use crate::config::KEYS;
    pub use crate::daemon::check_head;
    pub use crate::setup::delegate;
    pub use crate::store::Store;
    pub use crate::store::agents::Agents;
    pub use crate::store::{handoffs, mirror};
    pub use crate::sys::hash::sha256;
    pub use crate::sys::lock::Lock;
    pub use crate::sys::process::identify;
    pub use crate::sys::shell::words;

    pub mod approvals {
        pub use crate::approvals::{ApprovalReply, answer, waiting};
        pub use crate::sessions::caller::Caller;
    }

    pub mod install {
        pub use crate::setup::install::{ours, plugin, settings, trust};
    }
}
