//! Pods, nodes and the outside reach each other without Services.

use node::NetworkKind;
use node::app::Transport;
use node::sim::Client;

use crate::world::{NODES, STRANGER, ask, ip, pod, simulation};

const KINDS: [NetworkKind; 2] = [NetworkKind::Overlay, NetworkKind::L2Bridge];
const BOTH: [Transport; 2] = [Transport::Tcp, Transport::Udp];

#[test]
fn every_pod_reaches_every_pod_with_its_own_address() {
    for kind in KINDS {
        let mut simulation = simulation(kind);
        let mut failed = Vec::new();
        for (from, _, from_range, _) in NODES {
            for (to, _, to_range, _) in NODES {
                let client = pod(&format!("{from}-5"));
                let (server, address) = (format!("shop/{to}-6"), format!("10.50.{to_range}.6"));
                for transport in BOTH {
                    let done = ask(&mut simulation, &client, &address, transport);
                    let seen = done.outcome.answer().map(|answer| (answer.server.clone(), answer.peer.ip()));
                    if seen != Some((server.clone(), ip(&format!("10.50.{from_range}.5")))) {
                        failed.push(format!("{kind}: {client} to {server} by {transport}: {}", done.outcome));
                    }
                }
            }
        }
        assert!(failed.is_empty(), "{failed:#?}");
    }
}

#[test]
fn nodes_and_pods_reach_each_other() {
    for kind in KINDS {
        let mut simulation = simulation(kind);
        let mut failed = Vec::new();
        for (node, _, range, address) in NODES {
            // A node reaches its own pods, and its pods the node, each with the pod's own address.
            let client = Client::Node(node.to_owned());
            let done = ask(&mut simulation, &client, &format!("10.50.{range}.5"), Transport::Tcp);
            if done.outcome.answer().is_none() {
                failed.push(format!("{kind}: {client} to its pod: {}", done.outcome));
            }
            let client = pod(&format!("{node}-5"));
            let done = ask(&mut simulation, &client, address, Transport::Tcp);
            if done.outcome.answer().map(|answer| answer.peer.ip()) != Some(ip(&format!("10.50.{range}.5"))) {
                failed.push(format!("{kind}: {client} to its node: {}", done.outcome));
            }
            for (to, _, _, address) in NODES.iter().filter(|(to, ..)| *to != node) {
                let done = ask(&mut simulation, &Client::Node(node.to_owned()), address, Transport::Udp);
                if done.outcome.answer().is_none() {
                    failed.push(format!("{kind}: node {node} to node {to}: {}", done.outcome));
                }
            }
        }
        assert!(failed.is_empty(), "{failed:#?}");
    }
}

#[test]
fn the_outside_sees_the_node() {
    for kind in KINDS {
        let mut simulation = simulation(kind);
        let mut failed = Vec::new();
        for (node, _, _, address) in NODES {
            for transport in BOTH {
                let client = pod(&format!("{node}-5"));
                let done = ask(&mut simulation, &client, STRANGER, transport);
                let seen = done.outcome.answer().map(|answer| (answer.server.clone(), answer.peer.ip()));
                if seen != Some(("outside".to_owned(), ip(address))) {
                    failed.push(format!("{kind}: {client} to the outside by {transport}: {}", done.outcome));
                }
            }
            let done = ask(&mut simulation, &Client::Outside, address, Transport::Tcp);
            if done.outcome.answer().is_none() {
                failed.push(format!("{kind}: outside to {node}: {}", done.outcome));
            }
        }
        assert!(failed.is_empty(), "{failed:#?}");
    }
}
