//! Checksums: the Internet checksum whole (RFC 1071) and by difference (RFC 1624), and SCTP's CRC-32C.

mod crc32c;
mod frame;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use crc32c::crc32c;
pub use frame::{BadChecksum, fill, verify, verify_with};

/// The ones' complement sum of `data` as big-endian 16-bit words, added to `initial`; not yet folded, not yet
/// complemented. An odd byte at the end counts as the upper half of a word, so sums of several slices may be chained
/// only when all but the last have even lengths.
#[inline]
pub fn ones(data: &[u8], initial: u32) -> u32 {
    // The sum of words in the machine's own order is the wanted one with its bytes swapped (RFC 1071 section 2B),
    // and a 32-bit word counts as two 16-bit ones: 8 bytes at a time, without a carry to look after.
    let mut sum = 0_u64;
    let (chunks, rest) = data.as_chunks::<8>();
    for chunk in chunks {
        let word = u64::from_ne_bytes(*chunk);
        sum += (word & 0xffff_ffff) + (word >> 32);
    }
    // What is left, without a loop over bytes: a header is short, and its rest would cost more than the rest of it.
    let (words, rest) = rest.as_chunks::<4>();
    if let Some(word) = words.first() {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    let (halves, rest) = rest.as_chunks::<2>();
    if let Some(half) = halves.first() {
        sum += u64::from(u16::from_ne_bytes(*half));
    }
    if let Some(&byte) = rest.first() {
        sum += u64::from(u16::from_ne_bytes([byte, 0]));
    }
    let native = fold64(sum);
    let sum = u64::from(u16::from_be_bytes(native.to_ne_bytes())) + u64::from(initial);
    fold_to_u32(sum)
}

#[inline]
const fn fold64(sum: u64) -> u16 {
    fold(fold_to_u32(sum))
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "after two folds the sum fits 32 bits")]
const fn fold_to_u32(sum: u64) -> u32 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    ((sum & 0xffff_ffff) + (sum >> 32)) as u32
}

/// Adds the carries of a sum back until 16 bits are left. The checksum is the complement of it: [`finish`].
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "after two folds the sum fits 16 bits")]
pub const fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// The checksum that belongs into a header whose other bytes sum to `sum`.
#[inline]
pub const fn finish(sum: u32) -> u16 {
    !fold(sum)
}

/// The same for UDP, where 0 would say that there is no checksum: it is sent as 0xFFFF.
#[inline]
pub const fn finish_udp(sum: u32) -> u16 {
    match finish(sum) {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// The sum of IPv4's pseudo header; `len` is the length of the upper layer with its header.
#[inline]
pub fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, proto: u8, len: u16) -> u32 {
    halves(src.to_bits()) + halves(dst.to_bits()) + u32::from(proto) + u32::from(len)
}

/// The sum of IPv6's pseudo header; `len` is the length of the upper layer with its header.
#[inline]
pub fn pseudo_v6(src: Ipv6Addr, dst: Ipv6Addr, proto: u8, len: u32) -> u32 {
    words(src.to_bits()) + words(dst.to_bits()) + u32::from(proto) + halves(len)
}

/// The pseudo header of either family. Addresses of two families, which no packet has, are summed as they are.
#[inline]
pub fn pseudo(src: IpAddr, dst: IpAddr, proto: u8, len: u16) -> u32 {
    address(src) + address(dst) + u32::from(proto) + u32::from(len)
}

#[inline]
fn address(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(v4) => halves(v4.to_bits()),
        IpAddr::V6(v6) => words(v6.to_bits()),
    }
}

#[inline]
const fn halves(word: u32) -> u32 {
    (word >> 16) + (word & 0xffff)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "taken apart into 32-bit words")]
const fn words(word: u128) -> u32 {
    halves((word >> 96) as u32)
        + halves((word >> 64) as u32)
        + halves((word >> 32) as u32)
        + halves(word as u32)
}

/// The checksum after one 16-bit word changed: RFC 1624 equation 3.
#[inline]
pub const fn adjust(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(!checksum as u32 + !old as u32 + new as u32)
}

/// The checksum after one 32-bit word changed.
#[inline]
pub const fn adjust32(checksum: u16, old: u32, new: u32) -> u16 {
    !fold(!checksum as u32 + halves(!old) + halves(new))
}

