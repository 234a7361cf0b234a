//! A Service cut down to what a node proxy uses, with API defaults applied.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Service, ServicePort as ApiPort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Fault, Faults, ObjectKind, RecordError, identity};
use crate::address;
use crate::condition::ConditionKind;
use crate::model::{Affinity, IpFamily, Protocol, ServiceKey, ServiceKind, TrafficPolicy};

/// A Service with this label, whatever its value, belongs to another proxy.
const PROXY_NAME_LABEL: &str = "service.kubernetes.io/service-proxy-name";
/// Asks that packets reach the Pod with the frontend's address as destination.
const PRESERVE_DESTINATION: &str = "preserve-destination";
/// `sessionAffinityConfig.clientIP.timeoutSeconds` when it is not given (API default), in seconds.
const DEFAULT_AFFINITY_TIMEOUT: u32 = 10_800;
/// The longest affinity timeout that the API allows, in seconds.
const MAX_AFFINITY_TIMEOUT: u32 = 86_400;

/// Why a Service is not served at all, by its own nature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// `clusterIP: None`.
    Headless,
    /// `type: ExternalName`.
    ExternalName,
    /// No cluster IP has been assigned.
    NoClusterIp,
    /// The label `service.kubernetes.io/service-proxy-name` gives it to this other proxy.
    OtherProxy(Arc<str>),
}

/// What a service port points at, before slices say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TargetPort {
    Number(u16),
    Named(Arc<str>),
}

/// `spec.trafficDistribution`, which only whoever writes slices needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    SameZone,
    SameNode,
}

/// One entry of `spec.ports`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortRecord {
    pub(crate) name: Arc<str>,
    pub(crate) protocol: Protocol,
    pub(crate) port: u16,
    pub(crate) node_port: Option<u16>,
    pub(crate) target: TargetPort,
}

/// A Service cut down to what is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRecord {
    pub(crate) key: ServiceKey,
    pub(crate) skip: Option<SkipReason>,
    pub(crate) kind: ServiceKind,
    /// At most one per family.
    pub(crate) cluster_ips: Box<[IpAddr]>,
    pub(crate) external_ips: Box<[IpAddr]>,
    pub(crate) ingress_ips: Box<[IpAddr]>,
    pub(crate) source_ranges: Box<[IpNet]>,
    pub(crate) ports: Box<[PortRecord]>,
    pub(crate) affinity: Affinity,
    pub(crate) internal_policy: TrafficPolicy,
    pub(crate) external_policy: TrafficPolicy,
    pub(crate) health_check_node_port: Option<u16>,
    pub(crate) preserve_destination: bool,
    /// Sorted by key; empty when the Service selects nothing.
    pub(crate) selector: Box<[(Arc<str>, Arc<str>)]>,
    pub(crate) publish_not_ready: bool,
    pub(crate) distribution: Option<Distribution>,
    /// Of an ExternalName Service only.
    pub(crate) external_name: Option<Arc<str>>,
    pub(crate) faults: Box<[Fault]>,
}

impl ServiceRecord {
    /// The Service's key.
    pub fn key(&self) -> &ServiceKey {
        &self.key
    }

    /// Why it is not served, if it is not.
    pub fn skip_reason(&self) -> Option<&SkipReason> {
        self.skip.as_ref()
    }

    /// A Service that is not served keeps what its name means.
    fn skipped(key: ServiceKey, skip: SkipReason, spec: &ServiceSpec) -> Self {
        // A proxy does not look at the fields, so their faults are not told.
        let headless = (skip == SkipReason::Headless).then_some(spec);
        let external = (skip == SkipReason::ExternalName).then_some(spec);
        let external_name = external.and_then(|spec| spec.external_name.as_deref());
        Self {
            key,
            skip: Some(skip),
            kind: ServiceKind::ClusterIp,
            cluster_ips: Box::default(),
            external_ips: Box::default(),
            ingress_ips: Box::default(),
            source_ranges: Box::default(),
            ports: headless
                .map(|spec| ports(ServiceKind::ClusterIp, spec, &mut Faults::default()))
                .unwrap_or_default(),
            affinity: Affinity::None,
            internal_policy: TrafficPolicy::Cluster,
            external_policy: TrafficPolicy::Cluster,
            health_check_node_port: None,
            preserve_destination: false,
            selector: headless.map(selector).unwrap_or_default(),
            publish_not_ready: headless.and_then(|spec| spec.publish_not_ready_addresses).unwrap_or(false),
            distribution: None,
            external_name: external_name.filter(|name| !name.is_empty()).map(Arc::from),
            faults: Box::default(),
        }
    }
}

impl TryFrom<&Service> for ServiceRecord {
    type Error = RecordError;

