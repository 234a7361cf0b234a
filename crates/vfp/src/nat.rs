//! NAT pools: ports of an address that are lent to connections.
//!
//! A port may serve several connections as long as their remotes differ and the range's reuse count allows; ports
//! that serve none are taken first, from a place that depends on the connection, so that a port just given back is
//! seldom the next one taken.

use std::net::IpAddr;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use uuid::Uuid;

use crate::model::{PoolKey, PoolRange, PoolSpec};

/// A port lent to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) pool: PoolKey,
    pub(crate) protocol: u8,
    /// The end that was translated.
    pub(crate) inner: (IpAddr, u16),
    /// What stands in its place.
    pub(crate) outer: (IpAddr, u16),
    /// The other end.
    pub(crate) remote: (IpAddr, u16),
    /// The flow that has it: pair and family (IPv6).
    pub(crate) flow: Option<(u32, bool)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) key: PoolKey,
    pub(crate) name: Arc<str>,
    pub(crate) protocol: u8,
    pub(crate) owner: Uuid,
    pub(crate) ranges: Vec<PoolRange>,
    /// Connections on each port.
    uses: FxHashMap<(IpAddr, u16), u32>,
    taken: FxHashSet<(IpAddr, u16, IpAddr, u16)>,
    /// The port of a UDP socket, for those that keep it towards every remote.
    sockets: FxHashMap<(IpAddr, u16), ((IpAddr, u16), u32)>,
    pub(crate) in_use: u32,
    pub(crate) exhausted: u64,
}

/// What a connection asks of a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) inner: (IpAddr, u16),
    pub(crate) remote: (IpAddr, u16),
    /// The same port for every remote of a socket.
    pub(crate) reuse_socket: bool,
    pub(crate) hash: u64,
}

impl Pool {
    pub(crate) fn new(spec: &PoolSpec) -> Self {
        Self {
            key: spec.key.clone(),
            name: Arc::clone(&spec.name),
            protocol: spec.protocol,
            owner: spec.owner,
            ranges: spec.ranges.clone(),
            uses: FxHashMap::default(),
            taken: FxHashSet::default(),
            sockets: FxHashMap::default(),
            in_use: 0,
            exhausted: 0,
        }
    }

    /// Other ranges; bindings stay as they are, also those whose port is no longer in a range: they end with their
    /// flows.
    pub(crate) fn set(&mut self, spec: &PoolSpec) {
        self.name = Arc::clone(&spec.name);
        self.protocol = spec.protocol;
        self.owner = spec.owner;
        self.ranges.clone_from(&spec.ranges);
    }

    /// How many ports it has.
    pub(crate) fn size(&self) -> u32 {
        self.ranges
            .iter()
            .fold(0, |sum: u32, range| sum.saturating_add(u32::from(range.last - range.first) + 1))
    }

    /// Whether a port lies in one of its ranges.
    pub(crate) fn gives(&self, (address, port): (IpAddr, u16)) -> bool {
        self.ranges.iter().any(|range| range.address == address && (range.first..=range.last).contains(&port))
    }

    /// Lends a port of an address of the right family.
    pub(crate) fn take(&mut self, ask: &Ask) -> Option<(IpAddr, u16)> {
        if ask.reuse_socket
            && let Some((outer, count)) = self.sockets.get_mut(&ask.inner)
        {
            let outer = *outer;
            if self.taken.insert((outer.0, outer.1, ask.remote.0, ask.remote.1)) {
                *count += 1;
                *self.uses.entry(outer).or_default() += 1;
                self.in_use += 1;
                return Some(outer);
            }
        }
        let Some(outer) = self.choose(ask, true).or_else(|| self.choose(ask, false)) else {
            self.exhausted += 1;
            return None;
        };
        self.taken.insert((outer.0, outer.1, ask.remote.0, ask.remote.1));
        *self.uses.entry(outer).or_default() += 1;
        self.in_use += 1;
        if ask.reuse_socket {
            self.sockets.entry(ask.inner).and_modify(|(_, count)| *count += 1).or_insert((outer, 1));
        }
        Some(outer)
    }

    fn choose(&self, ask: &Ask, unused: bool) -> Option<(IpAddr, u16)> {
        let fits = |range: &&PoolRange| range.address.is_ipv4() == ask.remote.0.is_ipv4();
        let size: u64 =
            self.ranges.iter().filter(fits).map(|range| u64::from(range.last - range.first) + 1).sum();
        if size == 0 || unused && self.uses.len() as u64 >= size && self.uses.values().all(|&uses| uses > 0) {
            return None;
        }
        let start = ask.hash % size;
        (0..size).find_map(|step| {
            let mut at = (start + step) % size;
            for range in self.ranges.iter().filter(fits) {
                let length = u64::from(range.last - range.first) + 1;
                if at >= length {
                    at -= length;
                    continue;
                }
                let port = range.first + u16::try_from(at).ok()?;
                let outer = (range.address, port);
                let uses = self.uses.get(&outer).copied().unwrap_or(0);
                let free = if unused { uses == 0 } else { uses < range.reuse.max(1) };
                return (free && !self.taken.contains(&(outer.0, outer.1, ask.remote.0, ask.remote.1)))
                    .then_some(outer);
            }
            None
        })
    }

