//! Who a process is. A pid alone is reused; a pid with its start time and the machine's boot is not.

use serde::{Deserialize, Serialize};

/// Identity of a process: never signal or trust one by its pid alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    /// Clock ticks since boot at which it started, as the kernel counts them.
    pub start: u64,
    /// The boot it belongs to; a reboot makes every recorded process dead.
    pub boot: String,
}
