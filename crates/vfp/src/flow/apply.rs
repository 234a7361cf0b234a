//! A composed transposition, applied to a packet once.

use wire::bytes::{get, get_u16, set, set_u16};
use wire::checksum::Delta;
use wire::{Packet, proto, vxlan};

use super::key::{Addr, Ends};
use super::pair::{Ht, HtFlags};
use super::quick::Meta;

/// Why a transposition could not be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// The TTL is used up.
    Ttl,
    /// The packet would be too long.
    Length,
    /// A fragment whose checksum covers bytes that are elsewhere.
    Fragment,
}

/// The differences of checksums between two pairs of ends: over the addresses, and over the ports too.
pub(crate) fn deltas<A: Addr>(old: &Ends<A>, new: &Ends<A>) -> (u16, u16) {
    let l3 = Delta::NONE.ip(old.src.ip(), new.src.ip()).ip(old.dst.ip(), new.dst.ip());
    let l4 = l3.word16(old.sport, new.sport).word16(old.dport, new.dport);
    (l3.bits(), l4.bits())
}

/// Applies `ht` to a packet that was read as `meta`. VLAN tags are not touched: see [`retag`].
#[inline]
pub(crate) fn apply<A: Addr>(
    ht: &Ht<A>,
    packet: &mut Packet,
    meta: &Meta,
    templates: &[vxlan::Template],
    tunnels: Tunnels,
) -> Result<(), Failed> {
    let flags = ht.flags;
    // Whatever fails must fail before anything is changed: the packet is quoted to its sender.
    let hops = flags.ttl();
    if hops != 0 && meta.ttl <= hops {
        return Err(Failed::Ttl);
    }
    let mut base = 0;
    if flags.contains(HtFlags::POP) {
        packet.pull(meta.outer.into());
        base = usize::from(meta.outer);
    }
    let ip = usize::from(meta.ip) - base;
    let ethernet = usize::from(meta.outer) - base;
    let data = packet.data_mut();
    if hops != 0 {
        decrement::<A>(data, ip, meta.ttl, hops);
    }
    if flags.contains(HtFlags::DST_MAC) {
        set(data, ethernet, &ht.dst_mac);
    }
    if flags.contains(HtFlags::SRC_MAC) {
        set(data, ethernet + 6, &ht.src_mac);
    }
    if flags.contains(HtFlags::ENDS) {
        ends(ht, data, meta, ip, usize::from(meta.l4) - base)?;
    }
    if flags.contains(HtFlags::PUSH)
        && let Some(template) = templates.get(usize::from(ht.extra))
    {
        let hash = entropy(&ht.ends, meta.proto);
        template
            .push(packet, tunnels.source_port(hash), identification(packet, hash))
            .map_err(|_| Failed::Length)?;
        if tunnels.copy_tos && meta.tos != 0 {
            copy_tos(packet.data_mut(), meta.tos);
        }
    }
    Ok(())
}

/// Writes addresses and ports and corrects the checksums over them.
#[inline]
fn ends<A: Addr>(ht: &Ht<A>, data: &mut [u8], meta: &Meta, ip: usize, l4: usize) -> Result<(), Failed> {
    let l3 = Delta::from_bits(ht.l3_delta);
    if A::V6 {
        ht.ends.src.write(data, ip + 8);
        ht.ends.dst.write(data, ip + 24);
    } else {
        ht.ends.src.write(data, ip + 12);
        ht.ends.dst.write(data, ip + 16);
        if let Some(sum) = get_u16(data, ip + 10) {
            set_u16(data, ip + 10, l3.apply(sum));
        }
    }
    if !meta.has_l4 {
        return Ok(());
    }
    let l4_delta = Delta::from_bits(ht.l4_delta);
    match meta.proto {
        proto::TCP => {
            set_u16(data, l4, ht.ends.sport);
            set_u16(data, l4 + 2, ht.ends.dport);
            if let Some(sum) = get_u16(data, l4 + 16) {
                set_u16(data, l4 + 16, l4_delta.apply(sum));
            }
        }
        proto::UDP => {
            set_u16(data, l4, ht.ends.sport);
            set_u16(data, l4 + 2, ht.ends.dport);
            if let Some(sum) = get_u16(data, l4 + 6) {
                set_u16(data, l4 + 6, l4_delta.apply_udp(sum));
            }
        }
        proto::SCTP => sctp(ht, data, l4, ip + usize::from(meta.ip_len), meta.whole)?,
        proto::ICMP | proto::ICMP6 => echo(ht, data, l4, meta),
        _ => {}
    }
    Ok(())
}

