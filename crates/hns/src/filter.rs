//! Enumeration: which objects a filter means.
//!
//! A filter's properties have v1 names. The ones that clients use are answered from indexes; any other is compared
//! with the object's v1 document.

use std::time::Duration;

use hcn::json::{Extra, RawJson};
use hcn::{Error, Guid, HResult, Kind, Query, Result};
use serde_json::Value;

use crate::record::Object;
use crate::state::State;
use crate::switches::{FilterFlags, UnknownKey};
use crate::tx::Env;
use crate::view::Snapshot;

/// The ids of the objects that match, in the order that the switch says.
pub(crate) fn select(
    state: &State,
    env: &Env,
    kind: Kind,
    query: &Query,
    now: Duration,
) -> Result<Vec<Guid>> {
    let properties = query.filter_properties()?;
    if properties.is_empty() {
        return Ok(state.ids(kind, env.switches.list_order));
    }
    let Candidates { ids, by } = candidates(state, env, kind, &properties)?;
    let mut rest =
        properties.0.iter().filter(|(name, _)| by.is_none_or(|by| !name.eq_ignore_ascii_case(by))).peekable();
    if rest.peek().is_none() {
        return Ok(ids);
    }
    let rest: Vec<_> = rest.collect();
    let mut matching = Vec::new();
    for id in ids {
        let Some(object) = state.get(kind, id) else { continue };
        let mut keeps = true;
        for (name, wanted) in &rest {
            if !matches(state, env, &object, name, wanted, now)? {
                keeps = false;
                break;
            }
        }
        if keeps {
            matching.push(id);
        }
    }
    Ok(matching)
}

/// What an index gives.
struct Candidates {
    /// The ids, as their objects spell them.
    ids: Vec<Guid>,
    /// The property that all of them have; the others are still to be looked at.
    by: Option<&'static str>,
}

/// The smallest list that an index gives.
fn candidates(state: &State, env: &Env, kind: Kind, properties: &Extra) -> Result<Candidates> {
    let order = env.switches.list_order;
    if let Some(raw) = properties.get("ID") {
        let object = guid(raw).and_then(|id| state.get(kind, id));
        return Ok(Candidates { ids: object.iter().map(Object::id).collect(), by: Some("ID") });
    }
    let name = properties.get("Name").filter(|_| !env.switches.filter_name_ignores_case);
    if let (Some(raw), Kind::Network | Kind::Endpoint) = (name, kind) {
        let name = text("Name", raw)?;
        let ids = match kind {
            Kind::Network => state.networks_named(&name),
            _ => state.endpoints_named(&name, order),
        };
        return Ok(Candidates { ids, by: Some("Name") });
    }
    if kind == Kind::Endpoint {
        if let Some(raw) = properties.get("VirtualNetwork") {
            let ids = guid(raw).map(|id| state.endpoint_ids_on(id, order)).unwrap_or_default();
            return Ok(Candidates { ids, by: Some("VirtualNetwork") });
        }
        if let Some(raw) = properties.get("VirtualNetworkName") {
            let networks = state.networks_named(&text("VirtualNetworkName", raw)?);
            let ids = networks.into_iter().flat_map(|id| state.endpoint_ids_on(id, order)).collect();
            return Ok(Candidates { ids, by: Some("VirtualNetworkName") });
        }
    }
    Ok(Candidates { ids: state.ids(kind, order), by: None })
}

fn text(name: &str, raw: &RawJson) -> Result<String> {
    raw.read().map_err(|_| {
        Error::detailed(HResult::INVALID_JSON, format!("Query.Filter: {name} is not a text: {}", raw.get()))
    })
}

/// An id that does not parse is nobody's: the empty text finds nothing, as clients rely on.
fn guid(raw: &RawJson) -> Option<Guid> {
    raw.read::<String>().ok()?.parse().ok()
}

fn matches(
    state: &State,
    env: &Env,
    object: &Object,
    name: &str,
    wanted: &RawJson,
    now: Duration,
) -> Result<bool> {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    let same_text = |own: Option<&String>| -> Result<bool> {
        let wanted = text(name, wanted)?;
        Ok(own.is_some_and(|own| {
            if env.switches.filter_name_ignores_case {
                own.eq_ignore_ascii_case(&wanted)
            } else {
                *own == wanted
            }
        }))
    };
    match object {
        _ if is("ID") => Ok(guid(wanted) == Some(object.id())),
        Object::Network(record) if is("Name") => same_text(record.doc.name.as_ref()),
        Object::Endpoint(record) if is("Name") => same_text(record.doc.name.as_ref()),
        Object::Endpoint(record) if is("VirtualNetwork") => Ok(guid(wanted) == Some(record.network)),
        Object::Endpoint(record) if is("VirtualNetworkName") => {
            let wanted = text(name, wanted)?;
            let network = state.networks.get(record.network);
            Ok(network.is_some_and(|network| network.doc.name.as_ref() == Some(&wanted)))
        }
        Object::Network(record) if is("Flags") => Ok(same_flags(env, record.doc.flags.bits(), wanted)),
        Object::Endpoint(record) if is("Flags") => Ok(same_flags(env, record.doc.flags.bits(), wanted)),
        Object::Balancer(record) if is("Flags") => Ok(same_flags(env, record.doc.flags.bits(), wanted)),
        other => Ok(same_property(state, env, other, name, wanted, now)),
    }
}

fn same_flags(env: &Env, own: u32, wanted: &RawJson) -> bool {
    match (wanted.read::<u32>(), env.switches.filter_flags) {
        (Ok(wanted), FilterFlags::Equal) => own == wanted,
        (Ok(wanted), FilterFlags::Mask) => own & wanted == wanted,
        (Err(_), _) => false,
    }
}

/// Compares with the v1 document; texts that are ids are compared as ids.
fn same_property(
    state: &State,
    env: &Env,
    object: &Object,
    name: &str,
    wanted: &RawJson,
    now: Duration,
) -> bool {
    let printed = Snapshot::of(state, object.clone(), now).print_v1(env, false);
    let document: Value = serde_json::from_str(&printed).unwrap_or_default();
    let own = document
        .as_object()
        .and_then(|members| members.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)))
        .map(|(_, value)| value);
    let Some(own) = own else {
        return env.switches.filter_unknown_key == UnknownKey::Ignore;
    };
    let wanted: Value = wanted.read().unwrap_or_default();
    match (own.as_str(), wanted.as_str()) {
        (Some(own), Some(wanted)) => match (own.parse::<Guid>(), wanted.parse::<Guid>()) {
            (Ok(own), Ok(wanted)) => own == wanted,
            _ => own == wanted,
        },
        _ => *own == wanted,
    }
}
