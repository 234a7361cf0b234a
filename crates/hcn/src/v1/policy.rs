//! Flat v1 policies and their v2 envelopes.
//!
//! A policy type this module does not know keeps its name; its members move between the flat form and `Settings`
//! unchanged. Settings that are not an object cross as they are.

use crate::json::{Extra, Members, RawJson};
use crate::loadbalancer::protocol;
use crate::policy::{Policy, PolicyType};

/// One policy that both forms have, and the members whose names differ (v1, v2).
struct Pair {
    v1: &'static str,
    v2: &'static str,
    members: &'static [(&'static str, &'static str)],
}

const PAIRS: &[Pair] = &[
    Pair { v1: "NAT", v2: "PortMapping", members: &[] },
    Pair { v1: "ACL", v2: "ACL", members: &[] },
    Pair { v1: "PA", v2: "ProviderAddress", members: &[("PA", "ProviderAddress")] },
    Pair { v1: "VLAN", v2: "VLAN", members: &[("VLAN", "IsolationId")] },
    Pair { v1: "VSID", v2: "VSID", members: &[("VSID", "IsolationId")] },
    Pair {
        v1: "OutBoundNAT",
        v2: "OutBoundNAT",
        members: &[("VIP", "VirtualIP"), ("ExceptionList", "Exceptions")],
    },
    Pair { v1: "ROUTE", v2: "SDNRoute", members: &[] },
    Pair {
        v1: "PROXY",
        v2: "L4Proxy",
        members: &[("ExceptionList", "Exceptions"), ("OutboundNat", "OutboundNAT")],
    },
];

/// The bit of v2 `NatFlags` that v1 writes as `ExternalPortReserved`.
const EXTERNAL_PORT_RESERVED: u32 = 4;

/// A flat v1 policy as a v2 envelope. One that is an envelope already only has its words translated, and stays
/// byte for byte when there is nothing to translate.
pub fn policy_to_v2(policy: &Policy) -> Policy {
    let Some(given) = members(policy) else {
        return policy.clone();
    };
    let pair = pair_of(policy);
    let mut members = given.clone();
    let mut kind = policy.kind.clone();
    if let Some(pair) = pair {
        to_v2_words(pair, &mut members);
        kind = named(kind, pair.v2);
    }
    if policy.settings.is_some() && policy.extra.is_empty() && kind == policy.kind && members == given {
        return policy.clone();
    }
    // A policy without settings has none, but Microsoft's schema wants an empty object for this one.
    let settings = (!members.is_empty() || kind.is("HostRoute")).then(|| crate::json::object(&members));
    Policy { kind, settings, extra: Extra::default() }
}

/// A v2 envelope as a flat v1 policy.
pub fn policy_from_v2(policy: &Policy) -> Policy {
    let policy = data_as_settings(policy);
    let Some(mut members) = members(&policy) else {
        return policy;
    };
    let mut kind = policy.kind.clone();
    if let Some(pair) = pair_of(&policy) {
        // First all in v2 words, so that v1 words in v2 settings come out the same as v2's own.
        to_v2_words(pair, &mut members);
        for (v1, v2) in pair.members {
            rename(&mut members, v2, v1);
        }
        if pair.v1 == "NAT" {
            port_mapping_to_v1_words(&mut members);
        }
        kind = named(kind, pair.v1);
    }
    Policy { kind, settings: None, extra: members }
}

fn pair_of(policy: &Policy) -> Option<&'static Pair> {
    PAIRS.iter().find(|pair| policy.kind.is(pair.v1) || policy.kind.is(pair.v2))
}

