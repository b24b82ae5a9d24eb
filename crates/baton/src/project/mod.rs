//! The project an agent works in: its channel, its memory, its checkpoints.

pub(crate) mod channel;
pub(crate) mod checkpoints;
pub(crate) mod gitignore;
pub(crate) mod memory;
pub(crate) mod root;
pub(crate) mod trust;

pub(crate) use root::{name, root};
