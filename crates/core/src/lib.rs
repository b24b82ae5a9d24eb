//! What baton decides, as pure functions of values.
//!
//! Nothing in this crate reads a file, a clock, the environment or the network: state and time come in as
//! arguments, decisions go out as values. The binary in `crates/baton` carries them out.

pub mod agent;
pub mod channel;
pub mod checkpoint;
pub mod compaction;
pub mod companion;
pub mod event;
pub mod forecast;
pub mod handoff;
pub mod ids;
pub mod latch;
pub mod launch;
pub mod ledger;
pub mod level;
pub mod limit;
pub mod message;
pub mod plain;
pub mod process;
pub mod reading;
pub mod redact;
pub mod rotation;
pub mod say;
pub mod session;
pub mod statusline;
pub mod transcript;
pub mod wire;
