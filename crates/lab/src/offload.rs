//! The virtio-net header in front of each frame of a TAP device, and [`wire::Offload`]: one is made of the other.
//! Pure: no device is touched.

use wire::offload::{Layout, complete_from, prepare};
use wire::{Offload, Packet};

use crate::tap::Abilities;

// <linux/virtio_net.h>
const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_TUNNEL_IPV4: u8 = 0x20;
const GSO_TUNNEL_IPV6: u8 = 0x40;
const GSO_ECN: u8 = 0x80;
const TUNNEL_CSUM: u8 = 8;

/// The longest header.
pub const LONGEST: usize = 24;

fn word(header: &[u8], at: usize) -> u16 {
    wire::bytes::get::<2>(header, at).map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

/// Reads the header of a frame that was just taken from a device: what was left to do becomes the packet's offload.
/// What the switch's packets cannot leave to others is done here.
pub fn take(header: &[u8], packet: &mut Packet, vxlan_port: u16) {
    let [flags, kind] = wire::bytes::get::<2>(header, 0).copied().unwrap_or_default();
    if flags & NEEDS_CSUM == 0 {
        return;
    }
    let (start, offset) = (usize::from(word(header, 6)), usize::from(word(header, 8)));
    let innermost = Layout::of(packet.data(), vxlan_port)
        .is_some_and(|layout| layout.l4 == start && layout.checksum_offset() == offset);
    if innermost {
        let segment = if kind & !GSO_ECN == GSO_NONE { 0 } else { word(header, 4) };
        packet.offload = Offload { checksum: true, segment };
    } else {
        complete_from(packet.data_mut(), start, offset);
    }
}

/// What has to be done with a frame before a device takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Nothing: this is its header.
    Header([u8; LONGEST]),
    /// The device cannot cut it: [`wire::offload::segments`] does.
    Cut,
}

/// Prepares a frame for a device with these abilities.
pub fn give(packet: &mut Packet, abilities: Abilities, vxlan_port: u16) -> Ready {
    let mut header = [0; LONGEST];
    if packet.offload == Offload::NONE {
        return Ready::Header(header);
    }
    let Some(layout) = Layout::of(packet.data(), vxlan_port) else {
        // Nothing with a checksum of that kind is in it any more.
        packet.offload = Offload::NONE;
        return Ready::Header(header);
    };
    let segment = usize::from(packet.offload.segment);
    let large = segment != 0 && layout.end - layout.payload > segment;
    let able = (layout.tcp || abilities.udp) && (layout.outer.is_none() || abilities.tunnels);
    let Some((start, inner)) = short(layout.l4).zip(short(layout.ip)).filter(|_| able || !large) else {
        return Ready::Cut;
    };
    prepare(packet.data_mut(), &layout);
    header[0] = NEEDS_CSUM;
    wire_le(&mut header, 6, start);
    wire_le(&mut header, 8, if layout.tcp { 16 } else { 6 });
    if large {
        let kind = match (layout.tcp, layout.v6) {
            (true, false) => GSO_TCPV4,
            (true, true) => GSO_TCPV6,
            (false, _) => GSO_UDP_L4,
        };
        let ecn = if layout.cwr { GSO_ECN } else { 0 };
        header[1] = kind | ecn;
        wire_le(&mut header, 2, short(layout.payload).unwrap_or_default());
        wire_le(&mut header, 4, packet.offload.segment);
        if let Some(outer) = layout.outer {
            header[1] |= if outer.v6 { GSO_TUNNEL_IPV6 } else { GSO_TUNNEL_IPV4 };
            if wire::bytes::get_u16(packet.data(), outer.udp + 6) != Some(0) {
                header[0] |= TUNNEL_CSUM;
            }
            wire_le(&mut header, 20, short(outer.udp).unwrap_or_default());
            wire_le(&mut header, 22, inner);
        }
    }
    Ready::Header(header)
}

fn short(number: usize) -> Option<u16> {
    u16::try_from(number).ok()
}

