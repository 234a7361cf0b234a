//! Endpoints: what HNS checks, fills in and allocates when one is made, and what goes when it is deleted.

use std::net::IpAddr;

use hcn::endpoint::{Endpoint, IpConfig};
use hcn::network::{Dns, NetworkMode, Route};
use hcn::{Feature, Guid, HResult, Kind, Mac, Result, needs};

use crate::policies::{self, On};
use crate::ports::Holder;
use crate::record::{EndpointRecord, NetworkRecord, endpoint_state};
use crate::switches::InUse;
use crate::tx::{Tx, refuse};

mod attach;
mod modify;

pub(crate) use attach::{
    attach, attach_container, detach, detach_container, give_port, require_local, take_port,
};
pub(crate) use modify::{modify, replace_policies};

/// The name of an endpoint that is given none.
const DEFAULT_NAME: &str = "Ethernet";

/// Makes an endpoint on `network`, or on the one that the document names.
pub(crate) fn create(tx: &mut Tx<'_>, network: Option<Guid>, id: Guid, mut doc: Endpoint) -> Result<Guid> {
    let Some(network_id) = network.or(doc.network).filter(|id| !id.is_nil()) else {
        return Err(refuse(HResult::INVALID_ENDPOINT, "endpoint HostComputeNetwork is absent"));
    };
    let network = tx.network(network_id)?;
    let id = tx.choose_id(Kind::Endpoint, id, doc.id)?;
    doc.id = Some(id);
    doc.network = network.doc.id;
    // Read only: an endpoint comes into a namespace by a request to the namespace.
    doc.namespace = None;
    if doc.name.as_deref().is_none_or(str::is_empty) {
        doc.name = Some(DEFAULT_NAME.to_owned());
    }
    admit_addresses(tx, &network, &mut doc)?;
    admit_mac(tx, &network, &mut doc)?;
    if tx.quirks.partial {
        doc.policies.clear();
    }
    admit_policies(tx, &network, &mut doc.policies)?;
    add_gateways(tx, &mut doc);
    doc.health = None;
    doc.dns = doc.dns.take().filter(|dns| *dns != Dns::default());
    policies::strip_base_fields(&mut doc.extra);

    let seq = match tx.quirks.beside {
        Some((seq, first)) => {
            if first {
                seq - 1
            } else {
                seq + 1
            }
        }
        None => tx.state.next_seq(),
    };
    let mut record = EndpointRecord {
        seq,
        doc,
        state: if tx.quirks.unattached { endpoint_state::ATTACHED_SHARING } else { endpoint_state::CREATED },
        containers: Vec::new(),
        compartment: None,
        port: None,
        vnic_name: None,
        vm: None,
        blocks: Vec::new(),
        network: Guid::NIL,
        addresses: Vec::new(),
        mac: None,
        ports: Vec::new(),
    };
    record.derive();
    reserve(tx, &mut record)?;
    tx.put_endpoint(record);
    Ok(id)
}

/// Takes the host ports and pool blocks that an endpoint's policies ask for.
pub(crate) fn reserve(tx: &Tx<'_>, record: &mut EndpointRecord) -> Result<()> {
    let id = record.doc.id.unwrap_or_default();
    for &port in &record.ports {
        if let Some(holder) = tx.state.ports.holder(port, Holder::Endpoint(id)) {
            let detail = format!("policy PortMapping: {port} is held by {holder}");
            return Err(refuse(HResult::PORT_ALREADY_EXISTS, detail));
        }
    }
    let spaces = record.nat_spaces();
    record.blocks.retain(|block| spaces.contains(&block.space));
    for space in spaces {
        if record.blocks.iter().any(|block| block.space == space) {
            continue;
        }
        let wanted = tx.env.switches.outbound_nat_blocks;
        let blocks = tx.state.ports.free_blocks(space, wanted).map_err(|left| {
            let detail = format!(
                "policy OutBoundNAT: {wanted} blocks of 64 {space} ports are needed, {left} are free in the dynamic range"
            );
            refuse(tx.env.switches.blocks_exhausted, detail)
        })?;
        record.blocks.extend(blocks);
    }
    Ok(())
}

fn admit_addresses(tx: &Tx<'_>, network: &NetworkRecord, doc: &mut Endpoint) -> Result<()> {
    let id = network.doc.id.unwrap_or_default();
    let remote = doc.is_remote();
    let Some(pools) = tx.state.pools(id) else {
        return Ok(());
    };
    doc.ip_configurations.retain(|config| *config != IpConfig::default());
    check_needs(tx, doc)?;
    if doc.ip_configurations.is_empty() {
        if remote {
            let detail = "endpoint IpConfigurations is empty; a remote endpoint needs an address";
            return Err(refuse(HResult::INVALID_ENDPOINT, detail));
        }
        for v6 in [false, true] {
            let mut subnets = pools
                .addresses
                .iter()
                .filter(|pool| pool.prefix.addr().is_ipv6() == v6 && pool.is_managed())
                .peekable();
            if subnets.peek().is_none() {
                continue;
            }
            let Some((address, pool)) = subnets.find_map(|pool| Some((pool.next()?, pool))) else {
                let family = if v6 { "IPv6" } else { "IPv4" };
                let detail = format!("network {id} has no free {family} address left");
                return Err(refuse(HResult::ADDR_INVALID_OR_RESERVED, detail));
            };
            doc.ip_configurations.push(IpConfig {
                ip_address: address.to_string(),
                prefix_length: pool.prefix.prefix_len(),
                ..IpConfig::default()
            });
        }
        return Ok(());
    }
    for index in 0..doc.ip_configurations.len() {
        let (earlier, rest) = doc.ip_configurations.split_at_mut(index);
        let Some(config) = rest.first_mut() else { continue };
        let address = admit_address(tx, network, config, remote)?;
        if earlier.iter().any(|other| other.ip_address.parse() == Ok(address)) {
            let detail = format!("endpoint IpConfigurations has {address} twice");
            return Err(refuse(HResult::INVALID_ENDPOINT, detail));
        }
    }
    Ok(())
}

