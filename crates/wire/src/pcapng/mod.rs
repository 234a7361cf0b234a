//! Captures in the pcapng format (draft-ietf-opsawg-pcapng), little-endian, Ethernet, nanoseconds.
//!
//! One interface for each place where frames are seen; a packet says in its comments what the place made of it.

mod reader;
mod writer;

pub use reader::{Block, Captured, Interface, ReadError, Reader};
pub use writer::{About, Direction, PacketMeta, Writer};

/// Block types.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;

/// In a section header: which byte is the first of a number.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// Option codes.
mod option {
    pub(super) const END: u16 = 0;
    pub(super) const COMMENT: u16 = 1;
    pub(super) const HARDWARE: u16 = 2;
    pub(super) const OS: u16 = 3;
    pub(super) const APPLICATION: u16 = 4;
    pub(super) const IF_NAME: u16 = 2;
    pub(super) const IF_DESCRIPTION: u16 = 3;
    pub(super) const IF_TSRESOL: u16 = 9;
    pub(super) const EPB_FLAGS: u16 = 2;
    pub(super) const EPB_PACKETID: u16 = 5;
}

/// The link type of Ethernet.
const ETHERNET: u16 = 1;

#[cfg(test)]
mod tests;
