//! Joins datagrams of one connection that were sent one behind the other into one frame that stands for all of them, as
//! adapters do when they receive: the switch, the wire and the other node then work once instead of many times. What
//! comes out at the other end are the same datagrams.
//!
//! Nothing waits for others to come: only what was taken from a device together is joined.

use wire::bytes::{get, get_u16, set_u16};
use wire::{Offload, Packet, checksum, proto};

/// Ethernet, IPv4 without options, UDP.
const HEADERS: usize = 14 + 20 + 8;

/// The longest joined IP packet: with a tunnel's headers it still is one.
const LONGEST: usize = 60_000;

/// What datagrams must have in common: MACs, type of service, fragment bits, TTL, protocol, addresses, ports.
type Common<'a> = (&'a [u8; 16], [u8; 2], &'a [u8; 2], &'a [u8; 12]);

/// A datagram's common part and the length of its payload. `None`: it cannot be joined.
fn datagram(packet: &Packet, vxlan_port: u16) -> Option<(Common<'_>, usize)> {
    // The checksum is still to be computed, so that joining hides no wrong one.
    if packet.offload != (Offload { checksum: true, segment: 0 }) {
        return None;
    }
    let frame = packet.data();
    let head = get::<16>(frame, 0)?;
    let plain = head[12..15] == [0x08, 0x00, 0x45];
    let fragment = get::<2>(frame, 20)?;
    let hops = get::<2>(frame, 22)?;
    let whole = fragment[0] & 0xbf == 0 && fragment[1] == 0;
    let length = usize::from(get_u16(frame, 16)?);
    let fits = frame.len() == 14 + length && usize::from(get_u16(frame, 38)?) + 20 == length;
    if !(plain && whole && fits && hops[1] == proto::UDP && get_u16(frame, 36)? != vxlan_port) {
        return None;
    }
    let payload = frame.len().checked_sub(HEADERS).filter(|length| *length > 0)?;
    Some(((head, *fragment, hops, get::<12>(frame, 26)?), payload))
}

/// A run of datagrams that are being joined.
struct Run {
    /// The payload of each but the last, which may be shorter and ends the run.
    size: usize,
    joined: usize,
}

/// Joins what can be joined. Buffers that are no more needed go to `spare`.
pub(super) fn datagrams(batch: &mut Vec<Packet>, spare: &mut Vec<Packet>, vxlan_port: u16) {
    let mut kept: usize = 0;
    let mut run: Option<Run> = None;
    for at in 0..batch.len() {
        let joins = run.as_ref().is_some_and(|run| {
            let (Some(first), Some(next)) =
                (kept.checked_sub(1).and_then(|last| batch.get(last)), batch.get(at))
            else {
                return false;
            };
            fits(first, next, run, vxlan_port)
        });
        if joins && let Some(open) = &mut run {
            let (before, behind) = batch.split_at_mut(at);
            if let (Some(first), Some(next)) = (before.get_mut(kept - 1), behind.first()) {
                let payload = next.data().get(HEADERS..).unwrap_or_default();
                let shorter = payload.len() < open.size;
                first.append(payload);
                open.joined += 1;
                if shorter {
                    finish(first, open);
                    run = None;
                }
            }
            continue;
        }
        if let (Some(open), Some(first)) = (&run, kept.checked_sub(1).and_then(|last| batch.get_mut(last))) {
            finish(first, open);
        }
        run = batch
            .get(at)
            .and_then(|packet| datagram(packet, vxlan_port))
            .map(|(_, size)| Run { size, joined: 1 });
        batch.swap(kept, at);
        kept += 1;
    }
    if let (Some(open), Some(first)) = (&run, kept.checked_sub(1).and_then(|last| batch.get_mut(last))) {
        finish(first, open);
    }
    spare.extend(batch.drain(kept..));
}

/// Whether a datagram belongs behind those that were joined into `first`.
fn fits(first: &Packet, next: &Packet, run: &Run, vxlan_port: u16) -> bool {
    let Some((common, payload)) = datagram(next, vxlan_port) else { return false };
    let frame = first.data();
    let same = |common: Common<'_>| {
        let (head, fragment, hops, ends) = common;
        get::<16>(frame, 0) == Some(head)
            && get::<2>(frame, 20) == Some(&fragment)
            && get::<2>(frame, 22) == Some(hops)
            && get::<12>(frame, 26) == Some(ends)
    };
    payload <= run.size && frame.len() + payload <= LONGEST && same(common)
}

