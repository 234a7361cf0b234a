//! An emulated Windows node: an HNS that programs a virtual switch, the host's stack on the switch's host port, a
//! stack for each pod's namespace on its endpoints' ports, and the physical adapter on the external port.
//!
//! It must not know of Kubernetes or of who makes HNS' objects.

mod attach;
mod handle;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hcn::Guid;
use hns::{Hns, Protocol};
use ipnet::IpNet;
use uuid::Uuid;
use wire::{Mac, Packet};

pub use handle::SwitchHandle;

use attach::Attachments;
use vfp::{Env, HostRoutes, NextHop, Observer, Output, Pending};

use crate::app::Transport;
use crate::fabric::{Device, Outbox};
use crate::stack::{InterfaceSpec, Route, Stack};

/// The port of the node's link.
pub const WIRE: usize = 0;

/// The interface of the host's stack on the switch's host port.
const MANAGEMENT: usize = 0;

/// How often what has expired in the switch is looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// How many packets wait for next hops of the host's stack; the oldest goes first.
const WAITING: usize = 1024;

/// What a node is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowsSpec {
    /// The node's name, which programs on the host answer with.
    pub name: String,
    /// Decides initial sequence numbers.
    pub seed: u64,
    /// The adapter's MAC, which the host's interface takes over.
    pub mac: Mac,
    /// The host's addresses.
    pub addresses: Vec<IpNet>,
    /// The host's default routers.
    pub routers: Vec<IpAddr>,
    /// Packets for others are forwarded between the host's interfaces, as a CNI plugin turns on for host-gw.
    pub forwarding: bool,
}

/// A Windows node.
pub struct WindowsNode {
    hns: Hns,
    switch: Arc<SwitchHandle>,
    host: Stack,
    pods: BTreeMap<Guid, Stack>,
    attached: Attachments,
    queue: VecDeque<(Uuid, Packet)>,
    waiting: VecDeque<Pending>,
    settled: u64,
    swept: Duration,
    observer: Option<Box<dyn Observer>>,
    output: Output,
}

impl fmt::Debug for WindowsNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowsNode")
            .field("host", &self.host)
            .field("pods", &self.pods.len())
            .finish_non_exhaustive()
    }
}

/// The host's stack, as the switch asks it.
struct HostView<'a> {
    stack: &'a mut Stack,
    now: Duration,
}

impl HostRoutes for HostView<'_> {
    fn next_hop(&mut self, _: u32, destination: IpAddr) -> NextHop {
        // There is one compartment that the switch may ask, the host's own.
        self.stack.next_hop(self.now, destination)
    }
}

impl WindowsNode {
    /// A node around an HNS that was opened with this switch as its datapath.
    pub fn new(spec: &WindowsSpec, hns: Hns, switch: Arc<SwitchHandle>) -> Self {
        let mut host = Stack::new(spec.name.clone(), spec.seed);
        host.add_interface(InterfaceSpec {
            name: "vEthernet (Ethernet)".to_owned(),
            mac: spec.mac,
            addresses: spec.addresses.clone(),
            mtu: 1500,
        });
        host.set_forwarding(spec.forwarding);
        for router in &spec.routers {
            host.routes_mut().add(Route::default_by(*router, MANAGEMENT));
        }
        let mut node = Self {
            hns,
            switch,
            host,
            pods: BTreeMap::new(),
            attached: Attachments::new(spec.seed),
            queue: VecDeque::new(),
            waiting: VecDeque::new(),
            settled: 0,
            swept: Duration::ZERO,
            observer: None,
            output: Output::default(),
        };
        node.sync();
        node
    }

    /// The HNS.
    pub fn hns(&self) -> &Hns {
        &self.hns
    }

    /// The switch.
    pub fn switch(&self) -> &Arc<SwitchHandle> {
        &self.switch
    }

    /// The host's stack. [`flush`](Self::flush) after acting on it.
    pub fn host_mut(&mut self) -> &mut Stack {
        self.sync();
        self.reserve_ports();
        &mut self.host
    }

    /// The host's stack.
    pub fn host(&self) -> &Stack {
        &self.host
    }

    /// The stack of the pod whose endpoint has this name. [`flush`](Self::flush) after acting on it.
    pub fn pod_mut(&mut self, name: &str) -> Option<&mut Stack> {
        self.sync();
        let namespace = self.attached.namespace_of(name)?;
        self.pods.get_mut(&namespace)
    }

    /// The stack of the pod whose endpoint has this name.
    pub fn pod(&self, name: &str) -> Option<&Stack> {
        self.pods.get(&self.attached.namespace_of(name)?)
    }

    /// The names of the endpoints that are in a pod's namespace.
    pub fn pods(&self) -> impl Iterator<Item = &str> {
        self.attached.pods()
    }

