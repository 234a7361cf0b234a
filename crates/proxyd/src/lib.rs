//! A proxy that runs: the loop that takes changes and makes passes, and what is seen of it from outside at any moment.
//!
//! | module | job |
//! |---|---|
//! | [`run`] | the loop: changes in, bounded passes, nothing before the source knows everything |
//! | [`state`] | what is known of the proxy, for whoever asks; never waits for HNS |
//! | [`programming`] | how long it takes from a change of endpoints to HNS |
//! | [`health`] | pure: what is known → how healthy the proxy is |
//! | [`metrics`] | figures for Prometheus |
//! | [`status`] | everything about each Service, as a document |
//! | [`http`] | the servers of health, metrics and status |
//! | [`checks`] | the health check ports of Services |
//! | [`listen`] | sockets, and what is known of those that could not be opened |
//! | `log` | lines about what is not as it should be, for those who read logs only |
//! | [`tell`] | what people should be told, from one pass to the next |
//! | [`api`] | figures of the source of objects, handed in by whoever watches it |
//!
//! It knows the proxy's engine; it must not know where changes come from nor which HNS there is.

pub mod api;
pub mod checks;
mod clock_text;
pub mod health;
pub mod http;
pub mod listen;
mod log;
pub mod metrics;
pub mod programming;
pub mod run;
pub mod state;
pub mod status;
pub mod tell;

pub use run::{Ended, Input, Loop, Observer, Passed, Settings};
pub use state::{Phase, State};
