//! Emulated Windows nodes and others on one wire: the Linux kernel and Open vSwitch speak VXLAN with them, the kernel
//! routes to them; tcpdump and tshark judge what passes.
#![cfg(target_os = "linux")]

mod lab_support;

use hcn::network::Network;
use hcn::policy::network::{DrMacAddress, NetworkPolicy};
use hcn::{HcnExt as _, Query};
use lab_support::capture::{Capture, Recording};
use lab_support::manifests::{Manifests, PORT};
use lab_support::openvswitch::{Behind, Switch, Tunnel};
use lab_support::{Lab, tcp, udp};

/// As much as is kept of a frame that no offload has made larger than the underlay's packets.
const WHOLE: u32 = 1_600;

const MB: usize = 1_000_000;

const WINDOWS_POD: &str = "10.244.2.5";
const LINUX_POD: &str = "10.244.1.7";

/// A Linux and two Windows nodes with a pod each.
fn cluster() -> Manifests {
    Manifests::default()
        .linux("linux-1", "192.0.2.11", "10.244.1.0/24")
        .windows("win-1", "192.0.2.12", "10.244.2.0/24")
        .windows("win-2", "192.0.2.13", "10.244.3.0/24")
        .pod("api", "linux-1", LINUX_POD)
        .pod("web-1", "win-1", WINDOWS_POD)
        .pod("web-2", "win-2", "10.244.3.5")
}

fn up(manifests: &Manifests, flags: &[&str]) -> Lab {
    Lab::up(manifests.text(), &[&["--without-proxy"], flags].concat())
}

fn at(address: &str) -> String {
    format!("{address}:{PORT}")
}

/// The MAC of a Windows network's distributed router, as tshark writes it.
fn router_mac(lab: &Lab, node: &str) -> String {
    let networks: Vec<(hcn::Guid, Network)> = lab.hns(node).list(&Query::all()).expect("HNS answers");
    let policies = networks.iter().flat_map(|(_, network)| &network.policies);
    let mac = policies.filter_map(|policy| match NetworkPolicy::decode(policy) {
        Ok(NetworkPolicy::DrMacAddress(DrMacAddress { address, .. })) => Some(address),
        _ => None,
    });
    let mac: Vec<String> = mac.collect();
    assert_eq!(mac.len(), 1, "node {node} has one network with a distributed router");
    mac[0].replace('-', ":").to_lowercase()
}

/// A pair of columns, one line each, without repetitions.
fn distinct(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    rows.sort();
    rows.dedup();
    rows
}

/// Switches the offloads of all devices between two pods off.
fn all_without_offloads(lab: &Lab) {
    for place in ["shop/web-1", "shop/api", "node/linux-1"] {
        lab.without_offloads(place, "eth0");
    }
}

/// No frame has a wrong checksum, and tshark has looked at those of a protocol.
fn checksums_are_right(capture: &Capture, protocol: &str) {
    let bad = capture.fields(
        "ip.checksum.status == 0 or tcp.checksum.status == 0 or udp.checksum.status == 0",
        &["frame.number", "ip.src", "ip.dst", "udp.checksum.status", "tcp.checksum.status"],
    );
    assert_eq!(bad, Vec::<Vec<String>>::new());
    let good = capture.count(&format!("{protocol}.checksum.status == 1"));
    assert!(good > 0, "no checksum of {protocol} was looked at");
}

