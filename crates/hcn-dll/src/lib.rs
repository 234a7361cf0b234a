//! What `computenetwork.dll` and `vmcompute.dll` do: the binary interface of the HCN API, for programs that know only the
//! real one, over an HNS in another process (docs/hnsd.md).
//!
//! The two libraries themselves hold exports and nothing else; each has one [`Dll`], which has one function for each kind
//! of export.
//!
//! | module | job |
//! |---|---|
//! | `edge` | where a call enters and leaves: places, error records, panics |
//! | `arguments` | text, ids and places as a program hands them in, which may be anything |
//! | [`memory`] | what is handed out and freed by the program; what may be read and written |
//! | `handles` | numbers that stand for objects; nothing is ever read through one |
//! | [`settings`] | where the HNS is |
//! | `client` | the connection, and how many calls may be under way on it |
//! | `objects`, `reports` | the calls on the five kinds of objects; statistics and addresses of endpoints |
//! | `callbacks` | who is told what happens, on a thread of their own |
//! | `guests` | guest network services and port reservations, which this process alone knows |
//! | [`v1`] | `HNSCall` |
//! | [`absent`] | exports that exist and say that they do nothing |
//!
//! # Rules
//!
//! * No lock is held while the server is asked. Any number of threads may call; those beyond what the server takes at a
//!   time wait for their turn.
//! * Arguments are checked in this order: places and pointers (`E_POINTER`, `E_INVALIDARG`), handles (`E_HANDLE`), then the
//!   server is asked. What fails before that has no effect.
//! * A place for a result holds NULL after a failure, and a place for an error record holds NULL after a success.
//! * A thread that reads the connection lives in this library: before the first one starts the library makes sure that it
//!   stays loaded (`FreeLibrary` has no effect from then on). Threads of this library hold up no process that ends.
//!
//! This crate must not know which HNS it speaks to, nor how its documents look, but for the few members it names.

pub mod absent;
mod arguments;
mod callbacks;
mod client;
mod dll;
mod edge;
mod guests;
mod handles;
pub mod memory;
mod objects;
mod reports;
pub mod settings;
pub mod v1;

pub use dll::Dll;
pub use guests::{PortRange, PortRangeEntry};
pub use hcn::Kind;
