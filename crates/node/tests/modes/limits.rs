//! Bandwidth, MTU, proxies.

use std::time::Duration;

use node::app::{Request, Transport};
use node::stack::StackDrop;
use vfp::DropReason;

use crate::objects::{Ep, Net, policy};
use crate::world::{BOTH, NODE, OUTSIDE, PEER, World, request};

const A: &str = "192.0.2.105";
const B: &str = "192.0.2.106";

fn world(policies: &str) -> World {
    let mut world = World::new();
    let network = world.network(&Net::new("L2Bridge", "192.0.2.0/24", "192.0.2.1"));
    world.pod(network, &Ep::new("a", &[A]).policies(policies));
    world.pod(network, &Ep::new("b", &[B]));
    world
}

#[test]
fn a_cap_holds_in_virtual_time_for_what_the_pod_sends() {
    let qos = policy("QOS", r#""MaximumOutgoingBandwidthInBytes":100000"#);
    let mut world = world(&qos);
    let request = Request { timeout: Duration::from_mins(2), ..request("192.0.2.20:80", Transport::Tcp) };
    let capped = world.exchange("a", request.clone().payload(1_000_000));
    assert!(capped.outcome.answer().is_some(), "{}", capped.outcome);
    assert!(world.log.take_drops().iter().any(|drop| drop.port == "a" && drop.reason == DropReason::Qos));
    // A million bytes at 100,000 a second; a burst of a second's bytes at most is ahead of it.
    assert!(capped.took >= Duration::from_secs(8), "{:?}", capped.took);
    let free = world.exchange("b", request.payload(1_000_000));
    assert!(free.took < Duration::from_secs(2), "{:?}", free.took);
}

#[test]
fn a_smaller_mtu_is_kept_and_told() {
    let cases = [
        (policy("InterfaceParameters", r#""Mtu":1400"#), 1400),
        (policy("EncapOverhead", r#""Overhead":70"#), 1430),
        (String::new(), 1500),
    ];
    for (policies, mtu) in cases {
        let mut world = world(&policies);
        assert_eq!(world.stack("a").interfaces().next().unwrap().mtu, mtu);
        for transport in BOTH {
            let request = request("192.0.2.20:80", transport).payload(20_000);
            let done = world.exchange("a", request);
            assert!(done.outcome.answer().is_some(), "{mtu} by {transport}: {}", done.outcome);
        }
        let frames = world.frames("win");
        let largest = frames.iter().filter(|frame| frame.leaves).filter_map(crate::log::OnWire::ip);
        assert_eq!(largest.map(|found| found.total_len).max(), Some(mtu), "TCP and UDP fill their packets");
    }
}

/// A connection of the pod's on port 80 goes to a proxy.
fn proxied(ip: &str, port: u16, exceptions: &str, destination: &str) -> String {
    let settings = format!(
        r#""IP":"{ip}","Port":"{port}","Protocol":6,"Exceptions":[{exceptions}],"Destination":"{destination}""#
    );
    policy("L4Proxy", &settings)
}

#[test]
fn connections_go_to_a_proxy_on_the_node_exceptions_do_not() {
    let mut world = world(&proxied(NODE, 8443, r#""192.0.2.20/32""#, ""));
    world.answered("a", &format!("{OUTSIDE}:80"), Transport::Tcp, "win", A);
    // The client believes that it speaks to the server; the proxy sees its own port.
    let done = world.ask("a", &format!("{OUTSIDE}:80"), Transport::Tcp);
    assert_eq!(done.outcome.answer().unwrap().local.to_string(), "192.0.2.11:8443");
    world.answered("a", &format!("{PEER}:80"), Transport::Tcp, "peer", A);
    world.answered("a", &format!("{OUTSIDE}:80"), Transport::Udp, "outside", A);
    world.answered("b", &format!("{OUTSIDE}:80"), Transport::Tcp, "outside", B);
    world.answered("a", &format!("{NODE}:80"), Transport::Tcp, "win", A);
    // What the node sends itself is nobody's to redirect.
    world.answered("win", &format!("{OUTSIDE}:80"), Transport::Tcp, "outside", NODE);
}

#[test]
fn a_destination_narrows_what_is_proxied() {
    let mut world = world(&proxied(NODE, 8443, "", "198.51.100.9/32"));
    world.answered("a", &format!("{OUTSIDE}:80"), Transport::Tcp, "win", A);
    world.answered("a", "198.51.100.10:80", Transport::Tcp, "outside", A);
}

#[test]
fn a_proxy_in_the_pod_itself_is_spared_where_an_exception_says_so() {
    let mut world = world(&proxied(A, 8443, r#""198.51.100.10/32""#, ""));
    // The switch brings the packet back to the pod, from the pod's own address to it: the stack does not believe
    // such a packet, which is why proxies in the pod are the work of the host's filter (L4WFPPROXY).
    let done = world.ask("a", &format!("{OUTSIDE}:80"), Transport::Tcp);
    assert!(done.outcome.answer().is_none(), "{}", done.outcome);
    assert!(world.stack("a").counters().dropped.contains_key(&StackDrop::Martian));
    // The proxy's own way to the server.
    world.answered("a", "198.51.100.10:80", Transport::Tcp, "outside", A);
}

#[test]
fn the_pods_neighbour_can_be_the_proxy() {
    let mut world = world(&proxied(B, 8443, "", "198.51.100.0/24"));
    world.answered("a", &format!("{OUTSIDE}:80"), Transport::Tcp, "b", A);
}
