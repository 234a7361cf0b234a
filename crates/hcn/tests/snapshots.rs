//! One document of each kind as a client or HNS writes it, in v2 and in v1, for people to look at when a change
//! makes them differ.

use hcn::endpoint::{EndpointFlags, IpConfig};
use hcn::loadbalancer::{Distribution, LoadBalancerFlags, PortMapping, PortMappingFlags, protocol};
use hcn::namespace::{NamespaceResource, NamespaceType};
use hcn::network::{
    Dns, ExtraParams, Health, Ipam, IpamType, MacPool, MacRange, NetworkFlags, NetworkMode, Route, Subnet,
};
use hcn::policy::endpoint::{
    Acl, OutboundNat, PortMapping as HostPort, ProviderAddress, TierAcl, TierAclRule,
};
use hcn::policy::network::{HostRoute, RemoteSubnetRoute, SetPolicy, SetPolicyType, VxlanPort};
use hcn::policy::subnet::Isolation;
use hcn::policy::{ActionType, DirectionType, EndpointPolicy, NetworkPolicy, RuleType, SubnetPolicy};
use hcn::query::SchemaVersion;
use hcn::route::SdnRouteSetting;
use hcn::v1::{self, EndpointState, Facts};
use hcn::{Endpoint, Guid, LoadBalancer, Namespace, Network, SdnRoute, Version};

const NETWORK: Guid = Guid::from_u128(0xaaaa_0000_0000_4000_8000_0000_0000_0001);
const LOCAL: Guid = Guid::from_u128(0xbbbb_0000_0000_4000_8000_0000_0000_0005);
const REMOTE: Guid = Guid::from_u128(0xbbbb_0000_0000_4000_8000_0000_0000_0025);
const NAMESPACE: Guid = Guid::from_u128(0xcccc_0000_0000_4000_8000_0000_0000_0001);
const BALANCER: Guid = Guid::from_u128(0xdddd_0000_0000_4000_8000_0000_0000_0001);
const ROUTE: Guid = Guid::from_u128(0xeeee_0000_0000_4000_8000_0000_0000_0001);

fn pretty(text: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(text).unwrap();
    serde_json::to_string_pretty(&value).unwrap()
}

fn both(v2: &str, v1: &str) -> String {
    format!("v2 {}\n\nv1 {}", pretty(v2), pretty(v1))
}

fn facts() -> Facts {
    Facts { version: Some(Version::new(13, 3).packed()), ..Facts::default() }
}

#[test]
fn an_overlay_network() {
    let policies = [
        NetworkPolicy::RemoteSubnetRoute(RemoteSubnetRoute {
            destination_prefix: "10.50.2.0/24".to_owned(),
            isolation_id: 4096,
            provider_address: "192.0.2.12".to_owned(),
            distributed_router_mac_address: "00-15-5D-AB-CD-02".to_owned(),
            ..RemoteSubnetRoute::default()
        }),
        NetworkPolicy::VxlanPort(VxlanPort { port: 4789, ..VxlanPort::default() }),
        NetworkPolicy::HostRoute(HostRoute::default()),
        NetworkPolicy::Set(SetPolicy {
            id: "pods".to_owned(),
            name: "pods".to_owned(),
            policy_type: Some(SetPolicyType::IpSet),
            values: "10.50.1.5,10.50.1.6".to_owned(),
            ..SetPolicy::default()
        }),
        NetworkPolicy::ProviderAddress(ProviderAddress {
            provider_address: "192.0.2.11".to_owned(),
            ..ProviderAddress::default()
        }),
    ];
    let subnet = Subnet {
        prefix: "10.50.1.0/24".to_owned(),
        policies: vec![SubnetPolicy::Vsid(Isolation { isolation_id: 4096, ..Isolation::default() }).into()],
        routes: vec![Route {
            next_hop: "10.50.1.1".to_owned(),
            destination_prefix: "0.0.0.0/0".to_owned(),
            ..Route::default()
        }],
        ..Subnet::default()
    };
    let network = Network {
        id: Some(NETWORK.upper()),
        name: Some("vxlan0".to_owned()),
        mode: Some(NetworkMode::Overlay),
        policies: policies.into_iter().map(Into::into).collect(),
        mac_pool: Some(MacPool {
            ranges: vec![MacRange {
                start: "00-15-5D-52-C0-00".to_owned(),
                end: "00-15-5D-52-CF-FF".to_owned(),
                ..MacRange::default()
            }],
            ..MacPool::default()
        }),
        dns: Some(Dns { server_list: vec!["10.60.0.10".to_owned()], ..Dns::default() }),
        ipams: vec![Ipam { kind: Some(IpamType::Static), subnets: vec![subnet], ..Ipam::default() }],
        flags: NetworkFlags::ENABLE_NON_PERSISTENT,
        health: Some(Health {
            extra_params: Some(ExtraParams { switch_guid: Some(NETWORK), ..ExtraParams::default() }),
            ..Health::default()
        }),
        schema_version: Some(SchemaVersion::V2),
        ..Network::default()
    };
    let facts = Facts { state: Some(1), current_endpoint_count: Some(2), ..facts() };
    insta::assert_snapshot!(both(&network.to_json(), &v1::network_from_v2(&network, &facts).to_json()));
}

