//! What a server serves: an `Hcn` for each actor, and calls and streams of the service's own, which pass through here
//! as JSON that nobody here looks at.

use std::sync::Arc;

use hcn::Hcn;
use serde_json::Value;

use crate::call::{Call, CallError};
pub use crate::server::stream::StreamSink;

/// What is served. Everything but [`Service::about`] and [`Service::hcn`] may block: it runs on a thread of its own.
pub trait Service: Send + Sync + 'static {
    /// The HNS for an actor, asked for once for each connection; `None`: there is none to be had.
    fn hcn(&self, actor: &str) -> Option<Arc<dyn Hcn>>;

    /// What this server is, for the hello. Member `hns` should be the version of HNS as HNS writes it
    /// (`{"Major", "Minor"}`). Told without asking HNS, which may hang.
    fn about(&self) -> Value;

    /// Answers a call of the service's own.
    fn call(&self, call: &Call<'_>) -> Result<Value, CallError> {
        Err(CallError::unknown_method(call.method))
    }

    /// Begins a stream of the service's own and returns; what holds the sink goes on sending. The stream is over when
    /// the sink and all its clones are dropped.
    fn stream(&self, call: &Call<'_>, sink: StreamSink) -> Result<(), CallError> {
        drop(sink);
        Err(CallError::unknown_method(call.method))
    }
}

/// The client of a stream is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client of the stream is gone")]
pub struct Gone;
