//! Who is asked by whom: every frontend of every Service by every way in, and one client of each kind on each node.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use node::NodeSpec;
use node::sim::Client;
use services::{IpFamily, Protocol, TrafficPolicy};
use transom::world::World;

use crate::expect::families;

/// A kind of frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Frontend {
    ClusterIp,
    NodePort,
    ExternalIp,
    IngressIp,
}

impl Frontend {
    /// Whether its packets must be led to a node.
    pub(crate) fn is_led(self) -> bool {
        matches!(self, Self::ExternalIp | Self::IngressIp)
    }
}

impl fmt::Display for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClusterIp => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::ExternalIp => "external IP",
            Self::IngressIp => "ingress IP",
        })
    }
}

/// A frontend to ask.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a property of a Service that a row of the matrix names"
)]
pub(crate) struct Ask {
    pub(crate) frontend: Frontend,
    /// The node whose port it is, or that the address is led to.
    pub(crate) entry: Option<String>,
    /// In-cluster clients ask as well: what they do does not depend on the entry.
    pub(crate) everybody: bool,
    pub(crate) local: bool,
    pub(crate) preserve: bool,
    pub(crate) affinity: bool,
    pub(crate) to: SocketAddr,
    pub(crate) udp: bool,
    /// Who is let in; empty: everybody.
    pub(crate) sources: Vec<IpNet>,
    pub(crate) service: String,
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = if self.udp { "UDP" } else { "TCP" };
        write!(f, "{} {} {}/{protocol}", self.service, self.frontend, self.to)?;
        match &self.entry {
            Some(entry) => write!(f, " by {entry}"),
            None => Ok(()),
        }
    }
}

/// Every frontend of every Service, by every way in.
pub(crate) fn asks(world: &World) -> Vec<Ask> {
    let nodes: Vec<String> = world.simulation.nodes().map(str::to_owned).collect();
    let first = world.windows_nodes().into_iter().min();
    let mut asks = Vec::new();
    for key in world.cluster.services() {
        let Some(view) = world.cluster.view(key) else { continue };
        for port in view.ports.iter().filter(|port| port.protocol != Protocol::Sctp) {
            let mut add = |frontend, entry: Option<&String>, address: IpAddr, number| {
                let policy =
                    if frontend == Frontend::ClusterIp { port.internal_policy } else { port.external_policy };
                asks.push(Ask {
                    frontend,
                    entry: entry.cloned(),
                    everybody: !frontend.is_led() || entry == first.as_ref(),
                    local: policy == TrafficPolicy::Local,
                    preserve: view.preserve_destination && frontend == Frontend::IngressIp,
                    affinity: port.affinity != services::Affinity::None,
                    to: SocketAddr::new(address, number),
                    udp: port.protocol == Protocol::Udp,
                    sources: if frontend == Frontend::IngressIp {
                        port.source_ranges.clone()
                    } else {
                        Vec::new()
                    },
                    service: key.to_string(),
                });
            };
            if !port.cluster_ip.is_unspecified() {
                add(Frontend::ClusterIp, None, port.cluster_ip, port.port);
            }
            for node in nodes.iter().filter(|node| families(world, node).contains(&port.family)) {
                let facts = world.cluster.node(node);
                let mut own = facts.into_iter().flat_map(|facts| facts.addresses.iter().copied());
                let own = own.find(|own| IpFamily::of(*own) == port.family);
                if let (Some(number), Some(own)) = (port.node_port, own) {
                    add(Frontend::NodePort, Some(node), own, number);
                }
                for &address in &port.external_ips {
                    add(Frontend::ExternalIp, Some(node), address, port.port);
                }
                for &address in &port.ingress_ips {
                    add(Frontend::IngressIp, Some(node), address, port.port);
                }
            }
        }
    }
    asks
}

/// A pod on each node that has any, each node's host, and one client outside.
pub(crate) fn clients(world: &World) -> Vec<Client> {
    let mut clients = vec![Client::Outside];
    for name in world.simulation.nodes() {
        let spec: Option<&NodeSpec> = world.simulation.spec(name);
        let mut pods: Vec<String> = world
            .cluster
            .pods_on(name)
            .filter(|pod| !pod.host_network && !pod.finished() && !pod.ips.is_empty())
            .map(|pod| format!("{}/{}", pod.namespace, pod.name))
            // HNS must hold an endpoint for it.
            .filter(|name| spec.is_none_or(|spec| spec.pods.iter().any(|pod| pod.name == *name)))
            .collect();
        pods.sort_unstable();
        clients.extend(pods.into_iter().next().map(Client::Pod));
        clients.push(Client::Node(name.to_owned()));
    }
    clients
}
