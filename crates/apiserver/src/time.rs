//! How time reaches the server: deadlines of watches, bookmarks and slow streams wait for a [`Time`].
//!
//! A [`Time`] is an [`hcn::time::Clock`] that can be awaited. Tokio's own paused time is not used: while it is paused it
//! jumps to the next deadline whenever the runtime is idle, and a runtime that waits for a peer's bytes on a real socket
//! *is* idle; every watch would end before its client had read the first event. With [`TestTime`] time stands still until
//! the test moves it, however long the sockets take.
//!
//! This module must not know what the time is for.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use hcn::time::{Clock, ManualClock, SystemClock};
use tokio::sync::watch;

/// A future without a result.
pub type Waiting<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A clock that can be awaited.
pub trait Time: Clock {
    /// Is done as soon as [`Clock::now`] is at or after `at`.
    fn until(&self, at: Duration) -> Waiting<'_>;
}

/// The operating system's time.
#[derive(Debug, Clone, Default)]
pub struct RealTime {
    clock: SystemClock,
}

impl Clock for RealTime {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn wall(&self) -> SystemTime {
        self.clock.wall()
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }
}

impl Time for RealTime {
    fn until(&self, at: Duration) -> Waiting<'_> {
        Box::pin(tokio::time::sleep(at.saturating_sub(self.clock.now())))
    }
}

/// Time that passes only when a test says so. Clones are the same clock.
#[derive(Debug, Clone)]
pub struct TestTime {
    clock: ManualClock,
    moved: watch::Sender<()>,
}

impl Default for TestTime {
    fn default() -> Self {
        Self { clock: ManualClock::new(), moved: watch::Sender::new(()) }
    }
}

impl TestTime {
    /// A clock at zero; its wall clock shows the Unix epoch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock on and wakes whoever waits.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.moved.send_replace(());
    }
}

impl Clock for TestTime {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn wall(&self) -> SystemTime {
        self.clock.wall()
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }
}

impl Time for TestTime {
    fn until(&self, at: Duration) -> Waiting<'_> {
        let mut moved = self.moved.subscribe();
        Box::pin(async move {
            // Subscribed before the clock is read, so a move in between is seen. The sender lives in `self`.
            while self.clock.now() < at && moved.changed().await.is_ok() {}
        })
    }
}
