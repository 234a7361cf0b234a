//! v1 policy lists, which are load balancers or SDN routes in v2.
//!
//! A list of ELB policies that agree on VIPs, source VIP and DSR is one load balancer, each policy one port
//! mapping; a list of ROUTE policies is one SDN route. Anything else has no v2 counterpart and is refused.

use serde::Serialize;

use crate::document;
use crate::error::{Error, HResult, Result};
use crate::guid::Guid;
use crate::json::{Extra, RawJson};
use crate::loadbalancer::protocol::Protocol;
use crate::loadbalancer::{Distribution, LoadBalancer, LoadBalancerFlags, PortMapping, PortMappingFlags};
use crate::policy::{Policy, PolicyType};
use crate::route::{SdnRoute, SdnRouteSetting};

use super::carry::{beside, fact, keep, merge, take};
use super::documents::PolicyList;
use super::facts::Facts;

document! {
    /// A v1 ELB policy: one port of a load balancer.
    pub struct ElbPolicy {
        /// "ELB".
        kind: PolicyType = "Type",
        /// The addresses clients call; empty means the host's own.
        vips: Vec<String> = "VIPs",
        /// The address that traffic to backends is sent from.
        source_vip: String = "SourceVIP",
        /// Internal load balancer.
        ilb: bool = "ILB",
        /// Direct server return.
        is_dsr: bool = "IsDSR",
        /// IANA protocol number; a name is taken too.
        protocol: u32 = "Protocol" via Protocol,
        /// The backends' port.
        internal_port: u16 = "InternalPort",
        /// The port clients call.
        external_port: u16 = "ExternalPort",
    }
}

document! {
    /// A v1 ROUTE policy.
    pub struct RoutePolicy {
        /// "ROUTE".
        kind: PolicyType = "Type",
        /// CIDR.
        destination_prefix: String = "DestinationPrefix",
        /// Gateway or provider address.
        next_hop: String = "NextHop",
        /// Encapsulate.
        need_encap: bool = "NeedEncap",
    }
}

/// What a policy list is in v2.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicyListObject {
    /// A list of ELB policies.
    LoadBalancer(LoadBalancer),
    /// A list of ROUTE policies.
    SdnRoute(SdnRoute),
}

pub(super) fn wrong_kind(wanted: &str, found: &str) -> Error {
    Error::detailed(
        HResult::INVALID_POLICY_TYPE,
        format!("PolicyList.Policies: {found} policies where {wanted} policies belong"),
    )
}

fn invalid(detail: String) -> Error {
    Error::detailed(HResult::INVALID_POLICY, detail)
}

/// A v1 policy list as a v2 document. Service-owned members are left out ([`Facts::of_policy_list`] has them).
///
/// Errors: a reference that is not `/endpoints/<id>` (`HCN_E_INVALID_JSON_REFERENCE`); no policy, or one that is
/// neither ELB nor ROUTE (`HCN_E_INVALID_POLICY_TYPE`); policies that cannot be one object
/// (`HCN_E_INVALID_POLICY`).
pub fn policy_list_to_v2(v1: &PolicyList) -> Result<PolicyListObject> {
    // Taken apart without `..`, so that a new member cannot be forgotten.
    let PolicyList {
        activity_id: _,
        health: _,
        id,
        policies,
        references,
        resources: _,
        state: _,
        version: _,
        extra,
    } = v1;
    let endpoints = references.iter().map(|text| endpoint_of(text)).collect::<Result<Vec<_>>>()?;
    let mut extra = extra.clone();
    let owner = take(&mut extra, "Owner");
    let network = take(&mut extra, "HostComputeNetwork");
    let all = |name: &str| !policies.is_empty() && policies.iter().all(|policy| policy.kind.is(name));
    if all("ELB") {
        let elbs = policies.iter().map(read_policy).collect::<Result<Vec<ElbPolicy>>>()?;
        let mut balancer = load_balancer(elbs)?;
        balancer.flags |= take(&mut extra, "Flags").unwrap_or_default();
        Ok(PolicyListObject::LoadBalancer(LoadBalancer {
            id: *id,
            owner,
            network,
            endpoints,
            extra: beside(extra, LoadBalancer::KEYS),
            ..balancer
        }))
    } else if all("ROUTE") {
        let setting = policies.iter().map(read_policy).collect::<Result<Vec<RoutePolicy>>>()?;
        let setting: Vec<_> = setting.into_iter().map(route_setting).collect();
        // Both names are written: hcsshim reads one, Microsoft's schema has the other.
        let routes = setting.clone();
        let schema_version = None;
        Ok(PolicyListObject::SdnRoute(SdnRoute {
            id: *id,
            owner,
            network,
            endpoints,
            setting,
            routes,
            schema_version,
            extra: beside(extra, SdnRoute::KEYS),
        }))
    } else {
        let kinds: Vec<_> = policies.iter().map(|policy| policy.kind.text()).collect();
        Err(Error::detailed(
            HResult::INVALID_POLICY_TYPE,
            format!("PolicyList.Policies: all must be ELB or all ROUTE, found [{}]", kinds.join(", ")),
        ))
    }
}

