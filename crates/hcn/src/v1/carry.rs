//! Moving members and single-valued policies between a document's fields and its unknown members.

use serde::de::DeserializeOwned;

use crate::json::{Blank, Extra, RawJson};
use crate::network::{Dns, ExtraParams, Health, Route};
use crate::policy::Policy;

/// Takes a member out if it reads as `T`; one that does not stays where it is, so that nothing is lost. Of several
/// with this name the last counts, as everywhere in documents.
pub(super) fn take<T: DeserializeOwned>(extra: &mut Extra, name: &str) -> Option<T> {
    let (_, raw) = extra.0.iter().rev().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
    let value = raw.read::<Option<T>>().ok()??;
    extra.0.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
    Some(value)
}

/// The members that may stand beside the fields of another document: one whose name means something there would be
/// written twice and read as that, so it is dropped.
pub(super) fn beside(mut extra: Extra, keys: &[&str]) -> Extra {
    extra.0.retain(|(name, _)| !keys.iter().any(|key| name.eq_ignore_ascii_case(key)));
    extra
}

/// A service-owned member: what the facts say, else what the document carries under that name. Either way the
/// document's own goes, or it would be written twice.
pub(super) fn fact<T: DeserializeOwned + Clone>(
    fact: Option<&T>,
    extra: &mut Extra,
    name: &str,
) -> Option<T> {
    let carried = take(extra, name);
    fact.cloned().or(carried)
}

/// Keeps a value that the other form has no word for under its own name, unless the name is taken.
pub(super) fn keep<T: serde::Serialize + Blank>(extra: &mut Extra, name: &str, value: &T) {
    if !value.is_blank() && extra.get(name).is_none() {
        extra.0.push((name.to_owned(), RawJson::of(value)));
    }
}

/// Adds members whose names are not taken.
pub(super) fn merge(extra: &mut Extra, more: &Extra) {
    for (name, value) in &more.0 {
        if extra.get(name).is_none() {
            extra.0.push((name.clone(), value.clone()));
        }
    }
}

/// Takes the last policy of a type out whose only setting is `member`; policies that say more stay in the list. The
/// last, because the way to v2 appends it: a document with another policy of that type gets its own back.
pub(super) fn lift<T: DeserializeOwned>(policies: &mut Vec<Policy>, kind: &str, member: &str) -> Option<T> {
    let (at, value) = policies
        .iter()
        .enumerate()
        .rev()
        .find_map(|(at, policy)| Some((at, only_setting(policy, kind, member)?)))?;
    policies.remove(at);
    Some(value)
}

fn only_setting<T: DeserializeOwned>(policy: &Policy, kind: &str, member: &str) -> Option<T> {
    if !policy.kind.is(kind) || !policy.extra.is_empty() {
        return None;
    }
    let settings: crate::json::Members<'_> = policy.settings.as_ref()?.read().ok()?;
    match settings.0.as_slice() {
        [(name, value)] if name.eq_ignore_ascii_case(member) => serde_json::from_str(value.get()).ok(),
        _ => None,
    }
}

/// A policy with one setting.
pub(super) fn one_setting<T: serde::Serialize>(kind: &str, member: &str, value: &T) -> Policy {
    let settings = Extra(vec![(member.to_owned(), RawJson::of(value))]);
    Policy { settings: Some(crate::json::object(&settings)), ..Policy::new(kind, &()) }
}

/// Splits a v1 comma list; empty text is the empty list.
fn split(list: &str) -> Vec<String> {
    if list.is_empty() { Vec::new() } else { list.split(',').map(|item| item.trim().to_owned()).collect() }
}

/// Joins a list as v1 does, if splitting the text gives the same list again.
fn join(list: &[String]) -> Option<String> {
    let text = list.join(",");
    (split(&text) == list).then_some(text)
}

/// The three v1 words about DNS and what they leave over.
pub(super) struct FlatDns {
    pub(super) domain: String,
    pub(super) suffix: String,
    pub(super) servers: String,
}

/// v1 words to a v2 `Dns`; a `Dns` kept in `extra` by [`dns_from_v2`] is taken back.
pub(super) fn dns_to_v2(flat: &FlatDns, extra: &mut Extra) -> Option<Dns> {
    let mut dns: Dns = take(extra, "Dns").unwrap_or_default();
    if !flat.domain.is_empty() {
        dns.domain = Some(flat.domain.clone());
    }
    if !flat.suffix.is_empty() {
        dns.search = split(&flat.suffix);
    }
    if !flat.servers.is_empty() {
        dns.server_list = split(&flat.servers);
    }
    (dns != Dns::default()).then_some(dns)
}

