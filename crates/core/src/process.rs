//! The identity of a process. A pid alone is reused; a pid with its start time and the machine's boot is not.

use serde::{Deserialize, Serialize};

/// Never signal or trust a process by its pid alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    /// Its start time in the kernel's clock ticks since boot.
    pub start: u64,
    /// The boot it belongs to; a reboot makes every recorded process dead.
    pub boot: String,
}
