//! A Linux node's part of a plan: its underlay device, the bridge of its pods, its tunnel or its routes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use node::linux::pod_mac;
use node::stack::MasqueradeRule;
use node::topology::{self, NodePlan};
use node::{NetworkKind, tunnel_mac};
use wire::Mac;

use super::model::{Address, Device, DeviceKind, Forwarding, Interface, Namespace, Neighbor, Route};
use super::{
    Hub, Input, LabPlan, PlanError, PodPlace, accepted, host, neighbors, routers, same_family, underlay,
    with_prefix,
};

/// The bridge of a node's pods.
const POD_BRIDGE: &str = "cni0";

/// A Linux node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinuxPlan {
    /// Its name.
    pub node: String,
    /// Its namespace.
    pub namespace: String,
    /// Its addresses, with the prefixes of their links.
    pub addresses: Vec<IpNet>,
    /// The ranges of its pods.
    pub pod_cidrs: Vec<IpNet>,
    /// What it masquerades besides Services.
    pub masquerade: MasqueradeRule,
    /// Its end of the overlay.
    pub tunnel: Option<Tunnel>,
    /// The other nodes' pods that it reaches by the tunnel.
    pub peers: Vec<PeerRange>,
}

/// A node's VXLAN device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Its name, such as `flannel.4096`.
    pub device: String,
    /// Its MAC, to which peers send.
    pub mac: Mac,
    /// The address that outer packets come from.
    pub local: IpAddr,
}

/// Pods of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerRange {
    /// The node.
    pub node: String,
    /// The node's address.
    pub address: IpAddr,
    /// The pods.
    pub pods: IpNet,
}

impl LinuxPlan {
    /// Writes the ways to peers whose tunnels' MACs are known, in place of those that are there: a route by the range's
    /// first address, and for that a neighbour and a forwarding entry.
    pub(super) fn write_peers(&self, namespace: &mut Namespace, tunnels: &BTreeMap<String, Mac>) {
        let Some(Tunnel { device, .. }) = &self.tunnel else { return };
        namespace.routes.retain(|route| route.device != *device);
        namespace.neighbors.retain(|neighbor| neighbor.device != *device);
        namespace.forwardings.retain(|forwarding| forwarding.device != *device);
        for peer in &self.peers {
            let Some(&mac) = tunnels.get(&peer.node) else { continue };
            let first = peer.pods.network();
            let route = Route::via(peer.pods, first, device);
            namespace.add_routes([Route { onlink: true, ..route }]);
            namespace.neighbors.insert(Neighbor { device: device.clone(), address: first, mac });
            namespace.forwardings.insert(Forwarding { device: device.clone(), mac, node: peer.address });
        }
    }
}

impl LabPlan {
    pub(super) fn add_linux(&mut self, input: &Input<'_>, node: &NodePlan) -> Result<(), PlanError> {
        let name = node.name.to_string();
        let mtu = input.settings.mtu;
        let namespace = input.names.node(&name);
        self.namespace(namespace.clone(), &format!("Node {name}"), true)?;
        let mac = topology::mac_of(&name);
        let eth0 = Interface::new(Some(mac), mtu, node.addresses.iter().copied().map(Address::on_link));
        let underlay = self.underlay.clone();
        let bridge = underlay::bridge(node.segment);
        let hub = Hub { namespace: &underlay, bridge: &bridge, prefix: "n-", owner: &name };
        self.join((&namespace, "eth0"), eth0, hub);
        let gateways: Vec<IpNet> = node.pod_cidrs.iter().filter_map(|cidr| host(cidr, 0)).collect();
        let [_, _, c, d, e, f] = mac.0;
        let cni0 = Interface::new(
            Some(Mac([0x0a, 0x58, c, d, e, f])),
            input.settings.pod_mtu(),
            gateways.iter().copied().map(Address::on_link),
        );
        let mut own = LinuxPlan {
            node: name.clone(),
            namespace: namespace.clone(),
            addresses: node.addresses.clone(),
            pod_cidrs: node.pod_cidrs.clone(),
            masquerade: MasqueradeRule {
                inside: gateways.iter().map(IpNet::trunc).collect(),
                except: input.topology.pod_cidrs(),
            },
            tunnel: None,
            peers: Vec::new(),
        };
        if let Some(made) = self.namespaces.get_mut(&namespace) {
            made.devices.insert(POD_BRIDGE.to_owned(), Device::new(DeviceKind::Bridge, cni0));
            made.add_routes(
                routers(node, input.topology).into_iter().map(|router| Route::default_by(router, "eth0")),
            );
            match input.settings.kind {
                NetworkKind::Overlay => add_tunnel(made, &mut own, input, node),
                NetworkKind::L2Bridge => {
                    let near = neighbors(node, input.topology).into_iter();
                    made.add_routes(near.map(|(pods, via)| Route::via(pods, via, "eth0")));
                }
            }
        }
        self.linux.push(own);
        for pod in &node.pods {
            self.add_linux_pod(input, &name, &pod.name, &pod.addresses, &gateways)?;
        }
        Ok(())
    }

