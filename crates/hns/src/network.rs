//! Networks: what HNS checks and fills in when one is made, and what goes with one that is deleted.

use std::net::IpAddr;
use std::time::Duration;

use hcn::api::NotificationKind;
use hcn::network::{Ipam, IpamType, Network, NetworkFlags, NetworkMode, Subnet};
use hcn::{Guid, HResult, Kind, Mac, Result, needs};
use ipnet::IpNet;

use crate::alloc;
use crate::policies::{self, On};
use crate::record::{NetworkRecord, object_state};
use crate::switches::BalancerDeletion;
use crate::tx::{Tx, refuse};

mod modify;

pub(crate) use modify::{modify, set_extension};

/// Modes that are bridged to an adapter of the host.
const fn needs_adapter(mode: &NetworkMode) -> bool {
    matches!(
        mode,
        NetworkMode::Transparent | NetworkMode::L2Bridge | NetworkMode::L2Tunnel | NetworkMode::Overlay
    )
}

/// Modes whose management address appears some time after creation.
pub(crate) const fn has_management_address(mode: &NetworkMode) -> bool {
    matches!(mode, NetworkMode::L2Bridge | NetworkMode::L2Tunnel | NetworkMode::Overlay)
}

/// Modes for which HNS picks a subnet when none is named.
const fn picks_subnet(mode: &NetworkMode) -> bool {
    matches!(mode, NetworkMode::Nat | NetworkMode::Ics | NetworkMode::ConstrainedIcs | NetworkMode::Internal)
}

/// Makes a network.
pub(crate) fn create(tx: &mut Tx<'_>, id: Guid, mut doc: Network) -> Result<Guid> {
    let id = tx.choose_id(Kind::Network, id, doc.id)?;
    let mode = doc.network_mode();
    doc.name = doc.name.take().filter(|name| !name.is_empty());
    if !mode.is_known() {
        return Err(refuse(HResult::INVALID_NETWORK_TYPE, format!("network Type {mode} is not known")));
    }
    check_name(tx, &doc, &mode)?;
    let adapter = bind_adapter(tx, &doc, &mode)?;
    let layer = layer(tx, &doc, adapter.as_deref())?;

    doc.id = Some(id);
    admit_policies(tx, &mut doc.policies)?;
    check_shape(tx, &doc)?;
    if doc.ipams.iter().all(|ipam| ipam.subnets.is_empty()) && picks_subnet(&mode) {
        let taken = |candidate: &IpNet| {
            let overlaps = |other: &IpNet| other.contains(candidate) || candidate.contains(other);
            prefixes(tx).any(|(_, prefix)| overlaps(&prefix))
                || tx.env.host.adapters.iter().flat_map(|adapter| &adapter.addresses).any(overlaps)
        };
        let ipam = alloc::pick_subnet(&*tx.env.entropy, taken)
            .ok_or_else(|| refuse(HResult::INVALID_NETWORK, "no free subnet is left in 172.16.0.0/12"))?;
        doc.ipams = vec![ipam];
    }
    admit_ipams(tx, &mut doc, None)?;
    fill_mac_pool(tx, &mut doc)?;
    strip_service_owned(&mut doc);

    let delay = Duration::from_millis(tx.env.switches.management_delay_ms);
    let management = match (has_management_address(&mode), &adapter) {
        (true, Some(name)) if !doc.flags.contains(NetworkFlags::DISABLE_HOST_PORT) => {
            tx.env.host.adapter(name).and_then(crate::host::Adapter::management_address)
        }
        _ => None,
    };
    let dr_mac = (mode == NetworkMode::Overlay).then(|| {
        let low = tx.env.entropy.next_u64().to_be_bytes();
        Mac::from_octets([0x00, 0x15, 0x5D, low[0], low[1], low[2]]).to_string()
    });
    let record = NetworkRecord {
        seq: tx.state.next_seq(),
        doc,
        state: object_state::CREATED,
        management,
        dr_mac,
        adapter,
        layer,
        extensions: Vec::new(),
        ready_at: tx.now.saturating_add(delay),
    };
    tx.put_network(record);
    tx.notify(NotificationKind::NetworkPreCreate, id);
    tx.notify(NotificationKind::NetworkCreate, id);
    Ok(id)
}

