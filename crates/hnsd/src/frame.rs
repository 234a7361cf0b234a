//! Frames: a length (four bytes, little endian) and that many bytes of one JSON document. No I/O, no meaning.
//!
//! The bytes of a frame are kept as they come, so a length alone makes nobody set memory aside.

use serde::Serialize;

/// The length's own length.
pub const HEADER: usize = 4;

/// A frame that is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It is longer than agreed.
    #[error("a frame of {length} bytes is longer than the {limit} bytes that are allowed")]
    TooLong {
        /// The length that was announced, or that a document has.
        length: usize,
        /// What is allowed.
        limit: usize,
    },
    /// It has no content; no document is empty.
    #[error("a frame of no bytes holds no document")]
    Empty,
}

/// Takes bytes as they come and hands out whole frames.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    bytes: Vec<u8>,
    /// Where the next frame starts in `bytes`.
    start: usize,
}

impl Decoder {
    /// A decoder of frames whose content has at most `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self { limit, bytes: Vec::new(), start: 0 }
    }

    /// Changes the limit, for frames that have not been handed out yet.
    pub const fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Takes bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The content of the next frame, once it is whole. After an error nothing more can be read: where the next frame
    /// would start is not known.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let waiting = &self.bytes[self.start..];
        let Some((header, rest)) = waiting.split_first_chunk::<HEADER>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*header)).unwrap_or(usize::MAX);
        if length > self.limit {
            return Err(FrameError::TooLong { length, limit: self.limit });
        }
        if length == 0 {
            return Err(FrameError::Empty);
        }
        let Some(content) = rest.get(..length) else { return Ok(None) };
        let content = content.to_vec();
        self.start += HEADER + length;
        if self.start == self.bytes.len() {
            self.start = 0;
            self.bytes.clear();
            // One large frame must not keep its memory for as long as the connection lives.
            self.bytes.shrink_to(KEPT);
        }
        Ok(Some(content))
    }

    /// Whether part of a frame has come.
    pub fn is_within_frame(&self) -> bool {
        self.start < self.bytes.len()
    }
}

/// How many bytes a decoder keeps for the next frame.
const KEPT: usize = 64 * 1024;

/// A document as a frame whose content has at most `limit` bytes.
pub fn encode<T: Serialize + ?Sized>(document: &T, limit: usize) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; HEADER];
    // Writing to memory does not fail, and the protocol's documents have text for keys; what a service hands out as a
    // `Value` has too. An empty frame is refused below, should that ever change.
    if serde_json::to_writer(&mut bytes, document).is_err() {
        return Err(FrameError::Empty);
    }
    let length = bytes.len() - HEADER;
    match u32::try_from(length) {
        Ok(header) if length <= limit => bytes[..HEADER].copy_from_slice(&header.to_le_bytes()),
        _ => return Err(FrameError::TooLong { length, limit: limit.min(u32::MAX as usize) }),
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_length_that_is_too_large_is_refused_before_its_bytes_come() {
        let mut decoder = Decoder::new(16);
        decoder.feed(&[17, 0, 0]);
        assert_eq!(decoder.next_frame(), Ok(None));
        decoder.feed(&[0]);
        assert_eq!(decoder.next_frame(), Err(FrameError::TooLong { length: 17, limit: 16 }));
        decoder.set_limit(17);
        assert_eq!(decoder.next_frame(), Ok(None));
        assert!(decoder.is_within_frame());
    }

    #[test]
    fn an_empty_frame_and_a_document_that_is_too_long_are_refused() {
        let mut decoder = Decoder::new(16);
        decoder.feed(&[0; 4]);
        assert_eq!(decoder.next_frame(), Err(FrameError::Empty));
        assert_eq!(encode("12345678", 10).unwrap(), b"\x0a\0\0\0\"12345678\"");
        assert_eq!(encode("12345678", 9), Err(FrameError::TooLong { length: 10, limit: 9 }));
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_however_they_are_cut(
            texts in proptest::collection::vec(".{0,40}", 0..8),
            cuts in proptest::collection::vec(1_usize..9, 1..40),
        ) {
            let mut sent = Vec::new();
            for text in &texts {
                sent.extend(encode(text, 1024).unwrap());
            }
            let mut decoder = Decoder::new(1024);
            let mut came = Vec::new();
            let mut rest = &sent[..];
            let mut cuts = cuts.iter().cycle();
            while !rest.is_empty() {
                let (part, later) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                decoder.feed(part);
                rest = later;
                while let Some(frame) = decoder.next_frame().unwrap() {
                    came.push(serde_json::from_slice::<String>(&frame).unwrap());
                }
            }
            prop_assert_eq!(came, texts);
            prop_assert!(!decoder.is_within_frame());
        }
    }
}
