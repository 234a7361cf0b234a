//! A packet engine in the shape of Microsoft's Virtual Filtering Platform.
//!
//! Ports of a virtual switch hold layers, layers hold groups, groups hold rules. The first packet of a connection
//! walks them; what comes out is one header transposition for each direction, kept as a *unified flow* that later
//! packets look up. [`model`] is what a controller programs with [`Switch::apply`]; [`Switch::transmit`] takes frames
//! and gives frames.
//!
//! | module | job |
//! |---|---|
//! | [`model`] | ports, layers, groups, rules, pools, tags, and changes to them |
//! | `apply` | checks a list of changes and does all or none |
//! | `group`, `classify` | a group's rules and how the matching one is found |
//! | `switch`, `shared`, `neighbor` | from port to port; what all ports read; ARP and neighbour discovery |
//! | `port` | one port: the cached path, the slow path, the walk, TCP states, flows' layer decisions |
//! | `flow` | keys, flow pairs and their table, quick parsing, applying a transposition |
//! | `nat`, [`pick`] | lending ports; choosing a destination |
//! | [`trace`], [`dump`] | what observers are told; what can be looked at |
//!
//! This crate knows nothing of HNS, Kubernetes or sockets; time and the host's routes come from outside.

mod apply;
mod classify;
pub mod counters;
mod drop_reason;
mod dry;
pub mod dump;
mod export;
mod flow;
mod group;
pub mod model;
mod nat;
mod neighbor;
pub mod pick;
mod port;
mod shared;
mod switch;
pub mod trace;
mod view;

pub use drop_reason::DropReason;
pub use switch::{Output, Pending, Switch};
pub use trace::{Env, HostRoutes, NextHop, NoRoutes, Observer};
pub use view::{OuterView, View};