#[test]
fn tunnels_of_the_kernel_and_of_windows_agree_on_every_header() {
    let lab = up(&cluster(), &[]);
    for (place, mtu) in [("shop/web-1", "1450"), ("shop/web-2", "1450"), ("shop/api", "1450")] {
        assert_eq!(lab.link(place, "eth0", "mtu"), mtu, "{place}");
    }
    // The nodes find each other's addresses anew.
    lab.run("node/linux-1", &["ip", "neigh", "flush", "dev", "eth0"]);
    let recording = Recording::begin(&lab, "w-win-1", 256);
    for (from, to) in [("shop/web-1", LINUX_POD), ("shop/api", WINDOWS_POD)] {
        for request in [tcp(&at(to)), udp(&at(to))] {
            lab.ask(from, &request.payload(1_000));
        }
    }
    let capture = recording.end(&lab, "node/linux-1", "192.0.2.12");

    let tunnels = distinct(capture.fields("vxlan", &["vxlan.vni", "udp.dstport", "vxlan.flags"]));
    let ports: Vec<&str> = tunnels.iter().filter_map(|row| row[1].split(',').next()).collect();
    assert!(!tunnels.is_empty() && tunnels.iter().all(|row| row[0] == "4096"), "{tunnels:?}");
    assert!(ports.iter().all(|port| *port == "4789"), "{tunnels:?}");
    assert!(tunnels.iter().all(|row| row[2] == "0x0800"), "only the flag of a network id: {tunnels:?}");
    assert_eq!(capture.count("ip and not vxlan"), 0, "pods' packets travel in tunnels only");

    let underlay = |node: &str| lab.link(&format!("node/{node}"), uplink(node), "address");
    let (linux, windows) = (underlay("linux-1"), underlay("win-1"));
    let of = |source: &str, destination: &str| {
        let filter = format!("vxlan and ip.src == {source} and ip.dst == {destination}");
        distinct(capture.fields(&filter, &["eth.src", "eth.dst", "ip.src", "ip.dst"]))
    };
    let tunnel = lab.link("node/linux-1", "flannel.4096", "address");
    let there = of(WINDOWS_POD, LINUX_POD);
    assert_eq!(there.len(), 1, "{there:?}");
    assert!(there[0][0].starts_with(&format!("{windows},")), "{there:?}");
    assert_eq!(there[0][1], format!("{linux},{tunnel}"), "{there:?}");
    assert_eq!(there[0][2], format!("192.0.2.12,{WINDOWS_POD}"));
    assert_eq!(there[0][3], format!("192.0.2.11,{LINUX_POD}"));
    let back = of(LINUX_POD, WINDOWS_POD);
    assert_eq!(back.len(), 1, "{back:?}");
    assert_eq!(back[0][0], format!("{linux},{tunnel}"), "{back:?}");
    assert_eq!(back[0][1], format!("{windows},{}", router_mac(&lab, "win-1")), "{back:?}");

    let asked = distinct(capture.fields("arp", &["arp.src.proto_ipv4", "arp.dst.proto_ipv4"]));
    assert!(!asked.is_empty(), "nodes ask for nodes");
    let of_nodes = |address: &String| address.starts_with("192.0.2.");
    assert!(asked.iter().flatten().all(of_nodes), "nobody asks for pods: {asked:?}");
}

/// A node's device on the underlay.
fn uplink(node: &str) -> &'static str {
    if node.starts_with("win") { lab::seats::HOST_DEVICE } else { "eth0" }
}

#[test]
fn large_transfers_arrive_with_offloads() {
    let lab = up(&cluster(), &[]);
    let recording = Recording::begin(&lab, "w-win-1", 128);
    for (from, to) in [("shop/web-1", LINUX_POD), ("shop/api", WINDOWS_POD)] {
        lab.ask(from, &tcp(&at(to)).payload(2 * MB));
    }
    let capture = recording.end(&lab, "node/linux-1", "192.0.2.12");
    for source in [WINDOWS_POD, LINUX_POD] {
        let large = capture.count(&format!("frame.len > 2000 and ip.src == {source}"));
        assert!(large > 0, "segments of {source} travel together");
    }
    // The payload goes there and comes back.
    for (from, to) in [("shop/web-1", LINUX_POD), ("shop/api", WINDOWS_POD)] {
        lab.ask(from, &tcp(&at(to)).payload(200 * MB));
    }
}

#[test]
fn large_transfers_arrive_without_offloads() {
    let lab = up(&cluster(), &[]);
    all_without_offloads(&lab);
    let recording = Recording::begin(&lab, "w-win-1", WHOLE);
    for (from, to) in [("shop/web-1", LINUX_POD), ("shop/api", WINDOWS_POD)] {
        lab.ask(from, &tcp(&at(to)).payload(MB));
        for payload in [0, 1, 1_000, 1_400] {
            lab.ask(from, &udp(&at(to)).payload(payload));
        }
    }
    let capture = recording.end(&lab, "node/linux-1", "192.0.2.12");
    assert_eq!(capture.count("frame.len > 1514"), 0, "every segment travels alone");
    checksums_are_right(&capture, "tcp");
    checksums_are_right(&capture, "udp");
    for (from, to) in [("shop/web-1", LINUX_POD), ("shop/api", WINDOWS_POD)] {
        lab.ask(from, &tcp(&at(to)).payload(200 * MB));
    }
}

