//! Every bound of a server, in one place.

use std::time::Duration;

use crate::protocol::GreetingLimits;

/// What a server allows. The defaults fit a node's daemon: hundreds of clients, large documents, calls that hang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Clients that have said hello, in all.
    pub clients: usize,
    /// Connections of each socket that have not yet said hello. They cannot take a client's place.
    pub newcomers: usize,
    /// How long a connection may take for its hello.
    pub hello_time: Duration,
    /// The longest hello, in bytes.
    pub hello_bytes: usize,
    /// The longest request, in bytes.
    pub request_bytes: usize,
    /// The longest answer or event, in bytes: a list of all endpoints is one answer.
    pub answer_bytes: usize,
    /// How long a request may take from its first byte to its last.
    pub request_time: Duration,
    /// How long a client may take to read what is written to it.
    pub write_time: Duration,
    /// Calls under way of one connection.
    pub calls_per_client: usize,
    /// Calls under way of one actor, on all its connections and those it has left: calls that hang stay under way.
    pub calls_per_actor: usize,
    /// Calls under way in all; each has a thread.
    pub calls: usize,
    /// Subscriptions and streams of one connection.
    pub subscriptions: usize,
    /// Events of one subscription that wait for the client to read.
    pub events: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 1_200,
            newcomers: 256,
            hello_time: Duration::from_secs(5),
            hello_bytes: 4 * 1024,
            request_bytes: 16 * 1024 * 1024,
            answer_bytes: 256 * 1024 * 1024,
            request_time: Duration::from_secs(30),
            write_time: Duration::from_secs(30),
            calls_per_client: 32,
            calls_per_actor: 128,
            calls: 512,
            subscriptions: 16,
            events: 1_024,
        }
    }
}

impl Limits {
    /// What one client is told.
    pub const fn greeting(&self) -> GreetingLimits {
        GreetingLimits {
            request_bytes: self.request_bytes,
            answer_bytes: self.answer_bytes,
            calls: self.calls_per_client,
            subscriptions: self.subscriptions,
        }
    }

    /// Threads for what may block: one for each call, and some for ending subscriptions while all calls hang.
    pub(super) const fn threads(&self) -> usize {
        self.calls.saturating_add(32)
    }
}
