//! Where objects come from.
//!
//! A source turns something outside (files today) into [`Change`](crate::Change)s. It must not know what is done with
//! them.

pub mod manifests;
