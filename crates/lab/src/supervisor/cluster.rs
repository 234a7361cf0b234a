//! What the manifests say, as the lab needs it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;

use hcn::Feature;
use hns::Profile;
use node::topology::Topology;
use node::{NetworkKind, NodeSpec};
use services::source::manifests::{Input, Manifests, Options, Touched};
use services::{Change, Cluster, IpFamily, Perspective, PodFacts};

use super::error::{LabError, Step as _};
use super::messages::LabConfig;
use crate::exec::{EtcFiles, Identity, Resolver, etc_files};
use crate::names::Names;
use crate::plan::LabPlan;
use crate::responder::{Service, Wanted};

/// The port that names are asked for at.
const DNS_PORT: u16 = 53;

/// A cluster as read.
pub(super) struct Read {
    pub(super) changes: Vec<Change>,
    pub(super) cluster: Cluster,
    pub(super) topology: Topology,
    /// Of the Windows nodes.
    pub(super) specs: BTreeMap<String, NodeSpec>,
    /// What is wrong in the manifests.
    pub(super) problems: Vec<String>,
}

/// The build of a node: the one asked for, else what its Node says.
pub(super) fn profile(config: &LabConfig, build: Option<&str>, of_build: fn(&str) -> Profile) -> Profile {
    let asked = config.profile.as_deref().and_then(|name| name.parse().ok());
    asked.unwrap_or_else(|| build.map_or(Profile::Ws2022, of_build))
}

impl Read {
    /// Reads the manifests in a folder.
    pub(super) fn of(
        folder: &Path,
        config: &LabConfig,
        of_build: fn(&str) -> Profile,
    ) -> Result<Self, LabError> {
        let mut source = Manifests::new(vec![Input::Path(folder.to_owned())], Options::default());
        let update = source.refresh(&Touched::Everything);
        let mut cluster = Cluster::new(Perspective::of_node("", [IpFamily::V4, IpFamily::V6]));
        for change in &update.changes {
            cluster.apply(change.clone());
        }
        let mut problems: Vec<String> = update.problems.iter().map(ToString::to_string).collect();
        let mut specs = BTreeMap::new();
        for node in cluster.nodes().filter(|node| node.windows && !node.addresses.is_empty()) {
            let dual_stack =
                profile(config, node.build.as_deref(), of_build).version().supports(Feature::IPv6DualStack);
            let spec = NodeSpec::of(
                &cluster,
                &node.name,
                config.network.kind,
                &config.hns_network,
                &config.root_endpoint,
                dual_stack,
            )
            .step(|| "read the cluster".to_owned())?;
            specs.insert(node.name.to_string(), spec);
        }
        if cluster.nodes().all(|node| node.addresses.is_empty()) {
            problems.push("the manifests hold no Node with an address: the lab has no nodes".to_owned());
        }
        let topology = Topology::of(&cluster);
        Ok(Self { changes: update.changes, cluster, topology, specs, problems })
    }

    /// The pods by name.
    fn pods(&self) -> BTreeMap<String, &PodFacts> {
        let pods = self.cluster.nodes().flat_map(|node| self.cluster.pods_on(&node.name));
        pods.map(|pod| (format!("{}/{}", pod.namespace, pod.name), pod)).collect()
    }

    /// The cluster IPs that names are asked for at.
    pub(super) fn name_servers(&self) -> Vec<IpAddr> {
        let views = self.cluster.services().filter_map(|key| Some((key, self.cluster.view(key)?)));
        let ports = views
            .filter(|(key, _)| &*key.namespace == "kube-system")
            .flat_map(|(_, view)| view.ports.clone())
            .filter(|port| port.port == DNS_PORT && !port.cluster_ip.is_unspecified());
        let servers: BTreeSet<IpAddr> = ports.map(|port| port.cluster_ip).collect();
        servers.into_iter().collect()
    }

