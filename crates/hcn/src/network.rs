//! `HostComputeNetwork` and its parts. Facts: hcsshim's types, Microsoft's HCN schema pages, WSL's flag numbers.

use crate::guid::Guid;
use crate::json::RawJson;
use crate::policy::Policy;
use crate::query::SchemaVersion;
use crate::{document, enumeration, flags};

enumeration! {
    /// The mode of a network. HNS leaves the member out when it is NAT.
    pub enum NetworkMode as name {
        /// Behind the host's address.
        Nat = 0 "NAT",
        /// Internet connection sharing.
        Ics = 1 "ICS",
        /// Bridged, frames unchanged.
        Transparent = 2 "Transparent",
        /// Bridged, MAC addresses rewritten to the host's.
        L2Bridge = 3 "L2Bridge",
        /// As L2Bridge, every frame through the physical network.
        L2Tunnel = 4 "L2Tunnel",
        /// VXLAN.
        Overlay = 5 "Overlay",
        /// Endpoints only.
        Private = 6 "Private",
        /// Endpoints and host.
        Internal = 7 "Internal",
        /// The host's interfaces, mirrored (schema 2.4).
        Mirrored = 8 "Mirrored",
        /// Infiniband (schema 2.4).
        Infiniband = 9 "Infiniband",
        /// ICS with constraints (schema 2.10).
        ConstrainedIcs = 10 "ConstrainedICS",
    }
}

flags! {
    /// Network flags.
    pub struct NetworkFlags {
        /// A DNS proxy on the network.
        ENABLE_DNS = 1 "EnableDns" | "EnableDnsProxy",
        /// A DHCP server on the network.
        ENABLE_DHCP = 2 "EnableDhcp" | "EnableDhcpServer",
        /// Port mirroring.
        ENABLE_MIRRORING = 4 "EnableMirroring",
        /// The network vanishes when HNS restarts.
        ENABLE_NON_PERSISTENT = 8 "EnableNonPersistent",
        /// The network is kept.
        ENABLE_PERSISTENT = 16 "EnablePersistent",
        /// A vSwitch of its own.
        ISOLATE_VSWITCH = 32 "IsolateVSwitch",
        /// Flow steering (schema 2.11).
        ENABLE_FLOW_STEERING = 64 "EnableFlowSteering",
        /// No sharing (schema 2.14).
        DISABLE_SHARING = 128 "DisableSharing",
        /// Firewall (schema 2.14).
        ENABLE_FIREWALL = 256 "EnableFirewall",
        /// No media-disconnect events.
        SUPPRESS_MEDIA_DISCONNECT = 512 "SuppressMediaDisconnect",
        /// No host vNIC (HNS 15.1).
        DISABLE_HOST_PORT = 1024 "DisableHostPort",
        /// Weak host model, receive side.
        WEAK_HOST_RECEIVE_ADAPTER = 2048 "WeakHostReceiveAdapter",
        /// Weak host model, send side.
        WEAK_HOST_SEND_ADAPTER = 4096 "WeakHostSendAdapter",
        /// SR-IOV.
        ENABLE_IOV = 8192 "EnableIov",
    }
}

enumeration! {
    /// How a network's addresses are given out.
    pub enum IpamType as name {
        /// By HNS, from the subnets.
        Static = 0 "Static",
        /// By a DHCP server.
        Dhcp = 1 "Dhcp",
    }
}

flags! {
    /// Subnet flags (schema 2.7).
    pub struct SubnetFlags {
        /// The gateway address is not kept from endpoints (gateway equals management address).
        DO_NOT_RESERVE_GATEWAY_ADDRESS = 1 "DoNotReserveGatewayAddress",
    }
}

flags! {
    /// IP subnet flags (schema 2.3).
    pub struct IpSubnetFlags {
        /// Broadcast.
        ENABLE_BROADCAST = 1 "EnableBroadcast",
        /// Keep the network address from endpoints.
        RESERVE_NETWORK_ADDRESS = 2 "ReserveNetworkAddress",
    }
}

document! {
    /// `HostComputeNetwork`.
    pub struct Network {
        /// The id; optional when creating.
        id: Option<Guid> = "ID",
        /// Who made it (base field; hcsshim never sends it).
        owner: Option<String> = "Owner",
        /// Unique among networks.
        name: Option<String> = "Name",
        /// The mode; absent means NAT.
        mode: Option<NetworkMode> = "Type",
        /// Network policies.
        policies: Vec<Policy> = "Policies",
        /// Where endpoints' MAC addresses come from.
        mac_pool: Option<MacPool> = "MacPool",
        /// DNS settings.
        dns: Option<Dns> = "Dns",
        /// Address management: subnets with their routes.
        ipams: Vec<Ipam> = "Ipams",
        /// See [`NetworkFlags`].
        flags: NetworkFlags = "Flags",
        /// Health.
        health: Option<Health> = "Health",
        /// Schema version.
        schema_version: Option<SchemaVersion> = "SchemaVersion",
    }
}

