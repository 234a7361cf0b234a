//! A frame in a buffer of its own with room in front, so that an outer header can be put there without a copy.

use std::fmt;

/// Room in front of a new packet, in bytes: more than the largest outer header of VXLAN (74).
pub const HEADROOM: usize = 128;

/// An owned frame with headroom. Equal when the frames are, whatever the headroom.
pub struct Packet {
    buffer: Vec<u8>,
    /// Where the frame begins; at most the buffer's length.
    start: usize,
    /// The headroom that [`Packet::copy_from`] restores.
    fresh: usize,
}

impl Packet {
    /// A copy of the frame with [`HEADROOM`] in front.
    pub fn new(frame: &[u8]) -> Self {
        Self::with_headroom(HEADROOM, frame)
    }

    /// A copy of the frame with this much room in front.
    pub fn with_headroom(headroom: usize, frame: &[u8]) -> Self {
        let mut buffer = Vec::with_capacity(headroom + frame.len());
        buffer.resize(headroom, 0);
        buffer.extend_from_slice(frame);
        Self { buffer, start: headroom, fresh: headroom }
    }

    /// The frame.
    #[inline]
    pub fn data(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// The frame, to be changed in place.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.start..).unwrap_or_default()
    }

    /// Bytes of the frame.
    #[inline]
    pub fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Whether no byte is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Room in front of the frame, in bytes.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.start
    }

    /// Grows the frame by `n` bytes in front and returns these (old content, to be overwritten); `None`, and no
    /// change, when the headroom is smaller.
    #[inline]
    pub fn push(&mut self, n: usize) -> Option<&mut [u8]> {
        let start = self.start.checked_sub(n)?;
        let room = self.buffer.get_mut(start..self.start)?;
        self.start = start;
        Some(room)
    }

    /// Grows the frame by `n` bytes in front, moving it to a larger buffer when the headroom is smaller.
    #[inline]
    pub fn push_or_grow(&mut self, n: usize) -> &mut [u8] {
        if n > self.start {
            self.grow(n);
        }
        self.push(n).unwrap_or_default()
    }

    #[cold]
    fn grow(&mut self, n: usize) {
        let missing = n - self.start + self.fresh;
        self.buffer.splice(..0, std::iter::repeat_n(0, missing));
        self.start += missing;
    }

    /// Drops `n` bytes in front; `false`, and no change, when the frame is shorter.
    #[inline]
    pub fn pull(&mut self, n: usize) -> bool {
        let fits = n <= self.len();
        if fits {
            self.start += n;
        }
        fits
    }

    /// Cuts the frame to at most `n` bytes.
    #[inline]
    pub fn truncate(&mut self, n: usize) {
        self.buffer.truncate(self.start.saturating_add(n));
    }

    /// Adds bytes at the end.
    pub fn append(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The frame without its headroom.
    pub fn into_vec(mut self) -> Vec<u8> {
        self.buffer.drain(..self.start);
        self.buffer
    }

    /// Replaces the frame by a copy of another and restores the headroom that this packet was made with. Allocates
    /// only when the buffer is too small.
    #[inline]
    pub fn copy_from(&mut self, frame: &[u8]) {
        self.start = self.fresh;
        self.buffer.truncate(self.fresh);
        self.buffer.resize(self.fresh, 0);
        self.buffer.extend_from_slice(frame);
    }
}

impl Clone for Packet {
    fn clone(&self) -> Self {
        Self { buffer: self.buffer.clone(), start: self.start, fresh: self.fresh }
    }

    fn clone_from(&mut self, source: &Self) {
        self.buffer.clone_from(&source.buffer);
        self.start = source.start;
        self.fresh = source.fresh;
    }
}

impl Default for Packet {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl PartialEq for Packet {
    fn eq(&self, other: &Self) -> bool {
        self.data() == other.data()
    }
}

impl Eq for Packet {}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packet({} bytes:", self.len())?;
        for byte in self.data().iter().take(64) {
            write!(f, " {byte:02x}")?;
        }
        f.write_str(if self.len() > 64 { " …)" } else { ")" })
    }
}

impl From<&[u8]> for Packet {
    fn from(frame: &[u8]) -> Self {
        Self::new(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_and_pull_move_the_front() {
        let mut packet = Packet::with_headroom(4, b"frame");
        packet.push(3).unwrap().copy_from_slice(b"abc");
        assert_eq!((packet.data(), packet.headroom(), packet.len()), (&b"abcframe"[..], 1, 8));
        assert!(packet.push(2).is_none());
        assert_eq!(packet.data(), b"abcframe");
        assert!(packet.pull(3) && !packet.pull(6));
        assert_eq!((packet.data(), packet.headroom()), (&b"frame"[..], 4));
        packet.truncate(2);
        assert_eq!(packet.into_vec(), b"fr");
    }

    #[test]
    fn growing_keeps_the_frame_and_makes_room_again() {
        let mut packet = Packet::with_headroom(1, b"frame");
        packet.push_or_grow(6).copy_from_slice(b"header");
        assert_eq!(packet.data(), b"headerframe");
        packet.push_or_grow(0);
        assert_eq!(packet.len(), 11);
        packet.push_or_grow(1).copy_from_slice(b"x");
        assert_eq!(packet.data(), b"xheaderframe");
    }

    #[test]
    fn copying_reuses_the_buffer() {
        let mut packet = Packet::new(&[1; 100]);
        let before = packet.data().as_ptr();
        packet.push(100);
        packet.copy_from(&[2; 90]);
        assert_eq!((packet.headroom(), packet.data().as_ptr()), (HEADROOM, before));
        assert_eq!(packet, Packet::with_headroom(0, &[2; 90]));
        packet.truncate(usize::MAX);
        assert_eq!(packet.len(), 90);
        assert!(packet.pull(90));
        packet.truncate(0);
        assert_eq!(packet.into_vec(), Vec::<u8>::new());
    }
}
