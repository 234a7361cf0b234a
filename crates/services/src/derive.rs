//! The slices that the endpoint slice controller would write, for clusters that are given as Services and Pods only.
//!
//! A Service is *derivable* when it has a selector and not one slice is known for it: as soon as one is, the slices are
//! the authority. Followed here: which Pods count, their conditions, target ports by number or by container port name,
//! one slice per set of port numbers and family, and the hints of `trafficDistribution`. Not followed: the hints of the
//! annotation `service.kubernetes.io/topology-mode`, which need the CPU capacity of every node.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::model::{IpFamily, ServiceKey};
use crate::record::{
    Distribution, EndpointRecord, Hints, PodFacts, ServiceRecord, SlicePort, SliceRecord, TargetPort,
};

/// Namespace, label key and label value.
type LabelKey = (Arc<str>, Arc<str>, Arc<str>);

/// Which Pods every derivable Service selects, kept up to date at the cost of the change.
#[derive(Debug, Default)]
pub(crate) struct Derivation {
    /// Derivable Services under the first pair of their selector.
    by_label: FxHashMap<LabelKey, BTreeMap<ServiceKey, Arc<ServiceRecord>>>,
    /// Names of the selected Pods, in the Service's namespace.
    members: FxHashMap<ServiceKey, BTreeSet<Arc<str>>>,
}

impl Derivation {
    /// Whether slices could be derived for a Service if it has none.
    pub(crate) fn can(service: &ServiceRecord) -> bool {
        service.skip.is_none() && !service.selector.is_empty()
    }

    /// Starts to follow a Service; `pods` are those of its namespace.
    pub(crate) fn follow<'a>(
        &mut self,
        service: &Arc<ServiceRecord>,
        pods: impl Iterator<Item = &'a PodFacts>,
    ) {
        let Some(label) = first_label(service) else { return };
        self.by_label.entry(label).or_default().insert(service.key.clone(), service.clone());
        let names: BTreeSet<Arc<str>> =
            pods.filter(|p| selects(service, p)).map(|p| p.name.clone()).collect();
        self.members.insert(service.key.clone(), names);
    }

    /// Stops following a Service.
    pub(crate) fn forget(&mut self, service: &ServiceRecord) {
        self.members.remove(&service.key);
        let Some(label) = first_label(service) else { return };
        if let Some(services) = self.by_label.get_mut(&label) {
            services.remove(&service.key);
            if services.is_empty() {
                self.by_label.remove(&label);
            }
        }
    }

    /// Follows a change of one Pod and tells which Services it concerns.
    pub(crate) fn pod_changed(
        &mut self,
        old: Option<&PodFacts>,
        new: Option<&PodFacts>,
    ) -> BTreeSet<ServiceKey> {
        let before = old.map(|p| self.selecting(p)).unwrap_or_default();
        let after = new.map(|p| self.selecting(p)).unwrap_or_default();
        for (keys, pod, present) in [(&before, old, false), (&after, new, true)] {
            for (key, pod) in keys.iter().filter_map(|key| Some((key, pod?))) {
                let names = self.members.entry(key.clone()).or_default();
                if present {
                    names.insert(pod.name.clone());
                } else {
                    names.remove(&pod.name);
                }
            }
        }
        before.union(&after).cloned().collect()
    }

    /// The derivable Services that select a Pod.
    pub(crate) fn selecting(&self, pod: &PodFacts) -> BTreeSet<ServiceKey> {
        if self.by_label.is_empty() {
            return BTreeSet::new();
        }
        let mut found = BTreeSet::new();
        for (key, value) in pod.labels.iter() {
            let label: LabelKey = (pod.namespace.clone(), key.into(), value.into());
            let services = self.by_label.get(&label).into_iter().flatten();
            found.extend(services.filter(|(_, s)| selects(s, pod)).map(|(key, _)| key.clone()));
        }
        found
    }

    /// Names of the Pods that a followed Service selects, in order.
    pub(crate) fn members(&self, key: &ServiceKey) -> impl Iterator<Item = &Arc<str>> {
        self.members.get(key).into_iter().flatten()
    }
}

