//! What links do to exchanges, and what hosts make of it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use node::app::{Outcome, Request, Transport, Unreachable};
use node::fabric::{LinkSettings, Seen, Tap};
use proptest::prelude::*;

use crate::world::{act, answered, exchange, ip, pair, socket};

const BOTH: [Transport; 2] = [Transport::Tcp, Transport::Udp];

#[test]
fn tcp_and_udp_over_both_families() {
    for transport in BOTH {
        for (server, peer) in [("192.0.2.2", "192.0.2.1"), ("2001:db8::2", "2001:db8::1")] {
            let (mut world, client, _) = pair(1, LinkSettings::default());
            for payload in [0, 1, 700, 30_000] {
                let request = Request::new(socket(server, 80), transport).payload(payload);
                let done = exchange(&mut world, client, None, request);
                answered(&done, "server", peer);
                assert_eq!(done.outcome.answer().unwrap().local, socket(server, 80));
                assert_eq!(done.outcome.answer().unwrap().peer, done.from.unwrap());
            }
        }
    }
}

#[test]
fn a_closed_port_refuses() {
    for transport in BOTH {
        for server in ["192.0.2.2", "2001:db8::2"] {
            let (mut world, client, _) = pair(1, LinkSettings::default());
            let done = exchange(&mut world, client, None, Request::new(socket(server, 81), transport));
            assert_eq!(done.outcome, Outcome::Refused, "{transport} {server}");
        }
    }
}

#[test]
fn a_port_is_used_again_while_the_server_waits_for_strays() {
    let (mut world, client, _) = pair(1, LinkSettings::default());
    for round in 0..3 {
        let request = Request { port: Some(5000), ..Request::new(socket("192.0.2.2", 80), Transport::Tcp) };
        let done = exchange(&mut world, client, None, request);
        answered(&done, "server", "192.0.2.1");
        assert!(
            done.took < Duration::from_secs(1),
            "round {round}: no SYN is sent twice, but it took {:?}",
            done.took
        );
    }
}

#[test]
fn nobody_has_the_address() {
    for transport in BOTH {
        for (server, own) in [("192.0.2.9", "192.0.2.1"), ("2001:db8::9", "2001:db8::1")] {
            let (mut world, client, _) = pair(1, LinkSettings::default());
            let done = exchange(&mut world, client, None, Request::new(socket(server, 80), transport));
            assert_eq!(
                done.outcome,
                Outcome::Unreachable(Unreachable::Host(ip(own))),
                "{transport} {server}"
            );
            assert_eq!(done.took, Duration::from_secs(3), "three questions, a second each");
        }
    }
}

#[test]
fn there_is_no_route() {
    let (mut world, client, _) = pair(1, LinkSettings::default());
    let done = exchange(&mut world, client, None, Request::new(socket("203.0.113.1", 80), Transport::Tcp));
    assert_eq!(done.outcome, Outcome::Unreachable(Unreachable::NoRoute));
    let request =
        Request { from: Some(ip("192.0.2.77")), ..Request::new(socket("192.0.2.2", 80), Transport::Tcp) };
    let done = exchange(&mut world, client, None, request);
    assert_eq!(done.outcome, Outcome::Unreachable(Unreachable::NoSource));
}

#[test]
fn own_addresses_never_leave() {
    for transport in BOTH {
        let (mut world, client, _) = pair(1, LinkSettings::default());
        act(&mut world, client, None, |stack, _| stack.serve(transport, 80));
        for own in ["192.0.2.1", "2001:db8::1"] {
            let done = exchange(&mut world, client, None, Request::new(socket(own, 80), transport));
            answered(&done, "client", own);
        }
        act(&mut world, client, None, |stack, _| assert_eq!(stack.counters().sent, 0));
    }
}

#[test]
fn a_cut_link_times_out_and_a_restored_one_works() {
    let (mut world, client, _) = pair(1, LinkSettings::default());
    let request = || Request::new(socket("192.0.2.2", 80), Transport::Tcp);
    answered(&exchange(&mut world, client, None, request()), "server", "192.0.2.1");
    let link = world.link_at(client, 0).unwrap();
    world.cut(link);
    let done = exchange(&mut world, client, None, request());
    assert_eq!((done.outcome, done.took), (Outcome::TimedOut, Duration::from_secs(10)));
    world.restore(link);
    answered(&exchange(&mut world, client, None, request()), "server", "192.0.2.1");
}

#[test]
fn pings_are_answered() {
    let (mut world, client, _) = pair(1, LinkSettings::default());
    for server in ["192.0.2.2", "2001:db8::2"] {
        act(&mut world, client, None, |stack, now| stack.ping(now, ip(server), 7, 1));
        world.run_until(world.now() + Duration::from_secs(1));
        assert!(act(&mut world, client, None, |stack, _| stack.take_echo(ip(server), 7)));
        assert!(!act(&mut world, client, None, |stack, _| stack.take_echo(ip(server), 7)));
    }
}

#[derive(Default)]
struct Log(Rc<RefCell<Vec<u8>>>);

impl Tap for Log {
    fn seen(&mut self, seen: &Seen<'_>) {
        let mut log = self.0.borrow_mut();
        log.extend_from_slice(&seen.at.as_nanos().to_be_bytes());
        log.push(u8::from(seen.leaves));
        log.extend_from_slice(seen.frame);
        wire::checksum::verify(seen.frame).unwrap();
    }
}

fn bad_link() -> LinkSettings {
    LinkSettings {
        jitter: Duration::from_millis(2),
        loss: 0.1,
        duplicate: 0.1,
        reorder: 0.1,
        ..LinkSettings::default()
    }
}

fn course(seed: u64) -> Vec<u8> {
    let log = Log::default();
    let frames = Rc::clone(&log.0);
    let (mut world, client, _) = pair(seed, bad_link());
    world.set_tap(Some(Box::new(log)));
    let request = Request::new(socket("192.0.2.2", 80), Transport::Tcp).payload(20_000);
    exchange(&mut world, client, None, Request { timeout: Duration::from_mins(10), ..request });
    frames.take()
}

#[test]
fn the_same_seed_gives_the_same_frames() {
    assert_eq!(course(5), course(5));
    assert_ne!(course(5), course(6));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn bad_links_are_survived(seed: u64, payload in 0_usize..20_000, v6: bool) {
        let (mut world, client, _) = pair(seed, bad_link());
        let server = if v6 { "2001:db8::2" } else { "192.0.2.2" };
        let request = Request::new(socket(server, 80), Transport::Tcp).payload(payload);
        let request = Request { timeout: Duration::from_hours(1), ..request };
        // Neighbours are asked for three times. All three may be lost; a second later the next connection asks anew.
        let mut done = exchange(&mut world, client, None, request.clone());
        for _ in 0..10 {
            if !matches!(done.outcome, Outcome::Unreachable(_)) {
                break;
            }
            world.run_until(world.now() + Duration::from_secs(2));
            done = exchange(&mut world, client, None, request.clone());
        }
        prop_assert!(done.outcome.answer().is_some(), "{:?}", done);
    }
}
