//! Ports, segments, and the settings of both and of the switch.

use std::net::IpAddr;
use std::time::Duration;

use bitflags::bitflags;
use serde::Serialize;
use uuid::Uuid;
use wire::Mac;

/// What a port is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum PortKind {
    /// The physical adapter's side.
    External,
    /// A virtual adapter of the host.
    Host,
    /// A pod's or a virtual machine's adapter.
    Endpoint,
}

bitflags! {
    /// Guards of a port, as the tool numbers them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Guards: u32 {
        /// ARP of others is dropped.
        const ARP = 1;
        /// DHCP server messages are dropped.
        const DHCP = 4;
        /// Broadcasts are dropped.
        const BLOCK_BROADCAST = 16;
        /// Frames that are neither IP nor ARP are dropped.
        const BLOCK_NON_IP = 32;
        /// IPv4 packets with another source address are dropped.
        const SPOOF_V4 = 128;
        /// IPv6 packets with another source address are dropped.
        const SPOOF_V6 = 256;
        /// Neighbour discovery of others is dropped.
        const ND = 4096;
        /// Frames with another source MAC are dropped.
        const MAC = 16384;
    }
}

/// Classes of flows that are limited and counted (0 to 5 in the tool).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FlowClass {
    /// Entries of any kind.
    TotalEntry,
    /// TCP connections whose handshake is not done.
    HalfOpen,
    /// Flows.
    Total,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// Everything else.
    Other,
}

impl FlowClass {
    /// All classes, in the tool's order.
    pub const ALL: [Self; 6] =
        [Self::TotalEntry, Self::HalfOpen, Self::Total, Self::Tcp, Self::Udp, Self::Other];
}

/// How many flows of each class, in the order of [`FlowClass::ALL`]; counted by the direction that opened the flow.
pub type Limits = [u32; 6];

/// How flows of a port live. The defaults are those of a public example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSettings {
    /// A TCP connection whose handshake is not done.
    pub half_ttl: Duration,
    /// Any other flow, idle.
    pub default_ttl: Duration,
    /// A TCP connection that both ends closed.
    pub time_wait_ttl: Duration,
    /// A TCP connection after a reset.
    pub reset_ttl: Duration,
    /// The ports of a fragmented packet are remembered for so long.
    pub fragment_ttl: Duration,
    /// How many fragmented packets are remembered.
    pub fragments: u32,
    /// TCP states are followed.
    pub track_tcp: bool,
    /// Flow limits, OUT and IN.
    pub limits: [Limits; 2],
}

impl Default for FlowSettings {
    fn default() -> Self {
        // Azure publishes 500,000 flows for an adapter; nothing is known of the other classes.
        let limits = [2_000_000, 500_000, 1_000_000, 1_000_000, 1_000_000, 1_000_000];
        Self {
            half_ttl: Duration::from_mins(4),
            default_ttl: Duration::from_mins(4),
            time_wait_ttl: Duration::from_mins(4),
            reset_ttl: Duration::from_secs(5),
            fragment_ttl: Duration::from_secs(2),
            fragments: 1024,
            track_tcp: true,
            limits: [limits; 2],
        }
    }
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// `Port name` of the tool.
    pub name: Uuid,
    /// `Port Friendly name` of the tool.
    pub friendly_name: String,
    /// What it is there for.
    pub kind: PortKind,
    /// Which segment it lies in; host and external ports lie in all of them, whatever is said here.
    pub segment: u32,
    /// The attached adapter.
    pub nic: Uuid,
    /// The attached adapter.
    pub nic_name: String,
    /// The adapter's MAC; the switch delivers frames to it here.
    pub mac: Mac,
    /// The adapter's addresses: what spoof guards and the ping responder go by.
    pub addresses: Vec<IpAddr>,
    /// The largest IP packet, in bytes.
    pub mtu: u16,
    /// The VLAN of the port's ARP and neighbour discovery on the wire, 0 for none: no layer sees those. Rules tag
    /// everything else.
    pub vlan: u16,
    /// Guards.
    pub guards: Guards,
    /// How its flows live.
    pub flows: FlowSettings,
    /// Not blocked.
    pub enabled: bool,
}

