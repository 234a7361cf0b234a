//! The words of the service model: what one node must serve, and with which endpoints.
//!
//! Plain data. These types must not know where objects come from, how endpoints are selected, or what
//! Windows does with the result.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use serde::Serialize;

use crate::condition::Condition;

/// An IP family. IPv4 sorts before IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum IpFamily {
    /// IPv4.
    #[serde(rename = "IPv4")]
    V4,
    /// IPv6.
    #[serde(rename = "IPv6")]
    V6,
}

impl IpFamily {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// The family of a network.
    pub fn of_net(net: &IpNet) -> Self {
        Self::of(net.addr())
    }
}

impl fmt::Display for IpFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// A transport protocol that a Service may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// TCP, the default of Kubernetes.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// The IP protocol number (IANA): 6, 17 or 132.
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }

    /// Reads the name as Kubernetes spells it (upper case).
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            "SCTP" => Some(Self::Sctp),
            _ => None,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        })
    }
}

/// Which Service: namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl ServiceKey {
    /// A key of its parts.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Serialize for ServiceKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// `spec.type` of a Service that is served (ExternalName Services never are).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ServiceKind {
    /// `ClusterIP`, the default.
    #[serde(rename = "ClusterIP")]
    ClusterIp,
    /// `NodePort`.
    NodePort,
    /// `LoadBalancer`.
    LoadBalancer,
}

impl fmt::Display for ServiceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClusterIp => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
        })
    }
}

/// Internal or external traffic policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum TrafficPolicy {
    /// Every endpoint of the cluster may serve.
    Cluster,
    /// Only endpoints on this node may serve.
    Local,
}

impl fmt::Display for TrafficPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cluster => "Cluster",
            Self::Local => "Local",
        })
    }
}

/// Session affinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Affinity {
    /// No affinity.
    None,
    /// One client address goes to one endpoint.
    #[serde(rename_all = "camelCase")]
    ClientIp {
        /// How long an idle client keeps its endpoint, in seconds (Kubernetes' default: 10800).
        timeout_seconds: u32,
    },
}

/// One endpoint of a service port.
#[expect(
    clippy::struct_excessive_bools,
    reason = "the API has three independent conditions; locality is a fourth fact"
)]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Its address.
    pub address: IpAddr,
    /// The port it advertises for this service port.
    pub port: u16,
    /// The slice names this node as the endpoint's node.
    pub local: bool,
    /// The endpoint's node, as the slice names it. Absent for addresses outside the cluster.
    pub node: Option<Arc<str>>,
    /// The endpoint's zone.
    pub zone: Option<Arc<str>>,
    /// The `ready` condition (absent counts as true).
    pub ready: bool,
    /// The `serving` condition (absent counts as true).
    pub serving: bool,
    /// The `terminating` condition (absent counts as false).
    pub terminating: bool,
    /// The Pod behind it, as `namespace/name`, for people.
    pub pod: Option<Arc<str>>,
}

/// Why an endpoint is used by no scope of a service port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum LeftOutReason {
    /// Neither ready nor terminating.
    NotReady,
    /// Terminating and no longer serving.
    NotServing,
    /// Terminating but still serving, while ready endpoints exist.
    Terminating,
    /// Its hints name other zones or nodes.
    Hints,
    /// It advertises another port number than the group that is served.
    OtherTargetPort,
    /// More endpoints than the limit of this build.
    BeyondLimit,
}

impl LeftOutReason {
    /// A few words for people.
    pub fn explain(self) -> &'static str {
        match self {
            Self::NotReady => "not ready",
            Self::NotServing => "terminating and no longer serving",
            Self::Terminating => "terminating, and ready endpoints exist",
            Self::Hints => "hints name other zones or nodes",
            Self::OtherTargetPort => "advertises another port number than the group that is served",
            Self::BeyondLimit => "beyond the destination limit of this build",
        }
    }
}

/// An endpoint that neither scope uses, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Why it is not used.
    pub reason: LeftOutReason,
}

