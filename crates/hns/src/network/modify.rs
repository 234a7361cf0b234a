//! `HcnModifyNetwork`: DNS, extensions, policies, subnets.

use hcn::modify::{Extension, IpSubnetRequest, ModifyNetwork, NetworkResource, RequestType, SubnetRequest};
use hcn::network::{Dns, Ipam, IpamType, Subnet};
use hcn::policy::PolicyList;
use hcn::{Error, Guid, HResult, Result};
use ipnet::IpNet;

use crate::policies;
use crate::record::{ExtensionState, NetworkRecord};
use crate::tx::{Tx, refuse};

/// Carries out a modify request.
pub(crate) fn modify(tx: &mut Tx<'_>, id: Guid, settings: &str) -> Result<()> {
    let record = tx.network(id)?;
    let request = ModifyNetwork::parse(settings)?;
    let (Some(resource), Some(action)) = (request.resource_type.clone(), request.request_type.clone()) else {
        let detail = "network request: ResourceType or RequestType is absent";
        return Err(refuse(HResult::INVALID_PARAMETER, detail));
    };
    let mut record = (*record).clone();
    match (&resource, &action) {
        (NetworkResource::Dns, RequestType::Update) => {
            let dns: Dns = read(&request)?;
            record.doc.dns = (dns != Dns::default()).then_some(dns);
        }
        (NetworkResource::Extension, RequestType::Update) => set_extension(&mut record, &read(&request)?)?,
        (NetworkResource::Policy, RequestType::Add | RequestType::Remove | RequestType::Update) => {
            change_policies(tx, &mut record, &action, read(&request)?)?;
        }
        (NetworkResource::Subnet, RequestType::Add | RequestType::Remove) => {
            let subnets: SubnetRequest = read(&request)?;
            change_subnets(tx, id, &mut record, &action, subnets.subnets)?;
        }
        (NetworkResource::IpSubnet, RequestType::Add | RequestType::Remove) => {
            change_ip_subnets(tx, &mut record, &action, read(&request)?)?;
        }
        _ => {
            let detail = format!("network {id}: {action} of {resource} is no request of HcnModifyNetwork");
            return Err(refuse(HResult::REQUEST_UNSUPPORTED, detail));
        }
    }
    tx.put_network(record);
    Ok(())
}

fn read<'a, T: serde::Deserialize<'a> + Default>(request: &'a ModifyNetwork) -> Result<T> {
    match &request.settings {
        Some(settings) => settings.read().map_err(Error::from),
        None => Ok(T::default()),
    }
}

/// Turns a vSwitch extension on or off.
pub(crate) fn set_extension(record: &mut NetworkRecord, extension: &Extension) -> Result<()> {
    if extension.id.is_empty() {
        return Err(refuse(HResult::SWITCH_EXTENSION_NOT_FOUND, "Extension.Id is absent"));
    }
    let state = ExtensionState { id: extension.id.clone(), enabled: extension.is_enabled };
    match record.extensions.iter_mut().find(|known| known.id.eq_ignore_ascii_case(&state.id)) {
        Some(known) => known.enabled = state.enabled,
        None => record.extensions.push(state),
    }
    Ok(())
}

fn change_policies(
    tx: &Tx<'_>,
    record: &mut NetworkRecord,
    action: &RequestType,
    list: PolicyList,
) -> Result<()> {
    let mut sent = list.policies;
    super::admit_policies(tx, &mut sent)?;
    let own = &mut record.doc.policies;
    match action {
        RequestType::Remove => {
            for policy in &sent {
                policies::remove_one(own, policy)?;
            }
        }
        RequestType::Update => *own = sent,
        _ => {
            for policy in sent {
                if let Some(old) = own.iter().find(|old| policies::same(old, &policy)) {
                    let detail = format!("network has the policy {} with these settings", old.kind.text());
                    return Err(refuse(HResult::POLICY_ALREADY_EXISTS, detail));
                }
                own.push(policy);
            }
        }
    }
    Ok(())
}

fn change_subnets(
    tx: &Tx<'_>,
    id: Guid,
    record: &mut NetworkRecord,
    action: &RequestType,
    subnets: Vec<Subnet>,
) -> Result<()> {
    if *action == RequestType::Add {
        match record.doc.ipams.iter_mut().find(|ipam| ipam.kind != Some(IpamType::Dhcp)) {
            Some(ipam) => ipam.subnets.extend(subnets),
            None => record.doc.ipams.push(Ipam { kind: Some(IpamType::Static), subnets, ..Ipam::default() }),
        }
        super::check_shape(tx, &record.doc)?;
        return super::admit_ipams(tx, &mut record.doc, Some(id));
    }
    for gone in subnets {
        let is = |own: &Subnet| match gone.id.filter(|id| !id.is_nil()) {
            Some(id) => own.id == Some(id),
            None => own.prefix == gone.prefix,
        };
        let Some(own) = record.doc.subnets().find(|own| is(own)) else {
            let detail = format!("network {id} has no subnet {}", gone.prefix);
            return Err(refuse(HResult::SUBNET_NOT_FOUND, detail));
        };
        if let Ok(prefix) = own.prefix.parse::<IpNet>() {
            let user = tx
                .state
                .endpoints_of(id)
                .filter(|endpoint| !endpoint.doc.is_remote())
                .find(|endpoint| endpoint.addresses.iter().any(|address| prefix.contains(address)));
            if let Some(user) = user {
                let user = user.doc.id.unwrap_or_default();
                let detail = format!("subnet {prefix} of network {id} is in use by endpoint {user}");
                return Err(refuse(HResult::ENTITY_HAS_REFERENCES, detail));
            }
        }
        for ipam in &mut record.doc.ipams {
            ipam.subnets.retain(|own| !is(own));
        }
    }
    Ok(())
}

fn change_ip_subnets(
    tx: &Tx<'_>,
    record: &mut NetworkRecord,
    action: &RequestType,
    request: IpSubnetRequest,
) -> Result<()> {
    let wanted = request.subnet_id.unwrap_or_default();
    let subnets = record.doc.ipams.iter_mut().flat_map(|ipam| &mut ipam.subnets);
    let Some(subnet) = subnets.into_iter().find(|subnet| subnet.id == Some(wanted)) else {
        return Err(refuse(HResult::SUBNET_NOT_FOUND, format!("network has no subnet with the id {wanted}")));
    };
    if *action == RequestType::Add {
        subnet.ip_subnets.extend(request.ip_subnets);
        let own = record.doc.id;
        return super::admit_ipams(tx, &mut record.doc, own);
    }
    for gone in request.ip_subnets {
        let before = subnet.ip_subnets.len();
        subnet.ip_subnets.retain(|own| match gone.id.filter(|id| !id.is_nil()) {
            Some(id) => own.id != Some(id),
            None => own.prefix != gone.prefix,
        });
        if subnet.ip_subnets.len() == before {
            let detail = format!("subnet {} has no IP subnet {}", subnet.prefix, gone.prefix);
            return Err(refuse(HResult::INVALID_IP_SUBNET, detail));
        }
    }
    Ok(())
}
