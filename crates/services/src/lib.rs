//! Kubernetes objects as one node sees them.
//!
//! This crate turns Services, EndpointSlices, Nodes and Pods into one node's *view*: every service port of
//! every family with the endpoints that this node must use for it, and a list of conditions that say what
//! cannot be honoured and what is wrong with the input. Nothing here knows of HNS, of load balancers or of
//! packets; what a view becomes on Windows is decided above this crate.
//!
//! | module | job |
//! |---|---|
//! | [`model`](crate::ServiceView) | the words: service port, endpoint, policy, view |
//! | [`record`](crate::Object) | a Kubernetes object cut down to what is used, with its faults |
//! | `selection`, `limit` | pure functions: which endpoints serve, and which of too many are kept |
//! | `view` | records of one Service to a [`ServiceView`] |
//! | `naming` | what only names need: headless and ExternalName Services |
//! | `derive` | the slices that the endpoint slice controller would write, for clusters given as plain Pods |
//! | [`Cluster`] | the store: cost follows the change |
//! | [`source`] | where objects come from |
//!
//! ```
//! use services::{Change, Cluster, IpFamily, Perspective, source::manifests};
//!
//! let text = r#"
//! apiVersion: v1
//! kind: Service
//! metadata: {name: web, namespace: shop}
//! spec: {clusterIP: 10.96.0.20, ports: [{port: 80}]}
//! ---
//! apiVersion: discovery.k8s.io/v1
//! kind: EndpointSlice
//! metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
//! addressType: IPv4
//! ports: [{port: 8080}]
//! endpoints: [{addresses: [10.244.1.5], nodeName: win-1}]
//! "#;
//! let parsed = manifests::parse_bytes("shop.yaml", text.as_bytes(), &manifests::Options::default());
//! assert!(parsed.problems.is_empty());
//!
//! let mut cluster = Cluster::new(Perspective::of_node("win-1", [IpFamily::V4]));
//! for object in parsed.objects {
//!     cluster.apply(Change::Set(object));
//! }
//! for key in cluster.take_dirty() {
//!     let view = cluster.view(&key).expect("the Service is served");
//!     assert_eq!(view.ports[0].target_port, 8080);
//!     assert!(view.ports[0].cluster[0].local);
//! }
//! ```

mod address;
mod cluster;
mod condition;
mod derive;
mod intern;
mod limit;
mod model;
mod naming;
mod record;
mod selection;
pub mod source;
mod view;

pub use cluster::Cluster;
pub use condition::{Condition, ConditionKind};
pub use model::{
    Affinity, Endpoint, IpFamily, LeftOut, LeftOutReason, Perspective, Protocol, ServiceKey, ServiceKind,
    ServicePort, ServiceView, TrafficPolicy,
};
pub use naming::{NamedEndpoint, Naming};
pub use record::{
    Change, Fault, NodeFacts, Object, ObjectKind, ObjectRef, OverlayFacts, PodFacts, RecordError,
    ServiceRecord, SkipReason, SliceRecord,
};
