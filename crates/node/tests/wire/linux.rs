//! Linux nodes: pods, VXLAN as Flannel and Calico make it, host-gw, masquerading.

use node::app::{Outcome, Request, Transport};
use node::fabric::{DeviceId, Fabric, LearningSwitch, LinkSettings};
use node::host::Host;
use node::linux::{LinuxNode, UNDERLAY, VxlanSpec};
use node::stack::{Route, StackDrop};
use wire::Mac;

use crate::world::{Machine, World, act, answered, exchange, host, interface, ip, mac, net, socket};

const VNI: u32 = 4096;

fn tunnel(last: u8) -> Mac {
    Mac([0x66, 0, 0, 0, 0, last])
}

fn node(last: u8, overlay: bool) -> LinuxNode {
    let address = format!("192.0.2.{last}/24");
    let mtu = if overlay { 1450 } else { 1500 };
    let gateway = net(&format!("10.50.{last}.1/24"));
    let name = format!("node-{last}");
    let mut node =
        LinuxNode::new(name, last.into(), interface("eth0", last, &[&address], 1500), vec![gateway], mtu);
    for pod in [5, 6] {
        let name = format!("pod-{last}-{pod}");
        node.add_pod(name.clone(), &[ip(&format!("10.50.{last}.{pod}"))]);
        let pod = node.pod_mut(&name).unwrap();
        pod.serve(Transport::Tcp, 80);
        pod.serve(Transport::Udp, 80);
    }
    for peer in [11_u8, 12].into_iter().filter(|&peer| peer != last) {
        let pods = net(&format!("10.50.{peer}.0/24"));
        let address = ip(&format!("192.0.2.{peer}"));
        if overlay {
            node.add_vxlan(VxlanSpec {
                name: "flannel.4096".to_owned(),
                vni: VNI,
                port: 4789,
                mac: tunnel(last),
                local: ip(&format!("192.0.2.{last}")),
                addresses: vec![net(&format!("10.50.{last}.0/32"))],
                mtu: 1450,
            });
            node.add_vxlan_peer(pods, tunnel(peer), address);
        } else {
            node.add_route(pods, address);
        }
    }
    node.masquerade(vec![net("10.50.0.0/16")]);
    node.stack_mut().routes_mut().add(Route::default_by(ip("192.0.2.1"), UNDERLAY));
    node
}

/// Two nodes and a router to a host outside.
pub(crate) fn cluster(overlay: bool) -> (World, [DeviceId; 2], DeviceId) {
    let mut world = Fabric::new(1);
    let switch = world.add("switch", Machine::Switch(LearningSwitch::new(3)));
    let mut nodes = [switch; 2];
    for (n, last) in [11, 12].into_iter().enumerate() {
        nodes[n] = world.add(format!("node-{last}"), Machine::Linux(node(last, overlay)));
        world.join((nodes[n], 0), (switch, n), LinkSettings::default());
    }
    let mut router = host("router", 1, &["192.0.2.1/24"], &[]);
    router.add_interface(interface("wan", 2, &["203.0.113.1/24"], 1500));
    let router = world.add("router", Machine::Host(Host::router(router)));
    world.join((router, 0), (switch, 2), LinkSettings::default());
    let mut outside = host("outside", 3, &["203.0.113.9/24"], &["203.0.113.1"]);
    outside.serve(Transport::Tcp, 443);
    outside.serve(Transport::Udp, 443);
    let outside = world.add("outside", Machine::Host(Host::new(outside)));
    world.join((router, 1), (outside, 0), LinkSettings::default());
    (world, nodes, outside)
}

#[test]
fn pods_reach_each_other_on_one_node_and_across() {
    for overlay in [true, false] {
        let (mut world, [first, _], _) = cluster(overlay);
        for transport in [Transport::Tcp, Transport::Udp] {
            for (server, name) in [("10.50.11.6", "pod-11-6"), ("10.50.12.5", "pod-12-5")] {
                let request = Request::new(socket(server, 80), transport).payload(6000);
                let done = exchange(&mut world, first, Some("pod-11-5"), request);
                answered(&done, name, "10.50.11.5");
            }
            let request = Request::new(socket("10.50.12.5", 80), transport).payload(6000);
            // In an overlay the node speaks from its tunnel's address.
            let seen = if overlay { "10.50.11.0" } else { "192.0.2.11" };
            answered(&exchange(&mut world, first, None, request), "pod-12-5", seen);
        }
    }
}

#[test]
fn the_outside_sees_the_node() {
    let (mut world, [first, _], outside) = cluster(true);
    for transport in [Transport::Tcp, Transport::Udp] {
        for pod in ["pod-11-5", "pod-11-6"] {
            let request = Request { port: Some(5000), ..Request::new(socket("203.0.113.9", 443), transport) };
            let done = exchange(&mut world, first, Some(pod), request.payload(3000));
            answered(&done, "outside", "192.0.2.11");
        }
    }
    act(&mut world, first, Some("pod-11-5"), |stack, now| stack.ping(now, ip("203.0.113.9"), 9, 1));
    world.run_until(world.now() + std::time::Duration::from_secs(1));
    assert!(act(&mut world, first, Some("pod-11-5"), |stack, _| stack.take_echo(ip("203.0.113.9"), 9)));
    // Nobody outside knows the pods.
    let done = exchange(&mut world, outside, None, Request::new(socket("10.50.11.5", 80), Transport::Tcp));
    assert!(done.outcome.answer().is_none(), "{}", done.outcome);
}

#[test]
fn a_frame_for_another_tunnel_device_is_dropped() {
    let (mut world, [first, second], _) = cluster(true);
    world.with(first, |machine, _, _| {
        let Machine::Linux(node) = machine else { panic!("a node") };
        node.add_vxlan_peer(net("10.50.12.0/24"), mac(0x99), ip("192.0.2.12"));
    });
    let request = Request::new(socket("10.50.12.5", 80), Transport::Udp);
    assert_eq!(exchange(&mut world, first, Some("pod-11-5"), request).outcome, Outcome::TimedOut);
    let dropped = act(&mut world, second, None, |stack, _| stack.counters().dropped.clone());
    assert!(dropped[&StackDrop::OtherHost] >= 9, "{dropped:?}");
}
