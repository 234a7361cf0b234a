//! Networks: what is checked, filled in, allocated, and what goes with one.

use std::time::Duration;

use hcn::network::NetworkMode;
use hcn::{Guid, HResult, Hcn, HcnExt, Kind, Network, Query};
use hns::{Adapter, Hns, Host, Options, Profile};

use crate::world::{
    balancer, id, local, make_balancer, network, open, options, options_with_clock, refused, remote, switched,
};

fn create(hns: &Hns, json: &str) -> hcn::Result<Guid> {
    hns.create(Kind::Network, None, Guid::NIL, json)
}

fn read(hns: &Hns, id: Guid) -> Network {
    hns.get(id).unwrap()
}

#[test]
fn a_network_without_anything_gets_subnet_gateway_and_mac_pool() {
    let hns = open(Profile::Ws2022);
    let bare = read(&hns, create(&hns, r#"{"Name":"nat"}"#).unwrap());
    assert_eq!(bare.network_mode(), NetworkMode::Nat);
    assert_eq!(bare.mode, None, "NAT is left out");
    let subnet = bare.subnets().next().unwrap();
    assert!(subnet.prefix.starts_with("172.") && subnet.prefix.ends_with("/20"), "{}", subnet.prefix);
    assert!(subnet.id.is_some());
    assert_eq!(subnet.gateway().unwrap().rsplit_once('.').unwrap().1, "1");
    let range = &bare.mac_pool.as_ref().unwrap().ranges[0];
    assert!(range.start.starts_with("00-15-5D-") && range.end.ends_with("F-FF"), "{range:?}");

    let second = read(&hns, create(&hns, r#"{"Name":"nat2"}"#).unwrap());
    assert_ne!(second.subnets().next().unwrap().prefix, subnet.prefix);
    assert_ne!(second.mac_pool, bare.mac_pool);
    let transparent = read(&hns, create(&hns, r#"{"Name":"t","Type":"Transparent"}"#).unwrap());
    assert_eq!(transparent.subnets().count(), 0, "its addresses are the physical network's business");
}

#[test]
fn what_is_given_is_kept() {
    let hns = open(Profile::Ws2022);
    let json = r#"{"Name":"x","Type":2,"Owner":"me","Flags":8,
        "MacPool":{"Ranges":[{"StartMacAddress":"00-15-5D-52-C0-00","EndMacAddress":"00-15-5D-52-CF-FF"}]},
        "Ipams":[{"Type":"DHCP","Subnets":[]},{"Subnets":[{"IpAddressPrefix":"192.168.100.0/24"}]}],
        "Dns":{"ServerList":["1.1.1.1"]},"Later":{"a": 1 },"Version":5,"State":9,"Health":{"Extra":{}},
        "Policies":[{"Type":"NetAdapterName","Settings":{ "NetworkAdapterName" : "ethernet" }}],
        "SchemaVersion":{"Major":2,"Minor":2}}"#;
    let id = create(&hns, json).unwrap();
    let read = read(&hns, id);
    assert_eq!(read.network_mode(), NetworkMode::Transparent);
    assert_eq!((read.owner.as_deref(), read.flags.bits()), (Some("me"), 8));
    assert_eq!(read.mac_pool.unwrap().ranges[0].start, "00-15-5D-52-C0-00");
    assert_eq!(read.extra.get("Later").unwrap().get(), r#"{"a": 1 }"#);
    assert_eq!(read.extra.read::<u16>("State"), Some(1), "the service owns its state");
    let policy = &read.policies[0];
    assert_eq!(policy.settings.as_ref().unwrap().get(), r#"{ "NetworkAdapterName" : "ethernet" }"#);
}

#[test]
fn wrong_networks_are_refused_by_field() {
    let hns = open(Profile::Newest);
    create(&hns, r#"{"Name":"taken"}"#).unwrap();
    let overlay = |policies: &str| {
        format!(
            r#"{{"Name":"o","Type":"Overlay","Ipams":[{{"Subnets":[{{"IpAddressPrefix":"10.1.0.0/16","Policies":[{policies}]}}]}}]}}"#
        )
    };
    let subnet = |text: &str| format!(r#"{{"Name":"s","Type":"L2Bridge","Ipams":[{{"Subnets":[{text}]}}]}}"#);
    let cases: Vec<(String, HResult, &str)> = vec![
        (r#"{"Name":"taken","Type":"L2Bridge"}"#.into(), HResult::NETWORK_ALREADY_EXISTS, "taken"),
        (r#"{"Name":"taken","Type":"ICS"}"#.into(), HResult::DUP_NAME, "taken"),
        (r#"{"Type":"Mesh"}"#.into(), HResult::INVALID_NETWORK_TYPE, "Mesh"),
        (r#"{"Type":77}"#.into(), HResult::INVALID_NETWORK_TYPE, "77"),
        ("{".into(), HResult::INVALID_JSON, "EOF"),
        (r#"{"Flags":"Sideways"}"#.into(), HResult::INVALID_JSON, "Flags"),
        (subnet(r#"{"IpAddressPrefix":"10.1.0.0"}"#), HResult::INVALID_PREFIX, "10.1.0.0"),
        (
            subnet(r#"{"IpAddressPrefix":"10.1.0.0/16","Routes":[{"NextHop":"10.2.0.1","DestinationPrefix":"0.0.0.0/0"}]}"#),
            HResult::INVALID_SUBNET,
            "10.2.0.1",
        ),
        (
            subnet(r#"{"IpAddressPrefix":"10.1.0.0/16","Routes":[{"NextHop":"gw","DestinationPrefix":"0.0.0.0/0"}]}"#),
            HResult::INVALID_IP,
            "gw",
        ),
        (
            subnet(r#"{"IpAddressPrefix":"10.1.0.0/16"},{"IpAddressPrefix":"10.1.2.0/24"}"#),
            HResult::INVALID_SUBNET,
            "overlap",
        ),
        (
            subnet(r#"{"IpAddressPrefix":"10.1.0.0/16","IpSubnets":[{"IpAddressPrefix":"10.2.0.0/24"}]}"#),
            HResult::INVALID_IP_SUBNET,
            "10.2.0.0/24",
        ),
        (overlay(""), HResult::INVALID_PARAMETER, "no VSID"),
        (overlay(r#"{"Type":"VSID","Settings":{"IsolationId":4095}}"#), HResult::INVALID_PARAMETER, "4095"),
        (
            r#"{"Type":"L2Bridge","Policies":[{"Type":"NetAdapterName","Settings":{"NetworkAdapterName":"eth9"}}]}"#.into(),
            HResult::ADAPTER_NOT_FOUND,
            "eth9",
        ),
        (
            r#"{"Policies":[{"Type":"LayerConstraint","Settings":{"LayerId":"0badcafe-0000-4000-8000-00000000000a"}}]}"#.into(),
            HResult::LAYER_NOT_FOUND,
            "0badcafe",
        ),
        (
            r#"{"MacPool":{"Ranges":[{"StartMacAddress":"00-15-5D-00-00-02","EndMacAddress":"00-15-5D-00-00-01"}]}}"#.into(),
            HResult::INVALID_PARAMETER,
            "MacPool",
        ),
        (r#"{"Ipams":[{"Type":"Magic"}]}"#.into(), HResult::INVALID_PARAMETER, "Magic"),
    ];
    for (json, code, part) in cases {
        assert_eq!(refused(create(&hns, &json), &["HcnCreateNetwork", part]), code, "{json}");
    }
    assert_eq!(hns.enumerate(Kind::Network, &Query::all()).unwrap().len(), 1);
}

#[test]
fn old_builds_refuse_dual_stack_and_networks_without_host_port() {
    let dual = r#"{"Type":"NAT","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.1.0.0/16"},{"IpAddressPrefix":"fd00::/64"}]}]}"#;
    let bare =
        r#"{"Type":"L2Bridge","Flags":1024,"Ipams":[{"Subnets":[{"IpAddressPrefix":"10.1.0.0/16"}]}]}"#;
    let old = open(Profile::Ws2019);
    assert_eq!(refused(create(&old, dual), &["IPv6DualStack", "9.5"]), HResult::INVALID_PARAMETER);
    assert_eq!(
        refused(create(&open(Profile::Ws2022), bare), &["DisableHostPort"]),
        HResult::INVALID_PARAMETER
    );
    let new = open(Profile::Newest);
    create(&new, dual).unwrap();
    create(&new, bare).unwrap();
    assert!(new.host_vnics().is_empty(), "no host port was asked for");
}

#[test]
fn ids_come_from_the_parameter_the_document_or_hns() {
    let hns = open(Profile::Newest);
    let json = format!(r#"{{"Name":"a","ID":"{}"}}"#, id(1));
    assert_eq!(hns.create(Kind::Network, None, id(2), &json).unwrap(), id(2));
    let json = format!(r#"{{"Name":"b","ID":"{}"}}"#, id(3));
    assert_eq!(create(&hns, &json).unwrap(), id(3));
    assert_eq!(
        refused(create(&hns, &format!(r#"{{"Name":"c","ID":"{}"}}"#, id(3))), &["exists"]),
        HResult::NETWORK_ALREADY_EXISTS
    );
    let made = create(&hns, r#"{"Name":"d"}"#).unwrap();
    assert!(!made.is_nil() && made.to_string().as_bytes()[14] == b'4', "{made} is a random id");

    let own = switched("honour_id_parameter: false\nhonour_json_id: false\nnetwork_id_case: upper");
    let made = own.create(Kind::Network, None, id(2), &format!(r#"{{"ID":"{}"}}"#, id(3))).unwrap();
    assert!(made != id(2) && made != id(3));
    assert_eq!(made.to_string(), made.to_string().to_uppercase());
}

#[test]
fn the_management_address_and_dr_mac_appear_after_a_while() {
    let (clock, options) = options_with_clock(Profile::Ws2022);
    let hns = Hns::open(options).unwrap();
    let network = network(&hns, "Overlay", 0);
    let has = |kind: &str| read(&hns, network).policies.iter().any(|policy| policy.kind.is(kind));
    assert!(!has("ProviderAddress") && !has("DrMacAddress") && hns.host_vnics().is_empty());
    assert_eq!(hns.management_address(network), None);
    clock.advance(Duration::from_millis(999));
    assert!(!has("ProviderAddress"));
    clock.advance(Duration::from_millis(1));
    assert_eq!(hns.settled_at(), Duration::from_secs(1));
    assert!(has("ProviderAddress") && has("DrMacAddress"));
    assert_eq!(hns.management_address(network), Some("10.0.0.4".parse().unwrap()));
    let vnic = &hns.host_vnics()[0];
    assert_eq!((vnic.name.as_str(), vnic.network), ("vEthernet (Ethernet)", network));
    hns.restart(hns::Loss::None).unwrap();
    assert!(has("ProviderAddress"), "the vSwitch is there already");

    let at_once = switched("management_delay_ms: 0");
    let network = crate::world::network(&at_once, "L2Bridge", 0);
    assert!(at_once.management_address(network).is_some());
}

#[test]
fn networks_on_one_adapter_share_a_layer() {
    let other = Adapter { name: "Ethernet 2".into(), ..Host::default().adapters[0].clone() };
    let mut host = Host::default();
    host.adapters.push(other);
    let hns = Hns::open(Options { host, ..options(Profile::Newest) }).unwrap();
    let on = |name: &str, adapter: &str| {
        let json = format!(
            r#"{{"Name":"{name}","Type":"L2Bridge","Policies":[{{"Type":"NetAdapterName","Settings":{{"NetworkAdapterName":"{adapter}"}}}}]}}"#
        );
        let network = read(&hns, create(&hns, &json).unwrap());
        network.health.unwrap().extra_params.unwrap().layered_on.unwrap()
    };
    let (first, same, other) = (on("a", "Ethernet"), on("b", "ethernet"), on("c", "Ethernet 2"));
    assert!(first == same && first != other);
    let json = format!(
        r#"{{"Name":"d","Policies":[{{"Type":"LayerConstraint","Settings":{{"LayerId":"{first}"}}}}]}}"#
    );
    create(&hns, &json).unwrap();
    let none = Host { adapters: Vec::new(), ..Host::default() };
    let hns = Hns::open(Options { host: none, ..options(Profile::Newest) }).unwrap();
    assert_eq!(refused(create(&hns, r#"{"Type":"L2Bridge"}"#), &["no adapter"]), HResult::ADAPTER_NOT_FOUND);
}

#[test]
fn deleting_a_network_takes_what_lies_on_it() {
    let hns = open(Profile::Ws2022);
    let network = network(&hns, "Overlay", 0);
    let other = crate::world::network(&hns, "Overlay", 1);
    let (a, b) = (local(&hns, network, "10.50.0.9"), remote(&hns, network, "10.60.0.1"));
    let elsewhere = local(&hns, other, "10.50.1.9");
    let gone = make_balancer(&hns, &balancer(&["10.96.0.1"], (6, 80, 8080), &[a, b], 1)).unwrap();
    let mixed = make_balancer(&hns, &balancer(&["10.96.0.2"], (6, 80, 8080), &[elsewhere, b], 1)).unwrap();
    let route = format!(
        r#"{{"HostComputeEndpoints":["{a}"],"Routes":[{{"DestinationPrefix":"10.0.0.0/8","NextHop":"10.50.0.1"}}]}}"#
    );
    let route = hns.create(Kind::SdnRoute, None, Guid::NIL, &route).unwrap();
    hns.delete(Kind::Network, network).unwrap();
    for (kind, id) in
        [(Kind::Endpoint, a), (Kind::Endpoint, b), (Kind::LoadBalancer, gone), (Kind::SdnRoute, route)]
    {
        assert!(hns.query(kind, id, &Query::all()).unwrap_err().is_not_found(), "{kind}");
    }
    let kept: hcn::LoadBalancer = hns.get(mixed).unwrap();
    assert_eq!(kept.endpoints, [elsewhere]);
    assert_eq!(
        refused(hns.delete(Kind::Network, network), &[&network.to_string()]),
        HResult::NETWORK_NOT_FOUND
    );
}

#[test]
fn switches_change_what_a_deleted_network_leaves() {
    let hns = switched("delete_network_with_attached: false");
    let network = network(&hns, "Overlay", 0);
    let endpoint = local(&hns, network, "10.50.0.9");
    hns.attach_to_switch(endpoint).unwrap();
    let code = refused(hns.delete(Kind::Network, network), &[&endpoint.to_string()]);
    assert_eq!(code, HResult::ENTITY_HAS_REFERENCES);

    let hns = switched("delete_network_balancers: degrade");
    let network = crate::world::network(&hns, "Overlay", 0);
    let endpoint = local(&hns, network, "10.50.0.9");
    let document = balancer(&["10.96.0.1"], (6, 80, 8080), &[endpoint], 1);
    let left = make_balancer(&hns, &document).unwrap();
    hns.delete(Kind::Network, network).unwrap();
    let read: hcn::LoadBalancer = hns.get(left).unwrap();
    assert_eq!(read.extra.read::<u16>("State"), Some(4));
    assert_eq!(refused(hns.delete(Kind::LoadBalancer, left), &["degraded"]), HResult::NETWORK_NOT_FOUND);
    assert_eq!(
        refused(hns.modify(Kind::LoadBalancer, left, &document), &["lost its network"]),
        HResult::DEGRADED_OPERATION
    );
    hns.restart(hns::Loss::None).unwrap();
    assert!(hns.enumerate(Kind::LoadBalancer, &Query::all()).unwrap().is_empty());
}

#[test]
fn switches_limit_nat_networks_names_and_overlaps() {
    let hns = switched("nat_networks: 1\nnetwork_names_ignore_case: true\noverlapping_subnets: false");
    create(&hns, r#"{"Name":"nat"}"#).unwrap();
    assert_eq!(refused(create(&hns, r#"{"Name":"nat2"}"#), &["1 NAT"]), HResult::OBJECT_ALREADY_EXISTS);
    assert_eq!(
        refused(create(&hns, r#"{"Name":"NAT","Type":"Private"}"#), &["NAT"]),
        HResult::NETWORK_ALREADY_EXISTS
    );
    network(&hns, "L2Bridge", 3);
    let json = r#"{"Name":"y","Type":"L2Bridge","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.50.0.0/16"}]}]}"#;
    assert_eq!(refused(create(&hns, json), &["10.50.3.0/24"]), HResult::INVALID_SUBNET);
}
