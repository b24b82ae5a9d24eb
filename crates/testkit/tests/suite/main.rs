//! The testkit itself, and the real clients driven by it.

mod model;