fn first_label(service: &ServiceRecord) -> Option<LabelKey> {
    let (key, value) = service.selector.first()?;
    Some((service.key.namespace.clone(), key.clone(), value.clone()))
}

pub(crate) fn selects(service: &ServiceRecord, pod: &PodFacts) -> bool {
    pod.namespace == service.key.namespace
        && service.selector.iter().all(|(key, value)| pod.labels.get(key) == Some(&**value))
}

/// The slices for a Service and the Pods that it selects. `zone_of` tells the zone of a node.
pub(crate) fn slices<'a>(
    service: &ServiceRecord,
    pods: impl Iterator<Item = &'a PodFacts>,
    zone_of: impl Fn(&str) -> Option<Arc<str>>,
) -> Vec<SliceRecord> {
    let mut groups: BTreeMap<(IpFamily, Vec<SlicePort>), Vec<EndpointRecord>> = BTreeMap::new();
    for pod in pods.filter(|p| !p.finished()) {
        let ports = slice_ports(service, pod);
        for cluster_ip in &service.cluster_ips {
            let family = IpFamily::of(*cluster_ip);
            let Some(address) = pod.ips.iter().copied().find(|ip| IpFamily::of(*ip) == family) else {
                continue;
            };
            let zone = pod.node.as_deref().and_then(&zone_of);
            groups.entry((family, ports.clone())).or_default().push(endpoint(service, pod, address, zone));
        }
    }
    groups
        .into_iter()
        .enumerate()
        .map(|(i, ((family, ports), mut endpoints))| {
            endpoints.sort_unstable();
            endpoints.dedup();
            SliceRecord {
                namespace: service.key.namespace.clone(),
                name: format!("{}-derived-{i}", service.key.name).into(),
                service: Some(service.key.name.clone()),
                headless: None,
                family,
                ports: ports.into_boxed_slice(),
                endpoints: endpoints.into_boxed_slice(),
                faults: Box::default(),
            }
        })
        .collect()
}

/// The Pod's numbers for the service ports. A named port that the Pod does not have is left out.
pub(crate) fn slice_ports(service: &ServiceRecord, pod: &PodFacts) -> Vec<SlicePort> {
    let mut ports: Vec<SlicePort> = service
        .ports
        .iter()
        .filter_map(|port| {
            let number = match &port.target {
                TargetPort::Number(number) => *number,
                TargetPort::Named(name) => pod.named_port(name, port.protocol)?,
            };
            Some(SlicePort { name: port.name.clone(), protocol: port.protocol, port: number })
        })
        .collect();
    ports.sort_unstable();
    ports
}

fn endpoint(
    service: &ServiceRecord,
    pod: &PodFacts,
    address: IpAddr,
    zone: Option<Arc<str>>,
) -> EndpointRecord {
    let (serving, terminating) = (pod.ready, pod.terminating);
    let ready = service.publish_not_ready || (serving && !terminating);
    let hints = service.distribution.filter(|_| ready).and_then(|wish| {
        let nodes: Vec<Arc<str>> = match wish {
            Distribution::SameNode => pod.node.iter().cloned().collect(),
            Distribution::SameZone => Vec::new(),
        };
        let zones: Vec<Arc<str>> = zone.iter().cloned().collect();
        let some = !zones.is_empty() || !nodes.is_empty();
        some.then(|| Arc::new(Hints { zones: zones.into(), nodes: nodes.into() }))
    });
    EndpointRecord {
        address,
        ready,
        serving,
        terminating,
        node: pod.node.clone(),
        zone,
        pod: Some(format!("{}/{}", pod.namespace, pod.name).into()),
        hints,
        hostname: pod.hostname_under(&service.key.name),
    }
}
