//! kube-proxy's configuration as it stands on Windows nodes: the file `KubeProxyConfiguration` (v1alpha1), the flags,
//! defaults, rules, feature gates, and the settings that the proxy takes from all of them.
//!
//! Everything is a pure function from texts to values: no file is read, no variable looked up, nothing listened on. It
//! must not know of HNS, of Services, or of how a command line is parsed.
//!
//! ```
//! use proxy_config::{Document, Flags, Sources};
//!
//! let file = Document::parse(
//!     "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nwinkernel: {enableDSR: true}\n",
//! )?;
//! let flags = Flags::default();
//! let sources = Sources { file: Some(&file), flags: &flags, kube_network: None, host_name: "WIN-1" };
//! let settings = sources.resolve()?.settings;
//! assert!(settings.enable_dsr);
//! assert_eq!(settings.node_name, "win-1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
pub mod changes;
pub mod defaults;
mod document;
mod duration;
pub mod flags;
pub mod gates;
mod near;
mod problem;
mod section;
pub mod settings;
pub mod types;
pub mod validate;
mod value;

pub use document::{Document, FileError};
pub use duration::GoDuration;
pub use flags::{Cleanup, Flags};
pub use gates::FeatureGates;
pub use problem::{Place, Problem, Problems};
pub use settings::{ProxySettings, Resolved, Sources};
pub use types::KubeProxyConfiguration;
