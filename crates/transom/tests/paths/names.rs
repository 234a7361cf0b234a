//! Names in place of addresses, MACs and ports, so that cases read like the documents that they come from.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hcn::policy::network::NetworkPolicy;
use hcn::{HcnExt, Network, Query};
use node::sim::Client;
use transom::world::World;
use wire::{Frame, Kind, L4, Mac};

/// What things are called in one world.
pub(crate) struct Names {
    macs: BTreeMap<Mac, String>,
    addresses: BTreeMap<IpAddr, String>,
}

/// Names of ports, given in the order in which they are met.
#[derive(Default)]
pub(crate) struct Ports {
    client: Option<u16>,
    others: Vec<u16>,
}

impl Ports {
    pub(crate) fn of_client(port: u16) -> Self {
        Self { client: Some(port), others: Vec::new() }
    }

    /// Ports below 32768 are somebody's; the others were chosen and have no meaning of their own.
    fn name(&mut self, port: u16) -> String {
        if Some(port) == self.client {
            return "p".to_owned();
        }
        if port < 32768 {
            return port.to_string();
        }
        let at = self.others.iter().position(|other| *other == port).unwrap_or_else(|| {
            self.others.push(port);
            self.others.len() - 1
        });
        if at == 0 { "q".to_owned() } else { format!("q{}", at + 1) }
    }
}

impl Names {
    pub(crate) fn of(world: &mut World) -> Self {
        let mut names = Self { macs: BTreeMap::new(), addresses: BTreeMap::new() };
        let nodes: Vec<String> = world.simulation.nodes().map(str::to_owned).collect();
        for node in &nodes {
            let client = Client::Node(node.clone());
            names.stack(world, &client, node, true);
            if let Some(windows) = world.simulation.windows(node) {
                for (_, network) in windows.hns().list::<Network>(&Query::all()).unwrap() {
                    for policy in &network.policies {
                        if let Ok(NetworkPolicy::DrMacAddress(dr)) = NetworkPolicy::decode(policy)
                            && let Ok(mac) = dr.address.parse()
                        {
                            names.macs.entry(mac).or_insert_with(|| format!("dr({node})"));
                        }
                    }
                }
            }
        }
        let pods: Vec<String> = world.simulation.pods().map(|(pod, _)| pod.to_owned()).collect();
        for pod in pods {
            let short = pod.rsplit('/').next().unwrap().to_owned();
            names.stack(world, &Client::Pod(pod), &short, false);
        }
        names.stack(world, &Client::Outside, "out", false);
        let fabric = world.simulation.fabric();
        for (_, name, machine) in fabric.devices() {
            if let Some(stack) = machine.stack(None).filter(|_| name == "router") {
                for interface in stack.interfaces() {
                    names.macs.entry(interface.mac).or_insert_with(|| "router".to_owned());
                }
            }
        }
        for key in world.cluster.services() {
            let Some(view) = world.cluster.view(key) else { continue };
            for port in &view.ports {
                let mut put = |address, name: String| {
                    names.addresses.entry(address).or_insert(name);
                };
                put(port.cluster_ip, key.name.to_string());
                for &address in &port.external_ips {
                    put(address, format!("ext({})", key.name));
                }
                for &address in &port.ingress_ips {
                    put(address, format!("in({})", key.name));
                }
            }
        }
        for node in &nodes {
            let Some(spec) = world.simulation.spec(node) else { continue };
            // What the proxies reserve: the second address of a pod range.
            for cidr in &spec.pod_cidrs {
                if let Some(second) = cidr.hosts().nth(1) {
                    names.addresses.entry(second).or_insert_with(|| format!("svip({node})"));
                }
            }
        }
        names
    }

    fn stack(&mut self, world: &mut World, client: &Client, name: &str, is_node: bool) {
        let Ok(interfaces) =
            world.simulation.with_stack(client, |stack, _| stack.interfaces().cloned().collect::<Vec<_>>())
        else {
            return;
        };
        for (number, interface) in interfaces.iter().enumerate() {
            let label = if number == 0 || !is_node {
                name.to_owned()
            } else {
                format!("{name}/{}", interface.name.split_whitespace().next().unwrap_or("?"))
            };
            self.macs.entry(interface.mac).or_insert(label);
            for (at, address) in interface.addresses.iter().enumerate() {
                // A pod's second address is one that it was lent by preserve-destination.
                let first = interface
                    .addresses
                    .iter()
                    .position(|other| other.addr().is_ipv6() == address.addr().is_ipv6());
                if number == 0 && (is_node || first == Some(at)) {
                    self.addresses.entry(address.addr()).or_insert_with(|| name.to_owned());
                }
            }
        }
    }

    fn mac(&self, mac: Mac) -> String {
        self.macs.get(&mac).cloned().unwrap_or_else(|| mac.to_string())
    }

    fn address(&self, address: IpAddr) -> String {
        self.addresses.get(&address).cloned().unwrap_or_else(|| address.to_string())
    }

    pub(crate) fn end(&self, address: IpAddr, port: u16, ports: &mut Ports) -> String {
        format!("{}:{}", self.address(address), ports.name(port))
    }

    /// A frame: MACs, addresses, ports, and the tunnel around it.
    pub(crate) fn frame(&self, bytes: &[u8], ports: &mut Ports) -> String {
        let Ok(frame) = wire::parse(bytes) else { return "malformed".to_owned() };
        let Kind::Ip(ip) = &frame.kind else { return "not IP".to_owned() };
        if let L4::Udp { dport: wire::vxlan::UDP_PORT, .. } = ip.l4
            && let Some(payload) = bytes.get(ip.payload_offset()..ip.end())
            && let Ok((vni, at)) = wire::vxlan::parse(payload)
        {
            let outer = format!(
                "[{} {} > {} vni {vni}]",
                self.l2(&frame),
                self.address(ip.src),
                self.address(ip.dst)
            );
            return format!("{outer} {}", self.frame(&payload[at..], ports));
        }
        let ends = if let Some((from, to)) = ip.l4.ports() {
            // The order of naming is that of reading.
            let from = self.end(ip.src, from, ports);
            format!("{from} > {}", self.end(ip.dst, to, ports))
        } else {
            let kind = match ip.l4 {
                L4::Icmp { kind: 8, .. } | L4::Icmp6 { kind: 128, .. } => "echo request",
                L4::Icmp { kind: 0, .. } | L4::Icmp6 { kind: 129, .. } => "echo reply",
                _ => "ICMP error",
            };
            format!("{kind} {} > {}", self.address(ip.src), self.address(ip.dst))
        };
        format!("{} {ends}", self.l2(&frame))
    }

    fn l2(&self, frame: &Frame) -> String {
        let tag = frame.l2.vlan.map(|tag| format!(" vlan {}", tag.id)).unwrap_or_default();
        format!("({} > {}{tag})", self.mac(frame.l2.src), self.mac(frame.l2.dst))
    }
}
