//! What a server serves: an `Hcn` for each actor, and calls and streams of the service's own, which pass through here
//! as JSON that nobody here looks at.

use std::fmt;
use std::sync::Arc;

use hcn::Hcn;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(unix)]
pub use crate::server::stream::StreamSink;

/// What kind of error a call ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// HNS's own: it has an HRESULT.
    Hcn,
    /// Too many calls are under way; the call was not begun.
    Busy,
    /// Too many clients or subscriptions; nothing was begun.
    TooMany,
    /// Who asks may not: a token that is wrong or missing, a hello that never came.
    Refused,
    /// Nobody serves this method.
    UnknownMethod,
    /// The request or its arguments are wrong.
    Invalid,
    /// There is no HNS for this actor.
    NoHns,
    /// The call failed in the service.
    Failed,
    /// The answer is longer than a frame may be; the call had its effect.
    TooLong,
    /// Events were lost because the client was slow, and the subscription with them.
    Lagged,
    /// There is no connection; the call was not sent. Never on the wire.
    Unreachable,
    /// The connection was lost while the call was under way. Never on the wire.
    Lost,
    /// The caller's own time for the call was over. Never on the wire.
    TimedOut,
    /// A kind that this version does not know.
    #[serde(other)]
    Other,
}

/// A call of a service's own that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// What kind of error.
    pub kind: ErrorKind,
    /// What is wrong, for people.
    pub message: String,
    /// Whatever else there is to say.
    pub data: Option<Box<Value>>,
}

impl CallError {
    /// An error of a kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), data: None }
    }

    /// Something went wrong in the service.
    pub fn failed(error: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Failed, error.to_string())
    }

    /// The arguments are wrong.
    pub fn invalid(error: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Invalid, error.to_string())
    }

    /// The service has no such method.
    pub fn unknown_method(method: &str) -> Self {
        Self::new(ErrorKind::UnknownMethod, format!("there is no method {method:?}"))
    }

    /// Adds what else there is to say.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(Box::new(data));
        self
    }
}

/// One call of a service's own methods.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Who asks, in its own words: good for journals, not for rights.
    pub actor: &'a str,
    /// What is asked for.
    pub method: &'a str,
    /// The arguments; an empty object where the client sent none.
    pub params: &'a Value,
}

impl Call<'_> {
    /// The arguments as a type of the service's own.
    pub fn arguments<T: for<'de> Deserialize<'de>>(&self) -> Result<T, CallError> {
        T::deserialize(self.params)
            .map_err(|error| CallError::invalid(format!("{}: params: {error}", self.method)))
    }
}

/// What is served. Everything but [`Service::about`] and [`Service::hcn`] may block: it runs on a thread of its own.
#[cfg(unix)]
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
