//! Endpoint policies. Facts: hcsshim's types, Microsoft's schema; numbers by the schema's order (PortName 9 and
//! Firewall 18 are confirmed by WSL's header).

pub use super::common::{Acl, InterfaceConstraint, Isolation, L4Proxy, NatFlags, ProviderAddress};
pub use super::typed::{PolicyError, TypeName};
use super::typed::{policies, read};
use crate::guid::Guid;
use crate::json::RawJson;
use crate::loadbalancer::protocol::Protocol;
use crate::policy::Policy;
use crate::{document, enumeration};

use super::common::{ActionType, DirectionType};

policies! {
    /// A policy on an endpoint, read. The envelope stays the truth about what was sent: this form is for looking
    /// inside and for making new policies.
    pub enum EndpointPolicy of "endpoint" {
        /// A port of the host leads to the endpoint.
        PortMapping(PortMapping) = "PortMapping" # 0;
        /// A filter.
        Acl(Acl) = "ACL" # 1;
        /// A bandwidth cap.
        Qos(Qos) = "QOS" # 2;
        /// HNS's own mark on L2Bridge and NAT endpoints.
        L2Driver(L2Driver) = "L2Driver" # 3, bare true;
        /// Source translation of what leaves the endpoint.
        OutboundNat(OutboundNat) = "OutBoundNAT" # 4;
        /// A route of the endpoint's port.
        SdnRoute(SdnRoute) = "SDNRoute" # 5;
        /// Traffic through a proxy, by VFP.
        L4Proxy(L4Proxy) = "L4Proxy" # 6;
        /// Traffic through a proxy, by WFP.
        L4WfpProxy(L4WfpProxy) = "L4WFPPROXY" # 7;
        /// The node behind which a remote endpoint lies.
        ProviderAddress(ProviderAddress) = "ProviderAddress" # 8;
        /// The switch port's name.
        PortName(PortName) = "PortName" # 9;
        /// What encapsulation takes off the MTU.
        EncapOverhead(EncapOverhead) = "EncapOverhead" # 10;
        /// A host interface.
        InterfaceConstraint(InterfaceConstraint) = "InterfaceConstraint" # 11, string "InterfaceAlias";
        /// IPsec (schema 2.1).
        Encryption(Encryption) = "Encryption" # 12;
        /// A VLAN (schema 2.4).
        Vlan(Isolation) = "VLAN" # 13;
        /// Interface settings (schema 2.4).
        InterfaceParameters(InterfaceParameters) = "InterfaceParameters" # 14;
        /// SR-IOV (schema 2.9).
        Iov(Iov) = "Iov" # 15;
        /// ACLs in tiers (schema 2.10, HNS 14.0).
        TierAcl(TierAcl) = "TierAcl" # 16;
        /// Firewall settings (schema 2.16).
        Firewall(Firewall) = "Firewall" # 18;
    }
}

document! {
    /// PortMapping: a port of the host leads to the endpoint. The external port and protocol are taken for all of
    /// the host: a second mapping is refused with `HCN_E_PORT_ALREADY_EXISTS`.
    pub struct PortMapping {
        /// IANA protocol number.
        protocol: u32 = "Protocol" via Protocol,
        /// The endpoint's port.
        internal_port: u16 = "InternalPort",
        /// The host's port.
        external_port: u16 = "ExternalPort",
        /// The host's address; empty means all.
        vip: String = "VIP",
        /// See [`NatFlags`].
        flags: NatFlags = "Flags",
    }
}

document! {
    /// QOS: a bandwidth cap.
    pub struct Qos {
        /// Bytes per second.
        maximum_outgoing_bandwidth_in_bytes: u64 = "MaximumOutgoingBandwidthInBytes"; always,
    }
}

document! {
    /// L2Driver has no settings.
    pub struct L2Driver {}
}

document! {
    /// OutBoundNAT: what leaves the endpoint takes the host's (or another) address.
    pub struct OutboundNat {
        /// The address to take; empty means the host's.
        virtual_ip: String = "VirtualIP",
        /// Prefixes that are not translated.
        exceptions: Vec<String> = "Exceptions" | "ExceptionList",
        /// Only these destinations are translated (loopback through a DSR load balancer).
        destinations: Vec<String> = "Destinations",
        /// See [`NatFlags`].
        flags: NatFlags = "Flags",
        /// Most blocks of 64 ports to take from the dynamic range.
        max_port_pool_usage: u16 = "MaxPortPoolUsage",
    }
}

document! {
    /// SDNRoute: a route of the endpoint's port.
    pub struct SdnRoute {
        /// CIDR.
        destination_prefix: String = "DestinationPrefix",
        /// Gateway or provider address.
        next_hop: String = "NextHop",
        /// Encapsulate.
        need_encap: bool = "NeedEncap",
        /// Follow the endpoint's state (schema only).
        automatic_endpoint_monitor: bool = "AutomaticEndpointMonitor",
    }
}

document! {
    /// Matching conditions, as ACLs have them.
    pub struct FiveTuple {
        /// Comma list of protocol numbers.
        protocols: String = "Protocols",
        /// Comma list of addresses and prefixes on the endpoint's side.
        local_addresses: String = "LocalAddresses",
        /// The same for the other side.
        remote_addresses: String = "RemoteAddresses",
        /// Comma list of ports and ranges on the endpoint's side.
        local_ports: String = "LocalPorts",
        /// The same for the other side.
        remote_ports: String = "RemotePorts",
        /// Lower wins.
        priority: u16 = "Priority",
    }
}

document! {
    /// What goes past a WFP proxy.
    pub struct ProxyExceptions {
        /// Addresses and prefixes.
        ip_address_exceptions: Vec<String> = "IpAddressExceptions",
        /// Ports.
        port_exceptions: Vec<String> = "PortExceptions",
    }
}

