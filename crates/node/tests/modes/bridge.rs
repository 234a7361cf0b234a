//! L2Bridge and L2Tunnel: pods in the node's own subnet, the node's MAC on the wire.

use node::app::Transport;
use wire::{ArpOp, Mac};

use crate::objects::{Ep, Net, policy};
use crate::world::{BOTH, NODE, OUTSIDE, PEER, World, ip, mac, node_mac};

const A: &str = "192.0.2.105";
const B: &str = "192.0.2.106";
const A6: &str = "2001:db8:1::105";
const B6: &str = "2001:db8:1::106";

/// As Azure's CNI plugin makes it: pods have addresses of the node's subnet, the gateway is the router.
fn flat(mode: &str) -> World {
    let mut world = World::new();
    let network = Net::new(mode, "192.0.2.0/24", "192.0.2.1").subnet("2001:db8:1::/64", "2001:db8:1::1", "");
    let network = world.network(&network);
    world.pod(network, &Ep::new("a", &[A, A6]));
    world.pod(network, &Ep::new("b", &[B, B6]));
    world.log.clear();
    world
}

/// Every frame of the node carries its MAC and no tag, in the header and in what ARP says.
#[track_caller]
fn only_the_nodes_mac(world: &World, vlan: Option<u16>) {
    let frames = world.frames("win");
    assert!(!frames.is_empty());
    for frame in frames {
        let l2 = frame.frame().l2;
        if frame.leaves {
            assert_eq!((l2.src, frame.vlan()), (node_mac(11), vlan), "{frame:?}");
            if let Some(arp) = frame.arp() {
                assert_eq!(arp.sender_mac, node_mac(11), "{frame:?}");
            }
        } else {
            assert!(l2.dst == node_mac(11) || l2.dst.is_multicast(), "{frame:?}");
        }
    }
}

#[test]
fn everybody_sees_pods_by_their_addresses_and_the_nodes_mac() {
    let mut world = flat("L2Bridge");
    for transport in BOTH {
        world.answered("a", &format!("{PEER}:80"), transport, "peer", A);
        world.answered("peer", &format!("{B}:80"), transport, "b", PEER);
        world.answered("a", &format!("{OUTSIDE}:80"), transport, "outside", A);
        world.answered("outside", &format!("{A}:80"), transport, "a", OUTSIDE);
        world.answered("a", "[2001:db8:1::20]:80", transport, "peer", A6);
        world.answered("outside", &format!("[{B6}]:80"), transport, "b", "2001:db8:9::9");
    }
    for (from, to) in [("a", PEER), ("a", OUTSIDE), ("peer", A), ("outside", B), ("a", "2001:db8:9::9")] {
        assert!(world.ping(from, to), "{from} to {to}");
    }
    only_the_nodes_mac(&world, None);
    // The peer has learnt the node's MAC for every pod.
    let known: Vec<Mac> = world
        .stack("peer")
        .neighbors()
        .filter(|(_, address, _)| [A, B, B6].iter().any(|own| *address == ip(own)))
        .map(|(_, _, mac)| mac)
        .collect();
    assert!(known.len() >= 2 && known.iter().all(|known| *known == node_mac(11)), "{known:?}");
    // Pods know the peer by its own, and themselves have MACs of their own.
    let peer = world.stack("a").neighbors().find(|(_, address, _)| *address == ip(PEER)).unwrap();
    assert_eq!(peer.2, mac(20));
    assert_ne!(world.mac_of("a"), node_mac(11));
}

#[test]
fn pods_of_one_node_meet_in_the_switch() {
    let mut world = flat("L2Bridge");
    for transport in BOTH {
        world.answered("a", &format!("{B}:80"), transport, "b", A);
        world.answered("b", &format!("[{A6}]:80"), transport, "a", B6);
    }
    assert!(world.ping("a", B) && world.ping("b", A6));
    let b = world.mac_of("b");
    let known: Vec<_> = world.stack("a").neighbors().filter(|(_, address, _)| *address == ip(B)).collect();
    assert_eq!(known[0].2, b, "inside, a pod has its own MAC");
    assert!(
        world
            .frames("win")
            .iter()
            .all(|frame| frame.ip().is_none_or(|ip| ip.proto == 58 && ip.dst.is_ipv6()))
    );
}

#[test]
fn the_node_and_its_pods_reach_each_other() {
    let mut world = flat("L2Bridge");
    for transport in BOTH {
        world.answered("a", &format!("{NODE}:80"), transport, "win", A);
        world.answered("win", &format!("{A}:80"), transport, "a", NODE);
    }
    assert!(world.ping("win", B) && world.ping("b", NODE));
}