/// Replaced words, summed up to one 16-bit difference, which then corrects any number of checksums that cover them.
///
/// The sum does not depend on the order, nor on where in the covered bytes the words are (at even places). The
/// result is what a recomputation gives, with one exception: of covered bytes that are now all zero (only an ICMP echo
/// reply can be that) the checksum is 0xFFFF, but 0 comes out, as a difference cannot know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Delta(u16);

impl Delta {
    /// Nothing changed.
    pub const NONE: Self = Self(0);

    /// A difference that [`Delta::bits`] gave.
    #[inline]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// The difference as a number, to be kept with a flow.
    #[inline]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether checksums stay as they are.
    #[inline]
    pub const fn is_none(self) -> bool {
        // Both are zero in ones' complement.
        matches!(self.0, 0 | 0xffff)
    }

    /// A 16-bit word is replaced.
    #[inline]
    #[must_use]
    pub const fn word16(self, old: u16, new: u16) -> Self {
        Self(fold(self.0 as u32 + !old as u32 + new as u32))
    }

    /// A 32-bit word is replaced: an IPv4 address, a sequence number.
    #[inline]
    #[must_use]
    pub const fn word32(self, old: u32, new: u32) -> Self {
        Self(fold(self.0 as u32 + halves(!old) + halves(new)))
    }

    /// A 128-bit word is replaced: an IPv6 address.
    #[inline]
    #[must_use]
    pub const fn word128(self, old: u128, new: u128) -> Self {
        Self(fold(self.0 as u32 + words(!old) + words(new)))
    }

    /// An address is replaced by another of its family.
    #[inline]
    #[must_use]
    pub fn ip(self, old: IpAddr, new: IpAddr) -> Self {
        match (old, new) {
            (IpAddr::V4(old), IpAddr::V4(new)) => self.word32(old.to_bits(), new.to_bits()),
            (old, new) => self.word128(bits128(old), bits128(new)),
        }
    }

    /// Both differences together.
    #[inline]
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(fold(self.0 as u32 + other.0 as u32))
    }

    /// The difference that undoes this one.
    #[inline]
    #[must_use]
    pub const fn inverse(self) -> Self {
        if self.is_none() { Self::NONE } else { Self(!self.0) }
    }

    /// The checksum after the change.
    #[inline]
    pub const fn apply(self, checksum: u16) -> u16 {
        if self.is_none() {
            return checksum;
        }
        !fold(!checksum as u32 + self.0 as u32)
    }

    /// The UDP checksum after the change: 0 stays 0, as it says that there is none, and a computed 0 becomes 0xFFFF.
    #[inline]
    pub const fn apply_udp(self, checksum: u16) -> u16 {
        if checksum == 0 {
            return 0;
        }
        match self.apply(checksum) {
            0 => 0xffff,
            adjusted => adjusted,
        }
    }
}

#[inline]
fn bits128(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Word by word, as RFC 1071 defines it.
    fn plain(data: &[u8]) -> u16 {
        let mut sum = 0_u32;
        for pair in data.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&byte| u32::from(byte));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::try_from(sum).unwrap()
    }

    #[test]
    fn the_sum_is_that_of_the_definition_for_every_length() {
        let data: Vec<u8> = (0..2000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for length in 0..data.len() {
            assert_eq!(fold(ones(&data[..length], 0)), plain(&data[..length]), "{length} bytes");
        }
        assert_eq!(fold(ones(&vec![0xff; 65_536], 0)), 0xffff);
        assert_eq!(fold(ones(&[], 0)), 0);
    }

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(fold(ones(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7], 0)), 0xddf2);
    }

    #[test]
    fn the_corner_case_of_rfc_1624() {
        // Section 4: equation 2 gives 0xFFFF here, which no sender would have computed.
        assert_eq!(adjust(0xdd2f, 0x5555, 0x3285), 0x0000);
        assert_eq!(Delta::NONE.word16(0x5555, 0x3285).apply(0xdd2f), 0x0000);
    }

    #[test]
    fn udp_zero_stays_and_is_never_made() {
        let delta = Delta::NONE.word16(0x5555, 0x3285);
        assert_eq!(delta.apply_udp(0xdd2f), 0xffff);
        assert_eq!(delta.apply_udp(0), 0);
        assert_eq!(delta.inverse().apply_udp(0xffff), 0xdd2f);
        assert_eq!(finish_udp(0xffff), 0xffff);
    }
}
