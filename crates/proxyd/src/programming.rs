//! How long it takes from a change of endpoints to HNS: the time that a slice says its change was triggered at, until a pass has
//! left all of the Service's frontends programmed. A change that was made before the process knew everything is not counted: it
//! would measure the start, not the network.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use services::{IpFamily, ServiceKey};

/// How many changes of one Service are remembered; the oldest count.
const MOST: usize = 16;

/// Changes that wait to be programmed.
#[derive(Debug, Default)]
pub struct Programming {
    waiting: BTreeMap<ServiceKey, Vec<(IpFamily, SystemTime)>>,
    counts: bool,
}

impl Programming {
    /// From now on changes count.
    pub fn begin(&mut self) {
        self.counts = true;
    }

    /// Endpoints of a family changed.
    pub fn changed(&mut self, service: &ServiceKey, family: IpFamily, triggered: SystemTime) {
        if !self.counts {
            return;
        }
        let waiting = self.waiting.entry(service.clone()).or_default();
        if waiting.len() < MOST && !waiting.contains(&(family, triggered)) {
            waiting.push((family, triggered));
        }
    }

    /// A Service is wholly programmed, or gone: how long each of its changes took.
    pub fn done(&mut self, service: &ServiceKey, now: SystemTime) -> Vec<(IpFamily, Duration)> {
        let done = self.waiting.remove(service).unwrap_or_default();
        // A clock of another machine may be ahead of this one.
        done.into_iter()
            .map(|(family, triggered)| (family, now.duration_since(triggered).unwrap_or_default()))
            .collect()
    }

    /// The Services that have changes waiting.
    pub fn services(&self) -> impl Iterator<Item = &ServiceKey> {
        self.waiting.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_count_from_the_start_on_and_once() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let (web, db) = (ServiceKey::new("shop", "web"), ServiceKey::new("shop", "db"));
        let mut programming = Programming::default();
        programming.changed(&web, IpFamily::V4, at(1));
        assert!(programming.done(&web, at(9)).is_empty());
        programming.begin();
        for triggered in [2, 3, 3] {
            programming.changed(&web, IpFamily::V4, at(triggered));
        }
        programming.changed(&db, IpFamily::V6, at(20));
        assert_eq!(programming.services().count(), 2);
        assert_eq!(
            programming.done(&web, at(9)),
            [(IpFamily::V4, Duration::from_secs(7)), (IpFamily::V4, Duration::from_secs(6))]
        );
        assert!(programming.done(&web, at(9)).is_empty());
        assert_eq!(programming.done(&db, at(9)), [(IpFamily::V6, Duration::ZERO)]);
    }
}
