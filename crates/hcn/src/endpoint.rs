//! `HostComputeEndpoint`. Facts: hcsshim's types, Microsoft's HCN schema pages, PowerShell's flag numbers.

use crate::guid::Guid;
use crate::network::{Dns, Health, Route};
use crate::policy::Policy;
use crate::query::SchemaVersion;
use crate::{document, flags};

flags! {
    /// Endpoint flags.
    pub struct EndpointFlags {
        /// The endpoint stands for an address on another node.
        REMOTE_ENDPOINT = 1 "RemoteEndpoint",
        /// No traffic between endpoints.
        DISABLE_INTER_COMPUTE_COMMUNICATION = 2 "DisableInterComputeCommunication" | "DisableICC",
        /// Port mirroring.
        ENABLE_MIRRORING = 4 "EnableMirroring",
        /// A low interface metric.
        ENABLE_LOW_INTERFACE_METRIC = 8 "EnableLowInterfaceMetric",
        /// This endpoint's DNS servers come first.
        OVERRIDE_DNS_SERVER_ORDER = 16 "OverrideDNSServerOrder",
        /// Address by DHCP.
        ENABLE_DHCP = 32 "EnableDhcp",
    }
}

document! {
    /// `HostComputeEndpoint`.
    pub struct Endpoint {
        /// The id; optional when creating.
        id: Option<Guid> = "ID",
        /// Who made it (base field).
        owner: Option<String> = "Owner",
        /// Not unique.
        name: Option<String> = "Name",
        /// The network it is on.
        network: Option<Guid> = "HostComputeNetwork",
        /// The namespace it is attached to; read only.
        namespace: Option<Guid> = "HostComputeNamespace",
        /// Endpoint policies.
        policies: Vec<Policy> = "Policies",
        /// Addresses.
        ip_configurations: Vec<IpConfig> = "IpConfigurations",
        /// DNS settings.
        dns: Option<Dns> = "Dns",
        /// Routes; the one to the default prefix names the gateway.
        routes: Vec<Route> = "Routes",
        /// Dash form; colons are taken too.
        mac_address: Option<String> = "MacAddress",
        /// See [`EndpointFlags`].
        flags: EndpointFlags = "Flags",
        /// Health.
        health: Option<Health> = "Health",
        /// Schema version.
        schema_version: Option<SchemaVersion> = "SchemaVersion",
    }
}

document! {
    /// One address of an endpoint.
    pub struct IpConfig {
        /// The address.
        ip_address: String = "IpAddress",
        /// Prefix length; HNS fills it in when absent (0).
        prefix_length: u8 = "PrefixLength",
        /// The IP subnet it is in (schema 2.3).
        ip_subnet_id: Option<Guid> = "IpSubnetId",
    }
}

impl Endpoint {
    /// Whether the endpoint stands for an address on another node.
    pub fn is_remote(&self) -> bool {
        self.flags.contains(EndpointFlags::REMOTE_ENDPOINT)
    }

    /// The addresses that parse.
    pub fn addresses(&self) -> impl Iterator<Item = std::net::IpAddr> {
        self.ip_configurations.iter().filter_map(|config| config.ip_address.parse().ok())
    }
}
