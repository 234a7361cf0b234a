//! A packet engine in the shape of Microsoft's Virtual Filtering Platform.
//!
//! Ports of a virtual switch hold layers, layers hold groups, groups hold rules. The first packet of a connection
//! walks them; what comes out is one header transposition for each direction, kept as a *unified flow* that later
//! packets look up. [`model`] is what a controller programs.
//!
//! This crate knows nothing of HNS, Kubernetes or sockets; time and the host's routes come from outside.

pub mod model;
