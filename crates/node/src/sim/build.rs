//! Builds the machines of a topology and joins them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use hcn::policy::network::{DrMacAddress, NetworkPolicy};
use hcn::time::{Clock as _, ManualClock, SeededEntropy};
use hcn::{Feature, HcnExt, Network, Query};
use hns::{Adapter, Hns, Options};
use ipnet::IpNet;
use services::Cluster;
use wire::Mac;

use super::{Agents, Furnishing, Machine, Place, Settings, Simulation, SimulationError};
use crate::fabric::{DeviceId, Fabric, LearningSwitch};
use crate::furnish::{Egress, Furnisher};
use crate::host::Host;
use crate::linux::{LinuxNode, UNDERLAY, VxlanSpec};
use crate::spec::{NetworkKind, NodeSpec};
use crate::stack::{InterfaceSpec, Route, Stack};
use crate::topology::{self, NodePlan, Topology};
use crate::windows::{SwitchHandle, WindowsNode, WindowsSpec};

/// A Windows node that is being set up.
struct Windows {
    spec: NodeSpec,
    hns: Hns,
    switch: Arc<SwitchHandle>,
    clock: ManualClock,
    plan: NodePlan,
}

pub(super) fn build(
    cluster: &Cluster,
    settings: &Settings,
    agents: &mut dyn Agents,
) -> Result<Simulation, SimulationError> {
    let topology = Topology::of(cluster);
    let mut simulation = Simulation {
        fabric: Fabric::new(settings.seed),
        places: BTreeMap::new(),
        nodes: BTreeMap::new(),
        router: DeviceId(0),
        outside: DeviceId(0),
        vips: topology.vips.clone(),
        specs: BTreeMap::new(),
        pod_cidrs: topology
            .nodes
            .iter()
            .map(|node| (node.name.to_string(), node.pod_cidrs.clone()))
            .collect(),
    };
    let mut windows = open_windows(cluster, &topology, settings, agents)?;
    let tunnels = tunnels(cluster, &topology, &windows);
    let egress = Egress {
        exceptions: topology.exceptions(settings.kind),
        encapsulated: topology.encapsulated(),
        loopback: false,
    };
    for node in &mut windows {
        furnish(node, cluster, settings, &tunnels, &egress)?;
        let furnishing = Furnishing { node: &node.spec, hns: &node.hns };
        agents
            .program(&furnishing)
            .map_err(|error| SimulationError::Agents { node: node.spec.name.to_string(), error })?;
        simulation.specs.insert(node.spec.name.to_string(), node.spec.clone());
    }
    simulation.join(&topology, settings, &tunnels, windows);
    for node in topology.nodes.iter().filter(|node| !node.windows) {
        simulation.serve_on_linux(&node.name, agents.linux(&node.name));
    }
    Ok(simulation)
}

