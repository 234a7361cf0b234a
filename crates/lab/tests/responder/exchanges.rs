//! How exchanges end, and loads of them.

use std::collections::BTreeSet;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use hcn::time::ManualClock;
use lab::exchange::{Load, LoadGenerator, Report, What};
use node::app::{Outcome, Request, Transport, Unreachable};

use crate::{Place, Served};

const BOTH: [Transport; 2] = [Transport::Tcp, Transport::Udp];

#[test]
fn a_client_s_own_faults_are_told_apart() {
    let place = Place::new();
    for transport in BOTH {
        assert_eq!(place.ask("127.0.0.1:81", transport, 0), Outcome::Refused);
        assert_eq!(place.ask("[::1]:81", transport, 0), Outcome::Refused);
        let unreachable = Outcome::Unreachable;
        assert_eq!(place.ask("10.7.7.7:80", transport, 0), unreachable(Unreachable::NoRoute));
        let mut request = Request::new("127.0.0.1:81".parse().unwrap(), transport);
        request.from = Some("10.1.2.3".parse().unwrap());
        assert_eq!(place.exchange(&request), unreachable(Unreachable::NoSource));
        request.from = Some("::1".parse().unwrap());
        assert_eq!(place.exchange(&request), unreachable(Unreachable::NoSource));
        request.from = Some("127.0.0.9".parse().unwrap());
        request.port = Some(4_444);
        assert_eq!(place.exchange(&request), Outcome::Refused);
    }
    // One port for clients, and a connection that has it.
    let listener = place.netns.run(|| TcpListener::bind("127.0.0.1:80")).unwrap().unwrap();
    place
        .netns
        .run(|| std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "5000 5000"))
        .unwrap()
        .unwrap();
    let _first =
        place.netns.run(|| std::net::TcpStream::connect(listener.local_addr().unwrap())).unwrap().unwrap();
    let outcome = place.ask("127.0.0.1:80", Transport::Tcp, 0);
    assert_eq!(outcome, Outcome::Unreachable(Unreachable::NoPort));
}

