//! The real clients, run without a login against the scripted model: a fresh home, a fake key, and an environment
//! without anything of the person who runs the tests.

pub mod claude;
mod client_home;
pub mod codex;
mod install;
mod launch;
pub mod shapes;

pub use client_home::ClientHome;
pub use install::{Client, installed};
pub use launch::{Finished, Launch};
