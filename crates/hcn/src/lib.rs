//! The Windows Host Compute Network (HCN) API as data and as a trait.
//!
//! | module | job |
//! |---|---|
//! | [`api`] | the trait [`Hcn`], object kinds, notifications, typed helpers |
//! | [`network`], [`endpoint`], [`namespace`], [`loadbalancer`], [`route`], [`query`], [`modify`] | HCN v2 documents |
//! | [`policy`] | the policy envelope and every typed policy |
//! | [`v1`] | HNS v1 documents and the conversion to and from v2 |
//! | [`error`] | HRESULTs, their names and messages, the error record |
//! | [`version`], [`needs`] | HNS versions and the feature table; which document needs which feature |
//! | [`guid`], [`mac`], [`json`] | ids that keep their spelling; MAC addresses; documents that lose nothing in a round trip |
//! | [`time`] | how every crate of Transom is given time and randomness |
//!
//! This crate does no I/O and knows nothing of Kubernetes, packets or any particular HNS.

pub mod api;
pub mod endpoint;
pub mod error;
pub mod guid;
pub mod json;
pub mod loadbalancer;
pub mod mac;
pub mod modify;
pub mod namespace;
pub mod needs;
pub mod network;
pub mod policy;
pub mod query;
pub mod route;
pub mod time;
pub mod v1;
pub mod version;

pub use api::{Hcn, HcnExt, Kind, Notification, NotificationKind, Object};
pub use endpoint::Endpoint;
pub use error::{Error, ErrorClass, HResult, Result};
pub use guid::Guid;
pub use loadbalancer::LoadBalancer;
pub use mac::Mac;
pub use namespace::Namespace;
pub use network::Network;
pub use policy::Policy;
pub use query::Query;
pub use route::SdnRoute;
pub use version::{Feature, Features, Version};
