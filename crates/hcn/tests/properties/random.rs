//! Random documents: members of every document and made-up ones, mostly holding what such a member holds.

use hcn::v1;
use hcn::{Endpoint, Network};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use serde_json::Value;

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
pub(super) const TEXTS: &[&str] = &[
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

pub(super) fn value() -> impl Strategy<Value = Value> {
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
pub(super) fn object() -> impl Strategy<Value = Value> {
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
