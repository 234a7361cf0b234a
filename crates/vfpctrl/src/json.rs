//! `/format 1`: the JSON shapes that public parsers expect.

use std::time::Duration;

use serde_json::{Map, Value, json};
use vfp::Switch;
use vfp::counters::RuleCounters;
use vfp::model::{Action, AddressSet, Conditions, Direction, Family, PortRange, Rule};

use crate::text::layers::{chosen, selected_groups};
use crate::{Command, CtrlError, Verb};

/// Numbers of condition types; those of the other lists are not public.
mod condition {
    pub(super) const PROTOCOL: u32 = 1;
    pub(super) const PORT: u32 = 5;
    pub(super) const IPV4: u32 = 11;
    pub(super) const IPV6: u32 = 13;
    pub(super) const MAC: u32 = 17;
    pub(super) const VLAN: u32 = 21;
}

/// What a verb prints.
pub(crate) fn print(switch: &Switch, command: &Command, _: Duration) -> Result<String, CtrlError> {
    let value = match command.verb {
        Verb::ListVmswitchPort => ports(switch),
        Verb::ListRule | Verb::GetRuleCounter | Verb::GetRuleInfo => rules(switch, command)?,
        Verb::GetPortCounter => counters(switch, command)?,
        other => {
            let text =
                format!("/format 1 is known for ports, rules and port counters, not for /{}", other.word());
            return Err(CtrlError::Usage(text));
        }
    };
    Ok(value.to_string())
}

fn ports(switch: &Switch) -> Value {
    let ports: Vec<Value> = switch
        .ports()
        .into_iter()
        .map(|port| {
            json!({
                "Name": crate::text::guid(port.spec.name),
                "Id": port.spec.friendly_name,
                "VmsPortId": port.id,
                "MacAddress": port.spec.mac.to_string().replace('-', ""),
            })
        })
        .collect();
    json!({ "Ports": ports })
}

fn rules(switch: &Switch, command: &Command) -> Result<Value, CtrlError> {
    let port = crate::port(switch, command)?;
    let selected = selected_groups(switch, port, command)?;
    if command.group.is_some() {
        let rules: Vec<Value> = selected
            .iter()
            .flat_map(|(_, groups)| groups)
            .flat_map(|group| {
                let family = group.group.family;
                chosen(group, command).into_iter().map(move |(rule, counters)| one(rule, counters, family))
            })
            .collect();
        return Ok(json!({ "Rules": rules }));
    }
    let layers: Vec<Value> = selected
        .iter()
        .map(|(layer, groups)| {
            let groups: Vec<Value> = groups
                .iter()
                .map(|group| {
                    let family = group.group.family;
                    let rules: Vec<Value> = chosen(group, command)
                        .into_iter()
                        .map(|(rule, counters)| one(rule, counters, family))
                        .collect();
                    json!({ "Name": &*group.group.id, "Rules": rules })
                })
                .collect();
            json!({ "Name": &*layer.layer.id, "Groups": groups })
        })
        .collect();
    Ok(json!({ "Layers": layers }))
}

fn one(rule: &Rule, counters: &RuleCounters, family: Family) -> Value {
    let mss = match &rule.action {
        Action::LbNat(_) => Some(0),
        _ => None,
    };
    let mut value = json!({
        "$type": format!("VfpRule.{}", rule.action.word()),
        "Type": rule.action.word(),
        "SubType": "",
        "Id": &*rule.id,
        "Name": &*rule.name,
        "Priority": rule.priority,
        "Conditions": conditions(&rule.conditions, family),
        "RuleFlags": rule.flags.bits(),
        "FlowTtl": rule.ttl,
        "InformationArray": [{ "RuleCounters": {
            "MatchedPackets": counters.matched_packets,
            "DroppedPackets": counters.dropped_packets,
            "PendingPackets": counters.pending_packets,
            "DroppedFlows": counters.dropped_flows,
        }}],
    });
    if let (Some(mss), Some(object)) = (mss, value.as_object_mut()) {
        object.insert("MssDelta".to_owned(), json!(mss));
        object.insert("ReverseMssDelta".to_owned(), json!(mss));
    }
    value
}

fn conditions(conditions: &Conditions, family: Family) -> Vec<Value> {
    let mut out = Vec::new();
    let mut add = |kind: u32, name: &str, list: Vec<Value>| {
        if !list.is_empty() {
            let mut object = Map::new();
            object.insert("ConditionType".to_owned(), kind.into());
            object.insert(name.to_owned(), list.into());
            out.push(object.into());
        }
    };
    let (ip, source, destination) = match family {
        Family::V4 => (condition::IPV4, "SourceIPv4RangeList", "DestinationIPv4RangeList"),
        Family::V6 => (condition::IPV6, "SourceIPv6RangeList", "DestinationIPv6RangeList"),
    };
    let addresses = |set: &AddressSet| {
        set.ranges().iter().map(|range| json!({ "L": range.first, "H": range.last })).collect()
    };
    let ports = |ranges: &[PortRange]| {
        ranges.iter().map(|range| json!({ "L": range.first, "H": range.last })).collect()
    };
    let protocols = conditions.protocols.iter().map(|&proto| json!(proto)).collect();
    add(condition::PROTOCOL, "ProtocolList", protocols);
    add(ip, source, addresses(&conditions.sources));
    add(ip, destination, addresses(&conditions.destinations));
    add(condition::PORT, "SourcePortList", ports(&conditions.source_ports));
    add(condition::PORT, "DestinationPortList", ports(&conditions.destination_ports));
    let macs = |macs: &[wire::Mac]| macs.iter().map(|mac| json!(mac.to_string())).collect();
    add(condition::MAC, "SourceMacAddressList", macs(&conditions.source_macs));
    add(condition::MAC, "DestinationMacAddressList", macs(&conditions.destination_macs));
    let vlans = conditions.vlans.iter().map(|(first, last)| json!({ "L": first, "H": last })).collect();
    add(condition::VLAN, "VlanIdRangeList", vlans);
    out
}

fn counters(switch: &Switch, command: &Command) -> Result<Value, CtrlError> {
    let port = crate::port(switch, command)?;
    let both: Vec<Value> = [Direction::Out, Direction::In]
        .into_iter()
        .filter_map(|direction| {
            let counters = switch.counters(port, direction)?;
            Some(json!({
                "Direction": direction.index(),
                "TotalPackets": counters.packets,
                "TotalBytes": counters.bytes,
                "DroppedPackets": counters.dropped_total(),
                "DroppedAcl": counters.dropped(vfp::DropReason::Acl),
                "PendingPackets": 0,
                "TcpSynPackets": counters.syn,
                "TcpSynAckPackets": counters.syn_ack,
                "TcpFinPackets": counters.fin,
                "TcpResetPackets": counters.rst,
                "TcpConnectionsVerified": counters.verified,
                "TcpConnectionsTimedOut": counters.timed_out,
                "TcpConnectionsReset": counters.reset,
                "TcpConnectionsResetBySyn": counters.reset_by_syn,
                "TcpConnectionsClosedByFin": counters.closed_by_fin,
                "TcpHalfOpenTimeouts": counters.half_open_timeouts,
                "TcpConnectionsExpiredToTimeWait": counters.expired_to_time_wait,
            }))
        })
        .collect();
    Ok(json!({ "InformationArray": [{ "PortCounters": both }] }))
}
