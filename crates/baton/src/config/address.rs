//! The address that the daemon listens on.

use std::net::{Ipv4Addr, SocketAddrV4};

/// The port that scripts expect.
pub(crate) const PORT: u16 = 8420;
const ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT);

/// Parses `--http`: a port, or an address that only this machine can reach.
pub(crate) fn http_address(text: &str) -> Result<SocketAddrV4, String> {
    if text.is_empty() {
        return Ok(ADDRESS);
    }
    if let Ok(port) = text.parse() {
        return Ok(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
    }
    match text.replace("localhost:", "127.0.0.1:").parse::<SocketAddrV4>() {
        Ok(address) if *address.ip() == Ipv4Addr::LOCALHOST => Ok(address),
        Ok(address) => Err(format!(
            "{address} can be reached from other machines, and what is said there is not encrypted; \
             use 127.0.0.1 and a tunnel (ssh -L {PORT}:127.0.0.1:{PORT} this-machine)"
        )),
        Err(_) => Err(format!("{text:?} is neither a port nor an address; write 8420 or 127.0.0.1:8420")),
    }
}

/// A name under which a TLS proxy serves the page, as a browser writes it into `Host`: in small letters, with its port
/// unless that is 443.
pub(crate) fn proxy_host(text: &str) -> Option<String> {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => (name, port.parse::<u16>().ok().filter(|port| *port > 0)?),
        None => (text, 443),
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // An IP address does not count as a name: browsers reach this machine by it without a proxy.
    let is_name = name.len() <= 253
        && name.split('.').all(is_label)
        && name.bytes().any(|b| b.is_ascii_alphabetic())
        && !name.eq_ignore_ascii_case("localhost");
    let name = name.to_ascii_lowercase();
    is_name.then(|| if port == 443 { name } else { format!("{name}:{port}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_has_a_name_and_no_address_of_this_machine() {
        assert_eq!(proxy_host("Desk.Example.org").as_deref(), Some("desk.example.org"));
        assert_eq!(proxy_host("desk.example.org:443").as_deref(), Some("desk.example.org"));
        assert_eq!(proxy_host("desk:8443").as_deref(), Some("desk:8443"));
        for wrong in [
            "",
            "*",
            "*.example.org",
            "a b",
            "https://desk",
            "desk/",
            "127.0.0.1",
            "localhost",
            "desk:0",
            "-a",
        ] {
            assert_eq!(proxy_host(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_addresses_of_this_machine_are_listened_on() {
        let at = |text: &str| http_address(text).map(|a| a.to_string());
        assert_eq!(at(""), Ok("127.0.0.1:8420".into()));
        assert_eq!(at("9000"), Ok("127.0.0.1:9000".into()));
        assert_eq!(at("localhost:9000"), Ok("127.0.0.1:9000".into()));
        for other in ["0.0.0.0:8420", "192.168.1.5:8420", "[::]:8420", "8420.example.org:1", "127.0.0.2:8420"]
        {
            assert!(at(other).is_err(), "{other}");
        }
        assert!(at("0.0.0.0:1").unwrap_err().contains("tunnel"));
    }
}
