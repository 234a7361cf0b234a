//! Where a server is, as people write it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Unix socket: `unix:PATH`, or a path.
    Unix(PathBuf),
    /// A port of this machine: `tcp:HOST:PORT`. The token comes from elsewhere.
    Tcp(SocketAddr),
    /// A token file, which says both port and token: `token:FILE`.
    TokenFile(PathBuf),
}

/// A text that is no address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It has no meaning.
    #[error(
        "{0:?} is no address of a server: give unix:PATH or a path with a /, token:FILE, or tcp:HOST:PORT"
    )]
    Form(String),
    /// The part after `tcp:` is no host and port.
    #[error("{0:?} is not HOST:PORT with the host 127.0.0.1, [::1] or localhost, such as tcp:127.0.0.1:7777")]
    Tcp(String),
    /// The host is another machine.
    #[error("{0} is another machine: HNS is served on loopback addresses only, such as 127.0.0.1")]
    Far(SocketAddr),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let form = || AddressError::Form(text.to_owned());
        if let Some((scheme, rest)) = text.split_once(':')
            && matches!(scheme, "unix" | "token" | "tcp")
        {
            if rest.is_empty() {
                return Err(form());
            }
            return match scheme {
                "unix" => Ok(Self::Unix(rest.into())),
                "token" => Ok(Self::TokenFile(rest.into())),
                _ => loopback(rest).map(Self::Tcp),
            };
        }
        // A word without a slash is more likely a mistyped scheme or a lab's name than a socket in this folder.
        if text.contains('/') || text.contains(std::path::MAIN_SEPARATOR) {
            return Ok(Self::Unix(text.into()));
        }
        Err(form())
    }
}

fn loopback(text: &str) -> Result<SocketAddr, AddressError> {
    let address = match text.strip_prefix("localhost:") {
        Some(port) => port.parse().ok().map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        None => text.parse::<SocketAddr>().ok(),
    };
    let address = address.filter(|address| address.port() != 0);
    let address = address.ok_or_else(|| AddressError::Tcp(text.to_owned()))?;
    // The token would go over the network in clear.
    if address.ip().is_loopback() { Ok(address) } else { Err(AddressError::Far(address)) }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::TokenFile(path) => write!(f, "token:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for (text, wanted, written) in [
            ("unix:/run/hns.sock", Address::Unix("/run/hns.sock".into()), "unix:/run/hns.sock"),
            ("unix:hns.sock", Address::Unix("hns.sock".into()), "unix:hns.sock"),
            ("./a:b", Address::Unix("./a:b".into()), "unix:./a:b"),
            ("/run/hns.sock", Address::Unix("/run/hns.sock".into()), "unix:/run/hns.sock"),
            (r"token:Z:\run\x.json", Address::TokenFile(r"Z:\run\x.json".into()), r"token:Z:\run\x.json"),
            ("token:/run/hns", Address::TokenFile("/run/hns".into()), "token:/run/hns"),
            ("tcp:127.0.0.1:7", Address::Tcp("127.0.0.1:7".parse().unwrap()), "tcp:127.0.0.1:7"),
            ("tcp:localhost:7", Address::Tcp("127.0.0.1:7".parse().unwrap()), "tcp:127.0.0.1:7"),
            ("tcp:[::1]:7", Address::Tcp("[::1]:7".parse().unwrap()), "tcp:[::1]:7"),
        ] {
            let read: Address = text.parse().unwrap();
            assert_eq!(read, wanted);
            assert_eq!(read.to_string(), written);
            assert_eq!(written.parse::<Address>().unwrap(), wanted);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_would_be_one() {
        for (text, part) in [
            ("", "unix:PATH"),
            ("hns", "unix:PATH"),
            ("unix:", "unix:PATH"),
            ("token:", "token:FILE"),
            ("tcp:7777", "tcp:127.0.0.1:7777"),
            ("tcp:127.0.0.1:0", "HOST:PORT"),
            ("tcp:node-1:7777", "localhost"),
            ("tcp:10.0.0.1:7777", "loopback"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}
