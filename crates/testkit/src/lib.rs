//! Drives baton in tests.

pub mod clients;
pub mod model;
pub mod tmux;
pub mod quality;
