//! Handoffs: made from a session, shown to the next one, given to another agent.

pub(crate) mod attach;
pub(crate) mod frame;
pub(crate) mod offer;
pub(crate) mod seal;
pub(crate) mod transcripts;
pub(crate) mod transfer;
