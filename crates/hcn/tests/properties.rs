//! Properties of documents and of the conversion: nothing is lost, nothing panics, printing is stable.

use hcn::v1::{self, Facts, PolicyListObject};
use hcn::{Endpoint, Kind, LoadBalancer, Namespace, Network, Policy, Query, SdnRoute};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use serde_json::Value;

/// A failing case is printed whole; one worth keeping becomes an example in another file.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// What a member of this name usually holds, whatever document it stands in.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Flag,
    Number(u64),
    Text,
    Id,
    Texts,
    Ids,
    Object,
    Objects,
    Any,
}

/// Every document's members: random documents are made of these and of made-up names.
const MEMBERS: &[(Shape, &[&str])] = &[
    (
        Shape::Flag,
        &[
            "AutomaticDNS",
            "AutomaticEndpointMonitor",
            "CreateWithCompartment",
            "DisableICC",
            "EnableInternalDNS",
            "EnableLowMetric",
            "ExternalPortReserved",
            "ILB",
            "IPv6",
            "IsDSR",
            "IsDefault",
            "IsEnabled",
            "IsRemoteEndpoint",
            "NeedEncap",
        ],
    ),
    (Shape::Number(255), &["IPv6PrefixLength", "PrefixLength"]),
    (
        Shape::Number(65535),
        &["EncapOverhead", "ExternalPort", "InternalPort", "LocalPort", "Metric", "RemotePort", "State"],
    ),
    (
        Shape::Number(u32::MAX as u64),
        &[
            "CompartmentId",
            "CurrentEndpointCount",
            "DNSServerCompartment",
            "DistributionType",
            "Flags",
            "MaxConcurrentEndpoints",
            "NamespaceId",
            "ObjectType",
            "Protocol",
            "TotalEndpoints",
            "VLAN",
            "VSID",
        ],
    ),
    (Shape::Number(u64::MAX), &["CreateProcessingStartTime", "StartTime", "Version"]),
    (
        Shape::Text,
        &[
            "AddressPrefix",
            "DNSDomain",
            "DNSServerList",
            "DNSSuffix",
            "DestinationPrefix",
            "Domain",
            "DrMacAddress",
            "EndMacAddress",
            "Filter",
            "GatewayAddress",
            "GatewayAddressV6",
            "GatewayMac",
            "IPAddress",
            "IPv6Address",
            "IpAddress",
            "IpAddressPrefix",
            "LocalPorts",
            "MacAddress",
            "ManagementIP",
            "Name",
            "NatName",
            "NetworkAdapterName",
            "NextHop",
            "Owner",
            "PA",
            "Protocols",
            "ProviderAddress",
            "SourceMac",
            "SourceVIP",
            "StartMacAddress",
            "Type",
            "VIP",
            "VirtualNetworkName",
        ],
    ),
    (
        Shape::Id,
        &[
            "ActivityId",
            "CompartmentGuid",
            "HostComputeNamespace",
            "HostComputeNetwork",
            "ID",
            "IPSubnetId",
            "IpSubnetId",
            "LayeredOn",
            "NamespaceGuid",
            "SwitchGuid",
            "UtilityVM",
            "VirtualMachine",
            "VirtualNetwork",
        ],
    ),
    (
        Shape::Texts,
        &["ExceptionList", "FrontendVIPs", "Options", "References", "Search", "ServerList", "VIPs"],
    ),
    (Shape::Ids, &["HostComputeEndpoints"]),
    (Shape::Object, &["AdditionalParams", "Dns", "Extra", "Health", "MacPool", "Namespace", "Settings"]),
    (
        Shape::Objects,
        &[
            "Extensions",
            "IpConfigurations",
            "IpSubnets",
            "Ipams",
            "MacPools",
            "Policies",
            "PortMappings",
            "Ranges",
            "ResourceList",
            "Routes",
            "Setting",
            "Subnets",
        ],
    ),
    (Shape::Any, &["Containers", "Data", "Resources", "SharedContainers", "?", "Unheard", "\u{e9}\"\\"]),
];

