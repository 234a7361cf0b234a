//! Clusters of Linux nodes with real packets: the same outcomes as in memory.
#![cfg(target_os = "linux")]

mod cluster;
mod crash;
mod difference;
mod server;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use node::NetworkKind;
use node::app::Transport;
use node::stack::{Reach, ServiceRule};

use cluster::Twins;

const BOTH: [Transport; 2] = [Transport::Tcp, Transport::Udp];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn sockets(texts: &[&str]) -> Vec<SocketAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn rule(frontend: &str, transport: Transport, reach: Reach, backends: &[&str]) -> ServiceRule {
    let frontend: SocketAddr = frontend.parse().unwrap();
    ServiceRule {
        vip: frontend.ip(),
        port: frontend.port(),
        transport,
        backends: sockets(backends),
        elsewhere: false,
        reach,
        affinity: false,
        sources: Vec::new(),
    }
}

/// The backends, by pod.
const V4: [&str; 4] = ["10.50.1.5:8080", "10.50.1.6:8080", "10.50.2.5:8080", "10.50.3.5:8080"];
const V6: [&str; 4] =
    ["[fd00:50:0:1::5]:8080", "[fd00:50:0:1::6]:8080", "[fd00:50:0:2::5]:8080", "[fd00:50:0:3::5]:8080"];

/// What node a serves, in one family.
fn table(pods: [&str; 4], address: impl Fn(u8) -> String, any: &str) -> Vec<ServiceRule> {
    let [p, q, r, s] = pods;
    let near = |backends: &[&str]| Reach::Local { near: sockets(backends) };
    let mut rules = Vec::new();
    for transport in BOTH {
        let mut left_out = rule(&address(5), transport, Reach::Cluster, &[]);
        left_out.elsewhere = true;
        let mut picky = rule(&address(6), transport, Reach::Everybody, &[r]);
        picky.sources = vec!["10.50.1.5/32".parse().unwrap(), "fd00:50:0:1::5/128".parse().unwrap()];
        rules.extend([
            rule(&address(1), transport, Reach::Cluster, &[r]),
            rule(&address(2), transport, Reach::Cluster, &[q]),
            rule(&address(3), transport, Reach::Cluster, &[p]),
            rule(&address(4), transport, Reach::Cluster, &[]),
            left_out,
            picky,
            rule(&format!("{any}:30001"), transport, Reach::Everybody, &[r]),
            rule(&format!("{any}:30002"), transport, near(&[q]), &[s]),
            rule(&format!("{any}:30003"), transport, near(&[]), &[s]),
            rule(&format!("{any}:30004"), transport, Reach::Everybody, &[q]),
            rule(&format!("{any}:30005"), transport, Reach::Everybody, &[]),
            rule(&address(7), transport, Reach::Everybody, &[s]),
            rule(&address(8), transport, near(&[p]), &[r]),
        ]);
    }
    rules
}

/// Client, where it asks, who answers and whom that sees.
type Row<'a> = (&'a str, String, &'a str, &'a str);

