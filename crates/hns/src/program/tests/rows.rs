//! One snapshot for each row of the mapping.

use super::*;

const TCP_80: &str = r#""Protocol":6,"InternalPort":8080,"ExternalPort":80"#;
const REMOTE: &str = r#"{"Type":"RemoteSubnetRoute","Settings":{"DestinationPrefix":"10.50.3.0/24","IsolationId":4096,"ProviderAddress":"192.0.2.13","DistributedRouterMacAddress":"00-15-5D-AA-33-13"}}"#;
const NAT: &str = r#"{"Type":"OutBoundNAT","Settings":{"Exceptions":["10.50.0.0/16","10.60.0.0/16"]}}"#;
const DSR: u32 = 1;

fn pod_port(n: u32) -> Uuid {
    id(n + 0x1000).uuid()
}

/// An overlay node with two pods, a remote endpoint and the source VIP's.
fn overlay() -> (World, [Guid; 3]) {
    let world = World::new();
    let network = world.network("Overlay", REMOTE);
    let routes = r#"{"Type":"SDNRoute","Settings":{"DestinationPrefix":"10.60.0.0/16","NeedEncap":true}},
        {"Type":"SDNRoute","Settings":{"DestinationPrefix":"10.0.0.4/32","NeedEncap":true}}"#;
    let one = world.pod(network, 5, "10.50.1.5", &format!("{NAT},{routes}"));
    let two = world.pod(network, 6, "10.50.1.6", "");
    let provider = r#"{"Type":"ProviderAddress","Settings":{"ProviderAddress":"192.0.2.13"}}"#;
    let far = world.endpoint(network, 9, "10.50.3.5", true, provider);
    let host_mac = world.hns.host().adapters[0].mac;
    world.make(
        Kind::Endpoint,
        2,
        Some(network),
        &format!(r#""IpConfigurations":[{{"IpAddress":"10.50.1.2"}}],"MacAddress":"{host_mac}""#),
    );
    (world, [one, two, far])
}

#[test]
fn overlay_without_services() {
    let (world, _) = overlay();
    insta::assert_snapshot!("overlay_pod", world.show(pod_port(5)));
    insta::assert_snapshot!("overlay_host", world.host());
    insta::assert_snapshot!("overlay_external", world.external());
    let neighbors: Vec<String> = world
        .ledger
        .items()
        .values()
        .filter_map(|item| match item {
            Item::Neighbor(neighbor) => Some(format!("{} {}", neighbor.address, neighbor.mac)),
            Item::Segment(segment) => Some(format!("{segment:?}")),
            _ => None,
        })
        .collect();
    insta::assert_snapshot!("overlay_neighbors", neighbors.join("\n"));
    world.sound();
}

fn services(world: &World) -> String {
    let mut rules: Vec<String> =
        ["LB_", "NAT_0", "ALLOW_NAT", "HairPin"].iter().flat_map(|start| world.rules(start)).collect();
    rules.extend(world.ledger.items().values().filter_map(|item| match item {
        Item::Pool(pool) => Some(format!(
                "pool {} proto {} owner {} {:?}",
                pool.key,
                pool.protocol,
                if pool.owner == world.hns.host_port() { "host".to_owned() } else { pool.owner.to_string() },
                pool.ranges
                    .iter()
                    .map(|r| format!("{}:{}-{}*{}", r.address, r.first, r.last, r.reuse))
                    .collect::<Vec<_>>()
            )),
        _ => None,
    }));
    let port = |n: u32| pod_port(n).to_string();
    rules.join("\n").replace(&port(5), "pod5").replace(&port(6), "pod6").replace(&id(1).to_string(), "net")
}

#[test]
fn balancers_of_every_kind() {
    let cases: [(&str, &str, &str, &[usize], u32); 11] = [
        ("dsr_local_one", r#""10.60.0.20""#, TCP_80, &[1], DSR),
        ("dsr_local_two", r#""10.60.0.20""#, TCP_80, &[0, 1], DSR),
        ("dsr_mixed", r#""10.60.0.20""#, TCP_80, &[1, 2], DSR),
        ("non_dsr", r#""10.60.0.20""#, TCP_80, &[1, 2], 0),
        ("node_port", "", r#""Protocol":17,"InternalPort":53,"ExternalPort":30053,"Flags":18"#, &[1, 2], 0),
        (
            "node_port_local_dsr",
            "",
            r#""Protocol":6,"InternalPort":8080,"ExternalPort":30080,"Flags":18"#,
            &[1],
            DSR,
        ),
        (
            "preserved",
            r#""203.0.113.7""#,
            r#""Protocol":6,"InternalPort":8080,"ExternalPort":80,"Flags":28"#,
            &[0, 1, 2],
            DSR,
        ),
        (
            "health_check",
            r#""203.0.113.7""#,
            r#""Protocol":6,"InternalPort":10256,"ExternalPort":10256,"Flags":12"#,
            &[0],
            0,
        ),
        (
            "affine",
            r#""10.60.0.20""#,
            r#""Protocol":6,"InternalPort":8080,"ExternalPort":80,"DistributionType":2"#,
            &[1, 2],
            DSR,
        ),
        ("sctp", r#""10.60.0.20""#, r#""Protocol":132,"InternalPort":9,"ExternalPort":9"#, &[1, 2], 0),
        ("two_vips", r#""10.60.0.20","10.60.0.21""#, TCP_80, &[2], 0),
    ];
    for (name, vips, mapping, backends, flags) in cases {
        let (world, endpoints) = overlay();
        let backends: Vec<Guid> = backends.iter().map(|at| endpoints[*at]).collect();
        let before = services(&world);
        let made = world.balancer(0xAB, vips, mapping, &backends, flags);
        let shown: Vec<String> = services(&world)
            .lines()
            .filter(|line| !before.lines().any(|old| old == *line))
            .map(str::to_owned)
            .collect();
        insta::assert_snapshot!(format!("balancer_{name}"), shown.join("\n"));
        world.hns.delete(Kind::LoadBalancer, made).unwrap();
        assert_eq!(services(&world), before, "{name}");
        world.sound();
    }
}

#[test]
fn a_thousand_destinations_are_one_rule() {
    let (world, _) = overlay();
    let network = id(1);
    let far: Vec<Guid> = (0..300u32)
        .map(|n| {
            world.endpoint(network, 0x2000 + n, &format!("10.50.{}.{}", 4 + n / 200, 1 + n % 200), true, "")
        })
        .collect();
    world.balancer(0xAB, r#""10.60.0.20""#, TCP_80, &far, DSR);
    let rules = world.rules("LB_DSR_000000ab");
    assert_eq!(rules.len(), 1);
    assert_eq!(rules[0].matches(":8080").count(), 300);
    world.sound();
}

#[test]
fn bridge_with_a_gateway_of_the_hosts() {
    let world = World::new();
    let network = world.network("L2Bridge", r#"{"Type":"HostRoute","Settings":{}}"#);
    let gateway = world.endpoint(network, 2, "10.50.1.2", false, "");
    let body = r#"{"SystemType":"Host","CompartmentId":1}"#;
    world.hns.call_v1(hcn::api::V1Method::Post, &format!("/endpoints/{gateway}/attach"), body).unwrap();
    let one = world.pod(network, 5, "10.50.1.5", NAT);
    let route = r#"{"Type":"SDNRoute","Settings":{"DestinationPrefix":"10.0.0.4/32","NeedEncap":true}}"#;
    world.pod(network, 6, "10.50.1.6", route);
    world.balancer(
        0xAB,
        "",
        r#""Protocol":6,"InternalPort":8080,"ExternalPort":30080,"Flags":18"#,
        &[one],
        DSR,
    );
    insta::assert_snapshot!("bridge_pod", world.show(pod_port(5)));
    insta::assert_snapshot!("bridge_pod_with_route", world.show(pod_port(6)));
    insta::assert_snapshot!("bridge_host", world.host());
    insta::assert_snapshot!("bridge_external", world.external());
    let hosts = world.hns.ports_of_compartment(1);
    assert_eq!((hosts.len(), hosts[0].endpoint), (1, gateway));
    assert_eq!(world.hns.endpoint_of(hosts[0].port), Some(gateway));
    assert_eq!(world.hns.port_of(one).unwrap().port, pod_port(5));
    assert_eq!(world.hns.host_routes()[0].prefix.to_string(), "10.50.1.0/24");
    world.sound();
}

#[test]
fn other_modes() {
    for mode in ["NAT", "Transparent", "L2Tunnel", "Private", "Internal"] {
        let world = World::new();
        let network = world.network(mode, "");
        let mapping =
            r#"{"Type":"PortMapping","Settings":{"Protocol":6,"InternalPort":80,"ExternalPort":8080}}"#;
        let vlan = r#"{"Type":"VLAN","Settings":{"IsolationId":7}}"#;
        let policies = match mode {
            "NAT" => mapping,
            "Transparent" | "L2Tunnel" => vlan,
            _ => "",
        };
        world.pod(network, 5, "10.50.1.5", policies);
        insta::assert_snapshot!(
            format!("mode_{mode}"),
            format!("{}\n{}\n{}", world.show(pod_port(5)), world.host(), world.external())
        );
        world.sound();
    }
}

#[test]
fn outbound_nat() {
    let world = World::with("icmp_nat: true\noutbound_nat_blocks: 2");
    let network = world.network("L2Bridge", "");
    let policies = format!(
        r#"{NAT},{{"Type":"OutBoundNAT","Settings":{{"Destinations":["10.50.1.5"]}}}},
        {{"Type":"OutBoundNAT","Settings":{{"VirtualIP":"192.0.2.77","Exceptions":["10.0.0.0/8"]}}}}"#
    );
    world.pod(network, 5, "10.50.1.5", &policies);
    let shown = services(&world);
    insta::assert_snapshot!("outbound_nat", format!("{}\n{shown}", world.show(pod_port(5))));
    assert!(world.hns.switch_settings().icmp_nat);
    world.sound();
}

const ACLS: &str = r#"
    {"Type":"ACL","Settings":{"Id":"late","Action":"Block","Direction":"In","Priority":500}},
    {"Type":"ACL","Settings":{"Id":"web","Action":"Allow","Direction":"In","Protocols":"6,17","LocalPorts":"80,8000-8080","RemoteAddresses":"10.50.0.0/16,fd00::/8","Priority":200,"RuleType":"Switch"}},
    {"Type":"ACL","Settings":{"Id":"same","Action":"Block","Direction":"In","Protocols":"252","Priority":200}},
    {"Type":"ACL","Settings":{"Id":"out","Action":"Block","Direction":"Out","RemoteAddresses":"a","RemotePorts":"443"}},
    {"Type":"ACL","Settings":{"Id":"both","Action":"Allow","Direction":"Out","RemoteAddresses":"a,b,192.0.2.0/24"}},
    {"Type":"ACL","Settings":{"Id":"none","Action":"Allow","Direction":"Out","RemoteAddresses":"a,empty"}},
    {"Type":"ACL","Settings":{"Id":"six","Action":"Allow","Direction":"Out","RemoteAddresses":"fd00::/8"}},
    {"Type":"ACL","Settings":{"Id":"host-a","Action":"Allow","Direction":"In","RuleType":"Host","Priority":1}},
    {"Type":"ACL","Settings":{"Id":"host-b","Action":"Block","Direction":"In","RuleType":"Host","RemoteAddresses":"10.9.0.0/16","Priority":0}},
    {"Type":"TierAcl","Settings":{"Name":"late","Direction":"In","Order":20,"TierAclRules":[{"Id":"l","TierAclRuleAction":"Allow"}]}},
    {"Type":"TierAcl","Settings":{"Name":"early","Direction":"In","Order":10,"TierAclRules":[
        {"Id":"p","TierAclRuleAction":"Pass","RemoteAddresses":"10.50.0.0/16","Priority":9},
        {"Id":"d","TierAclRuleAction":"Block","Protocols":"6","Priority":10}]}}"#;
const SETS: &str = r#"
    {"Type":"SetPolicy","Settings":{"Id":"a","Name":"set a","PolicyType":"IPSET","Values":"10.50.2.0/24,10.50.9.9"}},
    {"Type":"SetPolicy","Settings":{"Id":"b","Name":"set b","PolicyType":"NESTEDIPSET","Values":"c"}},
    {"Type":"SetPolicy","Settings":{"Id":"c","Name":"set c","PolicyType":"IPSET","Values":"10.50.9.0/24"}},
    {"Type":"SetPolicy","Settings":{"Id":"empty","Name":"set e","PolicyType":"IPSET","Values":""}},
    {"Type":"NetworkACL","Settings":{"Id":"all","Action":"Block","Direction":"Out","RemoteAddresses":"a","Priority":10}}"#;

fn filters(world: &World) -> String {
    let all = world.show(pod_port(5));
    let mut keep = false;
    let lines = all.lines().filter(|line| {
        if !line.starts_with(' ') {
            keep = line.contains("ACL");
        }
        keep
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn filters_of_every_kind() {
    let world = World::with("acl_default_deny: true");
    let network = world.network("L2Bridge", SETS);
    let pod = world.pod(network, 5, "10.50.1.5", ACLS);
    insta::assert_snapshot!("filters", filters(&world));
    let tags = |world: &World| -> Vec<String> {
        let items = world.ledger.items();
        let tags = items.values().filter_map(|item| match item {
            Item::Tag(tag) => {
                let ranges: Vec<String> = tag.addresses.ranges().iter().map(ToString::to_string).collect();
                Some(format!("{} {}", tag.name, ranges.join(" ")))
            }
            _ => None,
        });
        tags.collect()
    };
    assert_eq!(
        tags(&world),
        [
            "set a 10.50.2.0-10.50.2.255 10.50.9.9-10.50.9.9",
            "set b 10.50.9.0-10.50.9.255",
            "set c 10.50.9.0-10.50.9.255",
            "set e "
        ]
    );
    // One set by itself is a tag: only the tag changes. A list of several is spelled out.
    world.ledger.take_log();
    let more = r#"{"Type":"SetPolicy","Settings":{"Id":"c","Name":"set c","PolicyType":"IPSET","Values":"10.50.2.7"}}"#;
    let old = r#"{"Type":"SetPolicy","Settings":{"Id":"c","Name":"set c","PolicyType":"IPSET","Values":"10.50.9.0/24"}}"#;
    world.add(Kind::Network, network, "Remove", old);
    world.add(Kind::Network, network, "Add", more);
    assert!(filters(&world).contains("10.50.2.7,192.0.2.0/24"), "{}", filters(&world));
    world.add(Kind::Endpoint, pod, "Update", "");
    assert!(!filters(&world).contains("ACL_ENDPOINT_GROUP"), "{}", filters(&world));
    world.sound();
}

#[test]
fn acls_stand_where_the_switch_says() {
    for (yaml, first) in [("acl_before_lb: false", "LB_DSR"), ("acl_before_lb: true", "ACL_ENDPOINT_LAYER")] {
        let world = World::with(yaml);
        let network = world.network("Overlay", "");
        world.pod(network, 5, "10.50.1.5", "");
        let shown = world.show(pod_port(5));
        assert!(shown.lines().nth(1).unwrap().contains(first), "{shown}");
    }
}

#[test]
fn other_policies() {
    let world = World::new();
    let proxy = r#"{"Type":"L4Proxy","Settings":{"IP":"10.0.0.4","Port":"15001","Protocol":6,"Exceptions":["10.50.0.0/16"],"Destination":"10.60.0.0/16"}}"#;
    let network = world.network("L2Bridge", proxy);
    let own = r#"{"Type":"L4Proxy","Settings":{"IP":"10.50.1.5","Port":"15002","Destination":""}},
        {"Type":"QOS","Settings":{"MaximumOutgoingBandwidthInBytes":125000}},
        {"Type":"PortName","Settings":{"Name":"my-port"}},
        {"Type":"InterfaceParameters","Settings":{"Mtu":1400}}"#;
    world.pod(network, 5, "10.50.1.5", own);
    world.pod(network, 6, "10.50.1.6", r#"{"Type":"EncapOverhead","Settings":{"Overhead":70}}"#);
    insta::assert_snapshot!(
        "other_policies",
        format!("{}\n{}", world.show(pod_port(5)), world.show(pod_port(6)))
    );
    world.sound();
}

#[test]
fn sdn_routes_are_put_on_their_endpoints() {
    let (world, [_, two, _]) = overlay();
    let members = format!(
        r#""HostComputeEndpoints":["{two}"],"Routes":[{{"DestinationPrefix":"10.70.0.0/16","NextHop":"192.0.2.99","NeedEncap":true}}]"#
    );
    let route = world.make(Kind::SdnRoute, 7, None, &members);
    let rules = world.rules("SDNROUTE_00000007");
    assert_eq!(rules.len(), 1, "{rules:?}");
    assert!(
        rules[0].contains("dst=10.70.0.0/16 => routeencap from 10.0.0.4 to 192.0.2.99 vni 4096"),
        "{rules:?}"
    );
    world.hns.delete(Kind::SdnRoute, route).unwrap();
    assert!(world.rules("SDNROUTE_00000007").is_empty());
    world.sound();
}

#[test]
fn ipv6_frontends_lead_to_ipv6_backends() {
    for (own, name) in [(None, "10.0.0.4"), (Some("fd00::4/64"), "fd00::4")] {
        let mut host = crate::Host::default();
        host.adapters[0].addresses.extend(own.map(|own| own.parse::<ipnet::IpNet>().unwrap()));
        let world = World::on(host, "{}");
        let members = r#""Name":"net","Type":"L2Bridge","Ipams":[{"Subnets":[
            {"IpAddressPrefix":"10.50.1.0/24","Routes":[{"NextHop":"10.50.1.1","DestinationPrefix":"0.0.0.0/0"}]},
            {"IpAddressPrefix":"fd50::/64","Routes":[{"NextHop":"fd50::1","DestinationPrefix":"::/0"}]}]}]"#;
        let network = world.make(Kind::Network, 1, None, members);
        world.settle();
        let addresses = r#""IpConfigurations":[{"IpAddress":"10.50.1.5"},{"IpAddress":"fd50::5"}],
            "MacAddress":"0E-2A-0A-32-01-05","Policies":[
            {"Type":"OutBoundNAT","Settings":{"Exceptions":["10.0.0.0/8"]}},
            {"Type":"OutBoundNAT","Settings":{"Flags":2,"Exceptions":["fd50::/48"]}}]"#;
        let pod = world.make(Kind::Endpoint, 5, Some(network), addresses);
        world.attach(pod, 5);
        world.balancer(0xAB, r#""fd60::20""#, TCP_80, &[pod], 3);
        world.balancer(0xAC, "", TCP_80, &[pod], 3);
        let wanted = format!(
            "{network}/LB_DSR/LB_DSR_IPv6_OUT: 100 LB_DSR_000000ab_{name}_fd60::20_80_8080_6 [3] proto=6 dst=fd60::20 dport=80 \
             => lbnat 0xb1000 FiveTuple to=fd50::5:8080@0E-2A-0A-32-01-05"
        );
        assert_eq!(world.rules("LB_DSR_000000ab"), [wanted]);
        // A node port and a translation need an address of the family.
        let count = usize::from(own.is_some());
        assert_eq!(world.rules("LB_DSR_000000ac").len(), count);
        assert_eq!(world.rules("SNAT_TCP_OUTBOUNDNAT_1").len(), count);
        assert_eq!(world.rules("SNAT_TCP_OUTBOUNDNAT_0").len(), 1);
        world.sound();
    }
}

#[test]
fn switches_bend_the_rules() {
    let cases: [(&str, &str, &str); 6] = [
        ("hairpin_rules: local_backends", "HairPin", ""),
        ("hairpin_rules: always", "HairPin", "host/SLB_HAIRPIN_LAYER"),
        ("vxlan_inner_source: router", "REMOTESUBNETROUTE", " smac=00-15-5D"),
        ("vxlan_inner_source: keep", "REMOTESUBNETROUTE", "vni 4096"),
        ("vxlan_decrement_ttl: true", "REMOTESUBNETROUTE", " ttl=-1"),
        ("nat_port_reuse: 1", "LB_HOST", "from=SLB_NATPOOL_IPV4_TCP_10.50.1.2"),
    ];
    for (yaml, start, part) in cases {
        let world = World::with(yaml);
        let network = world.network("Overlay", REMOTE);
        world.pod(network, 5, "10.50.1.5", "");
        let far = world.endpoint(network, 9, "10.50.3.5", true, "");
        world.balancer(0xAB, r#""10.60.0.20""#, TCP_80, &[far], DSR);
        let rules = world.rules(start).join("\n");
        assert!(if part.is_empty() { rules.is_empty() } else { rules.contains(part) }, "{yaml}: {rules}");
        let reuse = if yaml.starts_with("nat") { "*1\"" } else { "*64\"" };
        assert!(services(&world).contains(reuse), "{yaml}: {}", services(&world));
        world.sound();
    }
}

#[test]
fn switches_become_settings_and_a_network_names_the_vxlan_port() {
    let world = World::with(
        "overlay_arp: flood\nicmp_nat: true\nlb_hash_seed: 7\nremoved_dip: rehash\n\
         lb_choice: modulo\nnat_reply: from_wire\n\
         tcp_reset_on_policy_change: true\nvxlan_source_port_base: 50000\nvxlan_source_ports: 100",
    );
    let settings = |world: &World| match world.ledger.items().remove(&Key::Settings) {
        Some(Item::Settings(settings)) => (*settings).clone(),
        other => panic!("{other:?}"),
    };
    let network = world.network("Overlay", r#"{"Type":"VxlanPort","Settings":{"Port":4790}}"#);
    let now = settings(&world);
    assert_eq!((now.vxlan_port, now.vxlan_source_base, now.vxlan_source_range), (4790, 50000, 100));
    assert!(now.icmp_nat && now.reset_on_block && now.hash_seed == 7);
    assert_eq!(now.removed_dip, vfp::model::RemovedDip::Rehash);
    assert_eq!(now.lb_choice, vfp::model::LbChoice::Modulo);
    assert_eq!(now.nat_reply, vfp::model::NatReply::FromWire);
    let segment = world.ledger.items().into_values().find_map(|item| match item {
        Item::Segment(segment) => Some(segment.arp),
        _ => None,
    });
    assert_eq!(segment, Some(vfp::model::ArpMode::Local));
    world.hns.delete(Kind::Network, network).unwrap();
    assert_eq!(settings(&world), world.hns.switch_settings());
    assert_eq!(world.hns.switch_settings().vxlan_port, 4789);
}

#[test]
fn without_a_source_vip_the_switch_says_what_is_taken() {
    for (yaml, address) in [("{}", "10.0.0.4"), ("empty_source_vip: vip", "10.60.0.20")] {
        let world = World::with(yaml);
        let network = world.network("L2Bridge", "");
        let far = world.endpoint(network, 9, "10.50.3.5", true, "");
        let members = format!(
            r#""HostComputeEndpoints":["{far}"],"FrontendVIPs":["10.60.0.20"],"PortMappings":[{{{TCP_80}}}]"#
        );
        world.make(Kind::LoadBalancer, 0xAB, None, &members);
        let rules = world.rules("LB_HOST").join("");
        assert!(rules.contains(&format!("from=SLB_NATPOOL_IPV4_TCP_{address}000000AB")), "{rules}");
        world.sound();
    }
}
