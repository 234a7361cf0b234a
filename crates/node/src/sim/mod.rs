//! A whole cluster in memory: its Windows and Linux nodes, their pods with the servers that slices speak of, the
//! underlay with its router, and a client outside. Whole exchanges run in virtual time.
//!
//! What a node's agents do to its HNS comes from outside ([`Agents`]): this module knows nothing of proxies.

mod build;
mod machine;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use hns::{Hns, Options, Profile};
use ipnet::IpNet;
use services::Cluster;

pub use machine::Machine;

use crate::app::{Exchange, Request};
use crate::fabric::{DeviceId, Fabric, LinkSettings};
use crate::furnish::FurnishError;
use crate::spec::{NetworkKind, NodeSpec, SpecError};
use crate::stack::{ClientId, Route, ServiceRule, ServiceTable, Stack};
use crate::windows::WindowsNode;

/// How a cluster's network is made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Decides all chance.
    pub seed: u64,
    /// Overlay or bridge.
    pub kind: NetworkKind,
    /// The HNS network's name; none: the one of Flannel's manifests.
    pub network: Option<String>,
    /// The host's own endpoint on a bridge.
    pub root_endpoint: String,
    /// The VXLAN network identifier of Linux nodes.
    pub vni: u32,
    /// All links of the underlay.
    pub link: LinkSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 1,
            kind: NetworkKind::Overlay,
            network: None,
            root_endpoint: "cbr0".to_owned(),
            vni: 4096,
            link: LinkSettings::default(),
        }
    }
}

impl Settings {
    fn network_name(&self) -> &str {
        match (&self.network, self.kind) {
            (Some(name), _) => name,
            (None, NetworkKind::Overlay) => "vxlan0",
            (None, NetworkKind::L2Bridge) => "cbr0",
        }
    }
}

/// A Windows node whose network and pods are there.
pub struct Furnishing<'a> {
    /// What was asked for.
    pub node: &'a NodeSpec,
    /// The node's HNS.
    pub hns: &'a Hns,
}

/// What runs on nodes besides the CNI plugin.
pub trait Agents {
    /// Which build a node is; `build` is what its Node says, such as `10.0.20348`.
    fn profile(&mut self, node: &str, build: Option<&str>) -> Profile {
        let _ = (node, build);
        Profile::Ws2022
    }

    /// Last changes to how a node's HNS is opened. The datapath, the clock and the host must stay.
    fn options(&mut self, node: &str, options: &mut Options) {
        let _ = (node, options);
    }

    /// Makes a node's HNS hold what the node's agents would: a proxy's load balancers.
    fn program(&mut self, node: &Furnishing<'_>) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// The frontends that a Linux node serves.
    fn linux(&mut self, node: &str) -> Vec<ServiceRule> {
        let _ = node;
        Vec::new()
    }
}

/// Nodes without a proxy.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAgents;

impl Agents for NoAgents {
    fn program(&mut self, _: &Furnishing<'_>) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}

/// A cluster that cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// A Windows node's object lacks something.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A node's HNS does not start.
    #[error("node {node}: {error}")]
    Open {
        /// The node.
        node: String,
        /// Why.
        error: Box<hns::OpenError>,
    },
    /// A node's HNS refuses its network or pods.
    #[error("node {node}: {error}")]
    Furnish {
        /// The node.
        node: String,
        /// Why.
        error: FurnishError,
    },
    /// A node's agents fail.
    #[error("node {node}: {error}")]
    Agents {
        /// The node.
        node: String,
        /// Why.
        error: Box<dyn Error + Send + Sync>,
    },
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    /// A pod, by `namespace/name`.
    Pod(String),
    /// A program on a node's host.
    Node(String),
    /// The client outside.
    Outside,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(name) => write!(f, "pod/{name}"),
            Self::Node(name) => write!(f, "node/{name}"),
            Self::Outside => f.write_str("outside"),
        }
    }
}

