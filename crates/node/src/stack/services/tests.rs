//! Tables of packets through a node's frontends.

use super::*;
use wire::Mac;
use wire::build::{FrameBuilder, IcmpError, icmp_error};
use wire::checksum;

/// A node with an address for each family, pods behind it, and a rule of its own for what leaves the cluster.
struct Node;

impl Surroundings for Node {
    fn owns(&self, address: IpAddr) -> bool {
        [ip("192.0.2.11"), ip("10.50.1.1"), ip("2001:db8::11")].contains(&address)
    }

    fn address_towards(&self, to: IpAddr) -> Option<IpAddr> {
        Some(match to {
            IpAddr::V4(_) if self.owns(to) => to,
            IpAddr::V4(_) if within(&[net("10.50.1.0/24")], to) => ip("10.50.1.1"),
            IpAddr::V4(_) => ip("192.0.2.11"),
            IpAddr::V6(_) => ip("2001:db8::11"),
        })
    }

    fn masquerades(&self, from: IpAddr, to: IpAddr) -> bool {
        within(&[net("10.50.1.0/24")], from) && !within(&[net("10.50.0.0/16")], to)
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn socket(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn sockets_of(texts: &[&str]) -> Vec<SocketAddr> {
    texts.iter().map(|text| socket(text)).collect()
}

fn rule(frontend: &str, transport: Transport, reach: Reach, backends: &[&str]) -> ServiceRule {
    let frontend = socket(frontend);
    ServiceRule {
        vip: frontend.ip(),
        port: frontend.port(),
        transport,
        backends: sockets_of(backends),
        elsewhere: false,
        reach,
        affinity: false,
        sources: Vec::new(),
    }
}

fn services(rules: Vec<ServiceRule>) -> Services {
    let mut services = Services::default();
    services.set(ServiceTable { rules, pods: vec![net("10.50.0.0/16"), net("fd00:50::/48")] });
    services
}

fn frame(transport: Transport, from: SocketAddr, to: SocketAddr, flags: TcpFlags) -> Vec<u8> {
    let builder = FrameBuilder::eth(Mac([2; 6]), Mac([4; 6])).ip(from.ip(), to.ip());
    match transport {
        Transport::Tcp => builder.tcp(from.port(), to.port(), flags),
        Transport::Udp => builder.udp(from.port(), to.port()),
    }
    .payload(b"x")
    .build()
}

fn parsed(frame: &[u8]) -> Ip {
    *wire::parse(frame).unwrap().ip().unwrap()
}

fn ends(frame: &[u8]) -> (SocketAddr, SocketAddr) {
    let (_, source, destination) = tuple(&parsed(frame)).unwrap();
    (source, destination)
}

/// Sends a packet through; its ends as they are then.
fn pass(
    services: &mut Services,
    at: u64,
    arrives: bool,
    mut frame: Vec<u8>,
) -> (Verdict, (SocketAddr, SocketAddr)) {
    let mut ip = parsed(&frame);
    let verdict = services.translate(Duration::from_secs(at), &mut frame, &mut ip, arrives, &Node);
    checksum::verify(&frame).unwrap();
    assert_eq!(ip, parsed(&frame));
    (verdict, ends(&frame))
}

const LOCAL: &str = "10.50.1.6:8080";
const REMOTE: &str = "10.50.2.6:8080";

/// Frontends with one backend each.
fn every() -> Services {
    let near = |near: &[&str]| Reach::Local { near: sockets_of(near) };
    let mut rules = Vec::new();
    for transport in [Transport::Tcp, Transport::Udp] {
        rules.extend([
            rule("10.60.0.1:80", transport, Reach::Cluster, &[REMOTE]),
            rule("10.60.0.2:80", transport, Reach::Cluster, &[LOCAL]),
            rule("0.0.0.0:30001", transport, Reach::Everybody, &[REMOTE]),
            rule("0.0.0.0:30002", transport, near(&[LOCAL]), &[REMOTE]),
            rule("198.51.100.1:80", transport, Reach::Everybody, &["192.0.2.11:8080"]),
            rule("198.51.100.2:80", transport, near(&["192.0.2.11:8080"]), &[REMOTE]),
            rule("10.60.0.3:80", transport, Reach::Cluster, &["198.51.100.77:8080"]),
            rule("[fd00:60::1]:80", transport, Reach::Cluster, &["[fd00:50:0:2::6]:8080"]),
            rule("[::]:30001", transport, Reach::Everybody, &["[fd00:50:0:2::6]:8080"]),
        ]);
    }
    services(rules)
}

#[test]
fn a_backend_sees_whom_kube_proxy_shows_it() {
    // Client, arrives or own, frontend, backend, whom it sees.
    let cases = [
        ("10.50.1.5:5000", true, "10.60.0.1:80", REMOTE, "10.50.1.5:5000"),
        ("10.50.1.5:5000", true, "10.60.0.2:80", LOCAL, "10.50.1.5:5000"),
        // A pod that reaches itself.
        ("10.50.1.6:5000", true, "10.60.0.2:80", LOCAL, "10.50.1.1:5000"),
        // Neither outside nor node are in the range of pods.
        ("203.0.113.9:5000", true, "10.60.0.1:80", REMOTE, "192.0.2.11:5000"),
        ("192.0.2.11:5000", false, "10.60.0.1:80", REMOTE, "192.0.2.11:5000"),
        ("192.0.2.11:5000", false, "10.60.0.2:80", LOCAL, "10.50.1.1:5000"),
        ("203.0.113.9:5000", true, "192.0.2.11:30001", REMOTE, "192.0.2.11:5000"),
        ("10.50.1.5:5000", true, "192.0.2.11:30001", REMOTE, "192.0.2.11:5000"),
        // Policy Local: the outside is seen by near backends; pods and the node get any.
        ("203.0.113.9:5000", true, "192.0.2.11:30002", LOCAL, "203.0.113.9:5000"),
        ("10.50.1.5:5000", true, "192.0.2.11:30002", REMOTE, "10.50.1.5:5000"),
        ("192.0.2.11:5000", false, "192.0.2.11:30002", REMOTE, "192.0.2.11:5000"),
        // A backend on the node's own address is not reached by leaving.
        ("203.0.113.9:5000", true, "198.51.100.1:80", "192.0.2.11:8080", "203.0.113.9:5000"),
        ("203.0.113.9:5000", true, "198.51.100.2:80", "192.0.2.11:8080", "203.0.113.9:5000"),
        // What leaves the cluster is masqueraded without any Service.
        ("10.50.1.5:5000", true, "10.60.0.3:80", "198.51.100.77:8080", "192.0.2.11:5000"),
        ("[fd00:50:0:1::5]:5000", true, "[fd00:60::1]:80", "[fd00:50:0:2::6]:8080", "[fd00:50:0:1::5]:5000"),
        (
            "[2001:db8:1::9]:5000",
            true,
            "[2001:db8::11]:30001",
            "[fd00:50:0:2::6]:8080",
            "[2001:db8::11]:5000",
        ),
    ];
    for transport in [Transport::Tcp, Transport::Udp] {
        for (client, arrives, frontend, backend, seen) in cases {
            let mut services = every();
            let (client, frontend) = (socket(client), socket(frontend));
            let (backend, mut seen) = (socket(backend), socket(seen));
            let packet = frame(transport, client, frontend, TcpFlags::SYN);
            let what = format!("{client} to {frontend} by {transport}");
            let first = pass(&mut services, 0, arrives, packet);
            if seen.ip() != client.ip() {
                // Any port, but none that programs on the node may have.
                seen.set_port(first.1.0.port());
                assert!((1024..49_152).contains(&seen.port()), "{what}");
            }
            let rewritten = (Verdict::Rewritten, (seen, backend));
            assert_eq!(first, rewritten, "{what}");
            let packet = frame(transport, client, frontend, TcpFlags::ACK);
            assert_eq!(pass(&mut services, 1, arrives, packet), rewritten, "{what}, again");
            let reply = frame(transport, backend, seen, TcpFlags::SYN | TcpFlags::ACK);
            let back = (Verdict::Rewritten, (frontend, client));
            assert_eq!(pass(&mut services, 1, true, reply), back, "{what}, the reply");
        }
    }
}

#[test]
fn what_is_no_frontend_passes() {
    let mut services = every();
    let cases = [
        // Another port, another protocol's rule, another host's node port, a reply to nothing.
        (Transport::Tcp, "10.50.1.5:5000", "10.60.0.1:81"),
        (Transport::Tcp, "10.50.1.5:5000", "192.0.2.12:30001"),
        (Transport::Udp, LOCAL, "10.50.1.5:5000"),
    ];
    for (transport, from, to) in cases {
        let (from, to) = (socket(from), socket(to));
        let packet = frame(transport, from, to, TcpFlags::SYN);
        assert_eq!(pass(&mut services, 0, true, packet), (Verdict::Untouched, (from, to)));
    }
}

#[test]
fn without_a_backend_clients_are_refused_and_by_policy_dropped() {
    let near = || Reach::Local { near: Vec::new() };
    let mut left_out = rule("10.60.0.2:80", Transport::Udp, Reach::Cluster, &[]);
    left_out.elsewhere = true;
    let mut picky = rule("10.60.0.5:80", Transport::Udp, Reach::Everybody, &[REMOTE]);
    picky.sources = vec![net("203.0.113.0/24")];
    let mut services = services(vec![
        rule("10.60.0.1:80", Transport::Udp, Reach::Cluster, &[]),
        left_out,
        rule("10.60.0.3:80", Transport::Udp, near(), &[REMOTE]),
        rule("10.60.0.4:80", Transport::Udp, near(), &[]),
        picky,
    ]);
    let (pod, outside) = ("10.50.1.5:5000", "203.0.113.9:5000");
    let cases = [
        (pod, "10.60.0.1:80", Verdict::Refused),
        (pod, "10.60.0.2:80", Verdict::Dropped),
        (pod, "10.60.0.3:80", Verdict::Rewritten),
        (outside, "10.60.0.3:80", Verdict::Dropped),
        (outside, "10.60.0.4:80", Verdict::Refused),
        (pod, "10.60.0.5:80", Verdict::Dropped),
        (outside, "10.60.0.5:80", Verdict::Rewritten),
    ];
    for (client, frontend, verdict) in cases {
        let packet = frame(Transport::Udp, socket(client), socket(frontend), TcpFlags::empty());
        assert_eq!(pass(&mut services, 0, true, packet).0, verdict, "{client} to {frontend}");
    }
}

/// The backends that clients get, by port.
fn spread(affinity: bool, backends: &[&str]) -> Vec<SocketAddr> {
    let mut only = rule("10.60.0.1:80", Transport::Udp, Reach::Cluster, backends);
    only.affinity = affinity;
    let mut services = services(vec![only]);
    (5000..5200)
        .map(|port| {
            let client = SocketAddr::new(ip("10.50.1.5"), port);
            let packet = frame(Transport::Udp, client, socket("10.60.0.1:80"), TcpFlags::empty());
            pass(&mut services, 0, true, packet).1.1
        })
        .collect()
}

#[test]
fn connections_spread_and_affinity_holds_a_client() {
    let all = ["10.50.1.6:8080", "10.50.1.7:8080", "10.50.2.6:8080"];
    let chosen = spread(false, &all);
    for backend in sockets_of(&all) {
        let count = chosen.iter().filter(|&&one| one == backend).count();
        assert!((40..=100).contains(&count), "{backend} has {count} of 200");
    }
    // When a backend goes, the clients of the others stay.
    let fewer = spread(false, &all[1..]);
    for (before, after) in chosen.iter().zip(&fewer) {
        assert!(*before == socket(all[0]) || before == after, "{before} became {after}");
    }
    let held: BTreeSet<SocketAddr> = spread(true, &all).into_iter().collect();
    assert_eq!(held.len(), 1);
}

#[test]
fn two_connections_never_look_alike_to_a_backend() {
    let mut services = services(vec![
        rule("10.60.0.1:80", Transport::Tcp, Reach::Cluster, &[REMOTE]),
        rule("10.60.0.2:80", Transport::Tcp, Reach::Cluster, &[REMOTE]),
    ]);
    let client = socket("10.50.1.5:5000");
    let mut seen = Vec::new();
    for frontend in ["10.60.0.1:80", "10.60.0.2:80"] {
        let packet = frame(Transport::Tcp, client, socket(frontend), TcpFlags::SYN);
        seen.push((pass(&mut services, 0, true, packet).1.0, frontend));
    }
    assert_ne!(seen[0].0, seen[1].0);
    for (seen, frontend) in seen {
        let reply = frame(Transport::Tcp, socket(REMOTE), seen, TcpFlags::ACK);
        assert_eq!(pass(&mut services, 0, true, reply).1, (socket(frontend), client));
    }
}

#[test]
fn connections_end_by_time_and_by_a_new_beginning() {
    // Protocol, flags of a second packet, seconds until the reply, whether it is still known.
    let cases = [
        (Transport::Udp, TcpFlags::ACK, 119, true),
        (Transport::Udp, TcpFlags::ACK, 120, false),
        (Transport::Tcp, TcpFlags::ACK, 86_399, true),
        (Transport::Tcp, TcpFlags::ACK, 86_400, false),
        (Transport::Tcp, TcpFlags::ACK | TcpFlags::FIN, 119, true),
        (Transport::Tcp, TcpFlags::RST, 120, false),
    ];
    let (client, frontend) = (socket("10.50.1.5:5000"), socket("10.60.0.1:80"));
    for (transport, flags, later, known) in cases {
        let mut services = every();
        pass(&mut services, 0, true, frame(transport, client, frontend, TcpFlags::SYN));
        pass(&mut services, 0, true, frame(transport, client, frontend, flags));
        let reply = frame(transport, socket(REMOTE), client, TcpFlags::ACK);
        let verdict = pass(&mut services, later, true, reply).0;
        assert_eq!(verdict == Verdict::Rewritten, known, "{transport} {flags:?} after {later} s");
    }
    let mut services = every();
    for flags in [TcpFlags::SYN, TcpFlags::FIN | TcpFlags::ACK] {
        pass(&mut services, 0, true, frame(Transport::Tcp, client, frontend, flags));
    }
    let moved = rule("10.60.0.1:80", Transport::Tcp, Reach::Cluster, &[LOCAL]);
    services.set(ServiceTable { rules: vec![moved], pods: Vec::new() });
    let again = frame(Transport::Tcp, client, frontend, TcpFlags::SYN);
    assert_eq!(pass(&mut services, 1, true, again).1.1, socket(LOCAL), "a port that is used again");
}

#[test]
fn connections_outlive_their_backend_only_over_tcp() {
    let (client, frontend) = (socket("10.50.1.5:5000"), socket("10.60.0.1:80"));
    for (transport, stays) in [(Transport::Tcp, REMOTE), (Transport::Udp, LOCAL)] {
        let mut services = every();
        pass(&mut services, 0, true, frame(transport, client, frontend, TcpFlags::SYN));
        let moved = rule("10.60.0.1:80", transport, Reach::Cluster, &[LOCAL]);
        services.set(ServiceTable { rules: vec![moved], pods: vec![net("10.50.0.0/16")] });
        let packet = frame(transport, client, frontend, TcpFlags::ACK);
        assert_eq!(pass(&mut services, 1, true, packet).1.1, socket(stays), "{transport}");
    }
}

#[test]
fn errors_tell_each_side_of_the_packet_that_it_knows() {
    let (client, frontend) = (socket("203.0.113.9:5000"), socket("192.0.2.11:30001"));
    let backend = socket(REMOTE);
    let packet = frame(Transport::Udp, client, frontend, TcpFlags::empty());
    let (_, (seen, _)) = pass(&mut every(), 0, true, packet);
    assert_eq!(seen.ip(), ip("192.0.2.11"));
    let sides = [
        // The request failed behind the node, the reply behind the client's router.
        ((seen, backend), "10.50.2.1", (client, frontend), client, frontend.ip()),
        ((frontend, client), "203.0.113.1", (backend, seen), backend, ip("203.0.113.1")),
        // The client itself refuses the reply.
        ((frontend, client), "203.0.113.9", (backend, seen), backend, seen.ip()),
    ];
    for ((from, to), router, about, told, by) in sides {
        let mut services = every();
        pass(&mut services, 0, true, frame(Transport::Udp, client, frontend, TcpFlags::empty()));
        let failed = frame(Transport::Udp, from, to, TcpFlags::empty());
        let mut error = icmp_error(&failed, ip(router), IcmpError::PortUnreachable).unwrap();
        let mut header = parsed(&error);
        let verdict = services.translate(Duration::ZERO, &mut error, &mut header, true, &Node);
        assert_eq!(verdict, Verdict::Rewritten);
        checksum::verify(&error).unwrap();
        let header = parsed(&error);
        assert_eq!((header.src, header.dst), (by, told.ip()));
        let quoted = quoted::parse(&error, &header).unwrap();
        let (source, destination) = quoted.ports.unwrap();
        assert_eq!((quoted.src, source, quoted.dst, destination), {
            (about.0.ip(), about.0.port(), about.1.ip(), about.1.port())
        });
    }
}
