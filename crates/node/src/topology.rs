//! The machines that a cluster's objects speak of, and the wires between them. Pure: nothing is built here.
//!
//! Nodes whose addresses share a /24 or /64 are on one segment; a router joins the segments with each other and with
//! the outside. Addresses of endpoints that are neither pods nor nodes are hosts of their own: on a segment when they
//! lie in its range, else outside.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use services::{Cluster, NodeFacts, Protocol};
use wire::Mac;

use crate::app::Transport;
use crate::spec::NetworkKind;

/// What is served at an address.
pub type Served = BTreeSet<(Transport, u16)>;

/// A switched part of the underlay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Its ranges.
    pub nets: BTreeSet<IpNet>,
    /// The router's addresses, one for each range.
    pub routers: Vec<IpNet>,
    /// Hosts of endpoints that nobody else is.
    pub hosts: Vec<IpAddr>,
}

/// A pod with addresses of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPlan {
    /// `namespace/name`.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Its name.
    pub name: Arc<str>,
    /// It runs Windows.
    pub windows: bool,
    /// The build of Windows, such as `10.0.20348`.
    pub build: Option<Arc<str>>,
    /// Its segment of the underlay.
    pub segment: usize,
    /// With the prefix of the segment.
    pub addresses: Vec<IpNet>,
    /// The ranges of its pods.
    pub pod_cidrs: Vec<IpNet>,
    /// Its pods with addresses of their own.
    pub pods: Vec<PodPlan>,
    /// Pods on the host network, by the addresses that they have.
    pub host_pods: Vec<PodPlan>,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// The switched parts of the underlay.
    pub segments: Vec<Segment>,
    /// The nodes.
    pub nodes: Vec<NodePlan>,
    /// Hosts of endpoints outside of every segment.
    pub outsiders: Vec<IpAddr>,
    /// What is served at each address.
    pub served: BTreeMap<IpAddr, Served>,
    /// Addresses that the pods behind preserve-destination Services accept, by pod address.
    pub accepted: BTreeMap<IpAddr, BTreeSet<IpAddr>>,
    /// External and ingress addresses.
    pub vips: BTreeSet<IpAddr>,
    /// Ranges that cluster addresses lie in.
    pub services: BTreeSet<IpNet>,
}

fn range(address: IpAddr, v4: u8, v6: u8) -> IpNet {
    let length = if address.is_ipv4() { v4 } else { v6 };
    IpNet::new(address, length).unwrap_or_else(|_| IpNet::from(address))
}

/// The range of a segment that an address lies in.
fn link(address: IpAddr) -> IpNet {
    range(address, 24, 64)
}