    /// Whether the port of a connection could be lent to another one, were the former over: it must not serve the same
    /// remote for somebody else.
    pub(crate) fn would_serve(&self, binding: &Binding, ask: &Ask) -> bool {
        let (address, port) = binding.outer;
        self.gives(binding.outer)
            && address.is_ipv4() == ask.remote.0.is_ipv4()
            && (binding.remote == ask.remote
                || !self.taken.contains(&(address, port, ask.remote.0, ask.remote.1)))
    }

    /// Takes a lent port back.
    pub(crate) fn give_back(&mut self, binding: &Binding) {
        let (outer, remote) = (binding.outer, binding.remote);
        if !self.taken.remove(&(outer.0, outer.1, remote.0, remote.1)) {
            return;
        }
        self.in_use = self.in_use.saturating_sub(1);
        if let Some(uses) = self.uses.get_mut(&outer) {
            *uses -= 1;
            if *uses == 0 {
                self.uses.remove(&outer);
            }
        }
        if let Some((kept, count)) = self.sockets.get_mut(&binding.inner)
            && *kept == outer
        {
            *count -= 1;
            if *count == 0 {
                self.sockets.remove(&binding.inner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(reuse: u32) -> Pool {
        let address = IpAddr::from([192, 0, 2, 11]);
        Pool::new(&PoolSpec {
            key: PoolKey("p".into()),
            name: "p".into(),
            protocol: 6,
            owner: Uuid::nil(),
            ranges: vec![
                PoolRange { address, first: 50_000, last: 50_001, reuse },
                PoolRange { address, first: 60_000, last: 60_000, reuse },
            ],
        })
    }

    fn ask(client: u16, remote: u16) -> Ask {
        Ask {
            inner: (IpAddr::from([10, 0, 0, 1]), client),
            remote: (IpAddr::from([203, 0, 113, 9]), remote),
            reuse_socket: false,
            hash: u64::from(client),
        }
    }

    fn binding(pool: &Pool, ask: &Ask, outer: (IpAddr, u16)) -> Binding {
        Binding {
            pool: pool.key.clone(),
            protocol: 6,
            inner: ask.inner,
            outer,
            remote: ask.remote,
            flow: None,
        }
    }

    #[test]
    fn each_connection_gets_a_port_of_its_own_until_none_is_left() {
        let mut pool = fresh(1);
        let mut ports: Vec<u16> = (1..=3).map(|client| pool.take(&ask(client, 443)).unwrap().1).collect();
        ports.sort_unstable();
        assert_eq!(ports, [50_000, 50_001, 60_000]);
        assert_eq!(pool.take(&ask(4, 443)), None);
        assert_eq!((pool.in_use, pool.exhausted, pool.size()), (3, 1, 3));
        let first = ask(1, 443);
        let outer = (IpAddr::from([192, 0, 2, 11]), ports[0]);
        // Whoever had it: the port is free for the next one, once.
        for client in 1..=3 {
            pool.give_back(&binding(&pool, &ask(client, 443), outer));
        }
        assert_eq!(pool.in_use, 2);
        assert_eq!(pool.take(&first), Some(outer));
    }

    #[test]
    fn a_port_serves_several_remotes_but_never_one_twice() {
        let mut pool = fresh(2);
        let mut seen = FxHashSet::default();
        for client in 0..6 {
            let outer = pool.take(&ask(client, 443 + client)).unwrap();
            assert!(seen.insert((outer, 443 + client)));
        }
        assert_eq!(pool.take(&ask(9, 9)), None, "three ports, each used twice");
        let mut pool = fresh(8);
        for client in 0..3 {
            assert!(pool.take(&ask(client, 443)).is_some());
        }
        assert_eq!(pool.take(&ask(3, 443)), None, "no port is left for this remote");
    }

    #[test]
    fn a_udp_socket_keeps_its_port() {
        let mut pool = fresh(4);
        let one = Ask { reuse_socket: true, ..ask(1, 53) };
        let two = Ask { reuse_socket: true, ..ask(1, 54) };
        let outer = pool.take(&one).unwrap();
        assert_eq!(pool.take(&two), Some(outer));
        pool.give_back(&binding(&pool, &one, outer));
        pool.give_back(&binding(&pool, &two, outer));
        assert_eq!(pool.in_use, 0);
        assert!(pool.sockets.is_empty() && pool.uses.is_empty() && pool.taken.is_empty());
    }
}
