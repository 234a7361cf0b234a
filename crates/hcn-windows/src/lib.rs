//! The HNS of a Windows machine: [`Native`] is an [`hcn::Hcn`] over `computenetwork.dll` (HCN v2) and `vmcompute.dll` (HNS v1).
//!
//! | module | job |
//! |---|---|
//! | [`libraries`] | which files are loaded, and what is wrong when one cannot be |
//! | `ffi` | all that is unsafe: loading, binding, calling, strings and handles that are given back, callbacks |
//! | `answer` | pure: an HRESULT, an error record and a payload become a value or an [`hcn::Error`] |
//! | `native` | the trait: which calls in which order |
//! | `subscribe` | who is told, and how telling ends |
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use hcn::{Hcn, Kind, Query};
//! use hcn_windows::{Libraries, Native, Options};
//!
//! // On Windows, `Native::system` takes the files in System32.
//! let hns = Native::load(&Libraries::one_file("/usr/lib/libhcn_fake_dll.so"), Options::default())?;
//! println!("HNS {} has {} networks", hns.version()?, hns.enumerate(Kind::Network, &Query::all())?.len());
//! # Ok(())
//! # }
//! ```
//!
//! The files are loaded at run time and never unloaded: a thread of theirs may be on its way through their code at any time. Nothing but
//! the places of the files is special to Windows, so all of it is compiled and tested on Linux, over a shared object with the same
//! exports. This crate knows the binary interface and the trait; it must not know Kubernetes, packets, or who calls it.

mod answer;
mod ffi;
pub mod libraries;
mod native;
mod subscribe;

pub use libraries::{Libraries, LoadError, Part};
pub use native::{Native, Options, VerifyIds};
