//! The host's port space.

use hcn::{Guid, HResult, Hcn, Kind};
use hns::{DynamicPorts, Hns, Host, Options, Profile, Protocol, Space};

use crate::world::{balancer, local, make_balancer, network, open, options, refused, switched};

const TCP: u32 = 6;
const UDP: u32 = 17;
const TCP4: Space = Space { protocol: Protocol::Tcp, ipv6: false };
const UDP4: Space = Space { protocol: Protocol::Udp, ipv6: false };

fn with_endpoint(hns: Hns) -> (Hns, Guid, Guid) {
    let network = network(&hns, "Overlay", 0);
    let endpoint = local(&hns, network, "10.50.0.9");
    (hns, network, endpoint)
}

fn free(hns: &Hns, space: Space) -> usize {
    hns.ports().space(space).unwrap().free
}

fn mapping(protocol: u32, port: u16) -> String {
    format!(
        r#"{{"Policies":[{{"Type":"PortMapping","Settings":{{"Protocol":{protocol},"InternalPort":80,"ExternalPort":{port}}}}}]}}"#
    )
}

#[test]
fn listeners_balancers_and_mappings_share_one_space() {
    let (hns, network, endpoint) = with_endpoint(open(Profile::Ws2022));
    let node_port = |protocol, port| balancer(&[], (protocol, port, 8080), &[endpoint], 1);
    let holder = make_balancer(&hns, &node_port(TCP, 30080)).unwrap();
    make_balancer(&hns, &node_port(UDP, 30080)).unwrap();
    let clash = hns.create(Kind::Endpoint, Some(network), Guid::NIL, &mapping(TCP, 30080));
    assert_eq!(refused(clash, &["30080", &holder.to_string()]), HResult::PORT_ALREADY_EXISTS);
    assert_eq!(hns.listen(Protocol::Tcp, 30080).unwrap_err().code, HResult::PORT_ALREADY_EXISTS);
    hns.listen(Protocol::Tcp, 30081).unwrap();
    assert_eq!(
        refused(make_balancer(&hns, &node_port(TCP, 30081)), &["process of the host"]),
        HResult::PORT_ALREADY_EXISTS
    );
    make_balancer(&hns, &node_port(UDP, 30081)).unwrap();
}

#[test]
fn listening_takes_both_families_of_one_protocol() {
    let (hns, _, endpoint) = with_endpoint(open(Profile::Ws2022));
    hns.listen(Protocol::Udp, 53).unwrap();
    make_balancer(&hns, &balancer(&[], (TCP, 53, 53), &[endpoint], 1)).unwrap();
    let document = balancer(&[], (UDP, 53, 53), &[endpoint], 1);
    assert_eq!(refused(make_balancer(&hns, &document), &["UDP"]), HResult::PORT_ALREADY_EXISTS);
    assert!(hns.unlisten(Protocol::Udp, 53) && !hns.unlisten(Protocol::Udp, 53));
    make_balancer(&hns, &document).unwrap();
}

#[test]
fn two_endpoints_cannot_map_one_port() {
    let (hns, network, _) = with_endpoint(open(Profile::Ws2022));
    let first = hns.create(Kind::Endpoint, Some(network), Guid::NIL, &mapping(UDP, 56789)).unwrap();
    let second = hns.create(Kind::Endpoint, Some(network), Guid::NIL, &mapping(UDP, 56789));
    assert_eq!(refused(second, &["56789", &first.to_string()]), HResult::PORT_ALREADY_EXISTS);
    hns.create(Kind::Endpoint, Some(network), Guid::NIL, &mapping(TCP, 56789)).unwrap();
    hns.create(Kind::Endpoint, Some(network), Guid::NIL, &mapping(UDP, 0)).unwrap();
    hns.delete(Kind::Endpoint, first).unwrap();
    hns.create(Kind::Endpoint, Some(network), Guid::NIL, &mapping(UDP, 56789)).unwrap();
}

#[test]
fn balancers_without_dsr_take_a_block_per_protocol() {
    let (hns, _, endpoint) = with_endpoint(open(Profile::Ws2022));
    make_balancer(&hns, &balancer(&["10.60.0.1"], (TCP, 80, 8080), &[endpoint], 1)).unwrap();
    assert_eq!((free(&hns, TCP4), free(&hns, UDP4)), (256, 256), "DSR takes none");
    let two = balancer(&["10.60.0.2"], (TCP, 80, 8080), &[endpoint], 0).replace(
        r#""PortMappings":["#,
        r#""PortMappings":[{"Protocol":17,"ExternalPort":53,"InternalPort":53},"#,
    );
    let id = make_balancer(&hns, &two).unwrap();
    assert_eq!((free(&hns, TCP4), free(&hns, UDP4)), (255, 255));
    assert_eq!(hns.ports().space(TCP4).unwrap().blocks[0].0, 49152..=49215);
    hns.delete(Kind::LoadBalancer, id).unwrap();
    assert_eq!((free(&hns, TCP4), free(&hns, UDP4)), (256, 256));
}

