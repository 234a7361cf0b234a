//! What HNS remembers of each object: the v2 document and what documents do not carry.
//!
//! Fields marked `skip` follow from the others ([`NetworkRecord::derive`] and its siblings); the store does not
//! hold them. A record is never changed in place: an operation clones it, changes the clone and puts it back
//! through [`crate::state::State`], which keeps the indexes.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hcn::loadbalancer::{Frontend, LoadBalancerFlags};
use hcn::{Endpoint, Guid, HResult, Kind, LoadBalancer, Mac, Namespace, Network, SdnRoute};
use serde::{Deserialize, Serialize};

use crate::host::Protocol;
use crate::policies;
use crate::ports::{Block, HostPort, Space};
use crate::state::Row;

/// `State` of an object other than an endpoint.
pub(crate) mod object_state {
    /// It is there.
    pub(crate) const CREATED: u16 = 1;
    /// What it stood on is gone.
    pub(crate) const DEGRADED: u16 = 4;
}

/// `State` of an endpoint.
pub(crate) mod endpoint_state {
    /// Made, on no switch.
    pub(crate) const CREATED: u16 = 1;
    /// On the switch.
    pub(crate) const ATTACHED: u16 = 2;
    /// On the switch, shared by containers; or, with F-UNATTACHED, never quite there.
    pub(crate) const ATTACHED_SHARING: u16 = 3;
    /// Taken off the switch.
    pub(crate) const DETACHED: u16 = 4;
}

