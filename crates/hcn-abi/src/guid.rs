//! GUIDs in Windows' layout.

use hcn::Guid;

use crate::GUID;

/// How Windows holds this id in memory.
pub fn to_raw(id: Guid) -> GUID {
    GUID::from_u128(id.uuid().as_u128())
}

/// The id that Windows holds so.
pub fn from_raw(raw: &GUID) -> Guid {
    let tail = u64::from_be_bytes(raw.data4);
    Guid::from_u128(
        u128::from(raw.data1) << 96
            | u128::from(raw.data2) << 80
            | u128::from(raw.data3) << 64
            | u128::from(tail),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_windows_has_them_and_come_back() {
        let id = Guid::from_u128(0x0011_2233_4455_6677_8899_AABB_CCDD_EEFF);
        let raw = to_raw(id);
        assert_eq!((raw.data1, raw.data2, raw.data3), (0x0011_2233, 0x4455, 0x6677));
        assert_eq!(raw.data4, [0x88, 0x99, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF]);
        assert_eq!(from_raw(&raw), id);
        assert_eq!(size_of::<GUID>(), 16);
    }
}
