//! Layers, groups and rules.

use std::fmt::Write as _;

use uuid::Uuid;
use vfp::Switch;
use vfp::counters::RuleCounters;
use vfp::dump::{GroupDump, LayerDump};
use vfp::model::{
    Action, AddressSet, Conditions, EncapFlags, GroupSpec, Hairpin, LayerFlags, NatSide, PortRange, Rule,
    RuleFlags, Transpose,
};

use super::heading;
use crate::{Command, CtrlError};

/// The selected layers of a port.
pub(crate) fn selected(switch: &Switch, port: Uuid, command: &Command) -> Result<Vec<LayerDump>, CtrlError> {
    let layers = switch.layers(port).unwrap_or_default();
    let Some(wanted) = &command.layer else { return Ok(layers) };
    let found: Vec<LayerDump> =
        layers.into_iter().filter(|layer| layer.layer.id.eq_ignore_ascii_case(wanted)).collect();
    if found.is_empty() {
        return Err(CtrlError::Missing {
            kind: "layer",
            name: wanted.clone(),
            right: "/list-layer names the layers of a port",
        });
    }
    Ok(found)
}

/// The selected groups of a port, with their layers.
pub(crate) fn selected_groups(
    switch: &Switch,
    port: Uuid,
    command: &Command,
) -> Result<Vec<(LayerDump, Vec<GroupDump>)>, CtrlError> {
    let mut found = Vec::new();
    let mut any = false;
    for layer in selected(switch, port, command)? {
        let mut groups = layer.groups.clone();
        if let Some(wanted) = &command.group {
            groups.retain(|group| group.group.id.eq_ignore_ascii_case(wanted));
        }
        any |= !groups.is_empty();
        found.push((layer, groups));
    }
    match &command.group {
        Some(wanted) if !any => Err(CtrlError::Missing {
            kind: "group",
            name: wanted.clone(),
            right: "/list-group names the groups of a port",
        }),
        _ => Ok(found),
    }
}

/// `list-layer`.
pub(crate) fn layers(switch: &Switch, port: Uuid, command: &Command) -> Result<String, CtrlError> {
    let mut out = heading();
    for layer in selected(switch, port, command)? {
        layer_head(&layer, &mut out);
        out.push('\n');
    }
    Ok(out)
}

fn layer_head(layer: &LayerDump, out: &mut String) {
    let spec = &layer.layer;
    let _ = writeln!(out, "LAYER : {}", spec.id);
    let _ = writeln!(out, "    Friendly name : {}", spec.name);
    let _ = writeln!(out, "    Flags : {}", layer_flags(spec.flags));
    let _ = writeln!(out, "    Priority : {}", spec.priority);
}

fn layer_flags(flags: LayerFlags) -> String {
    let words = [
        (LayerFlags::DEFAULT_ALLOW, "Default Allow"),
        (LayerFlags::HAIRPIN, "Hairpin"),
        (LayerFlags::CLEAR_TENANT, "Clear Tenant Id"),
        (LayerFlags::PING_RESPONDER, "Ping Responder"),
    ];
    flagged(flags.bits(), words.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, word)| *word))
}

fn flagged<'a>(bits: u32, words: impl Iterator<Item = &'a str>) -> String {
    let mut text = bits.to_string();
    for word in words {
        text.push(' ');
        text.push_str(word);
    }
    text
}

fn rule_flags(flags: RuleFlags) -> String {
    let words = [
        (RuleFlags::TERMINATING, "terminating"),
        (RuleFlags::STATEFUL, "stateful"),
        (RuleFlags::NON_SYN, "non-syn"),
        (RuleFlags::TRACK_TCP, "track-tcp"),
        (RuleFlags::SYN, "syn"),
        (RuleFlags::SKIP_HAIRPIN, "skip-hairpin"),
        (RuleFlags::OPTIMISE_CONDITION, "optimize-condition"),
        (RuleFlags::AUDIT, "audit"),
        (RuleFlags::MIRROR, "mirror"),
        (RuleFlags::MONITORING_PING, "monitoring-ping"),
    ];
    flagged(flags.bits(), words.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, word)| *word))
}

/// `list-group`.
pub(crate) fn groups(switch: &Switch, port: Uuid, command: &Command) -> Result<String, CtrlError> {
    let mut out = heading();
    for (layer, groups) in selected_groups(switch, port, command)? {
        layer_head(&layer, &mut out);
        out.push('\n');
        for group in groups {
            group_head(&group.group, &mut out);
            out.push('\n');
        }
    }
    Ok(out)
}

