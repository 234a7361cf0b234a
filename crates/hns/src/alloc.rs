//! What HNS gives out by itself: subnets, MAC pools, MAC addresses and IP addresses.
//!
//! Pools are derived from the objects (see [`crate::state`]); nothing here is stored. Given the same objects, the
//! lowest free address is given out next, so an address is re-used at once: the hardest case for clients that
//! confuse an address with the endpoint that has it.

mod address;
mod mac;
mod ranges;
mod subnet;

pub(crate) use address::AddressPools;
pub(crate) use mac::{MacPools, generate_pool};
pub(crate) use ranges::RangeSet;
pub(crate) use subnet::pick_subnet;
