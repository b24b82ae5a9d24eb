//! Drives baton in tests.

pub mod quality;
