//! What HNS should hold, worked out without the engine: from the Services' views and the endpoints that are in HNS,
//! by the words of the table in docs/differences.md. And a proxy that starts anew must find nothing to do.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use hcn::Hcn;
use proxy::dry_run::DryRun;
use services::{ServicePort, ServiceView, TrafficPolicy};

use crate::world::{World, dump, name};

/// Compares; the error says what differs.
pub(crate) fn compare(world: &World) -> Result<(), String> {
    frontends(world)?;
    fresh_eyes(world)
}

/// Every frontend that a view asks for and that has a backend in HNS is held by one load balancer with exactly those
/// backends; and there is no other load balancer of ours.
fn frontends(world: &World) -> Result<(), String> {
    let short = dump::short(&world.hns);
    let endpoints = dump::endpoints(&world.hns);
    let has =
        |address: IpAddr| endpoints.values().any(|endpoint| endpoint.addresses().any(|own| own == address));
    let mut expected: BTreeSet<String> = BTreeSet::new();
    for (_, view) in world.driver.proxy().services() {
        for port in &view.ports {
            for (frontend, set) in wanted(view, port) {
                let backends: BTreeSet<String> = set
                    .iter()
                    .map(|endpoint| endpoint.address)
                    .filter(|&address| has(address))
                    .map(name)
                    .collect();
                expected.insert(frontend.clone());
                // Where several Services ask for one frontend, the first by name is served; the others wait.
                let shared = world
                    .driver
                    .proxy()
                    .services()
                    .filter(|(_, other)| {
                        other
                            .ports
                            .iter()
                            .any(|port| wanted(other, port).iter().any(|(text, _)| *text == frontend))
                    })
                    .count();
                if shared > 1 {
                    continue;
                }
                // A remote backend always gets an endpoint.
                let missing: Vec<String> = set
                    .iter()
                    .filter(|endpoint| !endpoint.local && !has(endpoint.address))
                    .map(|endpoint| name(endpoint.address))
                    .collect();
                if !missing.is_empty() {
                    return Err(format!(
                        "{frontend} ({}): remote backends {missing:?} have no endpoint",
                        view.key
                    ));
                }
                if backends.is_empty() {
                    continue;
                }
                let Some((_, balancer)) = short.get(&frontend) else {
                    return Err(format!(
                        "{frontend} of {} is not there; its backends are {backends:?}",
                        view.key
                    ));
                };
                if balancer.backends != backends {
                    return Err(format!(
                        "{frontend} of {}: {balancer}, expected backends {backends:?}",
                        view.key
                    ));
                }
                if balancer.internal_port != port.target_port {
                    return Err(format!(
                        "{frontend} of {}: {balancer}, expected port {}",
                        view.key, port.target_port
                    ));
                }
            }
        }
    }
    for (frontend, (id, balancer)) in &short {
        let ours = dump::balancers(&world.hns)
            .get(id)
            .is_some_and(|document| document.owner.as_deref() == Some("transom"));
        let health = world.setup.config.forward_health_check_vip && balancer.internal_port == 10256;
        if ours && !health && !expected.contains(frontend) {
            return Err(format!("nobody wants {balancer}"));
        }
    }
    Ok(())
}

type Wanted<'a> = Vec<(String, &'a [services::Endpoint])>;

fn wanted<'a>(view: &ServiceView, port: &'a ServicePort) -> Wanted<'a> {
    let text = |vip: Option<IpAddr>, number: u16| {
        dump::frontend_text(&hcn::loadbalancer::Frontend {
            ipv6: port.cluster_ip.is_ipv6(),
            vip,
            protocol: u32::from(port.protocol.number()),
            port: number,
        })
    };
    let local_only = port.external_policy == TrafficPolicy::Local || view.preserve_destination;
    let outside: &[services::Endpoint] = if local_only { &port.local } else { &port.cluster };
    let external: &[services::Endpoint] =
        if port.external_policy == TrafficPolicy::Local { &port.local } else { &port.cluster };
    let mut list: Wanted<'a> = vec![(text(Some(port.cluster_ip), port.port), port.internal())];
    list.extend(port.node_port.map(|number| (text(None, number), outside)));
    list.extend(port.external_ips.iter().map(|&vip| (text(Some(vip), port.port), external)));
    list.extend(port.ingress_ips.iter().map(|&vip| (text(Some(vip), port.port), outside)));
    list
}

/// A proxy that knows nothing and may write nothing sees no difference.
fn fresh_eyes(world: &World) -> Result<(), String> {
    let mut setup = world.setup.clone();
    setup.wrap = Some(Arc::new(|hcn: Arc<dyn Hcn>| Arc::new(DryRun::new(hcn)) as Arc<dyn Hcn>));
    let mut driver = world.another_driver(&setup);
    let report = driver.pass();
    if let Some(change) = report.changes.first() {
        return Err(format!(
            "a proxy that starts anew would {} {} {}: {}",
            change.action, change.kind, change.subject, change.why
        ));
    }
    match report.failures.first() {
        Some(failure) => Err(format!("a proxy that starts anew fails: {failure:?}")),
        None => Ok(()),
    }
}
