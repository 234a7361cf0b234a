//! Load balancers: frontends, host ports, pool blocks, destinations.

use std::net::IpAddr;

use hcn::loadbalancer::{
    Distribution as DistributionType, LoadBalancer, LoadBalancerFlags, PortMapping, protocol,
};
use hcn::modify::{EndpointRequest, RequestType};
use hcn::network::NetworkMode;
use hcn::{Feature, Guid, HResult, Kind, Result, needs, v1};

use crate::host::Protocol;
use crate::policies;
use crate::ports::{Holder, Space};
use crate::record::{BalancerRecord, Place, object_state};
use crate::switches::{Distribution, ModifyBalancer, ModifyScope};
use crate::tx::{Tx, refuse};

/// Makes a load balancer.
pub(crate) fn create(tx: &mut Tx<'_>, id: Guid, mut doc: LoadBalancer) -> Result<Guid> {
    let id = tx.choose_id(Kind::LoadBalancer, id, doc.id)?;
    doc.id = Some(id);
    let seq = tx.state.next_seq();
    let record = admit(tx, seq, doc, None)?;
    tx.put_balancer(record);
    Ok(id)
}

/// Checks a document and takes what it asks for. `old` is what it replaces.
fn admit(
    tx: &mut Tx<'_>,
    seq: u64,
    mut doc: LoadBalancer,
    old: Option<&BalancerRecord>,
) -> Result<BalancerRecord> {
    policies::strip_base_fields(&mut doc.extra);
    doc.frontend_vips.retain(|vip| !vip.is_empty());
    if tx.quirks.partial {
        doc.port_mappings.clear();
    } else {
        check_mappings(tx, &mut doc)?;
    }
    let vips = check_addresses(&doc)?;
    check_family(tx, &doc, &vips)?;
    let network = check_endpoints(tx, &mut doc, old)?;
    let mut record = BalancerRecord {
        seq,
        doc,
        state: object_state::CREATED,
        network,
        blocks: old.map(|old| old.blocks.clone()).unwrap_or_default(),
        degraded: None,
        frontends: Vec::new(),
        ports: Vec::new(),
    };
    record.derive();
    if !tx.quirks.partial {
        reserve(tx, &mut record)?;
    }
    Ok(record)
}

fn check_mappings(tx: &Tx<'_>, doc: &mut LoadBalancer) -> Result<()> {
    if doc.port_mappings.is_empty() {
        return Err(refuse(HResult::INVALID_PARAMETER, "load balancer PortMappings is empty"));
    }
    for mapping in &mut doc.port_mappings {
        check_mapping(mapping)?;
        let unsupported =
            mapping.distribution.as_ref().is_some_and(|wanted| *wanted != DistributionType::None)
                && !tx.env.supports(Feature::SessionAffinity);
        if unsupported {
            match tx.env.switches.distribution_unsupported {
                Distribution::Keep => {}
                Distribution::Drop => mapping.distribution = None,
                Distribution::Refuse => {
                    let detail = format!("PortMappings.DistributionType: not in HNS {}", tx.env.version);
                    return Err(refuse(HResult::INVALID_PARAMETER, detail));
                }
            }
        }
    }
    Ok(())
}

fn check_mapping(mapping: &PortMapping) -> Result<()> {
    if mapping.protocol > 255 {
        let detail = format!("PortMappings.Protocol {} is no IP protocol", mapping.protocol);
        return Err(refuse(HResult::INVALID_PARAMETER, detail));
    }
    if let Some(other @ (DistributionType::OtherName(_) | DistributionType::OtherNumber(_))) =
        &mapping.distribution
    {
        let detail = format!("PortMappings.DistributionType {other} is not known");
        return Err(refuse(HResult::INVALID_PARAMETER, detail));
    }
    let has_ports = !matches!(mapping.protocol, protocol::ICMP_V4 | protocol::ICMP_V6 | 2);
    if has_ports && mapping.internal_port == 0 {
        return Err(refuse(HResult::INVALID_INTERNAL_PORT, "PortMappings.InternalPort is 0 or absent"));
    }
    if has_ports && mapping.external_port == 0 {
        return Err(refuse(HResult::INVALID_PARAMETER, "PortMappings.ExternalPort is 0 or absent"));
    }
    Ok(())
}

fn check_addresses(doc: &LoadBalancer) -> Result<Vec<IpAddr>> {
    let parse = |field: &str, text: &str| match text.parse::<IpAddr>() {
        Ok(address) if address.is_unspecified() || address.is_multicast() => {
            let detail = format!("load balancer {field} {address} is no unicast address");
            Err(refuse(HResult::ADDR_INVALID_OR_RESERVED, detail))
        }
        Ok(address) => Ok(address),
        Err(_) => {
            Err(refuse(HResult::INVALID_IP, format!("load balancer {field} {text:?} is not an address")))
        }
    };
    if !doc.source_vip.is_empty() {
        parse("SourceVIP", &doc.source_vip)?;
    }
    doc.frontend_vips.iter().map(|vip| parse("FrontendVIPs", vip)).collect()
}