/// A v2 `Dns` to v1 words; what has none is kept in `extra` as `Dns`.
pub(super) fn dns_from_v2(dns: Option<&Dns>, extra: &mut Extra) -> FlatDns {
    let mut rest = dns.cloned().unwrap_or_default();
    let domain = rest.domain.take().unwrap_or_default();
    let flat = |list: &mut Vec<String>| match join(list) {
        Some(text) => {
            list.clear();
            text
        }
        None => String::new(),
    };
    let suffix = flat(&mut rest.search);
    let servers = flat(&mut rest.server_list);
    keep(extra, "Dns", &(rest != Dns::default()).then_some(rest));
    FlatDns { domain, suffix, servers }
}

/// The default prefix of an address's family. Text with a colon is IPv6.
pub(super) fn default_prefix(address: &str) -> &'static str {
    if address.contains(':') { "::/0" } else { "0.0.0.0/0" }
}

/// A default route through a gateway.
pub(super) fn default_route(gateway: &str) -> Route {
    Route {
        next_hop: gateway.to_owned(),
        destination_prefix: default_prefix(gateway).to_owned(),
        ..Route::default()
    }
}

/// Takes the first default route of a family out and gives its gateway; routes that say more stay.
pub(super) fn take_gateway(routes: &mut Vec<Route>, prefix: &str) -> Option<String> {
    let at = routes.iter().position(|route| {
        !route.next_hop.is_empty()
            && *route == default_route(&route.next_hop)
            && route.destination_prefix == prefix
    })?;
    Some(routes.remove(at).next_hop)
}

/// What both networks and endpoints have in `Health`, in v1 words.
#[derive(Default)]
pub(super) struct FlatHealth {
    pub(super) data: Option<RawJson>,
    pub(super) resources: Option<RawJson>,
    pub(super) shared_containers: Option<RawJson>,
    pub(super) layered_on: Option<crate::Guid>,
    pub(super) switch_guid: Option<crate::Guid>,
}

/// The name under which members of `Health` that are not known are kept in a v1 document, whose own `Health` is
/// what v2 calls `Health.Data`.
const HEALTH_REST: &str = "HostComputeHealth";

/// v1 words to a v2 `Health`. `UtilityVM` and `VirtualMachine` have no field in v1 documents and are taken from
/// `extra`, and so is what [`health_from_v2`] kept.
pub(super) fn health_to_v2(flat: FlatHealth, extra: &mut Extra) -> Option<Health> {
    let rest: Health = take(extra, HEALTH_REST).unwrap_or_default();
    let params = ExtraParams {
        resources: flat.resources,
        shared_containers: flat.shared_containers,
        layered_on: flat.layered_on,
        switch_guid: flat.switch_guid,
        utility_vm: take(extra, "UtilityVM"),
        virtual_machine: take(extra, "VirtualMachine"),
        extra: rest.extra_params.map(|params| params.extra).unwrap_or_default(),
    };
    let extra_params = (params != ExtraParams::default()).then_some(params);
    let health = Health { data: flat.data, extra_params, extra: rest.extra };
    (health != Health::default()).then_some(health)
}

/// A v2 `Health` to v1 words.
pub(super) fn health_from_v2(health: Option<&Health>, extra: &mut Extra) -> FlatHealth {
    let Some(health) = health else {
        return FlatHealth::default();
    };
    let params = health.extra_params.clone().unwrap_or_default();
    keep(extra, "UtilityVM", &params.utility_vm);
    keep(extra, "VirtualMachine", &params.virtual_machine);
    let rest_params = ExtraParams { extra: params.extra, ..ExtraParams::default() };
    let rest = Health {
        data: None,
        extra_params: (!rest_params.extra.is_empty()).then_some(rest_params),
        extra: health.extra.clone(),
    };
    keep(extra, HEALTH_REST, &(rest != Health::default()).then_some(rest));
    FlatHealth {
        data: health.data.clone(),
        resources: params.resources,
        shared_containers: params.shared_containers,
        layered_on: params.layered_on,
        switch_guid: params.switch_guid,
    }
}
