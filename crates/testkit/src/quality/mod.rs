//! How much of what the next turn needs is carried by a handoff, measured at real compactions.
//!
//! The facts asked for are extracted here by literal rules of their own, on untyped JSON: nothing of the ledger's
//! code is used, or the measurement would prove nothing.

pub mod baselines;
pub mod corpus;
pub mod probes;
pub mod score;
pub mod speed;
