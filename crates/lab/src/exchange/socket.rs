//! Sockets of a client: made, bound, asked for their address, waited for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt as nix_sockopt};
use node::app::{Outcome, Request, Transport, Unreachable};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::garbled;

/// A socket for a request, bound where the request says so. ICMP errors are kept with their senders.
pub(super) fn make(request: &Request) -> Result<OwnedFd, Outcome> {
    let failed = |errno| match errno {
        Errno::AFNOSUPPORT => Outcome::Unreachable(Unreachable::NoSource),
        errno => garbled("socket", errno),
    };
    let family = if request.to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let kind = match request.transport {
        Transport::Tcp => SocketType::STREAM,
        Transport::Udp => SocketType::DGRAM,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, kind, flags, None).map_err(failed)?;
    let told = if request.to.is_ipv4() {
        setsockopt(&socket, nix_sockopt::Ipv4RecvErr, &true)
    } else {
        setsockopt(&socket, nix_sockopt::Ipv6RecvErr, &true)
    };
    told.map_err(|error| Outcome::Garbled(format!("a socket does not tell who refuses it: {error}")))?;
    if request.transport == Transport::Tcp {
        sockopt::set_tcp_nodelay(&socket, true).map_err(|errno| garbled("setsockopt", errno))?;
    }
    bind(&socket, request)?;
    Ok(socket)
}

fn bind(socket: &OwnedFd, request: &Request) -> Result<(), Outcome> {
    if request.from.is_none() && request.port.is_none() {
        return Ok(());
    }
    let any: IpAddr =
        if request.to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let address = request.from.unwrap_or(any);
    if address.is_ipv4() != request.to.is_ipv4() {
        return Err(Outcome::Unreachable(Unreachable::NoSource));
    }
    if request.port.is_some() {
        // A connection of before that waits for its last segments does not keep the port.
        sockopt::set_socket_reuseaddr(socket, true).map_err(|errno| garbled("setsockopt", errno))?;
    } else {
        // The port is chosen with the connection, so that connections to different servers share one.
        setsockopt(socket, nix_sockopt::IpBindAddressNoPort, &true)
            .map_err(|error| Outcome::Garbled(format!("a socket does not choose its port late: {error}")))?;
    }
    let at = SocketAddr::new(address, request.port.unwrap_or(0));
    rustix::net::bind(socket, &at).map_err(|errno| match errno {
        Errno::ADDRNOTAVAIL => Outcome::Unreachable(Unreachable::NoSource),
        Errno::ADDRINUSE => Outcome::Unreachable(Unreachable::NoPort),
        errno => garbled("bind", errno),
    })
}

/// The socket's own address, once it has one.
pub(super) fn local(socket: &OwnedFd) -> Option<SocketAddr> {
    let address = SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()?;
    (address.port() != 0 && !address.ip().is_unspecified()).then_some(address)
}

/// Whether the namespace has an address to reach `to` from: asked with a datagram socket, which sends nothing.
pub(super) fn has_source(to: SocketAddr) -> bool {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .is_ok_and(|socket| rustix::net::connect(&socket, &to) != Err(Errno::ADDRNOTAVAIL))
}

/// Waits until the socket is ready; `None`: the time has passed.
pub(super) fn poll(
    socket: impl AsFd,
    wanted: PollFlags,
    left: Duration,
) -> rustix::io::Result<Option<PollFlags>> {
    let mut polled = [PollFd::new(&socket, wanted)];
    let left = Timespec::try_from(left).ok();
    match rustix::event::poll(&mut polled, left.as_ref()) {
        // Interrupted: the caller looks and waits again.
        Err(Errno::INTR) => Ok(Some(PollFlags::empty())),
        Err(errno) => Err(errno),
        Ok(_) => Ok(polled.iter().map(PollFd::revents).find(|flags| !flags.is_empty())),
    }
}