/// How ARP and neighbour discovery travel in a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum ArpMode {
    /// Flooded to all ports of the segment, the external one included; the neighbours of [`NeighborSpec`] are
    /// answered by the switch.
    #[default]
    Flood,
    /// As `Flood`, but never to the external port.
    Local,
    /// Answered from [`NeighborSpec`] or not at all.
    Proxy,
}

/// Ports that see each other: one HNS network's endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SegmentSpec {
    /// The number.
    pub id: u32,
    /// ARP and neighbour discovery.
    pub arp: ArpMode,
    /// On the wire the host's MAC stands for those of the ports, in ARP bodies too.
    pub host_mac_on_wire: bool,
    /// Frames to MACs that no port has go out of the external port.
    pub unknown_to_external: bool,
}

/// An address that the switch answers ARP and neighbour solicitations for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct NeighborSpec {
    /// In which segment.
    pub segment: u32,
    /// The address.
    pub address: IpAddr,
    /// The answer.
    pub mac: Mac,
}

/// Settings of the switch.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchSettings {
    /// The switch.
    pub name: Uuid,
    /// `Switch Friendly name` of the tool.
    pub friendly_name: String,
    /// UDP port of VXLAN.
    pub vxlan_port: u16,
    /// Lowest UDP source port of VXLAN.
    pub vxlan_source_base: u16,
    /// How many UDP source ports of VXLAN.
    pub vxlan_source_range: u16,
    /// TTL of an outer header.
    pub outer_ttl: u8,
    /// "Don't fragment" in an outer header.
    pub outer_df: bool,
    /// The outer type of service is copied from the inner one.
    pub copy_tos: bool,
    /// ICMP errors are sent (fragmentation needed, time exceeded).
    pub icmp_errors: bool,
    /// ICMP echo is translated by its identifier; without it, ICMP that would need a translation is dropped.
    pub icmp_nat: bool,
    /// A hairpinned packet that would go back to the adapter that sent it is dropped.
    pub drop_loopback_hairpin: bool,
    /// What becomes of a flow whose destination is no longer among its load balancer's.
    pub removed_dip: RemovedDip,
    /// How a load balancer chooses a destination.
    pub lb_choice: LbChoice,
    /// Whose frames to a NAT port are led to its owner.
    pub nat_reply: NatReply,
    /// A TCP reset goes to both ends when a policy change blocks an established connection.
    pub reset_on_block: bool,
    /// TCP packets other than a first SYN without a flow may pass stateful layers that would translate them.
    pub mid_stream: bool,
    /// Mixed into the choice of a destination.
    pub hash_seed: u64,
}

/// How a load balancer chooses a destination; [`crate::pick`] describes both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum LbChoice {
    /// The destination with the highest score: few flows move when one leaves or comes.
    #[default]
    Rendezvous,
    /// The packet's hash modulo the number of destinations, in the order of the list: most flows move.
    Modulo,
}

/// Whose frames to a NAT port are led to the port's owner, whatever their destination MAC says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum NatReply {
    /// Everybody's.
    #[default]
    Everywhere,
    /// Those from the wire; frames of the switch's own ports go by their MAC.
    FromWire,
}

/// What becomes of a flow whose destination is no longer among its load balancer's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum RemovedDip {
    /// Established TCP connections keep it until they end, everything else chooses anew.
    #[default]
    KeepEstablished,
    /// Every flow keeps it until it ends.
    Keep,
    /// Every flow chooses anew.
    Rehash,
}

impl Default for SwitchSettings {
    fn default() -> Self {
        Self {
            name: Uuid::nil(),
            friendly_name: String::new(),
            vxlan_port: 4789,
            vxlan_source_base: 49152,
            vxlan_source_range: 16384,
            outer_ttl: 64,
            outer_df: false,
            copy_tos: false,
            icmp_errors: true,
            icmp_nat: false,
            drop_loopback_hairpin: false,
            removed_dip: RemovedDip::KeepEstablished,
            lb_choice: LbChoice::Rendezvous,
            nat_reply: NatReply::Everywhere,
            reset_on_block: false,
            mid_stream: false,
            hash_seed: 0,
        }
    }
}
