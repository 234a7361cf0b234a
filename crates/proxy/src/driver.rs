//! The store of Services and the engine, in one loop: changes go in, passes come out. Runs on the caller's thread;
//! a caller that must stay responsive while HNS hangs gives it a thread of its own.

use std::sync::Arc;
use std::time::Duration;

use services::{Change, Cluster, Perspective, ServiceKey};

use crate::config::{Interface, NodeInput};
use crate::engine::Proxy;
use crate::status::Report;

/// A cluster's objects and one node's proxy.
pub struct Driver {
    cluster: Cluster,
    proxy: Proxy,
    node: Arc<str>,
    interfaces: Vec<Interface>,
    perspective: Perspective,
    primary_address: Option<std::net::IpAddr>,
    /// The Node's addresses as last seen.
    addresses: Vec<std::net::IpAddr>,
}

impl Driver {
    /// Puts the two together for the node named in the perspective. Its families and limits follow what HNS says.
    pub fn new(cluster: Cluster, proxy: Proxy, perspective: Perspective, interfaces: Vec<Interface>) -> Self {
        let node = Arc::clone(&perspective.node);
        let (primary_address, addresses) = (None, Vec::new());
        let mut driver = Self { cluster, proxy, node, interfaces, perspective, primary_address, addresses };
        driver.follow_nodes();
        driver
    }

    /// Takes one change of the cluster; nothing is written before the next pass.
    pub fn apply(&mut self, change: Change) {
        self.cluster.apply(change);
    }

    /// Changes what is known of the host's interfaces.
    pub fn set_interfaces(&mut self, interfaces: Vec<Interface>) {
        self.interfaces = interfaces;
        self.follow_nodes();
    }

    /// Overrides the node's primary address (`--bind-address`).
    pub fn set_primary_address(&mut self, address: Option<std::net::IpAddr>) {
        self.primary_address = address;
        self.follow_nodes();
    }

    /// One pass: read what is due, take the cluster's changes, write what differs.
    pub fn pass(&mut self) -> Report {
        if self.cluster.take_nodes_changed() {
            self.follow_nodes();
        }
        let mut report = self.proxy.observe();
        self.feed();
        merge(&mut report, self.proxy.sync());
        // HNS may have taught a limit; what it changes is written at once.
        if self.feed() {
            merge(&mut report, self.proxy.sync());
        }
        report
    }

    /// The engine.
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// The engine, to change its settings.
    pub fn proxy_mut(&mut self) -> &mut Proxy {
        &mut self.proxy
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// When the next pass is worth while if no change comes in, in the clock's time.
    pub fn next_wakeup(&self) -> Duration {
        self.proxy.next_wakeup()
    }

    /// Hands Services whose view may have changed to the engine. Returns whether there were any.
    fn feed(&mut self) -> bool {
        if self.proxy.is_ready() {
            self.perspective.families = self.proxy.families();
            self.perspective.max_backends = Some(self.proxy.max_backends());
        }
        self.cluster.set_perspective(self.perspective.clone());
        let dirty: Vec<ServiceKey> = self.cluster.take_dirty();
        for key in &dirty {
            let view = self.cluster.view(key);
            self.proxy.set_service(key, view);
        }
        !dirty.is_empty()
    }

    /// A Node that is deleted, or has lost its addresses, is still this machine: what was last known holds until the
    /// Node says something else (kubernetes/kubernetes#138183).
    fn follow_nodes(&mut self) {
        if let Some(own) = self.cluster.node(&self.node) {
            self.perspective.zone.clone_from(&own.zone);
            if !own.addresses.is_empty() {
                self.addresses.clone_from(&own.addresses);
            }
        }
        let mut input = node_input(&self.cluster, &self.addresses, &self.node, &self.interfaces);
        if let Some(primary) = self.primary_address {
            // It takes the place of the Node's own address of its family, and its family comes first.
            input.addresses.retain(|&address| address.is_ipv4() != primary.is_ipv4());
            input.addresses.insert(0, primary);
        }
        self.proxy.set_node(input);
    }
}

fn node_input(
    cluster: &Cluster,
    addresses: &[std::net::IpAddr],
    name: &Arc<str>,
    interfaces: &[Interface],
) -> NodeInput {
    let mut other_nodes: Vec<std::net::IpAddr> = cluster
        .nodes()
        .filter(|node| node.name != *name)
        .flat_map(|node| node.addresses.iter().copied())
        .collect();
    other_nodes.sort_unstable();
    other_nodes.dedup();
    NodeInput {
        name: Arc::clone(name),
        addresses: addresses.to_vec(),
        interfaces: interfaces.to_vec(),
        other_nodes,
    }
}

fn merge(into: &mut Report, from: Report) {
    into.changes.extend(from.changes);
    into.failures.extend(from.failures);
    into.repairs += from.repairs;
    into.conditions = from.conditions;
    into.pending = from.pending;
}
