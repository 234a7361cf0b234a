//! Subnet policies.
