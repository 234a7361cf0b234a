//! What a cluster's objects say about one node's pod network. Pure: no HNS is asked.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;
use services::{Cluster, IpFamily};

/// How the pods of different nodes reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkKind {
    /// VXLAN.
    Overlay,
    /// Routed, every node's pods behind the node's own MAC.
    L2Bridge,
}

impl fmt::Display for NetworkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overlay => "overlay",
            Self::L2Bridge => "l2bridge",
        })
    }
}

impl FromStr for NetworkKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "overlay" => Ok(Self::Overlay),
            "l2bridge" => Ok(Self::L2Bridge),
            _ => Err(format!("{text:?} is not a network kind: use overlay or l2bridge")),
        }
    }
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub name: Arc<str>,
    /// Its address.
    pub address: IpAddr,
    /// Its pods.
    pub pod_cidrs: Vec<IpNet>,
    /// The MAC of its tunnel device, dash form.
    pub tunnel_mac: String,
}

/// A pod with an endpoint of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSpec {
    /// `namespace/name`.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// What one node's HNS is to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// The node.
    pub name: Arc<str>,
    /// Overlay or bridge.
    pub kind: NetworkKind,
    /// The HNS network's name.
    pub network_name: String,
    /// The node's addresses.
    pub addresses: Vec<IpAddr>,
    /// The node's pods.
    pub pod_cidrs: Vec<IpNet>,
    /// The other nodes.
    pub peers: Vec<Peer>,
    /// The pods on the node, by name.
    pub pods: Vec<PodSpec>,
    /// The host's own endpoint on a bridge (`--root-hnsendpoint-name`).
    pub root_endpoint: String,
    /// This HNS takes both families on one network.
    pub dual_stack: bool,
    /// The VXLAN network identifier.
    pub vsid: u32,
}

/// What is missing in the cluster's objects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// There is no such Node.
    #[error("there is no Node {name}; {}", known(.nodes))]
    NoNode {
        /// The name that was asked for.
        name: String,
        /// The Windows nodes there are.
        nodes: Vec<String>,
    },
    /// The Node is not a Windows node.
    #[error("Node {0}: label kubernetes.io/os is not windows; choose a Windows node")]
    NotWindows(String),
    /// A field of the Node is missing.
    #[error("Node {node}: {field} is missing; {right}")]
    Missing {
        /// The Node.
        node: String,
        /// The field.
        field: &'static str,
        /// What would be right.
        right: &'static str,
    },
}

fn known(nodes: &[String]) -> String {
    if nodes.is_empty() {
        "the input has no Windows node".to_owned()
    } else {
        format!("Windows nodes in the input: {}", nodes.join(", "))
    }
}

impl NodeSpec {
    /// Reads one node's part out of the cluster. `dual_stack`: this HNS takes both families on one network.
    pub fn of(
        cluster: &Cluster,
        name: &str,
        kind: NetworkKind,
        network_name: &str,
        root_endpoint: &str,
        dual_stack: bool,
    ) -> Result<Self, SpecError> {
        let Some(own) = cluster.node(name) else {
            let nodes =
                cluster.nodes().filter(|node| node.windows).map(|node| node.name.to_string()).collect();
            return Err(SpecError::NoNode { name: name.to_owned(), nodes });
        };
        if !own.windows {
            return Err(SpecError::NotWindows(name.to_owned()));
        }
        if own.addresses.is_empty() {
            return Err(SpecError::Missing {
                node: name.to_owned(),
                field: "status.addresses",
                right: "give it an address of type InternalIP",
            });
        }
        if own.pod_cidrs.is_empty() {
            return Err(SpecError::Missing {
                node: name.to_owned(),
                field: "spec.podCIDR",
                right: "give it a range such as 10.244.1.0/24",
            });
        }
        // An overlay carries the node's first family only, and so does an old build's bridge.
        let served = |family: IpFamily| match kind {
            NetworkKind::L2Bridge if dual_stack => {
                own.addresses.iter().any(|&address| IpFamily::of(address) == family)
            }
            _ => own.addresses.first().is_some_and(|&first| IpFamily::of(first) == family),
        };
        let pod_cidrs: Vec<IpNet> =
            own.pod_cidrs.iter().copied().filter(|cidr| served(IpFamily::of_net(cidr))).collect();
        let inside = |address: &IpAddr| pod_cidrs.iter().any(|cidr| cidr.contains(address));
        let mut pods: Vec<PodSpec> = cluster
            .pods_on(name)
            .filter(|pod| !pod.host_network && !pod.finished())
            .map(|pod| PodSpec {
                name: format!("{}/{}", pod.namespace, pod.name),
                addresses: pod.ips.iter().copied().filter(inside).collect(),
            })
            .filter(|pod| !pod.addresses.is_empty())
            .collect();
        pods.sort_by(|a, b| a.name.cmp(&b.name));
        let mut peers: Vec<Peer> = cluster
            .nodes()
            .filter(|node| *node.name != *name)
            .filter_map(|node| {
                let address =
                    node.addresses.iter().copied().find(|&address| served(IpFamily::of(address)))?;
                Some(Peer {
                    name: Arc::clone(&node.name),
                    address: node.overlay.public_ip.unwrap_or(address),
                    pod_cidrs: node
                        .pod_cidrs
                        .iter()
                        .copied()
                        .filter(|cidr| served(IpFamily::of_net(cidr)))
                        .collect(),
                    tunnel_mac: tunnel_mac(node.overlay.vtep_mac, address),
                })
            })
            .collect();
        peers.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self {
            name: Arc::clone(&own.name),
            kind,
            network_name: network_name.to_owned(),
            addresses: own.addresses.clone(),
            pod_cidrs,
            peers,
            pods,
            root_endpoint: root_endpoint.to_owned(),
            dual_stack,
            vsid: own.overlay.vni.filter(|&vni| vni >= 4096).unwrap_or(4096),
        })
    }

    /// The MAC of the node's adapter: the same in every run.
    pub fn host_mac(&self) -> [u8; 6] {
        adapter_mac(&self.name)
    }
}

/// A MAC of a name: Microsoft's prefix for virtual adapters and three bytes of an FNV-1a hash.
fn adapter_mac(name: &str) -> [u8; 6] {
    let hash =
        name.bytes().fold(0x811C_9DC5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let [a, b, c, _] = hash.to_be_bytes();
    [0x00, 0x15, 0x5D, a, b, c]
}

/// The tunnel device's MAC as its agent announces it, else one of the address: locally administered, as Linux'
/// VXLAN devices have.
pub fn tunnel_mac(announced: Option<[u8; 6]>, address: IpAddr) -> String {
    let mac = announced.unwrap_or_else(|| {
        let [a, b, c, d] = match address {
            IpAddr::V4(v4) => v4.octets(),
            IpAddr::V6(v6) => {
                let octets = v6.octets();
                [octets[12], octets[13], octets[14], octets[15]]
            }
        };
        [0x0E, 0x2A, a, b, c, d]
    });
    dashed(mac)
}

/// A MAC in the form HNS uses.
pub(crate) fn dashed(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02X}")).join("-")
}
