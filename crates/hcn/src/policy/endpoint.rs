//! Endpoint policies.
