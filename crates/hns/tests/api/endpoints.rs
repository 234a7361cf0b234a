//! Endpoints: addresses, MACs, gateways, switch ports.

use hcn::{Endpoint, Guid, HResult, Hcn, HcnExt, Kind, Query};
use hns::{Hns, Profile};

use crate::world::{
    endpoint, id, local, network, open, refused, remote, switched, switched_on, try_endpoint,
};

fn create(hns: &Hns, network: Guid, json: &str) -> hcn::Result<Guid> {
    hns.create(Kind::Endpoint, Some(network), Guid::NIL, json)
}

/// `State` is a base field that v2 documents carry.
fn state(hns: &Hns, id: Guid) -> u16 {
    endpoint(hns, id).extra.read("State").unwrap()
}

#[test]
fn a_bare_endpoint_gets_name_mac_address_prefix_and_gateway() {
    let hns = open(Profile::Ws2022);
    let network = network(&hns, "Overlay", 0);
    let first = endpoint(&hns, create(&hns, network, "{}").unwrap());
    assert_eq!(first.name.as_deref(), Some("Ethernet"));
    assert_eq!(first.network, Some(network));
    assert_eq!(first.namespace, None);
    assert_eq!(first.ip_configurations[0].ip_address, "10.50.0.2", ".0 is the network, .1 the gateway");
    assert_eq!(first.ip_configurations[0].prefix_length, 24);
    assert_eq!(first.routes[0].next_hop, "10.50.0.1");
    assert!(first.mac_address.as_ref().unwrap().starts_with("00-15-5D-"));
    let second = endpoint(&hns, create(&hns, network, "{}").unwrap());
    assert_eq!(second.ip_configurations[0].ip_address, "10.50.0.3");
    assert_ne!(second.mac_address, first.mac_address);
    assert_eq!(second.name, first.name, "names are not unique");
    hns.delete(Kind::Endpoint, first.id.unwrap()).unwrap();
    let third = endpoint(&hns, create(&hns, network, "{}").unwrap());
    assert_eq!((third.ip_configurations, third.mac_address), (first.ip_configurations, first.mac_address));
}

#[test]
fn addresses_are_given_per_family() {
    let hns = open(Profile::Ws2022);
    let json = r#"{"Name":"dual","Type":"NAT","Ipams":[{"Subnets":[
        {"IpAddressPrefix":"192.168.100.0/24","Routes":[{"NextHop":"192.168.100.1","DestinationPrefix":"0.0.0.0/0"}]},
        {"IpAddressPrefix":"2001:db8:abcd:0012::0/64","Routes":[{"NextHop":"2001:db8:abcd:12::1","DestinationPrefix":"::/0"}]}]}]}"#;
    let network = hns.create(Kind::Network, None, Guid::NIL, json).unwrap();
    let made = endpoint(&hns, create(&hns, network, "{}").unwrap());
    let addresses: Vec<_> =
        made.ip_configurations.iter().map(|ip| (ip.ip_address.as_str(), ip.prefix_length)).collect();
    assert_eq!(addresses, [("192.168.100.2", 24), ("2001:db8:abcd:12::2", 64)]);
    assert_eq!(made.routes.len(), 2);
    // What is given is kept as it is written, and no family is added.
    let json = r#"{"IpConfigurations":[{"IpAddress":"2001:db8:abcd:0012::3","PrefixLength":64}],"Routes":[{"NextHop":"2001:db8:abcd:12::9","DestinationPrefix":"::/0"}]}"#;
    let made = endpoint(&hns, create(&hns, network, json).unwrap());
    assert_eq!(made.ip_configurations[0].ip_address, "2001:db8:abcd:0012::3");
    assert_eq!((made.ip_configurations.len(), made.routes.len()), (1, 1));
}

