//! The real clients, run without a login against the scripted model: a fresh home, a fake key, an
//! environment that holds nothing of the person who runs the tests.

pub mod claude;
pub mod codex;
mod install;
mod launch;
mod place;
pub mod shapes;

pub use install::{Client, installed};
pub use launch::{Finished, Launch};
pub use place::Place;