/// What a policy says: in its settings and beside its type. `None` when the settings are not an object, or when one
/// of their members would be read as part of the envelope in the flat form.
fn members(policy: &Policy) -> Option<Extra> {
    let Some(settings) = &policy.settings else {
        return Some(policy.extra.clone());
    };
    let Members(members) = settings.read().ok()?;
    let mut members =
        Extra(members.into_iter().map(|(key, value)| (key.into_owned(), RawJson::from(value))).collect());
    if members.get("Type").is_some() || members.get("Settings").is_some() {
        return None;
    }
    super::carry::merge(&mut members, &policy.extra);
    Some(members)
}

/// Microsoft's sample page says `Data` where everyone else says `Settings`.
fn data_as_settings(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    if policy.settings.is_none() && policy.extra.get("Data").is_some_and(|data| data.get().starts_with('{')) {
        policy.settings = policy.extra.remove("Data");
    }
    policy
}

fn to_v2_words(pair: &Pair, members: &mut Extra) {
    for (v1, v2) in pair.members {
        rename(members, v2, v2);
        rename(members, v1, v2);
    }
    match pair.v1 {
        "NAT" => port_mapping_to_v2_words(members),
        "ACL" => acl_to_v2_words(members),
        _ => {}
    }
}

/// The type `name`, in the spelling it came in when that is the same word.
fn named(kind: PolicyType, name: &str) -> PolicyType {
    if kind.is(name) { kind } else { PolicyType::named(name) }
}

/// Renames a member, unless the new name is taken. Of several with the old name the last counts, as everywhere in documents; the
/// others go, or the first of them would be what the next reader finds to rename.
fn rename(members: &mut Extra, from: &str, to: &str) {
    if !from.eq_ignore_ascii_case(to) && members.get(to).is_some() {
        return;
    }
    let Some(last) = members.0.iter().rposition(|(key, _)| key.eq_ignore_ascii_case(from)) else { return };
    to.clone_into(&mut members.0[last].0);
    let mut at = 0..;
    members.0.retain(|(key, _)| at.next() == Some(last) || !key.eq_ignore_ascii_case(from));
}

/// Replaces a member by another, in its place.
fn replace(members: &mut Extra, from: &str, to: &str, value: RawJson) {
    rename(members, from, to);
    members.set(to, value);
}

fn port_mapping_to_v2_words(members: &mut Extra) {
    if let Some(number) = members.read::<protocol::Protocol>("Protocol") {
        members.set("Protocol", RawJson::of(&number));
    }
    if members.read::<bool>("ExternalPortReserved") == Some(true) {
        members.remove("ExternalPortReserved");
        let flags = members.read::<u32>("Flags").unwrap_or(0) | EXTERNAL_PORT_RESERVED;
        members.set("Flags", RawJson::of(&flags));
    }
}

fn port_mapping_to_v1_words(members: &mut Extra) {
    if let Some(protocol::Protocol(number)) = members.read("Protocol") {
        // v1 names the protocol; digits are what is left for those without a name.
        let name = protocol::name(number).map_or_else(|| number.to_string(), str::to_owned);
        members.set("Protocol", RawJson::of(&name));
    }
    if let Some(flags) = members.read::<u32>("Flags").filter(|flags| flags & EXTERNAL_PORT_RESERVED != 0) {
        match flags & !EXTERNAL_PORT_RESERVED {
            0 => {
                members.remove("Flags");
            }
            rest => members.set("Flags", RawJson::of(&rest)),
        }
        // Not in the spelling of one that said something else.
        members.remove("ExternalPortReserved");
        members.set("ExternalPortReserved", RawJson::of(&true));
    }
}

/// v1 has a number and a list for protocol and ports, v2 only the list.
fn acl_to_v2_words(members: &mut Extra) {
    for (number, list) in
        [("Protocol", "Protocols"), ("LocalPort", "LocalPorts"), ("RemotePort", "RemotePorts")]
    {
        match (members.read::<u16>(number), members.get(list).is_some()) {
            (Some(0), _) => {
                members.remove(number);
            }
            (Some(value), false) => replace(members, number, list, RawJson::of(&value.to_string())),
            _ => {}
        }
    }
}
