//! How long a watch may be silent before its connection is taken for dead, and how long an answer may take. Nobody says that a
//! connection is gone when something on the way has forgotten it, nor that a server will never answer.

use std::time::Duration;

/// How long watches last, and how long they may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How long a watch lasts before the server ends it and it is begun anew, in seconds. kube takes less than 295.
    pub lasts: u32,
    /// How much later the end may come, and how much sooner for it to be that of the watch's time.
    pub grace: Duration,
    /// How long a server may be silent that is known to send bookmarks, before another watch is begun in place of this one.
    /// kube-apiserver sends one every minute or so, up to 75 s apart, if anything has happened in the cluster.
    pub quiet: Duration,
    /// How long the answer to a list may take, and the beginning of a watch, from when it is wanted: for 30 s it may be held back
    /// because the server has asked for that, and kube-apiserver gives up after 60 s itself.
    pub answer: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            lasts: 290,
            grace: Duration::from_secs(5),
            quiet: Duration::from_secs(150),
            answer: Duration::from_secs(95),
        }
    }
}

impl Patience {
    fn whole(&self) -> Duration {
        Duration::from_secs(u64::from(self.lasts))
    }

    /// How long nothing may come.
    pub(super) fn silence(&self, bookmarks: bool) -> Duration {
        let longest = self.whole() + self.grace;
        if bookmarks { longest.min(self.quiet) } else { longest }
    }

    /// Whether a watch that ends after so long has ended before its time.
    pub(super) fn is_early(&self, lasted: Duration) -> bool {
        lasted + self.grace < self.whole()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bookmarks_shorten_what_may_be_silent_and_time_decides_what_is_early() {
        let usual = Patience::default();
        let seconds = Duration::from_secs;
        assert_eq!((usual.silence(false), usual.silence(true)), (seconds(295), seconds(150)));
        let short = Patience { lasts: 60, ..usual };
        assert_eq!((short.silence(false), short.silence(true)), (seconds(65), seconds(65)));
        assert!(usual.is_early(seconds(284)) && !usual.is_early(seconds(285)));
    }
}