/// Checks the references and says which network the balancer lies on. References that the balancer had before are
/// not asked for again: an endpoint may have gone from under it.
fn check_endpoints(
    tx: &Tx<'_>,
    doc: &mut LoadBalancer,
    old: Option<&BalancerRecord>,
) -> Result<Option<Guid>> {
    let switches = &tx.env.switches;
    if doc.endpoints.is_empty() && !switches.empty_balancer {
        return Err(refuse(HResult::INVALID_JSON_REFERENCE, "load balancer HostComputeEndpoints is empty"));
    }
    if doc.endpoints.len() > switches.destination_limit as usize {
        let detail = format!(
            "load balancer HostComputeEndpoints has {} endpoints; this build allows {}",
            doc.endpoints.len(),
            switches.destination_limit
        );
        return Err(refuse(HResult::INVALID_PARAMETER, detail));
    }
    if let Some(network) = doc.network.filter(|network| !network.is_nil()) {
        doc.network = tx.network(network)?.doc.id;
    }
    let flagged = doc.flags.contains(LoadBalancerFlags::IPV6);
    let mut first = None;
    for endpoint in &mut doc.endpoints {
        *endpoint = switches.balancer_endpoint_case.of(*endpoint);
        let Some(brief) = tx.state.endpoints.brief(*endpoint) else {
            if old.is_some_and(|old| old.doc.endpoints.contains(endpoint)) {
                continue;
            }
            let detail = format!("load balancer HostComputeEndpoints: there is no endpoint {endpoint}");
            return Err(refuse(switches.unknown_reference, detail));
        };
        first = first.or(Some(brief.network));
        if switches.balancer_needs_port && brief.place == Place::Unattached {
            let mode = tx.state.mode(brief.network);
            if matches!(mode, Some(NetworkMode::L2Bridge | NetworkMode::L2Tunnel)) {
                let detail =
                    format!("load balancer HostComputeEndpoints: endpoint {endpoint} has no switch port");
                return Err(refuse(HResult::PORT_NOT_FOUND, detail));
            }
        }
        let (own, other) = if flagged { (brief.v6, brief.v4) } else { (brief.v4, brief.v6) };
        if switches.one_family && other && !own {
            let family = if flagged { "IPv6" } else { "IPv4" };
            let detail =
                format!("load balancer HostComputeEndpoints: endpoint {endpoint} has no {family} address");
            return Err(refuse(HResult::INVALID_PARAMETER, detail));
        }
    }
    Ok(doc.network.or(first).or(old.and_then(|old| old.network)))
}

fn check_family(tx: &Tx<'_>, doc: &LoadBalancer, vips: &[IpAddr]) -> Result<()> {
    let flagged = doc.flags.contains(LoadBalancerFlags::IPV6);
    let needs = needs::of_load_balancer(doc);
    // Affinity has a switch of its own.
    let missing =
        needs.iter().find(|need| need.feature != Feature::SessionAffinity && !tx.env.supports(need.feature));
    if let Some(need) = missing {
        return Err(refuse(HResult::INVALID_PARAMETER, format!("{need}; this is {}", tx.env.version)));
    }
    if !tx.env.switches.one_family {
        return Ok(());
    }
    if let Some(vip) = vips.iter().find(|vip| vip.is_ipv6() != flagged) {
        let flag = if flagged { "set" } else { "not set" };
        let detail = format!("load balancer FrontendVIPs: {vip} does not fit the IPv6 flag, which is {flag}");
        return Err(refuse(HResult::INVALID_PARAMETER, detail));
    }
    Ok(())
}

