//! Network policies. Facts: hcsshim's types, Microsoft's schema; numbers by the schema's order (NetAdapterName 1 and
//! InterfaceConstraint 2 are on an older page).

pub use super::common::{Acl, InterfaceConstraint, L4Proxy, ProviderAddress};
pub use super::typed::{PolicyError, TypeName};
use super::typed::{policies, read};
use crate::guid::Guid;
use crate::json::RawJson;
use crate::policy::Policy;
use crate::{document, enumeration};

policies! {
    /// A policy on a network, read. The envelope stays the truth about what was sent: this form is for looking
    /// inside and for making new policies.
    pub enum NetworkPolicy of "network" {
        /// The MAC address frames leave the host with.
        SourceMacAddress(SourceMacAddress) = "SourceMacAddress" # 0;
        /// The host's adapter.
        NetAdapterName(NetAdapterName) = "NetAdapterName" # 1;
        /// A host interface.
        InterfaceConstraint(InterfaceConstraint) = "InterfaceConstraint" # 2, string "InterfaceAlias";
        /// An extension of the virtual switch.
        VSwitchExtension(VSwitchExtension) = "VSwitchExtension" # 3;
        /// The management address; HNS adds it.
        ProviderAddress(ProviderAddress) = "ProviderAddress" # 4;
        /// The distributed router's MAC address; HNS adds it.
        DrMacAddress(DrMacAddress) = "DrMacAddress" # 5;
        /// DNS settings follow the host's.
        AutomaticDns(AutomaticDns) = "AutomaticDNS" # 6;
        /// Another node's pod range (overlay, HNS 9.2).
        RemoteSubnetRoute(RemoteSubnetRoute) = "RemoteSubnetRoute" # 7;
        /// The VXLAN port (HNS 10.3).
        VxlanPort(VxlanPort) = "VxlanPort" # 8;
        /// The host reaches the pods (overlay, HNS 9.2).
        HostRoute(HostRoute) = "HostRoute" # 9;
        /// A set of addresses that ACLs name (HNS 13.0).
        Set(SetPolicy) = "SetPolicy" # 10;
        /// Traffic of every endpoint through a proxy, by VFP.
        L4Proxy(L4Proxy) = "L4Proxy" # 11;
        /// The vSwitch layer to lie on.
        LayerConstraint(LayerConstraint) = "LayerConstraint" # 12;
        /// A filter on every endpoint (HNS 15.0).
        Acl(Acl) = "NetworkACL" # 13;
        /// Answers to neighbour discovery (PowerShell's module only).
        NeighborDiscovery(NeighborDiscovery) = "NeighborDiscovery";
    }
}

document! {
    /// SourceMacAddress.
    pub struct SourceMacAddress {
        /// The address.
        source_mac_address: String = "SourceMacAddress",
    }
}

document! {
    /// NetAdapterName: the host's adapter the network is on.
    pub struct NetAdapterName {
        /// The adapter's name.
        network_adapter_name: String = "NetworkAdapterName",
    }
}

document! {
    /// VSwitchExtension.
    pub struct VSwitchExtension {
        /// The extension's id.
        extension_id: String = "ExtensionID",
        /// On or off; off is left out.
        enable: bool = "Enable",
    }
}

document! {
    /// DrMacAddress: where HNS reports the distributed router's MAC address.
    pub struct DrMacAddress {
        /// The address.
        address: String = "Address",
    }
}

document! {
    /// AutomaticDNS.
    pub struct AutomaticDns {
        /// On or off; off is left out.
        enable: bool = "Enable",
    }
}

document! {
    /// RemoteSubnetRoute: where another node's pods are.
    pub struct RemoteSubnetRoute {
        /// The node's pod range.
        destination_prefix: String = "DestinationPrefix"; always,
        /// The virtual subnet id.
        isolation_id: u32 = "IsolationId"; always,
        /// The node's address.
        provider_address: String = "ProviderAddress"; always,
        /// The node's distributed router MAC address.
        distributed_router_mac_address: String = "DistributedRouterMacAddress"; always,
    }
}

document! {
    /// VxlanPort.
    pub struct VxlanPort {
        /// UDP port.
        port: u16 = "Port"; always,
    }
}

document! {
    /// HostRoute has no settings, but they are written as an empty object.
    pub struct HostRoute {}
}

enumeration! {
    /// What a set holds.
    pub enum SetPolicyType as name {
        /// Addresses and prefixes.
        IpSet = 0 "IPSET",
        /// Ids of other sets (HNS 15.0).
        NestedIpSet = 1 "NESTEDIPSET",
    }
}

document! {
    /// SetPolicy: a set of addresses that ACLs name by its id.
    pub struct SetPolicy {
        /// The set's id.
        id: String = "Id"; always,
        /// Its name.
        name: String = "Name"; always,
        /// What it holds.
        policy_type: Option<SetPolicyType> = "PolicyType",
        /// Comma list of addresses and prefixes, or of ids.
        values: String = "Values"; always,
    }
}

document! {
    /// LayerConstraint: the network shares the vSwitch layer of another.
    pub struct LayerConstraint {
        /// The layer, as `Health.Extra.LayeredOn` of the other network says.
        layer_id: Option<Guid> = "LayerId",
    }
}

document! {
    /// NeighborDiscovery.
    pub struct NeighborDiscovery {
        /// Addresses to answer for.
        target_ip_prefix: String = "TargetIpPrefix",
        /// The answer's sender.
        sender_ip_address: String = "SenderIpAddress",
        /// The answer's sender.
        sender_mac_address: String = "SenderMacAddress",
    }
}
