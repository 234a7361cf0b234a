//! What is known of the cluster around an exchange besides its packets: of one in memory everything, of a running lab what
//! its nodes tell.

use std::net::IpAddr;

use hcn::loadbalancer::Frontend;
use hcn::{Endpoint, Hcn, HcnExt, LoadBalancer, Query};
use proxy::status::FrontendState;
use services::{Cluster, ServiceKey};

use crate::world::World;

/// The cluster around an exchange.
pub trait Surroundings {
    /// The cluster's objects.
    fn cluster(&self) -> &Cluster;

    /// The same as the proxy of a Windows node sees it.
    fn seen_by(&mut self, node: &str) -> Option<&Cluster>;

    /// Whether a node is an emulated Windows node.
    fn is_windows(&self, node: &str) -> bool;

    /// The node of a pod, `namespace/name`.
    fn node_of(&self, pod: &str) -> Option<String>;

    /// The load balancer that a node's HNS holds for a frontend.
    fn balancer(&self, node: &str, frontend: &Frontend) -> Option<String>;

    /// The addresses of a Windows node's own endpoints. `None`: there is no HNS, or it does not tell.
    fn endpoints(&self, node: &str) -> Option<Vec<IpAddr>>;

    /// What keeps a node's proxy from programming a frontend, as far as it knows.
    fn unprogrammed(&mut self, node: &str, service: &ServiceKey, frontend: &Frontend) -> Option<String>;

    /// Whether a node's link is cut.
    fn is_cut(&mut self, node: &str) -> bool;
}

/// The load balancer that an HNS holds for a frontend.
pub(in crate::commands) fn balancer(hns: &dyn Hcn, frontend: &Frontend) -> Option<String> {
    let balancers = hns.list::<LoadBalancer>(&Query::all()).ok()?;
    let (id, _) = balancers.into_iter().find(|(_, balancer)| balancer.frontends().contains(frontend))?;
    Some(id.to_string())
}

/// The addresses of an HNS' own endpoints.
pub(in crate::commands) fn endpoints(hns: &dyn Hcn) -> Option<Vec<IpAddr>> {
    let endpoints = hns.list::<Endpoint>(&Query::all()).ok()?;
    let local = endpoints.iter().filter(|(_, endpoint)| !endpoint.is_remote());
    Some(local.flat_map(|(_, endpoint)| endpoint.addresses()).collect())
}

impl Surroundings for World {
    fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    fn seen_by(&mut self, node: &str) -> Option<&Cluster> {
        Some(self.proxies.get_mut(node)?.driver().cluster())
    }

    fn is_windows(&self, node: &str) -> bool {
        self.simulation.windows(node).is_some()
    }

    fn node_of(&self, pod: &str) -> Option<String> {
        self.simulation.pods().find(|(name, _)| *name == pod).map(|(_, node)| node.to_owned())
    }

    fn balancer(&self, node: &str, frontend: &Frontend) -> Option<String> {
        balancer(&self.simulation.windows(node)?.hns().actor("trace"), frontend)
    }

    fn endpoints(&self, node: &str) -> Option<Vec<IpAddr>> {
        endpoints(&self.simulation.windows(node)?.hns().actor("trace"))
    }

    fn unprogrammed(&mut self, node: &str, service: &ServiceKey, frontend: &Frontend) -> Option<String> {
        let status = self.proxies.get_mut(node)?.driver().proxy().status(service)?;
        let frontend = frontend.to_string();
        let state = status.frontends.into_iter().find(|status| status.frontend == frontend)?.state;
        match state {
            FrontendState::Programmed => None,
            FrontendState::Pending => Some("the proxy has not written it yet".to_owned()),
            FrontendState::Waiting { reason } => Some(reason),
            FrontendState::Failed { error, .. } => Some(error),
        }
    }

    fn is_cut(&mut self, node: &str) -> bool {
        let Some(device) = self.simulation.node(node) else { return false };
        let fabric = self.simulation.fabric_mut();
        let link = fabric.link_at(device, 0);
        link.and_then(|link| fabric.link_mut(link)).is_some_and(|link| !link.up)
    }
}
