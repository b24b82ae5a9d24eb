//! Drives baton in tests.

pub mod model;