impl FromStr for Client {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some(("pod", name)) if !name.is_empty() => Ok(Self::Pod(name.to_owned())),
            Some(("node", name)) if !name.is_empty() => Ok(Self::Node(name.to_owned())),
            None if text == "outside" => Ok(Self::Outside),
            _ => Err(format!("{text:?} is not a client: use pod/NAMESPACE/NAME, node/NAME or outside")),
        }
    }
}

/// There is no such client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownClient {
    /// The objects do not speak of it, or it has no addresses of its own.
    #[error("{0}: there is no such machine in the simulation")]
    NoMachine(Client),
    /// The node is there and has no such pod, because HNS has no endpoint for it.
    #[error("{0}: its node has no stack for it; HNS holds no attached endpoint of that name")]
    NoStack(Client),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    device: DeviceId,
    pod: Option<String>,
}

/// An exchange that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    place: Place,
    client: ClientId,
    until: Duration,
}

/// A cluster in memory.
#[derive(Debug)]
pub struct Simulation {
    fabric: Fabric<Machine>,
    /// Where each pod is.
    places: BTreeMap<String, Place>,
    nodes: BTreeMap<String, DeviceId>,
    router: DeviceId,
    outside: DeviceId,
    vips: BTreeSet<IpAddr>,
    specs: BTreeMap<String, NodeSpec>,
    /// The ranges of each node's pods.
    pod_cidrs: BTreeMap<String, Vec<IpNet>>,
}

impl Simulation {
    /// Builds what a cluster's objects speak of. The cluster's perspective decides which families there are; it
    /// should serve those of the nodes.
    pub fn new(
        cluster: &Cluster,
        settings: &Settings,
        agents: &mut dyn Agents,
    ) -> Result<Self, SimulationError> {
        build::build(cluster, settings, agents)
    }

    /// The machines and links.
    pub fn fabric(&self) -> &Fabric<Machine> {
        &self.fabric
    }

    /// The machines and links.
    pub fn fabric_mut(&mut self) -> &mut Fabric<Machine> {
        &mut self.fabric
    }

    /// The nodes' names.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    /// The machine of a node.
    pub fn node(&self, name: &str) -> Option<DeviceId> {
        self.nodes.get(name).copied()
    }

    /// What a Windows node's HNS was asked to hold.
    pub fn spec(&self, node: &str) -> Option<&NodeSpec> {
        self.specs.get(node)
    }

    /// The pods and their nodes.
    pub fn pods(&self) -> impl Iterator<Item = (&str, &str)> {
        self.places.iter().map(|(pod, place)| (&**pod, self.fabric.name(place.device)))
    }

    /// External and ingress addresses of the cluster's Services.
    pub fn vips(&self) -> impl Iterator<Item = IpAddr> {
        self.vips.iter().copied()
    }

    /// A Windows node.
    pub fn windows(&self, name: &str) -> Option<&WindowsNode> {
        match self.fabric.device(self.node(name)?)? {
            Machine::Windows(node) => Some(node),
            _ => None,
        }
    }

    /// Acts on a Windows node; what it sends because of that goes out.
    pub fn with_windows<R>(&mut self, name: &str, act: impl FnOnce(&mut WindowsNode) -> R) -> Option<R> {
        let device = self.node(name)?;
        self.fabric.with(device, |machine, now, out| {
            let Machine::Windows(node) = machine else { return None };
            let result = act(node);
            node.flush(now, out);
            Some(result)
        })?
    }

    /// Replaces the frontends that a Linux node serves. Tells whether there is such a node.
    pub fn serve_on_linux(&mut self, name: &str, rules: Vec<ServiceRule>) -> bool {
        let table = ServiceTable { rules, pods: self.pod_cidrs.get(name).cloned().unwrap_or_default() };
        let Some(device) = self.node(name) else { return false };
        let served = self.fabric.with(device, |machine, _, _| {
            let Machine::Linux(node) = machine else { return false };
            node.set_services(table);
            true
        });
        served.unwrap_or(false)
    }

