//! One Service's load balancers. The table of kinds, flags and endpoint sets follows kube-proxy's Windows mode
//! (facts: Kubernetes 1.36) where that is right; docs/differences.md lists where it is not followed.

use std::net::IpAddr;
use std::sync::Arc;

use hcn::Feature;
use hcn::loadbalancer::{Distribution, Frontend, LoadBalancerFlags, PortMappingFlags, protocol};
use services::{Affinity, IpFamily, ServicePort, ServiceView, TrafficPolicy};

use super::{Backend, Backends, NodeContext, Place, Role, ServicePlan, SourceVip, WantedBalancer};
use crate::status::{ConditionReason, ProxyCondition};

/// Plans one Service.
pub fn plan_service(view: &ServiceView, node: &NodeContext) -> ServicePlan {
    let mut plan = Plan { view, node, out: ServicePlan::default() };
    for port in &view.ports {
        plan.port(port);
    }
    plan.out
}

struct Plan<'a> {
    view: &'a ServiceView,
    node: &'a NodeContext,
    out: ServicePlan,
}

/// What all load balancers of a service port have in common.
struct Common<'a> {
    port: &'a ServicePort,
    distribution: Distribution,
    ipv6: LoadBalancerFlags,
    dsr: bool,
    preserve: bool,
    internal: Arc<[Backend]>,
    external: Arc<[Backend]>,
}

