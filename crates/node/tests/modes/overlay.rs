//! Overlays: two Windows nodes, two virtual subnets that do not see each other, ARP.

use hcn::policy::network::NetworkPolicy;
use hcn::{Guid, HcnExt as _, Network};
use node::app::Transport;
use wire::{L4, Mac};

use crate::log::OnWire;
use crate::objects::{Ep, Net, policy};
use crate::world::{BOTH, NODE, OUTSIDE, World, ip, node_mac};

const NODES: [(&str, &str); 2] = [("win", NODE), ("win-2", "192.0.2.12")];

/// The distributed router's MAC.
fn router_mac(world: &World, node: &str, network: Guid) -> String {
    let document: Network = world.hns(node).get(network).unwrap();
    let found = document.policies.iter().find_map(|policy| match NetworkPolicy::decode(policy) {
        Ok(NetworkPolicy::DrMacAddress(own)) => Some(own.address),
        _ => None,
    });
    found.unwrap()
}

/// Two nodes, on each a network for each virtual subnet, with the same addresses in both subnets; pods are called
/// by node and subnet.
fn two_subnets(switches: &str) -> World {
    let mut world = World::with(switches);
    world.node("win-2", 12, |options| options.switches.apply_yaml(switches).unwrap());
    for vsid in [4096_u32, 4097] {
        let mut made = Vec::new();
        for (number, (node, _)) in (1_u8..).zip(NODES) {
            let (prefix, gateway) = (format!("10.50.{number}.0/24"), format!("10.50.{number}.1"));
            let name = format!("net-{vsid}");
            let network = world.network_on(node, &Net::overlay(&name, &prefix, &gateway, vsid));
            for pod in [5, 6] {
                let (name, address) = (format!("{node}-{vsid}-{pod}"), format!("10.50.{number}.{pod}"));
                let routes = policy("OutBoundNAT", r#""Exceptions":["10.50.0.0/16"]"#);
                world.pod_on(node, network, &Ep::new(&name, &[&address]).policies(routes));
            }
            made.push((number, node, network));
        }
        for (mine, other) in [(0, 1), (1, 0)] {
            let (number, far, far_network) = made[other];
            let (_, node, network) = made[mine];
            let mac = router_mac(&world, far, far_network);
            let settings = format!(
                r#""DestinationPrefix":"10.50.{number}.0/24","IsolationId":{vsid},"ProviderAddress":"{}","DistributedRouterMacAddress":"{mac}""#,
                NODES[other].1
            );
            let json = format!(
                r#"{{"ResourceType":"Policy","RequestType":"Add","Settings":{{"Policies":[{}]}}}}"#,
                policy("RemoteSubnetRoute", &settings)
            );
            world.modify(node, hcn::Kind::Network, network, &json);
        }
    }
    world.log.clear();
    world
}

/// The network identifier of a frame in a tunnel, and the frame inside.
fn inner(frame: &OnWire) -> Option<(u32, OnWire)> {
    let outer = frame.ip()?;
    let L4::Udp { dport: 4789, .. } = outer.l4 else { return None };
    let header = outer.payload_offset();
    let bytes = frame.bytes.get(header..outer.end())?;
    let vni = u32::from_be_bytes(bytes.get(4..8)?.try_into().ok()?) >> 8;
    Some((vni, OnWire { leaves: frame.leaves, bytes: bytes.get(8..)?.to_vec() }))
}

#[test]
fn each_subnet_reaches_its_own_pods_on_both_nodes() {
    let mut world = two_subnets("{}");
    for vsid in [4096, 4097] {
        for transport in BOTH {
            let from = format!("win-{vsid}-5");
            world.answered(&from, "10.50.2.6:80", transport, &format!("win-2-{vsid}-6"), "10.50.1.5");
            world.answered(&from, "10.50.1.6:80", transport, &format!("win-{vsid}-6"), "10.50.1.5");
            world.answered(
                &format!("win-2-{vsid}-5"),
                "10.50.1.6:80",
                transport,
                &format!("win-{vsid}-6"),
                "10.50.2.5",
            );
        }
        assert!(world.ping(&format!("win-{vsid}-5"), "10.50.2.5"));
        // On the wire: the nodes' addresses and MACs outside, the subnet's number, the pods' addresses inside.
        let frames = world.frames("win");
        let tunnelled: Vec<_> = frames.iter().filter_map(|frame| Some((frame, inner(frame)?))).collect();
        assert!(tunnelled.len() > 10);
        for (outer, (vni, inside)) in tunnelled {
            let (l2, out, within) = (outer.frame().l2, outer.ip().unwrap(), inside.ip().unwrap());
            assert_eq!(vni, vsid);
            let nodes = if outer.leaves { [11, 12] } else { [12, 11] };
            assert_eq!([l2.src, l2.dst], nodes.map(node_mac));
            assert_eq!([out.src, out.dst], nodes.map(|last| ip(&format!("192.0.2.{last}"))));
            let own = if outer.leaves { within.src } else { within.dst };
            assert!([ip("10.50.1.5"), ip("10.50.1.6")].contains(&own), "{own}");
        }
    }
}

#[test]
fn subnets_do_not_see_each_other() {
    let mut world = two_subnets("{}");
    let count = |world: &World, vsid: u32| -> u64 {
        let pods =
            ["win", "win-2"].into_iter().flat_map(|node| [5, 6].map(|pod| format!("{node}-{vsid}-{pod}")));
        pods.map(|pod| world.stack(&pod).counters().received).sum()
    };
    let before = count(&world, 4097);
    for to in ["10.50.1.6:80", "10.50.2.5:80", "10.50.2.6:53"] {
        assert!(world.ask("win-4096-5", to, Transport::Tcp).outcome.answer().is_some(), "{to}");
        assert!(world.ask("win-4096-5", to, Transport::Udp).outcome.answer().is_some(), "{to}");
    }
    assert_eq!(count(&world, 4097), before, "not one frame comes over");
    // A pod that knows the other subnet's MAC does not reach it either.
    let mac = world.mac_of("win-4097-6");
    world.act("win-4096-5", |stack, _| stack.pin_neighbor(0, ip("10.50.1.6"), mac));
    let done = world.ask("win-4096-5", "10.50.1.6:80", Transport::Udp);
    assert!(done.outcome.answer().is_none(), "{}", done.outcome);
    assert_eq!(count(&world, 4097), before);
}

#[test]
fn pods_of_an_overlay_leave_as_the_node() {
    let mut world = two_subnets("{}");
    for transport in BOTH {
        for vsid in [4096, 4097] {
            world.answered(&format!("win-{vsid}-5"), &format!("{OUTSIDE}:80"), transport, "outside", NODE);
        }
    }
}

#[test]
fn the_switch_answers_arp_or_the_pods_do() {
    for (yaml, asked) in [("overlay_arp: proxy", false), ("overlay_arp: flood", true)] {
        let mut world = two_subnets(yaml);
        let network = world.hns("win").list::<Network>(&hcn::Query::by_name("net-4096")).unwrap()[0].0;
        let router: Mac = router_mac(&world, "win", network).parse().unwrap();
        let heard = |world: &World| world.stack("win-4096-6").counters().received;
        // Nobody has this address: a question for it is heard by the neighbour only where questions travel.
        let before = heard(&world);
        assert!(world.ask("win-4096-5", "10.50.1.77:80", Transport::Udp).outcome.answer().is_none());
        assert_eq!(heard(&world) > before, asked, "{yaml}");
        for (address, mac) in [("10.50.1.6", world.mac_of("win-4096-6")), ("10.50.1.1", router)] {
            let to = if address == "10.50.1.1" { "10.50.2.6:80" } else { "10.50.1.6:80" };
            assert!(world.ask("win-4096-5", to, Transport::Tcp).outcome.answer().is_some(), "{yaml}: {to}");
            let known = world.stack("win-4096-5").neighbors().find(|(_, own, _)| *own == ip(address));
            assert_eq!(known.map(|(.., mac)| mac), Some(mac), "{yaml}: {address}");
        }
        // ARP never crosses a tunnel, nor does a question for a pod's network come to the LAN.
        for frame in world.frames("win") {
            assert!(inner(&frame).is_none_or(|(_, inside)| inside.arp().is_none()));
            let about_pods = frame.arp().is_some_and(|arp| arp.target_ip.octets()[0] == 10);
            assert!(!about_pods, "{yaml}: {frame:?}");
        }
    }
}

#[test]
fn a_remote_endpoint_has_its_own_way() {
    // No subnet route: the endpoint alone says behind which node the address lies.
    let mut world = World::new();
    world.node("win-2", 12, |_| {});
    let near = world.network(&Net::overlay("net", "10.50.0.0/16", "10.50.0.1", 4096));
    let far = world.network_on("win-2", &Net::overlay("net", "10.50.0.0/16", "10.50.0.1", 4096));
    world.pod(near, &Ep::new("a", &["10.50.1.5"]));
    world.pod_on("win-2", far, &Ep::new("b", &["10.50.2.5"]));
    for (node, network, pod, address, provider) in
        [("win", near, "b", "10.50.2.5", "192.0.2.12"), ("win-2", far, "a", "10.50.1.5", NODE)]
    {
        let mac = world.mac_of(pod).to_string().replace(':', "-");
        let provider = policy("ProviderAddress", &format!(r#""ProviderAddress":"{provider}""#));
        let name = format!("remote-{pod}");
        let ips = [address];
        let endpoint = Ep::new(&name, &ips).policies(provider);
        world.endpoint_on(node, network, &endpoint.more(&format!(r#""Flags":1,"MacAddress":"{mac}""#)));
    }
    for transport in BOTH {
        world.answered("a", "10.50.2.5:80", transport, "b", "10.50.1.5");
        world.answered("b", "10.50.1.5:80", transport, "a", "10.50.2.5");
    }
    assert!(world.ping("a", "10.50.2.5"));
}

#[test]
fn a_pod_that_does_not_know_of_the_tunnel_is_told_how_much_fits() {
    let mut world = World::new();
    world.node("win-2", 12, |_| {});
    let near = world.network(&Net::overlay("net", "10.50.1.0/24", "10.50.1.1", 4096));
    let far = world.network_on("win-2", &Net::overlay("net", "10.50.2.0/24", "10.50.2.1", 4096));
    world.pod(near, &Ep::new("a", &["10.50.1.5"]).policies(policy("InterfaceParameters", r#""Mtu":1500"#)));
    world.pod_on(
        "win-2",
        far,
        &Ep::new("b", &["10.50.2.5"]).policies(policy("InterfaceParameters", r#""Mtu":1500"#)),
    );
    for (node, network, number, provider, peer, peers) in
        [("win", near, 2, "192.0.2.12", "win-2", far), ("win-2", far, 1, NODE, "win", near)]
    {
        let mac = router_mac(&world, peer, peers);
        let settings = format!(
            r#""DestinationPrefix":"10.50.{number}.0/24","IsolationId":4096,"ProviderAddress":"{provider}","DistributedRouterMacAddress":"{mac}""#
        );
        let route = policy("RemoteSubnetRoute", &settings);
        let json =
            format!(r#"{{"ResourceType":"Policy","RequestType":"Add","Settings":{{"Policies":[{route}]}}}}"#);
        world.modify(node, hcn::Kind::Network, network, &json);
    }
    world.log.clear();
    let done = world.exchange("a", crate::world::request("10.50.2.5:80", Transport::Tcp).payload(20_000));
    assert!(done.outcome.answer().is_some(), "{}", done.outcome);
    let told = |drop: &crate::log::Dropped| drop.port == "a" && drop.reason == vfp::DropReason::MtuExceeded;
    let drops = world.log.take_drops();
    assert!(drops.iter().any(told), "{drops:#?}");
    let frames = world.frames("win");
    let largest =
        frames.iter().filter_map(inner).filter_map(|(_, inside)| inside.ip()).map(|ip| ip.total_len);
    assert_eq!(largest.max(), Some(1450));
}
