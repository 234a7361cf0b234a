//! The one option of TCP that a switch may have to change: the maximum segment size of a connection that will be
//! put into a tunnel.

use crate::bytes;
use crate::checksum::adjust;
use crate::frame::{Ip, L4, TcpFlags};

/// The maximum segment size that a SYN announces.
pub fn mss(frame: &[u8], ip: &Ip) -> Option<u16> {
    bytes::get_u16(frame, place(frame, ip)?)
}

/// Lowers the maximum segment size of a SYN to at most `most`; `false` when nothing had to change.
pub fn clamp_mss(frame: &mut [u8], ip: &Ip, most: u16) -> bool {
    let Some(at) = place(frame, ip) else { return false };
    let (Some(old), Some(checksum)) = (bytes::get_u16(frame, at), bytes::get_u16(frame, ip.l4_offset() + 16))
    else {
        return false;
    };
    if old <= most {
        return false;
    }
    // Behind a no-operation the field lies across two words of the sum: each byte counts as the other half.
    let odd = (at - ip.l4_offset()) % 2 == 1;
    let (was, is) = if odd { (old.swap_bytes(), most.swap_bytes()) } else { (old, most) };
    bytes::set_u16(frame, at, most) && bytes::set_u16(frame, ip.l4_offset() + 16, adjust(checksum, was, is))
}

/// Where the value is in the frame.
fn place(frame: &[u8], ip: &Ip) -> Option<usize> {
    let L4::Tcp { flags, .. } = ip.l4 else { return None };
    if !flags.contains(TcpFlags::SYN) {
        return None;
    }
    let start = ip.l4_offset() + 20;
    let options = frame.get(start..ip.payload_offset())?;
    let mut at = 0;
    // Ends at the latest behind the 40 bytes that options can have: every step goes on by at least one.
    loop {
        at += match (*options.get(at)?, options.get(at + 1)) {
            (0, _) => return None,
            (1, _) => 1,
            (2, Some(4)) => return (at + 4 <= options.len()).then_some(start + at + 2),
            (_, Some(&length)) if length >= 2 => usize::from(length),
            _ => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::FrameBuilder;
    use crate::{Mac, checksum, parse};

    fn clamped(flags: TcpFlags, options: &[u8], most: u16) -> (bool, Option<u16>) {
        let mut frame = FrameBuilder::eth(Mac([2; 6]), Mac([4; 6]))
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2])
            .tcp(1, 2, flags)
            .tcp_options(options)
            .build();
        let ip = *parse(&frame).unwrap().ip().unwrap();
        let changed = clamp_mss(&mut frame, &ip, most);
        checksum::verify(&frame).unwrap();
        (changed, mss(&frame, &ip))
    }

    #[test]
    fn a_larger_one_is_lowered_at_even_and_odd_places() {
        let syn = TcpFlags::SYN | TcpFlags::ACK;
        assert_eq!(clamped(syn, &[2, 4, 5, 180], 1410), (true, Some(1410)));
        assert_eq!(clamped(syn, &[1, 2, 4, 5, 180], 1410), (true, Some(1410)));
        assert_eq!(clamped(syn, &[4, 2, 3, 3, 7, 2, 4, 5, 180], 0x1234), (false, Some(1460)));
        assert_eq!(clamped(syn, &[4, 2, 3, 3, 7, 2, 4, 255, 254], 0x1234), (true, Some(0x1234)));
    }

    #[test]
    fn all_else_stays() {
        assert_eq!(clamped(TcpFlags::ACK, &[2, 4, 5, 180], 1410), (false, None));
        for options in
            [&[][..], &[0, 2, 4, 5, 180], &[3, 0, 2, 4, 5, 180], &[1, 1, 1, 2], &[9, 200], &[2, 3, 5, 1]]
        {
            assert_eq!(clamped(TcpFlags::SYN, options, 1), (false, None), "{options:?}");
        }
    }
}
