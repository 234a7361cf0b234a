//! Counters of ports: `get-port-counter` and `get-port-flow-stats`. OUT comes first.

use std::fmt::Write as _;

use uuid::Uuid;
use vfp::model::{Direction, FlowClass};
use vfp::{DropReason, Switch};

const BOTH: [Direction; 2] = [Direction::Out, Direction::In];

/// `get-port-counter`.
pub(crate) fn port(switch: &Switch, name: Uuid) -> String {
    let mut out = String::new();
    for direction in BOTH {
        let Some(counters) = switch.counters(name, direction) else { continue };
        let _ = writeln!(out, "Direction - {direction}");
        let lines = [
            ("Total packets", counters.packets),
            ("Total bytes", counters.bytes),
            ("SYN packets", counters.syn),
            ("SYN-ACK packets", counters.syn_ack),
            ("FIN packets", counters.fin),
            ("RST packets", counters.rst),
            ("Dropped packets", counters.dropped_total()),
            ("Dropped ACL packets", counters.dropped(DropReason::Acl)),
            ("TCP Connections Verified", counters.verified),
            ("TCP Connections Timed Out", counters.timed_out),
            ("TCP Connections Reset", counters.reset),
            ("TCP Connections Reset by SYN", counters.reset_by_syn),
            ("TCP Connections Reset by Injected Reset", counters.reset_injected),
            ("TCP Connections Closed by FIN", counters.closed_by_fin),
            ("TCP Half Open Timeouts", counters.half_open_timeouts),
            ("TCP Connections Expired to Time Wait", counters.expired_to_time_wait),
            ("Slow path packets", counters.slow),
            ("Resimulated flows", counters.resimulated),
        ];
        for (label, value) in lines {
            let _ = writeln!(out, "    {label} : {value}");
        }
        for reason in DropReason::ALL {
            let count = counters.dropped(reason);
            if count > 0 && reason != DropReason::Acl {
                let _ = writeln!(out, "    Dropped {reason} packets : {count}");
            }
        }
        out.push('\n');
    }
    out
}

/// `get-port-flow-stats`.
pub(crate) fn flows(switch: &Switch, name: Uuid) -> String {
    let mut out = String::new();
    for direction in BOTH {
        let Some(classes) = switch.flow_counters(name, direction) else { continue };
        let _ = writeln!(out, "Direction - {direction}");
        for (class, counters) in FlowClass::ALL.into_iter().zip(classes) {
            let word = match class {
                FlowClass::TotalEntry => "Total Entry",
                FlowClass::HalfOpen => "Half Open Flow",
                FlowClass::Total => "Total Flow",
                FlowClass::Tcp => "TCP Flow",
                FlowClass::Udp => "UDP Flow",
                FlowClass::Other => "Other Flow",
            };
            let _ = writeln!(out, "    [{word}] count: {}", counters.count);
            let _ = writeln!(out, "    [{word}] limit: {}", counters.limit);
            let _ = writeln!(out, "    [{word}] maximum: {}", counters.maximum);
            let _ = writeln!(out, "    [{word}] created: {}", counters.created);
        }
        out.push('\n');
    }
    out
}