/// Texts that mean something somewhere.
const TEXTS: &[&str] = &[
    "",
    "x",
    "a,b",
    " a",
    "10.50.1.5",
    "2001:db8:50::5",
    "10.50.1.0/24",
    "::/0",
    "0.0.0.0/0",
    "6",
    "TCP",
    "NAT",
    "Overlay",
    "ELB",
    "ROUTE",
    "ACL",
    "VLAN",
    "PA",
    "ProviderAddress",
    "NetAdapterName",
    "PortMapping",
    "OutBoundNAT",
    "/endpoints/00000000-0000-0000-0000-00000000000a",
    "Host",
    "GuestDefault",
    "Dhcp",
    "EncapOverhead",
    "DrMacAddress",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u32..20).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(TEXTS).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((".{0,4}", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn text() -> impl Strategy<Value = Value> {
    prop_oneof![4 => prop::sample::select(TEXTS).prop_map(Value::from), 1 => ".{0,6}".prop_map(Value::from)]
}

fn id() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::from("00000000-0000-0000-0000-000000000000")),
        any::<u128>().prop_map(|id| hcn::Guid::from_u128(id).to_string().into()),
        any::<u128>().prop_map(|id| hcn::Guid::from_u128(id).upper().to_string().into()),
    ]
}

/// A value of a shape, now and then of another.
fn shaped(shape: Shape, depth: u32) -> BoxedStrategy<Value> {
    let right = match shape {
        Shape::Flag => any::<bool>().prop_map(Value::from).boxed(),
        Shape::Number(most) => prop_oneof![Just(0), 0..=most.min(20), 0..=most].prop_map(Value::from).boxed(),
        Shape::Text => text().boxed(),
        Shape::Id => id().boxed(),
        Shape::Texts => prop::collection::vec(text(), 0..3).prop_map(Value::from).boxed(),
        Shape::Ids => prop::collection::vec(id(), 0..3).prop_map(Value::from).boxed(),
        Shape::Object if depth > 0 => object_of(depth - 1, 4).boxed(),
        Shape::Objects if depth > 0 => {
            prop::collection::vec(object_of(depth - 1, 4), 0..3).prop_map(Value::from).boxed()
        }
        Shape::Object => Just(Value::Object(serde_json::Map::default())).boxed(),
        Shape::Objects => Just(Value::Array(Vec::new())).boxed(),
        Shape::Any => value().boxed(),
    };
    prop_oneof![60 => right, 2 => Just(Value::Null), 1 => value()].boxed()
}

fn member(depth: u32) -> impl Strategy<Value = (String, Value)> {
    let names: Vec<(Shape, &str)> =
        MEMBERS.iter().flat_map(|(shape, names)| names.iter().map(move |name| (*shape, *name))).collect();
    (prop::sample::select(names), 0..10).prop_flat_map(move |((shape, name), spelling)| {
        let name = if spelling == 0 { name.to_uppercase() } else { name.to_owned() };
        (Just(name), shaped(shape, depth))
    })
}

fn object_of(depth: u32, most: usize) -> impl Strategy<Value = Value> {
    prop::collection::vec(member(depth), 0..=most)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
}

/// A document: members that may stand anywhere, mostly holding what such a member holds.
fn object() -> impl Strategy<Value = Value> {
    object_of(3, 12)
}

#[test]
fn random_documents_are_worth_testing_with() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut read = [0; 4];
    for _ in 0..400 {
        let text = object().new_tree(&mut runner).unwrap().current().to_string();
        read[0] += usize::from(Network::parse(&text).is_ok());
        read[1] += usize::from(Endpoint::parse(&text).is_ok());
        read[2] += usize::from(v1::Network::parse(&text).is_ok());
        read[3] += usize::from(v1::Endpoint::parse(&text).is_ok());
    }
    assert!(read.iter().all(|&count| count > 200), "of 400 documents only {read:?} are readable");
}

/// What is read prints, and what was printed reads as the same.
macro_rules! stable {
    ($text:expr, $($document:ty),*) => { $(
        if let Ok(document) = <$document>::parse($text) {
            let printed = document.to_json();
            let again = <$document>::parse(&printed).map_err(|e| TestCaseError::fail(format!("{e}: {printed}")))?;
            prop_assert_eq!(again.to_json(), printed);
            prop_assert_eq!(again, document);
        }
    )* };
}

/// Converting twice gives what converting once gave: the first time finds the canonical spelling. The order of
/// members is not part of it.
fn settles<T>(
    document: &T,
    there_and_back: impl Fn(&T) -> T,
    print: impl Fn(&T) -> String,
) -> Result<(), TestCaseError> {
    let first = there_and_back(document);
    let second = there_and_back(&first);
    let (first, second) = (print(&first), print(&second));
    let value = |text: &str| {
        serde_json::from_str::<Value>(text).map_err(|error| TestCaseError::fail(error.to_string()))
    };
    prop_assert_eq!(value(&second)?, value(&first)?);
    Ok(())
}