#[test]
fn datagrams_larger_than_a_packet_arrive_in_fragments() {
    let lab = up(&cluster(), &[]);
    for offloads in [true, false] {
        if !offloads {
            all_without_offloads(&lab);
        }
        let recording = Recording::begin(&lab, "w-win-1", WHOLE);
        for (from, to) in [("shop/web-1", LINUX_POD), ("shop/api", WINDOWS_POD)] {
            for payload in [4_000, 60_000] {
                lab.ask(from, &udp(&at(to)).payload(payload));
            }
        }
        let capture = recording.end(&lab, "node/linux-1", "192.0.2.12");
        for source in [WINDOWS_POD, LINUX_POD] {
            let fragments =
                format!("vxlan and ip.src == {source} and (ip.flags.mf == 1 or ip.frag_offset > 0)");
            // Two of them were asked, two were answered: of 3 and of 43 fragments.
            assert_eq!(capture.count(&fragments), 2 * (3 + 43), "{source}");
        }
        assert_eq!(capture.count("frame.len > 1514"), 0);
        if !offloads {
            checksums_are_right(&capture, "udp");
        }
    }
}

#[test]
fn packets_too_large_for_the_tunnel_are_made_smaller() {
    // Both nodes' ports are open to clients outside, whose links take 1,500 bytes; the backends are behind a tunnel.
    let backends =
        |name: &str, address: &str, node: &str, cluster_ip: &str, node_port: u16, manifests: Manifests| {
            let ports = format!(
                "type: NodePort
  ports:
    - {{name: tcp, port: 80, targetPort: {PORT}, nodePort: {node_port}}}
    - {{name: udp, port: 80, targetPort: {PORT}, nodePort: {node_port}, protocol: UDP}}"
            );
            let slice = format!("{{name: tcp, port: {PORT}}}, {{name: udp, port: {PORT}, protocol: UDP}}");
            let ready = lab_support::manifests::Condition::Ready;
            manifests.service(name, cluster_ip, &ports).slice(name, &slice, &[(address, node, ready)])
        };
    let manifests = backends("on-windows", WINDOWS_POD, "win-1", "10.96.0.20", 30_020, cluster());
    let manifests = backends("on-linux", LINUX_POD, "linux-1", "10.96.0.21", 30_021, manifests);
    let lab = Lab::up(manifests.text(), &[]);
    for (from, to) in [
        ("outside", "192.0.2.11:30020"),
        ("outside", "192.0.2.12:30021"),
        ("outside", "192.0.2.13:30020"),
        ("node/linux-1", "10.96.0.20:80"),
        ("node/win-1", "10.96.0.21:80"),
    ] {
        // With the request line and headers more than the tunnel takes, and no more than the client's own link does.
        lab.ask(from, &udp(to).payload(1_450));
        lab.ask(from, &udp(to).payload(4_000));
        lab.ask(from, &tcp(to).payload(2 * MB));
    }
    // The node itself, whose device takes 1,500 bytes, to a pod behind the tunnel.
    lab.ask("node/linux-1", &udp(&at(WINDOWS_POD)).payload(1_450));
    lab.ask("node/linux-1", &tcp(&at(WINDOWS_POD)).payload(2 * MB));
}

#[test]
fn windows_nodes_reach_each_other() {
    let lab = up(&cluster(), &[]);
    let recording = Recording::begin(&lab, "w-win-2", 128);
    lab.ask("shop/web-1", &udp(&at("10.244.3.5")).payload(4_000));
    lab.ask("shop/web-2", &udp(&at(WINDOWS_POD)).payload(4_000));
    lab.ask("shop/web-1", &tcp(&at("10.244.3.5")).payload(2 * MB));
    let capture = recording.end(&lab, "node/linux-1", "192.0.2.13");
    for (source, router) in [(WINDOWS_POD, "win-2"), ("10.244.3.5", "win-1")] {
        let inner = distinct(capture.fields(&format!("vxlan and ip.src == {source}"), &["eth.dst"]));
        assert_eq!(inner.len(), 1, "{inner:?}");
        let expected = format!(",{}", router_mac(&lab, router));
        assert!(inner[0][0].ends_with(&expected), "{inner:?}: not the router of {router}, {expected}");
    }
    lab.ask("shop/web-2", &tcp(&at(WINDOWS_POD)).payload(50 * MB));
}

