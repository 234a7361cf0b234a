//! An EndpointSlice cut down to what a node proxy uses: about 100 bytes per endpoint.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::discovery::v1::{Endpoint as ApiEndpoint, EndpointPort, EndpointSlice};
use rustc_hash::FxHashMap;

use super::{Fault, Faults, ObjectKind, RecordError, identity};
use crate::address;
use crate::condition::ConditionKind;
use crate::intern::Pool;
use crate::model::{IpFamily, Protocol, ServiceKey};

/// Names the Service that a slice belongs to.
const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";
/// Marks slices of headless Services, whatever its value.
const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";

/// One port of a slice that has a number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlicePort {
    pub(crate) name: Arc<str>,
    pub(crate) protocol: Protocol,
    pub(crate) port: u16,
}

/// Where an endpoint should be consumed, as whoever wrote the slice advises.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Hints {
    pub(crate) zones: Box<[Arc<str>]>,
    pub(crate) nodes: Box<[Arc<str>]>,
}

/// One endpoint of a slice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndpointRecord {
    pub(crate) address: IpAddr,
    pub(crate) ready: bool,
    pub(crate) serving: bool,
    pub(crate) terminating: bool,
    pub(crate) node: Option<Arc<str>>,
    pub(crate) zone: Option<Arc<str>>,
    pub(crate) pod: Option<Arc<str>>,
    pub(crate) hints: Option<Arc<Hints>>,
    /// Its host name below the Service's name; for DNS only.
    pub(crate) hostname: Option<Arc<str>>,
}

/// An EndpointSlice cut down to what is used.
///
/// A slice that nobody uses (no service name, FQDN addresses) keeps its identity and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceRecord {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    /// The Service it belongs to; `None` when no proxy uses it.
    pub(crate) service: Option<Arc<str>>,
    /// The headless Service it belongs to, which DNS answers for.
    pub(crate) headless: Option<Arc<str>>,
    pub(crate) family: IpFamily,
    /// Sorted.
    pub(crate) ports: Box<[SlicePort]>,
    /// Sorted, so that a mere change of order is no change.
    pub(crate) endpoints: Box<[EndpointRecord]>,
    pub(crate) faults: Box<[Fault]>,
}

impl SliceRecord {
    /// The Service that it belongs to, if any proxy uses it.
    pub fn service(&self) -> Option<ServiceKey> {
        let name = self.service.clone()?;
        Some(ServiceKey { namespace: self.namespace.clone(), name })
    }

    /// The family of its addresses.
    pub fn family(&self) -> IpFamily {
        self.family
    }

    /// How many endpoints it lists.
    pub fn endpoint_count(&self) -> usize {
        self.endpoints.len()
    }

    fn unused(namespace: Arc<str>, name: Arc<str>, faults: Faults) -> Self {
        Self {
            namespace,
            name,
            service: None,
            headless: None,
            family: IpFamily::V4,
            ports: Box::default(),
            endpoints: Box::default(),
            faults: faults.finish(),
        }
    }
}

impl TryFrom<&EndpointSlice> for SliceRecord {
    type Error = RecordError;

    fn try_from(slice: &EndpointSlice) -> Result<Self, RecordError> {
        let (namespace, name) = identity(ObjectKind::EndpointSlice, &slice.metadata)?;
        let mut faults = Faults::default();
        let label = |key: &str| slice.metadata.labels.as_ref().and_then(|l| l.get(key)).map(String::as_str);
        let Some(service) = label(SERVICE_NAME_LABEL).filter(|s| !s.is_empty()) else {
            return Ok(Self::unused(namespace, name, faults));
        };
        let headless = label(HEADLESS_LABEL).map(|_| Arc::from(service));
        let family = match slice.address_type.as_str() {
            "IPv4" => IpFamily::V4,
            "IPv6" => IpFamily::V6,
            "FQDN" => return Ok(Self::unused(namespace, name, faults)),
            other => {
                faults.unknown_value("addressType", other, "the slice is not used; use IPv4 or IPv6");
                return Ok(Self::unused(namespace, name, faults));
            }
        };

        let mut reader = Reader { family, pool: Pool::default(), hints: FxHashMap::default(), faults };
        let mut ports: Vec<SlicePort> = Vec::new();
        for (i, api) in slice.ports.iter().flatten().enumerate() {
            ports.extend(reader.port(i, api));
        }
        ports.sort_unstable();
        ports.dedup();
        let mut endpoints: Vec<EndpointRecord> =
            Vec::with_capacity(slice.endpoints.as_ref().map_or(0, Vec::len));
        for (i, api) in slice.endpoints.iter().flatten().enumerate() {
            endpoints.extend(reader.endpoint(i, api));
        }
        endpoints.sort_unstable();
        endpoints.dedup();
        Ok(Self {
            namespace,
            name,
            service: if headless.is_none() { Some(service.into()) } else { None },
            headless,
            family,
            ports: ports.into_boxed_slice(),
            endpoints: endpoints.into_boxed_slice(),
            faults: reader.faults.finish(),
        })
    }
}

