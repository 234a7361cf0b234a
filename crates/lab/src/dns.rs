//! The cluster's names, as the cluster's DNS server answers for them (Kubernetes' DNS specification, 1.1.0). Pure: a
//! [`Zone`] is what names mean, [`answer`] is what becomes of one message.
//!
//! Nothing is forwarded: a lab is a world of its own, so what is not in the zone does not exist (NXDOMAIN). Stub
//! resolvers then go on with their next search suffix, as they do on the answer of a forwarder; REFUSED would make some
//! of them give up instead.
//!
//! It must not know sockets, pods or nodes.

mod message;
mod zone;

pub use message::{LONGEST_UDP, answer};
pub use zone::{DOMAIN, Data, Zone};

/// How long an answer may be kept, in seconds: short, so that a change is seen soon.
pub const TTL: u32 = 5;
