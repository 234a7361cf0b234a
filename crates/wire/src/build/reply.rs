//! What a host answers by itself: an echo, and the reset of a connection that nobody knows.

use crate::build::FrameBuilder;
use crate::build::icmp::is_station;
use crate::frame::{Frame, Ip, L4, TcpFlags};

/// The reply to an echo request; `None` when the frame is none, is a fragment, or is not from and to one host.
pub fn echo_reply(frame: &[u8]) -> Option<Vec<u8>> {
    let (parsed, ip) = answerable(frame)?;
    let answer = back(&parsed, &ip);
    let rest = *crate::bytes::get::<4>(frame, ip.l4_offset() + 4)?;
    let payload = frame.get(ip.payload_offset()..ip.end())?;
    match ip.l4 {
        L4::Icmp { kind: 8, code: 0, .. } => Some(answer.icmp(0, 0, rest).payload(payload).build()),
        L4::Icmp6 { kind: 128, code: 0, .. } => Some(answer.icmp6(129, 0, rest).payload(payload).build()),
        _ => None,
    }
}

/// The reset that a host without a matching connection sends (RFC 9293 section 3.10.7.1); `None` when the frame is
/// no TCP segment, is itself a reset or a fragment, or is not from and to one host.
pub fn tcp_reset(frame: &[u8]) -> Option<Vec<u8>> {
    let (parsed, ip) = answerable(frame)?;
    let L4::Tcp { sport, dport, flags, header_len, seq, ack, .. } = ip.l4 else { return None };
    if flags.contains(TcpFlags::RST) {
        return None;
    }
    let answer = back(&parsed, &ip);
    let answer = if flags.contains(TcpFlags::ACK) {
        answer.tcp(dport, sport, TcpFlags::RST).seq(ack)
    } else {
        // SYN and FIN each take a number of the sequence.
        let data = u32::try_from(ip.l4_len() - usize::from(header_len)).unwrap_or(0);
        let marks = (flags & (TcpFlags::SYN | TcpFlags::FIN)).bits().count_ones();
        let next = seq.wrapping_add(data).wrapping_add(marks);
        answer.tcp(dport, sport, TcpFlags::RST | TcpFlags::ACK).ack(next)
    };
    Some(answer.window(0).build())
}

fn answerable(frame: &[u8]) -> Option<(Frame, Ip)> {
    let parsed = crate::parse(frame).ok()?;
    let ip = *parsed.ip()?;
    let single = !parsed.l2.dst.is_multicast() && !parsed.l2.src.is_multicast();
    (single && !ip.is_fragment() && is_station(ip.src) && is_station(ip.dst)).then_some((parsed, ip))
}

fn back(parsed: &Frame, ip: &Ip) -> FrameBuilder {
    FrameBuilder::eth(parsed.l2.dst, parsed.l2.src).tag(parsed.l2.vlan).ip(ip.dst, ip.src)
}
