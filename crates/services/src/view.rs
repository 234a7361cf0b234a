//! From the records of one Service to what one node should do for it. Pure functions.

use std::fmt::Write as _;
use std::net::IpAddr;

use rustc_hash::FxHashSet;

use crate::condition::{Condition, ConditionKind};
use crate::model::{
    Affinity, IpFamily, LeftOut, LeftOutReason, Perspective, ServicePort, ServiceView, TrafficPolicy,
    port_label,
};
use crate::record::{PortRecord, ServiceRecord, SliceRecord};
use crate::selection::{Candidate, Selection, Viewer, select};

/// The view of a Service that is not skipped. `slices` are those of this Service, in any order of endpoints but in a
/// fixed order of slices (it orders the conditions).
pub(crate) fn build(
    service: &ServiceRecord,
    slices: &[&SliceRecord],
    perspective: &Perspective,
) -> ServiceView {
    let mut families: Vec<(IpFamily, IpAddr)> =
        service.cluster_ips.iter().map(|ip| (IpFamily::of(*ip), *ip)).collect();
    families.sort_unstable();
    families.retain(|(family, _)| perspective.serves(*family));

    let mut conditions = service_conditions(service, &families, perspective);
    let mut ports = Vec::with_capacity(service.ports.len() * families.len());
    let mut local_ready: Vec<(IpFamily, FxHashSet<IpAddr>)> =
        families.iter().map(|(family, _)| (*family, FxHashSet::default())).collect();
    for port in &service.ports {
        for ((family, cluster_ip), (_, ready)) in families.iter().zip(&mut local_ready) {
            let selection = select(candidates(port, *family, slices, perspective), viewer(perspective));
            ready.extend(&selection.local_ready);
            port_conditions(port, *family, slices, &selection, perspective, &mut conditions);
            ports.push(service_port(service, port, *family, *cluster_ip, selection, perspective));
        }
    }
    fault_conditions(service, slices, &mut conditions);

    let local_ready_by_family: Vec<(IpFamily, usize)> =
        local_ready.into_iter().map(|(family, addresses)| (family, addresses.len())).collect();
    ServiceView {
        key: service.key.clone(),
        kind: service.kind,
        ports,
        preserve_destination: service.preserve_destination,
        conditions,
        local_ready: local_ready_by_family.iter().map(|(_, count)| *count).max().unwrap_or(0),
        local_ready_by_family,
    }
}

fn viewer(perspective: &Perspective) -> Viewer<'_> {
    Viewer { node: &perspective.node, zone: perspective.zone.as_deref(), limit: perspective.max_backends }
}

/// The endpoints that slices of this family offer under this port's name and protocol. The number comes from the
/// slice alone.
fn candidates<'a>(
    port: &PortRecord,
    family: IpFamily,
    slices: &[&'a SliceRecord],
    perspective: &Perspective,
) -> Vec<Candidate<'a>> {
    let mut found = Vec::new();
    for slice in slices.iter().filter(|s| s.family == family) {
        for slice_port in slice.ports.iter().filter(|p| p.name == port.name && p.protocol == port.protocol) {
            found.extend(slice.endpoints.iter().map(|record| Candidate {
                record,
                port: slice_port.port,
                local: record.node.as_ref() == Some(&perspective.node),
            }));
        }
    }
    found
}

fn service_port(
    service: &ServiceRecord,
    port: &PortRecord,
    family: IpFamily,
    cluster_ip: IpAddr,
    selection: Selection,
    perspective: &Perspective,
) -> ServicePort {
    let of_family = |ips: &[IpAddr]| ips.iter().copied().filter(|ip| IpFamily::of(*ip) == family).collect();
    ServicePort {
        name: port.name.clone(),
        protocol: port.protocol,
        family,
        port: port.port,
        node_port: port.node_port,
        cluster_ip,
        external_ips: if perspective.allow_external_ips {
            of_family(&service.external_ips)
        } else {
            Vec::new()
        },
        ingress_ips: of_family(&service.ingress_ips),
        affinity: service.affinity,
        internal_policy: service.internal_policy,
        external_policy: service.external_policy,
        health_check_node_port: service.health_check_node_port,
        source_ranges: service
            .source_ranges
            .iter()
            .filter(|n| IpFamily::of_net(n) == family)
            .copied()
            .collect(),
        target_port: selection.target_port,
        cluster: selection.cluster,
        local: selection.local,
        left_out: selection.left_out,
    }
}

