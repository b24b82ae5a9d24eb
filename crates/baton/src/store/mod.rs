//! What baton keeps, as files that anybody can read. Every change is whole or has not happened.

pub mod agents;
pub mod checkpoints;
pub mod compaction;
pub mod handoffs;
pub mod log;
pub mod mail;
pub mod published;
mod record;
pub mod sessions;
