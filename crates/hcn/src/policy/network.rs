//! Network policies.
