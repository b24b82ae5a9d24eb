//! The stand-in for a real client in the demo and the tests.

pub(crate) mod agent;
