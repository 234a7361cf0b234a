//! Addresses as kube-proxy reads them: with leading zeros, with a port that may be left out, as networks.
//!
//! Pure text. It must not know which field is read.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ipnet::IpNet;

/// An address; leading zeros count for nothing, and an IPv4 address in IPv6's clothes is one of IPv4, as in Go.
pub(crate) fn ip(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.to_canonical());
    }
    let mut octets = [0_u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let digits = part.trim_start_matches('0');
        *octet = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets).into())
}

/// A network such as `10.0.0.0/8`; bits behind the prefix count for nothing.
pub(crate) fn network(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    if !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    IpNet::new(ip(address)?, length.parse().ok()?).ok().map(|network| network.trunc())
}

/// The host and port of `host:port` or `[host]:port`, as texts.
fn host_port(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    if let Some(inner) = host.strip_prefix('[') {
        return Some((inner.strip_suffix(']')?, port));
    }
    (!host.contains([':', '[', ']'])).then_some((host, port))
}

/// The text with `port` added where it is a bare address; anything else stays for the rules to judge.
pub(crate) fn with_port(text: &str, port: u16) -> String {
    match ip(text) {
        Some(_) if text.contains(':') => format!("[{text}]:{port}"),
        Some(_) => format!("{text}:{port}"),
        None => text.to_owned(),
    }
}

/// An address to listen on; an error says which part of it is wrong.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, &'static str> {
    let (host, port) = host_port(text).ok_or("must be IP:port, such as 0.0.0.0:10256 or [::]:10256")?;
    let ip =
        ip(host).ok_or("must be a valid IP before the port, such as 0.0.0.0; names are not looked up")?;
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(port) if digits && port > 0 => Ok(SocketAddr::new(ip, port)),
        _ => Err("must be a valid port behind the last colon, from 1 to 65535"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let table = [
            ("10.0.0.1", Some("10.0.0.1")),
            ("010.000.0.001", Some("10.0.0.1")),
            ("::ffff:10.0.0.1", Some("10.0.0.1")),
            ("fd00::1", Some("fd00::1")),
            ("10.0.0", None),
            ("10.0.0.1.2", None),
            ("10.0.0.256", None),
            ("10.0..1", None),
            ("+1.0.0.1", None),
            ("fe80::1%3", None),
            ("", None),
        ];
        for (text, want) in table {
            assert_eq!(ip(text).map(|ip| ip.to_string()).as_deref(), want, "{text:?}");
        }
    }

    #[test]
    fn networks() {
        let table = [
            ("10.1.2.3/8", Some("10.0.0.0/8")),
            ("fd00::/8", Some("fd00::/8")),
            ("10.0.0.0/33", None),
            ("10.0.0.0/+8", None),
            ("10.0.0.0", None),
            ("primary", None),
        ];
        for (text, want) in table {
            assert_eq!(network(text).map(|net| net.to_string()).as_deref(), want, "{text:?}");
        }
    }

    #[test]
    fn places_to_listen() {
        let table = [
            ("0.0.0.0:10256", Ok("0.0.0.0:10256")),
            ("[::]:80", Ok("[::]:80")),
            ("1.2.3.4:0", Err("valid port")),
            ("1.2.3.4:65536", Err("valid port")),
            ("1.2.3.4:+80", Err("valid port")),
            ("1.2.3.4:", Err("valid port")),
            (":10256", Err("valid IP")),
            ("localhost:80", Err("valid IP")),
            ("1.2.3.4", Err("must be IP:port")),
            ("::1", Err("must be IP:port")),
            ("[::1", Err("must be IP:port")),
            ("", Err("must be IP:port")),
        ];
        for (text, want) in table {
            match (listen(text), want) {
                (Ok(got), Ok(want)) => assert_eq!(got.to_string(), want),
                (Err(got), Err(want)) => assert!(got.contains(want), "{text:?}: {got}"),
                (got, want) => panic!("{text:?}: {got:?} is not {want:?}"),
            }
        }
        for (text, want) in
            [("10.0.0.1", "10.0.0.1:7"), ("::1", "[::1]:7"), ("x", "x"), ("1.2.3.4:5", "1.2.3.4:5")]
        {
            assert_eq!(with_port(text, 7), want);
        }
    }
}
