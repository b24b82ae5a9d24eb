//! The testkit itself, and the real clients driven by it.

mod clients;
mod model;
mod tmux;
