//! The v1 documents. Members stand in the order in which HNS prints them, which is alphabetical.

use crate::endpoint::EndpointFlags;
use crate::guid::Guid;
use crate::json::RawJson;
use crate::namespace::NamespaceResource;
use crate::network::{MacRange, NetworkFlags, NetworkMode, SubnetFlags};
use crate::policy::Policy;
use crate::query::SchemaVersion;
use crate::{document, enumeration};

document! {
    /// A v1 network.
    pub struct Network {
        /// HNS's id of the work that made it; service-owned.
        activity_id: Option<Guid> = "ActivityId",
        /// Parameters beside the schema.
        additional_params: Option<RawJson> = "AdditionalParams",
        /// DNS settings follow the host's.
        automatic_dns: Option<bool> = "AutomaticDNS",
        /// Endpoints on it now; service-owned.
        current_endpoint_count: Option<u32> = "CurrentEndpointCount",
        /// DNS domain.
        dns_domain: String = "DNSDomain",
        /// The compartment of the DNS server.
        dns_server_compartment: Option<u32> = "DNSServerCompartment",
        /// DNS servers, parted by commas.
        dns_server_list: String = "DNSServerList",
        /// DNS search list, parted by commas.
        dns_suffix: String = "DNSSuffix",
        /// The distributed router's MAC address.
        dr_mac_address: String = "DrMacAddress",
        /// Extensions of the virtual switch.
        extensions: Vec<Extension> = "Extensions",
        /// See [`NetworkFlags`].
        flags: NetworkFlags = "Flags",
        /// The gateway's MAC address.
        gateway_mac: String = "GatewayMac",
        /// `{LastErrorCode, LastUpdateTime}`.
        health: Option<RawJson> = "Health",
        /// The id; optional when creating.
        id: Option<Guid> = "ID",
        /// Whether the network has IPv6.
        ipv6: Option<bool> = "IPv6",
        /// The vSwitch layer it lies on.
        layered_on: Option<Guid> = "LayeredOn",
        /// Where endpoints' MAC addresses come from.
        mac_pools: Vec<MacRange> = "MacPools",
        /// The host's address on the network; appears some time after creation.
        management_ip: String = "ManagementIP",
        /// Most endpoints it ever had at once; service-owned.
        max_concurrent_endpoints: Option<u32> = "MaxConcurrentEndpoints",
        /// Unique among networks.
        name: Option<String> = "Name",
        /// The name of the NAT.
        nat_name: String = "NatName",
        /// The host's adapter.
        network_adapter_name: String = "NetworkAdapterName",
        /// Network policies, flat.
        policies: Vec<Policy> = "Policies",
        /// HNS's internal resource tree.
        resources: Option<RawJson> = "Resources",
        /// The MAC address frames leave the host with.
        source_mac: String = "SourceMac",
        /// 1 = created; service-owned.
        state: Option<u16> = "State",
        /// Subnets.
        subnets: Vec<Subnet> = "Subnets",
        /// The network that stands for the external switch.
        switch_guid: Option<Guid> = "SwitchGuid",
        /// Endpoints it ever had; service-owned.
        total_endpoints: Option<u32> = "TotalEndpoints",
        /// The mode.
        mode: Option<NetworkMode> = "Type",
        /// The HNS version that made it: major × 2³² + minor; service-owned.
        version: Option<u64> = "Version",
    }
}

document! {
    /// A subnet of a v1 network.
    pub struct Subnet {
        /// Parameters beside the schema.
        additional_params: Option<RawJson> = "AdditionalParams",
        /// CIDR.
        address_prefix: String = "AddressPrefix",
        /// See [`SubnetFlags`].
        flags: SubnetFlags = "Flags",
        /// The gateway.
        gateway_address: String = "GatewayAddress",
        /// `{LastErrorCode, LastUpdateTime}`.
        health: Option<RawJson> = "Health",
        /// HNS gives every subnet an id.
        id: Option<Guid> = "ID",
        /// Nested prefixes.
        ip_subnets: Vec<IpSubnet> = "IpSubnets",
        /// 5 for a subnet; service-owned.
        object_type: Option<u32> = "ObjectType",
        /// VLAN or VSID, flat.
        policies: Vec<Policy> = "Policies",
        /// Service-owned.
        state: Option<u16> = "State",
    }
}

/// `ObjectType` of a subnet.
pub(super) const OBJECT_TYPE_SUBNET: u32 = 5;
/// `ObjectType` of an IP subnet.
pub(super) const OBJECT_TYPE_IP_SUBNET: u32 = 6;

