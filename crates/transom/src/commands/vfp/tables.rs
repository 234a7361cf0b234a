//! The switch in tables for people: one table for each port or group, wide only where names are long.

use comfy_table::Table;
use vfp::dump::{FlowDump, FlowResult, PortDump};
use vfp::model::{Action, AddressSet, Conditions, Direction, PortKind, PortRange};

use super::Shown;
use crate::commands::render;

/// A table with what stands above it.
pub(super) struct Section {
    title: String,
    table: Table,
}

impl Section {
    fn untitled(table: Table) -> Self {
        Self { title: String::new(), table }
    }
}

/// Sections below each other, without those that are empty.
pub(super) fn text(sections: &[Section]) -> String {
    let mut out = String::new();
    for section in sections.iter().filter(|section| section.table.row_count() > 0) {
        if !out.is_empty() {
            out.push('\n');
        }
        if section.title.is_empty() {
            out.push_str(&render::text(&section.table));
            continue;
        }
        out.push_str(&section.title);
        out.push('\n');
        for line in render::text(&section.table).lines() {
            out.push_str("  ");
            out.push_str(line);
            out.push('\n');
        }
    }
    if out.is_empty() {
        out.push_str("(none)\n");
    }
    out
}

pub(super) fn ports(shown: &Shown<'_>) -> Vec<Section> {
    let mut table = render::table(&[
        "ID",
        "PORT",
        "KIND",
        "MAC",
        "ADDRESSES",
        "MTU",
        "LAYERS",
        "FLOWS",
        "OUT",
        "IN",
        "DROPPED",
    ]);
    for port in &shown.ports {
        let name = port.spec.name;
        let addresses: Vec<String> = port.spec.addresses.iter().map(ToString::to_string).collect();
        let count = |direction| shown.switch.counters(name, direction).map_or(0, |counters| counters.packets);
        let drops = |direction| {
            shown.switch.counters(name, direction).map_or(0, vfp::counters::PortCounters::dropped_total)
        };
        table.add_row([
            port.id.to_string(),
            shown.names.of(port),
            kind(port).to_owned(),
            port.spec.mac.to_string(),
            addresses.join(", "),
            port.spec.mtu.to_string(),
            shown.switch.layers(name).map_or(0, |layers| layers.len()).to_string(),
            shown.switch.flow_count(name).unwrap_or(0).to_string(),
            count(Direction::Out).to_string(),
            count(Direction::In).to_string(),
            (drops(Direction::Out) + drops(Direction::In)).to_string(),
        ]);
    }
    vec![Section::untitled(table)]
}

/// The kind of a port in one word.
fn kind(port: &PortDump) -> &'static str {
    match port.spec.kind {
        PortKind::Host => "host",
        PortKind::External => "external",
        PortKind::Endpoint => "endpoint",
    }
}

pub(super) fn layers(shown: &Shown<'_>) -> Vec<Section> {
    let sections = shown.ports.iter().map(|port| {
        let mut table = render::table(&["PRIORITY", "LAYER", "STATEFUL", "FLAGS", "GROUPS", "RULES"]);
        for layer in shown.layers(port) {
            let rules: usize = layer.groups.iter().map(|group| group.group.rules.len()).sum();
            table.add_row([
                layer.layer.priority.to_string(),
                layer.layer.id.to_string(),
                if layer.layer.stateful { "yes" } else { "no" }.to_owned(),
                layer.layer.flags.bits().to_string(),
                layer.groups.len().to_string(),
                rules.to_string(),
            ]);
        }
        Section { title: shown.names.of(port), table }
    });
    sections.collect()
}

pub(super) fn groups(shown: &Shown<'_>) -> Vec<Section> {
    let sections = shown.ports.iter().map(|port| {
        let mut table =
            render::table(&["LAYER", "GROUP", "DIRECTION", "FAMILY", "PRIORITY", "RULES", "CONDITIONS"]);
        for layer in shown.layers(port) {
            for group in shown.groups(&layer) {
                let group = &group.group;
                table.add_row([
                    layer.layer.id.to_string(),
                    group.id.to_string(),
                    group.direction.to_string(),
                    group.family.to_string(),
                    group.priority.to_string(),
                    group.rules.len().to_string(),
                    conditions(&group.conditions),
                ]);
            }
        }
        Section { title: shown.names.of(port), table }
    });
    sections.collect()
}

pub(super) fn rules(shown: &Shown<'_>) -> Vec<Section> {
    let mut sections = Vec::new();
    for port in &shown.ports {
        for layer in shown.layers(port) {
            for group in shown.groups(&layer) {
                let mut table = render::table(&["PRIORITY", "PACKETS", "RULE", "CONDITIONS", "ACTION"]);
                for (rule, counters) in group.group.rules.iter().zip(&group.counters) {
                    table.add_row([
                        rule.priority.to_string(),
                        counters.matched_packets.to_string(),
                        rule.id.to_string(),
                        conditions(&rule.conditions),
                        action(&rule.action),
                    ]);
                }
                let title = format!(
                    "{} {} {} ({} {})",
                    shown.names.of(port),
                    layer.layer.id,
                    group.group.id,
                    group.group.direction,
                    group.group.family
                );
                sections.push(Section { title, table });
            }
        }
    }
    sections
}

