//! What is known of the API from outside, at any moment, without waiting for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hcn::time::Clock;
use parking_lot::Mutex;
use serde::Serialize;

/// The kinds of object that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Resource {
    /// Services that a proxy serves.
    Services,
    /// The endpoint slices of Services that are not headless.
    EndpointSlices,
    /// The own Node.
    Node,
    /// The ranges of cluster IPs, where they are served.
    ServiceCidrs,
}

impl Resource {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Services, Self::EndpointSlices, Self::Node, Self::ServiceCidrs];

    /// As in the API's paths.
    pub fn name(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::EndpointSlices => "endpointslices",
            Self::Node => "nodes",
            Self::ServiceCidrs => "servicecidrs",
        }
    }

    /// Whether nothing may be programmed before all of its objects are known.
    pub fn is_needed(self) -> bool {
        matches!(self, Self::Services | Self::EndpointSlices)
    }
}

/// What a watch is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nothing was read yet.
    #[default]
    Starting,
    /// All objects are being read.
    Listing,
    /// Changes are followed.
    Watching,
    /// The last request failed; it is tried again.
    Failing,
    /// The server does not have this kind.
    NotServed,
}

/// What is known of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResourceStatus {
    /// What the watch is at.
    pub state: State,
    /// Since when, in the clock's time.
    pub since: Duration,
    /// Whether all objects were known once: what is known may be old, but it is whole.
    pub synced: bool,
    /// How many there are.
    pub objects: usize,
    /// How often all of them were read.
    pub lists: u64,
    /// How many changes came.
    pub events: u64,
    /// How many requests failed.
    pub failures: u64,
    /// Objects that could not be taken.
    pub refused: u64,
    /// The last failure, as long as it goes on.
    pub error: Option<String>,
}

/// What is known of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Status {
    /// By kind.
    pub resources: BTreeMap<Resource, ResourceStatus>,
}

impl Status {
    /// Whether everything is known that must be before anything is programmed.
    pub fn is_synced(&self) -> bool {
        Resource::ALL
            .into_iter()
            .filter(|resource| resource.is_needed())
            .all(|resource| self.resources.get(&resource).is_some_and(|status| status.synced))
    }

    /// Since when something that is needed cannot be followed, in the clock's time; none: all is followed.
    pub fn outage(&self) -> Option<Duration> {
        let failing = |status: &&ResourceStatus| status.state == State::Failing;
        self.resources.values().filter(failing).map(|status| status.since).min()
    }
}

/// A [`Status`] that watches write and others read.
#[derive(Clone)]
pub struct Board {
    status: Arc<Mutex<Status>>,
    clock: Arc<dyn Clock>,
}

impl Board {
    /// Nothing is known.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { status: Arc::default(), clock }
    }

    /// What is known now.
    pub fn read(&self) -> Status {
        self.status.lock().clone()
    }

    /// Changes what is known of a kind; a new state begins now.
    pub(crate) fn note(&self, resource: Resource, change: impl FnOnce(&mut ResourceStatus)) {
        let now = self.clock.now();
        let mut status = self.status.lock();
        let entry = status.resources.entry(resource).or_default();
        let before = entry.state;
        change(entry);
        if entry.state != before {
            entry.since = now;
        }
        if entry.state != State::Failing {
            entry.error = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use hcn::time::ManualClock;

    use super::*;

    #[test]
    fn a_state_begins_when_it_changes_and_an_error_ends_with_it() {
        let clock = Arc::new(ManualClock::default());
        let board = Board::new(Arc::<ManualClock>::clone(&clock));
        clock.advance(Duration::from_secs(5));
        let fail = |text: &str| {
            board.note(Resource::Services, |status| {
                status.state = State::Failing;
                status.failures += 1;
                status.error = Some(text.to_owned());
            });
        };
        fail("no route");
        clock.advance(Duration::from_secs(5));
        fail("refused");
        let status = board.read();
        let services = &status.resources[&Resource::Services];
        assert_eq!((services.since, services.failures), (Duration::from_secs(5), 2));
        assert_eq!(services.error.as_deref(), Some("refused"));
        assert_eq!(status.outage(), Some(Duration::from_secs(5)));
        board.note(Resource::Services, |status| status.state = State::Watching);
        assert_eq!(
            (board.read().outage(), &board.read().resources[&Resource::Services].error),
            (None, &None)
        );
    }

    #[test]
    fn services_and_slices_must_be_known_and_nothing_else() {
        let board = Board::new(Arc::new(ManualClock::default()));
        for (resource, synced) in
            [(Resource::Node, false), (Resource::Services, false), (Resource::EndpointSlices, true)]
        {
            board.note(resource, |status| status.synced = true);
            assert_eq!(board.read().is_synced(), synced, "{resource:?}");
        }
    }
}
