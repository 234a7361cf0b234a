//! Frames into the switch of a fully programmed node (both kinds of network, with load balancers of every kind, NAT,
//! tunnels and the host's routes), and into an IP stack; command lines of `vfpctrl` over such a switch.
//!
//! An input of frames is a byte that chooses the node, then frames: a byte of flags (which port; whether checksums are put right
//! first), two bytes of length, the frame.

use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Duration;

use ipnet::IpNet;
use node::NetworkKind;
use node::app::{Request, Transport};
use node::stack::{InterfaceSpec, Route, Stack};
use services::source::manifests::{Input, Manifests, Options, Touched};
use transom::world::{Plan, World};
use uuid::Uuid;
use vfp::model::{Change, PortKind};
use vfp::{Env, HostRoutes, NextHop, Output, Switch};
use wire::{Mac, Packet};

use crate::Verdict;

/// A node's policy and its ports.
struct Programmed {
    policy: Vec<Change>,
    ports: Vec<Uuid>,
}

/// Overlay and bridge, with and without DSR.
static NODES: LazyLock<Vec<Programmed>> = LazyLock::new(|| {
    let kinds = [NetworkKind::Overlay, NetworkKind::L2Bridge];
    kinds.into_iter().flat_map(|kind| [false, true].map(|dsr| programmed(kind, dsr))).collect()
});

fn programmed(kind: NetworkKind, dsr: bool) -> Programmed {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/transom/testdata/paths");
    let inputs = ["cluster.yaml", "services.yaml", "cluster-ipv6.yaml"];
    let of = if kind == NetworkKind::Overlay { &inputs[..2] } else { &inputs[2..] };
    let inputs = of.iter().map(|name| Input::Path(format!("{folder}/{name}").into())).collect();
    let changes = Manifests::new(inputs, Options::default()).refresh(&Touched::Everything).changes;
    let world = World::build(&changes, &Plan::new(kind, dsr)).expect("the cluster of the packet paths");
    let node = world.simulation.windows("n1").expect("a Windows node");
    node.switch().with(|switch| Programmed {
        policy: switch.policy(),
        ports: {
            let mut ports = switch.ports();
            ports.sort_by_key(|port| (port.spec.kind != PortKind::External, port.id));
            ports.into_iter().map(|port| port.spec.name).collect()
        },
    })
}

/// A host that knows a way to everybody.
struct Routes;

impl HostRoutes for Routes {
    fn next_hop(&mut self, _: u32, destination: IpAddr) -> NextHop {
        match destination {
            IpAddr::V4(v4) if v4.octets()[3] == 11 => NextHop::Local,
            IpAddr::V4(v4) if v4.octets()[3] == 13 => NextHop::Unreachable,
            IpAddr::V4(v4) if v4.octets()[3] == 17 => NextHop::Pending,
            _ => NextHop::Via { mac: Mac([2, 0, 0, 0, 0, 1]), source_mac: Mac([2, 0, 0, 0, 0, 2]) },
        }
    }
}

/// Sends frames into a programmed node.
pub fn node_frames(input: &[u8]) -> Verdict {
    let Some((&choice, mut rest)) = input.split_first() else { return Verdict::Refused };
    let node = &NODES[usize::from(choice) % NODES.len()];
    let mut switch = Switch::default();
    switch.apply(&node.policy).expect("an exported policy can be applied");
    let mut out = Output::default();
    let mut verdict = Verdict::Refused;
    let mut now = Duration::from_secs(1);
    // One frame with a wrong checksum taints what comes of the connection's later ones only if they are wrong, too:
    // each frame out is judged by the frame in that it came of.
    while let [flags, high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
        let (frame, later) = after.split_at(length);
        rest = later;
        let mut frame = frame.to_vec();
        if flags & 0x80 != 0 {
            let _ = wire::checksum::fill(&mut frame);
        }
        let right = wire::checksum::verify(&frame).is_ok();
        let port = node.ports[usize::from(flags & 0x7f) % node.ports.len()];
        now += Duration::from_millis(u64::from(flags & 0x7f));
        let mut env = Env { now, routes: &mut Routes, observer: None };
        switch.transmit(port, &mut vec![Packet::new(&frame)], &mut env, &mut out);
        for (_, delivered) in out.delivered.drain(..) {
            verdict = Verdict::Read;
            let bytes = delivered.data();
            wire::parse(bytes).expect("what leaves a switch is well formed");
            if right {
                let judged = wire::checksum::verify(bytes);
                assert!(judged.is_ok(), "{judged:?} behind the switch: {}", wire::describe(bytes));
            }
        }
        let pending = std::mem::take(&mut out.pending);
        let mut env = Env { now, routes: &mut Routes, observer: None };
        switch.resume(pending, &mut env, &mut out);
        out.delivered.clear();
        out.pending.clear();
    }
    switch.sweep(now, 64);
    verdict
}

