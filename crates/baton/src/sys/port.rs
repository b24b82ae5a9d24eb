//! TCP ports on this machine's loopback addresses: reserves one, and finds out who else has it.

use std::io;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::OwnedFd;

/// A program that listens on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortHolder {
    pub(crate) uid: u32,
    /// Its process and the name of its program, if we may see them.
    pub(crate) process: Option<(u32, String)>,
}

/// Keeps others from listening on `[::1]:port` without listening there: connections are refused at once, so clients
/// that try `localhost` as IPv6 first continue with 127.0.0.1. `None` if there is no IPv6.
pub(crate) fn reserve_v6(port: u16) -> io::Result<Option<OwnedFd>> {
    use rustix::io::{Errno, FdFlags, fcntl_setfd};
    use rustix::net::{AddressFamily, SocketType, bind, socket};
    let bound = || -> rustix::io::Result<OwnedFd> {
        let socket = socket(AddressFamily::INET6, SocketType::STREAM, None)?;
        fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
        bind(&socket, &SocketAddrV6::new(Ipv6Addr::LOCALHOST, port, 0, 0))?;
        Ok(socket)
    };
    match bound() {
        Ok(socket) => Ok(Some(socket)),
        Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Who listens on `port` of a loopback or wildcard address; `None` if we see nobody.
#[cfg(target_os = "linux")]
pub(crate) fn listener_on(port: u16) -> Option<PortHolder> {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let (uid, inode) = tables.iter().find_map(|table| {
        let text = std::fs::read_to_string(table).ok()?;
        text.lines().skip(1).find_map(|line| listening(line, port))
    })?;
    Some(PortHolder { uid, process: owner_of_socket(inode) })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn listener_on(_port: u16) -> Option<PortHolder> {
    None
}

/// The uid and the inode of a socket in `/proc/net/tcp` that listens on `port` of an address that loopback reaches.
#[cfg(any(target_os = "linux", test))]
fn listening(line: &str, port: u16) -> Option<(u32, u64)> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (address, local_port) = fields.get(1)?.split_once(':')?;
    if fields.get(3) != Some(&LISTEN) || u16::from_str_radix(local_port, 16).ok()? != port {
        return None;
    }
    // Addresses are words of four bytes in this machine's order: 127.0.0.1 is 0100007F on a little-endian one.
    let v4 = u32::from_ne_bytes([127, 0, 0, 1]);
    let [loopback, mapped, v6] = [
        format!("{v4:08X}"),
        format!("{}{:08X}{v4:08X}", "0".repeat(16), u32::from_ne_bytes([0, 0, 255, 255])),
        format!("{}{:08X}", "0".repeat(24), u32::from_ne_bytes([0, 0, 0, 1])),
    ];
    let is_wildcard = address.bytes().all(|b| b == b'0');
    if !is_wildcard && ![loopback, mapped, v6].contains(&address.to_owned()) {
        return None;
    }
    Some((fields.get(7)?.parse().ok()?, fields.get(9)?.parse().ok()?))
}

/// The process that has this socket open, and its program. We cannot see those of other users.
#[cfg(target_os = "linux")]
fn owner_of_socket(inode: u64) -> Option<(u32, String)> {
    let wanted = format!("socket:[{inode}]");
    let pids =
        std::fs::read_dir("/proc").ok()?.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    for pid in pids {
        let Ok(fds) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        let holds = |fd: std::fs::DirEntry| std::fs::read_link(fd.path()).is_ok_and(|to| *to == *wanted);
        if fds.flatten().any(holds) {
            return Some((pid, program(pid)));
        }
    }
    None
}

/// The name of a process's program file, or what the process calls itself.
#[cfg(target_os = "linux")]
fn program(pid: u32) -> String {
    let file = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let file = file.as_ref().and_then(|path| path.file_name()?.to_str());
    match file {
        Some(name) => name.to_owned(),
        None => std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned(),
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn the_program_that_listens_on_a_port_is_found() {
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            let Ok(socket) = std::net::TcpListener::bind(address) else { continue };
            let port = socket.local_addr().unwrap().port();
            let found = listener_on(port).unwrap();
            assert_eq!(found.uid, rustix::process::geteuid().as_raw());
            let (pid, program) = found.process.unwrap();
            assert_eq!(pid, std::process::id(), "{address}");
            assert!(program.starts_with("baton"), "{program}");
            drop(socket);
            assert_eq!(listener_on(port), None);
        }
    }

    #[test]
    fn a_port_of_another_address_or_a_mere_connection_is_nobodys() {
        let line = "   0: 0100007F:20E4 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1";
        assert_eq!(listening(line, 8420), Some((1000, 4242)));
        assert_eq!(listening(line, 8421), None);
        assert_eq!(listening(&line.replace("0100007F", "0A00000A"), 8420), None);
        assert_eq!(listening(&line.replace(" 0A ", " 01 "), 8420), None);
    }

    #[test]
    fn a_reserved_port_is_refused_to_clients_and_cannot_be_taken() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        let Some(_held) = reserve_v6(port).unwrap() else {
            eprintln!("SKIPPED: there is no IPv6 here");
            return;
        };
        let at = (Ipv6Addr::LOCALHOST, port);
        assert_eq!(std::net::TcpStream::connect(at).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(std::net::TcpListener::bind(at).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(reserve_v6(port).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
