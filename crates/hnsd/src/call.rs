//! Calls of a service's own methods, and how a call fails: what server and client both speak of.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
