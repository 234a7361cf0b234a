//! ICMP for the stack's own addresses: echo, and errors about what it sent.

use std::net::{IpAddr, SocketAddr};

use wire::{Ip, L4, bytes, proto};

use super::{Stack, is_group};
use crate::app::{Outcome, Transport, Unreachable};

/// The packet that an error is about, as far as it is quoted.
struct Quoted {
    proto: u8,
    source: SocketAddr,
    destination: SocketAddr,
}

impl Stack {
    pub(super) fn icmp(&mut self, frame: &[u8], ip: &Ip) {
        let (v6, kind, code) = match ip.l4 {
            L4::Icmp { kind, code, .. } => (false, kind, code),
            L4::Icmp6 { kind, code, .. } => (true, kind, code),
            _ => return,
        };
        match (v6, kind) {
            (false, 8) | (true, 128) => {
                if let Some(reply) = wire::build::echo_reply(frame) {
                    self.send(reply);
                }
            }
            (false, 0) | (true, 129) => self.echoed(frame, ip),
            (false, 3 | 11) | (true, 1..=3) => self.told(frame, ip, v6, kind, code),
            _ => {}
        }
    }

    /// Somebody tells of an error.
    fn told(&mut self, frame: &[u8], ip: &Ip, v6: bool, kind: u8, code: u8) {
        let rest = bytes::get_u32(frame, ip.l4_offset() + 4).unwrap_or_default();
        let Some(quoted) = quoted(frame, ip, v6) else { return };
        // Only about what this stack has sent; port and address are checked with the client.
        if !self.owns(quoted.source.ip()) || is_group(quoted.destination.ip()) {
            return;
        }
        match (v6, kind, code) {
            (false, 3, 4) | (true, 2, _) => {
                let told = if v6 { rest } else { rest & 0xffff };
                self.learn_mtu(quoted.destination.ip(), told);
                return;
            }
            _ => {}
        }
        let transport = match quoted.proto {
            proto::TCP => Transport::Tcp,
            proto::UDP => Transport::Udp,
            _ => return,
        };
        let outcome = match (v6, kind, code) {
            (false, 3, 3) | (true, 1, 4) => Outcome::Refused,
            (false, 3, 9 | 10 | 13) | (true, 1, 1) => Outcome::Unreachable(Unreachable::Prohibited(ip.src)),
            (false, 11, _) | (true, 3, _) => Outcome::Unreachable(Unreachable::TimeExceeded(ip.src)),
            _ => Outcome::Unreachable(Unreachable::Host(ip.src)),
        };
        self.fail_client(transport, quoted.source, quoted.destination, outcome);
    }

    /// The path to an address takes smaller packets only. Nothing below the least MTU of the family is believed.
    fn learn_mtu(&mut self, to: IpAddr, told: u32) {
        /// How many paths are remembered.
        const MOST: usize = 4096;
        let least = if to.is_ipv4() { 576 } else { 1280 };
        let mtu = u16::try_from(told).unwrap_or(u16::MAX).max(least);
        if self.path_mtu.len() >= MOST && !self.path_mtu.contains_key(&to) {
            self.path_mtu.pop_first();
        }
        let known = self.path_mtu.entry(to).or_insert(u16::MAX);
        *known = mtu.min(*known);
    }
}

/// Reads the start of the packet that an error carries. It is cut, so that the strict parser would refuse it.
fn quoted(frame: &[u8], ip: &Ip, v6: bool) -> Option<Quoted> {
    let at = ip.l4_offset() + 8;
    let packet = frame.get(at..ip.end())?;
    let (source, destination, protocol, length): (IpAddr, IpAddr, u8, usize) = if v6 {
        let source = bytes::get::<16>(packet, 8).copied()?;
        let destination = bytes::get::<16>(packet, 24).copied()?;
        (source.into(), destination.into(), bytes::get_u8(packet, 6)?, 40)
    } else {
        let source = bytes::get::<4>(packet, 12).copied()?;
        let destination = bytes::get::<4>(packet, 16).copied()?;
        let length = usize::from(bytes::get_u8(packet, 0)? & 15) * 4;
        (source.into(), destination.into(), bytes::get_u8(packet, 9)?, length)
    };
    let ports = matches!(protocol, proto::TCP | proto::UDP);
    let port = |place: usize| if ports { bytes::get_u16(packet, length + place) } else { Some(0) };
    Some(Quoted {
        proto: protocol,
        source: SocketAddr::new(source, port(0)?),
        destination: SocketAddr::new(destination, port(2)?),
    })
}
