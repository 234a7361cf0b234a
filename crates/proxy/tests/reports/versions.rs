//! DS-09: what the proxy asks of HNS follows from the version of HNS, whose features come and go with it
//! (kubernetes/kubernetes#93080: DSR from 9.3 within 9, and from 10.2 on). Each row of the table is one version; what
//! it says is seen in the load balancers, the calls and the conditions.

use hns::Profile;
use hns::journal::Op;
use node::NetworkKind;
use proxy::Config;
use proxy::status::ConditionReason;
use services::{IpFamily, ServiceKey};

use crate::world::{Setup, World, dump};
use crate::{count, set_service, set_slice, writes_since};

/// Version; then DSR, affinity, IPv6 beside IPv4, modify in place; then how many backends a load balancer gets.
const TABLE: [(&str, &str, usize); 17] = [
    ("9.2", "- - - -", 64),
    ("9.3", "D - - -", 64),
    ("9.5", "D - - -", 64),
    ("9.9", "D - - -", 64),
    ("10.0", "- - - -", 1024),
    ("10.1", "- - - -", 1024),
    ("10.2", "D - - -", 1024),
    ("10.4", "D - - -", 1024),
    ("11.0", "D - - -", 1024),
    ("11.9", "D - - -", 1024),
    ("11.10", "D - 6 -", 1024),
    ("12.0", "D A 6 -", 1024),
    ("13.3", "D A 6 -", 1024),
    ("15.1", "D A 6 -", 1024),
    ("15.4", "D A 6 -", 1024),
    ("15.5", "D A 6 M", 1024),
    ("16.0", "D A 6 M", 1024),
];

fn world(version: &str, network: NetworkKind) -> World {
    let config = Config { network_name: "net".to_owned(), enable_dsr: true, ..Config::default() };
    let families = match network {
        NetworkKind::L2Bridge => vec![IpFamily::V4, IpFamily::V6],
        NetworkKind::Overlay => vec![IpFamily::V4],
    };
    World::new(Setup {
        profile: Profile::Ws2022,
        network,
        families,
        config,
        locals: vec!["L1".to_owned()],
        switches: Some(format!("version: \"{version}\"")),
        ..Setup::default()
    })
}

fn reasons(world: &World) -> Vec<ConditionReason> {
    let key = ServiceKey { namespace: "default".into(), name: "web".into() };
    let status = world.driver.proxy().status(&key).expect("the Service is known");
    status.conditions.iter().map(|condition| condition.reason).collect()
}

fn flags_of(version: &str, network: NetworkKind) -> String {
    let mut world = world(version, network);
    set_service(
        &mut world,
        "{name: web, type: LoadBalancer, ips: [10.60.0.20, '2001:db8:60::20'], ports: ['80'], ingress: [VIP], etp: Local, affinity: 10800}",
    );
    set_slice(&mut world, "{of: web, name: web-4, port: 8080, endpoints: [L1, R1]}");
    set_slice(&mut world, "{of: web, name: web-6, port: 8080, endpoints: [R1v6 node=n2]}");
    world.settle(10);
    let short = dump::short(&world.hns);
    let vip = &short["VIP:80/TCP"].1;
    let cluster = &short["10.60.0.20:80/TCP"].1;
    let dsr = vip.flags.contains("DSR");
    assert_eq!(cluster.flags.contains("DSR"), dsr, "{version}: --enable-dsr and the traffic policy agree");
    let affinity = vip.distribution == "SourceIP";
    let dual = short.contains_key("[2001:db8:60::20]:80/TCP");

    // What is asked for and cannot be had is said.
    assert_eq!(reasons(&world).contains(&ConditionReason::DsrUnsupported), !dsr, "{version}");
    assert_eq!(reasons(&world).contains(&ConditionReason::AffinityUnsupported), !affinity, "{version}");
    let node = world.driver.proxy().conditions().any(|it| it.reason == ConditionReason::DsrUnsupported);
    assert_eq!(node, !dsr, "{version}: --enable-dsr");

    let mark = world.hns.journal().next_seq();
    set_slice(&mut world, "{of: web, name: web-4, port: 9090, endpoints: [L1, R1]}");
    world.settle(10);
    let writes = writes_since(&world, mark);
    let modify = count(&writes, Op::Modify) == 2;
    assert_eq!(
        count(&writes, Op::Create) + count(&writes, Op::Delete),
        if modify { 0 } else { 4 },
        "{version}"
    );

    let cell = |has: bool, letter: &str| if has { letter.to_owned() } else { "-".to_owned() };
    [cell(dsr, "D"), cell(affinity, "A"), cell(dual, "6"), cell(modify, "M")].join(" ")
}

#[test]
fn each_version_gets_what_it_can_do() {
    for (version, wanted, backends) in TABLE {
        assert_eq!(flags_of(version, NetworkKind::L2Bridge), wanted, "HNS {version}");
        let proxy_takes = world(version, NetworkKind::L2Bridge);
        let mut asked = proxy_takes;
        asked.pass();
        assert_eq!(asked.driver.proxy().max_backends(), backends, "HNS {version}");
    }
}

/// Overlay networks and their remote subnets are there from 9.2 on; IPv6 beside IPv4 is never served on one.
#[test]
fn each_version_on_an_overlay() {
    for (version, wanted, _) in TABLE {
        assert_eq!(flags_of(version, NetworkKind::Overlay), wanted.replace('6', "-"), "HNS {version}");
        let mut world = world(version, NetworkKind::Overlay);
        world.pass();
        let unsupported =
            world.driver.proxy().conditions().any(|it| it.reason == ConditionReason::Unsupported);
        assert!(!unsupported, "HNS {version}");
    }
}
