//! Serves an [`hcn::Hcn`] to other processes, and is one to them: the protocol, its server and its client.
//!
//! This crate knows the API's shape and sockets; it must not know which HNS is behind it, Kubernetes, or packets.