#[test]
fn a_pods_endpoint() {
    let policies = [
        EndpointPolicy::OutboundNat(OutboundNat {
            exceptions: vec!["10.50.0.0/16".to_owned(), "10.60.0.0/16".to_owned()],
            ..OutboundNat::default()
        }),
        EndpointPolicy::PortMapping(HostPort {
            protocol: protocol::TCP,
            internal_port: 80,
            external_port: 8080,
            ..HostPort::default()
        }),
        EndpointPolicy::Acl(Acl {
            protocols: "6".to_owned(),
            action: Some(ActionType::Allow),
            direction: Some(DirectionType::In),
            local_ports: "80,8000-8099".to_owned(),
            rule_type: Some(RuleType::Switch),
            priority: 200,
            ..Acl::default()
        }),
        EndpointPolicy::TierAcl(TierAcl {
            name: "base".to_owned(),
            direction: Some(DirectionType::In),
            order: 1001,
            rules: vec![TierAclRule { action: Some(ActionType::Pass), ..TierAclRule::default() }],
            ..TierAcl::default()
        }),
    ];
    let endpoint = Endpoint {
        id: Some(LOCAL),
        name: Some("web-1_eth0".to_owned()),
        network: Some(NETWORK.upper()),
        namespace: Some(NAMESPACE),
        policies: policies.into_iter().map(Into::into).collect(),
        ip_configurations: vec![
            IpConfig { ip_address: "10.50.1.5".to_owned(), prefix_length: 24, ..IpConfig::default() },
            IpConfig { ip_address: "2001:db8:50::5".to_owned(), prefix_length: 64, ..IpConfig::default() },
        ],
        dns: Some(Dns {
            domain: Some("cluster.test".to_owned()),
            search: vec!["default.svc.cluster.test".to_owned(), "svc.cluster.test".to_owned()],
            server_list: vec!["10.60.0.10".to_owned()],
            options: vec!["ndots:5".to_owned()],
            ..Dns::default()
        }),
        routes: vec![Route {
            next_hop: "10.50.1.1".to_owned(),
            destination_prefix: "0.0.0.0/0".to_owned(),
            ..Route::default()
        }],
        mac_address: Some("00-15-5D-52-C0-05".to_owned()),
        schema_version: Some(SchemaVersion::V2),
        ..Endpoint::default()
    };
    let facts = Facts {
        endpoint_state: Some(EndpointState::Attached),
        virtual_network_name: Some("vxlan0".to_owned()),
        network_mode: Some(NetworkMode::Overlay),
        ..facts()
    };
    insta::assert_snapshot!(both(&endpoint.to_json(), &v1::endpoint_from_v2(&endpoint, &facts).to_json()));
}

