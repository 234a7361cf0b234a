//! Carrying out v1 calls.

use hcn::api::V1Method;
use hcn::json::RawJson;
use hcn::modify::Extension;
use hcn::namespace::{NamespaceResource, NamespaceResourceType};
use hcn::v1::{self, AccelnetMacs, AttachRequest, EndpointStats, PolicyListObject, SystemType};
use hcn::{Feature, Guid, HResult, Kind, Result};
use serde_json::{Value, json};

use super::path::{Path, Policy};
use super::{Output, no_such_call};
use crate::faults::Effect;
use crate::ports::BLOCK;
use crate::service::{Hns, Settings, delete_in, quirks};
use crate::tx::{Tx, missing, refuse};
use crate::view::Snapshot;
use crate::{endpoint, namespace, network};

/// What a call sends, read before the call is decided.
pub(super) enum Body {
    None,
    Create(Settings),
    Network(v1::Network),
    Endpoint(v1::Endpoint),
    Attach(AttachRequest),
    Resource(NamespaceResource),
    Macs(AccelnetMacs),
}

impl Body {
    pub(super) fn read(method: V1Method, path: &Path, text: &str) -> Result<Self> {
        if method != V1Method::Post {
            return Ok(Self::None);
        }
        let text = if text.trim().is_empty() { "{}" } else { text };
        Ok(match path {
            Path::Collection(Kind::Network) => {
                Self::Create(Settings::Network(v1::network_to_v2(&v1::Network::parse(text)?)))
            }
            Path::Collection(Kind::Endpoint) => {
                Self::Create(Settings::Endpoint(v1::endpoint_to_v2(&v1::Endpoint::parse(text)?)))
            }
            Path::Collection(Kind::Namespace) => {
                Self::Create(Settings::Namespace(v1::namespace_to_v2(&v1::Namespace::parse(text)?)))
            }
            Path::PolicyLists(Policy::All) => {
                Self::Create(match v1::policy_list_to_v2(&v1::PolicyList::parse(text)?)? {
                    PolicyListObject::LoadBalancer(doc) => Settings::Balancer(doc),
                    PolicyListObject::SdnRoute(doc) => Settings::Route(doc),
                })
            }
            Path::Object(Kind::Network, _) => Self::Network(v1::Network::parse(text)?),
            Path::Object(Kind::Endpoint, _) => Self::Endpoint(v1::Endpoint::parse(text)?),
            Path::Attach(_) | Path::Detach(_) => Self::Attach(AttachRequest::parse(text)?),
            Path::AddResource(_) | Path::RemoveResource(_) => Self::Resource(NamespaceResource::parse(text)?),
            Path::Accelnet => Self::Macs(AccelnetMacs::parse(text)?),
            _ => Self::None,
        })
    }

    /// What the thing to be made is called.
    pub(super) fn subject(&self) -> String {
        match self {
            Self::Create(settings) => settings.subject(),
            _ => String::new(),
        }
    }
}

impl Hns {
    pub(super) fn act_v1(
        &self,
        method: V1Method,
        path: &Path,
        body: Body,
        effect: &Effect,
    ) -> Result<(Output, Option<Guid>)> {
        let done = |output: Result<Output>| output.map(|output| (output, None));
        match (method, path, body) {
            (V1Method::Get, path, _) => done(self.get_v1(path)),
            (V1Method::Post, _, Body::Create(settings)) => {
                let kind = settings.kind();
                let id = self.write(quirks(effect), |tx| settings.create(tx, None, Guid::NIL))?;
                Ok((Some(self.print_v1(kind, id, false)?), Some(id)))
            }
            (V1Method::Post, Path::Object(Kind::Network, id), Body::Network(doc)) => {
                self.write(quirks(effect), |tx| update_network(tx, *id, &doc))?;
                done(self.print_v1(Kind::Network, *id, false).map(Some))
            }
            (V1Method::Post, Path::Object(Kind::Endpoint, id), Body::Endpoint(doc)) => {
                let policies = v1::endpoint_to_v2(&doc).policies;
                self.write(quirks(effect), |tx| endpoint::replace_policies(tx, *id, policies))?;
                done(self.print_v1(Kind::Endpoint, *id, false).map(Some))
            }
            (V1Method::Post, Path::Attach(id), Body::Attach(request)) => {
                self.write(quirks(effect), |tx| attach(tx, *id, &request))?;
                Ok((None, None))
            }
            (V1Method::Post, Path::Detach(id), Body::Attach(request)) => {
                self.write(quirks(effect), |tx| match request.system_type {
                    Some(SystemType::Container) if !request.container_id.is_empty() => {
                        endpoint::detach_container(tx, *id, &request.container_id)
                    }
                    _ => endpoint::detach(tx, *id),
                })?;
                Ok((None, None))
            }
            (V1Method::Post, Path::AddResource(id) | Path::RemoveResource(id), Body::Resource(resource)) => {
                let adds = matches!(path, Path::AddResource(_));
                self.write(quirks(effect), |tx| change_resource(tx, *id, &resource, adds))?;
                done(self.print_v1(Kind::Namespace, *id, false).map(Some))
            }
            (V1Method::Post, Path::Accelnet, Body::Macs(macs)) => {
                self.require_accelnet()?;
                let mut own = self.inner.accelnet.lock();
                *own = macs.mac_address_list.unwrap_or_default();
                Ok((Some(accelnet(&own)), None))
            }
            (V1Method::Delete, Path::Object(kind, id), _) => {
                self.write(quirks(effect), |tx| delete_in(tx, *kind, *id))?;
                Ok((None, None))
            }
            (V1Method::Delete, Path::PolicyLists(Policy::One(id)), _) => {
                let kind = self.policy_list_kind(*id);
                self.write(quirks(effect), |tx| delete_in(tx, kind, *id))?;
                Ok((None, None))
            }
            (V1Method::Delete, Path::Accelnet, _) => {
                self.require_accelnet()?;
                let mut own = self.inner.accelnet.lock();
                own.clear();
                Ok((Some(accelnet(&own)), None))
            }
            (method, path, _) => Err(no_such_call(method, path)),
        }
    }

