//! Small networks to test with.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use node::app::{Exchange, Outcome, Request, Transport};
use node::fabric::{Device, DeviceId, Fabric, LearningSwitch, LinkSettings, Outbox};
use node::host::Host;
use node::linux::LinuxNode;
use node::stack::{InterfaceSpec, Route, Stack};
use wire::{Mac, Packet};

pub(crate) enum Machine {
    Host(Host),
    Linux(LinuxNode),
    Switch(LearningSwitch),
}

impl Device for Machine {
    fn receive(&mut self, now: Duration, port: usize, frame: Packet, out: &mut Outbox) {
        match self {
            Self::Host(device) => device.receive(now, port, frame, out),
            Self::Linux(device) => device.receive(now, port, frame, out),
            Self::Switch(device) => device.receive(now, port, frame, out),
        }
    }

    fn poll(&mut self, now: Duration, out: &mut Outbox) {
        match self {
            Self::Host(device) => device.poll(now, out),
            Self::Linux(device) => device.poll(now, out),
            Self::Switch(device) => device.poll(now, out),
        }
    }

    fn next_timer(&mut self) -> Option<Duration> {
        match self {
            Self::Host(device) => device.next_timer(),
            Self::Linux(device) => device.next_timer(),
            Self::Switch(device) => device.next_timer(),
        }
    }
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

pub(crate) fn socket(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip(address), port)
}

pub(crate) fn mac(last: u8) -> Mac {
    Mac([0x02, 0, 0, 0, 0, last])
}

pub(crate) fn interface(name: &str, last: u8, addresses: &[&str], mtu: u16) -> InterfaceSpec {
    InterfaceSpec {
        name: name.to_owned(),
        mac: mac(last),
        addresses: addresses.iter().map(|text| net(text)).collect(),
        mtu,
    }
}

/// A host with one interface and a default route for each router.
pub(crate) fn host(name: &str, last: u8, addresses: &[&str], routers: &[&str]) -> Stack {
    let mut stack = Stack::new(name, u64::from(last));
    stack.add_interface(interface("eth0", last, addresses, 1500));
    for router in routers {
        stack.routes_mut().add(Route::default_by(ip(router), 0));
    }
    stack
}

pub(crate) type World = Fabric<Machine>;

/// The stack of a host, or of a pod on a Linux node.
pub(crate) fn stack<'a>(machine: &'a mut Machine, pod: Option<&str>) -> &'a mut Stack {
    match (machine, pod) {
        (Machine::Host(host), _) => &mut host.stack,
        (Machine::Linux(node), None) => node.stack_mut(),
        (Machine::Linux(node), Some(pod)) => node.pod_mut(pod).unwrap(),
        (Machine::Switch(_), _) => panic!("a switch has no stack"),
    }
}

pub(crate) fn act<R>(
    world: &mut World,
    device: DeviceId,
    pod: Option<&str>,
    act: impl FnOnce(&mut Stack, Duration) -> R,
) -> R {
    world
        .with(device, |machine, now, out| {
            let result = act(stack(machine, pod), now);
            match machine {
                Machine::Host(host) => host.flush(out),
                Machine::Linux(node) => node.flush(now, out),
                Machine::Switch(_) => {}
            }
            result
        })
        .unwrap()
}

pub(crate) fn exchange(world: &mut World, device: DeviceId, pod: Option<&str>, request: Request) -> Exchange {
    let until = world.now() + request.timeout + Duration::from_mins(1);
    let client = act(world, device, pod, |stack, now| stack.request(now, request));
    let finished = |world: &World| match (world.device(device).unwrap(), pod) {
        (Machine::Host(host), _) => host.stack.exchange(client).is_some(),
        (Machine::Linux(node), None) => node.stack().exchange(client).is_some(),
        (Machine::Linux(node), Some(pod)) => node.pod(pod).unwrap().exchange(client).is_some(),
        (Machine::Switch(_), _) => true,
    };
    assert!(world.run_while(until, |world| !finished(world)), "an exchange always ends");
    act(world, device, pod, |stack, _| stack.take_exchange(client)).unwrap()
}

/// Asserts that the exchange was answered, and by whom.
#[track_caller]
pub(crate) fn answered(exchange: &Exchange, server: &str, peer: &str) {
    match &exchange.outcome {
        Outcome::Answered(answer) => {
            assert_eq!((&*answer.server, answer.peer.ip()), (server, ip(peer)), "{exchange:?}");
        }
        other => panic!("{other}: {exchange:?}"),
    }
}

/// Two hosts on a cable.
pub(crate) fn pair(seed: u64, settings: LinkSettings) -> (World, DeviceId, DeviceId) {
    let mut world = Fabric::new(seed);
    let mut server = host("server", 2, &["192.0.2.2/24", "2001:db8::2/64"], &[]);
    server.serve(Transport::Tcp, 80);
    server.serve(Transport::Udp, 80);
    let a =
        world.add("a", Machine::Host(Host::new(host("client", 1, &["192.0.2.1/24", "2001:db8::1/64"], &[]))));
    let b = world.add("b", Machine::Host(Host::new(server)));
    world.join((a, 0), (b, 0), settings);
    (world, a, b)
}
