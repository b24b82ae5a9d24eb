//! What providers send and expect, byte for byte; converted once, in `event`, to our own terms.
//!
//! Nothing here may reject a payload because it holds more, or something else, than we know.

pub mod claude;
pub mod codex;
pub mod front;
pub mod lax;