fn group_head(group: &GroupSpec, out: &mut String) {
    let _ = writeln!(out, "  GROUP : {}", group.id);
    let _ = writeln!(out, "      Friendly name : {}", group.name);
    let _ = writeln!(out, "      Priority : {}", group.priority);
    let _ = writeln!(out, "      Direction : {}", group.direction);
    let _ = writeln!(out, "      Type : {}", group.family);
    out.push_str("        Conditions:\n");
    conditions(&group.conditions, out);
    out.push_str("      Match type : Priority-based match\n");
}

/// `list-rule`.
pub(crate) fn rules(switch: &Switch, port: Uuid, command: &Command) -> Result<String, CtrlError> {
    let mut out = heading();
    for (layer, groups) in selected_groups(switch, port, command)? {
        layer_head(&layer, &mut out);
        out.push('\n');
        for group in groups {
            group_head(&group.group, &mut out);
            out.push('\n');
            for rule in chosen(&group, command) {
                rule_body(rule.0, &mut out);
                out.push('\n');
            }
        }
    }
    Ok(out)
}

/// The selected rules of a group with their counters.
pub(crate) fn chosen<'a>(group: &'a GroupDump, command: &Command) -> Vec<(&'a Rule, &'a RuleCounters)> {
    let wanted = |rule: &Rule| {
        command.rule.as_ref().is_none_or(|name| rule.id.eq_ignore_ascii_case(name) || *rule.name == **name)
    };
    group
        .group
        .rules
        .iter()
        .map(AsRef::as_ref)
        .zip(&group.counters)
        .filter(|(rule, _)| wanted(rule))
        .collect()
}

fn rule_body(rule: &Rule, out: &mut String) {
    let _ = writeln!(out, "    RULE : {}", rule.id);
    let _ = writeln!(out, "        Friendly name : {}", rule.name);
    let _ = writeln!(out, "        Priority : {}", rule.priority);
    let _ = writeln!(out, "        Flags : {}", rule_flags(rule.flags));
    let _ = writeln!(out, "        Type : {}", rule.action.word());
    out.push_str("        Conditions:\n");
    conditions(&rule.conditions, out);
    let _ = writeln!(out, "        Flow TTL: {}", rule.ttl);
    out.push_str("        Rule Data:\n");
    data(&rule.action, out);
    out.push_str("        FlagsEx : 0\n");
}

fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

fn addresses(set: &AddressSet) -> String {
    list(set.ranges())
}

fn ports(ranges: &[PortRange]) -> String {
    list(ranges)
}

fn conditions(conditions: &Conditions, out: &mut String) {
    let mut any = false;
    let mut line = |label: &str, value: String| {
        any = true;
        let _ = writeln!(out, "            {label} : {value}");
    };
    if !conditions.protocols.is_empty() {
        line("Protocols", list(&conditions.protocols));
    }
    if !conditions.sources.is_empty() {
        line("Source IP", addresses(&conditions.sources));
    }
    if let Some(tag) = &conditions.source_tag {
        line("Source tag", tag.clone());
    }
    if !conditions.destinations.is_empty() {
        line("Destination IP", addresses(&conditions.destinations));
    }
    if let Some(tag) = &conditions.destination_tag {
        line("Destination tag", tag.clone());
    }
    if !conditions.source_ports.is_empty() {
        line("Source ports", ports(&conditions.source_ports));
    }
    if !conditions.destination_ports.is_empty() {
        line("Destination ports", ports(&conditions.destination_ports));
    }
    if !conditions.source_macs.is_empty() {
        line("Source MAC", list(&conditions.source_macs));
    }
    if !conditions.destination_macs.is_empty() {
        line("Destination MAC", list(&conditions.destination_macs));
    }
    if let Some((first, last)) = conditions.vlans {
        line("VLAN", if first == last { first.to_string() } else { format!("{first}-{last}") });
    }
    if let Some(tenant) = conditions.tenant {
        line("Tenant Id", tenant.to_string());
    }
    if let Some(mark) = conditions.mark {
        line("Metadata", mark.to_string());
    }
    if let Some(encapsulated) = conditions.encapsulated {
        line("Encapsulated", encapsulated.to_string());
    }
    if !any {
        out.push_str("            <none>\n");
    }
}