    fn try_from(service: &Service) -> Result<Self, RecordError> {
        let (namespace, name) = identity(ObjectKind::Service, &service.metadata)?;
        let key = ServiceKey { namespace, name };
        let empty = ServiceSpec::default();
        let spec = service.spec.as_ref().unwrap_or(&empty);
        if let Some(skip) = skip_reason(service, spec) {
            return Ok(Self::skipped(key, skip, spec));
        }

        let mut faults = Faults::default();
        let kind = kind(spec, &mut faults);
        let cluster_ips = cluster_ips(spec, &mut faults);
        let external_ips = external_ips(spec, &cluster_ips, &mut faults);
        let ingress_ips = ingress_ips(service, &cluster_ips, &mut faults);
        let external_policy = external_policy(kind, spec, &mut faults);
        let internal_policy =
            policy("spec.internalTrafficPolicy", spec.internal_traffic_policy.as_deref(), &mut faults);
        Ok(Self {
            key,
            skip: None,
            kind,
            source_ranges: source_ranges(spec, &mut faults),
            ports: ports(kind, spec, &mut faults),
            affinity: affinity(spec, &mut faults),
            internal_policy,
            external_policy,
            health_check_node_port: health_check_node_port(kind, external_policy, spec, &mut faults),
            preserve_destination: annotation(service, PRESERVE_DESTINATION) == Some("true"),
            selector: selector(spec),
            publish_not_ready: spec.publish_not_ready_addresses.unwrap_or(false),
            distribution: distribution(spec),
            external_name: None,
            cluster_ips,
            external_ips,
            ingress_ips,
            faults: faults.finish(),
        })
    }
}

fn annotation<'a>(service: &'a Service, name: &str) -> Option<&'a str> {
    service.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

fn skip_reason(service: &Service, spec: &ServiceSpec) -> Option<SkipReason> {
    let proxy = service.metadata.labels.as_ref().and_then(|l| l.get(PROXY_NAME_LABEL));
    if let Some(proxy) = proxy {
        return Some(SkipReason::OtherProxy(proxy.as_str().into()));
    }
    if spec.type_.as_deref() == Some("ExternalName") {
        return Some(SkipReason::ExternalName);
    }
    match primary_cluster_ip(spec) {
        "" => Some(SkipReason::NoClusterIp),
        "None" => Some(SkipReason::Headless),
        _ => None,
    }
}

/// The API server keeps `clusterIP` and `clusterIPs[0]` equal; a hand-written object may have only one of them.
fn primary_cluster_ip(spec: &ServiceSpec) -> &str {
    let single = spec.cluster_ip.as_deref().unwrap_or_default();
    if single.is_empty() {
        spec.cluster_ips.as_ref().and_then(|ips| ips.first()).map_or("", String::as_str)
    } else {
        single
    }
}

fn kind(spec: &ServiceSpec, faults: &mut Faults) -> ServiceKind {
    match spec.type_.as_deref() {
        None | Some("" | "ClusterIP") => ServiceKind::ClusterIp,
        Some("NodePort") => ServiceKind::NodePort,
        Some("LoadBalancer") => ServiceKind::LoadBalancer,
        Some(other) => {
            let right = "served as ClusterIP; use ClusterIP, NodePort, LoadBalancer or ExternalName";
            faults.unknown_value("spec.type", other, right);
            ServiceKind::ClusterIp
        }
    }
}

fn cluster_ips(spec: &ServiceSpec, faults: &mut Faults) -> Box<[IpAddr]> {
    let listed = spec.cluster_ips.as_deref().unwrap_or_default();
    let mut found: Vec<IpAddr> = Vec::with_capacity(2);
    let mut add = |field: String, text: &str| match address::unicast(text) {
        Err(error) => faults.push(ConditionKind::InvalidAddress, field, format!("{text:?} {error}")),
        Ok(ip) if found.iter().any(|f| IpFamily::of(*f) == IpFamily::of(ip)) => {
            let family = IpFamily::of(ip);
            let message = format!("{text:?} is a second {family} address; a Service has one per family");
            faults.push(ConditionKind::InvalidAddress, field, message);
        }
        Ok(ip) => found.push(ip),
    };
    if listed.is_empty() {
        add("spec.clusterIP".to_owned(), spec.cluster_ip.as_deref().unwrap_or_default());
    } else {
        for (i, text) in listed.iter().enumerate() {
            add(format!("spec.clusterIPs[{i}]"), text);
        }
    }
    found.into_boxed_slice()
}

/// Reads a list of frontend addresses: each valid, of a family that the Service has, and each once.
struct Frontends<'a> {
    cluster_ips: &'a [IpAddr],
    found: Vec<IpAddr>,
}

