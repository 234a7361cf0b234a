//! What is used of a Pod: where it is, whether it is ready, and what a Service may select it by.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodStatus};

use super::{Fault, Faults, ObjectKind, RecordError, identity};
use crate::address;
use crate::condition::ConditionKind;
use crate::model::Protocol;

/// A container port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerPort {
    /// What Services may call it.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) protocol: Protocol,
    pub(crate) port: u16,
}

/// What is used of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
    /// The node it is bound to.
    pub node: Option<Arc<str>>,
    /// Its addresses, the primary one first. A Pod on the host network has the node's addresses.
    pub ips: Vec<IpAddr>,
    /// It uses the host network (on Windows: a HostProcess Pod).
    pub host_network: bool,
    /// `status.phase`.
    pub phase: Option<Arc<str>>,
    /// Its condition `Ready` is true.
    pub ready: bool,
    /// It is being deleted.
    pub terminating: bool,
    pub(crate) labels: Labels,
    /// `spec.hostname` and `spec.subdomain`, if it has both.
    pub(crate) host: Option<Box<(Arc<str>, Arc<str>)>>,
    /// In the order of containers and ports.
    pub(crate) container_ports: Box<[ContainerPort]>,
    pub(crate) faults: Box<[Fault]>,
}

impl PodFacts {
    /// It has run to its end and will not run again.
    pub fn finished(&self) -> bool {
        matches!(self.phase.as_deref(), Some("Succeeded" | "Failed"))
    }

    /// Its host name below the name of a Service: only the Service that its subdomain names has one.
    pub(crate) fn hostname_under(&self, service: &str) -> Option<Arc<str>> {
        let (hostname, subdomain) = self.host.as_deref()?;
        (&**subdomain == service).then(|| hostname.clone())
    }

    /// The ports of its containers, with or without names.
    pub fn container_ports(&self) -> impl Iterator<Item = (Protocol, u16)> {
        self.container_ports.iter().map(|port| (port.protocol, port.port))
    }

    /// The number of the container port with this name and protocol: the first one, in the order of the Pod.
    pub(crate) fn named_port(&self, name: &str, protocol: Protocol) -> Option<u16> {
        self.container_ports
            .iter()
            .find(|p| p.name.as_deref() == Some(name) && p.protocol == protocol)
            .map(|p| p.port)
    }
}

/// Labels in one piece of text: there may be a hundred thousand Pods, and their labels are read only when slices
/// must be derived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Labels(Box<str>);

impl Labels {
    /// Labels cannot contain control characters, so two of them serve as separators.
    fn new<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut text = String::new();
        for (key, value) in pairs.filter(|(k, v)| !k.contains(['\0', '\n']) && !v.contains(['\0', '\n'])) {
            text.extend([key, "\0", value, "\n"]);
        }
        Self(text.into_boxed_str())
    }

    /// Every label.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.split_terminator('\n').filter_map(|pair| pair.split_once('\0'))
    }

    /// The value of a label.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(k, _)| *k == key).map(|(_, v)| v)
    }
}

impl TryFrom<&Pod> for PodFacts {
    type Error = RecordError;

    fn try_from(pod: &Pod) -> Result<Self, RecordError> {
        let (namespace, name) = identity(ObjectKind::Pod, &pod.metadata)?;
        let mut faults = Faults::default();
        let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
        let ready = status
            .and_then(|s| s.conditions.as_ref())
            .is_some_and(|c| c.iter().any(|c| c.type_ == "Ready" && c.status == "True"));
        let labels = pod.metadata.labels.iter().flatten();
        Ok(Self {
            namespace,
            name,
            node: spec.and_then(|s| s.node_name.as_deref()).filter(|n| !n.is_empty()).map(Arc::from),
            ips: ips(status, &mut faults),
            host_network: spec.and_then(|s| s.host_network).unwrap_or(false),
            phase: status.and_then(|s| s.phase.as_deref()).map(Arc::from),
            ready,
            terminating: pod.metadata.deletion_timestamp.is_some(),
            labels: Labels::new(labels.map(|(k, v)| (k.as_str(), v.as_str()))),
            host: spec.and_then(host),
            container_ports: spec.map(|s| container_ports(s, &mut faults)).unwrap_or_default(),
            faults: faults.finish(),
        })
    }
}

fn host(spec: &PodSpec) -> Option<Box<(Arc<str>, Arc<str>)>> {
    let given = |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(Arc::from);
    Some(Box::new((given(&spec.hostname)?, given(&spec.subdomain)?)))
}

fn ips(status: Option<&PodStatus>, faults: &mut Faults) -> Vec<IpAddr> {
    let Some(status) = status else { return Vec::new() };
    let mut found: Vec<IpAddr> = Vec::new();
    let mut add = |field: String, text: &str| match address::unicast(text) {
        Ok(ip) if found.contains(&ip) => {}
        Ok(ip) => found.push(ip),
        Err(error) => faults.push(ConditionKind::InvalidAddress, field, format!("{text:?} {error}")),
    };
    let listed = status.pod_ips.as_deref().unwrap_or_default();
    if listed.is_empty() {
        if let Some(single) = status.pod_ip.as_deref().filter(|ip| !ip.is_empty()) {
            add("status.podIP".to_owned(), single);
        }
    } else {
        for (i, entry) in listed.iter().enumerate() {
            add(format!("status.podIPs[{i}].ip"), &entry.ip);
        }
    }
    found
}

/// Ports of the containers and of init containers that keep running (sidecars), in that order.
/// What is wrong with a port without a name concerns no Service.
fn container_ports(spec: &PodSpec, faults: &mut Faults) -> Box<[ContainerPort]> {
    let sidecar = |c: &&Container| c.restart_policy.as_deref() == Some("Always");
    let mains = spec.containers.iter().enumerate().map(|(i, c)| ("containers", i, c));
    let inits = spec.init_containers.iter().flatten().enumerate();
    let sidecars = inits.filter(|(_, c)| sidecar(c)).map(|(i, c)| ("initContainers", i, c));
    let mut found: Vec<ContainerPort> = Vec::new();
    for (list, i, container) in mains.chain(sidecars) {
        for (j, port) in container.ports.iter().flatten().enumerate() {
            let name = port.name.as_deref().filter(|n| !n.is_empty());
            let field = |leaf: &str| format!("spec.{list}[{i}].ports[{j}].{leaf}");
            let mut wrong = |kind, leaf: &str, message| {
                if name.is_some() {
                    faults.push(kind, field(leaf), message);
                }
            };
            let protocol_name = port.protocol.as_deref().filter(|p| !p.is_empty()).unwrap_or("TCP");
            let Some(protocol) = Protocol::from_name(protocol_name) else {
                let message = format!("{protocol_name:?} is unknown; use TCP, UDP or SCTP");
                wrong(ConditionKind::UnknownProtocol, "protocol", message);
                continue;
            };
            let Some(number) = address::port(port.container_port) else {
                let message = format!("{} is not a port; use 1 to 65535", port.container_port);
                wrong(ConditionKind::InvalidPort, "containerPort", message);
                continue;
            };
            found.push(ContainerPort { name: name.map(Arc::from), protocol, port: number });
        }
    }
    found.into_boxed_slice()
}
