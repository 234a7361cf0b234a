//! A lab that runs, as commands look at it: its nodes, its cluster, requests in it.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, bail};
use hcn::time::SystemClock;
use hnsd::{Address, Options, Remote};
use lab::exchange::exchange_in;
use lab::names::{LabName, Names};
use lab::netns::Netns;
use lab::supervisor::{NodeStatus, Status};
use node::app::{Exchange, Request, Transport};
use node::sim::Client;
use services::source::manifests::{Input, Manifests, Options as ReadOptions, Touched};
use services::{Change, Cluster, IpFamily, Perspective};

use crate::cli::traffic::{Flow, Origin, Protocol};
use crate::world::Places;

/// When a request in a lab is given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// A lab that runs.
#[derive(Debug)]
pub(super) struct LiveLab {
    pub(super) names: Names,
    pub(super) status: Status,
}

impl LiveLab {
    /// A lab by its name, as the command line has checked it.
    pub(super) fn named(lab: &str) -> anyhow::Result<Self> {
        Self::of(&lab.parse::<LabName>().map_err(anyhow::Error::msg)?)
    }

    /// A lab.
    pub(super) fn of(lab: &LabName) -> anyhow::Result<Self> {
        let names = super::names(lab);
        let status = super::status(&names)?;
        Ok(Self { names, status })
    }

    /// The emulated Windows nodes.
    pub(super) fn windows(&self) -> impl Iterator<Item = &NodeStatus> {
        self.status.nodes.iter().filter(|node| node.windows)
    }

    /// A node.
    pub(super) fn node(&self, name: &str) -> anyhow::Result<&NodeStatus> {
        let found = self.status.nodes.iter().find(|node| node.name == name);
        found.with_context(|| {
            let known: Vec<&str> = self.status.nodes.iter().map(|node| &*node.name).collect();
            format!("lab {} has no node {name}; it has {}", self.names.lab(), known.join(", "))
        })
    }

    /// The Windows node that is meant: the named one, else the only one.
    pub(super) fn windows_node(&self, name: Option<&str>) -> anyhow::Result<&NodeStatus> {
        let windows: Vec<&NodeStatus> = self.windows().collect();
        if let Some(name) = name {
            let node = self.node(name)?;
            if !node.windows {
                bail!("{name} is a Linux node: it has neither HNS nor a virtual switch");
            }
            return Ok(node);
        }
        match windows[..] {
            [only] => Ok(only),
            [] => bail!("lab {} has no Windows node", self.names.lab()),
            _ => {
                let names: Vec<&str> = windows.iter().map(|node| &*node.name).collect();
                bail!(
                    "lab {} has {} Windows nodes; choose one with --node: {}",
                    self.names.lab(),
                    names.len(),
                    names.join(", ")
                )
            }
        }
    }

    /// The named Windows node, else all of them.
    pub(super) fn windows_nodes(&self, name: Option<&str>) -> anyhow::Result<Vec<&NodeStatus>> {
        match name {
            Some(name) => Ok(vec![self.windows_node(Some(name))?]),
            None => Ok(self.windows().collect()),
        }
    }

    /// Where a Windows node's HNS listens.
    pub(super) fn address(&self, node: &str) -> Address {
        Address::Unix(self.names.hns_socket(node))
    }

    /// A Windows node's daemon.
    pub(super) fn daemon(&self, node: &str) -> anyhow::Result<Remote> {
        Remote::connect(self.address(node), Options::actor("operator"))
            .with_context(|| format!("node {node} of lab {} does not answer", self.names.lab()))
    }

    /// The addresses of the machine or pod that asks; nothing is known of those of the client outside.
    pub(super) fn addresses(&self, client: &Client) -> Vec<IpAddr> {
        match client {
            Client::Pod(name) => {
                let pod = self.status.pods.iter().find(|pod| pod.name == *name);
                pod.map(|pod| pod.addresses.clone()).unwrap_or_default()
            }
            Client::Node(name) => self.node(name).map(|node| node.addresses.clone()).unwrap_or_default(),
            Client::Outside => Vec::new(),
        }
    }

