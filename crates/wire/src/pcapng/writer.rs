//! Writing a capture.

use std::io::{self, Write};

use crate::pcapng::{BYTE_ORDER, ETHERNET, INTERFACE, PACKET, SECTION, option};

/// What is captured of a packet at most; the same as Wireshark's default.
const SNAPLEN: u32 = 262_144;

/// Who captured, on what; empty texts are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct About<'a> {
    /// The machine.
    pub hardware: &'a str,
    /// Its operating system.
    pub os: &'a str,
    /// The program that writes the file.
    pub application: &'a str,
    /// A remark about the whole file.
    pub comment: &'a str,
}

/// Which way a frame went, as the interface saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Into the interface's owner.
    Inbound,
    /// Out of it.
    Outbound,
}

/// What is known of a captured frame besides its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketMeta<'a> {
    /// The interface, by the number that [`Writer::add_interface`] gave.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub nanos: u64,
    /// Which way it went.
    pub direction: Option<Direction>,
    /// A number that is the same wherever this packet is seen.
    pub id: Option<u64>,
    /// Remarks, in order; one that is longer than 65,535 bytes is cut.
    pub comments: &'a [&'a str],
}

/// Writes one section into `out`. Everything is written at once: give it a buffer.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    interfaces: u32,
    /// The block that is being made; kept for its capacity.
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins the file.
    pub fn new(out: W, about: &About<'_>) -> io::Result<Self> {
        let mut writer = Self { out, interfaces: 0, block: Vec::new() };
        writer.begin(SECTION);
        writer.block.extend_from_slice(&BYTE_ORDER.to_le_bytes());
        // Version 1.0, of a section whose length is not told.
        writer.block.extend_from_slice(&[1, 0, 0, 0]);
        writer.block.extend_from_slice(&u64::MAX.to_le_bytes());
        let texts = [
            (option::COMMENT, about.comment),
            (option::HARDWARE, about.hardware),
            (option::OS, about.os),
            (option::APPLICATION, about.application),
        ];
        writer.texts(&texts);
        writer.end()?;
        Ok(writer)
    }

    /// Adds an Ethernet interface with nanosecond timestamps and returns its number: 0, 1, … Interfaces may be added
    /// between packets.
    pub fn add_interface(&mut self, name: &str, description: &str) -> io::Result<u32> {
        let number = self.interfaces;
        self.begin(INTERFACE);
        self.block.extend_from_slice(&ETHERNET.to_le_bytes());
        self.block.extend_from_slice(&[0; 2]);
        self.block.extend_from_slice(&SNAPLEN.to_le_bytes());
        self.texts(&[(option::IF_NAME, name), (option::IF_DESCRIPTION, description)]);
        // The negative power of ten.
        self.option(option::IF_TSRESOL, &[9]);
        self.end()?;
        self.interfaces += 1;
        Ok(number)
    }

    /// Adds a frame. An interface that was not added is an error of kind `InvalidInput`, and nothing is written.
    pub fn packet(&mut self, meta: &PacketMeta<'_>, frame: &[u8]) -> io::Result<()> {
        if meta.interface >= self.interfaces {
            let text = format!(
                "interface {} was not added; {} interfaces are known",
                meta.interface, self.interfaces
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let kept = frame.get(..SNAPLEN as usize).unwrap_or(frame);
        self.begin(PACKET);
        let [t0, t1, t2, t3, t4, t5, t6, t7] = meta.nanos.to_le_bytes();
        self.block.extend_from_slice(&meta.interface.to_le_bytes());
        // The upper half of the time comes first, whatever the byte order.
        self.block.extend_from_slice(&[t4, t5, t6, t7, t0, t1, t2, t3]);
        for length in [kept.len(), frame.len()] {
            self.block.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
        }
        self.padded(kept);
        for comment in meta.comments {
            self.option(option::COMMENT, comment_bytes(comment));
        }
        if let Some(direction) = meta.direction {
            let flags: u32 = match direction {
                Direction::Inbound => 1,
                Direction::Outbound => 2,
            };
            self.option(option::EPB_FLAGS, &flags.to_le_bytes());
        }
        if let Some(id) = meta.id {
            self.option(option::EPB_PACKETID, &id.to_le_bytes());
        }
        self.end()
    }

    /// Writes out what a buffer still holds.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the file and gives back where it was written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    /// The type and a place for the length.
    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.block.extend_from_slice(&kind.to_le_bytes());
        self.block.extend_from_slice(&[0; 4]);
    }

    fn texts(&mut self, texts: &[(u16, &str)]) {
        for (code, text) in texts {
            if !text.is_empty() {
                self.option(*code, comment_bytes(text));
            }
        }
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.block.extend_from_slice(&code.to_le_bytes());
        self.block.extend_from_slice(&u16::try_from(value.len()).unwrap_or(u16::MAX).to_le_bytes());
        self.padded(value);
    }

    /// Everything begins at a multiple of 4.
    fn padded(&mut self, value: &[u8]) {
        self.block.extend_from_slice(value);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// The end of the options, the length at both ends, and out with it.
    fn end(&mut self) -> io::Result<()> {
        self.option(option::END, &[]);
        let length = u32::try_from(self.block.len() + 4)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a block of more than 4 GiB"))?
            .to_le_bytes();
        if let Some(place) = self.block.get_mut(4..8) {
            place.copy_from_slice(&length);
        }
        self.block.extend_from_slice(&length);
        self.out.write_all(&self.block)
    }
}

/// As much of a text as an option can hold, cut between characters.
fn comment_bytes(text: &str) -> &[u8] {
    &text.as_bytes()[..text.floor_char_boundary(u16::MAX.into())]
}
