//! Canonical v1 documents and load balancers, which must come back exactly.

use hcn::endpoint::EndpointFlags;
use hcn::{LoadBalancer, Policy, v1};
use proptest::prelude::*;

use super::random::value;

pub(super) fn guid() -> impl Strategy<Value = hcn::Guid> {
    any::<u128>().prop_map(hcn::Guid::from_u128)
}

fn v4() -> impl Strategy<Value = String> {
    any::<[u8; 4]>().prop_map(|octets| std::net::Ipv4Addr::from(octets).to_string())
}

fn v6() -> impl Strategy<Value = String> {
    any::<[u8; 16]>().prop_map(|octets| std::net::Ipv6Addr::from(octets).to_string())
}

fn address() -> impl Strategy<Value = String> {
    prop_oneof![v4(), v6()]
}

fn list() -> impl Strategy<Value = String> {
    prop::collection::vec("[a-z.]{1,8}", 0..3).prop_map(|items| items.join(","))
}

fn raw() -> impl Strategy<Value = hcn::json::RawJson> {
    value()
        .prop_filter("null is absence", |value| !value.is_null())
        .prop_map(|value| hcn::json::RawJson::of(&value))
}

fn extra() -> impl Strategy<Value = hcn::json::Extra> {
    prop::collection::btree_map("\\?[a-z]{1,4}", raw(), 0..3)
        .prop_map(|members| hcn::json::Extra(members.into_iter().collect()))
}

fn policies() -> impl Strategy<Value = Vec<Policy>> {
    let texts = prop::sample::select(vec![
        r#"{"Type":"VLAN","VLAN":7}"#,
        r#"{"Type":"VSID","VSID":4096}"#,
        r#"{"Type":"L2Driver"}"#,
        r#"{"Type":"QOS","MaximumOutgoingBandwidthInBytes":9}"#,
        r#"{"Type":"OutBoundNAT","VIP":"192.0.2.1","ExceptionList":["10.60.0.0/16"]}"#,
        r#"{"Type":"ROUTE","DestinationPrefix":"10.60.0.0/16","NeedEncap":true}"#,
        r#"{"Type":"ACL","Protocols":"6","Action":"Allow","Direction":"In","Priority":65500}"#,
        r#"{"Type":"NAT","Protocol":"TCP","InternalPort":80,"ExternalPort":8080,"ExternalPortReserved":true}"#,
        r#"{"Type":"Unheard","A":{ "b": 1 }}"#,
    ]);
    prop::collection::vec(texts.prop_map(|text| Policy::parse(text).unwrap()), 0..4)
}

fn subnet() -> impl Strategy<Value = v1::Subnet> {
    (prop::option::of(guid()), any::<[u8; 2]>(), any::<bool>(), any::<u32>(), policies(), extra()).prop_map(
        |(id, [a, b], gateway, flags, policies, extra)| v1::Subnet {
            id,
            address_prefix: format!("10.{a}.{b}.0/24"),
            gateway_address: if gateway { format!("10.{a}.{b}.1") } else { String::new() },
            flags: hcn::network::SubnetFlags::from_bits_retain(flags),
            object_type: Some(5),
            policies,
            extra,
            ..v1::Subnet::default()
        },
    )
}

prop_compose! {
    pub(super) fn network()(
        (id, name, adapter, mac) in (prop::option::of(guid()), prop::option::of(".{0,6}"), "[a-z]{0,4}", "[0-9]{0,4}"),
        (suffix, servers, domain) in (list(), list(), "[a-z.]{0,4}"),
        subnets in prop::collection::vec(subnet(), 0..3),
        (management, dr_mac) in (prop_oneof![Just(String::new()), v4()], "[0-9]{0,4}"),
        (automatic_dns, ipv6, flags) in (any::<Option<bool>>(), any::<Option<bool>>(), any::<u32>()),
        (layered_on, switch_guid) in (prop::option::of(guid()), prop::option::of(guid())),
        (health, resources, params) in (prop::option::of(raw()), prop::option::of(raw()), prop::option::of(raw())),
        (count, state, version) in (any::<Option<u32>>(), any::<Option<u16>>(), any::<Option<u64>>()),
        (policies, extra) in (policies(), extra()),
    ) -> v1::Network {
        v1::Network {
            id, name, network_adapter_name: adapter, source_mac: mac.clone(), nat_name: mac,
            dns_suffix: suffix, dns_server_list: servers, dns_domain: domain, subnets,
            management_ip: management, dr_mac_address: dr_mac, automatic_dns, ipv6,
            flags: hcn::network::NetworkFlags::from_bits_retain(flags), layered_on, switch_guid, health,
            resources, additional_params: params, current_endpoint_count: count, state, version,
            policies, extra, ..v1::Network::default()
        }
    }
}

