//! The real clients on the scripted model; `scripts/test-clients` runs everything below a `clients` module.

mod claude;
mod codex;