/// One service port of one family, as this node must serve it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// The port's name, `""` when it has none.
    pub name: Arc<str>,
    /// The protocol.
    pub protocol: Protocol,
    /// The family of every address in this value.
    pub family: IpFamily,
    /// The port clients use on the cluster IP, external and ingress addresses.
    pub port: u16,
    /// The port clients use on node addresses.
    pub node_port: Option<u16>,
    /// The cluster IP of this family.
    pub cluster_ip: IpAddr,
    /// `spec.externalIPs` of this family: valid ones, each once, in the order of the Service.
    pub external_ips: Vec<IpAddr>,
    /// Ingress addresses of this family in `ipMode: VIP` (or none given): valid ones, each once, in order.
    pub ingress_ips: Vec<IpAddr>,
    /// Session affinity.
    pub affinity: Affinity,
    /// Policy for traffic to the cluster IP.
    pub internal_policy: TrafficPolicy,
    /// Policy for traffic to node ports, external and ingress addresses.
    pub external_policy: TrafficPolicy,
    /// Where a load balancer asks whether this node has endpoints. Only for type LoadBalancer with external policy
    /// Local.
    pub health_check_node_port: Option<u16>,
    /// `spec.loadBalancerSourceRanges` of this family.
    pub source_ranges: Vec<IpNet>,
    /// The port number of the endpoint group that is served; 0 when there are no endpoints.
    pub target_port: u16,
    /// Usable endpoints for policy Cluster, sorted by address: ready ones filtered by hints, else those that
    /// terminate but still serve.
    pub cluster: Vec<Endpoint>,
    /// Usable endpoints on this node for policy Local, sorted by address: ready ones, else those that terminate but
    /// still serve.
    pub local: Vec<Endpoint>,
    /// Endpoints in neither of the two sets, and why, sorted by address and port.
    pub left_out: Vec<LeftOut>,
}

impl ServicePort {
    /// The endpoints for traffic to the cluster IP.
    pub fn internal(&self) -> &[Endpoint] {
        self.scope(self.internal_policy)
    }

    /// The endpoints for traffic to node ports, external and ingress addresses.
    pub fn external(&self) -> &[Endpoint] {
        self.scope(self.external_policy)
    }

    /// The endpoints for one policy.
    pub fn scope(&self, policy: TrafficPolicy) -> &[Endpoint] {
        match policy {
            TrafficPolicy::Cluster => &self.cluster,
            TrafficPolicy::Local => &self.local,
        }
    }

    /// `name/TCP/IPv4`, or `80/TCP/IPv4` when the port has no name: how conditions name a port.
    pub fn label(&self) -> String {
        port_label(&self.name, self.port, self.protocol, self.family)
    }
}

/// How conditions name a port of a family.
pub(crate) fn port_label(name: &str, port: u16, protocol: Protocol, family: IpFamily) -> String {
    if name.is_empty() {
        format!("{port}/{protocol}/{family}")
    } else {
        format!("{name}/{protocol}/{family}")
    }
}

/// What one node should do for one Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceView {
    /// Which Service.
    pub key: ServiceKey,
    /// Its type.
    pub kind: ServiceKind,
    /// Every port times every served family; ports in the order of the Service, IPv4 before IPv6.
    pub ports: Vec<ServicePort>,
    /// The annotation `preserve-destination` is exactly `true`.
    pub preserve_destination: bool,
    /// What cannot be honoured, and input faults.
    pub conditions: Vec<Condition>,
    /// Distinct ready endpoint addresses on this node, over all ports, for health check node ports. A Pod with an
    /// address in each family counts once: this is the larger of the families' counts.
    pub local_ready: usize,
    /// The same count per served family (a health check listener per family answers with its own).
    pub local_ready_by_family: Vec<(IpFamily, usize)>,
}

/// Whose eyes a cluster is seen with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Perspective {
    /// The name of this node's Node object (not its host name).
    pub node: Arc<str>,
    /// This node's zone (label `topology.kubernetes.io/zone`).
    pub zone: Option<Arc<str>>,
    /// Families that are served, in any order.
    pub families: Vec<IpFamily>,
    /// How many destinations a load balancer of this HNS build may have.
    pub max_backends: Option<usize>,
    /// Feature gate `AllowServiceExternalIPs` (on by default in Kubernetes 1.36): off means that
    /// `spec.externalIPs` count as absent.
    pub allow_external_ips: bool,
}

impl Perspective {
    /// A node without a zone and without a limit, external IPs allowed.
    pub fn of_node(node: impl Into<Arc<str>>, families: impl IntoIterator<Item = IpFamily>) -> Self {
        Self {
            node: node.into(),
            zone: None,
            families: families.into_iter().collect(),
            max_backends: None,
            allow_external_ips: true,
        }
    }

    /// Whether a family is served.
    pub fn serves(&self, family: IpFamily) -> bool {
        self.families.contains(&family)
    }
}
