//! The plan: what HNS must hold for one Service, as a pure function of the Service's view, the node's facts and the
//! features of HNS. No HNS is asked here and no state is kept; what exists already does not matter.

mod address;
mod balancers;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use hcn::Features;
use hcn::loadbalancer::{Distribution, Frontend, LoadBalancerFlags, PortMappingFlags};
use services::IpFamily;

pub use address::{AddressBook, Place, RemoteSubnet};
pub use balancers::plan_service;

use crate::status::ProxyCondition;

/// Everything besides the Service itself that the plan depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeContext {
    /// The network is an overlay.
    pub overlay: bool,
    /// What HNS can do.
    pub features: Features,
    /// `--enable-dsr`.
    pub enable_dsr: bool,
    /// `--forward-healthcheck-vip`, and the gateway endpoint was found; the families it has addresses of.
    pub health_check_families: Vec<IpFamily>,
    /// The port health is served on; 0 for none.
    pub healthz_port: u16,
    /// Node port VIPs by `--nodeport-addresses`; `None` means all addresses.
    pub node_port_addresses: Option<Vec<IpAddr>>,
    /// This node's address of each family.
    pub node_addresses: BTreeMap<IpFamily, IpAddr>,
    /// Where addresses are.
    pub book: AddressBook,
}

/// What a load balancer is for. The order is the order of importance within a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub enum Role {
    /// The cluster IP.
    ClusterIp,
    /// A node port.
    NodePort,
    /// `spec.externalIPs`.
    ExternalIp,
    /// An ingress address.
    Ingress,
    /// A forwarded health check.
    HealthCheck,
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ClusterIp => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::ExternalIp => "ExternalIP",
            Self::Ingress => "Ingress",
            Self::HealthCheck => "HealthCheck",
        })
    }
}

/// One backend address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Backend {
    /// The address.
    pub address: IpAddr,
    /// The slice says that it is on this node: its endpoint is the CNI's and never made by the proxy.
    pub local: bool,
}

/// What a load balancer sends to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backends {
    /// Endpoints with these addresses.
    Addresses(Arc<[Backend]>),
    /// The host's gateway endpoint.
    Gateway,
}

/// The source address that a load balancer translates to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceVip {
    /// This node's address.
    Node(IpAddr),
    /// The overlay network's source VIP, found or made when it is needed.
    Dedicated,
    /// None is given.
    Absent,
}

/// One load balancer that must exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedBalancer {
    /// The key.
    pub frontend: Frontend,
    /// What it is for.
    pub role: Role,
    /// The backends' port.
    pub internal_port: u16,
    /// Source translation.
    pub source_vip: SourceVip,
    /// Backend choice.
    pub distribution: Distribution,
    /// Flags of the port mapping.
    pub mapping_flags: PortMappingFlags,
    /// Flags of the load balancer.
    pub flags: LoadBalancerFlags,
    /// Backends.
    pub backends: Backends,
    /// On an overlay, the cluster IP needs an endpoint of its own.
    pub vip_endpoint: Option<IpAddr>,
}

/// What one Service needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePlan {
    /// Its load balancers, most important first; frontends are distinct.
    pub balancers: Vec<Arc<WantedBalancer>>,
    /// What could not be planned as asked.
    pub conditions: Vec<ProxyCondition>,
}
