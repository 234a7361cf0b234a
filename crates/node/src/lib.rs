//! Emulated nodes and the wire between them.
//!
//! [`NodeSpec`] says what the cluster's objects ask for; [`Furnisher`] brings any HNS there and keeps it there, as a
//! CNI plugin and a route agent would. [`stack::Stack`] is the IP stack of a host, a pod or a router, with [`app`]'s
//! clients and servers on it; [`fabric::Fabric`] joins machines in virtual time: [`host::Host`],
//! [`linux::LinuxNode`], [`windows::WindowsNode`]. [`sim::Simulation`] makes all of it from a cluster's objects, and
//! [`capture::Capture`] writes down what passes.
//!
//! This crate works through [`hcn::Hcn`] and knows nothing of proxies.

pub mod app;
pub mod capture;
pub mod fabric;
mod furnish;
pub mod host;
pub mod linux;
pub mod sim;
mod spec;
pub mod stack;
pub mod topology;
pub mod windows;

pub use furnish::{Egress, FurnishError, Furnished, Furnisher};
pub use spec::{NetworkKind, NodeSpec, Peer, PodSpec, SpecError, tunnel_mac};