/// Checks policies that are to stand on a network.
pub(crate) fn admit_policies(tx: &Tx<'_>, policies: &mut Vec<hcn::Policy>) -> Result<()> {
    policies.retain(|policy| !policies::is_blank(policy));
    policies.iter_mut().try_for_each(|policy| policies::admit(tx.env, On::Network, policy))
}

/// The prefixes of all networks.
fn prefixes(tx: &Tx<'_>) -> impl Iterator<Item = (Guid, IpNet)> {
    tx.state.networks.iter().flat_map(|record| {
        let id = record.doc.id.unwrap_or_default();
        record.doc.subnets().filter_map(move |subnet| Some((id, subnet.prefix.parse().ok()?)))
    })
}

fn check_name(tx: &Tx<'_>, doc: &Network, mode: &NetworkMode) -> Result<()> {
    let switches = &tx.env.switches;
    let taken = match doc.name.as_deref() {
        None => None,
        Some(name) if switches.network_names_ignore_case => tx
            .state
            .networks
            .iter()
            .find(|other| other.doc.name.as_deref().is_some_and(|other| other.eq_ignore_ascii_case(name)))
            .and_then(|other| other.doc.id),
        Some(name) => tx.state.networks_named(name).first().copied(),
    };
    if let (Some(holder), Some(name)) = (taken, &doc.name) {
        let code = if *mode == NetworkMode::Ics { HResult::DUP_NAME } else { switches.network_name_taken };
        return Err(refuse(code, format!("network Name {name:?} is that of network {holder}")));
    }
    let nat_networks = switches.nat_networks as usize;
    if *mode == NetworkMode::Nat && nat_networks > 0 {
        let there =
            tx.state.networks.iter().filter(|other| other.doc.network_mode() == NetworkMode::Nat).count();
        if there >= nat_networks {
            let detail = format!("there are {there} NAT networks already; this build allows {nat_networks}");
            return Err(refuse(HResult::OBJECT_ALREADY_EXISTS, detail));
        }
    }
    Ok(())
}

/// What a build cannot do; its policies have been admitted before.
fn check_shape(tx: &Tx<'_>, doc: &Network) -> Result<()> {
    let unknown = |ipam: &&Ipam| ipam.kind.as_ref().is_some_and(|kind| !kind.is_known());
    if let Some(kind) = doc.ipams.iter().find(unknown).and_then(|ipam| ipam.kind.as_ref()) {
        let detail = format!("network Ipams: Type {kind} is not Static or DHCP");
        return Err(refuse(HResult::INVALID_PARAMETER, detail));
    }
    let needs = needs::of_network(doc);
    if let Some(need) = needs::missing(&needs, tx.env.features) {
        return Err(refuse(HResult::INVALID_PARAMETER, format!("{need}; this is {}", tx.env.version)));
    }
    Ok(())
}

/// The adapter that a bridged network uses: the one it names, else the host's first.
fn bind_adapter(tx: &Tx<'_>, doc: &Network, mode: &NetworkMode) -> Result<Option<String>> {
    if !needs_adapter(mode) {
        return Ok(None);
    }
    let host = &tx.env.host;
    let named = policies::adapter_name(doc);
    let adapter = match &named {
        Some(name) => host.adapter(name),
        None => host.adapters.first(),
    };
    let Some(adapter) = adapter else {
        let detail = match named {
            Some(name) => format!("policy NetAdapterName: host {} has no adapter {name:?}", host.name),
            None => format!("host {} has no adapter", host.name),
        };
        return Err(refuse(HResult::ADAPTER_NOT_FOUND, detail));
    };
    Ok(Some(adapter.name.clone()))
}

