//! Installs into the clients and leaves without a trace.

pub mod delegate;
pub(crate) mod doctor;
pub(crate) mod install;
pub(crate) mod migrate;
pub(crate) mod plugin_dir;
