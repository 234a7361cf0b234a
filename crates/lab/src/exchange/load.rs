//! A steady load: new connections at a fixed rate, and connections that are kept and used again and again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hcn::time::Clock;
use node::app::{Outcome, Request, Transport};
use parking_lot::Mutex;

use super::{Conversation, exchange};

/// How many failures are kept one by one; the rest is counted.
const KEPT_FAILURES: usize = 10_000;

/// How many exchanges may be under way: more than this means that nothing gets through any more.
const AT_ONCE: usize = 1_024;

/// The longest sleep: how long a stop is not noticed.
const NAP: Duration = Duration::from_millis(20);

/// What a load consists of.
#[derive(Clone, Debug)]
pub struct Load {
    /// What each exchange asks for. `port` must be none: many are under way.
    pub request: Request,
    /// Time from one new connection to the next (over UDP: from one request to the next, each from a new socket).
    pub every: Duration,
    /// How many connections are kept. Only TCP has connections.
    pub kept: usize,
    /// Time from one request on a kept connection to the next.
    pub kept_every: Duration,
}

/// On which kind of connection something failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// On a new one.
    New,
    /// When a connection that is to be kept was opened.
    Opening,
    /// On a kept connection that had worked before, to this server.
    Kept {
        /// The server that answered last.
        server: String,
    },
}

/// One failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When the exchange began, on the clock of the generator.
    pub at: Duration,
    /// How long it took to fail.
    pub took: Duration,
    /// The client's end, if it had one.
    pub from: Option<SocketAddr>,
    /// On which kind of connection.
    pub what: What,
    /// How it ended.
    pub outcome: Outcome,
}

/// What became of one kept connection, or of its successors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// How often it was opened; more than once only after a failure.
    pub opened: u64,
    /// Exchanges that were answered.
    pub answered: u64,
    /// The server that answered last.
    pub server: Option<String>,
}

/// What became of a load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// New connections that were begun.
    pub begun: u64,
    /// Those that were answered, by server.
    pub answered: BTreeMap<String, u64>,
    /// New connections that were not begun because too many were under way.
    pub held_back: u64,
    /// The longest answered exchange on a new connection.
    pub longest: Duration,
    /// The kept connections.
    pub kept: Vec<Kept>,
    /// Failures in the order in which they ended, the first ten thousand.
    pub failures: Vec<Failure>,
    /// All failures.
    pub failed: u64,
}

impl Report {
    fn fail(&mut self, failure: Failure) {
        self.failed += 1;
        if self.failures.len() < KEPT_FAILURES {
            self.failures.push(failure);
        }
    }

    /// Failures on new connections.
    pub fn failed_new(&self) -> impl Iterator<Item = &Failure> {
        self.failures.iter().filter(|failure| failure.what == What::New)
    }

    /// Cuts of kept connections.
    pub fn cuts(&self) -> impl Iterator<Item = &Failure> {
        self.failures.iter().filter(|failure| matches!(failure.what, What::Kept { .. }))
    }
}

struct Shared {
    load: Load,
    clock: Arc<dyn Clock>,
    stop: AtomicBool,
    report: Mutex<Report>,
}

/// A load that runs until it is stopped. Dropped without [`stop`](Self::stop), its threads end by themselves soon.
pub struct LoadGenerator {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for LoadGenerator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadGenerator").field("load", &self.shared.load).finish_non_exhaustive()
    }
}

impl Drop for LoadGenerator {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl LoadGenerator {
    /// Starts a load in the namespace of the calling thread: a thread is in the namespace of the thread that starts it,
    /// and stays there when that one goes elsewhere.
    pub fn start(load: Load, clock: Arc<dyn Clock>) -> std::io::Result<Self> {
        let kept = if load.request.transport == Transport::Tcp { load.kept } else { 0 };
        let report = Report { kept: vec![Kept::default(); kept], ..Report::default() };
        let shared =
            Arc::new(Shared { load, clock, stop: AtomicBool::new(false), report: Mutex::new(report) });
        // Should a thread not start, dropping this stops those that did.
        let mut generator = Self { shared: Arc::clone(&shared), threads: Vec::with_capacity(kept + 1) };
        for index in 0..kept {
            let shared = Arc::clone(&shared);
            let body = move || shared.keep(index);
            generator.threads.push(std::thread::Builder::new().name(format!("kept-{index}")).spawn(body)?);
        }
        let body = move || Shared::renew(&shared);
        generator.threads.push(std::thread::Builder::new().name("new".to_owned()).spawn(body)?);
        Ok(generator)
    }

