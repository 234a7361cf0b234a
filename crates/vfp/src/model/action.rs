//! What a rule does with a packet.

use std::net::IpAddr;

use bitflags::bitflags;
use serde::Serialize;
use wire::Mac;

use super::PoolKey;

macro_rules! serialize_bits {
    ($($flags:ty),*) => { $(impl Serialize for $flags {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_u32(self.bits())
        }
    })* };
}

/// One action.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Pass.
    Allow,
    /// Drop; a block that does not terminate may be overturned by a later group.
    Block,
    /// Static translation.
    Nat(Nat),
    /// Translation with a port from a pool.
    DynNat(DynNat),
    /// One of several destinations per flow.
    LbNat(LbNat),
    /// Any set of header changes.
    Transpose(Transpose),
    /// A tunnel header toward a remote prefix.
    RouteEncap(RouteEncap),
    /// The tunnel header comes off.
    Decap(Decap),
    /// The outer next hop, from the host's stack.
    PaRoute(PaRoute),
    /// An echo request is answered here.
    PingResponse,
    /// Bytes are counted.
    Meter(Meter),
    /// Bytes per second are capped by a queue of the port.
    Qos {
        /// Bytes per second.
        bytes_per_second: u64,
    },
    /// Metadata for later layers.
    Mark(u32),
}

impl Action {
    /// It changes addresses or ports that replies need changed back.
    pub(crate) fn translates(&self) -> bool {
        match self {
            Self::Nat(_) | Self::DynNat(_) | Self::LbNat(_) => true,
            Self::Transpose(transpose) => {
                transpose.source.is_some()
                    || transpose.destination.is_some()
                    || transpose.source_port.is_some()
                    || transpose.destination_port.is_some()
            }
            _ => false,
        }
    }

    /// It sends packets elsewhere.
    pub(crate) fn hairpins(&self) -> bool {
        matches!(self, Self::Transpose(transpose) if transpose.hairpin.is_some())
    }

    /// The word that dumps print.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Block => "block",
            Self::Nat(_) => "nat",
            Self::DynNat(_) => "dynnat",
            Self::LbNat(_) => "lbnat",
            Self::Transpose(_) => "transpose",
            Self::RouteEncap(_) => "routeencap",
            Self::Decap(_) => "decap",
            Self::PaRoute(_) => "paroute",
            Self::PingResponse => "pingresponse",
            Self::Meter(_) => "meter",
            Self::Qos { .. } => "qos",
            Self::Mark(_) => "mark",
        }
    }
}

/// Which end of a packet is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NatSide {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

/// Static translation of one end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Nat {
    /// Which end.
    pub side: NatSide,
    /// The new address; none: only the port changes.
    pub address: Option<IpAddr>,
    /// The new port; none: only the address changes.
    pub port: Option<u16>,
    /// The new destination MAC, where the switch must be told too.
    pub mac: Option<Mac>,
}

bitflags! {
    /// Flags of dynnat, as the tool numbers them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct DynNatFlags: u32 {
        /// The port of a connection in TIME_WAIT may be taken again.
        const RECLAIM_TIME_WAIT = 2048;
        /// A UDP socket keeps its port towards every remote.
        const REUSE_UDP = 4096;
    }
}

/// Translation with a port from a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DynNat {
    /// The pool; its address and one of its ports take the source's place.
    pub pool: PoolKey,
    /// Flags.
    pub flags: DynNatFlags,
}

bitflags! {
    /// Flags of lbnat, as the tool numbers them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct LbFlags: u32 {
        /// The destination MAC becomes the chosen destination's.
        const FIX_MAC = 4096;
        /// The destination MAC becomes that of the provider address.
        const PA_MAC = 8192;
        /// TTL - 1.
        const DECREMENT_TTL = 16384;
        /// As FIX_MAC, the source MAC too.
        const FIX_MAC_CA_SOURCE = 32768;
        /// The destination address is rewritten.
        const REWRITE_ADDRESS = 65536;
        /// The destination port is rewritten.
        const REWRITE_PORT = 131_072;
        /// The packet is encapsulated.
        const ENCAP = 262_144;
        /// A flow is made.
        const FLOW = 524_288;
    }
}

/// What a destination is chosen by (HCN's DistributionType).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub enum Distribution {
    /// Addresses, ports and protocol.
    #[default]
    FiveTuple,
    /// Source address and protocol.
    SourceProtocol,
    /// Source address.
    Source,
}

/// A destination of a load balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dip {
    /// Its address.
    pub address: IpAddr,
    /// Its port; none: as it was.
    pub port: Option<u16>,
    /// Its MAC, where the switch knows it.
    pub mac: Option<Mac>,
}

/// One of several destinations per flow, by rendezvous hashing: see [`crate::pick`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LbNat {
    /// The destinations. None at all: the packet is dropped as blocked.
    pub dips: Vec<Dip>,
    /// Flags.
    pub flags: LbFlags,
    /// What is hashed.
    pub distribution: Distribution,
    /// The source is translated too, from this pool.
    pub source: Option<PoolKey>,
}

