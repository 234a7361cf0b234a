//! A shared object with the exports of `computenetwork.dll` (57), `vmcompute.dll` (`HNSCall`) and of the COM task allocator, for tests
//! of whoever calls them, on every system.
//!
//! Behind it is an emulated HNS, or a [`Rule`] that answers anything at all. It counts each string and handle that it hands out and that
//! comes back. Tests depend on this crate, which makes cargo put the shared object beside the test, and steer it with [`Fake`].
//!
//! | module | job |
//! |---|---|
//! | [`control`] | what a test says to it and hears from it; [`Fake`] |
//! | `lent` | strings and handles: who has them |
//! | `machine` | the state: an emulated HNS, rules, calls, callbacks |
//! | `exports` | the functions |
//!
//! For tests only: no program of Transom's contains or loads it. It must not know who calls it.

pub mod control;
mod exports;
mod lent;
mod machine;

pub use control::{Counts, Fake, Rule, Words};
