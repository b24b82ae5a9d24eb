//! Many machines that meet in one database: who is meant by an address, what travels, and who may act.
//!
//! Each machine's files stay its truth. What goes to another machine is an **envelope** ([`envelope`]): its header can be
//! read by the database and is authenticated, its body cannot be read. A message's **stage** ([`stage`]) only moves
//! forward, whatever arrives twice or late. A handoff has one **home** ([`home`]), and only the home's own files let it be
//! claimed. A whole **conversation** ([`conversation`]) goes in pieces, where its channel is shared. [`watermark`] notices that the database came back from a backup; [`presence`] tells who is awake.

pub mod address;
pub mod conversation;
pub mod envelope;
pub mod home;
pub mod presence;
#[cfg(test)]
mod simulation;
pub mod stage;
pub mod watermark;

pub use address::{Address, MachineName};
