//! A live cluster as a source of [`services::Change`]s: Services, EndpointSlices and the own Node, listed and watched over the
//! Kubernetes API; and Events, told back to it.
//!
//! | module | job |
//! |---|---|
//! | [`connect`] | kubeconfig, in-cluster settings, `--master` → a client |
//! | `client` | the client: connections whose other end is gone are found out, a server that is busy is left alone |
//! | [`watching`] | one kind of object: list, watch, list again, with back-off; what of it is known |
//! | [`source`] | all kinds together, on threads of their own |
//! | [`status`] | what is seen of the API from outside, at any moment |
//! | [`trigger`] | when a change of endpoints was made, by what the slice says |
//! | [`events`] | Kubernetes Events for what people should know, rate limited |
//!
//! An outage of the API changes nothing that was reported: objects stay as they were last seen, and the outage is visible in
//! the [`status`]. Objects are cut down to records on arrival, so that memory follows what is used.
//!
//! This crate knows the API and the records of `services`; it must not know HNS nor what is done with a change.

mod client;
pub mod connect;
pub mod events;
pub mod source;
pub mod status;
pub mod trigger;
pub mod watching;

pub use connect::{ConnectError, Connection};
pub use source::{Event, Running, Settings};
pub use status::{ResourceStatus, State, Status};
