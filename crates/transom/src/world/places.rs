//! From the names that a command line gives to a cluster's clients and addresses.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use node::sim::Client;
use services::Cluster;

use crate::cli::traffic::{Destination, Name, Origin, Protocol};

/// What names can mean in a cluster.
#[derive(Debug)]
pub struct Places<'a> {
    /// The cluster's objects.
    pub cluster: &'a Cluster,
    /// The pods that run, `namespace/name`.
    pub pods: Vec<String>,
    /// The nodes.
    pub nodes: Vec<String>,
}

impl Places<'_> {
    fn windows(&self) -> Vec<String> {
        self.cluster.nodes().filter(|node| node.windows).map(|node| node.name.to_string()).collect()
    }

    /// Who is meant by a place; `node`: the one of `--node`.
    pub fn client(&self, origin: &Origin, node: Option<&str>) -> anyhow::Result<Client> {
        match origin {
            Origin::Pod(name) => {
                let full = self.pod(name)?;
                Ok(Client::Pod(full))
            }
            Origin::Node(name) => {
                let windows = self.windows();
                let name = name.as_deref().or(node).or(match &windows[..] {
                    [only] => Some(only.as_str()),
                    _ => None,
                });
                let Some(name) = name else {
                    bail!(
                        "which node? write node/NAME or give --node; Windows nodes: {}",
                        windows.join(", ")
                    );
                };
                if !self.nodes.iter().any(|known| known == name) {
                    bail!("there is no node {name}; nodes in the input: {}", self.nodes.join(", "));
                }
                Ok(Client::Node(name.to_owned()))
            }
            Origin::External(_) => Ok(Client::Outside),
        }
    }

    /// `namespace/name` of a pod that was named with or without its namespace.
    fn pod(&self, name: &Name) -> anyhow::Result<String> {
        let found: Vec<&String> = self
            .pods
            .iter()
            .filter(|pod| match &name.namespace {
                Some(namespace) => **pod == format!("{namespace}/{}", name.name),
                None => pod.rsplit('/').next() == Some(&name.name),
            })
            .collect();
        match found[..] {
            [one] => Ok(one.clone()),
            [] => {
                let known: Vec<&str> = self.pods.iter().take(10).map(String::as_str).collect();
                bail!("there is no running pod {}; pods in the input: {}", shown(name), known.join(", "))
            }
            _ => bail!("{} is the name of several pods; choose one of {}", name.name, list(&found)),
        }
    }

    /// The address and port that a destination means.
    pub fn target(&self, to: &Destination, protocol: Protocol) -> anyhow::Result<SocketAddr> {
        match to {
            Destination::Address(address) => Ok(*address),
            Destination::Pod(name, port) => {
                let full = self.pod(name)?;
                let mut pods = self.cluster.nodes().flat_map(|node| self.cluster.pods_on(&node.name));
                let pod = pods.find(|pod| format!("{}/{}", pod.namespace, pod.name) == full);
                let address = pod.and_then(|pod| pod.ips.first().copied());
                let address = address.with_context(|| format!("pod {full} has no address"))?;
                Ok(SocketAddr::new(address, *port))
            }
            Destination::Service(name, port) => self.service(name, port, protocol),
        }
    }

    fn service(&self, name: &Name, port: &str, protocol: Protocol) -> anyhow::Result<SocketAddr> {
        let mut matches: Vec<(String, SocketAddr)> = Vec::new();
        let mut ports: Vec<String> = Vec::new();
        for key in self.cluster.services() {
            let same = *key.name == *name.name
                && name.namespace.as_deref().is_none_or(|namespace| namespace == &*key.namespace);
            let Some(view) = self.cluster.view(key).filter(|_| same) else { continue };
            for view in &view.ports {
                let wanted = view.port.to_string() == *port || *view.name == *port;
                ports.push(format!("{}/{}", view.port, view.protocol));
                if wanted && protocol_matches(view.protocol, protocol) {
                    matches.push((key.to_string(), SocketAddr::new(view.cluster_ip, view.port)));
                }
            }
        }
        ports.sort_unstable();
        ports.dedup();
        matches.dedup();
        match &matches[..] {
            [(_, address)] => Ok(*address),
            [(first, address), others @ ..] if others.iter().all(|(other, _)| other == first) => Ok(*address),
            [] if ports.is_empty() => bail!("there is no Service {}", shown(name)),
            [] => bail!(
                "Service {} has no port {port} of that protocol; it has {}",
                shown(name),
                ports.join(", ")
            ),
            several => {
                let names: Vec<&str> = several.iter().map(|(name, _)| &**name).collect();
                bail!("{} is the name of several Services; choose one of {}", name.name, names.join(", "))
            }
        }
    }
}

fn list(names: &[&String]) -> String {
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}

fn shown(name: &Name) -> String {
    match &name.namespace {
        Some(namespace) => format!("{namespace}/{}", name.name),
        None => name.name.clone(),
    }
}

fn protocol_matches(of_service: services::Protocol, wanted: Protocol) -> bool {
    match wanted {
        Protocol::Tcp => of_service == services::Protocol::Tcp,
        Protocol::Udp => of_service == services::Protocol::Udp,
    }
}
