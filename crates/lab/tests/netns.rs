//! Namespaces as iproute2 knows them.
#![cfg(target_os = "linux")]

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use lab::netns::{Netns, NetnsError};
use lab::plan::Namespace;

/// A name that no other test has; removed in the end.
struct Name(String);

impl Name {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        Self(format!("transom-t{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        Netns::delete(&self.0).unwrap();
    }
}

fn ip(arguments: &[&str]) -> (bool, String) {
    let output = Command::new("ip").args(arguments).output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_namespace_is_one_of_iproute2_s_and_lo_is_up() {
    let name = Name::new();
    let made = Netns::create(&name.0).unwrap();
    assert_eq!(made.name(), name.0);
    assert!(matches!(Netns::create(&name.0), Err(NetnsError::Exists(_))));
    assert_eq!(Netns::list(&name.0).unwrap(), std::slice::from_ref(&name.0));
    let (done, links) = ip(&["-n", &name.0, "-o", "link", "show"]);
    assert!(done && links.lines().count() == 1 && links.contains("lo: <LOOPBACK,UP,LOWER_UP>"), "{links}");
    let (done, identity) = ip(&["netns", "exec", &name.0, "readlink", "/proc/self/ns/net"]);
    let inside = made.run(|| std::fs::read_link("/proc/thread-self/ns/net")).unwrap().unwrap();
    assert!(done);
    assert_eq!(identity.trim(), inside.to_str().unwrap());
    assert_ne!(inside, std::fs::read_link("/proc/thread-self/ns/net").unwrap(), "nobody else has moved");
    Netns::delete(&name.0).unwrap();
    Netns::delete(&name.0).unwrap();
    assert!(matches!(Netns::open(&name.0), Err(NetnsError::Missing(_))));
    assert_eq!(Netns::list(&name.0).unwrap(), <[String; 0]>::default());
}

#[test]
fn what_iproute2_made_is_opened_and_removed() {
    let name = Name::new();
    assert!(ip(&["netns", "add", &name.0]).0);
    let opened = Netns::open(&name.0).unwrap();
    opened.sysctls(&[("ipv4/ip_forward", "1")]).unwrap();
    let set = opened.run(|| std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward")).unwrap().unwrap();
    assert_eq!(set.trim(), "1");
    let error = opened.sysctls(&[("ipv4/no_such_thing", "1")]).unwrap_err().to_string();
    assert!(error.contains(&name.0) && error.contains("net/ipv4/no_such_thing = 1"), "{error}");
    opened.optional_sysctls(&[("ipv4/no_such_thing", "1"), ("ipv4/ip_forward", "0")]).unwrap();
    Netns::delete(&name.0).unwrap();
    assert!(!ip(&["netns", "list"]).1.contains(&name.0));
}

#[test]
fn sockets_stay_where_they_were_opened() {
    let name = Name::new();
    let made = Netns::create(&name.0).unwrap();
    let inside = made.run(|| TcpListener::bind("127.0.0.1:0")).unwrap().unwrap();
    let address = inside.local_addr().unwrap();
    assert!(TcpStream::connect(address).is_err(), "out here nobody listens");
    assert!(made.run(|| TcpStream::connect(address)).unwrap().is_ok());
    let away = made.run(|| UdpSocket::bind("[::1]:0")).unwrap().unwrap();
    assert!(UdpSocket::bind(away.local_addr().unwrap()).is_ok(), "its port is free out here");
}

#[test]
fn what_is_no_namespace_is_told_and_can_be_removed() {
    let name = Name::new();
    // What a kill in the middle of making one leaves.
    drop(Netns::create(&name.0).unwrap());
    Netns::delete(&name.0).unwrap();
    std::fs::write(std::path::Path::new(lab::netns::FOLDER).join(&name.0), "").unwrap();
    assert!(matches!(Netns::open(&name.0), Err(NetnsError::Unfinished(_))));
    for wrong in ["", ".", "..", "a/b", "a\0b", &"x".repeat(256)] {
        assert!(matches!(Netns::create(wrong), Err(NetnsError::Name(_))), "{wrong}");
    }
}

#[test]
#[should_panic(expected = "inside")]
fn a_panic_inside_comes_out() {
    let name = Name::new();
    let made = Netns::create(&name.0).unwrap();
    let _ = made.run(|| panic!("inside"));
}

#[test]
fn a_device_answers_for_its_own_addresses_only() {
    let (asker, machine) = (Name::new(), Name::new());
    let [client, server] = [&asker, &machine].map(|name| {
        let made = Netns::create(&name.0).unwrap();
        let settings = Namespace::default().settings();
        let settings: Vec<(&str, &str)> = settings.iter().map(|(path, value)| (&**path, *value)).collect();
        made.sysctls(&settings).unwrap();
        made
    });
    for line in [
        format!("-n {} link add eth0 type veth peer name eth0 netns {}", client.name(), server.name()),
        format!("-n {} addr add 10.9.0.1/24 dev eth0", client.name()),
        format!("-n {} addr add 10.9.0.2/24 dev eth0", server.name()),
        format!("-n {} addr add 10.9.0.3/32 dev lo", server.name()),
        format!("-n {} link set dev eth0 up", client.name()),
        format!("-n {} link set dev eth0 up", server.name()),
    ] {
        assert!(ip(&line.split(' ').collect::<Vec<_>>()).0, "ip {line}");
    }
    // Who does not answer is given up soon.
    client.sysctls(&[("ipv4/neigh/eth0/retrans_time_ms", "20")]).unwrap();
    let connect = |to: &str| client.run(|| TcpStream::connect(to)).unwrap().unwrap_err().kind();
    assert_eq!(connect("10.9.0.2:9"), ErrorKind::ConnectionRefused, "it is there, and nobody listens");
    assert_eq!(
        connect("10.9.0.3:9"),
        ErrorKind::HostUnreachable,
        "as Windows and the stacks in memory do it"
    );
}
