//! Tagging and untagging in place.

use crate::frame::{VlanTag, ethertype};
use crate::{Packet, bytes};

/// Puts a tag into a frame, or replaces the one that is there. `false`, and no change, when there is no Ethernet
/// header. Allocates only when there is a tag to add and no headroom.
#[inline]
pub fn set(packet: &mut Packet, tag: VlanTag) -> bool {
    let Some(kind) = bytes::get_u16(packet.data(), 12) else { return false };
    if kind == ethertype::VLAN {
        return bytes::set_u16(packet.data_mut(), 14, tag.bits());
    }
    packet.push_or_grow(4);
    let frame = packet.data_mut();
    frame.copy_within(4..16, 0);
    bytes::set_u16(frame, 12, ethertype::VLAN) && bytes::set_u16(frame, 14, tag.bits())
}

/// Takes the outermost tag out of a frame; `None`, and no change, when there is none.
#[inline]
pub fn clear(packet: &mut Packet) -> Option<VlanTag> {
    let frame = packet.data_mut();
    // A tag without the ethertype behind it is left to the parse to refuse.
    let &[kind_high, kind_low, high, low, _, _] = bytes::get::<6>(frame, 12)?;
    if u16::from_be_bytes([kind_high, kind_low]) != ethertype::VLAN {
        return None;
    }
    frame.copy_within(..12, 4);
    packet.pull(4).then(|| VlanTag::from_bits(u16::from_be_bytes([high, low])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mac;
    use crate::build::FrameBuilder;

    #[test]
    fn a_tag_goes_in_and_out() {
        let builder =
            FrameBuilder::eth(Mac([2; 6]), Mac([4; 6])).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 2);
        let mut packet = Packet::with_headroom(0, &builder.clone().build());
        assert_eq!(clear(&mut packet), None);
        let tag = VlanTag { id: 4095, pcp: 7, dei: true };
        assert!(set(&mut packet, VlanTag::new(3)) && set(&mut packet, tag));
        assert_eq!(packet.data(), builder.clone().tag(Some(tag)).build());
        assert_eq!(clear(&mut packet), Some(tag));
        assert_eq!(packet.data(), builder.build());
    }

    #[test]
    fn what_is_no_frame_stays() {
        for bytes in [&[0; 13][..], &[0x81; 13]] {
            let mut packet = Packet::new(bytes);
            assert!(!set(&mut packet, VlanTag::new(3)));
            assert_eq!((clear(&mut packet), packet.data()), (None, bytes));
        }
    }
}