fn service_conditions(
    service: &ServiceRecord,
    families: &[(IpFamily, IpAddr)],
    perspective: &Perspective,
) -> Vec<Condition> {
    let mut conditions = Vec::new();
    if families.is_empty() && !service.cluster_ips.is_empty() {
        let own = list(service.cluster_ips.iter().map(|ip| IpFamily::of(*ip)));
        let served = list(perspective.families.iter());
        let message = format!("the Service is {own} only, and this node serves {served}");
        conditions.push(Condition::of_service(ConditionKind::FamilyNotServed, message));
        return conditions;
    }
    if let Affinity::ClientIp { timeout_seconds } = service.affinity {
        let message = format!(
            "the affinity timeout of {timeout_seconds} s has no effect: Windows keeps no time, so a client keeps its \
             endpoint until the set of endpoints changes"
        );
        conditions.push(Condition::of_service(ConditionKind::AffinityTimeout, message));
    }
    let open: Vec<IpAddr> =
        service.ingress_ips.iter().copied().filter(|ip| is_restricted(service, *ip, perspective)).collect();
    if !open.is_empty() {
        let message = format!(
            "spec.loadBalancerSourceRanges is not enforced on Windows: {} can be reached by every client",
            list(open)
        );
        conditions.push(Condition::of_service(ConditionKind::SourceRanges, message));
    }
    if !perspective.allow_external_ips && !service.external_ips.is_empty() {
        let message = "spec.externalIPs is not served: the feature gate AllowServiceExternalIPs is off";
        conditions.push(Condition::of_service(ConditionKind::ExternalIpsDisabled, message));
    }
    conditions
}

/// Whether the Service wants this ingress address kept from some clients. A range of length 0 admits everybody.
fn is_restricted(service: &ServiceRecord, ip: IpAddr, perspective: &Perspective) -> bool {
    let family = IpFamily::of(ip);
    let mut ranges = service.source_ranges.iter().filter(|n| IpFamily::of_net(n) == family).peekable();
    perspective.serves(family) && ranges.peek().is_some() && ranges.all(|n| n.prefix_len() > 0)
}

fn port_conditions(
    port: &PortRecord,
    family: IpFamily,
    slices: &[&SliceRecord],
    selection: &Selection,
    perspective: &Perspective,
    conditions: &mut Vec<Condition>,
) {
    let mut add = |kind: ConditionKind, message: String| {
        let label = port_label(&port.name, port.port, port.protocol, family);
        conditions.push(Condition::of_port(kind, label, message));
    };
    if selection.port_numbers.len() > 1 {
        let left = selection.left_out.iter().filter(|l| l.reason == LeftOutReason::OtherTargetPort);
        let message = format!(
            "endpoints advertise the ports {}, and a load balancer has one: those on {} are served; left out: {}",
            list(&selection.port_numbers),
            selection.target_port,
            some_addresses(left),
        );
        add(ConditionKind::MixedTargetPorts, message);
    }
    if let Some(limit) = perspective.max_backends {
        for (policy, count) in
            [(TrafficPolicy::Cluster, selection.unlimited.0), (TrafficPolicy::Local, selection.unlimited.1)]
        {
            if count > limit {
                let message = format!(
                    "{count} endpoints for traffic policy {policy}, and a load balancer of this build takes {limit}: \
                     {} are left out",
                    count - limit
                );
                add(ConditionKind::TooManyBackends, message);
            }
        }
    }
    if selection.cluster.is_empty() && perspective.max_backends != Some(0) {
        add(ConditionKind::NoUsableEndpoints, no_endpoints(port, family, slices, selection));
    }
}

fn no_endpoints(
    port: &PortRecord,
    family: IpFamily,
    slices: &[&SliceRecord],
    selection: &Selection,
) -> String {
    if !selection.left_out.is_empty() {
        let mut counts: Vec<(LeftOutReason, usize)> = Vec::new();
        for left in &selection.left_out {
            match counts.iter_mut().find(|(reason, _)| *reason == left.reason) {
                Some((_, count)) => *count += 1,
                None => counts.push((left.reason, 1)),
            }
        }
        counts.sort_unstable();
        let counts = list(counts.into_iter().map(|(reason, count)| format!("{count} {}", reason.explain())));
        return format!("none of {} endpoints can be used: {counts}", selection.left_out.len());
    }
    let mut names: Vec<String> = slices
        .iter()
        .filter(|s| s.family == family && !s.endpoints.is_empty())
        .flat_map(|s| s.ports.iter().map(|p| format!("{:?}/{}", p.name, p.protocol)))
        .collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        "there are no endpoints".to_owned()
    } else {
        format!("no slice has a port {:?}/{}; they have {}", port.name, port.protocol, list(names))
    }
}

fn fault_conditions(service: &ServiceRecord, slices: &[&SliceRecord], conditions: &mut Vec<Condition>) {
    for fault in &service.faults {
        conditions.push(Condition::of_service(fault.kind, fault.to_string()));
    }
    for slice in slices {
        for fault in &slice.faults {
            let message = format!("EndpointSlice {}/{}: {fault}", slice.namespace, slice.name);
            conditions.push(Condition::of_service(fault.kind, message));
        }
    }
}

/// `a, b, c`.
fn list<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let mut text = String::new();
    for item in items {
        let comma = if text.is_empty() { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}{item}");
    }
    text
}

/// The first addresses of a list that may be long.
fn some_addresses<'a>(left: impl Iterator<Item = &'a LeftOut>) -> String {
    const SHOWN: usize = 5;
    let all: Vec<String> = left.map(|l| format!("{} on {}", l.endpoint.address, l.endpoint.port)).collect();
    let more = all.len().saturating_sub(SHOWN);
    let shown = list(all.into_iter().take(SHOWN));
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}