#[test]
fn who_refuses_on_the_way_is_told() {
    let (client, router) = (Place::new(), Place::new());
    client.ip(&format!("link add near type veth peer name far netns {}", router.name()));
    for (place, device, last) in [(&client, "near", 2), (&router, "far", 1)] {
        place.ip(&format!("address add 10.8.0.{last}/24 dev {device}"));
        place.ip(&format!("address add fd08::{last}/64 dev {device} nodad"));
        place.ip(&format!("link set {device} up"));
    }
    client.ip("route add default via 10.8.0.1");
    client.ip("-6 route add default via fd08::1");
    router.netns.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap().unwrap();
    router.netns.run(|| std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1")).unwrap().unwrap();
    for (kind, v4, v6) in [
        ("unreachable", "203.0.113.0/24", "2001:db8:1::/48"),
        ("prohibit", "198.51.100.0/24", "2001:db8:2::/48"),
        ("blackhole", "192.0.2.0/24", "2001:db8:3::/48"),
    ] {
        router.ip(&format!("route add {kind} {v4}"));
        router.ip(&format!("-6 route add {kind} {v6}"));
    }
    let by = |v6: bool| -> IpAddr { if v6 { "fd08::1" } else { "10.8.0.1" }.parse().unwrap() };
    for transport in BOTH {
        for (to, v6) in [("203.0.113.5:80", false), ("[2001:db8:1::5]:80", true)] {
            let expected = Outcome::Unreachable(Unreachable::Host(by(v6)));
            assert_eq!(client.ask(to, transport, 0), expected, "{transport} {to}");
        }
        for (to, v6) in [("198.51.100.5:80", false), ("[2001:db8:2::5]:80", true)] {
            let expected = Outcome::Unreachable(Unreachable::Prohibited(by(v6)));
            assert_eq!(client.ask(to, transport, 0), expected, "{transport} {to}");
        }
        for to in ["192.0.2.5:80", "[2001:db8:3::5]:80"] {
            let mut request = Request::new(to.parse().unwrap(), transport);
            request.timeout = Duration::from_millis(150);
            assert_eq!(client.exchange(&request), Outcome::TimedOut, "{transport} {to}");
        }
    }
}

#[test]
fn servers_that_misbehave_are_told_apart() {
    let place = Place::new();
    let listener = place.netns.run(|| TcpListener::bind("127.0.0.1:80")).unwrap().unwrap();
    let mut request = Request::new("127.0.0.1:80".parse().unwrap(), Transport::Tcp);
    request.timeout = Duration::from_millis(150);
    assert_eq!(place.exchange(&request), Outcome::TimedOut, "nobody accepts");
    drop(listener.accept().unwrap());
    request.timeout = Duration::from_secs(10);
    let serve = |then: fn(std::net::TcpStream)| {
        let listener = listener.try_clone().unwrap();
        std::thread::spawn(move || then(listener.accept().unwrap().0))
    };
    // What was sent stays unread, so that the end is a reset.
    let server = serve(|stream| {
        let mut one = [0];
        stream.peek(&mut one).unwrap();
    });
    assert_eq!(place.exchange(&request), Outcome::Reset);
    server.join().unwrap();
    let server = serve(|mut stream| {
        let mut line = [0; 8];
        std::io::Read::read_exact(&mut stream, &mut line).unwrap();
        std::io::Write::write_all(&mut stream, b"what?\n").unwrap();
    });
    assert!(matches!(place.exchange(&request), Outcome::Garbled(_)));
    server.join().unwrap();
}

/// Lets virtual time pass, step by step, until the report is as wanted. Nothing new begins while something is under way.
fn pass(clock: &ManualClock, load: &LoadGenerator, done: impl Fn(&Report) -> bool) -> Report {
    loop {
        let report = load.report();
        if done(&report) {
            return report;
        }
        let new = report.failures.iter().filter(|failure| failure.what == What::New).count();
        if report.begun == report.answered.values().sum::<u64>() + u64::try_from(new).unwrap() {
            clock.advance(Duration::from_millis(10));
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_load_goes_on_and_tells_each_failure() {
    let mut served = Served::pod();
    let clock = Arc::new(ManualClock::new());
    let mut request = Request::new("127.0.0.1:80".parse().unwrap(), Transport::Tcp).payload(100);
    // In virtual time, which passes fast.
    request.timeout = Duration::from_hours(1_000);
    let every = Duration::from_millis(20);
    let load = Load { request, every, kept: 3, kept_every: Duration::from_millis(50) };
    let load = served.place.netns.run(|| LoadGenerator::start(load, clock.clone())).unwrap().unwrap();
    let report = pass(&clock, &load, |report| {
        report.answered.get("shop/web-1").is_some_and(|count| *count >= 30)
            && report.kept.iter().all(|kept| kept.answered >= 5)
    });
    assert_eq!((report.failed, report.held_back), (0, 0), "{:?}", report.failures);
    assert!(report.kept.iter().all(|kept| kept.opened == 1 && kept.server.as_deref() == Some("shop/web-1")));

    served.set(&BTreeSet::new());
    let report = pass(&clock, &load, |report| report.cuts().count() == 3 && report.failed_new().count() >= 5);
    assert!(report.failed_new().any(|failure| failure.outcome == Outcome::Refused));
    let web = What::Kept { server: "shop/web-1".to_owned() };
    assert!(report.cuts().all(|cut| cut.what == web && cut.from.is_some()));

    let mut other = served.port(Transport::Tcp, 80);
    other.name = "shop/web-2".to_owned();
    assert!(served.set(&BTreeSet::from([other])).is_empty());
    pass(&clock, &load, |report| {
        report.answered.contains_key("shop/web-2")
            && report.kept.iter().all(|kept| kept.opened == 2 && kept.server.as_deref() == Some("shop/web-2"))
    });
    // The generator's sleepers wait for the clock.
    let stopping = std::thread::spawn(move || load.stop());
    while !stopping.is_finished() {
        clock.advance(Duration::from_millis(10));
        std::thread::yield_now();
    }
    let report = stopping.join().unwrap();
    let failed_new = u64::try_from(report.failed_new().count()).unwrap();
    assert_eq!(
        report.begun,
        report.answered.values().sum::<u64>() + failed_new,
        "everything begun has ended"
    );
}
