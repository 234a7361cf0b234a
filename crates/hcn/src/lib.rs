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
//! ```
//! use hcn::policy::EndpointPolicy;
//! use hcn::{Endpoint, Feature, Features, Version, needs, v1};
//!
//! // A v1 document, as HNSCall speaks it, is read like any other.
//! let endpoint: Endpoint = v1::read_endpoint(
//!     r#"{"Name": "10.50.2.5", "IPAddress": "10.50.2.5", "IsRemoteEndpoint": true,
//!         "Policies": [{"Type": "PA", "PA": "192.0.2.12"}], "Custom": [1, 2]}"#,
//! )?;
//! assert!(endpoint.is_remote());
//! assert_eq!(
//!     endpoint.to_json(),
//!     r#"{"Name":"10.50.2.5","Policies":[{"Type":"ProviderAddress","Settings":{"ProviderAddress":"192.0.2.12"}}],"IpConfigurations":[{"IpAddress":"10.50.2.5"}],"Flags":1,"Custom":[1, 2]}"#
//! );
//!
//! // Policies are looked at through their typed form.
//! let EndpointPolicy::ProviderAddress(behind) = EndpointPolicy::decode(&endpoint.policies[0])? else {
//!     unreachable!()
//! };
//! assert_eq!(behind.provider_address, "192.0.2.12");
//!
//! // What a document needs can be asked before it is sent.
//! let balancer = hcn::LoadBalancer::parse(r#"{"Flags": 1}"#)?;
//! let old = Features::of(Version::new(9, 2));
//! assert_eq!(needs::missing(&needs::of_load_balancer(&balancer), old).unwrap().feature, Feature::Dsr);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