    /// Backends of what is asked for names.
    fn name_backends(&self) -> BTreeSet<(IpAddr, u16)> {
        let views = self.cluster.services().filter_map(|key| self.cluster.view(key));
        let ports = views.flat_map(|view| view.ports.clone()).filter(|port| port.port == DNS_PORT);
        let mut backends = BTreeSet::new();
        for port in ports {
            let left = port.left_out.iter().map(|left| &left.endpoint);
            let all = port.cluster.iter().chain(&port.local).chain(left);
            backends.extend(all.map(|endpoint| (endpoint.address, endpoint.port)));
        }
        backends
    }

    /// What is answered where: the ports of containers, and those that slices speak of.
    pub(super) fn wanted(&self, plan: &LabPlan, names: &Names) -> BTreeSet<Wanted> {
        let dns = self.name_backends();
        let pods = self.pods();
        let mut wanted = BTreeSet::new();
        let mut add = |namespace: &str, name: &str, node: Option<&str>, own: &[IpAddr], extra: &[IpAddr]| {
            let mut ports: BTreeSet<_> = own
                .iter()
                .filter_map(|address| self.topology.served.get(address))
                .flatten()
                .copied()
                .collect();
            if let Some(pod) = pods.get(name) {
                ports.extend(pod.container_ports().filter_map(transport));
            }
            for (transport, port) in ports {
                let is_dns = own.iter().any(|address| dns.contains(&(*address, port)));
                wanted.insert(Wanted {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    node: node.map(str::to_owned),
                    addresses: own.iter().chain(extra).copied().collect(),
                    transport,
                    port,
                    service: if is_dns { Service::Dns } else { Service::Echo },
                });
            }
        };
        for node in &self.topology.nodes {
            let own: Vec<IpAddr> = node.addresses.iter().map(ipnet::IpNet::addr).collect();
            add(&names.node(&node.name), &node.name, Some(&node.name), &own, &[]);
            for pod in &node.pods {
                let Some(place) = plan.pods.get(&pod.name) else { continue };
                let extra: Vec<IpAddr> = pod
                    .addresses
                    .iter()
                    .filter_map(|own| self.topology.accepted.get(own))
                    .flatten()
                    .copied()
                    .collect();
                add(&place.namespace, &pod.name, Some(&node.name), &place.addresses, &extra);
            }
        }
        for address in self.topology.segments.iter().flat_map(|segment| &segment.hosts) {
            add(&names.host(*address), &format!("host {address}"), None, &[*address], &[]);
        }
        for address in &self.topology.outsiders {
            add(&names.outside(), "outside", None, &[*address], &[]);
        }
        wanted
    }

    /// What programs of pods find in `/etc`, by network namespace.
    pub(super) fn etc(&self, plan: &LabPlan) -> BTreeMap<String, EtcFiles> {
        let servers = self.name_servers();
        let pods = self.pods();
        let windows = |node: &str| plan.windows_node(node).is_some();
        let mut files = BTreeMap::new();
        for (name, place) in &plan.pods {
            let pod = pods.get(name);
            if pod.is_some_and(|pod| pod.host_network) {
                continue;
            }
            let resolver = if windows(&place.node) { Resolver::Windows } else { Resolver::Linux };
            // Of one that only a slice speaks of nobody knows more than its address.
            let (namespace, own) = pod.map_or(("default", &**name), |pod| (&*pod.namespace, &*pod.name));
            let own = own.rsplit('/').next().unwrap_or(own);
            let identity = Identity { namespace, name: own, addresses: &place.addresses };
            files.insert(place.namespace.clone(), etc_files(identity, &servers, resolver));
        }
        files
    }

    /// Whether pods' packets cross the lab in tunnels.
    pub(super) fn egress(&self, kind: NetworkKind, loopback: bool) -> node::Egress {
        node::Egress {
            exceptions: self.topology.exceptions(kind),
            encapsulated: self.topology.encapsulated(),
            loopback,
        }
    }
}

fn transport((protocol, port): (services::Protocol, u16)) -> Option<(node::app::Transport, u16)> {
    match protocol {
        services::Protocol::Tcp => Some((node::app::Transport::Tcp, port)),
        services::Protocol::Udp => Some((node::app::Transport::Udp, port)),
        services::Protocol::Sctp => None,
    }
}
