//! Ports: `list-vmswitch-port` and `get-port-state`.

use std::fmt::Write as _;

use uuid::Uuid;
use vfp::Switch;
use vfp::model::{Direction, PortKind};

use super::{guid, heading};

/// The blocks of all ports.
pub(crate) fn list(switch: &Switch) -> String {
    let mut out = heading();
    let settings = switch.settings();
    for port in switch.ports() {
        let spec = &port.spec;
        let mut line = |label: &str, value: &str| {
            let _ = writeln!(out, "{label:<22}: {value}");
        };
        line("Port name", &guid(spec.name));
        line("Port Friendly name", &spec.friendly_name);
        line("Switch name", &guid(settings.name));
        line("Switch Friendly name", &settings.friendly_name);
        line("PortId", &port.id.to_string());
        line("VMQ Usage", "0");
        line("SR-IOV Usage", "0");
        let kind = match spec.kind {
            PortKind::External => "External",
            PortKind::Host => "Internal",
            PortKind::Endpoint => "Synthetic",
        };
        line("Port type", kind);
        out.push_str("Port is Initialized.\nMAC Learning is Disabled.\n");
        let mut line = |label: &str, value: &str| {
            let _ = writeln!(out, "{label:<22}: {value}");
        };
        line("NIC name", &guid(spec.nic));
        line("NIC Friendly name", &spec.nic_name);
        line("MTU", &spec.mtu.to_string());
        line("MAC address", &spec.mac.to_string());
        line("VM name", "");
        line("VM ID", "");
        out.push_str("NIC is Connected.\n");
        counters(switch, spec.name, &mut out);
        out.push('\n');
    }
    out
}

fn counters(switch: &Switch, name: Uuid, out: &mut String) {
    let (Some(sent), Some(received)) =
        (switch.counters(name, Direction::Out), switch.counters(name, Direction::In))
    else {
        return;
    };
    let mut line = |label: &str, value: u64| {
        let _ = writeln!(out, "{label:<22}: {value}");
    };
    // The names are from the switch's point of view of the adapter: what it sends is ingress to the switch.
    line("Bytes Sent", received.bytes);
    line("Bytes Received", sent.bytes);
    line("Ingress packet drops", sent.dropped_total());
    line("Egress packet drops", received.dropped_total());
    line("Ingress VFP Drops", sent.dropped_total());
    line("Egress VFP Drops", received.dropped_total());
    for (side, counters) in [("Ingress", sent), ("Egress", received)] {
        for reason in vfp::DropReason::ALL {
            let count = counters.dropped(reason);
            if count > 0 {
                let _ = writeln!(out, "{side} packet drops : {reason} : {count}");
            }
        }
    }
}

/// The state of one port.
pub(crate) fn state(switch: &Switch, name: Uuid) -> String {
    let enabled = switch.ports().into_iter().any(|port| port.spec.name == name && port.spec.enabled);
    let word = |value: bool| if value { "TRUE" } else { "FALSE" };
    let mut out = String::new();
    for (label, value) in [
        ("Enabled", enabled),
        ("Blocked", !enabled),
        ("BlockedOnRestore", false),
        ("BlockedLayerCreation", false),
        ("Preserving Vlan", false),
        ("VM Context Set", false),
    ] {
        let _ = writeln!(out, "{label} : {}", word(value));
    }
    out.push('\n');
    out
}
