//! One emulated node, as far as HNS is concerned: the network, the routes to the other nodes' pods and the endpoints
//! of this node's pods, the way a CNI plugin and a route agent would have made them on a real one.
//!
//! [`NodeSpec`] says what the cluster's objects ask for; [`Furnisher`] brings any HNS there and keeps it there. It
//! works through [`hcn::Hcn`] only and knows nothing of proxies.

mod furnish;
mod spec;

pub use furnish::{FurnishError, Furnished, Furnisher};
pub use spec::{NetworkKind, NodeSpec, Peer, PodSpec, SpecError};