/// The machine that [`stack_frames`] sends frames to: a forwarding host with servers, two interfaces and both families.
fn machine() -> Stack {
    let net = |text: &str| text.parse::<IpNet>().expect("a prefix");
    let mut stack = Stack::new("host", 1);
    for (name, last, addresses) in [
        ("lan", 11, ["192.0.2.11/24", "2001:db8:c::11/64"]),
        ("pods", 2, ["10.50.1.2/24", "2001:db8:50:1::2/64"]),
    ] {
        stack.add_interface(InterfaceSpec {
            name: name.to_owned(),
            mac: Mac([2, 0, 0, 0, 0, last]),
            addresses: addresses.map(net).to_vec(),
            mtu: 1500,
        });
    }
    stack.routes_mut().add(Route::default_by(IpAddr::from([192, 0, 2, 1]), 0));
    stack.set_forwarding(true);
    for transport in [Transport::Tcp, Transport::Udp] {
        stack.serve(transport, 80);
    }
    stack
}

/// Sends frames to an IP stack that has a connection under way. The form of an input is that of [`node_frames`].
pub fn stack_frames(input: &[u8]) -> Verdict {
    let mut stack = machine();
    let mut now = Duration::from_secs(1);
    stack.request(now, Request::new(([192, 0, 2, 12], 80).into(), Transport::Tcp));
    let mut verdict = Verdict::Refused;
    let mut rest = input.get(1..).unwrap_or_default();
    while let [flags, high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
        let (frame, later) = after.split_at(length);
        rest = later;
        let mut frame = frame.to_vec();
        if flags & 0x80 != 0 {
            let _ = wire::checksum::fill(&mut frame);
        }
        // What is forwarded may be a fragment of something whose checksum nobody on the way can know.
        let right = wire::checksum::verify(&frame).is_ok();
        now += Duration::from_millis(u64::from(flags & 0x7f) * 10);
        stack.receive(now, usize::from(flags & 1), &frame);
        stack.poll(now);
        for (_, sent) in stack.take_output() {
            verdict = Verdict::Read;
            wire::parse(sent.data()).expect("what leaves a stack is well formed");
            if right {
                let judged = wire::checksum::verify(sent.data());
                assert!(judged.is_ok(), "{judged:?} behind the stack: {}", wire::describe(sent.data()));
            }
        }
    }
    verdict
}

/// Words of a `vfpctrl` command line over a programmed switch; words are parted by blanks, those in quotes are one.
pub fn vfpctrl_line(input: &[u8]) -> Verdict {
    let line = String::from_utf8_lossy(input);
    let mut words: Vec<String> = Vec::new();
    for (index, part) in line.split('"').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    let mut switch = Switch::default();
    switch.apply(&NODES[0].policy).expect("an exported policy can be applied");
    match vfpctrl::run(&mut switch, &words, Duration::from_secs(1)) {
        Ok(text) => {
            assert!(!text.is_empty());
            Verdict::Read
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            Verdict::Refused
        }
    }
}
