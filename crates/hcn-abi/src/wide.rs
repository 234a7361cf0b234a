//! NUL-terminated UTF-16 text.

use crate::PCWSTR;

/// UTF-16 with a NUL at its end. `None` when the text itself holds a NUL: the callee would see only what stands before it.
pub fn encode(text: &str) -> Option<Vec<u16>> {
    (!text.contains('\0')).then(|| text.encode_utf16().chain([0]).collect())
}

/// How many units stand before the NUL, or `None` when there is none among the first `most`.
///
/// # Safety
///
/// `text` points to units that may be read up to and with the first NUL, or `most` of them.
#[expect(unsafe_code, reason = "reads memory that a caller over the binary interface hands in")]
pub unsafe fn length(text: PCWSTR, most: usize) -> Option<usize> {
    // SAFETY: no unit after the NUL is read, and none from `most` on, as the caller promises.
    (0..most).find(|&at| unsafe { text.add(at).read_unaligned() } == 0)
}

/// The text that stands there; `None` as in [`length`]. Units that are no UTF-16 become U+FFFD, which no JSON syntax consists of.
///
/// # Safety
///
/// As for [`length`].
#[expect(unsafe_code, reason = "reads memory that a caller over the binary interface hands in")]
pub unsafe fn decode(text: PCWSTR, most: usize) -> Option<String> {
    // SAFETY: the caller's promise is the same.
    let length = unsafe { length(text, most) }?;
    // SAFETY: `length` units were just read.
    let units = (0..length).map(|at| unsafe { text.add(at).read_unaligned() });
    Some(char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
}

#[cfg(test)]
#[expect(unsafe_code, reason = "the functions under test are unsafe")]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back() {
        for text in ["", "a", "{\"Name\":\"größe 𝄞\"}"] {
            let wide = encode(text).expect("no NUL");
            // SAFETY: the NUL is in the vector.
            assert_eq!(unsafe { decode(wide.as_ptr(), wide.len()) }.as_deref(), Some(text));
        }
        assert_eq!(encode("a\0b"), None);
    }

    #[test]
    fn what_does_not_end_is_not_read_on() {
        let wide = [0x61; 8];
        // SAFETY: eight units may be read.
        assert_eq!(unsafe { decode(wide.as_ptr(), 8) }, None);
    }

    #[test]
    fn lone_surrogates_are_replaced() {
        let wide = [0xD800, 0x61, 0];
        // SAFETY: the NUL is in the array.
        assert_eq!(unsafe { decode(wide.as_ptr(), 3) }.as_deref(), Some("\u{FFFD}a"));
    }
}