    fn get_v1(&self, path: &Path) -> Result<Output> {
        Ok(Some(match path {
            Path::Version => RawJson::of(&self.inner.env.version),
            Path::Collection(kind) => self.list_v1(&[*kind]),
            Path::PolicyLists(Policy::All) => self.list_v1(&[Kind::LoadBalancer, Kind::SdnRoute]),
            Path::PolicyLists(Policy::One(id)) => self.print_v1(self.policy_list_kind(*id), *id, false)?,
            Path::Object(kind, id) => self.print_v1(*kind, *id, false)?,
            Path::Detailed(id) => self.print_v1(Kind::Endpoint, *id, true)?,
            Path::Stats(Some(id)) => {
                self.require(Kind::Endpoint, *id)?;
                RawJson::of(&stats(*id))
            }
            Path::Stats(None) => {
                let state = self.inner.state.read();
                let ids = state.endpoints.iter().filter_map(|record| record.doc.id);
                RawJson::of(&ids.map(stats).collect::<Vec<_>>())
            }
            Path::Accelnet => {
                self.require_accelnet()?;
                accelnet(&self.inner.accelnet.lock())
            }
            Path::Named("portpools") => self.port_pools(),
            Path::Named("endpointaddresses") => {
                let state = self.inner.state.read();
                let addresses = state.endpoints.iter().flat_map(|record| {
                    let id = record.doc.id.unwrap_or_default();
                    record
                        .addresses
                        .iter()
                        .map(move |address| json!({"EndpointId": id, "IPAddress": address}))
                });
                RawJson::of(&addresses.collect::<Vec<_>>())
            }
            Path::Named(_) => RawJson::of::<[Value]>(&[]),
            Path::Attach(_) | Path::Detach(_) | Path::AddResource(_) | Path::RemoveResource(_) => {
                return Err(no_such_call(V1Method::Get, path));
            }
        }))
    }

    fn policy_list_kind(&self, id: Guid) -> Kind {
        if self.inner.state.read().routes.contains(id) { Kind::SdnRoute } else { Kind::LoadBalancer }
    }

    fn print_v1(&self, kind: Kind, id: Guid, detailed: bool) -> Result<RawJson> {
        let snapshot = {
            let state = self.inner.state.read();
            let object = state.get(kind, id).ok_or_else(|| missing(&self.inner.env.switches, kind, id))?;
            Snapshot::of(&state, object, self.now())
        };
        Ok(RawJson::parse(&snapshot.print_v1(&self.inner.env, detailed))?)
    }

    fn list_v1(&self, kinds: &[Kind]) -> RawJson {
        let snapshots: Vec<Snapshot> = {
            let state = self.inner.state.read();
            let order = self.inner.env.switches.list_order;
            let ids =
                kinds.iter().flat_map(|&kind| state.ids(kind, order).into_iter().map(move |id| (kind, id)));
            let objects = ids.filter_map(|(kind, id)| state.get(kind, id));
            objects.map(|object| Snapshot::of(&state, object, self.now())).collect()
        };
        let documents: Vec<RawJson> = snapshots
            .iter()
            .filter_map(|snapshot| RawJson::parse(&snapshot.print_v1(&self.inner.env, false)).ok())
            .collect();
        RawJson::of(&documents)
    }

