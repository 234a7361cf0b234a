//! Calls of HNS that do not depend on each other, several at a time where the settings say so
//! ([`crate::config::Config::parallel_calls`]).
//!
//! What to do is decided before, and what came of it is noted after, both by the one thread that owns all state; in between
//! are only calls. So nothing is called that was not decided, and no answer is lost. This module must not know what the calls
//! are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hcn::ErrorClass;
use hcn::time::Entropy;
use parking_lot::Mutex;

use super::Proxy;

/// How many calls one worker makes, about, before it waits for the others.
const CALLS_OF_A_WORKER: usize = 16;

impl Proxy {
    /// Calls that may be under way together are made one by one, in an order by chance, so that what a test finds is found
    /// again by its seed.
    pub fn call_by_chance(&mut self, chance: Arc<dyn Entropy>) {
        self.by_chance = Some(chance);
    }

    /// How many calls may be under way at a time.
    fn workers(&self) -> usize {
        self.config.parallel_calls.max(1)
    }

    /// Whether calls are made in parallel.
    pub(super) fn is_parallel(&self) -> bool {
        self.workers() > 1
    }

    /// How many things are decided before their calls are made: one by one unless calls are made in parallel, so that
    /// each decision knows what came of the one before.
    pub(super) fn window(&self) -> usize {
        match self.workers() {
            1 => 1,
            workers => workers * CALLS_OF_A_WORKER,
        }
    }

    /// Makes a call for each job and returns the answers in the order of the jobs. `None`: it was not called, because HNS
    /// went away or the time was over; the first is called whatever the time is.
    pub(super) fn together<J: Sync, T: Send>(
        &self,
        jobs: &[J],
        until: Option<Duration>,
        call: impl Fn(&J) -> hcn::Result<T> + Sync,
    ) -> Vec<Option<hcn::Result<T>>> {
        let stopped = AtomicBool::new(false);
        let answers: Mutex<Vec<Option<hcn::Result<T>>>> = Mutex::new(jobs.iter().map(|_| None).collect());
        let make = |index: usize| {
            let answer = call(&jobs[index]);
            if answer.as_ref().is_err_and(|error| error.class() == ErrorClass::Unavailable) {
                stopped.store(true, Ordering::Relaxed);
            }
            answers.lock()[index] = Some(answer);
        };
        let late = |made: usize| made > 0 && until.is_some_and(|until| self.clock.now() >= until);
        if let Some(chance) = self.by_chance.as_ref().filter(|_| self.is_parallel()) {
            // Those that were under way when HNS went away are called all the same.
            let mut under_way = chance.below(self.workers() as u64);
            for (made, index) in shuffled(jobs.len(), &**chance).into_iter().enumerate() {
                let gone = stopped.load(Ordering::Relaxed);
                if late(made) || gone && under_way == 0 {
                    break;
                }
                under_way -= u64::from(gone);
                make(index);
            }
            return answers.into_inner();
        }
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= jobs.len() || late(index) || stopped.load(Ordering::Relaxed) {
                    return;
                }
                make(index);
            }
        };
        let workers = self.workers().min(jobs.len());
        if workers > 1 {
            std::thread::scope(|scope| {
                for _ in 1..workers {
                    scope.spawn(work);
                }
                work();
            });
        } else {
            work();
        }
        answers.into_inner()
    }
}

/// The numbers below `count`, in an order by chance.
fn shuffled(count: usize, chance: &dyn Entropy) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        let other = usize::try_from(chance.below(last as u64 + 1)).unwrap_or(last);
        order.swap(last, other);
    }
    order
}
