//! Fragmenting IPv6, which only the sender may do (RFC 8200 section 4.5).

use crate::bytes;
use crate::frame::{Fragment, proto};

/// Cuts a frame into frames whose IP packets have at most `mtu` bytes, each with a fragment header of this
/// identification. One that fits comes back as it is.
///
/// Empty when it cannot be done: the frame is no IPv6, has a fragment header already, or `mtu` has no room for 8
/// bytes behind the headers.
pub fn fragment(frame: &[u8], mtu: usize, id: u32) -> Vec<Vec<u8>> {
    cut(frame, mtu, id).unwrap_or_default()
}

fn cut(frame: &[u8], mtu: usize, id: u32) -> Option<Vec<Vec<u8>>> {
    let parsed = crate::parse(frame).ok()?;
    let ip = parsed.ip().filter(|ip| ip.is_v6())?;
    if usize::from(ip.total_len) <= mtu {
        return Some(vec![frame.to_vec()]);
    }
    if ip.frag != Fragment::default() {
        return None;
    }
    let at = usize::from(ip.offset);
    let packet = frame.get(at..ip.end())?;
    let (before, pointer) = unfragmentable(packet, ip.header_len.into())?;
    let next = bytes::get_u8(packet, pointer)?;
    let room = mtu.checked_sub(before + 8)? & !7;
    if room == 0 {
        return None;
    }
    let mut rest = packet.get(before..)?;
    let mut offset = 0;
    let mut fragments = Vec::new();
    while !rest.is_empty() {
        let last = rest.len() <= mtu - before - 8;
        let (part, tail) = rest.split_at(if last { rest.len() } else { room });
        let mut out = Vec::with_capacity(at + before + 8 + part.len());
        out.extend_from_slice(frame.get(..at + before)?);
        bytes::set_u8(&mut out, at + pointer, proto::FRAGMENT);
        bytes::set_u16(&mut out, at + 4, u16::try_from(before - 40 + 8 + part.len()).ok()?);
        out.extend_from_slice(&[next, 0]);
        out.extend_from_slice(&(u16::try_from(offset).ok()? | u16::from(!last)).to_be_bytes());
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(part);
        fragments.push(out);
        offset += part.len();
        rest = tail;
    }
    Some(fragments)
}

/// How many bytes stand in front of every fragment (all that routers on the way read: up to the routing header, else
/// up to the hop-by-hop options), and where the number of what follows them is.
fn unfragmentable(packet: &[u8], header_len: usize) -> Option<(usize, usize)> {
    let (mut at, mut pointer) = (40, 6);
    let mut found = (at, pointer);
    while at < header_len {
        let kind = bytes::get_u8(packet, pointer)?;
        pointer = at;
        at += usize::from(bytes::get_u8(packet, at + 1)?) * 8 + 8;
        if matches!(kind, proto::HOP_BY_HOP | proto::ROUTING) {
            found = (at, pointer);
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;
    use crate::build::FrameBuilder;
    use crate::{L4, Mac, parse};

    fn datagram(extensions: &[u8]) -> FrameBuilder {
        let payload: Vec<u8> = (0..=255).cycle().take(3000).collect();
        let mut builder = FrameBuilder::eth(Mac([2; 6]), Mac([4; 6]))
            .vlan(5)
            .ipv6(Ipv6Addr::from_bits(1 << 100), Ipv6Addr::from_bits(2 << 100))
            .udp(1, 2);
        for kind in extensions {
            builder = builder.extension(*kind, &[]);
        }
        builder.payload(&payload)
    }

    #[test]
    fn the_parts_make_the_whole() {
        let chains: [(&[u8], usize); 4] = [
            (&[], 0),
            (&[proto::HOP_BY_HOP, proto::DESTINATION], 8),
            (&[proto::DESTINATION, proto::ROUTING, proto::DESTINATION], 16),
            (&[proto::DESTINATION], 0),
        ];
        for (chain, kept) in chains {
            let frame = datagram(chain).build();
            for mtu in [1280, 1281, 1500, 3007] {
                let fragments = fragment(&frame, mtu, 0xcafe_f00d);
                let mut whole = Vec::new();
                let mut more = true;
                for fragment in &fragments {
                    assert!(fragment.len() <= mtu + 18);
                    let ip = *parse(fragment).unwrap().ip().unwrap();
                    assert!(more && usize::from(ip.frag.offset) == whole.len(), "{ip:?}");
                    assert_eq!((ip.frag.id, ip.is_later()), (0xcafe_f00d, matches!(ip.l4, L4::None)));
                    whole.extend_from_slice(&fragment[18 + 40 + kept + 8..]);
                    more = ip.frag.more;
                }
                assert!(!more && fragments.len() > 1);
                assert_eq!(whole, frame[18 + 40 + kept..], "{chain:?}, mtu {mtu}");
                assert!(fragment(&fragments[0], 500, 1).is_empty(), "fragments are not cut again");
            }
            assert_eq!(fragment(&frame, 5000, 1), [frame]);
        }
    }

    #[test]
    fn what_cannot_be_cut_gives_nothing() {
        assert!(fragment(&datagram(&[]).build(), 55, 1).is_empty());
        assert!(fragment(&datagram(&[]).ipv4([1, 1, 1, 1], [2, 2, 2, 2]).build(), 1500, 1).is_empty());
    }
}
