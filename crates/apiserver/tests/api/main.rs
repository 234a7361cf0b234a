//! The server against the rules of the protocol, over sockets, with nothing between but HTTP.
//!
//! These tests must not use a Kubernetes client: they are what makes the server fit to test one.

mod access;
mod client;
mod discovery;
mod faults;
mod lists;
mod recorded;
mod selectors;
mod store;
mod walk;
mod watches;
mod writes;
