//! What the proxy is told from outside: settings and facts about the node. Plain data; where it comes from (flags,
//! a file, a Node object, the host's interfaces) is the caller's business.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use services::IpFamily;

/// Settings of the proxy; the names follow kube-proxy's flags where there is one.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub struct Config {
    /// The HNS network (`--network-name`, `KUBE_NETWORK`).
    pub network_name: String,
    /// `--source-vip`: the address overlay load balancers translate the source to; of several, the first of the node's primary
    /// family.
    pub source_vips: Vec<IpAddr>,
    /// `--source-vip-endpoint`: HNS endpoints whose address is used when there is no `--source-vip`, in order.
    pub source_vip_endpoints: Vec<String>,
    /// `--enable-dsr`: direct server return on ClusterIP load balancers.
    pub enable_dsr: bool,
    /// `--root-hnsendpoint-name`: the host's gateway endpoint, target of forwarded health checks.
    pub root_endpoint_name: String,
    /// `--forward-healthcheck-vip`: a health check load balancer for each ingress address.
    pub forward_health_check_vip: bool,
    /// The port of `--healthz-bind-address`; 0 when health is not served.
    pub healthz_port: u16,
    /// `--nodeport-addresses`.
    pub node_port_addresses: NodePortAddresses,
    /// The time between checks of HNS (kube-proxy's sync period).
    pub sync_period: Duration,
    /// How many load balancers and endpoints one check reads whole; ids are always compared in full.
    pub check_slice: usize,
    /// The size of the host's dynamic port range, from which load balancers without DSR take blocks of 64; `None`
    /// when it is not known. Then Windows' default is assumed for the warning, and no block is kept for DNS.
    pub dynamic_ports: Option<u32>,
    /// After a restart of HNS, replace every load balancer once (a remedy for builds that list objects which
    /// the switch has lost: microsoft/Windows-Containers#61).
    pub reapply_after_restart: bool,
    /// Read every written object back and compare.
    pub verify_writes: bool,
    /// How long one pass may write; what is left goes on in the next one, where this one stopped. `None`: until all is
    /// tried. A caller that takes changes in between passes bounds by it how long they wait.
    pub pass_time: Option<Duration>,
    /// How many calls of HNS may be under way at a time, where they do not depend on each other. kube-proxy makes one at a
    /// time, and nobody outside knows whether HNS works on several at once.
    pub parallel_calls: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            network_name: String::new(),
            source_vips: Vec::new(),
            source_vip_endpoints: vec!["Calico_ep".to_owned(), "source_vip".to_owned()],
            enable_dsr: false,
            root_endpoint_name: "cbr0".to_owned(),
            forward_health_check_vip: false,
            healthz_port: 10256,
            node_port_addresses: NodePortAddresses::All,
            sync_period: Duration::from_secs(30),
            check_slice: 64,
            dynamic_ports: None,
            reapply_after_restart: false,
            verify_writes: false,
            pass_time: None,
            parallel_calls: 1,
        }
    }
}

/// On which of the node's addresses node ports are served.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum NodePortAddresses {
    /// All: one load balancer without a VIP per node port.
    #[default]
    All,
    /// The node's primary address of each family.
    Primary,
    /// Addresses within these networks: one load balancer per matching address.
    Within(Vec<IpNet>),
}

/// Facts about the node itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeInput {
    /// The node's name.
    pub name: Arc<str>,
    /// Its addresses as the Node object lists them, internal ones first. The first of each family counts.
    pub addresses: Vec<IpAddr>,
    /// The host's interfaces.
    pub interfaces: Vec<Interface>,
    /// Addresses of the other nodes.
    pub other_nodes: Vec<IpAddr>,
}

/// A network interface of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its MAC address in dash form.
    pub mac: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

impl NodeInput {
    /// The node's address of a family.
    pub fn address(&self, family: IpFamily) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|&address| IpFamily::of(address) == family)
    }

    /// The family of the node's first address; IPv4 when it has none.
    pub fn primary_family(&self) -> IpFamily {
        self.addresses.first().map_or(IpFamily::V4, |&address| IpFamily::of(address))
    }

    /// The MAC address of the interface that holds the node's address.
    pub fn host_mac(&self) -> Option<&str> {
        let address = self.addresses.first()?;
        self.interfaces
            .iter()
            .find(|interface| interface.addresses.contains(address))
            .map(|it| it.mac.as_str())
    }
}