/// Checks that frontends and host ports are free and takes the blocks that are missing.
fn reserve(tx: &mut Tx<'_>, record: &mut BalancerRecord) -> Result<()> {
    let id = record.doc.id.unwrap_or_default();
    let switches = &tx.env.switches;
    for frontend in &record.frontends {
        if let Some(holder) = tx.state.frontends.get(frontend).filter(|holder| **holder != id) {
            let detail = format!("load balancer frontend {frontend} is that of load balancer {holder}");
            return Err(refuse(switches.duplicate_frontend, detail));
        }
    }
    let mut seen = record.frontends.clone();
    seen.sort_unstable();
    if let Some([twice, _]) = seen.array_windows().find(|[one, next]| one == next) {
        let detail = format!("load balancer frontend {twice} is given twice");
        return Err(refuse(HResult::INVALID_PARAMETER, detail));
    }
    // A VIP's port is no host port, but a reservation that outlived its load balancer holds it all the same.
    for port in record.frontend_ports() {
        if let Some(holder) = tx.state.ports.holder(port, Holder::LoadBalancer(id)) {
            let detail = format!("load balancer ExternalPort: {port} is held by {holder}");
            return Err(refuse(HResult::PORT_ALREADY_EXISTS, detail));
        }
    }
    if switches.vip_port_collides_with_listener && !record.is_dsr() {
        for frontend in record.frontends.iter().filter(|frontend| frontend.vip.is_some()) {
            let Some(protocol) = Protocol::from_number(frontend.protocol) else { continue };
            let space = Space { protocol, ipv6: frontend.ipv6 };
            if tx.state.ports.is_listening(space, frontend.port) {
                let detail = format!(
                    "load balancer ExternalPort: a process of the host listens on {space} port {}",
                    frontend.port
                );
                return Err(refuse(HResult::PORT_ALREADY_EXISTS, detail));
            }
        }
    }
    let spaces = record.pool_spaces();
    record.blocks.retain(|block| spaces.contains(&block.space));
    for space in spaces {
        if record.blocks.iter().any(|block| block.space == space) {
            continue;
        }
        let wanted = switches.balancer_blocks;
        let blocks = tx.state.ports.free_blocks(space, wanted).map_err(|left| {
            let detail = format!(
                "load balancer without DSR: {wanted} blocks of 64 {space} ports are needed, {left} are free in the dynamic range"
            );
            refuse(switches.blocks_exhausted, detail)
        })?;
        record.blocks.extend(blocks);
    }
    Ok(())
}

/// Carries out Modify: the whole document, or Microsoft's sample request that adds or removes one endpoint.
pub(crate) fn modify(tx: &mut Tx<'_>, id: Guid, settings: &str) -> Result<()> {
    let old = tx.balancer(id)?;
    let works = tx.env.supports(Feature::ModifyLoadBalancer);
    let accepted = tx.env.version == hcn::Version::new(15, 4);
    match tx.env.switches.modify_balancer {
        ModifyBalancer::Works => {}
        ModifyBalancer::ByVersion if works => {}
        ModifyBalancer::Ignored => return Ok(()),
        ModifyBalancer::ByVersion if accepted => return Ok(()),
        ModifyBalancer::ByVersion | ModifyBalancer::NotImplemented => {
            let detail = format!("HNS {} cannot modify load balancers", tx.env.version);
            return Err(refuse(HResult::E_NOTIMPL, detail));
        }
    }
    if old.degraded.is_some() {
        let detail = format!("load balancer {id} has lost its network");
        return Err(refuse(HResult::DEGRADED_OPERATION, detail));
    }
    let sent = v1::read_load_balancer(settings)?;
    let mut doc = if let Some(action) = sent.extra.read::<RequestType>("RequestType") {
        change_one_endpoint(&old, &action, &sent)?
    } else if tx.env.switches.modify_scope == ModifyScope::Endpoints {
        LoadBalancer { endpoints: sent.endpoints, ..old.doc.clone() }
    } else {
        sent
    };
    doc.id = old.doc.id;
    doc.network = doc.network.or(old.doc.network);
    let record = admit(tx, old.seq, doc, Some(&old))?;
    tx.put_balancer(record);
    Ok(())
}

fn change_one_endpoint(
    old: &BalancerRecord,
    action: &RequestType,
    sent: &LoadBalancer,
) -> Result<LoadBalancer> {
    let named: Option<EndpointRequest> = sent.extra.get("Settings").and_then(|settings| settings.read().ok());
    let Some(endpoint) = named.and_then(|named| named.endpoint_id) else {
        return Err(refuse(HResult::INVALID_PARAMETER, "Settings.EndpointId is absent"));
    };
    let mut doc = old.doc.clone();
    match action {
        RequestType::Add if !doc.endpoints.contains(&endpoint) => doc.endpoints.push(endpoint),
        RequestType::Add => {}
        RequestType::Remove => doc.endpoints.retain(|own| *own != endpoint),
        other => {
            let detail = format!("{other} is no request of HcnModifyLoadBalancer");
            return Err(refuse(HResult::REQUEST_UNSUPPORTED, detail));
        }
    }
    Ok(doc)
}

/// Deletes a load balancer.
pub(crate) fn delete(tx: &mut Tx<'_>, id: Guid) -> Result<()> {
    let record = tx.balancer(id)?;
    if let Some(code) = record.degraded {
        let network = record.network.unwrap_or_default();
        let detail = format!("load balancer {id} is degraded: its network {network} is gone");
        return Err(refuse(code, detail));
    }
    tx.remove(Kind::LoadBalancer, id);
    Ok(())
}