document! {
    /// A set of MAC ranges.
    pub struct MacPool {
        /// The ranges.
        ranges: Vec<MacRange> = "Ranges",
    }
}

document! {
    /// An inclusive range of MAC addresses in dash form.
    pub struct MacRange {
        /// First address.
        start: String = "StartMacAddress",
        /// Last address.
        end: String = "EndMacAddress",
    }
}

document! {
    /// DNS settings of a network or endpoint.
    pub struct Dns {
        /// Domain (an old Microsoft page calls it Suffix).
        domain: Option<String> = "Domain" | "Suffix",
        /// Search list.
        search: Vec<String> = "Search",
        /// Servers.
        server_list: Vec<String> = "ServerList",
        /// Resolver options.
        options: Vec<String> = "Options",
    }
}

document! {
    /// Address management.
    pub struct Ipam {
        /// Static or DHCP.
        kind: Option<IpamType> = "Type",
        /// Subnets.
        subnets: Vec<Subnet> = "Subnets",
    }
}

document! {
    /// A subnet of a network. The gateway is a route to the default prefix.
    pub struct Subnet {
        /// HNS gives every subnet an id.
        id: Option<Guid> = "ID",
        /// CIDR.
        prefix: String = "IpAddressPrefix",
        /// VLAN or VSID.
        policies: Vec<Policy> = "Policies",
        /// Routes; the one to 0.0.0.0/0 or ::/0 names the gateway.
        routes: Vec<Route> = "Routes",
        /// Nested prefixes (schema 2.3).
        ip_subnets: Vec<IpSubnet> = "IpSubnets",
        /// See [`SubnetFlags`].
        flags: SubnetFlags = "Flags",
    }
}

document! {
    /// A prefix inside a subnet (schema 2.3).
    pub struct IpSubnet {
        /// Its id, which an endpoint's `IpSubnetId` names.
        id: Option<Guid> = "ID",
        /// CIDR.
        prefix: String = "IpAddressPrefix",
        /// See [`IpSubnetFlags`].
        flags: IpSubnetFlags = "Flags",
    }
}

document! {
    /// A route of a subnet or endpoint.
    pub struct Route {
        /// Gateway.
        next_hop: String = "NextHop",
        /// CIDR.
        destination_prefix: String = "DestinationPrefix",
        /// Metric; 0 is left out.
        metric: u16 = "Metric",
    }
}

document! {
    /// Health of a network or endpoint.
    pub struct Health {
        /// Last error and time, in v1 terms.
        data: Option<RawJson> = "Data",
        /// HNS's own additions.
        extra_params: Option<ExtraParams> = "Extra",
    }
}

document! {
    /// What HNS adds about an object.
    pub struct ExtraParams {
        /// The internal resource tree.
        resources: Option<RawJson> = "Resources",
        /// Ids of containers that share an endpoint.
        shared_containers: Option<RawJson> = "SharedContainers",
        /// The vSwitch layer a network lies on.
        layered_on: Option<Guid> = "LayeredOn",
        /// The network that stands for the external switch.
        switch_guid: Option<Guid> = "SwitchGuid",
        /// Utility VM.
        utility_vm: Option<Guid> = "UtilityVM",
        /// Virtual machine.
        virtual_machine: Option<Guid> = "VirtualMachine",
    }
}

impl Network {
    /// The mode, with the default that HNS leaves out.
    pub fn network_mode(&self) -> NetworkMode {
        self.mode.clone().unwrap_or(NetworkMode::Nat)
    }

    /// All subnets of all IPAMs.
    pub fn subnets(&self) -> impl Iterator<Item = &Subnet> {
        self.ipams.iter().flat_map(|ipam| &ipam.subnets)
    }
}

impl Subnet {
    /// The next hop of the default route, as text.
    pub fn gateway(&self) -> Option<&str> {
        self.routes
            .iter()
            .find(|route| route.destination_prefix == "0.0.0.0/0" || route.destination_prefix == "::/0")
            .map(|route| route.next_hop.as_str())
            .filter(|hop| !hop.is_empty())
    }
}
