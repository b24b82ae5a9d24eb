//! What baton decides, as pure functions of values.
//!
//! Nothing in this crate reads a file, a clock, the environment or the network: state and time come in as
//! arguments, decisions go out as values. The binary in `crates/baton` carries them out.

pub mod checkpoint;
pub mod compaction;
pub mod event;
pub mod forecast;
pub mod ids;
pub mod latch;
pub mod level;
pub mod reading;
pub mod say;
pub mod statusline;
pub mod transcript;
pub mod wire;
