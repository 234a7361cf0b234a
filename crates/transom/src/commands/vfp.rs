//! `transom vfp`: the virtual switch of one node, in tables or as `vfpctrl` prints it.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::bail;
use serde_json::{Value, json};
use uuid::Uuid;
use vfp::Switch;
use vfp::dump::{FlowDump, FlowResult, PortDump};
use vfp::model::{Action, AddressSet, Conditions, Direction, PortKind};
use vfpctrl::{Command, Verb};

use super::render;
use super::simulated::Simulated;
use crate::cli::traffic::{VfpAction, VfpCommand, VfpFormat, VfpShow, VfpTarget};
use crate::exit::Exit;

pub(super) fn run(command: &VfpCommand) -> anyhow::Result<Exit> {
    match &command.action {
        VfpAction::Ports(show) => self::show(show, &[Verb::ListVmswitchPort], ports),
        VfpAction::Layers(show) => self::show(show, &[Verb::ListLayer], layers),
        VfpAction::Groups(show) => self::show(show, &[Verb::ListGroup], groups),
        VfpAction::Rules(show) => self::show(show, &[Verb::ListRule], rules),
        VfpAction::Flows(show) => self::show(show, &[Verb::ListUnifiedFlow], flows),
        VfpAction::Counters(show) => {
            self::show(show, &[Verb::GetPortCounter, Verb::GetPortFlowStats], counters)
        }
        VfpAction::Nat(show) => self::show(show, &[Verb::ListNatRange, Verb::ListNatPortBinding], nat),
        VfpAction::ProcessTuples(tuples) => with_switch(&tuples.target, |switch, names, now| {
            let port = names.find(switch, &tuples.port)?;
            let command = Command {
                port: Some(port.to_string()),
                argument: Some(tuples.tuple.join(" ")),
                ..Command::new(Verb::ProcessTuples)
            };
            Ok(vfpctrl::execute(switch, &command, now)?.replace("\r\n", "\n"))
        }),
        VfpAction::Ctrl(ctrl) => with_switch(&ctrl.target, |switch, _, now| {
            // The errors are the tool's own, in its form.
            Ok(vfpctrl::run(switch, &ctrl.words, now).unwrap_or_else(|error| format!("ERROR: {error}\r\n")))
        }),
    }
}

/// What ports are called: pods by their names.
struct Names {
    pods: Vec<(Uuid, String)>,
}

impl Names {
    fn of(&self, port: &PortDump) -> String {
        match port.spec.kind {
            PortKind::Host => return "host".to_owned(),
            PortKind::External => return "external".to_owned(),
            PortKind::Endpoint => {}
        }
        let pod = self.pods.iter().find(|(name, _)| *name == port.spec.name);
        pod.map_or_else(|| port.spec.friendly_name.clone(), |(_, pod)| format!("pod/{pod}"))
    }

    fn find(&self, switch: &Switch, wanted: &str) -> anyhow::Result<Uuid> {
        let bare = wanted.trim_matches(['{', '}']);
        let ports = switch.ports();
        let found = ports.iter().find(|port| {
            port.spec.name.to_string().eq_ignore_ascii_case(bare)
                || port.spec.friendly_name.eq_ignore_ascii_case(wanted)
                || port.id.to_string() == *bare
                || self.of(port) == *wanted
        });
        if let Some(port) = found {
            return Ok(port.spec.name);
        }
        let known: Vec<String> = ports.iter().map(|port| self.of(port)).collect();
        bail!("there is no port {wanted}; ports: {}", known.join(", "))
    }
}

