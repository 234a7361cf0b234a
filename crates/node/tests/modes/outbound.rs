//! OutBoundNAT and routes of endpoints.

use std::time::Duration;

use node::app::{Request, Transport};
use vfp::DropReason;

use crate::objects::{Ep, Net, policy};
use crate::world::{BOTH, NODE, OUTSIDE, OUTSIDE_2, PEER, World, ip, request};

const A: &str = "192.0.2.105";

/// A flat bridge with a pod that has these policies.
fn world(switches: &str, policies: &str) -> World {
    let mut world = World::with(switches);
    let network = world.network(&Net::new("L2Bridge", "192.0.2.0/24", "192.0.2.1"));
    world.pod(network, &Ep::new("a", &[A]).policies(policies));
    world.pod(network, &Ep::new("b", &["192.0.2.106"]));
    world
}

fn nat(settings: &str) -> String {
    policy("OutBoundNAT", settings)
}

#[test]
fn exceptions_see_the_pod_and_all_others_the_node() {
    let mut world = world("{}", &nat(r#""Exceptions":["192.0.2.0/24","198.51.100.10/32"]"#));
    for transport in BOTH {
        world.answered("a", &format!("{OUTSIDE}:80"), transport, "outside", NODE);
        world.answered("a", &format!("{OUTSIDE_2}:80"), transport, "outside", A);
        world.answered("a", &format!("{PEER}:80"), transport, "peer", A);
        world.answered("a", "192.0.2.106:80", transport, "b", A);
        world.answered("a", &format!("{NODE}:80"), transport, "win", A);
        // Whoever is excepted reaches the pod by its own address.
        world.answered("peer", &format!("{A}:80"), transport, "a", PEER);
    }
    // To others the pod's replies would leave as the node: that is what ALLOW_NAT_ rules of backends are for.
    let done = world.ask("outside", &format!("{A}:80"), Transport::Tcp);
    assert!(done.outcome.answer().is_none(), "{}", done.outcome);
    let drops = world.log.take_drops();
    let rule =
        drops.iter().find(|drop| drop.reason == DropReason::NonSyn).and_then(|drop| drop.rule.as_ref());
    assert!(rule.is_some_and(|rule| rule.rule.starts_with("SNAT_TCP_OUTBOUNDNAT_0")), "{drops:#?}");
}

#[test]
fn with_destinations_only_those_see_the_node() {
    let mut world = world("{}", &nat(r#""Destinations":["198.51.100.10"]"#));
    for transport in BOTH {
        world.answered("a", &format!("{OUTSIDE_2}:80"), transport, "outside", NODE);
        world.answered("a", &format!("{OUTSIDE}:80"), transport, "outside", A);
    }
}

#[test]
fn a_virtual_ip_is_what_others_see() {
    let mut world = world("{}", &nat(r#""VirtualIP":"192.0.2.77","Exceptions":["192.0.2.0/24"]"#));
    // Whoever routes to the address must bring its frames to the node: nobody answers ARP for it.
    world.act("router", |stack, _| stack.pin_neighbor(0, ip("192.0.2.77"), crate::world::node_mac(11)));
    for transport in BOTH {
        world.answered("a", &format!("{OUTSIDE}:80"), transport, "outside", "192.0.2.77");
    }
    world.answered("a", &format!("{PEER}:80"), Transport::Tcp, "peer", A);
}

#[test]
fn a_pool_that_is_used_up_refuses_new_connections_only() {
    let mut world = world("nat_port_reuse: 1", &nat(""));
    let to = format!("{OUTSIDE}:9000");
    // Nobody answers on this port, so each flow holds its port for as long as it lives.
    world.act("outside", |stack, _| stack.unserve(Transport::Udp, 9000));
    for _ in 0..64 {
        let request = Request { timeout: Duration::from_millis(200), ..request(&to, Transport::Udp) };
        world.start("a", request.payload(0));
    }
    world.run(Duration::from_secs(1));
    assert!(world.log.take_drops().iter().all(|drop| drop.reason != DropReason::NatPool));
    let refused = world.ask("a", &format!("{OUTSIDE}:53"), Transport::Udp);
    assert!(refused.outcome.answer().is_none(), "{}", refused.outcome);
    let drops = world.log.take_drops();
    let found = drops.iter().find(|drop| drop.reason == DropReason::NatPool).unwrap();
    let rule = found.rule.as_ref().unwrap();
    assert!(found.port == "a" && rule.rule.starts_with("SNAT_UDP_OUTBOUNDNAT_0"), "{found:?}");
    // TCP has ports of its own, and others are not concerned.
    world.answered("a", &format!("{OUTSIDE}:80"), Transport::Tcp, "outside", NODE);
    world.answered("b", &format!("{OUTSIDE}:53"), Transport::Udp, "outside", "192.0.2.106");
    // After the flows' time the ports can be had again.
    for _ in 0..6 {
        world.run(Duration::from_mins(1));
        world.ping("win", "192.0.2.1");
    }
    world.answered("a", &format!("{OUTSIDE}:53"), Transport::Udp, "outside", NODE);
}

#[test]
fn several_connections_to_one_server_are_told_apart() {
    let mut world = world("{}", &nat(""));
    let clients: Vec<_> =
        (0..20).map(|_| world.start("a", request(&format!("{OUTSIDE}:80"), Transport::Tcp))).collect();
    let mut seen = std::collections::BTreeSet::new();
    for client in clients {
        let done = world.finish("a", client);
        let answer = done.outcome.answer().unwrap_or_else(|| panic!("{}", done.outcome));
        assert_eq!(answer.peer.ip(), ip(NODE));
        assert!(seen.insert(answer.peer.port()), "one port for two connections to one server");
    }
}

#[test]
fn a_route_to_the_node_leads_through_the_nodes_own_stack() {
    // Without the route a packet for the outside goes to the router at once; with it, the node forwards it.
    let hops = |policies: &str| {
        let mut world = world("{}", policies);
        let before = world.stack("win").counters().forwarded;
        world.answered("a", &format!("{OUTSIDE}:80"), Transport::Tcp, "outside", A);
        world.stack("win").counters().forwarded - before
    };
    assert_eq!(hops(""), 0);
    let route = policy(
        "SDNRoute",
        &format!(r#""DestinationPrefix":"198.51.100.0/24","NextHop":"{NODE}","NeedEncap":true"#),
    );
    assert!(hops(&route) > 0);
}

#[test]
fn an_overlays_route_without_a_next_hop_ends_at_the_node() {
    for (policies, seen) in [
        (String::new(), NODE),
        (policy("SDNRoute", r#""DestinationPrefix":"192.0.2.11/32","NeedEncap":true"#), "10.50.1.5"),
    ] {
        let mut world = World::new();
        let network = world.network(&Net::overlay("net", "10.50.1.0/24", "10.50.1.1", 4096));
        let exceptions = if policies.is_empty() { "" } else { r#""Exceptions":["192.0.2.11/32"]"# };
        let nat = nat(exceptions);
        let list = if policies.is_empty() { nat } else { format!("{nat},{policies}") };
        world.pod(network, &Ep::new("a", &["10.50.1.5"]).policies(list));
        if seen == NODE {
            world.answered("a", &format!("{OUTSIDE}:80"), Transport::Tcp, "outside", seen);
        } else {
            world.answered("a", &format!("{NODE}:80"), Transport::Tcp, "win", seen);
        }
    }
}