prop_compose! {
    pub(super) fn endpoint()(
        (id, name, network, namespace) in
            (prop::option::of(guid()), prop::option::of(".{0,6}"), prop::option::of(guid()), prop::option::of(guid())),
        (ip, length, subnet) in (prop_oneof![Just(String::new()), v4()], any::<u8>(), prop::option::of(guid())),
        (ip6, length6) in (prop_oneof![Just(String::new()), v6()], any::<u8>()),
        (gateway, gateway6) in (prop_oneof![Just(String::new()), v4()], prop_oneof![Just(String::new()), v6()]),
        (suffix, servers, domain) in (list(), list(), "[a-z.]{0,4}"),
        (flags, overhead, mac) in (any::<u32>(), any::<Option<u16>>(), prop::option::of("[0-9-]{0,8}")),
        (health, resources, containers) in (prop::option::of(raw()), prop::option::of(raw()), prop::option::of(raw())),
        (state, version, start) in (0_u32..9, any::<Option<u64>>(), any::<Option<u64>>()),
        (policies, extra) in (policies(), extra()),
    ) -> v1::Endpoint {
        let flags = EndpointFlags::from_bits_retain(flags);
        let named = |flag| flags.contains(flag).then_some(true);
        v1::Endpoint {
            id, name, virtual_network: network,
            namespace: namespace.map(|id| v1::NamespaceRef { id: Some(id), ..Default::default() }),
            ip_address: ip, prefix_length: length, ip_subnet_id: subnet,
            ipv6_address: ip6, ipv6_prefix_length: length6,
            gateway_address: gateway, gateway_address_v6: gateway6,
            dns_suffix: suffix, dns_server_list: servers, dns_domain: domain,
            is_remote_endpoint: named(EndpointFlags::REMOTE_ENDPOINT),
            disable_icc: named(EndpointFlags::DISABLE_INTER_COMPUTE_COMMUNICATION),
            enable_low_metric: named(EndpointFlags::ENABLE_LOW_INTERFACE_METRIC),
            enable_internal_dns: named(EndpointFlags::OVERRIDE_DNS_SERVER_ORDER),
            flags, encap_overhead: overhead, mac_address: mac, health, resources, shared_containers: containers,
            state: Some(v1::EndpointState::from_number(state)), version, start_time: start,
            policies, extra, ..v1::Endpoint::default()
        }
    }
}

prop_compose! {
    pub(super) fn balancer()(
        (id, endpoints) in (prop::option::of(guid()), prop::collection::vec(guid(), 0..4)),
        vips in prop::collection::vec(address(), 0..3),
        (source_vip, flags) in (prop_oneof![Just(String::new()), v4()], any::<u32>()),
        mappings in prop::collection::vec((0_u32..200, any::<u16>(), any::<u16>(), any::<u32>(), prop::option::of(0_u32..4)), 0..3),
        extra in extra(),
    ) -> LoadBalancer {
        let port_mappings = mappings.into_iter().map(|(protocol, internal_port, external_port, flags, distribution)| {
            hcn::loadbalancer::PortMapping {
                protocol, internal_port, external_port,
                distribution: distribution.map(hcn::loadbalancer::Distribution::from_number),
                flags: hcn::loadbalancer::PortMappingFlags::from_bits_retain(flags),
                ..Default::default()
            }
        }).filter(|mapping| *mapping != hcn::loadbalancer::PortMapping::default()).collect();
        LoadBalancer {
            id, endpoints, source_vip, frontend_vips: vips, port_mappings,
            flags: hcn::loadbalancer::LoadBalancerFlags::from_bits_retain(flags), extra, ..LoadBalancer::default()
        }
    }
}
