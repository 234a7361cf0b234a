//! What went wrong with a request, and what follows from it.

use std::time::Duration;

use kube::core::Status;

use crate::connect::chain;
use crate::status::Resource;

/// A request that failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// For people.
    pub(super) text: String,
    /// How long the server asks to be left alone.
    pub(super) retry_after: Duration,
    /// What the server answered, if it did.
    code: Option<u16>,
    /// The request was a watch, and the server did not take it.
    starting: bool,
}

/// What is to be done after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Try again.
    Again,
    /// The server has no streaming lists: read them in chunks.
    Chunks,
    /// The server does not know who asks: credentials may have been renewed where they come from.
    Renew,
    /// The server does not have this kind.
    NotServed,
}

impl Failure {
    fn of(what: &str, error: &kube::Error) -> Self {
        let (code, retry_after) = match error {
            kube::Error::Api(status) => (Some(status.code), retry_after(status)),
            _ => (None, Duration::ZERO),
        };
        Self { text: format!("{what}: {}", chain(error)), retry_after, code, starting: false }
    }

    /// A list failed.
    pub(super) fn listing(error: &kube::Error) -> Self {
        Self::of("list", error)
    }

    /// A watch could not be begun.
    pub(super) fn starting(error: &kube::Error) -> Self {
        Self { starting: true, ..Self::of("watch", error) }
    }

    /// A watch broke.
    pub(super) fn watching(error: &kube::Error) -> Self {
        Self::of("watch", error)
    }

    /// A watch brought an error.
    pub(super) fn told(status: &Status) -> Self {
        let retry_after = retry_after(status);
        let text = format!("watch: {} ({} {})", status.message, status.code, status.reason);
        Self { text, retry_after, code: Some(status.code), starting: false }
    }

    /// A watch has been silent for longer than it can be.
    pub(super) fn silent(silence: Duration) -> Self {
        let text = format!("watch: nothing has come for {silence:?}; the connection is taken for dead");
        Self { text, retry_after: Duration::ZERO, code: None, starting: false }
    }

    /// A request has not been answered for longer than it may take.
    pub(super) fn late(what: &str, waited: Duration) -> Self {
        let text = format!("{what}: no answer has come for {waited:?}");
        Self { text, retry_after: Duration::ZERO, code: None, starting: false }
    }

    /// An answer without a version.
    pub(super) fn without_version() -> Self {
        let text = "an answer of the server has no metadata.resourceVersion; is it an API server?".to_owned();
        Self { text, retry_after: Duration::ZERO, code: None, starting: false }
    }

    /// Whether too much has happened since the version that was asked from, so that only a list helps.
    pub(super) fn is_expired(&self) -> bool {
        self.code == Some(410)
    }

    pub(super) fn verdict(&self, streaming: bool, resource: Resource) -> Verdict {
        match self.code {
            // Servers without streaming lists do not take the parameter: 422 from 1.27 on, 400 from some in front of them.
            Some(400 | 422) if self.starting && streaming => Verdict::Chunks,
            Some(401) => Verdict::Renew,
            Some(404) if !resource.is_needed() => Verdict::NotServed,
            _ => Verdict::Again,
        }
    }
}

fn retry_after(status: &Status) -> Duration {
    let seconds = status.details.as_ref().map(|details| details.retry_after_seconds);
    Duration::from_secs(u64::from(seconds.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use kube::core::response::StatusDetails;

    use super::*;

    fn api(code: u16, retry: u32) -> kube::Error {
        let details = StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: retry,
        };
        kube::Error::Api(Box::new(Status { code, details: Some(details), ..Status::default() }))
    }

    #[test]
    fn failures_are_judged() {
        let (needed, other) = (Resource::Services, Resource::ServiceCidrs);
        for (failure, streaming, resource, verdict) in [
            (Failure::starting(&api(422, 0)), true, needed, Verdict::Chunks),
            (Failure::starting(&api(400, 0)), true, needed, Verdict::Chunks),
            (Failure::starting(&api(422, 0)), false, needed, Verdict::Again),
            (Failure::listing(&api(422, 0)), true, needed, Verdict::Again),
            (Failure::listing(&api(404, 0)), false, other, Verdict::NotServed),
            (Failure::starting(&api(404, 0)), true, other, Verdict::NotServed),
            (Failure::listing(&api(404, 0)), false, needed, Verdict::Again),
            (Failure::listing(&api(403, 0)), false, other, Verdict::Again),
            (Failure::listing(&api(500, 0)), false, needed, Verdict::Again),
            (Failure::listing(&api(401, 0)), false, needed, Verdict::Renew),
            (Failure::without_version(), true, needed, Verdict::Again),
            (Failure::silent(Duration::from_secs(150)), true, needed, Verdict::Again),
        ] {
            assert_eq!(failure.verdict(streaming, resource), verdict, "{}", failure.text);
        }
        assert_eq!(Failure::listing(&api(429, 7)).retry_after, Duration::from_secs(7));
        assert!(
            Failure::starting(&api(410, 0)).is_expired()
                && !Failure::silent(Duration::from_secs(150)).is_expired()
        );
    }
}
