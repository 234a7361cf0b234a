//! What a lab is made of, before anything is made: from a cluster's topology to namespaces, devices, addresses and
//! routes. It is the cluster that [`node::sim`] has in memory: the same machines, addresses, routers and routes.
//!
//! Pure: nothing is asked of the system, and nothing is known of the tools that carry a plan out. The TAP devices of
//! Windows nodes are not in it, because they belong to who moves their frames; a [`WindowsPlan`] says what they are to
//! be.

mod linux;
mod model;
mod underlay;
mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;

use ipnet::IpNet;
use node::topology::{NodePlan, Topology};
use node::{NetworkKind, NodeSpec};
use services::Cluster;
use wire::Mac;

pub use linux::{LinuxPlan, PeerRange, Tunnel};
use model::Interface;
pub use model::{Address, Device, DeviceKind, Forwarding, Namespace, Neighbor, Route};
pub use windows::{WindowsPlan, WindowsPod};

use crate::names::Names;

/// What VXLAN adds to a packet.
const TUNNEL_HEADERS: u16 = 50;

/// How a cluster's network is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Settings {
    /// Overlay or bridge.
    #[serde(with = "kind")]
    pub kind: NetworkKind,
    /// The VXLAN network identifier of Linux nodes.
    pub vni: u32,
    /// The largest packet of the underlay.
    pub mtu: u16,
}

impl Default for Settings {
    fn default() -> Self {
        Self { kind: NetworkKind::Overlay, vni: 4096, mtu: 1500 }
    }
}

impl Settings {
    /// The largest packet of a pod.
    pub fn pod_mtu(&self) -> u16 {
        match self.kind {
            NetworkKind::Overlay => self.mtu.saturating_sub(TUNNEL_HEADERS),
            NetworkKind::L2Bridge => self.mtu,
        }
    }
}

/// A network's kind as text.
mod kind {
    use node::NetworkKind;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(kind: &NetworkKind, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(kind)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<NetworkKind, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A cluster that no lab can be made of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A Windows node's part of the cluster was not given.
    #[error("Node {0}: what its HNS is to hold is missing; give its NodeSpec")]
    NoSpec(String),
    /// A name is too long for a namespace.
    #[error(
        "{what}: {name} would be the name of its network namespace and has more than 255 bytes; use a shorter name"
    )]
    LongName {
        /// Whose name.
        what: String,
        /// The name.
        name: String,
    },
    /// Two of the cluster's objects would have one namespace.
    #[error("{what}: its network namespace {name} is taken by another object; rename one of them")]
    Taken {
        /// Whose name.
        what: String,
        /// The name.
        name: String,
    },
}

/// Where a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPlace {
    /// Its node.
    pub node: String,
    /// Its network namespace; of a pod on the host network the node's.
    pub namespace: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// What a lab is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabPlan {
    /// How the network is made.
    pub settings: Settings,
    /// All network namespaces, by name.
    pub namespaces: BTreeMap<String, Namespace>,
    /// The Linux nodes.
    pub linux: Vec<LinuxPlan>,
    /// The Windows nodes.
    pub windows: Vec<WindowsPlan>,
    /// The pods, by `namespace/name`.
    pub pods: BTreeMap<String, PodPlace>,
    /// The namespace of the router.
    pub router: String,
    /// The namespace of the client outside.
    pub outside: String,
    /// The namespace of the underlay's bridges.
    pub underlay: String,
    /// The nodes' addresses and the router's interface to each: where packets can be attracted to.
    nodes: BTreeMap<String, (Vec<IpAddr>, String)>,
}

/// What plans are made from.
#[derive(Clone, Copy)]
struct Input<'a> {
    cluster: &'a Cluster,
    topology: &'a Topology,
    specs: &'a BTreeMap<String, NodeSpec>,
    settings: Settings,
    names: &'a Names,
}

