//! `HcnModifyEndpoint`: the switch port and policies.

use hcn::modify::{EndpointResource, ModifyEndpoint, PortRequest, RequestType};
use hcn::policy::PolicyList;
use hcn::{Guid, HResult, Policy, Result};

use super::attach::{give_port, require_local, take_port};
use crate::policies;
use crate::record::{EndpointRecord, endpoint_state};
use crate::switches::EndpointUpdate;
use crate::tx::{Tx, refuse};

/// Carries out a modify request.
pub(crate) fn modify(tx: &mut Tx<'_>, id: Guid, settings: &str) -> Result<()> {
    let record = tx.endpoint(id)?;
    let request = ModifyEndpoint::parse(settings)?;
    let (Some(resource), Some(action)) = (request.resource_type.clone(), request.request_type.clone()) else {
        let detail = "endpoint request: ResourceType or RequestType is absent";
        return Err(refuse(HResult::INVALID_PARAMETER, detail));
    };
    let mut record = (*record).clone();
    match (&resource, &action) {
        (EndpointResource::Port, RequestType::Add) => {
            let port: PortRequest = match &request.settings {
                Some(settings) => settings.read()?,
                None => PortRequest::default(),
            };
            require_local(&record, "given a port")?;
            if let Some(old) = record.port {
                let detail = format!("endpoint {id} has the switch port {old}");
                return Err(refuse(HResult::ENDPOINT_ALREADY_ATTACHED, detail));
            }
            record.port = port.port_id.filter(|port| !port.is_nil());
            record.vnic_name = port.virtual_nic_name;
            record.vm = port.virtual_machine_id.filter(|vm| !vm.is_nil());
            give_port(tx, &mut record, endpoint_state::ATTACHED);
        }
        (EndpointResource::Port, RequestType::Remove) => {
            require_local(&record, "taken off its port")?;
            if record.port.is_none() {
                let detail = format!("endpoint {id} has no switch port");
                return Err(refuse(HResult::PORT_NOT_FOUND, detail));
            }
            take_port(tx, &mut record);
        }
        (EndpointResource::Policy, RequestType::Add | RequestType::Update | RequestType::Remove) => {
            let list: PolicyList = match &request.settings {
                Some(settings) => settings.read()?,
                None => PolicyList::default(),
            };
            change_policies(tx, &mut record, &action, list.policies)?;
        }
        _ => {
            let detail = format!("endpoint {id}: {action} of {resource} is no request of HcnModifyEndpoint");
            return Err(refuse(HResult::REQUEST_UNSUPPORTED, detail));
        }
    }
    tx.put_endpoint(record);
    Ok(())
}

fn change_policies(
    tx: &Tx<'_>,
    record: &mut EndpointRecord,
    action: &RequestType,
    mut sent: Vec<Policy>,
) -> Result<()> {
    sent.retain(|policy| !policies::is_blank(policy));
    let own = &mut record.doc.policies;
    match action {
        RequestType::Remove => {
            for policy in &sent {
                remove(own, policy)?;
            }
        }
        RequestType::Update => match tx.env.switches.endpoint_update {
            EndpointUpdate::All => *own = sent,
            EndpointUpdate::ListedTypes => {
                own.retain(|old| !sent.iter().any(|new| same_type(old, new)));
                own.extend(sent);
            }
        },
        _ => own.extend(sent),
    }
    settle(tx, record)
}

/// Removal goes by content; a policy of which there is one only may also be named by its type alone (ncproxy
/// removes the Iov policy that it has just set to 0 with the settings it had before).
fn remove(own: &mut Vec<Policy>, gone: &Policy) -> Result<()> {
    if own.iter().any(|policy| policies::same(policy, gone)) {
        return policies::remove_one(own, gone);
    }
    let alike = own.iter().filter(|policy| same_type(policy, gone)).count();
    let nameable = gone.settings.is_none() || gone.kind.is("Iov");
    if alike == 1 && nameable {
        own.retain(|policy| !same_type(policy, gone));
        return Ok(());
    }
    policies::remove_one(own, gone)
}

fn same_type(a: &Policy, b: &Policy) -> bool {
    a.kind.text().eq_ignore_ascii_case(&b.kind.text())
}

/// Replaces all policies (the v1 update).
pub(crate) fn replace_policies(tx: &mut Tx<'_>, id: Guid, sent: Vec<Policy>) -> Result<()> {
    let mut record = (*tx.endpoint(id)?).clone();
    record.doc.policies = sent;
    settle(tx, &mut record)?;
    tx.put_endpoint(record);
    Ok(())
}

/// Checks the policies an endpoint has now and takes what they ask for.
fn settle(tx: &Tx<'_>, record: &mut EndpointRecord) -> Result<()> {
    let network = tx.network(record.network)?;
    super::admit_policies(tx, &network, &mut record.doc.policies)?;
    record.derive();
    super::reserve(tx, record)
}
