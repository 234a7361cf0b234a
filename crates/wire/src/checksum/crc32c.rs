//! CRC-32C (Castagnoli), which SCTP uses (RFC 9260 appendix A). Eight bytes a step, by tables made at compile time.

/// The polynomial 0x1EDC6F41, bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLES[k][b]` is the CRC of the byte `b` followed by `k` zero bytes.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    let mut number = 0_u32;
    while byte < 256 {
        let mut crc = number;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
        number += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[zeros - 1][byte];
            tables[zeros][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// The CRC-32C of several slices one after another. In a header it stands least significant byte first.
pub fn crc32c(parts: &[&[u8]]) -> u32 {
    !parts.iter().fold(!0, |crc, part| update(crc, part))
}

fn update(mut crc: u32, data: &[u8]) -> u32 {
    let (chunks, rest) = data.as_chunks::<8>();
    for &[b0, b1, b2, b3, b4, b5, b6, b7] in chunks {
        let [c0, c1, c2, c3] = crc.to_le_bytes();
        crc = TABLES[7][usize::from(b0 ^ c0)]
            ^ TABLES[6][usize::from(b1 ^ c1)]
            ^ TABLES[5][usize::from(b2 ^ c2)]
            ^ TABLES[4][usize::from(b3 ^ c3)]
            ^ TABLES[3][usize::from(b4)]
            ^ TABLES[2][usize::from(b5)]
            ^ TABLES[1][usize::from(b6)]
            ^ TABLES[0][usize::from(b7)];
    }
    for &byte in rest {
        crc = crc >> 8 ^ TABLES[0][usize::from(byte ^ crc.to_le_bytes()[0])];
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // RFC 3720 appendix B.4 and the usual check value.
        assert_eq!(crc32c(&[b"123456789"]), 0xe306_9283);
        assert_eq!(crc32c(&[&[0; 32]]), 0x8a91_36aa);
        assert_eq!(crc32c(&[&[0xff; 32]]), 0x62a8_ab43);
        assert_eq!(crc32c(&[]), 0);
    }

    #[test]
    fn parts_make_no_difference() {
        let data: Vec<u8> = (0..=255).collect();
        let whole = crc32c(&[&data]);
        for at in 0..data.len() {
            assert_eq!(crc32c(&[&data[..at], &data[at..]]), whole);
        }
    }
}
