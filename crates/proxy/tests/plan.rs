//! Properties of the plan, over random views and nodes: what must hold whatever a Service asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hcn::loadbalancer::{Distribution, LoadBalancerFlags, PortMappingFlags};
use hcn::{Feature, Features, Version};
use proptest::prelude::*;
use proxy::plan::{AddressBook, Backends, NodeContext, Role, SourceVip, plan_service};
use services::{
    Affinity, Endpoint, IpFamily, Protocol, ServiceKey, ServiceKind, ServicePort, ServiceView, TrafficPolicy,
};

fn address(family: IpFamily) -> BoxedStrategy<IpAddr> {
    match family {
        IpFamily::V4 => {
            (0..4_u8, 0..6_u8).prop_map(|(net, host)| IpAddr::from(Ipv4Addr::new(10, 50, net, host))).boxed()
        }
        IpFamily::V6 => (0..4_u16, 0..6_u16)
            .prop_map(|(net, host)| IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, net, 0, 0, 0, 0, host)))
            .boxed(),
    }
}

fn endpoints(family: IpFamily, local_only: bool) -> impl Strategy<Value = Vec<Endpoint>> {
    prop::collection::vec((address(family), any::<bool>()), 0..5).prop_map(move |list| {
        list.into_iter()
            .map(|(address, local)| Endpoint {
                address,
                port: 8080,
                local: local || local_only,
                node: None,
                zone: None,
                ready: true,
                serving: true,
                terminating: false,
                pod: None,
            })
            .collect()
    })
}

fn policy() -> impl Strategy<Value = TrafficPolicy> {
    prop_oneof![Just(TrafficPolicy::Cluster), Just(TrafficPolicy::Local)]
}

fn port(family: IpFamily) -> impl Strategy<Value = ServicePort> {
    (
        (
            1..4_u16,
            prop::option::of(30_000..30_004_u16),
            prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp), Just(Protocol::Sctp)],
        ),
        (
            address(family),
            prop::collection::vec(address(family), 0..3),
            prop::collection::vec(address(family), 0..3),
        ),
        (policy(), policy(), any::<bool>(), prop::option::of(32_000..32_002_u16)),
        (endpoints(family, false), endpoints(family, true)),
    )
        .prop_map(
            move |(
                (port, node_port, protocol),
                (cluster_ip, external_ips, ingress_ips),
                (internal, external, sticky, health),
                (cluster, local),
            )| {
                ServicePort {
                    name: format!("p{port}").into(),
                    protocol,
                    family,
                    port,
                    node_port,
                    cluster_ip,
                    external_ips,
                    ingress_ips,
                    affinity: if sticky {
                        Affinity::ClientIp { timeout_seconds: 10_800 }
                    } else {
                        Affinity::None
                    },
                    internal_policy: internal,
                    external_policy: external,
                    health_check_node_port: health,
                    source_ranges: Vec::new(),
                    target_port: 8080,
                    cluster,
                    local,
                    left_out: Vec::new(),
                }
            },
        )
}

prop_compose! {
    fn view()(
        v4 in prop::collection::vec(port(IpFamily::V4), 0..3),
        v6 in prop::collection::vec(port(IpFamily::V6), 0..2),
        preserve_destination in any::<bool>(),
    ) -> ServiceView {
        ServiceView {
            key: ServiceKey::new("default", "web"),
            kind: ServiceKind::LoadBalancer,
            ports: v4.into_iter().chain(v6).collect(),
            preserve_destination,
            conditions: Vec::new(),
            local_ready: 0,
            local_ready_by_family: Vec::new(),
        }
    }
}