#[test]
fn the_dynamic_range_runs_out() {
    let host =
        Host { dynamic_ports: DynamicPorts { tcp: 50000..=50191, udp: 50000..=50191 }, ..Host::default() };
    for (yaml, code) in
        [("{}", HResult::PORT_ALREADY_EXISTS), ("blocks_exhausted: E_OUTOFMEMORY", HResult::OUT_OF_MEMORY)]
    {
        let mut switches = hns::Switches::of(Profile::Ws2022);
        switches.apply_yaml(yaml).unwrap();
        let hns = Hns::open(Options { host: host.clone(), switches, ..options(Profile::Ws2022) }).unwrap();
        let (hns, network, endpoint) = with_endpoint(hns);
        let document = |n: u8| balancer(&[&format!("10.60.0.{n}")], (TCP, 80, 8080), &[endpoint], 0);
        let nat = r#"{"Policies":[{"Type":"OutBoundNAT","Settings":{}}]}"#;
        let pod = hns.create(Kind::Endpoint, Some(network), Guid::NIL, nat).unwrap();
        assert_eq!((free(&hns, TCP4), free(&hns, UDP4)), (2, 2), "a pool takes TCP and UDP");
        for n in 1..=2 {
            make_balancer(&hns, &document(n)).unwrap();
        }
        assert_eq!(refused(make_balancer(&hns, &document(3)), &["0 are free"]), code);
        assert_eq!(
            refused(hns.create(Kind::Endpoint, Some(network), Guid::NIL, nat), &["OutBoundNAT"]),
            code
        );
        hns.delete(Kind::Endpoint, pod).unwrap();
        make_balancer(&hns, &document(3)).unwrap();
    }
}

#[test]
fn the_default_range_holds_256_balancers() {
    let (hns, _, endpoint) = with_endpoint(open(Profile::Ws2022));
    let document =
        |n: u16| balancer(&[&format!("10.60.{}.{}", n / 256, n % 256)], (TCP, 80, 8080), &[endpoint], 0);
    for n in 0..256 {
        make_balancer(&hns, &document(n)).unwrap();
    }
    assert_eq!(
        refused(make_balancer(&hns, &document(256)), &["dynamic range"]),
        HResult::PORT_ALREADY_EXISTS
    );
    let udp = document(257).replace(r#""Protocol":6"#, r#""Protocol":17"#);
    make_balancer(&hns, &udp).unwrap();
}

#[test]
fn switches_set_how_many_blocks_are_taken() {
    let (hns, network, endpoint) = with_endpoint(switched("balancer_blocks: 3\noutbound_nat_blocks: 0"));
    make_balancer(&hns, &balancer(&["10.60.0.1"], (TCP, 80, 8080), &[endpoint], 0)).unwrap();
    hns.create(Kind::Endpoint, Some(network), Guid::NIL, r#"{"Policies":[{"Type":"OutBoundNAT"}]}"#).unwrap();
    assert_eq!((free(&hns, TCP4), free(&hns, UDP4)), (253, 256));
}

#[test]
fn policies_that_change_take_and_give_back_ports() {
    let (hns, network, endpoint) = with_endpoint(open(Profile::Ws2022));
    let modify = |request: &str, policies: &str| {
        let json = format!(
            r#"{{"ResourceType":"Policy","RequestType":"{request}","Settings":{{"Policies":[{policies}]}}}}"#
        );
        hns.modify(Kind::Endpoint, endpoint, &json)
    };
    modify("Add", r#"{"Type":"OutBoundNAT","Settings":{"Flags":2}}"#).unwrap();
    assert_eq!(free(&hns, Space { ipv6: true, ..TCP4 }), 255, "NatFlags IPv6");
    modify(
        "Update",
        r#"{"Type":"PortMapping","Settings":{"Protocol":6,"InternalPort":80,"ExternalPort":8080}}"#,
    )
    .unwrap();
    assert_eq!(free(&hns, Space { ipv6: true, ..TCP4 }), 256);
    let clash = hns.create(Kind::Endpoint, Some(network), Guid::NIL, &mapping(TCP, 8080));
    assert_eq!(refused(clash, &[&endpoint.to_string()]), HResult::PORT_ALREADY_EXISTS);
    modify("Update", "").unwrap();
    hns.create(Kind::Endpoint, Some(network), Guid::NIL, &mapping(TCP, 8080)).unwrap();
    let text = hns.ports().to_string();
    assert!(text.contains("TCPv4: 256 of 256 blocks free in 49152-65535") && text.contains("8080"), "{text}");
}
