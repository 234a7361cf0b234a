//! Attaching endpoints to the switch and taking them off again.

use hcn::api::NotificationKind;
use hcn::{Guid, HResult, Result};

use crate::record::{EndpointRecord, endpoint_state};
use crate::tx::{Tx, refuse};

/// Refuses what only a local endpoint can do.
pub(crate) fn require_local(record: &EndpointRecord, what: &str) -> Result<()> {
    if record.doc.is_remote() {
        let id = record.doc.id.unwrap_or_default();
        let detail = format!("endpoint {id} is remote and cannot be {what}");
        return Err(refuse(HResult::INVALID_REMOTE_ENDPOINT_OPERATION, detail));
    }
    Ok(())
}

/// Attaches an endpoint to the switch.
pub(crate) fn attach(tx: &mut Tx<'_>, id: Guid) -> Result<()> {
    let mut record = (*tx.endpoint(id)?).clone();
    require_local(&record, "attached")?;
    if record.is_attached() && record.port.is_some() {
        let detail = format!("endpoint {id} has the switch port {}", record.port.unwrap_or_default());
        return Err(refuse(HResult::ENDPOINT_ALREADY_ATTACHED, detail));
    }
    give_port(tx, &mut record, endpoint_state::ATTACHED);
    tx.put_endpoint(record);
    Ok(())
}

/// Puts the endpoint on the switch, in memory; F-UNATTACHED leaves it in state 3 without a port.
pub(crate) fn give_port(tx: &mut Tx<'_>, record: &mut EndpointRecord, state: u16) {
    if tx.quirks.unattached {
        record.state = endpoint_state::ATTACHED_SHARING;
        return;
    }
    record.state = state;
    if record.port.is_none() {
        record.port = Some(tx.env.random_id());
        tx.notify(NotificationKind::NetworkEndpointAttached, record.doc.id.unwrap_or_default());
    }
}

/// Takes the endpoint off the switch, in memory.
pub(crate) fn take_port(tx: &mut Tx<'_>, record: &mut EndpointRecord) {
    record.state = endpoint_state::DETACHED;
    record.compartment = None;
    record.vnic_name = None;
    record.vm = None;
    if record.port.take().is_some() {
        tx.notify(NotificationKind::NetworkEndpointDetached, record.doc.id.unwrap_or_default());
    }
}

/// Takes an endpoint off the switch.
pub(crate) fn detach(tx: &mut Tx<'_>, id: Guid) -> Result<()> {
    let mut record = (*tx.endpoint(id)?).clone();
    require_local(&record, "detached")?;
    if !record.is_attached() {
        let detail = format!("endpoint {id} is not attached (state {})", record.state);
        return Err(refuse(HResult::ENDPOINT_NOT_ATTACHED, detail));
    }
    take_port(tx, &mut record);
    record.containers.clear();
    tx.put_endpoint(record);
    Ok(())
}

/// Attaches an endpoint for a container; a second container shares it.
pub(crate) fn attach_container(tx: &mut Tx<'_>, id: Guid, container: &str) -> Result<()> {
    let mut record = (*tx.endpoint(id)?).clone();
    require_local(&record, "attached")?;
    if record.containers.iter().any(|own| own.eq_ignore_ascii_case(container)) {
        let detail = format!("endpoint {id} is attached to container {container}");
        return Err(refuse(HResult::ENDPOINT_ALREADY_ATTACHED, detail));
    }
    record.containers.push(container.to_owned());
    let state =
        if record.containers.len() > 1 { endpoint_state::ATTACHED_SHARING } else { endpoint_state::ATTACHED };
    give_port(tx, &mut record, state);
    tx.put_endpoint(record);
    Ok(())
}

/// Takes an endpoint from a container; the last one takes it off the switch.
pub(crate) fn detach_container(tx: &mut Tx<'_>, id: Guid, container: &str) -> Result<()> {
    let mut record = (*tx.endpoint(id)?).clone();
    require_local(&record, "detached")?;
    let before = record.containers.len();
    record.containers.retain(|own| !own.eq_ignore_ascii_case(container));
    if record.containers.len() == before {
        let detail = format!("endpoint {id} is not attached to container {container}");
        return Err(refuse(HResult::ENDPOINT_NOT_ATTACHED, detail));
    }
    match record.containers.len() {
        0 => take_port(tx, &mut record),
        1 => record.state = endpoint_state::ATTACHED,
        _ => {}
    }
    tx.put_endpoint(record);
    Ok(())
}