document! {
    /// L4WFPPROXY: traffic of the endpoint goes to a proxy first (WFP; HNS 13.2).
    pub struct L4WfpProxy {
        /// Where inbound traffic goes (schema 2.11).
        inbound_proxy_port: String = "InboundProxyPort",
        /// Where outbound traffic goes (schema 2.11).
        outbound_proxy_port: String = "OutboundProxyPort",
        /// Which traffic.
        filter_tuple: FiveTuple = "FilterTuple"; always,
        /// The proxy's own account, whose traffic goes past it.
        user_sid: String = "UserSID",
        /// Inbound traffic that goes past the proxy (schema 2.14).
        inbound_exceptions: ProxyExceptions = "InboundExceptions"; always,
        /// Outbound traffic that goes past the proxy (schema 2.14).
        outbound_exceptions: ProxyExceptions = "OutboundExceptions"; always,
    }
}

document! {
    /// PortName: the switch port's name.
    pub struct PortName {
        /// The name.
        name: String = "Name",
    }
}

document! {
    /// EncapOverhead: what encapsulation takes off the MTU.
    pub struct EncapOverhead {
        /// Bytes.
        overhead: u16 = "Overhead",
    }
}

enumeration! {
    /// Interrupt moderation of a virtual function; the numbers are Hyper-V's, which are not consecutive.
    pub enum InterruptModeration as number {
        /// The driver's choice.
        Default = 0 "IovInterruptModerationDefault" | "Default",
        /// Adaptive.
        Adaptive = 1 "IovInterruptModerationAdaptive" | "Adaptive",
        /// None.
        Off = 2 "IovInterruptModerationOff" | "Off",
        /// Little.
        Low = 100 "IovInterruptModerationLow" | "Low",
        /// Some.
        Medium = 200 "IovInterruptModerationMedium" | "Medium",
        /// Much.
        High = 300 "IovInterruptModerationHigh" | "High",
    }
}

document! {
    /// Iov: SR-IOV. Off is an Update with weight 0, then a Remove.
    pub struct Iov {
        /// 0 = off, 1 to 100 = weight.
        iov_offload_weight: u32 = "IovOffloadWeight",
        /// Queue pairs.
        queue_pairs_requested: u32 = "QueuePairsRequested",
        /// See [`InterruptModeration`].
        interrupt_moderation: Option<InterruptModeration> = "InterruptModeration",
    }
}

document! {
    /// TierAcl: one tier of ACLs of one direction. Tiers are asked in order; `Pass` goes to the next.
    pub struct TierAcl {
        /// The tier's name.
        name: String = "Name"; always,
        /// With traffic of which direction.
        direction: Option<DirectionType> = "Direction",
        /// Lower is asked first.
        order: u16 = "Order"; always,
        /// The rules.
        rules: Vec<TierAclRule> = "TierAclRules",
    }
}

document! {
    /// A rule of a tier.
    pub struct TierAclRule {
        /// The rule's id.
        id: Option<String> = "Id",
        /// Comma list of protocol numbers; empty means any.
        protocols: String = "Protocols",
        /// What to do.
        action: Option<ActionType> = "TierAclRuleAction",
        /// Comma list of addresses and prefixes on the endpoint's side; empty means any.
        local_addresses: String = "LocalAddresses",
        /// The same for the other side.
        remote_addresses: String = "RemoteAddresses",
        /// Comma list of ports and ranges on the endpoint's side; empty means any.
        local_ports: String = "LocalPorts",
        /// The same for the other side.
        remote_ports: String = "RemotePorts",
        /// Lower wins.
        priority: u16 = "Priority",
    }
}

enumeration! {
    /// How the ends of an encrypted connection know each other.
    pub enum AuthenticationType as name {
        /// By a key both have.
        PresharedKey = 0 "PresharedKey",
        /// By certificates.
        Certificate = 1 "Certificate",
    }
}

document! {
    /// One way of authentication; the first that works is used.
    pub struct AuthenticationMethod {
        /// Which.
        kind: Option<AuthenticationType> = "Type",
        /// `{Key}` or `{CertificateName}`.
        settings: Option<RawJson> = "Settings",
    }
}

document! {
    /// Encryption: IPsec between endpoints (schema 2.1; hcsshim does not have it).
    pub struct Encryption {
        /// "Ipsec".
        method: Option<String> = "EncryptionMethodType",
        /// In order of preference.
        authentication_methods: Vec<AuthenticationMethod> = "AuthenticationMethods",
        /// The rule's name.
        name: String = "Name",
        /// Addresses of one end; none means any.
        endpoints1: Vec<String> = "Endpoints1",
        /// Addresses of the other end; none means any.
        endpoints2: Vec<String> = "Endpoints2",
        /// Protocol; empty means any.
        protocol_type: String = "ProtocolType",
        /// Ports of one end; none means all.
        endpoint1_ports: Vec<String> = "Endpoint1Ports",
        /// Ports of the other end; none means all.
        endpoint2_ports: Vec<String> = "Endpoint2Ports",
    }
}

document! {
    /// InterfaceParameters: only one is allowed on an endpoint.
    pub struct InterfaceParameters {
        /// MTU in bytes.
        mtu: u16 = "Mtu",
    }
}

document! {
    /// Firewall (schema 2.16). Microsoft's pages and WSL name the members differently; both are read.
    pub struct Firewall {
        /// Who made the virtual machine (WSL's name).
        vm_creator_id: Option<Guid> = "VmCreatorId",
        /// Flags.
        policy_flags: u32 = "PolicyFlags" | "FirewallPolicyFlags",
    }
}
