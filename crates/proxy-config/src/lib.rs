//! kube-proxy's configuration as it stands on Windows nodes: the file `KubeProxyConfiguration` (v1alpha1), the flags,
//! defaults, rules, feature gates, and the settings that the proxy takes from all of them.
//!
//! Everything is a pure function from texts to values: no file is read, no variable looked up, nothing listened on. It
//! must not know of HNS, of Services, or of how a command line is parsed.

mod document;
mod duration;
mod near;
mod problem;
mod section;
pub mod types;
mod value;

pub use document::{Document, FileError};
pub use duration::GoDuration;
pub use problem::{Place, Problem, Problems};
pub use types::KubeProxyConfiguration;
