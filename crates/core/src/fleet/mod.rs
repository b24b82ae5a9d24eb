//! Many machines that meet in one database: how addresses resolve, what is exchanged, and who may act.
//!
//! Each machine's files stay its truth. Machines exchange **envelopes** ([`envelope`]): the database can read the
//! authenticated header, but not the body. A message's **stage** ([`stage`]) only moves forward, even if something
//! arrives twice or late. A handoff has one **home** ([`home`]), and only the home's own files let it be claimed. A
//! whole **conversation** ([`conversation`]) is sent in pieces if its channel is shared. [`watermark`] notices that the
//! database was restored from a backup; [`presence`] tells which machines are awake.

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
