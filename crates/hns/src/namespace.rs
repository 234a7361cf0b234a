//! Namespaces and the compartments they stand for.

use hcn::api::NotificationKind;
use hcn::modify::{
    ContainerRequest, EndpointRequest, ModifyNamespace, NamespaceRequestResource, RequestType,
};
use hcn::namespace::{Namespace, NamespaceResource, NamespaceResourceType, NamespaceType};
use hcn::{Guid, HResult, Kind, Result};

use crate::endpoint;
use crate::policies;
use crate::record::{NamespaceRecord, object_state};
use crate::switches::SecondDefault;
use crate::tx::{Tx, refuse};

/// The compartment of the host's own stack.
pub(crate) const DEFAULT_COMPARTMENT: u32 = 1;

/// Makes a namespace.
pub(crate) fn create(tx: &mut Tx<'_>, id: Guid, mut doc: Namespace) -> Result<Guid> {
    let kind = doc.kind.clone().unwrap_or(NamespaceType::Host);
    if !kind.is_known() {
        return Err(refuse(HResult::INVALID_PARAMETER, format!("namespace Type {kind} is not known")));
    }
    if kind == NamespaceType::HostDefault
        && let Some(there) = default_namespace(tx)
    {
        match tx.env.switches.second_default_namespace {
            SecondDefault::Create => {}
            SecondDefault::Existing => return Ok(there),
            SecondDefault::Refuse => {
                let detail = format!("namespace {there} is the default one already");
                return Err(refuse(HResult::GCN_DEFAULTNAMESPACE_EXISTS, detail));
            }
        }
    }
    let id = tx.choose_id(Kind::Namespace, id, doc.id)?;
    doc.id = Some(id);
    // Resources come by requests only.
    doc.resources.clear();
    let asked = doc.namespace_id.take().filter(|&number| number != 0);
    let with_compartment = std::mem::take(&mut doc.create_with_compartment);
    let number = if kind == NamespaceType::HostDefault {
        Some(DEFAULT_COMPARTMENT)
    } else if tx.env.switches.honour_namespace_id && asked.is_some() {
        asked
    } else if with_compartment {
        Some(free_compartment(tx))
    } else {
        None
    };
    doc.namespace_id = number;
    doc.namespace_guid = number.map(|_| tx.env.random_id());
    doc.kind = Some(kind);
    policies::strip_base_fields(&mut doc.extra);
    let record = NamespaceRecord { seq: tx.state.next_seq(), doc, state: object_state::CREATED };
    tx.put_namespace(record);
    tx.notify(NotificationKind::NamespaceCreate, id);
    Ok(id)
}

fn default_namespace(tx: &Tx<'_>) -> Option<Guid> {
    let default =
        |record: &&std::sync::Arc<NamespaceRecord>| record.doc.kind == Some(NamespaceType::HostDefault);
    tx.state.namespaces.iter().find(default).and_then(|record| record.doc.id)
}

/// The lowest compartment above the default one that no namespace has.
fn free_compartment(tx: &Tx<'_>) -> u32 {
    let mut taken: Vec<u32> =
        tx.state.namespaces.iter().filter_map(|record| record.doc.namespace_id).collect();
    taken.sort_unstable();
    let mut free = DEFAULT_COMPARTMENT + 1;
    for number in taken {
        if number == free {
            free += 1;
        }
    }
    free
}

/// Carries out a modify request.
pub(crate) fn modify(tx: &mut Tx<'_>, id: Guid, settings: &str) -> Result<()> {
    tx.namespace(id)?;
    let request = ModifyNamespace::parse(settings)?;
    let (Some(resource), Some(action)) = (request.resource_type.clone(), request.request_type.clone()) else {
        let detail = "namespace request: ResourceType or RequestType is absent";
        return Err(refuse(HResult::INVALID_PARAMETER, detail));
    };
    match (&resource, &action) {
        (NamespaceRequestResource::Endpoint, RequestType::Add | RequestType::Remove) => {
            let named: EndpointRequest = match &request.settings {
                Some(settings) => settings.read()?,
                None => EndpointRequest::default(),
            };
            let Some(endpoint) = named.endpoint_id else {
                return Err(refuse(HResult::INVALID_PARAMETER, "Settings.EndpointId is absent"));
            };
            if action == RequestType::Add {
                add_endpoint(tx, id, endpoint)
            } else {
                remove_endpoint(tx, id, endpoint)
            }
        }
        (NamespaceRequestResource::Container, RequestType::Add | RequestType::Remove) => {
            let named: ContainerRequest = match &request.settings {
                Some(settings) => settings.read()?,
                None => ContainerRequest::default(),
            };
            if named.container_id.is_empty() {
                return Err(refuse(HResult::INVALID_PARAMETER, "Settings.ContainerId is absent"));
            }
            if action == RequestType::Add {
                add_container(tx, id, &named.container_id)
            } else {
                remove_container(tx, id, &named.container_id)
            }
        }
        _ => {
            let detail =
                format!("namespace {id}: {action} of {resource} is no request of HcnModifyNamespace");
            Err(refuse(HResult::REQUEST_UNSUPPORTED, detail))
        }
    }
}

