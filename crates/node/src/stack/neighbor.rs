//! Neighbours: which MAC an address on a link has, what waits for one, and when asking is given up. The asking
//! itself, with ARP or neighbour discovery, is the stack's.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use wire::Mac;

/// How often a neighbour is asked for before it counts as unreachable.
const TRIES: u32 = 3;
/// Between two questions.
const RETRY: Duration = Duration::from_secs(1);
/// How long an answer is believed.
const REACHABLE: Duration = Duration::from_mins(5);
/// How long a failure is believed.
const FAILED: Duration = Duration::from_secs(1);
/// How many packets wait for one neighbour; the oldest goes first.
const WAITING: usize = 64;
/// How many neighbours are remembered; one that is known longest makes room.
const MOST: usize = 4096;

/// A neighbour: an address on the link of an interface.
pub(super) type Key = (usize, IpAddr);

#[derive(Debug)]
enum State {
    Static(Mac),
    Reachable { mac: Mac, until: Duration },
    Asking { tries: u32, next: Duration, waiting: Vec<Vec<u8>> },
    Failed { until: Duration },
}

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Its MAC.
    Mac(Mac),
    /// It was just asked for the first time: a question must be sent.
    Ask,
    /// It is being asked for.
    Asking,
    /// Nobody answers.
    Failed,
}

/// What comes out of a timer.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// Questions to be repeated.
    pub(super) ask: Vec<Key>,
    /// Packets that cannot be delivered.
    pub(super) failed: Vec<Vec<u8>>,
}

/// The neighbours of one stack.
#[derive(Debug, Default)]
pub(super) struct Neighbors {
    table: BTreeMap<Key, State>,
    /// Counts answers and failures, so that others see that there was one.
    settled: u64,
}

impl Neighbors {
    /// A neighbour that is never asked for.
    pub(super) fn pin(&mut self, key: Key, mac: Mac) {
        self.table.insert(key, State::Static(mac));
    }

    /// What is known; an unknown one begins to be asked for.
    pub(super) fn resolve(&mut self, now: Duration, key: Key) -> Known {
        match self.table.get(&key) {
            Some(State::Static(mac)) => return Known::Mac(*mac),
            Some(State::Reachable { mac, until }) if now < *until => return Known::Mac(*mac),
            Some(State::Asking { .. }) => return Known::Asking,
            Some(State::Failed { until }) if now < *until => return Known::Failed,
            _ => {}
        }
        self.make_room();
        self.table.insert(key, State::Asking { tries: 1, next: now + RETRY, waiting: Vec::new() });
        Known::Ask
    }

    fn make_room(&mut self) {
        if self.table.len() < MOST {
            return;
        }
        let oldest = self
            .table
            .iter()
            .filter_map(|(key, state)| match state {
                State::Reachable { until, .. } | State::Failed { until } => Some((*until, *key)),
                _ => None,
            })
            .min();
        if let Some((_, key)) = oldest {
            self.table.remove(&key);
        }
    }

    /// A packet waits for a neighbour that is being asked for. The packet that found no room comes back.
    pub(super) fn wait(&mut self, key: Key, frame: Vec<u8>) -> Option<Vec<u8>> {
        let Some(State::Asking { waiting, .. }) = self.table.get_mut(&key) else { return Some(frame) };
        waiting.push(frame);
        (waiting.len() > WAITING).then(|| waiting.remove(0))
    }

    /// A neighbour says its MAC. `learn`: it is remembered even if nobody asked. What waited for it comes back.
    pub(super) fn heard(&mut self, now: Duration, key: Key, mac: Mac, learn: bool) -> Vec<Vec<u8>> {
        let fresh = State::Reachable { mac, until: now + REACHABLE };
        match self.table.get_mut(&key) {
            Some(State::Static(_)) => Vec::new(),
            Some(state) => {
                let old = std::mem::replace(state, fresh);
                match old {
                    State::Asking { waiting, .. } => {
                        self.settled += 1;
                        waiting
                    }
                    _ => Vec::new(),
                }
            }
            None => {
                if learn {
                    self.make_room();
                    self.table.insert(key, fresh);
                }
                Vec::new()
            }
        }
    }

    /// What is due by now.
    pub(super) fn due(&mut self, now: Duration) -> Due {
        let mut due = Due::default();
        for (key, state) in &mut self.table {
            let State::Asking { tries, next, waiting } = state else { continue };
            if *next > now {
                continue;
            }
            if *tries < TRIES {
                *tries += 1;
                *next = now + RETRY;
                due.ask.push(*key);
            } else {
                due.failed.append(waiting);
                *state = State::Failed { until: now + FAILED };
                self.settled += 1;
            }
        }
        due
    }

    /// When [`due`](Self::due) has something next.
    pub(super) fn next_timer(&self) -> Option<Duration> {
        self.table
            .values()
            .filter_map(|state| match state {
                State::Asking { next, .. } => Some(*next),
                _ => None,
            })
            .min()
    }

    /// A number that grows with every answer and failure.
    pub(super) fn settled(&self) -> u64 {
        self.settled
    }

    /// The neighbours whose MAC is known.
    pub(super) fn known(&self) -> impl Iterator<Item = (Key, Mac)> {
        self.table.iter().filter_map(|(key, state)| match state {
            State::Static(mac) | State::Reachable { mac, .. } => Some((*key, *mac)),
            _ => None,
        })
    }

    /// Everything that was learnt is forgotten.
    pub(super) fn flush(&mut self) {
        self.table.retain(|_, state| matches!(state, State::Static(_)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

    fn key() -> Key {
        (0, "192.0.2.1".parse().unwrap())
    }

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn an_answer_frees_what_waits() {
        let mut table = Neighbors::default();
        assert_eq!(table.resolve(secs(0), key()), Known::Ask);
        assert_eq!(table.resolve(secs(0), key()), Known::Asking);
        assert_eq!(table.wait(key(), vec![1]), None);
        assert_eq!(table.heard(secs(1), key(), MAC, false), [vec![1]]);
        assert_eq!(table.resolve(secs(2), key()), Known::Mac(MAC));
        assert_eq!(table.settled(), 1);
        assert_eq!(table.resolve(secs(1000), key()), Known::Ask, "an old answer is asked for again");
    }

    #[test]
    fn silence_is_given_up_after_three_questions() {
        let mut table = Neighbors::default();
        table.resolve(secs(0), key());
        table.wait(key(), vec![1]);
        for second in 1..3 {
            assert_eq!(table.next_timer(), Some(secs(second)));
            assert_eq!(table.due(secs(second)).ask, [key()]);
        }
        let due = table.due(secs(3));
        assert_eq!((due.ask.len(), due.failed), (0, vec![vec![1]]));
        assert_eq!(table.resolve(secs(3), key()), Known::Failed);
        assert_eq!(table.resolve(secs(4), key()), Known::Ask);
        assert_eq!(table.wait((1, key().1), vec![2]), Some(vec![2]), "nobody asks for that one");
    }

    #[test]
    fn the_queue_is_bounded_and_pinned_neighbours_stay() {
        let mut table = Neighbors::default();
        table.resolve(secs(0), key());
        for n in 0..WAITING {
            assert_eq!(table.wait(key(), vec![u8::try_from(n).unwrap()]), None);
        }
        assert_eq!(table.wait(key(), vec![99]), Some(vec![0]));
        table.pin(key(), MAC);
        table.flush();
        assert!(table.heard(secs(0), key(), Mac::BROADCAST, true).is_empty());
        assert_eq!(table.resolve(secs(9), key()), Known::Mac(MAC));
        assert_eq!(table.known().count(), 1);
    }
}