/// Opens the cluster, runs the exchanges and gives the node's switch to `act`.
fn with_switch(
    target: &VfpTarget,
    act: impl FnOnce(&mut Switch, &Names, Duration) -> anyhow::Result<String>,
) -> anyhow::Result<Exit> {
    let mut simulated = Simulated::open(&target.input, &target.node, &target.simulation)?;
    for flow in &target.send {
        let exchange = simulated.run(flow)?;
        tracing::info!(to = %exchange.request.to, outcome = %exchange.outcome, "Exchange");
    }
    let Some(name) = simulated.node.clone() else {
        let windows = simulated.world.windows_nodes();
        bail!("there are {} Windows nodes; choose one with --node: {}", windows.len(), windows.join(", "));
    };
    let simulation = &simulated.world.simulation;
    let now = simulation.fabric().now();
    let Some(node) = simulation.windows(&name) else { bail!("node {name} is no Windows node") };
    let pods = simulation.spec(&name).map(|spec| spec.pods.clone()).unwrap_or_default();
    let text = node.switch().with(|switch| {
        let ports = switch.ports();
        let names = pods
            .iter()
            .filter_map(|pod| {
                let holds = |port: &&PortDump| {
                    pod.addresses.iter().any(|address| port.spec.addresses.contains(address))
                };
                Some((ports.iter().find(holds)?.spec.name, pod.name.clone()))
            })
            .collect();
        act(switch, &Names { pods: names }, now)
    })?;
    render::print(&text)?;
    Ok(simulated.exit)
}

/// What a table function is given.
struct Shown<'a> {
    switch: &'a Switch,
    names: &'a Names,
    /// The selected ports.
    ports: Vec<PortDump>,
    show: &'a VfpShow,
    now: Duration,
}