impl Frontends<'_> {
    fn add(&mut self, field: impl FnOnce() -> String, text: &str, faults: &mut Faults) {
        match address::unicast(text) {
            Err(error) => {
                faults.push(
                    ConditionKind::InvalidAddress,
                    field(),
                    format!("{text:?} {error}; it is not served"),
                );
            }
            Ok(ip) if !self.cluster_ips.iter().any(|c| IpFamily::of(*c) == IpFamily::of(ip)) => {
                let family = IpFamily::of(ip);
                let message = format!("{text:?} is {family}, but the Service has no {family} cluster IP");
                faults.push(ConditionKind::InvalidAddress, field(), message);
            }
            Ok(ip) if self.found.contains(&ip) => {}
            Ok(ip) => self.found.push(ip),
        }
    }
}

fn external_ips(spec: &ServiceSpec, cluster_ips: &[IpAddr], faults: &mut Faults) -> Box<[IpAddr]> {
    let mut frontends = Frontends { cluster_ips, found: Vec::new() };
    for (i, text) in spec.external_ips.iter().flatten().enumerate() {
        frontends.add(|| format!("spec.externalIPs[{i}]"), text, faults);
    }
    frontends.found.into_boxed_slice()
}

fn ingress_ips(service: &Service, cluster_ips: &[IpAddr], faults: &mut Faults) -> Box<[IpAddr]> {
    let mut frontends = Frontends { cluster_ips, found: Vec::new() };
    let status = service.status.as_ref().and_then(|s| s.load_balancer.as_ref());
    for (i, ingress) in status.iter().flat_map(|s| s.ingress.iter().flatten()).enumerate() {
        // An entry with a host name only has no address to serve; that is usual, not a fault.
        let Some(ip) = ingress.ip.as_deref().filter(|ip| !ip.is_empty()) else { continue };
        match ingress.ip_mode.as_deref() {
            None | Some("" | "VIP") => {
                frontends.add(|| format!("status.loadBalancer.ingress[{i}].ip"), ip, faults);
            }
            Some("Proxy") => {}
            Some(other) => {
                let field = format!("status.loadBalancer.ingress[{i}].ipMode");
                faults.unknown_value(field, other, "the address is not served; use VIP or Proxy");
            }
        }
    }
    frontends.found.into_boxed_slice()
}

fn source_ranges(spec: &ServiceSpec, faults: &mut Faults) -> Box<[IpNet]> {
    let mut found: Vec<IpNet> = Vec::new();
    for (i, text) in spec.load_balancer_source_ranges.iter().flatten().enumerate() {
        match address::network(text) {
            Ok(net) if found.contains(&net) => {}
            Ok(net) => found.push(net),
            Err(error) => {
                let field = format!("spec.loadBalancerSourceRanges[{i}]");
                faults.push(ConditionKind::InvalidAddress, field, format!("{text:?} {error}"));
            }
        }
    }
    found.into_boxed_slice()
}

fn policy(field: &str, value: Option<&str>, faults: &mut Faults) -> TrafficPolicy {
    match value {
        None | Some("" | "Cluster") => TrafficPolicy::Cluster,
        Some("Local") => TrafficPolicy::Local,
        Some(other) => {
            faults.unknown_value(field, other, "taken as Cluster; use Cluster or Local");
            TrafficPolicy::Cluster
        }
    }
}

/// The external policy counts only for Services that can be reached from outside.
fn external_policy(kind: ServiceKind, spec: &ServiceSpec, faults: &mut Faults) -> TrafficPolicy {
    let policy = policy("spec.externalTrafficPolicy", spec.external_traffic_policy.as_deref(), faults);
    let reachable =
        kind != ServiceKind::ClusterIp || spec.external_ips.as_ref().is_some_and(|ips| !ips.is_empty());
    if reachable { policy } else { TrafficPolicy::Cluster }
}

fn health_check_node_port(
    kind: ServiceKind,
    external: TrafficPolicy,
    spec: &ServiceSpec,
    faults: &mut Faults,
) -> Option<u16> {
    if kind != ServiceKind::LoadBalancer || external != TrafficPolicy::Local {
        return None;
    }
    let number = spec.health_check_node_port.filter(|n| *n != 0)?;
    let port = address::port(number);
    if port.is_none() {
        let message = format!("{number} is not a port; use 1 to 65535");
        faults.push(ConditionKind::InvalidPort, "spec.healthCheckNodePort", message);
    }
    port
}

fn affinity(spec: &ServiceSpec, faults: &mut Faults) -> Affinity {
    match spec.session_affinity.as_deref() {
        None | Some("" | "None") => Affinity::None,
        Some("ClientIP") => Affinity::ClientIp { timeout_seconds: affinity_timeout(spec, faults) },
        Some(other) => {
            faults.unknown_value("spec.sessionAffinity", other, "taken as None; use None or ClientIP");
            Affinity::None
        }
    }
}