pub(super) fn flows(shown: &Shown<'_>) -> Vec<Section> {
    let sections = shown.ports.iter().map(|port| {
        let mut table = render::table(&[
            "FLOW",
            "DIRECTION",
            "PROTOCOL",
            "SOURCE",
            "DESTINATION",
            "STATE",
            "TTL",
            "PACKETS",
            "RESULT",
            "SETS",
        ]);
        for flow in shown.switch.flows(port.spec.name, shown.now).unwrap_or_default() {
            table.add_row([
                format!("{}{}", flow.pair, if flow.main { "" } else { " reply" }),
                flow.direction.to_string(),
                protocol(flow.protocol),
                flow.source.to_string(),
                flow.destination.to_string(),
                flow.state.to_owned(),
                format!("{}s", flow.ttl_left),
                flow.packets.to_string(),
                result(shown, &flow),
                sets(&flow),
            ]);
        }
        Section { title: shown.names.of(port), table }
    });
    sections.collect()
}

/// What becomes of a flow's packets.
pub(super) fn result(shown: &Shown<'_>, flow: &FlowDump) -> String {
    match flow.result {
        FlowResult::Forward(None) => "deliver".to_owned(),
        FlowResult::Forward(Some(to)) => {
            let port = shown.switch.ports().into_iter().find(|port| port.spec.name == to);
            port.map_or_else(|| to.to_string(), |port| format!("to {}", shown.names.of(&port)))
        }
        FlowResult::Drop(reason) => format!("drop: {reason}"),
        FlowResult::Hairpin => "back".to_owned(),
        FlowResult::Unknown => "no packet yet".to_owned(),
    }
}

fn sets(flow: &FlowDump) -> String {
    let set = &flow.transposition;
    let mut parts = Vec::new();
    let mut add = |label: &str, value: Option<String>| {
        if let Some(value) = value {
            parts.push(format!("{label} {value}"));
        }
    };
    add("src", set.source.map(|end| end.to_string()));
    add("dst", set.destination.map(|end| end.to_string()));
    add("src MAC", set.source_mac.map(|mac| mac.to_string()));
    add("dst MAC", set.destination_mac.map(|mac| mac.to_string()));
    add("VLAN", set.vlan.map(|vlan| vlan.to_string()));
    add("TTL", set.decrement_ttl.then(|| "-1".to_owned()));
    add("pop", set.pop.then(|| "VXLAN".to_owned()));
    add(
        "push",
        set.push.map(|outer| format!("VXLAN {}, {} > {}", outer.vni, outer.source, outer.destination)),
    );
    parts.join(", ")
}

pub(super) fn counters(shown: &Shown<'_>) -> Vec<Section> {
    let mut table = render::table(&[
        "PORT",
        "DIRECTION",
        "PACKETS",
        "BYTES",
        "SYN",
        "SYN-ACK",
        "FIN",
        "RST",
        "VERIFIED",
        "DROPPED",
        "REASONS",
    ]);
    for port in &shown.ports {
        for direction in [Direction::Out, Direction::In] {
            let Some(counters) = shown.switch.counters(port.spec.name, direction) else { continue };
            let reasons: Vec<String> = vfp::DropReason::ALL
                .into_iter()
                .filter(|&reason| counters.dropped(reason) > 0)
                .map(|reason| format!("{reason} {}", counters.dropped(reason)))
                .collect();
            table.add_row([
                shown.names.of(port),
                direction.to_string(),
                counters.packets.to_string(),
                counters.bytes.to_string(),
                counters.syn.to_string(),
                counters.syn_ack.to_string(),
                counters.fin.to_string(),
                counters.rst.to_string(),
                counters.verified.to_string(),
                counters.dropped_total().to_string(),
                reasons.join(", "),
            ]);
        }
    }
    vec![Section::untitled(table)]
}

pub(super) fn nat(shown: &Shown<'_>) -> Vec<Section> {
    let mut pools = render::table(&["PORT", "PROTOCOL", "RANGES", "PORTS", "IN USE", "EXHAUSTED", "POOL"]);
    let mut bindings = render::table(&["PROTOCOL", "INNER", "OUTER", "REMOTE", "POOL"]);
    for (pool, port) in shown.pools() {
        let ranges: Vec<String> = pool
            .ranges
            .iter()
            .map(|range| format!("{} {}-{}", range.address, range.first, range.last))
            .collect();
        pools.add_row([
            shown.names.of(port),
            protocol(pool.protocol),
            ranges.join(", "),
            pool.size.to_string(),
            pool.in_use.to_string(),
            pool.exhausted.to_string(),
            pool.key.clone(),
        ]);
    }
    for binding in shown.bindings() {
        bindings.add_row([
            protocol(binding.protocol),
            binding.inner.to_string(),
            binding.outer.to_string(),
            binding.remote.to_string(),
            binding.pool,
        ]);
    }
    vec![
        Section { title: "Pools".to_owned(), table: pools },
        Section { title: "Bindings".to_owned(), table: bindings },
    ]
}

