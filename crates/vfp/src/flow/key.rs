//! What a unified flow is found by: addresses, ports, protocol and tunnel. MACs and VLAN are compared separately
//! (see [`super::pair::Half`]), because both directions of a connection are known before the MACs of a reply are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of an address family.
pub(crate) trait Addr:
    Copy + Eq + Default + std::fmt::Debug + std::hash::Hash + Send + Sync + 'static
{
    /// IPv6.
    const V6: bool;

    /// From an address of this family; others give the unspecified address.
    fn of(address: IpAddr) -> Self;

    /// The address.
    fn ip(self) -> IpAddr;

    /// Writes the bytes to a place, if it is there.
    fn write(self, bytes: &mut [u8], at: usize);

    /// Mixes the address into a hash.
    fn words(self) -> (u64, u64);
}

impl Addr for [u8; 4] {
    const V6: bool = false;

    #[inline]
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => v4.octets(),
            IpAddr::V6(_) => [0; 4],
        }
    }

    #[inline]
    fn ip(self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(self))
    }

    #[inline]
    fn write(self, bytes: &mut [u8], at: usize) {
        wire::bytes::set(bytes, at, &self);
    }

    #[inline]
    fn words(self) -> (u64, u64) {
        (u64::from(u32::from_ne_bytes(self)), 0)
    }
}

impl Addr for [u8; 16] {
    const V6: bool = true;

    #[inline]
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => [0; 16],
            IpAddr::V6(v6) => v6.octets(),
        }
    }

    #[inline]
    fn ip(self) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from(self))
    }

    #[inline]
    fn write(self, bytes: &mut [u8], at: usize) {
        wire::bytes::set(bytes, at, &self);
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
    fn words(self) -> (u64, u64) {
        let word = u128::from_ne_bytes(self);
        (word as u64, (word >> 64) as u64)
    }
}

/// Both ends of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub(crate) struct Ends<A> {
    pub(crate) src: A,
    pub(crate) dst: A,
    pub(crate) sport: u16,
    pub(crate) dport: u16,
}

impl<A: Copy> Ends<A> {
    /// The ends of a reply.
    pub(crate) fn reversed(self) -> Self {
        Self { src: self.dst, dst: self.src, sport: self.dport, dport: self.sport }
    }
}

/// The key of one direction of a flow. 16 bytes for IPv4, 40 for IPv6.
///
/// `sport` and `dport` are the ports of TCP, UDP and SCTP; of an ICMP echo both are its identifier; of other
/// protocols 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub(crate) struct Key<A> {
    pub(crate) ends: Ends<A>,
    pub(crate) proto: u8,
    /// The direction on the port, 0 OUT and 1 IN.
    pub(crate) direction: u8,
    /// The tunnel that the packet is in: a number of the port's, 0 for none.
    pub(crate) tunnel: u16,
}

impl<A: Addr> Key<A> {
    /// A hash for the index. Two folded 64 by 64 multiplications, keyed by `seed`.
    #[inline]
    pub(crate) fn hash(&self, seed: u64) -> u64 {
        let tail = u64::from(self.ends.sport)
            | u64::from(self.ends.dport) << 16
            | u64::from(self.proto) << 32
            | u64::from(self.direction) << 40
            | u64::from(self.tunnel) << 48;
        let (src, src_high) = self.ends.src.words();
        let (dst, dst_high) = self.ends.dst.words();
        let first = if A::V6 {
            fold(src ^ seed, dst ^ K0) ^ fold(src_high ^ K1, dst_high ^ seed)
        } else {
            (src << 32 | dst) ^ seed
        };
        fold(first ^ K0, tail ^ K1 ^ seed.rotate_left(32))
    }
}

const K0: u64 = 0x9E37_79B9_7F4A_7C15;
const K1: u64 = 0xD6E8_FEB8_6659_FD93;

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
pub(crate) const fn fold(a: u64, b: u64) -> u64 {
    let wide = a as u128 * b as u128;
    (wide as u64) ^ (wide >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_as_small_as_said() {
        assert_eq!(size_of::<Key<[u8; 4]>>(), 16);
        assert_eq!(size_of::<Key<[u8; 16]>>(), 40);
    }

    #[test]
    fn every_field_changes_the_hash() {
        let base = Key::<[u8; 4]> {
            ends: Ends { src: [10, 0, 0, 1], dst: [10, 0, 0, 2], sport: 1, dport: 2 },
            proto: 6,
            direction: 0,
            tunnel: 0,
        };
        let mut others = [base; 7];
        others[1].ends.src[3] = 9;
        others[2].ends.dst[3] = 9;
        others[3].ends.sport = 9;
        others[4].ends.dport = 9;
        others[5].proto = 17;
        others[6].tunnel = 1;
        let mut hashes: Vec<u64> = others.iter().map(|key| key.hash(7)).collect();
        hashes.push(Key { direction: 1, ..base }.hash(7));
        hashes.push(base.hash(8));
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 9);
    }
}