#[test]
fn addresses_that_cannot_be_are_refused() {
    let hns = open(Profile::Ws2022);
    let network = network(&hns, "L2Bridge", 0);
    let holder = local(&hns, network, "10.50.0.9");
    for (ip, code, part) in [
        ("10.50.0.0", HResult::ADDR_INVALID_OR_RESERVED, "network address"),
        ("10.50.0.255", HResult::ADDR_INVALID_OR_RESERVED, "broadcast"),
        ("10.50.0.1", HResult::ADDR_INVALID_OR_RESERVED, "gateway"),
        ("10.50.0.9", HResult::ADDR_INVALID_OR_RESERVED, &holder.to_string()),
        ("224.0.0.1", HResult::ADDR_INVALID_OR_RESERVED, "unicast"),
        ("0.0.0.0", HResult::ADDR_INVALID_OR_RESERVED, "unicast"),
        ("10.51.0.9", HResult::INVALID_IP, "no subnet"),
        ("fd00::9", HResult::INVALID_IP, "no subnet"),
        ("pod", HResult::INVALID_IP, "pod"),
    ] {
        assert_eq!(refused(try_endpoint(&hns, network, ip, 0), &["IpAddress", part]), code, "{ip}");
    }
    let twice = r#"{"IpConfigurations":[{"IpAddress":"10.50.0.10"},{"IpAddress":"10.50.0.10"}]}"#;
    assert_eq!(refused(create(&hns, network, twice), &["twice"]), HResult::INVALID_ENDPOINT);
    let long = r#"{"IpConfigurations":[{"IpAddress":"10.50.0.10","PrefixLength":33}]}"#;
    assert_eq!(refused(create(&hns, network, long), &["33"]), HResult::INVALID_PREFIX);
    let mac = r#"{"MacAddress":"00-15"}"#;
    assert_eq!(refused(create(&hns, network, mac), &["MacAddress"]), HResult::INVALID_ENDPOINT);
    assert_eq!(refused(create(&hns, id(9), "{}"), &[&id(9).to_string()]), HResult::NETWORK_NOT_FOUND);
    let nowhere = hns.create(Kind::Endpoint, None, Guid::NIL, "{}");
    assert_eq!(refused(nowhere, &["HostComputeNetwork"]), HResult::INVALID_ENDPOINT);
    assert_eq!(hns.enumerate(Kind::Endpoint, &Query::all()).unwrap(), [holder]);
}

#[test]
fn the_hosts_own_address_is_reserved_unless_the_subnet_says_otherwise() {
    let hns = open(Profile::Newest);
    let json = r#"{"Name":"n","Type":"L2Bridge","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.0.0.0/24","Flags":1,
        "Routes":[{"NextHop":"10.0.0.9","DestinationPrefix":"0.0.0.0/0"}]}]}]}"#;
    let network = hns.create(Kind::Network, None, Guid::NIL, json).unwrap();
    assert_eq!(
        refused(try_endpoint(&hns, network, "10.0.0.4", 0), &["host"]),
        HResult::ADDR_INVALID_OR_RESERVED
    );
    local(&hns, network, "10.0.0.9");
}

#[test]
fn addresses_and_macs_run_out() {
    let hns = open(Profile::Ws2022);
    let json = r#"{"Name":"small","Type":"L2Bridge","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.9.0.0/30"}]}],
        "MacPool":{"Ranges":[{"StartMacAddress":"00-15-5D-00-00-00","EndMacAddress":"00-15-5D-00-00-02"}]}}"#;
    let network = hns.create(Kind::Network, None, Guid::NIL, json).unwrap();
    for _ in 0..2 {
        create(&hns, network, "{}").unwrap();
    }
    assert_eq!(refused(create(&hns, network, "{}"), &["IPv4", "left"]), HResult::ADDR_INVALID_OR_RESERVED);
    remote(&hns, network, "10.99.0.1");
    assert_eq!(refused(try_endpoint(&hns, network, "10.99.0.2", 1), &["MAC"]), HResult::OUT_OF_MEMORY);
}