/// The vSwitch layer: the one a LayerConstraint names, else one per adapter, else one of its own.
fn layer(tx: &Tx<'_>, doc: &Network, adapter: Option<&str>) -> Result<Option<Guid>> {
    if let Some(wanted) = policies::layer_constraint(doc) {
        let known = tx.state.networks.iter().any(|other| other.layer == Some(wanted));
        return if known {
            Ok(Some(wanted))
        } else {
            Err(refuse(
                HResult::LAYER_NOT_FOUND,
                format!("policy LayerConstraint: there is no layer {wanted}"),
            ))
        };
    }
    let shared =
        tx.state.networks.iter().find(|other| adapter.is_some() && other.adapter.as_deref() == adapter);
    Ok(Some(shared.and_then(|other| other.layer).unwrap_or_else(|| tx.env.random_id())))
}

/// Checks the subnets of a network and gives them ids. `own` is the network when it exists already.
pub(crate) fn admit_ipams(tx: &Tx<'_>, doc: &mut Network, own: Option<Guid>) -> Result<()> {
    let mode = doc.network_mode();
    let mut seen: Vec<IpNet> = Vec::new();
    for ipam in &mut doc.ipams {
        for subnet in &mut ipam.subnets {
            admit_subnet(tx, subnet, &mode)?;
            let Ok(prefix) = subnet.prefix.parse::<IpNet>() else { continue };
            let prefix = prefix.trunc();
            let overlaps = |other: &IpNet| other.contains(&prefix) || prefix.contains(other);
            if let Some(other) = seen.iter().find(|other| overlaps(other)) {
                let detail = format!("network Ipams: subnets {other} and {prefix} overlap");
                return Err(refuse(HResult::INVALID_SUBNET, detail));
            }
            if !tx.env.switches.overlapping_subnets
                && let Some((network, other)) =
                    prefixes(tx).find(|(network, other)| Some(*network) != own && overlaps(other))
            {
                let detail = format!("network Ipams: subnet {prefix} overlaps {other} of network {network}");
                return Err(refuse(HResult::INVALID_SUBNET, detail));
            }
            seen.push(prefix);
        }
    }
    Ok(())
}

fn admit_subnet(tx: &Tx<'_>, subnet: &mut Subnet, mode: &NetworkMode) -> Result<()> {
    let text = subnet.prefix.clone();
    let prefix: IpNet = text.parse().map_err(|_| {
        refuse(HResult::INVALID_PREFIX, format!("subnet IpAddressPrefix {text:?} is not a CIDR"))
    })?;
    if let Some(hop) = subnet.gateway() {
        match hop.parse::<IpAddr>() {
            Ok(gateway) if prefix.contains(&gateway) => {}
            Ok(_) => {
                let detail = format!("subnet {text}: gateway {hop} is not in it");
                return Err(refuse(HResult::INVALID_SUBNET, detail));
            }
            Err(_) => {
                let detail = format!("subnet {text}: NextHop {hop:?} is not an address");
                return Err(refuse(HResult::INVALID_IP, detail));
            }
        }
    }
    for policy in &mut subnet.policies {
        policies::admit(tx.env, On::Subnet, policy)?;
    }
    let lowest = tx.env.switches.lowest_vsid;
    if *mode == NetworkMode::Overlay && lowest > 0 {
        let vsid = policies::vsid(&subnet.policies);
        if vsid.is_none_or(|vsid| vsid < lowest) {
            let given = vsid.map_or_else(|| "no VSID".to_owned(), |vsid| format!("VSID {vsid}"));
            let detail = format!("subnet {text}: {given}; an overlay subnet needs one of {lowest} or more");
            return Err(refuse(HResult::INVALID_PARAMETER, detail));
        }
    }
    for nested in &mut subnet.ip_subnets {
        let inside = nested.prefix.parse::<IpNet>().is_ok_and(|inner| prefix.contains(&inner));
        if !inside {
            let detail = format!("subnet {text}: IpSubnets: {:?} is not a CIDR inside it", nested.prefix);
            return Err(refuse(HResult::INVALID_IP_SUBNET, detail));
        }
        nested.id = Some(nested.id.filter(|id| !id.is_nil()).unwrap_or_else(|| tx.env.random_id()));
    }
    subnet.id = Some(subnet.id.filter(|id| !id.is_nil()).unwrap_or_else(|| tx.env.random_id()));
    Ok(())
}