/// The tunnel header of an encapsulation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Tunnel {
    /// Own provider address.
    pub source: IpAddr,
    /// The peer's provider address.
    pub destination: IpAddr,
    /// The VXLAN network identifier.
    pub vni: u32,
}

/// Where a transposed packet goes instead of on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Hairpin {
    /// Back to where it came from: an IN packet enters the switch again as if the port's adapter had sent it.
    Back,
    /// Into another port of the switch, as delivered there.
    Port(uuid::Uuid),
}

/// Any set of header changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Transpose {
    /// New source MAC.
    pub source_mac: Option<Mac>,
    /// New destination MAC.
    pub destination_mac: Option<Mac>,
    /// New source address.
    pub source: Option<IpAddr>,
    /// New destination address.
    pub destination: Option<IpAddr>,
    /// New source port.
    pub source_port: Option<u16>,
    /// New destination port.
    pub destination_port: Option<u16>,
    /// New VLAN id; `Some(0)` takes the tag off.
    pub vlan: Option<u16>,
    /// A tunnel header is put on.
    pub encap: Option<Tunnel>,
    /// The tunnel header comes off.
    pub decap: bool,
    /// TTL - 1.
    pub decrement_ttl: bool,
    /// The packet goes elsewhere.
    pub hairpin: Option<Hairpin>,
}

bitflags! {
    /// Flags of routeencap, as the tool numbers them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct EncapFlags: u32 {
        /// The destination's mapping is looked up.
        const LOOKUP = 512;
        /// Spread over destinations by addresses.
        const SPREAD_L3 = 1024;
        /// Spread over destinations by addresses and ports.
        const SPREAD_L4 = 2048;
        /// The inner destination MAC becomes the destination's CA MAC.
        const FIX_INNER_MAC = 4096;
        /// The inner destination MAC becomes that of the provider address.
        const PA_MAC = 8192;
        /// Inner TTL - 1.
        const DECREMENT_TTL = 16384;
        /// As FIX_INNER_MAC, the source MAC too.
        const FIX_INNER_MAC_CA_SOURCE = 32768;
    }
}

/// A tunnel's far end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EncapDestination {
    /// The peer's provider address.
    pub pa: IpAddr,
    /// The inner destination MAC that the peer expects (DR MAC, VTEP MAC).
    pub ca_mac: Option<Mac>,
    /// The VXLAN network identifier.
    pub vni: u32,
}

/// A VXLAN header toward a remote prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RouteEncap {
    /// Own provider address, the outer source.
    pub source: IpAddr,
    /// The far ends, at most eight.
    pub destinations: Vec<EncapDestination>,
    /// The inner source MAC, where it is rewritten ([`EncapFlags::FIX_INNER_MAC_CA_SOURCE`]).
    pub source_mac: Option<Mac>,
    /// Flags.
    pub flags: EncapFlags,
}

bitflags! {
    /// Flags of decap, as the tool numbers them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct DecapFlags: u32 {
        /// The inner MACs stay; without it the inner destination MAC becomes the rule's.
        const KEEP_INNER_MAC = 256;
        /// The VSID stays with the packet as its tenant.
        const PUSH_VSID = 512;
        /// The tenant id becomes metadata.
        const PUSH_TENANT_METADATA = 1024;
    }
}

/// The tunnel header comes off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Decap {
    /// Flags.
    pub flags: DecapFlags,
    /// The inner destination MAC, without [`DecapFlags::KEEP_INNER_MAC`].
    pub destination_mac: Option<Mac>,
}

/// The outer next hop, from the host's stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PaRoute {
    /// Compartment of the host's stack that is asked.
    pub compartment: u32,
    /// Outer VLAN id; 0: none.
    pub vlan: u16,
    /// How many next hops are remembered.
    pub cache_limit: u32,
    /// How long one is remembered, in seconds.
    pub cache_timeout: u32,
    /// The host's interface that must be used; 0: any.
    pub interface_index: u32,
    /// What is done with a packet that has no outer header.
    pub native: NativeRoute,
}

/// Which packets without an outer header are addressed to the host's next hop, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NativeRoute {
    /// None.
    #[default]
    Never,
    /// Those addressed to this MAC: a router that stands for the host's stack.
    ToMac(Mac),
    /// Those whose destination address was rewritten on this port.
    Readdressed,
}

impl Default for PaRoute {
    /// What HNS was seen to program: default compartment, ten next hops, 30 seconds.
    fn default() -> Self {
        Self {
            compartment: 1,
            vlan: 0,
            cache_limit: 10,
            cache_timeout: 30,
            interface_index: 0,
            native: NativeRoute::Never,
        }
    }
}

/// A class that bytes are counted under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Meter {
    /// The class.
    pub class: u32,
}

serialize_bits!(DynNatFlags, LbFlags, EncapFlags, DecapFlags);
