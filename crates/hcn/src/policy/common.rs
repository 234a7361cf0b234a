//! Enumerations and settings that stand on more than one kind of object.

use crate::guid::Guid;
use crate::loadbalancer::protocol::Protocol;
use crate::{document, enumeration, flags};

enumeration! {
    /// What an ACL does.
    pub enum ActionType as name {
        /// Let through.
        Allow = 0 "Allow",
        /// Drop.
        Block = 1 "Block",
        /// Leave to the next tier (schema 2.10, tier ACLs only).
        Pass = 2 "Pass",
    }
}

enumeration! {
    /// The direction of traffic, as the endpoint sees it.
    pub enum DirectionType as name {
        /// Towards the endpoint.
        In = 0 "In",
        /// From the endpoint.
        Out = 1 "Out",
    }
}

enumeration! {
    /// Who carries an ACL out.
    pub enum RuleType as name {
        /// The Windows Filtering Platform.
        Host = 0 "Host",
        /// The Virtual Filtering Platform.
        Switch = 1 "Switch",
    }
}

flags! {
    /// Flags of port mappings and outbound NAT.
    pub struct NatFlags {
        /// The VIP is reachable from the host.
        LOCAL_ROUTED_VIP = 1 "LocalRoutedVip",
        /// The addresses are IPv6 (schema 2.8).
        IPV6 = 2 "IPv6",
        /// The external port is reserved already (PowerShell's module only).
        EXTERNAL_PORT_RESERVED = 4 "ExternalPortReserved",
    }
}

document! {
    /// ACL, and NetworkACL on networks (HNS 15.0). The lower priority number wins; [`super::acl`] reads the lists.
    pub struct Acl {
        /// The rule's id (schema; several rules may share it).
        id: Option<String> = "Id",
        /// Comma list of protocol numbers; empty means any. 252 needs HNS 11.0.
        protocols: String = "Protocols",
        /// What to do.
        action: Option<ActionType> = "Action",
        /// With traffic of which direction.
        direction: Option<DirectionType> = "Direction",
        /// Comma list of addresses, prefixes or ids of IP sets on the endpoint's side; empty means any.
        local_addresses: String = "LocalAddresses",
        /// The same for the other side.
        remote_addresses: String = "RemoteAddresses",
        /// Comma list of ports or ranges on the endpoint's side; empty means any.
        local_ports: String = "LocalPorts",
        /// The same for the other side.
        remote_ports: String = "RemotePorts",
        /// Who carries it out.
        rule_type: Option<RuleType> = "RuleType",
        /// Lower wins; 0 is left out.
        priority: u16 = "Priority",
    }
}

document! {
    /// L4Proxy: traffic of the endpoint goes to a proxy first (VFP). hcsshim writes `Exceptions` and `OutboundNAT`,
    /// Microsoft's schema `ExceptionList` and `OutboundNat`; both are read.
    pub struct L4Proxy {
        /// The proxy's address.
        ip: String = "IP",
        /// The proxy's port.
        port: String = "Port",
        /// IANA protocol number.
        protocol: u32 = "Protocol" via Protocol,
        /// Prefixes that go past the proxy.
        exceptions: Vec<String> = "Exceptions" | "ExceptionList",
        /// What goes to the proxy.
        destination: String = "Destination"; always,
        /// Translate the source as well.
        outbound_nat: bool = "OutboundNAT",
    }
}

document! {
    /// ProviderAddress. On a (remote) endpoint: the node behind which the address lies. On an overlay network: the
    /// management address, added by HNS itself some time after creation.
    pub struct ProviderAddress {
        /// The address on the underlay.
        provider_address: String = "ProviderAddress",
    }
}

document! {
    /// InterfaceConstraint: ties a network or endpoint to a host interface. PowerShell's module sends a bare string
    /// as settings, which is read as the alias.
    pub struct InterfaceConstraint {
        /// By GUID.
        interface_guid: Option<Guid> = "InterfaceGuid",
        /// By LUID.
        interface_luid: u64 = "InterfaceLuid",
        /// By index.
        interface_index: u32 = "InterfaceIndex",
        /// By media type.
        interface_media_type: u32 = "InterfaceMediaType",
        /// By alias.
        interface_alias: String = "InterfaceAlias",
        /// By description.
        interface_description: String = "InterfaceDescription",
    }
}

document! {
    /// VLAN or VSID: which virtual network the traffic is in.
    pub struct Isolation {
        /// VLAN id, or virtual subnet id (Windows overlays want 4096 or more).
        isolation_id: u32 = "IsolationId"; always,
    }
}
