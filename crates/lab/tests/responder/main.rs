//! The responder and exchanges with it, over real sockets in a namespace of each test.
#![cfg(target_os = "linux")]

mod exchanges;
mod names;
mod protocols;
mod sockets;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use hcn::time::SystemClock;
use lab::exchange::exchange_in;
use lab::handover::Channel;
use lab::netns::{Netns, NetnsError};
use lab::responder::{self, Service, SocketError, Sockets, Wanted};
use node::app::{Outcome, Request, Transport};

/// A namespace with a name that no other test has, removed in the end.
struct Place {
    netns: Netns,
}

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("transom-r{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Self { netns: Netns::create(&name).unwrap() }
    }

    fn name(&self) -> &str {
        self.netns.name()
    }

    fn ip(&self, arguments: &str) {
        let done = Command::new("ip").arg("-n").arg(self.name()).args(arguments.split(' ')).output().unwrap();
        assert!(done.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn exchange(&self, request: &Request) -> Outcome {
        exchange_in(&self.netns, request, &SystemClock::default()).unwrap().outcome
    }

    fn ask(&self, to: &str, transport: Transport, payload: usize) -> Outcome {
        self.exchange(&Request::new(to.parse().unwrap(), transport).payload(payload))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        Netns::delete(self.netns.name()).unwrap();
    }
}

/// A namespace with a responder that works in it.
struct Served {
    sockets: Option<Sockets>,
    thread: Option<JoinHandle<io::Result<()>>>,
    place: Place,
}

impl Served {
    /// Nothing is open yet.
    fn nothing() -> Self {
        let (ours, its) = Channel::pair().unwrap();
        let thread = std::thread::spawn(move || responder::run(&its));
        Self { sockets: Some(Sockets::new(ours)), thread: Some(thread), place: Place::new() }
    }

    /// A pod with both transports on port 80.
    fn pod() -> Self {
        let mut served = Self::nothing();
        let both = BTreeSet::from([served.port(Transport::Tcp, 80), served.port(Transport::Udp, 80)]);
        assert!(served.set(&both).is_empty());
        served
    }

    fn port(&self, transport: Transport, port: u16) -> Wanted {
        Wanted {
            namespace: self.place.name().to_owned(),
            name: "shop/web-1".to_owned(),
            node: Some("win-1".to_owned()),
            addresses: BTreeSet::new(),
            transport,
            port,
            service: Service::Echo,
        }
    }

    fn sockets(&mut self) -> &mut Sockets {
        self.sockets.as_mut().unwrap()
    }

    fn set(&mut self, wanted: &BTreeSet<Wanted>) -> Vec<SocketError> {
        let enter = |name: &str, job: responder::Job| Netns::open(name)?.run(|| job.run());
        self.sockets().set::<NetnsError>(wanted, enter).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.sockets.take());
        let ended = self.thread.take().map(JoinHandle::join);
        // A test that has failed tells of that, not of what followed.
        if !std::thread::panicking() {
            ended.unwrap().unwrap().unwrap();
        }
    }
}

fn answered(outcome: &Outcome, server: &str, local: &str, peer: &str) -> bool {
    let (local, peer): (SocketAddr, IpAddr) = (local.parse().unwrap(), peer.parse().unwrap());
    outcome
        .answer()
        .is_some_and(|answer| answer.server == server && answer.local == local && answer.peer.ip() == peer)
}
