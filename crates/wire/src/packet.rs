//! A frame in a buffer of its own with room in front, so that an outer header can be put there without a copy.

use std::fmt;

/// Room in front of a new packet, in bytes: more than the largest outer header of VXLAN (74).
pub const HEADROOM: usize = 128;

/// What the sender of a frame left to whoever puts it on a wire. It speaks of the innermost TCP or UDP header, and
/// stays true while headers are rewritten and tunnels are put on and taken off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Offload {
    /// The checksum is still to be computed; what the field holds means nothing.
    pub checksum: bool,
    /// The frame stands for several, each with this many bytes above TCP or UDP; 0: it is one.
    pub segment: u16,
}

impl Offload {
    /// Nothing was left.
    pub const NONE: Self = Self { checksum: false, segment: 0 };
}

/// An owned frame with headroom. Equal when the frames are and what is left to do with them, whatever the headroom.
pub struct Packet {
    /// Initialised throughout, so that a buffer can be used again without being cleared.
    buffer: Vec<u8>,
    /// Where the frame begins; at most `end`.
    start: u32,
    /// Where it ends; at most the buffer's length.
    end: u32,
    /// The headroom that [`Packet::copy_from`] restores.
    fresh: u32,
    /// What is still to be done.
    pub offload: Offload,
}

/// A length as it is kept: frames are far from 4 GiB.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a frame has at most 64 KiB and some headers")]
const fn short(length: usize) -> u32 {
    length as u32
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
        let (start, end) = (short(headroom), short(buffer.len()));
        Self { buffer, start, end, fresh: start, offload: Offload::NONE }
    }

    /// An empty frame in a buffer for frames of up to this many bytes, with [`HEADROOM`] in front: for
    /// [`Packet::refill`].
    pub fn with_room(bytes: usize) -> Self {
        let buffer = vec![0; HEADROOM + bytes];
        let start = short(HEADROOM);
        Self { buffer, start, end: start, fresh: start, offload: Offload::NONE }
    }

    /// Has a new frame written into the buffer, behind `prefix` bytes that do not belong to it ([`Packet::prefix`]).
    /// `write` is given all the room there is and returns how many bytes of it count, the prefix included. What is
    /// left to do is nothing, until said otherwise. An error leaves an empty frame.
    #[inline]
    pub fn refill<E>(
        &mut self,
        prefix: usize,
        write: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        self.start = self.fresh;
        self.end = self.fresh;
        self.offload = Offload::NONE;
        let from = (self.fresh as usize).saturating_sub(prefix);
        let room = self.buffer.get_mut(from..).unwrap_or_default();
        let length = room.len();
        let written = write(room)?.min(length);
        self.end = short((from + written).max(self.fresh as usize));
        Ok(())
    }

    /// Bytes in front of the frame, where the headroom has so many.
    #[inline]
    pub fn prefix(&self, bytes: usize) -> &[u8] {
        let start = self.start as usize;
        self.buffer.get(start.saturating_sub(bytes)..start).unwrap_or_default()
    }

    /// The frame.
    #[inline]
    pub fn data(&self) -> &[u8] {
        self.buffer.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// The frame, to be changed in place.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// Bytes of the frame.
    #[inline]
    pub fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether no byte is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Room in front of the frame, in bytes.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.start as usize
    }

    /// Bytes that the buffer has room for behind the headroom that it was made with.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.buffer.len() - self.fresh as usize
    }

    /// Grows the frame by `n` bytes in front and returns these (old content, to be overwritten); `None`, and no
    /// change, when the headroom is smaller.
    #[inline]
    pub fn push(&mut self, n: usize) -> Option<&mut [u8]> {
        let old = self.start as usize;
        let start = old.checked_sub(n)?;
        let room = self.buffer.get_mut(start..old)?;
        self.start = short(start);
        Some(room)
    }

    /// Grows the frame by `n` bytes in front, moving it to a larger buffer when the headroom is smaller.
    #[inline]
    pub fn push_or_grow(&mut self, n: usize) -> &mut [u8] {
        if n > self.start as usize {
            self.grow(n);
        }
        self.push(n).unwrap_or_default()
    }

    #[cold]
    fn grow(&mut self, n: usize) {
        let missing = n - self.start as usize + self.fresh as usize;
        self.buffer.splice(..0, std::iter::repeat_n(0, missing));
        self.start += short(missing);
        self.end += short(missing);
    }

    /// Drops `n` bytes in front; `false`, and no change, when the frame is shorter.
    #[inline]
    pub fn pull(&mut self, n: usize) -> bool {
        let fits = n <= self.len();
        if fits {
            self.start += short(n);
        }
        fits
    }

    /// Cuts the frame to at most `n` bytes.
    #[inline]
    pub fn truncate(&mut self, n: usize) {
        if n < self.len() {
            self.end = self.start + short(n);
        }
    }

    /// Adds bytes at the end. Allocates only when the buffer is too small.
    pub fn append(&mut self, bytes: &[u8]) {
        let end = self.end as usize;
        if let Some(room) = self.buffer.get_mut(end..end + bytes.len()) {
            room.copy_from_slice(bytes);
        } else {
            self.buffer.truncate(end);
            self.buffer.extend_from_slice(bytes);
        }
        self.end = short(end + bytes.len());
    }

    /// The frame without its headroom.
    pub fn into_vec(mut self) -> Vec<u8> {
        self.buffer.truncate(self.end as usize);
        self.buffer.drain(..self.start as usize);
        self.buffer
    }

    /// Replaces the frame by a copy of another and restores the headroom that this packet was made with. Allocates
    /// only when the buffer is too small.
    #[inline]
    pub fn copy_from(&mut self, frame: &[u8]) {
        self.start = self.fresh;
        self.offload = Offload::NONE;
        let (start, end) = (self.fresh as usize, self.fresh as usize + frame.len());
        if let Some(room) = self.buffer.get_mut(start..end) {
            room.copy_from_slice(frame);
        } else {
            self.buffer.truncate(start);
            self.buffer.resize(start, 0);
            self.buffer.extend_from_slice(frame);
        }
        self.end = short(end);
    }
}

