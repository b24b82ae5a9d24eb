//! What baton decides, as pure functions of values.
//!
//! Nothing in this crate reads a file, a clock, the environment or the network: state and time come in as
//! arguments, decisions go out as values. The binary in `crates/baton` carries them out.

pub mod ids;
pub mod plain;
pub mod redact;
