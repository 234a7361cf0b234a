//! Which sockets there are.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use hcn::time::SystemClock;
use lab::exchange::Conversation;
use lab::handover::Channel;
use lab::responder::{self, Open, Reply, Service, SocketError, ToResponder};
use node::app::{Outcome, Request, Transport};

use crate::{Served, answered};

#[test]
fn datagrams_are_answered_from_the_address_that_was_asked() {
    let mut served = Served::nothing();
    for address in ["10.9.0.1/32", "10.9.0.2/32"] {
        served.place.ip(&format!("address add {address} dev lo"));
    }
    let mut port = served.port(Transport::Udp, 5_300);
    // The last one comes later.
    port.addresses =
        ["10.9.0.1", "10.9.0.2", "2001:db8::7", "10.9.0.3"].map(|text| text.parse().unwrap()).into();
    assert!(served.set(&BTreeSet::from([port])).is_empty());
    served.place.ip("address add 10.9.0.3/32 dev lo");
    served.place.ip("address add 2001:db8::7/128 dev lo nodad");
    for (own, to) in [
        ("10.9.0.1:0", "10.9.0.2:5300"),
        ("10.9.0.1:0", "10.9.0.3:5300"),
        ("127.0.0.1:0", "127.0.0.1:5300"),
        ("[::1]:0", "[2001:db8::7]:5300"),
    ] {
        let to: SocketAddr = to.parse().unwrap();
        let (text, from) = served
            .place
            .netns
            .run(|| {
                // Not connected: an answer from elsewhere would be taken.
                let socket = UdpSocket::bind(own).unwrap();
                socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                socket.send_to(b"echo", to).unwrap();
                let mut buffer = [0; 100];
                let (count, from) = socket.recv_from(&mut buffer).unwrap();
                (buffer[..count].to_vec(), from)
            })
            .unwrap();
        assert_eq!((text.as_slice(), from), (&b"echo"[..], to));
    }
}

#[test]
fn a_taken_port_is_told_and_does_not_stop_the_others() {
    let mut served = Served::nothing();
    let first = served.port(Transport::Tcp, 80);
    let mut second = served.port(Transport::Tcp, 80);
    second.name = "shop/web-2".to_owned();
    let other = served.port(Transport::Tcp, 81);
    let mut elsewhere = served.port(Transport::Tcp, 80);
    elsewhere.namespace = "transom-r-nowhere".to_owned();
    let wanted = BTreeSet::from([first.clone(), second.clone(), other, elsewhere]);
    let problems = served.set(&wanted);
    let [SocketError::Namespace { namespace, .. }, SocketError::Taken { name, port: 80, .. }] = &problems[..]
    else {
        panic!("{problems:?}")
    };
    assert_eq!((namespace.as_str(), name.as_str()), ("transom-r-nowhere", "shop/web-2"));
    assert!(problems[1].to_string().contains("shop/web-2: TCP port 80 is taken"), "{}", problems[1]);
    for port in [80, 81] {
        let to = format!("127.0.0.1:{port}");
        assert!(answered(&served.place.ask(&to, Transport::Tcp, 0), "shop/web-1", &to, "127.0.0.1"));
    }
    // Once it is free, it is the other's.
    assert!(served.set(&BTreeSet::from([second])).is_empty());
    let outcome = served.place.ask("127.0.0.1:80", Transport::Tcp, 0);
    assert!(answered(&outcome, "shop/web-2", "127.0.0.1:80", "127.0.0.1"), "{outcome}");
    assert_eq!(served.place.ask("127.0.0.1:81", Transport::Tcp, 0), Outcome::Refused);
}

#[test]
fn what_is_no_longer_wanted_is_closed_with_its_connections() {
    let mut served = Served::pod();
    let clock = SystemClock::default();
    let request = Request::new("127.0.0.1:80".parse().unwrap(), Transport::Tcp);
    let open = || served.place.netns.run(|| Conversation::open(&request, &clock)).unwrap().unwrap();
    let mut kept = open();
    assert!(kept.ask(10, request.timeout, &clock).answer().is_some());
    // What stays wanted is left alone.
    let both = BTreeSet::from([served.port(Transport::Tcp, 80), served.port(Transport::Udp, 80)]);
    assert!(served.set(&both).is_empty());
    assert!(kept.ask(10, request.timeout, &clock).answer().is_some());
    assert!(served.set(&BTreeSet::from([served.port(Transport::Udp, 80)])).is_empty());
    let outcome = kept.ask(10, request.timeout, &clock);
    assert!(matches!(outcome, Outcome::Reset | Outcome::Garbled(_)), "{outcome}");
    assert_eq!(served.place.exchange(&request), Outcome::Refused);
    assert!(served.place.ask("127.0.0.1:80", Transport::Udp, 0).answer().is_some());
    let name = served.place.name().to_owned();
    assert!(served.sockets().leave(&name).unwrap().is_empty());
    assert_eq!(served.place.ask("127.0.0.1:80", Transport::Udp, 0), Outcome::Refused);
    assert!(served.set(&both).is_empty());
    assert!(served.place.exchange(&request).answer().is_some());
}

#[test]
fn many_connections_are_kept_at_once() {
    let served = Served::pod();
    let clock = SystemClock::default();
    let request = Request::new("[::1]:80".parse().unwrap(), Transport::Tcp);
    let open = || (0..400).map(|_| Conversation::open(&request, &clock).unwrap()).collect();
    let mut kept: Vec<Conversation> = served.place.netns.run(open).unwrap();
    for round in 0..3 {
        for conversation in &mut kept {
            let outcome = conversation.ask(round * 1_000, request.timeout, &clock);
            let answer = outcome.answer().unwrap_or_else(|| panic!("{outcome}"));
            assert_eq!(answer.peer, conversation.from());
        }
    }
}

#[test]
fn messages_that_make_no_sense_are_refused_and_the_responder_goes_on() {
    let (ours, its) = Channel::pair().unwrap();
    let thread = std::thread::spawn(move || responder::run(&its));
    let open = Open {
        id: 1,
        name: "a".to_owned(),
        node: None,
        transport: Transport::Tcp,
        bound: "[::]:80".parse().unwrap(),
        service: Service::Echo,
    };
    for message in [ToResponder::Open(open), ToResponder::Zone, ToResponder::Close { id: 7 }] {
        ours.send(&message, &[]).unwrap();
        let (reply, _) = ours.receive::<Reply>().unwrap().unwrap();
        assert!(matches!(reply, Reply::Failed { .. }), "{message:?}: {reply:?}");
    }
    drop(ours);
    thread.join().unwrap().unwrap();
}
