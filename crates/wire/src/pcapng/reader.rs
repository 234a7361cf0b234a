//! Reading a capture: as much as tests and checks of our own files need, in both byte orders, from any bytes.

use crate::pcapng::{BYTE_ORDER, Direction, INTERFACE, PACKET, SECTION, option};

/// Why bytes are not a capture. Offsets count from the beginning of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file does not begin with a section header.
    #[error("the file does not begin with a section header block")]
    NoSection,
    /// The byte-order magic is neither way round.
    #[error("the section header at {offset} has no byte-order magic")]
    ByteOrder {
        /// Where the block is.
        offset: usize,
    },
    /// Another major version.
    #[error("the section at {offset} has major version {major}; 1 is known")]
    Version {
        /// Where the block is.
        offset: usize,
        /// What it says.
        major: u16,
    },
    /// The length of a block is no multiple of 4, too small, past the end, or not the same at both ends.
    #[error("the block at {offset} states a length of {stated} bytes, which cannot be")]
    BlockLength {
        /// Where the block is.
        offset: usize,
        /// What it says.
        stated: u32,
    },
    /// Something in a block goes past its end.
    #[error("the content of the block at {offset} goes past its end")]
    Content {
        /// Where the block is.
        offset: usize,
    },
    /// A packet of an interface that the section does not have.
    #[error("the packet at {offset} is of interface {interface}, which the section does not have")]
    UnknownInterface {
        /// Where the block is.
        offset: usize,
        /// The number.
        interface: u32,
    },
}

/// An interface description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The link type: 1 for Ethernet.
    pub link_type: u16,
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: String,
    /// The resolution byte of timestamps: 9 for nanoseconds, 6 when not said.
    pub resolution: u8,
}

/// A packet block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured<'a> {
    /// The interface's number in its section.
    pub interface: u32,
    /// The time in nanoseconds since 1970; the largest number when it does not fit.
    pub nanos: u64,
    /// Which way it went.
    pub direction: Option<Direction>,
    /// The packet's number.
    pub id: Option<u64>,
    /// How long the packet was, of which `data` may be the beginning.
    pub original_len: u32,
    /// The bytes.
    pub data: &'a [u8],
    /// The remarks; bytes that are not UTF-8 are replaced.
    pub comments: Vec<String>,
}

/// A block of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block<'a> {
    /// A section begins: hardware, operating system and application, empty when not said.
    Section {
        /// The machine.
        hardware: String,
        /// Its operating system.
        os: String,
        /// The program that wrote the file.
        application: String,
    },
    /// An interface.
    Interface(Interface),
    /// A packet.
    Packet(Captured<'a>),
    /// A block of another type, which is skipped.
    Other(u32),
}

/// Goes through the blocks of a capture; after an error there is no further block.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    swapped: bool,
    /// The resolutions of the section's interfaces.
    resolutions: Vec<u8>,
}

