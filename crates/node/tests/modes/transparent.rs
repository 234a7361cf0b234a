//! Transparent networks: pods are on the wire with their own MACs.

use crate::objects::{Ep, Net, policy};
use crate::world::{BOTH, NODE, OUTSIDE, PEER, World, ip};

const A: &str = "192.0.2.105";
const B: &str = "192.0.2.106";

#[test]
fn pods_are_on_the_wire_with_their_own_macs() {
    let mut world = World::new();
    let network = world.network(&Net::new("Transparent", "192.0.2.0/24", "192.0.2.1"));
    world.pod(network, &Ep::new("a", &[A]));
    world.pod(network, &Ep::new("b", &[B]));
    world.log.clear();
    let a = world.mac_of("a");
    for transport in BOTH {
        world.answered("a", &format!("{PEER}:80"), transport, "peer", A);
        world.answered("outside", &format!("{A}:80"), transport, "a", OUTSIDE);
    }
    assert!(world.ping("peer", A) && world.ping("a", OUTSIDE));
    for frame in world.frames("win") {
        let l2 = frame.frame().l2;
        if frame.leaves {
            assert_eq!((l2.src, l2.vlan), (a, None), "{frame:?}");
        } else {
            assert!(l2.dst == a || l2.dst.is_multicast(), "{frame:?}");
        }
    }
    let known = world.stack("peer").neighbors().find(|(_, address, _)| *address == ip(A)).unwrap();
    assert_eq!(known.2, a);
    for transport in BOTH {
        world.answered("a", &format!("{B}:80"), transport, "b", A);
        world.answered("a", &format!("{NODE}:80"), transport, "win", A);
        world.answered("win", &format!("{B}:80"), transport, "b", NODE);
    }
    assert!(world.frames("win").iter().all(|frame| frame.ip().is_none()), "what is near stays inside");
}

#[test]
fn a_vlan_parts_the_wire() {
    let mut world = World::new();
    world.peer("tagged", 30, Some(7));
    world.peer("stranger", 31, Some(8));
    let network = world.network(&Net::new("Transparent", "192.0.2.0/24", "192.0.2.1"));
    let vlan = policy("VLAN", r#""IsolationId":7"#);
    world.pod(network, &Ep::new("a", &[A]).policies(vlan));
    world.log.clear();
    for transport in BOTH {
        world.answered("a", "192.0.2.30:80", transport, "tagged", A);
        world.answered("tagged", &format!("{A}:80"), transport, "a", "192.0.2.30");
    }
    let a = world.mac_of("a");
    for frame in world.frames("win").iter().filter(|frame| frame.leaves) {
        assert_eq!((frame.frame().l2.src, frame.vlan()), (a, Some(7)), "{frame:?}");
    }
    for (from, to) in [("a", "192.0.2.31"), ("a", PEER), ("stranger", A), ("peer", A)] {
        assert!(!world.ping(from, to), "{from} to {to}");
    }
}
