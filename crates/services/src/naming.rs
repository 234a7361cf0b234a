//! What only names need: Services that no proxy serves but that DNS answers for.

use std::net::IpAddr;
use std::sync::Arc;

use crate::model::Protocol;
use crate::record::{PodFacts, ServiceRecord, SlicePort, SliceRecord};

/// What the name of a Service means that has no cluster IP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Naming {
    /// `type: ExternalName`: another name.
    External(Arc<str>),
    /// `clusterIP: None`: its endpoints, sorted.
    Headless(Vec<NamedEndpoint>),
}

/// An endpoint of a headless Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedEndpoint {
    /// Its address.
    pub address: IpAddr,
    /// Its host name below the Service's name, if it has one.
    pub hostname: Option<Arc<str>>,
    /// The `ready` condition (absent counts as true).
    pub ready: bool,
    /// Name, protocol and number of its ports.
    pub ports: Vec<(Arc<str>, Protocol, u16)>,
}

fn ports(ports: &[SlicePort]) -> Vec<(Arc<str>, Protocol, u16)> {
    ports.iter().map(|port| (port.name.clone(), port.protocol, port.port)).collect()
}

/// Endpoints as slices list them.
pub(crate) fn listed<'a>(slices: impl Iterator<Item = &'a SliceRecord>) -> Vec<NamedEndpoint> {
    let endpoint = |slice: &'a SliceRecord| {
        slice.endpoints.iter().map(|record| NamedEndpoint {
            address: record.address,
            hostname: record.hostname.clone(),
            ready: record.ready,
            ports: ports(&slice.ports),
        })
    };
    sorted(slices.flat_map(endpoint).collect())
}

/// Endpoints as the endpoint slice controller would list them for these Pods.
pub(crate) fn derived<'a>(
    service: &ServiceRecord,
    pods: impl Iterator<Item = &'a PodFacts>,
) -> Vec<NamedEndpoint> {
    let endpoints = |pod: &'a PodFacts| {
        let hostname = pod.hostname_under(&service.key.name);
        let ports = ports(&crate::derive::slice_ports(service, pod));
        let ready = service.publish_not_ready || (pod.ready && !pod.terminating);
        pod.ips.iter().map(move |&address| NamedEndpoint {
            address,
            hostname: hostname.clone(),
            ready,
            ports: ports.clone(),
        })
    };
    let selected = pods.filter(|pod| !pod.finished() && crate::derive::selects(service, pod));
    sorted(selected.flat_map(endpoints).collect())
}

fn sorted(mut endpoints: Vec<NamedEndpoint>) -> Vec<NamedEndpoint> {
    endpoints.sort_unstable();
    endpoints.dedup();
    endpoints
}
