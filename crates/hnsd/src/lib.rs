//! Serves an [`hcn::Hcn`] to other processes, and is one to them: the protocol, its server and its client.
//!
//! | module | job |
//! |---|---|
//! | [`frame`] | a length and a document: from bytes to frames and back, without I/O |
//! | [`protocol`] | what the documents of version 1 are (docs/hnsd.md) |
//! | [`call`] | a call of a service's own, and how calls fail |
//! | [`service`] | what is served: an `Hcn` for each actor, and calls and streams that this crate does not know |
//! | [`server`] | listens, limits, runs calls off the reactor (Unix only) |
//! | [`address`], [`token`] | where a server is; the secret for those who come over TCP |
//! | [`client`] | [`Remote`]: an `Hcn` in another process, which connects anew when it must |
//!
//! This crate knows the API's shape and sockets; it must not know which HNS is behind it, Kubernetes, or packets.

pub mod address;
pub mod call;
pub mod client;
pub mod frame;
pub mod protocol;
#[cfg(unix)]
pub mod server;
#[cfg(unix)]
pub mod service;
pub mod token;

pub use address::{Address, AddressError};
pub use call::{Call, CallError, ErrorKind};
pub use client::{ConnectError, Options, Remote, RemoteStream, StreamItem};
#[cfg(unix)]
pub use server::{Limits, Running, Server, ServerError};
#[cfg(unix)]
pub use service::{Gone, Service, StreamSink};
pub use token::Token;