/// A vSwitch extension of a network and whether it is on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExtensionState {
    pub(crate) id: String,
    pub(crate) enabled: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NetworkRecord {
    pub(crate) seq: u64,
    pub(crate) doc: Network,
    pub(crate) state: u16,
    /// The host's address on the network, once it has appeared.
    pub(crate) management: Option<IpAddr>,
    /// The MAC address of the distributed router, overlay only.
    pub(crate) dr_mac: Option<String>,
    /// The adapter it is bound to.
    pub(crate) adapter: Option<String>,
    /// The vSwitch layer it lies on.
    pub(crate) layer: Option<Guid>,
    pub(crate) extensions: Vec<ExtensionState>,
    /// When the management address appears; at once after a restart, because the vSwitch is there already.
    #[serde(skip)]
    pub(crate) ready_at: Duration,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EndpointRecord {
    pub(crate) seq: u64,
    pub(crate) doc: Endpoint,
    pub(crate) state: u16,
    pub(crate) containers: Vec<String>,
    /// The compartment of a v1 attach.
    pub(crate) compartment: Option<u32>,
    /// The switch port, while attached.
    pub(crate) port: Option<Guid>,
    pub(crate) vnic_name: Option<String>,
    pub(crate) vm: Option<Guid>,
    /// Blocks of the OutBoundNAT pool.
    pub(crate) blocks: Vec<Block>,
    #[serde(skip)]
    pub(crate) network: Guid,
    #[serde(skip)]
    pub(crate) addresses: Vec<IpAddr>,
    #[serde(skip)]
    pub(crate) mac: Option<Mac>,
    #[serde(skip)]
    pub(crate) ports: Vec<HostPort>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NamespaceRecord {
    pub(crate) seq: u64,
    pub(crate) doc: Namespace,
    pub(crate) state: u16,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BalancerRecord {
    pub(crate) seq: u64,
    pub(crate) doc: LoadBalancer,
    pub(crate) state: u16,
    /// The network it lies on: the one it names, else that of its first endpoint.
    pub(crate) network: Option<Guid>,
    /// The pools of a balancer that translates the source.
    pub(crate) blocks: Vec<Block>,
    /// Set when its network is gone: the code of deleting it.
    pub(crate) degraded: Option<HResult>,
    #[serde(skip)]
    pub(crate) frontends: Vec<Frontend>,
    #[serde(skip)]
    pub(crate) ports: Vec<HostPort>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RouteRecord {
    pub(crate) seq: u64,
    pub(crate) doc: SdnRoute,
    pub(crate) state: u16,
    pub(crate) network: Option<Guid>,
}

/// Where an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On another node.
    Remote,
    /// Here, on a switch port.
    Attached,
    /// Here, without a switch port.
    Unattached,
}

/// What load balancers and SDN routes ask of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndpointBrief {
    pub(crate) network: Guid,
    pub(crate) place: Place,
    /// Has an IPv4 address.
    pub(crate) v4: bool,
    /// Has an IPv6 address.
    pub(crate) v6: bool,
}

impl Row for EndpointRecord {
    type Brief = EndpointBrief;

    fn brief(&self) -> EndpointBrief {
        EndpointBrief {
            network: self.network,
            place: match (self.doc.is_remote(), self.port) {
                (true, _) => Place::Remote,
                (false, Some(_)) => Place::Attached,
                (false, None) => Place::Unattached,
            },
            v4: self.addresses.iter().any(IpAddr::is_ipv4),
            v6: self.addresses.iter().any(IpAddr::is_ipv6),
        }
    }
}

macro_rules! rows_without_brief {
    ($($record:ty),*) => { $(impl Row for $record {
        type Brief = ();

        fn brief(&self) {}
    })* };
}
rows_without_brief!(NetworkRecord, NamespaceRecord, BalancerRecord, RouteRecord);

impl EndpointRecord {
    /// Fills in what follows from the document.
    pub(crate) fn derive(&mut self) {
        self.network = self.doc.network.unwrap_or_default();
        self.addresses = self.doc.addresses().collect();
        self.mac = self.doc.mac_address.as_deref().and_then(|text| text.parse().ok());
        self.ports = policies::port_mappings(&self.doc);
    }

    pub(crate) fn is_attached(&self) -> bool {
        matches!(self.state, endpoint_state::ATTACHED | endpoint_state::ATTACHED_SHARING)
    }

    /// The port spaces that the endpoint's OutBoundNAT pools are taken from.
    pub(crate) fn nat_spaces(&self) -> Vec<Space> {
        let wanted = policies::nat_pools(&self.doc);
        Space::ALL.into_iter().filter(|space| wanted[usize::from(space.ipv6)]).collect()
    }
}

impl BalancerRecord {
    /// Fills in what follows from the document.
    pub(crate) fn derive(&mut self) {
        self.frontends = self.doc.frontends();
        self.ports = self.frontend_ports().filter(|port| port.vip.is_none()).collect();
        // A mapping given twice is one port.
        self.ports.sort_unstable();
        self.ports.dedup();
    }

    /// What its frontends occupy: the host's ports, and the VIPs' own.
    pub(crate) fn frontend_ports(&self) -> impl Iterator<Item = HostPort> {
        self.frontends.iter().filter_map(|frontend| {
            let protocol = Protocol::from_number(frontend.protocol)?;
            let space = Space { protocol, ipv6: frontend.ipv6 };
            Some(HostPort { space, vip: frontend.vip, port: frontend.port })
        })
    }

    pub(crate) fn is_dsr(&self) -> bool {
        self.doc.flags.contains(LoadBalancerFlags::DSR)
    }

    /// The port spaces that the balancer's pools are taken from: none with DSR, which leaves the source alone.
    pub(crate) fn pool_spaces(&self) -> Vec<Space> {
        if self.is_dsr() {
            return Vec::new();
        }
        let mut spaces: Vec<Space> = self
            .frontends
            .iter()
            .filter_map(|frontend| {
                let protocol = Protocol::from_number(frontend.protocol)?;
                Some(Space { protocol, ipv6: frontend.ipv6 })
            })
            .collect();
        spaces.sort_unstable();
        spaces.dedup();
        spaces
    }
}

/// Any record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Object {
    Network(Arc<NetworkRecord>),
    Endpoint(Arc<EndpointRecord>),
    Namespace(Arc<NamespaceRecord>),
    Balancer(Arc<BalancerRecord>),
    Route(Arc<RouteRecord>),
}

impl Object {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Network(_) => Kind::Network,
            Self::Endpoint(_) => Kind::Endpoint,
            Self::Namespace(_) => Kind::Namespace,
            Self::Balancer(_) => Kind::LoadBalancer,
            Self::Route(_) => Kind::SdnRoute,
        }
    }

    /// The id; every record has one.
    pub(crate) fn id(&self) -> Guid {
        match self {
            Self::Network(record) => record.doc.id,
            Self::Endpoint(record) => record.doc.id,
            Self::Namespace(record) => record.doc.id,
            Self::Balancer(record) => record.doc.id,
            Self::Route(record) => record.doc.id,
        }
        .unwrap_or_default()
    }

    pub(crate) fn seq(&self) -> u64 {
        match self {
            Self::Network(record) => record.seq,
            Self::Endpoint(record) => record.seq,
            Self::Namespace(record) => record.seq,
            Self::Balancer(record) => record.seq,
            Self::Route(record) => record.seq,
        }
    }

    /// What people call it: see [`crate::journal::Entry::subject`].
    pub(crate) fn subject(&self) -> String {
        match self {
            Self::Network(record) => network_subject(&record.doc),
            Self::Endpoint(record) => endpoint_subject(&record.doc),
            Self::Namespace(_) => String::new(),
            Self::Balancer(record) => balancer_subject(&record.doc),
            Self::Route(record) => route_subject(&record.doc),
        }
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        // Writing into memory fails for no type used here.
        match self {
            Self::Network(record) => serde_json::to_vec(&**record),
            Self::Endpoint(record) => serde_json::to_vec(&**record),
            Self::Namespace(record) => serde_json::to_vec(&**record),
            Self::Balancer(record) => serde_json::to_vec(&**record),
            Self::Route(record) => serde_json::to_vec(&**record),
        }
        .unwrap_or_default()
    }

    pub(crate) fn from_json(kind: Kind, bytes: &[u8]) -> Result<Self, serde_json::Error> {
        Ok(match kind {
            Kind::Network => Self::Network(Arc::new(serde_json::from_slice(bytes)?)),
            Kind::Endpoint => {
                let mut record: EndpointRecord = serde_json::from_slice(bytes)?;
                record.derive();
                Self::Endpoint(Arc::new(record))
            }
            Kind::Namespace => Self::Namespace(Arc::new(serde_json::from_slice(bytes)?)),
            Kind::LoadBalancer => {
                let mut record: BalancerRecord = serde_json::from_slice(bytes)?;
                record.derive();
                Self::Balancer(Arc::new(record))
            }
            Kind::SdnRoute => Self::Route(Arc::new(serde_json::from_slice(bytes)?)),
        })
    }
}

pub(crate) fn network_subject(doc: &Network) -> String {
    doc.name.clone().unwrap_or_default()
}

/// The addresses, else the name.
pub(crate) fn endpoint_subject(doc: &Endpoint) -> String {
    match doc.ip_configurations.as_slice() {
        [] => doc.name.clone().unwrap_or_default(),
        [one] => one.ip_address.clone(),
        many => many.iter().map(|config| config.ip_address.as_str()).collect::<Vec<_>>().join(", "),
    }
}

/// The frontends.
pub(crate) fn balancer_subject(doc: &LoadBalancer) -> String {
    let frontends: Vec<String> = doc.frontends().iter().map(Frontend::to_string).collect();
    frontends.join(", ")
}

/// The destinations.
pub(crate) fn route_subject(doc: &SdnRoute) -> String {
    let prefixes: Vec<&str> = doc.settings().iter().map(|route| route.destination_prefix.as_str()).collect();
    prefixes.join(", ")
}
