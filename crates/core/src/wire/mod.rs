//! What providers send and want to hear, byte for byte; converted once, in `event`, to our own words.
//!
//! Nothing here may refuse a payload because it holds more, or something else, than we know.

pub mod claude;
pub mod codex;
pub mod front;
pub mod lax;