    /// The node that a client is on.
    pub(super) fn home(&self, client: &Client) -> Option<&str> {
        match client {
            Client::Pod(name) => self.status.pods.iter().find(|pod| pod.name == *name).map(|pod| &*pod.node),
            Client::Node(name) => self.node(name).ok().map(|node| &*node.name),
            Client::Outside => None,
        }
    }

    fn namespace(&self, client: &Client) -> anyhow::Result<Netns> {
        let name = match client {
            Client::Pod(name) => {
                let pod = self.status.pods.iter().find(|pod| pod.name == *name);
                pod.with_context(|| format!("lab {} has no pod {name}", self.names.lab()))?.namespace.clone()
            }
            Client::Node(name) => self.node(name)?.namespace.clone(),
            Client::Outside => self.names.outside(),
        };
        Ok(Netns::open(&name)?)
    }
}

/// A lab's cluster, from the copies of its manifests.
#[derive(Debug)]
pub(super) struct LiveCluster {
    pub(super) lab: LiveLab,
    pub(super) cluster: Cluster,
    changes: Vec<Change>,
}

/// Who asks whom.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) client: Client,
    pub(super) request: Request,
    netns: Netns,
}

impl Asked {
    /// Asks, with real sockets.
    pub(super) fn ask(&self, clock: &SystemClock) -> anyhow::Result<Exchange> {
        Ok(exchange_in(&self.netns, &self.request, clock)?)
    }
}

impl LiveCluster {
    /// Reads a lab's cluster.
    pub(super) fn read(lab: LiveLab) -> Self {
        let mut manifests = Manifests::new(vec![Input::Path(lab.names.manifests())], ReadOptions::default());
        let changes = manifests.refresh(&Touched::Everything).changes;
        let cluster = of_changes(&changes, Perspective::of_node("", [IpFamily::V4, IpFamily::V6]));
        Self { lab, cluster, changes }
    }

    /// The cluster as a node sees it.
    pub(super) fn seen_by(&self, node: &str) -> Option<Cluster> {
        let facts = self.cluster.node(node)?;
        let families: BTreeSet<IpFamily> = facts.addresses.iter().map(|&own| IpFamily::of(own)).collect();
        let mut perspective = Perspective::of_node(node, families);
        perspective.zone.clone_from(&facts.zone);
        Some(of_changes(&self.changes, perspective))
    }

    /// Who is meant by a flow.
    pub(super) fn resolve(&self, flow: &Flow, node: Option<&str>) -> anyhow::Result<Asked> {
        let places = Places {
            cluster: &self.cluster,
            pods: self.lab.status.pods.iter().map(|pod| pod.name.clone()).collect(),
            nodes: self.lab.status.nodes.iter().map(|node| node.name.clone()).collect(),
        };
        let client = places.client(&flow.from, node)?;
        let target = places.target(&flow.to, flow.protocol)?;
        let transport = match flow.protocol {
            Protocol::Tcp => Transport::Tcp,
            Protocol::Udp => Transport::Udp,
        };
        let mut request = Request { timeout: PATIENCE, ..Request::new(target, transport) };
        if let Origin::External(address) = flow.from {
            request.from = address;
        }
        let netns = self.lab.namespace(&client)?;
        Ok(Asked { client, request, netns })
    }

    /// The backends that a target may stand for.
    pub(super) fn backends(&self, target: SocketAddr) -> Vec<SocketAddr> {
        let mut backends = Vec::new();
        for view in self.cluster.services().filter_map(|key| self.cluster.view(key)) {
            for port in view.ports {
                let at = |ip: IpAddr| ip == target.ip() && port.port == target.port();
                let vips = port.external_ips.iter().chain(&port.ingress_ips).copied();
                let is_target =
                    vips.chain([port.cluster_ip]).any(at) || port.node_port == Some(target.port());
                if is_target {
                    let left = port.left_out.iter().map(|left| &left.endpoint);
                    let all = port.cluster.iter().chain(left);
                    backends.extend(all.map(|end| SocketAddr::new(end.address, end.port)));
                }
            }
        }
        backends
    }
}

fn of_changes(changes: &[Change], perspective: Perspective) -> Cluster {
    let mut cluster = Cluster::new(perspective);
    for change in changes {
        cluster.apply(change.clone());
    }
    cluster
}
