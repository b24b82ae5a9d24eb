//! The operating system: files, locks, processes. The only place that may need `unsafe`.

pub mod arena;
#[cfg(all(target_arch = "x86_64", target_os = "linux", any(test, target_env = "musl")))]
mod bytes;
pub mod changes;
pub mod child;
pub mod clock;
pub mod copy;
pub mod fs;
pub mod handle;
pub mod lock;
mod map;
pub mod process;
pub mod ready;
pub mod terminal;
pub mod watch;