fn affinity_timeout(spec: &ServiceSpec, faults: &mut Faults) -> u32 {
    let given = spec
        .session_affinity_config
        .as_ref()
        .and_then(|c| c.client_ip.as_ref())
        .and_then(|c| c.timeout_seconds);
    let Some(given) = given else { return DEFAULT_AFFINITY_TIMEOUT };
    if let Ok(seconds @ 1..=MAX_AFFINITY_TIMEOUT) = u32::try_from(given) {
        return seconds;
    }
    faults.push(
        ConditionKind::InvalidValue,
        "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
        format!("{given} is out of range; use 1 to {MAX_AFFINITY_TIMEOUT}"),
    );
    DEFAULT_AFFINITY_TIMEOUT
}

fn ports(kind: ServiceKind, spec: &ServiceSpec, faults: &mut Faults) -> Box<[PortRecord]> {
    let mut found: Vec<PortRecord> = Vec::with_capacity(spec.ports.as_ref().map_or(0, Vec::len));
    for (i, api) in spec.ports.iter().flatten().enumerate() {
        let Some(record) = port(kind, i, api, faults) else { continue };
        if found.iter().any(|f| f.name == record.name) {
            let message = format!("{:?} names a second port; the first one is served", record.name);
            faults.push(ConditionKind::InvalidPort, format!("spec.ports[{i}].name"), message);
        } else if found.iter().any(|f| f.port == record.port && f.protocol == record.protocol) {
            let message =
                format!("{}/{} is listed twice; the first one is served", record.port, record.protocol);
            faults.push(ConditionKind::InvalidPort, format!("spec.ports[{i}].port"), message);
        } else {
            found.push(record);
        }
    }
    found.into_boxed_slice()
}

fn port(kind: ServiceKind, i: usize, api: &ApiPort, faults: &mut Faults) -> Option<PortRecord> {
    let protocol_name = api.protocol.as_deref().filter(|p| !p.is_empty()).unwrap_or("TCP");
    let Some(protocol) = Protocol::from_name(protocol_name) else {
        let message = format!("{protocol_name:?} is unknown; the port is not served; use TCP, UDP or SCTP");
        faults.push(ConditionKind::UnknownProtocol, format!("spec.ports[{i}].protocol"), message);
        return None;
    };
    let Some(port) = address::port(api.port) else {
        let message = format!("{} is not a port; use 1 to 65535", api.port);
        faults.push(ConditionKind::InvalidPort, format!("spec.ports[{i}].port"), message);
        return None;
    };
    Some(PortRecord {
        name: api.name.as_deref().unwrap_or_default().into(),
        protocol,
        port,
        node_port: node_port(kind, i, api, faults),
        target: target_port(i, port, api, faults),
    })
}

fn node_port(kind: ServiceKind, i: usize, api: &ApiPort, faults: &mut Faults) -> Option<u16> {
    let number = api.node_port.filter(|n| *n != 0)?;
    let mut refuse = |message: String| {
        faults.push(ConditionKind::InvalidPort, format!("spec.ports[{i}].nodePort"), message);
        None
    };
    match address::port(number) {
        None => refuse(format!("{number} is not a port; use 1 to 65535")),
        Some(_) if kind == ServiceKind::ClusterIp => {
            refuse(format!("{number} is ignored: a Service of type ClusterIP has no node ports"))
        }
        port => port,
    }
}

fn target_port(i: usize, port: u16, api: &ApiPort, faults: &mut Faults) -> TargetPort {
    let number = match &api.target_port {
        None | Some(IntOrString::Int(0)) => return TargetPort::Number(port),
        Some(IntOrString::String(name)) if name.is_empty() => return TargetPort::Number(port),
        Some(IntOrString::String(name)) => return TargetPort::Named(name.as_str().into()),
        Some(IntOrString::Int(number)) => *number,
    };
    if address::port(number).is_none() {
        let message = format!("{number} is not a port; use 1 to 65535 or the name of a container port");
        faults.push(ConditionKind::InvalidPort, format!("spec.ports[{i}].targetPort"), message);
    }
    TargetPort::Number(address::port(number).unwrap_or(port))
}

fn selector(spec: &ServiceSpec) -> Box<[(Arc<str>, Arc<str>)]> {
    let pairs = spec.selector.iter().flatten();
    pairs.map(|(k, v)| (k.as_str().into(), v.as_str().into())).collect()
}

fn distribution(spec: &ServiceSpec) -> Option<Distribution> {
    match spec.traffic_distribution.as_deref()? {
        "PreferClose" | "PreferSameZone" => Some(Distribution::SameZone),
        "PreferSameNode" => Some(Distribution::SameNode),
        _ => None,
    }
}