fn endpoint_of(reference: &str) -> Result<Guid> {
    let path = reference.strip_prefix('/').unwrap_or(reference);
    path.split_once('/')
        .filter(|(kind, _)| kind.eq_ignore_ascii_case("endpoints"))
        .and_then(|(_, id)| id.parse().ok())
        .ok_or_else(|| {
            let shown: String = reference.chars().take(80).collect();
            Error::detailed(
                HResult::INVALID_JSON_REFERENCE,
                format!("PolicyList.References: {shown:?} is not \"/endpoints/<id>\""),
            )
        })
}

/// Reads a flat policy, or one whose members are under `Settings`.
fn read_policy<T: serde::de::DeserializeOwned>(policy: &Policy) -> Result<T> {
    let text = match &policy.settings {
        Some(settings) => settings.get().to_owned(),
        None => policy.to_json(),
    };
    serde_json::from_str(&text).map_err(|error| invalid(format!("PolicyList.Policies: {error}")))
}

fn load_balancer(elbs: Vec<ElbPolicy>) -> Result<LoadBalancer> {
    let mut balancer = LoadBalancer::default();
    for (at, elb) in elbs.into_iter().enumerate() {
        let flags = if elb.is_dsr { LoadBalancerFlags::DSR } else { LoadBalancerFlags::empty() };
        if at == 0 {
            balancer.frontend_vips = elb.vips;
            balancer.source_vip = elb.source_vip;
            balancer.flags = flags;
        } else {
            for (name, same) in [
                ("VIPs", balancer.frontend_vips == elb.vips),
                ("SourceVIP", balancer.source_vip == elb.source_vip),
                ("IsDSR", balancer.flags == flags),
            ] {
                if !same {
                    return Err(invalid(format!(
                        "PolicyList.Policies[{at}].{name} differs from the first policy's: \
                         one list is one load balancer"
                    )));
                }
            }
        }
        let mut extra = elb.extra;
        let mut flags: PortMappingFlags = take(&mut extra, "Flags").unwrap_or_default();
        flags.set(PortMappingFlags::ILB, elb.ilb || flags.contains(PortMappingFlags::ILB));
        let mapping = PortMapping {
            protocol: elb.protocol,
            internal_port: elb.internal_port,
            external_port: elb.external_port,
            distribution: take::<Distribution>(&mut extra, "DistributionType"),
            flags,
            extra: beside(extra, PortMapping::KEYS),
        };
        balancer.port_mappings.push(mapping);
    }
    // A balancer without ports is one ELB policy without ports.
    if balancer.port_mappings == [PortMapping::default()] {
        balancer.port_mappings.clear();
    }
    Ok(balancer)
}

fn route_setting(route: RoutePolicy) -> SdnRouteSetting {
    let mut extra = route.extra;
    SdnRouteSetting {
        destination_prefix: route.destination_prefix,
        next_hop: route.next_hop,
        need_encap: route.need_encap,
        automatic_endpoint_monitor: take(&mut extra, "AutomaticEndpointMonitor").unwrap_or_default(),
        extra: beside(extra, SdnRouteSetting::KEYS),
    }
}