    /// What has become of it so far.
    pub fn report(&self) -> Report {
        self.shared.report.lock().clone()
    }

    /// Begins nothing new, waits for what is under way and tells what became of all.
    pub fn stop(mut self) -> Report {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of a load has panicked; its exchanges are not in the report");
            }
        }
        std::mem::take(&mut *self.shared.report.lock())
    }
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sleeps until `at`, or until the load is stopped. Tells whether to go on.
    fn sleep_until(&self, at: Duration) -> bool {
        while !self.stopped() {
            let left = at.saturating_sub(self.clock.now());
            if left.is_zero() {
                return true;
            }
            self.clock.sleep(left.min(NAP));
        }
        false
    }

    /// New connections: begun by the clock whether or not those before have ended.
    fn renew(self: &Arc<Self>) {
        let mut under_way: Vec<JoinHandle<()>> = Vec::new();
        let mut next = self.clock.now();
        while self.sleep_until(next) {
            next += self.load.every;
            under_way.retain(|thread| !thread.is_finished());
            let one = || {
                let shared = Arc::clone(self);
                std::thread::Builder::new().name("exchange".to_owned()).spawn(move || shared.once())
            };
            let begun = if under_way.len() < AT_ONCE { one().ok() } else { None };
            let mut report = self.report.lock();
            match begun {
                Some(thread) => {
                    report.begun += 1;
                    under_way.push(thread);
                }
                None => report.held_back += 1,
            }
        }
        for thread in under_way {
            if thread.join().is_err() {
                tracing::error!("an exchange of a load has panicked");
            }
        }
    }

    fn once(&self) {
        let done = exchange(&self.load.request, &*self.clock);
        let mut report = self.report.lock();
        match done.outcome {
            Outcome::Answered(answer) => {
                report.longest = report.longest.max(done.took);
                *report.answered.entry(answer.server).or_default() += 1;
            }
            outcome => {
                let (at, took, from) = (done.started, done.took, done.from);
                report.fail(Failure { at, took, from, what: What::New, outcome });
            }
        }
    }

    /// One kept connection; after a failure a new one takes its place.
    fn keep(&self, index: usize) {
        let mut current: Option<(Conversation, Option<String>)> = None;
        let mut next = self.clock.now();
        while self.sleep_until(next) {
            next = self.clock.now() + self.load.kept_every;
            let at = self.clock.now();
            let opened = current.is_none();
            let (mut conversation, server) = match current.take() {
                Some(current) => current,
                None => match Conversation::open(&self.load.request, &*self.clock) {
                    Ok(conversation) => (conversation, None),
                    Err(outcome) => {
                        let took = self.clock.now().saturating_sub(at);
                        let failure = Failure { at, took, from: None, what: What::Opening, outcome };
                        self.report.lock().fail(failure);
                        continue;
                    }
                },
            };
            let outcome =
                conversation.ask(self.load.request.payload, self.load.request.timeout, &*self.clock);
            let took = self.clock.now().saturating_sub(at);
            let mut report = self.report.lock();
            match outcome {
                Outcome::Answered(answer) => {
                    if let Some(kept) = report.kept.get_mut(index) {
                        kept.opened += u64::from(opened);
                        kept.answered += 1;
                        kept.server = Some(answer.server.clone());
                    }
                    current = Some((conversation, Some(answer.server)));
                }
                outcome => {
                    let what = server.map_or(What::Opening, |server| What::Kept { server });
                    report.fail(Failure { at, took, from: Some(conversation.from()), what, outcome });
                }
            }
        }
    }
}
