//! Many machines: each keeps its own files, and their daemons meet in a PostgreSQL that the user has.
//!
//! ```text
//! fleet/config.json      this machine's place in its fleet: name, keys, the URL of its own role. 0600
//! fleet/admin.json       on the machine that founded the fleet: the fleet's key and the owner's URL. 0600
//! fleet/outbox/new/      what waits for the database, one parcel a file; sent/ keeps a week of what it acknowledged,
//!                        failed/ what it will never take; receipts.jsonl says how far each has come
//! fleet/inbound/         messages that came and were not seen yet; their senders wait for a receipt
//! fleet/known/           the keys of other machines, as they were when they were first proved
//! fleet/homes/           handoffs that leave this machine; settled/ those that have left it or come to it
//! fleet/shelves/         what other machines said about the conversations that they share
//! fleet/coming/          conversations that were asked for, piece by piece until they are whole
//! fleet/machines.json    all machines and their agents, as last heard
//! fleet/link.json        whether the database is there, and since when
//! ```
//!
//! Only the daemon exchanges anything (`link`), and only after `baton fleet join`; hooks never look in here. Every step
//! can be repeated after a kill: parcels have ids, a mailbox keeps what is not on disk, and what comes twice is recognised by its id.

#[cfg(feature = "fleet")]
pub(crate) mod admin;
#[cfg(feature = "fleet")]
pub(crate) mod arrive;
pub(crate) mod config;
pub(crate) mod conversations;
#[cfg(feature = "fleet")]
mod database;
pub(crate) mod handoffs;
#[cfg(feature = "fleet")]
mod inbound;
#[cfg(feature = "fleet")]
pub(crate) mod inspect;
#[cfg(feature = "fleet")]
pub(crate) mod keys;
#[cfg(feature = "fleet")]
mod link;
pub(crate) mod outbox;
pub(crate) mod post;
pub(crate) mod roll;
#[cfg(feature = "fleet")]
mod schema;
mod tree;

#[cfg(feature = "fleet")]
pub(crate) use link::attend;

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// The folder of everything about the fleet.
pub(crate) fn folder(state: &Path) -> PathBuf {
    state.join("fleet")
}

/// Whether this machine is in a fleet. One look at a name.
#[cfg(feature = "fleet")]
pub(crate) fn is_joined(state: &Path) -> bool {
    config::Membership::path(state).exists()
}

/// Where the daemon's part for the fleet listens.
fn socket(state: &Path) -> PathBuf {
    state.join("run/fleet.sock")
}

/// Tells the daemon that something waits in the outbox. Files come first: a lost datagram costs a moment.
pub(crate) fn wake(state: &Path) {
    tell(state, b"!");
}

/// Asks the daemon for fresh news of all machines.
pub(crate) fn ask_for_news(state: &Path) {
    tell(state, b"?");
}

fn tell(state: &Path, what: &[u8]) {
    let Ok(datagram) = UnixDatagram::unbound() else { return };
    if datagram.set_nonblocking(true).is_ok() {
        let _ = datagram.send_to(what, socket(state));
    }
}

/// Hexadecimal digits back to bytes.
#[cfg(feature = "fleet")]
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let bytes = text.as_bytes();
    if bytes.len() != 2 * N {
        return None;
    }
    let mut out = [0; N];
    for (at, pair) in bytes.chunks_exact(2).enumerate() {
        let digit = |b: u8| char::from(b).to_digit(16);
        out[at] = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
    }
    Some(out)
}