/// A v2 load balancer as a v1 policy list: one ELB policy per port mapping.
pub fn policy_list_from_load_balancer(v2: &LoadBalancer, facts: &Facts) -> PolicyList {
    let LoadBalancer {
        id,
        owner,
        network,
        endpoints,
        source_vip,
        frontend_vips,
        port_mappings,
        flags,
        schema_version: _,
        extra,
    } = v2;
    let mut extra = extra.clone();
    keep(&mut extra, "Owner", owner);
    keep(&mut extra, "HostComputeNetwork", network);
    keep(&mut extra, "Flags", &(*flags - LoadBalancerFlags::DSR));
    let portless = [PortMapping::default()];
    let mappings = if port_mappings.is_empty() { &portless[..] } else { port_mappings };
    let policies = mappings
        .iter()
        .map(|mapping| {
            let mut extra = Extra::default();
            keep(&mut extra, "DistributionType", &mapping.distribution);
            keep(&mut extra, "Flags", &(mapping.flags - PortMappingFlags::ILB));
            merge(&mut extra, &mapping.extra);
            flat(&ElbPolicy {
                kind: PolicyType::named("ELB"),
                vips: frontend_vips.clone(),
                source_vip: source_vip.clone(),
                ilb: mapping.flags.contains(PortMappingFlags::ILB),
                is_dsr: flags.contains(LoadBalancerFlags::DSR),
                protocol: mapping.protocol,
                internal_port: mapping.internal_port,
                external_port: mapping.external_port,
                extra: beside_flat(extra, ElbPolicy::KEYS),
            })
        })
        .collect();
    policy_list(*id, endpoints, policies, extra, facts)
}

/// A v2 SDN route as a v1 policy list: one ROUTE policy per setting.
pub fn policy_list_from_route(v2: &SdnRoute, facts: &Facts) -> PolicyList {
    let mut extra = v2.extra.clone();
    keep(&mut extra, "Owner", &v2.owner);
    keep(&mut extra, "HostComputeNetwork", &v2.network);
    let policies = v2
        .settings()
        .iter()
        .map(|setting| {
            let mut extra = Extra::default();
            keep(&mut extra, "AutomaticEndpointMonitor", &setting.automatic_endpoint_monitor);
            merge(&mut extra, &setting.extra);
            flat(&RoutePolicy {
                kind: PolicyType::named("ROUTE"),
                destination_prefix: setting.destination_prefix.clone(),
                next_hop: setting.next_hop.clone(),
                need_encap: setting.need_encap,
                extra: beside_flat(extra, RoutePolicy::KEYS),
            })
        })
        .collect();
    policy_list(v2.id, &v2.endpoints, policies, extra, facts)
}

/// As [`beside`], for a flat policy, in which `Settings` would be read as the policy itself.
fn beside_flat(mut extra: Extra, keys: &[&str]) -> Extra {
    extra.remove("Settings");
    beside(extra, keys)
}

/// A typed policy as a flat one.
fn flat<T: Serialize>(policy: &T) -> Policy {
    RawJson::of(policy).read().unwrap_or_default()
}

fn policy_list(
    id: Option<Guid>,
    endpoints: &[Guid],
    policies: Vec<Policy>,
    mut extra: Extra,
    facts: &Facts,
) -> PolicyList {
    PolicyList {
        activity_id: fact(facts.activity_id.as_ref(), &mut extra, "ActivityId"),
        health: fact(facts.health.as_ref(), &mut extra, "Health"),
        id,
        policies,
        references: endpoints.iter().map(|endpoint| format!("/endpoints/{endpoint}")).collect(),
        resources: fact(facts.resources.as_ref(), &mut extra, "Resources"),
        state: fact(facts.state.as_ref(), &mut extra, "State"),
        version: fact(facts.version.as_ref(), &mut extra, "Version"),
        extra: beside(extra, PolicyList::KEYS),
    }
}
