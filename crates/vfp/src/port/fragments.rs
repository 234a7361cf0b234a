//! The ports of fragmented packets, from the first fragment to the later ones.

use std::collections::VecDeque;
use std::net::IpAddr;

use rustc_hash::FxHashMap;

/// What fragments of one packet have in common: addresses, identification, protocol, direction and tunnel.
pub(crate) type FragmentKey = (IpAddr, IpAddr, u32, u8, u8, u16);

#[derive(Default)]
pub(crate) struct Fragments {
    ports: FxHashMap<FragmentKey, (u16, u16, u32)>,
    order: VecDeque<(FragmentKey, u32)>,
}

impl Fragments {
    /// Remembers a first fragment's ports until `until`, at most `limit` packets at once.
    pub(crate) fn remember(&mut self, key: FragmentKey, ports: (u16, u16), now: u32, until: u32, limit: u32) {
        self.expire(now);
        while self.ports.len() >= limit.max(1) as usize {
            let Some((oldest, _)) = self.order.pop_front() else { break };
            self.ports.remove(&oldest);
        }
        self.ports.insert(key, (ports.0, ports.1, until));
        self.order.push_back((key, until));
    }

    /// The ports of a later fragment.
    pub(crate) fn ports(&mut self, key: &FragmentKey, now: u32) -> Option<(u16, u16)> {
        self.expire(now);
        self.ports.get(key).map(|&(from, to, _)| (from, to))
    }

    fn expire(&mut self, now: u32) {
        while let Some(&(key, until)) = self.order.front()
            && now.wrapping_sub(until).cast_signed() >= 0
        {
            self.order.pop_front();
            // A newer packet may have the same identification.
            if self.ports.get(&key).is_some_and(|&(_, _, other)| other == until) {
                self.ports.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_forgotten_in_time_and_number() {
        let key = |id| (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]), id, 17, 0, 0);
        let mut fragments = Fragments::default();
        fragments.remember(key(1), (1, 2), 0, 100, 2);
        fragments.remember(key(2), (3, 4), 50, 150, 2);
        assert_eq!(fragments.ports(&key(1), 99), Some((1, 2)));
        assert_eq!(fragments.ports(&key(1), 100), None);
        fragments.remember(key(3), (5, 6), 100, 200, 2);
        fragments.remember(key(4), (7, 8), 100, 200, 2);
        assert_eq!(fragments.ports(&key(2), 101), None, "the oldest made room");
        assert_eq!(fragments.ports(&key(3), 101), Some((5, 6)));
    }
}
