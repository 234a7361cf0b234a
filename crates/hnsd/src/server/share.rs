//! How many calls are under way: of one connection, of one actor, in all. A call that hangs keeps its places, also
//! when its connection is gone, because its thread is not free; so who connects again and again does not get more.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Limits;
use crate::call::{CallError, ErrorKind};

/// The places of all actors.
pub(super) struct Shares {
    per_actor: usize,
    in_all: usize,
    all: Arc<Semaphore>,
    actors: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// The places of one actor.
#[derive(Clone)]
pub(super) struct Share {
    actor: Arc<Semaphore>,
    all: Arc<Semaphore>,
    per_actor: usize,
    in_all: usize,
}

/// Places of one call, until it is dropped.
pub(super) struct Places {
    _actor: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Shares {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            per_actor: limits.calls_per_actor,
            in_all: limits.calls,
            all: Arc::new(Semaphore::new(limits.calls)),
            actors: Mutex::default(),
        }
    }

    /// The places of an actor, shared by all connections of that name and by calls that are still under way.
    pub(super) fn of(&self, actor: &str) -> Share {
        let mut actors = self.actors.lock();
        let own = actors.get(actor).and_then(Weak::upgrade).unwrap_or_else(|| {
            // Names come from clients: those that nobody bears any more go.
            actors.retain(|_, places| places.strong_count() > 0);
            let places = Arc::new(Semaphore::new(self.per_actor));
            actors.insert(actor.to_owned(), Arc::downgrade(&places));
            places
        });
        Share { actor: own, all: Arc::clone(&self.all), per_actor: self.per_actor, in_all: self.in_all }
    }
}

impl Share {
    /// Places for one more call.
    pub(super) fn take(&self) -> Result<Places, CallError> {
        let busy = |whose: &str, bound: usize| {
            CallError::new(ErrorKind::Busy, format!("too many calls under way: {whose} {bound} already"))
        };
        let actor = Arc::clone(&self.actor)
            .try_acquire_owned()
            .map_err(|_| busy("this actor has", self.per_actor))?;
        let all = Arc::clone(&self.all)
            .try_acquire_owned()
            .map_err(|_| busy("all clients together have", self.in_all))?;
        Ok(Places { _actor: actor, _all: all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_gets_no_more_by_connecting_again_and_others_get_theirs() {
        let shares = Shares::new(&Limits { calls_per_actor: 2, calls: 3, ..Limits::default() });
        let first = shares.of("proxy");
        let held = [first.take().unwrap(), first.take().unwrap()];
        drop(first);
        let error = shares.of("proxy").take().map(|_| ()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Busy);
        assert!(error.message.contains("this actor has 2"), "{error}");
        let other = shares.of("cni").take().unwrap();
        let error = shares.of("operator").take().map(|_| ()).unwrap_err();
        assert!(error.message.contains("all clients together have 3"), "{error}");
        drop(other);
        drop(held);
        assert!(shares.of("operator").take().is_ok());
        assert_eq!(shares.actors.lock().len(), 1, "names that nobody bears are forgotten");
    }
}
