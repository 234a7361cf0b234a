//! NAT pools, their ranges and bindings, and tags. No public text of these verbs exists; the form is this project's
//! own.

use std::fmt::Write as _;

use uuid::Uuid;
use vfp::Switch;
use vfp::dump::PoolDump;

use super::{guid, heading};
use crate::Command;

fn chosen(switch: &Switch, port: Option<Uuid>, pool: Option<&str>) -> Vec<PoolDump> {
    let mut pools = switch.pools();
    pools.retain(|found| {
        port.is_none_or(|port| found.owner == port)
            && pool.is_none_or(|name| found.key.eq_ignore_ascii_case(name))
    });
    pools
}

/// `list-nat-pool`.
pub(crate) fn pools(switch: &Switch, port: Option<Uuid>) -> String {
    let mut out = heading();
    for pool in chosen(switch, port, None) {
        let _ = writeln!(out, "NAT POOL : {}", pool.key);
        let _ = writeln!(out, "    Friendly name : {}", pool.name);
        let _ = writeln!(out, "    Protocol : {}", pool.protocol);
        let _ = writeln!(out, "    Port : {}", guid(pool.owner));
        let _ = writeln!(out, "    Ports : {}", pool.size);
        let _ = writeln!(out, "    In use : {}", pool.in_use);
        let _ = writeln!(out, "    Exhausted : {}", pool.exhausted);
        out.push('\n');
    }
    out
}

/// `list-nat-range`.
pub(crate) fn ranges(switch: &Switch, port: Option<Uuid>, command: &Command) -> String {
    let mut out = heading();
    let bindings = switch.bindings();
    for pool in chosen(switch, port, command.pool.as_deref()) {
        for range in &pool.ranges {
            let used = bindings.iter().filter(|binding| {
                binding.pool == pool.key
                    && binding.outer.ip() == range.address
                    && (range.first..=range.last).contains(&binding.outer.port())
            });
            let _ = writeln!(out, "NAT RANGE : {} {}-{}", range.address, range.first, range.last);
            let _ = writeln!(out, "    Pool : {}", pool.key);
            let _ = writeln!(out, "    Reuse count : {}", range.reuse);
            let _ = writeln!(out, "    In use : {}", used.count());
            out.push('\n');
        }
    }
    out
}

/// `list-nat-port-binding`.
pub(crate) fn bindings(switch: &Switch, port: Option<Uuid>, command: &Command) -> String {
    let mut out = heading();
    let pools = chosen(switch, port, command.pool.as_deref());
    for binding in switch.bindings() {
        if !pools.iter().any(|pool| pool.key == binding.pool) {
            continue;
        }
        let _ = writeln!(out, "BINDING : {} -> {}", binding.inner, binding.outer);
        let _ = writeln!(out, "    Pool : {}", binding.pool);
        let _ = writeln!(out, "    Protocol : {}", binding.protocol);
        let _ = writeln!(out, "    Remote : {}", binding.remote);
        out.push('\n');
    }
    out
}

/// `list-tag`.
pub(crate) fn tags(switch: &Switch) -> String {
    let mut out = heading();
    for tag in switch.tags() {
        let _ = writeln!(out, "TAG : {}", tag.id);
        let _ = writeln!(out, "    Friendly name : {}", tag.name);
        for range in tag.addresses.ranges() {
            let _ = writeln!(out, "    {range}");
        }
        out.push('\n');
    }
    out
}