/// No member is written twice: what is printed reads as the document it was printed from.
macro_rules! once {
    ($document:expr, $type:ty) => {{
        let document = $document;
        prop_assert_eq!(&<$type>::parse(&document.to_json()).unwrap(), &document);
        document
    }};
}

/// Runs everything that takes text from outside.
fn read_everything(text: &str) -> Result<(), TestCaseError> {
    stable!(text, Network, Endpoint, Namespace, LoadBalancer, SdnRoute, Policy, Query);
    stable!(
        text,
        v1::Network,
        v1::Endpoint,
        v1::Namespace,
        v1::PolicyList,
        v1::AttachRequest,
        v1::EndpointStats
    );
    for kind in Kind::ALL {
        let _ = v1::is_v1(kind, text);
    }
    let _ = v1::read_network(text).map(|document| hcn::needs::of_network(&document));
    let _ = v1::read_endpoint(text).map(|document| hcn::needs::of_endpoint(&document));
    let _ = v1::read_load_balancer(text)
        .map(|document| (document.frontends(), hcn::needs::of_load_balancer(&document)));
    let _ = (v1::read_namespace(text), v1::read_route(text));
    let _ = Query::from_text(text).and_then(|query| query.filter_properties());
    let _ = hcn::policy::acl::addresses("RemoteAddresses", text);
    let _ = hcn::policy::acl::ports("RemotePorts", text);
    let _ = hcn::policy::acl::protocols("Protocols", text);
    let _ = text.parse::<hcn::Mac>();
    let _ = text.parse::<hcn::Guid>();
    Ok(())
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn unknown_members_survive_to_the_byte(
        members in prop::collection::vec(("[k-z]{1,6}|\u{e9}|\"|\\\\", value(), any::<bool>()), 0..8)
    ) {
        // Made-up names; values printed compact or with white space, which must survive.
        let mut text = String::new();
        for (name, value, pretty) in &members {
            let value = if *pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
            let name = Value::from(format!("?{name}")).to_string();
            let comma = if text.is_empty() { "" } else { "," };
            text = format!("{text}{comma}{name}:{}", value.unwrap());
        }
        let text = format!("{{{text}}}");
        prop_assert_eq!(Network::parse(&text).unwrap().to_json(), text.clone());
        prop_assert_eq!(Endpoint::parse(&text).unwrap().to_json(), text.clone());
        prop_assert_eq!(LoadBalancer::parse(&text).unwrap().to_json(), text.clone());
        prop_assert_eq!(v1::Network::parse(&text).unwrap().to_json(), text.clone());
        // They also survive the conversion and back.
        let there = v1::network_from_v2(&Network::parse(&text).unwrap(), &Facts::default());
        prop_assert_eq!(v1::network_to_v2(&there).to_json(), text);
    }

    #[test]
    fn documents_of_known_names_print_stably(document in object()) {
        read_everything(&document.to_string())?;
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,64}|[\\[\\]{}:,\"0-9a-z\\\\.+-]{0,64}") {
        read_everything(&text)?;
    }

    #[test]
    fn broken_documents_are_read_or_refused(document in object(), at in any::<prop::sample::Index>(), with in any::<char>()) {
        let mut text: Vec<char> = document.to_string().chars().collect();
        let at = at.index(text.len());
        text[at] = with;
        read_everything(&text.iter().collect::<String>())?;
        read_everything(&text[..at].iter().collect::<String>())?;
    }

    #[test]
    fn conversions_settle(document in object()) {
        let text = &document.to_string();
        let none = &Facts::default();
        if let Ok(old) = v1::Network::parse(text) {
            once!(v1::network_to_v2(&old), Network);
            settles(&old, |old| v1::network_from_v2(&v1::network_to_v2(old), &Facts::of_network(old)), v1::Network::to_json)?;
        }
        if let Ok(old) = v1::Endpoint::parse(text) {
            once!(v1::endpoint_to_v2(&old), Endpoint);
            settles(&old, |old| v1::endpoint_from_v2(&v1::endpoint_to_v2(old), &Facts::of_endpoint(old)), v1::Endpoint::to_json)?;
        }
        if let Ok(old) = v1::Namespace::parse(text) {
            once!(v1::namespace_to_v2(&old), Namespace);
            settles(&old, |old| v1::namespace_from_v2(&v1::namespace_to_v2(old), &Facts::of_namespace(old)), v1::Namespace::to_json)?;
        }
        if let Ok(new) = Network::parse(text) {
            once!(v1::network_from_v2(&new, none), v1::Network);
            settles(&new, |new| v1::network_to_v2(&v1::network_from_v2(new, none)), Network::to_json)?;
        }
        if let Ok(new) = Endpoint::parse(text) {
            once!(v1::endpoint_from_v2(&new, none), v1::Endpoint);
            settles(&new, |new| v1::endpoint_to_v2(&v1::endpoint_from_v2(new, none)), Endpoint::to_json)?;
        }
        if let Ok(new) = Namespace::parse(text) {
            once!(v1::namespace_from_v2(&new, none), v1::Namespace);
            settles(&new, |new| v1::namespace_to_v2(&v1::namespace_from_v2(new, none)), Namespace::to_json)?;
        }
        if let Ok(new) = LoadBalancer::parse(text) {
            let list = once!(v1::policy_list_from_load_balancer(&new, none), v1::PolicyList);
            let Ok(PolicyListObject::LoadBalancer(back)) = v1::policy_list_to_v2(&list) else {
                return Err(TestCaseError::fail("a load balancer does not come back as one"));
            };
            once!(back.clone(), LoadBalancer);
            prop_assert_eq!(v1::policy_list_from_load_balancer(&back, &Facts::of_policy_list(&list)), list);
        }
        if let Ok(new) = SdnRoute::parse(text) {
            let list = once!(v1::policy_list_from_route(&new, none), v1::PolicyList);
            match v1::policy_list_to_v2(&list) {
                Ok(PolicyListObject::SdnRoute(back)) => {
                    once!(back.clone(), SdnRoute);
                    prop_assert_eq!(v1::policy_list_from_route(&back, &Facts::of_policy_list(&list)), list);
                }
                Ok(other) => prop_assert!(false, "{:?}", other),
                // A route without settings is a list without policies, which is nothing.
                Err(error) => prop_assert!(new.settings().is_empty(), "{}", error),
            }
        }
    }

    #[test]
    fn policies_settle(policy in object(), kind in prop::sample::select(TEXTS)) {
        let Value::Object(mut members) = policy else { unreachable!("made as an object") };
        members.insert("Type".to_owned(), kind.into());
        let text = Value::Object(members).to_string();
        if let Ok(policy) = Policy::parse(&text) {
            settles(&policy, |policy| v1::policy_from_v2(&v1::policy_to_v2(policy)), Policy::to_json)?;
            settles(&policy, |policy| v1::policy_to_v2(&v1::policy_from_v2(policy)), Policy::to_json)?;
        }
    }
}

