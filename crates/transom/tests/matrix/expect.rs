//! What must happen, from the Services as the deciding node sees them. It knows which backends may serve whom and whom
//! they see, nothing of HNS or of packets.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use node::sim::Client;
use services::{Cluster, IpFamily, Protocol, ServicePort, TrafficPolicy};
use transom::world::{World, linux};

use crate::ask::{Ask, Frontend};

/// Whom a backend must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sees {
    /// The client's own address.
    Client,
    /// Another one, of a node.
    Node,
    /// Either; the network decides.
    Any,
}

/// Why nobody must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    /// Cluster IPs are not routed outside.
    NotRouted,
    /// A Windows node cannot use its own node ports.
    OwnNodePort,
    /// The Service has no backend that could serve.
    NoBackend,
    /// The policy is Local and the node has no backend.
    NoLocalBackend,
    /// The Service does not let the client in.
    SourceRange,
}

impl Why {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::NotRouted => "cluster IPs are not routed outside of the cluster",
            Self::OwnNodePort => "a Windows node cannot use its own node ports",
            Self::NoBackend => "the Service has no usable backend",
            Self::NoLocalBackend => "the policy is Local and the deciding node has no usable backend",
            Self::SourceRange => {
                "`loadBalancerSourceRanges` does not hold the client (kept on Linux nodes only)"
            }
        }
    }
}

/// What must be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// One of these answers.
    Answer(BTreeMap<SocketAddr, Sees>),
    /// Nobody answers.
    Nothing(Why, Decider),
}

/// Whose service handling decides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Decider {
    /// No node's.
    Nobody,
    /// A Windows node's.
    Windows(String),
    /// A Linux node's.
    Linux(String),
}

/// A client as nodes know it.
struct Asker {
    /// The node that it is on; none: outside.
    node: Option<String>,
    is_pod: bool,
    addresses: Vec<IpAddr>,
}

/// How a client comes to a deciding node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comes {
    /// From a pod of the node's.
    Pod,
    /// From the node itself.
    Node,
    /// From anywhere else.
    Outside,
}

/// What must happen. None: the client or the entry do not serve the family.
pub(crate) fn expected(world: &mut World, client: &Client, ask: &Ask) -> Option<Expected> {
    let asker = Asker {
        node: node_of(world, client),
        is_pod: matches!(client, Client::Pod(_)),
        addresses: client_addresses(world, client),
    };
    let family = IpFamily::of(ask.to.ip());
    let served = |node: &String| families(world, node).contains(&family);
    if !asker.node.iter().chain(&ask.entry).all(served) {
        return None;
    }
    let is_windows = |node: &str| world.simulation.windows(node).is_some();
    let (first, comes) = match (&asker.node, ask.frontend) {
        (None, Frontend::ClusterIp) => return Some(Expected::Nothing(Why::NotRouted, Decider::Nobody)),
        (None, _) => (ask.entry.clone()?, Comes::Outside),
        (Some(on), Frontend::NodePort) if ask.entry.as_ref() != Some(on) => {
            (ask.entry.clone()?, Comes::Outside)
        }
        (Some(on), Frontend::NodePort) if !asker.is_pod && is_windows(on) => {
            return Some(Expected::Nothing(Why::OwnNodePort, Decider::Windows(on.clone())));
        }
        (Some(on), _) => (on.clone(), if asker.is_pod { Comes::Pod } else { Comes::Node }),
    };
    let leaves = ask.frontend.is_led() && is_windows(&first) && ask.entry.as_ref() != Some(&first);
    let decided = decide(world, &first, comes, &asker, ask)?;
    match (&decided, &ask.entry) {
        // Without a load balancer the packet goes where the address is led to.
        (Expected::Nothing(..), Some(entry)) if leaves => {
            decide(world, &entry.clone(), Comes::Outside, &asker, ask)
        }
        _ => Some(decided),
    }
}