struct Reader {
    family: IpFamily,
    pool: Pool,
    hints: FxHashMap<Hints, Arc<Hints>>,
    faults: Faults,
}

impl Reader {
    fn port(&mut self, i: usize, api: &EndpointPort) -> Option<SlicePort> {
        let protocol_name = api.protocol.as_deref().filter(|p| !p.is_empty()).unwrap_or("TCP");
        let Some(protocol) = Protocol::from_name(protocol_name) else {
            let message = format!("{protocol_name:?} is unknown; the port is not used; use TCP, UDP or SCTP");
            self.faults.push(ConditionKind::UnknownProtocol, format!("ports[{i}].protocol"), message);
            return None;
        };
        let Some(number) = api.port else {
            let message = "is missing, which means every port; a load balancer needs a number";
            self.faults.push(ConditionKind::InvalidPort, format!("ports[{i}].port"), message);
            return None;
        };
        let Some(port) = address::port(number) else {
            let message = format!("{number} is not a port; use 1 to 65535");
            self.faults.push(ConditionKind::InvalidPort, format!("ports[{i}].port"), message);
            return None;
        };
        Some(SlicePort { name: self.pool.get(api.name.as_deref().unwrap_or_default()), protocol, port })
    }

    fn endpoint(&mut self, i: usize, api: &ApiEndpoint) -> Option<EndpointRecord> {
        let address = self.address(i, api)?;
        let conditions = api.conditions.as_ref();
        let pod = api.target_ref.as_ref().filter(|r| r.kind.as_deref() == Some("Pod"));
        let pod = pod.and_then(|r| {
            let name = r.name.as_deref()?;
            Some(r.namespace.as_deref().map_or_else(|| name.into(), |ns| format!("{ns}/{name}").into()))
        });
        Some(EndpointRecord {
            address,
            ready: conditions.and_then(|c| c.ready).unwrap_or(true),
            serving: conditions.and_then(|c| c.serving).unwrap_or(true),
            terminating: conditions.and_then(|c| c.terminating).unwrap_or(false),
            node: self.pool.get_some(api.node_name.as_deref()),
            zone: self.pool.get_some(api.zone.as_deref()),
            pod,
            hints: self.hints(api),
            hostname: api.hostname.as_deref().filter(|name| !name.is_empty()).map(Arc::from),
        })
    }

    /// Only the first address has a meaning; the API defines none for the others.
    fn address(&mut self, i: usize, api: &ApiEndpoint) -> Option<IpAddr> {
        let mut refuse = |what: String| {
            let message = format!("{what}; the endpoint is not used");
            self.faults.push(ConditionKind::InvalidAddress, format!("endpoints[{i}].addresses[0]"), message);
            None
        };
        let Some(text) = api.addresses.first() else {
            return refuse("is missing".to_owned());
        };
        match address::unicast(text) {
            Err(error) => refuse(format!("{text:?} {error}")),
            Ok(address) if IpFamily::of(address) != self.family => {
                let family = IpFamily::of(address);
                refuse(format!("{text:?} is {family} in a slice of address type {}", self.family))
            }
            Ok(address) => Some(address),
        }
    }

    fn hints(&mut self, api: &ApiEndpoint) -> Option<Arc<Hints>> {
        let given = api.hints.as_ref()?;
        let mut zones: Vec<Arc<str>> =
            given.for_zones.iter().flatten().map(|z| self.pool.get(&z.name)).collect();
        let mut nodes: Vec<Arc<str>> =
            given.for_nodes.iter().flatten().map(|n| self.pool.get(&n.name)).collect();
        if zones.is_empty() && nodes.is_empty() {
            return None;
        }
        zones.sort_unstable();
        nodes.sort_unstable();
        let hints = Hints { zones: zones.into(), nodes: nodes.into() };
        Some(self.hints.entry(hints.clone()).or_insert_with(|| Arc::new(hints)).clone())
    }
}
