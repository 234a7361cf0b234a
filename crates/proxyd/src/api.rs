//! What the proxy's surroundings say about the source of its objects, as plain figures: whoever watches an API hands them in,
//! and this crate shows them without knowing which API there is.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What is known of one kind of object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiResource {
    /// The kind, as in the API's paths.
    pub name: String,
    /// What its watch is at, in one word.
    pub state: String,
    /// Whether all objects were known once.
    pub synced: bool,
    /// How many there are.
    pub objects: u64,
    /// How often all of them were read.
    pub lists: u64,
    /// How many changes came.
    pub events: u64,
    /// How many requests failed.
    pub failures: u64,
    /// Objects that could not be taken.
    pub refused: u64,
    /// The last failure, as long as it goes on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

/// What is known of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiFigures {
    /// By kind.
    pub resources: Vec<ApiResource>,
    /// Since when something cannot be followed, in the clock's time.
    pub outage: Option<Duration>,
}

/// Somebody who knows. Asked at any moment and from any thread; must answer at once.
pub trait ApiSource: Send + Sync {
    /// What is known now.
    fn figures(&self) -> ApiFigures;
}

impl<F: Fn() -> ApiFigures + Send + Sync> ApiSource for F {
    fn figures(&self) -> ApiFigures {
        self()
    }
}

/// There is no API: objects come from files.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoApi;

impl ApiSource for NoApi {
    fn figures(&self) -> ApiFigures {
        ApiFigures::default()
    }
}