/// Writes the lengths of a joined frame, and how it is to be cut.
fn finish(packet: &mut Packet, run: &Run) {
    if run.joined == 1 {
        return;
    }
    let frame = packet.data_mut();
    let Ok(length) = u16::try_from(frame.len() - 14) else { return };
    set_u16(frame, 16, length);
    set_u16(frame, 38, length - 20);
    set_u16(frame, 24, 0);
    let sum = checksum::finish(checksum::ones(frame.get(14..34).unwrap_or_default(), 0));
    set_u16(frame, 24, sum);
    packet.offload.segment = u16::try_from(run.size).unwrap_or(u16::MAX);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;
    use wire::build::FrameBuilder;
    use wire::vxlan::UDP_PORT;

    #[derive(Clone, Debug)]
    struct Sent {
        port: u16,
        ttl: u8,
        payload: usize,
        left: bool,
    }

    fn packet(sent: &Sent, number: u8) -> Packet {
        let frame = FrameBuilder::eth([2; 6], [4; 6])
            .ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
            .ttl(sent.ttl)
            .udp(1000, sent.port)
            .payload(&vec![number; sent.payload])
            .build();
        let mut packet = Packet::with_room(66_000);
        packet.copy_from(&frame);
        packet.offload.checksum = sent.left;
        packet
    }

    /// What a receiver gets of a frame: ports and payloads, with right checksums.
    fn received(packet: &Packet) -> Vec<(u16, Vec<u8>)> {
        let pieces = wire::offload::segments(packet, UDP_PORT).unwrap();
        let one = |piece: Packet| {
            checksum::verify(piece.data()).unwrap();
            (get_u16(piece.data(), 36).unwrap(), piece.data()[HEADERS..].to_vec())
        };
        pieces.into_iter().map(one).collect()
    }

    proptest! {
        #[test]
        fn the_same_datagrams_come_out_in_order(
            sent in prop::collection::vec(
                (prop::sample::select(vec![53, 54, UDP_PORT]), prop::sample::select(vec![64, 64, 64, 9]),
                 prop::sample::select(vec![0, 22, 22, 22, 40]), prop::bool::weighted(0.9))
                    .prop_map(|(port, ttl, payload, left)| Sent { port, ttl, payload, left }),
                0..64,
            ),
        ) {
            let mut batch: Vec<Packet> = (0..).zip(&sent).map(|(number, sent)| packet(sent, number)).collect();
            let wanted: Vec<_> = batch.iter().flat_map(received).collect();
            let mut spare = Vec::new();
            datagrams(&mut batch, &mut spare, UDP_PORT);
            prop_assert_eq!(batch.len() + spare.len(), sent.len());
            let got: Vec<_> = batch.iter().flat_map(received).collect();
            prop_assert_eq!(got, wanted);
        }
    }

    #[test]
    fn a_run_of_equals_becomes_one_frame() {
        let sent = Sent { port: 53, ttl: 64, payload: 22, left: true };
        let mut batch: Vec<Packet> = (0..10).map(|number| packet(&sent, number)).collect();
        batch.push(packet(&Sent { payload: 5, ..sent.clone() }, 10));
        batch.push(packet(&sent, 11));
        let mut spare = Vec::new();
        datagrams(&mut batch, &mut spare, UDP_PORT);
        let lengths: Vec<_> = batch.iter().map(|packet| (packet.len(), packet.offload.segment)).collect();
        assert_eq!(lengths, [(HEADERS + 10 * 22 + 5, 22), (HEADERS + 22, 0)], "a shorter one is the last");
        assert!(spare.iter().all(|packet| packet.capacity() == 66_000));
    }

    #[test]
    fn a_frame_does_not_grow_beyond_an_ip_packet_in_a_tunnel() {
        let sent = Sent { port: 53, ttl: 64, payload: 1400, left: true };
        let mut batch: Vec<Packet> = (0..64).map(|number| packet(&sent, number)).collect();
        datagrams(&mut batch, &mut Vec::new(), UDP_PORT);
        assert_eq!(batch.len(), 2);
        assert!(batch.iter().all(|packet| packet.len() <= LONGEST));
    }
}
