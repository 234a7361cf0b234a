//! Unified flows: what a connection's packets look up instead of rules.

pub(crate) mod apply;
pub(crate) mod key;
pub(crate) mod pair;
pub(crate) mod quick;
pub(crate) mod table;