impl<'a> Reader<'a> {
    /// Reads these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, swapped: false, resolutions: Vec::new() }
    }

    /// All packets with the interfaces that they were seen on.
    pub fn packets(self) -> Result<Vec<(Interface, Captured<'a>)>, ReadError> {
        let mut interfaces: Vec<Interface> = Vec::new();
        let mut packets = Vec::new();
        for block in self {
            match block? {
                Block::Section { .. } => interfaces.clear(),
                Block::Interface(interface) => interfaces.push(interface),
                Block::Packet(packet) => {
                    let interface = interfaces.get(packet.interface as usize).cloned();
                    packets.extend(interface.map(|interface| (interface, packet)));
                }
                Block::Other(_) => {}
            }
        }
        Ok(packets)
    }

    fn u16(&self, bytes: [u8; 2]) -> u16 {
        if self.swapped { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    fn u32(&self, bytes: [u8; 4]) -> u32 {
        if self.swapped { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn u64(&self, bytes: [u8; 8]) -> u64 {
        if self.swapped { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
    }

    fn block(&mut self) -> Result<Block<'a>, ReadError> {
        let offset = self.at;
        let rest = self.bytes.get(offset..).unwrap_or_default();
        let kind = *rest.first_chunk::<4>().ok_or(ReadError::Content { offset })?;
        let section = u32::from_le_bytes(kind) == SECTION;
        if section {
            // The byte order of everything in it, the length included, is told by the magic behind the length.
            let magic = *crate::bytes::get::<4>(rest, 8).ok_or(ReadError::Content { offset })?;
            self.swapped = match (u32::from_le_bytes(magic), u32::from_be_bytes(magic)) {
                (BYTE_ORDER, _) => false,
                (_, BYTE_ORDER) => true,
                _ => return Err(ReadError::ByteOrder { offset }),
            };
            self.resolutions.clear();
        } else if offset == 0 {
            return Err(ReadError::NoSection);
        }
        let stated = self.u32(*crate::bytes::get::<4>(rest, 4).ok_or(ReadError::Content { offset })?);
        let wrong = ReadError::BlockLength { offset, stated };
        let length = usize::try_from(stated).map_err(|_| wrong)?;
        let inside = length.checked_sub(12).ok_or(wrong)?;
        let block = rest.get(..length).filter(|_| length.is_multiple_of(4)).ok_or(wrong)?;
        if crate::bytes::get::<4>(block, inside + 8).map(|&end| self.u32(end)) != Some(stated) {
            return Err(wrong);
        }
        self.at = offset + length;
        let body = block.get(8..inside + 8).unwrap_or_default();
        let content = ReadError::Content { offset };
        match self.u32(kind) {
            SECTION => self.section(body, offset),
            INTERFACE => self.interface(body).ok_or(content),
            PACKET => self.packet(body, offset),
            other => Ok(Block::Other(other)),
        }
    }

    fn section(&self, body: &'a [u8], offset: usize) -> Result<Block<'a>, ReadError> {
        let content = ReadError::Content { offset };
        let major = self.u16(*crate::bytes::get::<2>(body, 4).ok_or(content)?);
        if major != 1 {
            return Err(ReadError::Version { offset, major });
        }
        let options = self.options(body.get(16..).ok_or(content)?).ok_or(content)?;
        Ok(Block::Section {
            hardware: text(&options, option::HARDWARE),
            os: text(&options, option::OS),
            application: text(&options, option::APPLICATION),
        })
    }

    fn interface(&mut self, body: &'a [u8]) -> Option<Block<'a>> {
        let link_type = self.u16(*body.first_chunk()?);
        let options = self.options(body.get(8..)?)?;
        let resolution = match options.iter().find(|(code, _)| *code == option::IF_TSRESOL) {
            Some((_, value)) => *value.first()?,
            None => 6,
        };
        self.resolutions.push(resolution);
        Some(Block::Interface(Interface {
            link_type,
            name: text(&options, option::IF_NAME),
            description: text(&options, option::IF_DESCRIPTION),
            resolution,
        }))
    }

    fn packet(&self, body: &'a [u8], offset: usize) -> Result<Block<'a>, ReadError> {
        let content = ReadError::Content { offset };
        let fields = body.first_chunk::<20>().ok_or(content)?;
        let [interface, high, low, kept, original_len] =
            [0, 4, 8, 12, 16].map(|at| crate::bytes::get::<4>(fields, at).map_or(0, |&word| self.u32(word)));
        let resolution = usize::try_from(interface).ok().and_then(|number| self.resolutions.get(number));
        let Some(&resolution) = resolution else {
            return Err(ReadError::UnknownInterface { offset, interface });
        };
        let kept = usize::try_from(kept).map_err(|_| content)?;
        let rest = body.get(20..).unwrap_or_default();
        let data = rest.get(..kept).ok_or(content)?;
        let options = self.options(rest.get(kept.next_multiple_of(4)..).ok_or(content)?).ok_or(content)?;
        let mut packet = Captured {
            interface,
            nanos: nanos(u64::from(high) << 32 | u64::from(low), resolution),
            direction: None,
            id: None,
            original_len,
            data,
            comments: Vec::new(),
        };
        for (code, value) in options {
            match code {
                option::COMMENT => packet.comments.push(String::from_utf8_lossy(value).into_owned()),
                option::EPB_FLAGS => {
                    packet.direction = match self.u32(*value.first_chunk().ok_or(content)?) & 3 {
                        1 => Some(Direction::Inbound),
                        2 => Some(Direction::Outbound),
                        _ => None,
                    };
                }
                option::EPB_PACKETID => packet.id = Some(self.u64(*value.first_chunk().ok_or(content)?)),
                _ => {}
            }
        }
        Ok(Block::Packet(packet))
    }

    /// The options up to their end; `None` when one goes past the block.
    fn options(&self, mut bytes: &'a [u8]) -> Option<Vec<(u16, &'a [u8])>> {
        let mut options = Vec::new();
        while !bytes.is_empty() {
            let &[c0, c1, l0, l1] = bytes.first_chunk::<4>()?;
            let (code, length) = (self.u16([c0, c1]), usize::from(self.u16([l0, l1])));
            if code == option::END {
                break;
            }
            let rest = bytes.get(4..)?;
            options.push((code, rest.get(..length)?));
            bytes = rest.get(length.next_multiple_of(4)..)?;
        }
        Some(options)
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Block<'a>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let block = self.block();
        if block.is_err() {
            self.at = self.bytes.len();
        }
        Some(block)
    }
}

fn text(options: &[(u16, &[u8])], wanted: u16) -> String {
    let value = options.iter().find(|(code, _)| *code == wanted).map_or(&[][..], |(_, value)| value);
    String::from_utf8_lossy(value).into_owned()
}

/// Units to nanoseconds. The resolution is a negative power: of 2 when the top bit is set, else of 10.
fn nanos(units: u64, resolution: u8) -> u64 {
    let exponent = u32::from(resolution & 0x7f);
    let units = u128::from(units);
    let nanos = if resolution & 0x80 != 0 {
        // A billion has 30 bits, so the product has 94 at most.
        (units * 1_000_000_000).checked_shr(exponent).unwrap_or(0)
    } else if exponent <= 9 {
        units * 10_u128.pow(9 - exponent)
    } else {
        10_u128.checked_pow(exponent - 9).map_or(0, |divisor| units / divisor)
    };
    u64::try_from(nanos).unwrap_or(u64::MAX)
}