fn check(twins: &mut Twins, rows: &[Row<'_>]) {
    for transport in BOTH {
        for (client, to, server, sees) in rows {
            let (answered, _, peer) = twins
                .both(client, to, transport, 10)
                .unwrap_or_else(|error| panic!("{client} to {to} by {transport}: {error}"));
            assert_eq!((&*answered, peer), (*server, ip(sees)), "{client} to {to} by {transport}");
        }
    }
}

/// The outcomes of node a's Services, the same in both families but for whose address is whose: the pods', the node's
/// on the way to other nodes' pods and to its own, the node's, the client's outside.
struct Addresses {
    p: &'static str,
    q: &'static str,
    tunnel: &'static str,
    gateway: &'static str,
    node: &'static str,
    outside: &'static str,
    wrap: fn(&str, u16) -> String,
    service: fn(u8) -> String,
    any: &'static str,
    pods: [&'static str; 4],
}

fn services(twins: &mut Twins, own: &Addresses) {
    let Addresses { p, q, tunnel, gateway, node, outside, wrap, service, .. } = own;
    let at = |port| wrap(node, port);
    let rows: Vec<Row<'_>> = vec![
        // Pods are seen, at near and at far backends; one that reaches itself is known by the node.
        ("pod/t/p", service(1), "t/r", p),
        ("pod/t/p", service(2), "t/q", p),
        ("pod/t/q", service(2), "t/q", gateway),
        ("pod/t/p", service(3), "t/p", gateway),
        // The node itself is masqueraded.
        ("node/a", service(1), "t/r", tunnel),
        ("node/a", service(2), "t/q", gateway),
        ("node/a", at(30001), "t/r", tunnel),
        // Node ports: everybody is masqueraded.
        ("outside", at(30001), "t/r", tunnel),
        ("outside", at(30004), "t/q", gateway),
        ("pod/t/p", at(30001), "t/r", tunnel),
        ("pod/t/r", at(30004), "t/q", gateway),
        // The policy Local: the outside is seen by near backends, pods and the node get any.
        ("outside", at(30002), "t/q", outside),
        ("pod/t/p", at(30002), "t/s", p),
        ("node/a", at(30002), "t/s", tunnel),
        ("pod/t/p", at(30003), "t/s", p),
        // Who is let in.
        ("pod/t/p", service(6), "t/r", tunnel),
        // External addresses, from pods and, attracted by the router, from outside.
        ("pod/t/p", service(7), "t/s", tunnel),
        ("outside", service(7), "t/s", tunnel),
        ("outside", service(8), "t/p", outside),
        ("pod/t/q", service(8), "t/r", q),
    ];
    check(twins, &rows);
    for transport in BOTH {
        for (client, to) in [
            ("pod/t/p", service(4)),
            ("node/a", service(4)),
            ("pod/t/p", at(30005)),
            ("outside", at(30005)),
            ("node/a", at(30005)),
            // No frontend and no server.
            ("pod/t/p", wrap(q, 81)),
        ] {
            assert_eq!(twins.both(client, &to, transport, 0), Err("refused".to_owned()), "{client} to {to}");
        }
        for (client, to) in [("pod/t/p", service(5)), ("pod/t/q", service(6)), ("outside", at(30003))] {
            twins.silent(client, &to, transport);
        }
    }
}

fn family(own: &Addresses, twins: &mut Twins) -> Vec<ServiceRule> {
    for number in [7, 8] {
        let vip: SocketAddr = (own.service)(number).parse().unwrap();
        assert!(twins.plan.attract(vip.ip(), "a") && twins.memory.attract(vip.ip(), "a"));
    }
    table(own.pods, own.service, own.any)
}

/// `service`: 10.60.0.N:80; `tunnel`: node a as other nodes' pods see it.
fn v4(tunnel: &'static str) -> Addresses {
    Addresses {
        p: "10.50.1.5",
        q: "10.50.1.6",
        tunnel,
        gateway: "10.50.1.1",
        node: "192.0.2.11",
        outside: "203.0.113.10",
        wrap: |address, port| format!("{address}:{port}"),
        service: |number| format!("10.60.0.{number}:80"),
        any: "0.0.0.0",
        pods: V4,
    }
}

fn v6() -> Addresses {
    Addresses {
        p: "fd00:50:0:1::5",
        q: "fd00:50:0:1::6",
        tunnel: "2001:db8:2::11",
        gateway: "fd00:50:0:1::1",
        node: "2001:db8:2::11",
        outside: "2001:db8:ffff::a",
        wrap: |address, port| format!("[{address}]:{port}"),
        service: |number| format!("[fd00:60::{number}]:80"),
        any: "[::]",
        pods: V6,
    }
}

/// Attracts and programs what the families ask for.
fn program(twins: &mut Twins, families: &[Addresses]) {
    let before = twins.plan.clone();
    let rules: Vec<ServiceRule> = families.iter().flat_map(|own| family(own, twins)).collect();
    let plan = std::mem::replace(&mut twins.plan, before);
    twins.change(plan);
    twins.program("a", &rules);
    // Nodes without Services masquerade, too.
    twins.program("b", &[]);
    twins.program("c", &[]);
}

#[test]
fn an_overlay_and_its_services() {
    let mut twins = Twins::new(NetworkKind::Overlay);
    let own = v4("10.50.1.0");
    program(&mut twins, &[v4("10.50.1.0")]);
    // By the tunnel, on a segment and through the router.
    for (from, to, server, sees) in [
        ("pod/t/p", V4[2], "t/r", "10.50.1.5"),
        ("pod/t/p", V4[3], "t/s", "10.50.1.5"),
        ("pod/t/s", V4[0], "t/p", "10.50.3.5"),
        ("pod/t/p", V4[1], "t/q", "10.50.1.5"),
        ("node/b", V4[3], "t/s", "10.50.2.0"),
    ] {
        for (transport, payload) in
            [(Transport::Tcp, 300_000), (Transport::Udp, 1200), (Transport::Udp, 4000)]
        {
            let (answered, _, peer) = twins.both(from, to, transport, payload).unwrap();
            assert_eq!((&*answered, peer), (server, ip(sees)), "{from} to {to} by {transport}");
        }
    }
    services(&mut twins, &own);
}

#[test]
fn routes_by_nodes_and_services_of_both_families() {
    let mut twins = Twins::new(NetworkKind::L2Bridge);
    program(&mut twins, &[v4("192.0.2.11"), v6()]);
    for (pods, sees) in [(V4, ["10.50.1.5", "10.50.3.5"]), (V6, ["fd00:50:0:1::5", "fd00:50:0:3::5"])] {
        for (from, to, server, sees) in [
            ("pod/t/p", pods[2], "t/r", sees[0]),
            ("pod/t/p", pods[3], "t/s", sees[0]),
            ("pod/t/s", pods[1], "t/q", sees[1]),
        ] {
            for (transport, payload) in
                [(Transport::Tcp, 300_000), (Transport::Udp, 1300), (Transport::Udp, 4000)]
            {
                let (answered, _, peer) = twins.both(from, to, transport, payload).unwrap();
                assert_eq!((&*answered, peer), (server, ip(sees)), "{from} to {to} by {transport}");
            }
        }
    }
    services(&mut twins, &v4("192.0.2.11"));
    services(&mut twins, &v6());
}

#[test]
fn connections_spread_and_affinity_holds_a_client() {
    let mut twins = Twins::new(NetworkKind::L2Bridge);
    let mut sticky = rule("10.60.0.2:80", Transport::Tcp, Reach::Cluster, &V4);
    sticky.affinity = true;
    let mut sticky6 = rule("[fd00:60::2]:80", Transport::Udp, Reach::Cluster, &V6);
    sticky6.affinity = true;
    twins.program("a", &[rule("10.60.0.1:80", Transport::Tcp, Reach::Cluster, &V4), sticky, sticky6]);
    let who = |to: &str, transport| {
        let answers = (0..64).map(|_| match twins.real("pod/t/p", to, transport, 0) {
            node::app::Outcome::Answered(answer) => answer.server,
            other => panic!("{to}: {other}"),
        });
        answers.collect::<BTreeSet<String>>()
    };
    // With 64 connections one of four backends is left out once in 10^7 runs.
    assert_eq!(who("10.60.0.1:80", Transport::Tcp).len(), 4);
    assert_eq!(who("10.60.0.2:80", Transport::Tcp).len(), 1);
    assert_eq!(who("[fd00:60::2]:80", Transport::Udp).len(), 1);
}