/// What a node makes of a packet for one of its frontends.
fn decide(world: &mut World, node: &str, comes: Comes, asker: &Asker, ask: &Ask) -> Option<Expected> {
    let own: Vec<IpAddr> = world.cluster.node(node).map(|facts| facts.addresses.clone()).unwrap_or_default();
    let pods: Vec<ipnet::IpNet> =
        world.cluster.nodes().flat_map(|node| node.pod_cidrs.iter().copied()).collect();
    if world.simulation.windows(node).is_some() {
        let cluster = world.proxies.get_mut(node)?.driver().cluster();
        return on_windows(cluster, node, asker, ask);
    }
    let port = find(world.linux.of(node)?, ask)?;
    let nothing = |why| Some(Expected::Nothing(why, Decider::Linux(node.to_owned())));
    let admitted = |address: &IpAddr| ask.sources.iter().any(|range| range.contains(address));
    if !ask.sources.is_empty() && !asker.addresses.iter().any(admitted) {
        return nothing(Why::SourceRange);
    }
    let every = linux::backends(&port, TrafficPolicy::Cluster);
    let internal = ask.frontend == Frontend::ClusterIp;
    // Under the external policy Local, pods and the node itself still get every backend.
    let held = ask.local && (internal || comes == Comes::Outside);
    let usable = if held { linux::backends(&port, TrafficPolicy::Local) } else { every.clone() };
    if usable.is_empty() {
        return nothing(if every.is_empty() { Why::NoBackend } else { Why::NoLocalBackend });
    }
    let sees = |backend: &SocketAddr| {
        let stays = own.contains(&backend.ip());
        let outside = !stays && !pods.iter().any(|range| range.contains(&backend.ip()));
        match comes {
            _ if asker.addresses.contains(&backend.ip()) => Sees::Any,
            Comes::Pod if stays && !internal => Sees::Any,
            // The CNI plugin's rule masquerades what leaves the pods' ranges.
            Comes::Pod if outside => Sees::Node,
            Comes::Pod if internal || ask.local => Sees::Client,
            // A node's address is masqueraded to a node's address.
            Comes::Node => Sees::Any,
            // A pod of another node comes with its own address or its node's.
            Comes::Outside if asker.node.is_some() => Sees::Any,
            Comes::Outside if ask.local || stays => Sees::Client,
            Comes::Pod | Comes::Outside => Sees::Node,
        }
    };
    Some(Expected::Answer(usable.iter().map(|backend| (*backend, sees(backend))).collect()))
}

fn on_windows(cluster: &Cluster, node: &str, asker: &Asker, ask: &Ask) -> Option<Expected> {
    let port = find(cluster, ask)?;
    let internal = ask.frontend == Frontend::ClusterIp;
    let mut usable = if internal { port.internal().to_vec() } else { port.external().to_vec() };
    if ask.preserve {
        usable.retain(|endpoint| endpoint.local);
    }
    if usable.is_empty() {
        let why = if port.cluster.is_empty() { Why::NoBackend } else { Why::NoLocalBackend };
        return Some(Expected::Nothing(why, Decider::Windows(node.to_owned())));
    }
    let kept = !internal && (ask.local || ask.preserve) && asker.node.is_none();
    let sees = |address: &IpAddr| match () {
        // A pod that asks itself is known by another address.
        () if asker.addresses.contains(address) => Sees::Any,
        () if kept => Sees::Client,
        () => Sees::Any,
    };
    let backend = |endpoint: &services::Endpoint| {
        (SocketAddr::new(endpoint.address, endpoint.port), sees(&endpoint.address))
    };
    Some(Expected::Answer(usable.iter().map(backend).collect()))
}

/// The service port of an ask, as a node sees it.
fn find(cluster: &Cluster, ask: &Ask) -> Option<ServicePort> {
    let key = cluster.services().find(|key| key.to_string() == ask.service)?;
    let number = ask.to.port();
    cluster.view(key)?.ports.into_iter().find(|port| {
        (port.protocol == Protocol::Udp) == ask.udp
            && port.protocol != Protocol::Sctp
            && port.family == IpFamily::of(ask.to.ip())
            && match ask.frontend {
                Frontend::NodePort => port.node_port == Some(number),
                _ => port.port == number,
            }
    })
}

/// The node that a client is on.
pub(crate) fn node_of(world: &World, client: &Client) -> Option<String> {
    match client {
        Client::Outside => None,
        Client::Node(name) => Some(name.clone()),
        Client::Pod(pod) => {
            world.simulation.pods().find(|(name, _)| name == pod).map(|(_, node)| node.to_owned())
        }
    }
}

/// The families that a node serves.
pub(crate) fn families(world: &World, node: &str) -> Vec<IpFamily> {
    let mut families: Vec<IpFamily> = if let Some(spec) = world.simulation.spec(node) {
        spec.pod_cidrs.iter().map(IpFamily::of_net).collect()
    } else {
        let facts = world.cluster.node(node);
        facts.into_iter().flat_map(|facts| &facts.addresses).map(|own| IpFamily::of(*own)).collect()
    };
    families.sort_unstable();
    families.dedup();
    families
}

/// A client's addresses.
pub(crate) fn client_addresses(world: &mut World, client: &Client) -> Vec<IpAddr> {
    let of_stack = |stack: &mut node::stack::Stack, _| {
        stack.interfaces().flat_map(|interface| interface.addresses.clone()).map(|net| net.addr()).collect()
    };
    world.simulation.with_stack(client, of_stack).unwrap_or_default()
}