fn fill_mac_pool(tx: &Tx<'_>, doc: &mut Network) -> Result<()> {
    let ranges = |network: &Network| {
        let ranges = network.mac_pool.iter().flat_map(|pool| &pool.ranges);
        ranges.filter_map(|range| range.bounds().ok()).collect::<Vec<(Mac, Mac)>>()
    };
    if let Some(pool) = doc.mac_pool.as_ref().filter(|pool| !pool.ranges.is_empty()) {
        for range in &pool.ranges {
            if !range.bounds().is_ok_and(|(start, end)| start <= end) {
                let detail = format!("network MacPool: {:?} to {:?} is not a range", range.start, range.end);
                return Err(refuse(HResult::INVALID_PARAMETER, detail));
            }
        }
        return Ok(());
    }
    let taken: Vec<(Mac, Mac)> = tx.state.networks.iter().flat_map(|record| ranges(&record.doc)).collect();
    let overlaps = |start, end| taken.iter().any(|&(low, high)| low <= end && start <= high);
    let pool = alloc::generate_pool(&*tx.env.entropy, overlaps)
        .ok_or_else(|| refuse(HResult::INVALID_NETWORK, "no MAC pool is left under 00-15-5D"))?;
    doc.mac_pool = Some(pool);
    Ok(())
}

/// What HNS says about an object is not taken from a client; hcsshim always sends empty structs.
fn strip_service_owned(doc: &mut Network) {
    doc.health = None;
    doc.dns = doc.dns.take().filter(|dns| *dns != hcn::network::Dns::default());
    policies::strip_base_fields(&mut doc.extra);
    for ipam in &mut doc.ipams {
        if ipam.kind.is_none() {
            ipam.kind = Some(IpamType::Static);
        }
    }
    doc.ipams.retain(|ipam: &Ipam| *ipam != Ipam::default());
}

/// Deletes a network and what lies on it.
pub(crate) fn delete(tx: &mut Tx<'_>, id: Guid) -> Result<()> {
    let record = tx.network(id)?;
    if !tx.env.switches.delete_network_with_attached
        && let Some(endpoint) = tx.state.endpoints_of(id).find(|endpoint| endpoint.is_attached())
    {
        let endpoint = endpoint.doc.id.unwrap_or_default();
        let detail = format!("network {id} still has the attached endpoint {endpoint}");
        return Err(refuse(HResult::ENTITY_HAS_REFERENCES, detail));
    }
    tx.notify(NotificationKind::NetworkPreDelete, id);
    let degrade = match (tx.quirks.degrade, tx.env.switches.delete_network_balancers) {
        (Some(code), _) => Some(code),
        (None, BalancerDeletion::Degrade) => Some(HResult::NETWORK_NOT_FOUND),
        (None, BalancerDeletion::Remove) => None,
    };
    for balancer in tx.state.balancers_on(id) {
        match degrade {
            None => tx.remove(Kind::LoadBalancer, balancer),
            Some(code) => {
                let mut record = (*tx.balancer(balancer)?).clone();
                record.state = object_state::DEGRADED;
                record.degraded = Some(code);
                tx.put_balancer(record);
            }
        }
    }
    let endpoints: Vec<Guid> = tx.state.endpoints_of(id).filter_map(|endpoint| endpoint.doc.id).collect();
    for endpoint in endpoints {
        crate::endpoint::remove_with_network(tx, endpoint, degrade.is_some())?;
    }
    let routes: Vec<Guid> = tx
        .state
        .routes
        .iter()
        .filter(|route| route.network == Some(id))
        .filter_map(|route| route.doc.id)
        .collect();
    for route in routes {
        tx.remove(Kind::SdnRoute, route);
    }
    tx.remove(Kind::Network, id);
    tx.notify(NotificationKind::NetworkDelete, record.doc.id.unwrap_or(id));
    Ok(())
}
