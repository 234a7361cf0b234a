//! An attachment that ends when the interface is there: a CNI plugin is done when HNS has answered, and whoever called it uses the
//! pod at once. The supervisor makes the devices, so an answer about one of its sandboxes waits for that, for a while.
//!
//! It must not know who makes devices, nor how.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hcn::api::{NotificationSink, SubscriptionId, V1Method};
use hcn::time::Clock;
use hcn::{Guid, Hcn, Kind, Query, Result, Version};

/// How long an answer waits for devices.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often is looked for them.
const LOOK: Duration = Duration::from_millis(5);

/// The namespaces of HNS whose endpoints get devices by and by.
#[derive(Clone, Debug, Default)]
pub(super) struct Sandboxes(Arc<Mutex<BTreeSet<Guid>>>);

impl Sandboxes {
    pub(super) fn set(&self, now: impl IntoIterator<Item = Guid>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now.into_iter().collect();
    }

    fn contains(&self, id: Guid) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }
}

/// Tells whether every endpoint of a namespace has its device, and no other has one.
pub(super) type IsSeated = Arc<dyn Fn(Guid) -> bool + Send + Sync>;

/// An HNS whose answers wait for devices.
pub(super) struct Seating {
    pub(super) inner: Arc<dyn Hcn>,
    pub(super) sandboxes: Sandboxes,
    pub(super) is_seated: IsSeated,
    pub(super) clock: Arc<dyn Clock>,
}

impl Hcn for Seating {
    fn enumerate(&self, kind: Kind, query: &Query) -> Result<Vec<Guid>> {
        self.inner.enumerate(kind, query)
    }

    fn query(&self, kind: Kind, id: Guid, query: &Query) -> Result<String> {
        self.inner.query(kind, id, query)
    }

    fn create(&self, kind: Kind, network: Option<Guid>, id: Guid, settings: &str) -> Result<Guid> {
        self.inner.create(kind, network, id, settings)
    }

    fn modify(&self, kind: Kind, id: Guid, settings: &str) -> Result<()> {
        self.inner.modify(kind, id, settings)?;
        if kind == Kind::Namespace && self.sandboxes.contains(id) {
            let until = self.clock.now() + PATIENCE;
            while !(self.is_seated)(id) {
                if self.clock.now() >= until {
                    // The attachment itself has come about.
                    tracing::warn!(namespace = %id, "A sandbox has no interface yet");
                    break;
                }
                self.clock.sleep(LOOK);
            }
        }
        Ok(())
    }

    fn delete(&self, kind: Kind, id: Guid) -> Result<()> {
        self.inner.delete(kind, id)
    }

    fn call_v1(&self, method: V1Method, path: &str, body: &str) -> Result<String> {
        self.inner.call_v1(method, path, body)
    }

    fn version(&self) -> Result<Version> {
        self.inner.version()
    }

    fn subscribe(&self, sink: NotificationSink) -> Result<SubscriptionId> {
        self.inner.subscribe(sink)
    }

    fn unsubscribe(&self, subscription: SubscriptionId) {
        self.inner.unsubscribe(subscription);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use hcn::time::ManualClock;
    use hns::{Hns, Options, Profile};

    use super::*;

    #[test]
    fn an_attachment_waits_for_the_device_of_a_sandbox_and_of_nothing_else() {
        let clock = ManualClock::jumping();
        let mut options = Options::new(Profile::Newest);
        options.clock = Arc::new(clock.clone());
        let hns = Hns::open(options).expect("an HNS in memory");
        let inner: Arc<dyn Hcn> = Arc::new(hns.actor("test"));
        let namespace =
            inner.create(Kind::Namespace, None, Guid::NIL, r#"{"Type": "Host"}"#).expect("a namespace");
        let (looks, sandboxes) = (Arc::new(AtomicU32::new(0)), Sandboxes::default());
        let counted = Arc::clone(&looks);
        let seating = Seating {
            inner,
            sandboxes: sandboxes.clone(),
            is_seated: Arc::new(move |_| counted.fetch_add(1, Ordering::Relaxed) >= 3),
            clock: Arc::new(clock.clone()),
        };
        let body = r#"{"ResourceType": "Container", "RequestType": "Add", "Settings": {"ContainerId": "c"}}"#;
        seating.modify(Kind::Namespace, namespace, body).expect("HNS takes it");
        assert_eq!(looks.load(Ordering::Relaxed), 0, "it is nobody's sandbox");
        sandboxes.set([namespace]);
        let body = body.replace("Add", "Remove");
        seating.modify(Kind::Namespace, namespace, &body).expect("HNS takes it");
        assert_eq!(looks.load(Ordering::Relaxed), 4);
        // Nobody makes a device: the answer comes all the same.
        let never = Seating { is_seated: Arc::new(|_| false), ..seating };
        let start = clock.now();
        let body = body.replace("Remove", "Add");
        never.modify(Kind::Namespace, namespace, &body).expect("HNS takes it");
        assert!(clock.now().saturating_sub(start) >= PATIENCE);
    }
}
