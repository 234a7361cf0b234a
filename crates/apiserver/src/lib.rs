//! A Kubernetes API server for tests: it speaks the real protocol over an in-memory store, and fails on demand.
//!
//! | module | job |
//! |---|---|
//! | [`server`] | start, stop, start again: [`ApiServer`], [`Running`], [`Options`] |
//! | [`store`] | the objects, and how tests change them past the API |
//! | [`activity`] | requests, open watches, connections: to assert on and to wait for |
//! | [`fault`] | scripted failures |
//! | [`access`], [`tls`], [`kubeconfig`] | users, rights, certificates, and what clients need to use them |
//! | [`features`] | what a server of an older version does not have |
//! | [`proxy`] | an HTTP proxy that clients may be sent through |
//! | [`time`] | deadlines by a clock that tests move |
//! | `kind`, `selector`, `names`, `status`, `yaml` | resources as a table, selectors, names, `metav1.Status`, YAML |
//! | `rest` | a request's way to its answer |
//! | `serve` | sockets, TLS, HTTP/1.1 and HTTP/2 |
//!
//! What it does follows the Kubernetes API reference and, where that is silent, what servers are seen to do: seventy answers of a
//! real API library are in `testdata/recorded.yaml`, and are the same here. Nothing is bent to a client. It must not know the clients that are tested against it, nor the proxy.
//!
//! # What is served
//!
//! `v1` ConfigMaps, Events, Namespaces, Nodes, Pods and Services; EndpointSlices of `discovery.k8s.io/v1`, Events of
//! `events.k8s.io/v1`, ServiceCIDRs of `networking.k8s.io/v1`; `/version`, `/livez`, `/readyz`, `/healthz`, discovery.
//! Lists (pages, continue tokens, resource versions, selectors), watches (bookmarks, streaming lists, timeouts),
//! single objects, create, update, merge patch and JSON patch, delete, and `/status`.
//!
//! # What is not
//!
//! Answers are JSON only; a client that asks for protobuf is answered in JSON. There are no tables, no aggregated
//! discovery, no server-side apply (415), no compression, no `fieldValidation=Strict` (unknown members are dropped, as
//! without it), no collections deleted at once (405), no controllers: what is in a namespace goes with it at once, and
//! Pods with a grace period stay until somebody deletes them with none.
//!
//! # Example
//!
//! ```
//! use apiserver::{ApiServer, Effect, Match, Options, Rule, Status};
//! use k8s_openapi::api::core::v1::Service;
//! use std::io::{Read, Write};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::start(Options::plain())?;
//! server.store().apply_manifests("{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.9}}")?;
//! assert_eq!(server.store().count::<Service>(), 1);
//!
//! // The first list is refused, and the client told when to come back.
//! server.faults().add(Rule::new(Match::of("list", "services"), Effect::Answer(Status::too_many_requests(1))).once());
//!
//! let get = |path: &str| -> std::io::Result<String> {
//!     let mut stream = std::net::TcpStream::connect(server.address())?;
//!     write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")?;
//!     let mut answer = String::new();
//!     stream.read_to_string(&mut answer)?;
//!     Ok(answer)
//! };
//! assert!(get("/api/v1/services")?.starts_with("HTTP/1.1 429"));
//! assert!(get("/api/v1/services")?.contains(r#""clusterIP":"10.96.0.9""#));
//! server.activity().wait(|ledger| ledger.count(|request| request.code == Some(200) && request.ended) == 1);
//! # Ok(())
//! # }
//! ```

pub mod access;
pub mod activity;
pub mod fault;
pub mod features;
mod kind;
pub mod kubeconfig;
mod names;
pub mod proxy;
mod rest;
mod selector;
mod serve;
pub mod server;
mod status;
pub mod store;
pub mod time;
pub mod tls;
mod yaml;

pub use access::{Access, Allow, User};
pub use activity::{Activity, Connections, Ledger, OpenWatch, Request};
pub use fault::{Effect, Faults, Gate, Match, Rule, RuleId};
pub use features::Features;
#[cfg(unix)]
pub use kubeconfig::write_exec_plugin;
pub use kubeconfig::{Connecting, Credential, ExecPlugin, TokenFile, exec_credential};
pub use proxy::ConnectProxy;
pub use server::{ApiServer, Options, Running, ServerError, StoreFate, Transport, Version};
pub use status::{Cause, Details, Status};
pub use store::{Store, StoreError};
pub use time::{RealTime, TestTime, Time};
pub use tls::{Identity, TlsError};
