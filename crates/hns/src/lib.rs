//! An emulated Windows Host Network Service.
//!
//! [`Hns`] implements [`hcn::Hcn`] over an object store in this process: it checks, fills in, allocates, refuses and
//! forgets like a real HNS, as far as anybody outside Microsoft knows (docs/fidelity.md lists every behaviour with
//! its evidence). What differs between Windows builds is a [`Profile`]; what nobody knows is a [`Switches`] field;
//! what goes wrong is a [`faults::FaultPlan`].
//!
//! ```
//! use hcn::{Guid, Hcn, HcnExt, Kind};
//! use hns::{Hns, Options, Profile};
//!
//! let hns = Hns::open(Options::new(Profile::Ws2022))?;
//! let id = hns.create(Kind::Network, None, Guid::NIL, r#"{"Name":"nat","Type":"NAT"}"#)?;
//! let network: hcn::Network = hns.get(id)?;
//! assert!(network.subnets().next().is_some_and(|subnet| subnet.prefix.starts_with("172.")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | job |
//! |---|---|
//! | `service` | the one path that every call takes; `impl Hcn for Hns` |
//! | `state`, `record`, `tx` | objects and indexes; one write with undo |
//! | `network`, `endpoint`, `namespace`, `loadbalancer`, `route` | the rules of each kind |
//! | `alloc`, `ports`, `policies` | what is given out; the host's port space; what policies mean |
//! | `filter`, `view`, `v1api` | which objects a query means; what is printed of one; the v1 paths |
//! | `program` | what the objects are in the switch: layers, groups, rules |
//! | `store` | the redb file |
//! | [`faults`], [`journal`] | what goes wrong; what was called |
//!
//! This crate knows nothing of Kubernetes or packets and opens no socket.

mod alloc;
mod digest;
mod endpoint;
pub mod faults;
mod filter;
mod host;
pub mod journal;
mod loadbalancer;
mod namespace;
mod network;
mod notify;
mod policies;
mod ports;
mod profile;
mod program;
mod record;
mod route;
#[cfg(test)]
mod sequences;
mod service;
mod state;
mod store;
mod switches;
#[cfg(test)]
mod testing;
mod tx;
mod v1api;
mod view;

pub use digest::Dump;
pub use faults::Loss;
pub use hcn::Mac;
pub use host::{Adapter, DynamicPorts, Host, Protocol};
pub use ports::{BLOCK, Block, Holder, HostPort, PortReport, Space, SpaceReport};
pub use profile::{Profile, UnknownProfile};
pub use program::Datapath;
pub use service::{EndpointPort, Hns, HostRoute, HostVnic, OpenError, Options, StoreKind};
pub use store::StoreError;
pub use switches::{SwitchError, SwitchInfo, Switches};

/// Values of switches.
pub mod switch {
    pub use crate::switches::{
        BalancerDeletion, Case, Distribution, EmptySourceVip, EndpointUpdate, FilterFlags, HairpinRules,
        InUse, InnerSource, LbChoice, ListOrder, ModifyBalancer, ModifyScope, NatReply, OverlayArp,
        RemovedDip, SecondDefault, UnknownKey, V1Failure,
    };
}

/// A number in `[0, 1)` that depends on a seed and an id alone.
fn draw(seed: u64, id: hcn::Guid) -> f64 {
    use hcn::time::Entropy as _;
    let (high, low) = id.uuid().as_u64_pair();
    let mixed = hcn::time::SeededEntropy::new(seed ^ high).next_u64();
    hcn::time::SeededEntropy::new(mixed ^ low).unit()
}