/// Canonical v1 documents, which must come back exactly.
mod canonical {
    use hcn::endpoint::EndpointFlags;

    use super::*;

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
        (prop::option::of(guid()), any::<[u8; 2]>(), any::<bool>(), any::<u32>(), policies(), extra())
            .prop_map(|(id, [a, b], gateway, flags, policies, extra)| v1::Subnet {
                id,
                address_prefix: format!("10.{a}.{b}.0/24"),
                gateway_address: if gateway { format!("10.{a}.{b}.1") } else { String::new() },
                flags: hcn::network::SubnetFlags::from_bits_retain(flags),
                object_type: Some(5),
                policies,
                extra,
                ..v1::Subnet::default()
            })
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
}

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn canonical_v1_networks_come_back_exactly(old in canonical::network()) {
        let back = v1::network_from_v2(&v1::network_to_v2(&old), &Facts::of_network(&old));
        prop_assert_eq!(back.to_json(), old.to_json());
    }

    #[test]
    fn canonical_v1_endpoints_come_back_exactly(old in canonical::endpoint()) {
        let back = v1::endpoint_from_v2(&v1::endpoint_to_v2(&old), &Facts::of_endpoint(&old));
        prop_assert_eq!(back.to_json(), old.to_json());
    }

    #[test]
    fn load_balancers_come_back_exactly(new in canonical::balancer()) {
        let old = v1::policy_list_from_load_balancer(&new, &Facts::default());
        match v1::policy_list_to_v2(&old) {
            Ok(PolicyListObject::LoadBalancer(back)) => prop_assert_eq!(back.to_json(), new.to_json()),
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