#[test]
fn a_network_without_subnets_has_no_addresses() {
    let hns = open(Profile::Ws2022);
    let bridge = hns.create(Kind::Network, None, Guid::NIL, r#"{"Name":"b","Type":"L2Bridge"}"#).unwrap();
    assert!(endpoint(&hns, create(&hns, bridge, "{}").unwrap()).ip_configurations.is_empty());
    assert_eq!(refused(try_endpoint(&hns, bridge, "10.1.0.1", 0), &["no subnet"]), HResult::SUBNET_NOT_FOUND);
    let open_net =
        hns.create(Kind::Network, None, Guid::NIL, r#"{"Name":"t","Type":"Transparent"}"#).unwrap();
    local(&hns, open_net, "10.1.0.1");
}

#[test]
fn macs_are_kept_in_dash_form() {
    let hns = open(Profile::Ws2022);
    let network = network(&hns, "L2Bridge", 0);
    for (given, kept) in
        [("02-11-0a-00-00-01", "02-11-0a-00-00-01"), ("0E:2A:0a:00:00:01", "0E-2A-0a-00-00-01")]
    {
        let id = create(&hns, network, &format!(r#"{{"MacAddress":"{given}"}}"#)).unwrap();
        assert_eq!(endpoint(&hns, id).mac_address.as_deref(), Some(kept));
    }
    // Conjured MACs collide in the field; nobody minds.
    create(&hns, network, r#"{"MacAddress":"02-11-0a-00-00-01"}"#).unwrap();
}

#[test]
fn remote_endpoints_have_any_address_and_no_port() {
    let hns = open(Profile::Ws2022);
    let network = network(&hns, "Overlay", 0);
    for ip in ["10.50.3.9", "10.96.0.1", "10.0.0.77", "fd00::9"] {
        let made = endpoint(&hns, remote(&hns, network, ip));
        let length = if ip.contains(':') { 128 } else { 32 };
        assert_eq!((made.ip_configurations[0].prefix_length, made.flags.bits()), (length, 1));
        assert!(made.routes.is_empty());
    }
    let bare = create(&hns, network, r#"{"Flags":1}"#);
    assert_eq!(refused(bare, &["IpConfigurations"]), HResult::INVALID_ENDPOINT);
    let remote = remote(&hns, network, "10.50.3.10");
    assert_eq!(hns.attach_to_switch(remote).unwrap_err().code, HResult::INVALID_REMOTE_ENDPOINT_OPERATION);
    let port = r#"{"ResourceType":"Port","RequestType":"Add","Settings":{}}"#;
    assert_eq!(
        refused(hns.modify(Kind::Endpoint, remote, port), &["remote"]),
        HResult::INVALID_REMOTE_ENDPOINT_OPERATION
    );
}

#[test]
fn duplicates_follow_the_switches() {
    const CASES: [(&str, bool, bool, bool); 5] = [
        // yaml, local + local, local + remote, remote + remote
        ("{}", false, true, false),
        ("duplicate_local: true", true, true, false),
        ("duplicate_local_remote: false", false, false, false),
        ("duplicate_remote: true", false, true, true),
        ("duplicate_local: true\nduplicate_remote: true", true, true, true),
    ];
    for (yaml, both_local, mixed, both_remote) in CASES {
        for (first, second, allowed) in
            [(0, 0, both_local), (0, 1, mixed), (1, 0, mixed), (1, 1, both_remote)]
        {
            let hns = switched(yaml);
            let network = network(&hns, "Overlay", 0);
            try_endpoint(&hns, network, "10.50.0.9", first).unwrap();
            let result = try_endpoint(&hns, network, "10.50.0.9", second);
            if allowed {
                result.unwrap();
            } else {
                assert_eq!(refused(result, &["10.50.0.9"]), HResult::ADDR_INVALID_OR_RESERVED, "{yaml}");
            }
            // Another network is another matter.
            let other = crate::world::network(&hns, "L2Bridge", 0);
            try_endpoint(&hns, other, "10.50.0.9", second).unwrap();
        }
    }
    let old = open(Profile::Ws2019);
    let network = network(&old, "Overlay", 0);
    remote(&old, network, "10.50.0.9");
    remote(&old, network, "10.50.0.9");
}

#[test]
fn an_address_with_two_holders_is_free_when_both_are_gone() {
    let hns = open(Profile::Ws2022);
    let network = network(&hns, "Overlay", 0);
    let (a, b) = (local(&hns, network, "10.50.0.2"), remote(&hns, network, "10.50.0.2"));
    let next = |hns: &Hns| {
        let made = create(hns, network, "{}").unwrap();
        let ip = endpoint(hns, made).ip_configurations[0].ip_address.clone();
        hns.delete(Kind::Endpoint, made).unwrap();
        ip
    };
    assert_eq!(next(&hns), "10.50.0.3");
    hns.delete(Kind::Endpoint, a).unwrap();
    assert_eq!(next(&hns), "10.50.0.3");
    hns.delete(Kind::Endpoint, b).unwrap();
    assert_eq!(next(&hns), "10.50.0.2");
}

#[test]
fn attaching_and_detaching_move_the_state() {
    let hns = open(Profile::Ws2022);
    let network = network(&hns, "L2Bridge", 0);
    let id = local(&hns, network, "10.50.0.9");
    assert_eq!(state(&hns, id), 1);
    hns.attach_to_switch(id).unwrap();
    assert_eq!(state(&hns, id), 2);
    assert_eq!(hns.attach_to_switch(id).unwrap_err().code, HResult::ENDPOINT_ALREADY_ATTACHED);
    let add = r#"{"ResourceType":"Port","RequestType":"Add","Settings":{"PortId":"0badcafe-0000-4000-8000-00000000000a","VirtualNicName":"vm--ep"}}"#;
    let remove = r#"{"ResourceType":"Port","RequestType":"Remove","Settings":{}}"#;
    assert_eq!(
        refused(hns.modify(Kind::Endpoint, id, add), &["switch port"]),
        HResult::ENDPOINT_ALREADY_ATTACHED
    );
    hns.modify(Kind::Endpoint, id, remove).unwrap();
    assert_eq!(state(&hns, id), 4);
    assert_eq!(refused(hns.modify(Kind::Endpoint, id, remove), &["no switch port"]), HResult::PORT_NOT_FOUND);
    hns.modify(Kind::Endpoint, id, add).unwrap();
    let query = Query { flags: hcn::query::QueryFlags::DETAILED, ..Query::all() };
    let text = hns.query(Kind::Endpoint, id, &query).unwrap();
    assert!(text.contains("0badcafe-0000-4000-8000-00000000000a") && text.contains("vm--ep"), "{text}");
    assert_eq!(hns.attach_to_switch(crate::world::id(7)).unwrap_err().code, HResult::ENDPOINT_NOT_FOUND);
}

#[test]
fn detailed_queries_show_resources_and_plain_ones_do_not() {
    let hns = open(Profile::Ws2022);
    let network = network(&hns, "L2Bridge", 0);
    let id = local(&hns, network, "10.50.0.9");
    let detailed = Query { flags: hcn::query::QueryFlags::DETAILED, ..Query::all() };
    for (kind, id) in [(Kind::Network, network), (Kind::Endpoint, id)] {
        assert!(!hns.query(kind, id, &Query::all()).unwrap().contains("Allocators"));
        assert!(hns.query(kind, id, &detailed).unwrap().contains("Allocators"), "{kind}");
    }
}

#[test]
fn ids_are_spelled_by_kind_and_build() {
    let old = open(Profile::Ws2019);
    let network = network(&old, "Overlay", 0);
    let made: Endpoint = old.get(local(&old, network, "10.50.0.9")).unwrap();
    let spelled = made.id.unwrap().to_string();
    assert_eq!(spelled, spelled.to_uppercase());
    assert_eq!(made.network.unwrap().to_string(), network.to_string());
    let new = switched_on(Profile::Ws2022, "{}");
    let network = crate::world::network(&new, "Overlay", 0);
    let spelled = local(&new, network, "10.50.0.9").to_string();
    assert_eq!(spelled, spelled.to_lowercase());
}

#[test]
fn deleting_an_endpoint_in_use_follows_the_switch() {
    for (yaml, left) in [
        ("delete_endpoint_in_use: dangle", Some(2)),
        ("delete_endpoint_in_use: drop", Some(1)),
        ("delete_endpoint_in_use: refuse", None),
    ] {
        let hns = switched(yaml);
        let network = network(&hns, "Overlay", 0);
        let (a, b) = (local(&hns, network, "10.50.0.8"), local(&hns, network, "10.50.0.9"));
        let document = crate::world::balancer(&["10.96.0.1"], (6, 80, 8080), &[a, b], 1);
        let balancer = crate::world::make_balancer(&hns, &document).unwrap();
        let result = hns.delete(Kind::Endpoint, a);
        let Some(left) = left else {
            assert_eq!(refused(result, &[&balancer.to_string()]), HResult::ENTITY_HAS_REFERENCES);
            continue;
        };
        result.unwrap();
        let read: hcn::LoadBalancer = hns.get(balancer).unwrap();
        assert_eq!(read.endpoints.len(), left, "{yaml}");
    }
}
