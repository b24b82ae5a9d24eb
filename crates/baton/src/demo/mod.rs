//! What the demo and the tests run instead of a real client.

pub(crate) mod agent;