impl LabPlan {
    /// Plans a cluster. `specs`: of every Windows node, by name. Of the Windows nodes' tunnels nothing is known yet
    /// ([`set_tunnels`](Self::set_tunnels)).
    pub fn of(
        cluster: &Cluster,
        topology: &Topology,
        specs: &BTreeMap<String, NodeSpec>,
        settings: Settings,
        names: &Names,
    ) -> Result<Self, PlanError> {
        let input = Input { cluster, topology, specs, settings, names };
        let mut plan = Self {
            settings,
            namespaces: BTreeMap::new(),
            linux: Vec::new(),
            windows: Vec::new(),
            pods: BTreeMap::new(),
            router: names.router(),
            outside: names.outside(),
            underlay: names.underlay(),
            nodes: BTreeMap::new(),
        };
        plan.add_underlay(&input)?;
        for node in &topology.nodes {
            let addresses = node.addresses.iter().map(IpNet::addr).collect();
            plan.nodes.insert(node.name.to_string(), (addresses, underlay::lan(node.segment)));
            if node.windows {
                plan.add_windows(&input, node)?;
            } else {
                plan.add_linux(&input, node)?;
            }
            for pod in &node.host_pods {
                let place = PodPlace {
                    node: node.name.to_string(),
                    namespace: names.node(&node.name),
                    addresses: pod.addresses.clone(),
                };
                plan.pods.insert(pod.name.clone(), place);
            }
        }
        plan.set_tunnels(&BTreeMap::new());
        Ok(plan)
    }

    /// Says which MACs the tunnels of nodes have, in place of what an earlier call said: of Windows nodes, whose HNS
    /// chooses them, and of others that differ from what was announced.
    pub fn set_tunnels(&mut self, told: &BTreeMap<String, Mac>) {
        let mut tunnels: BTreeMap<String, Mac> = self
            .linux
            .iter()
            .filter_map(|node| Some((node.node.clone(), node.tunnel.as_ref()?.mac)))
            .collect();
        tunnels.extend(told.iter().map(|(node, mac)| (node.clone(), *mac)));
        for node in &self.linux {
            let Some(namespace) = self.namespaces.get_mut(&node.namespace) else { continue };
            node.write_peers(namespace, &tunnels);
        }
    }

    /// The router sends packets for an address to a node, as a load balancer or a routing protocol would have it. Tells
    /// whether the node has an address of the family.
    pub fn attract(&mut self, vip: IpAddr, node: &str) -> bool {
        let Some((addresses, lan)) = self.nodes.get(node) else { return false };
        let via = addresses.iter().copied().find(|own| own.is_ipv4() == vip.is_ipv4());
        let (Some(via), Some(router)) = (via, self.namespaces.get_mut(&self.router)) else { return false };
        let destination = IpNet::from(vip);
        router.routes.retain(|route| route.destination != destination);
        router.routes.insert(Route::via(destination, via, lan));
        true
    }

    /// A Linux node.
    pub fn linux_node(&self, name: &str) -> Option<&LinuxPlan> {
        self.linux.iter().find(|node| node.node == name)
    }

    /// A Windows node.
    pub fn windows_node(&self, name: &str) -> Option<&WindowsPlan> {
        self.windows.iter().find(|node| node.node == name)
    }

    /// A new namespace; `what` it is for.
    fn namespace(&mut self, name: String, what: &str, forwarding: bool) -> Result<&mut Namespace, PlanError> {
        use std::collections::btree_map::Entry;
        if name.len() > 255 {
            return Err(PlanError::LongName { what: what.to_owned(), name });
        }
        match self.namespaces.entry(name) {
            Entry::Vacant(place) => Ok(place.insert(Namespace::new(forwarding))),
            Entry::Occupied(taken) => {
                Err(PlanError::Taken { what: what.to_owned(), name: taken.key().clone() })
            }
        }
    }

