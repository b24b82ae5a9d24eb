//! The providers' formats, byte for byte; converted once, in `event`, to our own terms.
//!
//! Nothing here may reject a payload because it has more fields, or other values, than we know.

pub mod claude;
pub mod codex;
pub mod front;
pub mod lax;
