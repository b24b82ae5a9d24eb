//! The HTTP port: bound on every loopback address, or refused with the name of its owner.
//!
//! Scripts send the token to whoever answers on `localhost`, and many programs try `[::1]` before 127.0.0.1. So the
//! daemon serves on 127.0.0.1, reserves the same port of `[::1]`, and refuses to start if it cannot have both. Only
//! then is a token made.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;

use anyhow::Context as _;
use baton_core::plain::plain_line;

use crate::sys::port::{listener_on, reserve_v6};

/// How many ports to try for a proposal.
const PROPOSALS: u16 = 100;
/// How often to try for a random port that is free on both addresses.
const TRIES: usize = 16;

pub(crate) struct HttpPort {
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddrV4,
    /// The port on `[::1]`, if there is IPv6. Reserved while this is open.
    pub(crate) reserved: Option<OwnedFd>,
}

impl HttpPort {
    /// Binds the port, or reports who has it and which one is free.
    pub(crate) fn claim(wanted: SocketAddrV4) -> anyhow::Result<Self> {
        let mut taken = wanted;
        for _ in 0..TRIES {
            match Self::bind(wanted) {
                Ok(port) => return Ok(port),
                Err((address, e)) if e.kind() == ErrorKind::AddrInUse => taken = address,
                Err((address, e)) => return Err(e).context(format!("could not listen on {address}")),
            }
            if wanted.port() != 0 {
                break;
            }
        }
        anyhow::bail!("could not listen on {taken}: {}", who_has(taken.port()))
    }

    /// Takes the port, or the next free one: for a page, whose address is given to whoever opens it.
    pub(crate) fn claim_near(wanted: SocketAddrV4) -> anyhow::Result<Self> {
        let near = std::iter::once(wanted).chain(ports_after(wanted.port()));
        match near.map(Self::bind).find_map(Result::ok) {
            Some(port) => Ok(port),
            // The error says who is in the way.
            None => Self::claim(wanted),
        }
    }

    /// The error comes with the address that could not be bound.
    fn bind(wanted: SocketAddrV4) -> Result<Self, (SocketAddrV4, std::io::Error)> {
        let listener = TcpListener::bind(wanted).map_err(|e| (wanted, e))?;
        let port = listener.local_addr().map_err(|e| (wanted, e))?.port();
        let address = SocketAddrV4::new(*wanted.ip(), port);
        let reserved = reserve_v6(port).map_err(|e| (address, e))?;
        Ok(Self { listener, address, reserved })
    }
}

/// The program that listens on a port; `None` if there is none or we cannot see it.
pub(crate) fn holder(port: u16) -> Option<String> {
    let me = rustix::process::geteuid().as_raw();
    let listener = listener_on(port)?;
    Some(match listener.process {
        Some((pid, program)) => format!("{} (process {pid})", plain_line(&program, 40)),
        None if listener.uid != me => format!("a program of another user (uid {})", listener.uid),
        None => "another program".to_owned(),
    })
}

fn ports_after(port: u16) -> impl Iterator<Item = SocketAddrV4> {
    let last = port.saturating_add(PROPOSALS);
    (port.saturating_add(1)..=last).map(|port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
}

/// A message that says who has a port, and what to do about it.
fn who_has(port: u16) -> String {
    let holder = holder(port).unwrap_or_else(|| "another program".to_owned());
    let free =
        ports_after(port).find(|address| HttpPort::bind(*address).is_ok()).map(|address| address.port());
    match free {
        Some(free) => format!(
            "{holder} has that port; {free} is free: `baton serve --http {free}`, or `http = {free}` under [serve] \
             in the configuration"
        ),
        None => format!("{holder} has that port; choose another one with --http"),
    }
}