fn show(
    show: &VfpShow,
    verbs: &[Verb],
    table: fn(&Shown<'_>) -> (comfy_table::Table, Value),
) -> anyhow::Result<Exit> {
    with_switch(&show.target, |switch, names, now| {
        let mut ports = switch.ports();
        if let Some(wanted) = &show.port {
            let name = names.find(switch, wanted)?;
            ports.retain(|port| port.spec.name == name);
        }
        match show.format {
            VfpFormat::Vfpctrl => ctrl(switch, &ports, show, verbs, now, false),
            VfpFormat::Json if matches!(verbs, [Verb::ListVmswitchPort | Verb::ListRule]) => {
                ctrl(switch, &ports, show, verbs, now, true)
            }
            VfpFormat::Json => {
                let (_, value) = table(&Shown { switch, names, ports, show, now });
                render::document(&value, crate::cli::Output::Json)
            }
            VfpFormat::Table => {
                let (table, _) = table(&Shown { switch, names, ports, show, now });
                Ok(render::text(&table))
            }
        }
    })
}

/// The tool's own text or JSON: for each selected port and verb, one after the other.
fn ctrl(
    switch: &mut Switch,
    ports: &[PortDump],
    show: &VfpShow,
    verbs: &[Verb],
    now: Duration,
    json: bool,
) -> anyhow::Result<String> {
    let mut out = String::new();
    for &verb in verbs {
        let of_switch = verb == Verb::ListVmswitchPort;
        let targets: Vec<Option<String>> = if of_switch {
            vec![None]
        } else {
            ports.iter().map(|port| Some(port.spec.name.to_string())).collect()
        };
        for port in targets {
            let command = Command {
                port,
                layer: show.layer.clone(),
                group: show.group.clone(),
                json,
                ..Command::new(verb)
            };
            match vfpctrl::execute(switch, &command, now) {
                Ok(text) => out.push_str(&text),
                // A layer or group that only some ports have.
                Err(vfpctrl::CtrlError::Missing { .. }) if ports.len() > 1 => {}
                Err(error) => bail!(error),
            }
            if json {
                out.push('\n');
            }
        }
    }
    Ok(out)
}

fn ports(shown: &Shown<'_>) -> (comfy_table::Table, Value) {
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
            format!("{:?}", port.spec.kind),
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
    (table, Value::Null)
}

fn layers(shown: &Shown<'_>) -> (comfy_table::Table, Value) {
    let mut table = render::table(&["PORT", "PRIORITY", "LAYER", "STATEFUL", "FLAGS", "GROUPS", "RULES"]);
    let mut values = Vec::new();
    for port in &shown.ports {
        for layer in shown.switch.layers(port.spec.name).unwrap_or_default() {
            let rules: usize = layer.groups.iter().map(|group| group.group.rules.len()).sum();
            table.add_row([
                shown.names.of(port),
                layer.layer.priority.to_string(),
                layer.layer.id.to_string(),
                layer.layer.stateful.to_string(),
                layer.layer.flags.bits().to_string(),
                layer.groups.len().to_string(),
                rules.to_string(),
            ]);
            values.push(json!({ "port": shown.names.of(port), "layer": layer.layer, "rules": rules }));
        }
    }
    (table, values.into())
}

fn groups(shown: &Shown<'_>) -> (comfy_table::Table, Value) {
    let mut table =
        render::table(&["PORT", "LAYER", "GROUP", "DIRECTION", "FAMILY", "PRIORITY", "CONDITIONS", "RULES"]);
    let mut values = Vec::new();
    for port in &shown.ports {
        for layer in shown.switch.layers(port.spec.name).unwrap_or_default() {
            if shown.show.layer.as_ref().is_some_and(|wanted| !layer.layer.id.eq_ignore_ascii_case(wanted)) {
                continue;
            }
            for group in layer.groups {
                let group = group.group;
                table.add_row([
                    shown.names.of(port),
                    layer.layer.id.to_string(),
                    group.id.to_string(),
                    group.direction.to_string(),
                    group.family.to_string(),
                    group.priority.to_string(),
                    conditions(&group.conditions),
                    group.rules.len().to_string(),
                ]);
                values
                    .push(json!({ "port": shown.names.of(port), "layer": &*layer.layer.id, "group": group }));
            }
        }
    }
    (table, values.into())
}

fn rules(shown: &Shown<'_>) -> (comfy_table::Table, Value) {
    let mut table =
        render::table(&["PORT", "LAYER", "GROUP", "PRIORITY", "RULE", "CONDITIONS", "ACTION", "PACKETS"]);
    for port in &shown.ports {
        for layer in shown.switch.layers(port.spec.name).unwrap_or_default() {
            if shown.show.layer.as_ref().is_some_and(|wanted| !layer.layer.id.eq_ignore_ascii_case(wanted)) {
                continue;
            }
            for group in layer.groups {
                if shown
                    .show
                    .group
                    .as_ref()
                    .is_some_and(|wanted| !group.group.id.eq_ignore_ascii_case(wanted))
                {
                    continue;
                }
                for (rule, counters) in group.group.rules.iter().zip(&group.counters) {
                    table.add_row([
                        shown.names.of(port),
                        layer.layer.id.to_string(),
                        group.group.id.to_string(),
                        rule.priority.to_string(),
                        rule.id.to_string(),
                        conditions(&rule.conditions),
                        action(&rule.action),
                        counters.matched_packets.to_string(),
                    ]);
                }
            }
        }
    }
    (table, Value::Null)
}

fn flows(shown: &Shown<'_>) -> (comfy_table::Table, Value) {
    let mut table = render::table(&[
        "PORT",
        "FLOW",
        "DIRECTION",
        "PROTOCOL",
        "SOURCE",
        "DESTINATION",
        "RESULT",
        "SETS",
        "STATE",
        "TTL",
        "PACKETS",
    ]);
    let mut values = Vec::new();
    for port in &shown.ports {
        for flow in shown.switch.flows(port.spec.name, shown.now).unwrap_or_default() {
            table.add_row([
                shown.names.of(port),
                format!("{}{}", flow.pair, if flow.main { "" } else { " reply" }),
                flow.direction.to_string(),
                flow.protocol.to_string(),
                flow.source.to_string(),
                flow.destination.to_string(),
                result(shown, &flow),
                sets(&flow),
                flow.state.to_owned(),
                format!("{}s", flow.ttl_left),
                flow.packets.to_string(),
            ]);
            values.push(json!({ "port": shown.names.of(port), "flow": flow }));
        }
    }
    (table, values.into())
}

fn result(shown: &Shown<'_>, flow: &FlowDump) -> String {
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
    add("pop", set.pop.then(|| "VXLAN".to_owned()));
    add(
        "push",
        set.push.map(|outer| format!("VXLAN {} > {} vni {}", outer.source, outer.destination, outer.vni)),
    );
    parts.join(", ")
}

fn counters(shown: &Shown<'_>) -> (comfy_table::Table, Value) {
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
    let mut values = Vec::new();
    for port in &shown.ports {
        for direction in [Direction::Out, Direction::In] {
            let Some(counters) = shown.switch.counters(port.spec.name, direction) else { continue };
            let mut reasons = String::new();
            for reason in vfp::DropReason::ALL {
                let count = counters.dropped(reason);
                if count > 0 {
                    let _ = write!(reasons, "{reason} {count} ");
                }
            }
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
                reasons.trim_end().to_owned(),
            ]);
            values.push(json!({
                "port": shown.names.of(port), "direction": direction, "counters": counters,
            }));
        }
    }
    (table, values.into())
}

