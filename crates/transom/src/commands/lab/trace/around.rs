//! What a lab's nodes tell of themselves, for whoever looks for the reason of a failure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hcn::loadbalancer::Frontend;
use services::{Cluster, ServiceKey};

use super::super::super::trace::surroundings::{Surroundings, balancer, endpoints};
use super::super::links;
use super::super::live::LiveCluster;

/// The lab around an exchange.
pub(super) struct Around<'a> {
    live: &'a LiveCluster,
    views: BTreeMap<String, Cluster>,
    cut: BTreeMap<String, bool>,
}

impl<'a> Around<'a> {
    pub(super) fn new(live: &'a LiveCluster) -> Self {
        Self { live, views: BTreeMap::new(), cut: BTreeMap::new() }
    }

    /// Whether a node's link is cut; one that does not tell has none that is known to be.
    pub(super) fn is_cut_off(&mut self, node: &str) -> bool {
        if let Some(&known) = self.cut.get(node) {
            return known;
        }
        let lab = &self.live.lab;
        let link = lab.node(node).and_then(|node| links::of(lab, node));
        let is_cut = match link {
            Ok(link) => link.cut,
            Err(error) => {
                tracing::debug!("{error:#}");
                false
            }
        };
        self.cut.insert(node.to_owned(), is_cut);
        is_cut
    }
}

impl Surroundings for Around<'_> {
    fn cluster(&self) -> &Cluster {
        &self.live.cluster
    }

    fn seen_by(&mut self, node: &str) -> Option<&Cluster> {
        if !self.is_windows(node) {
            return None;
        }
        if !self.views.contains_key(node) {
            self.views.insert(node.to_owned(), self.live.seen_by(node)?);
        }
        self.views.get(node)
    }

    fn is_windows(&self, node: &str) -> bool {
        self.live.lab.windows().any(|windows| windows.name == node)
    }

    fn node_of(&self, pod: &str) -> Option<String> {
        let pods = &self.live.lab.status.pods;
        pods.iter().find(|known| known.name == pod).map(|pod| pod.node.clone())
    }

    fn balancer(&self, node: &str, frontend: &Frontend) -> Option<String> {
        balancer(&self.live.lab.daemon(node).ok()?, frontend)
    }

    fn endpoints(&self, node: &str) -> Option<Vec<IpAddr>> {
        endpoints(&self.live.lab.daemon(node).ok()?)
    }

    /// The proxy is another process, and keeps that to itself.
    fn unprogrammed(&mut self, _: &str, _: &ServiceKey, _: &Frontend) -> Option<String> {
        None
    }

    fn is_cut(&mut self, node: &str) -> bool {
        self.is_cut_off(node)
    }
}