fn wire_le(header: &mut [u8; LONGEST], at: usize, value: u16) {
    wire::bytes::set(header, at, &value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use wire::TcpFlags;
    use wire::build::FrameBuilder;
    use wire::vxlan::{Outer, UDP_PORT};

    const ALL: Abilities = Abilities { udp: true, tunnels: true };
    const OLD: Abilities = Abilities { udp: false, tunnels: false };

    fn tcp(payload: usize, tunnel: bool) -> Packet {
        let frame = FrameBuilder::eth([2; 6], [4; 6])
            .ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
            .tcp(1000, 80, TcpFlags::ACK)
            .payload(&vec![7; payload])
            .build();
        let mut packet = Packet::new(&frame);
        if tunnel {
            let outer = Outer {
                src_mac: [2; 6].into(),
                dst_mac: [4; 6].into(),
                vlan: None,
                src: Ipv4Addr::new(192, 0, 2, 1).into(),
                dst: Ipv4Addr::new(192, 0, 2, 2).into(),
                src_port: 50_000,
                dst_port: UDP_PORT,
                vni: 4096,
                ttl: 64,
                tos: 0,
                df: false,
            };
            outer.push(&mut packet, 7).unwrap();
        }
        packet
    }

    /// What was given is taken again, and the other way around.
    #[test]
    fn a_header_says_what_the_offload_said() {
        for tunnel in [false, true] {
            for offload in [
                Offload::NONE,
                Offload { checksum: true, segment: 0 },
                Offload { checksum: true, segment: 1400 },
            ] {
                let mut packet = tcp(20_000, tunnel);
                packet.offload = offload;
                let Ready::Header(header) = give(&mut packet, ALL, UDP_PORT) else {
                    panic!("it can be taken")
                };
                let mut taken = Packet::new(packet.data());
                take(&header, &mut taken, UDP_PORT);
                assert_eq!(taken.offload, offload, "tunnel {tunnel}");
                assert_eq!(header[1] & GSO_TUNNEL_IPV4 != 0, tunnel && offload.segment != 0);
                if offload.checksum {
                    let at = if tunnel { 50 + 34 } else { 34 };
                    assert_eq!((word(&header, 6), word(&header, 8)), (at, 16));
                }
            }
        }
    }

    #[test]
    fn what_a_device_cannot_do_is_said() {
        for (tunnel, ready) in [(false, false), (true, true)] {
            let mut packet = tcp(20_000, tunnel);
            packet.offload = Offload { checksum: true, segment: 1400 };
            assert_eq!(give(&mut packet, OLD, UDP_PORT) == Ready::Cut, ready);
            // One packet only needs its checksum, which any device can compute.
            let mut packet = tcp(100, tunnel);
            packet.offload = Offload { checksum: true, segment: 1400 };
            assert!(
                matches!(give(&mut packet, OLD, UDP_PORT), Ready::Header(header) if header[1] == GSO_NONE)
            );
        }
    }

    #[test]
    fn a_checksum_of_an_outer_header_is_computed_at_once() {
        let mut packet = tcp(100, true);
        let layout = Layout::of(packet.data(), UDP_PORT).unwrap();
        let outer = layout.outer.unwrap();
        let length = u16::try_from(packet.len() - outer.udp).unwrap();
        let pseudo = wire::checksum::pseudo(
            Ipv4Addr::new(192, 0, 2, 1).into(),
            Ipv4Addr::new(192, 0, 2, 2).into(),
            17,
            length,
        );
        wire::bytes::set_u16(packet.data_mut(), outer.udp + 6, wire::checksum::fold(pseudo));
        let mut header = [0; LONGEST];
        header[0] = NEEDS_CSUM;
        wire_le(&mut header, 6, short(outer.udp).unwrap());
        wire_le(&mut header, 8, 6);
        take(&header, &mut packet, UDP_PORT);
        assert!(packet.is_complete());
        assert_eq!(wire::checksum::verify(packet.data()), Ok(()));
    }

    #[test]
    fn any_header_can_be_taken() {
        for byte in 0..=255 {
            let mut packet = tcp(100, byte % 2 == 0);
            take(&[byte; LONGEST], &mut packet, UDP_PORT);
            take(&[byte; 3], &mut packet, UDP_PORT);
            let mut empty = Packet::default();
            take(&[byte; LONGEST], &mut empty, UDP_PORT);
        }
    }
}
