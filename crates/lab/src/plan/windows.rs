//! A Windows node's part of a plan: namespaces without devices, and what their devices are to be.

use std::net::IpAddr;

use ipnet::IpNet;
use node::topology::NodePlan;
use node::{NetworkKind, NodeSpec};
use wire::Mac;

use super::{Input, LabPlan, PlanError, PodPlace, accepted, device_name, neighbors, routers, underlay};

/// A Windows node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowsPlan {
    /// Its name.
    pub node: String,
    /// The namespace of the host compartment.
    pub namespace: String,
    /// The node's build of Windows, as its Node says.
    pub build: Option<String>,
    /// What its HNS is to hold.
    pub spec: NodeSpec,
    /// The MAC of the adapter and of the host's device.
    pub mac: Mac,
    /// The host's addresses, with the prefixes of their links.
    pub addresses: Vec<IpNet>,
    /// The host's default routes.
    pub routers: Vec<IpAddr>,
    /// The host's routes to other nodes' pods, each by its node.
    pub routes: Vec<(IpNet, IpAddr)>,
    /// The host forwards packets.
    pub forwarding: bool,
    /// The largest packet on the underlay.
    pub mtu: u16,
    /// The name that its port is to have, in the underlay's namespace.
    pub port: String,
    /// The bridge that the port is to be on.
    pub bridge: String,
    /// The ranges of its pods.
    pub pod_cidrs: Vec<IpNet>,
    /// The pods that have endpoints of their own.
    pub pods: Vec<WindowsPod>,
}

/// A pod on a Windows node. Its gateway and MAC are what HNS gives its endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowsPod {
    /// `namespace/name`.
    pub name: String,
    /// Its network namespace.
    pub namespace: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Addresses that it takes besides, and never sends from of its own accord.
    pub accepted: Vec<IpAddr>,
    /// Its largest packet.
    pub mtu: u16,
}

impl LabPlan {
    pub(super) fn add_windows(&mut self, input: &Input<'_>, node: &NodePlan) -> Result<(), PlanError> {
        let name = node.name.to_string();
        let spec = input.specs.get(&name).ok_or_else(|| PlanError::NoSpec(name.clone()))?;
        let routed = input.settings.kind == NetworkKind::L2Bridge;
        let namespace = input.names.node(&name);
        self.namespace(namespace.clone(), &format!("Node {name}"), routed)?;
        let mut pods = Vec::new();
        for pod in &spec.pods {
            let namespace = input.names.pod(&pod.name);
            self.namespace(namespace.clone(), &format!("Pod {}", pod.name), false)?;
            let place = PodPlace {
                node: name.clone(),
                namespace: namespace.clone(),
                addresses: pod.addresses.clone(),
            };
            self.pods.insert(pod.name.clone(), place);
            pods.push(WindowsPod {
                name: pod.name.clone(),
                namespace,
                addresses: pod.addresses.clone(),
                accepted: accepted(input.topology, &pod.addresses),
                mtu: input.settings.pod_mtu(),
            });
        }
        let taken = |port: &str| {
            let device =
                self.namespaces.get(&self.underlay).is_some_and(|hub| hub.devices.contains_key(port));
            device || self.windows.iter().any(|other| other.port == port)
        };
        let port = device_name("w-", &name, taken);
        self.windows.push(WindowsPlan {
            namespace,
            build: node.build.as_deref().map(str::to_owned),
            mac: spec.host_mac().into(),
            spec: spec.clone(),
            addresses: node.addresses.clone(),
            routers: routers(node, input.topology),
            routes: if routed { neighbors(node, input.topology) } else { Vec::new() },
            forwarding: routed,
            mtu: input.settings.mtu,
            port,
            bridge: underlay::bridge(node.segment),
            pod_cidrs: node.pod_cidrs.clone(),
            pods,
            node: name,
        });
        Ok(())
    }
}
