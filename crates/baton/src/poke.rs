//! Wakes a supervisor: files come first, then one datagram that nobody waits for. A lost one costs nothing,
//! because the supervisor also watches the files.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use baton_core::ids::AgentId;

pub fn socket_path(state: &Path, agent: &AgentId) -> PathBuf {
    state.join("run").join(format!("{agent}.sock"))
}

/// Tells the agent's supervisor, if there is one, to look again.
pub fn supervisor(state: &Path, agent: &AgentId) {
    let Ok(socket) = UnixDatagram::unbound() else { return };
    if socket.set_nonblocking(true).is_ok() {
        let _ = socket.send_to(b"!", socket_path(state, agent));
    }
}