/// What a build cannot do, as the client asked for it; policies are looked at one by one.
fn check_needs(tx: &Tx<'_>, doc: &mut Endpoint) -> Result<()> {
    let policies = std::mem::take(&mut doc.policies);
    let needs = needs::of_endpoint(doc);
    doc.policies = policies;
    let Some(need) = needs::missing(&needs, tx.env.features) else {
        return Ok(());
    };
    let code = match need.feature {
        Feature::Slash32EndpointPrefixes => HResult::INVALID_PREFIX,
        _ => HResult::INVALID_PARAMETER,
    };
    Err(refuse(code, format!("{need}; this is {}", tx.env.version)))
}

fn admit_address(
    tx: &Tx<'_>,
    network: &NetworkRecord,
    config: &mut IpConfig,
    remote: bool,
) -> Result<IpAddr> {
    let id = network.doc.id.unwrap_or_default();
    let text = &config.ip_address;
    let address: IpAddr = text
        .parse()
        .map_err(|_| refuse(HResult::INVALID_IP, format!("endpoint IpAddress {text:?} is not an address")))?;
    let limited = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    if address.is_unspecified() || address.is_multicast() || limited || address.is_loopback() {
        let detail = format!("endpoint IpAddress {address} is no unicast address");
        return Err(refuse(HResult::ADDR_INVALID_OR_RESERVED, detail));
    }
    let most = if address.is_ipv4() { 32 } else { 128 };
    if config.prefix_length > most {
        let detail = format!("endpoint PrefixLength {} is more than {most}", config.prefix_length);
        return Err(refuse(HResult::INVALID_PREFIX, detail));
    }
    let pools = tx.state.pools(id);
    let subnet = pools.and_then(|pools| pools.addresses.containing(address));
    if config.prefix_length == 0 {
        config.prefix_length = subnet.map_or(most, |subnet| subnet.prefix.prefix_len());
    }
    if let Some(wanted) = config.ip_subnet_id.filter(|wanted| !wanted.is_nil()) {
        let known = network.doc.subnets().any(|subnet| {
            subnet.id == Some(wanted) || subnet.ip_subnets.iter().any(|inner| inner.id == Some(wanted))
        });
        if !known {
            let detail = format!("endpoint IpSubnetId: network {id} has no subnet {wanted}");
            return Err(refuse(HResult::SUBNET_NOT_FOUND, detail));
        }
    }
    if tx.quirks.beside.is_some() {
        return Ok(address);
    }
    if !remote {
        let has_subnets = pools.is_some_and(|pools| pools.addresses.iter().next().is_some());
        match subnet {
            Some(subnet) => {
                if let Some(why) = subnet.reserved(address) {
                    let detail = format!("endpoint IpAddress {address} is reserved: it is {why}");
                    return Err(refuse(HResult::ADDR_INVALID_OR_RESERVED, detail));
                }
            }
            None if has_subnets => {
                let detail = format!("endpoint IpAddress {address} is in no subnet of network {id}");
                return Err(refuse(HResult::INVALID_IP, detail));
            }
            None if network.doc.network_mode() == NetworkMode::Transparent => {}
            None => {
                let detail = format!("network {id} has no subnet for {address}");
                return Err(refuse(HResult::SUBNET_NOT_FOUND, detail));
            }
        }
    }
    check_duplicate(tx, id, address, remote)?;
    Ok(address)
}

fn check_duplicate(tx: &Tx<'_>, network: Guid, address: IpAddr, remote: bool) -> Result<()> {
    let switches = &tx.env.switches;
    let clash =
        tx.state.endpoints_at(network, address).find(|other| !match (remote, other.doc.is_remote()) {
            (false, false) => switches.duplicate_local,
            (true, true) => switches.duplicate_remote,
            _ => switches.duplicate_local_remote,
        });
    match clash {
        None => Ok(()),
        Some(other) => {
            let kind = if other.doc.is_remote() { "remote" } else { "local" };
            let holder = other.doc.id.unwrap_or_default();
            let detail = format!("endpoint IpAddress {address} is that of the {kind} endpoint {holder}");
            Err(refuse(HResult::ADDR_INVALID_OR_RESERVED, detail))
        }
    }
}

