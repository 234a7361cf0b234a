//! NAT networks: pods reach the outside as the node, the outside reaches pods by mapped ports.

use node::app::{Outcome, Transport};
use vfp::DropReason;

use crate::objects::{Ep, Net, policy};
use crate::world::{BOTH, NODE, OUTSIDE, PEER, World, ip, node_mac};

fn world() -> World {
    let mut world = World::new();
    let network = world.network(&Net::new("NAT", "172.20.0.0/24", "172.20.0.1"));
    let mapped = |protocol: u8, internal: u16, external: u16| {
        let settings =
            format!(r#""Protocol":{protocol},"InternalPort":{internal},"ExternalPort":{external}"#);
        policy("PortMapping", &settings)
    };
    let policies = [mapped(6, 80, 30080), mapped(17, 53, 30053)].join(",");
    world.pod(network, &Ep::new("a", &["172.20.0.5"]).policies(policies));
    world.pod(network, &Ep::new("b", &["172.20.0.6"]));
    world
}

#[test]
fn pods_leave_as_the_node() {
    let mut world = world();
    for transport in BOTH {
        for pod in ["a", "b"] {
            world.answered(pod, &format!("{OUTSIDE}:80"), transport, "outside", NODE);
            world.answered(pod, &format!("{PEER}:80"), transport, "peer", NODE);
        }
    }
    for frame in world.frames("win") {
        let (l2, Some(ip)) = (frame.frame().l2, frame.ip()) else { continue };
        let own = if frame.leaves { (l2.src, ip.src) } else { (l2.dst, ip.dst) };
        assert_eq!(own, (node_mac(11), crate::world::ip(NODE)), "{frame:?}");
    }
}

#[test]
fn pods_and_the_node_reach_each_other_untranslated() {
    let mut world = world();
    for transport in BOTH {
        world.answered("a", "172.20.0.6:80", transport, "b", "172.20.0.5");
        world.answered("b", "172.20.0.5:80", transport, "a", "172.20.0.6");
    }
    assert!(world.ping("a", "172.20.0.6") && world.ping("b", "172.20.0.5"));
    assert!(world.frames("win").iter().all(|frame| frame.ip().is_none()), "nothing leaves the node");
}

#[test]
fn mapped_ports_lead_to_the_pod() {
    let mut world = world();
    for from in ["outside", "peer"] {
        let seen = if from == "peer" { PEER } else { OUTSIDE };
        world.answered(from, &format!("{NODE}:30080"), Transport::Tcp, "a", seen);
        world.answered(from, &format!("{NODE}:30053"), Transport::Udp, "a", seen);
        // Each protocol has its own mapping, and the node's own servers stay.
        world.answered(from, &format!("{NODE}:80"), Transport::Tcp, "win", seen);
        let done = world.ask(from, &format!("{NODE}:30080"), Transport::Udp);
        assert!(done.outcome.answer().is_none(), "{}", done.outcome);
        let done = world.ask(from, &format!("{NODE}:30053"), Transport::Tcp);
        assert!(done.outcome.answer().is_none(), "{}", done.outcome);
    }
    // The pod's neighbour and the pod itself come in by the mapped port too.
    for from in ["a", "b"] {
        let done = world.ask(from, &format!("{NODE}:30080"), Transport::Tcp);
        assert_eq!(
            done.outcome.answer().map(|answer| &*answer.server),
            Some("a"),
            "{from}: {}",
            done.outcome
        );
    }
    // What the node sends to its own address never comes to the switch.
    let done = world.ask("win", &format!("{NODE}:30080"), Transport::Tcp);
    assert_eq!(done.outcome, Outcome::Refused);
}

#[test]
fn nobody_outside_reaches_a_pod_by_its_own_address() {
    let mut world = world();
    let done = world.ask("peer", "172.20.0.5:80", Transport::Tcp);
    assert!(done.outcome.answer().is_none(), "{}", done.outcome);
}

#[test]
fn ports_are_given_back() {
    let mut world = world();
    for _ in 0..40 {
        world.answered("a", &format!("{OUTSIDE}:80"), Transport::Tcp, "outside", NODE);
        world.answered("a", &format!("{OUTSIDE}:53"), Transport::Udp, "outside", NODE);
    }
    let lent = |world: &World| world.nodes["win"].switch.with(|switch| switch.bindings().len());
    assert!(lent(&world) > 0);
    // A UDP flow and a closed connection are gone after their time; what is due is looked for when packets pass.
    for _ in 0..12 {
        world.run(std::time::Duration::from_mins(2));
        world.ping("win", "192.0.2.1");
    }
    assert_eq!(lent(&world), 0);
}

#[test]
fn pings_are_not_translated_unless_told() {
    let mut world = world();
    world.log.clear();
    assert!(!world.ping("a", OUTSIDE));
    let drops = world.log.take_drops();
    assert!(drops.iter().any(|drop| drop.reason == DropReason::IcmpNat), "{drops:#?}");
    let mut world = World::with("icmp_nat: true");
    let network = world.network(&Net::new("NAT", "172.20.0.0/24", "172.20.0.1"));
    world.pod(network, &Ep::new("a", &["172.20.0.5"]));
    assert!(world.ping("a", OUTSIDE));
    let out = world.frames("win").into_iter().filter_map(|frame| frame.ip());
    assert!(out.into_iter().all(|found| found.src == ip(NODE) || found.dst == ip(NODE)));
}