document! {
    /// A prefix inside a v1 subnet.
    pub struct IpSubnet {
        /// Parameters beside the schema.
        additional_params: Option<RawJson> = "AdditionalParams",
        /// See [`crate::network::IpSubnetFlags`].
        flags: crate::network::IpSubnetFlags = "Flags",
        /// `{LastErrorCode, LastUpdateTime}`.
        health: Option<RawJson> = "Health",
        /// Its id.
        id: Option<Guid> = "ID",
        /// CIDR.
        prefix: String = "IpAddressPrefix",
        /// 6 for an IP subnet; service-owned.
        object_type: Option<u32> = "ObjectType",
        /// Service-owned.
        state: Option<u16> = "State",
    }
}

document! {
    /// An extension of the virtual switch.
    pub struct Extension {
        /// The extension.
        id: String = "Id",
        /// On or off.
        is_enabled: Option<bool> = "IsEnabled",
        /// Its name.
        name: String = "Name",
    }
}

enumeration! {
    /// What has become of an endpoint. Calico tells stale endpoints by it.
    pub enum EndpointState as number {
        /// Nothing yet.
        Uninitialized = 0 "Uninitialized",
        /// Made, without a switch port.
        Created = 1 "Created",
        /// On a switch port.
        Attached = 2 "Attached",
        /// On a switch port that several containers use.
        AttachedSharing = 3 "AttachedSharing",
        /// Taken off its switch port.
        Detached = 4 "Detached",
        /// Its network is gone or broken.
        Degraded = 5 "Degraded",
        /// Deleted.
        Destroyed = 6 "Destroyed",
    }
}

document! {
    /// A v1 endpoint.
    pub struct Endpoint {
        /// HNS's id of the work that made it; service-owned.
        activity_id: Option<Guid> = "ActivityId",
        /// `{SwitchId, SwitchPortId}`; service-owned.
        additional_params: Option<RawJson> = "AdditionalParams",
        /// Service-owned.
        create_processing_start_time: Option<u64> = "CreateProcessingStartTime",
        /// DNS domain.
        dns_domain: String = "DNSDomain",
        /// DNS servers, parted by commas.
        dns_server_list: String = "DNSServerList",
        /// DNS search list, parted by commas.
        dns_suffix: String = "DNSSuffix",
        /// No traffic between endpoints.
        disable_icc: Option<bool> = "DisableICC",
        /// DNS through the host.
        enable_internal_dns: Option<bool> = "EnableInternalDNS",
        /// A low interface metric.
        enable_low_metric: Option<bool> = "EnableLowMetric",
        /// Bytes that encapsulation takes off the MTU.
        encap_overhead: Option<u16> = "EncapOverhead",
        /// See [`EndpointFlags`].
        flags: EndpointFlags = "Flags",
        /// The IPv4 gateway.
        gateway_address: String = "GatewayAddress",
        /// The IPv6 gateway.
        gateway_address_v6: String = "GatewayAddressV6",
        /// `{LastErrorCode, LastUpdateTime}`.
        health: Option<RawJson> = "Health",
        /// The id; optional when creating.
        id: Option<Guid> = "ID",
        /// The IPv4 address.
        ip_address: String = "IPAddress",
        /// The IP subnet the IPv4 address is in.
        ip_subnet_id: Option<Guid> = "IPSubnetId",
        /// The IPv6 address.
        ipv6_address: String = "IPv6Address",
        /// Prefix length of the IPv6 address.
        ipv6_prefix_length: u8 = "IPv6PrefixLength",
        /// The endpoint stands for an address on another node.
        is_remote_endpoint: Option<bool> = "IsRemoteEndpoint",
        /// The MAC address.
        mac_address: Option<String> = "MacAddress",
        /// Not unique.
        name: Option<String> = "Name",
        /// The namespace it is attached to.
        namespace: Option<NamespaceRef> = "Namespace",
        /// Endpoint policies, flat.
        policies: Vec<Policy> = "Policies",
        /// Prefix length of the IPv4 address.
        prefix_length: u8 = "PrefixLength",
        /// HNS's internal resource tree.
        resources: Option<RawJson> = "Resources",
        /// Ids of the containers that share it.
        shared_containers: Option<RawJson> = "SharedContainers",
        /// Service-owned.
        start_time: Option<u64> = "StartTime",
        /// Service-owned.
        state: Option<EndpointState> = "State",
        /// The mode of its network; service-owned.
        network_mode: Option<NetworkMode> = "Type",
        /// The HNS version that made it: major × 2³² + minor; service-owned.
        version: Option<u64> = "Version",
        /// The network's id.
        virtual_network: Option<Guid> = "VirtualNetwork",
        /// The network's name; service-owned.
        virtual_network_name: Option<String> = "VirtualNetworkName",
    }
}

