//! What pods run unless a command is given: one process without privileges that answers for all pods of a lab.
//!
//! The supervisor opens sockets in the pods' namespaces ([`Sockets`]) and hands them over; [`run`] answers on them. A
//! socket belongs for ever to the namespace that it was made in, so the process needs to enter none. It must not know
//! namespaces, nodes or Services: a socket, a name to answer with and the zone of the cluster's names are all it gets.
//!
//! A TCP connection's first bytes decide what is spoken on it:
//!
//! | first bytes | |
//! |---|---|
//! | `HELLO n` | the protocol of `node::app`, one request after the other |
//! | a method of HTTP | HTTP/1.1: `/` tells who answers whom (text, or JSON with `?format=json` or by `Accept`), `/healthz`; `POST` and `PUT` get their body back |
//! | `SINK` | swallows bytes until the client ends, then tells how many |
//! | `SOURCE n` | sends `n` bytes |
//! | anything else | comes back |
//!
//! A datagram `HELLO n` is answered as `node::app` does; any other comes back as it is.

mod message;

pub use message::{Open, Reply, Service, ToResponder};