#[test]
fn bridges_of_windows_route_with_the_kernel() {
    let lab = up(&cluster(), &["--network", "l2bridge"]);
    assert_eq!(lab.link("shop/web-1", "eth0", "mtu"), "1500");
    let recording = Recording::begin(&lab, "w-win-1", 256);
    for (from, to) in [("shop/web-1", LINUX_POD), ("shop/api", WINDOWS_POD), ("shop/web-1", "10.244.3.5")] {
        lab.ask(from, &udp(&at(to)).payload(4_000));
        lab.ask(from, &tcp(&at(to)).payload(2 * MB));
    }
    let capture = recording.end(&lab, "node/linux-1", "192.0.2.12");
    assert_eq!(capture.count("vxlan"), 0);
    let macs = |source: &str, destination: &str| {
        let filter = format!("ip.src == {source} and ip.dst == {destination}");
        distinct(capture.fields(&filter, &["eth.dst"]))
    };
    let address = |node: &str| lab.link(&format!("node/{node}"), uplink(node), "address");
    assert_eq!(macs(WINDOWS_POD, LINUX_POD), [[address("linux-1")]], "to the node, not to the pod");
    let asked = distinct(capture.fields("arp", &["arp.src.proto_ipv4", "arp.dst.proto_ipv4"]));
    let of_linux_pods = |address: &String| address.starts_with("10.244.1.");
    assert!(!asked.iter().flatten().any(of_linux_pods), "{asked:?}");
    for (from, to) in [("shop/web-1", LINUX_POD), ("shop/api", WINDOWS_POD)] {
        lab.ask(from, &tcp(&at(to)).payload(50 * MB));
    }
}

#[test]
fn open_vswitch_is_a_peer_like_any_other() {
    let manifests =
        cluster().linux("peer", "192.0.2.14", "10.244.4.0/24").pod("behind", "peer", "10.244.4.9");
    let lab = up(&manifests, &[]);
    let own_mac = lab.link("node/peer", "flannel.4096", "address");
    // The kernel's tunnel goes, and the pod's cable is put into another switch.
    lab.run("node/peer", &["ip", "link", "delete", "dev", "flannel.4096"]);
    let tunnels = [("win-1", "192.0.2.12", "10.244.2.0/24"), ("win-2", "192.0.2.13", "10.244.3.0/24")];
    let tunnels = tunnels.map(|(node, address, pods)| Tunnel {
        remote: address.to_owned(),
        router: router_mac(&lab, node),
        pods: pods.to_owned(),
    });
    let behind = Behind {
        node: "peer",
        node_address: "192.0.2.14",
        mac: &own_mac,
        pod: "shop/behind",
        pod_address: "10.244.4.9",
        gateway: "10.244.4.1",
    };
    let switch = Switch::start(&lab, &behind, &tunnels);
    let recording = Recording::begin(&lab, "w-win-1", 256);
    for (from, to) in [("shop/web-1", "10.244.4.9"), ("shop/behind", WINDOWS_POD)] {
        lab.ask(from, &udp(&at(to)).payload(1_000));
        lab.ask(from, &tcp(&at(to)).payload(MB));
    }
    let capture = recording.end(&lab, "node/linux-1", "192.0.2.12");
    for source in [WINDOWS_POD, "10.244.4.9"] {
        let seen = distinct(capture.fields(&format!("ip.src == {source}"), &["vxlan.vni"]));
        assert_eq!(seen, [["4096"]], "{source}");
    }
    for (from, to) in
        [("shop/web-1", "10.244.4.9"), ("shop/behind", WINDOWS_POD), ("shop/behind", "10.244.3.5")]
    {
        lab.ask(from, &udp(&at(to)).payload(4_000));
        lab.ask(from, &tcp(&at(to)).payload(20 * MB));
    }
    assert!(switch.forwarded() > 0, "the pod's packets went through Open vSwitch");
}