impl Plan<'_> {
    fn port(&mut self, port: &ServicePort) {
        let dsr_capable = self.node.features.supports(Feature::Dsr);
        let external_local = port.external_policy == TrafficPolicy::Local;
        let preserve = self.view.preserve_destination && dsr_capable;
        if self.view.preserve_destination && !dsr_capable {
            self.say(port, ConditionReason::DsrUnsupported,
                "the annotation preserve-destination needs direct server return, which this HNS lacks; it has no effect".to_owned());
        }
        if external_local && !dsr_capable && has_external_frontend(port) {
            self.say(port, ConditionReason::DsrUnsupported,
                "externalTrafficPolicy Local needs direct server return, which this HNS lacks; local endpoints serve, but they do not see the client's address".to_owned());
        }
        let distribution = self.distribution(port);
        let internal = backends(port.internal());
        let external =
            if external_local || preserve { backends(&port.local) } else { backends(port.external()) };
        let common = Common {
            port,
            distribution,
            ipv6: if port.family == IpFamily::V6 {
                LoadBalancerFlags::IPV6
            } else {
                LoadBalancerFlags::empty()
            },
            dsr: external_local && dsr_capable,
            preserve,
            internal,
            external,
        };
        self.cluster_ip(&common);
        self.node_port(&common);
        self.external_ips(&common);
        self.ingress(&common);
    }

    fn distribution(&mut self, port: &ServicePort) -> Distribution {
        match port.affinity {
            Affinity::None => Distribution::None,
            Affinity::ClientIp { .. } if self.node.features.supports(Feature::SessionAffinity) => {
                Distribution::SourceIp
            }
            Affinity::ClientIp { .. } => {
                self.say(port, ConditionReason::AffinityUnsupported,
                    "sessionAffinity ClientIP needs HNS 12.0 or newer; connections of one client go to different endpoints".to_owned());
                Distribution::None
            }
        }
    }

    fn cluster_ip(&mut self, common: &Common<'_>) {
        let dsr = self.node.enable_dsr && self.node.features.supports(Feature::Dsr);
        let flags = common.ipv6 | if dsr { LoadBalancerFlags::DSR } else { LoadBalancerFlags::empty() };
        let vip = common.port.cluster_ip;
        self.add(
            common,
            Role::ClusterIp,
            Some(vip),
            common.port.port,
            PortMappingFlags::empty(),
            flags,
            &common.internal,
        );
    }

    fn node_port(&mut self, common: &Common<'_>) {
        let Some(node_port) = common.port.node_port else { return };
        let mapping = PortMappingFlags::VIP_EXTERNAL_IP | PortMappingFlags::LOCAL_ROUTED_VIP;
        let flags =
            common.ipv6 | if common.dsr { LoadBalancerFlags::DSR } else { LoadBalancerFlags::empty() };
        match self.node.node_port_addresses.clone() {
            None => self.add(common, Role::NodePort, None, node_port, mapping, flags, &common.external),
            Some(addresses) => {
                for address in
                    addresses.into_iter().filter(|&address| IpFamily::of(address) == common.port.family)
                {
                    self.add(
                        common,
                        Role::NodePort,
                        Some(address),
                        node_port,
                        mapping,
                        flags,
                        &common.external,
                    );
                }
            }
        }
    }

    fn external_ips(&mut self, common: &Common<'_>) {
        let flags =
            common.ipv6 | if common.dsr { LoadBalancerFlags::DSR } else { LoadBalancerFlags::empty() };
        // preserve-destination is about ingress and node ports; external IPs follow the traffic policy alone.
        let set = if common.port.external_policy == TrafficPolicy::Local {
            Arc::clone(&common.external)
        } else if common.preserve {
            backends(&common.port.cluster)
        } else {
            Arc::clone(&common.external)
        };
        for &vip in &common.port.external_ips {
            self.add(
                common,
                Role::ExternalIp,
                Some(vip),
                common.port.port,
                PortMappingFlags::VIP_EXTERNAL_IP,
                flags,
                &set,
            );
        }
    }

    fn ingress(&mut self, common: &Common<'_>) {
        let dsr = common.dsr || common.preserve;
        let flags = common.ipv6 | if dsr { LoadBalancerFlags::DSR } else { LoadBalancerFlags::empty() };
        let preserving = if common.preserve {
            PortMappingFlags::USE_MUX | PortMappingFlags::PRESERVE_DIP
        } else {
            PortMappingFlags::empty()
        };
        for &vip in &common.port.ingress_ips {
            let mapping = PortMappingFlags::VIP_EXTERNAL_IP | preserving;
            self.add(common, Role::Ingress, Some(vip), common.port.port, mapping, flags, &common.external);
            self.health_check(common, vip, preserving);
        }
    }

    /// Cloud load balancers probe the VIP itself; without this nothing answers there (kubernetes/kubernetes#99287).
    /// Always TCP, in the VIP's own family; several ports or Services ask for the same one and share it.
    fn health_check(&mut self, common: &Common<'_>, vip: IpAddr, mapping_flags: PortMappingFlags) {
        let port = common.port.health_check_node_port.unwrap_or(self.node.healthz_port);
        if port == 0
            || common.external.is_empty()
            || !self.node.health_check_families.contains(&common.port.family)
        {
            return;
        }
        let frontend = Frontend { ipv6: vip.is_ipv6(), vip: Some(vip), protocol: protocol::TCP, port };
        if self.out.balancers.iter().any(|balancer| balancer.frontend == frontend) {
            return;
        }
        let source_vip =
            if self.node.overlay { SourceVip::Dedicated } else { self.node_source(common.port.family) };
        self.out.balancers.push(Arc::new(WantedBalancer {
            frontend,
            role: Role::HealthCheck,
            internal_port: port,
            source_vip,
            distribution: Distribution::None,
            mapping_flags,
            flags: common.ipv6,
            backends: Backends::Gateway,
            vip_endpoint: None,
        }));
    }

    #[expect(clippy::too_many_arguments, reason = "one column of the table of load balancers each")]
    fn add(
        &mut self,
        common: &Common<'_>,
        role: Role,
        vip: Option<IpAddr>,
        external_port: u16,
        mapping_flags: PortMappingFlags,
        flags: LoadBalancerFlags,
        set: &Arc<[Backend]>,
    ) {
        if set.is_empty() {
            return;
        }
        let frontend = Frontend {
            ipv6: common.port.family == IpFamily::V6,
            vip,
            protocol: u32::from(common.port.protocol.number()),
            port: external_port,
        };
        if self.out.balancers.iter().any(|balancer| balancer.frontend == frontend) {
            self.say(
                common.port,
                ConditionReason::FrontendConflict,
                format!("{frontend} is asked for twice by this Service; the first one is served"),
            );
            return;
        }
        self.out.balancers.push(Arc::new(WantedBalancer {
            frontend,
            role,
            internal_port: common.port.target_port,
            source_vip: self.source_vip(common.port.family, set),
            distribution: common.distribution.clone(),
            mapping_flags,
            flags,
            backends: Backends::Addresses(Arc::clone(set)),
            vip_endpoint: if self.node.overlay && role == Role::ClusterIp { vip } else { None },
        }));
    }

    /// KEP-5100: on an overlay the node's address when a backend is another node's or outside the cluster (rules a
    /// and b), else the source VIP (rule c: pods and this node's own address). Elsewhere the node's address is
    /// given always: builds differ in what they assume when it is left out (kubernetes/community#8890).
    fn source_vip(&self, family: IpFamily, set: &[Backend]) -> SourceVip {
        if !self.node.overlay {
            return self.node_source(family);
        }
        let beyond = set.iter().any(|backend| {
            !backend.local
                && matches!(self.node.book.place(backend.address), Place::OtherNode | Place::Outside)
        });
        if beyond { self.node_source(family) } else { SourceVip::Dedicated }
    }

    fn node_source(&self, family: IpFamily) -> SourceVip {
        self.node.node_addresses.get(&family).map_or(SourceVip::Absent, |&address| SourceVip::Node(address))
    }

    fn say(&mut self, port: &ServicePort, reason: ConditionReason, message: String) {
        let condition = ProxyCondition { reason, port: Some(port.label()), message };
        if !self.out.conditions.contains(&condition) {
            self.out.conditions.push(condition);
        }
    }
}

fn has_external_frontend(port: &ServicePort) -> bool {
    port.node_port.is_some() || !port.external_ips.is_empty() || !port.ingress_ips.is_empty()
}

/// Addresses, each once: HNS takes an endpoint once per load balancer.
fn backends(endpoints: &[services::Endpoint]) -> Arc<[Backend]> {
    let mut list: Vec<Backend> = endpoints
        .iter()
        .map(|endpoint| Backend { address: endpoint.address, local: endpoint.local })
        .collect();
    list.sort_unstable_by_key(|backend| (backend.address, !backend.local));
    list.dedup_by_key(|backend| backend.address);
    list.into()
}
