//! What the Linux nodes of a cluster serve: the Services as each of them sees them, as rules of [`node::stack`].
//!
//! It follows kube-proxy's iptables mode, which differs from Windows: every target port is served, source ranges are
//! kept, and with the external policy Local pods and the node itself still get any backend.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use node::app::Transport;
use node::sim::Simulation;
use node::stack::{Reach, ServiceRule};
use services::{
    Affinity, Change, Cluster, Endpoint, IpFamily, LeftOutReason, Perspective, Protocol, ServicePort,
    TrafficPolicy,
};

/// The cluster as each Linux node sees it.
#[derive(Debug, Default)]
pub struct LinuxViews {
    clusters: BTreeMap<String, Cluster>,
}

impl LinuxViews {
    /// The views of a cluster that is made of these changes.
    pub(crate) fn new(cluster: &Cluster, changes: &[Change]) -> Self {
        let mut views = Self::default();
        for node in cluster.nodes().filter(|node| !node.windows) {
            let families: BTreeSet<IpFamily> = node.addresses.iter().map(|&own| IpFamily::of(own)).collect();
            let mut perspective = Perspective::of_node(&*node.name, families);
            perspective.zone.clone_from(&node.zone);
            views.clusters.insert(node.name.to_string(), Cluster::new(perspective));
        }
        for change in changes {
            views.apply(change);
        }
        views
    }

    pub(super) fn apply(&mut self, change: &Change) {
        for cluster in self.clusters.values_mut() {
            cluster.apply(change.clone());
        }
    }

    /// The cluster as a Linux node sees it.
    pub fn of(&self, node: &str) -> Option<&Cluster> {
        self.clusters.get(node)
    }

    /// What each Linux node serves: for labs, whose Linux nodes are real.
    #[cfg(target_os = "linux")]
    pub(crate) fn all(&self) -> BTreeMap<String, Vec<ServiceRule>> {
        self.clusters.keys().map(|node| (node.clone(), self.rules(node))).collect()
    }

    /// What a Linux node serves.
    pub(super) fn rules(&self, node: &str) -> Vec<ServiceRule> {
        let cluster = self.of(node);
        let views =
            cluster.into_iter().flat_map(|cluster| cluster.services().filter_map(|key| cluster.view(key)));
        views.flat_map(|view| view.ports.iter().flat_map(rules).collect::<Vec<_>>()).collect()
    }

    /// Makes the nodes serve what is wanted now.
    pub(super) fn program(&self, simulation: &mut Simulation) {
        for node in self.clusters.keys() {
            simulation.serve_on_linux(node, self.rules(node));
        }
    }
}

/// Everybody whom a Linux node may choose for traffic that no policy holds on the node.
fn all(port: &ServicePort) -> Vec<&Endpoint> {
    // Windows serves one target port; here each backend has its own.
    let other = port.left_out.iter().filter(|left| left.reason == LeftOutReason::OtherTargetPort);
    port.cluster.iter().chain(other.map(|left| &left.endpoint).filter(|endpoint| endpoint.ready)).collect()
}

/// The backends of a Linux node under a policy.
pub fn backends(port: &ServicePort, policy: TrafficPolicy) -> Vec<SocketAddr> {
    let chosen: Vec<&Endpoint> = match policy {
        TrafficPolicy::Cluster => all(port),
        TrafficPolicy::Local => {
            port.local.iter().chain(all(port).into_iter().filter(|endpoint| endpoint.local)).collect()
        }
    };
    let sockets: BTreeSet<SocketAddr> =
        chosen.into_iter().map(|endpoint| SocketAddr::new(endpoint.address, endpoint.port)).collect();
    sockets.into_iter().collect()
}

/// The frontends of a service port.
fn rules(port: &ServicePort) -> Vec<ServiceRule> {
    let transport = match port.protocol {
        Protocol::Tcp => Transport::Tcp,
        Protocol::Udp => Transport::Udp,
        // No stack here speaks it.
        Protocol::Sctp => return Vec::new(),
    };
    let every = backends(port, TrafficPolicy::Cluster);
    let near = || backends(port, TrafficPolicy::Local);
    let rule = |vip, number, backends, reach| ServiceRule {
        vip,
        port: number,
        transport,
        backends,
        elsewhere: false,
        reach,
        affinity: port.affinity != Affinity::None,
        sources: Vec::new(),
    };
    let mut rules = Vec::new();
    if !port.cluster_ip.is_unspecified() {
        let internal = backends(port, port.internal_policy);
        let elsewhere = internal.is_empty() && !every.is_empty();
        let rule = rule(port.cluster_ip, port.port, internal, Reach::Cluster);
        rules.push(ServiceRule { elsewhere, ..rule });
    }
    let reach = match port.external_policy {
        TrafficPolicy::Cluster => Reach::Everybody,
        TrafficPolicy::Local => Reach::Local { near: near() },
    };
    if let Some(number) = port.node_port {
        let any: IpAddr = match port.family {
            IpFamily::V4 => Ipv4Addr::UNSPECIFIED.into(),
            IpFamily::V6 => Ipv6Addr::UNSPECIFIED.into(),
        };
        rules.push(rule(any, number, every.clone(), reach.clone()));
    }
    for &address in &port.external_ips {
        rules.push(rule(address, port.port, every.clone(), reach.clone()));
    }
    for &address in &port.ingress_ips {
        let rule = rule(address, port.port, every.clone(), reach.clone());
        rules.push(ServiceRule { sources: port.source_ranges.clone(), ..rule });
    }
    rules
}
