//! Routers: between subnets, with small links, in circles.

use std::time::Duration;

use node::app::{Outcome, Request, Transport, Unreachable};
use node::fabric::{DeviceId, Fabric, LinkSettings};
use node::host::Host;
use node::stack::{Route, Stack, StackDrop};

use crate::world::{Machine, World, act, answered, exchange, host, interface, ip, net, socket};

/// client – r1 – r2 – server, the middle link with an MTU of its own.
fn chain(mtu: u16) -> (World, DeviceId, DeviceId) {
    let mut world = Fabric::new(3);
    let mut r1 = Stack::new("r1", 11);
    r1.add_interface(interface("left", 11, &["10.1.0.1/24", "fd01::1/64"], 1500));
    r1.add_interface(interface("right", 12, &["10.2.0.1/24", "fd02::1/64"], mtu));
    r1.routes_mut().add(Route::default_by(ip("10.2.0.2"), 1));
    r1.routes_mut().add(Route::default_by(ip("fd02::2"), 1));
    let mut r2 = Stack::new("r2", 13);
    r2.add_interface(interface("left", 13, &["10.2.0.2/24", "fd02::2/64"], mtu));
    r2.add_interface(interface("right", 14, &["10.3.0.1/24", "fd03::1/64"], 1500));
    r2.routes_mut().add(Route::default_by(ip("10.2.0.1"), 0));
    r2.routes_mut().add(Route::default_by(ip("fd02::1"), 0));
    let mut server = host("server", 2, &["10.3.0.2/24", "fd03::2/64"], &["10.3.0.1", "fd03::1"]);
    server.serve(Transport::Tcp, 80);
    server.serve(Transport::Udp, 80);
    let client = host("client", 1, &["10.1.0.2/24", "fd01::2/64"], &["10.1.0.1", "fd01::1"]);
    let client = world.add("client", Machine::Host(Host::new(client)));
    let r1 = world.add("r1", Machine::Host(Host::router(r1)));
    let r2 = world.add("r2", Machine::Host(Host::router(r2)));
    let server = world.add("server", Machine::Host(Host::new(server)));
    world.join((client, 0), (r1, 0), LinkSettings::default());
    world.join((r1, 1), (r2, 0), LinkSettings { mtu, ..LinkSettings::default() });
    world.join((r2, 1), (server, 0), LinkSettings::default());
    (world, client, r2)
}

#[test]
fn routers_join_subnets() {
    for transport in [Transport::Tcp, Transport::Udp] {
        for (server, peer) in [("10.3.0.2", "10.1.0.2"), ("fd03::2", "fd01::2")] {
            let (mut world, client, _) = chain(1500);
            let request = Request::new(socket(server, 80), transport).payload(5000);
            answered(&exchange(&mut world, client, None, request), "server", peer);
        }
    }
}

#[test]
fn a_small_link_on_the_way_is_found() {
    for transport in [Transport::Tcp, Transport::Udp] {
        for (server, peer) in [("10.3.0.2", "10.1.0.2"), ("fd03::2", "fd01::2")] {
            let (mut world, client, r2) = chain(1300);
            let request = Request::new(socket(server, 80), transport).payload(9000);
            let request = Request { timeout: Duration::from_mins(1), ..request };
            answered(&exchange(&mut world, client, None, request), "server", peer);
            let dropped = act(&mut world, r2, None, |stack, _| stack.counters().dropped.clone());
            // Fragments of IPv4 may be cut again; all else is refused by the router at first.
            let refused = transport == Transport::Tcp || server.contains(':');
            assert_eq!(
                dropped.contains_key(&StackDrop::TooBig),
                refused,
                "{transport} {server}: {dropped:?}"
            );
        }
    }
}

#[test]
fn a_router_says_what_is_wrong() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let (mut world, client, _) = chain(1500);
        // Nobody is there: the last router finds out.
        let done = exchange(&mut world, client, None, Request::new(socket("10.3.0.9", 80), transport));
        assert_eq!(done.outcome, Outcome::Unreachable(Unreachable::Host(ip("10.2.0.2"))));
        // Both routers send it to the other one, until its time is over: at the second after 63 hops.
        let done = exchange(&mut world, client, None, Request::new(socket("203.0.113.1", 80), transport));
        let by = |who: &str| Outcome::Unreachable(Unreachable::TimeExceeded(ip(who)));
        assert!(done.outcome == by("10.2.0.1") || done.outcome == by("10.2.0.2"), "{}", done.outcome);
        let done = exchange(&mut world, client, None, Request::new(socket("fd09::1", 80), transport));
        assert!(
            matches!(done.outcome, Outcome::Unreachable(Unreachable::TimeExceeded(_))),
            "{}",
            done.outcome
        );
    }
}

#[test]
fn without_a_route_the_router_says_so() {
    let (mut world, client, r2) = chain(1500);
    act(&mut world, r2, None, |stack, _| {
        stack.routes_mut().remove(net("0.0.0.0/0"));
        stack.routes_mut().add(Route {
            destination: net("10.1.0.0/24"),
            via: Some(ip("10.2.0.1")),
            interface: 0,
            metric: 0,
        });
    });
    let done = exchange(&mut world, client, None, Request::new(socket("203.0.113.1", 80), Transport::Tcp));
    assert_eq!(done.outcome, Outcome::Unreachable(Unreachable::Host(ip("10.2.0.2"))));
    let request = Request::new(socket("10.3.0.2", 80), Transport::Tcp);
    answered(&exchange(&mut world, client, None, request), "server", "10.1.0.2");
}