fn data(action: &Action, out: &mut String) {
    let mut line = |text: String| {
        let _ = writeln!(out, "        {text}");
    };
    let port = |port: Option<u16>| port.map_or_else(|| "*".to_owned(), |port| port.to_string());
    match action {
        Action::Allow | Action::Block | Action::PingResponse => {}
        Action::Nat(nat) => {
            let side = match nat.side {
                NatSide::Source => "Source",
                NatSide::Destination => "Destination",
            };
            let address = nat.address.map_or_else(|| "*".to_owned(), |address| address.to_string());
            line(format!("{side} NAT : {address} : {}", port(nat.port)));
        }
        Action::DynNat(nat) => {
            line(format!("NAT Pool : {}", nat.pool));
            line("Direction : Source".to_owned());
            line(format!("Flags : {}", nat.flags.bits() | 256));
        }
        Action::LbNat(lb) => {
            line("DIP Range".to_owned());
            for dip in &lb.dips {
                line(format!("{{ {} : {} }}", dip.address, port(dip.port)));
            }
            if let Some(pool) = &lb.source {
                line(format!("Source NAT Pool : {pool}"));
            }
            line(format!("Distribution : {:?}", lb.distribution));
            line(format!("LB Flags : {}", lb.flags.bits()));
        }
        Action::Transpose(transpose) => transposition(transpose, &mut line),
        Action::RouteEncap(encap) => {
            line("Encap Type : VXLAN".to_owned());
            let destinations = encap.destinations.iter().map(|to| {
                let mac = to.ca_mac.map_or_else(|| "-".to_owned(), |mac| mac.to_string());
                format!("{{ PA={}, CA MAC={mac}, VNI={} }}", to.pa, to.vni)
            });
            line(format!("Encap Destination(s) : {}", list(destinations)));
            line(format!("Encap Source IP : {}", encap.source));
            let vni = encap.destinations.first().map_or(0, |to| to.vni);
            line(format!("GRE Key : {vni}"));
            if encap.flags.intersects(EncapFlags::FIX_INNER_MAC | EncapFlags::FIX_INNER_MAC_CA_SOURCE) {
                line("Modify : inner MAC".to_owned());
            }
        }
        Action::Decap(decap) => line(format!("Decap Flags : {}", decap.flags.bits())),
        Action::PaRoute(route) => {
            line(format!("VLAN : {}", route.vlan));
            line(format!("Compartment : {}", route.compartment));
            line(format!("Cache Threshold : {}", route.cache_limit));
            line(format!("Cache Timeout : {}", route.cache_timeout));
            line(format!("Interface Index : {}", route.interface_index));
        }
        Action::Meter(meter) => line(format!("Meter Class : {}", meter.class)),
        Action::Qos { bytes_per_second } => line(format!("Bandwidth : {bytes_per_second} bytes/s")),
        Action::Mark(mark) => line(format!("Metadata : {mark}")),
    }
}

fn transposition(transpose: &Transpose, line: &mut impl FnMut(String)) {
    line("Transposition".to_owned());
    let mut set = |label: &str, value: Option<String>| {
        if let Some(value) = value {
            line(format!("    {label} : {value}"));
        }
    };
    set("Set Source MAC", transpose.source_mac.map(|mac| mac.to_string()));
    set("Set Destination MAC", transpose.destination_mac.map(|mac| mac.to_string()));
    set("Set Source IP", transpose.source.map(|address| address.to_string()));
    set("Set Destination IP", transpose.destination.map(|address| address.to_string()));
    set("Set Source port", transpose.source_port.map(|port| port.to_string()));
    set("Set Destination port", transpose.destination_port.map(|port| port.to_string()));
    set("Set VLAN", transpose.vlan.map(|vlan| vlan.to_string()));
    set(
        "Push VXLAN",
        transpose
            .encap
            .as_ref()
            .map(|tunnel| format!("{} > {} vni {}", tunnel.source, tunnel.destination, tunnel.vni)),
    );
    set("Pop", transpose.decap.then(|| "outer".to_owned()));
    set("Decrement TTL", transpose.decrement_ttl.then(|| "1".to_owned()));
    set(
        "Hairpin",
        transpose.hairpin.map(|hairpin| match hairpin {
            Hairpin::Back => "back".to_owned(),
            Hairpin::Port(port) => super::guid(port),
        }),
    );
}

/// `get-rule-info` and `get-rule-counter`.
pub(crate) fn counters(switch: &Switch, port: Uuid, command: &Command) -> Result<String, CtrlError> {
    let mut out = heading();
    let mut found = false;
    for (layer, groups) in selected_groups(switch, port, command)? {
        for group in groups {
            for (rule, counters) in chosen(&group, command) {
                found = true;
                let _ = writeln!(out, "RULE : {}", rule.id);
                let _ = writeln!(out, "    Friendly name : {}", rule.name);
                let _ = writeln!(out, "    Layer : {}", layer.layer.id);
                let _ = writeln!(out, "    Group : {}", group.group.id);
                let _ = writeln!(out, "    Matched packets : {}", counters.matched_packets);
                let _ = writeln!(out, "    Dropped packets : {}", counters.dropped_packets);
                let _ = writeln!(out, "    Pending packets : {}", counters.pending_packets);
                let _ = writeln!(out, "    Dropped flows : {}", counters.dropped_flows);
                out.push('\n');
            }
        }
    }
    match &command.rule {
        Some(wanted) if !found => Err(CtrlError::Missing {
            kind: "rule",
            name: wanted.clone(),
            right: "/list-rule names the rules of a port",
        }),
        _ => Ok(out),
    }
}
