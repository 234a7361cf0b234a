//! A unified flow pair: both directions of one connection at one port, with their composed header transpositions.
//!
//! The layout is what the cached path costs: 192 bytes for IPv4, three cache lines, of which a packet touches two
//! (its direction's and the shared one).

use bitflags::bitflags;
use wire::Mac;

use super::key::{Ends, Key};

bitflags! {
    /// What a transposition does.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct HtFlags: u16 {
        /// The half holds a transposition.
        const VALID = 1;
        /// The source MAC is set.
        const SRC_MAC = 2;
        /// The destination MAC is set.
        const DST_MAC = 4;
        /// Addresses or ports are set.
        const ENDS = 8;
        /// The outer header comes off.
        const POP = 16;
        /// An outer header is put on: template `Ht::template`.
        const PUSH = 32;
        /// TTL - 1; with [`HtFlags::TTL_TWICE`] - 3.
        const TTL = 64;
        /// The packet is dropped.
        const DROP = 128;
        /// The packet is sent back.
        const HAIRPIN = 256;
        /// A token bucket is asked.
        const QOS = 512;
        /// A VLAN tag is put on, changed or taken off; done by the careful path.
        const VLAN = 1024;
        /// A copy goes to the observer.
        const MIRROR = 2048;
        /// TTL - 2.
        const TTL_TWICE = 4096;
    }
}

impl HtFlags {
    /// How often the TTL is decremented.
    #[inline]
    pub(crate) const fn ttl(self) -> u8 {
        let once = self.contains(Self::TTL) as u8;
        let twice = self.contains(Self::TTL_TWICE) as u8;
        once + 2 * twice
    }
}

/// The composed header transposition of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Ht<A> {
    pub(crate) ends: Ends<A>,
    pub(crate) dst_mac: [u8; 6],
    pub(crate) src_mac: [u8; 6],
    pub(crate) flags: HtFlags,
    /// An outer header's template, a VLAN id or a drop reason: what the flags say.
    pub(crate) extra: u16,
    /// The difference of checksums that cover addresses alone.
    pub(crate) l3_delta: u16,
    /// The difference of checksums that cover addresses and ports.
    pub(crate) l4_delta: u16,
}

/// MACs and VLAN of a frame: what [`Key`] leaves out. Numbers of the sizes in which they are written, so that a
/// comparison right behind the reading need not wait for bytes to arrive in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C, packed(2))]
pub(crate) struct L2Id {
    /// The first eight bytes of the frame: destination MAC and the first two of the source's.
    head: u64,
    /// The other four of the source MAC.
    tail: u32,
    /// The VLAN id.
    vlan: u16,
}

impl L2Id {
    /// Of a frame's first bytes.
    #[inline]
    pub(crate) fn of(macs: &[u8; 12], vlan: u16) -> Self {
        let (head, tail) = macs.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        let tail = tail.first_chunk::<4>().unwrap_or(&[0; 4]);
        Self { head: u64::from_ne_bytes(*head), tail: u32::from_ne_bytes(*tail), vlan }
    }

    fn macs(self) -> [u8; 12] {
        let mut macs = [0; 12];
        macs[..8].copy_from_slice(&self.head.to_ne_bytes());
        macs[8..].copy_from_slice(&self.tail.to_ne_bytes());
        macs
    }

    /// The destination MAC.
    pub(crate) fn destination(self) -> Mac {
        wire::bytes::get_mac(&self.macs(), 0).unwrap_or_default()
    }

    /// The source MAC.
    pub(crate) fn source(self) -> Mac {
        wire::bytes::get_mac(&self.macs(), 6).unwrap_or_default()
    }

    /// The VLAN id, 0 for none.
    pub(crate) const fn vlan(self) -> u16 {
        self.vlan
    }
}

/// One direction.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Half<A> {
    pub(crate) key: Key<A>,
    pub(crate) ht: Ht<A>,
    /// The frames for which `ht` was composed.
    pub(crate) l2: L2Id,
    /// The port that such a frame goes to, plus one; 0: not known. Of an IN direction always 0.
    pub(crate) target: u16,
}

/// Where a TCP connection is; other protocols are `Plain`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum TcpState {
    /// Not TCP, or TCP that is not tracked.
    #[default]
    Plain,
    /// A SYN was seen.
    SynSent,
    /// SYN and SYN-ACK were seen.
    SynReceived,
    /// The handshake is done, or the connection was picked up in its middle.
    Established,
    /// One end has closed.
    HalfClosed,
    /// Both have.
    TimeWait,
    /// It was reset.
    Reset,
}

impl TcpState {
    /// How many there are.
    pub(crate) const COUNT: usize = 7;

    /// The word in dumps.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Plain => "-",
            Self::SynSent => "SYN",
            Self::SynReceived => "SYN-ACK",
            Self::Established => "ESTABLISHED",
            Self::HalfClosed => "HALF-CLOSED",
            Self::TimeWait => "TIME-WAIT",
            Self::Reset => "RESET",
        }
    }

    /// The handshake is not done.
    pub(crate) const fn is_half_open(self) -> bool {
        matches!(self, Self::SynSent | Self::SynReceived)
    }

    /// It has ended.
    pub(crate) const fn is_over(self) -> bool {
        matches!(self, Self::TimeWait | Self::Reset)
    }
}

/// No cold data.
pub(crate) const NONE: u32 = u32::MAX;

bitflags! {
    /// What is remembered of a connection.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Bits: u8 {
        /// The main direction has closed.
        const FIN_MAIN = 1;
        /// The other one has.
        const FIN_REPLY = 2;
        /// Packets of the main direction came here by a hairpin; replies go back by one.
        const CAME_BACK = 4;
        /// Packets of the main direction are sent back; replies get the MACs of those.
        const SENT_BACK = 8;
        /// The main direction is dropped; replies are, too.
        const BLOCKED = 16;
        /// The reply's key is known.
        const PAIRED = 32;
        /// Its first packet was a connection's first SYN: who sends this way opened the connection.
        const OPENED = 64;
        /// Its first packet was a SYN with ACK: who sends this way did not open the connection.
        const ANSWERS = 128;
    }
}

/// What both directions share.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Common {
    pub(crate) packets: [u64; 2],
    pub(crate) bytes: [u64; 2],
    /// The port's generation for which each direction was composed.
    pub(crate) generation: [u32; 2],
    /// When a packet was last seen, in milliseconds of the switch's clock.
    pub(crate) seen: u32,
    /// When the composition must be looked at again whatever the generation: next hops age. `u32::MAX`: never.
    pub(crate) recheck: u32,
    /// The layers' results, or [`NONE`].
    pub(crate) results: u32,
    pub(crate) state: TcpState,
    pub(crate) bits: Bits,
    /// Idle time after which it is gone, as the rules say, in seconds; 0: as the port says.
    pub(crate) ttl: u16,
    /// The rules that decided for each direction: a number of the port's, or [`NONE`].
    pub(crate) paths: [u32; 2],
}

/// A pair. `halves[0]` is the main direction: the one that opened the connection.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Pair<A> {
    pub(crate) halves: [Half<A>; 2],
    pub(crate) common: Common,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_as_small_as_said() {
        assert_eq!(size_of::<Half<[u8; 4]>>(), 64);
        assert_eq!(size_of::<Common>(), 64);
        assert_eq!(size_of::<Pair<[u8; 4]>>(), 192);
        assert_eq!(size_of::<Pair<[u8; 16]>>(), 320);
    }
}