/// Puts an endpoint into a namespace and, unless the switch says otherwise, on the switch.
pub(crate) fn add_endpoint(tx: &mut Tx<'_>, id: Guid, endpoint_id: Guid) -> Result<()> {
    let mut namespace = (*tx.namespace(id)?).clone();
    let mut record = (*tx.endpoint(endpoint_id)?).clone();
    endpoint::require_local(&record, "put into a namespace")?;
    if let Some(other) = record.doc.namespace {
        let detail = format!("endpoint {endpoint_id} is in namespace {other}");
        return Err(refuse(HResult::ENDPOINT_NAMESPACE_ALREADY_EXISTS, detail));
    }
    let attaches = tx.env.switches.attach_on_namespace_add;
    if tx.quirks.unattached {
        endpoint::give_port(tx, &mut record, 0);
        tx.put_endpoint(record);
        return Ok(());
    }
    if attaches && record.port.is_some() && record.compartment.is_some() {
        let detail = format!("endpoint {endpoint_id} is attached to compartment {:?}", record.compartment);
        return Err(refuse(HResult::ENDPOINT_ALREADY_ATTACHED, detail));
    }
    let spelled = record.doc.id.unwrap_or(endpoint_id);
    namespace.doc.resources.push(NamespaceResource::endpoint(spelled));
    give_compartment(tx, &mut namespace);
    record.doc.namespace = namespace.doc.id;
    if attaches {
        endpoint::give_port(tx, &mut record, crate::record::endpoint_state::ATTACHED);
    }
    tx.put_namespace(namespace);
    tx.put_endpoint(record);
    Ok(())
}

fn give_compartment(tx: &Tx<'_>, namespace: &mut NamespaceRecord) {
    if namespace.doc.namespace_id.unwrap_or(0) == 0 {
        namespace.doc.namespace_id = Some(free_compartment(tx));
        namespace.doc.namespace_guid = Some(tx.env.random_id());
    }
}

/// Takes an endpoint out of a namespace and off the switch.
pub(crate) fn remove_endpoint(tx: &mut Tx<'_>, id: Guid, endpoint_id: Guid) -> Result<()> {
    let mut record = (*tx.endpoint(endpoint_id)?).clone();
    if record.doc.namespace != Some(id) {
        let detail = format!("endpoint {endpoint_id} is not in namespace {id}");
        return Err(refuse(HResult::ELEMENT_NOT_FOUND, detail));
    }
    drop_endpoint(tx, id, endpoint_id)?;
    record.doc.namespace = None;
    if record.is_attached() {
        endpoint::take_port(tx, &mut record);
    }
    tx.put_endpoint(record);
    Ok(())
}

/// Takes an endpoint's entry out of a namespace.
pub(crate) fn drop_endpoint(tx: &mut Tx<'_>, id: Guid, endpoint_id: Guid) -> Result<()> {
    let mut namespace = (*tx.namespace(id)?).clone();
    namespace.doc.resources.retain(|resource| resource.endpoint_id() != Some(endpoint_id));
    tx.put_namespace(namespace);
    Ok(())
}

fn is_container(resource: &NamespaceResource, container: &str) -> bool {
    resource.kind == Some(NamespaceResourceType::Container)
        && resource.data_id().is_some_and(|id| id.eq_ignore_ascii_case(container))
}

/// Notes that a container is in a namespace.
pub(crate) fn add_container(tx: &mut Tx<'_>, id: Guid, container: &str) -> Result<()> {
    let mut namespace = (*tx.namespace(id)?).clone();
    if namespace.doc.resources.iter().any(|resource| is_container(resource, container)) {
        let detail = format!("container {container} is in namespace {id} already");
        return Err(refuse(HResult::OBJECT_ALREADY_EXISTS, detail));
    }
    namespace.doc.resources.push(NamespaceResource::container(container));
    give_compartment(tx, &mut namespace);
    tx.put_namespace(namespace);
    Ok(())
}

/// Notes that a container has left a namespace.
pub(crate) fn remove_container(tx: &mut Tx<'_>, id: Guid, container: &str) -> Result<()> {
    let mut namespace = (*tx.namespace(id)?).clone();
    let before = namespace.doc.resources.len();
    namespace.doc.resources.retain(|resource| !is_container(resource, container));
    if namespace.doc.resources.len() == before {
        let detail = format!("container {container} is not in namespace {id}");
        return Err(refuse(HResult::ELEMENT_NOT_FOUND, detail));
    }
    tx.put_namespace(namespace);
    Ok(())
}

/// Deletes a namespace; its endpoints stay, detached. One with a container is refused.
pub(crate) fn delete(tx: &mut Tx<'_>, id: Guid) -> Result<()> {
    let namespace = tx.namespace(id)?;
    let container = namespace
        .doc
        .resources
        .iter()
        .find(|resource| resource.kind == Some(NamespaceResourceType::Container))
        .and_then(NamespaceResource::data_id);
    if let Some(container) = container {
        let detail = format!("namespace {id} still has container {container}");
        return Err(refuse(HResult::REQUEST_UNSUPPORTED, detail));
    }
    for endpoint_id in namespace.doc.resources.iter().filter_map(NamespaceResource::endpoint_id) {
        let mut record = (*tx.endpoint(endpoint_id)?).clone();
        record.doc.namespace = None;
        if record.is_attached() {
            endpoint::take_port(tx, &mut record);
        }
        tx.put_endpoint(record);
    }
    tx.remove(Kind::Namespace, id);
    tx.notify(NotificationKind::NamespaceDelete, namespace.doc.id.unwrap_or(id));
    Ok(())
}