/// A protocol by its name, if it has one here.
pub(super) fn protocol(number: u8) -> String {
    match number {
        wire::proto::TCP => "TCP".to_owned(),
        wire::proto::UDP => "UDP".to_owned(),
        wire::proto::ICMP => "ICMP".to_owned(),
        wire::proto::ICMP6 => "ICMPv6".to_owned(),
        wire::proto::SCTP => "SCTP".to_owned(),
        other => other.to_string(),
    }
}

/// `TCP from 10.50.1.5 to 10.60.0.20:80`.
pub(super) fn conditions(conditions: &Conditions) -> String {
    let mut parts = Vec::new();
    if !conditions.protocols.is_empty() {
        let names: Vec<String> = conditions.protocols.iter().map(|&number| protocol(number)).collect();
        parts.push(names.join(","));
    }
    for (label, set, ports, tag, macs) in [
        (
            "from",
            &conditions.sources,
            &conditions.source_ports[..],
            &conditions.source_tag,
            &conditions.source_macs[..],
        ),
        (
            "to",
            &conditions.destinations,
            &conditions.destination_ports[..],
            &conditions.destination_tag,
            &conditions.destination_macs[..],
        ),
    ] {
        let end = end(set, ports);
        if !end.is_empty() {
            parts.push(format!("{label} {end}"));
        }
        if let Some(tag) = tag {
            parts.push(format!("{label} tag {tag}"));
        }
        if !macs.is_empty() {
            let macs: Vec<String> = macs.iter().map(ToString::to_string).collect();
            parts.push(format!("{label} MAC {}", macs.join(",")));
        }
    }
    let mut add = |label: &str, value: Option<String>| {
        if let Some(value) = value {
            parts.push(format!("{label} {value}"));
        }
    };
    add(
        "VLAN",
        conditions
            .vlans
            .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") }),
    );
    add("tenant", conditions.tenant.map(|tenant| tenant.to_string()));
    add("mark", conditions.mark.map(|mark| mark.to_string()));
    add("tunnel", conditions.encapsulated.map(|there| if there { "there" } else { "absent" }.to_owned()));
    if parts.is_empty() { "any".to_owned() } else { parts.join(" ") }
}

/// Addresses and ports of one side.
fn end(set: &AddressSet, ports: &[PortRange]) -> String {
    let addresses: Vec<String> = set
        .ranges()
        .iter()
        .map(|range| match range.prefix() {
            Some(net) if net.prefix_len() == net.max_prefix_len() => net.addr().to_string(),
            Some(net) => net.to_string(),
            None => range.to_string(),
        })
        .collect();
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    match (&addresses[..], &ports[..]) {
        ([], []) => String::new(),
        (_, []) => shortened(&addresses),
        ([], _) => format!("*:{}", ports.join(",")),
        ([one], [port]) if one.contains(':') => format!("[{one}]:{port}"),
        ([one], [port]) => format!("{one}:{port}"),
        _ => format!("{} port {}", shortened(&addresses), ports.join(",")),
    }
}

/// The first few, and how many more there are; never one more.
fn shortened(parts: &[String]) -> String {
    const SHOWN: usize = 4;
    if parts.len() <= SHOWN + 1 {
        return parts.join(",");
    }
    format!("{} and {} more", parts[..SHOWN].join(","), parts.len() - SHOWN)
}

/// The action's word and what it is about.
pub(super) fn action(action: &Action) -> String {
    let word = action.word();
    match action {
        Action::LbNat(lb) => {
            let dips: Vec<String> = lb
                .dips
                .iter()
                .map(|dip| match dip.port {
                    Some(port) => std::net::SocketAddr::new(dip.address, port).to_string(),
                    None => dip.address.to_string(),
                })
                .collect();
            let source = if lb.source.is_some() { " with SNAT" } else { "" };
            format!("{word} {}{source}", shortened(&dips))
        }
        Action::RouteEncap(encap) => {
            let to: Vec<String> =
                encap.destinations.iter().map(|to| format!("VXLAN {} to {}", to.vni, to.pa)).collect();
            format!("{word} {}", shortened(&to))
        }
        Action::Nat(nat) => {
            let to = match (nat.address, nat.port) {
                (Some(address), Some(port)) => std::net::SocketAddr::new(address, port).to_string(),
                (Some(address), None) => address.to_string(),
                (None, Some(port)) => format!("port {port}"),
                (None, None) => String::new(),
            };
            format!("{word} {to}").trim_end().to_owned()
        }
        _ => word.to_owned(),
    }
}
