//! The parts of a plan: namespaces and what is in them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use wire::Mac;

/// A network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// It forwards packets for others.
    pub forwarding: bool,
    /// Its devices, by name. `lo` is always there.
    pub devices: BTreeMap<String, Device>,
    /// Its routes, besides those to the prefixes of addresses.
    pub routes: BTreeSet<Route>,
    /// Neighbours that are never asked for.
    pub neighbors: BTreeSet<Neighbor>,
    /// Where tunnels have which MAC.
    pub forwardings: BTreeSet<Forwarding>,
}

impl Namespace {
    pub(super) fn new(forwarding: bool) -> Self {
        Self { forwarding, ..Self::default() }
    }

    /// Adds routes. Of two to the same destination the first one counts.
    pub(super) fn add_routes(&mut self, routes: impl IntoIterator<Item = Route>) {
        for route in routes {
            if !self.routes.iter().any(|other| other.destination == route.destination) {
                self.routes.insert(route);
            }
        }
    }

    /// Its network settings, below `/proc/sys/net`. They are made before its devices, which inherit them.
    pub fn settings(&self) -> Vec<(String, &'static str)> {
        let mut settings = Vec::new();
        let mut set = |path: &str, value| settings.push((path.to_owned(), value));
        for scope in ["all", "default"] {
            // Replies may come another way than requests went: through a tunnel, from a Service.
            set(&format!("ipv4/conf/{scope}/rp_filter"), "0");
            // A device answers for its own addresses only: whoever asks for one of another device's, on the same link,
            // would take either MAC.
            set(&format!("ipv4/conf/{scope}/arp_ignore"), "1");
            set(&format!("ipv4/conf/{scope}/arp_announce"), "2");
            // A router on the link is none of the lab's.
            set(&format!("ipv6/conf/{scope}/disable_ipv6"), "0");
            set(&format!("ipv6/conf/{scope}/accept_ra"), "0");
            // No two machines have one address: nobody waits to find out.
            set(&format!("ipv6/conf/{scope}/accept_dad"), "0");
            // A pod reaches its neighbours by its node, although there is a shorter way.
            set(&format!("ipv4/conf/{scope}/send_redirects"), "0");
            set(&format!("ipv4/conf/{scope}/accept_redirects"), "0");
            set(&format!("ipv6/conf/{scope}/accept_redirects"), "0");
        }
        set("ipv6/conf/default/router_solicitations", "0");
        let forwarding = if self.forwarding { "1" } else { "0" };
        set("ipv4/ip_forward", forwarding);
        set("ipv6/conf/all/forwarding", forwarding);
        settings
    }

    /// Settings that not every kernel has.
    pub fn optional_settings() -> &'static [(&'static str, &'static str)] {
        // What passes a bridge is no packet of the machine's own.
        &[("bridge/bridge-nf-call-iptables", "0"), ("bridge/bridge-nf-call-ip6tables", "0")]
    }
}

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// What it is.
    pub kind: DeviceKind,
    /// Its MAC; none: the kernel's choice.
    pub mac: Option<Mac>,
    /// Its largest packet.
    pub mtu: u16,
    /// The bridge of the same namespace that it is a port of.
    pub bridge: Option<String>,
    /// Whose it is, for people.
    pub alias: Option<String>,
    /// Its addresses, in the order in which they are preferred.
    pub addresses: Vec<Address>,
}

impl Device {
    pub(super) fn new(kind: DeviceKind, interface: Interface) -> Self {
        let Interface { mac, mtu, addresses } = interface;
        Self { kind, mac, mtu, bridge: None, alias: None, addresses }
    }
}

/// What a device is for those who do not ask what it is made of.
#[derive(Clone, Debug, Default)]
pub(super) struct Interface {
    mac: Option<Mac>,
    pub(super) mtu: u16,
    pub(super) addresses: Vec<Address>,
}

impl Interface {
    pub(super) fn new(mac: Option<Mac>, mtu: u16, addresses: impl IntoIterator<Item = Address>) -> Self {
        let mut kept: Vec<Address> = Vec::new();
        for address in addresses {
            // As the in-memory stack: what no host can have is left out, and nothing is there twice.
            let ip = address.net.addr();
            let unusable = ip.is_unspecified() || ip.is_multicast();
            if !unusable && !kept.iter().any(|other| other.net.addr() == ip) {
                kept.push(address);
            }
        }
        Self { mac, mtu, addresses: kept }
    }
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A bridge.
    Bridge,
    /// One end of a veth pair, from which both ends are made.
    Veth {
        /// The other end's namespace.
        namespace: String,
        /// The other end.
        device: String,
    },
    /// The other end.
    VethEnd {
        /// The namespace that it is made from.
        namespace: String,
        /// The end that it is made with.
        device: String,
    },
    /// A VXLAN device, made as Flannel makes it: nothing is learnt.
    Vxlan {
        /// The network's number.
        vni: u32,
        /// The address that outer packets come from.
        local: IpAddr,
        /// The UDP port.
        port: u16,
        /// The device that outer packets leave by.
        underlay: String,
    },
}

/// A device's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// With its prefix.
    pub net: IpNet,
    /// The prefix is on the link; else only the routes say what is.
    pub on_link: bool,
    /// The system may choose it as a source.
    pub preferred: bool,
}

impl Address {
    /// An address whose prefix is on the link.
    pub fn on_link(net: IpNet) -> Self {
        Self { net, on_link: true, preferred: true }
    }

    /// An address whose prefix is reached by a router.
    pub fn routed(net: IpNet) -> Self {
        Self { net, on_link: false, preferred: true }
    }

    /// An address that is answered at and never chosen.
    pub fn passive(address: IpAddr) -> Self {
        Self { net: address.into(), on_link: false, preferred: false }
    }
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// The destinations.
    pub destination: IpNet,
    /// The router; none: they are on the link.
    pub via: Option<IpAddr>,
    /// The device.
    pub device: String,
    /// The router is on the link, whatever the addresses say.
    pub onlink: bool,
}

impl Route {
    /// A route by a router.
    pub fn via(destination: IpNet, via: IpAddr, device: &str) -> Self {
        Self { destination, via: Some(via), device: device.to_owned(), onlink: false }
    }

    /// The route to everything of the router's family.
    pub fn default_by(router: IpAddr, device: &str) -> Self {
        let all = match router {
            IpAddr::V4(_) => IpNet::V4(ipnet::Ipv4Net::default()),
            IpAddr::V6(_) => IpNet::V6(ipnet::Ipv6Net::default()),
        };
        Self::via(all, router, device)
    }

    /// A route to what is on the link.
    pub fn on_link(destination: IpNet, device: &str) -> Self {
        Self { destination, via: None, device: device.to_owned(), onlink: false }
    }
}

/// A neighbour that is never asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbor {
    /// The device.
    pub device: String,
    /// Its address.
    pub address: IpAddr,
    /// Its MAC.
    pub mac: Mac,
}

/// The node that a tunnel's MAC is at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Forwarding {
    /// The VXLAN device.
    pub device: String,
    /// The MAC.
    pub mac: Mac,
    /// The node.
    pub node: IpAddr,
}
