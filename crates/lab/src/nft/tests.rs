//! Scripts as text.

use super::*;

fn socket(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn rule(frontend: &str, transport: Transport, reach: Reach, backends: &[&str]) -> ServiceRule {
    let frontend = socket(frontend);
    ServiceRule {
        vip: frontend.ip(),
        port: frontend.port(),
        transport,
        backends: backends.iter().map(|backend| socket(backend)).collect(),
        elsewhere: false,
        reach,
        affinity: false,
        sources: Vec::new(),
    }
}

fn masquerade() -> MasqueradeRule {
    MasqueradeRule {
        inside: nets(&["10.50.1.0/24", "fd00:50:0:1::/64"]),
        except: nets(&["10.50.1.0/24", "10.50.2.0/24", "fd00:50:0:1::/64"]),
    }
}

fn near(backends: &[&str]) -> Reach {
    Reach::Local { near: backends.iter().map(|backend| socket(backend)).collect() }
}

#[test]
fn every_kind_of_frontend() {
    let (one, two) = ("10.50.1.6:8080", "10.50.2.6:8080");
    let mut sticky = rule("10.60.0.2:80", Transport::Tcp, Reach::Cluster, &[one, two]);
    sticky.affinity = true;
    let mut left_out = rule("10.60.0.4:80", Transport::Udp, Reach::Cluster, &[]);
    left_out.elsewhere = true;
    let mut picky = rule("198.51.100.2:80", Transport::Tcp, Reach::Everybody, &[one]);
    picky.sources = nets(&["203.0.113.0/25", "203.0.113.128/25", "fd00::/8"]);
    let mut closed = rule("198.51.100.3:80", Transport::Tcp, Reach::Everybody, &[one]);
    closed.sources = nets(&["fd00::/8"]);
    let rules = vec![
        rule("10.60.0.1:80", Transport::Tcp, Reach::Cluster, &[two]),
        rule("10.60.0.1:80", Transport::Tcp, Reach::Cluster, &[one, two]),
        sticky,
        rule("10.60.0.3:80", Transport::Tcp, Reach::Cluster, &[]),
        left_out,
        rule("0.0.0.0:30001", Transport::Udp, Reach::Everybody, &[two]),
        rule("0.0.0.0:30002", Transport::Tcp, near(&[one]), &[one, two]),
        rule("198.51.100.1:80", Transport::Tcp, near(&[]), &[two]),
        picky,
        closed,
        rule("[fd00:60::1]:80", Transport::Tcp, Reach::Cluster, &["[fd00:50:0:2::6]:8080"]),
        rule("[::]:30001", Transport::Tcp, near(&[]), &[]),
    ];
    let table = ServiceTable { rules, pods: nets(&["10.50.1.0/24", "fd00:50:0:1::/64"]) };
    insta::assert_snapshot!(script(&table, &masquerade()));
}

#[test]
fn a_node_without_services_masquerades_all_the_same() {
    insta::assert_snapshot!(script(&ServiceTable::default(), &masquerade()));
}