    fn add_linux_pod(
        &mut self,
        input: &Input<'_>,
        node: &str,
        pod: &str,
        addresses: &[IpAddr],
        gateways: &[IpNet],
    ) -> Result<(), PlanError> {
        let namespace = input.names.pod(pod);
        self.namespace(namespace.clone(), &format!("Pod {pod}"), false)?;
        let mac = addresses.first().map(|&address| pod_mac(address));
        // Also its neighbours on the bridge a pod reaches by the gateway, so that the node sees the replies of those
        // who were asked through a Service. (Nodes elsewhere have the bridge itself call the node's rules.)
        let own = addresses.iter().map(|&address| Address::routed(with_prefix(address, gateways)));
        let others = accepted(input.topology, addresses).into_iter().map(Address::passive);
        let eth0 = Interface::new(mac, input.settings.pod_mtu(), own.chain(others));
        let has =
            |gateway: &IpAddr| eth0.addresses.iter().any(|own| own.net.addr().is_ipv4() == gateway.is_ipv4());
        let gateways: Vec<IpAddr> = gateways.iter().map(IpNet::addr).filter(has).collect();
        if let Some(made) = self.namespaces.get_mut(&namespace) {
            for gateway in gateways {
                let ways = [Route::on_link(gateway.into(), "eth0"), Route::default_by(gateway, "eth0")];
                made.add_routes(ways);
            }
        }
        let hub_namespace = input.names.node(node);
        let hub = Hub { namespace: &hub_namespace, bridge: POD_BRIDGE, prefix: "veth", owner: pod };
        self.join((&namespace, "eth0"), eth0, hub);
        let place = PodPlace { node: node.to_owned(), namespace, addresses: addresses.to_vec() };
        self.pods.insert(pod.to_owned(), place);
        Ok(())
    }
}

/// The VXLAN device and its peers, of the node's first family.
fn add_tunnel(made: &mut Namespace, own: &mut LinuxPlan, input: &Input<'_>, node: &NodePlan) {
    let Some(local) = node.addresses.first().map(IpNet::addr) else { return };
    let family = |cidr: &&IpNet| cidr.addr().is_ipv4() == local.is_ipv4();
    let announced = input.cluster.node(&node.name).and_then(|facts| facts.overlay.vtep_mac);
    let mac: Mac = tunnel_mac(announced, local).parse().unwrap_or_default();
    let vni = input.settings.vni;
    let tunnel = Tunnel { device: format!("flannel.{vni}"), mac, local };
    let kind = DeviceKind::Vxlan { vni, local, port: wire::vxlan::UDP_PORT, underlay: "eth0".to_owned() };
    let first = node.pod_cidrs.iter().find(family).map(|cidr| Address::on_link(cidr.network().into()));
    let device = Device::new(kind, Interface::new(Some(mac), input.settings.pod_mtu(), first));
    made.devices.insert(tunnel.device.clone(), device);
    own.tunnel = Some(tunnel);
    for peer in input.topology.nodes.iter().filter(|peer| peer.name != node.name) {
        let Some(address) = same_family(peer, local) else { continue };
        let ranges = peer.pod_cidrs.iter().filter(family);
        own.peers.extend(ranges.map(|cidr| PeerRange {
            node: peer.name.to_string(),
            address,
            pods: cidr.trunc(),
        }));
    }
}
