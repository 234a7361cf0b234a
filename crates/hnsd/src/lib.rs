//! Serves an [`hcn::Hcn`] to other processes, and is one to them: the protocol, its server and its client.
//!
//! | module | job |
//! |---|---|
//! | [`frame`] | a length and a document: from bytes to frames and back, without I/O |
//! | [`protocol`] | what the documents of version 1 are (docs/hnsd.md) |
//! | [`service`] | what is served: an `Hcn` for each actor, and calls and streams that this crate does not know |
//! | [`server`] | listens, limits, runs calls off the reactor (Unix only) |
//! | [`address`], [`token`] | where a server is; the secret for those who come over TCP |
//! | [`client`] | [`Remote`]: an `Hcn` in another process, which connects anew when it must |
//!
//! This crate knows the API's shape and sockets; it must not know which HNS is behind it, Kubernetes, or packets.

pub mod address;
pub mod client;
pub mod frame;
pub mod protocol;
#[cfg(unix)]
pub mod server;
pub mod service;
pub mod token;

pub use address::{Address, AddressError};
pub use client::{ConnectError, Options, Remote, RemoteStream, StreamItem};
#[cfg(unix)]
pub use server::{Limits, Running, Server, ServerError};
pub use service::{Call, CallError, ErrorKind, Gone, Service, StreamSink};
pub use token::Token;
