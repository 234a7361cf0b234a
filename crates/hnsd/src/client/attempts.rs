//! Attempts to connect, one at a time, and who shares what came of one.
//!
//! A server that is stopped in its tracks lets each attempt run into its bound. Callers that waited for their turn meanwhile must
//! not each wait for that bound again: an attempt that began after they had asked speaks for them too.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The attempts of one client.
#[derive(Default)]
pub(super) struct Attempts {
    begun: AtomicU64,
    failed: Mutex<Option<Failed>>,
}

struct Failed {
    number: u64,
    kind: io::ErrorKind,
    text: String,
}

/// When somebody asked for a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked(u64);

impl Attempts {
    /// Somebody asks for a connection, before waiting for a turn.
    pub(super) fn ask(&self) -> Asked {
        Asked(self.begun.load(Ordering::Acquire))
    }

    /// The failure of an attempt that began after that.
    pub(super) fn failure_since(&self, asked: Asked) -> Option<io::Error> {
        let failed = self.failed.lock();
        let failed = failed.as_ref().filter(|failed| failed.number > asked.0)?;
        Some(io::Error::new(failed.kind, failed.text.clone()))
    }

    /// An attempt begins; only whoever has the turn may say so.
    pub(super) fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// An attempt failed in a way that may have taken its time.
    pub(super) fn fail(&self, number: u64, error: &io::Error) {
        *self.failed.lock() = Some(Failed { number, kind: error.kind(), text: error.to_string() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_speaks_for_those_who_asked_before_it_began() {
        let attempts = Attempts::default();
        let early = attempts.ask();
        let first = attempts.begin();
        let during = attempts.ask();
        attempts.fail(first, &io::Error::new(io::ErrorKind::TimedOut, "no hello"));
        let shared = attempts.failure_since(early).unwrap();
        assert_eq!((shared.kind(), &*shared.to_string()), (io::ErrorKind::TimedOut, "no hello"));
        assert!(attempts.failure_since(during).is_none(), "the server may have come back since it began");
        let second = attempts.begin();
        attempts.fail(second, &io::ErrorKind::ConnectionRefused.into());
        assert_eq!(attempts.failure_since(during).unwrap().kind(), io::ErrorKind::ConnectionRefused);
        assert!(attempts.failure_since(attempts.ask()).is_none());
    }
}