    /// A route of the host to another node's pods by that node, as a CNI plugin makes it for host-gw.
    pub fn add_route(&mut self, pods: IpNet, node: IpAddr) {
        let route = Route { destination: pods, via: Some(node), interface: MANAGEMENT, metric: 0 };
        self.host.routes_mut().add(route);
    }

    /// Lets somebody watch the switch.
    pub fn set_observer(&mut self, observer: Option<Box<dyn Observer>>) -> Option<Box<dyn Observer>> {
        std::mem::replace(&mut self.observer, observer)
    }

    /// Takes over which ports the switch has and whose they are.
    pub fn sync(&mut self) {
        let (host, pods) = (&mut self.host, &mut self.pods);
        self.attached.follow(&self.switch, &self.hns, host, pods);
    }

    /// Blocks that HNS took out of the dynamic range are not given to the host's programs.
    fn reserve_ports(&mut self) {
        let report = self.hns.ports();
        let blocks = report.spaces.iter().flat_map(|space| {
            let transport = match space.space.protocol {
                Protocol::Tcp => Transport::Tcp,
                Protocol::Udp => Transport::Udp,
            };
            space.blocks.iter().map(move |(ports, _)| (transport, ports.clone()))
        });
        self.host.reserve_ports(blocks.collect());
    }

    /// Moves frames between the stacks, the switch and the wire until none is left.
    pub fn flush(&mut self, now: Duration, out: &mut Outbox) {
        if now.saturating_sub(self.swept) >= SWEEP {
            self.swept = now;
            self.switch.sweep(now);
        }
        // A loop of routes ends by its TTL; this bound is for what nobody thought of.
        for _ in 0..65_536 {
            self.resume(now, out);
            self.collect();
            let Some((port, packet)) = self.queue.pop_front() else { break };
            self.transmit(now, port, packet, out);
        }
    }

    /// Takes what the stacks send.
    fn collect(&mut self) {
        for (interface, frame) in self.host.take_output() {
            if let Some(port) = self.attached.host_port(interface) {
                self.queue.push_back((port, frame));
            }
        }
        for (namespace, pod) in &mut self.pods {
            for (interface, frame) in pod.take_output() {
                if let Some(port) = self.attached.pod_port(*namespace, interface) {
                    self.queue.push_back((port, frame));
                }
            }
        }
    }

    /// Moves what waited for a next hop on once there is news of one.
    fn resume(&mut self, now: Duration, out: &mut Outbox) {
        if self.waiting.is_empty() || self.settled == self.host.settled() {
            return;
        }
        self.settled = self.host.settled();
        let waiting = std::mem::take(&mut self.waiting);
        self.act(now, out, |switch, env, output| switch.resume(waiting.into(), env, output));
    }

    fn transmit(&mut self, now: Duration, port: Uuid, packet: Packet, out: &mut Outbox) {
        self.act(now, out, |switch, env, output| switch.transmit(port, &mut vec![packet], env, output));
    }

    /// Has the switch do something, and hands out what comes of it.
    fn act(
        &mut self,
        now: Duration,
        out: &mut Outbox,
        act: impl FnOnce(&SwitchHandle, &mut Env<'_>, &mut Output),
    ) {
        // What begins to wait in here waits for news from now on.
        if self.waiting.is_empty() {
            self.settled = self.host.settled();
        }
        let mut view = HostView { stack: &mut self.host, now };
        let observer = self.observer.as_deref_mut().map(|observer| observer as &mut dyn Observer);
        let mut env = Env { now, routes: &mut view, observer };
        act(&self.switch, &mut env, &mut self.output);
        for (port, packet) in self.output.delivered.drain(..) {
            if self.attached.is_external(port) {
                out.send(WIRE, packet);
            } else if let Some(interface) = self.attached.host_interface(port) {
                self.host.receive(now, interface, packet.data());
            } else if let Some((namespace, interface)) = self.attached.pod_interface(port)
                && let Some(pod) = self.pods.get_mut(&namespace)
            {
                pod.receive(now, interface, packet.data());
            }
        }
        self.waiting.extend(self.output.pending.drain(..));
        while self.waiting.len() > WAITING {
            self.waiting.pop_front();
        }
    }
}

impl Device for WindowsNode {
    fn receive(&mut self, now: Duration, _: usize, frame: Packet, out: &mut Outbox) {
        self.sync();
        if let Some(port) = self.attached.external() {
            self.queue.push_back((port, frame));
        }
        self.flush(now, out);
    }

    fn poll(&mut self, now: Duration, out: &mut Outbox) {
        self.sync();
        self.host.poll(now);
        for pod in self.pods.values_mut() {
            if pod.next_timer().is_some_and(|due| due <= now) {
                pod.poll(now);
            }
        }
        self.flush(now, out);
    }

    fn next_timer(&mut self) -> Option<Duration> {
        let pods = self.pods.values_mut().filter_map(Stack::next_timer);
        pods.chain(self.host.next_timer()).min()
    }
}