/// A locally administered MAC of a name: the same in every run.
pub fn mac_of(name: &str) -> Mac {
    let hash = name.bytes().fold(1 ^ 0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let [a, b, c, ..] = hash.to_be_bytes();
    Mac([0x02, 0x00, 0x5e, a, b, c])
}

impl Topology {
    /// Reads the cluster.
    pub fn of(cluster: &Cluster) -> Self {
        let mut topology = Self::default();
        let nodes: Vec<&NodeFacts> = cluster.nodes().filter(|node| !node.addresses.is_empty()).collect();
        for node in &nodes {
            topology.add_node(cluster, node);
        }
        topology.read_services(cluster);
        topology.place_strangers();
        topology.place_routers();
        topology
    }

    fn add_node(&mut self, cluster: &Cluster, node: &NodeFacts) {
        let nets: BTreeSet<IpNet> = node.addresses.iter().map(|&address| link(address).trunc()).collect();
        let known = self.segments.iter().position(|segment| !segment.nets.is_disjoint(&nets));
        let segment = known.unwrap_or(self.segments.len());
        if known.is_none() {
            self.segments.push(Segment::default());
        }
        if let Some(found) = self.segments.get_mut(segment) {
            found.nets.extend(nets);
        }
        let (host_pods, pods): (Vec<_>, Vec<_>) =
            cluster.pods_on(&node.name).filter(|pod| !pod.finished()).partition(|pod| pod.host_network);
        let plan = |pods: Vec<&services::PodFacts>| {
            let plan = |pod: &services::PodFacts| PodPlan {
                name: format!("{}/{}", pod.namespace, pod.name),
                addresses: pod.ips.clone(),
            };
            pods.into_iter().map(plan).collect()
        };
        self.nodes.push(NodePlan {
            name: Arc::clone(&node.name),
            windows: node.windows,
            build: node.build.clone(),
            segment,
            addresses: node.addresses.iter().map(|&address| link(address)).collect(),
            pod_cidrs: node.pod_cidrs.clone(),
            pods: plan(pods),
            host_pods: plan(host_pods),
        });
    }

    fn read_services(&mut self, cluster: &Cluster) {
        for view in cluster.services().filter_map(|key| cluster.view(key)) {
            for port in &view.ports {
                if !port.cluster_ip.is_unspecified() {
                    self.services.insert(range(port.cluster_ip, 16, 112).trunc());
                }
                let vips: Vec<IpAddr> = port.ingress_ips.iter().chain(&port.external_ips).copied().collect();
                self.vips.extend(&vips);
                let transport = match port.protocol {
                    Protocol::Tcp => Transport::Tcp,
                    Protocol::Udp => Transport::Udp,
                    // No stack here speaks it.
                    Protocol::Sctp => continue,
                };
                let all = port.cluster.iter().chain(&port.local);
                for endpoint in all.chain(port.left_out.iter().map(|left| &left.endpoint)) {
                    self.served.entry(endpoint.address).or_default().insert((transport, endpoint.port));
                    if view.preserve_destination {
                        self.accepted.entry(endpoint.address).or_default().extend(&port.ingress_ips);
                        // The program listens on the port that clients use.
                        self.served.entry(endpoint.address).or_default().insert((transport, port.port));
                    }
                }
            }
        }
    }

    /// Endpoints that are neither Pods nor Nodes of the input.
    fn place_strangers(&mut self) {
        let mut known: BTreeSet<IpAddr> = BTreeSet::new();
        for node in &self.nodes {
            known.extend(node.addresses.iter().map(IpNet::addr));
            known.extend(node.pods.iter().flat_map(|pod| &pod.addresses));
        }
        let strangers: Vec<IpAddr> =
            self.served.keys().copied().filter(|address| !known.contains(address)).collect();
        for address in strangers {
            // A pod that only a slice speaks of. On a Windows node it would need an endpoint of HNS, which nobody makes.
            let holds = |node: &&mut NodePlan| node.pod_cidrs.iter().any(|cidr| cidr.contains(&address));
            if let Some(node) = self.nodes.iter_mut().find(holds) {
                if !node.windows {
                    node.pods.push(PodPlan { name: format!("endpoint/{address}"), addresses: vec![address] });
                }
                continue;
            }
            let near = self.segments.iter_mut().find(|segment| segment.nets.contains(&link(address).trunc()));
            match near {
                Some(segment) => segment.hosts.push(address),
                None => self.outsiders.push(address),
            }
        }
    }

    /// The router takes the first address of each range that is free.
    fn place_routers(&mut self) {
        let taken: BTreeSet<IpAddr> =
            self.nodes.iter().flat_map(|node| node.addresses.iter().map(IpNet::addr)).collect();
        for segment in &mut self.segments {
            for net in &segment.nets {
                let free = net.hosts().find(|address| {
                    *address != net.network() && !taken.contains(address) && !segment.hosts.contains(address)
                });
                segment.routers.extend(free.map(link));
            }
        }
    }

    /// Ranges for the client outside, one for each family, in which nothing of the cluster lies: out of those that are
    /// kept for documentation (RFC 5737, RFC 3849) and measurements (RFC 2544).
    pub fn outside(&self) -> Vec<IpNet> {
        let taken = |net: &IpNet| {
            let single = self.vips.iter().chain(&self.outsiders).any(|address| net.contains(address));
            let pods = self.nodes.iter().flat_map(|node| &node.pod_cidrs);
            let segments = self.segments.iter().flat_map(|segment| &segment.nets);
            let mut nets = pods.chain(segments).chain(&self.services);
            single || nets.any(|other| net.contains(other) || other.contains(net))
        };
        let documentation = [[203, 0, 113, 0], [198, 51, 100, 0], [192, 0, 2, 0]];
        let measurements = (0..=255).map(|n| [198, 18, n, 0]);
        let v4 = documentation.into_iter().chain(measurements).map(|start| range(start.into(), 24, 64));
        let v6 = (0..=255)
            .map(|n| IpAddr::from([0x2001, 0xdb8, 0xffff, n, 0, 0, 0, 0]))
            .map(|start| range(start, 24, 64));
        v4.into_iter()
            .find(|net| !taken(net))
            .into_iter()
            .chain(v6.into_iter().find(|net| !taken(net)))
            .collect()
    }

    /// What pods reach with their own address, as a CNI plugin's configuration lists it.
    pub fn exceptions(&self, kind: NetworkKind) -> Vec<IpNet> {
        let mut nets = self.pod_cidrs();
        nets.extend(&self.services);
        if kind == NetworkKind::L2Bridge {
            nets.extend(self.segments.iter().flat_map(|segment| &segment.nets));
        }
        nets
    }

    /// What belongs to the pod network although no node has it.
    pub fn encapsulated(&self) -> Vec<IpNet> {
        self.services.iter().copied().collect()
    }

    /// The pod ranges of all nodes.
    pub fn pod_cidrs(&self) -> Vec<IpNet> {
        self.nodes.iter().flat_map(|node| node.pod_cidrs.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use services::source::manifests::{self, Options};
    use services::{Change, IpFamily, Perspective};

    fn cluster(text: &str) -> Cluster {
        let parsed = manifests::parse_bytes("test.yaml", text.as_bytes(), &Options::default());
        assert!(parsed.problems.is_empty(), "{:?}", parsed.problems);
        let mut cluster = Cluster::new(Perspective::of_node("", [IpFamily::V4, IpFamily::V6]));
        for object in parsed.objects {
            cluster.apply(Change::Set(object));
        }
        cluster
    }

    #[test]
    fn nodes_are_grouped_and_strangers_are_placed() {
        let node = |name: &str, address: &str, pods: &str| {
            format!(
                "apiVersion: v1
kind: Node
metadata: {{name: {name}}}
spec: {{podCIDR: {pods}}}
status: {{addresses: [{{type: InternalIP, address: {address}}}]}}
---"
            )
        };
        let nodes = [
            node("a", "192.0.2.1", "10.50.1.0/24"),
            node("b", "192.0.2.12", "10.50.2.0/24"),
            node("c", "198.51.100.7", "10.50.3.0/24"),
        ]
        .join("\n");
        let service = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.60.3.20, externalIPs: [203.0.113.80], ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [192.0.2.2]}, {addresses: [198.18.0.5]}, {addresses: [192.0.2.12]}, {addresses: [10.50.2.7]}]
";
        let text = nodes + service;
        let topology = Topology::of(&cluster(&text));
        assert_eq!(topology.segments.len(), 2);
        assert_eq!(topology.nodes.iter().map(|node| node.segment).collect::<Vec<_>>(), [0, 0, 1]);
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(topology.segments[0].hosts, [ip("192.0.2.2")]);
        assert_eq!(topology.segments[0].routers, ["192.0.2.3/24".parse::<IpNet>().unwrap()]);
        assert_eq!(topology.outsiders, [ip("198.18.0.5")]);
        let pods: Vec<&[IpAddr]> =
            topology.nodes.iter().flat_map(|node| &node.pods).map(|pod| &pod.addresses[..]).collect();
        assert_eq!(pods, [[ip("10.50.2.7")]], "a pod that only a slice speaks of");
        assert_eq!(topology.served[&ip("192.0.2.12")], BTreeSet::from([(Transport::Tcp, 8080)]));
        let outside: Vec<String> = topology.outside().iter().map(ToString::to_string).collect();
        assert_eq!(outside, ["198.18.1.0/24", "2001:db8:ffff::/64"], "what is taken keeps its range");
        assert_eq!(topology.vips, BTreeSet::from([ip("203.0.113.80")]));
        assert_eq!(topology.services, BTreeSet::from(["10.60.0.0/16".parse().unwrap()]));
    }
}
