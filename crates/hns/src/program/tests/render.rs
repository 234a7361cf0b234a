//! The ledger as text: short enough to read a whole port at once.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use uuid::Uuid;
use vfp::model::{Action, AddressRange, Conditions, EncapFlags, LbNat, NatSide, Rule, Transpose};

use super::{direction, list};
use crate::program::table::{Item, Key};

fn range(range: &AddressRange) -> String {
    match range.prefix() {
        Some(net) if net.prefix_len() == net.max_prefix_len() => net.addr().to_string(),
        Some(net) => net.to_string(),
        None => range.to_string(),
    }
}

fn conditions(conditions: &Conditions) -> String {
    let mut out = String::new();
    list(&mut out, "proto", &conditions.protocols);
    list(&mut out, "src", conditions.sources.ranges().iter().map(range));
    list(&mut out, "sport", &conditions.source_ports);
    list(&mut out, "dst", conditions.destinations.ranges().iter().map(range));
    list(&mut out, "dport", &conditions.destination_ports);
    list(&mut out, "smac", &conditions.source_macs);
    list(&mut out, "dmac", &conditions.destination_macs);
    list(&mut out, "vlan", conditions.vlans.map(|(first, last)| format!("{first}-{last}")));
    list(&mut out, "tenant", conditions.tenant);
    list(&mut out, "stag", &conditions.source_tag);
    list(&mut out, "dtag", &conditions.destination_tag);
    list(&mut out, "encapsulated", conditions.encapsulated);
    if out.is_empty() { " any".to_owned() } else { out }
}

fn transpose(transpose: &Transpose) -> String {
    let mut out = "transpose".to_owned();
    list(&mut out, "smac", transpose.source_mac);
    list(&mut out, "dmac", transpose.destination_mac);
    list(&mut out, "src", transpose.source);
    list(&mut out, "dst", transpose.destination);
    list(&mut out, "sport", transpose.source_port);
    list(&mut out, "dport", transpose.destination_port);
    list(&mut out, "vlan", transpose.vlan);
    list(&mut out, "hairpin", transpose.hairpin.map(|hairpin| format!("{hairpin:?}")));
    out
}

fn balance(balance: &LbNat) -> String {
    let mut out = format!("lbnat {:#x} {:?}", balance.flags.bits(), balance.distribution);
    let dips = balance.dips.iter().map(|dip| {
        let port = dip.port.map(|port| format!(":{port}")).unwrap_or_default();
        let mac = dip.mac.map(|mac| format!("@{mac}")).unwrap_or_default();
        format!("{}{port}{mac}", dip.address)
    });
    list(&mut out, "to", dips);
    list(&mut out, "from", &balance.source);
    out
}

fn action(action: &Action) -> String {
    match action {
        Action::Transpose(changes) => transpose(changes),
        Action::LbNat(changes) => balance(changes),
        Action::Nat(nat) => {
            let mut out =
                format!("nat {}", if nat.side == NatSide::Source { "source" } else { "destination" });
            list(&mut out, "address", nat.address);
            list(&mut out, "port", nat.port);
            out
        }
        Action::DynNat(nat) => format!("dynnat {}", nat.pool),
        Action::RouteEncap(encap) => {
            let mut out = format!("routeencap from {}", encap.source);
            for to in &encap.destinations {
                let mac = to.ca_mac.map(|mac| format!("@{mac}")).unwrap_or_default();
                let _ = write!(out, " to {}{mac} vni {}", to.pa, to.vni);
            }
            list(&mut out, "smac", encap.source_mac);
            list(&mut out, "ttl", encap.flags.contains(EncapFlags::DECREMENT_TTL).then_some("-1"));
            out
        }
        Action::Decap(decap) => format!("decap {}", decap.flags.bits()),
        Action::PaRoute(route) => format!("paroute {:?}", route.native),
        Action::Qos { bytes_per_second } => format!("qos {bytes_per_second} B/s"),
        other => other.word().to_owned(),
    }
}

/// One rule on one line.
pub(super) fn rule(rule: &Rule) -> String {
    let name = if rule.name == rule.id { String::new() } else { format!(" \"{}\"", rule.name) };
    format!(
        "{} {}{name} [{}]{} => {}",
        rule.priority,
        rule.id,
        rule.flags.bits(),
        conditions(&rule.conditions),
        action(&rule.action)
    )
}

/// What hangs on a port.
pub(super) fn port(items: &BTreeMap<Key, Item>, port: Uuid) -> String {
    let mut out = String::new();
    if let Some(Item::Port(spec)) = items.get(&Key::Port(port)) {
        let _ = writeln!(
            out,
            "{:?} port {} {} mtu {} {:?}",
            spec.kind, spec.friendly_name, spec.mac, spec.mtu, spec.addresses
        );
    }
    let mut layers: Vec<_> = items
        .iter()
        .filter_map(|(key, item)| match (key, item) {
            (Key::Layer(on, _), Item::Layer(layer)) if *on == port => Some(layer),
            _ => None,
        })
        .collect();
    layers.sort_by_key(|layer| layer.priority);
    for layer in layers {
        let state = if layer.stateful { "stateful" } else { "stateless" };
        let _ = writeln!(out, "{} {} {state} [{}]", layer.priority, layer.id, layer.flags.bits());
        let mut groups: Vec<_> = items
            .keys()
            .filter_map(|key| match key {
                Key::Attach(on, hung, group) if *on == port && *hung == layer.id => {
                    match items.get(&Key::Group(group.clone())) {
                        Some(Item::Group(spec)) => Some((spec, group)),
                        _ => None,
                    }
                }
                _ => None,
            })
            .collect();
        groups.sort_by_key(|(spec, key)| (spec.family, spec.direction.index(), spec.priority, *key));
        for (spec, key) in groups {
            let mut rules: Vec<_> = items
                .iter()
                .filter_map(|(of, item)| match (of, item) {
                    (Key::Rule(group, _), Item::Rule(rule)) if group == key => Some(rule),
                    _ => None,
                })
                .collect();
            if rules.is_empty() {
                continue;
            }
            rules.sort_by_key(|rule| (rule.priority, &rule.id));
            let _ = writeln!(
                out,
                "  {} {} {} {}",
                spec.priority,
                spec.id,
                direction(spec.direction),
                spec.family
            );
            for one in rules {
                let _ = writeln!(out, "    {}", rule(one));
            }
        }
    }
    out
}
