//! Which endpoints are kept when there are more than a load balancer may have.
//!
//! Endpoints on this node come first; the rest is chosen by rendezvous hashing with the node's name as salt. So
//! every node keeps its own subset (together they spread over all endpoints), the choice depends on nothing but the
//! set, and when one endpoint comes or goes at most one other is swapped.
//!
//! The hash is fixed, because a change of it would reshuffle every cluster at an upgrade: FNV-1a (64 bits) over
//! the bytes of the node's name, combined with the address (IPv4 as its 4 bytes, IPv6 as its 16, big-endian, in
//! words of 64 bits, high word first) by one round of the SplitMix64 finaliser per word. Higher scores win; the
//! lower address wins a tie.

use std::cmp::Reverse;
use std::net::IpAddr;

/// The salt of a node.
pub(crate) fn salt(node: &str) -> u64 {
    node.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The score of an address on a node.
pub(crate) fn score(salt: u64, address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(v4) => mix(salt ^ u64::from(v4.to_bits())),
        IpAddr::V6(v6) => {
            let words = v6.segments().map(u64::from);
            let word = |w: &[u64]| w.iter().fold(0, |sum, part| sum << 16 | part);
            mix(mix(salt ^ word(&words[..4])) ^ word(&words[4..]))
        }
    }
}

/// The finaliser of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Splits `chosen` into at most `limit` that are kept and the rest. `key` tells address and locality.
pub(crate) fn keep<T>(
    mut chosen: Vec<T>,
    limit: usize,
    salt: u64,
    key: impl Fn(&T) -> (IpAddr, bool),
) -> (Vec<T>, Vec<T>) {
    if chosen.len() <= limit {
        return (chosen, Vec::new());
    }
    chosen.sort_by_cached_key(|item| {
        let (address, local) = key(item);
        (Reverse(local), Reverse(score(salt, address)), address)
    });
    let rest = chosen.split_off(limit);
    (chosen, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash must never change; these values hold it.
    #[test]
    fn the_hash_is_fixed() {
        assert_eq!(salt(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(salt("a"), 0xaf63_dc4c_8601_ec8c);
        // First output of SplitMix64 seeded with 0.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        let salt = salt("win-1");
        let score = |text: &str| score(salt, text.parse().expect("an address"));
        assert_eq!(score("10.244.1.5"), mix(salt ^ 0x0af4_0105));
        assert_eq!(score("2001:db8::7"), mix(mix(salt ^ 0x2001_0db8_0000_0000) ^ 7));
    }

    #[test]
    fn local_ones_come_first_and_nodes_differ() {
        let all: Vec<(IpAddr, bool)> =
            (1..=100u8).map(|i| (IpAddr::from([10, 0, 0, i]), i % 25 == 0)).collect();
        let kept = |node: &str| {
            let (mut kept, rest) = keep(all.clone(), 10, salt(node), |e| *e);
            assert_eq!(kept.len() + rest.len(), 100);
            assert_eq!(kept.iter().filter(|(_, local)| *local).count(), 4);
            kept.sort_unstable();
            kept
        };
        assert_eq!(kept("a"), kept("a"));
        assert_ne!(kept("a"), kept("b"));
    }
}
