//! Emulated nodes and the wire between them.
//!
//! [`NodeSpec`] says what the cluster's objects ask for; [`Furnisher`] brings any HNS there and keeps it there, as a
//! CNI plugin and a route agent would. [`stack::Stack`] is the IP stack of a host, a pod or a router, with [`app`]'s
//! clients and servers on it; [`fabric::Fabric`] joins machines in virtual time: [`host::Host`],
//! [`linux::LinuxNode`].
//!
//! This crate works through [`hcn::Hcn`] and knows nothing of proxies.

pub mod app;
pub mod fabric;
mod furnish;
pub mod host;
pub mod linux;
mod spec;
pub mod stack;

pub use furnish::{FurnishError, Furnished, Furnisher};
pub use spec::{NetworkKind, NodeSpec, Peer, PodSpec, SpecError};
