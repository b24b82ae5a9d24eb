//! Wakes a supervisor and a companion: files come first, then one datagram that nobody waits for. A lost one
//! costs nothing, because both also watch the files.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use baton_core::ids::AgentId;

pub fn socket_path(state: &Path, agent: &AgentId) -> PathBuf {
    state.join("run").join(format!("{agent}.sock"))
}

/// Where the agent's companion listens.
pub fn companion_path(state: &Path, agent: &AgentId) -> PathBuf {
    state.join("run").join(format!("{agent}.companion"))
}

/// Where the attendant of all panes listens.
pub fn panes_path(state: &Path) -> PathBuf {
    state.join("run").join("panes.sock")
}

/// Tells the agent's supervisor, its companion and the attendant of its pane, where there are any, to look again.
pub fn supervisor(state: &Path, agent: &AgentId) {
    let Ok(socket) = UnixDatagram::unbound() else { return };
    if socket.set_nonblocking(true).is_ok() {
        let _ = socket.send_to(b"!", socket_path(state, agent));
        let _ = socket.send_to(b"!", companion_path(state, agent));
        let _ = socket.send_to(agent.as_str().as_bytes(), panes_path(state));
    }
}
