//! `HostComputeLoadBalancer`. Facts: hcsshim's types, Microsoft's HCN schema pages, kube-proxy's use.

use std::fmt;
use std::net::IpAddr;

use crate::guid::Guid;
use crate::query::SchemaVersion;
use crate::{document, enumeration, flags};

pub mod protocol;

flags! {
    /// Load balancer flags.
    pub struct LoadBalancerFlags {
        /// Direct server return: the backend answers the client itself.
        DSR = 1 "EnableDirectServerReturn" | "DSR",
        /// The frontend and the backends are IPv6 (schema 2.8).
        IPV6 = 2 "IPv6",
    }
}

flags! {
    /// Port mapping flags.
    pub struct PortMappingFlags {
        /// Internal load balancer.
        ILB = 1 "ILB" | "EnableInternalLoadBalancer",
        /// The VIP is reachable from the host; node ports use it.
        LOCAL_ROUTED_VIP = 2 "LocalRoutedVip",
        /// DSR for a node-port VIP.
        USE_MUX = 4 "UseMux",
        /// The VIP stays the destination address on the way to the backend.
        PRESERVE_DIP = 8 "PreserveDIP" | "EnablePreserveDip",
        /// The VIP is an external address (kube-proxy's constant): established flows stay when backends change.
        VIP_EXTERNAL_IP = 16 "VipExternalIP",
    }
}

enumeration! {
    /// What a flow's backend is chosen by (schema 2.7, HNS 12.0).
    pub enum Distribution as number {
        /// The five-tuple.
        None = 0 "None",
        /// Source address and protocol.
        SourceIpProtocol = 1 "SourceIPProtocol",
        /// Source address: session affinity.
        SourceIp = 2 "SourceIP",
    }
}

document! {
    /// `HostComputeLoadBalancer`.
    pub struct LoadBalancer {
        /// The id; optional when creating.
        id: Option<Guid> = "ID",
        /// Who made it (base field).
        owner: Option<String> = "Owner",
        /// The network (schema 2.5; hcsshim never sends it).
        network: Option<Guid> = "HostComputeNetwork",
        /// The backends.
        endpoints: Vec<Guid> = "HostComputeEndpoints",
        /// The address that traffic to backends is sent from where the balancer translates the source.
        source_vip: String = "SourceVIP",
        /// The addresses clients call; empty means the host's own (node port).
        frontend_vips: Vec<String> = "FrontendVIPs",
        /// The ports.
        port_mappings: Vec<PortMapping> = "PortMappings",
        /// See [`LoadBalancerFlags`].
        flags: LoadBalancerFlags = "Flags",
        /// Schema version.
        schema_version: Option<SchemaVersion> = "SchemaVersion",
    }
}

document! {
    /// One port of a load balancer.
    pub struct PortMapping {
        /// IANA protocol number; see [`protocol`].
        protocol: u32 = "Protocol" via protocol::Protocol,
        /// The backends' port.
        internal_port: u16 = "InternalPort",
        /// The port clients call.
        external_port: u16 = "ExternalPort",
        /// Absent means by five-tuple.
        distribution: Option<Distribution> = "DistributionType",
        /// See [`PortMappingFlags`].
        flags: PortMappingFlags = "Flags",
    }
}

/// What makes a load balancer the only one of its kind on a host: family, protocol, VIP (or none) and external
/// port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frontend {
    /// The IPv6 flag or the VIP's family.
    pub ipv6: bool,
    /// The VIP; `None` for a node port.
    pub vip: Option<IpAddr>,
    /// IANA protocol number.
    pub protocol: u32,
    /// The port clients call.
    pub port: u16,
}

impl fmt::Display for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = protocol::Protocol(self.protocol);
        write!(f, "{}:{}/{protocol}", Vip(self.vip, self.ipv6), self.port)
    }
}

struct Vip(Option<IpAddr>, bool);

impl fmt::Display for Vip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(IpAddr::V4(vip)) => write!(f, "{vip}"),
            Some(IpAddr::V6(vip)) => write!(f, "[{vip}]"),
            None if self.1 => f.write_str("[node]"),
            None => f.write_str("node"),
        }
    }
}

impl LoadBalancer {
    /// Every frontend the balancer holds: VIPs × port mappings. VIPs that do not parse are left out.
    pub fn frontends(&self) -> Vec<Frontend> {
        let vips: Vec<Option<IpAddr>> = if self.frontend_vips.iter().all(String::is_empty) {
            vec![None]
        } else {
            self.frontend_vips.iter().filter_map(|vip| vip.parse().ok()).map(Some).collect()
        };
        let flagged = self.flags.contains(LoadBalancerFlags::IPV6);
        vips.iter()
            .flat_map(|&vip| {
                self.port_mappings.iter().map(move |mapping| Frontend {
                    ipv6: vip.map_or(flagged, |vip| vip.is_ipv6()),
                    vip,
                    protocol: mapping.protocol,
                    port: mapping.external_port,
                })
            })
            .collect()
    }
}