document! {
    /// Names a namespace.
    pub struct NamespaceRef {
        /// Its id.
        id: Option<Guid> = "ID",
    }
}

document! {
    /// A v1 namespace; `POST /namespaces/` takes one with `IsDefault` only.
    pub struct Namespace {
        /// HNS's id of the work that made it; service-owned.
        activity_id: Option<Guid> = "ActivityId",
        /// The compartment's GUID.
        compartment_guid: Option<Guid> = "CompartmentGuid",
        /// The compartment's number.
        compartment_id: Option<u32> = "CompartmentId",
        /// Containers in it; service-owned.
        containers: Option<RawJson> = "Containers",
        /// Flags.
        flags: Option<u32> = "Flags",
        /// `{LastErrorCode, LastUpdateTime}`; service-owned.
        health: Option<RawJson> = "Health",
        /// The id.
        id: Option<Guid> = "ID",
        /// Whether it is the host's own.
        is_default: Option<bool> = "IsDefault",
        /// Policies.
        policies: Option<RawJson> = "Policies",
        /// What is in it.
        resource_list: Vec<NamespaceResource> = "ResourceList",
        /// HNS's internal resource tree, not what is in the namespace; service-owned.
        resources: Option<RawJson> = "Resources",
        /// The schema version it was made with.
        schema_version: Option<SchemaVersion> = "SchemaVersion",
        /// 1 = created; service-owned.
        state: Option<u16> = "State",
        /// The HNS version that made it; service-owned.
        version: Option<u64> = "Version",
    }
}

document! {
    /// A v1 policy list: load balancers (ELB policies) or routes (ROUTE policies) over endpoints.
    pub struct PolicyList {
        /// HNS's id of the work that made it; service-owned.
        activity_id: Option<Guid> = "ActivityId",
        /// `{LastErrorCode, LastUpdateTime}`; service-owned.
        health: Option<RawJson> = "Health",
        /// The id; optional when creating.
        id: Option<Guid> = "ID",
        /// ELB or ROUTE policies, flat.
        policies: Vec<Policy> = "Policies",
        /// `/endpoints/<id>` of each endpoint.
        references: Vec<String> = "References",
        /// HNS's internal resource tree; service-owned.
        resources: Option<RawJson> = "Resources",
        /// 1 = created; service-owned.
        state: Option<u16> = "State",
        /// The HNS version that made it; service-owned.
        version: Option<u64> = "Version",
    }
}

enumeration! {
    /// What an endpoint is attached to.
    pub enum SystemType as name {
        /// A container.
        Container = 0 "Container",
        /// A virtual machine.
        VirtualMachine = 1 "VirtualMachine",
        /// The host.
        Host = 2 "Host",
    }
}

document! {
    /// The body of `POST /endpoints/{id}/attach` and `/detach`.
    pub struct AttachRequest {
        /// The container; absent for the host.
        container_id: String = "ContainerId",
        /// To what.
        system_type: Option<SystemType> = "SystemType",
        /// The compartment; clients attach to the host with 1.
        compartment_id: u16 = "CompartmentId",
        /// The virtual NIC.
        virtual_nic_name: String = "VirtualNicName",
    }
}

document! {
    /// `GET /endpointstats/{id}`. Counters are absent (not 0) only where the build does not have them.
    pub struct EndpointStats {
        /// Bytes the endpoint received.
        bytes_received: Option<u64> = "BytesReceived",
        /// Bytes it sent.
        bytes_sent: Option<u64> = "BytesSent",
        /// Packets to it that were dropped.
        dropped_packets_incoming: Option<u64> = "DroppedPacketsIncoming",
        /// Packets from it that were dropped.
        dropped_packets_outgoing: Option<u64> = "DroppedPacketsOutgoing",
        /// The endpoint.
        endpoint_id: Option<Guid> = "EndpointId",
        /// The switch port's instance.
        instance_id: Option<Guid> = "InstanceId",
        /// Packets it received.
        packets_received: Option<u64> = "PacketsReceived",
        /// Packets it sent.
        packets_sent: Option<u64> = "PacketsSent",
    }
}

document! {
    /// Body and answer of `/accelnet/`.
    pub struct AccelnetMacs {
        /// The management MAC addresses.
        mac_address_list: Option<Vec<MacEntry>> = "MacAddressList",
    }
}

document! {
    /// One address of [`AccelnetMacs`].
    pub struct MacEntry {
        /// The address.
        mac_address: String = "MacAddress",
    }
}