    fn require_accelnet(&self) -> Result<()> {
        if self.inner.env.supports(Feature::Accelnet) {
            return Ok(());
        }
        let detail = format!("/accelnet: HNS {} does not have it", self.inner.env.version);
        Err(refuse(HResult::REQUEST_UNSUPPORTED, detail))
    }

    fn port_pools(&self) -> RawJson {
        let report = self.ports();
        let pools: Vec<Value> = report
            .spaces
            .iter()
            .flat_map(|space| {
                space.blocks.iter().map(|(ports, holder)| {
                    json!({
                        "Protocol": space.space.to_string(),
                        "StartPort": ports.start(),
                        "Size": BLOCK,
                        "Owner": holder.to_string(),
                    })
                })
            })
            .collect();
        RawJson::of(&json!({"PortPoolAllocations": pools}))
    }
}

fn accelnet(macs: &[v1::MacEntry]) -> RawJson {
    RawJson::of(&AccelnetMacs { mac_address_list: Some(macs.to_vec()), ..AccelnetMacs::default() })
}

/// Nothing has been counted: no packet passes through an HNS without a datapath.
fn stats(id: Guid) -> EndpointStats {
    EndpointStats {
        bytes_received: Some(0),
        bytes_sent: Some(0),
        dropped_packets_incoming: Some(0),
        dropped_packets_outgoing: Some(0),
        endpoint_id: Some(id),
        instance_id: Some(id.derive("stats")),
        packets_received: Some(0),
        packets_sent: Some(0),
        ..EndpointStats::default()
    }
}

/// A partial network: extensions, policies and DNS replace what is there; what it does not name stays.
fn update_network(tx: &mut Tx<'_>, id: Guid, doc: &v1::Network) -> Result<()> {
    let mut record = (*tx.network(id)?).clone();
    for extension in &doc.extensions {
        let extension = Extension {
            id: extension.id.clone(),
            is_enabled: extension.is_enabled.unwrap_or(false),
            ..Extension::default()
        };
        network::set_extension(&mut record, &extension)?;
    }
    let sent = v1::network_to_v2(doc);
    if sent.dns.is_some() {
        record.doc.dns = sent.dns;
    }
    if !doc.policies.is_empty() {
        record.doc.policies = sent.policies;
        network::admit_policies(tx, &mut record.doc.policies)?;
    }
    tx.put_network(record);
    Ok(())
}

fn attach(tx: &mut Tx<'_>, id: Guid, request: &AttachRequest) -> Result<()> {
    match &request.system_type {
        Some(SystemType::Container) if !request.container_id.is_empty() => {
            endpoint::attach_container(tx, id, &request.container_id)?;
        }
        Some(SystemType::Container | SystemType::VirtualMachine | SystemType::Host) => {
            endpoint::attach(tx, id)?;
        }
        other => {
            let given = other.as_ref().map_or_else(|| "absent".to_owned(), ToString::to_string);
            let detail = format!("SystemType is {given}; it is one of Container, VirtualMachine, Host");
            return Err(refuse(HResult::INVALID_PARAMETER, detail));
        }
    }
    let mut record = (*tx.endpoint(id)?).clone();
    if request.compartment_id != 0 {
        record.compartment = Some(u32::from(request.compartment_id));
    }
    if !request.virtual_nic_name.is_empty() {
        record.vnic_name = Some(request.virtual_nic_name.clone());
    }
    tx.put_endpoint(record);
    Ok(())
}

fn change_resource(tx: &mut Tx<'_>, id: Guid, resource: &NamespaceResource, adds: bool) -> Result<()> {
    tx.namespace(id)?;
    let named = resource.data_id().unwrap_or_default();
    if resource.kind == Some(NamespaceResourceType::Container) {
        return if adds {
            namespace::add_container(tx, id, &named)
        } else {
            namespace::remove_container(tx, id, &named)
        };
    }
    let endpoint = named
        .parse::<Guid>()
        .map_err(|error| refuse(HResult::GUID_CONVERSION_FAILURE, format!("Data.Id: {error}")))?;
    if adds {
        namespace::add_endpoint(tx, id, endpoint)
    } else {
        namespace::remove_endpoint(tx, id, endpoint)
    }
}

impl Settings {
    fn kind(&self) -> Kind {
        match self {
            Self::Network(_) => Kind::Network,
            Self::Endpoint(_) => Kind::Endpoint,
            Self::Namespace(_) => Kind::Namespace,
            Self::Balancer(_) => Kind::LoadBalancer,
            Self::Route(_) => Kind::SdnRoute,
        }
    }
}