    /// Adds a veth pair: a machine's interface and the port of a bridge that it is joined with.
    fn join(&mut self, (namespace, name): (&str, &str), interface: Interface, hub: Hub<'_>) {
        let Some(found) = self.namespaces.get_mut(hub.namespace) else { return };
        let port = device_name(hub.prefix, hub.owner, |name| found.devices.contains_key(name));
        let kind = DeviceKind::Veth { namespace: namespace.to_owned(), device: name.to_owned() };
        let mut end = Device::new(kind, Interface::new(None, interface.mtu, []));
        end.bridge = Some(hub.bridge.to_owned());
        end.alias = Some(hub.owner.to_owned());
        found.devices.insert(port.clone(), end);
        if let Some(found) = self.namespaces.get_mut(namespace) {
            let kind = DeviceKind::VethEnd { namespace: hub.namespace.to_owned(), device: port };
            found.devices.insert(name.to_owned(), Device::new(kind, interface));
        }
    }
}

/// Where a machine is plugged in.
#[derive(Clone, Copy)]
struct Hub<'a> {
    namespace: &'a str,
    bridge: &'a str,
    /// What the port's name begins with.
    prefix: &'a str,
    /// Whose port it is.
    owner: &'a str,
}

/// A device's name that is not taken: what it is for, cut to the length that the kernel allows.
fn device_name(prefix: &str, owner: &str, taken: impl Fn(&str) -> bool) -> String {
    /// Without the zero at the end.
    const LONGEST: usize = 15;
    let plain = format!("{prefix}{owner}");
    let usable = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if plain.len() <= LONGEST && plain.chars().all(usable) && !taken(&plain) {
        return plain;
    }
    let mut hash = owner.bytes().fold(0x811c_9dc5, fold);
    loop {
        let mut name = prefix.to_owned();
        // Writing to a String does not fail.
        let _ = write!(name, "{hash:08x}");
        if !taken(&name) {
            return name;
        }
        hash = fold(hash, 0);
    }
}

/// FNV-1a.
fn fold(hash: u32, byte: u8) -> u32 {
    (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
}

/// An address with the length of the range that it lies in.
fn with_prefix<'a>(address: IpAddr, nets: impl IntoIterator<Item = &'a IpNet>) -> IpNet {
    let near = nets.into_iter().find(|net| net.contains(&address));
    near.and_then(|net| IpNet::new(address, net.prefix_len()).ok()).unwrap_or_else(|| address.into())
}

/// A range's host of this number, from 0.
fn host(net: &IpNet, number: usize) -> Option<IpNet> {
    let address = net.hosts().filter(|address| *address != net.network()).nth(number)?;
    IpNet::new(address, net.prefix_len()).ok()
}

/// A node's address of another's family.
fn same_family(node: &NodePlan, address: IpAddr) -> Option<IpAddr> {
    node.addresses.iter().map(IpNet::addr).find(|own| own.is_ipv4() == address.is_ipv4())
}

/// The routers of a node's segment.
fn routers(node: &NodePlan, topology: &Topology) -> Vec<IpAddr> {
    let segment = topology.segments.get(node.segment);
    segment.into_iter().flat_map(|segment| &segment.routers).map(IpNet::addr).collect()
}

/// The ways to the pods of the other nodes of a node's segment, by those nodes.
fn neighbors(node: &NodePlan, topology: &Topology) -> Vec<(IpNet, IpAddr)> {
    let near = topology.nodes.iter().filter(|other| other.segment == node.segment && other.name != node.name);
    near.flat_map(pod_routes).collect()
}

/// The ways to a node's pods, for each family that it has an address of.
fn pod_routes(node: &NodePlan) -> impl Iterator<Item = (IpNet, IpAddr)> + '_ {
    node.pod_cidrs.iter().filter_map(|cidr| Some((cidr.trunc(), same_family(node, cidr.addr())?)))
}

/// The addresses that a pod takes besides its own: those of the preserve-destination Services that it is behind.
fn accepted(topology: &Topology, addresses: &[IpAddr]) -> Vec<IpAddr> {
    let all: BTreeSet<IpAddr> =
        addresses.iter().filter_map(|address| topology.accepted.get(address)).flatten().copied().collect();
    all.into_iter().filter(|address| !addresses.contains(address)).collect()
}

#[cfg(test)]
pub(crate) mod tests;