/// A seed that depends on the simulation's and on a name.
fn seed(settings: &Settings, name: &str) -> u64 {
    name.bytes().fold(settings.seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn open_windows(
    cluster: &Cluster,
    topology: &Topology,
    settings: &Settings,
    agents: &mut dyn Agents,
) -> Result<Vec<Windows>, SimulationError> {
    let mut nodes = Vec::new();
    for plan in topology.nodes.iter().filter(|node| node.windows) {
        let profile = agents.profile(&plan.name, plan.build.as_deref());
        let dual_stack = profile.version().supports(Feature::IPv6DualStack);
        let name = settings.network_name();
        let mut spec =
            NodeSpec::of(cluster, &plan.name, settings.kind, name, &settings.root_endpoint, dual_stack)?;
        // The peers' tunnel devices are known once every node has its own.
        spec.peers.clear();
        let clock = ManualClock::jumping();
        let switch = Arc::new(SwitchHandle::default());
        let mut options = Options::new(profile);
        options.clock = Arc::new(clock.clone());
        options.entropy = Arc::new(SeededEntropy::new(seed(settings, &plan.name)));
        options.datapath = Some(Arc::clone(&switch) as Arc<dyn hns::Datapath>);
        options.host.name = plan.name.to_string();
        options.host.adapters = vec![Adapter {
            name: "Ethernet".to_owned(),
            mac: hcn::Mac::from_octets(spec.host_mac()),
            addresses: plan.addresses.clone(),
        }];
        agents.options(&plan.name, &mut options);
        let hns = Hns::open(options)
            .map_err(|error| SimulationError::Open { node: plan.name.to_string(), error: Box::new(error) })?;
        let furnisher = Furnisher::new(Arc::new(hns.actor("cni"))).without_pods();
        furnisher
            .furnish(&spec)
            .map_err(|error| SimulationError::Furnish { node: plan.name.to_string(), error })?;
        let settled = hns.settled_at();
        clock.advance(settled.saturating_sub(clock.now()));
        nodes.push(Windows { spec, hns, switch, clock, plan: plan.clone() });
    }
    Ok(nodes)
}

/// Every node's tunnel device: a Windows node's distributed router as HNS reports it, else what the node's agent
/// announced, else one of the node's address.
fn tunnels(cluster: &Cluster, topology: &Topology, windows: &[Windows]) -> BTreeMap<Arc<str>, Mac> {
    let mut tunnels = BTreeMap::new();
    for node in &topology.nodes {
        let announced = cluster.node(&node.name).and_then(|facts| facts.overlay.vtep_mac);
        if let Some(first) = node.addresses.first() {
            let text = crate::spec::tunnel_mac(announced, first.addr());
            tunnels.insert(Arc::clone(&node.name), text.parse().unwrap_or_default());
        }
    }
    for node in windows {
        if let Some(mac) = distributed_router(&node.hns, &node.spec.network_name) {
            tunnels.insert(Arc::clone(&node.spec.name), mac);
        }
    }
    tunnels
}

fn distributed_router(hns: &Hns, network: &str) -> Option<Mac> {
    let found = hns.list::<Network>(&Query::by_name(network)).ok()?;
    let (_, network) = found.first()?;
    network.policies.iter().find_map(|policy| match NetworkPolicy::decode(policy) {
        Ok(NetworkPolicy::DrMacAddress(DrMacAddress { address, .. })) => address.parse().ok(),
        _ => None,
    })
}

fn furnish(
    node: &mut Windows,
    cluster: &Cluster,
    settings: &Settings,
    tunnels: &BTreeMap<Arc<str>, Mac>,
    egress: &Egress,
) -> Result<(), SimulationError> {
    let name = &node.plan.name;
    let (network, root, dual) = (settings.network_name(), &settings.root_endpoint, node.spec.dual_stack);
    node.spec = NodeSpec::of(cluster, name, settings.kind, network, root, dual)?;
    for peer in &mut node.spec.peers {
        if let Some(mac) = tunnels.get(&peer.name) {
            peer.tunnel_mac = mac.to_string();
        }
    }
    let mut egress = egress.clone();
    // The way back to the own node must not leave natively either.
    egress.encapsulated.extend(node.plan.addresses.iter().map(|net| IpNet::from(net.addr())));
    Furnisher::new(Arc::new(node.hns.actor("cni")))
        .with_egress(egress)
        .furnish(&node.spec)
        .map_err(|error| SimulationError::Furnish { node: name.to_string(), error })?;
    let settled = node.hns.settled_at();
    node.clock.advance(settled.saturating_sub(node.clock.now()));
    Ok(())
}

impl Simulation {
    /// Makes the machines and joins them.
    fn join(
        &mut self,
        topology: &Topology,
        settings: &Settings,
        tunnels: &BTreeMap<Arc<str>, Mac>,
        windows: Vec<Windows>,
    ) {
        let mut router = Stack::new("router", seed(settings, "router"));
        let outside_nets = topology.outside();
        let host = |net: &IpNet, number: usize| {
            let address = net.hosts().filter(|address| *address != net.network()).nth(number);
            address.and_then(|address| IpNet::new(address, net.prefix_len()).ok())
        };
        let wan: Vec<IpNet> = outside_nets.iter().filter_map(|net| host(net, 0)).collect();
        let interface = |name: &str, owner: &str, addresses: Vec<IpNet>| InterfaceSpec {
            name: name.to_owned(),
            mac: topology::mac_of(&format!("{owner}/{name}")),
            addresses,
            mtu: settings.link.mtu,
        };
        router.add_interface(interface("wan", "router", wan.clone()));
        for (number, segment) in topology.segments.iter().enumerate() {
            router.add_interface(interface(&format!("lan{number}"), "router", segment.routers.clone()));
        }
        let outside_addresses: Vec<IpNet> = outside_nets.iter().filter_map(|net| host(net, 9)).collect();
        let mut outside = Stack::new("outside", seed(settings, "outside"));
        outside.add_interface(interface("eth0", "outside", outside_addresses.clone()));
        for address in &wan {
            outside.routes_mut().add(Route::default_by(address.addr(), 0));
        }
        for &address in &topology.outsiders {
            outside.add_address(0, IpNet::from(address));
            let via =
                outside_addresses.iter().map(IpNet::addr).find(|own| own.is_ipv4() == address.is_ipv4());
            router.routes_mut().add(Route { destination: address.into(), via, interface: 0, metric: 0 });
            serve(&mut outside, topology, address);
        }
        if settings.kind == NetworkKind::L2Bridge {
            for node in &topology.nodes {
                add_pod_routes(&mut router, node, node.segment + 1);
            }
        }
        self.router = self.fabric.add("router", Machine::Host(Box::new(Host::router(router))));
        self.outside = self.fabric.add("outside", Machine::Host(Box::new(Host::new(outside))));
        self.fabric.join((self.router, 0), (self.outside, 0), settings.link.clone());
        let switches: Vec<DeviceId> = (0..topology.segments.len())
            .map(|number| {
                let switch = Machine::Switch(LearningSwitch::new(0));
                let switch = self.fabric.add(format!("switch {number}"), switch);
                self.plug(switch, (self.router, number + 1), settings);
                switch
            })
            .collect();
        for (number, segment) in topology.segments.iter().enumerate() {
            for &address in &segment.hosts {
                let name = format!("host {address}");
                let mut stack = Stack::new(name.clone(), seed(settings, &name));
                stack.add_interface(interface("eth0", &name, vec![with_prefix(address, &segment.nets)]));
                for router in routers(segment.routers.iter()) {
                    stack.routes_mut().add(Route::default_by(router, 0));
                }
                serve(&mut stack, topology, address);
                let host = self.fabric.add(name, Machine::Host(Box::new(Host::new(stack))));
                if let Some(&switch) = switches.get(number) {
                    self.plug(switch, (host, 0), settings);
                }
            }
        }
        let mut windows: BTreeMap<Arc<str>, Windows> =
            windows.into_iter().map(|node| (Arc::clone(&node.spec.name), node)).collect();
        for node in &topology.nodes {
            let machine = match windows.remove(&node.name) {
                Some(opened) => Machine::Windows(Box::new(windows_node(opened, topology, settings))),
                None => Machine::Linux(Box::new(linux_node(node, topology, settings, tunnels))),
            };
            let device = self.fabric.add(node.name.to_string(), machine);
            self.nodes.insert(node.name.to_string(), device);
            for pod in &node.pods {
                self.places.insert(pod.name.clone(), Place { device, pod: Some(pod.name.clone()) });
            }
            for pod in &node.host_pods {
                self.places.insert(pod.name.clone(), Place { device, pod: None });
            }
            if let Some(&switch) = switches.get(node.segment) {
                self.plug(switch, (device, 0), settings);
            }
        }
    }

    /// Joins a port to the next free one of a switch.
    fn plug(&mut self, switch: DeviceId, port: (DeviceId, usize), settings: &Settings) {
        let added = self.fabric.with(switch, |machine, _, _| match machine {
            Machine::Switch(switch) => Some(switch.add_port()),
            _ => None,
        });
        if let Some(Some(number)) = added {
            self.fabric.join(port, (switch, number), settings.link.clone());
        }
    }
}

fn routers<'a>(routers: impl Iterator<Item = &'a IpNet>) -> Vec<IpAddr> {
    routers.map(IpNet::addr).collect()
}

fn with_prefix<'a>(address: IpAddr, nets: impl IntoIterator<Item = &'a IpNet>) -> IpNet {
    let near = nets.into_iter().find(|net| net.contains(&address));
    near.and_then(|net| IpNet::new(address, net.prefix_len()).ok()).unwrap_or_else(|| address.into())
}