/// An echo's identifier is its port; ICMPv6's checksum covers the addresses too.
fn echo<A: Addr>(ht: &Ht<A>, data: &mut [u8], l4: usize, meta: &Meta) {
    let is_echo = matches!(data.get(l4), Some(0 | 8 | 128 | 129));
    let mut delta = if meta.proto == proto::ICMP6 { Delta::from_bits(ht.l3_delta) } else { Delta::NONE };
    // The identifier towards the far end is that of the side that was translated.
    let identifier = ht.ends.sport;
    if is_echo && let Some(old) = get_u16(data, l4 + 4) {
        delta = delta.word16(old, identifier);
        set_u16(data, l4 + 4, identifier);
    }
    if let Some(sum) = get_u16(data, l4 + 2) {
        set_u16(data, l4 + 2, delta.apply(sum));
    }
}

/// SCTP's CRC covers ports but no addresses, and does not follow from the old one: it is computed anew. One that was
/// wrong stays wrong.
fn sctp<A: Addr>(ht: &Ht<A>, data: &mut [u8], l4: usize, end: usize, whole: bool) -> Result<(), Failed> {
    let ports = get_u16(data, l4).zip(get_u16(data, l4 + 2));
    if ports == Some((ht.ends.sport, ht.ends.dport)) {
        return Ok(());
    }
    if !whole {
        return Err(Failed::Fragment);
    }
    let Some(packet) = data.get_mut(l4..end) else { return Ok(()) };
    let given = get::<4>(packet, 8).copied().unwrap_or_default();
    set(packet, 8, &[0; 4]);
    let old = wire::checksum::crc32c(&[packet]);
    set_u16(packet, 0, ht.ends.sport);
    set_u16(packet, 2, ht.ends.dport);
    let new = wire::checksum::crc32c(&[packet]);
    let error = u32::from_le_bytes(given) ^ old;
    set(packet, 8, &(new ^ error).to_le_bytes());
    Ok(())
}

/// The inner type of service goes into an outer header that has none yet.
#[cold]
fn copy_tos(frame: &mut [u8], tos: u8) {
    let ip = if get_u16(frame, 12) == Some(wire::ethertype::VLAN) { 18 } else { 14 };
    match get_u16(frame, ip).map(|word| (word, word >> 12)) {
        Some((word, 4)) => {
            let new = word & 0xff00 | u16::from(tos);
            set_u16(frame, ip, new);
            if let Some(sum) = get_u16(frame, ip + 10) {
                set_u16(frame, ip + 10, Delta::NONE.word16(word, new).apply(sum));
            }
        }
        Some((word, 6)) => {
            set_u16(frame, ip, word & 0xf00f | u16::from(tos) << 4);
        }
        _ => {}
    }
}

fn decrement<A: Addr>(data: &mut [u8], ip: usize, ttl: u8, hops: u8) {
    if A::V6 {
        wire::bytes::set_u8(data, ip + 7, ttl - hops);
    } else if let (Some(word), Some(sum)) = (get_u16(data, ip + 8), get_u16(data, ip + 10)) {
        let new = word - (u16::from(hops) << 8);
        set_u16(data, ip + 8, new);
        set_u16(data, ip + 10, Delta::NONE.word16(word, new).apply(sum));
    }
}

/// Which UDP source ports tunnels use, and whether their type of service is the inner one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tunnels {
    pub(crate) base: u16,
    pub(crate) range: u16,
    pub(crate) copy_tos: bool,
}

impl Tunnels {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the product's upper half is below the range")]
    fn source_port(self, hash: u32) -> u16 {
        self.base.wrapping_add(((u64::from(hash) * u64::from(self.range)) >> 32) as u16)
    }
}

/// A hash of the inner ends, the same for every packet of a flow: receivers and routers spread tunnels by it.
#[inline]
fn entropy<A: Addr>(ends: &Ends<A>, proto: u8) -> u32 {
    let key = super::key::Key { ends: *ends, proto, direction: 0, tunnel: 0 };
    (key.hash(0) >> 32) as u32
}

/// Outer packets are not fragmented, so their identification need not be unique; it follows from flow and length.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "16 bits are wanted")]
fn identification(packet: &Packet, hash: u32) -> u16 {
    (hash as u16) ^ (packet.len() as u16)
}

/// Puts a VLAN tag on a frame, changes its id, or takes it off (`id` 0).
pub(crate) fn retag(packet: &mut Packet, id: u16) {
    if id == 0 {
        wire::vlan::clear(packet);
        return;
    }
    let old = match get_u16(packet.data(), 12) {
        Some(wire::ethertype::VLAN) => get_u16(packet.data(), 14).unwrap_or(0),
        _ => 0,
    };
    wire::vlan::set(packet, wire::VlanTag::from_bits(old & 0xf000 | id & 0x0fff));
}
