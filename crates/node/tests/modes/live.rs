//! A policy changes under a live connection.

use std::time::Duration;

use hcn::{Guid, Kind};
use node::app::{Outcome, Request, Transport};
use node::stack::ClientId;
use vfp::DropReason;

use crate::objects::{Ep, Net, policy};
use crate::world::{PEER, World, request, silent};

const A: &str = "192.0.2.105";

fn world(switches: &str) -> (World, Guid, Guid) {
    let mut world = World::with(switches);
    let network = world.network(&Net::new("L2Bridge", "192.0.2.0/24", "192.0.2.1"));
    let a = world.pod(network, &Ep::new("a", &[A]));
    let b = world.pod(network, &Ep::new("b", &["192.0.2.106"]));
    (world, a, b)
}

/// A connection that takes some seconds, as the way is long; some bytes have passed.
fn open(world: &mut World, from: &str, to: &str) -> ClientId {
    world.slow("peer", Duration::from_millis(20));
    let request = Request { timeout: Duration::from_secs(30), ..request(to, Transport::Tcp) };
    let client = world.start(from, request.payload(1_000_000));
    world.run(Duration::from_millis(100));
    assert!(world.stack(from).exchange(client).is_none(), "it is under way");
    client
}

fn block(direction: &str, more: &str) -> String {
    policy("ACL", &format!(r#""Id":"stop","Action":"Block","Direction":"{direction}"{more}"#))
}

#[test]
fn a_block_takes_effect_on_the_next_packet_and_leaves_others_alone() {
    for (from, to, blocked) in [
        ("peer", "192.0.2.105:80", &["In", "Out"][..]),
        ("peer", "192.0.2.105:80", &["In"]),
        ("a", "192.0.2.20:80", &["Out"]),
    ] {
        let (mut world, a, _) = world("{}");
        let other = open(&mut world, "b", "192.0.2.20:443");
        let second = open(&mut world, "peer", "192.0.2.106:80");
        let stopped = open(&mut world, from, to);
        world.log.clear();
        let blocks: Vec<String> = blocked.iter().map(|direction| block(direction, "")).collect();
        world.change(Kind::Endpoint, a, "Add", &blocks.join(","));
        let received = |world: &World| world.stack("a").counters().received;
        let before = received(&world);
        world.run(Duration::from_millis(150));
        if blocked.contains(&"In") {
            assert_eq!(received(&world), before, "not one more packet");
        }
        world.dropped(("a", DropReason::Acl, "stop"));
        if blocked.contains(&"Out") {
            let done = world.finish(from, stopped);
            assert!(silent(&done), "{blocked:?}: {}", done.outcome);
        }
        for (from, client) in [("b", other), ("peer", second)] {
            let done = world.finish(from, client);
            assert!(done.outcome.answer().is_some(), "{blocked:?}: {from}: {}", done.outcome);
        }
    }
}

#[test]
fn a_block_that_concerns_other_connections_of_the_pod_leaves_this_one_alone() {
    let (mut world, a, _) = world("{}");
    let going = open(&mut world, "peer", "192.0.2.105:80");
    world.change(Kind::Endpoint, a, "Add", &block("In", r#","Protocols":"6","LocalPorts":"443""#));
    world.refused("peer", "192.0.2.105:443", Transport::Tcp, ("a", DropReason::Acl, "stop"));
    let done = world.finish("peer", going);
    assert!(done.outcome.answer().is_some(), "{}", done.outcome);
}

#[test]
fn an_allow_that_is_added_lets_a_connection_through_again() {
    let (mut world, a, _) = world("{}");
    let going = open(&mut world, "peer", "192.0.2.105:80");
    world.change(Kind::Endpoint, a, "Add", &block("In", r#","Priority":500"#));
    world.run(Duration::from_secs(1));
    let allow =
        r#""Id":"peer","Action":"Allow","Direction":"In","RemoteAddresses":"192.0.2.20","Priority":100"#;
    world.change(Kind::Endpoint, a, "Add", &policy("ACL", allow));
    let done = world.finish("peer", going);
    assert!(done.outcome.answer().is_some(), "TCP asks again until it passes: {}", done.outcome);
    world.refused("outside", "192.0.2.105:80", Transport::Tcp, ("a", DropReason::Acl, "stop"));
}

#[test]
fn a_removed_block_lets_the_next_packet_pass() {
    let (mut world, a, _) = world("{}");
    world.change(Kind::Endpoint, a, "Add", &block("In", ""));
    world.refused("peer", "192.0.2.105:80", Transport::Udp, ("a", DropReason::Acl, "stop"));
    world.change(Kind::Endpoint, a, "Remove", &block("In", ""));
    world.answered("peer", "192.0.2.105:80", Transport::Udp, "a", PEER);
    world.change(Kind::Endpoint, a, "Update", &block("Out", ""));
    world.refused("a", "192.0.2.20:80", Transport::Udp, ("a", DropReason::Acl, "stop"));
    world.answered("peer", "192.0.2.105:80", Transport::Udp, "a", PEER);
}

#[test]
fn both_ends_are_told_when_the_switch_says_so() {
    let (mut world, a, _) = world("tcp_reset_on_policy_change: true");
    let other = open(&mut world, "b", "192.0.2.20:443");
    let stopped = open(&mut world, "peer", "192.0.2.105:80");
    world.change(Kind::Endpoint, a, "Add", &block("In", ""));
    let done = world.finish("peer", stopped);
    assert_eq!(done.outcome, Outcome::Reset);
    assert!(done.took < Duration::from_secs(5), "at once, not by a time limit: {:?}", done.took);
    let done = world.finish("b", other);
    assert!(done.outcome.answer().is_some(), "{}", done.outcome);
}

#[test]
fn a_change_elsewhere_stops_nobody() {
    let (mut world, _, b) = world("{}");
    let going = open(&mut world, "peer", "192.0.2.105:80");
    for _ in 0..20 {
        world.change(Kind::Endpoint, b, "Add", &block("In", r#","LocalPorts":"9000","Protocols":"6""#));
        world.run(Duration::from_millis(2));
        world.change(Kind::Endpoint, b, "Update", "");
        world.run(Duration::from_millis(2));
    }
    let done = world.finish("peer", going);
    assert!(done.outcome.answer().is_some(), "{}", done.outcome);
    assert!(world.log.take_drops().is_empty());
}
