//! Services on Linux nodes, as whole exchanges: by both kinds of network, on one bridge, to oneself, with fragments.

use std::net::SocketAddr;

use node::app::{Outcome, Request, Transport};
use node::fabric::DeviceId;
use node::stack::{Reach, ServiceRule, ServiceTable, StackDrop};

use crate::linux::cluster;
use crate::world::{Machine, World, act, answered, exchange, ip, net, socket};

const BOTH: [Transport; 2] = [Transport::Tcp, Transport::Udp];

fn rule(vip: &str, port: u16, transport: Transport, reach: Reach, backends: &[SocketAddr]) -> ServiceRule {
    ServiceRule {
        vip: ip(vip),
        port,
        transport,
        backends: backends.to_vec(),
        elsewhere: false,
        reach,
        affinity: false,
        sources: Vec::new(),
    }
}

/// The frontends of every node: near and far are seen from the first one.
fn serve(world: &mut World, nodes: [DeviceId; 2]) {
    let (near, far) = (socket("10.50.11.6", 80), socket("10.50.12.5", 80));
    for (node, pods) in nodes.into_iter().zip(["10.50.11.0/24", "10.50.12.0/24"]) {
        let mut rules = Vec::new();
        for transport in BOTH {
            rules.extend([
                rule("10.60.0.1", 80, transport, Reach::Cluster, &[near]),
                rule("10.60.0.2", 80, transport, Reach::Cluster, &[far]),
                rule("10.60.0.3", 80, transport, Reach::Cluster, &[]),
                rule("0.0.0.0", 30001, transport, Reach::Everybody, &[far]),
                rule("0.0.0.0", 30002, transport, Reach::Local { near: vec![near] }, &[near, far]),
                rule("0.0.0.0", 30003, transport, Reach::Local { near: Vec::new() }, &[far]),
            ]);
        }
        world.with(node, |machine, _, _| {
            let Machine::Linux(node) = machine else { panic!("a node") };
            node.set_services(ServiceTable { rules, pods: vec![net(pods)] });
        });
    }
}

#[test]
fn frontends_are_served_and_backends_see_whom_they_must() {
    for overlay in [true, false] {
        let (mut world, nodes, outside) = cluster(overlay);
        serve(&mut world, nodes);
        // By a tunnel the node speaks from its tunnel's address.
        let to_far = if overlay { "10.50.11.0" } else { "192.0.2.11" };
        let pod = (nodes[0], Some("pod-11-5"));
        let cases = [
            (pod, "10.60.0.1", 80, "pod-11-6", "10.50.11.5"),
            (pod, "10.60.0.2", 80, "pod-12-5", "10.50.11.5"),
            // A pod that reaches itself.
            ((nodes[0], Some("pod-11-6")), "10.60.0.1", 80, "pod-11-6", "10.50.11.1"),
            ((nodes[0], None), "10.60.0.1", 80, "pod-11-6", "10.50.11.1"),
            ((nodes[0], None), "10.60.0.2", 80, "pod-12-5", to_far),
            ((nodes[0], None), "192.0.2.11", 30001, "pod-12-5", to_far),
            ((nodes[0], None), "192.0.2.12", 30001, "pod-12-5", "10.50.12.1"),
            (pod, "192.0.2.11", 30001, "pod-12-5", to_far),
            // A node port leads to another node: the address of the node is the only translation.
            ((outside, None), "192.0.2.11", 30001, "pod-12-5", to_far),
            ((outside, None), "192.0.2.11", 30002, "pod-11-6", "203.0.113.9"),
        ];
        for ((device, pod), to, port, server, seen) in cases {
            for transport in BOTH {
                // Large enough for fragments and segments.
                let request = Request::new(socket(to, port), transport).payload(4000);
                answered(&exchange(&mut world, device, pod, request), server, seen);
            }
        }
    }
}

#[test]
fn without_a_backend_it_is_refused_and_by_policy_dropped() {
    let (mut world, nodes, outside) = cluster(true);
    serve(&mut world, nodes);
    for transport in BOTH {
        for pod in [Some("pod-11-5"), None] {
            let done = exchange(&mut world, nodes[0], pod, Request::new(socket("10.60.0.3", 80), transport));
            assert_eq!(done.outcome, Outcome::Refused, "{pod:?} by {transport}");
        }
        let request = Request::new(socket("192.0.2.11", 30003), transport);
        let done = exchange(&mut world, outside, None, request);
        assert_eq!(done.outcome, Outcome::TimedOut, "{transport}");
    }
    let dropped = act(&mut world, nodes[0], None, |stack, _| stack.counters().dropped.clone());
    assert!(dropped[&StackDrop::Service] >= 6, "{dropped:?}");
}

#[test]
fn a_backend_that_refuses_is_heard_by_the_client() {
    for overlay in [true, false] {
        let (mut world, nodes, outside) = cluster(overlay);
        serve(&mut world, nodes);
        for (node, pod) in [(nodes[0], "pod-11-6"), (nodes[1], "pod-12-5")] {
            act(&mut world, node, Some(pod), |stack, _| {
                for transport in BOTH {
                    assert!(stack.unserve(transport, 80));
                }
            });
        }
        let cases = [
            (nodes[0], Some("pod-11-5"), "10.60.0.1", 80),
            (nodes[0], Some("pod-11-5"), "10.60.0.2", 80),
            (nodes[0], None, "10.60.0.2", 80),
            (outside, None, "192.0.2.11", 30001),
        ];
        for (device, pod, to, port) in cases {
            for transport in BOTH {
                let done = exchange(&mut world, device, pod, Request::new(socket(to, port), transport));
                assert_eq!(done.outcome, Outcome::Refused, "{pod:?} to {to}:{port} by {transport}");
            }
        }
    }
}
