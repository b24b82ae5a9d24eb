//! What the demo and the tests run instead of a real client, and the demo itself.

pub mod agent;
pub mod stage;
pub mod story;