    /// The router sends packets for an address to a node, as a load balancer or a routing protocol would have it.
    /// Tells whether the node has an address of the family.
    pub fn attract(&mut self, vip: IpAddr, node: &str) -> bool {
        let addresses = |stack: &Stack| -> Vec<IpAddr> {
            stack.interfaces().flat_map(|interface| interface.addresses.iter().map(IpNet::addr)).collect()
        };
        let device = self.node(node).and_then(|device| self.fabric.device(device));
        let own = device.and_then(|machine| machine.stack(None)).map(addresses).unwrap_or_default();
        let Some(via) = own.into_iter().find(|address| address.is_ipv4() == vip.is_ipv4()) else {
            return false;
        };
        let routed = self.act(&Place { device: self.router, pod: None }, |stack, _| {
            let Some(interface) = stack.routes().hop(via).map(|hop| hop.interface) else { return false };
            let destination = IpNet::from(vip);
            stack.routes_mut().remove(destination);
            stack.routes_mut().add(Route { destination, via: Some(via), interface, metric: 0 });
            true
        });
        routed.unwrap_or(false)
    }

    fn place(&self, client: &Client) -> Result<Place, UnknownClient> {
        let place = match client {
            Client::Pod(name) => self.places.get(name).cloned(),
            Client::Node(name) => self.node(name).map(|device| Place { device, pod: None }),
            Client::Outside => Some(Place { device: self.outside, pod: None }),
        };
        place.ok_or_else(|| UnknownClient::NoMachine(client.clone()))
    }

    /// Acts on a stack; what it sends because of that goes out.
    fn act<R>(&mut self, place: &Place, act: impl FnOnce(&mut Stack, Duration) -> R) -> Option<R> {
        self.fabric.with(place.device, |machine, now, out| {
            let result = act(machine.stack_mut(place.pod.as_deref())?, now);
            machine.flush(now, out);
            Some(result)
        })?
    }

    /// Acts on a client's stack; what it sends because of that goes out.
    pub fn with_stack<R>(
        &mut self,
        client: &Client,
        act: impl FnOnce(&mut Stack, Duration) -> R,
    ) -> Result<R, UnknownClient> {
        let place = self.place(client)?;
        self.act(&place, act).ok_or_else(|| UnknownClient::NoStack(client.clone()))
    }

    /// Starts an exchange.
    pub fn start(&mut self, from: &Client, request: Request) -> Result<Ticket, UnknownClient> {
        /// An exchange that has not ended by then never will.
        const GRACE: Duration = Duration::from_secs(10);
        let place = self.place(from)?;
        let until = self.fabric.now() + request.timeout + GRACE;
        let client = self.act(&place, |stack, now| stack.request(now, request));
        let client = client.ok_or_else(|| UnknownClient::NoStack(from.clone()))?;
        Ok(Ticket { place, client, until })
    }

    /// Lets things happen until an exchange has ended. `None`: it was finished before, or its pod is gone.
    pub fn finish(&mut self, ticket: &Ticket) -> Option<Exchange> {
        let Ticket { place, client, until } = ticket;
        self.fabric.run_while(*until, |fabric| {
            let stack = fabric.device(place.device).and_then(|machine| machine.stack(place.pod.as_deref()));
            stack.is_some_and(|stack| stack.exchange(*client).is_none())
        });
        self.act(place, |stack, _| stack.take_exchange(*client))?
    }

    /// Runs a whole exchange.
    pub fn exchange(&mut self, from: &Client, request: Request) -> Result<Exchange, UnknownClient> {
        let ticket = self.start(from, request)?;
        self.finish(&ticket).ok_or_else(|| UnknownClient::NoStack(from.clone()))
    }

    /// Lets things happen for some time.
    pub fn run_for(&mut self, time: Duration) {
        self.fabric.run_until(self.fabric.now() + time);
    }
}
