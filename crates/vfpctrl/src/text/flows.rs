//! Unified flows. No public text of this verb exists; the form is this project's own.

use std::fmt::Write as _;
use std::time::Duration;

use uuid::Uuid;
use vfp::Switch;
use vfp::dump::{FlowDump, FlowResult};

use super::{guid, heading};

/// `list-unified-flow`.
pub(crate) fn list(switch: &Switch, port: Uuid, now: Duration) -> String {
    let mut out = heading();
    for flow in switch.flows(port, now).unwrap_or_default() {
        one(&flow, &mut out);
        out.push('\n');
    }
    out
}

fn one(flow: &FlowDump, out: &mut String) {
    let side = if flow.main { "main" } else { "reply" };
    let _ = writeln!(out, "UNIFIED FLOW : {} {side}", flow.pair);
    let _ = writeln!(out, "    Direction : {}", flow.direction);
    let _ = writeln!(out, "    FlowId : {{ {}, {}, {} }}", flow.protocol, flow.source, flow.destination);
    let result = match flow.result {
        FlowResult::Forward(Some(port)) => format!("Forward {}", guid(port)),
        FlowResult::Forward(None) => "Forward".to_owned(),
        FlowResult::Drop(reason) => format!("Drop {reason}"),
        FlowResult::Hairpin => "Hairpin".to_owned(),
        FlowResult::Unknown => "No packet yet".to_owned(),
    };
    let _ = writeln!(out, "    Result : {result}");
    let set = &flow.transposition;
    let mut fields = Vec::new();
    let mut field = |label: &str, value: Option<String>| {
        if let Some(value) = value {
            fields.push(format!("{label}={value}"));
        }
    };
    field("SrcMac", set.source_mac.map(|mac| mac.to_string()));
    field("DstMac", set.destination_mac.map(|mac| mac.to_string()));
    field("Src", set.source.map(|end| end.to_string()));
    field("Dst", set.destination.map(|end| end.to_string()));
    field("Vlan", set.vlan.map(|vlan| vlan.to_string()));
    field("Pop", set.pop.then(|| "outer".to_owned()));
    field(
        "Push",
        set.push.map(|outer| format!("VXLAN({} > {} vni {})", outer.source, outer.destination, outer.vni)),
    );
    field("Ttl", set.decrement_ttl.then(|| "-1".to_owned()));
    let fields = if fields.is_empty() { "<none>".to_owned() } else { fields.join(", ") };
    let _ = writeln!(out, "    Transposition : {fields}");
    let _ = writeln!(out, "    State : {}", flow.state);
    let stale = if flow.stale { " (stale)" } else { "" };
    let _ = writeln!(out, "    Generation : {}{stale}", flow.generation);
    let _ = writeln!(out, "    TTL left : {}", flow.ttl_left);
    let _ = writeln!(out, "    Packets : {}", flow.packets);
    let _ = writeln!(out, "    Bytes : {}", flow.bytes);
}
