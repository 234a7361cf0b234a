//! Fragmenting IPv4 (RFC 791 section 3.2).

use crate::bytes;
use crate::checksum::{finish, ones};

/// Cuts a frame into frames whose IP packets have at most `mtu` bytes. One that fits comes back as it is (without
/// Ethernet padding when it is cut). Fragments can be cut again.
///
/// Empty when it cannot be done: the frame is no IPv4, must not be fragmented, or `mtu` has no room for 8 bytes
/// behind the header.
pub fn fragment(frame: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    cut(frame, mtu).unwrap_or_default()
}

fn cut(frame: &[u8], mtu: usize) -> Option<Vec<Vec<u8>>> {
    let parsed = crate::parse(frame).ok()?;
    let ip = parsed.ip().filter(|ip| !ip.is_v6())?;
    if usize::from(ip.total_len) <= mtu {
        return Some(vec![frame.to_vec()]);
    }
    if ip.frag.dont {
        return None;
    }
    let at = usize::from(ip.offset);
    let link = frame.get(..at)?;
    let header = frame.get(at..ip.l4_offset())?;
    let later = later_header(header);
    let mut rest = frame.get(ip.l4_offset()..ip.end())?;
    let mut offset = usize::from(ip.frag.offset);
    let mut fragments = Vec::new();
    while !rest.is_empty() {
        let header = if fragments.is_empty() { header } else { &later };
        let room = mtu.checked_sub(header.len())? & !7;
        if room == 0 {
            return None;
        }
        // The last may be of any length, and may use the bytes that rounding took.
        let last = rest.len() <= mtu - header.len();
        let (part, tail) = rest.split_at(if last { rest.len() } else { room });
        let mut out = Vec::with_capacity(at + header.len() + part.len());
        out.extend_from_slice(link);
        out.extend_from_slice(header);
        out.extend_from_slice(part);
        let field = u16::try_from(offset >> 3).ok()? | if !last || ip.frag.more { 0x2000 } else { 0 };
        bytes::set_u16(&mut out, at + 2, u16::try_from(header.len() + part.len()).ok()?);
        bytes::set_u16(&mut out, at + 6, field);
        bytes::set_u16(&mut out, at + 10, 0);
        let sum = finish(ones(out.get(at..at + header.len())?, 0));
        bytes::set_u16(&mut out, at + 10, sum);
        fragments.push(out);
        offset += part.len();
        rest = tail;
    }
    Some(fragments)
}

/// The header of all fragments but the first: of the options only those whose copied bit is set.
fn later_header(header: &[u8]) -> Vec<u8> {
    let mut later = header.get(..20).unwrap_or(header).to_vec();
    let mut options = header.get(20..).unwrap_or_default();
    while let Some(&kind) = options.first() {
        let length = match kind {
            0 => break,
            1 => 1,
            _ => usize::from(options.get(1).copied().unwrap_or(0)),
        };
        // An option that lies about its length ends the list; what is before it counts.
        let Some(option) = options.get(..length).filter(|option| !option.is_empty()) else { break };
        if kind & 0x80 != 0 {
            later.extend_from_slice(option);
        }
        options = options.get(length..).unwrap_or_default();
    }
    later.resize(later.len().next_multiple_of(4), 0);
    let units = u8::try_from(later.len() / 4).unwrap_or(5);
    bytes::set_u8(&mut later, 0, 0x40 | units);
    later
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::FrameBuilder;
    use crate::{Mac, checksum, parse};

    fn datagram() -> FrameBuilder {
        let payload: Vec<u8> = (0..=255).cycle().take(3000).collect();
        FrameBuilder::eth(Mac([2; 6]), Mac([4; 6]))
            .vlan(5)
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2])
            .ipid(77)
            .udp(1, 2)
            .payload(&payload)
    }

    /// The upper layer put together again, and whether more was to follow.
    fn join(fragments: &[Vec<u8>]) -> (Vec<u8>, bool) {
        let mut whole = Vec::new();
        let mut more = true;
        for fragment in fragments {
            checksum::verify(fragment).unwrap();
            let ip = *parse(fragment).unwrap().ip().unwrap();
            assert!(more && usize::from(ip.frag.offset) == whole.len());
            assert_eq!(ip.frag.id, 77);
            whole.extend_from_slice(&fragment[ip.l4_offset()..ip.end()]);
            more = ip.frag.more;
        }
        (whole, more)
    }

    #[test]
    fn the_parts_make_the_whole_at_every_mtu() {
        let frame = datagram().build();
        for mtu in [28, 29, 68, 576, 1499, 1500, 3027] {
            let fragments = fragment(&frame, mtu);
            assert!(fragments.iter().all(|fragment| fragment.len() <= mtu + 18));
            assert_eq!(join(&fragments), (frame[38..].to_vec(), false), "mtu {mtu}");
            // Cut again on a smaller link.
            let again: Vec<_> =
                fragments.iter().flat_map(|fragment| super::fragment(fragment, 100)).collect();
            assert_eq!(join(&again).0, frame[38..], "mtu {mtu}, then 100");
        }
        assert_eq!(fragment(&frame, 3028), [frame]);
    }

    #[test]
    fn only_copied_options_are_in_later_fragments() {
        // A loose source route (copied), a no-operation and a timestamp (not copied).
        let options = [1, 131, 7, 4, 10, 0, 0, 9, 68, 8, 5, 0, 0, 0, 0, 0];
        let fragments = fragment(&datagram().ipv4_options(&options).build(), 1000);
        assert!(!join(&fragments).1);
        let lengths: Vec<u16> =
            fragments.iter().map(|fragment| parse(fragment).unwrap().ip().unwrap().header_len).collect();
        assert_eq!(lengths, [36, 28, 28, 28]);
        assert_eq!(fragments[1][38..46], [131, 7, 4, 10, 0, 0, 9, 0]);
    }

    #[test]
    fn what_cannot_be_cut_gives_nothing() {
        let frame = datagram().build();
        assert!(fragment(&frame, 27).is_empty());
        assert!(fragment(&datagram().df(true).build(), 1500).is_empty());
        assert!(fragment(&frame[..50], 10).is_empty());
    }
}