prop_compose! {
    fn context()(
        overlay in any::<bool>(),
        version in prop::sample::select(vec![(9, 2), (9, 5), (10, 1), (11, 10), (13, 3), (15, 4), (16, 0)]),
        enable_dsr in any::<bool>(),
        forward in any::<bool>(),
        all in any::<bool>(),
        healthz_port in prop::sample::select(vec![0_u16, 10_256]),
    ) -> NodeContext {
        let (v4, v6): (IpAddr, IpAddr) = (Ipv4Addr::new(192, 0, 2, 11).into(), Ipv6Addr::LOCALHOST.into());
        NodeContext {
            overlay,
            features: Features::of(Version::new(version.0, version.1)),
            enable_dsr,
            health_check_families: if forward { vec![IpFamily::V4, IpFamily::V6] } else { Vec::new() },
            healthz_port,
            node_port_addresses: (!all).then(|| vec![v4, v6]),
            node_addresses: BTreeMap::from([(IpFamily::V4, v4), (IpFamily::V6, v6)]),
            book: AddressBook { own: vec![v4, v6], subnets: vec!["10.50.0.0/23".parse().expect("a network")], ..AddressBook::default() },
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn what_every_plan_keeps(view in view(), node in context()) {
        let plan = plan_service(&view, &node);
        prop_assert_eq!(&plan, &plan_service(&view, &node), "the plan is a pure function");
        let mut frontends = BTreeSet::new();
        for balancer in &plan.balancers {
            let frontend = balancer.frontend;
            prop_assert!(frontends.insert(frontend), "I2: {frontend} is planned twice");
            prop_assert!(frontend.port != 0 && balancer.internal_port != 0);
            // Only a node port may go without a VIP (CVE-2021-25736).
            prop_assert!(frontend.vip.is_some() || balancer.role == Role::NodePort, "{frontend}");
            // VIP, flag, backends and source are of one family (kubernetes/kubernetes#136240).
            prop_assert_eq!(frontend.ipv6, balancer.flags.contains(LoadBalancerFlags::IPV6));
            prop_assert!(frontend.vip.is_none_or(|vip| vip.is_ipv6() == frontend.ipv6));
            if let SourceVip::Node(source) = balancer.source_vip {
                prop_assert_eq!(source.is_ipv6(), frontend.ipv6);
            }
            prop_assert!(balancer.source_vip != SourceVip::Dedicated || node.overlay);
            if let Backends::Addresses(backends) = &balancer.backends {
                prop_assert!(!backends.is_empty(), "HNS refuses a load balancer without endpoints");
                prop_assert!(backends.windows(2).all(|pair| pair[0].address < pair[1].address), "sorted, each once");
                prop_assert!(backends.iter().all(|backend| backend.address.is_ipv6() == frontend.ipv6));
            } else {
                prop_assert_eq!(balancer.role, Role::HealthCheck);
                prop_assert_eq!(frontend.protocol, 6, "health checks are TCP");
            }
            // Nothing is asked for that this HNS lacks.
            if !node.features.supports(Feature::Dsr) {
                prop_assert!(!balancer.flags.contains(LoadBalancerFlags::DSR));
                prop_assert!(!balancer.mapping_flags.intersects(PortMappingFlags::USE_MUX | PortMappingFlags::PRESERVE_DIP));
            }
            if !node.features.supports(Feature::SessionAffinity) {
                prop_assert_eq!(&balancer.distribution, &Distribution::None);
            }
            prop_assert!(balancer.vip_endpoint.is_none() || (node.overlay && balancer.role == Role::ClusterIp));
        }
        // Whoever has an endpoint is served: every cluster IP with endpoints has a frontend.
        for port in &view.ports {
            if !port.internal().is_empty() {
                let served = plan.balancers.iter().any(|balancer| balancer.frontend.vip == Some(port.cluster_ip) && balancer.frontend.port == port.port);
                prop_assert!(served, "cluster IP {} port {} is not served", port.cluster_ip, port.port);
            }
        }
    }

    #[test]
    fn the_order_of_endpoints_does_not_matter(view in view(), node in context()) {
        let mut turned = view.clone();
        for port in &mut turned.ports {
            port.cluster.reverse();
            port.local.reverse();
        }
        prop_assert_eq!(plan_service(&view, &node), plan_service(&turned, &node));
    }
}
