//! Fields at known offsets of a buffer: network byte order, no panic, and no more than one bounds check each.
//!
//! A header is rewritten through these: the caller has parsed the frame and knows the offsets; a wrong one changes
//! nothing and says `false`.

use crate::Mac;

/// The `N` bytes at `at`.
#[inline]
pub fn get<const N: usize>(buffer: &[u8], at: usize) -> Option<&[u8; N]> {
    buffer.get(at..)?.first_chunk::<N>()
}

/// The byte at `at`.
#[inline]
pub fn get_u8(buffer: &[u8], at: usize) -> Option<u8> {
    buffer.get(at).copied()
}

/// The 16-bit number at `at`.
#[inline]
pub fn get_u16(buffer: &[u8], at: usize) -> Option<u16> {
    get(buffer, at).map(|&bytes| u16::from_be_bytes(bytes))
}

/// The 32-bit number at `at`.
#[inline]
pub fn get_u32(buffer: &[u8], at: usize) -> Option<u32> {
    get(buffer, at).map(|&bytes| u32::from_be_bytes(bytes))
}

/// The 128-bit number at `at`: an IPv6 address.
#[inline]
pub fn get_u128(buffer: &[u8], at: usize) -> Option<u128> {
    get(buffer, at).map(|&bytes| u128::from_be_bytes(bytes))
}

/// The MAC address at `at`.
#[inline]
pub fn get_mac(buffer: &[u8], at: usize) -> Option<Mac> {
    get(buffer, at).map(|&bytes| Mac(bytes))
}

/// Writes `value` at `at`; `false` (and no change) when it does not fit.
#[inline]
pub fn set<const N: usize>(buffer: &mut [u8], at: usize, value: &[u8; N]) -> bool {
    let Some(place) = buffer.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<N>()) else { return false };
    *place = *value;
    true
}

/// Writes a byte at `at`; `false` when it is outside.
#[inline]
pub fn set_u8(buffer: &mut [u8], at: usize, value: u8) -> bool {
    set(buffer, at, &[value])
}

/// Writes a 16-bit number at `at`; `false` (and no change) when it does not fit.
#[inline]
pub fn set_u16(buffer: &mut [u8], at: usize, value: u16) -> bool {
    set(buffer, at, &value.to_be_bytes())
}

/// Writes a 32-bit number at `at`; `false` (and no change) when it does not fit.
#[inline]
pub fn set_u32(buffer: &mut [u8], at: usize, value: u32) -> bool {
    set(buffer, at, &value.to_be_bytes())
}

/// Writes a 128-bit number at `at`; `false` (and no change) when it does not fit.
#[inline]
pub fn set_u128(buffer: &mut [u8], at: usize, value: u128) -> bool {
    set(buffer, at, &value.to_be_bytes())
}

/// Writes a MAC address at `at`; `false` (and no change) when it does not fit.
#[inline]
pub fn set_mac(buffer: &mut [u8], at: usize, value: Mac) -> bool {
    set(buffer, at, &value.0)
}

/// Writes `value` at `at`; `false` (and no change) when it does not fit.
#[inline]
pub fn set_slice(buffer: &mut [u8], at: usize, value: &[u8]) -> bool {
    let Some(place) = buffer.get_mut(at..).and_then(|rest| rest.get_mut(..value.len())) else { return false };
    place.copy_from_slice(value);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_got() {
        let mut buffer = [0_u8; 20];
        assert!(
            set_u8(&mut buffer, 0, 7)
                && set_u16(&mut buffer, 1, 0x0102)
                && set_u32(&mut buffer, 3, 0x0304_0506)
        );
        assert_eq!(buffer[..8], [7, 1, 2, 3, 4, 5, 6, 0]);
        assert_eq!(
            (get_u8(&buffer, 0), get_u16(&buffer, 1), get_u32(&buffer, 3)),
            (Some(7), Some(0x0102), Some(0x0304_0506))
        );
        assert!(set_u128(&mut buffer, 4, 9) && set_mac(&mut buffer, 0, Mac::BROADCAST));
        assert_eq!(
            (get_u128(&buffer, 4), get_mac(&buffer, 0)),
            (Some(0xffff << 112 | 9), Some(Mac::BROADCAST))
        );
    }

    #[test]
    fn outside_nothing_changes() {
        let mut buffer = [0_u8; 4];
        assert!(
            !set_u16(&mut buffer, 3, 1) && !set_u32(&mut buffer, 1, 1) && !set_u8(&mut buffer, usize::MAX, 1)
        );
        assert!(!set_slice(&mut buffer, 2, &[1, 2, 3]));
        assert_eq!(buffer, [0; 4]);
        assert_eq!((get_u16(&buffer, 3), get_u8(&buffer, 4)), (None, None));
    }
}
