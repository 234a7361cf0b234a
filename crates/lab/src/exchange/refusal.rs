//! From the kernel's errors to what became of an exchange. An error number does not tell who refused; the socket's error
//! queue does (`IP_RECVERR`).

use std::io::IoSliceMut;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};
use node::app::{Outcome, Request, Unreachable};
use rustix::io::Errno;

use super::{garbled, socket};

/// What an error means that ended an attempt to connect, or that a datagram met.
pub(super) fn of_connect(socket: &OwnedFd, request: &Request, errno: Errno) -> Outcome {
    if let Some(outcome) = queued(socket) {
        return outcome;
    }
    match errno {
        Errno::CONNREFUSED => Outcome::Refused,
        Errno::CONNRESET | Errno::PIPE => Outcome::Reset,
        Errno::TIMEDOUT => Outcome::TimedOut,
        // A route of the client's own that leads nowhere, or forbids it.
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ACCESS => Outcome::Unreachable(Unreachable::NoRoute),
        Errno::ADDRNOTAVAIL if socket::has_source(request.to) => Outcome::Unreachable(Unreachable::NoPort),
        Errno::ADDRNOTAVAIL => Outcome::Unreachable(Unreachable::NoSource),
        // A connection with the same ends is still there; a datagram socket finds no free port.
        Errno::ADDRINUSE | Errno::AGAIN => Outcome::Unreachable(Unreachable::NoPort),
        errno => garbled("connect", errno),
    }
}

/// What an error means that ended a connection.
pub(super) fn of_connected(socket: &OwnedFd, errno: Errno) -> Outcome {
    match errno {
        Errno::CONNRESET | Errno::PIPE | Errno::CONNREFUSED | Errno::CONNABORTED => Outcome::Reset,
        Errno::TIMEDOUT => Outcome::TimedOut,
        errno => queued(socket).unwrap_or_else(|| garbled("the connection", errno)),
    }
}

/// The first ICMP error in the socket's queue that is a reason to give up. It and what is before it are taken out.
pub(super) fn queued(socket: &OwnedFd) -> Option<Outcome> {
    let mut quoted = [0; 64];
    let mut space = nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
    loop {
        let mut parts = [IoSliceMut::new(&mut quoted)];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message =
            recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags).ok()?;
        for told in message.cmsgs().ok()? {
            let outcome = match told {
                ControlMessageOwned::Ipv4RecvErr(error, from)
                    if error.ee_origin == libc::SO_EE_ORIGIN_ICMP =>
                {
                    let by = from.map_or(Ipv4Addr::UNSPECIFIED, |from| {
                        Ipv4Addr::from(u32::from_be(from.sin_addr.s_addr))
                    });
                    icmp4(error.ee_type, error.ee_code, by.into())
                }
                ControlMessageOwned::Ipv6RecvErr(error, from)
                    if error.ee_origin == libc::SO_EE_ORIGIN_ICMP6 =>
                {
                    let by =
                        from.map_or(Ipv6Addr::UNSPECIFIED, |from| Ipv6Addr::from(from.sin6_addr.s6_addr));
                    icmp6(error.ee_type, error.ee_code, by.into())
                }
                _ => None,
            };
            if outcome.is_some() {
                return outcome;
            }
        }
    }
}

/// RFC 792, RFC 1122 3.2.2.1, RFC 1812 5.2.7.1. `None`: no reason to give up (a packet that was too big, a quench).
fn icmp4(kind: u8, code: u8, by: IpAddr) -> Option<Outcome> {
    Some(match (kind, code) {
        (3, 2 | 3) => Outcome::Refused,
        (3, 4) => return None,
        (3, 9 | 10 | 13) => Outcome::Unreachable(Unreachable::Prohibited(by)),
        (3, _) => Outcome::Unreachable(Unreachable::Host(by)),
        (11, _) => Outcome::Unreachable(Unreachable::TimeExceeded(by)),
        _ => return None,
    })
}

/// RFC 4443 3.1 and 3.3.
fn icmp6(kind: u8, code: u8, by: IpAddr) -> Option<Outcome> {
    Some(match (kind, code) {
        (1, 4) => Outcome::Refused,
        (1, 1 | 5 | 6) => Outcome::Unreachable(Unreachable::Prohibited(by)),
        (1, _) => Outcome::Unreachable(Unreachable::Host(by)),
        (3, _) => Outcome::Unreachable(Unreachable::TimeExceeded(by)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn icmp_errors_of_both_families_mean_the_same() {
        let by: IpAddr = Ipv4Addr::LOCALHOST.into();
        for (v4, v6) in
            [((3, 3), (1, 4)), ((3, 1), (1, 3)), ((3, 0), (1, 0)), ((3, 13), (1, 1)), ((11, 0), (3, 0))]
        {
            let outcome = icmp4(v4.0, v4.1, by);
            assert!(outcome.is_some());
            assert_eq!(outcome, icmp6(v6.0, v6.1, by), "{v4:?} {v6:?}");
        }
        assert_eq!(icmp4(3, 4, by), None, "fragmentation needed: the kernel sends smaller packets");
        assert_eq!(icmp6(2, 0, by), None, "packet too big");
    }
}