fn nat(shown: &Shown<'_>) -> (comfy_table::Table, Value) {
    let mut table = render::table(&["POOL", "PORT", "PROTOCOL", "RANGES", "PORTS", "IN USE", "EXHAUSTED"]);
    let mut pools = Vec::new();
    for pool in shown.switch.pools() {
        let Some(port) = shown.ports.iter().find(|port| port.spec.name == pool.owner) else { continue };
        let ranges: Vec<String> = pool
            .ranges
            .iter()
            .map(|range| format!("{} {}-{}", range.address, range.first, range.last))
            .collect();
        table.add_row([
            pool.key.clone(),
            shown.names.of(port),
            pool.protocol.to_string(),
            ranges.join(", "),
            pool.size.to_string(),
            pool.in_use.to_string(),
            pool.exhausted.to_string(),
        ]);
        pools.push(json!(pool));
    }
    let bindings = shown.switch.bindings();
    for binding in &bindings {
        table.add_row([
            binding.pool.clone(),
            String::new(),
            binding.protocol.to_string(),
            format!("{} → {} (to {})", binding.inner, binding.outer, binding.remote),
        ]);
    }
    (table, json!({ "pools": pools, "bindings": bindings }))
}

fn texts<T: ToString>(items: &[T]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

fn conditions(conditions: &Conditions) -> String {
    let mut parts = Vec::new();
    let mut add = |label: &str, list: Vec<String>| {
        if !list.is_empty() {
            parts.push(format!("{label} {}", list.join(",")));
        }
    };
    let addresses = |set: &AddressSet| -> Vec<String> {
        set.ranges()
            .iter()
            .map(|range| range.prefix().map_or_else(|| range.to_string(), |net| net.to_string()))
            .collect()
    };
    add("proto", texts(&conditions.protocols));
    add("from", addresses(&conditions.sources));
    add("from tag", conditions.source_tag.iter().cloned().collect());
    add("from port", texts(&conditions.source_ports));
    add("from MAC", texts(&conditions.source_macs));
    add("to", addresses(&conditions.destinations));
    add("to tag", conditions.destination_tag.iter().cloned().collect());
    add("to port", texts(&conditions.destination_ports));
    add("to MAC", texts(&conditions.destination_macs));
    add("VLAN", conditions.vlans.iter().map(|(first, last)| format!("{first}-{last}")).collect());
    add("tenant", conditions.tenant.iter().map(ToString::to_string).collect());
    if parts.is_empty() { "any".to_owned() } else { parts.join(" ") }
}

fn action(action: &Action) -> String {
    let word = action.word();
    match action {
        Action::LbNat(lb) => {
            let dips: Vec<String> = lb
                .dips
                .iter()
                .map(|dip| match dip.port {
                    Some(port) => format!("{}:{port}", dip.address),
                    None => dip.address.to_string(),
                })
                .collect();
            let source = lb.source.as_ref().map(|_| " with SNAT").unwrap_or_default();
            format!("{word} {}{source}", dips.join(","))
        }
        Action::RouteEncap(encap) => {
            let to: Vec<String> =
                encap.destinations.iter().map(|to| format!("{} vni {}", to.pa, to.vni)).collect();
            format!("{word} {}", to.join(","))
        }
        Action::DynNat(nat) => format!("{word} {}", nat.pool),
        _ => word.to_owned(),
    }
}
