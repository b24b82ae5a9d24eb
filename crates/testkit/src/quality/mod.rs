//! Measures on real transcripts of both clients how much of what the next turn needs a handoff carries.
//!
//! The expected facts are extracted here by separate literal rules on untyped JSON. They share no code with the ledger,
//! or the measurement would prove nothing.

pub mod baselines;
pub mod chain;
pub mod corpus;
pub mod document;
pub mod needed;
pub mod probes;
pub mod score;
pub mod speed;
pub mod story;