impl Clone for Packet {
    fn clone(&self) -> Self {
        let end = self.end as usize;
        // A buffer with room for more is not copied whole.
        let buffer = self.buffer.get(..end).unwrap_or_default().to_vec();
        Self { buffer, ..*self }
    }

    fn clone_from(&mut self, source: &Self) {
        self.buffer.clone_from(&source.buffer);
        (self.start, self.end) = (source.start, source.end);
        (self.fresh, self.offload) = (source.fresh, source.offload);
    }
}

impl Default for Packet {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl PartialEq for Packet {
    fn eq(&self, other: &Self) -> bool {
        self.data() == other.data() && self.offload == other.offload
    }
}

impl Eq for Packet {}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packet({} bytes:", self.len())?;
        for byte in self.data().iter().take(64) {
            write!(f, " {byte:02x}")?;
        }
        if self.offload != Offload::NONE {
            write!(f, " {:?}", self.offload)?;
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
    fn a_refilled_buffer_holds_the_new_frame_only() {
        let mut packet = Packet::with_room(8);
        packet.copy_from(b"12345678");
        packet.offload.checksum = true;
        let read = |room: &mut [u8]| {
            assert_eq!(room.len(), 10);
            room[..5].copy_from_slice(b"hdabc");
            Ok::<_, ()>(5)
        };
        packet.refill(2, read).unwrap();
        assert_eq!((packet.prefix(2), packet.data()), (&b"hd"[..], &b"abc"[..]));
        assert_eq!((packet.offload, packet.headroom(), packet.capacity()), (Offload::NONE, HEADROOM, 8));
        packet.append(b"d");
        assert_eq!(packet.clone().into_vec(), b"abcd");
        assert_eq!(packet.capacity(), 8, "what is added uses the room that there is");
        // Shorter than the prefix, nothing at all, too much.
        assert_eq!(packet.refill(2, |_| Ok::<_, ()>(1)), Ok(()));
        assert!(packet.is_empty());
        assert_eq!(packet.refill(0, |_| Err("no")), Err("no"));
        assert!(packet.is_empty());
        packet.refill(0, |_| Ok::<_, ()>(99)).unwrap();
        assert!(packet.len() <= 8);
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