/// Starts the servers that the cluster's slices say are at an address.
fn serve(stack: &mut Stack, topology: &Topology, address: IpAddr) {
    for &(transport, port) in topology.served.get(&address).into_iter().flatten() {
        stack.serve(transport, port);
    }
}

/// The same for a pod, which also accepts what preserve-destination leaves addressed to the Service.
fn serve_pod(stack: &mut Stack, topology: &Topology, addresses: &[IpAddr]) {
    for address in addresses {
        serve(stack, topology, *address);
        for &vip in topology.accepted.get(address).into_iter().flatten() {
            stack.add_address(0, vip.into());
        }
    }
}

/// Routes to a node's pods by the node, for each family that it has an address of.
fn add_pod_routes(stack: &mut Stack, node: &NodePlan, interface: usize) {
    for cidr in &node.pod_cidrs {
        if let Some(via) = same_family(node, cidr.addr()) {
            stack.routes_mut().add(Route { destination: *cidr, via: Some(via), interface, metric: 0 });
        }
    }
}

fn same_family(node: &NodePlan, address: IpAddr) -> Option<IpAddr> {
    node.addresses.iter().map(IpNet::addr).find(|own| own.is_ipv4() == address.is_ipv4())
}

fn windows_node(opened: Windows, topology: &Topology, settings: &Settings) -> WindowsNode {
    let Windows { spec, hns, switch, plan, .. } = opened;
    let routed = settings.kind == NetworkKind::L2Bridge;
    let segment = topology.segments.get(plan.segment);
    let mut node = WindowsNode::new(
        &WindowsSpec {
            name: plan.name.to_string(),
            seed: seed(settings, &plan.name),
            mac: spec.host_mac().into(),
            addresses: plan.addresses.clone(),
            routers: routers(segment.into_iter().flat_map(|segment| &segment.routers)),
            forwarding: routed,
        },
        hns,
        switch,
    );
    if routed {
        for peer in neighbours(&plan, topology) {
            for cidr in &peer.pod_cidrs {
                if let Some(via) = same_family(peer, cidr.addr()) {
                    node.add_route(*cidr, via);
                }
            }
        }
    }
    let host = node.host_mut();
    for address in &plan.addresses {
        serve(host, topology, address.addr());
    }
    for pod in &plan.pods {
        if let Some(stack) = node.pod_mut(&pod.name) {
            serve_pod(stack, topology, &pod.addresses);
        }
    }
    node
}