#[test]
fn a_remote_endpoint() {
    let endpoint = Endpoint {
        id: Some(REMOTE),
        name: Some("10.50.2.5".to_owned()),
        network: Some(NETWORK),
        policies: vec![
            EndpointPolicy::ProviderAddress(ProviderAddress {
                provider_address: "192.0.2.12".to_owned(),
                ..ProviderAddress::default()
            })
            .into(),
        ],
        ip_configurations: vec![IpConfig { ip_address: "10.50.2.5".to_owned(), ..IpConfig::default() }],
        mac_address: Some("02-11-0A-32-02-05".to_owned()),
        flags: EndpointFlags::REMOTE_ENDPOINT,
        schema_version: Some(SchemaVersion::V2),
        ..Endpoint::default()
    };
    insta::assert_snapshot!(both(&endpoint.to_json(), &v1::endpoint_from_v2(&endpoint, &facts()).to_json()));
}

#[test]
fn the_hosts_namespace() {
    let namespace = Namespace {
        id: Some(NAMESPACE.upper()),
        namespace_id: Some(1),
        kind: Some(NamespaceType::HostDefault),
        resources: vec![NamespaceResource::endpoint(LOCAL), NamespaceResource::container("web-1")],
        schema_version: Some(SchemaVersion::V2),
        ..Namespace::default()
    };
    assert_eq!(namespace.resources[0].endpoint_id(), Some(LOCAL));
    assert_eq!(namespace.resources[1].endpoint_id(), None);
    let facts = Facts { state: Some(1), ..facts() };
    insta::assert_snapshot!(both(&namespace.to_json(), &v1::namespace_from_v2(&namespace, &facts).to_json()));
}

#[test]
fn a_services_load_balancer() {
    let mapping = |number, port| PortMapping {
        protocol: number,
        internal_port: port,
        external_port: port,
        distribution: Some(Distribution::SourceIp),
        flags: PortMappingFlags::ILB | PortMappingFlags::PRESERVE_DIP,
        ..PortMapping::default()
    };
    let balancer = LoadBalancer {
        id: Some(BALANCER),
        network: Some(NETWORK),
        endpoints: vec![LOCAL.upper(), REMOTE],
        source_vip: "10.50.1.2".to_owned(),
        frontend_vips: vec!["10.60.0.10".to_owned()],
        port_mappings: vec![mapping(protocol::UDP, 53), mapping(protocol::TCP, 53)],
        flags: LoadBalancerFlags::DSR,
        schema_version: Some(SchemaVersion::V2),
        ..LoadBalancer::default()
    };
    let frontends: Vec<String> = balancer.frontends().iter().map(ToString::to_string).collect();
    assert_eq!(frontends, ["10.60.0.10:53/UDP", "10.60.0.10:53/TCP"]);
    let list = v1::policy_list_from_load_balancer(&balancer, &facts());
    insta::assert_snapshot!(both(&balancer.to_json(), &list.to_json()));
}

#[test]
fn an_sdn_route() {
    let setting = SdnRouteSetting {
        destination_prefix: "169.254.169.254/32".to_owned(),
        next_hop: "192.0.2.1".to_owned(),
        need_encap: true,
        ..SdnRouteSetting::default()
    };
    let route = SdnRoute {
        id: Some(ROUTE),
        endpoints: vec![LOCAL],
        setting: vec![setting.clone()],
        routes: vec![setting],
        schema_version: Some(SchemaVersion::V2),
        ..SdnRoute::default()
    };
    let list = v1::policy_list_from_route(&route, &facts());
    insta::assert_snapshot!(both(&route.to_json(), &list.to_json()));
}

#[test]
fn frontends_of_node_ports_have_no_address() {
    let text = r#"{"FrontendVIPs":[""],"PortMappings":[{"Protocol":132,"ExternalPort":30053},{"Protocol":47}],"Flags":2}"#;
    let frontends: Vec<String> =
        LoadBalancer::parse(text).unwrap().frontends().iter().map(ToString::to_string).collect();
    assert_eq!(frontends, ["[node]:30053/SCTP", "[node]:0/protocol 47"]);
    let text = r#"{"FrontendVIPs":["2001:db8:60::a","nonsense","10.60.0.10"],"PortMappings":[{"Protocol":6,"ExternalPort":80}]}"#;
    let frontends: Vec<String> =
        LoadBalancer::parse(text).unwrap().frontends().iter().map(ToString::to_string).collect();
    assert_eq!(frontends, ["[2001:db8:60::a]:80/TCP", "10.60.0.10:80/TCP"]);
}
