//! The document that carries the work over.

mod entries;
pub mod pack;
pub mod render;
pub mod verify;