/// The other nodes of a node's segment.
fn neighbours<'a>(node: &'a NodePlan, topology: &'a Topology) -> impl Iterator<Item = &'a NodePlan> {
    topology.nodes.iter().filter(|other| other.segment == node.segment && other.name != node.name)
}

fn linux_node(
    plan: &NodePlan,
    topology: &Topology,
    settings: &Settings,
    tunnels: &BTreeMap<Arc<str>, Mac>,
) -> LinuxNode {
    let overlay = settings.kind == NetworkKind::Overlay;
    let underlay = InterfaceSpec {
        name: "eth0".to_owned(),
        mac: topology::mac_of(&plan.name),
        addresses: plan.addresses.clone(),
        mtu: settings.link.mtu,
    };
    let first_host = |cidr: &IpNet| {
        let host = cidr.hosts().find(|address| *address != cidr.network())?;
        IpNet::new(host, cidr.prefix_len()).ok()
    };
    let gateways = plan.pod_cidrs.iter().filter_map(first_host).collect();
    let mtu = if overlay { settings.link.mtu.saturating_sub(50) } else { settings.link.mtu };
    let mut node = LinuxNode::new(plan.name.to_string(), seed(settings, &plan.name), underlay, gateways, mtu);
    let segment = topology.segments.get(plan.segment);
    for router in routers(segment.into_iter().flat_map(|segment| &segment.routers)) {
        node.stack_mut().routes_mut().add(Route::default_by(router, UNDERLAY));
    }
    if overlay {
        add_tunnel(&mut node, plan, topology, settings, tunnels, mtu);
    } else {
        for peer in neighbours(plan, topology) {
            add_pod_routes(node.stack_mut(), peer, UNDERLAY);
        }
    }
    node.masquerade(topology.pod_cidrs());
    for address in &plan.addresses {
        serve(node.stack_mut(), topology, address.addr());
    }
    for pod in &plan.pods {
        node.add_pod(pod.name.clone(), &pod.addresses);
        if let Some(stack) = node.pod_mut(&pod.name) {
            serve_pod(stack, topology, &pod.addresses);
        }
    }
    node
}

/// The VXLAN device and its peers, of the node's first family.
fn add_tunnel(
    node: &mut LinuxNode,
    plan: &NodePlan,
    topology: &Topology,
    settings: &Settings,
    tunnels: &BTreeMap<Arc<str>, Mac>,
    mtu: u16,
) {
    let (Some(local), Some(&mac)) = (plan.addresses.first().map(IpNet::addr), tunnels.get(&plan.name)) else {
        return;
    };
    let own = plan.pod_cidrs.iter().find(|cidr| cidr.addr().is_ipv4() == local.is_ipv4());
    node.add_vxlan(VxlanSpec {
        name: format!("flannel.{}", settings.vni),
        vni: settings.vni,
        port: wire::vxlan::UDP_PORT,
        mac,
        local,
        addresses: own.map(|cidr| cidr.network().into()).into_iter().collect(),
        mtu,
    });
    for peer in topology.nodes.iter().filter(|peer| peer.name != plan.name) {
        let (Some(address), Some(&mac)) = (same_family(peer, local), tunnels.get(&peer.name)) else {
            continue;
        };
        for cidr in peer.pod_cidrs.iter().filter(|cidr| cidr.addr().is_ipv4() == local.is_ipv4()) {
            node.add_vxlan_peer(*cidr, mac, address);
        }
    }
}
