//! How a load balancer chooses a destination: rendezvous hashing.
//!
//! What VFP hashes with is not public. Here each destination scores `mix(hash(input), hash(destination))` and the
//! highest score wins, so that a destination that goes away moves only the flows that it had, one that comes takes
//! an equal share from each of the others, and the order of the list does not matter.
//!
//! [`LbChoice::Modulo`] takes `hash(input)` modulo the number of destinations instead, for those who want to see what a
//! plain hash does to connections.
//!
//! - input, by [`Distribution`]: source and destination address, both ports and protocol; or source address and
//!   protocol; or source address.
//! - `fold(a, b)`: the 128-bit product of two 64-bit numbers, upper half XOR lower half.
//! - an address is two 64-bit words, big-endian, high word first; of IPv4 the high word is 0.
//! - `hash` starts at `seed ^ 0x9E3779B97F4A7C15`; for each word `w`: `h = fold(h ^ w, 0xD6E8FEB86659FD93)`.
//!   Words: source (2) [, protocol (1)] or source (2), destination (2), `sport << 32 | dport << 16 | protocol` (1).
//! - a destination hashes, with seed 0, as address (2) and port (1; 0 when the port is kept).
//! - `mix(a, b) = fold(a ^ b, 0xA0761D6478BD642F ^ b)`; of equal scores the lower address and port wins.

use std::net::IpAddr;

use crate::flow::key::fold;
use crate::model::{Dip, Distribution, LbChoice};
use crate::view::View;

const START: u64 = 0x9E37_79B9_7F4A_7C15;
const STEP: u64 = 0xD6E8_FEB8_6659_FD93;
const MIX: u64 = 0xA076_1D64_78BD_642F;

fn words(address: IpAddr) -> [u64; 2] {
    match address {
        IpAddr::V4(v4) => [0, u64::from(u32::from(v4))],
        IpAddr::V6(v6) => {
            let bits = u128::from(v6);
            #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
            [(bits >> 64) as u64, bits as u64]
        }
    }
}

fn hash(seed: u64, words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(seed ^ START, |hash, word| fold(hash ^ word, STEP))
}

/// The hash of a destination, to be kept beside it.
pub(crate) fn of_dip(dip: &Dip) -> u64 {
    let [high, low] = words(dip.address);
    hash(0, [high, low, u64::from(dip.port.unwrap_or(0))])
}

/// The hash of a packet.
pub(crate) fn of_packet(view: &View, distribution: Distribution, seed: u64) -> u64 {
    let [high, low] = words(view.source);
    match distribution {
        Distribution::Source => hash(seed, [high, low]),
        Distribution::SourceProtocol => hash(seed, [high, low, u64::from(view.protocol)]),
        Distribution::FiveTuple => {
            let [to_high, to_low] = words(view.destination);
            let tail = u64::from(view.source_port) << 32
                | u64::from(view.destination_port) << 16
                | u64::from(view.protocol);
            hash(seed, [high, low, to_high, to_low, tail])
        }
    }
}

/// The score of a destination for a packet.
pub(crate) fn score(packet: u64, dip: u64) -> u64 {
    fold(packet ^ dip, MIX ^ dip)
}

/// Which destination a packet goes to. `hashes` are those of `dips`.
pub(crate) fn pick(how: LbChoice, packet: u64, dips: &[Dip], hashes: &[u64]) -> Option<usize> {
    if how == LbChoice::Modulo {
        // Of no destinations none is chosen.
        let index = packet.checked_rem(dips.len() as u64)?;
        return usize::try_from(index).ok();
    }
    let rank = |&index: &usize| {
        let dip = &dips[index];
        (score(packet, hashes[index]), std::cmp::Reverse((dip.address, dip.port)))
    };
    (0..dips.len().min(hashes.len())).max_by_key(rank)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn dips(count: u8) -> Vec<Dip> {
        (1..=count)
            .map(|last| Dip { address: IpAddr::from([10, 50, 1, last]), port: Some(8080), mac: None })
            .collect()
    }

    fn choose(packet: u64, dips: &[Dip]) -> &Dip {
        let hashes: Vec<u64> = dips.iter().map(of_dip).collect();
        &dips[pick(LbChoice::Rendezvous, packet, dips, &hashes).unwrap()]
    }

    proptest! {
        /// Only the flows of the one that left move; the order of the list does not matter.
        #[test]
        fn few_flows_move(packets in proptest::collection::vec(any::<u64>(), 200), count in 2..40_u8, gone in any::<prop::sample::Index>()) {
            let all = dips(count);
            let gone = gone.index(all.len());
            let mut left = all.clone();
            left.remove(gone);
            left.reverse();
            for packet in packets {
                let before = choose(packet, &all);
                let after = choose(packet, &left);
                if *before != all[gone] {
                    prop_assert_eq!(before, after);
                }
            }
        }
    }

    #[test]
    fn modulo_goes_by_the_order_of_the_list() {
        let all = dips(3);
        let hashes: Vec<u64> = all.iter().map(of_dip).collect();
        let chosen: Vec<Option<usize>> =
            (0..4).map(|packet| pick(LbChoice::Modulo, packet, &all, &hashes)).collect();
        assert_eq!(chosen, [Some(0), Some(1), Some(2), Some(0)]);
        assert_eq!(pick(LbChoice::Modulo, 7, &[], &[]), None);
        assert_eq!(pick(LbChoice::Rendezvous, 7, &[], &[]), None);
    }

    #[test]
    fn every_destination_gets_its_share() {
        let all = dips(10);
        let mut counts = [0_u32; 10];
        for packet in 0..10_000_u64 {
            let dip = choose(hash(3, [packet]), &all);
            let index = all.iter().position(|other| other == dip).unwrap();
            counts[index] += 1;
        }
        // 1,000 each are expected, with a standard deviation of 30.
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    /// Clients of one network and destinations of another, one behind the other as they are given out.
    #[test]
    fn neighbours_spread() {
        let all = dips(10);
        for client in [0x0100_000a_u32, 0x0a32_0200] {
            let mut counts = [0_u32; 10];
            for number in 0..10_000 {
                let dip = choose(hash(0, [0, u64::from(client + number)]), &all);
                counts[all.iter().position(|other| other == dip).unwrap()] += 1;
            }
            assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        }
    }

    /// Values computed from the module's description; a change breaks the affinity of running clusters.
    #[test]
    fn the_hash_is_the_documented_one() {
        fn reference(words: &[u64], seed: u64) -> u64 {
            let mut h = seed ^ 0x9E37_79B9_7F4A_7C15;
            for word in words {
                let product = u128::from(h ^ word) * 0xD6E8_FEB8_6659_FD93_u128;
                h = u64::try_from(product & u128::from(u64::MAX)).unwrap()
                    ^ u64::try_from(product >> 64).unwrap();
            }
            h
        }
        let dip = &dips(1)[0];
        assert_eq!(of_dip(dip), reference(&[0, 0x0A32_0101, 8080], 0));
    }
}
