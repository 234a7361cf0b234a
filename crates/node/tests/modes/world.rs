//! A Windows node on a LAN with a peer, a router to another network, and a host there; more nodes on demand.
//!
//! | machine | addresses |
//! |---|---|
//! | `win` | 192.0.2.11, 2001:db8:1::11 |
//! | `win-2` (on demand) | 192.0.2.12, 2001:db8:1::12 |
//! | `peer`, a plain host of the LAN | 192.0.2.20, 2001:db8:1::20 |
//! | `router` | 192.0.2.1, 2001:db8:1::1; 198.51.100.1, 2001:db8:9::1 |
//! | `outside` | 198.51.100.9, 2001:db8:9::9; second address 198.51.100.10 |

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hcn::time::{ManualClock, SeededEntropy};
use hns::{Adapter, Hns, Options, Profile, Switches};
use ipnet::IpNet;
use node::app::{Exchange, Outcome, Request, Transport};
use node::fabric::{DeviceId, Fabric, LearningSwitch, LinkSettings};
use node::host::Host;
use node::sim::Machine;
use node::stack::{ClientId, InterfaceSpec, Route, Stack};
use node::windows::{SwitchHandle, WindowsNode, WindowsSpec};
use wire::Mac;

use crate::kit::Kit;
use crate::log::{Dropped, Log, OnWire, PortNames};

/// The ports that every server answers on.
pub(crate) const PORTS: [u16; 7] = [53, 80, 443, 8000, 8080, 8443, 9000];
/// The node's address.
pub(crate) const NODE: &str = "192.0.2.11";
/// The host outside.
pub(crate) const OUTSIDE: &str = "198.51.100.9";
/// Its second address.
pub(crate) const OUTSIDE_2: &str = "198.51.100.10";
/// The peer on the LAN.
pub(crate) const PEER: &str = "192.0.2.20";
pub(crate) const BOTH: [Transport; 2] = [Transport::Tcp, Transport::Udp];

pub(crate) struct Node {
    pub(crate) device: DeviceId,
    pub(crate) hns: Hns,
    pub(crate) switch: Arc<SwitchHandle>,
    pub(crate) clock: ManualClock,
    names: PortNames,
}

pub(crate) struct World {
    pub(crate) fabric: Fabric<Kit>,
    pub(crate) log: Log,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) made: u32,
    devices: BTreeMap<String, DeviceId>,
    lan: DeviceId,
    echo: u16,
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

pub(crate) fn mac(last: u8) -> Mac {
    Mac([0x02, 0, 0, 0, 0, last])
}

/// The adapter's MAC of a node.
pub(crate) fn node_mac(number: u8) -> Mac {
    mac(number)
}

pub(crate) fn serve(stack: &mut Stack) {
    for port in PORTS {
        for transport in BOTH {
            stack.serve(transport, port);
        }
    }
}

fn host(name: &str, last: u8, addresses: &[&str], routers: &[&str]) -> Stack {
    let mut stack = Stack::new(name, u64::from(last));
    stack.add_interface(interface("eth0", last, addresses));
    for router in routers {
        stack.routes_mut().add(Route::default_by(ip(router), 0));
    }
    serve(&mut stack);
    stack
}