#[test]
fn broadcasts_reach_everybody_with_the_nodes_mac() {
    let mut world = flat("L2Bridge");
    // A question for an address that nobody has: every station hears it, and nobody answers.
    let done = world.ask("a", "192.0.2.250:80", Transport::Udp);
    assert!(done.outcome.answer().is_none());
    let asked = world.frames("win");
    let asked: Vec<_> =
        asked.iter().filter(|frame| frame.leaves).filter_map(crate::log::OnWire::arp).collect();
    assert!(!asked.is_empty());
    for arp in asked {
        assert_eq!(
            (arp.op, arp.sender_mac, arp.sender_ip.to_string()),
            (ArpOp::Request, node_mac(11), A.into())
        );
    }
    let heard = |world: &World, who: &str| world.stack(who).counters().received;
    let before = heard(&world, "b");
    let done = world.ask("peer", "192.0.2.251:80", Transport::Udp);
    assert!(done.outcome.answer().is_none());
    assert!(heard(&world, "b") > before, "a broadcast of the wire comes to the pods");
}

#[test]
fn a_vlan_is_on_the_wire_and_nowhere_else() {
    let mut world = World::new();
    world.peer("tagged", 30, Some(7));
    world.peer("stranger", 31, Some(8));
    let vlan = policy("VLAN", r#""IsolationId":7"#);
    let mut network = Net::new("L2Bridge", "192.0.2.0/24", "192.0.2.1");
    network.subnets[0].2 = vlan;
    let network = world.network(&network);
    world.pod(network, &Ep::new("a", &[A]));
    world.pod(network, &Ep::new("b", &[B]));
    world.log.clear();
    for transport in BOTH {
        world.answered("a", "192.0.2.30:80", transport, "tagged", A);
        world.answered("tagged", &format!("{B}:80"), transport, "b", "192.0.2.30");
        world.answered("a", &format!("{B}:80"), transport, "b", A);
    }
    only_the_nodes_mac(&world, Some(7));
    for (from, to) in [("a", "192.0.2.31"), ("a", PEER), ("stranger", A), ("peer", A)] {
        assert!(!world.ping(from, to), "{from} to {to}");
    }
}

#[test]
fn in_a_tunnel_network_every_frame_leaves_and_comes_back() {
    let mut world = flat("L2Tunnel");
    // The network outside sends frames for the node back to it, as a virtual network's fabric does: the router
    // routes between stations of its own link.
    let route =
        |pod: &str| node::stack::Route { destination: ip(pod).into(), via: None, interface: 0, metric: 0 };
    for pod in [A, B] {
        world.act("router", |stack, _| stack.routes_mut().add(route(pod)));
    }
    for transport in BOTH {
        world.answered("a", &format!("{PEER}:80"), transport, "peer", A);
        world.answered("outside", &format!("{B}:80"), transport, "b", OUTSIDE);
    }
    only_the_nodes_mac(&world, None);
    // Two pods: they know each other's address by way of the router only.
    for (pod, other) in [("a", B), ("b", A)] {
        world.act(pod, |stack, _| stack.pin_neighbor(0, ip(other), mac(1)));
    }
    world.log.clear();
    for transport in BOTH {
        world.answered("a", &format!("{B}:80"), transport, "b", A);
    }
    let frames = world.frames("win");
    let count = |leaves: bool| {
        let between = |frame: &&crate::log::OnWire| {
            frame.ip().is_some_and(|found| [found.src, found.dst] == [ip(A), ip(B)])
        };
        frames.iter().filter(|frame| frame.leaves == leaves).filter(between).count()
    };
    assert!(count(true) > 4 && count(true) == count(false), "{} {}", count(true), count(false));
    only_between(&frames);
}

/// What leaves for the other pod has the node's MAC and goes to the router.
#[track_caller]
fn only_between(frames: &[crate::log::OnWire]) {
    for frame in frames.iter().filter(|frame| frame.leaves && frame.ip().is_some()) {
        let l2 = frame.frame().l2;
        assert_eq!((l2.src, l2.dst), (node_mac(11), mac(1)), "{frame:?}");
    }
}

#[test]
fn two_networks_on_one_switch_do_not_see_each_other() {
    // One of either: a frame that names the other network's pod by its own MAC finds nobody, and nothing floods.
    let mut world = World::new();
    let first = world.network(&Net::new("L2Bridge", "192.0.2.0/24", "192.0.2.1").named("first"));
    let third = world.network(&Net::new("Internal", "172.21.0.0/24", "172.21.0.1").named("third"));
    world.pod(first, &Ep::new("a", &[A]));
    world.pod(third, &Ep::new("c", &["172.21.0.5"]));
    world.pod(third, &Ep::new("d", &["172.21.0.6"]));
    let c = world.mac_of("c");
    world.act("a", |stack, _| {
        stack.routes_mut().add(node::stack::Route {
            destination: ip("172.21.0.5").into(),
            via: None,
            interface: 0,
            metric: 0,
        });
        stack.pin_neighbor(0, ip("172.21.0.5"), c);
    });
    let heard = world.stack("c").counters().received;
    let done = world.ask("a", "172.21.0.5:80", Transport::Udp);
    assert!(done.outcome.answer().is_none(), "{}", done.outcome);
    assert_eq!(world.stack("c").counters().received, heard, "not one frame comes over");
    world.answered("d", "172.21.0.5:80", Transport::Tcp, "c", "172.21.0.6");
}
