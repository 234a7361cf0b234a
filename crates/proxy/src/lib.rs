//! A service proxy for Windows nodes: plans what HNS must hold so that Kubernetes Services work on one node, and
//! brings HNS there with the fewest calls.
//!
//! | module | job |
//! |---|---|
//! | [`config`] | what the proxy is told from outside |
//! | [`plan`] | pure: a Service's view, the node's facts and HNS' features → wanted load balancers |
//! | [`observed`] | what HNS holds, as last read |
//! | [`engine`] | wanted against observed → HCN calls |
//! | [`driver`] | the store of Services and the engine, in one loop |
//! | [`dry_run`] | an HCN that reads and never writes, for showing differences |
//! | [`meter`] | counts, times and watches HCN calls |
//! | [`status`] | changes, conditions, statuses |
//!
//! The proxy knows neither where objects come from nor which HNS it talks to.

pub mod backoff;
pub mod config;
pub mod driver;
pub mod dry_run;
pub mod engine;
pub mod meter;
pub mod observed;
pub mod plan;
pub mod status;

pub use config::{Config, Interface, NodeInput, NodePortAddresses};
pub use driver::Driver;
pub use engine::Proxy;
pub use status::Report;
