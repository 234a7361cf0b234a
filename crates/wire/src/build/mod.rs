//! Building frames: for tests, for hosts and for what a switch answers by itself.

mod frame;
mod icmp;
mod neighbor;
mod reply;

#[cfg(test)]
mod tests;

pub use frame::FrameBuilder;
pub use icmp::{IcmpError, icmp_error};
pub use neighbor::{
    all_nodes, arp_reply, arp_request, gratuitous, multicast_mac, neighbor_advertisement,
    neighbor_solicitation, solicited_node,
};
pub use reply::{echo_reply, tcp_reset};