fn admit_mac(tx: &Tx<'_>, network: &NetworkRecord, doc: &mut Endpoint) -> Result<()> {
    if let Some(text) = doc.mac_address.as_ref().filter(|text| !text.is_empty()) {
        text.parse::<Mac>()
            .map_err(|error| refuse(HResult::INVALID_ENDPOINT, format!("endpoint MacAddress: {error}")))?;
        // Dash form, else as it came: clients compare the text.
        doc.mac_address = Some(text.replace(':', "-"));
        return Ok(());
    }
    let id = network.doc.id.unwrap_or_default();
    let next = tx.state.pools(id).and_then(|pools| pools.macs.next());
    let mac = next.ok_or_else(|| {
        refuse(HResult::OUT_OF_MEMORY, format!("network {id} has no free MAC address left in its pool"))
    })?;
    doc.mac_address = Some(mac.to_string());
    Ok(())
}

/// Checks policies that are new on an endpoint, or all of them.
pub(crate) fn admit_policies(
    tx: &Tx<'_>,
    network: &NetworkRecord,
    policies: &mut Vec<hcn::Policy>,
) -> Result<()> {
    policies.retain(|policy| !policies::is_blank(policy));
    let mode = network.doc.network_mode();
    for policy in policies.iter_mut() {
        policies::admit(tx.env, On::Endpoint, policy)?;
        let unmapped = matches!(
            mode,
            NetworkMode::Transparent | NetworkMode::Private | NetworkMode::Internal | NetworkMode::Mirrored
        );
        if unmapped && policy.kind.is("PortMapping") {
            let detail = format!("policy PortMapping: a {mode} network maps no ports");
            return Err(refuse(HResult::MAPPING_NOT_SUPPORTED, detail));
        }
    }
    if policies.iter().filter(|policy| policy.kind.is("InterfaceParameters")).count() > 1 {
        return Err(HResult::INTERFACEPARAMETERS_ALREADY_APPLIED.into());
    }
    Ok(())
}

/// A local endpoint without routes goes through its subnets' gateways.
fn add_gateways(tx: &Tx<'_>, doc: &mut Endpoint) {
    if doc.is_remote() || !doc.routes.is_empty() {
        return;
    }
    let Some(pools) = doc.network.and_then(|network| tx.state.pools(network)) else {
        return;
    };
    let gateways = doc.addresses().filter_map(|address| pools.addresses.containing(address)?.gateway);
    let mut routes: Vec<Route> = Vec::new();
    for gateway in gateways {
        let route = Route {
            next_hop: gateway.to_string(),
            destination_prefix: if gateway.is_ipv4() { "0.0.0.0/0" } else { "::/0" }.to_owned(),
            ..Route::default()
        };
        if !routes.contains(&route) {
            routes.push(route);
        }
    }
    doc.routes = routes;
}

/// Deletes an endpoint; load balancers and SDN routes over it do what the switch says.
pub(crate) fn delete(tx: &mut Tx<'_>, id: Guid) -> Result<()> {
    let record = tx.endpoint(id)?;
    match tx.env.switches.delete_endpoint_in_use {
        InUse::Dangle => {}
        InUse::Drop => drop_references(tx, id)?,
        InUse::Refuse => {
            let user = tx.state.balancers_of(id).first().map(|user| format!("load balancer {user}"));
            let user =
                user.or_else(|| tx.state.routes_of(id).first().map(|user| format!("SDN route {user}")));
            if let Some(user) = user {
                let detail = format!("endpoint {id} is still referred to by {user}");
                return Err(refuse(HResult::ENTITY_HAS_REFERENCES, detail));
            }
        }
    }
    leave_namespace(tx, &record)?;
    tx.remove(Kind::Endpoint, id);
    Ok(())
}

/// Deletes an endpoint whose network goes: no reference is left, unless balancers stay behind degraded.
pub(crate) fn remove_with_network(tx: &mut Tx<'_>, id: Guid, keep_references: bool) -> Result<()> {
    let record = tx.endpoint(id)?;
    if !keep_references {
        drop_references(tx, id)?;
    }
    leave_namespace(tx, &record)?;
    tx.remove(Kind::Endpoint, id);
    Ok(())
}

fn leave_namespace(tx: &mut Tx<'_>, record: &EndpointRecord) -> Result<()> {
    if let (Some(namespace), Some(id)) = (record.doc.namespace, record.doc.id)
        && tx.state.namespaces.contains(namespace)
    {
        crate::namespace::drop_endpoint(tx, namespace, id)?;
    }
    Ok(())
}

fn drop_references(tx: &mut Tx<'_>, id: Guid) -> Result<()> {
    for balancer in tx.state.balancers_of(id) {
        let mut record = (*tx.balancer(balancer)?).clone();
        record.doc.endpoints.retain(|endpoint| *endpoint != id);
        tx.put_balancer(record);
    }
    for route in tx.state.routes_of(id) {
        let mut record = (*tx.route(route)?).clone();
        record.doc.endpoints.retain(|endpoint| *endpoint != id);
        tx.put_route(record);
    }
    Ok(())
}
