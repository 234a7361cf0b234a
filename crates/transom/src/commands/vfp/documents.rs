//! The switch as JSON documents of our own, for what `vfpctrl /format 1` does not print. Fields may be added, none is
//! renamed; what does not apply is left out.

use serde_json::{Map, Value, json};
use vfp::DropReason;
use vfp::dump::FlowDump;
use vfp::model::{Conditions, Direction};

use super::{Shown, tables};

/// An object without the members that are `null` or empty lists.
fn object(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.into_iter().filter_map(|(name, value)| match object(value) {
                Value::Null => None,
                Value::Array(list) if list.is_empty() => None,
                value => Some((name, value)),
            });
            Value::Object(kept.collect())
        }
        other => other,
    }
}

pub(super) fn layers(shown: &Shown<'_>) -> Value {
    let mut all = Vec::new();
    for port in &shown.ports {
        for layer in shown.layers(port) {
            let groups: Vec<&str> = layer.groups.iter().map(|group| &*group.group.id).collect();
            all.push(json!({
                "port": shown.names.of(port),
                "layer": &*layer.layer.id,
                "priority": layer.layer.priority,
                "stateful": layer.layer.stateful,
                "flags": layer.layer.flags.bits(),
                "groups": groups,
                "rules": layer.groups.iter().map(|group| group.group.rules.len()).sum::<usize>(),
            }));
        }
    }
    all.into()
}

pub(super) fn groups(shown: &Shown<'_>) -> Value {
    let mut all = Vec::new();
    for port in &shown.ports {
        for layer in shown.layers(port) {
            for group in shown.groups(&layer) {
                let group = &group.group;
                all.push(object(json!({
                    "port": shown.names.of(port),
                    "layer": &*layer.layer.id,
                    "group": &*group.id,
                    "direction": group.direction,
                    "family": group.family,
                    "priority": group.priority,
                    "conditions": conditions(&group.conditions),
                    "rules": group.rules.len(),
                })));
            }
        }
    }
    all.into()
}

/// Conditions by name; an empty object means any packet.
fn conditions(conditions: &Conditions) -> Value {
    let texts = |list: &[&dyn ToString]| list.iter().map(|item| item.to_string()).collect::<Vec<_>>();
    let addresses = |set: &vfp::model::AddressSet| -> Vec<String> {
        let text = |range: &vfp::model::AddressRange| {
            range.prefix().map_or_else(|| range.to_string(), |net| net.to_string())
        };
        set.ranges().iter().map(text).collect()
    };
    let ports = |ranges: &[vfp::model::PortRange]| -> Vec<String> {
        ranges.iter().map(ToString::to_string).collect()
    };
    let macs = |macs: &[wire::Mac]| -> Vec<String> { macs.iter().map(ToString::to_string).collect() };
    let vlans = conditions.vlans.map(|(first, last)| texts(&[&first, &last]));
    object(json!({
        "protocols": conditions.protocols.to_vec(),
        "sources": addresses(&conditions.sources),
        "destinations": addresses(&conditions.destinations),
        "sourcePorts": ports(&conditions.source_ports),
        "destinationPorts": ports(&conditions.destination_ports),
        "sourceMacs": macs(&conditions.source_macs),
        "destinationMacs": macs(&conditions.destination_macs),
        "vlans": vlans,
        "tenant": conditions.tenant,
        "sourceTag": conditions.source_tag,
        "destinationTag": conditions.destination_tag,
        "mark": conditions.mark,
        "encapsulated": conditions.encapsulated,
    }))
}

pub(super) fn flows(shown: &Shown<'_>) -> Value {
    let mut all = Vec::new();
    for port in &shown.ports {
        for flow in shown.switch.flows(port.spec.name, shown.now).unwrap_or_default() {
            all.push(self::flow(shown, &shown.names.of(port), &flow));
        }
    }
    all.into()
}

fn flow(shown: &Shown<'_>, port: &str, flow: &FlowDump) -> Value {
    let set = &flow.transposition;
    object(json!({
        "port": port,
        "pair": flow.pair,
        "main": flow.main,
        "direction": flow.direction,
        "protocol": tables::protocol(flow.protocol),
        "source": flow.source,
        "destination": flow.destination,
        "result": tables::result(shown, flow),
        "sets": {
            "source": set.source,
            "destination": set.destination,
            "sourceMac": set.source_mac,
            "destinationMac": set.destination_mac,
            "vlan": set.vlan,
            "ttl": set.decrement_ttl.then_some(-1),
            "pop": set.pop.then_some("VXLAN"),
            "push": set.push.map(|outer| json!({
                "vni": outer.vni,
                "source": outer.source,
                "destination": outer.destination,
                "sourceMac": outer.source_mac,
                "destinationMac": outer.destination_mac,
            })),
        },
        "state": flow.state,
        "generation": flow.generation,
        "stale": flow.stale,
        "secondsLeft": flow.ttl_left,
        "packets": flow.packets,
        "bytes": flow.bytes,
    }))
}

pub(super) fn counters(shown: &Shown<'_>) -> Value {
    let mut all = Vec::new();
    for port in &shown.ports {
        for direction in [Direction::Out, Direction::In] {
            let Some(counters) = shown.switch.counters(port.spec.name, direction) else { continue };
            let drops: Map<String, Value> = DropReason::ALL
                .into_iter()
                .filter(|&reason| counters.dropped(reason) > 0)
                .map(|reason| (reason.to_string(), counters.dropped(reason).into()))
                .collect();
            all.push(json!({
                "port": shown.names.of(port),
                "direction": direction,
                "packets": counters.packets,
                "bytes": counters.bytes,
                "syn": counters.syn,
                "synAck": counters.syn_ack,
                "fin": counters.fin,
                "rst": counters.rst,
                "verified": counters.verified,
                "timedOut": counters.timed_out,
                "halfOpenTimeouts": counters.half_open_timeouts,
                "reset": counters.reset,
                "resetBySyn": counters.reset_by_syn,
                "resetInjected": counters.reset_injected,
                "closedByFin": counters.closed_by_fin,
                "expiredToTimeWait": counters.expired_to_time_wait,
                "slowPath": counters.slow,
                "resimulated": counters.resimulated,
                "dropped": counters.dropped_total(),
                "drops": drops,
            }));
        }
    }
    all.into()
}

pub(super) fn nat(shown: &Shown<'_>) -> Value {
    let pools: Vec<Value> = shown
        .pools()
        .into_iter()
        .map(|(pool, port)| {
            let ranges: Vec<Value> = pool
                .ranges
                .iter()
                .map(|range| {
                    json!({
                        "address": range.address, "first": range.first, "last": range.last, "reuse": range.reuse,
                    })
                })
                .collect();
            json!({
                "pool": pool.key,
                "port": shown.names.of(port),
                "protocol": tables::protocol(pool.protocol),
                "ranges": ranges,
                "ports": pool.size,
                "inUse": pool.in_use,
                "exhausted": pool.exhausted,
            })
        })
        .collect();
    let bindings: Vec<Value> = shown
        .bindings()
        .into_iter()
        .map(|binding| {
            json!({
                "pool": binding.pool,
                "protocol": tables::protocol(binding.protocol),
                "inner": binding.inner,
                "outer": binding.outer,
                "remote": binding.remote,
            })
        })
        .collect();
    json!({ "pools": pools, "bindings": bindings })
}
