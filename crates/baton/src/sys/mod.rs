//! The operating system: files, locks, processes. The only place that may need `unsafe`.

pub(crate) mod arena;
pub(crate) mod browser;
pub(crate) mod child;
pub(crate) mod clock;
pub(crate) mod copy;
pub(crate) mod deadline;
pub(crate) mod editor;
pub(crate) mod fs;
pub(crate) mod git;
pub(crate) mod grown;
pub(crate) mod handle;
pub(crate) mod hash;
pub(crate) mod lock;
pub(crate) mod paths;
pub(crate) mod poll;
pub(crate) mod port;
pub(crate) mod positioned;
pub(crate) mod process;
pub(crate) mod ready;
pub(crate) mod shell;
pub(crate) mod stdin;
pub(crate) mod terminal;
pub(crate) mod watch;