fn interface(name: &str, last: u8, addresses: &[&str]) -> InterfaceSpec {
    let addresses = addresses.iter().map(|text| net(text)).collect();
    InterfaceSpec { name: name.to_owned(), mac: mac(last), addresses, mtu: 1500 }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with("{}")
    }

    /// With HNS's switches set.
    pub(crate) fn with(switches: &str) -> Self {
        Self::opened(|options| options.switches.apply_yaml(switches).unwrap())
    }

    /// With HNS opened in another way.
    pub(crate) fn opened(options: impl FnOnce(&mut Options)) -> Self {
        let mut fabric = Fabric::new(7);
        let lan = fabric.add("lan", Kit::plain(Machine::Switch(LearningSwitch::new(0))));
        let mut world = Self {
            fabric,
            log: Log::default(),
            nodes: BTreeMap::new(),
            made: 0,
            devices: BTreeMap::new(),
            lan,
            echo: 0,
        };
        let mut router = host("router", 1, &["192.0.2.1/24", "2001:db8:1::1/64"], &[]);
        router.add_interface(interface("wan", 2, &["198.51.100.1/24", "2001:db8:9::1/64"]));
        world.add("router", Host::router(router));
        let addresses = ["198.51.100.9/24", "198.51.100.10/24", "2001:db8:9::9/64"];
        let outside = host("outside", 9, &addresses, &["198.51.100.1", "2001:db8:9::1"]);
        let outside = Kit::plain(Machine::Host(Box::new(Host::new(outside))));
        let outside = world.fabric.add("outside", outside);
        world.devices.insert("outside".to_owned(), outside);
        let router = world.devices["router"];
        world.fabric.join((router, 1), (outside, 0), LinkSettings::default());
        world.peer("peer", 20, None);
        world.node("win", 11, options);
        world
    }

    fn add(&mut self, name: &str, host: Host) -> DeviceId {
        let device = self.fabric.add(name, Kit::plain(Machine::Host(Box::new(host))));
        self.plug(name, device);
        device
    }

    /// Joins a device to the LAN.
    fn plug(&mut self, name: &str, device: DeviceId) {
        self.devices.insert(name.to_owned(), device);
        let grow = |kit: &mut Kit| match &mut kit.machine {
            Machine::Switch(switch) => switch.add_port(),
            _ => panic!("a switch"),
        };
        let port = self.fabric.with(self.lan, |kit, _, _| grow(kit)).unwrap();
        self.fabric.join((device, 0), (self.lan, port), LinkSettings::default());
    }

    /// A plain host of the LAN, 192.0.2.`last`, on a VLAN if one is given.
    pub(crate) fn peer(&mut self, name: &str, last: u8, vlan: Option<u16>) -> DeviceId {
        let addresses = [format!("192.0.2.{last}/24"), format!("2001:db8:1::{last}/64")];
        let addresses = addresses.each_ref().map(String::as_str);
        let stack = host(name, last, &addresses, &["192.0.2.1", "2001:db8:1::1"]);
        let device = self.add(name, Host::new(stack));
        self.fabric.with(device, |kit, _, _| kit.vlan = vlan);
        device
    }

    /// A Windows node, 192.0.2.`last`.
    pub(crate) fn node(&mut self, name: &str, last: u8, options: impl FnOnce(&mut Options)) {
        let addresses = vec![net(&format!("192.0.2.{last}/24")), net(&format!("2001:db8:1::{last}/64"))];
        let clock = ManualClock::jumping();
        let switch = Arc::new(SwitchHandle::default());
        let mut opened = Options::new(Profile::Newest);
        opened.switches = Switches::of(Profile::Newest);
        opened.clock = Arc::new(clock.clone());
        opened.entropy = Arc::new(SeededEntropy::new(u64::from(last)));
        opened.datapath = Some(Arc::clone(&switch) as Arc<dyn hns::Datapath>);
        name.clone_into(&mut opened.host.name);
        opened.host.adapters = vec![Adapter {
            name: "Ethernet".to_owned(),
            mac: hcn::Mac::from_octets(node_mac(last).0),
            addresses: addresses.clone(),
        }];
        options(&mut opened);
        let hns = Hns::open(opened).unwrap();
        let spec = WindowsSpec {
            name: name.to_owned(),
            seed: u64::from(last),
            mac: node_mac(last),
            addresses,
            routers: vec![ip("192.0.2.1"), ip("2001:db8:1::1")],
            forwarding: true,
        };
        let mut windows = WindowsNode::new(&spec, hns.clone(), Arc::clone(&switch));
        serve(windows.host_mut());
        let names = PortNames::default();
        windows.set_observer(Some(self.log.observer(Rc::clone(&names))));
        let device = self.fabric.add(name, Kit::plain(Machine::Windows(Box::new(windows))));
        self.plug(name, device);
        self.nodes.insert(name.to_owned(), Node { device, hns, switch, clock, names });
        let nodes = self.nodes.values().map(|node| node.device).collect();
        self.fabric.set_tap(Some(self.log.tap(nodes)));
        self.follow();
    }

    /// Acts on a node itself.
    pub(crate) fn windows<R>(&mut self, node: &str, act: impl FnOnce(&mut WindowsNode) -> R) -> R {
        let device = self.nodes[node].device;
        let inner = |kit: &mut Kit| match &mut kit.machine {
            Machine::Windows(node) => act(node),
            _ => panic!("a Windows node"),
        };
        self.fabric.with(device, |kit, _, _| inner(kit)).unwrap()
    }

    /// Takes over what HNS has changed: stacks of pods, names of ports.
    pub(crate) fn follow(&mut self) {
        let names: Vec<String> = self.nodes.keys().cloned().collect();
        for name in names {
            self.windows(&name, WindowsNode::sync);
            let node = &self.nodes[&name];
            let ports = node.switch.ports();
            let present = ports.into_iter().map(|port| (port.name, port.nic_name)).collect();
            let before: BTreeMap<_, String> = std::mem::replace(&mut *node.names.borrow_mut(), present);
            // Drops at a port that has just gone can still be told apart.
            for (port, name) in before {
                node.names.borrow_mut().entry(port).or_insert(name);
            }
            assert_eq!(node.hns.datapath_errors(), Vec::<String>::new(), "{name}");
        }
    }

    /// Where a stack is: the device, and the pod on it.
    fn place(&self, who: &str) -> (DeviceId, Option<String>) {
        if let Some(&device) = self.devices.get(who) {
            return (device, None);
        }
        let on = |node: &&Node| match &self.fabric.device(node.device).unwrap().machine {
            Machine::Windows(windows) => windows.pod(who).is_some(),
            _ => false,
        };
        let node = self.nodes.values().find(on).unwrap_or_else(|| panic!("nobody is called {who}"));
        (node.device, Some(who.to_owned()))
    }

    /// Acts on a stack: a machine's by its name, or a pod's.
    pub(crate) fn act<R>(&mut self, who: &str, act: impl FnOnce(&mut Stack, Duration) -> R) -> R {
        let (device, pod) = self.place(who);
        let run = |kit: &mut Kit, now, out: &mut _| {
            kit.act(out, |machine, out| {
                let result = act(machine.stack_mut(pod.as_deref()).unwrap(), now);
                machine.flush(now, out);
                result
            })
        };
        self.fabric.with(device, run).unwrap()
    }

    pub(crate) fn stack(&self, who: &str) -> &Stack {
        let (device, pod) = self.place(who);
        self.fabric.device(device).unwrap().machine.stack(pod.as_deref()).unwrap()
    }

    pub(crate) fn run(&mut self, time: Duration) {
        self.fabric.run_until(self.fabric.now() + time);
    }

    /// Makes the way to a machine of the LAN longer.
    pub(crate) fn slow(&mut self, who: &str, delay: Duration) {
        let link = self.fabric.link_at(self.devices[who], 0).unwrap();
        self.fabric.link_mut(link).unwrap().delay = delay;
    }

    /// Starts an exchange.
    pub(crate) fn start(&mut self, from: &str, request: Request) -> ClientId {
        self.act(from, |stack, now| stack.request(now, request))
    }

    /// Lets an exchange come to its end.
    pub(crate) fn finish(&mut self, from: &str, client: ClientId) -> Exchange {
        let until = self.fabric.now() + Duration::from_mins(5);
        let (device, pod) = self.place(from);
        let open = |fabric: &Fabric<Kit>| {
            let stack = fabric.device(device).unwrap().machine.stack(pod.as_deref());
            stack.is_some_and(|stack| stack.exchange(client).is_none())
        };
        assert!(self.fabric.run_while(until, open), "an exchange always ends");
        self.act(from, |stack, _| stack.take_exchange(client)).unwrap()
    }

    pub(crate) fn exchange(&mut self, from: &str, request: Request) -> Exchange {
        let client = self.start(from, request);
        self.finish(from, client)
    }

    /// A whole exchange with 3,000 bytes each way; it is given up after five seconds.
    pub(crate) fn ask(&mut self, from: &str, to: &str, transport: Transport) -> Exchange {
        self.exchange(from, request(to, transport))
    }

    /// Whether an echo comes back within two seconds.
    pub(crate) fn ping(&mut self, from: &str, to: &str) -> bool {
        self.echo += 1;
        let (id, to) = (self.echo, ip(to));
        self.act(from, |stack, now| stack.ping(now, to, id, 1));
        self.run(Duration::from_secs(2));
        self.act(from, |stack, _| stack.take_echo(to, id))
    }

    /// Asserts that the exchange is answered, by whom, and whom the server sees.
    #[track_caller]
    pub(crate) fn answered(&mut self, from: &str, to: &str, transport: Transport, server: &str, seen: &str) {
        let done = self.ask(from, to, transport);
        let got = done.outcome.answer().map(|answer| (&*answer.server, answer.peer.ip()));
        let drops = self.log.take_drops();
        assert_eq!(
            got,
            Some((server, ip(seen))),
            "{from} to {to} by {transport}: {}\n{drops:#?}",
            done.outcome
        );
    }

    /// Asserts that the exchange ends without an answer and that a switch says why: at whose port, for which reason,
    /// by which rule (its name; empty: none).
    #[track_caller]
    pub(crate) fn refused(
        &mut self,
        from: &str,
        to: &str,
        transport: Transport,
        why: (&str, vfp::DropReason, &str),
    ) {
        self.log.clear();
        let done = self.ask(from, to, transport);
        assert!(done.outcome.answer().is_none(), "{from} to {to} by {transport}: {}", done.outcome);
        self.dropped(why);
    }

    /// Asserts that the last drops hold one.
    #[track_caller]
    pub(crate) fn dropped(&self, (port, reason, rule): (&str, vfp::DropReason, &str)) {
        let drops = self.log.take_drops();
        let is_it = |drop: &Dropped| {
            let name = drop.rule.as_ref().map_or("", |rule| &rule.name);
            let id = drop.rule.as_ref().map_or("", |rule| &rule.rule);
            drop.port == port && drop.reason == reason && (name == rule || id == rule)
        };
        assert!(drops.iter().any(is_it), "wanted {port} {reason} {rule}: {drops:#?}");
    }

    /// What passed a node's adapter since the last time.
    pub(crate) fn frames(&self, node: &str) -> Vec<OnWire> {
        self.log.take_frames(self.nodes[node].device)
    }
}

pub(crate) fn request(to: &str, transport: Transport) -> Request {
    let to: SocketAddr = to.parse().unwrap();
    Request { timeout: Duration::from_secs(5), ..Request::new(to, transport) }.payload(3000)
}

/// Whether an exchange was cut off without anybody saying so.
pub(crate) fn silent(exchange: &Exchange) -> bool {
    exchange.outcome == Outcome::TimedOut
}
